"""Task and network declarations, with their arguments, to templates that instances are stamped from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from ..model.application import FilePath, Implementation, Network, Parameter, Port, StateField, Task, Tensor
from ..model.diagnostic import Note, did_you_mean, one_of
from ..model.platform import KINDS
from ..model.span import Span
from ..model.types import TensorType
from ..networks.onnx_import import Border, NetworkFault, NetworkInterface, read_network
from . import syntax as s
from .code import Callable, PythonSymbol, c_functions, read_python
from .context import Context
from .evaluate import Evaluator, Scope

LANGUAGES = {"python": "cpu", "c": "cpu", "cuda": "gpu"}
PARAMETER_TYPES = ("int", "float", "bool", "string", "file")
PRECISIONS = ("fp32", "fp16", "int8")


@dataclass(frozen=True, slots=True)
class Link:
    """A channel inside a template, between its tasks (names relative to the instance)."""

    source: str
    source_port: str
    destination: str
    destination_port: str


@dataclass(frozen=True, slots=True)
class Template:
    """What one instance becomes: usually one task; a network with `pre`/`post` becomes several.

    `tasks` have names relative to the instance ("" = the instance itself). `inputs` and `outputs` map the ports an
    application sees to (relative task, its port).
    """

    tasks: tuple[Task, ...]
    links: tuple[Link, ...]
    inputs: dict[str, tuple[str, Port]]
    outputs: dict[str, tuple[str, Port]]


class Components:
    """Makes templates, each once per set of arguments."""

    def __init__(self, context: Context, evaluator: Evaluator) -> None:
        self._context = context
        self._evaluate = evaluator
        self._templates: dict[tuple[str, tuple[tuple[str, Parameter], ...]], Template | None] = {}

    # -- parameters ------------------------------------------------------------------------------------------------
    def bind(
        self, params: tuple[s.Param, ...], args: tuple[s.Arg, ...], of: s.Word, scope: Scope
    ) -> dict[str, Parameter] | None:
        """Arguments and defaults to values, by parameter name in declaration order; None after a fault."""
        given: dict[str, s.Arg] = {}
        good = True
        for arg in args:
            if arg.name.text in given:
                self._context.fault("F108", f"`{arg.name.text}` is given twice", arg.name.span)
            elif arg.name.text not in {p.name.text for p in params}:
                known = [p.name.text for p in params]
                help_text = did_you_mean(arg.name.text, known) or (f"it has {one_of(known)}" if known else "")
                self._context.fault(
                    "F108", f"`{of.text}` has no parameter `{arg.name.text}`", arg.name.span, "", (), help_text
                )
                good = False
            else:
                given[arg.name.text] = arg
        bound: dict[str, Parameter] = {}
        for param in params:
            name = param.name.text
            if name in given:
                value = self._argument(param, given[name].value, scope)
            elif param.default is not None:
                value = self._argument(param, param.default, {})
            else:
                note = Note("declared here, without a default", param.span)
                help_text = f"write `{of.text}({name} = ...)`"
                self._context.fault("F108", f"`{of.text}` needs a value for `{name}`", of.span, "", [note], help_text)
                value = None
            if value is None:
                good = False
            else:
                bound[name] = value
        return bound if good else None

    def _argument(self, param: s.Param, expr: s.Expr, scope: Scope) -> Parameter | None:
        value = self._evaluate.value(expr, scope)
        if value is None:
            return None
        kind = param.type.text
        match kind, value:
            case "bool", bool():
                return value
            case (("int" | "float" | "string" | "file"), bool()):
                pass
            case "int", int():
                return value
            case "float", int() | Fraction():
                return Fraction(value)
            case "string", str():
                return value
            case "file", FilePath():
                return value
            case "file", str():
                place = _beside(expr.span, value)
                if place.is_file():
                    return FilePath(value, str(place))
                self._context.fault("F301", f"`{value}` does not exist", expr.span, f"looked for {_near(place)}")
                return None
            case _ if kind not in PARAMETER_TYPES:
                return None
            case _:
                pass
        note = Note(f"`{param.name.text}` is {kind}", param.span)
        shown = "true" if value is True else "false" if value is False else value
        self._context.fault("F108", f"`{shown}` is not a value of type {kind}", expr.span, "", [note])
        return None

    def check_params(self, params: tuple[s.Param, ...]) -> None:
        """Faults of a parameter list by itself."""
        seen: dict[str, s.Param] = {}
        for param in params:
            self._unique(param.name, seen, "parameter")
            seen.setdefault(param.name.text, param)
            if param.type.text not in PARAMETER_TYPES:
                help_text = did_you_mean(param.type.text, PARAMETER_TYPES) or f"use {one_of(PARAMETER_TYPES)}"
                self._context.fault(
                    "F101", f"`{param.type.text}` is no parameter type", param.type.span, "", (), help_text
                )
            elif param.default is not None:
                self._argument(param, param.default, {})

    def _unique(self, word: s.Word, seen: dict[str, s.Param] | dict[str, Port], what: str) -> bool:
        if word.text not in seen:
            return True
        first = seen[word.text]
        place = first.name.span if isinstance(first, s.Param) else first.span
        self._context.fault(
            "F102", f"two {what}s are called `{word.text}`", word.span, "", [Note("the first one", place)]
        )
        return False

    # -- templates -------------------------------------------------------------------------------------------------
    def template(self, declaration: s.TaskDecl | s.NetworkDecl, arguments: dict[str, Parameter]) -> Template | None:
        """The template of a task or network with these arguments; None after a fault."""
        key = (declaration.name.text, tuple(arguments.items()))
        if key not in self._templates:
            if isinstance(declaration, s.TaskDecl):
                self._templates[key] = self._task(declaration, arguments)
            else:
                self._templates[key] = NetworkBuilder(self._context, self._evaluate, self).build(declaration)
        return self._templates[key]

    def _task(self, declaration: s.TaskDecl, arguments: dict[str, Parameter]) -> Template | None:
        ports: dict[str, Port] = {}
        implementations: list[Implementation] = []
        state: list[StateField] = []
        stateless, good = False, True
        wcet: s.WcetDecl | None = None
        lists: dict[str, int] = {}
        for item in declaration.items:
            match item:
                case s.PortDecl():
                    port = self._port(item, arguments, ports)
                    good &= port is not None
                    if port is not None:
                        ports[port.name] = port
                        if isinstance(item.rate, s.Phases):
                            lists[port.name] = len(port.rates)
                case s.StateDecl():
                    kind = self._evaluate.type(item.type, arguments)
                    if kind is not None:
                        state.append(StateField(item.name.text, kind))
                case s.StatelessDecl():
                    stateless = True
                case s.WcetDecl():
                    if wcet is not None:
                        note = Note("the first one", wcet.span)
                        self._context.fault("F115", "`wcet` is given twice", item.span, "", [note])
                    wcet = item
                case s.ImplementationDecl():
                    pass
        inputs = tuple(p for p in ports.values() if p.direction == "in")
        outputs = tuple(p for p in ports.values() if p.direction == "out")
        for item in declaration.items:
            if isinstance(item, s.ImplementationDecl):
                made = self._implementation(item, declaration, inputs, tuple(arguments), bool(state), implementations)
                if made is not None:
                    implementations.append(made)
        times = self._wcet(wcet, arguments)
        if len(set(lists.values())) > 1:
            self._rate_lists(declaration, lists)
            good = False
        if len(times) > 1 and any(n != len(times) for n in lists.values()):
            assert wcet is not None
            self._context.fault("F106", f"`wcet` has {len(times)} phases, the rates {max(lists.values())}", wcet.span)
            good = False
        if not good:
            return None
        stateless = stateless or (
            bool(implementations)
            and not state
            and all(i.language == "python" and not i.is_class for i in implementations)
        )
        task = Task(
            "", declaration.name.text, inputs, outputs, tuple(arguments.items()), tuple(implementations), tuple(state),
            stateless, times, None, declaration.doc, declaration.name.span,
        )  # fmt: skip
        return Template((task,), (), {p.name: ("", p) for p in inputs}, {p.name: ("", p) for p in outputs})

    def _rate_lists(self, declaration: s.TaskDecl, lists: dict[str, int]) -> None:
        items = {i.name.text: i for i in declaration.items if isinstance(i, s.PortDecl)}
        (first, length), *others = lists.items()
        name, other = next((n, c) for n, c in others if c != length)
        rate, reference = items[name].rate, items[first].rate
        assert isinstance(rate, s.Phases) and isinstance(reference, s.Phases)
        note = Note(f"`{first}` has {length} phases", reference.span)
        help_text = "all rate lists of a task need the same length; a number holds in every phase"
        self._context.fault(
            "F106", f"`{name}` has {other} phases, `{first}` has {length}", rate.span, "", [note], help_text
        )

    def _port(self, item: s.PortDecl, arguments: Scope, ports: dict[str, Port]) -> Port | None:
        unique = self._unique(item.name, ports, "port")
        kind = None if item.type is None else self._evaluate.type(item.type, arguments)
        rates = self._evaluate.rates(item.rate, arguments, item.span)
        if rates is None or not unique or (item.type is not None and kind is None):
            return None
        stacked = isinstance(item.rate, s.Phases) or rates[0] > 1
        return Port(item.name.text, item.direction, kind, rates, stacked, item.span)

    def _wcet(self, item: s.WcetDecl | None, arguments: Scope) -> tuple[Fraction, ...]:
        if item is None:
            return ()
        factor = self._evaluate.unit(item.unit, "time", "a wcet")
        if isinstance(item.amount, s.Phases):
            entries, good = self._evaluate.phases(item.amount, arguments, "a wcet")
        else:
            value = self._evaluate.number(item.amount, arguments, "a wcet", 0)
            entries, good = ((value,), True) if value is not None else ((), False)
        return tuple(e * factor for e in entries) if good and factor is not None else ()

    # -- code ------------------------------------------------------------------------------------------------------
    def _implementation(
        self,
        item: s.ImplementationDecl,
        task: s.TaskDecl,
        inputs: tuple[Port, ...],
        parameters: tuple[str, ...],
        has_state: bool,
        earlier: Iterable[Implementation],
    ) -> Implementation | None:
        language = item.language.text
        if language not in LANGUAGES:
            help_text = did_you_mean(language, LANGUAGES) or f"use {one_of(LANGUAGES)}"
            self._context.fault("F114", f"`{language}` is no language of tasks", item.language.span, "", (), help_text)
            return None
        kind = item.kind.text if item.kind is not None else LANGUAGES[language]
        where = item.kind.span if item.kind is not None else item.language.span
        if kind not in KINDS:
            help_text = did_you_mean(kind, KINDS) or f"use {one_of(KINDS)}"
            self._context.fault("F114", f"`{kind}` is no kind of processor", where, "", (), help_text)
            return None
        if kind != LANGUAGES[language]:
            help_text = f"write `on {LANGUAGES[language]} {language} ...`"
            self._context.fault("F114", f"{language} code does not run on a {kind}", where, "", (), help_text)
            return None
        for other in earlier:
            if (other.kind, other.language) == (kind, language):
                note = Note("the first one", other.span)
                self._context.fault("F115", f"two {language} implementations on a {kind}", item.span, "", [note])
                return None
        found = self.code(item.code, language)
        if found is None:
            return None
        file, path, symbol, python = found
        if python is None:
            return Implementation(kind, language, file, path, symbol, item.span)
        passes = self._signature(item, task, python, symbol, inputs, parameters)
        is_class = python.kind == "class"
        if has_state and python.kind == "function":
            self._context.fault(
                "F304", f"`{symbol}` is a function, but task `{task.name.text}` has state", item.code.span, "",
                (), "make it a class: state set in `__init__`, one firing in `__call__`",
            )  # fmt: skip
        return Implementation(kind, language, file, path, symbol, item.span, is_class or python.kind == "other", passes)

    def code(self, code: s.Text, language: str) -> tuple[str, str, str, PythonSymbol | None] | None:
        """Resolve `"file.py:name"` to (file as written, its path, symbol, what is known of it)."""
        file, colon, symbol = code.value.rpartition(":")
        if not colon or not file or not symbol.isidentifier():
            example = {"python": "file.py:function", "c": "file.c:function", "cuda": "file.cu:kernel"}[language]
            self._context.fault(
                "F302", f"`{code.value}` names no code", code.span, "", (), f'write it as `"{example}"`'
            )
            return None
        place = _beside(code.span, file)
        if not place.is_file():
            siblings = [p.name for p in place.parent.glob("*" + place.suffix)] if place.parent.is_dir() else []
            help_text = did_you_mean(place.name, siblings) or "the path is relative to the .flow file"
            self._context.fault(
                "F301", f"`{file}` does not exist", code.span, f"looked for {_near(place)}", (), help_text
            )
            return None
        if language == "python":
            python = self._python_symbol(code, file, place, symbol)
            return None if python is None else (file, str(place), symbol, python)
        known = c_functions(place)
        if symbol not in known:
            self._missing(code, file, symbol, known)
        return file, str(place), symbol, None

    def _python_symbol(self, code: s.Text, file: str, place: Path, symbol: str) -> PythonSymbol | None:
        source = read_python(place)
        if source.error:
            line = f" in line {source.error_line}" if source.error_line else ""
            self._context.fault("F305", f"`{file}` is not valid Python: {source.error}{line}", code.span)
            return None
        if symbol not in source.symbols:
            self._missing(code, file, symbol, source.symbols)
            return None
        return source.symbols[symbol]

    def _missing(self, code: s.Text, file: str, symbol: str, known: Iterable[str]) -> None:
        names = [n for n in known if not n.startswith("_")]
        help_text = did_you_mean(symbol, names) or (f"it has {one_of(names)}" if names else "")
        self._context.fault("F302", f"`{file}` has no `{symbol}`", code.span, "", (), help_text)

    def _signature(
        self,
        item: s.ImplementationDecl,
        task: s.TaskDecl,
        python: PythonSymbol,
        symbol: str,
        inputs: tuple[Port, ...],
        parameters: tuple[str, ...],
    ) -> tuple[str, ...] | None:
        """Check that the code can be called as a firing; the parameters it accepts (None = all)."""
        if python.kind == "class":
            if not python.can_fire:
                help_text = f"a firing calls `{symbol}(...)(inputs)`: add `def __call__(self, ...)`"
                self._context.fault("F303", f"class `{symbol}` has no `__call__`", item.code.span, "", (), help_text)
                return None
            if python.fires is not None:
                self._call(item, f"{symbol}.__call__", python.fires, inputs, (), task)
            if python.makes is None:
                return None
            return self._call(item, f"{symbol}.__init__", python.makes, (), parameters, task)
        if python.fires is None:
            return None
        return self._call(item, symbol, python.fires, inputs, parameters, task)

    def _call(
        self,
        item: s.ImplementationDecl,
        name: str,
        target: Callable,
        inputs: tuple[Port, ...],
        parameters: tuple[str, ...],
        task: s.TaskDecl,
    ) -> tuple[str, ...] | None:
        n = len(inputs)
        shown = f"`{name}({', '.join(target.positional + tuple(k + '=' for k in target.keyword_only))})`"
        gives = one_of([p.name for p in inputs]).replace(" or ", " and ") or "no input"
        if len(target.positional) < n and not target.any_positional:
            self._context.fault(
                "F303", f"{shown} takes {len(target.positional)} inputs, `{task.name.text}` has {n}", item.code.span,
                f"defined in line {target.line} of its file", (), f"a firing gives it {gives}, in this order",
            )  # fmt: skip
            return None
        names = target.positional[n:] + target.keyword_only
        needed = [r for r in target.required[n:] + target.keyword_required if r not in parameters]
        if needed:
            self._context.fault(
                "F303", f"nobody gives {one_of(needed).replace(' or ', ' and ')} to {shown}", item.code.span,
                f"defined in line {target.line} of its file", (), f"a firing gives it {gives}; "
                + (f"parameters of the task are {one_of(parameters)}" if parameters else "the task has no parameters"),
            )  # fmt: skip
            return None
        return None if target.any_keyword else tuple(p for p in parameters if p in names)


class NetworkBuilder:
    """A network declaration and its ONNX file to a template."""

    def __init__(self, context: Context, evaluator: Evaluator, components: Components) -> None:
        self._context = context
        self._evaluate = evaluator
        self._components = components

    def build(self, declaration: s.NetworkDecl) -> Template | None:
        """None after a fault."""
        settings: dict[str, s.Setting] = {}
        ports: list[s.NetPort] = []
        for item in declaration.items:
            match item:
                case s.VariantDecl():
                    self._context.fault("F116", "network variants are not supported yet", item.span)
                    return None
                case s.Setting():
                    if item.key in settings:
                        note = Note("the first one", settings[item.key].span)
                        self._context.fault("F115", f"`{item.key}` is given twice", item.span, "", [note])
                    settings[item.key] = item
                case s.NetPort():
                    ports.append(item)
        if declaration.file is None:
            help_text = 'write `network Name from "file.onnx"`'
            self._context.fault(
                "F401", f"network `{declaration.name.text}` has no file", declaration.name.span, "", (), help_text
            )
            return None
        batch = self._batch(settings)
        precision = self._precision(settings)
        types = {id(p): self._evaluate.type(p.type, {}) for p in ports if p.type is not None}
        interface = self._interface(declaration, ports, types, batch)
        if interface is None:
            return None
        return self._assemble(declaration, ports, types, interface, batch or 1, precision, settings)

    def _batch(self, settings: dict[str, s.Setting]) -> int | None:
        setting = settings.get("batch")
        if setting is None or isinstance(setting.value, s.Word):
            return None
        return self._evaluate.integer(setting.value, {}, "the batch", 1)

    def _precision(self, settings: dict[str, s.Setting]) -> str:
        setting = settings.get("precision")
        if setting is None or not isinstance(setting.value, s.Word):
            return "fp32"
        word = setting.value
        if word.text not in PRECISIONS:
            help_text = did_you_mean(word.text, PRECISIONS) or f"use {one_of(PRECISIONS)}"
            self._context.fault("F105", f"`{word.text}` is no precision", word.span, "", (), help_text)
        return word.text

    def _interface(
        self, declaration: s.NetworkDecl, ports: list[s.NetPort], types: dict[int, TensorType | None], batch: int | None
    ) -> NetworkInterface | None:
        assert declaration.file is not None
        place = _beside(declaration.file.span, declaration.file.value)
        fixed = {
            p.tensors[0].value: kind.shape
            for p in ports
            if p.direction == "in" and p.wrap is None and len(p.tensors) == 1 and (kind := types.get(id(p))) is not None
        }
        try:
            interface = read_network(place, fixed, batch)
            bare = [
                p
                for p in ports
                if p.direction == "in" and p.wrap is None and not p.tensors and types.get(id(p)) is not None
            ]
            if bare:  # a port without `from` fixes the tensor it will be matched to
                chosen = self._match([p for p in ports if p.direction == "in"], interface.inputs)
                for port in bare:
                    if kind := types[id(port)]:
                        fixed.update({b.name: kind.shape for b in chosen.get(id(port), ())})
                interface = read_network(place, fixed, batch)
        except NetworkFault as fault:
            self._context.fault(fault.code, fault.message, declaration.file.span, "", (), fault.help)
            return None
        if batch is not None and self._wrong_batch(declaration, interface, batch, place):
            return None
        return interface

    def _wrong_batch(self, declaration: s.NetworkDecl, interface: NetworkInterface, batch: int, place: Path) -> bool:
        original = read_network(place, {}, None)
        for border in original.inputs:
            first = border.dims[0] if border.dims else "?"
            if isinstance(first, int) and (first != 1 or batch > 1):
                span = next(i.span for i in declaration.items if isinstance(i, s.Setting) and i.key == "batch")
                help_text = "export it with a dynamic first dimension, or leave `batch` out"
                self._context.fault(
                    "F409", f"`batch {batch}`, but the first dimension of input `{border.name}` is fixed to {first}",
                    span, "", (), help_text,
                )  # fmt: skip
                return True
        return False

    def _match(self, ports: list[s.NetPort], borders: tuple[Border, ...]) -> dict[int, tuple[Border, ...]]:
        """Which tensors each port carries: by `from`, by its own name, or the only one left."""
        by_name = {b.name: b for b in borders}
        chosen: dict[int, tuple[Border, ...]] = {}
        for port in ports:
            if port.tensors:
                found = []
                for text in port.tensors:
                    if text.value in by_name:
                        found.append(by_name[text.value])
                    else:
                        side = "input" if port.direction == "in" else "output"
                        guess = did_you_mean(text.value, by_name) or f"it has {one_of(by_name)}"
                        self._context.fault(
                            "F405", f"the network has no {side} `{text.value}`", text.span, "", (), guess
                        )
                chosen[id(port)] = tuple(found) if len(found) == len(port.tensors) else ()
            elif port.name.text in by_name:
                chosen[id(port)] = (by_name[port.name.text],)
        for port in ports:
            if id(port) in chosen:
                continue
            taken = {b.name for group in chosen.values() for b in group}
            left = [b for b in borders if b.name not in taken]
            if len(left) == 1:
                chosen[id(port)] = (left[0],)
            else:
                help_text = f'name it: `from "{left[0].name}"`' if left else ""
                names = one_of(b.name for b in left) or "none"
                self._context.fault(
                    "F405", f"which tensor is `{port.name.text}`? left are: {names}", port.span, "", (), help_text
                )
                chosen[id(port)] = ()
        return chosen

    def _assemble(
        self,
        declaration: s.NetworkDecl,
        ports: list[s.NetPort],
        types: dict[int, TensorType | None],
        interface: NetworkInterface,
        batch: int,
        precision: str,
        settings: dict[str, s.Setting],
    ) -> Template | None:
        assert declaration.file is not None
        builder = _NetworkTemplate(self, declaration, types, interface.inputs)
        for way, borders in (("in", interface.inputs), ("out", interface.outputs)):
            declared = [p for p in ports if p.direction == way]
            chosen = self._match(declared, borders)
            for port in declared:
                builder.add(port, chosen[id(port)])
            used = {b.name for group in chosen.values() for b in group}
            if way == "in" or not declared:
                for border in borders:
                    if border.name not in used:
                        builder.add_bare(border, "in" if way == "in" else "out")
        if not builder.good:
            return None
        calibrate = settings.get("calibrate")
        network = Network(
            declaration.name.text, declaration.file.value, str(_beside(declaration.file.span, declaration.file.value)),
            builder.tensors("in"), builder.tensors("out"), batch, precision,
            calibrate.value.value if calibrate and isinstance(calibrate.value, s.Text) else "",
            interface.external, interface.content_hash, interface.opset,
        )  # fmt: skip
        return builder.template(network)

    def wrapped(self, port: s.NetPort) -> Implementation | None:
        """The implementation of a port's `pre` or `post`."""
        assert port.wrap is not None
        found = self._components.code(port.wrap, "python")
        if found is None:
            return None
        file, path, symbol, python = found
        assert python is not None
        return Implementation("cpu", "python", file, path, symbol, port.span, python.kind != "function", ())

    def fixed(
        self, border: Border, declared: TensorType | None, span: Span, port: str, cause: tuple[Border, ...]
    ) -> TensorType | None:
        """The type of a tensor; a dimension that is still dynamic is filled from the declared type, or a fault.

        `cause`: the tensors whose dynamic dimensions explain those of this one.
        """
        if declared is not None and len(declared.shape) == len(border.dims) and declared.dtype == border.dtype:
            pairs = zip(border.dims, declared.shape, strict=True)
            if all(not isinstance(d, int) or d == n for d, n in pairs):
                return declared
        if declared is not None:
            help_text = f"give `{port}` the type `{border}`, or convert it with `pre` or `post`"
            self._context.fault(
                "F406", f"`{port}` is {declared}, tensor `{border.name}` is {border}", span, "", (), help_text
            )
            return None
        if not border.fixed and not all(b.fixed for b in cause):
            return None  # its inputs are to blame, and are named themselves
        if not border.fixed:
            where = [i for i, d in enumerate(border.dims) if not isinstance(d, int)]
            names = ", ".join(f"dimension {i} (`{border.dims[i]}`)" for i in where)
            sizes = ", ".join(str(d) if isinstance(d, int) else "1" for d in border.dims)
            way = "in" if port else "out"
            fix = f'`{way} {port or border.name}: {border.dtype}[{sizes}] from "{border.name}"`'
            help_text = f"fix it: `batch 1`, or {fix}" if where == [0] else f"fix it: {fix}"
            self._context.fault(
                "F403", f"tensor `{border.name}` is {border}: {names} is not fixed", span, "", (), help_text
            )
            return None
        return TensorType(border.dtype, border.shape)

    def fault(self, code: str, message: str, span: Span, help: str = "") -> None:
        """Report through the shared context."""
        self._context.fault(code, message, span, "", (), help)


