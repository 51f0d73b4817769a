"""Clock rates and meters of machines that are folders: what is written, read back, given back, and
counted."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flowc.runtime import power, worker
from flowc.runtime.clocks import Clocks, RatesRefused, Wanted
from flowc.runtime.lifecycle import execute
from flowc.runtime.power import Power
from flowc.runtime.report import report, table

from changing import Sums, patrol
from limits import HANGS

MHZ = 1_000_000
SLOW: Wanted = {"core": ("cpu", 1200 * MHZ, 2400 * MHZ), "volta": ("gpu", 600 * MHZ, 1300 * MHZ)}
FAST: Wanted = {"core": ("cpu", 2400 * MHZ, 2400 * MHZ), "volta": ("gpu", 600 * MHZ, 1300 * MHZ)}


def files(folder: Path, **texts: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n")
    return folder


def cpu(root: Path, number: int = 0, highest: int = 2400) -> Path:
    return files(
        root / f"devices/system/cpu/cpufreq/policy{number}",
        scaling_min_freq=1_000_000, scaling_max_freq=highest * 1000, cpuinfo_max_freq=highest * 1000,
        scaling_available_frequencies=f"1000000 1200000 {highest}000",
    )  # fmt: skip


@pytest.fixture
def board(tmp_path: Path) -> Path:
    cpu(tmp_path)
    files(tmp_path / "class/devfreq/17000000.gv11b", min_freq=300 * MHZ, max_freq=1300 * MHZ)
    return tmp_path


def limits(
    root: Path, least: str = "scaling_min_freq", most: str = "scaling_max_freq"
) -> tuple[int, int]:
    folder = root / "devices/system/cpu/cpufreq/policy0"
    return int((folder / least).read_text()), int((folder / most).read_text())


def given_back(root: Path) -> tuple[int, int]:
    """The limits, once another process than the one that ended has written them: a file is empty
    while it is written, and two processes may write one after the other."""
    deadline = time.monotonic() + HANGS
    folder = root / "devices/system/cpu/cpufreq/policy0"
    while time.monotonic() < deadline:
        texts = [(folder / f"scaling_{name}_freq").read_text() for name in ("min", "max")]
        if [text.strip() for text in texts] == ["1000000", "2400000"]:
            return 1_000_000, 2_400_000
        time.sleep(0.01)
    return limits(root)


def test_rates_go_up_before_a_change_and_down_after_it_and_back_at_the_end(board: Path) -> None:
    clocks = Clocks([SLOW, FAST], str(board))
    assert limits(board) == (1_000_000, 2_400_000)
    clocks.lower(SLOW)
    assert limits(board) == (1_200_000, 1_200_000)
    clocks.reach(FAST)
    assert limits(board) == (2_400_000, 2_400_000)
    clocks.reach(SLOW)
    assert limits(board) == (2_400_000, 2_400_000)
    clocks.lower(SLOW)
    assert limits(board) == (1_200_000, 1_200_000)
    gpu = board / "class/devfreq/17000000.gv11b"
    assert {int((gpu / name).read_text()) for name in ("min_freq", "max_freq")} == {600 * MHZ}
    clocks.restore()
    assert (
        limits(board) == (1_000_000, 2_400_000)
        and int((gpu / "max_freq").read_text()) == 1300 * MHZ
    )


def test_several_pools_of_cpus_are_told_apart_by_their_highest_rates(board: Path) -> None:
    small = cpu(board, 1, 1800)
    wanted: Wanted = {
        "big": ("cpu", 2400 * MHZ, 2400 * MHZ),
        "small": ("cpu", 1200 * MHZ, 1800 * MHZ),
    }
    Clocks([wanted], str(board)).lower(wanted)
    assert limits(board) == (2_400_000, 2_400_000)
    assert (small / "scaling_max_freq").read_text().strip() == "1200000"


def test_what_cannot_be_set_is_said(board: Path, tmp_path: Path) -> None:
    with pytest.raises(RatesRefused, match="no clock of `nvdla` is to be found"):
        Clocks([{"nvdla": ("dla", MHZ, MHZ)}], str(board))
    with pytest.raises(RatesRefused, match="a clock of `core` has no rate of 1300 MHz"):
        Clocks([{"core": ("cpu", 1300 * MHZ, 2400 * MHZ)}], str(board))
    folder = board / "devices/system/cpu/cpufreq/policy0"
    clocks = Clocks([SLOW], str(board))
    (folder / "scaling_min_freq").unlink()
    with pytest.raises(RatesRefused, match="the clock of `core` cannot be set: No such file"):
        clocks.lower(SLOW)
    clocks.restore()


def test_a_rate_that_is_not_kept_is_said(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks([SLOW], str(board))
    for knob in clocks._knobs["core"]:
        monkeypatch.setattr(knob, "hold", lambda least, most: None)
    with pytest.raises(RatesRefused, match="the clock of `core` stays between 1000 and 2400 MHz"):
        clocks.lower(SLOW)


def test_a_program_sets_the_rates_of_its_states_and_counts_their_joules(board: Path) -> None:
    a, b = Sums(), Sums()
    program = patrol(a, b)
    control = program.control
    assert control is not None
    control.sysfs = str(board)
    for name, wanted, mw in (("one", SLOW, 1000.0), ("two", FAST, 3000.0), ("three", {}, None)):
        control.states[name].clocks, control.states[name].energy_mw = wanted, mw
    seen: list[tuple[int, int]] = []

    def look(frame: int) -> None:
        with contextlib.suppress(ValueError):  # it is being written
            seen.append(limits(board))

    a._at = look
    control.set_clocks()

    def steer() -> None:
        program.run.go.wait(HANGS)
        for count in (1, 2):
            frames = len(a.seen) if count == 1 else len(b.seen)
            while len(a.seen if count == 1 else b.seen) < frames + 3:
                # faster rates are set with the event
                threading.Event().wait(0.001)
            program.raise_event("go")
            while len(control.changes) < count:
                threading.Event().wait(0.001)
        program.run.drain()

    threading.Thread(target=steer, daemon=True).start()
    assert execute(program) and a.right and b.right
    assert set(seen) >= {(1_200_000, 1_200_000), (2_400_000, 2_400_000)}
    document = report(program)
    assert document["clocks"] == "set" and document["energy_from"] == "model"
    states = document["states"]
    assert states["three"]["joules"] is None
    for name, watts in (("one", 1), ("two", 3)):
        assert states[name]["joules"] == pytest.approx(
            watts * states[name]["seconds"], rel=0.2, abs=0.05
        )
    assert "joules (model)" in table(document)


def test_rates_that_cannot_be_set_any_more_are_left_alone(board: Path) -> None:
    a, b = Sums(), Sums()
    program = patrol(a, b)
    control = program.control
    assert control is not None
    control.sysfs, said = str(board), list[str]()
    program.run.warn = said.append
    control.states["one"].clocks, control.states["two"].clocks = SLOW, FAST
    control.set_clocks()
    (board / "class/devfreq/17000000.gv11b/min_freq").unlink()
    threading.Timer(0, lambda: (program.run.go.wait(HANGS), program.run.drain())).start()
    assert execute(program) and a.right
    assert said == [
        "clock rates are left alone: the clock of `volta` cannot be set: No such file or directory"
    ]
    assert report(program)["clocks"] == "model" and limits(board) == (1_000_000, 2_400_000)


def test_clocks_are_played_by_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """At half the rate, work takes as long again; frames under way when clocks fall go on at the
    old rate."""
    waited: list[float] = []
    a, b = Sums(20), Sums()
    program = patrol(a, b)
    control = program.control
    assert control is not None
    for name, hz in (("one", 1200), ("two", 2400), ("three", 800)):
        control.states[name].clocks = {"c0": ("cpu", hz * MHZ, 2400 * MHZ)}
    control.play_clocks()
    assert program.run.played is not None
    played = program.run.played
    played.lower(control.states["one"].clocks)
    assert played.factors == {"c0": 2}
    played.reach(control.states["three"].clocks)
    assert played.factors == {"c0": 2}
    played.reach(control.states["two"].clocks)
    assert played.factors == {"c0": 1}
    ticks = itertools.count(0, 1000)
    fake = SimpleNamespace(
        perf_counter_ns=lambda: next(ticks), sleep=waited.append, thread_time_ns=lambda: 0
    )
    monkeypatch.setattr(worker, "time", fake)
    assert execute(program) and a.right and len(a.seen) == 20
    assert len(waited) == 3 * 20 and all(seconds >= 1e-6 for seconds in waited)
    assert report(program)["clocks"] == "emulate"


# -- meters ----------------------------------------------------------------------------------------
def test_a_counter_that_begins_again_is_understood(tmp_path: Path) -> None:
    package = tmp_path / "class/powercap/intel-rapl:0"
    files(package, name="package-0", energy_uj=9_000_000, max_energy_range_uj=10_000_000)
    files(
        tmp_path / "class/powercap/intel-rapl:0:0", name="core", energy_uj=1, max_energy_range_uj=10
    )
    meter = Power(str(tmp_path))
    assert meter.source == "rapl"
    meter.enter("one", 5.0)
    files(package, energy_uj=9_500_000)
    meter.enter("two", None)
    files(package, energy_uj=250_000)
    meter.end()
    assert meter.joules == pytest.approx({"one": 0.5, "two": 0.75})


def test_rails_of_a_board_are_added_up_unless_one_is_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter((0.0, 0.0, 2.0, 2.0, 2.0, 4.0))
    monkeypatch.setattr(power, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    rails = tmp_path / "class/hwmon/hwmon3"
    files(rails, name="ina3221", in1_input=5000, curr1_input=1000, in2_input=5000, curr2_input=200)
    files(tmp_path / "class/hwmon/hwmon1", name="thermal", in1_input=9, curr1_input=9)
    meter = Power(str(tmp_path))
    meter.enter("one", None)
    files(rails, curr1_input=2000)
    meter.end()
    assert meter.source == "ina3221" and meter.joules == pytest.approx({"one": 2 * (6 + 11) / 2})
    files(rails, in1_label="VDD_IN")
    meter = Power(str(tmp_path))
    meter.enter("one", None)
    meter.end()
    assert meter.joules == pytest.approx({"one": 20.0})


def test_without_a_meter_the_model_counts(tmp_path: Path) -> None:
    assert Power(str(tmp_path)).source == "model"
    hidden = files(
        tmp_path / "class/powercap/intel-rapl:0", name="package-0", max_energy_range_uj=10
    )
    assert not (hidden / "energy_uj").exists() and Power(str(tmp_path)).source == "model"


class Driver:
    """Stands in for NVIDIA's library, as nvml.h has it: two GPUs, with counters of energy if they
    are `counted`."""

    def __init__(self, counted: bool) -> None:
        self.counted, self.mj, self.mw, self.status = counted, [1000, 5000], [10_000, 30_000], 0

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, gpu: Any) -> int:
        gpu._obj.value = index.value + 1
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: Any, value: Any) -> int:
        value._obj.value = self.mj[gpu.value - 1]
        return self.status if self.counted else 3  # not supported

    def nvmlDeviceGetPowerUsage(self, gpu: Any, value: Any) -> int:
        value._obj.value = self.mw[gpu.value - 1]
        return self.status


@pytest.mark.parametrize("counted", [True, False])
def test_gpus_are_read_where_a_program_works_on_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    driver = Driver(counted)
    monkeypatch.setattr(power.ctypes, "CDLL", lambda name: driver)
    now = iter((0.0, 0.0, 2.0, 3.0, 4.0))
    monkeypatch.setattr(power, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    files(
        tmp_path / "class/powercap/intel-rapl:0",
        name="package-0",
        energy_uj=0,
        max_energy_range_uj=10**9,
    )
    assert Power(str(tmp_path)).source == "rapl"
    meter = Power(str(tmp_path), gpu=True)
    assert meter.source == "rapl + nvml"
    meter.enter("one", 5000.0)
    files(tmp_path / "class/powercap/intel-rapl:0", energy_uj=7_000_000)
    driver.mj, driver.mw = [2000, 8000], [20_000, 40_000]
    meter.enter("two", 5000.0)
    # In a second: 1 J and 3 J more, or from 10 to 20 W and from 30 to 40 W.
    assert meter.joules["one"] == pytest.approx(7 + (4 if counted else 50))
    driver.status = 15  # the GPU is lost
    meter.enter("three", 5000.0)
    assert meter.source == "model" and meter.joules["two"] == pytest.approx(5.0)


def test_a_library_without_power_is_no_meter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(counted=False)
    driver.status = 3
    monkeypatch.setattr(power.ctypes, "CDLL", lambda name: driver)
    assert Power(str(tmp_path), gpu=True).source == "model"
    monkeypatch.setattr(power.ctypes, "CDLL", lambda name: object())
    assert Power(str(tmp_path), gpu=True).source == "model"


# -- a whole program -------------------------------------------------------------------------------
PROGRAM = """
import os, signal, sys
import numpy as np
from flowc.runtime.code import Code
from flowc.runtime.command import main
from flowc.runtime.control import Control
from flowc.runtime.graph import Fire
from flowc.runtime.program import Program
from flowc.runtime.tokens import Port

