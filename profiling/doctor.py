"""What this machine has, and what to install for more."""

from __future__ import annotations

import ctypes.util
import os
import platform
import shutil
import sys
from dataclasses import dataclass

from ..machines.whoami import cores, memory_bytes, processor_name, version_of
from ..networks.engines import ENGINES
from ..networks.npu import ENGINES as NPU_ENGINES


@dataclass(frozen=True, slots=True)
class Finding:
    """`found` is empty if the thing is missing; then `install` tells how to get it, for
    `purpose`."""

    name: str
    found: str
    purpose: str
    install: str


def examine() -> tuple[Finding, ...]:
    """Check what is installed; nothing is imported or started."""
    return (*_machine(), *_compilers_and_packages(), *_for_gpus())


def _machine() -> tuple[Finding, ...]:
    system = ""
    if sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64"):
        system = f"{platform.system()} {platform.release()} on {platform.machine()}"
    return (
        Finding("system", system, "running flowc", "use Linux on x86-64 or aarch64"),
        Finding("python", platform.python_version(), "running flowc", ""),
        Finding("cores", f"{cores()} x {processor_name()}", "", ""),
        Finding("memory", f"{memory_bytes() / 2**30:.1f} GiB", "", ""),
    )


def _compilers_and_packages() -> tuple[Finding, ...]:
    compiler = shutil.which(os.environ.get("CC", "cc").split()[0]) or ""
    search = "pip install 'flowc[search]'"
    of_npus = [e for e in NPU_ENGINES if e.name not in {engine.name for engine in ENGINES}]
    return (
        Finding("c compiler", compiler, "tasks written in C", "apt install gcc, or set CC"),
        Finding("matplotlib", _version("matplotlib"), "flowc show", "pip install 'flowc[plots]'"),
        Finding("ortools", _version("ortools"), "flowc map with deadlines", search),
        Finding("deap", _version("deap"), "flowc map --search paper:comprehensive-ga", search),
        Finding(
            "pyzmq",
            _version("pyzmq"),
            "programs on several machines",
            "pip install 'flowc[machines]'",
        ),
        *(Finding(e.name, e.version, e.purpose, e.install) for e in ENGINES),
        *(Finding(e.name, e.version, e.purpose, e.install) for e in of_npus),
    )


def _for_gpus() -> tuple[Finding, ...]:
    gpu = os.path.exists("/dev/nvidia0") or os.path.exists("/dev/nvhost-gpu")
    nvrtc = _version("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12") or _library("nvrtc")
    return (
        Finding(
            "nvidia gpu",
            "present" if gpu else "",
            "programs for a GPU",
            "a machine with an NVIDIA GPU and its driver",
        ),
        Finding(
            "cuda",
            shutil.which("nvcc") or "",
            "compiling CUDA tasks",
            "NVIDIA's CUDA toolkit (part of JetPack on a Jetson)",
        ),
        Finding(
            "cuda python",
            _version("cuda-bindings", "cuda-python", "pycuda"),
            "running programs for a GPU",
            "pip install cuda-python, or pycuda",
        ),
        Finding(
            "nvrtc",
            nvrtc,
            "checking CUDA tasks when a program is built",
            "pip install 'flowc[cuda]'",
        ),
        Finding(
            "tensorrt",
            _version("tensorrt") or _library("nvinfer"),
            "networks on GPU and DLA",
            "NVIDIA's TensorRT (part of JetPack on a Jetson)",
        ),
        Finding(
            "tensorrt for rtx",
            _version("tensorrt-rtx"),
            "asking NVIDIA's parser about networks for TensorRT, without a GPU",
            "pip install 'flowc[rtx]' (NVIDIA's licence)",
        ),
    )


def _version(*packages: str) -> str:
    """The version of the first package that is installed; empty if none is."""
    versions = (version_of(package) for package in packages)
    return next(filter(None, versions), "")


def _library(name: str) -> str:
    return ctypes.util.find_library(name) or ""
