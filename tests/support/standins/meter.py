"""A machine of made-up power as a command that prints watts: what its CPUs take at the rates that
are set below a folder, for as many as `profile --power` keeps busy, with a drift and some noise.

Usage: meter.py ROOT, where ROOT/truth.json has `board`, `drift` (watts a second), `noise` (a part),
and by CPU `policy`, `idle` and `busy`, both by rate in kHz ("0": whatever it is).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def busy_cores(root: Path) -> set[int]:
    """The CPUs on which a measurement below this folder computes."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            if "flowc-busy" not in words:
                continue
            core, parent = words[-4], words[-3]
            if str(root) in (Path("/proc") / parent / "cmdline").read_text():
                found.add(int(core))
        except (OSError, ValueError):
            continue  # it has ended
    return found


def watts(root: Path) -> float:
    """What the machine takes now."""
    truth = json.loads((root / "truth.json").read_text())
    now = time.monotonic()
    busy = busy_cores(root)
    total = truth["board"] + truth["drift"] * (now % 1000)
    for core, cpu in truth["cpus"].items():
        rate = "0"
        if cpu["policy"] is not None:
            policy = root / f"devices/system/cpu/cpufreq/policy{cpu['policy']}"
            rate = (policy / "scaling_max_freq").read_text().strip()
        total += cpu["idle"][rate] + (cpu["busy"][rate] if int(core) in busy else 0)
    return float(total * (1 + truth["noise"] * ((now * 7919) % 2 - 1)))


if __name__ == "__main__":
    print(watts(Path(sys.argv[1])))
