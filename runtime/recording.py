"""Runs one part of a program for a few frames and writes down what every firing read and made.

In: the directory of the part, as the current one, a file to write and the number of frames:
`python3 -m runtime.recording FILE FRAMES`. Out: a zip of arrays with an index (`load`), from which
the harness of the whole program compares everything with the sequential reference.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any, Dict, List, Optional, Set

import numpy as np

from .ends import feed
from .harness import RecordedRun, build
from .lifecycle import execute, stand
from .streams import complain

#: What of a run is written down beside its arrays.
INDEX = "index"


def main(file: str, frames: str) -> int:
    """Run it; the exit status."""
    program = build(os.getcwd())
    feed(program)
    program.run.warn = complain
    seen = RecordedTokens()
    program.run.recorder = seen.record
    transport = program.run.transport
    if transport is None:
        complain("this program is no part of one for several machines")
        return 2
    reason = transport.unready()
    if reason:
        complain(reason)
        return 2
    good = execute(program, int(frames), full_speed=True, strict=True, watchdog=120.0)
    index = {
        "frames": {a.name: a.frames for a in program.apps if a.name not in transport.passed},
        "least_free": {c.name: c.least_free for c in program.channels},
        "inputs": seen.inputs,
        "outputs": seen.outputs,
        "skipped": {name: sorted(firings) for name, firings in seen.skipped.items()},
    }
    if good:
        stored: Dict[str, Any] = {"a%d" % k: array for k, array in enumerate(seen.arrays)}
        np.savez(file, **dict(stored, **{INDEX: np.array(json.dumps(index))}))
    elif program.run.failure is not None:
        complain(str(program.run.failure), program.run.failure.details)
    return 0 if good else 1


class RecordedTokens:
    """What firings read and made: numbers of arrays, by task and firing."""

    def __init__(self) -> None:
        self.arrays: List[np.ndarray] = []
        self.inputs: Dict[str, Dict[int, List[Any]]] = {}
        self.outputs: Dict[str, Dict[int, List[Any]]] = {}
        self.skipped: Dict[str, Set[int]] = {}

    def record(
        self,
        task: Any,
        firing: int,
        group: int,
        inputs: Optional[List[Any]],
        outputs: Optional[List[Any]],
    ) -> None:
        """A recorder of the program."""
        if inputs is None or outputs is None:
            self.skipped.setdefault(task.name, set()).update(range(firing, firing + group))
            return
        for i in range(group):
            for kept, given in ((self.inputs, inputs), (self.outputs, outputs)):
                numbers = [self._number(a[i] if task.code.batch > 1 else a) for a in given]
                kept.setdefault(task.name, {})[firing + i] = numbers

    def _number(self, array: Any) -> Any:
        """Of a list, the number of each array."""
        if isinstance(array, list):
            return [self._number(one) for one in array]
        self.arrays.append(array)
        return len(self.arrays) - 1


class Recorded(RecordedRun):
    """A run of all parts as it was written down, for the harness: the program itself stands
    still."""

    def __init__(self, home: str, folder: str) -> None:
        self.open(home)
        self.good = True
        stays: List[Dict[str, Any]] = []
        frames: Dict[str, int] = {}
        least: Dict[str, int] = {}
        for name in sorted(os.listdir(folder)):
            with np.load(os.path.join(folder, name)) as stored:
                index = json.loads(str(stored[INDEX]))
                stays += index.get("stays", ())
                for kept, wanted in (
                    (self.inputs, index["inputs"]),
                    (self.outputs, index["outputs"]),
                ):
                    for task, firings in wanted.items():
                        kept[task] = {
                            int(f): [_stored(stored, k) for k in numbers]
                            for f, numbers in firings.items()
                        }
                self.skipped.update(
                    {task: set(firings) for task, firings in index["skipped"].items()}
                )
                for app, count in index["frames"].items():
                    frames[app] = min(count, frames.get(app, count))
                for channel, room in index["least_free"].items():
                    least[channel] = min(room, least.get(channel, room))
        stand(self.program, frames, least)
        if stays:  # a build with states has it
            scenario = import_module(__package__ + ".scenario")
            self.stays = [scenario.Stay(s["state"], s["frames"]) for s in stays]


def _stored(arrays: Any, number: Any) -> Any:
    if isinstance(number, list):
        return [_stored(arrays, k) for k in number]
    return arrays["a%d" % number]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
