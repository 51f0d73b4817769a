"""Conditions: what a verdict rests on beside the text.

A condition is made where something is assumed, and stays with the verdict up to the printed word
and JSON. A verdict without conditions holds by the text alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from .json_reader import Between

ConditionName = Literal[
    "phase",
    "together",
    "apart",
    "pace",
    "skips",
    "taken",
    "interpreter",
    "niceness",
    "equal",
    "streams",
    "slices",
    "full",
    "older",
    "estimated",
    "measured",
    "wakeup",
]

#: The words after *if* in a verdict. Those without are named below the verdicts only: without any
#: real time there would be none.
WORDS: dict[ConditionName, str] = {
    "phase": "frames keep the clock's phase",
    "together": "frames come together",
    "apart": "frames keep apart",
    "pace": "frames keep pace",
    "skips": "no frame is skipped",
    "taken": "each token is taken",
    "interpreter": "the interpreter is free",
    "niceness": "niceness holds",
    "equal": "CPUs are equal",
    "streams": "the GPU keeps priorities",
    "slices": "the GPU keeps its slices",
    "full": "no data take longer than measured ones",
    "older": "bounds of an older flowc hold",
    "estimated": "estimates hold",
    "measured": "",
    "wakeup": "",
}

#: What each condition says in full; `{of}` are its subjects, `{ms}` its time.
SENTENCES: dict[ConditionName, str] = {
    "phase": "data of {of} come in phase with the program's clock",
    "together": "data of {of} come at the same time",
    "apart": "data of {of} come {ms} apart, or farther",
    "pace": "data of {of} come every {ms}",
    "skips": "{of} leaves out no frame after an error",
    "taken": "{of} takes each of its tokens: none is dropped before",
    "interpreter": "no bound includes waits for the interpreter, which {of} may hold",
    "niceness": "threads are below others by niceness (nice 19)",
    "equal": "the processors of {of} take equal times for the same work",
    "streams": "{of} goes on with the most urgent stream at the end of a kernel",
    "slices": "{of} gives each app a process and turns of {ms} at most, which end where it waits",
    "full": "{of} was measured with less than bounds count, such as fewer items",
    "older": "an older flowc found these bounds, without all of their conditions: map again",
    "estimated": "times of {of} are estimates",
    "measured": "no firing of {of} takes longer than the profile's worst case",
    "wakeup": "threads on {of} go on at once: the platform states no `wakeup`",
}

#: So many subjects are named in a sentence.
MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: of which tasks, apps or pools, and of what time in ns, if it has one."""

    name: ConditionName
    of: tuple[str, ...] = ()
    time_ns: Annotated[int, Between(0, 1 << 62)] | None = None

    @property
    def words(self) -> str:
        """The words after *if* in a verdict; empty where it is not named there."""
        return WORDS[self.name]

    @property
    def sentence(self) -> str:
        """What it says in full."""
        named = ", ".join(self.of[:MOST_NAMED])
        if len(self.of) > MOST_NAMED:
            named += f" and {len(self.of) - MOST_NAMED} more"
        ms = "" if self.time_ns is None else f"{self.time_ns / 1e6:g} ms"
        return SENTENCES[self.name].format(of=named, ms=ms)

    def as_data(self) -> dict[str, object]:
        """As in docs/json.md."""
        return {"condition": self.name, "of": list(self.of), "time_ns": self.time_ns}


def together(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Conditions in the order of their names, those of one name and time as one."""
    of: dict[tuple[ConditionName, int | None], dict[str, None]] = {}
    for condition in conditions:
        of.setdefault((condition.name, condition.time_ns), {}).update(dict.fromkeys(condition.of))
    order = list(WORDS)
    names = sorted(of, key=lambda key: (order.index(key[0]), key[1] or 0))
    return tuple(Condition(name, tuple(of[name, ns]), ns) for name, ns in names)


def condition_words(conditions: Iterable[Condition]) -> str:
    """The words after *if*; empty where there are none."""
    return " and ".join(dict.fromkeys(c.words for c in conditions if c.words))
