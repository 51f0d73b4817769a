"""The verb `check`."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ._common import Json, OnPlatform, Text, number, print_json, say, show_diagnostics
from ._scenario import scenario_as_data, scenario_table
from ._tables import folded, kept, windows

if TYPE_CHECKING:
    from ..driver.build.dla import OnDla
    from ..driver.text.check import Checked


def check(file: Text, platform: OnPlatform = "host", as_json: Json = False) -> int:
    """Check a text: names, types, code, networks, rates, deadlock. Nothing is run."""
    from ..driver.text.check import check as driver_check
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
        reports = {r.network: asdict(r) for r in _on_dla(checked)}
        print_json({**document, "dla": reports} if reports else document)
    show_diagnostics(checked.diagnostics, checked.system.sources)
    if not as_json:
        _print_verdicts(checked)
        for report in _on_dla(checked):
            from ._tables import on_dla

            print(f"\n{on_dla(report)}")
    elif not checked.ok:
        say(_count(checked))
    return 0 if checked.ok and not checked.impossible else 1


def _apps(checked: Checked) -> dict[str, Any]:
    """The verdicts of apps as data."""
    return {
        name: {
            "consistent": v.consistent.holds,
            "deadlock_free": v.deadlock_free.holds,
            "schedulable": v.schedulable.holds,
            "repetition": v.repetition,
            **windows(found),
            "pace": {source: str(ns) for source, ns in v.pace.items()},
            "paths": [
                {"source": p.source, "task": p.sink, "deadline_ns": str(p.deadline_ns)}
                for p in found.paths
            ],
        }
        for found in checked.system.apps
        for name, v in [(found.name, checked.verdicts[found.name])]
    }


def _on_dla(checked: Checked) -> tuple[OnDla, ...]:
    """What the platform's DLA can run, if it has one."""
    if (
        not checked.ok
        or checked.staged is None
        or all(p.kind != "dla" for p in checked.staged.platform.pools)
    ):
        return ()
    from ..driver.build.dla import dla_reports

    return dla_reports(checked.system, checked.staged.platform)


def _print_verdicts(checked: Checked) -> None:
    if not checked.ok:
        print(_count(checked))
        return
    words = {True: "yes", False: "no", None: "not decided"}
    for found in checked.system.apps:
        verdicts = checked.verdicts[found.name]
        print(
            f"{found.name}: {number(len(found.tasks), 'task')},"
            f" {number(len(found.channels), 'channel')}"
        )
        rows = {
            "consistent": verdicts.consistent,
            "deadlock-free": verdicts.deadlock_free,
            "schedulable": verdicts.schedulable,
        }
        for name, verdict in rows.items():
            print(folded(f"  {name:<14} {words[verdict.holds]:<12} {verdict.witness}", 30))
        several = [f"{_short(n)} {q}" for n, q in verdicts.repetition.items() if q != 1]
        if several:
            shown = ", ".join(several[:12]) + (", ..." if len(several) > 12 else "")
            print(
                f"  {'iteration':<14}"
                f" {shown}{', the others 1' if len(several) < len(found.tasks) else ''}"
            )
        if found.windows:
            print(f"  {'windows':<14} {kept(found)}")
        for source, ns in verdicts.pace.items():
            again = (
                f", {verdicts.repetition[source]} times in a period"
                if verdicts.repetition[source] > 1
                else ""
            )
            print(f"  {'pace':<14} {_short(source)} every {_ms(ns)}{again}")
        for path in found.paths:
            print(
                f"  {'path':<14} {_short(path.source)} to {_short(path.sink)} within"
                f" {_ms(path.deadline_ns)}"
            )
    if checked.system.scenario is not None:
        late = {
            n: [a for a, v in c.verdicts.items() if v.impossible] for n, c in checked.states.items()
        }
        print("\n" + scenario_table(checked.system.scenario, late))


def _short(task: str) -> str:
    return task.partition(".")[2]


def _ms(ns: Fraction) -> str:
    return f"{float(ns) / 1e6:.6g} ms"


def _count(checked: Checked) -> str:
    errors = sum(d.severity == "error" for d in checked.diagnostics)
    return number(errors, "error")
