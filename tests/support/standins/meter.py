"""A machine of made-up power as a command that prints watts: what its CPUs take at the rates that
are set below a folder, for as many as `profile --power` keeps busy, and what takes the piece of a
network that `profile --energy` runs; with a drift and some noise.

Usage: meter.py ROOT, where ROOT/truth.json has `board`, `drift` (watts a second), `noise` (a part),
by CPU `policy`, `idle` and `busy`, both by rate in kHz ("0": whatever it is), and by piece `pieces`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path


def measurements(root: Path) -> Iterator[list[str]]:
    """The words of what a measurement below this folder has started."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if str(root) in (Path("/proc") / parent / "cmdline").read_text():
                yield words
        except (OSError, ValueError):
            continue  # it has ended


def watts(root: Path) -> float:
    """What the machine takes now."""
    truth = json.loads((root / "truth.json").read_text())
    now = time.monotonic()
    running = list(measurements(root))
    busy = {int(words[-4]) for words in running if "flowc-busy" in words}
    pieces = [Path(words[-2]).name for words in running if words[-3:-2] == ["run"]]
    total = truth["board"] + truth["drift"] * (now % 1000)
    for core, cpu in truth["cpus"].items():
        rate = "0"
        if cpu["policy"] is not None:
            policy = root / f"devices/system/cpu/cpufreq/policy{cpu['policy']}"
            rate = (policy / "scaling_max_freq").read_text().strip()
        total += cpu["idle"][rate] + (cpu["busy"][rate] if int(core) in busy else 0)
    total += sum(truth.get("pieces", {}).get(piece, 0) for piece in pieces)
    return float(total * (1 + truth["noise"] * ((now * 7919) % 2 - 1)))


if __name__ == "__main__":
    print(watts(Path(sys.argv[1])))
