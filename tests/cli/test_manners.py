"""What makes the verbs pleasant: finding the text, fitting the terminal, a word at the right
time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import flowc
import pytest
from flowc.cli import _common, app
from flowc.cli._common import Progress
from flowc.cli._deadlines import _app_rows
from flowc.cli._tables import fitted, folded
from flowc.cli.run import _print_comparison
from flowc.driver.build.build import Built
from flowc.driver.execute import run as running
from flowc.driver.execute.post_run_report import Bounded, Slower, bounded, slower
from flowc.driver.text.check import check
from flowc.driver.text.store import save_mapping
from flowc.model.catalogue import CODES
from flowc.model.conditions import Condition
from flowc.model.mapping import GroupBound, Mapping, PathBound, Placement
from flowc.model.profile import Profile, ProfileEntry
from flowc.report.measured import Latency, MeasuredRun, RanApp, RanTask
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from builds import HANGS, ROOT, Write, store_profile

TEXT = """
task Make { out x: int64   python "t.py:make" }
task Show { in x: int64   python "t.py:show" }
platform two { cpu core[2] }
app A { make: Make   show: Show   make -> show }
"""
CODE = "def make(): return 1\ndef show(x): pass\n"


def said(*words: str, **options: str) -> tuple[int, str, str]:
    """Status, standard output and errors of a command."""
    done = CliRunner().invoke(app, words, env=options)
    return done.exit_code, done.stdout, done.stderr


# -- help and completion ---------------------------------------------------------------------------
def test_h_is_help() -> None:
    for words in ((), ("check",), ("run",), ("map",)):
        status, stdout, _ = said(*words, "-h")
        assert status == 0 and stdout == said(*words, "--help")[1] and "-h, --help" in stdout


def test_help_of_all_verbs_is_whole_at_80_columns() -> None:
    listed = said("-h")[1].partition("Commands:")[2].splitlines()[1:]
    assert len(listed) >= 15
    for line in listed:
        assert line.endswith(".") and not line.endswith("..."), line


@pytest.mark.parametrize(
    ("words", "offered"),
    [("flowc ch", "check"), ("flowc check --platform ori", "orin"), ("flowc explain F20", "F203")],
)
def test_a_shell_completes(words: str, offered: str) -> None:
    asked = {
        "_FLOWC_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = CliRunner().invoke(app, [], env=asked, prog_name="flowc")
    assert offered in done.stdout.split()


# -- the text that is meant ------------------------------------------------------------------------
def test_the_only_text_of_a_folder_is_meant(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(TEXT, t_py=CODE).parent
    expected = said("check", str(folder / "app.flow"))
    assert expected[0] == 0
    assert said("check", str(folder)) == expected
    monkeypatch.chdir(folder)
    assert said("check") == expected
    assert said("headers")[0] == 0


def test_several_texts_are_listed(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(TEXT, t_py=CODE).parent
    (folder / "b.flow").write_text("const A = 1")
    monkeypatch.chdir(folder)
    status, _, stderr = said("check")
    assert status == 2 and "app.flow, b.flow" in stderr
    (folder / "none").mkdir()
    status, _, stderr = said("analyze", "none")
    assert status == 2 and "no .flow text in `none`" in stderr


# -- one mistake, one error ------------------------------------------------------------------------
@pytest.mark.parametrize(
    "port",
    ["in x: itn64", "in x: int64 rate fou", "in x: int64 window 0", "in x: int64   in x: int64"],
)
def test_a_fault_of_a_port_is_no_fault_of_the_code(write: Write, port: str) -> None:
    flow = write(
        TEXT.replace("in x: int64", port, 1), t_py="def make(): return 1\ndef show(x, y): pass\n"
    )
    found = {d.code for d in flowc.check(flow).diagnostics}
    assert found and "F303" not in found


def test_code_that_is_missing_is_named_beside_a_fault_of_a_port(write: Write) -> None:
    flow = write(
        TEXT.replace("in x: int64", "in x: itn64").replace("t.py:show", "t.py:shwo"), t_py=CODE
    )
    assert {d.code for d in flowc.check(flow).diagnostics} == {"F101", "F302"}


# -- tables ----------------------------------------------------------------------------------------
CELLS = st.text(st.sampled_from("ab ->|,0"), max_size=60).map(lambda t: " ".join(t.split()))


@example(rows=[("", "0" * 25, "")], most=30)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5), most=st.integers(30, 200)
)
def test_a_table_fits_and_loses_nothing(rows: list[tuple[str, str, str]], most: int) -> None:
    heading = ("name", "what", "number")
    text = fitted([list(r) for r in (heading, *rows)], 2, 1, most)
    fixed = sum(max(len(r[i]) for r in (heading, *rows)) for i in (0, 2)) + 4
    longest = max((len(w) for r in rows for w in r[1].split()), default=0)
    assert max(map(len, text.splitlines())) <= max(most, fixed + max(24, longest))
    assert sorted(text.replace("-", "").split()) == sorted(
        " ".join(" ".join(r) for r in (heading, *rows)).replace("-", "").split()
    )


def test_a_table_is_left_alone_where_there_is_no_terminal() -> None:
    wide = [["a", "b"], ["x", "word " * 100]]
    assert len(fitted(wide, 1, 1).splitlines()) == 3
    assert folded("  name  " + "word " * 100, 8).count("\n") == 0
    assert all(
        line.startswith("        ")
        for line in folded("  name  " + "word " * 100, 8, 60).splitlines()[1:]
    )


# -- while something takes long --------------------------------------------------------------------
def test_progress_on_a_pipe_is_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = Progress(lambda: now)
    for tick in range(120):
        now = tick / 10
        progress(f"generation {tick}")
    assert capsys.readouterr().err.splitlines() == ["flowc: generation 50", "flowc: generation 100"]


def test_what_was_written_is_named_in_full_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _common.in_full(Path("a.svg")) == Path("a.svg")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert _common.in_full(Path("a.svg")) == tmp_path / "a.svg"


# -- explanations ----------------------------------------------------------------------------------
def test_explain_lists_all_codes() -> None:
    status, stdout, _ = said("explain")
    assert status == 0
    assert {line.split()[0] for line in stdout.splitlines() if line.startswith("  ")} == set(CODES)
    assert {c["code"] for c in json.loads(said("explain", "--json")[1])["codes"]} == set(CODES)


# -- after a run -----------------------------------------------------------------------------------
def ran(**means_us: float) -> MeasuredRun:
    def latency(ms: float) -> Latency:
        return Latency(100, 0, None, None, None, round(ms * 1e6), (), ())

    tasks = {
        f"A.{n}": RanTask(("core",), 100, 0, round(us * 1000), 0, 0.0) for n, us in means_us.items()
    }
    app = RanApp(100, 0, 1.0, None, 0, latency(2.0), {("path", "A.make", "A.show"): latency(3.5)})
    return MeasuredRun(None, 0, "", {"A": app}, tasks, {}, {})


def built(mapping: Mapping, **means_ns: int) -> Built:
    entries = tuple(
        ProfileEntry("cpu", f"A.{n}", "", "", "", 10, ns, 0, ns, ns) for n, ns in means_ns.items()
    )
    return Built(Path(), "", mapping, Profile("host", "here", entries), (), True)


def test_tasks_that_take_much_longer_than_their_profile_are_named() -> None:
    known = built(Mapping("host", ()), make=1000, show=10_000, look=1_000_000)
    seen = ran(make=5, show=4000, look=1500)  # much of nothing, much of something, not much
    assert slower(known, seen) == (Slower("A.show", 4_000_000, 10_000),)
    assert slower(known, seen, waiting=["A.show"]) == ()
    assert slower(replace(known, profile=None), seen) == ()


def test_bounds_stand_beside_what_was_seen() -> None:
    path = PathBound("A.make", "A.show", 3_000_000, 4_000_000, True)
    group = GroupBound("A", 5_000_000, None, True, paths=(path,))
    found = bounded(built(Mapping("host", (), groups=(group,))), ran())
    assert found == (
        Bounded("A", 5_000_000, None, 2_000_000),
        Bounded("A.make -> show", 3_000_000, 4_000_000, 3_500_000),
    )
    assert [b.exceeded for b in found] == [False, True]


def test_an_app_whose_paths_alone_are_late_is_not_called_late_itself() -> None:
    age = PathBound("B.make", "A.show", 30, 20, False, kind="age")
    path = PathBound("A.make", "A.show", 30, None, True)
    group = GroupBound("A", 10, 50, False, paths=(age, path))
    late = replace(group, response_ns=60)
    assert [row[1] for row in _app_rows((group, late), ran=False)] == ["age too late", "too late"]


def test_bounds_that_were_exceeded_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = (
        Bounded("A", 5_000_000, None, 2_000_000),
        Bounded("A.a -> b", 3_000_000, 4_000_000, 3_500_000),
    )
    _print_comparison(running.FinishedRun(built(Mapping("host", ())), 0, bounded=found))
    assert (
        capsys.readouterr().out
        == """
