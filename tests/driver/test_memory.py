"""Mappings within a memory: bands are found, stored, built and run, and what is impossible is
said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import flowc
import pytest
from flowc.codegen.deploy import Deployed
from flowc.codegen.kinds.kind import DeviceMemory
from flowc.codegen.memory import shared_arenas
from flowc.driver.measure import band_costs
from flowc.driver.plan import memory
from flowc.driver.plan.program import place, plan
from flowc.driver.solve.map import find_mapping
from flowc.driver.solve.request import WhatIf
from flowc.driver.text import store
from flowc.driver.text.check import check
from flowc.machines.whoami import host_hash
from flowc.model.deployment import DeployedWorker, Entry
from flowc.model.diagnostic import Errors
from flowc.model.mapping import Bands
from flowc.model.platform import Platform
from flowc.model.profile import Profile, ProfileEntry
from flowc.model.times import times_of
from flowc.networks.bands import firings
from flowc.networks.onnx.own_graph import block_here
from flowc.profiling.identity import task_hashes
from flowc.report.measured import read_trace
from flowc.runtime import device
from flowc.search import memory as searching

from builds import harness, run, store_profile
from models import stack

TASKS = """import numpy as np

rng = np.random.default_rng(0)


def camera():
    return rng.standard_normal((1, 3, 128, 32)).astype(np.float32)


def show(y):
    pass
"""


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A camera, a stack of convolutions, and a sink; a profile says what they take."""
    monkeypatch.setattr(memory, "SEARCHING", 0.12)
    monkeypatch.setattr(searching, "MOST_SIZES", 4)
    # Sessions would be larger than a network as small as this.
    monkeypatch.setattr(firings, "KEPT", ((71, 9), (19, 10)))
    stack(tmp_path / "net.onnx", 6, 128)
    (tmp_path / "tasks.py").write_text(TASKS)
    flow = tmp_path / "eye.flow"
    flow.write_text(
        'task Camera { out x: float32[1, 3, 128, 32] python "tasks.py:camera" }\n'
        'network Net from "net.onnx"\ntask Show { in y: float32[1, 16, 1, 1] python "tasks.py:show" }\n'
        "app Eye { camera: Camera net: Net show: Show camera -> net -> show }\nplatform one { cpu core[1] }\n"
    )
    store_profile(flow, {"Eye.net": 8_000_000}, "one")
    return flow


def test_less_memory_is_found_stored_built_and_run(text: Path, tmp_path: Path) -> None:
    """With bands, at nine tenths of what the network takes; results are those of the whole
    network."""
    whole = find_mapping(text, memory=10**9, measure=False, platform="one").mapping
    assert whole.memory is not None and not whole.networks[0].stages[0].bands
    limit = whole.memory.total * 9 // 10
    found = find_mapping(text, memory=limit, measure=False, platform="one")
    (stage,) = found.mapping.networks[0].stages
    assert stage.bands and found.mapping.memory is not None and found.mapping.memory.total <= limit
    assert found.path is not None and any("->" in line for line in found.mapping.why)
    flowc.build(text, tmp_path / "out", measure=False, platform="one")
    document = json.loads((tmp_path / "out" / "deployment.json").read_text())
    assert sum(document["planned"].values()) == found.mapping.memory.total
    assert document["planned"]["sessions"] == found.mapping.memory.sessions > 0
    (code,) = (t["code"] for t in document["apps"][0]["tasks"] if t["name"] == "Eye.net")
    assert code["kind"] == "bands" and [
        Bands(b["rows"], b["until"], tuple(b["keep"])) for b in code["bands"]
    ] == list(stage.bands)
    traced = ["--trace", str(tmp_path / "t.json"), "--trace-bands", "--trace-frames", "1:3"]
    done = run(tmp_path / "out", "--frames", "5", "--report", str(tmp_path / "r.json"), *traced)
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    units = [e for e in events if e.get("cat") == "bands"]
    assert len(units) == 2 * code["firings"] and {e["args"]["frame"] for e in units} == {1, 2}
    assert {f"Eye.net on core[0]: {e['name']}" for e in units} <= {
        e["args"].get("name") for e in events if e["ph"] == "M"
    }
    assert len(read_trace((tmp_path / "t.json").read_bytes()).firings) == 2 * 3, (
        "reports show firings of tasks"
    )
    memory = json.loads((tmp_path / "r.json").read_text())["memory"]
    assert memory["planned"]["total"] <= limit
    assert memory["bands"] == {
        "Eye.net": "blocked"
        if block_here()
        else "plain: ONNX Runtime has no blocks for it here, or none that bands can follow"
    }
    tested = harness(tmp_path / "out")
    assert tested.returncode == 0, tested.stderr
    if not block_here():
        return
    # Elsewhere the plain models run.
    (made,) = (tmp_path / "out").glob("networks/*.bands.json")
    plan = json.loads(made.read_text())
    plan["blocked"]["onnxruntime"] = ["0", "1"]
    made.write_text(json.dumps(plan))
    done = run(tmp_path / "out", "--frames", "5", "--report", str(tmp_path / "r.json"))
    assert done.returncode == 0, done.stderr
    words = "plain: made for ONNX Runtime 0.1"
    assert json.loads((tmp_path / "r.json").read_text())["memory"]["bands"] == {"Eye.net": words}
    assert words in done.stdout


