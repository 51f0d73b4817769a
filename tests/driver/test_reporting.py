"""What a report collects, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flowc.cli import app
from flowc.driver.build.build import build as flowc_build
from flowc.driver.plan.program import deployment, digests
from flowc.driver.show.reporting import NewRun, RunFiles, report
from flowc.driver.show.show import look
from flowc.driver.solve.map import find_mapping
from flowc.driver.text import measured
from flowc.driver.text.check import check
from flowc.driver.text.store import save_mapping, save_profile
from flowc.machines.whoami import host_hash
from flowc.model.conditions import Condition
from flowc.model.diagnostic import Errors
from flowc.model.mapping import (
    Contestant,
    Effort,
    GroupBound,
    Mapping,
    NetworkPlan,
    Placement,
    StagePlan,
    Supposed,
)
from flowc.model.profile import Profile, ProfileEntry
from flowc.profiling.identity import task_hashes
from flowc.report.document import Document
from flowc.report.page import data_of, page
from typer.testing import CliRunner

from builds import HANGS, Write, build, in_its_own_time, run, store_profile

TEXT = """
task Camera { out n: int64  python "t.py:Camera" }
task Work { in n: int64 rate 3  out m: int64  python "t.py:work" }
task Show { in m: int64  python "t.py:show" }
platform two { cpu core[2] }
app Paced { period 30 ms  deadline 50 ms  camera: Camera  work: Work  show: Show  camera -> work -> show }
"""
CODE = """
import time
import numpy as np
class Camera:
    n = 0
    def __call__(self):
        self.n += 1
        return self.n
def work(n):
    time.sleep(0.004 if n[0] != 7 else 0.012)
    return n[0]
def show(n): pass
"""
TIMES = {"Paced.camera": 1000, "Paced.work": 4_000_000, "Paced.show": 2000}
Ran = tuple[Path, Path, Path, Path]


def mapped(flow: Path, response_ns: int, *, interpreter: bool = False) -> None:
    """Keep a mapping beside the text that claims a bound, perhaps if the interpreter is free."""
    valid = check(flow, mapped=False).require()
    cpu = valid.platform.processors[0]
    found = Mapping(
        "host",
        tuple(Placement(name, (cpu,)) for name in TIMES),
        search="auto",
        contestants=(Contestant("one", "all -> cpu[0]", 5e6, 6e6), Contestant("two", "apart", 4e6)),
        effort=Effort(seed=7, evaluations=12, seconds=0.5),
        groups=(
            GroupBound(
                "Paced",
                response_ns,
                50_000_000,
                True,
                conditions=(Condition("interpreter"),) if interpreter else (),
            ),
        ),
        utilization=((cpu, 0.25),),
    )
    save_mapping(valid, found)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A text with profile and mapping, its build, and the report and trace of a run in a time of
    its own."""
    folder = tmp_path_factory.mktemp("ran")
    flow = folder / "paced.flow"
    flow.write_text(TEXT)
    (folder / "t.py").write_text(CODE)
    store_profile(flow, TIMES)
    mapped(flow, 30_000_000)
    out = build(flow, folder / "out", TIMES)
    in_its_own_time(out, "--frames", "6", "--trace", str(folder / "t.json"))
    return flow, out, out / "r.json", folder / "t.json"


@pytest.fixture(scope="module")
def document(ran: Ran) -> Document:
    flow, _, run_file, trace_file = ran
    return report(flow, run=RunFiles(run_file, trace_file)).document


def test_predicted_proved_and_measured_stand_side_by_side(document: Document) -> None:
    tasks = {t.name: t for t in document.tasks}
    work = tasks["Paced.work"]
    assert (work.predicted_ns, work.firings, work.code) == (4_000_000, 1, "python t.py:work")
    assert work.place == "paced.flow:6"
    assert work.measured_ns == pytest.approx(4_000_000 + 8_000_000 / 6, abs=2000)
    assert work.measured_max_ns == pytest.approx(12_000_000, abs=2000)
    assert work.error == pytest.approx(1 / 3, abs=0.01)
    frames, path = document.paths
    assert (path.source, path.task) == ("Paced.camera", "Paced.show") and path.bound_ns is None
    # Released at 0, the last token after 20 ms, and 4 or 12 ms more.
    assert (frames.p50_ns, frames.max_ns) == (
        pytest.approx(24e6, abs=5e3),
        pytest.approx(32e6, abs=5e3),
    )
    assert (frames.deadline_ns, frames.bound_ns, frames.deadline_misses) == (
        50_000_000,
        30_000_000,
        0,
    )
    assert (frames.count, sum(frames.counts), frames.above_bound) == (6, 6, 1)
    (processor,) = [p for p in document.processors if p.predicted is not None]
    assert processor.predicted == 0.25 and processor.measured is not None
    by_name = {c.name: c for c in document.channels}
    first = by_name["Paced.camera.n->Paced.work.n"]
    assert (first.rates, first.token_bytes, first.least) == (("1", "3"), 8, 3)
    assert (
        first.most is not None
        and first.capacity is not None
        and first.least <= first.most <= first.capacity
    )
    (app,) = document.apps
    assert (app.frames, app.period_ns, app.least_period_ns) == (6, 30_000_000, 4_000_000)
    assert document.search is not None and document.search.contestants[0].measured == 6e6
    assert "run" not in document.missing and "trace" not in document.missing


