"""Where and when a program runs, and who built it: what a report says of its own origin.

In: the build, and when the program was started. Out: words, each None where it is unknown.
"""

from __future__ import annotations

import json
import os
import platform
from time import gmtime, perf_counter_ns, strftime, time_ns
from typing import Any, Dict, Optional

#: Where a build says what it is.
MANIFEST = ".flowc-manifest.json"


def manifest_of(home: str) -> Dict[str, Any]:
    """What the build in a directory says of itself; nothing where it says nothing."""
    try:
        with open(os.path.join(home, MANIFEST)) as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def where(home: str, started: int) -> Dict[str, Optional[str]]:
    """The machine by its name and its processor, its kernel, the version of Python, that of flowc
    which has built the program, and the date (UTC, ISO 8601) of a start in ns of perf_counter_ns.
    """
    seconds = (time_ns() - (perf_counter_ns() - started)) // 10**9
    system = os.uname()
    return {
        "machine": system.nodename,
        "processor": "%s (%s)" % (_processor(), system.machine),
        "kernel": "%s %s" % (system.sysname, system.release),
        "python": platform.python_version(),
        "flowc": manifest_of(home).get("flowc"),
        "started": strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds)),
    }


def _processor() -> str:
    """The CPU in words, as flowc's profiles have it."""
    try:
        with open("/proc/cpuinfo", errors="replace") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return "unknown"
    for key in ("model name", "Model", "Hardware"):
        for line in lines:
            if line.startswith(key):
                return line.partition(":")[2].strip()
    return "unknown"
