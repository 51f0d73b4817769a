"""Stand-ins for a GPU and for TensorRT, so that programs for them can be tested where there is
neither.

`cuda.StandIn` is the face of `runtime/cuda.py` on the CPU, late on purpose and suspicious;
`tensorrt.module` makes a module `tensorrt` of a chosen version on top of it; `run.py` starts a
generated program with both in place.
"""
