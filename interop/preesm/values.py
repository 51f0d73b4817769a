"""Values of expressions of a graph, and their form in the text.

In: expressions with their places, and the values that a graph is given. Out: numbers with texts, or
faults with the place of the expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from ...model.span import Span
from ..names import shown
from . import expressions
from .expressions import Wrong
from .files import PreesmCollector
from .graph import PiGraph, PiParameter
from .scenario import GivenValue

#: Longest text of an expression; longer ones are replaced by the number.
_WIDEST = 60
#: Tokens of a firing, and numbers that C code gets.
_LARGEST, _LARGEST_INT = 1 << 40, 1 << 63


@dataclass(frozen=True, slots=True)
class Value:
    """A number, and its text at the graph's place."""

    number: Fraction
    text: str


@dataclass(slots=True)
class Values:
    """Evaluates expressions, and reports faults."""

    given: Mapping[tuple[str, str], GivenValue]
    say: PreesmCollector
    #: Values of the scenario that were used.
    used: set[tuple[str, str]] = field(default_factory=set)
    #: Constants: name, text, and PREESM's expression.
    defined: list[tuple[str, str, str]] = field(default_factory=list)

    def of(self, text: str, known: Mapping[str, Value], what: str, span: Span) -> Value | None:
        """The value of an expression; None after a fault."""
        try:
            expr = expressions.parse(text)
            number = expressions.evaluate(expr, {n: v.number for n, v in known.items()})
        except Wrong as reason:
            self.say.fault(f"{what} is {shown(text)}: {reason}", span)
            return None
        said = expressions.written(expr, {n: v.text for n, v in known.items()})
        if said is None or len(said) > _WIDEST or isinstance(expr, expressions.PreesmNumber):
            said = expressions.as_number(number)
        return Value(number, said)

    def whole(
        self, text: str, known: Mapping[str, Value], what: str, span: Span, least: int = 1
    ) -> tuple[int, str] | None:
        """A number of tokens and its text; None after a fault."""
        value = self.of(text, known, what, span)
        if value is None:
            return None
        number = value.number
        if number.denominator != 1 or not least <= number <= _LARGEST:
            about = shown(text)
            if text.strip() != str(number):
                about = f"{shown(text)}, which is {_short(number)}"
            limit = "a whole number"
            if least:
                limit = "a whole number above 0"
            self.say.refuse(f"{what} is {about}: it has to be {limit}", span)
            return None
        return int(number), value.text

    def scope(
        self,
        graph: PiGraph,
        outside: Mapping[str, Value],
        constants: Mapping[str, str] | None = None,
    ) -> dict[str, Value] | None:
        """All parameters of a graph; `outside` are those that it is given. None after a fault.

        Those in `constants` get these names, and are added to `defined`.
        """
        return _Scope(graph, outside, constants or {}, self).all()


@dataclass(slots=True)
class _Scope:
    graph: PiGraph
    outside: Mapping[str, Value]
    constants: Mapping[str, str]
    values: Values
    found: dict[str, Value | None] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)

    def all(self) -> dict[str, Value] | None:
        for name in self.graph.parameters:
            self.value(name)
        found = {name: value for name, value in self.found.items() if value is not None}
        if len(found) == len(self.graph.parameters):
            return found
        return None

    def value(self, name: str) -> Value | None:
        if name in self.found:
            return self.found[name]
        parameter = self.graph.parameters[name]
        if name in self.open:
            cycle = " -> ".join([*self.open[self.open.index(name) :], name])
            self.values.say.fault(f"parameter {shown(name)} needs itself: {cycle}", parameter.span)
            self.found[name] = None
            return None
        if len(self.open) > 200:
            self.values.say.fault(
                f"more than 200 parameters in front of {shown(name)}", parameter.span
            )
            return None
        self.open.append(name)
        value = self.outside.get(name) or self.own(parameter)
        self.open.pop()
        if value is not None and not abs(value.number) < _LARGEST_INT:
            self.values.say.fault(
                f"parameter {shown(name)} is too large: {_short(value.number)}", parameter.span
            )
            value = None
        self.found.setdefault(name, value)
        return self.found[name]

    def known(self, names: Iterable[str]) -> dict[str, Value] | None:
        """The values of those that are parameters of the graph; None after a fault."""
        found = {}
        for name in names:
            if name in self.graph.parameters:
                value = self.value(name)
                if value is None:
                    return None
                found[name] = value
        return found

    def own(self, parameter: PiParameter) -> Value | None:
        """The value from its expression, or from the scenario."""
        key = (self.graph.name, parameter.name)
        text, span = parameter.expression, parameter.span
        if key in self.values.given:
            text, span = self.values.given[key].text, self.values.given[key].span
            self.values.used.add(key)
        what = f"parameter {shown(parameter.name)}"
        if not text.strip():
            help_text = ""
            if parameter.interface:
                help_text = "import the graph that uses this one"
            self.values.say.fault(f"{what} has no value", span, help_text)
            return None
        try:
            names = expressions.names(expressions.parse(text))
        except Wrong as reason:
            self.values.say.fault(f"{what} is {shown(text)}: {reason}", span)
            return None
        known = self.known(names)
        if known is None:
            return None
        value = self.values.of(text, known, what, span)
        if value is None or parameter.name not in self.constants:
            return value
        constant = self.constants[parameter.name]
        self.values.defined.append((constant, value.text, text))
        return Value(value.number, constant)


def _short(number: Fraction) -> str:
    text = str(number)
    if len(text) < 30:
        return text
    return f"{text[:27]}..."
