"""Mappings within a memory: bands are found, stored, built and run, and what is impossible is said."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import flowc
import pytest
from flowc.driver import memory
from flowc.driver.build import place, plan
from flowc.driver.check import check
from flowc.driver.map import WhatIf, find_mapping
from flowc.model.diagnostic import Errors
from flowc.model.mapping import Bands
from flowc.model.times import times_of
from flowc.networks.bands.blocked import block_here
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
    """A camera, a stack of convolutions, and somebody who looks; a profile says what they take."""
    monkeypatch.setattr(memory, "SEARCHING", 0.4)
    monkeypatch.setattr(searching, "MOST_SIZES", 4)
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
    """With bands, at nine tenths of what the network takes; results are those of the whole network."""
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
    (code,) = (t["code"] for t in document["apps"][0]["tasks"] if t["name"] == "Eye.net")
    assert code["kind"] == "bands" and [Bands(b["rows"], b["until"], tuple(b["keep"])) for b in code["bands"]] == list(
        stage.bands
    )
    done = run(tmp_path / "out", "--frames", "5", "--report", str(tmp_path / "r.json"))
    assert done.returncode == 0, done.stderr
    memory = json.loads((tmp_path / "r.json").read_text())["memory"]
    assert memory["planned"]["total"] <= limit
    assert memory["bands"] == {
        "Eye.net": "blocked" if block_here() else "plain: ONNX Runtime has no blocks for it here"
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
    assert found.mapping.memory is not None and found.mapping.memory.total <= limit and not found.late
    assert found.joint is not None and found.joint.problem.bands["Eye.net"]
    assert any(p.bands for p in (*found.mapping.placements, *(s for n in found.mapping.networks for s in n.stages)))
    with pytest.raises(Errors) as caught:
        find_mapping(text, memory=1000, measure=False, platform="one")
    assert [d.code for d in caught.value.diagnostics] == ["F521"]


def test_bands_that_are_too_slow_are_not_taken(text: Path) -> None:
    """The network takes 8 ms of 9 as a whole: the least memory is not that of the smallest bands."""
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
    assert fault.code == "F521" and f"tokens of {tokens / 1e6:.4g} MB" in fault.message


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"memory": 1000}, "F521", "at least, the limit is 0.00 MB"),
        ({"objective": "memory", "what_if": WhatIf(fps=Fraction(10**6))}, "F521", "no mapping"),
        ({"memory": 10**9, "search": "exact"}, "F508", "knows nothing of memory"),
    ],
)
def test_what_cannot_be(text: Path, options: dict[str, object], code: str, words: str) -> None:
    """With the least that is possible, and the layer that dictates it."""
    with pytest.raises(Errors) as caught:
        find_mapping(text, measure=False, platform="one", **options)  # type: ignore[arg-type]
    (fault,) = caught.value.diagnostics
    assert fault.code == code and words in fault.message
    assert code != "F521" or "what_if" in options or "of `Eye.net` dictate it" in fault.help


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
    image = 4 * 16 * 128 * 32
    assert [p.buffers for p in plans] == [2 * image, 4 * image]
    assert plans[0].weights == plans[1].weights == 4 * 16 * 9 * (3 + 5 * 16)
    assert replace(plans[0], tokens=0).total == plans[0].weights + plans[0].buffers
