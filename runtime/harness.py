"""The tests of a generated program: unittest, numpy and the inference library, nothing else.

Runs the program for a few frames while every firing is recorded, runs the sequential reference on
the same source data, and compares what reached each task.
"""

from __future__ import annotations

import os
import sys
import unittest
from importlib.machinery import SourceFileLoader
from math import prod
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from .ends import feed
from .graph import FOREVER, App, Task
from .lifecycle import execute
from .modules import made_by
from .program import Program
from .reference import Reference, every, load_deployment, merged
from .report import report
from .streams import complain
from .tokens import Missing

if TYPE_CHECKING:
    from .scenario import Stay

MOST_BYTES = 256 << 20
RTOL, ATOL = 1e-3, 1e-4


class RecordedRun:
    """One recorded run of a program: inputs and outputs of every firing, by task."""

    #: What was done in which state, one after another.
    stays: List[Stay]

    def __init__(self, home: str) -> None:
        self.open(home)
        self.frames = frames_of(self.deployment)
        self.program.run.warn = complain
        feed(self.program)
        control = self.program.control
        if control is not None:
            control.script = control.tour(self.frames)
            self.frames = FOREVER
        if os.environ.get("FLOWC_TWIN"):
            self.program.twin()
        self.program.run.recorder = self._record
        self.good = execute(self.program, self.frames, full_speed=True, strict=True, watchdog=120.0)
        if control is not None:
            self.stays = control.stays

    def open(self, home: str) -> None:
        """Build the program, of which nothing has been seen yet."""
        self.deployment = load_deployment(home)
        self.program = build(home)
        self.inputs: Dict[str, Dict[int, List[np.ndarray]]] = {}
        self.outputs: Dict[str, Dict[int, List[np.ndarray]]] = {}
        #: Tasks whose outputs are only near those of the reference.
        self.inexact = {
            name
            for task in self.program.tasks
            for name, code in task.codes()
            if not code.innermost.exact
        }
        #: Firings that have failed, or were left out since something was missing.
        self.skipped: Dict[str, Set[int]] = {}
        self.stays = []

    def apps(self, name: str) -> List[Tuple[Dict[str, Any], int]]:
        """An app as it is in each stay in a state that runs it, and how many frames it had."""
        running = {a.name: a for a in self.program.run.totals or self.program.apps}
        scenario = self.deployment.get("scenario")
        if scenario is None:
            return [(a, running[name].frames) for a in self.deployment["apps"] if a["name"] == name]
        states = {s["name"]: {a["name"]: a for a in s["apps"]} for s in scenario["states"]}
        return [
            (states[s.state][name], s.frames[name]) for s in self.stays if name in states[s.state]
        ]

    def _record(
        self,
        task: Task,
        firing: int,
        group: int,
        inputs: Optional[Sequence[np.ndarray]],
        outputs: Optional[Sequence[np.ndarray]],
    ) -> None:
        name, firing = task.known_as(firing)
        if inputs is None or outputs is None:
            self.skipped.setdefault(name, set()).update(range(firing, firing + group))
            return
        took = self.inputs.setdefault(name, {})
        gave = self.outputs.setdefault(name, {})
        if task.code.batch > 1:
            for i in range(group):
                made = [a[i] for a in outputs]
                if any(isinstance(token, Missing) for token in made):
                    self.skipped.setdefault(name, set()).add(firing + i)
                else:
                    took[firing + i], gave[firing + i] = [a[i] for a in inputs], made
        else:
            took[firing], gave[firing] = list(inputs), list(outputs)


def build(home: str) -> Program:
    """The program of a directory."""
    loader = SourceFileLoader("program_under_test", os.path.join(home, "main.py"))
    module = made_by(loader)
    loader.exec_module(module)
    return module.program()  # type: ignore[no-any-return]


