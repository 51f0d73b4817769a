"""What a generated program runs on: numpy, one inference library, and threads. Copied into every
build.

Works on Python 3.8 and later, without flowc. `main.py` imports what it needs from here.
"""

import os
from typing import TYPE_CHECKING

# One worker per processor: libraries that start threads of their own would fight with the workers
# for the cores.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# ONNX Runtime 1.32 gathers for its makers what sessions do, in threads that a forked process waits
# for at its end.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from .adapt import Back as Back
    from .adapt import Cut as Cut
    from .adapt import Front as Front
    from .adapt import Variant as Variant
    from .age import Age as Age
    from .bands import Bands as Bands
    from .channel import Channel as Channel
    from .code import C as C
    from .code import Code as Code
    from .code import Network as Network
    from .code import Python as Python
    from .command import main as main
    from .control import Control as Control
    from .control import Event as Event
    from .cuda import CudaError as CudaError
    from .cuda import Memory as Memory
    from .ends import Inlet as Inlet
    from .ends import Outlet as Outlet
    from .engines import OnnxCuda as OnnxCuda
    from .engines import TensorRT as TensorRT
    from .gpu import open_cuda as open_cuda
    from .graph import App as App
    from .graph import Fire as Fire
    from .graph import Task as Task
    from .kernels import Kernels as Kernels
    from .kernels import Launch as Launch
    from .link import Dropping as Dropping
    from .link import Latest as Latest
    from .link import Link as Link
    from .link import Put as Put
    from .link import Take as Take
    from .process import Process as Process
    from .program import Program as Program
    from .remote_channel import Forward as Forward
    from .resample import Last as Last
    from .resample import Repeat as Repeat
    from .scheduling import Background as Background
    from .scheduling import FixedPriority as FixedPriority
    from .scheduling import Server as Server
    from .segments import Segments as Segments
    from .select import Select as Select
    from .tokens import Port as Port
    from .tokens import TaskError as TaskError
    from .transport import Transport as Transport

_NAMES = {
    "adapt": ("Back", "Cut", "Front", "Variant"),
    "age": ("Age",),
    "bands": ("Bands",),
    "channel": ("Channel",),
    "code": ("C", "Code", "Network", "Python"),
    "command": ("main",),
    "control": ("Control", "Event"),
    "cuda": ("CudaError", "Memory"),
    "ends": ("Inlet", "Outlet"),
    "engines": ("OnnxCuda", "TensorRT"),
    "gpu": ("open_cuda",),
    "graph": ("App", "Fire", "Task"),
    "kernels": ("Kernels", "Launch"),
    "link": ("Dropping", "Latest", "Link", "Put", "Take"),
    "process": ("Process",),
    "program": ("Program",),
    "remote_channel": ("Forward",),
    "resample": ("Last", "Repeat"),
    "scheduling": ("Background", "FixedPriority", "Server"),
    "segments": ("Segments",),
    "select": ("Select",),
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
