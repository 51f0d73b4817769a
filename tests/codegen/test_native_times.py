"""Times and mappings of programs in C++: measured by the program itself, and kept apart from those of
the program in Python. Needs a C++ compiler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import flowc
import pytest
from flowc.cli import app
from flowc.driver.show.reporting import RunFiles
from flowc.driver.show.reporting import report as report_of
from flowc.driver.solve import deadlines
from flowc.driver.text import store
from flowc.driver.text.check import prepare
from flowc.model.mapping import Mapping, Placement
from flowc.model.profile import Profile, ProfileEntry
from flowc.profiling.identity import task_hashes
from flowc.profiling.measure import MeasurementFailed, run_build

from builds import HANGS
from native_compiler import in_a_hurry

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
TEXT = """\
task Count { out n: int64   state k: int64   c "app.c:count" }
task Spin(us: int) { in n: int64 rate 2 window 3   out sum: int64   c "app.c:spin" }
task Show(bad: int = 0) { in n: int64   c "app.c:show" }
app A {
    period 10 ms   deadline 10 ms
    count: Count   spin: Spin(us = 300)   show: Show
    count -> spin -> show
}
platform two { cpu core[2] }
"""
CODE = """\
#include <time.h>
static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}
int count(void *state, int64_t *n, const void *p)
{
    *n = ((count_state *)state)->k++;
    return 0;
}
int spin(void *state, const int64_t *n, int64_t *sum, const spin_params *p)
{
    for (const int64_t begin = now(); now() - begin < 1000 * p->us;)
        ;
    *sum = n[0] + n[1] + n[2];
    return 0;
}
int show(void *state, const int64_t *n, const show_params *p)
{
    return p->bad && *n > 100 ? 7 : 0;
}
"""
#: The least time of a firing of `spin`, in ns.
SPINS = 300_000
#: The period of the app, in ns.
PERIOD = 10_000_000


@pytest.fixture(scope="module", autouse=True)
def _compiled_in_a_hurry(shared: Path) -> Iterator[None]:
    with in_a_hurry(shared):
        yield


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text with a profile of its program in C++, beside one that has nothing to do with it."""
    text = written(tmp_path_factory.mktemp("profiled"))
    text.with_name("app.host.profile.json").write_text("of Python")
    words = ["profile", str(text), "--target", "native", "--seconds", "0.3"]
    assert app(words, standalone_mode=False) == 0
    return text


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return written(tmp_path)


def written(folder: Path) -> Path:
    (folder / "app.flow").write_text(TEXT)
    (folder / "app.c").write_text(CODE)
    return folder / "app.flow"


def test_the_program_measures_itself(profiled: Path) -> None:
    stored = json.loads(profiled.with_name("app.host-native.profile.json").read_text())
    assert profiled.with_name("app.host.profile.json").read_text() == "of Python"
    entries = {e["subject"]: e for e in stored["entries"]}
    assert list(entries) == ["A.count", "A.spin", "A.show"]
    assert all(e["held"] is None and e["samples"] > 50 for e in entries.values())
    spin = entries["A.spin"]
    assert SPINS <= spin["mean_ns"] <= spin["wcet_ns"] == spin["totals_ns"][0] >= spin["max_ns"]
    assert entries["A.count"]["mean_ns"] < SPINS > entries["A.show"]["mean_ns"]
    # a firing begins where the one before it ended: what the runtime takes is in it
    assert stored["firing_ns"] == 0
    (hop,) = stored["transfers"]
    assert (hop["from"], hop["to"]) == ("cpu", "cpu") and hop["fixed_ns"] >= 0


def test_map_proves_by_these_times_and_builds_use_it(
    profiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "PACED", 0.5)
    monkeypatch.setattr(deadlines, "PACED_FRAMES", 10)
    answer = flowc.map(profiled, native=True, budget=1.0)
    assert answer.path == profiled.with_name("app.host-native.mapping.json")
    (group,) = answer.mapping.groups
    assert group.frames > 0 and group.seen_ns is not None and group.seen_ns >= SPINS
    assert answer.joint is not None and answer.joint.seen is not None
    samples = answer.joint.seen.samples
    assert min(samples["A.spin"]) >= SPINS
    if group.response_ns is None:  # a busy machine held a firing up for most of a period
        profile = json.loads(profiled.with_name("app.host-native.profile.json").read_text())
        known = sum(entry["wcet_ns"] for entry in profile["entries"])
        assert known + sum(max(taken) for taken in samples.values()) > PERIOD / 4
    else:
        assert group.response_ns >= SPINS
    built = flowc.build(profiled, profiled.parent / "native", native=True)
    assert built.mapping.groups == answer.mapping.groups
    assert built.times == {"A.count": "measured", "A.spin": "measured", "A.show": "measured"}
    file = profiled.with_name("run.json")
    words = {"frames": 20, "document": True, "report_to": str(file)}
    ran = flowc.run(profiled, profiled.parent / "native", native=True, **words)
    assert ran.status == 0
    names = [bound.name for bound in ran.bounded]
    assert names == ([] if group.response_ns is None else ["A", "A.count -> show"])
    # a page of that run shows the mapping that it had, which Python's program has not
    page = report_of(profiled, run=RunFiles(file)).document
    assert page.apps[0].frames == 20 and page.search is not None
    assert all(command.endswith(" --target native") for command in page.commands)


