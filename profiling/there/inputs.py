"""Runs a build for some frames and keeps what goes into some of its networks: a separate process,
because it runs the user's code."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .child import WATCHDOG, _loaded

#: Bytes that are kept at most of each task.
MOST_BYTES = 256 << 20


class _Kept:
    """The inputs of the first firings of some tasks."""

    def __init__(self, tasks: list[str], most: int) -> None:
        self._most = most
        self._room = dict.fromkeys(tasks, MOST_BYTES)
        self.firings: dict[str, list[list[Any]]] = {task: [] for task in tasks}

    def __call__(self, task: Any, firing: int, group: int, inputs: Any, outputs: Any) -> None:
        name, _ = task.known_as(firing)
        kept = self.firings.get(name)
        if kept is None or inputs is None:
            return
        for number in range(group):
            arrays = [a[number] if task.code.batch > 1 else a for a in inputs]
            size = sum(a.nbytes for a in arrays)
            if len(kept) < self._most and size <= self._room[name]:
                self._room[name] -= size
                kept.append([np.array(a) for a in arrays])


def main(directory: str, frames: str, most: str, output: str, tasks: str) -> int:
    """Run for at most `frames`; the output, an .npz, gets `TASK/FIRING/INPUT` of the first `most`
    firings of each of the `tasks`."""
    sys.stdout = sys.stderr  # tasks may print; that is not this program's output
    program = _loaded(directory).program()
    importlib.import_module("runtime.ends").feed(program)
    kept = _Kept(json.loads(tasks), int(most))
    program.run.recorder = kept
    execute = importlib.import_module("runtime.lifecycle").execute
    good = execute(program, int(frames), full_speed=True, strict=True, watchdog=WATCHDOG)
    if not good:
        print(f"{program.run.failure.details}{program.run.failure}", file=sys.stderr)
        return 1
    arrays = {}
    for task, firings in kept.firings.items():
        for number, inputs in enumerate(firings):
            for position, array in enumerate(inputs):
                arrays[f"{task}/{number}/{position}"] = array
    with Path(output).open("wb") as file:
        np.savez(file, **arrays)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