def test_the_least_memory_at_a_rate(text: Path) -> None:
    """A rate that the whole network has leaves more to choose from than one that only it has."""
    slow = find_mapping(text, objective="memory", measure=False, platform="one").mapping
    fast = find_mapping(
        text, objective="memory", what_if=WhatIf(fps=Fraction(118)), measure=False, platform="one"
    ).mapping
    assert slow.memory is not None and fast.memory is not None
    assert slow.memory.total < fast.memory.total
    assert dict(fast.predicted_period_ns)["Eye"] <= 10**9 / 118


def with_period(text: Path, ms: int) -> None:
    """Everything has a worst case, and frames come at a pace."""
    told = text.read_text().replace(' python "tasks.py', ' wcet 1 us python "tasks.py')
    text.write_text(told.replace("app Eye {", f"app Eye {{ period {ms} ms "))


def test_deadlines_and_memory_hold_together(text: Path) -> None:
    """The fastest bands that fit, where the deadline lets them; else nothing is claimed."""
    with_period(text, 40)
    whole = find_mapping(text, memory=10**9, measure=False, platform="one").mapping
    assert whole.memory is not None
    limit = whole.memory.total * 9 // 10
    found = find_mapping(text, memory=limit, measure=False, platform="one")
    assert (
        found.mapping.memory is not None and found.mapping.memory.total <= limit and not found.late
    )
    assert found.joint is not None and found.joint.problem.bands["Eye.net"]
    assert any(
        p.bands
        for p in (*found.mapping.placements, *(s for n in found.mapping.networks for s in n.stages))
    )
    with pytest.raises(Errors) as caught:
        find_mapping(text, memory=1000, measure=False, platform="one")
    assert [d.code for d in caught.value.diagnostics] == ["F521"]


DAY = """scenario Day {
    initial state dawn { run Eye }
    state noon { run Eye, Ear }
    dawn -> noon after 1 s   noon -> dawn after 1 s
}
"""


