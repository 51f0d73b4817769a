"""A stand-in for rknn-toolkit-lite2, the part of RKNN on boards."""
