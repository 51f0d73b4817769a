"""The step that adopts another mapping that a search has seen: it replaces the stored one.

In: a text with a stored mapping, and the pins of one of its configurations. Out: the same file with
these places, and their bounds.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from ...analysis.timing.system import Refused
from ...dsl.load import read_pins
from ...model.diagnostic import Diagnostic, Errors
from ...model.mapping import Mapping, Pin, Supposed
from ...model.times import times_of
from ...search.deadline.answer import assignment_of
from ...search.deadline.orders import MANY_ORDERS
from ...search.deadline.outcome import Outcome
from ...search.deadline.problem import JointProblem
from ...search.deadline.verdict import verdict
from ..text import store
from ..text.check import Valid, prepare
from .deadline_problem import joint_problem, settled
from .deadlines import judged, wants_joint
from .fronts import with_places
from .known_times import KnownTimes
from .mixed import is_mixed, judged_mixed
from .request import MapRequest, WhatIf, supposed

WHY = "selected by hand from the search's candidates"


def choose(path: str | Path, pins: str, *, platform: str = "host") -> Mapping:
    """Replace the stored mapping by its configuration with these `pins`.

    With deadlines its bounds are computed again, from the program that a build would write; nothing
    is run. Raises Errors.
    """
    whole = prepare(path, platform=platform, mapped=False).require()
    before = _stored(whole)
    known = {*(c.pins for c in before.contestants), *(p.pins for p in before.effort.front)}
    if pins not in known or before.states:
        message = "the stored mapping has no such configuration"
        help_text = "`flowc map` has stored another one since: load the page again"
        raise Errors([Diagnostic("F648", message, None, help=help_text)])
    wanted = read_pins(pins, whole.loaded)
    chosen = replace(
        with_places(before, wanted),
        predicted_period_ns=(),
        groups=(),
        utilization=(),
        memory=None,
        priorities=None,
        slack=(),
        effort=replace(before.effort, optimal=False),
        why=(WHY,),
    )
    valid = supposed(whole, _what_if(before.supposed))
    bounded = wants_joint(valid) or (is_mixed(valid) and bool(before.groups))
    if before.memory is None and bounded:
        if valid.platform.machines:
            valid = settled(valid)
        chosen = _with_bounds(valid, wanted, chosen)
    store.save_mapping(whole, chosen)
    return chosen


def _stored(valid: Valid) -> Mapping:
    """The stored mapping. Raises Errors if none matches the text."""
    stored, faults = store.read_mapping(valid.system, valid.platform)
    stale = None if stored is None else stored.stale(valid.system, valid.platform)
    if stored is None or stale is not None:
        help_text = "`flowc map` finds a mapping and keeps the other candidates"
        message = "no mapping is stored"
        if faults:
            message = faults[0].message
        elif stale is not None:
            message = stale.message
        raise Errors([Diagnostic("F648", message, None, help=help_text)])
    return stored.mapping


def _what_if(found: Supposed | None) -> WhatIf:
    if found is None:
        return WhatIf()
    return WhatIf(None if found.fps is None else Fraction(found.fps), found.cores)


def _with_bounds(valid: Valid, pins: tuple[Pin, ...], found: Mapping) -> Mapping:
    """A mapping with its bounds, if they can be computed. Raises Errors."""
    profile, _ = store.read_profile(valid)
    known = KnownTimes(profile, times_of(valid.system, valid.platform, profile))
    effort = found.effort

    def outcome_for(problem: JointProblem) -> Outcome:
        assignment = assignment_of(problem, pins)
        judgement = verdict(problem, assignment, orders=MANY_ORDERS)
        return Outcome(
            found.search,
            assignment,
            judgement,
            None,
            False,
            None,
            effort.evaluations,
            effort.seconds,
            history=effort.history,
        )

    try:
        if is_mixed(valid):
            problem, outcome = judged_mixed(valid, known, pins, outcome_for)
        else:
            problem = joint_problem(valid, known.times)
            outcome = outcome_for(problem)
    except (KeyError, Refused):  # it was measured again since, or has no period
        return found
    nothing_runs = MapRequest(seed=effort.seed, measure=False)
    mapping = judged(valid, known, problem, outcome, nothing_runs).mapping
    return replace(
        found,
        predicted_period_ns=mapping.predicted_period_ns,
        groups=mapping.groups,
        utilization=mapping.utilization,
        priorities=mapping.priorities,
    )