@pytest.mark.parametrize("period", [40, None])
def test_states_have_the_same_bands(text: Path, tmp_path: Path, period: int | None) -> None:
    """With periods and without: what the state that needs most takes, and weights of all."""
    stack(tmp_path / "small.onnx", 4, 128)
    if period is not None:
        with_period(text, period)
    told = text.read_text()
    app = told[told.index("app Eye") : told.index("platform one")].replace("app Eye", "app Ear")
    text.write_text(
        f'{told}network Small from "small.onnx"\n{app.replace("net: Net", "net: Small")}{DAY}'
    )
    store_profile(text, {"Eye.net": 8_000_000, "Ear.net": 5_000_000}, "one")
    options: dict[str, Any] = {
        "measure": False,
        "platform": "one",
        "budget": 5.0,
        "evaluations": 20,
    }
    found = find_mapping(text, objective="memory", **options)
    assert found.mapping.memory is not None and not found.late
    flowc.build(text, tmp_path / "out", measure=False, platform="one")
    document = json.loads((tmp_path / "out" / "deployment.json").read_text())
    assert sum(document["planned"].values()) == found.mapping.memory.total
    codes = [
        {t["name"]: t["code"] for a in state["apps"] for t in a["tasks"]}
        for state in document["scenario"]["states"]
    ]
    assert codes[0]["Eye.net"]["kind"] == codes[1]["Eye.net"]["kind"] == "bands"
    assert codes[0]["Eye.net"] == codes[1]["Eye.net"]
    with pytest.raises(Errors) as caught:
        find_mapping(text, memory=found.mapping.memory.total // 2, **options)
    (fault,) = caught.value.diagnostics
    assert fault.code == "F521" and "determine it" in fault.help


def test_bands_that_are_too_slow_are_not_taken(text: Path) -> None:
    """The network takes 8 ms of 9 as a whole: the least memory is not that of the smallest
    bands."""
    with_period(text, 9)
    found = find_mapping(text, objective="memory", measure=False, platform="one")
    assert not found.late and found.mapping.memory is not None
    (smallest, *_) = memory.fronts_of(found.valid.tasks.values(), {"Eye.net": 8e6})["Eye.net"]
    assert smallest.time > 9 / 8 and found.mapping.memory.total > smallest.bytes


def test_check_knows_weights_and_tokens(text: Path) -> None:
    """Before there is a mapping; what lies between layers is left to `build`."""
    text.write_text(text.read_text() + "platform tiny { cpu core[1] memory 50.3 MB }\n")
    tokens = 4 * (3 * 128 * 32 + 16)
    assert [d.code for d in check(text, platform="tiny").diagnostics if d.severity == "error"] == []
    text.write_text(text.read_text().replace("50.3 MB", "50.09 MB"))
    (fault,) = check(text, platform="tiny").diagnostics
    assert fault.code == "F521" and f"tokens of {tokens / 1e3:.4g} kB" in fault.message


def test_memory_of_a_pin_chooses_bands(text: Path) -> None:
    """The same each time; none where the whole network is small enough, and the least where nothing
    is."""
    told = text.read_text() + "mapping on one { Eye.net -> core[0] memory SIZE kB }\n"
    whole = 4 * (2 * 16 * 128 * 32 * 33 // 32 + 16 * 9 * (3 + 5 * 16))

    def bands_in(size: int) -> tuple[Bands, ...]:
        text.write_text(told.replace("SIZE", str(size)))
        ((stage,),) = [p.stages for p in check(text, platform="one").require().system.pins]
        return stage.bands

    assert bands_in(whole // 1000 + 1) == ()
    some = bands_in(480)
    assert some and bands_in(480) == some
    valid = check(text, platform="one").require()
    times = times_of(valid.system, valid.platform, None)
    planned = plan(valid, times, place(valid, times)).deployment.planned
    assert planned is not None and planned.sessions > 0
    assert planned.weights + planned.buffers + planned.sessions <= 480_000
    text.write_text(told.replace("SIZE", "50"))
    (fault,) = check(text, platform="one").diagnostics
    assert fault.code == "F511" and "for the layers that make" in fault.help


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"memory": 1000}, "F521", "at least, the limit is 1 kB"),
        (
            {"objective": "memory", "what_if": WhatIf(fps=Fraction(10**6))},
            "F521",
            "no evaluated mapping",
        ),
        ({"memory": 10**9, "search": "exact"}, "F508", "does not support a memory limit"),
    ],
)
def test_what_cannot_be(text: Path, options: dict[str, object], code: str, words: str) -> None:
    """With the least that is possible, and the layer that dictates it."""
    with pytest.raises(Errors) as caught:
        find_mapping(text, measure=False, platform="one", **options)  # type: ignore[arg-type]
    (fault,) = caught.value.diagnostics
    assert fault.code == code and words in fault.message
    assert code != "F521" or "what_if" in options or "of `Eye.net` determine it" in fault.help


