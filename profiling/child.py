"""Runs a build and writes how long each firing took: a process of its own, because it runs other people's code."""

from __future__ import annotations

import faulthandler
import importlib
import importlib.util
import json
import os
import sys
import threading
import time
from pathlib import Path

#: Seconds that the first frame may take.
LONGEST_FRAME = 30.0


class _Times:
    """Stands in for the tracer: keeps durations by task."""

    def __init__(self) -> None:
        self.samples: dict[str, list[int]] = {}

    def firing(self, processor: str, task: str, firing: int, group: int, start: int, end: int) -> None:
        self.samples.setdefault(task, []).append((end - start) // group)

    def fill(self, channel: str, tokens: int, time: int) -> None:
        pass


def main(directory: str, seconds: str, output: str) -> int:
    """Run for about `seconds`; the output gets the samples, or the failure in words."""
    faulthandler.enable()
    sys.stdout = sys.stderr  # what tasks print is not ours
    spec = importlib.util.spec_from_file_location("measured_program", os.path.join(directory, "main.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    runtime = importlib.import_module("runtime.graph")  # the copy in the build, found by its main.py
    program = module.program()
    times = _Times()
    program.tracer = times

    def stop_when_seen() -> None:
        """After the time is over, but not before every app has finished a frame, as long as that is bearable."""
        wanted = float(seconds)
        time.sleep(wanted)
        give_up = time.monotonic() + max(LONGEST_FRAME, 10 * wanted)
        while waiting := [a.name for a in program.apps if a.frames == 0 and a.limit > 0]:
            if time.monotonic() > give_up:
                said = f"no frame of {waiting[0]} was finished; {program.who_waits()}"
                program.fail(runtime.Failure("", "", None, said))
                return
            time.sleep(0.05)
        program.interrupts += 1

    threading.Thread(target=stop_when_seen, daemon=True).start()
    good = program.run(full_speed=True, strict=True, drain=float("inf"))
    document = {"samples": times.samples} if good else {"failure": f"{program.failure.details}{program.failure}"}
    Path(output).write_text(json.dumps(document))
    return 0


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)
