"""What machines answer, read as data: what is wrong is named, and ends nothing with a traceback."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flowc.driver.execute import run as running
from flowc.driver.execute.rig import run_parts
from flowc.driver.measure.devices import _fired, _plans
from flowc.machines.answers import Machine, machine, printed_as
from flowc.machines.host import Done, Here
from flowc.machines.whoami import document
from flowc.model.diagnostic import Errors
from flowc.profiling import machine as machines
from flowc.profiling.measure import MeasurementFailed, run_build, signal_name
from flowc.report.written import written

from builds import Write, store_profile

SEEN: dict[str, Any] = {
    "samples": {"A.s": [1, 2]}, "period_ns": {"A": 5.0}, "latency_ns": {"A": 5}, "busy": {}, "held": {},
    "paths": {"A": [[None, 0, 0], [7, 1, 0]]}, "waits": ["A.s"],
}  # fmt: skip
LATENCY = {
    "latency_ms": {"mean": 1.5, "p50": 1, "p99": None, "max": 2},
    "histogram": {"ns": [1, 2], "counts": [1]},
}
REPORT: dict[str, Any] = {
    "status": 0, "failure": None, "build": "x",
    "where": {"machine": "front", "processor": "x", "kernel": "Linux 6", "python": "3.11", "flowc": "1", "started": "2026"},
    "background": ["B"], "shares": {"B": {"core": {"part": 0.2, "used": 0.1, "above": True}}}, "channels": {"c": {"capacity": 2, "most": 1}}, "dropped": {},
    "apps": {
        "A": {
            "frames": 1, "skipped": 0, "seconds": 0.1, "fps": 10.0, "deadline_ms": None, "deadline_misses": 0, "overruns": 0, "not_begun": 0, **LATENCY,
            "paths": [{"kind": "age", "source": "A.s", "task": "A.t", "firings": 1, "deadline_ms": 2.5, "deadline_misses": 0, **LATENCY}],
        }
    },
    "processors": {"core": {"utilization": 0.5}},
    "tasks": {
        "A.s": {
            "processor": "core", "firings": 1, "mean_us": 1.0, "std_us": 0.0, "max_us": 1.0, "share": 0.1, "failed": 0,
            "skipped": 0,
        }
    },
    "memory": {
        "planned": {"total": 5}, "process": 7, "resident": 7, "proportional": None, "before_networks": None,
        "arenas": None, "bands": {},
    },
    "part": {"name": "front", "passed": [], "clocks": {"back": {"offset_ns": -5, "round_trip_ns": 7}}, "refused": 0},
}  # fmt: skip


class Answering(Here):
    """A machine whose commands end well and print this, and whose files have this in them."""

    def __init__(self, printed: str = "", content: bytes | None = None) -> None:
        super().__init__()
        self._printed, self._content = printed, content

    def module(self, *words: Any) -> Done:
        return Done(0, self._printed, "")

    def read(self, file: str) -> bytes | None:
        return self._content


def changed(known: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """With another value at that place."""
    copy = json.loads(json.dumps(known))
    *inside, last = path.split("/")
    node = copy
    for key in inside:
        node = node[int(key) if isinstance(node, list) else key]
    node[last] = value
    return dict(copy)


def test_what_libraries_say_before_an_answer_does_no_harm() -> None:
    said = f"a library says this\n{json.dumps(document())}\n"
    assert printed_as(Machine, said) == machine(said)


@pytest.mark.parametrize(
    "said",
    ["", "hello", "[]", "{}", '{"cores": NaN}', "[" * 100_000, '{"cores": ' + "9" * 5000 + "}"],
)
def test_a_machine_that_does_not_say_what_it_is(said: str) -> None:
    with pytest.raises(ValueError):
        machine(said)
    for key, value in (
        ("cores", 0),
        ("cores", 10**9),
        ("memory_bytes", "x"),
        ("numpy", ["1.26"]),
        ("celsius", True),
    ):
        with pytest.raises(ValueError, match=key):
            machine(json.dumps({**document(), key: value}))
    with pytest.raises(ValueError, match="characters"):
        machine(json.dumps({**document(), "description": "x" * 100_000}))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("samples", None), ("samples/A.s", []), ("samples/A.s", [-1]), ("samples/A.s", [10**40]), ("samples/A.s", 7),
        ("period_ns/A", "x"), ("paths/A", [[1, 2]]), ("waits", "A.s"), ("x", 1), ("failure", 7),
    ],
)  # fmt: skip
def test_a_measurement_that_is_none(path: str, value: Any, tmp_path: Path) -> None:
    good = run_build(tmp_path, 0.1, strict=True, host=Answering(content=json.dumps(SEEN).encode()))
    assert good.samples == {"A.s": (1, 2)} and good.paths["A"][1] == (7, 1, 0)
    content = json.dumps(changed(SEEN, path, value)).encode()
    with pytest.raises(MeasurementFailed, match="the measurements cannot be read"):
        run_build(tmp_path, 0.1, strict=True, host=Answering(content=content))


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"\xff", b'"x"'])
def test_a_measurement_that_is_not_there(content: bytes | None, tmp_path: Path) -> None:
    with pytest.raises(MeasurementFailed, match="the measurements cannot be read"):
        run_build(tmp_path, 0.1, strict=True, host=Answering(content=content))


@pytest.mark.parametrize(
    "said", ["", "{}", '{"noise": "much", "celsius": null}', '{"noise": 1e999, "celsius": 1}']
)
@pytest.mark.parametrize("ask", [machines.noise, machines.runtime_costs, machines.change_ns])
def test_what_a_machine_takes_cannot_be_read(said: str, ask: Callable[[Here], object]) -> None:
    with pytest.raises(MeasurementFailed, match="cannot be read"):
        ask(Answering(said))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("apps", []), ("apps/A/frames", -1), ("apps/A/latency_ms/max", "x"), ("apps/A/paths", {}), ("tasks/A.s", {}),
        ("memory", None), ("memory/bands", []), ("part/clocks/back/offset_ns", 0.5), ("failure", {"reason": 1}),
        ("status", 10**9), ("states", []), ("where", {}), ("shares/B/core", 1),
    ],
)  # fmt: skip
def test_a_report_that_is_none(path: str, value: Any) -> None:
    assert written(json.dumps(REPORT).encode())[1] == REPORT
    content = json.dumps(changed(REPORT, path, value)).encode()
    with pytest.raises(ValueError, match=path.split("/")[0]):
        written(content)
    rig: Any = type(
        "Rig",
        (),
        {
            "machines": (),
            "deployments": lambda _: {},
            "run": lambda *_, **__: 0,
            "files": lambda *_: {"front": content},
        },
    )()
    with pytest.raises(Errors, match=r"F657.*the report of `front` cannot be read"):
        run_parts(rig, [], [], {}, silent=True)


def test_measured_devices_that_say_other_things() -> None:
    assert set(_fired(json.dumps(REPORT).encode(), ["A.s"])) == {"A.s"}
    for content in (b"", b"{}", json.dumps(changed(REPORT, "tasks", {})).encode()):
        with pytest.raises(Errors, match="F657"):
            _fired(content, ["A.s"])
    for content in (b"", b"{}", b"[{}]", b'[{"file": 1}]'):
        with pytest.raises(Errors, match="F657"):
            _plans(content)


def test_a_signal_without_a_name() -> None:
    assert signal_name(signal.SIGKILL) == "SIGKILL" and signal_name(50) == "signal 50"


TEXT = """
task Count { out n: int32  python "t.py:count" }
task Keep { in m: int32  python "t.py:keep" }
app Sum { count: Count  keep: Keep  count -> keep }
"""


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"seconds": 1, "tests": [{}]}', b"\xff"])
def test_outcomes_of_tests_that_cannot_be_read(
    content: bytes, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the disk is full."""
    flow = write(TEXT, t_py="def count(): return 1\ndef keep(m): pass\n")
    store_profile(flow)
    monkeypatch.setattr(running, "attend", lambda *_, **__: 0)
    monkeypatch.setattr(Here, "read", lambda *_: content)
    done = running.test(flow, flow.parent / "out")
    (outcome,) = done.tests
    assert done.status == 1 and outcome.outcome == "error" and "cannot be read" in outcome.message
