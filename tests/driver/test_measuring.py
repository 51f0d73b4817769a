"""Building without running anything: what is known counts, what is not is said, and nothing is
stored."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import flowc
import onnx
import pytest
from flowc.cli import app
from flowc.driver.measure import measure as measuring
from flowc.driver.text import store
from flowc.model.diagnostic import Diagnostic, Errors
from flowc.model.profile import Profile
from flowc.profiling.measure import MeasurementFailed
from typer.testing import CliRunner

from builds import SHORT, Write, pretend_runs, run, store_profile
from cnns import mobilenet

COUNT = 'task Count { out n: int64  python "t.py:Count" %s }\n'
HALF = 'task Half { in n: int64  out m: int64  python "h.py:half" %s }\n'
SHOW = 'task Show { in n: int64  python "s.py:show" %s }\n'
APP = "app A { c: Count  h: Half  s: Show  c -> h -> s }\n"
TEXT = (COUNT + HALF + SHOW) % ("", "", "") + APP
CODE = {
    "t_py": "class Count:\n    n = -1\n    def __call__(self):\n        self.n += 1\n        return self.n\n",
    "h_py": "def half(n): return n // 2\n",
    "s_py": "def show(n): print(n)\n",
}


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever would be run fails."""

    def refused(*given: object, **options: object) -> None:
        raise AssertionError("something was run")

    monkeypatch.setattr(measuring, "run_build", refused)
    monkeypatch.setattr(measuring, "layer_times", refused)
    monkeypatch.setattr("flowc.profiling.machine.runtime_costs", refused)


def profile_of(flow: Path) -> Path:
    return flow.with_name("app.host.profile.json")


def another_machine(flow: Path) -> None:
    """Let the stored profile be one of another machine."""
    profile = Profile.from_json(profile_of(flow).read_bytes())
    entries = tuple(replace(e, host_hash="another") for e in profile.entries)
    profile_of(flow).write_text(replace(profile, host="a Raspberry Pi", entries=entries).to_json())


def warned(diagnostics: tuple[Diagnostic, ...]) -> list[tuple[str, str]]:
    return [(d.code, d.message) for d in diagnostics]


# -- without measuring -----------------------------------------------------------------------------
@pytest.mark.usefixtures("nothing_runs")
def test_an_app_of_which_nothing_is_known_is_built(write: Write, tmp_path: Path) -> None:
    flow = write(TEXT, **CODE)
    built = flowc.build(flow, tmp_path / "out", measure=False)
    assert warned(built.diagnostics) == [
        (
            "F614",
            "no times of `A.c`, `A.h` and `A.s` are known: all tasks are assumed to take the same time",
        ),
    ]
    assert (built.profile, set(built.times.values())) == (None, {"unknown"})
    assert not profile_of(flow).exists()
    assert run(built.directory, "--frames", "4", "--quiet").stdout.split() == ["0", "0", "1", "1"]


@pytest.mark.usefixtures("nothing_runs")
def test_what_the_text_says_is_enough(write: Write, tmp_path: Path) -> None:
    text = (COUNT + HALF + SHOW) % ("wcet 1 us", "", "wcet 2 us") + APP
    flow = write(
        text + "platform two { cpu core[2] }\nmapping on two { A.h -> core[1] wcet 5 us }", **CODE
    )
    built = flowc.build(flow, tmp_path / "out", platform="two", measure=False)
    assert built.diagnostics == ()
    assert built.times == {"A.c": "declared", "A.h": "pin", "A.s": "declared"}


@pytest.mark.usefixtures("nothing_runs")
def test_a_profile_of_another_machine_counts_as_an_estimate(write: Write, tmp_path: Path) -> None:
    flow = write(TEXT, **CODE)
    store_profile(flow, {"A.c": 1000, "A.h": 7000, "A.s": 3000})
    another_machine(flow)
    before = profile_of(flow).read_bytes()
    built = flowc.build(flow, tmp_path / "out", measure=False)
    ((code, message),) = warned(built.diagnostics)
    assert (
        code == "F614"
        and "another machine (a Raspberry Pi): its times count as estimates" in message
    )
    assert set(built.times.values()) == {"estimated"} and built.profile is not None
    assert {e.subject: e.mean_ns for e in built.profile.entries} == {
        "A.c": 1000,
        "A.h": 7000,
        "A.s": 3000,
    }
    assert profile_of(flow).read_bytes() == before


