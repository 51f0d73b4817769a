"""Values that parameters get when a program starts: `main.py --set`, and the variable FLOWC_SET."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import flowc
import pytest

from builds import HANGS, Write, build, harness
from forks import FLOWC, PROGRAM, forks

TEXT = """
task Source(start: int = 5, step: float = 0.5, width: int = 2, name: string = "x", loud: bool = true, list: file) {
    out v: float64[width]
    python "a.py:Source"
}
task Scale(by: float = 2, plus: int = 1) { in v: float64[2]  out w: float64[2]  c "s.c:scale" }
task Show(tag: string = "-") { in w: float64[2]  python "a.py:show" }
graph Both { in v: float64[2]  out w: float64[2]  scale: Scale  v -> scale -> w }
app A {
    source[2]: Source(list = "data.txt")
    both[2]: Both
    show[2]: Show
    source -> both.v
    both.w -> show
}
mapping on host { A.show[0] -> cpu[0] process }
"""
PYTHON = """
import numpy as np
class Source:
    def __init__(self, start, step, width, name, loud, list):
        with open(list) as stream:
            print("made", start, step, width, name, loud, stream.read().strip(), flush=True)
        self.value, self.step, self.width = start, step, width
    def __call__(self):
        self.value += self.step
        return np.full(self.width, float(self.value))
