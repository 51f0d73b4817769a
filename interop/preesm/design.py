"""The text of a PREESM graph as data: declarations, instances and arrows, with all values known.

Frozen data between `elaborate`, which makes them, and the modules that write texts, C code, pins
and times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from ...model.span import Span
from .graph import Direction, Function, PiActor
from .types import PreesmToken

Kind = Literal["actor", "broadcast", "fork", "join", "roundbuffer"]
#: Names of actors, from the top graph inwards.
Way = tuple[str, ...]
#: PREESM's name of a parameter, the one in the text, its type.
Formal = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class PreesmPort:
    """`rate` is the text, `tokens` its value, `c_rate` its text in C. `original` is PREESM's
    name."""

    name: str
    original: str
    direction: Direction
    rate: str
    tokens: int
    c_rate: str
    token: PreesmToken
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class PreesmTask:
    """A task of the text: an actor's code with its ports, or a way to copy data. `wanted` is a name
    for it."""

    kind: Kind
    wanted: str
    formals: tuple[Formal, ...]
    ports: tuple[PreesmPort, ...]
    refinement: str
    loop: Function | None
    init: Function | None
    stateless: bool


@dataclass(frozen=True, slots=True)
class PreesmInstance:
    """`arguments` are formal parameters and texts."""

    name: str
    declaration: PreesmTask | PreesmGraph
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PreesmGraph:
    """A graph of the text; `ports` are (direction, name, type), `arrows` are lines."""

    wanted: str
    file: str
    formals: tuple[Formal, ...]
    ports: tuple[tuple[Direction, str, str], ...]
    instances: tuple[PreesmInstance, ...]
    arrows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A task of the app: its place in PREESM and in the text, and its firings in one iteration of
    PREESM.

    `values` are those of the parameters of its actor, which is None where the import added the
    task. `span` is the place of the actor, or of the graph.
    """

    way: Way
    path: Way
    task: PreesmTask
    firings: int
    values: Mapping[str, Fraction]
    actor: PiActor | None
    span: Span


@dataclass(frozen=True, slots=True)
class PreesmDesign:
    """`constants` are names, texts, and what PREESM writes. `period` is that of an iteration of the
    text, in ns."""

    top: PreesmGraph
    constants: tuple[tuple[str, str, str], ...]
    leaves: tuple[Leaf, ...]
    period: Fraction | None