class Count(Code):
    n = -1
    def open(self, home, inputs, outputs): pass
    def fire(self, inputs, firing):
        self.n += 1
        return np.int64(self.n)

class See(Code):
    def __init__(self, program): self.program = program
    def open(self, home, inputs, outputs): pass
    def fire(self, inputs, firing):
        if inputs[0] == 5:
            self.program.raise_event("go")
            ACT

def program():
    p = Program("p", "")
    count, see = Count(), See(p)
    Control(p, ["go"])
    for name, hz in (("one", 1200 * 10**6), ("two", 2400 * 10**6)):
        p.control.state(name, initial=name == "one", clocks={"core": ("cpu", hz, 2400 * 10**6)})
        a = p.app("A", "1000000")
        source, sink = a.task("A.count", count, [], [Port("x", "int64", ())]), a.task("A.see", see, [Port("x", "int64", ())])
        p.channel(source, "x", sink, "x", 2)
        p.processor("c0", [Fire(source), Fire(sink)])
    p.control.transition("one", "two", ["go"])
    p.control.sysfs = SYSFS
    return p

sys.exit(main(program))
"""


@pytest.mark.parametrize(
    ("act", "status"),
    [
        ("os.kill(os.getppid(), signal.SIGTERM)", 143),
        ("os.kill(os.getppid(), signal.SIGINT)", 130),
        ("os.kill(os.getpid(), signal.SIGKILL)", 1),
        ("raise ValueError('no')", 1),
        ("os.remove('socket'), self.program.run.drain()", 0),
    ],
)
def test_clocks_are_given_back_however_a_change_ends(board: Path, act: str, status: int) -> None:
    """Within the frame that a change waits for. No socket is left, whichever process removed it."""
    (board / "program.py").write_text(
        PROGRAM.replace("ACT", act).replace("SYSFS", repr(str(board)))
    )
    command = [
        sys.executable,
        str(board / "program.py"),
        "--quiet",
        "--clocks",
        "set",
        "--control",
        "socket",
    ]
    done = subprocess.run(command, cwd=board, capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    assert given_back(board) == (1_000_000, 2_400_000) and not (board / "socket").exists()
