"""Searches try the engines that are there: what is measured of them, and what runs decide."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flowc.codegen.native import files as native
from flowc.driver.measure import engine_times
from flowc.driver.measure import measure as measuring
from flowc.driver.plan import compared
from flowc.driver.show.reporting import report
from flowc.driver.solve.map import Answer, find_mapping
from flowc.driver.text import store
from flowc.driver.text.check import prepare
from flowc.model.application import Network
from flowc.model.profile import TransferCost
from flowc.networks.engines import Engine
from flowc.profiling.machine import RuntimeCosts
from flowc.runtime.openvino import _flags
from flowc.runtime.reference import load_deployment

from builds import Write, build, pretend_runs
from models import N, save

pytestmark = [
    pytest.mark.skipif(find_spec("openvino") is None, reason="there is no OpenVINO"),
    pytest.mark.skipif(
        not {"avx512_bf16", "amx_bf16", "bf16"}.intersection(_flags().split()),
        reason="this CPU does not compute in bf16",
    ),
]

TEXT = """
task Make {{ out x: float32[1, 4, 8, 8]  python "t.py:Make" }}
task Take {{ in y: float32[1, 4, 8, 8]  python "t.py:take" }}
network Net from "net.onnx" {{ in x: float32[1, 4, 8, 8] from "x"  out y: float32[1, 4, 8, 8] from "y" {wish} }}
{apps}
"""
#: Apps by what they are, with the same network in each.
WITHOUT_PERIODS = "app A { m: Make  n: Net  t: Take  m -> n -> t }"
WITH_PERIODS = WITHOUT_PERIODS.replace("{ m:", "{ period 50 ms  m:")
MIXED = WITH_PERIODS + WITHOUT_PERIODS.replace("app A", "app B")
SCENARIO = """
scenario S {
    event go
    initial state one { run A, B }
    state two { run B }
    one -> two on go
    two -> one on go
}
"""
STATES = WITH_PERIODS + WITH_PERIODS.replace("app A", "app B") + SCENARIO
STATES_APART = WITHOUT_PERIODS + WITHOUT_PERIODS.replace("app A", "app B") + SCENARIO
VARIANTS = """
network Either {
    out y
    variant slow from "net.onnx"
    variant quick from "net.onnx"
    precision any within 20 dB
}
app A { period 50 ms  m: Make  n: Either  t: Take  m -> n -> t }
scenario S {
    event go
    initial state one { run A }
    state two { run A   A.n = quick }
    one -> two on go AT_ONCE
    two -> one on go
}
"""
PYTHON = """
import numpy as np

class Make:
    def __init__(self):
        self.random = np.random.default_rng(1)

    def __call__(self):
        return 5 + self.random.standard_normal((1, 4, 8, 8)).astype(np.float32)

