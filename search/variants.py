"""The best variants of networks: the most accurate option of each state that meets its deadlines.

In: the number of options of each state, the most accurate first, those that are hopeless, and a
judge that searches for a mapping with one option of each state. Out: an option for each state, and
the reason why it has no more accurate one.

All states begin with their first option. States that are late proceed to their next one, until none
is late or none is left. Options that were rejected together with other options of other states than
the answer's are then tried again. So every more accurate option of a single state was judged
together with the answer, or is hopeless. Exchanges, in which two states improve while a third one
gets worse, are not searched.
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
class Refusal:
    """The reason why an option of a state is rejected; `proved`: for any mapping."""

    state: str
    option: int
    why: str
    proved: bool


@dataclass(frozen=True, slots=True)
class Best(Generic[Found]):
    """The answer; `kept`: every state meets its deadlines. `refused` are all options before the
    answer's.
    """

    choice: dict[str, int]
    found: Found
    kept: bool
    refused: tuple[Refusal, ...]


def most_accurate(
    counts: Choice, hopeless: Mapping[tuple[str, int], str], judge: Judge[Found]
) -> Best[Found]:
    """An option for each state of `counts`; `hopeless` has the reasons of options that fail with
    any mapping.
    """
    return _Descent(counts, hopeless, judge).best()


class _Descent(Generic[Found]):
    def __init__(
        self, counts: Choice, hopeless: Mapping[tuple[str, int], str], judge: Judge[Found]
    ) -> None:
        self._counts, self._hopeless, self._judge = counts, hopeless, judge
        #: The least accurate option that is not hopeless, or the last one: no later one is tried.
        self._last = {
            state: max((k for k in range(count) if (state, k) not in hopeless), default=count - 1)
            for state, count in counts.items()
        }
        self._now = {state: self._after(state, -1) or 0 for state in counts}
        #: The rejected options, with the options of the other states.
        self._refused: dict[tuple[str, int], tuple[str, dict[str, int]]] = {}

    def best(self) -> Best[Found]:
        """Descend until no state is late, then retry rejected options whose context has changed."""
        judged = self._down()
        if not judged.late:
            while (better := self._up()) is not None:
                judged = better
        told = sorted(
            (r for state in self._counts for r in self._told(state)),
            key=lambda r: (r.state, r.option),
        )
        return Best(dict(self._now), judged.found, not judged.late, tuple(told))

    def _after(self, state: str, option: int) -> int | None:
        """The next option that is not hopeless; None behind the last one."""
        last = self._last[state]
        return next(
            (
                k
                for k in range(option + 1, last + 1)
                if (state, k) not in self._hopeless or k == last
            ),
            None,
        )

    def _down(self) -> Judged[Found]:
        while True:
            left = sum(self._last[s] - k for s, k in self._now.items())
            following = {
                s: k for s, now in self._now.items() if (k := self._after(s, now)) is not None
            }
            judged = self._judge(self._now, following, left)
            lower = following.keys() & judged.late.keys()
            for state in lower:
                self._refused[state, self._now[state]] = judged.late[state], dict(self._now)
            if not lower:
                return judged
            self._now |= {state: following[state] for state in lower}

    def _up(self) -> Judged[Found] | None:
        """A choice with one state improved; None if there is none."""
        again = [*self._doubtful()]
        for left, (state, option) in zip(reversed(range(len(again))), again, strict=True):
            choice = {**self._now, state: option}
            judged = self._judge(choice, self._counts, left)
            if not judged.late:
                self._now = choice
                return judged
            why = judged.late.get(state) or next(iter(judged.late.values()))
            self._refused[state, option] = why, choice
        return None

    def _doubtful(self) -> Iterator[tuple[str, int]]:
        """Options rejected together with other options of the others, the most accurate of each
        state first.
        """
        for state, now in self._now.items():
            for option in range(now):
                if (state, option) in self._hopeless:
                    continue
                beside = (
                    self._refused[state, option][1] if (state, option) in self._refused else None
                )
                if beside is None or any(
                    beside[s] != k for s, k in self._now.items() if s != state
                ):
                    yield state, option

    def _told(self, state: str) -> Iterator[Refusal]:
        for option in range(self._now[state]):
            proved = (state, option) in self._hopeless
            why = self._hopeless[state, option] if proved else self._refused[state, option][0]
            yield Refusal(state, option, why, proved)
