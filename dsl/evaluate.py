"""Constant expressions, types and units: from syntax to exact numbers.

Every function returns None after it has reported a fault, so that callers continue with the next
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil

from ..model.application import Parameter
from ..model.diagnostic import did_you_mean, one_of
from ..model.span import Span
from ..model.types import DTYPES, MOST_ALONG, MOST_BYTES, TensorType
from . import syntax as s
from .context import Context, kind_word

UNITS: dict[str, dict[str, Fraction]] = {
    "time": {  # in ns
        "ns": Fraction(1),
        "us": Fraction(10**3),
        "ms": Fraction(10**6),
        "s": Fraction(10**9),
        "min": Fraction(60 * 10**9),
    },
    "frequency": {
        "Hz": Fraction(1),
        "kHz": Fraction(10**3),
        "MHz": Fraction(10**6),
        "GHz": Fraction(10**9),
    },
    "power": {
        "uW": Fraction(1, 10**6),
        "mW": Fraction(1, 1000),
        "W": Fraction(1),
        "kW": Fraction(1000),
    },
    "ratio": {"dB": Fraction(1)},
    "memory": {
        "B": Fraction(1),
        "kB": Fraction(10**3),
        "MB": Fraction(10**6),
        "GB": Fraction(10**9),
        "KiB": Fraction(2**10),
        "MiB": Fraction(2**20),
        "GiB": Fraction(2**30),
    },
}
#: A rate list or a shape with more entries than this is a mistake, and would not fit in memory.
MOST_PHASES = 100_000
LARGEST = 10**60

Scope = Mapping[str, Parameter]


class Asked(dict[str, Parameter]):
    """A scope that records which of its parameters were used."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Parameter:
        self.names.add(name)
        return super().__getitem__(name)