latency of  bound ms  longest ms  deadline ms
----------  --------  ----------  -----------
A               5.00        2.00            -
A.a -> b        3.00        3.50         4.00
above its bound: A.a -> b; the times that the bound assumes were too short
"""
    )


def test_what_bounds_suppose_stands_beside_them(capsys: pytest.CaptureFixture[str]) -> None:
    free = Condition("interpreter", ("A.a",))
    group = GroupBound("A", 1_000_000, None, True, conditions=(free,))
    other = GroupBound("B", 1_000_000, None, True, conditions=(Condition("measured", ("B.b",)),))
    found = bounded(built(Mapping("host", (), groups=(group,))), ran())
    assert [b.supposed for b in found] == ["the interpreter is free"]
    _print_comparison(
        running.FinishedRun(built(Mapping("host", ())), 0, bounded=(*found, Bounded("B", 5, 9, 2)))
    )
    shown = capsys.readouterr().out
    assert "A           if the interpreter is free      1.00        2.00            -\n" in shown
    assert "too short, or what the bound supposes does not hold\n" in shown
    assert group.supposed == "the interpreter is free" and not other.supposed
    both = replace(group, conditions=(free, Condition("niceness")))
    assert both.supposed == "the interpreter is free and niceness holds"


def test_skipped_frames_are_named_where_data_are_too_old(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = (Bounded("age A.a -> b", 3_000_000, 4_000_000, 3_500_000, (("A", 2),)),)
    _print_comparison(running.FinishedRun(built(Mapping("host", ())), 0, bounded=found))
    assert (
        "above its bound: age A.a -> b; the times that the bound assumes were too short, or data"
        " are older since frames were skipped (2 of A)\n"
    ) in capsys.readouterr().out


def test_a_source_that_paused_is_named_where_a_bound_was_exceeded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    group = GroupBound("A", 1_000_000, None, True)
    seen = ran(make=5)
    tasks = {**seen.tasks, "A.make": replace(seen.tasks["A.make"], wait_us=5e5, period_us=2e4)}
    found = bounded(built(Mapping("host", (), groups=(group,))), replace(seen, tasks=tasks))
    _print_comparison(running.FinishedRun(built(Mapping("host", ())), 0, bounded=found))
    assert (
        "above its bound: A; the times that the bound assumes were too short, or a source paused:"
        " A.make had no data for 500.0 ms (its period: 20.0 ms)\n"
    ) in capsys.readouterr().out


def test_run_says_what_differs_and_who_plays(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = write(TEXT, t_py=CODE)
    store_profile(flow)
    store_profile(flow, platform="two")

    latency = {
        "deadline_ms": None,
        "deadline_misses": 0,
        "latency_ms": dict.fromkeys(("mean", "p50", "p99", "max")),
    }
    app = {"frames": 100, "seconds": 1.0, "fps": 100.0, "overruns": 0, **latency}
    task = {"processor": "core", "firings": 100, "max_us": 4000, "share": 0.4}
    tasks = {"A.make": {**task, "mean_us": 4000}, "A.show": {**task, "mean_us": 1}}
    report = {"apps": {"A": app}, "tasks": tasks, "processors": {}}

    def pretended(host: object, command: list[str], **options: object) -> int:
        place = Path(command[command.index("--report") + 1])
        place.write_text(json.dumps(report))
        return 0

    monkeypatch.setattr(running, "attend", pretended)
    monkeypatch.chdir(flow.parent)
    status, stdout, stderr = said("run", "app.flow", "--frames", "1")
    assert status == 0 and stderr == ""
    assert "bound" not in stdout
    assert stdout.endswith("A.make takes 4000 times its profile: 4000 us instead of 1 us\n")
    status, stdout, stderr = said(
        "run", "app.flow", "--frames", "1", "--platform", "two", "-o", "other"
    )
    assert status == 0 and "profile" not in stdout
    assert "flowc: this machine stands in for `two`" in stderr
    assert "profile" not in said("run", "app.flow", "--quiet")[1]
    assert os.path.isdir("other")
    assert "bounds" not in stdout
    valid = check(flow, platform="two").require()
    places = tuple(Placement(name, (valid.platform.processors[0],)) for name in tasks)
    group = GroupBound("A", 9_000_000, None, True)
    save_mapping(valid, Mapping("two", places, groups=(group,)))
    words = ("run", "app.flow", "--platform", "two", "-o", "other")
    told = "no bounds beside these latencies: they are of `two`, and the times are this machine's"
    assert told in said(*words)[1]
    assert told not in said(*words, "--full-speed")[1] + said(*words, "--quiet")[1]


# -- from cold -------------------------------------------------------------------------------------
def test_a_check_imports_nothing_that_takes_long_and_is_not_needed(write: Write) -> None:
    cyclic = TEXT.replace("make -> show", "make -> show   l: Loop   l -> delay 1 -> l")
    flow = write(cyclic + "task Loop { in x   out y }", t_py=CODE)
    script = "import sys, flowc.cli\ntry: flowc.cli.main()\nfinally: print(*sys.modules)"
    for _ in range(2):  # the first process keeps a compiled grammar for the second one
        done = subprocess.run(
            [sys.executable, "-c", script, "check", flow],
            capture_output=True,
            text=True,
            timeout=HANGS,
            check=True,
        )
    heavy = {
        "networkx",
        "numpy",
        "onnx",
        "onnxruntime",
        "matplotlib",
        "ortools",
        "deap",
        "pygls",
        "mcp",
        "jinja2",
        "lark",
        "pydantic",
        "rich",
        "flowc.cli.run",
    }
    assert not heavy & set(done.stdout.split())


@pytest.mark.parametrize(("server", "extra"), [("lsp", "editor"), ("mcp", "mcp")])
def test_a_client_is_told_which_extra_it_needs(
    server: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowc.model.extras.find_spec", lambda module: None)
    status, stdout, stderr = said(server)
    assert (status, stdout) == (1, "")
    assert "F615" in stderr and f"flowc[{extra}]" in stderr


# -- where little may be written -------------------------------------------------------------------
def test_a_user_without_a_home_sees_no_words_of_libraries(write: Write, tmp_path: Path) -> None:
    flow = write(TEXT, t_py=CODE)
    environment = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"}
    environment.update(dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), "/proc/none"))
    words = [sys.executable, "-m", "flowc", "show", str(flow), "-o", str(tmp_path / "a.svg")]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=HANGS, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "a.svg").exists()


# -- where no process reads ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("redirected", "status"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0), (">/dev/full", 1)]
)
def test_streams_that_are_closed_or_full(redirected: str, status: int) -> None:
    command = f"{sys.executable} -m flowc check {ROOT / 'examples' / 'hello'} {redirected}"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, timeout=HANGS
    )
    assert (done.returncode, "Traceback" in done.stderr) == (status, False)
    assert ("No space left" in done.stderr) == (status == 1)
