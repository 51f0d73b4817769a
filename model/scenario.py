"""An application that changes while it runs: states, each a plain system of apps, and
transitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Literal

from .application import Application
from .span import Span

#: How a change is made. `idle`: frames that have begun are completed before apps restart. For
#: states that differ in variants alone, `next`: each app continues with its next frame; `at once`:
#: it also repeats the frame whose inference is running.
ChangeProtocol = Literal["idle", "next", "at once"]


#: What a state may prefer in the variants of its networks: more of the first two, less of the
#: others.
Criterion = Literal[
    "accuracy",
    "throughput",
    "memory",
    "energy",
]


@dataclass(frozen=True, slots=True)
class StateOption:
    """The apps of a state with one selection of variants for its `best` networks, and the sum of
    their accuracies.
    """

    apps: tuple[Application, ...]
    accuracy: Fraction

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """Instances of networks with variants, and the variant of each."""
        return tuple(chain.from_iterable(app.variants for app in self.apps))


@dataclass(frozen=True, slots=True)
class State:
    """`apps` are those that run, with their periods and the variants of their networks in this
    state.

    `weight` is the state's share of time relative to the others; `power_w` the limit on its mean
    power, None = none. A state of a text whose periods are lists becomes one state for each
    `level`, fastest first; `of` is its name in the text. The networks of `best` may have any
    variant: `options` are all selections, the most accurate first, and `apps` are those of one of
    them; without such networks `options` is empty. `prefers` has the weights of what else than
    accuracy ranks them, with the sum 1; empty if it is accuracy alone.
    """

    name: str
    apps: tuple[Application, ...]
    weight: Fraction
    span: Span
    power_w: Fraction | None = None
    level: int | None = None
    best: tuple[str, ...] = ()
    options: tuple[StateOption, ...] = ()
    prefers: tuple[tuple[Criterion, Fraction], ...] = ()

    @property
    def of(self) -> str:
        """Its name in the text."""
        return self.name if self.level is None else self.name.rpartition("[")[0]

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """Instances of networks with variants, and the variant of each."""
        return tuple(chain.from_iterable(app.variants for app in self.apps))

    def best_in_words(self, option: int | None = None) -> str:
        """The variants of the `best` networks, in an option or as selected."""
        choices = self.choices if option is None else self.options[option].choices
        return ", ".join(f"{name} = {variant}" for name, variant in choices if name in self.best)


@dataclass(frozen=True, slots=True)
class Transition:
    """From one state to another: on any of `events`, or `after_ns` in the state.

    An event of a task is `App.task.event`, one from outside a plain name. `at_once`: a running
    inference is aborted, and its frame repeated with the next state's variant.
    """

    source: str
    target: str
    events: tuple[str, ...]
    after_ns: Fraction | None
    span: Span
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """`events` are those that are raised from outside. The machine begins in the state `initial`.

    With `least_energy`, clock rates are reduced as far as deadlines allow and energy is saved;
    without it they are the highest.
    """

    name: str
    events: tuple[str, ...]
    initial: str
    states: tuple[State, ...]
    transitions: tuple[Transition, ...]
    span: Span
    least_energy: bool = False

    @property
    def asks_for_power(self) -> bool:
        """True if power is minimized or limited."""
        return self.least_energy or any(s.power_w is not None for s in self.states)

    def taking(self, apps: Mapping[str, tuple[Application, ...]]) -> Scenario:
        """The same with other options for some states."""
        states = tuple(replace(s, apps=apps.get(s.name, s.apps)) for s in self.states)
        return replace(self, states=states)

    def state(self, name: str) -> State:
        """The state of that name. Raises KeyError."""
        for state in self.states:
            if state.name == name:
                return state
        raise KeyError(name)
