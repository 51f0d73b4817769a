"""A text with a scenario to a program: what it does in its states, and how it is told to change."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import flowc
import pytest

from builds import HANGS, Write, build, harness, run
from forks import PROGRAM, forks
from models import N, save, weights

TEXT = """
type X = float32[1, 8]
type Y = float32[1, 4]
task Camera(first: int) { out x: X   python "code.py:Camera" }
task Smooth { in y: Y window 3   in before: Y   out after: Y   python "code.py:smooth" }
task Watch { in y: Y   event often   python "code.py:Watch" }
network See {
    in x: X   out y: Y
    variant careful from "large.onnx" { in x: X from "x" pre "code.py:halve" }
    variant quick from "small.onnx"
}
app A {
    camera: Camera(first = 1)   see: See   smooth: Smooth   watch: Watch
    camera -> see -> delay 2 = 1 -> smooth.y   smooth -> delay 1 -> smooth.before   smooth -> watch
}
app B { camera: Camera(first = 2)   see: See   watch: Watch   camera -> see -> watch }
scenario Patrol {
    event turn, straight
    initial state cruise { run A   A.see = quick }
    state both { run A, B }
    state rest { run B   B.see = quick }
    cruise -> both on turn   both -> cruise on straight
    cruise, both -> rest on A.watch.often
    rest -> cruise on B.watch.often, straight
}
"""
CODE = """
import numpy as np

class Camera:
    def __init__(self, first): self.n = first
    def __call__(self):
        self.n += 1
        return np.full((1, 8), self.n % 7, np.float32)

def halve(x): return x / 2
def smooth(y, before): return (before + y.sum(0)) / 4

class Watch:
    def __init__(self, often): self.often, self.n = often, 0
    def __call__(self, y):
        self.n += 1
        if self.n % 40 == 0:
            self.often()
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scenario")
    save(
        folder / "small.onnx",
        [N("Gemm", ["x", "w"], ["y"])],
        {"x": [1, 8]},
        {"w": weights(8, 4)},
        "y",
    )
    two = [N("Gemm", ["x", "w"], ["h"]), N("Gemm", ["h", "v"], ["y"])]
    save(folder / "large.onnx", two, {"x": [1, 8]}, {"w": weights(8, 6), "v": weights(6, 4)}, "y")
    (folder / "app.flow").write_text(TEXT)
    (folder / "code.py").write_text(CODE)
    return build(folder / "app.flow", folder / "b")


def report(built: Path, *arguments: object) -> dict[str, Any]:
    done = run(built, *map(str, arguments), "--quiet", "--report", str(built / "r.json"))
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads((built / "r.json").read_text())
    return {**document, "said": done.stderr}


def test_the_harness_goes_through_all_transitions(built: Path) -> None:
    done = harness(built)
    assert done.returncode == 0, done.stderr
    assert "Ran 8 tests" in done.stderr


def test_a_script_and_tasks_lead_from_state_to_state(built: Path) -> None:
    script = built.parent / "events"
    script.write_text("# the first ones\n10 A turn\n\n30 A straight\n")
    # So many frames that the controller has its turn before they are over, however busy the machine
    # is.
    document = report(built, "--frames", 2000, "--events", script)
    assert "rest" in {s["to"] for s in document["switches"]}
    assert max(a["frames"] for a in document["apps"].values()) == 2000
    assert (
        sum(s["frames"].get("A", 0) for s in document["stays"]) == document["apps"]["A"]["frames"]
    )
    assert {s["event"] for s in document["switches"]} <= {
        "turn",
        "straight",
        "A.watch.often",
        "B.watch.often",
    }
    (built.parent / "first.json").write_text(json.dumps(document))
    again = report(built, "--replay", built.parent / "first.json")
    assert again["stays"] == document["stays"]


