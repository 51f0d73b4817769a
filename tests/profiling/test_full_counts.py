"""Times with as much as bounds count: full batches, full lists, largest tokens; and what is said
where a profile has less."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import flowc
import numpy as np
import pytest
from flowc.analysis.timing.response_time import worst_cases
from flowc.analysis.timing.runs import in_runs
from flowc.analysis.timing.system import (
    TimedChannel,
    TimedGroup,
    TimedPath,
    TimedProcessor,
    TimedSystem,
    TimedTask,
)
from flowc.driver.text.store import profile_path
from flowc.model.full_counts import run_sizes, worst_run_ns, worst_shares_ns
from flowc.model.profile import Profile, ProfileEntry, RunTime
from flowc.model.times import times_of
from flowc.profiling.there.child import _Times

from builds import Write
from models import N, save

TEXT = """
type V = float32[1, 8]
type Word = float32[up to 6]
task Find { out x: V rate up to 4   python "t.py:find"  wcet 1 ms }
network Net from "net.onnx" { in x: V from "x"   out y: V from "y"   batch 4 }
task Sum { in y: V rate up to 4   out word: Word   python "t.py:total" }
task Half { in word: Word   out part: Word   python "t.py:half" }
task Show { in part: Word   python "t.py:Show" }
app A { period 1 s   find: Find   net: Net   sum: Sum   half: Half   show: Show
    find -> net -> sum -> half -> show }
"""
CODE = """
import numpy as np
def find(): return [np.ones((1, 8), np.float32)]
def total(y): return np.ones(len(y), np.float32)
def half(word): return word[:3]
class Show:
    def __call__(self, part): pass
