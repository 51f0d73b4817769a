"""Builds that do not measure, and running what was built."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import flowc
import pytest
from flowc.codegen.carried import carried
from flowc.codegen.deploy import Deployed
from flowc.driver.measure import measure as measuring
from flowc.driver.plan.program import place, plan
from flowc.driver.text import store
from flowc.driver.text.check import Valid
from flowc.machines.whoami import description, host_hash
from flowc.model.mapping import Mapping
from flowc.model.profile import Profile, ProfileEntry, TransferCost
from flowc.model.times import times_of
from flowc.profiling import machine, measure
from flowc.profiling.identity import task_hashes
from flowc.profiling.machine import RuntimeCosts
from flowc.profiling.measure import MeasuredTimes
from flowc.runtime.reference import load_deployment

from forks import PROGRAM, forks
from limits import HANGS as HANGS

ROOT = Path(__file__).resolve().parents[2]
Write = Callable[..., Path]
#: Seconds for which a build measures that is not told anything else: as users have it, not as
#: conftest.py sets it.
SHORT = measuring.SHORT


@contextmanager
def in_a_moment() -> Iterator[None]:
    """What takes a second or two, of which other programs have no part, and may take thirty on a
    slow machine.

    It is against what would take hours: costs that grow with the square of an input, or faster.
    """
    begin = time.process_time()
    yield
    assert time.process_time() - begin < 30


def store_profile(
    flow: Path, times_ns: dict[str, int] | None = None, platform: str = "host"
) -> None:
    """Put a made-up profile beside a text, so that building it measures nothing (default 1000 ns
    per firing)."""
    checked = flowc.check(flow, platform=platform)
    assert checked.ok, [d.message for d in checked.diagnostics]
    assert checked.platform is not None
    entries = tuple(
        ProfileEntry("cpu", name, "", digest, host_hash(), 10, ns, 0, ns, ns)
        for part in (*checked.others, checked)
        for name, digest in task_hashes(part.system).items()
        for ns in [(times_ns or {}).get(name, 1000)]
    )
    assert not store.save_profile(
        checked.require(), Profile(checked.platform.name, description(), entries)
    )


def placed(valid: Valid, profile: Profile | None) -> Mapping:
    """Where a build puts everything."""
    return place(valid, times_of(valid.system, valid.platform, profile))


def planned(valid: Valid, profile: Profile | None) -> Deployed:
    """What a build emits."""
    times = times_of(valid.system, valid.platform, profile)
    return plan(valid, times, place(valid, times))


def build(
    flow: Path, output: Path, times_ns: dict[str, int] | None = None, platform: str = "host"
) -> Path:
    """Build without measuring."""
    store_profile(flow, times_ns, platform)
    flowc.build(flow, output, platform=platform)
    return output


def run(
    directory: Path, *arguments: str, timeout: float = HANGS
) -> subprocess.CompletedProcess[str]:
    """Run a build from another directory than its own."""
    return forks(*PROGRAM).run([directory / "main.py", *arguments], cwd="/", timeout=timeout)


def harness(directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the harness of a build."""
    command = ["-m", "unittest", "discover", "-s", "tests"]
    return forks(*PROGRAM).run(command, cwd=directory, timeout=HANGS)


def pretend_runs(
    monkeypatch: pytest.MonkeyPatch,
    period_ns: Callable[[Path], float] = lambda build: 1e6,
    firing_ns: Callable[[Path, str], int] = lambda build, task: 1000,
) -> None:
    """Let nothing be measured: a firing of a task in a build takes `firing_ns`, and a frame what
    `period_ns` says.

    Layers of networks are measured, for a moment.
    """
    monkeypatch.setattr(measuring, "LAYERS", 0.1)
    costs = RuntimeCosts(5_000.0, TransferCost("cpu", "cpu", 20_000.0, 0.1))
    monkeypatch.setattr(machine, "runtime_costs", lambda _: costs)
    monkeypatch.setattr(machine, "change_ns", lambda _: 100_000)

    def pretended(
        directory: Path, seconds: float, *, strict: bool, paced: bool = False, **_: object
    ) -> MeasuredTimes:
        apps = load_deployment(str(directory))["apps"]
        period = {a["name"]: period_ns(directory) for a in apps}
        times: dict[str, tuple[int, ...]] = {
            t["name"]: (firing_ns(directory, t["name"]),) * 40 for a in apps for t in a["tasks"]
        }
        return MeasuredTimes(times, period, period, {}, {})

    monkeypatch.setattr(measure, "run_build", pretended)
    monkeypatch.setattr(measuring, "run_build", pretended)


def in_its_own_time(out: Path, *arguments: str) -> dict[str, Any]:
    """Run it where only sleeping takes time; the report."""
    script, report = ROOT / "tests/support/virtual.py", out / "r.json"
    done = forks(*PROGRAM).run(
        [script, out, *arguments, "--report", report], cwd=out, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(report.read_text())
    return {**document, "said": done.stdout}


def with_processes(out: Path, text: str) -> None:
    """Give a build a main.py in which tasks have processes of their own, and the files of the
    runtime for that."""
    assert "Port, Program" in text
    (out / "main.py").write_text(text.replace("Port, Program", "Port, Process, Program"))
    names = re.findall("from runtime import (.*)", text)[0].split(", ")
    for path, content in carried([*names, "Process"]).items():
        (out / path).write_bytes(content)
