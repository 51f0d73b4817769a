"""The machine flowc runs on: the built-in platform `host`."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from importlib import metadata
from pathlib import Path

from ..model.platform import Platform, Pool


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


def memory_bytes() -> int:
    """Physical memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@cache
def version_of(package: str) -> str | None:
    """Installed version of a Python package, without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def processor_name() -> str:
    """The CPU in words."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    for key in ("model name", "Model", "Hardware"):
        for line in text.splitlines():
            if line.startswith(key):
                return line.partition(":")[2].strip()
    return platform.machine()


def host_platform() -> Platform:
    """`platform host`: this machine's cores under static orders."""
    pool = Pool("cpu", "cpu", cores(), True, "static_order", memory_bytes=memory_bytes())
    return Platform("host", (pool,), (), f"This machine: {description()}", None)


def description() -> str:
    """One line that tells machines apart: what a profile was measured on."""
    runtime = version_of("onnxruntime") or version_of("onnxruntime-gpu") or "none"
    return f"{cores()} x {processor_name()} ({platform.machine()}), ONNX Runtime {runtime}"


def host_hash() -> str:
    """Changes when a stored profile no longer speaks for this machine."""
    return hashlib.sha256(description().encode()).hexdigest()[:16]
