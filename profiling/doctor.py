"""What this machine has, and what to install for more."""

from __future__ import annotations

import ctypes.util
import os
import platform
import shutil
import sys
from dataclasses import dataclass

from ..machines.whoami import cores, memory_bytes, processor_name, version_of


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
    supported = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
    system = f"{platform.system()} {platform.release()} on {platform.machine()}"
    compiler = shutil.which(os.environ.get("CC", "cc").split()[0]) or ""
    runtime = version_of("onnxruntime") or version_of("onnxruntime-gpu") or ""
    gpu = os.path.exists("/dev/nvidia0") or os.path.exists("/dev/nvhost-gpu")
    nvcc = shutil.which("nvcc") or ""
    tensorrt = version_of("tensorrt") or ctypes.util.find_library("nvinfer") or ""
    return (
        Finding(
            "system", system if supported else "", "running flowc", "use Linux on x86-64 or aarch64"
        ),
        Finding("python", platform.python_version(), "running flowc", ""),
        Finding("cores", f"{cores()} x {processor_name()}", "", ""),
        Finding("memory", f"{memory_bytes() / 2**30:.1f} GiB", "", ""),
        Finding("c compiler", compiler, "tasks written in C", "apt install gcc, or set CC"),
        Finding(
            "matplotlib", version_of("matplotlib") or "", "flowc show", "pip install 'flowc[plots]'"
        ),
        Finding(
            "ortools",
            version_of("ortools") or "",
            "flowc map with deadlines",
            "pip install 'flowc[search]'",
        ),
        Finding(
            "deap", version_of("deap") or "", "flowc map --search ga", "pip install 'flowc[search]'"
        ),
        Finding(
            "pyzmq",
            version_of("pyzmq") or "",
            "programs on several machines",
            "pip install 'flowc[machines]'",
        ),
        Finding("onnxruntime", runtime, "running networks", "pip install onnxruntime"),
        Finding(
            "nvidia gpu",
            "present" if gpu else "",
            "programs for a GPU",
            "a machine with an NVIDIA GPU and its driver",
        ),
        Finding(
            "cuda",
            nvcc,
            "compiling CUDA tasks",
            "NVIDIA's CUDA toolkit (part of JetPack on a Jetson)",
        ),
        Finding(
            "cuda python",
            version_of("cuda-bindings") or version_of("cuda-python") or version_of("pycuda") or "",
            "running programs for a GPU",
            "pip install cuda-python, or pycuda",
        ),
        Finding(
            "nvrtc",
            version_of("nvidia-cuda-nvrtc")
            or version_of("nvidia-cuda-nvrtc-cu12")
            or ctypes.util.find_library("nvrtc")
            or "",
            "checking CUDA tasks when a program is built",
            "pip install 'flowc[cuda]'",
        ),
        Finding(
            "tensorrt",
            tensorrt,
            "networks on GPU and DLA",
            "NVIDIA's TensorRT (part of JetPack on a Jetson)",
        ),
    )