def test_it_begins_where_it_is_told(built: Path) -> None:
    document = report(built, "--start", "rest", "--frames", 5)
    assert document["stays"] == [{"state": "rest", "frames": {"B": 5}}]
    assert document["tasks"]["B.see.quick"]["firings"] == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--start", "cruse"], "there is no state `cruse`; did you mean `cruise`?"),
        (["--events", "{}"], "line 2: there is no event `trun`; did you mean `turn`?"),
        (["--replay", "{}"], "is no report of a program with states"),
        (["--replay", "{}.pipe"], "is no report of a program with states: it is no regular file"),
        (["--events", "{}.pipe"], "f.pipe: it is no regular file"),
        (["--control", "/nowhere/s"], "cannot listen at /nowhere/s"),
    ],
)
def test_what_cannot_be_is_refused(
    built: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "f").write_text("1 s turn\n2 s trun\n")
    os.mkfifo(tmp_path / "f.pipe")  # nothing writes into it
    done = run(built, *(a.format(tmp_path / "f") for a in arguments), "--frames", "3")
    assert done.returncode == 2 and said in done.stderr


def test_what_runs_in_several_states_has_one_place(built: Path) -> None:
    states = json.loads((built / "deployment.json").read_text())["scenario"]["states"]
    places = {
        (e["task"], p["processor"])
        for s in states
        for p in s["processors"]
        for e in p["order"]
        if "->" not in e["task"]
    }
    assert len({task for task, _ in places}) == len(places)


def test_events_without_a_scenario_reach_no_state(write: Write, tmp_path: Path) -> None:
    text = """
    task Camera { out x   python "code.py:camera" }
    task Watch { in x   event noise   python "code.py:Watch" }
    app A { camera: Camera   watch: Watch   camera -> watch }
    """.replace("out x ", "out x: float32 ").replace("in x ", "in x: float32 ")
    code = """
def camera(): return 1.0
class Watch:
    def __init__(self, noise): self.noise = noise
    def __call__(self, x): print(self.noise())
"""
    flow = write(text, code_py=code)
    assert flowc.check(flow).ok
    done = run(build(flow, tmp_path / "b"), "--frames", "2", "--quiet")
    assert (done.returncode, done.stdout) == (0, "None\nNone\n"), done.stderr
    done = run(tmp_path / "b", "--start", "one")
    assert done.returncode == 2 and "this one has none" in done.stderr


LOOKS = """
task Source { out n: int64   python "t.py:Source" }
task Keep { in n: int64   python "t.py:keep" }
app A { s: Source   k: Keep   s -> k }
app C { k: Keep   A.s -> latest -> k }
scenario S {
    event go
    initial state t { run A, C }
    state q { run A }
    t -> q on go   q -> t on go
}
"""
LOOKS_CODE = """
class Source:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return self.n
def keep(n): pass
"""


def test_an_app_that_looks_at_another_runs_in_states(write: Write, tmp_path: Path) -> None:
    """The last state that has the other app is not the one that is running."""
    built = build(write(LOOKS, t_py=LOOKS_CODE), tmp_path / "b")
    (tmp_path / "b" / "stays.json").write_text(
        json.dumps(
            {
                "stays": [
                    {"state": s, "frames": f} for s, f in (("t", {"A": 9, "C": 7}), ("q", {"A": 4}))
                ]
                * 2
            }
        )
    )
    document = report(built, "--replay", built / "stays.json")
    assert {name: app["frames"] for name, app in document["apps"].items()} == {"A": 26, "C": 14}
    assert {a["frames"] for a in report(built, "--frames", 50)["apps"].values()} == {50}
    tested = flowc.test(tmp_path / "app.flow", tmp_path / "tested", quiet=True)
    assert tested.status == 0 and {t.outcome for t in tested.tests} == {"passed"}


def test_channels_are_as_full_as_they_were_in_some_state(write: Write, tmp_path: Path) -> None:
    built = build(write(LOOKS, t_py=LOOKS_CODE), tmp_path / "b")
    channels = report(built, "--frames", 5)["channels"]  # never in the last state
    assert all(0 < c["most"] <= c["capacity"] for c in channels.values())


