"""States in a report: the tasks of each, its proofs, measured and proved durations of changes.

In: a text with its stored mapping, and a run. Out: rows of the document.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.mapping import StateBound
from ...model.scenario import State
from ...report.document import ChangeRow, StateBoundRow, StateRow
from ...report.measured import Ran
from ..text.check import Valid


def states_of(valid: Valid, ran: Ran | None) -> Iterator[StateRow]:
    """A row for each state; none without a scenario."""
    scenario, mapping = valid.system.scenario, valid.mapping
    known = {} if mapping is None else {s.state: s for s in mapping.states}
    for state in () if scenario is None else scenario.states:
        proved, seen = known.get(state.name), None if ran is None else ran.states.get(state.name)
        yield StateRow(
            state.name,
            tuple(_running(state)),
            tuple(f"{instance} = {variant}" for instance, variant in state.choices),
            state.best,
            float(state.weight),
            {} if proved is None else {p.task: ", ".join(p.processors) for p in proved.placements},
            () if proved is None else tuple(_bounds(proved)),
            ""
            if proved is None
            else ", ".join(f"{pool} {hz / 1e6:g} MHz" for pool, hz in proved.clocks_hz),
            None if proved is None else proved.energy_mw,
            None if seen is None else seen.seconds,
            None if seen is None else seen.entered,
            None if seen is None else seen.joules,
        )


def changes_of(valid: Valid, ran: Ran | None) -> Iterator[ChangeRow]:
    """A row for each transition; those that differ only in their events share one."""
    scenario, mapping = valid.system.scenario, valid.mapping
    bounds = (
        {} if mapping is None else {(t.source, t.target): t.delay_ns for t in mapping.transitions}
    )
    words: dict[tuple[str, str], list[str]] = {}
    for t in () if scenario is None else scenario.transitions:
        after = [] if t.after_ns is None else [f"after {float(t.after_ns) / 1e9:g} s"]
        words.setdefault((t.source, t.target), []).extend([*t.events, *after])
    for ends in dict.fromkeys([*words, *([] if ran is None else ran.changes)]):
        bound, took = bounds.get(ends), None if ran is None else ran.changes.get(ends, [])
        ended = [ns for ns in took or () if ns is not None]
        yield ChangeRow(
            *ends,
            ", ".join(words.get(ends, ())),
            bound,
            None if took is None else len(took),
            round(sum(ended) / len(ended)) if ended else None,
            max(ended, default=None),
            None if took is None or bound is None else sum(ns > bound for ns in ended),
        )


def in_the_mean(valid: Valid) -> dict[str, float]:
    """The share of its time that each processor needs over all states, by their weights; {} if
    there are no weights."""
    scenario, mapping = valid.system.scenario, valid.mapping
    if scenario is None or mapping is None or len(mapping.states) < len(scenario.states):
        return {}
    found: dict[str, float] = {}
    for proved in mapping.states:
        for processor, share in proved.utilization:
            found[processor] = (
                found.get(processor, 0.0) + float(scenario.state(proved.state).weight) * share
            )
    return found


def _bounds(proved: StateBound) -> Iterator[StateBoundRow]:
    for group in proved.groups:
        yield StateBoundRow(
            group.app, group.response_ns, group.deadline_ns, group.seen_ns, not group.schedulable
        )


def _running(state: State) -> Iterator[str]:
    for app in state.apps:
        yield (
            app.name
            if app.period_ns is None
            else f"{app.name} every {float(app.period_ns) / 1e6:g} ms"
        )
