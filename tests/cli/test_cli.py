"""The verbs: exit status, one JSON document on standard output, and what a new user types first."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import flowc
import pytest
from flowc.cli import app
from flowc.model.diagnostic import Errors
from typer.testing import CliRunner

from builds import HANGS, ROOT, Write, store_profile
from forks import FLOWC, PROGRAM, forks

TEXT = """
task Count { out n: int64   python "t.py:Count" }
task Show { in n: int64 rate 2   python "t.py:show" }
app A { c: Count  s: Show   c -> s }
"""
CODE = """
class Count:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return self.n
def show(n): print("got", n)
"""


def call(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return forks(*FLOWC).run(["-m", "flowc", *arguments], cwd=cwd, timeout=HANGS)


def said(*words: str) -> tuple[int, str, str]:
    """Status, standard output and errors of a command, without a process of its own."""
    done = CliRunner().invoke(app, words)
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def flow(write: Write) -> Path:
    made = write(TEXT, t_py=CODE)
    store_profile(made)
    return made


def test_a_starter_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert said("new", "my-app")[0] == 0
    done = call("run", "my-app/my_app.flow", "--frames", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("brightness of four frames") == 2
    assert call("test", "my-app/my_app.flow", cwd=tmp_path).returncode == 0
    assert said("fmt", "--check", "my-app/my_app.flow")[0] == 0
    status, _, stderr = said("new", "my-app")
    assert status == 1 and "not empty" in stderr


def test_a_check_of_a_text_without_apps_says_what_was_checked(write: Write) -> None:
    text = "task T { in x: float32   out y: float32 }   graph G { in x: float32   out y: float32   t: T   x -> t -> y }"
    assert said("check", str(write(text))) == (
        0,
        "no app: names, types, code and networks were checked; rates and deadlock need an app\n",
        "",
    )
    status, stdout, _ = said("check", str(write(f"{text}   app A {{ t: G }}")))
    assert status == 1 and "no app" not in stdout


def test_every_verb_prints_one_json_document(
    flow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    verbs = {
        "check": [], "show": ["-o", "g.png"], "profile": ["--seconds", "0.2"], "build": [], "headers": [],
    }  # fmt: skip
    for verb, extra in verbs.items():
        status, stdout, stderr = said(verb, str(flow), *extra, "--json")
        assert status == 0, (verb, stderr)
        assert isinstance(json.loads(stdout), dict), verb
    for words in (["run", "--frames", "3"], ["test"]):
        done = call(*words, str(flow), "--json", cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)
        assert isinstance(json.loads(done.stdout), dict), words
    for words in (["doctor"], ["explain", "F203"], ["fmt", str(flow)]):
        assert isinstance(json.loads(said(*words, "--json")[1]), dict), words
    assert (tmp_path / "g.png").read_bytes()[:4] == b"\x89PNG"


def test_json_of_check_and_run_follow_the_contract(flow: Path, tmp_path: Path) -> None:
    document = json.loads(said("check", str(flow), "--json")[1])
    assert document == {
        "ok": True,
        "diagnostics": [],
        "apps": {
            "A": {
                "consistent": True,
                "deadlock_free": True,
                "schedulable": True,
                "repetition": {"A.c": 2, "A.s": 1},
                "pace": {},
                "paths": [],
            }
        },
    }
    report = json.loads(call("run", str(flow), "--frames", "3", "--json", cwd=tmp_path).stdout)
    assert (report["status"], report["failure"]) == (0, None)
    app = report["apps"]["A"]
    assert set(app) == {
        "frames", "skipped", "seconds", "fps", "deadline_ms", "deadline_misses", "overruns", "not_begun", "latency_ms", "histogram", "paths",
    }  # fmt: skip
    assert set(report["tasks"]["A.c"]) == {
        "processor", "firings", "mean_us", "std_us", "max_us", "share", "failed", "skipped",
    }  # fmt: skip
    assert all(set(p) == {"utilization"} for p in report["processors"].values())


def test_a_fault_is_data_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.flow").write_text("app A { x: Nothing }")
    for verb in ("check", "build", "run", "test", "show", "profile"):
        status, stdout, stderr = said(verb, "bad.flow", "--json")
        assert status == 1, verb
        document = json.loads(stdout)
        assert document["ok"] is False
        fault = document["diagnostics"][0]
        assert (fault["code"], fault["file"], fault["line"], fault["column"]) == (
            "F101",
            "bad.flow",
            1,
            12,
        )
        assert "error[F101]" in stderr


def test_wrong_usage_exits_with_2(tmp_path: Path) -> None:
    for arguments in (
        ["frobnicate"],
        ["check"],
        ["run", "x.flow", "--frames", "many"],
        ["explain", "F999"],
    ):
        assert said(*arguments)[0] == 2, arguments
    assert (
        subprocess.run(
            [sys.executable, "-m", "flowc", "frobnicate"],
            capture_output=True,
            check=False,
            timeout=HANGS,
        ).returncode
        == 2
    )


def test_a_mistake_of_ours_is_an_internal_error(tmp_path: Path) -> None:
    script = "import flowc.driver.text.check as d, flowc.cli\ndef broken(*a, **k): raise KeyError('x')\nd.check = broken\nflowc.cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "check", "x.flow"],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    assert done.returncode == 70
    assert "Traceback" in done.stderr and "mistake in flowc" in done.stderr


def test_a_failing_program_gives_status_1(write: Write, tmp_path: Path) -> None:
    flow = write(TEXT, t_py=CODE.replace("print", "1 / 0"))
    store_profile(flow)
    ran = call("run", str(flow), "--json", cwd=tmp_path)
    failure = json.loads(ran.stdout)["failure"]
    assert ran.returncode == 1 and (failure["task"], failure["firing"]) == ("A.s", 0)
    assert call("test", str(flow), cwd=tmp_path).returncode == 1


#: The tests of every app.
TESTS = [
    "test_channels_keep_their_capacities",
    "test_every_input_equals_the_sequential_reference",
    "test_frames_are_complete_and_in_order",
    "test_throughput_is_reported",
]


def suites(junit: Path) -> ElementTree.Element:
    """The root of a JUnit file whose counts are right."""
    root = ElementTree.parse(junit).getroot()
    (suite,) = root
    assert (root.tag, suite.tag, {c.tag for c in suite}) == (
        "testsuites",
        "testsuite",
        {"testcase"},
    )
    for element in (root, suite):
        assert int(element.attrib["tests"]) == len(suite)
        for plural, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(element.attrib[plural]) == len(suite.findall(f"testcase/{tag}"))
    return root


def test_tests_are_listed_and_written_for_a_build_server(flow: Path, tmp_path: Path) -> None:
    done = call("test", str(flow), "--json", "--junit", "reports/tests.xml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["ok"] and [t["name"] for t in document["tests"]] == TESTS
    assert {(t["app"], t["outcome"], t["message"]) for t in document["tests"]} == {
        ("A", "passed", "")
    }
    root = suites(tmp_path / "reports" / "tests.xml")
    assert [(c.attrib["classname"], c.attrib["name"]) for c in root.iter("testcase")] == [
        ("app.A", n) for n in TESTS
    ]


def test_exactly_equal_is_also_the_sign_of_zero(write: Write, tmp_path: Path) -> None:
    """But one NaN is as good as another; and it is said how much was compared."""
    text = """
    task S { out x: float64  python "t.py:s" }
    task M { in x: float64  out y: float64  python "t.py:m" }
    task E { in y: float64  python "t.py:e" }
    app A { s: S  m: M  e: E  s -> m -> e }
    """
    code = """