MIXED = """
type V = float32[4]
task Src(k: int) { out v: V   python "code.py:Src" }
task Live { live   out v: V   python "code.py:Live" }
task Half { in v: V   out w: V   stateless   python "code.py:half" }
task Proc { in v: V   out w: V   python "code.py:Proc" }
task Acc { in w: V   out s: V   state sum: V   c "code.c:acc" }
task Win { in s: V window 3   in back: V   out y: V   python "code.py:win" }
task Err { in y: V   out z: V   on error skip   python "code.py:err" }
task Sink { in z: V   event done   python "code.py:Sink" }
app A {
    src: Src(k = 1)   half[2]: Half   acc: Acc   win: Win   proc: Proc   err: Err   sink: Sink
    src -> half[0] -> half[1] -> acc -> proc -> delay 1 -> win.s
    win -> delay 2 = 1 -> win.back   win -> err -> sink
}
app L { live: Live   half: Half   sink: Sink   live -> half -> sink }
app C { period 3 ms   src: Src(k = 3)   acc: Acc   win: Win   sink: Sink
    src -> acc -> repeat 2 -> win.s   win -> delay 2 -> win.back   win -> last 2 -> sink }
scenario S {
    event go
    initial state one { run A, L }
    state two { run L, C }
    state three { run A, C period 5 ms }
    one -> two on A.sink.done, go   two -> three on C.sink.done, go   three -> one on C.sink.done, go
}
platform duo { cpu core[2] }
mapping on duo { A.half[0] -> core[0], core[1]   A.proc -> core[1] process   A.acc -> core[0] }
"""
MIXED_CODE = """
import numpy as np, time
class Src:
    def __init__(self, k): self.n = k
    def __call__(self):
        self.n += 1
        return np.full(4, self.n % 11, np.float32)
class Live:
    def __init__(self): self.n = 0
    def __call__(self):
        time.sleep(0.001); self.n += 1
        return np.full(4, self.n, np.float32)
def half(v): return v / 2
class Proc:
    def __init__(self): self.n = 0
    def __call__(self, v):
        self.n += 1
        return v + self.n
def win(s, back): return s.mean(0).astype(np.float32) + back / 4
def err(y):
    if int(y[0] * 100) % 17 == 3: raise ValueError("skip")
    return y
class Sink:
    def __init__(self, done): self.done, self.n = done, 0
    def __call__(self, z):
        self.n += 1
        if self.n % 20 == 0: self.done()
"""
MIXED_C = """
#include "code.flow.h"
int acc(void *state, const float *w, float *s, const acc_params *p) { float *a = state; for (int i = 0; i < 4; i++) { a[i] = a[i] * 0.5f + w[i]; s[i] = a[i]; } return 0; }
"""
#: The harness, but that events change states, whenever they come, and not a tour.
AS_IT_COMES = """
import sys, unittest
home, frames, *apps = sys.argv[1:]
sys.path.insert(0, home)
from runtime import harness
harness.tour = lambda control, frames: None
harness.FOREVER = int(frames)
suite = unittest.TestSuite()
for app in apps:
    case = type("Test_" + app, (harness.Harness,), {"home": home, "app": app})
    suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
good = unittest.TextTestRunner(verbosity=0).run(suite).wasSuccessful()
print(len(harness._RUNS[home].stays))
sys.exit(not good)
"""


def test_all_kinds_of_tasks_go_on_through_changes(write: Write, tmp_path: Path) -> None:
    """Replicas, pipelines, processes, C state, feedback, windows, what resamples, fails, or waits
    for its data."""
    flow = write(MIXED, code_py=MIXED_CODE, code_c=MIXED_C)
    built = build(flow, tmp_path / "b", platform="duo")
    (tmp_path / "as_it_comes.py").write_text(AS_IT_COMES)
    command = [tmp_path / "as_it_comes.py", built, "120", "A", "L", "C"]
    done = forks(*PROGRAM).run(command, cwd=tmp_path, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 4


def test_a_trace_goes_through_the_states(built: Path) -> None:
    """Each state has tasks of its own under the same names; frames and arrows are those of all of
    them."""
    script, trace = built.parent / "some", built.parent / "t.json"
    script.write_text("10 A turn\n")
    report(built, "--frames", 30, "--events", script, "--trace", trace)
    events = json.loads(trace.read_text())["traceEvents"]
    frames = {e["id"]: e["args"] for e in events if e["ph"] == "b"}
    assert {e["id"] for e in events if e["ph"] == "e"} == set(frames) and {"A", "B"} == {
        a["app"] for a in frames.values()
    }
    assert len(frames) == sum(e["ph"] == "X" and e["name"].endswith(".watch") for e in events) > 30
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    arrows = [e for e in events if e["ph"] == "f"]
    assert len(arrows) == len(starts) > 60 and all(starts[e["id"]]["ts"] <= e["ts"] for e in arrows)
