"""States in a report: the tasks of each, its proofs, measured and proved durations of changes.

In: a text with its stored mapping, and a run. Out: rows of the document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...model.mapping import StateBound
from ...model.scenario import Scenario, State
from ...report.document import ChangeRow, StateBoundRow, StateRow
from ...report.measured import MeasuredRun
from ..text.check import Valid


def states_of(valid: Valid, ran: MeasuredRun | None) -> Iterator[StateRow]:
    """A row for each state; none without a scenario."""
    scenario, mapping = valid.system.scenario, valid.mapping
    if scenario is None:
        return
    proved = {} if mapping is None else {bound.state: bound for bound in mapping.states}
    measured = {} if ran is None else ran.states
    for state in scenario.states:
        row = StateRow(
            state.name,
            tuple(_running(state)),
            tuple(f"{instance} = {variant}" for instance, variant in state.choices),
            state.best,
            float(state.weight),
            {},
            (),
            "",
            None,
            None,
            None,
            None,
        )
        if state.name in proved:
            row = _with_bounds(row, proved[state.name])
        if state.name in measured:
            seen = measured[state.name]
            row = replace(row, seconds=seen.seconds, entered=seen.entered, joules=seen.joules)
        yield row


def _with_bounds(row: StateRow, proved: StateBound) -> StateRow:
    """A state with its places, bounds and clock rates of the mapping."""
    return replace(
        row,
        own_places={p.task: ", ".join(p.processors) for p in proved.placements},
        bounds=tuple(_bounds(proved)),
        clocks=", ".join(f"{pool} {hz / 1e6:g} MHz" for pool, hz in proved.clocks_hz),
        energy_mw=proved.energy_mw,
    )


def changes_of(valid: Valid, ran: MeasuredRun | None) -> Iterator[ChangeRow]:
    """A row for each transition; those that differ only in their events share one."""
    bounds: dict[tuple[str, str], int | None] = {}
    if valid.mapping is not None:
        bounds = {(t.source, t.target): t.delay_ns for t in valid.mapping.transitions}
    measured = {} if ran is None else ran.changes
    words = _causes(valid.system.scenario)
    for ends in dict.fromkeys([*words, *measured]):
        bound = bounds.get(ends)
        row = ChangeRow(*ends, ", ".join(words.get(ends, ())), bound, None, None, None, None)
        if ran is None:
            yield row
            continue
        took = measured.get(ends, [])
        ended = [ns for ns in took if ns is not None]
        yield replace(
            row,
            count=len(took),
            mean_ns=round(sum(ended) / len(ended)) if ended else None,
            max_ns=max(ended, default=None),
            above_bound=None if bound is None or ran.twin else sum(ns > bound for ns in ended),
        )


def _causes(scenario: Scenario | None) -> dict[tuple[str, str], list[str]]:
    """What causes each change, in words."""
    words: dict[tuple[str, str], list[str]] = {}
    if scenario is None:
        return words
    for transition in scenario.transitions:
        causes = words.setdefault((transition.source, transition.target), [])
        causes += transition.events
        if transition.after_ns is not None:
            causes.append(f"after {float(transition.after_ns) / 1e9:g} s")
    return words


def in_the_mean(valid: Valid) -> dict[str, float]:
    """The share of its time that each processor needs over all states, by their weights; {} if
    there are no weights."""
    scenario, mapping = valid.system.scenario, valid.mapping
    if scenario is None or mapping is None or len(mapping.states) < len(scenario.states):
        return {}
    utilization: dict[str, float] = {}
    for proved in mapping.states:
        weight = float(scenario.state(proved.state).weight)
        for processor, share in proved.utilization:
            utilization[processor] = utilization.get(processor, 0.0) + weight * share
    return utilization


def _bounds(proved: StateBound) -> Iterator[StateBoundRow]:
    for group in proved.groups:
        yield StateBoundRow(
            group.app,
            group.response_ns,
            group.deadline_ns,
            group.seen_ns,
            not group.schedulable,
            group.supposed,
        )


def _running(state: State) -> Iterator[str]:
    for app in state.apps:
        if app.period_ns is None:
            yield app.name
        else:
            yield f"{app.name} every {float(app.period_ns) / 1e6:g} ms"
