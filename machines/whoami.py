"""The properties of this machine: cores, memory, libraries, temperatures.

It also runs on boards (`python3 -m flowc.machines.whoami` prints it as JSON), so it keeps to Python
3.8.
"""

from __future__ import annotations

import ctypes
import glob
import hashlib
import json
import os
import platform
import sys
from functools import lru_cache
from importlib import metadata
from typing import Any, Dict, List, Optional


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


def memory_bytes() -> int:
    """Physical memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@lru_cache(maxsize=None)
def version_of(package: str) -> Optional[str]:
    """Installed version of a Python package, without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@lru_cache(maxsize=None)
def processor_name() -> str:
    """The CPU in words."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return platform.machine()
    for key in ("model name", "Model", "Hardware"):
        for line in lines:
            if line.startswith(key):
                return line.partition(":")[2].strip()
    return platform.machine()


def description() -> str:
    """One line that identifies machines: where a profile was measured."""
    runtime = version_of("onnxruntime") or version_of("onnxruntime-gpu") or "none"
    return f"{cores()} x {processor_name()} ({platform.machine()}), ONNX Runtime {runtime}"


def host_hash() -> str:
    """A hash that changes when a stored profile no longer applies to this machine."""
    return hashlib.sha256(description().encode()).hexdigest()[:16]


def celsius() -> Optional[float]:
    """The highest temperature that the kernel reports; None if it reports none."""
    seen: List[float] = []
    for file in glob.glob("/sys/class/thermal/thermal_zone*/temp"):
        try:
            with open(file, encoding="ascii") as zone:
                seen.append(int(zone.read()) / 1000)
        except (OSError, ValueError):  # a zone that is switched off
            continue
    return max(seen) if seen else None


def device() -> Optional[str]:
    """The GPU that Python can use; None if there is none."""
    from ..runtime.cuda import CudaError
    from ..runtime.gpu import open_cuda

    try:
        return open_cuda().device
    except CudaError:
        return None


def has_gpu() -> bool:
    """Is there a GPU that Python can use?"""
    return device() is not None


def has_npu() -> bool:
    """Is there a driver of an NPU? Whether it is that of a program is found when it starts."""
    of_rockchip = glob.glob("/sys/class/devfreq/*.npu")
    return bool(of_rockchip) or os.path.isdir("/dev/accel") or os.path.exists("/dev/fastrpc-cdsp")


def _has_driver() -> bool:
    """Is CUDA's driver installed? Otherwise slow imports are not necessary."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def boot() -> str:
    """The identity of a machine's boot, different on each machine and after each start; empty if
    unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def document() -> Dict[str, Any]:
    """All properties, for another machine."""
    return {
        "cores": cores(),
        "memory_bytes": memory_bytes(),
        "description": description(),
        "host_hash": host_hash(),
        "python": platform.python_version(),
        "numpy": version_of("numpy"),
        "tensorrt": version_of("tensorrt"),
        "device": device() if _has_driver() else None,
        "boot": boot(),
        "celsius": celsius(),
    }


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(document()))
