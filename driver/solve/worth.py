"""The step that ranks the options of states by what these `prefer`: Minakova's thesis, ch. 5.6.

In: a valid text with states, and its known times. Out: the same, with the options of these states
in the order of their worth. That is the sum over all criteria of a weight times how near an option
comes to the best one of its state in that criterion: accuracy over the highest one, and the least
time, memory and energy over that of the option (the thesis leaves the rule open).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from ...model.application import Task
from ...model.diagnostic import Diagnostic, Errors
from ...model.scenario import Criterion, State, StateOption
from ...model.times import FiringTime, Times
from ..text.check import Valid, ValidScenario
from .known_times import KnownTimes


def by_worth(valid: ValidScenario, known: KnownTimes) -> ValidScenario:
    """The text with ranked options. Raises Errors where a criterion is not known of an option."""
    faults: list[Diagnostic] = []
    for state in valid.scenario.states:
        if state.prefers and state.name in valid.options:
            try:
                worths = _Worths(state, valid.options[state.name], known).all
            except Errors as errors:
                faults += errors.diagnostics
                continue
            order = sorted(range(len(worths)), key=lambda k: -worths[k])
            valid = valid.in_order(state.name, order)
    if faults:
        raise Errors(faults)
    return valid


@dataclass(frozen=True, slots=True)
class _Option:
    """An option of a state, what it was checked to be, and its times; none if it is faulty."""

    option: StateOption
    valid: Valid | None = None
    times: Times | None = None


class _Worths:
    """The worth of each option of a state; options that are faulty anyway have none."""

    def __init__(self, state: State, options: tuple[Valid | str, ...], known: KnownTimes) -> None:
        self._state = state
        self._options: list[_Option] = []
        for option, valid in zip(state.options, options, strict=True):
            if isinstance(valid, Valid):
                self._options.append(_Option(option, valid, known.of(valid).times))
            else:
                self._options.append(_Option(option))

    @property
    def all(self) -> list[Fraction]:
        """In the order of the options."""
        worths = [Fraction(0)] * len(self._options)
        for criterion, weight in self._state.prefers:
            values = [self._value(criterion, option) for option in self._options]
            known = [value for value in values if value is not None]
            for k, value in enumerate(values):
                worths[k] += weight * _nearness(criterion, value, known)
        return worths

    def _value(self, criterion: Criterion, of: _Option) -> Fraction | None:
        """An option's accuracy, or the time or energy of a firing of its networks, with the tasks
        before and behind them, or the memory."""
        if criterion == "accuracy":
            return of.option.accuracy
        if of.valid is None or of.times is None:
            return None
        find = _FINDERS[criterion]
        total = Fraction(0)
        for name, task in of.valid.tasks.items():
            if not self._is_best(name):
                continue
            found = find(task, of.times.of.get(name, {}), of.valid)
            if found is None:
                raise Errors([self._unknown(criterion, name)])
            total += found
        return total

    def _is_best(self, name: str) -> bool:
        """Does a task belong to a network whose variant is to be chosen?"""
        return any(name == best or name.startswith(f"{best}.") for best in self._state.best)

    def _unknown(self, criterion: Criterion, name: str) -> Diagnostic:
        word = "time" if criterion == "throughput" else criterion
        message = f"`{self._state.name}` prefers {criterion}, and no {word} of `{name}` is known"
        help_text = "measure it with `flowc profile`, or declare a `wcet`"
        if criterion == "energy":
            help_text = "add `idle` and `busy` to the processors of the platform"
        return Diagnostic("F607", message, self._state.span, help=help_text)


def _nearness(
    criterion: Criterion,
    value: Fraction | None,
    known: Sequence[Fraction],
) -> Fraction:
    """How near a value comes to the best one that is known, which has 1."""
    if value is None:
        return Fraction(-1)
    best, much = min(known), value
    if criterion == "accuracy":
        best, much = value, max(known)
    return best / much if much else Fraction(1)


_Finder = Callable[[Task, Mapping[str, FiringTime], Valid], Fraction | None]


def _time(task: Task, times: Mapping[str, FiringTime], valid: Valid) -> Fraction | None:
    """The mean time of a firing where it is shortest."""
    return min((time.mean_ns for time in times.values()), default=None)


def _memory(task: Task, times: Mapping[str, FiringTime], valid: Valid) -> Fraction | None:
    """The bytes of the network's files, nearly all of which are weights."""
    network = task.network
    if network is None:
        return Fraction(0)
    if network.model:
        return Fraction(len(network.model))
    path = Path(network.path)
    files = [path, *(path.parent / name for name in network.external)]
    return Fraction(sum(file.stat().st_size for file in files))


def _energy(task: Task, times: Mapping[str, FiringTime], valid: Valid) -> Fraction | None:
    """The energy of a firing where it is least: that of the profile, or the time with the power
    beside `idle` at the highest rate."""
    found = []
    for type_, time in times.items():
        if time.entry is not None and time.entry.energy_nj is not None and time.source != "pin":
            found.append(Fraction(time.entry.energy_nj))
            continue
        for pool in valid.platform.pools:
            if pool.type == type_ and pool.busy_w:
                found.append(time.mean_ns * pool.busy_w[-1])
    return min(found, default=None)


_FINDERS: Mapping[Criterion, _Finder] = {
    "throughput": _time,
    "memory": _memory,
    "energy": _energy,
}
