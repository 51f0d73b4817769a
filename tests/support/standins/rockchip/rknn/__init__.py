"""A stand-in for rknn-toolkit2, with what programs of flowc ask of it; it computes with ONNX
Runtime."""
