"""The flight recorder of a program, and what `flowc report --around` shows of it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import flowc
import pytest
from flowc.cli import app
from flowc.driver.show.reporting import report
from flowc.report.around import stretch
from flowc.report.measured import read_trace
from typer.testing import CliRunner

from builds import Write, run

TEXT = """
task Src { out x: int32   wcet 1 ms   python "code.py:src" }
task Work { in x: int32   out y: int32   wcet 3 ms   python "code.py:Work" }
task End { in y: int32   wcet 1 ms   python "code.py:end" }
app A { period 20 ms   deadline 1500 ms   src: Src   work: Work   end: End   src -> work -> end }
"""
CODE = """
import time
def src(): return 1
class Work:
    def __init__(self): self.n = -1
    def __call__(self, x):
        self.n += 1
        if self.n == 25: time.sleep(1.8)
        return x
def end(y): pass
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The text, and what its recorder has written: frame 25 is late by 0.3 s, and no
    frame before it, unless the machine is busy for more than a second."""
    folder = tmp_path_factory.mktemp("flight")
    flow = folder / "a.flow"
    flow.write_text(TEXT)
    (folder / "code.py").write_text(CODE)
    flowc.build(flow, folder / "b", measure=False)
    written = folder / "flight.json"
    done = run(folder / "b", "--frames", "60", "--flight-recorder", f"4s:{written}")
    assert done.returncode == 0, done.stderr
    assert f"the last 4 s are in {written}" in done.stderr
    return flow, written


def test_the_last_seconds_around_a_missed_deadline_are_written(
    recorded: tuple[Path, Path],
) -> None:
    document = json.loads(recorded[1].read_text())
    missed = [e for e in document["traceEvents"] if e["name"] == "deadline missed"]
    assert 25 in {event["args"]["frame"] for event in missed}
    firings = [e for e in document["traceEvents"] if e["ph"] == "X"]
    first, last = firings[0]["ts"], firings[-1]["ts"]
    assert last - first < 6_000_000  # microseconds
    assert {e["args"]["frame"] for e in firings if e["name"] == "A.work"} >= {24, 25, 26}


def test_a_program_in_time_writes_nothing(recorded: tuple[Path, Path]) -> None:
    flow = recorded[0]
    out = flow.parent / "none.json"
    done = run(flow.parent / "b", "--frames", "5", "--flight-recorder", f"1s:{out}", "--full-speed")
    assert done.returncode == 0 and not out.exists() and "flight" not in done.stderr


def test_a_failure_is_written(write: Write, tmp_path: Path) -> None:
    flow = write(TEXT, code_py=CODE.replace("time.sleep(1.8)", "raise ValueError('no')"))
    flowc.build(flow, tmp_path / "b", measure=False)
    out = tmp_path / "flight.json"
    done = run(tmp_path / "b", "--flight-recorder", f"60s:{out}")
    assert done.returncode == 1
    document = json.loads(out.read_text())
    assert any(e["ph"] == "X" and e["args"]["frame"] == 24 for e in document["traceEvents"])


@pytest.mark.parametrize("wrong", ["60", "x", "0s", "9999s", "s"])
def test_what_is_no_time_is_refused(recorded: tuple[Path, Path], wrong: str) -> None:
    done = run(recorded[0].parent / "b", "--frames", "1", "--flight-recorder", wrong)
    assert done.returncode == 2 and "60s[:FILE]" in done.stderr
    both = run(recorded[0].parent / "b", "--flight-recorder", "1s", "--trace", "t.json")
    assert both.returncode == 2 and "--trace FILE has everything" in both.stderr


def around(flow: Path, trace: Path, moment: str) -> tuple[int, str]:
    done = CliRunner().invoke(
        app, ["report", str(flow), "--trace-file", str(trace), "--around", moment]
    )
    return done.exit_code, done.stdout + done.stderr


def test_a_report_shows_what_ran_around_a_frame(recorded: tuple[Path, Path]) -> None:
    status, said = around(*recorded, "A 25")
    assert status == 0
    (line,) = [line for line in said.splitlines() if line.startswith("A.work 25")]
    assert "too long" in line and line.split()[5] == "3.000"
    assert "A 25 " in said and "A.src.x->A.work.x" in said
    assert around(*recorded, "25")[0] == 0


def test_a_report_shows_what_ran_at_a_time(recorded: tuple[Path, Path]) -> None:
    traced = read_trace(recorded[1].read_bytes())
    assert traced.began_unix_us is not None
    begin = next(start for _, task, n, _, start, _ in traced.firings if (task, n) == ("A.work", 25))
    began = datetime.fromtimestamp(traced.began_unix_us / 1e6)
    at = (began + timedelta(microseconds=begin / 1000 + 200_000)).strftime("%H:%M:%S.%f")
    status, said = around(*recorded, at)
    assert status == 0 and "A.work 25" in said


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        ("A 9999", "the trace has no such frame: it has A"),
        ("25:00:00", "the trace has"),
        ("yesterday", "write a time such as 12:03:10"),
    ],
)
def test_moments_that_are_not_there(recorded: tuple[Path, Path], moment: str, said: str) -> None:
    status, told = around(*recorded, moment)
    assert status == 2 and said in told.replace("\n", " ")


def test_an_old_trace_does_not_say_when_it_was_made(recorded: tuple[Path, Path]) -> None:
    document = json.loads(recorded[1].read_text())
    del document["otherData"]["began_unix_us"]
    traced = read_trace(json.dumps(document).encode())
    answer = report(recorded[0])
    with pytest.raises(ValueError, match="name a frame"):
        stretch(answer.document, traced, "12:00:00")


def test_a_report_without_a_recording_says_when_one_is_written(
    recorded: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["report", str(recorded[0]), "--around", "A 25"])
    assert done.exit_code == 1 and "F620" in done.output
    assert "writes it when a deadline is missed" in done.output
    status, said = around(recorded[0], tmp_path / "other.json", "A 25")
    assert status == 1 and "--trace FILE` writes one" in said and "missed" not in said