@pytest.mark.usefixtures("nothing_runs")
def test_a_file_is_named_where_all_of_its_tasks_changed(write: Write, tmp_path: Path) -> None:
    code = CODE["t_py"] + CODE["s_py"]
    flow = write(TEXT.replace("s.py", "t.py"), t_py=code, h_py=CODE["h_py"])
    store_profile(flow)
    flow.with_name("t.py").write_text(f"{code}\nCHANGED = 1\n")
    built = flowc.build(flow, tmp_path / "out", measure=False)
    ((_, message),) = warned(built.diagnostics)
    assert "is stale: `t.py` or its tasks (`A.c` and `A.s`) changed since" in message


@pytest.mark.usefixtures("nothing_runs")
def test_only_what_changed_is_an_estimate(write: Write, tmp_path: Path) -> None:
    flow = write(TEXT, **CODE)
    store_profile(flow)
    flow.with_name("h.py").write_text("def half(n): return n // 3\n")
    built = flowc.build(flow, tmp_path / "out", measure=False)
    ((code, message),) = warned(built.diagnostics)
    assert code == "F614" and "is stale: `A.h` changed since" in message
    assert built.times == {"A.c": "measured", "A.h": "estimated", "A.s": "measured"}


@pytest.mark.usefixtures("nothing_runs")
def test_a_task_without_times_counts_like_the_others(write: Write, tmp_path: Path) -> None:
    """On two cores the unknown task gets its share of the work: it does not count as nothing."""
    text = (COUNT + HALF + SHOW) % ("", "wcet 10 ms", "") + APP
    flow = write(text + "platform two { cpu core[2] }", **CODE)
    store_profile(flow, {"A.c": 10_000_000}, platform="two")
    stored = flow.with_name("app.two.profile.json")
    profile = Profile.from_json(stored.read_bytes())
    stored.write_text(
        replace(profile, entries=tuple(e for e in profile.entries if e.subject != "A.s")).to_json()
    )
    built = flowc.build(flow, tmp_path / "out", platform="two", measure=False)
    assert warned(built.diagnostics) == [
        ("F614", "no times of `A.s` are known: they are assumed to take the mean of the others"),
    ]
    assert built.times["A.s"] == "unknown"
    (period,) = (ns for _, ns in built.mapping.predicted_period_ns)
    assert period >= 15e6  # half of 30 ms, and not of 20


@pytest.mark.usefixtures("nothing_runs")
def test_map_runs_nothing_either(write: Write, tmp_path: Path) -> None:
    onnx.save(mobilenet(), tmp_path / "net.onnx")
    text = """
    task Source { out x: float32[1, 3, 32, 32]  python "t.py:source" }
    network Net from "net.onnx" { batch 1  in x from "image"  out y from "scores" }
    task Sink { in y: float32[1, 10]  python "t.py:sink" }
    app A { source: Source  net: Net  sink: Sink  source -> net -> sink }
    """
    flow = write(text, t_py="def source(): return 1 / 0\ndef sink(y): pass\n")
    mapped = flowc.map(flow, measure=False, budget=1.0)
    assert [d.code for d in mapped.diagnostics] == ["F614"]
    assert mapped.mapping.effort.measured_runs == 0
    assert mapped.path is None  # it rests on guesses
    assert not profile_of(flow).exists()


@pytest.mark.usefixtures("nothing_runs")
def test_map_of_deadlines_runs_nothing_either(write: Write) -> None:
    text = (COUNT + HALF + SHOW) % ("wcet 1 us", "wcet 1 us", "wcet 1 us") + APP.replace(
        "{", "{ period 5 ms ", 1
    )
    mapped = flowc.map(write(text, **CODE), measure=False, budget=1.0)
    assert mapped.joint is not None and mapped.joint.seen is None and not mapped.late