def test_it_takes_the_places_of_the_program_in_python_until_it_has_its_own(text: Path) -> None:
    valid = prepare(text, platform="two").require()
    there = {"A.count": "core[0]", "A.spin": "core[1]", "A.show": "core[0]"}
    places = tuple(Placement(task, (core,)) for task, core in there.items())
    mapping = Mapping("two", places, utilization=(("core[1]", 0.5),))
    store.save_mapping(valid, mapping)
    assert prepare(text, platform="two", native=True).mapping == replace(mapping, utilization=())
    other = replace(mapping, placements=(places[0], Placement("A.spin", ("core[0]",)), places[2]))
    native = prepare(text, platform="two", native=True, mapped=False)
    store.save_mapping(native.require(), other)
    assert prepare(text, platform="two", native=True).mapping == other
    assert prepare(text, platform="two").mapping == mapping


def test_imported_times_count_for_both(text: Path) -> None:
    python = prepare(text, platform="two").require()
    native = prepare(text, platform="two", native=True).require()
    entries = []
    for name, digest in task_hashes(python.system).items():
        entries.append(ProfileEntry("cpu", name, "", digest, "", 1, 10, 0, 20, 20))
    imported = Profile("two", "another tool", tuple(entries))
    store.save_profile(python, imported)
    assert store.read_profile(native)[0] == imported
    measured = replace(imported, entries=tuple(replace(e, host_hash="this") for e in entries))
    store.save_profile(python, measured)
    assert store.read_profile(native) == (None, ())
    assert store.read_profile(python)[0] == measured


def test_a_task_that_fails_while_it_is_measured_is_named(text: Path) -> None:
    text.write_text(TEXT.replace("show: Show", "show: Show(bad = 1)").replace("300", "30"))
    with pytest.raises(flowc.Errors) as caught:
        flowc.profile(text, native=True, seconds=20)
    (fault,) = caught.value.diagnostics
    assert fault.code == "F606" and fault.span is not None and fault.span.line == 6
    said = "the application failed while it was measured\napp A, task A.show failed at firing "
    assert fault.message.startswith(said) and fault.message.endswith("show returned 7")


def stand_in(build: Path, report: dict[str, Any], events: Sequence[dict[str, Any]] = ()) -> None:
    """A program that only writes this."""
    lines = ",\n".join(json.dumps(event) for event in events)
    (build / "said").write_text(json.dumps(report))
    (build / "seen").write_text(f'{{"traceEvents": [\n{lines}],\n"otherData": {{}}}}\n')
    (build / "main").write_text(
        f'#!/bin/sh\nwhile [ "$1" != --report ]; do shift; done\ncp {build}/said "$2"\n'
        f'[ "$3" != --trace ] || cp {build}/seen "$4"\n'
    )
    (build / "main").chmod(0o755)
    (build / "deployment.json").write_text('{"apps": []}')


def test_a_task_that_a_trace_has_lost_has_its_mean(tmp_path: Path) -> None:
    """Others have fired so often since then that their events have taken its place."""
    latency = {"p50": 0.5, "max": 0.75}
    app = {
        "frames": 10,
        "skipped": 0,
        "not_begun": 0,
        "fps": 100.0,
        "latency_ms": latency,
        "deadline_misses": 0,
        "paths": [],
    }
    tasks = {
        "A.often": {"firings": 10**6, "mean_us": 1.0},
        "A.rare": {"firings": 10, "mean_us": 2.5},
        "A.never": {"firings": 0, "mean_us": None},
    }
    fired = {"ph": "X", "name": "A.often", "pid": 1, "tid": 1, "ts": 1.5, "dur": 0.75}
    report = {"apps": {"A": app}, "tasks": tasks, "processors": {"cpu[0]": {"utilization": 0.5}}}
    stand_in(tmp_path, report, [{**fired, "args": {"frame": 0, "firing": 0, "firings": 1}}])
    seen = run_build(tmp_path, 0.1, strict=True, native=True)
    assert seen.samples == {"A.often": (750,), "A.rare": (2500,)}
    assert (seen.period_ns, seen.latency_ns) == ({"A": 1e7}, {"A": 5e5})
    assert seen.longest_ns == {"A": 750_000}


def test_a_program_that_finishes_no_frame_is_named(tmp_path: Path) -> None:
    stand_in(tmp_path, {"apps": {"A": {"frames": 0}}, "tasks": {}})
    with pytest.raises(MeasurementFailed, match="no frame of A was finished"):
        run_build(tmp_path, 0.1, strict=False, native=True)


def test_a_program_that_skips_all_frames_has_no_times(tmp_path: Path) -> None:
    stand_in(tmp_path, {"apps": {"A": {"frames": 3, "skipped": 3}}, "tasks": {}})
    with pytest.raises(MeasurementFailed, match="all 3 frames of A were skipped"):
        run_build(tmp_path, 0.1, strict=False, native=True)


def test_a_frame_begins_with_its_release_though_initial_tokens_are_there_before(
    text: Path, tmp_path: Path
) -> None:
    """`spin` and `show` fire for a frame before `count` is released for it."""
    text.write_text(TEXT.replace("count -> spin", "count -> delay 2 -> spin"))
    flowc.build(text, tmp_path / "build", platform="two", native=True, measure=False)
    command = [tmp_path / "build/main", "--frames", "5", "--quiet", "--trace", tmp_path / "trace"]
    subprocess.run(command, check=True, timeout=HANGS, capture_output=True)
    events = json.loads((tmp_path / "trace").read_text())["traceEvents"]
    begins = [event["ts"] for event in events if event["ph"] == "b"]
    assert begins == [10_000.0 * k for k in range(5)]
