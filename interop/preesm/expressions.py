"""Expressions of PiSDF graphs: parsed, evaluated exactly, and written in the language if it can
express them.

In: the text of an `expr`, and the values of names. Out: a `Fraction`. PREESM computes with doubles;
here `1/3*3` is 1. Only roots, logarithms and fractional powers are rounded, to 60 digits, and count
as whole numbers if they are that close to one. `elaborate` decides which names an expression may
use.

Operators, their order and functions are those of JEP (https:

github.com/nathanfunk/jep-java-gpl), which PREESM uses, with the functions that PREESM adds. A
condition is true if it is above 0, as there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from ..names import shown

#: Most digits of a number, parts of an expression, bits of a value.
_DIGITS, _PARTS, _BITS = 40, 400, 2048
_EXACT = Context(prec=60)
#: Denominators from here on are results of rounding.
_ROUNDED = 10**25
_TOKEN = re.compile(
    r"\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?|\.\d+)|([A-Za-z_]\w*)|(<=|>=|==|!=|&&|\|\||[-+*/^%(),<>!]))"
)
_LEVELS = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("+", "-"), ("*", "/", "%"))


class Wrong(Exception):
    """Why an expression has no value."""


@dataclass(frozen=True, slots=True)
class PreesmNumber:
    value: Fraction


@dataclass(frozen=True, slots=True)
class PreesmName:
    text: str


@dataclass(frozen=True, slots=True)
class PreesmSign:
    operator: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class PreesmBinary:
    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class PreesmCall:
    function: str
    arguments: tuple[Expr, ...]


Expr = PreesmNumber | PreesmName | PreesmSign | PreesmBinary | PreesmCall


# -- parsing ---------------------------------------------------------------------------------------
def parse(text: str) -> Expr:
    """Raises Wrong."""
    tokens: list[tuple[str, str]] = []
    position = 0
    while text[position:].strip():
        found = _TOKEN.match(text, position)
        if found is None:
            raise Wrong(f"{shown(text[position:].strip()[0])} means nothing here")
        number, name, operator = found.groups()
        if number:
            tokens.append(("number", number))
        elif name:
            tokens.append(("name", name))
        else:
            tokens.append(("", operator))
        position = found.end()
    if not tokens:
        raise Wrong("it is empty")
    if len(tokens) > _PARTS:
        raise Wrong(f"it has more than {_PARTS} parts")
    parser = _Parser([*tokens, ("end", "")])
    expr = parser.binary(0)
    if parser.tokens[parser.next][0] != "end":
        raise Wrong(f"{shown(parser.tokens[parser.next][1])} does not fit there")
    return expr


@dataclass(slots=True)
class _Parser:
    tokens: list[tuple[str, str]]
    next: int = 0
    depth: int = 0

    def take(self, *operators: str) -> str:
        """The next token, if it is one of these operators."""
        kind, text = self.tokens[self.next]
        if kind or text not in operators:
            return ""
        self.next += 1
        return text

    def binary(self, level: int) -> Expr:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while operator := self.take(*_LEVELS[level]):
            left = PreesmBinary(operator, left, self.binary(level + 1))
        return left

    def unary(self) -> Expr:
        self.depth += 1
        if self.depth > 60:
            raise Wrong("its brackets are too deep")
        operator = self.take("-", "+", "!")
        expr: Expr
        if operator:
            expr = PreesmSign(operator, self.unary())
        else:
            expr = self.power()
        self.depth -= 1
        return expr

    def power(self) -> Expr:
        base = self.atom()
        if self.take("^"):
            return PreesmBinary("^", base, self.unary())
        return base

    def atom(self) -> Expr:
        kind, text = self.tokens[self.next]
        self.next += 1
        if kind == "number":
            if len(text) > _DIGITS:
                raise Wrong("a number in it is too long")
            return PreesmNumber(Fraction(text))
        if kind == "name":
            if not self.take("("):
                return PreesmName(text)
            arguments = [self.binary(0)]
            while self.take(","):
                arguments.append(self.binary(0))
            self.close()
            return PreesmCall(text, tuple(arguments))
        if text == "(":
            inner = self.binary(0)
            self.close()
            return inner
        if text:
            raise Wrong(f"{shown(text)} does not fit there")
        raise Wrong("something is missing at its end")

    def close(self) -> None:
        if not self.take(")"):
            raise Wrong("a bracket is not closed")


def names(expr: Expr) -> dict[str, None]:
    """The names that stand in an expression."""
    match expr:
        case PreesmName(text):
            return {text: None}
        case PreesmSign(_, operand):
            return names(operand)
        case PreesmBinary(_, left, right):
            return names(left) | names(right)
        case PreesmCall(_, arguments):
            return {name: None for a in arguments for name in names(a)}
    return {}


# -- values ----------------------------------------------------------------------------------------
def evaluate(expr: Expr, values: Mapping[str, Fraction]) -> Fraction:
    """The value; whole if it differs from that only by rounding. Raises Wrong."""
    return settled(_value(expr, values))


def settled(value: Fraction) -> Fraction:
    """The nearest whole number, if the difference is only rounding."""
    near = round(value)
    if value.denominator > _ROUNDED and abs(value - near) * _ROUNDED < 1:
        return Fraction(near)
    return value


def _value(expr: Expr, values: Mapping[str, Fraction]) -> Fraction:
    match expr:
        case PreesmNumber(value):
            result = value
        case PreesmName(text):
            if text not in values:
                raise Wrong(f"there is no parameter {shown(text)}")
            result = values[text]
        case PreesmSign("!", operand):
            result = Fraction(not _value(operand, values) > 0)
        case PreesmSign("-", operand):
            result = -_value(operand, values)
        case PreesmSign(_, operand):
            result = _value(operand, values)
        case PreesmBinary(operator, left, right):
            result = _BINARY[operator](_value(left, values), _value(right, values))
        case PreesmCall("if", (condition, yes, no)):
            chosen = no
            if _value(condition, values) > 0:
                chosen = yes
            result = _value(chosen, values)
        case PreesmCall(function, arguments):
            result = _call(function, [settled(_value(a, values)) for a in arguments])
    return _limited(result)


def _limited(value: Fraction) -> Fraction:
    """The value. Raises Wrong if it is too large."""
    if value.numerator.bit_length() > _BITS or value.denominator.bit_length() > _BITS:
        raise Wrong("its value is too large")
    return value


def _call(name: str, arguments: list[Fraction]) -> Fraction:
    if name not in _FUNCTIONS:
        raise Wrong(
            f"there is no function {shown(name)}; there is {', '.join(sorted([*_FUNCTIONS, 'if']))}"
        )
    count, function = _FUNCTIONS[name]
    if len(arguments) != count:
        values = "value" if count == 1 else "values"
        raise Wrong(f"{shown(name)} takes {count} {values}, not {len(arguments)}")
    return Fraction(function(*arguments))


def _divided(a: Fraction, b: Fraction) -> Fraction:
    if b == 0:
        raise Wrong("division by zero")
    return a / b


def _remainder(a: Fraction, b: Fraction) -> Fraction:
    """With the sign of `a`, as in Java."""
    return a - b * math.trunc(_divided(a, b))


def _power(a: Fraction, b: Fraction) -> Fraction:
    b = settled(b)
    if b.denominator == 1:
        if a == 0 and b < 0:
            raise Wrong("division by zero")
        if abs(a) == 1:
            return Fraction(a ** int(b % 2))
        if a and abs(b) * max(a.numerator.bit_length(), a.denominator.bit_length()) > 2 * _BITS:
            raise Wrong("its value is too large")
        return Fraction(a ** int(b))
    if a < 0:
        raise Wrong("a root of a negative number")
    if a == 0:
        return Fraction(0)
    exponent = _decimal(b) * _EXACT.ln(_decimal(a))
    if abs(exponent) > _BITS:
        raise Wrong("its value is too large")
    return Fraction(_EXACT.exp(exponent))


def _decimal(a: Fraction) -> Decimal:
    return _EXACT.divide(Decimal(a.numerator), Decimal(a.denominator))


def _sqrt(a: Fraction) -> Fraction:
    if a < 0:
        raise Wrong("a root of a negative number")
    above, below = math.isqrt(a.numerator), math.isqrt(a.denominator)
    exact = above**2 == a.numerator and below**2 == a.denominator
    if exact:
        return Fraction(above, below)
    return Fraction(_EXACT.sqrt(_decimal(a)))


def _logarithm(a: Fraction) -> Fraction:
    if a <= 0:
        raise Wrong("a logarithm of a number that is not positive")
    return Fraction(_EXACT.ln(_decimal(a)))


def _times_divided(base: Fraction, number: Fraction) -> Fraction:
    """How often `base` divides `number`."""
    divisor, rest, count = int(base), int(number), 0
    if divisor < 2 or rest == 0:
        raise Wrong("`pow_div_max` takes a number above 1 and one that is not 0")
    while rest % divisor == 0:
        rest, count = rest // divisor, count + 1
    return Fraction(count)


def _geometric(first: Fraction, ratio: Fraction, count: Fraction) -> Fraction:
    """The sum of `count` terms."""
    terms = int(count)
    if terms < 1:
        raise Wrong("the third value of `geo_sum` has to be 1 at least")
    if ratio == 1:
        return first * terms
    return first * (1 - _power(ratio, Fraction(terms))) / (1 - ratio)


_BINARY: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divided,
    "%": _remainder,
    "^": _power,
    "<": lambda a, b: Fraction(settled(a - b) < 0),
    ">": lambda a, b: Fraction(settled(a - b) > 0),
    "<=": lambda a, b: Fraction(settled(a - b) <= 0),
    ">=": lambda a, b: Fraction(settled(a - b) >= 0),
    "==": lambda a, b: Fraction(settled(a - b) == 0),
    "!=": lambda a, b: Fraction(settled(a - b) != 0),
    "&&": lambda a, b: Fraction(a > 0 and b > 0),
    "||": lambda a, b: Fraction(a > 0 or b > 0),
}
_FUNCTIONS: Mapping[str, tuple[int, Callable[..., Fraction | int]]] = {
    "abs": (1, abs),
    "ceil": (1, math.ceil),
    "floor": (1, math.floor),
    "geo_sum": (3, _geometric),
    "ln": (1, _logarithm),
    "max": (2, max),
    "min": (2, min),
    "mod": (2, _remainder),
    "pow_div_max": (2, _times_divided),
    "sqrt": (1, _sqrt),
}


# -- the language ----------------------------------------------------------------------------------
def written(
    expr: Expr, names: Mapping[str, str], number: Callable[[Fraction], str] | None = None
) -> str | None:
    """The expression in the language, with other texts for its names; None if the language cannot
    express it.

    `number` writes numbers in another form. The text has the same value for all values of its
    names.
    """
    found = _written(expr, names, number or as_number)
    if found is None:
        return None
    return found[0]


def as_number(value: Fraction) -> str:
    """A number as the language writes it."""
    return str(value)


def _written(
    expr: Expr, names: Mapping[str, str], number: Callable[[Fraction], str]
) -> tuple[str, int] | None:
    """The text and its precedence: 2 an atom, 1 a product, 0 a sum."""
    match expr:
        case PreesmNumber(value):
            text = number(value)
            return _atom(text, text.replace(".", "").isdigit())
        case PreesmName(text) if text in names:
            known = names[text]
            return _atom(known, re.fullmatch(r"\w+(->\w+)?", known) is not None)
        case PreesmSign("-" | "+" as operator, operand):
            inner = _written(operand, names, number)
            if inner is None:
                return None
            return (f"{operator}{_bound(inner, 2)}", 0)
        case PreesmBinary("+" | "-" | "*" | "/" as operator, left, right):
            level = 0 if operator in "+-" else 1
            first, second = _written(left, names, number), _written(right, names, number)
            if first is None or second is None:
                return None
            return f"{_bound(first, level)} {operator} {_bound(second, level + 1)}", level
        case PreesmCall("ceil", (argument,)):
            inner = _written(argument, names, number)
            if inner is None:
                return None
            return (f"ceil({inner[0]})", 2)
    return None


def _atom(text: str, bare: bool) -> tuple[str, int]:
    """The text of a name or a number; one with signs or operators is like a sum."""
    if bare:
        return text, 2
    return text, 0


def _bound(part: tuple[str, int], level: int) -> str:
    if part[1] >= level:
        return part[0]
    return f"({part[0]})"