import math, sys
def s(): return 1.0
def e(y): pass
def m(x):
    sys.fired = getattr(sys, "fired", 0) + 1
    return FIRST if sys.fired <= 4 else AGAIN
"""
    for first, again, status in (("0.0", "-0.0", 1), ("math.nan", "-math.nan", 0)):
        written = code.replace("FIRST", first).replace("AGAIN", again)
        flow = write(text, t_py=written)
        done = call("test", str(flow), "--no-measure", "--frames", "4", cwd=tmp_path)
        assert done.returncode == status, done.stderr
        if status:
            assert "the sign of input y of A.e, firing 0" in done.stderr
        else:
            assert "A: the inputs of 12 firings are equal, of 4 frames\n" in done.stderr


def test_what_failed_is_in_both(write: Write, tmp_path: Path) -> None:
    """Also with characters that XML cannot hold."""
    flow = write(TEXT, t_py=CODE.replace('print("got", n)', 'raise ValueError("<no> \\x01 luck")'))
    store_profile(flow)
    done = call("test", str(flow), "--json", "--junit", "tests.xml", cwd=tmp_path)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert not document["ok"] and {t["outcome"] for t in document["tests"]} == {"failed"}
    assert "ValueError: <no> \x01 luck" in document["tests"][0]["message"]
    (case, *_) = suites(tmp_path / "tests.xml").iter("failure")
    assert case.attrib["message"].endswith("ValueError: <no> ? luck") and "Traceback" in (
        case.text or ""
    )


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL"),
        ("import os; os._exit(0)", "exited with status 0"),
    ],
)
def test_a_harness_that_is_gone_is_an_error(
    code: str, said: str, write: Write, tmp_path: Path
) -> None:
    flow = write(TEXT, t_py=CODE.replace('print("got", n)', code))
    store_profile(flow)
    done = call("test", str(flow), "--json", "--junit", "tests.xml", cwd=tmp_path)
    assert done.returncode == 1
    (test,) = json.loads(done.stdout)["tests"]
    assert (test["name"], test["outcome"], test["message"]) == (
        "harness",
        "error",
        f"the process of the tests {said}",
    )
    assert len(list(suites(tmp_path / "tests.xml").iter("error"))) == 1


def test_a_build_that_cannot_be_imported_fails_every_app(write: Write, tmp_path: Path) -> None:
    """What unittest reports of a class or a file instead of its tests."""
    flow = write(TEXT, t_py=CODE)
    store_profile(flow)
    built = flowc.build(flow, tmp_path / "out").directory
    (built / "tests" / "test_app.py").unlink(missing_ok=True)
    (built / "tests" / "test_other.py").write_text("import nothing_like_it\n")
    done = forks(*PROGRAM).run(
        ["-m", "runtime.outcomes", tmp_path / "o.json"], cwd=built, timeout=HANGS
    )
    assert done.returncode == 1
    found = {
        t["name"]: t["outcome"] for t in json.loads((tmp_path / "o.json").read_text())["tests"]
    }
    assert found.pop("test_other") == "error" and set(found) == set(TESTS)


@pytest.mark.parametrize("everybody", [True, False])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_run_hands_signals_on(
    flow: Path, tmp_path: Path, number: int, status: int, everybody: bool
) -> None:
    """Sent to the whole group, as a terminal does, or to flowc alone."""
    mark = tmp_path / "twenty"
    slow = f"import time; time.sleep(0.01); self.n += 1; self.n == 20 and open({str(mark)!r}, 'w').close()"
    flow.with_name("t.py").write_text(CODE.replace("self.n += 1", slow))
    store_profile(flow)
    command = [sys.executable, "-m", "flowc", "run", str(flow), "--json"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        give_up = time.monotonic() + HANGS
        while not mark.exists() and child.poll() is None and time.monotonic() < give_up:
            time.sleep(0.02)
        if everybody:
            os.killpg(child.pid, number)
        else:
            child.send_signal(number)
        stdout, stderr = child.communicate(timeout=HANGS)
    assert child.returncode == status, stderr
    assert json.loads(stdout)["apps"]["A"]["frames"] >= 8


def test_the_second_build_is_up_to_date(
    flow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = json.loads(said("build", str(flow), "--json")[1])
    second = json.loads(said("build", str(flow), "--json")[1])
    assert (first["fresh"], second["fresh"]) == (True, False)
    assert first["digest"] == second["digest"]
    assert first["directory"] == "build/app"


def test_building_measures_once_and_keeps_the_profile(write: Write, tmp_path: Path) -> None:
    flow = write(TEXT, t_py=CODE)
    assert said("build", str(flow), "-o", str(tmp_path / "out"))[0] == 0
    profile = json.loads((tmp_path / "app.host.profile.json").read_text())
    assert profile["version"] == 1 and profile["platform"] == "host"
    entry = profile["entries"][0]
    assert {"processor", "subject", "implementation", "content_hash", "host_hash", "batch", "precision", "samples",
            "mean_ns", "std_ns", "max_ns", "wcet_ns", "energy_nj", "estimated", "layers", "overhead_ns", "held", "totals_ns"} == set(entry)  # fmt: skip
    assert entry["wcet_ns"] >= entry["max_ns"] >= entry["mean_ns"] > 0
    before = (tmp_path / "app.host.profile.json").stat().st_mtime_ns
    assert said("build", str(flow), "-o", str(tmp_path / "out"))[0] == 0
    assert (tmp_path / "app.host.profile.json").stat().st_mtime_ns == before


def test_headers_help_to_write_c(write: Write, tmp_path: Path) -> None:
    flow = write(
        'task Scale(by: float) { in x: float32[4] rate 2  out y: float32[4] rate 2  state n: int32  c "s.c:scale" }\n'
        "app A { a: Scale(by = 2)  b: Scale(by = 3)  a -> b  b -> delay 4 -> a }",
        s_c="/* nothing yet */\n",
    )
    status, _, stderr = said("headers", str(flow))
    assert status == 0, stderr
    text = (tmp_path / "s.flow.h").read_text()
    assert "int scale(void *state, const float *x, float *y, const scale_params *p);" in text
    assert "double by;" in text and "int32_t n;" in text
    assert (
        subprocess.run(
            ["cc", "-fsyntax-only", "-Wall", "-Werror", str(tmp_path / "s.flow.h")],
            check=False,
            timeout=HANGS,
        ).returncode
        == 0
    )


def test_the_python_face(flow: Path, tmp_path: Path) -> None:
    assert flowc.check(flow).verdicts["A"].repetition == {"A.c": 2, "A.s": 1}
    assert [a.name for a in flowc.load(flow).apps] == ["A"]
    built = flowc.build(flow, tmp_path / "out")
    assert (built.directory / "main.py").is_file() and re.fullmatch(r"[0-9a-f]{64}", built.digest)
    flow.write_text("app A { }")
    with pytest.raises(Errors) as raised:
        flowc.load(flow)
    assert raised.value.diagnostics[0].code == "F215"


def test_version_and_module(tmp_path: Path) -> None:
    done = call("--version", cwd=tmp_path)
    assert done.stdout.strip() == f"flowc {flowc.__version__}"


def test_readme_shows_what_happens(tmp_path: Path) -> None:
    """The smallest text of README, and what it prints."""
    blocks = re.findall(r"```(\w*)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    text, python, checked, ran = [body for kind, body in blocks if kind != "sh"]
    (tmp_path / "spot.flow").write_text(text)
    (tmp_path / "spot.py").write_text(python)
    assert call("check", "spot.flow", cwd=tmp_path).stdout == checked
    assert call("run", "spot.flow", "--frames", "2", cwd=tmp_path).stdout.startswith(ran)


def test_a_text_with_errors_has_no_verdicts_that_missing_parts_could_change(tmp_path: Path) -> None:
    """What a part of a graph forbids, all of it forbids."""
    (tmp_path / "t.py").write_text("def a(): return 1\ndef b(*x): pass\n")
    (tmp_path / "bad.flow").write_text(
        'task A { out x: int32 rate 2  out y: int32  python "t.py:a" }\n'
        'task B { in x: int32  in y: int32  python "t.py:b" }\n'
        "app Lost { a: A  p: Prep  b: B  p.x -> b.x  a.y -> b.y }\n"
        "app Never { a: A  b: B  a.x -> b.x  a.y -> b.y }\n"
    )
    document = json.loads(said("check", str(tmp_path / "bad.flow"), "--json")[1])
    assert not document["ok"]
    lost = document["apps"]["Lost"]
    assert [lost[v] for v in ("consistent", "deadlock_free", "schedulable")] == [None] * 3
    assert lost["repetition"] == {} and document["apps"]["Never"]["consistent"] is False