def frames_of(deployment: Dict[str, Any]) -> int:
    """Enough frames to fill every stage, as few as needed to keep the recording small."""
    given = os.environ.get("FLOWC_TEST_FRAMES")
    if given:
        return int(given)
    size: int = 1
    for app in every(deployment, "apps"):
        for task in app["tasks"]:
            for port in task["inputs"] + task["outputs"]:
                token = prod(max(1, n) for n in port["shape"]) * np.dtype(port["dtype"]).itemsize
                size += (
                    token
                    * task["firings"]
                    * max(port["window"], sum(port["rates"]) // len(port["rates"]))
                )
    deepest: int = max(
        [e["stage"] for p in every(deployment, "processors") for e in p["order"]] or [0]
    )
    return max(deepest + 3, min(20, int(MOST_BYTES // size)))


_RUNS: Dict[str, RecordedRun] = {}


def _run(home: str) -> RecordedRun:
    """A run of the program, or one of its parts on several machines that was written down."""
    folder = os.environ.get("FLOWC_RECORDED")
    if folder is None:
        return RecordedRun(home)
    from importlib import import_module

    # a build in parts has it
    recorded: RecordedRun = import_module(__package__ + ".recording").Recorded(home, folder)
    return recorded


class Harness(unittest.TestCase):
    """Subclassed by each generated test with its `home` and `app`."""

    home = ""
    app = ""
    run_: RecordedRun
    reference: Reference
    document: Dict[str, Any]
    running: App
    firings: Dict[str, int]

    @classmethod
    def setUpClass(cls) -> None:
        if cls.home not in _RUNS:  # several apps of one program share the run
            _RUNS[cls.home] = _run(cls.home)
        cls.run_ = _RUNS[cls.home]
        stays = cls.run_.apps(cls.app)
        cls.document = merged([a for a, _ in stays])
        cls.running = next(
            a for a in cls.run_.program.run.totals or cls.run_.program.apps if a.name == cls.app
        )
        cls.firings = {t["name"]: 0 for t in cls.document["tasks"]}
        for app, frames in stays:
            for t in app["tasks"]:
                cls.firings[t["name"]] += t["firings"] * frames
        if cls.run_.good:
            cls.reference = Reference(cls.document, cls.home)
            cls.reference.run(stays, cls.run_.outputs, cls.run_.skipped)

    def setUp(self) -> None:
        if not self.run_.good:
            self.fail("the program failed: %s" % self.run_.program.run.failure)

    def test_frames_are_complete_and_in_order(self) -> None:
        if not self.running.frames and any(
            t["code"].get("end") == "take" for t in self.document["tasks"]
        ):
            self.skipTest("another app made too few tokens for a frame, or they were dropped")
        self.assertGreater(self.running.frames, 0, self._without_a_frame())
        for task in self.document["tasks"]:
            firings = list(self.run_.inputs.get(task["name"], {}))
            wanted = self.firings[task["name"]]
            there = sorted({*firings, *self.run_.skipped.get(task["name"], ())})
            self.assertEqual(there[:wanted], list(range(wanted)), "firings of %s" % task["name"])
            if not task["outputs"]:
                self.assertEqual(
                    firings, sorted(firings), "order of the firings of sink %s" % task["name"]
                )
        sinks = [t["name"] for t in self.document["tasks"] if not t["outputs"]]
        if self.reference.failed and not any(self.run_.inputs.get(name) for name in sinks):
            self.fail(self.running.without_results() or "all frames were skipped")

    def _without_a_frame(self) -> str:
        """Why no frame was finished, as far as one can tell."""
        fired = []
        for task in self.document["tasks"]:
            name, firings = task["name"], task["firings"]
            count = len(self.run_.inputs.get(name, {}))
            if not task["inputs"] and count < firings:
                fired.append("%s fired %d times of the %d of a frame" % (name, count, firings))
        told = ", ".join(fired) or "no source ended"
        return "no frame was finished: %s; the program ran in %s" % (told, os.getcwd())

    def test_every_input_equals_the_sequential_reference(self) -> None:
        loose = _tolerances(self.document, self.run_.inexact)
        compared = 0
        for task in self.document["tasks"]:
            name = task["name"]
            seen, expected = self.run_.inputs.get(name, {}), self.reference.expected[name]
            self.assertEqual(len(expected), self.firings[name], "reference firings of %s" % name)
            skipped = self.run_.skipped.get(name, set())
            alone = {f for f, arrays in enumerate(expected) if arrays is None} - skipped
            self.assertEqual(alone, set(), "skipped by the reference alone")
            for firing, arrays in enumerate(expected):
                failed = firing in skipped and firing in self.reference.failed.get(name, ())
                if arrays is None or failed:
                    continue
                compared += 1
                for port, mine, wanted in zip(task["inputs"], seen[firing], arrays):
                    place = "input %s of %s, firing %d" % (port["name"], name, firing)
                    within = loose.get((name, port["name"]), (0.0, 0.0))
                    self._compare_all(mine, wanted, within, place)
        told = self.app, compared, self.running.frames
        sys.stderr.write("\n%s: the inputs of %d firings are equal, of %d frames\n" % told)
        least = {t["name"]: t["code"].get("noise_db") for t in self.document["tasks"]}
        for name, noise in self.reference.noise.items():
            if noise.samples:
                sys.stderr.write("\n%s: %s, %g dB asked for\n" % (name, noise, least[name]))
                self.assertTrue(noise.within(least[name]), "%s: %s" % (name, noise))

    def _compare_all(self, mine: Any, wanted: Any, within: Tuple[float, float], place: str) -> None:
        """An array, or several of different shapes, as in `_compare`."""
        if not isinstance(wanted, list):
            self._compare(mine, wanted, within, place)
            return
        shapes = [[list(one.shape) for one in side] for side in (mine, wanted)]
        self.assertEqual(shapes[0], shapes[1], place)
        for one, other in zip(mine, wanted):
            self._compare(one, other, within, place)

    def _compare(self, mine: Any, wanted: Any, within: Tuple[float, float], place: str) -> None:
        """An array with that of the reference: `within` a relative and an absolute tolerance."""
        relative, absolute = within
        self.assertEqual((mine.dtype, mine.shape), (wanted.dtype, wanted.shape), place)
        if wanted.dtype == object:
            # between the sides of a moving cut: what they make is compared behind them
            return
        if absolute and (wanted.dtype.kind in "fc" or absolute > ATOL):
            if wanted.dtype.kind not in "fc":
                # whole numbers differ by steps, not by shares
                mine, wanted, relative = mine.astype(float), wanted.astype(float), 0.0
            np.testing.assert_allclose(mine, wanted, relative, absolute, err_msg=place)
        else:
            np.testing.assert_array_equal(mine, wanted, err_msg=place)
            if wanted.dtype.kind == "f":  # -0.0 is another number than 0.0, and NaN is NaN
                below, wanted_below = (np.signbit(a) & ~np.isnan(a) for a in (mine, wanted))
                np.testing.assert_array_equal(below, wanted_below, err_msg="the sign of " + place)

    def test_channels_keep_their_capacities(self) -> None:
        running: Dict[str, Set[int]] = {}
        between: Dict[Tuple[str, str], Set[int]] = {}
        for channel in self.run_.program.channels:
            running.setdefault(channel.name, set()).add(channel.capacity)
            between.setdefault((channel.source, channel.destination), set()).add(channel.capacity)
            self.assertGreaterEqual(channel.least_free, 0, "room on %s" % channel.name)
        fired = [entry.task for p in self.run_.program.processors for entry in p.order]
        # Alternatives of one place are behind a task with the name of the place.
        place = {name: t.name for t in fired for name, _ in t.codes() if name != t.name}
        for app, _ in self.run_.apps(self.app):
            for c in app["channels"]:
                there = running.get(c["name"], set())
                if c["source"] in place or c["destination"] in place:
                    source, destination = c["source"], c["destination"]
                    ends = place.get(source, source), place.get(destination, destination)
                    there = there | between.get(ends, set())
                self.assertIn(c["capacity"], there, "capacity of %s" % c["name"])

    def test_throughput_is_reported(self) -> None:
        measured = report(self.run_.program)["apps"][self.app]
        rate = "" if measured["fps"] is None else " at %s fps" % measured["fps"]
        sys.stderr.write("\n%s: %s frames%s\n" % (self.app, measured["frames"], rate))
        self.assertEqual(measured["frames"], self.running.frames)


def _tolerances(
    app: Dict[str, Any], inexact: Set[str]
) -> Dict[Tuple[str, str], Tuple[float, float]]:
    """How far (relative, absolute) input ports may be from the reference, because of the tasks
    before them.

    Inference differs in the last digits, and a kernel as much as its task says.
    """
    loose: Dict[str, Tuple[float, float]] = {}
    for task in app["tasks"]:
        if task["name"] in inexact and task["code"].get("noise_db") is None:
            tolerance = task["code"].get("tolerance")
            loose[task["name"]] = (RTOL, ATOL) if tolerance is None else (tolerance, tolerance)
    changed = True
    while changed:
        changed = False
        for c in app["channels"]:
            if c["source"] in loose:
                before = loose.get(c["destination"], (0.0, 0.0))
                most = max(before, loose[c["source"]], key=lambda pair: pair[1])
                changed |= most != before
                loose[c["destination"]] = most
    return {
        (c["destination"], c["destination_port"]): loose[c["source"]]
        for c in app["channels"]
        if c["source"] in loose
    }
