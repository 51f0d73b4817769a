"""The verb `check`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ._common import Json, OnPlatform, Text, number, print_json, say, show_diagnostics
from ._scenario import scenario_as_data, scenario_table
from ._tables import folded, in_one_piece, in_tensorrt, kept, on_accelerator, windows

if TYPE_CHECKING:
    from ..driver.build.accelerators import OnAccelerator
    from ..driver.build.engine_memory import EngineMemory
    from ..driver.text.check import Checked
    from ..model.application import Application
    from ..model.verdict import AppVerdicts

#: Most tasks whose firings in an iteration are named.
MOST_TASKS = 12


def check(file: Text, platform: OnPlatform = "host", as_json: Json = False) -> int:
    """Check a text: names, types, code, networks, rates, deadlock. Nothing is run.

    Where a profile is stored, its times say whether periods and deadlines can be kept, if no times
    of the text do: no proof, and no error.
    """
    from ..driver.text.measured import check as driver_check
    from ._diagnostics import as_data

    checked = driver_check(file, platform=platform)
    if as_json:
        document = {
            "ok": checked.ok,
            "diagnostics": as_data(checked.diagnostics),
            "apps": _apps(checked),
        }
        if checked.ok and checked.system.scenario is not None:
            states = {name: _apps(state) for name, state in checked.states.items()}
            document["scenario"] = scenario_as_data(checked.system.scenario, states)
        whole = in_one_piece(checked.system.apps)
        if whole:
            document["one_piece"] = whole
        reports: dict[str, dict[str, Any]] = {}
        for report in _on_accelerators(checked):
            said = asdict(report)
            del said["kind"], said["title"]
            reports.setdefault(report.kind, {})[report.network] = said
        memory = [asdict(engine) for engine in _engine_memory(checked)]
        if memory:
            document["tensorrt"] = memory
        print_json({**document, **reports})
    show_diagnostics(checked.diagnostics, checked.system.sources)
    if not as_json:
        _print_verdicts(checked)
        for report in _on_accelerators(checked):
            print(f"\n{on_accelerator(report)}")
        for engine in _engine_memory(checked):
            print(f"\n{in_tensorrt(engine)}")
    elif not checked.ok:
        say(_count(checked))
    return 0 if checked.ok and not checked.impossible else 1


def _apps(checked: Checked) -> dict[str, Any]:
    """The verdicts of apps as data."""
    return {app.name: _app_as_data(app, checked.verdicts[app.name]) for app in checked.system.apps}


def _app_as_data(app: Application, verdicts: AppVerdicts) -> dict[str, Any]:
    measured = verdicts.schedulable
    by_profile = {"schedulable": measured.holds, "reason": measured.witness}
    return {
        "consistent": verdicts.consistent.holds,
        "deadlock_free": verdicts.deadlock_free.holds,
        "schedulable": verdicts.schedulable.proved,
        **({"measured": by_profile} if measured.measured else {}),
        "repetition": verdicts.repetition,
        **windows(app),
        "pace": {source: str(ns) for source, ns in verdicts.pace.items()},
        "paths": [
            {"kind": kind, "source": p.source, "task": p.sink, "deadline_ns": str(p.deadline_ns)}
            for kind, p in app.deadlines
        ],
    }


def _on_accelerators(checked: Checked) -> tuple[OnAccelerator, ...]:
    """What the platform's accelerators can run that do not take all layers."""
    networks = any(task.network for app in checked.system.apps for task in app.tasks)
    if not checked.ok or checked.staged is None or not networks:
        return ()
    from ..driver.build.accelerators import accelerator_reports

    return accelerator_reports(checked.system, checked.staged.platform)


def _engine_memory(checked: Checked) -> tuple[EngineMemory, ...]:
    """What TensorRT's builder counts for networks, on platforms that state their memory."""
    if not checked.ok or checked.staged is None or not checked.staged.platform.tensorrt:
        return ()
    from ..driver.build.engine_memory import engine_memory

    systems = [part.system for part in (checked, *checked.others)]
    return engine_memory(systems, checked.staged.platform)


def _print_verdicts(checked: Checked) -> None:
    if not checked.ok:
        print(_count(checked))
        return
    if not checked.system.apps:
        print(
            "no app: names, types, code and networks were checked; rates and deadlock need an app"
        )
    for app in checked.system.apps:
        for line in _verdicts_in_words(app, checked.verdicts[app.name]):
            print(line)
    paced = [app for app in checked.system.apps if app.period_ns is not None]
    if len(paced) > 1 and any(checked.verdicts[a.name].schedulable.holds for a in paced):
        print(
            "each app is judged alone, but for the sum of the work of all: `flowc map` decides"
            " whether they keep their deadlines together"
        )
    if checked.system.scenario is not None:
        late = {name: _late(state) for name, state in checked.states.items()}
        print("\n" + scenario_table(checked.system.scenario, late))


def _late(state: Checked) -> dict[str, str]:
    """In which way apps are late in a state on every mapping."""
    late = {}
    for app, verdicts in state.verdicts.items():
        if verdicts.impossible:
            late[app] = "too late"
        elif verdicts.schedulable.holds is False:
            late[app] = "too late, as measured"
    return late


def _verdicts_in_words(app: Application, verdicts: AppVerdicts) -> Iterator[str]:
    """The lines about an app."""
    words = {True: "yes", False: "no", None: "not decided"}
    yield f"{app.name}: {number(len(app.tasks), 'task')}, {number(len(app.channels), 'channel')}"
    rows = {
        "consistent": verdicts.consistent,
        "deadlock-free": verdicts.deadlock_free,
        "schedulable": verdicts.schedulable,
    }
    for name, verdict in rows.items():
        yield folded(f"  {name:<14} {words[verdict.holds]:<12} {verdict.witness}", 30)
    several = [f"{_short(n)} {q}" for n, q in verdicts.repetition.items() if q != 1]
    if several:
        shown = ", ".join(several[:MOST_TASKS])
        if len(several) > MOST_TASKS:
            shown += ", ..."
        if len(several) < len(app.tasks):
            shown += ", the others 1"
        yield f"  {'iteration':<14} {shown}"
    for task, why in in_one_piece([app]).items():
        line = f"{_short(task)} stays whole, on a CPU: it has {why}"
        yield folded(f"  {'one piece':<14} {line}", 17)
    if app.windows:
        yield f"  {'windows':<14} {kept(app)}"
    for source, ns in verdicts.pace.items():
        firings = verdicts.repetition[source]
        again = f", {firings} times in a period" if firings > 1 else ""
        yield f"  {'pace':<14} {_short(source)} every {_ms(ns)}{again}"
    for path in app.paths:
        ends = f"{_short(path.source)} to {_short(path.sink)}"
        yield f"  {'path':<14} {ends} within {_ms(path.deadline_ns)}"
    for chain in app.chains:
        ends = f"{chain.source} to {_short(chain.sink)}"
        yield f"  {chain.kind:<14} {ends} within {_ms(chain.deadline_ns)}"


def _short(task: str) -> str:
    return task.partition(".")[2]


def _ms(ns: Fraction) -> str:
    return f"{float(ns) / 1e6:.6g} ms"


def _count(checked: Checked) -> str:
    errors = sum(d.severity == "error" for d in checked.diagnostics)
    return number(errors, "error")