"""


@pytest.fixture
def flow(write: Write) -> Path:
    path = write(TEXT, t_py=CODE)
    one = {"k": np.eye(8, dtype=np.float32)}
    save(path.with_name("net.onnx"), [N("MatMul", ["x", "k"], ["y"])], {"x": ["n", 8]}, one, "y")
    return path


def test_what_fires_with_less_is_also_fired_with_as_much(flow: Path) -> None:
    """Of a list of one token, a network computes runs of one; bounds count a list of four."""
    entries = {e.subject: e for e in flowc.profile(flow, seconds=0.2).entries}
    net = entries["A.net"]
    assert [run.firings for run in net.runs] == [1, 2, 4] and net.fired == 0.25
    assert net.runs[0].samples > 10
    assert 4 * net.wcet_ns >= max(run.wcet_ns for run in net.runs) > 3 * net.wcet_ns
    counts = {(n, c.port): (c.tokens, c.places) for n, e in entries.items() for c in e.counts}
    assert counts == {
        ("A.find", "x"): (1, 0),
        ("A.sum", "y"): (4, 0),
        ("A.sum", "word"): (1, 4),
        ("A.half", "word"): (1, 6),
        ("A.half", "part"): (1, 3),
        ("A.show", "part"): (1, 1),
    }
    found = flowc.map(flow, budget=0.5, measure=False)
    (group,) = found.mapping.groups
    supposed = {c.name: c.of for c in group.conditions}
    assert supposed["full"] == ("A.sum", "A.half", "A.show") and "measured" in supposed


def test_a_run_with_missing_tokens_is_shared_by_the_others() -> None:
    task = SimpleNamespace(name="n", firings=0, code=SimpleNamespace(batch=4))
    times = _Times()
    for computed in (1, 1, 4):
        task.firings += computed
        times.firing("cpu[0]", task, 0, 4, 0, 1000)
    assert times.samples == {"n": [1000, 1000, *[250] * 4]}
    assert times.runs == {"n": {1: [1000, 1000], 4: [1000]}}


def test_an_older_profile_proves_less(flow: Path) -> None:
    """The time of a run of one firing, divided by a batch of four, is no time of a firing."""
    flowc.profile(flow, seconds=0.1)
    valid = flowc.check(flow).require()
    path = profile_path(valid.system, valid.platform)
    now = Profile.from_json(path.read_bytes())
    document = json.loads(path.read_bytes())
    for entry in document["entries"]:
        entry.pop("counts", None)
        if entry.pop("runs", None):
            entry["mean_ns"], entry["wcet_ns"], entry["totals_ns"] = 1000, 2000, [2000]
    old = Profile.from_json(json.dumps(document))
    time = times_of(valid.system, valid.platform, old).on("A.net", "cpu")
    assert time is not None and (time.longest_ns, time.mean_ns) == (8000, 1000)
    path.write_text(old.to_json())
    (group,) = flowc.map(flow, budget=0.5, measure=False).mapping.groups
    assert ["A.net" in c.of for c in group.conditions if c.name == "full"] == [True]
    assert now.silent == old.silent == ()


def run_time(firings: int, ns: int) -> RunTime:
    return RunTime(firings, 10, ns, ns, ns)


def test_a_run_takes_what_a_run_of_that_length_took() -> None:
    runs = (run_time(1, 10), run_time(2, 12), run_time(4, 16), run_time(8, 24))
    assert [worst_run_ns(runs, n) for n in (1, 2, 3, 4, 5, 8)] == [10, 12, 16, 16, 24, 24]
    assert worst_run_ns(runs[:2], 5) == 30
    assert (run_sizes(8, 8), run_sizes(11, 4), run_sizes(3, 8)) == ((8,), (4, 4, 3), (3,))
    entry = ProfileEntry("cpu", "n", "", "", "", 10, 1, 0, 1, 1, 8, runs=runs)
    assert worst_shares_ns(entry, (8,)) == (Fraction(3),)
    assert worst_shares_ns(entry, (8, 2)) == (Fraction(3),) * 8 + (Fraction(6),) * 2
    assert worst_shares_ns(replace(entry, runs=())) == (Fraction(1),)


def test_a_run_begins_when_all_of_its_tokens_are_there() -> None:
    """Firing by firing, the network would work on the first token while the second one is made."""
    group = TimedGroup(
        "A",
        100,
        (TimedTask("source", "p", (4,)), TimedTask("make", "p", (1,), firings=4),
         TimedTask("net", "q", (1,), firings=4), TimedTask("end", "q", (1,))),
        (TimedChannel("source", "make", (4,), (1,)), TimedChannel("make", "net"),
         TimedChannel("net", "end", (1,), (4,))),
        offset=0,
        paths=(TimedPath("source", "net", (0, 0, 0, 0)),),
    )  # fmt: skip
    processors = (TimedProcessor("p", "fixed_priority"), TimedProcessor("q", "fixed_priority"))
    system = TimedSystem((group,), processors)
    assert worst_cases(system).groups["A"] == 10
    assert worst_cases(in_runs(system, {"net": (4,)})).groups["A"] == 13
    uneven = in_runs(system, {"net": (3, 1)})
    assert uneven.groups[0].tasks[2].phases == (3, 1)
    assert (worst_cases(uneven).groups["A"], uneven.groups[0].paths[0].newest) == (12, (0, 0))


def test_operators_whose_work_depends_on_data_are_named(write: Write) -> None:
    text = """
        network Net from "net.onnx" { in x: float32[1, 8]   out y: int64[2, up to 8] }
        task Give { out x: float32[1, 8]   python "t.py:give" }
        task Take { in y: int64[2, up to 8]   python "t.py:take" }
        app A { give: Give   net: Net   take: Take   give -> net -> take }
    """
    code = "import numpy as np\ndef give(): return np.ones((1, 8), np.float32)\ndef take(y): pass\n"
    path = write(text, t_py=code)
    save(
        path.with_name("net.onnx"),
        [N("NonZero", ["x"], ["y"])],
        {"x": [1, 8]},
        {},
        "y",
        {"y": 7},
    )
    entries = {e.subject: e for e in flowc.profile(path, seconds=0.1).entries}
    assert entries["A.net"].depends == "NonZero"