def test_networks_of_one_worker_share_and_workers_add(text: Path) -> None:
    """By hand: two instances on one core or on two; weights are there once."""
    text.write_text(
        text.read_text().replace(
            "net: Net show: Show camera -> net -> show }",
            "net: Net show: Show more: Net too: Show camera -> net -> show  camera -> more -> too }",
        )
        + "platform two { cpu core[2] }\n"
        + "mapping on two { Eye.net -> core[0]  Eye.more -> core[1] Eye.camera -> core[0] }\n"
    )
    plans = []
    for name in ("one", "two"):
        valid = check(text, platform=name).require()
        times = times_of(valid.system, valid.platform, None)
        planned = plan(valid, times, place(valid, times)).deployment.planned
        assert planned is not None
        plans.append(planned)
    image = 4 * 16 * 128 * 32 * 33 // 32  # the arena has a table of what is in it
    assert [p.buffers for p in plans] == [2 * image, 4 * image]
    assert plans[0].weights == plans[1].weights == 4 * 16 * 9 * (3 + 5 * 16)
    assert replace(plans[0], tokens=0).total == plans[0].weights + plans[0].buffers


BOARD = """
platform board { tensorrt "10.3"  cpu core[2]  gpu ampere compute 8.7 MEMORY }
mapping on board { Eye.net -> ampere  Eye.small -> ampere  Eye.half -> ampere streams 2 }
"""


@pytest.fixture
def devices(text: Path) -> Path:
    """Three networks on a GPU: one in 16 bits, one that needs half as much between its layers."""
    stack(text.parent / "small.onnx", 6, 64)
    more = 'network Half from "net.onnx" { precision fp16 }\nnetwork Small from "small.onnx"\n'
    more += 'task Crop { in x: float32[1, 3, 128, 32] out y: float32[1, 3, 64, 32] python "tasks.py:crop" }\napp Eye {'
    graph = "net: Net crop: Crop small: Small half: Half a: Show b: Show show: Show "
    graph += "camera -> crop -> small -> a camera -> half -> b camera -> net -> show }"
    told = text.read_text().replace("app Eye {", more)
    text.write_text(told.replace("net: Net show: Show camera -> net -> show }", graph))
    (text.parent / "tasks.py").write_text(
        TASKS + "\n\ndef crop(x):\n    return x[:, :, :64].copy()\n"
    )
    return text


def on_board(
    text: Path, memory: str = "", seen: Mapping[str, int] = MappingProxyType({})
) -> tuple[Deployed, Platform]:
    """What is planned; TensorRT was `seen` to take so much for some networks."""
    whole = text.read_text().partition("platform board")[0]
    text.write_text(whole + BOARD.replace("MEMORY", memory))
    valid = check(text, platform="board").require()
    entries = tuple(
        ProfileEntry(
            "gpu", name, "", digest, host_hash(), 9, 1000, 0, 1000, 1000, arena_bytes=seen[name]
        )
        for name, digest in task_hashes(valid.system).items()
        if name in seen
    )
    times = times_of(valid.system, valid.platform, Profile("board", "", entries))
    return plan(valid, times, place(valid, times)), valid.platform


IMAGE = 4 * 16 * 128 * 32


def test_contexts_of_tensorrt_share_an_arena(devices: Path) -> None:
    """The largest of a worker, a second one for the second stream; each engine has weights, in its
    precision."""
    deployed, _ = on_board(devices)
    planned = deployed.deployment.planned
    assert planned is not None
    weights = 4 * 16 * 9 * (3 + 5 * 16)
    assert planned.arenas == 2 * IMAGE + IMAGE  # whole in one stream, in 16 bits in the other
    assert planned.weights == 2 * weights + weights // 2 and planned.buffers == 0
    assert planned.total == planned.weights + planned.tokens + planned.arenas
    assert '"arenas": ' in deployed.deployment.to_json()
    known, _ = on_board(devices, seen={"Eye.net": 1000, "Eye.half": 3000, "Eye.small": 2000})
    assert known.deployment.planned == replace(planned, arenas=3000 + 3000)


