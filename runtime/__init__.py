"""What a generated program runs on: numpy, one inference library, and threads. Copied into every
build.

Works on Python 3.8 and later, without flowc. `main.py` imports what it needs from here.
"""

import os

# One worker per processor: libraries that start threads of their own would fight with the workers
# for the cores.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# ONNX Runtime 1.32 gathers for its makers what sessions do, in threads that a forked process waits
# for at its end.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

_NAMES = {
    "adapt": ("Cut", "Stage", "Variant"),
    "adapt_on_device": ("StageOnDevice",),
    "age": ("Age", "Reaction"),
    "bands": ("Bands",),
    "channel": ("Channel",),
    "code": ("C", "Code", "Network", "Python"),
    "command": ("main",),
    "control": ("Control", "Event"),
    "counts": ("UpTo",),
    "cuda": ("CudaError", "Memory"),
    "ends": ("Inlet", "Outlet"),
    "engines": ("OnnxCuda", "TensorRT"),
    "gpu": ("open_cuda",),
    "graph": ("App", "Fire", "Task"),
    "kernels": ("Kernels", "Launch"),
    "link": ("Dropping", "Latest", "Link", "Put", "Take"),
    "ncnn": ("Ncnn",),
    "openvino": ("OpenVino", "OpenVinoNpu"),
    "process": ("Process",),
    "program": ("Program",),
    "qnn": ("Qnn",),
    "remote_channel": ("Forward",),
    "resample": ("Last", "Repeat"),
    "rknn": ("Rknn",),
    "scheduling": ("Background", "Bound", "FixedPriority", "OnStream", "Server"),
    "segments": ("Segments",),
    "select": ("Select",),
    "sizes": ("Sized", "SizedUpTo"),
    "stamps": ("Stamps",),
    "tokens": ("Port", "TaskError"),
    "transport": ("Transport",),
}
#: The module of each name: a program imports what it uses, and carries no more.
FACES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in FACES:
        raise AttributeError("module `%s` has no attribute `%s`" % (__name__, name))
    from importlib import import_module

    return getattr(import_module("." + FACES[name], __name__), name)
