"""The best variants of networks: the most accurate option of each state that meets its deadlines.

In: the number of options of each state, the most accurate first; the hopeless ones, which fail with
any mapping; and a judge that searches for a mapping with one option of each state. Out: an option
for each state, and the reason why it has no more accurate one.

All states begin with their first option. States that are late proceed to their next one, until no
state is late or none has another option. An option that was rejected while other states had other
options than in the answer is then tried again. So every more accurate option of a single state was
judged together with the answer, or is hopeless. Exchanges, in which two states improve while a
third one gets worse, are not searched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

#: The number of an option for each state.
Choice = Mapping[str, int]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Judged(Generic[Found]):
    """The result of a choice; `late` gives the reasons of the states that cannot keep their
    option."""

    found: Found
    late: Mapping[str, str]


#: Searches for a mapping with an option for each state. The second argument are the states whose
#: lateness makes the result void and leads to another choice, the third is the maximum number of
#: further choices.
Judge = Callable[[Choice, Collection[str], int], Judged[Found]]


@dataclass(frozen=True, slots=True)
class RefusedOption:
    """The reason why an option of a state is rejected; `proved`: for any mapping."""

    state: str
    option: int
    why: str
    proved: bool


@dataclass(frozen=True, slots=True)
class BestVariants(Generic[Found]):
    """The answer; `kept`: every state meets its deadlines. `refused` are all options before the
    answer's.
    """

    choice: dict[str, int]
    found: Found
    kept: bool
    refused: tuple[RefusedOption, ...]


def most_accurate(
    counts: Choice, hopeless: Mapping[tuple[str, int], str], judge: Judge[Found]
) -> BestVariants[Found]:
    """An option for each state of `counts`; `hopeless` has the reasons of options that fail with
    any mapping.
    """
    return _Descent(counts, hopeless, judge).best()


class _Descent(Generic[Found]):
    """The present option of each state, and all options that were rejected."""

    def __init__(
        self, counts: Choice, hopeless: Mapping[tuple[str, int], str], judge: Judge[Found]
    ) -> None:
        self._counts, self._hopeless, self._judge = counts, hopeless, judge
        #: The least accurate option that is not hopeless, or the last one: no later one is tried.
        self._last: dict[str, int] = {}
        for state, count in counts.items():
            possible = [k for k in range(count) if (state, k) not in hopeless]
            self._last[state] = max(possible, default=count - 1)
        self._now = {state: self._after(state, -1) or 0 for state in counts}
        #: For each rejected option the reason, and the choice in which it was rejected.
        self._refused: dict[tuple[str, int], tuple[str, dict[str, int]]] = {}

    def best(self) -> BestVariants[Found]:
        """Descend until no state is late, then retry rejected options whose context has changed."""
        judged = self._down()
        if not judged.late:
            while (better := self._up()) is not None:
                judged = better
        refusals: list[RefusedOption] = []
        for state in sorted(self._counts):
            refusals += self._refusals(state)
        return BestVariants(dict(self._now), judged.found, not judged.late, tuple(refusals))

    def _after(self, state: str, option: int) -> int | None:
        """The next option that is not hopeless; None behind the last one."""
        last = self._last[state]
        for k in range(option + 1, last + 1):
            if k == last or (state, k) not in self._hopeless:
                return k
        return None

    def _down(self) -> Judged[Found]:
        """Give late states their next options, until no state is late or none has another."""
        while True:
            left = sum(self._last[state] - option for state, option in self._now.items())
            following: dict[str, int] = {}
            for state, option in self._now.items():
                after = self._after(state, option)
                if after is not None:
                    following[state] = after
            judged = self._judge(self._now, following, left)
            lower = following.keys() & judged.late.keys()
            for state in lower:
                self._refused[state, self._now[state]] = judged.late[state], dict(self._now)
            if not lower:
                return judged
            self._now |= {state: following[state] for state in lower}

    def _up(self) -> Judged[Found] | None:
        """A choice with one state improved; None if there is none."""
        waiting = [*self._doubtful()]
        while waiting:
            state, option = waiting.pop(0)
            choice = {**self._now, state: option}
            judged = self._judge(choice, self._counts, len(waiting))
            if not judged.late:
                self._now = choice
                return judged
            why = judged.late.get(state) or next(iter(judged.late.values()))
            self._refused[state, option] = why, choice
        return None

    def _doubtful(self) -> Iterator[tuple[str, int]]:
        """Options that were not rejected beside the present options of the other states, the most
        accurate of each state first.
        """
        for state, now in self._now.items():
            for option in range(now):
                if (state, option) not in self._hopeless and not self._rejected(state, option):
                    yield state, option

    def _rejected(self, state: str, option: int) -> bool:
        """True if the option was rejected beside the present options of the other states."""
        if (state, option) not in self._refused:
            return False
        _, choice = self._refused[state, option]
        return {**choice, state: option} == {**self._now, state: option}

    def _refusals(self, state: str) -> Iterator[RefusedOption]:
        """The reasons against the options before the present one."""
        for option in range(self._now[state]):
            if (state, option) in self._hopeless:
                yield RefusedOption(state, option, self._hopeless[state, option], True)
            else:
                why, _ = self._refused[state, option]
                yield RefusedOption(state, option, why, False)
