"""Every limit for every kind of text: a mapping that cannot keep it is refused, or called late."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import flowc
import pytest
from flowc.driver.solve.map import Answer, find_mapping
from flowc.model.diagnostic import Errors
from flowc.search.registry import searches_for

from builds import Write, store_profile
from models import stack

APPS = """
task Camera { out x: float32[1, 3, 64, 32]  python "t.py:camera"  wcet 1 ms }
network Net from "net.onnx"
task Show { in y: float32[1, 16, 1, 1]  python "t.py:show"  wcet 1 ms }
app A { %(time)s camera: Camera  net: Net  show: Show  camera -> net -> show }
"""
#: Beside it an app without a period.
BESIDE = """
app B { camera: Camera  show: Scores  camera -> show }
task Scores { in y: float32[1, 3, 64, 32]  python "t.py:show"  wcet 1 ms }
"""
STATES = """
app B { %(time)s camera: Camera  show: Scores  camera -> show }
task Scores { in y: float32[1, 3, 64, 32]  python "t.py:show"  wcet 1 ms }
scenario Modes {
    event turn
    initial state one { run A, B  %(power)s }
    state two { run A }
    one -> two on turn
    two -> one on turn
}
"""
BOARD = """
platform board { cpu core[2] %(memory)s frequencies [1000] MHz idle [0.1] W busy [4] W  power 1 W }
"""
RIG = """
platform board {
    machine near { cpu core[2] %(memory)s }
    machine far { cpu arm[2] }
    link near far 100 MB/s 1 ms
}
"""
CODE = """import numpy as np


def camera(): return np.zeros((1, 3, 64, 32), np.float32)


def show(y): pass
"""
TEXTS = {
    "deadlines": BOARD + APPS,
    "no periods": BOARD + APPS,
    "states with deadlines": BOARD + APPS + STATES,
    "states without periods": BOARD + APPS + STATES,
    "machines with deadlines": RIG + APPS,
    "machines without periods": RIG + APPS,
    "mixed": BOARD + APPS + BESIDE,
}


@dataclass(frozen=True)
class Limit:
    """A limit of the text or of the command line that no mapping keeps; `code` is that of the
    refusal. None: the mapping is late.
    """

    code: str | None
    time: str = "period 40 ms  deadline 200 ms"
    memory: str = ""
    power: str = ""
    bytes: int | None = None


LIMITS = {
    "deadline": Limit(None, time="period 40 ms  deadline 3 ms"),
    "memory": Limit("F521", bytes=1000),
    "memory of the board": Limit("F521", memory="memory 50.1 MB"),
    "power": Limit("F810", power="power 1.1 W"),
}
#: Limits that a kind of text does not have.
WITHOUT = {
    "deadline": {"no periods", "states without periods", "machines without periods"},
    "power": {
        "deadlines",
        "no periods",
        "machines with deadlines",
        "machines without periods",
        "states without periods",
        "mixed",
    },
}
#: Of the memory of a board with several machines, or without a mapping, a build decides.
BY_BUILD = {"machines with deadlines", "machines without periods"}


def written(write: Write, text: str, limit: Limit) -> Path:
    """The text with that limit."""
    periods = "no periods" not in text and "without" not in text
    words = {
        "time": limit.time if periods else "",
        "memory": limit.memory,
        "power": limit.power,
    }
    path = write(TEXTS[text] % words, t_py=CODE)
    stack(path.parent / "net.onnx", 2, 64)
    store_profile(path, {"A.net": 5_000_000}, "board")
    return path


def mapped(path: Path, limit: Limit) -> Answer:
    return find_mapping(path, platform="board", measure=False, budget=10, memory=limit.bytes)


@pytest.mark.parametrize("text", TEXTS)
def test_without_limits_every_kind_of_text_is_mapped(write: Write, text: str) -> None:
    limit = Limit(None)
    found = mapped(written(write, text, limit), limit)
    assert found.mapping.placements and not found.late and found.fits


@pytest.mark.parametrize(
    ("name", "text"),
    [(n, t) for n in LIMITS for t in TEXTS if t not in WITHOUT.get(n, ())],
)
def test_a_limit_that_no_mapping_keeps_is_reported(write: Write, name: str, text: str) -> None:
    limit = LIMITS[name]
    path = written(write, text, limit)
    if limit.code is None:
        assert mapped(path, limit).late
        return
    with pytest.raises(Errors) as caught:
        mapped(path, limit)
        assert name == "memory of the board" and text in BY_BUILD
        flowc.build(path, path.parent / "out", platform="board", measure=False)
    assert [fault.code for fault in caught.value.diagnostics] == [limit.code]
    assert all(fault.help for fault in caught.value.diagnostics)


@pytest.mark.parametrize("kind", ["states", "machines", "memory"])
def test_where_deadlines_beside_apps_without_periods_are_not_looked_at(
    write: Write, kind: str
) -> None:
    """Nothing else is refused there, but it is said."""
    apps = BOARD + APPS + BESIDE
    if kind == "machines":
        apps = RIG + APPS + BESIDE
    elif kind == "states":
        apps = BOARD + APPS + STATES.replace("%(time)s", "")
    limit = Limit(None, bytes=10**8 if kind == "memory" else None)
    path = write(apps % {"time": limit.time, "memory": "", "power": ""}, t_py=CODE)
    stack(path.parent / "net.onnx", 2, 64)
    store_profile(path, {"A.net": 5_000_000}, "board")
    found = mapped(path, limit)
    (warning,) = [d for d in found.diagnostics if d.code == "F658"]
    assert "`B` has no period" in warning.message and warning.help and found.fits


def test_a_power_limit_of_apps_without_periods_is_not_checked(write: Write) -> None:
    limit = LIMITS["power"]
    found = mapped(written(write, "states without periods", limit), limit)
    (warning,) = [d for d in found.diagnostics if d.code == "F809"]
    assert "`one` is not checked" in warning.message and warning.help


def test_a_network_is_on_one_machine(write: Write) -> None:
    """Also if two machines would have more cores to take turns."""
    limit = Limit(None)
    path = written(write, "machines without periods", limit)
    for search in [s.name for s in searches_for("throughput")]:
        try:
            found = find_mapping(path, platform="board", search=search, measure=False, budget=5)
        except Errors as errors:
            assert search in ("jedi", "fine-tuning-ga") and [
                d.code for d in errors.diagnostics
            ] == ["F508"]
            continue
        for plan in found.mapping.networks:
            for stage in plan.stages:
                assert len({p.partition("[")[0] for p in stage.processors}) == 1, search
        flowc.build(path, path.parent / "out", platform="board", measure=False, force=True)