def show(w, tag): print(f"{tag} {w[0]}\\n", end="", flush=True)
"""
C = """
int scale(void *state, const double *v, double *w, const scale_params *p) {
    for (int i = 0; i < 2; i++) w[i] = v[i] * p->by + p->plus;
    return 0;
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parameters")
    for name, content in {
        "app.flow": TEXT,
        "a.py": PYTHON,
        "s.c": C,
        "data.txt": "first\n",
    }.items():
        (folder / name).write_text(content)
    return build(folder / "app.flow", folder / "out")


def started(
    directory: Path, *settings: str, variable: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A run of one frame."""
    words = [word for text in settings for word in ("--set", text)]
    command = [directory / "main.py", "--frames", "1", "--quiet", *words]
    return forks(*PROGRAM).run(
        command, cwd=cwd or "/", timeout=HANGS, env={**os.environ, "FLOWC_SET": variable}
    )


def test_tasks_start_with_what_the_text_says(built: Path) -> None:
    done = started(built)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["- 12.0", "- 12.0"] + 2 * [
        "made 5 0.5 2 x True first"
    ]


def test_tasks_start_with_other_values(built: Path, tmp_path: Path) -> None:
    """In Python, in C, in a process, in graphs and arrays; a file from where the program is
    started."""
    (tmp_path / "other.txt").write_text("second\n")
    settings = [
        "A.source[1].list=other.txt",
        "A.source[1].loud=false",
        "A.source[1].start=-7",
        "A.source[1].name=a=b",
    ]
    settings += [
        "A.source[1].step=1e1",
        "A.both[1].scale.by=4",
        "A.both[0].scale.plus=100",
        "A.show[0].tag=own",
    ]
    done = started(built, *settings, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.splitlines()) == {
        "made 5 0.5 2 x True first", "made -7 10.0 2 a=b False second", "own 111.0", "- 13.0",
    }  # fmt: skip


def test_states_start_with_other_values(tmp_path: Path) -> None:
    states = "scenario S { initial state one { run A }  state two { run A period 1 s }  one -> two after 1 min }"
    for name, content in {
        "app.flow": TEXT + states,
        "a.py": PYTHON,
        "s.c": C,
        "data.txt": "first\n",
    }.items():
        (tmp_path / name).write_text(content)
    done = started(
        build(tmp_path / "app.flow", tmp_path / "out"), "A.source[1].start=-7", "A.show[0].tag=own"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert {"made -7 0.5 2 x True first", "own 12.0"} < set(done.stdout.splitlines())


def test_the_command_line_wins_over_the_variable(built: Path) -> None:
    done = started(built, "A.show[0].tag=word", variable="A.show[0].tag=a; A.show[1].tag=b;")
    assert (done.returncode, done.stderr) == (0, "")
    assert {"word 12.0", "b 12.0"} < set(done.stdout.splitlines())


def test_all_mistakes_are_told_before_anything_starts(built: Path, tmp_path: Path) -> None:
    mistakes = {
        "A.source[0].width=3": "it is fixed when the program is built: change it in the .flow",
        "Nothing.of.that=3": "there is no app Nothing",
        "A.sourc.start=3": "app A has no task sourc; did you mean A.source[1].start?",
        "A.source[0].strat=3": "task A.source[0] has no parameter strat; did you mean A.source[0].start?",
        "A.source[0].start=3.5": "an int is needed, such as 3",
        "A.both[0].scale.plus=9223372036854775808": "too large for C's int64_t",
        "A.both[0].scale.by=nan": "a float is needed, such as 0.5",
        "A.source[0].loud=yes": "a bool is needed: true or false",
        "A.source[0].list=none.txt": f"there is no file {tmp_path}/none.txt",
        "A.source[0].list=.": f"there is no file {tmp_path}",
        "start": "write App.task.parameter=value",
    }
    done = started(built, *list(mistakes)[1:], variable="A.source[0].width=3", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    *told, last = done.stderr.splitlines()
    places = ["FLOWC_SET", *["--set"] * (len(mistakes) - 1)]
    assert told == [
        f"flowc: {place} {text}: {why}"
        for place, (text, why) in zip(places, mistakes.items(), strict=True)
    ]
    assert last.startswith(
        "flowc: parameters that can be set: A.source[0].start (int, 5), A.source[0].step (float, 0.5)"
    )
    assert "A.source[0].list (file, data.txt)" in last and "width" not in last


def test_an_opened_program_starts_with_other_values(
    built: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that it is given: the variable is for programs of their own."""
    monkeypatch.setenv("FLOWC_SET", "A.source[1].start=8")
    with flowc.open(built, frames=1, settings=["A.source[0].start=-7"]):
        pass
    made = [
        line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("made")
    ]
    assert sorted(made) == ["-7", "5"]
    with pytest.raises(ValueError, match="an int is needed") as caught:
        flowc.open(built, settings=["A.sourc.start=1", "A.source[0].start=x"])
    assert "settings: A.sourc.start=1: app A has no task sourc; did you mean" in str(caught.value)


def test_without_parameters_there_is_nothing_to_list(write: Write, tmp_path: Path) -> None:
    flow = write(
        'task T { out n: int64  python "t.py:t" }\napp A { t: T }', t_py="def t(): return 1\n"
    )
    done = started(build(flow, tmp_path / "out"), "A.t.x=3")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "flowc: no parameter of this program can be set"


def test_what_the_program_is_made_of_is_fixed(write: Write, tmp_path: Path) -> None:
    """Parameters in types, rates, times and state, directly or not; those of kernels as well."""
    text = """
    task Host(rows: int = 2, count: int = 3, time: int = 4, size: int = 5, free: int = 6) {
        out x: float32[rows]  rate count
        state old: float32[size * 2]
        wcet time ms
        c "h.c:host"
    }
    task Device(rows: int = 2, factor: float = 2) {
        in x: float32[rows]  out y: float32[rows]
        on gpu cuda "d.cu:device" (x, y, factor) grid[1] block[rows]
        reference python "d.py:device"
    }
    task End { in y: float32[2]  python "d.py:end" }
    app A { host: Host  device: Device  end: End  host -> device -> end }
    platform board { cpu core  gpu volta }
    """
    kernel = 'extern "C" __global__ void device(const float* x, float* y, float factor) { y[threadIdx.x] = factor * x[threadIdx.x]; }\n'
    host = "int host(void *state, float *x, const host_params *p) { return 0; }\n"
    code = "def device(x, rows, factor): return x * factor\ndef end(y): pass\n"
    flow = write(text, h_c=host, d_cu=kernel, d_py=code)
    built = flowc.build(flow, tmp_path / "out", platform="board", measure=False)
    (app,) = json.loads((built.directory / "deployment.json").read_text())["apps"]
    assert {t["name"]: t["fixed"] for t in app["tasks"]} == {
        "A.host": ["rows", "count", "time", "size"], "A.device": ["rows", "factor"], "A.end": [],
    }  # fmt: skip
    done = started(built.directory, "A.device.factor=3", "A.host.time=1", "A.host.free=x")
    assert (
        done.returncode == 2
        and done.stderr.count("it is fixed") == 2
        and "an int is needed" in done.stderr
    )


def test_the_harness_is_not_affected(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWC_SET", "A.show[0].tag=other;nonsense")
    done = harness(built)
    assert done.returncode == 0, done.stderr
    assert "other" not in done.stdout


def test_flowc_run_passes_all_options_on(built: Path, tmp_path: Path) -> None:
    command = ["-m", "flowc", "run", built.parent / "app.flow", "-o", "out", "--frames", "1"]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return forks(*FLOWC).run([*command, *more], cwd=built.parent, timeout=HANGS)

    report = tmp_path / "report.json"
    done = run("--set", "A.show[1].tag=b", "--watchdog", "7", "--quiet", "--report", str(report))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines())[:2] == ["- 12.0", "b 12.0"] and "fps" not in done.stdout
    assert json.loads(report.read_text())["apps"]["A"]["frames"] == 1
    both = run("--json", "--report", str(report))
    assert json.loads(both.stdout) == json.loads(report.read_text())
    refused = run("--json", "--report", str(report), "--set", "A.x.y=1")
    assert (refused.returncode, refused.stdout) == (
        2,
        "",
    ) and "app A has no task x" in refused.stderr


def test_the_python_face_takes_settings(built: Path) -> None:
    ran = flowc.run(
        built.parent / "app.flow",
        built,
        frames=1,
        settings=["A.source[0].name=face"],
        watchdog=9.0,
        document=True,
    )
    assert ran.status == 0 and ran.report is not None
    assert json.loads(ran.report)["tasks"]["A.source[0]"]["firings"] == 1
