"""The syntax tree of platforms and mappings."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.span import Span
from .expression_syntax import Element, Expr, Quantity, Text, Word


@dataclass(frozen=True, slots=True)
class PoolOption:
    """`scheduler NAME`, with `times` for `scheduler time_slice 2 ms switch 50 us`, `type a76`,
    `speed 0.4`, `on [4, 5]`, `engines N total`, `memory 32 GB`, `frequencies [..] MHz`,
    `compute 8.7` (`word` = its key), `idle [..] W`, `busy [..] W`."""

    key: str
    values: tuple[Expr, ...]
    word: Word
    span: Span
    times: tuple[Quantity, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolDecl:
    kind: Word
    name: Word
    count: Expr | None
    options: tuple[PoolOption, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ContentionDecl:
    victim: Word
    aggressor: Word
    factor: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class TensorRTDecl:
    version: Text
    span: Span


@dataclass(frozen=True, slots=True)
class ModuleDecl:
    """`module agx_orin`."""

    name: Word
    span: Span


@dataclass(frozen=True, slots=True)
class MachineDecl:
    """`machine front { cpu a57[4] }`."""

    name: Word
    items: tuple[PoolDecl | ContentionDecl, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class WireDecl:
    """`link front back 110 MB/s 0.3 ms`: both ways alike."""

    ends: tuple[Word, Word]
    rate: Quantity
    per: Word
    latency: Quantity
    span: Span


@dataclass(frozen=True, slots=True)
class PowerDecl:
    """`power 4.2 W`: the constant power of a board, or the limit of a state."""

    value: Quantity
    span: Span


@dataclass(frozen=True, slots=True)
class PlatformDecl:
    name: Word
    items: tuple[
        PoolDecl | ContentionDecl | TensorRTDecl | ModuleDecl | MachineDecl | WireDecl | PowerDecl,
        ...,
    ]
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class BandsDecl:
    """`bands 4 until "x" keep "y", "z"` of a stage."""

    rows: Expr
    until: Text | None
    keep: tuple[Text, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ProcessorName:
    """`core[0]`, or `front.core[0]` where there are several machines."""

    machine: Word | None
    name: Word
    index: Expr | None
    span: Span


@dataclass(frozen=True, slots=True)
class StageDecl:
    processors: tuple[ProcessorName, ...]
    until: Text | None
    streams: Expr | None
    threads: Expr | None
    process: bool
    graph: bool
    fallback: Word | None
    bands: tuple[BandsDecl, ...]
    memory: Quantity | None
    engine: Word | None
    precision: Word | None
    span: Span


@dataclass(frozen=True, slots=True)
class PinDecl:
    path: tuple[Element, ...]
    stages: tuple[StageDecl, ...]
    wcet: Quantity | None
    buffers: Expr | None
    pre: Expr | None
    post: Expr | None
    adapt: bool
    span: Span


@dataclass(frozen=True, slots=True)
class ClockDecl:
    """`frequency core 1200 MHz for Scenario.state`."""

    pool: Word
    rate: Quantity
    state: tuple[Element, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class MappingDecl:
    platform: Word
    pins: tuple[PinDecl, ...]
    clocks: tuple[ClockDecl, ...]
    span: Span
