"""Lark's parse tree to syntax nodes, rule by rule."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

from lark import Token, Transformer, v_args

from ..model.span import Span
from . import syntax as s

#: Digits, and powers of ten, of a number in a text; more would only cost time and memory.
LONGEST_NUMBER = 40
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


def unquote(literal: str) -> str:
    """The text between the quotes, with `\\n`, `\\t`, `\\r`, `\\"`, `\\\\` and `\\uXXXX` resolved."""
    if "\\" not in literal:
        return literal[1:-1]

    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if code[0] == "u" and len(code) == 5 else _ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, literal[1:-1])


def _flat(children: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(c for c in children if c is not None)


@v_args(inline=True, meta=True)
class TreeBuilder(Transformer[Token, Any]):
    """`file` is the file being read; `docs` maps the line after a documentation comment to its text."""

    def __init__(self) -> None:
        super().__init__()
        self.file = ""
        self.docs: dict[int, str] = {}
        # lark wraps a method anew at every look-up: look each one up once.
        for name in vars(TreeBuilder):
            if not name.startswith("_") and name != "token_span":
                setattr(self, name, getattr(self, name))

    # -- helpers ---------------------------------------------------------------------------------------------------
    def _span(self, meta: Any) -> Span:
        return Span(self.file, meta.line, meta.column, meta.end_line, meta.end_column)

    def token_span(self, token: Token) -> Span:
        """The place of one token."""
        return Span(self.file, token.line or 1, token.column or 1, token.end_line or 1, token.end_column or 1)

    def _word(self, token: Token) -> s.Word:
        return s.Word(str(token), self.token_span(token))

    def _text(self, token: Token) -> s.Text:
        return s.Text(unquote(token), self.token_span(token))

    def _doc(self, meta: Any) -> str:
        lines: list[str] = []
        line = meta.line
        while line in self.docs:
            lines.insert(0, self.docs[line])
            line -= 1
        return "\n".join(lines)

    # -- expressions -----------------------------------------------------------------------------------------------
    def start(self, meta: Any, declaration: Any) -> Any:
        return declaration

    def number(self, meta: Any, token: Token) -> s.Number:
        digits, _, exponent = str(token).lower().partition("e")
        sane = len(digits) <= LONGEST_NUMBER and abs(int(exponent[:9] or 0)) <= LONGEST_NUMBER
        return s.Number(Fraction(str(token)) if sane else None, self.token_span(token))

    def name(self, meta: Any, token: Token) -> s.Name:
        return s.Name(str(token), self.token_span(token))

    def string(self, meta: Any, token: Token) -> s.Text:
        return self._text(token)

    def sign(self, meta: Any, operator: Token, operand: s.Expr) -> s.Expr:
        return s.Sign(str(operator), operand, self._span(meta))

    def binary(self, meta: Any, left: s.Expr, operator: Token, right: s.Expr) -> s.Expr:
        return s.Binary(str(operator), left, right, self._span(meta))

    def call(self, meta: Any, function: Token, argument: s.Expr) -> s.Expr:
        return s.Call(self._word(function), argument, self._span(meta))

    def extent(self, meta: Any, port: Token, what: s.Word, index: s.Expr) -> s.Expr:
        return s.Extent(self._word(port), what, index, self._span(meta))

    def word(self, meta: Any, token: Token) -> s.Word:
        return self._word(token)

    def instance_name(self, meta: Any, token: Token) -> s.Word:
        return self._word(token)

    def values(self, meta: Any, *values: s.Expr) -> tuple[s.Expr, ...]:
        return values

    def type_expr(self, meta: Any, name: Token, *shape: s.Expr | None) -> s.TypeExpr:
        sizes = _flat(shape)
        return s.TypeExpr(self._word(name), sizes or None, self._span(meta))

    # -- tasks -----------------------------------------------------------------------------------------------------
    def params(self, meta: Any, *params: s.Param | None) -> tuple[s.Param, ...]:
        return _flat(params)

    def param(self, meta: Any, name: s.Word, kind: Token, default: s.Expr | None) -> s.Param:
        return s.Param(name, self._word(kind), default, self._span(meta))

    def phase(self, meta: Any, value: s.Expr, count: s.Expr | None) -> s.Phase:
        return s.Phase(value, count)

    def phases(self, meta: Any, *entries: s.Phase) -> s.Phases:
        return s.Phases(entries, self._span(meta))

    def window(self, meta: Any, size: s.Expr) -> s.WindowDecl:
        return s.WindowDecl(size, self._span(meta))

    def port(
        self, meta: Any, way: Any, name: s.Word, kind: s.TypeExpr | None, rate: Any, window: s.WindowDecl | None
    ) -> s.PortDecl:
        return s.PortDecl("in" if way == "in" else "out", name, kind, rate, window, self._span(meta))

    def implementation(
        self, meta: Any, kind: Token | None, language: Token, code: Token, arguments: Any, *options: tuple[str, Any]
    ) -> s.ImplementationDecl:
        where = self._word(kind) if kind is not None else None
        given = dict(options)
        return s.ImplementationDecl(
            where,
            self._word(language),
            self._text(code),
            arguments,
            given.get("grid"),
            given.get("block"),
            given.get("shared"),
            self._span(meta),
        )

    def arguments(self, meta: Any, *values: s.Expr | None) -> tuple[s.Expr, ...]:
        return _flat(values)

    def grid(self, meta: Any, sizes: Any) -> tuple[str, Any]:
        return "grid", sizes if isinstance(sizes, tuple) else (sizes,)

    def block(self, meta: Any, sizes: Any) -> tuple[str, Any]:
        return "block", sizes if isinstance(sizes, tuple) else (sizes,)

    def shared(self, meta: Any, amount: s.Expr, unit: Token) -> tuple[str, Any]:
        return "shared", s.Quantity(amount, self._word(unit), amount.span.to(self.token_span(unit)))

    def reference(self, meta: Any, language: Token, code: Token, tolerance: s.Expr | None) -> s.ReferenceDecl:
        return s.ReferenceDecl(self._word(language), self._text(code), tolerance, self._span(meta))

    def scratch(self, meta: Any, name: s.Word, kind: s.TypeExpr) -> s.ScratchDecl:
        return s.ScratchDecl(name, kind, self._span(meta))

    def state(self, meta: Any, name: s.Word, kind: s.TypeExpr) -> s.StateDecl:
        return s.StateDecl(name, kind, self._span(meta))

    def stateless(self, meta: Any, token: Token) -> s.StatelessDecl:
        return s.StatelessDecl(self.token_span(token))

    def live(self, meta: Any, token: Token) -> s.LiveDecl:
        return s.LiveDecl(self.token_span(token))

    def on_error(self, meta: Any, event: Token, policy: Token) -> s.OnErrorDecl:
        return s.OnErrorDecl(self._word(event), self._word(policy), self._span(meta))

    def wcet(self, meta: Any, amount: Any, unit: Token) -> s.WcetDecl:
        return s.WcetDecl(amount, self._word(unit), self._span(meta))

    def task(self, meta: Any, name: Token, params: Any, *items: Any) -> s.TaskDecl:
        return s.TaskDecl(self._word(name), params or (), items, self._doc(meta), self._span(meta))

    # -- networks --------------------------------------------------------------------------------------------------
    def tensors(self, meta: Any, *names: Token) -> tuple[s.Text, ...]:
        return tuple(self._text(n) for n in names)

    def wrap(self, meta: Any, kind: Token, code: Token) -> tuple[s.Word, s.Text]:
        return self._word(kind), self._text(code)

    def net_port(self, meta: Any, way: Any, name: s.Word, kind: Any, tensors: Any, wrap: Any) -> s.NetPort:
        wrap_kind, code = wrap or (None, None)
        direction: s.Direction = "in" if way == "in" else "out"
        return s.NetPort(direction, name, kind, tensors or (), wrap_kind, code, self._span(meta))

    def precision(self, meta: Any, name: Token) -> s.Setting:
        return s.Setting("precision", self._word(name), self._span(meta))

    def calibrate(self, meta: Any, text: Token) -> s.Setting:
        return s.Setting("calibrate", self._text(text), self._span(meta))

    def batch(self, meta: Any, value: s.Expr) -> s.Setting:
        return s.Setting("batch", value, self._span(meta))

    def variant(self, meta: Any, name: s.Word, file: Token, *rest: Any) -> s.VariantDecl:
        ports = tuple(item for item in rest if isinstance(item, s.NetPort))
        return s.VariantDecl(name, self._text(file), ports, rest[-1], self._span(meta))

    def network(self, meta: Any, name: Token, file: Token | None, *items: Any) -> s.NetworkDecl:
        text = self._text(file) if file is not None else None
        return s.NetworkDecl(self._word(name), text, _flat(items), self._doc(meta), self._span(meta))

    # -- graphs and apps -------------------------------------------------------------------------------------------
    def boundary(self, meta: Any, way: Any, name: s.Word, kind: s.TypeExpr | None) -> s.Boundary:
        return s.Boundary("in" if way == "in" else "out", name, kind, self._span(meta))

    def element(self, meta: Any, name: s.Word, index: s.Expr | None) -> s.Element:
        return s.Element(name, index, self._span(meta))

    def arg(self, meta: Any, name: s.Word, value: s.Expr) -> s.Arg:
        return s.Arg(name, value)

    def args(self, meta: Any, *args: s.Arg | None) -> tuple[s.Arg, ...]:
        return _flat(args)

    def every(self, meta: Any, amount: s.Expr, unit: Token) -> s.Quantity:
        return s.Quantity(amount, self._word(unit), amount.span.to(self.token_span(unit)))

    def latest(self, meta: Any) -> s.Lossy:
        return s.Lossy(None, None, self._span(meta))

    def drop(self, meta: Any, what: Token, keep: s.Expr) -> s.Lossy:
        return s.Lossy(self._word(what), keep, self._span(meta))

    def mailbox(self, meta: Any, lossy: s.Lossy, wcet: tuple[str, s.Quantity] | None) -> s.Lossy:
        return lossy if wcet is None else replace(lossy, wcet=wcet[1], span=self._span(meta))

    def instance(
        self, meta: Any, element: s.Element, of: Token, args: Any, every: s.Quantity | None, lossy: s.Lossy | None
    ) -> s.InstanceDecl:
        return s.InstanceDecl(element, self._word(of), args or (), every, lossy, self._doc(meta), self._span(meta))

    def endpoint(self, meta: Any, element: s.Element, *inner: s.Element) -> s.Endpoint:
        return s.Endpoint(element, inner, self._span(meta))

    def delay(self, meta: Any, count: s.Expr, values: Any) -> s.Delay:
        listed = isinstance(values, tuple)
        given = values if listed else (values,) if values is not None else None
        return s.Delay(count, given, listed, self._span(meta))

    def resample(self, meta: Any, word: Token, count: s.Expr, block: s.Expr | None) -> s.Resample:
        return s.Resample(self._word(word), count, block, self._span(meta))

    def targets(self, meta: Any, *endpoints: s.Endpoint) -> s.Targets:
        return s.Targets(endpoints)

    def chain(self, meta: Any, first: s.Endpoint, *hops: Any) -> s.Chain:
        return s.Chain((s.Targets((first,)), *hops), self._span(meta))

    def _quantity(self, amount: s.Expr, unit: Token) -> s.Quantity:
        return s.Quantity(amount, self._word(unit), amount.span.to(self.token_span(unit)))

    def _timing(self, key: str, meta: Any, amount: s.Expr, unit: Token) -> s.Timing:
        return s.Timing(key, self._quantity(amount, unit), self._span(meta))

    def period(self, meta: Any, amount: s.Expr, unit: Token) -> s.Timing:
        return self._timing("period", meta, amount, unit)

    def deadline(
        self, meta: Any, amount: s.Expr, unit: Token, source: Any, to: Token | None, sink: Any
    ) -> s.Timing | s.PathDeadline:
        timing = self._timing("deadline", meta, amount, unit)
        if to is None:
            return timing
        return s.PathDeadline(timing.value, source, self._word(to), sink, timing.span)

    def priority(self, meta: Any, value: s.Expr) -> s.Setting:
        return s.Setting("priority", value, self._span(meta))

    def graph(self, meta: Any, name: Token, params: Any, *items: Any) -> s.GraphDecl:
        return s.GraphDecl(self._word(name), params or (), items, self._doc(meta), self._span(meta))

    def app(self, meta: Any, name: Token, *items: Any) -> s.AppDecl:
        return s.AppDecl(self._word(name), items, self._doc(meta), self._span(meta))

    # -- platforms and mappings ------------------------------------------------------------------------------------
    def _option(self, key: str, meta: Any, values: tuple[s.Expr, ...], word: Token) -> s.PoolOption:
        return s.PoolOption(key, values, self._word(word), self._span(meta))

    def scheduler(self, meta: Any, name: Token) -> s.PoolOption:
        return self._option("scheduler", meta, (), name)

    def frequencies(self, meta: Any, values: tuple[s.Expr, ...], unit: Token) -> s.PoolOption:
        return self._option("frequencies", meta, values, unit)

    def engines(self, meta: Any, count: s.Expr, how: Token) -> s.PoolOption:
        return self._option("engines", meta, (count,), how)

    def memory(self, meta: Any, amount: s.Expr, unit: Token) -> s.PoolOption:
        return self._option("memory", meta, (amount,), unit)

    def compute(self, meta: Any, capability: s.Expr) -> s.PoolOption:
        return s.PoolOption("compute", (capability,), s.Word("compute", self._span(meta)), self._span(meta))

    def idle(self, meta: Any, values: tuple[s.Expr, ...], unit: Token) -> s.PoolOption:
        return self._option("idle", meta, values, unit)

    def busy(self, meta: Any, values: tuple[s.Expr, ...], unit: Token) -> s.PoolOption:
        return self._option("busy", meta, values, unit)

    def power(self, meta: Any, amount: s.Expr, unit: Token) -> s.PowerDecl:
        return s.PowerDecl(self._quantity(amount, unit), self._span(meta))

    def tensorrt(self, meta: Any, version: Token) -> s.TensorRTDecl:
        return s.TensorRTDecl(self._text(version), self._span(meta))

    def pool(self, meta: Any, kind: Token, name: Token, count: s.Expr | None, *options: s.PoolOption) -> s.PoolDecl:
        return s.PoolDecl(self._word(kind), self._word(name), count, options, self._span(meta))

    def contention(self, meta: Any, victim: Token, aggressor: Token, factor: s.Expr) -> s.ContentionDecl:
        return s.ContentionDecl(self._word(victim), self._word(aggressor), factor, self._span(meta))

    def machine(self, meta: Any, name: Token, *items: Any) -> s.MachineDecl:
        return s.MachineDecl(self._word(name), items, self._span(meta))

    def wire(
        self, meta: Any, one: Token, other: Token, amount: s.Expr, unit: Token, sign: Token, per: Token,
        latency: s.Expr, time: Token,
    ) -> s.WireDecl:  # fmt: skip
        rate = s.Quantity(amount, self._word(unit), amount.span.to(self.token_span(per)))
        # `*` is refused with what stands behind it.
        word = self._word(per) if sign == "/" else s.Word(f"{sign} {per}", self.token_span(sign))
        delay = s.Quantity(latency, self._word(time), latency.span.to(self.token_span(time)))
        return s.WireDecl((self._word(one), self._word(other)), rate, word, delay, self._span(meta))

    def platform(self, meta: Any, name: Token, *items: Any) -> s.PlatformDecl:
        return s.PlatformDecl(self._word(name), items, self._doc(meta), self._span(meta))

    def path_part(self, meta: Any, name: s.Word, index: s.Expr | None) -> s.Element:
        return s.Element(name, index, self._span(meta))

    def path(self, meta: Any, *parts: s.Element) -> tuple[s.Element, ...]:
        return parts

    def processor(self, meta: Any, first: Token, second: Token | None, index: s.Expr | None) -> s.ProcessorName:
        machine, name = (None, first) if second is None else (self._word(first), second)
        return s.ProcessorName(machine, self._word(name), index, self._span(meta))

    def until(self, meta: Any, layer: Token) -> tuple[str, Any]:
        return "until", self._text(layer)

    def bands(self, meta: Any, rows: s.Expr, *parts: Any) -> tuple[str, Any]:
        given: dict[str, Any] = dict(p for p in parts if p is not None)
        return "bands", s.BandsDecl(rows, given.get("until"), given.get("keep", ()), self._span(meta))

    def band_end(self, meta: Any, tensor: Token) -> tuple[str, Any]:
        return "until", self._text(tensor)

    def keep(self, meta: Any, *tensors: Token) -> tuple[str, Any]:
        return "keep", tuple(self._text(t) for t in tensors)

    def stage_memory(self, meta: Any, amount: s.Expr, unit: Token) -> tuple[str, Any]:
        return "memory", s.Quantity(amount, self._word(unit), amount.span.to(self.token_span(unit)))

    def streams(self, meta: Any, count: s.Expr) -> tuple[str, Any]:
        return "streams", count

    def threads(self, meta: Any, count: s.Expr) -> tuple[str, Any]:
        return "threads", count

    def process(self, meta: Any) -> tuple[str, Any]:
        return "process", True

    def graph_capture(self, meta: Any) -> tuple[str, Any]:
        return "graph", True

    def fallback(self, meta: Any, kind: Token) -> tuple[str, Any]:
        return "fallback", self._word(kind)

    def stage(self, meta: Any, *children: Any) -> s.StageDecl:
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
            self._span(meta),
        )

    def pin_wcet(self, meta: Any, amount: s.Expr, unit: Token) -> tuple[str, Any]:
        return "wcet", self._quantity(amount, unit)

    def buffers(self, meta: Any, count: s.Expr) -> tuple[str, Any]:
        return "buffers", count

    def around(self, meta: Any, side: Token, count: s.Expr) -> tuple[str, Any]:
        return str(side), count

    def adapt(self, meta: Any) -> tuple[str, Any]:
        return "adapt", True

    def pin(self, meta: Any, path: tuple[s.Element, ...], *children: Any) -> s.PinDecl:
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
            self._span(meta),
        )

    def clock(self, meta: Any, pool: Token, amount: s.Expr, unit: Token, state: tuple[s.Element, ...]) -> s.ClockDecl:
        return s.ClockDecl(self._word(pool), self._quantity(amount, unit), state, self._span(meta))

    def mapping(self, meta: Any, platform: Token, *items: s.PinDecl | s.ClockDecl) -> s.MappingDecl:
        pins = tuple(i for i in items if isinstance(i, s.PinDecl))
        clocks = tuple(i for i in items if isinstance(i, s.ClockDecl))
        return s.MappingDecl(self._word(platform), pins, clocks, self._span(meta))

    # -- scenarios -------------------------------------------------------------------------------------------------
    def events(self, meta: Any, *names: s.Word) -> s.EventsDecl:
        return s.EventsDecl(names, self._span(meta))

    def run(self, meta: Any, *parts: Any) -> s.RunDecl:
        apps = tuple(p for p in parts if isinstance(p, s.Word))
        period, period_unit, deadline, deadline_unit = parts[len(apps) :]
        levels = tuple(self._quantity(p, period_unit) for p in period) if isinstance(period, tuple) else ()
        one = None if levels else self._given(period, period_unit)
        return s.RunDecl(apps, one, levels, self._given(deadline, deadline_unit), self._span(meta))

    def _given(self, amount: s.Expr | None, unit: Token | None) -> s.Quantity | None:
        return None if amount is None or unit is None else self._quantity(amount, unit)

    def choice(self, meta: Any, path: tuple[s.Element, ...], variant: s.Word) -> s.ChoiceDecl:
        return s.ChoiceDecl(path, variant, self._span(meta))

    def weight(self, meta: Any, value: s.Expr) -> s.WeightDecl:
        return s.WeightDecl(value, self._span(meta))

    def mode(self, meta: Any, initial: Token | None, name: s.Word, *items: Any) -> s.ModeDecl:
        return s.ModeDecl(initial is not None, name, items, self._span(meta))

    def on_events(self, meta: Any, *paths: tuple[s.Element, ...]) -> tuple[str, Any]:
        return "events", paths

    def after(self, meta: Any, amount: s.Expr, unit: Token) -> tuple[str, Any]:
        return "after", self._given(amount, unit)

    def at_once(self, meta: Any) -> bool:
        return True

    def minimise(self, meta: Any, what: Token) -> s.MinimiseDecl:
        return s.MinimiseDecl(self._word(what), self._span(meta))

    def transition(self, meta: Any, *parts: Any) -> s.TransitionDecl:
        *sources, target, (kind, given), at_once = parts
        events, after = (given, None) if kind == "events" else ((), given)
        return s.TransitionDecl(tuple(sources), target, events, after, at_once is not None, self._span(meta))

    def scenario(self, meta: Any, name: Token, *items: Any) -> s.ScenarioDecl:
        return s.ScenarioDecl(self._word(name), items, self._doc(meta), self._span(meta))

    # -- top level -------------------------------------------------------------------------------------------------
    def use(self, meta: Any, file: Token) -> s.UseDecl:
        return s.UseDecl(self._text(file), self._span(meta))

    def const(self, meta: Any, name: Token, value: s.Expr) -> s.ConstDecl:
        return s.ConstDecl(self._word(name), value, self._span(meta))

    def type_def(self, meta: Any, name: Token, kind: s.TypeExpr) -> s.TypeDecl:
        return s.TypeDecl(self._word(name), kind, self._span(meta))
