"""The main.py of a program with states: each app is said once, and each state has what its
deployment says."""

from __future__ import annotations

import importlib.util
import json
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from builds import Write, build
from models import N, save, weights

ROOT = Path(__file__).parents[2]
_NUMBERS = count()

TEXT = """
type X = float32[1, 8]
task Source { out x: X   python "code.py:source" }
task Sink { in x: X window 2   in early: X   python "code.py:sink" }
network Net {
    in x: X   out y: X
    variant large from "large.onnx" { in x: X from "wide" pre "code.py:same"   out y: X from "far" }
    variant small from "small.onnx"
}
/// What runs in all states.
app A {
    range: Source   one: Net   two: Net   sink: Sink
    range -> one -> two -> delay 2 = 1 -> sink.x   range -> sink.early
}
app B { period 20 ms   code: Source   net: Net   sink: Sink
    code -> net -> sink.x   code -> sink.early }
scenario S {
    event go
    initial state plain { run A, B }
    state first { run A, B period 30 ms   A.one = small }
    state second { run A   A.two = small }
    state both { run A, B period 40 ms   A.one = small   A.two = small   B.net = small }
    plain -> first on go   first -> second on go   second -> both on go   both -> plain on go
}
"""
CODE = """
import numpy as np
def source(): return np.ones((1, 8), np.float32)
def same(x): return x
def sink(x, early): pass
"""


@pytest.fixture
def text(write: Write) -> Path:
    text = write(TEXT, code_py=CODE)
    small = [N("Gemm", ["x", "w"], ["y"])]
    save(text.parent / "small.onnx", small, {"x": [1, 8]}, {"w": weights(8, 8)}, "y")
    large = [N("Gemm", ["wide", "w"], ["far"])]
    save(text.parent / "large.onnx", large, {"wide": [1, 8]}, {"w": weights(8, 8)}, "far")
    return text


def program(built: Path) -> Any:
    """What main.py makes."""
    name = f"built{next(_NUMBERS)}"
    spec = importlib.util.spec_from_file_location(
        name, built / "__init__.py", submodule_search_locations=[str(built)]
    )
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return sys.modules[f"{name}.main"].program()


def deployed(app: dict[str, Any]) -> dict[str, Any]:
    """An app of a deployment."""
    return {
        "times": (app["period_ns"], app["deadline_ns"]),
        "tasks": [
            (t["name"], [p["name"] for p in t["inputs"]], [p["name"] for p in t["outputs"]])
            for t in app["tasks"]
        ],
        "channels": [
            (
                (c["source"], c["source_port"], c["destination"], c["destination_port"]),
                (c["capacity"], c["delay"], c["values"]),
            )
            for c in app["channels"]
        ],
        "paths": [(p["source"], p["sink"], p["newest"]) for p in app["paths"]],
    }


def made(app: Any, arrows: list[Any]) -> dict[str, Any]:
    """The same of a program."""
    return {
        "times": tuple(None if t is None else str(t) for t in (app.period, app.deadline)),
        "tasks": [
            (t.name, [p.name for p in t.inputs], [p.name for p in t.outputs]) for t in app.tasks
        ],
        "channels": [
            (
                (a.source.name, a.output, a.destination.name, a.input),
                (a.capacity, a.delay, list(a.values)),
            )
            for a in arrows
            if a.source.app is app
        ],
        "paths": [(p.source.name, p.sink.name, p.newest) for p in app.paths],
    }


def entries(order: list[Any]) -> list[Any]:
    """A static order of a program."""
    return [
        (
            [e.task.name, e.times, e.first, e.stage],
            [[e.replica, e.replicas], [e.index, e.per_round]],
        )
        for e in order
    ]


def test_each_state_has_what_its_deployment_says(text: Path, tmp_path: Path) -> None:
    built = build(text, tmp_path / "b")
    p = program(built)
    orders = iter(p.processors)
    states = json.loads((built / "deployment.json").read_text())["scenario"]["states"]
    assert [s["name"] for s in states] == ["plain", "first", "second", "both"]
    for state in states:
        apps = p.control.states[state["name"]].apps
        assert [a.name for a in apps] == [a["name"] for a in state["apps"]]
        for app, expected in zip(apps, state["apps"], strict=True):
            assert made(app, p.arrows) == deployed(expected)
        for worker in state["processors"]:
            if worker["order"]:
                processor = next(orders)
                assert processor.name == worker["processor"]
                assert entries(processor.order) == [
                    (
                        [e["task"], e["times"], e["first"], e["stage"]],
                        [e["replica"], e["round"]],
                    )
                    for e in worker["order"]
                ]
                assert {id(e.task.app) for e in processor.order} <= {id(a) for a in apps}
    assert next(orders, None) is None


def test_code_is_made_once(text: Path, tmp_path: Path) -> None:
    p = program(build(text, tmp_path / "b"))
    codes: dict[str, set[int]] = {}
    for task in p.tasks:
        codes.setdefault(task.name, set()).add(id(task.code))
    assert {len(own) for own in codes.values()} == {1}


def test_the_example_says_each_app_once(tmp_path: Path) -> None:
    main = (build(ROOT / "examples/patrol/patrol.flow", tmp_path / "b") / "main.py").read_text()
    assert [main.count(f'p.app("{name}"') for name in ("Front", "Left", "Right", "Back")] == [1] * 4
    assert len(main.splitlines()) < 225
