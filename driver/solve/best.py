"""The step that maps a scenario with deadlines: one placement for all states (with places of their
own for states that would be late), and the best variants of networks for states that ask for them.

In: a valid text with states, its known times, and a request. Out: the result for each state.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...model.diagnostic import Errors
from ...search.deadline.relaxed import as_fraction, relax
from ...search.memory import Chosen
from ...search.variants import Choice, Judged, most_accurate
from ..text.check import Valid, ValidScenario
from .deadline_problem import require_possible
from .deadlines import missed
from .known_times import KnownTimes
from .request import MapRequest
from .state_map import Searched, States, StateSearch
from .worth import by_worth


def map_states_jointly(
    valid: ValidScenario, known: KnownTimes, request: MapRequest, chosen: Chosen | None = None
) -> States:
    """One placement with which the apps of every state meet their deadlines, if there is one.
    Raises Errors.

    It minimizes the maximum utilization over all states. On this machine the program of each state
    runs briefly. States that ask for the best variants of networks get the most accurate ones, or
    those they prefer, with which that is possible. Networks that are `chosen` run in these bands.
    """
    asked = StateSearch(known, request, chosen or {})
    if valid.options:
        valid = by_worth(valid, known)
        states = _with_best_variants(valid, asked)
    else:
        states = asked.mapped(asked.searched(valid, request.allowance))
    if states.excessive:
        raise Errors([*states.excessive.values()])
    return states.finished(known.profile, request.seed)


# -- the best variants -----------------------------------------------------------------------------
def _with_best_variants(valid: ValidScenario, asked: StateSearch) -> States:
    """The states with the most accurate variants that keep their deadlines and limits. Raises
    Errors."""
    spent = 0
    spending = asked.request.allowance.begin(lambda: spent)

    def judge(choice: Choice, lower: Collection[str], left: int) -> Judged[Searched | States]:
        nonlocal spent
        taken = valid.taking(choice)
        part = spending.left.part(1 / (1 + left))
        spent += part.evaluations or 0
        variants = "; ".join(f"{name} {_in_words(taken, name)}" for name in choice)
        asked.request.say(f"variants: {variants}")
        searched = asked.searched(taken, part)
        late = _late(searched)
        if any(name in lower for name in late):
            return Judged(searched, late)
        found = asked.mapped(searched)
        return Judged(
            found, late | _late_in(found) | {n: d.message for n, d in found.excessive.items()}
        )

    counts = {name: len(own) for name, own in valid.options.items()}
    best = most_accurate(counts, _hopeless(valid, asked), judge)
    assert isinstance(best.found, States)  # nothing is late, or all options were tried
    return replace(best.found, refused=best.refused)


def _in_words(valid: ValidScenario, state: str) -> str:
    return valid.scenario.state(state).best_in_words()


def _hopeless(valid: ValidScenario, asked: StateSearch) -> dict[tuple[str, int], str]:
    """Options with which no mapping keeps the deadlines: they are not searched."""
    hopeless = {}
    for name, options in valid.options.items():
        for k, option in enumerate(options):
            why = _why_hopeless(option, asked)
            if why:
                hopeless[name, k] = why
    return hopeless


def _why_hopeless(option: Valid | str, asked: StateSearch) -> str:
    if isinstance(option, str):
        return option
    for verdicts in option.verdicts.values():
        if verdicts.impossible:
            return verdicts.schedulable.witness
    problem = asked.problem(option)
    try:
        require_possible(problem)
    except Errors as errors:
        return errors.diagnostics[0].message
    relaxed = relax(problem)
    if relaxed is not None and as_fraction(relaxed.bound) > 1:
        return (
            f"on any mapping the busiest processor needs {relaxed.bound:.0%} of its time at least"
        )
    return ""


def _late(searched: Searched) -> dict[str, str]:
    """The states that miss a deadline or limit in the search's answer, each with a reason."""
    late = {}
    for name in searched.problems:
        outcome = searched.own.get(name, searched.outcome.states.get(name))
        if outcome is None:
            continue  # an earlier state had no answer
        if outcome.verdict is None:
            late[name] = "no mapping was found"
        elif not outcome.verdict.feasible:
            late[name] = ", ".join(missed(outcome.verdict))
    return late


def _late_in(states: States) -> dict[str, str]:
    """The same for programs."""
    late = {}
    for name, joint in states.joints.items():
        if joint.verdict is not None and joint.verdict.late:
            late[name] = ", ".join(missed(joint.verdict))
    return late