class _NetworkTemplate:
    """Collects the ports of one network and the tasks around it."""

    def __init__(
        self,
        owner: NetworkBuilder,
        declaration: s.NetworkDecl,
        types: dict[int, TensorType | None],
        inputs: tuple[Border, ...],
    ) -> None:
        self._owner = owner
        self._inputs = inputs
        self._declaration = declaration
        self._types = types
        self._core: dict[str, dict[str, tuple[Port, Tensor]]] = {"in": {}, "out": {}}
        self._around: list[Task] = []
        self._links: list[Link] = []
        self._seen: dict[str, dict[str, tuple[str, Port]]] = {"in": {}, "out": {}}
        self.good = True

    def add(self, port: s.NetPort, borders: tuple[Border, ...]) -> None:
        """A port that the text declares."""
        if not borders:
            self.good = False
            return
        name, way = port.name.text, port.direction
        if name in self._seen["in"] or name in self._seen["out"]:
            self._owner.fault("F102", f"two ports are called `{name}`", port.name.span)
            self.good = False
            return
        declared = self._types.get(id(port))
        if port.wrap is None:
            if len(borders) > 1:
                help_text = (
                    f'one function makes one port of them: `{"pre" if way == "in" else "post"} "file.py:function"`'
                )
                self._owner.fault("F405", f"`{name}` carries {len(borders)} tensors", port.span, help_text)
                self.good = False
                return
            kind = self._owner.fixed(borders[0], declared, port.span, name, self._cause(way))
            self._core_port(name, way, borders[0], kind, port.span)
            self._seen[way][name] = ("", self._core[way][name][0]) if kind else ("", _placeholder(name, way, port.span))
            return
        self._wrap(port, borders, declared)

    def add_bare(self, border: Border, way: s.Direction) -> None:
        """A tensor that the text does not mention: a port of its own name."""
        span = self._declaration.file.span if self._declaration.file else self._declaration.span
        kind = self._owner.fixed(border, None, span, "", self._cause(way))
        self._core_port(border.name, way, border, kind, span)
        if kind is not None:
            self._seen[way][border.name] = ("", self._core[way][border.name][0])

    def _cause(self, way: s.Direction) -> tuple[Border, ...]:
        return self._inputs if way == "out" else ()

    def _core_port(self, name: str, way: s.Direction, border: Border, kind: TensorType | None, span: Span) -> None:
        if kind is None:
            self.good = False
            return
        self._core[way][name] = (Port(name, way, kind, (1,), False, span), Tensor(border.name, kind))

    def _wrap(self, port: s.NetPort, borders: tuple[Border, ...], declared: TensorType | None) -> None:
        assert port.wrap_kind is not None
        way, word = port.direction, port.wrap_kind.text
        if word != ("pre" if way == "in" else "post"):
            help_text = "`pre` stands before an input, `post` after an output"
            self._owner.fault("F105", f"`{word}` does not fit an `{way}` port", port.wrap_kind.span, help_text)
            self.good = False
            return
        if port.type is None:
            help_text = (
                f"write `{way} {port.name.text}: TYPE ... {word} ...`: the function decides what the port carries"
            )
            self._owner.fault("F602", f"`{port.name.text}` needs a type", port.span, help_text)
        implementation = self._owner.wrapped(port)
        inner = []
        for border in borders:
            kind = self._owner.fixed(border, None, port.span, "", self._cause(way))
            self._core_port(border.name, way, border, kind, port.span)
            if kind is not None:
                inner.append(Port(border.name, "out" if way == "in" else "in", kind, (1,), False, port.span))
        if implementation is None or declared is None or len(inner) != len(borders):
            self.good = False
            return
        outer = Port(port.name.text, way, declared, (1,), False, port.span)
        several = sum(
            p.wrap is not None and p.direction == way for p in self._declaration.items if isinstance(p, s.NetPort)
        )
        name = word if several == 1 else f"{word}_{port.name.text}"
        inputs, outputs = ((outer,), tuple(inner)) if way == "in" else (tuple(inner), (outer,))
        task = Task(
            name, f"{self._declaration.name.text}.{word}", inputs, outputs, (), (implementation,), (),
            not implementation.is_class, (), None, "", port.span,
        )  # fmt: skip
        self._around.append(task)
        for p in inner:
            self._links.append(Link(name, p.name, "", p.name) if way == "in" else Link("", p.name, name, p.name))
        self._seen[way][port.name.text] = (name, outer)

    def tensors(self, way: s.Direction) -> tuple[Tensor, ...]:
        """The tensors of that side, in port order."""
        return tuple(tensor for _, tensor in self._core[way].values())

    def template(self, network: Network) -> Template:
        """The finished template."""
        declaration = self._declaration
        core = Task(
            "", declaration.name.text, tuple(p for p, _ in self._core["in"].values()),
            tuple(p for p, _ in self._core["out"].values()), (), (), (), True, (), network, declaration.doc,
            declaration.name.span,
        )  # fmt: skip
        before = [t for t in self._around if t.definition.endswith(".pre")]
        after = [t for t in self._around if t.definition.endswith(".post")]
        return Template((*before, core, *after), tuple(self._links), self._seen["in"], self._seen["out"])


def _placeholder(name: str, way: s.Direction, span: Span) -> Port:
    return Port(name, way, None, (1,), False, span)


def _beside(span: Span, path: str) -> Path:
    """Paths in a .flow text are relative to it."""
    return Path(os.path.normpath(Path(span.file).parent / path))


def _near(place: Path) -> str:
    return f"`{place}`"
