"""The smallest parts of the syntax tree: words, expressions, types, and steps of a path."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from ..model.span import Span


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Number:
    """`value` is None when the literal is too long for a sensible number."""

    value: Fraction | None
    span: Span
    depth: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span
    depth: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Text:
    value: str
    span: Span
    depth: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Sign:
    operator: str
    operand: Expr
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: Expr
    right: Expr
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Call:
    """`ceil(expr)`."""

    function: Word
    argument: Expr
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Extent:
    """`port.shape[k]`: a dimension of a port's tokens."""

    port: Word
    what: Word
    index: Expr
    span: Span
    depth: int


Expr = Number | Name | Text | Sign | Binary | Call | Extent


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with a unit, as in `20 ms`."""

    amount: Expr
    unit: Word
    span: Span


@dataclass(frozen=True, slots=True)
class UpToSize:
    """A dimension `up to 480`."""

    most: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class TypeExpr:
    """`name[shape]`; `shape` is None without brackets."""

    name: Word
    shape: tuple[Expr | UpToSize, ...] | None
    span: Span


@dataclass(frozen=True, slots=True)
class Element:
    name: Word
    index: Expr | None
    span: Span
