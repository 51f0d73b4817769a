"""Builds that do not measure, and running what was built."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from flowc import steps
from flowc.model.profile import Profile, ProfileEntry
from flowc.profiling.host import description, host_hash

ROOT = Path(__file__).resolve().parent.parent
Write = Callable[..., Path]
#: Seconds after which something hangs, however busy the machine is.
HANGS = 120


def store_profile(flow: Path, times_ns: dict[str, int] | None = None, platform: str = "host") -> None:
    """Put a made-up profile beside a text, so that building it measures nothing (default 1000 ns per firing)."""
    checked = steps.check(flow, platform=platform)
    assert checked.ok, [d.message for d in checked.diagnostics]
    entries = tuple(
        ProfileEntry("cpu", name, "", digest, host_hash(), 10, ns, 0, ns, ns)
        for name, digest in steps.content_hashes(checked).items()
        for ns in [(times_ns or {}).get(name, 1000)]
    )
    assert steps.save_profile(checked, Profile(checked.platform.name, description(), entries)) is None


def build(flow: Path, output: Path, times_ns: dict[str, int] | None = None, platform: str = "host") -> Path:
    """Build without measuring."""
    store_profile(flow, times_ns, platform)
    steps.build(flow, output, platform=platform)
    return output


def run(directory: Path, *arguments: str, timeout: float = HANGS) -> subprocess.CompletedProcess[str]:
    """Run a build from another directory than its own."""
    command = [sys.executable, str(directory / "main.py"), *arguments]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=timeout, check=False)


def harness(directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the harness of a build."""
    command = [sys.executable, "-m", "unittest", "discover", "-s", "tests"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=HANGS, check=False)
