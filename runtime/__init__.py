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
    from .adapt import Back, Cut, Front, Variant
    from .bands import Bands
    from .channel import Channel
    from .code import C, Code, Network, Python
    from .command import main
    from .control import Control, Event
    from .crossing import Forward
    from .cuda import CudaError, Memory
    from .ends import Inlet, Outlet
    from .engines import OnnxCuda, TensorRT
    from .gpu import open_cuda
    from .graph import App, Fire, Task
    from .kernels import Kernels, Launch
    from .link import Dropping, Latest, Link, Put, Take
    from .process import Process
    from .program import Program
    from .resample import Last, Repeat
    from .segments import Segments
    from .select import Select
    from .tokens import Port, TaskError
    from .wire import Mesh

#: The module of each name: a program imports what it uses, and carries no more.
FACES = {
    "Mesh": "wire",
    "Link": "link",
    "Event": "control",
    "Control": "control",
    "App": "graph",
    "Back": "adapt",
    "Bands": "bands",
    "C": "code",
    "Channel": "channel",
    "Code": "code",
    "CudaError": "cuda",
    "Cut": "adapt",
    "Dropping": "link",
    "Fire": "graph",
    "Forward": "crossing",
    "Front": "adapt",
    "Inlet": "ends",
    "Kernels": "kernels",
    "Last": "resample",
    "Latest": "link",
    "Launch": "kernels",
    "Memory": "cuda",
    "Network": "code",
    "OnnxCuda": "engines",
    "Outlet": "ends",
    "Port": "tokens",
    "Process": "process",
    "Program": "program",
    "Put": "link",
    "Python": "code",
    "Repeat": "resample",
    "Segments": "segments",
    "Select": "select",
    "Take": "link",
    "Task": "graph",
    "TaskError": "tokens",
    "TensorRT": "engines",
    "Variant": "adapt",
    "main": "command",
    "open_cuda": "gpu",
}

__all__ = [
    "Mesh",
    "Link",
    "Event",
    "Control",
    "App",
    "Back",
    "Bands",
    "C",
    "Channel",
    "Code",
    "CudaError",
    "Cut",
    "Dropping",
    "Fire",
    "Forward",
    "Front",
    "Inlet",
    "Kernels",
    "Last",
    "Latest",
    "Launch",
    "Memory",
    "Network",
    "OnnxCuda",
    "Outlet",
    "Port",
    "Process",
    "Program",
    "Put",
    "Python",
    "Repeat",
    "Segments",
    "Select",
    "Take",
    "Task",
    "TaskError",
    "TensorRT",
    "Variant",
    "main",
    "open_cuda",
]


def __getattr__(name: str) -> object:
    if name not in FACES:
        raise AttributeError("module `%s` has no attribute `%s`" % (__name__, name))
    from importlib import import_module

    return getattr(import_module("." + FACES[name], __name__), name)