def test_a_twin_is_not_compared_with_the_platform(
    ran: Ran, document: Document, tmp_path: Path
) -> None:
    flow, _, run_file, _ = ran
    written = tmp_path / "twin.json"
    written.write_text(json.dumps({**json.loads(run_file.read_text()), "twin": True}))
    twin = report(flow, run=RunFiles(written, None)).document
    assert (document.twin, twin.twin) == (False, True)
    assert json.loads(data_of(page(twin).encode()))["twin"] is True
    assert [p.max_ns for p in twin.paths] == [p.max_ns for p in document.paths]
    assert {p.above_bound for p in twin.paths} == {t.error for t in twin.tasks} == {None}
    assert twin.commands[-1].endswith(" --report run.json --twin")
    assert not any("--twin" in command for command in document.commands)


def test_charts_begin_with_the_same_frame(document: Document) -> None:
    assert document.measured is not None
    (predicted,) = document.predicted
    names = [t.name for t in document.tasks]
    for chart in (predicted, document.measured):
        starts = {}
        for lane in chart.lanes:
            for task, firing, start, _ in zip(*[iter(lane.bars)] * 4, strict=True):
                starts[names[task], firing] = start
        assert chart.zero_ns == min(
            starts["Paced.camera", 3 * chart.frame], starts["Paced.work", chart.frame]
        )
    assert [f.frame for f in document.measured.frames] == list(range(6))
    assert len(document.measured.releases) == 18
    fills = document.measured.fills["Paced.camera.n->Paced.work.n"]
    assert set(fills[1::2]) <= {0, 1, 2, 3}


def test_same_inputs_same_bytes(ran: Ran, document: Document) -> None:
    """Also where sets come in another order."""
    flow, _, run_file, trace_file = ran
    block = "import sys; from flowc.driver.show.reporting import RunFiles, report; from flowc.report.page import page; "
    block += "sys.stdout.write(page(report(sys.argv[1], run=RunFiles(sys.argv[2], sys.argv[3])).document))"
    command = [sys.executable, "-c", block, str(flow), str(run_file), str(trace_file)]
    other = dict(os.environ, PYTHONHASHSEED="11", PYTHONIOENCODING="utf-8")
    done = subprocess.run(command, capture_output=True, env=other, check=True, timeout=HANGS)
    assert done.stdout.decode() == page(document)
    assert len(done.stdout) < 150_000 + len(document.to_json())


def refused(code: str, flow: Path, **options: Any) -> str:
    """The message about files that cannot be used."""
    with pytest.raises(Errors) as caught:
        report(flow, **options)
    (found,) = caught.value.diagnostics
    assert found.code == code and found.help
    return found.message