# -- measuring, and what is said of it -------------------------------------------------------------
def test_tasks_that_a_profile_lacks_are_named_and_measured(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_runs(monkeypatch)
    flow = write(TEXT.replace("c -> h -> s", "c -> s").replace("h: Half", ""), **CODE)
    store_profile(flow)
    flow.write_text(TEXT)
    profile, warnings = store.read_profile(flowc.check(flow).require())
    assert profile is None and warned(warnings) == [
        ("F607", "`app.host.profile.json` has no times of `A.h`")
    ]
    told: list[str] = []
    monkeypatch.setattr(measuring, "SHORT", SHORT)
    built = flowc.build(flow, tmp_path / "out", on_measure=told.append)
    assert told == ["measuring app for 1.5 s: its tasks run, sinks included"]
    assert [d.code for d in built.diagnostics] == ["F607"] and set(built.times.values()) == {
        "measured"
    }
    assert (
        flowc.build(flow, tmp_path / "out", on_measure=told.append).diagnostics == ()
        and len(told) == 1
    )


def test_measuring_is_announced_beside_the_document(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_runs(monkeypatch)
    monkeypatch.setattr(measuring, "SHORT", SHORT)
    monkeypatch.chdir(tmp_path)
    flow = write(TEXT, **CODE)
    first, second = (CliRunner().invoke(app, ["build", str(flow), "--json"]) for _ in range(2))
    assert json.loads(first.stdout)["times"]["A.c"] == "measured"
    said = (
        "flowc: measuring app for 1.5 s: its tasks run, sinks included (--no-measure skips this)\n"
    )
    assert (first.stderr, second.stderr) == (said, "")


def test_mappings_that_are_tried_are_announced(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_runs(monkeypatch)
    flow = write(TEXT, **CODE)
    store_profile(flow)
    told: list[str] = []
    flowc.map(flow, budget=0.5, on_measure=told.append)
    assert told == ["trying mappings of app: its tasks run, sinks included"]


@pytest.mark.parametrize(
    ("said", "way_out"),
    [
        ("no frame of A was finished; cpu[0] is in A.c, firing 0", True),
        ("app A, task A.c failed: cannot start: OSError: no camera", True),
        ("app A, task A.h failed at firing 3: ZeroDivisionError", False),
    ],
)
def test_a_source_without_data_is_told_the_way_out(
    said: str, way_out: bool, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: object, **options: object) -> None:
        raise MeasurementFailed(said)

    monkeypatch.setattr(measuring, "run_build", fails)
    flow = write(TEXT, **CODE)
    with pytest.raises(Errors) as raised:
        flowc.build(flow)
    (fault,) = raised.value.diagnostics
    assert fault.code == "F606" and said in fault.message
    assert ("--no-measure" in (fault.help or "")) is way_out


@pytest.mark.parametrize("task", ["A.c", "A.h"])
@pytest.mark.parametrize(
    ("module", "package"), [("cv2", "opencv-python"), ("scipy.signal", "scipy")]
)
def test_a_module_that_is_missing_is_to_be_installed(
    task: str, module: str, package: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: object, **options: object) -> None:
        why = f"cannot start: ModuleNotFoundError: No module named '{module}'"
        raise MeasurementFailed(f"app A, task {task} failed: {why}")

    monkeypatch.setattr(measuring, "run_build", fails)
    with pytest.raises(Errors) as raised:
        flowc.build(write(TEXT, **CODE))
    (fault,) = raised.value.diagnostics
    top = module.partition(".")[0]
    assert fault.help == (
        f"install what has `{top}` for the Python that runs the tasks:"
        f" `{sys.executable} -m pip install {package}`;"
        " `flowc build --no-measure` builds without running anything"
    )


# -- what gives no result --------------------------------------------------------------------------
REFUSES = """
task Decode { in x: uint8[4]   out y: uint8[4]   on error skip   python "d.py:decode" }
app A { in x: uint8[4]   out y: uint8[4]   decode: Decode   x -> decode -> y }
"""
REFUSED = "app A, task A.decode failed at firing 0: ValueError: no picture"


def test_an_app_that_skips_all_frames_has_no_times(write: Write) -> None:
    flow = write(REFUSES, d_py="def decode(x): raise ValueError('no picture')\n")
    with pytest.raises(Errors) as raised:
        flowc.profile(flow, seconds=0.2)
    (found,) = raised.value.diagnostics
    assert found.code == "F606"
    assert re.search(rf"all \d+ frames of A were skipped; {REFUSED}", found.message)
    assert "random tokens" in str(found.help) and "--no-measure" in str(found.help)


def test_a_test_of_an_app_that_skips_all_frames_fails(write: Write, tmp_path: Path) -> None:
    flow = write(REFUSES, d_py="def decode(x): raise ValueError('no picture')\n")
    tested = flowc.test(flow, tmp_path / "out", measure=False, frames=3, quiet=True)
    told = {t.name: t.message for t in tested.tests if t.outcome != "passed"}
    assert tested.status == 1 and list(told) == ["test_frames_are_complete_and_in_order"]
    assert f"all 3 frames of A were skipped; {REFUSED}" in told.popitem()[1]
    # one request of three is answered, which is enough to compare
    flow.with_name("d.py").write_text(
        "n = 0\ndef decode(x):\n    global n\n    n += 1\n"
        "    if n % 3: raise ValueError('no picture')\n    return x\n"
    )
    assert flowc.test(flow, tmp_path / "out", measure=False, frames=6, quiet=True).status == 0


def test_a_test_passes_in_which_no_token_reaches_the_end(write: Write, tmp_path: Path) -> None:
    """Empty lists are no failures."""
    flow = write(
        'task Find { out y: int32 rate up to 4   python "f.py:find" }\n'
        'task Show { in y: int32   python "f.py:show" }\n'
        "app A { find: Find   show: Show   find -> show }\n",
        f_py="def find(): return []\ndef show(y): pass\n",
    )
    assert flowc.test(flow, tmp_path / "out", measure=False, frames=3, quiet=True).status == 0


def test_what_nothing_reaches_stops_no_program(write: Write, tmp_path: Path) -> None:
    """A detector that finds nothing, and a bell that does not ring while the app is measured."""
    text = """
        task Tick { out n: int64   python "t.py:Tick" }
        task Find { in n: int64   out m: int64 rate up to 1   python "t.py:find" }
        task Use { in m: int64   out k: int64   python "t.py:use" }
        task Show { in k: int64 rate up to 1   python "t.py:show" }
        task Bell { live   out n: int64   python "t.py:Bell" }
        task Ring { in n: int64   python "t.py:show" }
        app A { tick: Tick  find: Find  use: Use  show: Show   tick -> find -> use -> show }
        app B { bell: Bell  ring: Ring   bell -> ring }
    """
    code = """
        import queue
        class Tick:
            n = 0
            def __call__(self):
                self.n += 1
                return self.n
        def find(n): return []
        def use(m): return m
        def show(k): pass
        class Bell:
            def __init__(self): self.rung = queue.Queue()
            def __call__(self): return self.rung.get()
    """
    flow = write(text, t_py=textwrap.dedent(code))
    built = flowc.build(flow, tmp_path / "out")
    told = [d for d in built.diagnostics if d.code == "F626"]
    assert [d.severity for d in told] == ["warning"]
    assert all(name in told[0].message for name in ("`A.use`", "`B.bell`", "`B.ring`"))
    assert built.profile is not None
    assert {s.subject for s in built.profile.silent} == {"A.use", "B.bell", "B.ring"}
    again = flowc.build(flow, tmp_path / "again")
    assert not [d for d in again.diagnostics if d.code in ("F607", "F626")]