def test_engines_are_held_against_the_memory_of_their_gpu(devices: Path) -> None:
    """Where its pool has some; else it is that of the CPUs."""
    deployed, platform = on_board(devices, "memory 1 GB")
    assert not memory.beyond_platform(deployed, platform)
    deployed, platform = on_board(devices, "memory 900 kB")
    (fault,) = memory.beyond_platform(deployed, platform)
    assert fault.code == "F513" and "on `ampere` of `board`, but it has 900 kB" in fault.message
    assert "786.4 kB are buffers between layers" in fault.help
    deployed, platform = on_board(devices)
    board = replace(
        platform, pools=(replace(platform.pools[0], memory_bytes=50_900_000), *platform.pools[1:])
    )
    (fault,) = memory.beyond_platform(deployed, board)
    assert fault.code == "F521" and "786.4 kB are arenas" in fault.help


def test_states_share_arenas() -> None:
    """By hand: two workers in one state, one in the other, and what ends at a CPU has none."""
    codes = {n: DeviceMemory(10, size, ("gpu",)) for n, size in (("a", 5), ("b", 7), ("c", 9))}

    def worker(*tasks: str, processor: str = "gpu") -> DeployedWorker:
        return DeployedWorker(
            processor, "fifo", tuple(Entry(t, 1, 0, 0, (0, 1), (0, 1)) for t in tasks), None
        )

    states = [[worker("x", processor="cpu"), worker("a", "b"), worker("a")], [worker("c", "x")]]
    assert shared_arenas(codes, states[:1]) == 7 + 5
    assert shared_arenas(codes, states) == 9 + 5
    given = [OfSize(n) for n in (5, 7, 9)]
    workers = [("cpu", 1, []), ("gpu", 1, given[:2]), ("gpu", 1, given[:1]), ("gpu", 2, given[2:])]
    run_here = device.arenas(workers)
    assert [a.nbytes for a in run_here] == [0, 9, 5, 9] and run_here[1] is run_here[3]
    assert [a.apart for a in run_here] == [0, 21, 5, 21]


class OfSize(device.OnDevice):
    """Code that needs an arena."""

    def __init__(self, size: int) -> None:
        device.OnDevice.__init__(self)
        self.arena_bytes = size

    def words(self) -> str:
        return ""

    def run(self, *given: object) -> None:
        """Nothing."""


def test_the_platform_limits_a_search_too(text: Path) -> None:
    """Without `--memory`, where a quick mapping is too large; with it, the smaller one holds, and
    is named."""
    valid = check(text, platform="one").require()
    times = times_of(valid.system, valid.platform, None)
    whole = plan(valid, times, place(valid, times)).deployment.planned
    assert whole is not None
    limit = whole.total * 9 // 10
    text.write_text(
        text.read_text() + f"platform little {{ cpu core[1] memory {50_000_000 + limit} B }}\n"
    )
    store_profile(text, {"Eye.net": 8_000_000}, "little")
    for wanted, codes in ((None, []), (10**9, ["F524"])):
        found = find_mapping(text, memory=wanted, measure=False, platform="little", keep=False)
        assert found.mapping.memory is not None and found.mapping.memory.total <= limit
        assert [d.code for d in found.diagnostics if d.code != "F614"] == codes


def test_what_bands_cost_is_measured_once(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine, kept in the profile by content, and counted with."""
    monkeypatch.setattr(band_costs, "PAYS", 0)
    monkeypatch.setattr(band_costs, "SEARCHING", 0.15)
    monkeypatch.setattr(band_costs, "RUNNING", 0.05)
    store_profile(text, {"Eye.net": 8_000_000})
    valid = check(text).require()
    stored, _ = store.read_profile(valid)
    assert stored is not None
    measured, unsaved = band_costs.with_band_costs(valid, stored)
    (costs,) = (e.bands for e in measured.entries if e.bands is not None)
    assert (
        not unsaved
        and costs.plans >= 2
        and costs.whole_ns > 0
        and costs.blocked == bool(block_here())
    )
    again, _ = store.read_profile(valid)
    assert again == measured
    monkeypatch.setattr(band_costs, "measured_costs", None)
    assert band_costs.with_band_costs(valid, measured)[0] == measured
    (front,) = memory.fronts_of(valid.tasks.values(), {"Eye.net": 8e6}, measured).values()
    assert not any(c.estimated for c in front)