def test_files_of_other_programs_are_refused_by_name(ran: Ran, tmp_path: Path) -> None:
    flow, _, run_file, trace_file = ran
    build_of = json.loads(run_file.read_text())["build"]
    for option, file in (("report", run_file), ("trace", trace_file)):
        foreign = tmp_path / file.name
        foreign.write_text(file.read_text().replace(build_of, "f" * 64))
        said = refused("F621", flow, run=RunFiles(**{option: foreign}))
        assert "ffffffffffff" in said and build_of[:12] in said and file.name in said
    nameless = tmp_path / "nameless.json"
    nameless.write_text(json.dumps({**json.loads(run_file.read_text()), "build": None}))
    assert "an unnamed build" in refused("F621", flow, run=RunFiles(nameless))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ("[]", "expected an object"),
        ("{}", "apps is missing"),
        ('{"apps": {"A": {"fps": NaN}}}', "not JSON"),
        ('{"apps": {"A": {"fps": 1e999}}, "tasks": {}, "processors": {}}', ""),
        ('{"apps": {"A": 3}, "tasks": {}, "processors": {}}', "apps.A is 3; expected an object"),
        (
            '{"apps": {}, "tasks": {"x": {"processor": 3}}, "processors": {}}',
            "tasks.x.processor is 3; expected a text",
        ),
    ],
)
def test_what_is_no_report_of_a_run(content: str, said: str, ran: Ran, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(content)
    assert said in refused("F620", ran[0], run=RunFiles(file))


@pytest.mark.parametrize(
    "content", ["{}", '{"traceEvents": [{}]}', '{"traceEvents": [{"ph": "X", "args": {}}]}']
)
def test_what_is_no_trace(content: str, ran: Ran, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(content)
    refused("F620", ran[0], run=RunFiles(trace=file))
    refused("F620", ran[0], run=RunFiles(trace=tmp_path / "none.json"))


def test_comparing_with_a_mapping_a_report_and_a_build(
    ran: Ran, document: Document, tmp_path: Path
) -> None:
    flow, out, run_file, trace_file = ran
    work = replace(document.tasks[1], predicted_ns=2_000_000, processors=("cpu[1]",))
    other = replace(document, tasks=(document.tasks[0], work))
    there = tmp_path / "other.html"
    there.write_text(page(other))
    found = report(flow, run=RunFiles(run_file), compare=there).document.compare
    assert (
        found is not None and found.only_here == ("tasks: Paced.show",) and found.only_there == ()
    )
    told = {(d.name, d.what): (d.here, d.there, d.change) for d in found.differences}
    assert told == {
        ("Paced.work", "processors"): ("cpu[0]", "cpu[1]", None),
        ("Paced.work", "predicted_ns"): (4_000_000, 2_000_000, 1.0),
    }
    stored = flow.with_name("paced.host.mapping.json")
    changed = tmp_path / "changed.json"
    changed.write_text(
        stored.read_text().replace('"cpu[0]"', '"cpu[1]"', 1).replace("30000000", "20000000", 1)
    )
    found = report(flow, compare=changed).document.compare
    assert found is not None and {d.section for d in found.differences} == {"tasks", "paths"}
    found = report(flow, run=RunFiles(run_file), compare=out).document.compare
    assert found is not None and found.differences == () == found.only_there
    text = tmp_path / "document.json"
    text.write_text(document.to_json(indent=1))
    found = report(flow, run=RunFiles(run_file, trace_file), compare=text).document.compare
    assert found is not None and found.differences == ()


@pytest.mark.parametrize(
    "content", ["", "<html>", "{}", '{"version": 1, "tasks": [3]}', '{"placements": 3}']
)
def test_what_cannot_be_compared(content: str, ran: Ran, tmp_path: Path) -> None:
    file = tmp_path / "other"
    file.write_text(content)
    refused("F622", ran[0], compare=file)
    refused("F622", ran[0], compare=tmp_path)


def test_the_verb_writes_a_page_or_prints_its_document(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flow, _, run_file, _ = ran
    done = CliRunner().invoke(app, ["report", str(flow), "--run-file", str(run_file)])
    assert (done.exit_code, done.stdout) == (0, "paced.report.html\n")
    shown = json.loads(data_of((tmp_path / "paced.report.html").read_bytes()))
    done = CliRunner().invoke(app, ["report", str(flow), "--run-file", str(run_file), "--json"])
    assert json.loads(done.stdout) == shown and shown["version"] == 1
    done = CliRunner().invoke(app, ["report", str(flow), "-o", str(tmp_path)])
    assert done.exit_code == 1 and "F605" in done.stderr
    done = CliRunner().invoke(app, ["report", str(flow), "-o", "new/folder/r.html"])
    assert done.exit_code == 0 and (tmp_path / "new/folder/r.html").is_file()
    assert (
        CliRunner().invoke(app, ["report", str(flow), "--run", "3", "--run-file", "x"]).exit_code
        == 2
    )


def test_a_report_can_run_the_program_first(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flow = (
        Path(
            shutil.copytree(ran[0].parent, tmp_path / "copy", ignore=shutil.ignore_patterns("out"))
        )
        / "paced.flow"
    )
    found = report(flow, run=NewRun(2))
    assert (
        found.status == 0
        and found.document.apps[0].frames == 2
        and found.document.measured is not None
    )
    for words in (["--run", "20000", "--seconds", "0.2"], ["--seconds", "0.2"]):
        done = subprocess.run(
            [sys.executable, "-m", "flowc", "report", str(flow), *words, "--json"],
            capture_output=True,
            text=True,
            timeout=HANGS,
        )
        assert done.returncode == 0, done.stderr
        assert 0 < json.loads(done.stdout)["apps"][0]["frames"] < 20_000
    (tmp_path / "copy" / "t.py").write_text(CODE + "\ndef show(n): raise ValueError('no screen')\n")
    store_profile(flow, TIMES)
    found = report(flow, run=NewRun(2))
    assert (
        found.status == 1 and "no screen" in found.document.failure and found.document.status == 1
    )


def test_data_is_from_the_commands_that_make_it(ran: Ran, tmp_path: Path) -> None:
    """With all that a mapping supposes; times of another tool were not measured by flowc."""
    flow = (
        Path(
            shutil.copytree(ran[0].parent, tmp_path / "copy", ignore=shutil.ignore_patterns("out"))
        )
        / "paced.flow"
    )
    store_profile(flow, TIMES, platform="two")
    valid = check(flow, platform="two").require()
    places = tuple(Placement(name, ("core[0]",)) for name in TIMES)
    effort = Effort("latency", seed=3)
    save_mapping(
        valid, Mapping("two", places, search="exact", effort=effort, supposed=Supposed("25/2", 1))
    )
    measured, mapped = report(flow, platform="two").document.commands
    assert measured == "flowc profile paced.flow --platform two"
    assert mapped == (
        "flowc map paced.flow --search exact --objective latency --seed 3 --fps 25/2 --cores 1 --keep --platform two"
    )
    stored = flow.with_name("paced.two.profile.json")
    profile = json.loads(stored.read_text())
    for entry in profile["entries"]:
        entry["host_hash"] = ""
    stored.write_text(json.dumps({**profile, "host": "times of a project"}))
    document = report(flow, platform="two").document
    assert (document.imported, document.machine, document.commands) == (
        True,
        "times of a project",
        (mapped,),
    )
    assert {t.times_from for t in document.tasks} == {"imported"}


def test_without_anything_known_every_gap_names_its_command(write: Write) -> None:
    found = report(
        write("task A { out x }  task B { in x }  app Plain { a: A  b: B  a -> b }")
    ).document
    assert (
        found.missing["times"] == "flowc profile app.flow"
        and found.missing["run"] == "flowc report app.flow --run 200"
    )
    assert found.missing["search"] == found.missing["bounds"] == "flowc map app.flow"
    assert all(t.predicted_ns is None and t.measured_ns is None for t in found.tasks)
    (chart,) = found.predicted
    assert chart.unit and found.measured is None


def test_the_verdict_on_the_period_is_that_of_check_or_of_the_mapping(write: Write) -> None:
    def verdict() -> tuple[bool | None, str]:
        (row,) = report(flow).document.apps
        return row.schedulable, row.schedulable_by

    def by_check() -> bool | None:
        return measured.check(flow).verdicts["Paced"].schedulable.holds

    flow = write(TEXT, t_py=CODE)
    assert verdict() == (None, "")
    store_profile(flow, TIMES)
    assert by_check() is True and verdict() == (True, "profile")
    store_profile(flow, {**TIMES, "Paced.work": 31_000_000})
    assert by_check() is False and verdict() == (False, "profile")
    store_profile(flow, TIMES)
    mapped(flow, 30_000_000, interpreter=True)
    assert verdict() == (True, "profile")
    mapped(flow, 30_000_000)
    assert verdict() == (True, "mapping")


STATES = """
task Camera { out n: int64   wcet 1 ms   python "t.py:camera" }
task Show { in n: int64   event seen   wcet 2 ms   python "t.py:Show" }
app A { period 10 ms   camera: Camera   show: Show   camera -> show }
app B { period 20 ms   camera: Camera   show: Show   camera -> show }
scenario S {
    event turn
    initial state one { run A   weight 0.8 }
    state two { run A, B }
    one -> two on turn   two -> one after 40 ms   two -> one on A.show.seen
    minimise energy
}
platform duo { cpu core[2] frequencies [500, 1000] MHz idle [0.1, 0.2] W busy [1, 3] W }
"""


def test_states_and_changes_stand_beside_what_was_proved_of_them(
    write: Write, tmp_path: Path
) -> None:
    code = "import numpy as np\ndef camera(): return np.int64(1)\nclass Show:\n"
    flow = write(
        STATES, t_py=code + "    def __init__(self, seen): pass\n    def __call__(self, n): pass\n"
    )
    find_mapping(flow, platform="duo", budget=2, measure=False)
    built = tmp_path / "b"
    (tmp_path / "events").write_text("2 A turn\n")
    flowc_build(flow, built, platform="duo", measure=False)
    done = run(
        built,
        "--events",
        str(tmp_path / "events"),
        "--frames",
        "9",
        "--report",
        str(tmp_path / "r.json"),
        "--quiet",
    )
    assert done.returncode == 0, done.stderr
    document = report(flow, platform="duo", run=RunFiles(tmp_path / "r.json")).document
    assert document.search is not None and document.commands[0].startswith("flowc map app.flow")
    assert [(b.app, b.bound_ns, b.deadline_ns) for b in document.states[0].bounds] == [
        ("A", 6_000_000, 10_000_000)
    ]
    one, two = document.states
    assert (one.name, one.runs, one.weight, one.clocks) == (
        "one",
        ("A every 10 ms",),
        0.8,
        "core 500 MHz",
    )
    assert (
        one.energy_mw == pytest.approx(1000 * (0.2 + 6 / 10))
        and one.joules is not None
        and two.entered == 1
    )
    assert [(c.source, c.target, c.on, c.bound_ns) for c in document.changes] == [
        ("one", "two", "turn", 18_000_000), ("two", "one", "after 0.04 s, A.show.seen", 18_000_000)
    ]  # fmt: skip
    assert document.changes[0].count == 1 and document.changes[0].max_ns is not None
    assert json.loads(document.to_json())["changes"][1]["source"] == "two"
    assert report(flow, platform="duo").document.states[0].seconds is None


def test_a_network_without_a_file_is_where_the_board_has_its_stages(write: Write) -> None:
    """Nothing here can cut it: it stands on the processors of its stages, and takes what these
    take."""
    flow = write(
        "task Find { in x  out y  wcet 40 ms }\ntask Ends { out x }\ntask Show { in y  wcet 1 ms }\n"
        "app A { ends: Ends  find: Find  show: Show  ends -> find -> show }\n"
        "platform board { cpu core[2]  gpu volta  dla dla }\n"
        "mapping on board { A.ends -> core[0] wcet 1 ms }\n"
    )
    stages = (StagePlan(("volta",), "a", predicted_ns=2e6), StagePlan(("dla",), predicted_ns=6e6))
    places = (Placement("A.ends", ("core[0]",)), Placement("A.show", ("core[1]",)))
    valid = check(flow, platform="board").require()
    save_mapping(
        valid, Mapping("board", places, search="auto", networks=(NetworkPlan("A.find", stages),))
    )
    found = report(flow, platform="board").document
    (row,) = [t for t in found.tasks if t.name == "A.find"]
    assert (row.processors, row.predicted_ns) == (("volta", "dla"), 8_000_000)
    assert {lane.name for lane in found.predicted[0].lanes if lane.bars} >= {
        "core[0]",
        "core[1]",
        "dla",
    }


@pytest.mark.parametrize("measured", [False, True])
def test_what_ran_in_cpp_is_shown_as_that(write: Write, tmp_path: Path, measured: bool) -> None:
    """A program in C++ of a text for which there is nothing of the one in Python."""
    flow = write(
        'task A { out x: int32   c "a.c:a" }\napp P { a: A }\n',
        a_c="int a(void *s, int32_t *x, const void *p) { return 0; }\n",
    )
    native = look(flow, native=True)
    entry = ProfileEntry(
        "cpu", "P.a", "", task_hashes(native.valid.system)["P.a"], host_hash(), 10, 7, 0, 9, 9
    )
    if measured:
        assert not save_profile(native.valid, Profile("host", "this one", (entry,)))
        native = look(flow, native=True)
    _, in_cpp = digests(deployment(native.built, native.profile)[1], native.built.system)
    ran = {"version": 1, "build": in_cpp, "apps": {}, "tasks": {}, "processors": {}}
    (tmp_path / "r.json").write_text(json.dumps(ran))
    found = report(flow, run=RunFiles(tmp_path / "r.json")).document
    assert found.commands[-1] == ("flowc run app.flow --frames 0 --report run.json --target native")
    assert found.machine == ("this one" if measured else "")
    assert found.tasks[0].predicted_ns == (7 if measured else None)
    assert found.missing.get("times") == (
        None if measured else "flowc profile app.flow --target native"
    )