class Evaluator:
    """Evaluates against the constants of the text; parameters come in a scope."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Shapes of ports, where an expression may ask for them.
        self.shapes: Mapping[str, tuple[int, ...]] = {}
        self._constants: dict[str, Parameter | None] = {}
        self._open: list[str] = []

    # -- values ------------------------------------------------------------------------------------
    def value(self, expr: s.Expr, scope: Scope) -> Parameter | None:
        """Any constant value."""
        match expr:
            case s.Number(value=value):
                return self._sane(value, expr)
            case s.Text(value=text):
                return text
            case s.Name():
                return self._name(expr, scope)
            case s.Sign(operator=operator, operand=operand):
                inner = self._operand(operand, scope)
                if inner is not None and operator == "-":
                    inner = -inner
                return None if inner is None else _normal(inner)
            case s.Binary():
                return self._binary(expr, scope)
            case s.Call():
                return self._call(expr, scope)
            case s.Extent():
                return self._extent(expr, scope)

    def _name(self, expr: s.Name, scope: Scope) -> Parameter | None:
        if expr.text in scope:
            return scope[expr.text]
        if expr.text in ("true", "false"):
            return expr.text == "true"
        declared = self._context.names.get(expr.text)
        if isinstance(declared, s.ConstDecl):
            return self.constant(declared)
        if declared is not None:
            self._context.fault(
                "F103", f"`{expr.text}` is {kind_word(declared)}, not a constant", expr.span
            )
        elif expr.text not in self._context.poisoned:
            known = [
                *scope,
                *(n for n, d in self._context.names.items() if isinstance(d, s.ConstDecl)),
            ]
            self._context.fault(
                "F101",
                f"`{expr.text}` is not declared",
                expr.span,
                label="a constant or a parameter is needed here",
                help=did_you_mean(expr.text, known),
            )
        return None

    def constant(self, declaration: s.ConstDecl) -> Parameter | None:
        """The value of a constant; one that depends on itself is a fault."""
        name = declaration.name.text
        if name in self._open:
            cycle = " -> ".join([*self._open[self._open.index(name) :], name])
            self._context.fault(
                "F110", f"constant `{name}` depends on itself: {cycle}", declaration.name.span
            )
            return None
        if name not in self._constants:
            self._open.append(name)
            self._constants[name] = self.value(declaration.value, {})
            self._open.pop()
        return self._constants[name]

    def _operand(self, expr: s.Expr, scope: Scope) -> Fraction | int | None:
        value = self.value(expr, scope)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
            self._context.fault(
                "F105",
                f"{shown(value)} is not a number",
                expr.span,
                label="a number is needed here",
            )
            return None
        return value

    def _binary(self, expr: s.Binary, scope: Scope) -> Parameter | None:
        left, right = self._operand(expr.left, scope), self._operand(expr.right, scope)
        if left is None or right is None:
            return None
        if expr.operator == "/" and right == 0:
            self._context.fault("F105", "division by zero", expr.right.span)
            return None
        result = {
            "+": lambda: Fraction(left) + right,
            "-": lambda: Fraction(left) - right,
            "*": lambda: Fraction(left) * right,
            "/": lambda: Fraction(left) / right,
        }[expr.operator]()
        return self._sane(result, expr)

    def _call(self, expr: s.Call, scope: Scope) -> int | None:
        argument = self._operand(expr.argument, scope)
        if expr.function.text != "ceil":
            self._context.fault(
                "F101",
                f"there is no function `{expr.function.text}`",
                expr.function.span,
                help="the one function is `ceil(a / b)`: division, rounded up",
            )
            return None
        return None if argument is None else ceil(argument)

    def _extent(self, expr: s.Extent, scope: Scope) -> int | None:
        shape = self.shapes.get(expr.port.text)
        if expr.what.text != "shape" or shape is None:
            help_text = "write `shape[0]`"
            if expr.what.text == "shape":
                help_text = did_you_mean(expr.port.text, self.shapes)
            self._context.fault(
                "F101",
                f"`{expr.port.text}.{expr.what.text}` is no dimension known here",
                expr.span,
                label="a port with a type is needed",
                help=help_text,
            )
            return None
        index = self.integer(expr.index, scope, "the number of a dimension", 0)
        if index is not None and index >= len(shape):
            message = f"`{expr.port.text}` has {len(shape)} dimensions, counted from 0"
            self._context.fault("F105", message, expr.index.span)
            return None
        return None if index is None else shape[index]

    def _sane(self, value: Fraction | None, expr: s.Expr) -> Fraction | int | None:
        if value is None or max(abs(value.numerator), value.denominator) > LARGEST:
            self._context.fault("F105", "this number is too large or too fine", expr.span)
            return None
        return _normal(value)

    # -- numbers with a meaning --------------------------------------------------------------------
    def number(
        self, expr: s.Expr, scope: Scope, what: str, least: int | None = None
    ) -> Fraction | None:
        """A rational, at least `least` when that is given."""
        value = self._operand(expr, scope)
        if value is None:
            return None
        if least is not None and value < least:
            self._context.fault(
                "F105", f"{what} is {value}", expr.span, label=f"must be at least {least}"
            )
            return None
        return Fraction(value)

    def integer(
        self, expr: s.Expr, scope: Scope, what: str, least: int, most: int = LARGEST
    ) -> int | None:
        """A whole number from `least` to `most`; a division that leaves a remainder is its own
        fault.
        """
        value = self._operand(expr, scope)
        if value is None:
            return None
        if isinstance(value, Fraction):
            message = f"{what} is {value}, not a whole number"
            help_text = "use a whole number"
            if isinstance(expr, s.Binary):
                help_text = "`/` must divide evenly here"
            self._context.fault("F109", message, expr.span, help=help_text)
            return None
        if value < least:
            self._context.fault(
                "F105", f"{what} is {value}", expr.span, label=f"must be at least {least}"
            )
            return None
        if value > most:
            self._context.fault(
                "F105", f"{what} is {value}", expr.span, label=f"must be at most {most}"
            )
            return None
        return value

    def element(self, name: s.Word, index: s.Expr | None) -> str:
        """`cam`, or `cam[0]`: a name with its index; an index with a fault is left out."""
        if index is None:
            return name.text
        value = self.integer(index, {}, "an index", 0)
        return name.text if value is None else f"{name.text}[{value}]"

    def path(self, elements: Iterable[s.Element]) -> str:
        """`App.cam[0]`: names with their indices."""
        return ".".join(self.element(e.name, e.index) for e in elements)

    def power(self, declared: Sequence[s.PowerDecl], twice: str) -> Fraction | None:
        """Watts that may be declared once; `twice` is the message about a second declaration."""
        if len(declared) > 1:
            self._context.repeated("F115", twice, declared[1].span, declared[0].span)
        watts = [
            self.quantity(item.value.amount, item.value.unit, "power", "a power", {})
            for item in declared
        ]
        return watts[0] if watts else None

    def quantity(
        self, amount: s.Expr, unit: s.Word, dimension: str, what: str, scope: Scope
    ) -> Fraction | None:
        """A physical quantity in the base unit (ns, Hz, B)."""
        value = self.number(amount, scope, what)
        hertz = UNITS["frequency"].get(unit.text)
        if dimension == "time" and value and hertz:
            self._wrong_unit(unit, dimension, what, f"write `{_as_time(value * hertz)}`")
            return None
        factor = self.unit(unit, dimension, what)
        if value is None or factor is None:
            return None
        if value < 0:
            self._context.fault(
                "F105", f"{what} is negative", amount.span, label="must not be negative"
            )
            return None
        return value * factor

    def unit(self, unit: s.Word, dimension: str, what: str) -> Fraction | None:
        """The factor from that unit to the base unit of its dimension."""
        factor = UNITS[dimension].get(unit.text)
        if factor is None:
            self._wrong_unit(unit, dimension, what)
        return factor

    def _wrong_unit(
        self, unit: s.Word, dimension: str, what: str, help_text: str | None = None
    ) -> None:
        dimension_of = {name: group for group, units in UNITS.items() for name in units}
        help_text = help_text or f"use {one_of(UNITS[dimension])}"
        if unit.text in dimension_of:
            reason = f"`{unit.text}` is a unit of {dimension_of[unit.text]}"
        else:
            reason = f"`{unit.text}` is not a unit"
            help_text = did_you_mean(unit.text, dimension_of) or help_text
        message = f"{reason}; {what} needs a unit of {dimension}"
        self._context.fault("F104", message, unit.span, help=help_text)

    # -- types and rates ---------------------------------------------------------------------------
    def type(
        self, expr: s.TypeExpr, scope: Scope, open_types: tuple[str, ...] = ()
    ) -> TensorType | None:
        """A named type or `dtype[shape]`; a shape on a named type puts axes in front of its own.
        Of a dimension `up to` the most."""
        shape: list[int] = []
        bounded: list[int] = []
        broken = False
        for axis, size in enumerate(expr.shape or ()):
            if isinstance(size, s.UpToSize):
                bounded.append(axis)
                size = size.most
            n = self.integer(size, scope, "a dimension", 1, MOST_ALONG)
            broken |= n is None
            shape.append(n or 1)
        base = self._base_type(expr, open_types)
        if base is None or broken:
            return None
        bounded += [len(shape) + axis for axis in base.bounded]
        type_ = TensorType(base.dtype, (*shape, *base.shape), tuple(bounded))
        if type_.bytes > MOST_BYTES:
            self._context.fault(
                "F105", f"a token of {type_.bytes} bytes", expr.span, label=f"at most {MOST_BYTES}"
            )
            return None
        return type_

    def _base_type(self, expr: s.TypeExpr, open_types: tuple[str, ...]) -> TensorType | None:
        name = expr.name.text
        if name in DTYPES and name not in self._context.names:
            return TensorType(name, ())
        declared = self._context.lookup(expr.name, (s.TypeDecl,), "a type")
        if not isinstance(declared, s.TypeDecl):
            return None
        if name in open_types:
            cycle = " -> ".join([*open_types[open_types.index(name) :], name])
            self._context.fault("F110", f"type `{name}` depends on itself: {cycle}", expr.name.span)
            return None
        return self.type(declared.type, {}, (*open_types, name))

    def phases(
        self, phases: s.Phases, scope: Scope, what: str
    ) -> tuple[tuple[Fraction, ...], bool]:
        """The entries of `[1, 0 for 9]`, and whether all of them could be evaluated."""
        entries: list[Fraction] = []
        good = True
        for phase in phases.entries:
            value = self.number(phase.value, scope, what, 0)
            count: int | None = 1
            if phase.count is not None:
                count = self.integer(phase.count, scope, "the number of phases", 1)
            if value is None or count is None:
                good = False
                continue
            if len(entries) + count > MOST_PHASES:
                self._context.fault(
                    "F105", f"a list of more than {MOST_PHASES} phases", phases.span
                )
                return (), False
            entries.extend([value] * count)
        return tuple(entries), good

    def _rate(self, rate: s.Expr, scope: Scope) -> int | None:
        value = self._operand(rate, scope)
        if value == 0:
            return 0
        return self.integer(rate, scope, "the rate", 1)

    def rates(
        self, rate: s.Expr | s.Phases | s.UpTo | None, scope: Scope, span: Span
    ) -> tuple[int, ...] | None:
        """Tokens per firing, one entry per phase; without a rate it is 1. Of a rate `up to` the
        most."""
        if rate is None:
            return (1,)
        if isinstance(rate, s.UpTo):
            rate = rate.most
        if not isinstance(rate, s.Phases):
            n = self._rate(rate, scope)
            if n == 0:
                self._context.fault(
                    "F107",
                    "a port with rate 0 never moves a token",
                    rate.span,
                    help="remove the port, or give a rate",
                )
                return None
            return None if n is None else (n,)
        entries, good = self.phases(rate, scope, "a rate")
        if not good:
            return None
        if any(e.denominator != 1 for e in entries):
            self._context.fault("F109", "a rate is not a whole number", rate.span)
            return None
        if not any(entries):
            self._context.fault(
                "F107", "all phases of this rate are 0: the port never moves a token", rate.span
            )
            return None
        return tuple(int(e) for e in entries)


def _as_time(hertz: Fraction) -> str:
    """The period of a frequency as texts write it."""
    period = 10**9 / hertz
    for unit in ("s", "ms", "us", "ns"):
        value = period / UNITS["time"][unit]
        if value.denominator == 1:
            return f"{value} {unit}"
    per_second = 1 / hertz
    return f"{per_second.numerator} / {per_second.denominator} s"


def _normal(value: Fraction | int) -> Fraction | int:
    fraction = Fraction(value)
    return int(fraction) if fraction.denominator == 1 else fraction


def shown(value: Parameter) -> str:
    """A value in a message."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'the text "{value}"' if isinstance(value, str) else f"`{value}`"
