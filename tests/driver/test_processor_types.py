"""CPUs of different types: times in texts and profiles, and what every verb makes of them."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import flowc
import pytest
from flowc.cli import app
from flowc.driver.build.build import build
from flowc.driver.execute.run import run
from flowc.model.profile import Profile
from flowc.model.times import MARGIN, times_of
from typer.testing import CliRunner

from builds import Write
from drawn import MS, Entry, store_entries

#: Known answers: the long task of A fits into its period on `big` alone.
WHOLE = """
platform board {{
    cpu big[1] scheduler fixed_priority
    cpu little[1] scheduler fixed_priority
}}
task In {{ out x   wcet {0} }}
task W1 {{ in x   out y   wcet {1} }}
task W2 {{ in x   out y   wcet {2} }}
task Out {{ in y   wcet {0} }}
app A {{ period 30 ms   i: In   w: W1   o: Out   i -> w -> o }}
app B {{ period 60 ms   i: In   w: W2   o: Out   i -> w -> o }}
"""


def by_type(factor: Fraction) -> str:
    times = (f"{ms} ms on big, {float(ms * factor):g} ms on little" for ms in (1, 20, 16))
    return WHOLE.format(*times)


def mapped(flow: Path, *words: str) -> dict[str, Any]:
    command = ["map", str(flow), "--platform", "board", "--no-measure", "--json", *words]
    ran = CliRunner().invoke(app, command)
    assert ran.exit_code in (0, 1), ran.output
    return json.loads(ran.stdout)


def responses(found: dict[str, Any]) -> dict[str, float]:
    return {name: group["response_time_ns"] / 1e6 for name, group in found["groups"].items()}


def linked(times: str) -> str:
    """Two apps that an arrow joins; its ends have times."""
    text = by_type(Fraction(12, 5))
    reader = "app C { period 60 ms   o: Out   A.w -> latest TIMES -> o }\n"
    return text + reader.replace("TIMES", times)


@pytest.mark.parametrize(
    ("times", "us", "supposed"),
    [
        ("wcet 10 us on big, 24 us on little", 10, {"wakeup"}),
        ("wcet 24 us on cpu", 24, {"wakeup", "equal"}),
        ("wcet 24 us", 24, {"wakeup", "equal"}),
    ],
)
def test_ends_of_arrows_have_times_by_type(
    write: Write, times: str, us: int, supposed: set[str]
) -> None:
    found = mapped(write(linked(times)))
    conditions = [c for g in found["groups"].values() for c in g["conditions"]]
    assert {c["condition"] for c in conditions} == supposed
    assert responses(found)["A"] == pytest.approx(23 + us / 1000)


def test_an_end_of_an_arrow_has_no_phases(write: Write) -> None:
    flow = write(linked("wcet [10, 20] us on big, 1 us on little, 2 us on little"))
    found = flowc.check(flow, platform="board").diagnostics
    assert {d.code for d in found} == {"F115", "F106"}


@pytest.mark.parametrize("search", ["auto", "exact", "heuristic-ga"])
def test_each_task_is_where_its_time_there_fits(write: Write, search: str) -> None:
    found = mapped(write(by_type(Fraction(12, 5))), "--search", search)
    assert responses(found) == {"A": 22.0, "B": 43.2}
    assert found["utilization"] == {"big[0]": pytest.approx(22 / 30), "little[0]": 0.72}
    conditions = [c for g in found["groups"].values() for c in g["conditions"]]
    assert {c["condition"] for c in conditions} == {"wakeup"}


def test_a_platform_without_the_types_proves_nothing(write: Write) -> None:
    """Neither the longest nor the shortest of the times would be true there."""
    done = CliRunner().invoke(app, ["check", str(write(by_type(Fraction(12, 5))))])
    assert done.exit_code == 0 and "F216" not in done.output
    said = "times are stated on `big` and `little`: give `--platform` with these processors"
    assert " ".join(done.stdout.split()).count(f"not decided {said}") == 2


def test_equal_types_are_as_one(write: Write) -> None:
    alike = mapped(write(by_type(Fraction(1))), "--search", "exact")
    bare = mapped(write(WHOLE.format("1 ms", "20 ms", "16 ms")), "--search", "exact")
    assert responses(alike) == responses(bare) == {"A": 22.0, "B": 20.0}
    assert alike["utilization"] == bare["utilization"]
    names = [[c["condition"] for c in g["conditions"]] for g in bare["groups"].values()]
    assert names == [["equal", "wakeup"], ["equal", "wakeup"]]


def test_a_time_on_one_type_alone_keeps_a_task_there(write: Write) -> None:
    found = mapped(write(WHOLE.format("1 ms on little", "20 ms on big", "16 ms on big")))
    assert found["tasks"]["A.i"] == "little[0]" and found["tasks"]["A.w"] == "big[0]"


POOLS = """
platform board {{ cpu fast[1] type a76   cpu slow[1] type a76 }}
task Source {{ out x   wcet {0} }}
task Sink {{ in x   wcet 1 us }}
app A {{ period 20 ms   source: Source   sink: Sink   source -> sink }}
"""


def test_times_of_pools_of_one_type_hold_for_the_slowest(write: Write) -> None:
    found = mapped(write(POOLS.format("2 ms on fast, 5 ms on slow")))
    assert responses(found) == {"A": 5.001}
    ran = CliRunner().invoke(
        app, ["map", str(write(POOLS.format("2 ms on fast"))), "--platform", "board"]
    )
    assert ran.exit_code == 1 and "F509" in ran.output


FREE = """
platform board { cpu big[2]   cpu little[2] }
task S { out y: int32   wcet 1 ms on big, 3 ms on little }
task W { in x: int32   out y: int32   wcet 5 ms on little }
task V { in x: int32   out y: int32   wcet 1 ms on big, 4 ms }
task E { in x: int32   wcet 1 ms }
app N { s: S   w: W   v: V   e: E   s -> w -> v -> e }
"""


@pytest.mark.parametrize("search", ["auto", "exact"])
def test_without_a_period_tasks_are_where_they_have_times(write: Write, search: str) -> None:
    found = mapped(write(FREE), "--search", search)
    assert found["tasks"]["N.w"][0].startswith("little[")
    assert found["tasks"]["N.s"][0].startswith("big[")
    assert "`little[0]` is the busiest processor: 5.03 ms" in " ".join(found["why"])


PAIR = """
platform board {{ cpu big[2] {0} scheduler fixed_priority   cpu little[2] {1} scheduler fixed_priority }}
task Source {{ out x: float32   python "t.py:source" }}
task Sink {{ in x: float32   python "t.py:sink" }}
app A {{ period 40 ms   source: Source   sink: Sink   source -> sink }}
"""
CODE = "def source(): return 1\ndef sink(x): pass\n"


def worst(flow: Path, task: str) -> dict[str, tuple[Fraction, str, bool]]:
    """The worst case of a task by type, its origin, and whether all types of the kind share it."""
    valid = flowc.check(flow, platform="board", mapped=False).require()
    profile = Profile.from_json(flow.with_name(f"{flow.stem}.board.profile.json").read_text())
    times = times_of(valid.system, valid.platform, profile).of[task]
    return {type_: (t.longest_ns, t.source, t.of_kind) for type_, t in times.items()}


def test_a_profile_has_times_by_type_or_by_kind(write: Write) -> None:
    flow = write(PAIR.format("", ""), t_py=CODE)
    store_entries(flow, [Entry("A.source", "cpu", 2 * MS), Entry("A.sink", "big", 3 * MS)])
    assert worst(flow, "A.source") == {
        "big": (Fraction(2 * MS), "measured", True),
        "little": (Fraction(2 * MS), "measured", True),
    }
    assert worst(flow, "A.sink") == {"big": (Fraction(3 * MS), "measured", False)}


def test_speeds_estimate_what_was_measured_elsewhere(write: Write) -> None:
    """A time of the kind may be one of its fastest processors."""
    flow = write(PAIR.format("speed 1", "speed 0.4"), t_py=CODE)
    store_entries(flow, [Entry("A.source", "cpu", 2 * MS), Entry("A.sink", "little", 5 * MS)])
    assert worst(flow, "A.source") == {
        "big": (Fraction(2 * MS), "measured", False),
        "little": (5 * MS * MARGIN, "estimated", False),
    }
    assert worst(flow, "A.sink") == {
        "big": (2 * MS * MARGIN, "estimated", False),
        "little": (Fraction(5 * MS), "measured", False),
    }


CORES = """
platform board {{ cpu big {scheduler} on [1]   cpu little {scheduler} on [0] }}
task Source {{ out x: int32   wcet 1 ms on big, 2 ms on little   {source} }}
task Sink {{ in x: int32   wcet 1 ms on little   python "t.py:sink" }}
app A {{ period 5 ms   source: Source   sink: Sink   source -> sink }}
mapping on board {{ A.source -> big   A.sink -> little }}
"""
BOUND = """
import os, threading
def cores(): return sorted(os.sched_getaffinity(threading.get_native_id()))
def source(): return cores()[0]
def sink(x): print("on", int(x), cores())
"""
IN_C = """
int sched_getaffinity(int thread, unsigned long size, void *set);
int source(void *state, int32_t *x, const source_params *p) {
    unsigned long set[16] = {0};
    sched_getaffinity(0, sizeof set, set);
    *x = (int32_t)set[0];
    return 0;
}
"""
PRINT = """
#include <stdio.h>
int sink(void *state, const int32_t *x, const sink_params *p) {
    printf("on %d\\n", (int)*x);
    return 0;
}
"""
two_cores = pytest.mark.skipif(
    not {0, 1}.issubset(os.sched_getaffinity(0)), reason="needs the cores 0 and 1"
)


@two_cores
def test_threads_are_bound_to_the_cores_of_their_type(
    write: Write, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flow = write(CORES.format(scheduler="", source='python "t.py:source"'), t_py=BOUND)
    ran = run(flow, tmp_path / "out", platform="board", frames=3, measure=False, quiet=True)
    assert ran.status == 0
    assert capfd.readouterr().out.count("on 1 [0]") == 3


@two_cores
def test_threads_in_cpp_are_bound_as_well(
    write: Write, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = CORES.format(scheduler="", source='c "s.c:source"')
    text = text.replace('python "t.py:sink"', 'c "k.c:sink"')
    flow = write(text, s_c=IN_C, k_c=PRINT)
    ran = run(
        flow, tmp_path / "out", platform="board", frames=3, measure=False, quiet=True, native=True
    )
    assert ran.status == 0
    assert capfd.readouterr().out.count("on 2") == 3


def test_priorities_are_on_the_cores_that_a_platform_names(write: Write, tmp_path: Path) -> None:
    text = CORES.format(scheduler="scheduler fixed_priority", source='python "t.py:source"')
    build(write(text, t_py=BOUND), tmp_path / "out", platform="board", measure=False)
    program = (tmp_path / "out" / "main.py").read_text()
    assert "FixedPriority(1, 1)" in program and "FixedPriority(0, 1)" in program
