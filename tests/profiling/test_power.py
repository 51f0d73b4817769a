"""The power of CPUs and the energy of networks, measured on a machine whose true power is known
(`standins/meter.py`)."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from flowc.cli import app as cli
from flowc.driver.measure.power import MeasuredPower, measure_power
from flowc.model.diagnostic import Errors
from flowc.model.profile import Profile
from flowc.profiling.power import pieces_of
from flowc.profiling.there.power import Pool, Step, steps_of
from typer.testing import CliRunner

from builds import Write
from models import stack

CORES = sorted(os.sched_getaffinity(0))[:2]
METER = Path(__file__).parents[1] / "support" / "standins" / "meter.py"
TASK = 'task T { python "t.py:run"  wcet 1 ms }\napp A { period 10 ms  t: T }\n'
MHZ = {"big": (800, 1600), "little": (400, 1000)}
#: mW of a CPU at rest and busy, by rate, beside 3 W.
TRUTH = {"big": ((300, 900), (1200, 3900)), "little": ((100, 250), (350, 800))}


def board(mhz: dict[str, tuple[int, ...]] | None) -> str:
    lines = []
    for name, core in zip(TRUTH, CORES, strict=True):
        rates = f"frequencies {[*mhz[name]]} MHz" if mhz else ""
        lines.append(f"  cpu {name}[1] on [{core}] {rates}")
    return "\n".join(["platform b {", *lines, "}"]) + "\n" + TASK


def machine(root: Path, noise: float = 0.0, drift: float = 0.0) -> str:
    """A folder with clocks as sysfs has them; the command of its meter."""
    cpus: dict[str, Any] = {}
    for number, (name, core) in enumerate(zip(TRUTH, CORES, strict=True)):
        khz = [1000 * rate for rate in MHZ[name]]
        policy = root / f"devices/system/cpu/cpufreq/policy{number}"
        policy.mkdir(parents=True)
        for file, value in (
            ("scaling_min_freq", khz[0]),
            ("scaling_max_freq", khz[1]),
            ("cpuinfo_max_freq", khz[1]),
            ("scaling_available_frequencies", " ".join(map(str, khz))),
        ):
            (policy / file).write_text(f"{value}\n")
        idle, busy = (
            {str(k): mw / 1000 for k, mw in zip(khz, own, strict=True)} for own in TRUTH[name]
        )
        cpus[str(core)] = {"policy": number, "idle": idle, "busy": busy}
    truth = {"board": 3.0, "drift": drift, "noise": noise, "cpus": cpus}
    (root / "truth.json").write_text(json.dumps(truth))
    return f"{sys.executable} -S {METER} {root}"


def measured(write: Write, root: Path, meter: str, text: str) -> MeasuredPower:
    path = write(text, t_py="def run(): pass\n")
    return measure_power(path, platform="b", seconds=0.1, meter=meter, root=str(root))


needs_two = pytest.mark.skipif(len(CORES) < 2, reason="two CPUs are told apart")


@needs_two
def test_a_known_machine_is_found_again(write: Write, tmp_path: Path) -> None:
    """In spite of a drift of a watt in 100 s and 0.2 % of noise."""
    found = measured(write, tmp_path, machine(tmp_path, 0.002, 0.01), board(MHZ))
    for name, (idle, busy) in TRUTH.items():
        for number, mw in zip(found.fit.busy[name], busy, strict=True):
            # an interval of 95 % is left by one of 20 numbers; by twice as much, by none
            assert number.watts == pytest.approx(mw / 1000, rel=0.02, abs=3 * number.off)
            assert number.off < 0.05
        more = (idle[1] - idle[0]) / 1000
        assert found.fit.idle[name][1].watts == pytest.approx(more, abs=0.02)
    assert not found.diagnostics and found.fit.residual < 0.01
    policy = tmp_path / "devices/system/cpu/cpufreq/policy0"
    assert (policy / "scaling_min_freq").read_text() == "800000\n"  # given back
    assert (policy / "scaling_max_freq").read_text() == "1600000\n"
    words = found.in_words
    assert words[0].startswith("cpu big frequencies [800, 1600] MHz idle [0.000, 0.")
    assert words[-1].startswith("power ")


@needs_two
def test_clocks_that_cannot_be_set_stay(write: Write, tmp_path: Path) -> None:
    meter = machine(tmp_path)
    other = {"big": (700, 1600), "little": (400, 1000)}
    found = measured(write, tmp_path, meter, board(other))
    assert found.rates == {"big": (), "little": ()}
    assert found.fit.busy["big"][0].watts == pytest.approx(3.9, rel=0.02)
    (warning,) = found.diagnostics
    assert warning.code == "F663" and "no rate of 700 MHz" in warning.message


@pytest.mark.parametrize(
    ("meter", "why"),
    [
        ("echo much", "`echo much` says no watts"),
        ("false", "`false` says no watts"),
        ("/nonexistent", "says no watts"),
        ("echo -- -3", "says no watts"),
        ("", "no meter can be read here"),
    ],
)
def test_without_a_meter_nothing_is_said(
    write: Write, tmp_path: Path, meter: str, why: str
) -> None:
    with pytest.raises(Errors) as caught:
        measured(write, tmp_path, meter, "platform b { cpu core[1] }\n" + TASK)
    (fault,) = caught.value.diagnostics
    assert fault.code == "F663" and why in fault.message and "--meter CMD" in (fault.help or "")


def test_cpus_that_are_not_there_are_named(write: Write, tmp_path: Path) -> None:
    text = "platform b { cpu core[2] on [0, 999] }\n" + TASK
    with pytest.raises(Errors, match="not to be had here: 999"):
        measured(write, tmp_path, "echo 5", text)


def test_the_verb_prints_what_a_platform_states(write: Write) -> None:
    path = write(f"platform b {{ cpu core[1] on [{CORES[0]}] }}\n" + TASK, t_py="def run(): pass\n")
    words = ["profile", str(path), "--platform", "b", "--power", "--seconds", "0.1"]
    done = CliRunner().invoke(cli, [*words, "--meter", "echo 5"])
    assert done.exit_code == 0, done.output
    assert "    cpu core idle 0.000 W busy 0.000 W\n    power 5.000 W\n" in done.stdout
    done = CliRunner().invoke(cli, [*words, "--meter", "echo 5", "--json"])
    assert json.loads(done.stdout)["board"]["watts"] == pytest.approx(5)
    assert CliRunner().invoke(cli, ["profile", str(path), "--meter", "echo 5"]).exit_code == 2


def test_each_pool_is_looked_at_by_itself() -> None:
    steps = steps_of([Pool("a", [0, 1], [1, 2]), Pool("b", [2], [])])
    assert len(steps) == len(set(steps)) == 7
    assert steps[0] == Step((0, 0), (0, 0))
    assert {step.busy for step in steps} == {(0, 0), (1, 0), (2, 0), (0, 1)}


# -- networks --------------------------------------------------------------------------------------
NETWORK = """type Image = float32[1, 3, 64, 32]
task Make { out x: Image  python "t.py:make" }
network Net from "net.onnx" { in x: Image  out y: float32[1, 16, 1, 1] }
task Take { in y: float32[1, 16, 1, 1]  python "t.py:take" }
app A { make: Make  net: Net  take: Take  make -> net -> take }
"""
CODE = "import numpy as np\n\n\ndef make():\n    return np.zeros((1, 3, 64, 32), np.float32)\n\n\ndef take(y):\n    pass\n"


@pytest.fixture
def network(write: Write) -> Path:
    """A text with a network of five layers."""
    path = write(NETWORK, t_py=CODE)
    stack(path.parent / "net.onnx")
    return path


def metered(root: Path, pieces: dict[str, float]) -> str:
    """The command of a meter by which pieces of networks take so much."""
    truth = {"board": 3.0, "drift": 0.0, "noise": 0.0, "cpus": {}, "pieces": pieces}
    (root / "truth.json").write_text(json.dumps(truth))
    return f"{sys.executable} -S {METER} {root}"


def test_energies_are_found_in_spite_of_a_drift() -> None:
    """Within 2 %, though the machine at rest takes a watt more every 50 s."""
    noise = random.Random(1)
    true, ns = (None, 4.0, 1.5, 2.5), (None, 2e6, 1e6, 1e6)
    rows: list[dict[str, Any]] = []
    for at in range(24):
        piece = (at * 3 + at // 4) % 4
        watts = 3 + at / 50 + (true[piece] or 0) + noise.gauss(0, 0.005)
        rows.append(
            {"piece": piece - 1 if piece else None, "watts": watts, "ns": ns[piece], "at": at}
        )
    for found, joules in zip(pieces_of(rows, 3, 3), (8e6, 1.5e6, 2.5e6), strict=True):
        assert found.energy_nj == pytest.approx(joules, rel=0.02) and found.watts.is_known(0.05)
    with_noise = [{**row, "watts": noise.gauss(5, 3)} for row in rows]
    assert not any(found.watts.is_known(0.3) for found in pieces_of(with_noise, 3, 3))


def test_few_numbers_have_wide_intervals() -> None:
    """95 % of them have the truth, however few rows there are."""
    noise, kept = random.Random(2), 0
    for _ in range(300):
        rows = [
            {"piece": piece, "watts": 5 + (piece == 0) + noise.gauss(0, 0.1), "ns": 1.0, "at": at}
            for at, piece in enumerate([None, 0, 0, None, None, 0])
        ]
        (found,) = pieces_of(rows, 1, 3)
        kept += abs(found.watts.watts - 1) <= found.watts.off
    assert kept > 270


def profile_beside(path: Path) -> Profile:
    return Profile.from_json((path.parent / f"{path.stem}.host.profile.json").read_text())


def test_the_energy_of_a_network_goes_into_its_profile(network: Path, tmp_path: Path) -> None:
    meter = metered(tmp_path, {"0": 2.0, "1": 1.0, "2": 1.0, "3": 1.0, "4": 1.0, "5": 6.0})
    words = ["profile", str(network), "--seconds", "0.3"]
    done = CliRunner().invoke(cli, [*words, "--energy", "--layers", "--meter", meter])
    assert done.exit_code == 0, done.output
    (entry,) = (e for e in profile_beside(network).entries if e.layers)
    assert entry.energy_nj is not None and " mJ" in done.stdout and "uJ" in done.stdout
    assert sum(layer.energy_nj or 0 for layer in entry.layers) == pytest.approx(
        entry.energy_nj, rel=0.01
    )
    assert CliRunner().invoke(cli, words).exit_code == 0  # times alone: the energy stays
    (again,) = (e for e in profile_beside(network).entries if e.layers)
    assert again.energy_nj == entry.energy_nj


def test_without_a_meter_networks_have_no_energy(network: Path) -> None:
    words = ["profile", str(network), "--seconds", "0.1", "--energy", "--meter", "false"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1 and "F663" in done.output and "`false` says no watts" in done.output
    assert not list(network.parent.glob("*.profile.json"))  # it is asked before tasks run


def test_networks_that_are_left_out_are_named(network: Path, tmp_path: Path) -> None:
    network.write_text(NETWORK + "platform b { cpu core[2] }\n")
    words = ["profile", str(network), "--platform", "b", "--seconds", "0.1", "--energy"]
    done = CliRunner().invoke(cli, [*words, "--meter", metered(tmp_path, {"0": 2.0})])
    assert done.exit_code == 0, done.output
    assert "the energy of `A.net` is not measured" in done.output and "--board" in done.output


def test_a_meter_that_stands_still_says_nothing(network: Path) -> None:
    words = ["profile", str(network), "--seconds", "0.1", "--energy", "--meter", "echo 0"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0 and "may be off by more than 30%" in done.output
    assert all(e.energy_nj is None for e in profile_beside(network).entries)


def test_what_does_not_go_together_is_said(network: Path) -> None:
    done = CliRunner().invoke(cli, ["profile", str(network), "--power", "--energy"])
    assert done.exit_code == 2 and "--energy" in done.output
