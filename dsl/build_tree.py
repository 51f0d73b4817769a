"""Builds the syntax nodes of the grammar's rules, each from its place and its parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ..model.span import Span
from . import syntax as s
from .tokens import Token

#: Limits of the digits and powers of ten of a number in a text, to bound time and memory.
LONGEST_NUMBER = 40
#: Maximum depth of expressions: they are read recursively, and Python's stack is limited.
DEEPEST = 300
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


def unquote(literal: str) -> str:
    """The text between the quotes, with `\\n`, `\\t`, `\\r`, `\\"`, `\\\\` and `\\uXXXX`
    resolved."""
    if "\\" not in literal:
        return literal[1:-1]

    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "u" and len(code) == 5:
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, literal[1:-1])


def _direction(word: object) -> s.Direction:
    return "in" if word == "in" else "out"


def _flat(children: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(c for c in children if c is not None)


#: Attributes of a builder that are no rules.
_OWN = ("nodes", "token_span")


class TooDeep(Exception):
    """Expressions within expressions, more than `DEEPEST`."""


def _above(*parts: s.Expr) -> int:
    """The depth of an expression with these parts."""
    depth = 1 + max(part.depth for part in parts)
    if depth > DEEPEST:
        raise TooDeep
    return depth


class TreeBuilder:
    """`file` is the file being read; `docs` maps the line after a documentation comment to its
    text.

    Methods without a leading underscore are named after their rules.
    """

    def __init__(self) -> None:
        self.file = ""
        self.docs: dict[int, str] = {}

    @property
    def nodes(self) -> dict[str, Callable[..., Any]]:
        """The builder of each rule."""
        return {
            name: getattr(self, name)
            for name in vars(TreeBuilder)
            if name[0] != "_" and name not in _OWN
        }

    # -- helpers -----------------------------------------------------------------------------------
    def token_span(self, token: Token) -> Span:
        """The place of one token."""
        return Span(
            self.file,
            token.line or 1,
            token.column or 1,
            token.end_line or 1,
            token.end_column or 1,
        )

    def _word(self, token: Token) -> s.Word:
        return s.Word(str(token), self.token_span(token))

    def _text(self, token: Token) -> s.Text:
        return s.Text(unquote(token), self.token_span(token))

    def _doc(self, span: Span) -> str:
        lines: list[str] = []
        line = span.line
        while line in self.docs:
            lines.insert(0, self.docs[line])
            line -= 1
        return "\n".join(lines)

    # -- expressions -------------------------------------------------------------------------------
    def start(self, span: Span, declaration: Any) -> Any:
        return declaration

    def number(self, span: Span, token: Token) -> s.Number:
        digits, _, exponent = str(token).lower().partition("e")
        sane = len(digits) <= LONGEST_NUMBER and abs(int(exponent[:9] or 0)) <= LONGEST_NUMBER
        return s.Number(Fraction(str(token)) if sane else None, self.token_span(token))

    def name(self, span: Span, token: Token) -> s.Name:
        return s.Name(str(token), self.token_span(token))

    def string(self, span: Span, token: Token) -> s.Text:
        return self._text(token)

    def sign(self, span: Span, operator: Token, operand: s.Expr) -> s.Expr:
        return s.Sign(str(operator), operand, span, _above(operand))

    def binary(self, span: Span, left: s.Expr, operator: Token, right: s.Expr) -> s.Expr:
        return s.Binary(str(operator), left, right, span, _above(left, right))

    def call(self, span: Span, function: Token, argument: s.Expr) -> s.Expr:
        return s.Call(self._word(function), argument, span, _above(argument))

    def extent(self, span: Span, port: Token, what: s.Word, index: s.Expr) -> s.Expr:
        return s.Extent(self._word(port), what, index, span, _above(index))

    def word(self, span: Span, token: Token) -> s.Word:
        return self._word(token)

    def instance_name(self, span: Span, token: Token) -> s.Word:
        return self._word(token)

    def values(self, span: Span, *values: s.Expr) -> tuple[s.Expr, ...]:
        return values

    def up_to_size(self, span: Span, most: s.Expr) -> s.UpToSize:
        return s.UpToSize(most, span)

    def type_expr(self, span: Span, name: Token, *shape: s.Expr | s.UpToSize | None) -> s.TypeExpr:
        sizes = _flat(shape)
        return s.TypeExpr(self._word(name), sizes or None, span)

    # -- tasks -------------------------------------------------------------------------------------
    def params(self, span: Span, *params: s.Param | None) -> tuple[s.Param, ...]:
        return _flat(params)

    def param(self, span: Span, name: s.Word, kind: Token, default: s.Expr | None) -> s.Param:
        return s.Param(name, self._word(kind), default, span)

    def phase(self, span: Span, value: s.Expr, count: s.Expr | None) -> s.Phase:
        return s.Phase(value, count)

    def phases(self, span: Span, *entries: s.Phase) -> s.Phases:
        return s.Phases(entries, span)

    def up_to(self, span: Span, most: s.Expr, count: s.Word | None) -> s.UpTo:
        return s.UpTo(most, count, span)

    def window(self, span: Span, size: s.Expr) -> s.WindowDecl:
        return s.WindowDecl(size, span)

    def port(
        self,
        span: Span,
        word: Any,
        name: s.Word,
        kind: s.TypeExpr | None,
        rate: Any,
        window: s.WindowDecl | None,
    ) -> s.PortDecl:
        return s.PortDecl(_direction(word), name, kind, rate, window, span)

    def implementation(
        self,
        span: Span,
        kind: Token | None,
        language: Token,
        code: Token,
        arguments: Any,
        *options: tuple[str, Any],
    ) -> s.ImplementationDecl:
        where = self._word(kind) if kind is not None else None
        clauses = dict(options)
        return s.ImplementationDecl(
            where,
            self._word(language),
            self._text(code),
            arguments,
            clauses.get("grid"),
            clauses.get("block"),
            clauses.get("shared"),
            span,
        )

    def arguments(self, span: Span, *values: s.Expr | None) -> tuple[s.Expr, ...]:
        return _flat(values)

    def grid(self, span: Span, sizes: Any) -> tuple[str, Any]:
        return "grid", sizes if isinstance(sizes, tuple) else (sizes,)

    def block(self, span: Span, sizes: Any) -> tuple[str, Any]:
        return "block", sizes if isinstance(sizes, tuple) else (sizes,)

    def shared(self, span: Span, amount: s.Expr, unit: Token) -> tuple[str, Any]:
        return "shared", s.Quantity(amount, self._word(unit), amount.span.to(self.token_span(unit)))

    def reference(self, span: Span, language: Token, code: Token) -> s.ReferenceDecl:
        return s.ReferenceDecl(self._word(language), self._text(code), span)

    def tolerance(self, span: Span, amount: s.Expr) -> s.ToleranceDecl:
        return s.ToleranceDecl(amount, span)

    def scratch(self, span: Span, name: s.Word, kind: s.TypeExpr) -> s.ScratchDecl:
        return s.ScratchDecl(name, kind, span)

    def state(self, span: Span, name: s.Word, kind: s.TypeExpr) -> s.StateDecl:
        return s.StateDecl(name, kind, span)

    def stateless(self, span: Span, token: Token) -> s.StatelessDecl:
        return s.StatelessDecl(self.token_span(token))

    def live(self, span: Span, token: Token) -> s.LiveDecl:
        return s.LiveDecl(self.token_span(token))

    def on_error(
        self, span: Span, event: Token, policy: Token, tries: Token | None, every: Any
    ) -> s.OnErrorDecl:
        number = None if tries is None else self.number(self.token_span(tries), tries)
        return s.OnErrorDecl(self._word(event), self._word(policy), number, every, span)

    def processor_type(self, span: Span, name: Token, of_machine: Token | None) -> s.Word:
        return s.Word(str(name) if of_machine is None else f"{name}.{of_machine}", span)

    def firing_time(
        self, span: Span, amount: Any, unit: Token, on: s.Word | None
    ) -> s.FiringTimeDecl:
        return s.FiringTimeDecl(amount, self._word(unit), on, span)

    def wcet(self, span: Span, *times: s.FiringTimeDecl) -> s.WcetDecl:
        return s.WcetDecl(times, span)

    def task(self, span: Span, name: Token, params: Any, *items: Any) -> s.TaskDecl:
        return s.TaskDecl(self._word(name), params or (), items, self._doc(span), span)

    # -- networks ----------------------------------------------------------------------------------
    def tensor(self, span: Span, name: Token, sizes: Any) -> tuple[s.Text, Any]:
        return self._text(name), sizes

    def tensors(self, span: Span, *named: Any) -> tuple[Any, ...]:
        return named

    def wrap(self, span: Span, kind: Token, code: Token) -> tuple[s.Word, s.Text]:
        return self._word(kind), self._text(code)

    def net_port(
        self, span: Span, word: Any, name: s.Word, kind: Any, value: Any, tensors: Any, wrap: Any
    ) -> s.NetPort:
        wrap_kind, code = wrap or (None, None)
        if value is not None and not isinstance(value, tuple):
            value = (value,)
        names = tuple(text for text, _ in tensors or ())
        sizes = tuple(given for _, given in tensors or ())
        direction = _direction(word)
        return s.NetPort(direction, name, kind, value, names, sizes, wrap_kind, code, span)

    def precision(
        self, span: Span, name: Token, within: s.Expr | None, unit: Token | None
    ) -> s.SettingDecl:
        most = None if within is None or unit is None else self._quantity(within, unit)
        return s.SettingDecl("precision", self._word(name), span, most)

    def calibrate(self, span: Span, text: Token) -> s.SettingDecl:
        return s.SettingDecl("calibrate", self._text(text), span)

    def batch(self, span: Span, value: s.Expr) -> s.SettingDecl:
        return s.SettingDecl("batch", value, span)

    def library(self, span: Span, text: Token) -> s.SettingDecl:
        return s.SettingDecl("library", self._text(text), span)

    def variant(self, span: Span, name: s.Word, file: Token, *rest: Any) -> s.VariantDecl:
        ports = tuple(item for item in rest if isinstance(item, s.NetPort))
        return s.VariantDecl(name, self._text(file), ports, rest[-1], span)

    def network(self, span: Span, name: Token, file: Token | None, *items: Any) -> s.NetworkDecl:
        text = self._text(file) if file is not None else None
        return s.NetworkDecl(self._word(name), text, _flat(items), self._doc(span), span)

    # -- graphs and apps ---------------------------------------------------------------------------
    def boundary(
        self, span: Span, word: Any, name: s.Word, kind: s.TypeExpr | None, rate: s.UpTo | None
    ) -> s.Boundary:
        return s.Boundary(_direction(word), name, kind, rate, span)

    def element(self, span: Span, name: s.Word, index: s.Expr | None) -> s.Element:
        return s.Element(name, index, span)

    def arg(self, span: Span, name: s.Word, value: s.Expr) -> s.Arg:
        return s.Arg(name, value)

    def args(self, span: Span, *args: s.Arg | None) -> tuple[s.Arg, ...]:
        return _flat(args)

    def every(self, span: Span, amount: s.Expr, unit: Token) -> s.Quantity:
        return s.Quantity(amount, self._word(unit), amount.span.to(self.token_span(unit)))

    def latest(self, span: Span) -> s.Lossy:
        return s.Lossy(None, None, span)

    def drop(self, span: Span, what: Token, keep: s.Expr) -> s.Lossy:
        return s.Lossy(self._word(what), keep, span)

    def mailbox(self, span: Span, lossy: s.Lossy, wcet: s.WcetDecl | None) -> s.Lossy:
        return lossy if wcet is None else replace(lossy, wcet=wcet, span=span)

    def instance(
        self,
        span: Span,
        element: s.Element,
        of: Token,
        args: Any,
        every: s.Quantity | None,
        lossy: s.Lossy | None,
    ) -> s.InstanceDecl:
        return s.InstanceDecl(
            element, self._word(of), args or (), every, lossy, self._doc(span), span
        )

    def endpoint(self, span: Span, element: s.Element, *inner: s.Element) -> s.Endpoint:
        return s.Endpoint(element, inner, span)

    def delay(self, span: Span, count: s.Expr, values: Any) -> s.Delay:
        listed = isinstance(values, tuple)
        if not listed and values is not None:
            values = (values,)
        return s.Delay(count, values, listed, span)

    def resample(self, span: Span, word: Token, count: s.Expr, block: s.Expr | None) -> s.Resample:
        return s.Resample(self._word(word), count, block, span)

    def targets(self, span: Span, *endpoints: s.Endpoint) -> s.Targets:
        return s.Targets(endpoints)

    def chain(self, span: Span, first: s.Endpoint, *hops: Any) -> s.ArrowChain:
        return s.ArrowChain((s.Targets((first,)), *hops), span)

    def _quantity(self, amount: s.Expr, unit: Token) -> s.Quantity:
        return s.Quantity(amount, self._word(unit), amount.span.to(self.token_span(unit)))

    def _timing(self, key: str, span: Span, amount: s.Expr, unit: Token) -> s.TimingDecl:
        return s.TimingDecl(key, self._quantity(amount, unit), span)

    def period(self, span: Span, amount: s.Expr, unit: Token) -> s.TimingDecl:
        return self._timing("period", span, amount, unit)

    def deadline(
        self, span: Span, amount: s.Expr, unit: Token, source: Any, to: Token | None, sink: Any
    ) -> s.TimingDecl | s.PathDeadlineDecl:
        timing = self._timing("deadline", span, amount, unit)
        if to is None:
            return timing
        return s.PathDeadlineDecl(
            "deadline", timing.value, source, self._word(to), sink, timing.span
        )

    def reaction(
        self, span: Span, amount: s.Expr, unit: Token, source: Any, to: Token, sink: Any
    ) -> s.PathDeadlineDecl:
        value = self._quantity(amount, unit)
        return s.PathDeadlineDecl("reaction", value, source, self._word(to), sink, span)

    def priority(self, span: Span, value: s.Expr) -> s.Priority:
        return s.Priority(value, span)

    def share(self, span: Span, percent: s.Expr, *period: Any) -> s.ShareDecl:
        amount, unit = period[-2:]  # what stands between is `%` and `of`
        return s.ShareDecl(percent, self._optional(amount, unit), span)

    def requests(self, span: Span, most: s.Expr, amount: s.Expr, unit: Token) -> s.RequestsDecl:
        return s.RequestsDecl(most, self._quantity(amount, unit), span)

    def graph(self, span: Span, name: Token, params: Any, *items: Any) -> s.GraphDecl:
        return s.GraphDecl(self._word(name), params or (), items, self._doc(span), span)

    def app(self, span: Span, name: Token, *items: Any) -> s.AppDecl:
        return s.AppDecl(self._word(name), items, self._doc(span), span)

    # -- platforms and mappings --------------------------------------------------------------------
    def _option(
        self, key: str, span: Span, values: tuple[s.Expr, ...], word: Token
    ) -> s.PoolOption:
        return s.PoolOption(key, values, self._word(word), span)

    def scheduler(self, span: Span, name: Token, *slices: Token | None) -> s.PoolOption:
        times = []
        for amount, unit in zip(slices[::2], slices[1::2], strict=True):
            if amount is not None and unit is not None:
                number = self.number(self.token_span(amount), amount)
                times.append(self._quantity(number, unit))
        return s.PoolOption("scheduler", (), self._word(name), span, tuple(times))

    def wakeup(self, span: Span, amount: s.Expr, unit: Token) -> s.PoolOption:
        return self._option("wakeup", span, (amount,), unit)

    def frequencies(self, span: Span, values: tuple[s.Expr, ...], unit: Token) -> s.PoolOption:
        return self._option("frequencies", span, values, unit)

    def engines(self, span: Span, count: s.Expr, how: Token) -> s.PoolOption:
        return self._option("engines", span, (count,), how)

    def pool_engine(self, span: Span, name: Token) -> s.PoolOption:
        return self._option("engine", span, (), name)

    def memory(self, span: Span, amount: s.Expr, unit: Token) -> s.PoolOption:
        return self._option("memory", span, (amount,), unit)

    def compute(self, span: Span, capability: s.Expr) -> s.PoolOption:
        return s.PoolOption("compute", (capability,), s.Word("compute", span), span)

    def idle(self, span: Span, values: tuple[s.Expr, ...], unit: Token) -> s.PoolOption:
        return self._option("idle", span, values, unit)

    def busy(self, span: Span, values: tuple[s.Expr, ...], unit: Token) -> s.PoolOption:
        return self._option("busy", span, values, unit)

    def pool_type(self, span: Span, name: Token) -> s.PoolOption:
        return self._option("type", span, (), name)

    def speed(self, span: Span, factor: s.Expr) -> s.PoolOption:
        return s.PoolOption("speed", (factor,), s.Word("speed", span), span)

    def cores(self, span: Span, numbers: tuple[s.Expr, ...]) -> s.PoolOption:
        return s.PoolOption("on", numbers, s.Word("on", span), span)

    def power(self, span: Span, amount: s.Expr, unit: Token) -> s.PowerDecl:
        return s.PowerDecl(self._quantity(amount, unit), span)

    def tensorrt(self, span: Span, version: Token) -> s.TensorRTDecl:
        return s.TensorRTDecl(self._text(version), span)

    def module(self, span: Span, name: Token) -> s.ModuleDecl:
        return s.ModuleDecl(self._word(name), span)

    def pool(
        self, span: Span, kind: Token, name: Token, count: s.Expr | None, *options: s.PoolOption
    ) -> s.PoolDecl:
        return s.PoolDecl(self._word(kind), self._word(name), count, options, span)

    def contention(
        self, span: Span, victim: Token, aggressor: Token, factor: s.Expr
    ) -> s.ContentionDecl:
        return s.ContentionDecl(self._word(victim), self._word(aggressor), factor, span)

    def machine(self, span: Span, name: Token, *items: Any) -> s.MachineDecl:
        return s.MachineDecl(self._word(name), items, span)

    def wire(
        self,
        span: Span,
        one: Token,
        other: Token,
        bandwidth: tuple[s.Quantity, s.Word],
        latency: s.Expr,
        time: Token,
    ) -> s.WireDecl:
        rate, per = bandwidth
        delay = s.Quantity(latency, self._word(time), latency.span.to(self.token_span(time)))
        return s.WireDecl((self._word(one), self._word(other)), rate, per, delay, span)

    def bandwidth(
        self, span: Span, amount: s.Expr, unit: Token, sign: Token, per: Token
    ) -> tuple[s.Quantity, s.Word]:
        """The rate, and the time that it is per."""
        rate = s.Quantity(amount, self._word(unit), amount.span.to(self.token_span(per)))
        # `*` is refused with what stands behind it.
        word = self._word(per) if sign == "/" else s.Word(f"{sign} {per}", self.token_span(sign))
        return rate, word

    def platform(self, span: Span, name: Token, *items: Any) -> s.PlatformDecl:
        return s.PlatformDecl(self._word(name), items, self._doc(span), span)

    def path_part(self, span: Span, name: s.Word, index: s.Expr | None) -> s.Element:
        return s.Element(name, index, span)

    def path(self, span: Span, *parts: s.Element) -> tuple[s.Element, ...]:
        return parts

    def processor(
        self, span: Span, first: Token, second: Token | None, index: s.Expr | None
    ) -> s.ProcessorName:
        machine, name = (None, first) if second is None else (self._word(first), second)
        return s.ProcessorName(machine, self._word(name), index, span)

    def until(self, span: Span, layer: Token) -> tuple[str, Any]:
        return "until", self._text(layer)

    def bands(self, span: Span, rows: s.Expr, *parts: Any) -> tuple[str, Any]:
        clauses: dict[str, Any] = dict(part for part in parts if part is not None)
        return "bands", s.BandsDecl(rows, clauses.get("until"), clauses.get("keep", ()), span)

    def band_end(self, span: Span, tensor: Token) -> tuple[str, Any]:
        return "until", self._text(tensor)

    def keep(self, span: Span, *tensors: Token) -> tuple[str, Any]:
        return "keep", tuple(self._text(t) for t in tensors)

    def stage_memory(self, span: Span, amount: s.Expr, unit: Token) -> tuple[str, Any]:
        return "memory", s.Quantity(amount, self._word(unit), amount.span.to(self.token_span(unit)))

    def streams(self, span: Span, count: s.Expr) -> tuple[str, Any]:
        return "streams", count

    def threads(self, span: Span, count: s.Expr) -> tuple[str, Any]:
        return "threads", count

    def engine(self, span: Span, name: Token) -> tuple[str, Any]:
        return "engine", self._word(name)

    def stage_precision(self, span: Span, name: Token) -> tuple[str, Any]:
        return "precision", self._word(name)

    def process(self, span: Span) -> tuple[str, Any]:
        return "process", True

    def graph_capture(self, span: Span) -> tuple[str, Any]:
        return "graph", True

    def fallback(self, span: Span, kind: Token) -> tuple[str, Any]:
        return "fallback", self._word(kind)

    def stage(self, span: Span, *children: Any) -> s.StageDecl:
        options: dict[str, Any] = dict(c for c in children if isinstance(c, tuple))
        processors = tuple(c for c in children if isinstance(c, s.ProcessorName))
        return s.StageDecl(
            processors,
            options.get("until"),
            options.get("streams"),
            options.get("threads"),
            "process" in options,
            "graph" in options,
            options.get("fallback"),
            tuple(c[1] for c in children if isinstance(c, tuple) and c[0] == "bands"),
            options.get("memory"),
            options.get("engine"),
            options.get("precision"),
            span,
        )

    def pin_wcet(self, span: Span, amount: s.Expr, unit: Token) -> tuple[str, Any]:
        return "wcet", self._quantity(amount, unit)

    def buffers(self, span: Span, count: s.Expr) -> tuple[str, Any]:
        return "buffers", count

    def around(self, span: Span, side: Token, count: s.Expr) -> tuple[str, Any]:
        return str(side), count

    def adapt(self, span: Span) -> tuple[str, Any]:
        return "adapt", True

    def pin(self, span: Span, path: tuple[s.Element, ...], *children: Any) -> s.PinDecl:
        options: dict[str, Any] = dict(c for c in children if isinstance(c, tuple))
        stages = tuple(c for c in children if isinstance(c, s.StageDecl))
        return s.PinDecl(
            path,
            stages,
            options.get("wcet"),
            options.get("buffers"),
            options.get("pre"),
            options.get("post"),
            "adapt" in options,
            span,
        )

    def clock(
        self, span: Span, pool: Token, amount: s.Expr, unit: Token, state: tuple[s.Element, ...]
    ) -> s.ClockDecl:
        return s.ClockDecl(self._word(pool), self._quantity(amount, unit), state, span)

    def mapping(
        self, span: Span, platform: Token, *items: s.PinDecl | s.ClockDecl
    ) -> s.MappingDecl:
        pins = tuple(i for i in items if isinstance(i, s.PinDecl))
        clocks = tuple(i for i in items if isinstance(i, s.ClockDecl))
        return s.MappingDecl(self._word(platform), pins, clocks, span)

    # -- scenarios ---------------------------------------------------------------------------------
    def events(self, span: Span, *names: s.Word) -> s.EventsDecl:
        return s.EventsDecl(names, span)

    def run(self, span: Span, *parts: Any) -> s.RunDecl:
        apps = tuple(p for p in parts if isinstance(p, s.Word))
        period, period_unit, deadline, deadline_unit = parts[len(apps) :]
        levels: tuple[s.Quantity, ...] = ()
        if isinstance(period, tuple):
            levels = tuple(self._quantity(amount, period_unit) for amount in period)
        one = None if levels else self._optional(period, period_unit)
        return s.RunDecl(apps, one, levels, self._optional(deadline, deadline_unit), span)

    def _optional(self, amount: s.Expr | None, unit: Token | None) -> s.Quantity | None:
        """A quantity that may be left out."""
        if amount is None or unit is None:
            return None
        return self._quantity(amount, unit)

    def choice(self, span: Span, path: tuple[s.Element, ...], variant: s.Word) -> s.ChoiceDecl:
        return s.ChoiceDecl(path, variant, span)

    def weight(self, span: Span, value: s.Expr) -> s.WeightDecl:
        return s.WeightDecl(value, span)

    def preference(self, span: Span, word: Token, weight: s.Expr) -> tuple[s.Word, s.Expr]:
        return self._word(word), weight

    def prefer(self, span: Span, *criteria: tuple[s.Word, s.Expr]) -> s.PreferDecl:
        return s.PreferDecl(criteria, span)

    def mode(self, span: Span, initial: Token | None, name: s.Word, *items: Any) -> s.ModeDecl:
        return s.ModeDecl(initial is not None, name, items, span)

    def on_events(self, span: Span, *paths: tuple[s.Element, ...]) -> tuple[str, Any]:
        return "events", paths

    def after(self, span: Span, amount: s.Expr, unit: Token) -> tuple[str, Any]:
        return "after", self._optional(amount, unit)

    def at_once(self, span: Span) -> bool:
        return True

    def minimise(self, span: Span, what: Token) -> s.MinimiseDecl:
        return s.MinimiseDecl(self._word(what), span)

    def transition(self, span: Span, *parts: Any) -> s.TransitionDecl:
        *sources, target, (kind, cause), at_once = parts
        events, after = (cause, None) if kind == "events" else ((), cause)
        return s.TransitionDecl(tuple(sources), target, events, after, at_once is not None, span)

    def scenario(self, span: Span, name: Token, *items: Any) -> s.ScenarioDecl:
        return s.ScenarioDecl(self._word(name), items, self._doc(span), span)

    # -- top level ---------------------------------------------------------------------------------
    def use(self, span: Span, file: Token) -> s.UseDecl:
        return s.UseDecl(self._text(file), span)

    def const(self, span: Span, name: Token, value: s.Expr) -> s.ConstDecl:
        return s.ConstDecl(self._word(name), value, span)

    def type_def(self, span: Span, name: Token, kind: s.TypeExpr) -> s.TypeDecl:
        return s.TypeDecl(self._word(name), kind, span)