def take(y): pass
"""
IN_C = """
int make(void *state, float *x, const void *p)
{
    for (int i = 0; i < 256; i++)
        x[i] = (float)((i * 37 + ++((make_state *)state)->n * 11) % 101);
    return 0;
}
int take(void *state, const float *y, const void *p) { return 0; }
"""
#: In the place of a compiler for C++, for programs that do not run.
NO_COMPILER = """#!/bin/sh
while [ $# -gt 1 ]; do
    [ "$1" = -o ] && : > "$2"
    shift
done
"""


@pytest.fixture
def mapped(write: Write, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Maps a text whose network has a wish; made-up times say how fast engines and programs are."""

    def find(
        wish: str,
        ratios: dict[str, float],
        of_16_bits: float = 0.5,
        least: int = 0,
        apps: str = WITHOUT_PERIODS,
        **asked: Any,
    ) -> Answer:
        text = TEXT.format(wish=wish, apps=apps)
        if "native" in asked:
            text = text.replace('python "t.py:Make"', 'state n: int64  c "t.c:make"')
            text = text.replace('python "t.py:take"', 'c "t.c:take"')
        flow = write(text, t_py=PYTHON, t_c=IN_C)
        nodes = [N("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1]), N("Relu", ["h"], ["y"])]
        kernel = np.random.default_rng(2).standard_normal((4, 4, 3, 3)).astype(np.float32)
        save(flow.parent / "net.onnx", nodes, {"x": [1, 4, 8, 8]}, {"w": kernel}, "y")

        samples = np.random.default_rng(3).standard_normal((16, 1, 4, 8, 8))
        np.save(flow.parent / "samples.npy", samples.astype(np.float32))

        def ratio(network: Network, engine: Engine) -> tuple[float, int]:
            on_engine = f"{network.precision} on {engine.name}"
            return ratios.get(on_engine) or ratios[network.precision], 9

        def period(built: Path) -> float:
            other = "OpenVino" in (built / "main.py").read_text()
            return 1e6 * of_16_bits if other else 1e6

        def firing(built: Path, task: str) -> int:
            tasks = [t for app in load_deployment(str(built))["apps"] for t in app["tasks"]]
            (kind,) = [t["code"]["kind"] for t in tasks if t["name"] == task]
            return round(1000 * of_16_bits) if kind == "openvino" else 1000

        pretend_runs(monkeypatch, period, firing)
        monkeypatch.setattr(engine_times, "LEAST_NS", least)
        monkeypatch.setattr(engine_times, "ratio_alone", ratio)
        return find_mapping(flow, evaluations=30, **asked)

    return find


def engines(answer: Answer) -> set[tuple[str, str]]:
    """Engines and precisions of the networks in an answer."""
    stages = [s for n in answer.mapping.networks for s in n.stages]
    planned = {n.task for n in answer.mapping.networks}
    networks = [t.name for t in answer.valid.every_task.values() if t.network is not None]
    places = [p for p in answer.mapping.placements if p.task in networks and p.task not in planned]
    return {(s.engine, s.precision) for s in (*stages, *places)}


def test_a_mapping_has_the_fastest_engine_and_a_build_takes_it(
    mapped: Callable[..., Answer], tmp_path: Path
) -> None:
    answer = mapped("precision any within 20 dB", {"fp32": 0.9, "bf16": 0.5})
    assert engines(answer) == {("openvino", "bf16")}
    (words,) = [line for line in answer.mapping.why if line.startswith("A.n: ")]
    assert "fp32 on ONNX Runtime" in words
    assert "dB over 32 samples of its source" in words
    flow = Path(answer.valid.system.path)
    # the times of the engine that was chosen are known: nothing is measured again
    profile, warnings = store.read_profile(prepare(flow).require())
    assert not warnings
    assert profile is not None
    (entry,) = [e for e in profile.entries if e.subject == "A.n"]
    assert (entry.engine, entry.precision) == ("openvino", "bf16")
    assert [layer.layer for layer in entry.layers] == ["h", "y"]
    built = build(flow, tmp_path / "out", platform="host")
    assert 'precision="bf16"' in (built / "main.py").read_text()
    assert '"noise_db": 20.0' in (built / "deployment.json").read_text()
    # the report says both
    (network,) = [t.network for t in report(flow).document.tasks if t.network is not None]
    assert (network.engine, network.precision) == ("OpenVINO", "bf16")
    assert network.noise.endswith(" dB over 32 samples of its source")


def test_without_a_wish_nothing_is_less_exact(mapped: Callable[..., Answer]) -> None:
    answer = mapped("", {"fp32": 0.5})
    assert engines(answer) == {("openvino", "")}
    assert not [line for line in answer.mapping.why if "bf16" in line]


def test_runs_decide_against_an_engine(mapped: Callable[..., Answer]) -> None:
    answer = mapped("precision any within 20 dB", {"fp32": 0.9, "bf16": 0.5}, of_16_bits=2.0)
    assert engines(answer) == {("", "")}
    assert answer.mapping.contestants[0].name.endswith(", on ONNX Runtime")


def test_what_is_not_near_enough_is_left_out_and_said(mapped: Callable[..., Answer]) -> None:
    answer = mapped("precision any within 150 dB", {"fp32": 1.0, "bf16": 0.5})
    assert engines(answer) == {("", "")}
    (words,) = [line for line in answer.mapping.why if line.startswith("A.n: ")]
    assert "bf16 on OpenVINO not: " in words
    assert "and 150 dB are asked for" in words


def test_small_networks_and_small_gains_stay_on_onnxruntime(
    mapped: Callable[..., Answer],
) -> None:
    small = mapped("precision any within 20 dB", {}, least=100_000)
    assert engines(small) == {("", "")}
    assert "A.n: on ONNX Runtime, as an inference takes less than 0.1 ms" in small.mapping.why


def test_recorded_inputs_are_those_of_the_network(mapped: Callable[..., Answer]) -> None:
    answer = mapped("", {"fp32": 0.99})
    assert engines(answer) == {("", "")}, "too small a gain"
    recorded = engine_times.recorded_inputs(answer.valid, ["A.n"])
    random = np.random.default_rng(1)
    wanted = [5 + random.standard_normal((1, 4, 8, 8)).astype(np.float32) for _ in range(32)]
    assert len(recorded["A.n"]) == len(wanted) == compared.MORE_SAMPLES
    for (mine,), its in zip(recorded["A.n"], wanted, strict=True):
        assert np.array_equal(mine, its)


def test_an_application_without_data_keeps_its_precision(
    mapped: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_times, "recorded_inputs", lambda valid, names: {})
    answer = mapped("precision any within 20 dB", {"fp32": 1.0, "bf16": 0.5})
    assert engines(answer) == {("", "")}
    assert any("the application gave no data to compare on" in line for line in answer.mapping.why)


@pytest.mark.parametrize(
    "apps",
    [WITH_PERIODS, MIXED, STATES, STATES_APART],
    ids=["periods", "mixed", "states", "states apart"],
)
def test_engines_are_chosen_whatever_apps_there_are(
    mapped: Callable[..., Answer], tmp_path: Path, apps: str
) -> None:
    answer = mapped("precision any within 20 dB", {"fp32": 0.9, "bf16": 0.5}, apps=apps)
    assert engines(answer) == {("openvino", "bf16")}
    assert answer.engines
    built = build(Path(answer.valid.system.path), tmp_path / "out", platform="host")
    networks = [line for line in (built / "main.py").read_text().splitlines() if "net.onnx" in line]
    assert networks
    assert all("OpenVino(" in line and 'precision="bf16"' in line for line in networks)


@pytest.mark.parametrize("apps", [WITHOUT_PERIODS, WITH_PERIODS], ids=["fast", "periods"])
def test_programs_in_cpp_have_engines_as_well(
    mapped: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, apps: str
) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text(NO_COMPILER)
    compiler.chmod(0o755)
    for name, tool in {"CXX": str(compiler), "OBJCOPY": "true", "LD": "true"}.items():
        monkeypatch.setenv(name, tool)
    costs = RuntimeCosts(100.0, TransferCost("cpu", "cpu", 1000.0, 0.1))
    monkeypatch.setattr(measuring, "native_costs", lambda host: costs)
    monkeypatch.setattr(native, "engine_libraries", lambda engines: {})
    answer = mapped(
        "precision any within 20 dB", {"fp32": 0.9, "bf16": 0.5}, apps=apps, native=True
    )
    assert engines(answer) == {("openvino", "bf16")}


def test_other_searches_put_networks_on_their_engines(mapped: Callable[..., Answer]) -> None:
    wish = "precision any within 20 dB"
    answer = mapped(wish, {"fp32": 0.9, "bf16": 0.5}, search="exact")
    assert engines(answer) == {("openvino", "bf16")}


def test_a_longer_worst_case_decides_against_an_engine(mapped: Callable[..., Answer]) -> None:
    answer = mapped(
        "precision any within 20 dB",
        {"fp32": 0.9, "bf16": 0.5},
        of_16_bits=1.5,
        apps=WITH_PERIODS,
    )
    assert engines(answer) == {("", "")}
    (words,) = [line for line in answer.mapping.why if line.startswith("A.n: ")]
    assert words.endswith("its worst case there is 0.0015 ms, and on ONNX Runtime 0.001 ms")


def test_what_is_known_is_enough_without_running(mapped: Callable[..., Answer]) -> None:
    wish = "precision any within 20 dB"
    unknown = mapped(wish, {}, measure=False)
    assert engines(unknown) == {("", "")}
    first = mapped(wish, {"fp32": 0.9, "bf16": 0.5})
    assert engines(first) == {("openvino", "bf16")}
    again = mapped(wish, {}, measure=False)  # a measurement would fail
    assert engines(again) == {("openvino", "bf16")}


def test_a_limit_on_memory_keeps_networks_on_onnxruntime(mapped: Callable[..., Answer]) -> None:
    answer = mapped("precision any within 20 dB", {}, memory=10**9)
    assert engines(answer) == {("", "")}
    assert [d.code for d in answer.diagnostics if d.severity == "warning"] == ["F542"]
    assert any("memory is limited" in line for line in answer.mapping.why)


@pytest.mark.parametrize(("at_once", "engine"), [("", "openvino"), ("at once", "")])
def test_inferences_that_are_broken_off_stay_on_onnxruntime(
    mapped: Callable[..., Answer], at_once: str, engine: str
) -> None:
    apps = VARIANTS.replace("AT_ONCE", at_once)
    answer = mapped("", {"fp32": 1.0, "bf16": 0.5}, apps=apps)
    assert {name for name, _ in engines(answer)} == {engine}


@pytest.mark.parametrize("engine", ["openvino", ""], ids=["OpenVINO", "ONNX Runtime"])
def test_8_bits_are_chosen_where_there_are_samples(
    mapped: Callable[..., Answer], tmp_path: Path, engine: str
) -> None:
    ratios = {"fp32": 0.9, "bf16": 0.5, "int8": 0.4, "int8 on openvino": 0.3 if engine else 0.5}
    wish = 'precision any within 15 dB  calibrate "samples.npy"'
    answer = mapped(wish, ratios, of_16_bits=0.3, apps=WITH_PERIODS if engine else WITHOUT_PERIODS)
    assert engines(answer) == {(engine, "int8")}
    (words,) = [line for line in answer.mapping.why if line.startswith("A.n: ")]
    assert "int8 on ONNX Runtime 0.0004 ms (" in words
    assert "dB over 16 samples of its calibration files" in words
    flow = Path(answer.valid.system.path)
    profile, warnings = store.read_profile(prepare(flow).require())
    assert profile is not None
    assert not warnings
    built = build(flow, tmp_path / "out", platform="host")
    (network,) = [x for x in (built / "main.py").read_text().splitlines() if "net.int8-" in x]
    assert ("OpenVino(" in network) == bool(engine)
