"""Network declarations, with their ONNX files, to templates: ports, tensors, and the tasks of `pre`
and `post`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path

from ..model.application import (
    MOST_BATCH,
    FilePath,
    Implementation,
    Network,
    OnError,
    Port,
    Restart,
    Task,
    Tensor,
)
from ..model.diagnostic import did_you_mean, one_of
from ..model.span import Span
from ..model.types import DTYPES, MOST_ALONG, OPEN, TensorType
from ..networks.onnx.custom import why_no_library
from ..networks.onnx.interface import (
    ANY_RANK,
    Border,
    NetworkError,
    NetworkInterface,
    not_carried,
    read_network,
)
from ..networks.onnx.prepared import Wishes, prepared
from . import syntax as s
from .code import PythonSymbol
from .context import Context
from .evaluate import Evaluator, shown
from .network_sizes import sized
from .policies import policy_of, restart_of
from .task_code import LocatedCode
from .template import Template, TemplateChannel, beside

PRECISIONS = ("fp32", "fp16", "bf16", "int8")
#: The word for whichever precision is near enough, and those of which one can say how near.
ANY = "any"
JUDGED = (ANY, "bf16", "int8")
#: Operators of a network that a message names.
MOST_NAMED = 4
#: The word for code in front of an input, and behind an output.
_WRAP = {"in": "pre", "out": "post"}
#: Finds the Python code that `"file.py:name"` denotes; None after a fault.
FindCode = Callable[[s.Text], tuple[LocatedCode, PythonSymbol] | None]


@dataclass(frozen=True, slots=True)
class _Clauses:
    """What a network declares. `types` has those of its ports that are written; None after a
    fault. `sizes` are those that stand at tensors, `constants` the inputs that are no ports.
    """

    declaration: s.NetworkDecl
    file: s.Text
    ports: tuple[s.NetPort, ...]
    constants: tuple[s.NetPort, ...]
    types: dict[int, TensorType | None]
    sizes: dict[str, tuple[int, ...] | None]
    settings: dict[str, s.SettingDecl]
    batch: int | None
    precision: str
    within_db: float | None
    library: str
    on_error: OnError
    restart: Restart

    @property
    def place(self) -> Path:
        """Its ONNX file."""
        return beside(self.file.span, self.file.value)

    @property
    def readable(self) -> bool:
        """False if clauses that fix its shapes have a fault."""
        batch_fault = "batch" in self.settings and self.batch is None
        faults = None in self.types.values() or None in self.sizes.values()
        return not batch_fault and not faults

    def side(self, direction: s.Direction) -> list[s.NetPort]:
        """Its inputs, or its outputs."""
        return [port for port in self.ports if port.direction == direction]

    def type_of(self, port: s.NetPort) -> TensorType | None:
        """None without a type, or after a fault."""
        return self.types.get(id(port))

    def typed_inputs(self) -> list[tuple[s.NetPort, TensorType]]:
        """Inputs that fix the shape of the tensor they carry."""
        typed = []
        for port in self.side("in"):
            type_ = self.type_of(port)
            if type_ is not None and port.wrap is None:
                typed.append((port, type_))
        return typed

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of tensors that the text names and fixes."""
        shapes = {}
        for port, type_ in self.typed_inputs():
            if len(port.tensors) == 1:
                shapes[port.tensors[0].value] = type_.shape
        for port in self.constants:
            declared = self.type_of(port)
            if declared is not None:
                shapes[constant_of(port)] = declared.shape
        return {**shapes, **{t: sizes for t, sizes in self.sizes.items() if sizes is not None}}

    @property
    def named_outputs(self) -> frozenset[str]:
        """The outputs that ports name."""
        named: set[str] = set()
        for port in self.side("out"):
            named.update(t.value for t in port.tensors)
            named.add(port.name.text)
        return frozenset(named)


def constant_of(port: s.NetPort) -> str:
    """The tensor that `in NAME = VALUE` sets."""
    return port.tensors[0].value if port.tensors else port.name.text


class NetworkBuilder:
    """A network declaration and its ONNX file to a template."""

    def __init__(self, context: Context, evaluator: Evaluator, find_code: FindCode) -> None:
        self._context = context
        self._evaluate = evaluator
        self._find_code = find_code

    def build(self, declaration: s.NetworkDecl) -> Template | None:
        """None after a fault."""
        settings = self._settings(declaration)
        written = [item for item in declaration.items if isinstance(item, s.NetPort)]
        ports = tuple(port for port in written if port.value is None)
        constants = tuple(port for port in written if port.value is not None)
        if declaration.file is None:
            message = f"network `{declaration.name.text}` has no file"
            help_text = 'write `network Name from "file.onnx"`'
            self._context.fault("F401", message, declaration.name.span, help=help_text)
            return None
        batch = self._batch(settings)
        precision = self._precision(settings)
        types = {id(p): self._evaluate.type(p.type, {}) for p in written if p.type is not None}
        sizes = self._sizes(written)
        clauses = _Clauses(
            declaration,
            declaration.file,
            ports,
            constants,
            types,
            sizes,
            settings,
            batch,
            precision,
            self._within(settings),
            self._library(settings),
            *self._on_error(declaration),
        )
        place = self._place(clauses)
        if place is None or not clauses.readable:
            return None
        interface = self._interface(clauses, place)
        if interface is None:
            return None
        return self._assemble(clauses, place, interface)

    def _sizes(self, ports: list[s.NetPort]) -> dict[str, tuple[int, ...] | None]:
        """The sizes that stand at tensors; None after a fault."""
        found: dict[str, tuple[int, ...] | None] = {}
        for port in ports:
            for tensor, given in zip(port.tensors, port.sizes, strict=True):
                if given is None:
                    continue
                sizes = [self._evaluate.integer(n, {}, "a dimension", 1, MOST_ALONG) for n in given]
                whole = tuple(n for n in sizes if n is not None)
                found[tensor.value] = whole if len(whole) == len(sizes) else None
        return found

    def _settings(self, declaration: s.NetworkDecl) -> dict[str, s.SettingDecl]:
        """Its settings by their keywords, each once."""
        settings: dict[str, s.SettingDecl] = {}
        for item in declaration.items:
            if isinstance(item, s.SettingDecl):
                if item.key in settings:
                    message = f"`{item.key}` is given twice"
                    first = settings[item.key].span
                    self._context.repeated("F115", message, item.span, first)
                settings[item.key] = item
        return settings

    def _on_error(self, declaration: s.NetworkDecl) -> tuple[OnError, Restart]:
        """What it does when a firing raises, in its network, `pre` or `post`."""
        policy: OnError = "stop"
        restart = Restart()
        for item in declaration.items:
            if isinstance(item, s.OnErrorDecl):
                policy = policy_of(item, self._context)
                restart = restart_of(item, self._context, self._evaluate)
        return policy, restart

    def _batch(self, settings: dict[str, s.SettingDecl]) -> int | None:
        setting = settings.get("batch")
        if setting is None or isinstance(setting.value, s.Word):
            return None
        return self._evaluate.integer(setting.value, {}, "the batch", 1, MOST_BATCH)

    def _precision(self, settings: dict[str, s.SettingDecl]) -> str:
        setting = settings.get("precision")
        if setting is None or not isinstance(setting.value, s.Word):
            return "fp32"
        word = setting.value
        if word.text == ANY:
            if setting.within is None:
                help_text = "say how near it has to be: `precision any within 25 dB`"
                self._context.fault("F105", "`any` has no limit", word.span, help=help_text)
            return "fp32"
        if word.text not in PRECISIONS:
            help_text = did_you_mean(word.text, PRECISIONS) or f"use {one_of(PRECISIONS)}"
            self._context.fault("F105", f"`{word.text}` is no precision", word.span, help=help_text)
        return word.text

    def _within(self, settings: dict[str, s.SettingDecl]) -> float | None:
        """The least signal-to-noise ratio, in dB; None without one, and after a fault."""
        setting = settings.get("precision")
        if setting is None or setting.within is None or not isinstance(setting.value, s.Word):
            return None
        if setting.value.text not in JUDGED:
            message = f"`within` is not for `{setting.value.text}`"
            help_text = f"it is for {one_of(JUDGED)}"
            self._context.fault("F105", message, setting.within.unit.span, help=help_text)
            return None
        amount, unit = setting.within.amount, setting.within.unit
        least = self._evaluate.quantity(amount, unit, "ratio", "a signal-to-noise ratio", {})
        return None if least is None else float(least)

    def _library(self, settings: dict[str, s.SettingDecl]) -> str:
        """The path of the library of operators; empty without one, and after a fault."""
        setting = settings.get("library")
        if setting is None or not isinstance(setting.value, s.Text):
            return ""
        path = beside(setting.value.span, setting.value.value)
        fault = why_no_library(path)
        if fault:
            help_text = "give the library of the operators, as built for ONNX Runtime"
            message = f"`{setting.value.value}` {fault}"
            self._context.fault("F413", message, setting.value.span, help=help_text)
            return ""
        return str(path)

    # -- the file ----------------------------------------------------------------------------------
    def _place(self, clauses: _Clauses) -> Path | None:
        """The model that the text means: its file, or one that was made of it.

        None after a fault.
        """
        batch = 1 if clauses.batch else None
        try:
            look = read_network(clauses.place, clauses.shapes, batch)
            if look.foreign and "library" not in clauses.settings:
                self._report_foreign(clauses, look.foreign)
                return None
            shapes = {**self._matched_shapes(clauses, look), **clauses.shapes}
            look = read_network(clauses.place, shapes, batch)
            constants = self._constants(clauses, look)
            if constants is None or not clauses.readable:
                return None
            grouped = clauses.batch is not None and clauses.batch > 1
            file = read_network(clauses.place, {}, None)
            fixed = _left_open(
                _fixed(look, file if grouped else look), self._bounded(clauses, look)
            )
            wishes = Wishes(fixed, constants, clauses.named_outputs)
            root = beside(clauses.file.span, "")
            place = prepared(clauses.place, look, wishes, root)
            made = read_network(place, shapes, batch)
            if grouped or not _is_open(made):
                return place
            wishes = replace(wishes, sizes=True)
            # What onnx cannot infer ONNX Runtime may know.
            asked = prepared(clauses.place, look, wishes, root)
            known = read_network(asked, shapes, batch)
            return place if _is_open(known) else asked
        except NetworkError as fault:
            span = clauses.file.span
            self._context.fault(fault.code, fault.message, span, help=fault.help)
            return None

    def _report_foreign(self, clauses: _Clauses, operators: tuple[str, ...]) -> None:
        """Report operators that ONNX Runtime does not have."""
        message = f"ONNX Runtime has no {one_of(operators[:MOST_NAMED])}"
        if len(operators) > MOST_NAMED:
            message += f" (and {len(operators) - MOST_NAMED} more)"
        help_text = 'name the library that has: `library "ops.so"` in the network'
        self._context.fault("F413", message, clauses.file.span, help=help_text)

    def _interface(self, clauses: _Clauses, place: Path) -> NetworkInterface | None:
        """The tensors of a model, with the shapes that the text fixes; None after a fault."""
        batch = 1 if clauses.batch else None
        try:
            interface = read_network(place, clauses.shapes, batch)
            matched = self._matched_shapes(clauses, interface)
            if matched:
                interface = read_network(place, {**matched, **clauses.shapes}, batch)
        except NetworkError as fault:
            span = clauses.file.span
            self._context.fault(fault.code, fault.message, span, help=fault.help)
            return None
        if clauses.batch is not None and self._wrong_batch(clauses, place, clauses.batch):
            return None
        one_piece = _why_in_one_piece(interface)
        if one_piece and clauses.precision in PRECISIONS[1:]:
            message = f"`{clauses.precision}`, but the network has {one_piece}"
            help_text = "leave `precision` out: it stays in one piece, as it was exported"
            span = clauses.settings["precision"].span
            self._context.fault("F404", message, span, help=help_text)
            return None
        return interface

    def _constants(
        self, clauses: _Clauses, look: NetworkInterface
    ) -> dict[str, tuple[str, ...]] | None:
        """The numbers of inputs that the text makes constants, in words; None after a fault."""
        borders = {b.name: b for b in look.inputs}
        found: dict[str, tuple[str, ...]] = {}
        good = True
        for port in clauses.constants:
            numbers = self._constant(clauses, port, borders)
            if numbers is None:
                good = False
                continue
            if constant_of(port) in found:
                message = f"`{constant_of(port)}` is given twice"
                self._context.fault("F102", message, port.span)
                good = False
            found[constant_of(port)] = numbers
        return found if good else None

    def _constant(
        self, clauses: _Clauses, port: s.NetPort, borders: dict[str, Border]
    ) -> tuple[str, ...] | None:
        """The numbers of one, in words; None after a fault."""
        if port.direction == "out" or port.wrap is not None or len(port.tensors) > 1:
            message = f"`{port.name.text}` cannot be a constant"
            help_text = "one input takes a value: `in NAME = VALUE`, without `pre`"
            self._context.fault("F412", message, port.span, help=help_text)
            return None
        border = borders.get(constant_of(port))
        if border is None:
            message = f"the network has no input `{constant_of(port)}`"
            help_text = did_you_mean(constant_of(port), borders) or f"it has {one_of(borders)}"
            self._context.fault("F405", message, port.span, help=help_text)
            return None
        name, declared = port.name.text, clauses.type_of(port)
        type_ = self.fixed(border, declared, port.span, name, (), at_tensor=True)
        return None if type_ is None else self._numbers(port, type_)

    def _numbers(self, port: s.NetPort, type_: TensorType) -> tuple[str, ...] | None:
        """The numbers of a constant of that type: one, or all of them; None after a fault."""
        values = []
        for expression in port.value or ():
            value = self._evaluate.value(expression, {})
            if value is None:
                return None
            values.append(value)
        count = prod(type_.shape)
        if len(values) not in (1, count):
            message = f"{len(values)} values, but `{port.name.text}` is {type_}: {count}"
            help_text = "give one value, which fills it, or all of them"
            self._context.fault("F412", message, port.span, help=help_text)
            return None
        for value in values:
            if not _is_one(value, type_.dtype):
                message = f"{shown(value)} is no {type_.dtype}, and `{port.name.text}` is {type_}"
                self._context.fault("F412", message, port.span, help="give a value of that type")
                return None
        return tuple(str(float(v)) if isinstance(v, Fraction) else str(v) for v in values)

    def _matched_shapes(
        self, clauses: _Clauses, interface: NetworkInterface
    ) -> dict[str, tuple[int, ...]]:
        """The shapes of tensors by input ports without `from`, which fix what they will carry."""
        bare = [(port, type_) for port, type_ in clauses.typed_inputs() if not port.tensors]
        if not bare:
            return {}
        constants = set(map(constant_of, clauses.constants))
        inputs = tuple(b for b in interface.inputs if b.name not in constants)
        chosen = self._match(clauses.side("in"), inputs)
        shapes = {}
        for port, type_ in bare:
            for border in chosen[id(port)]:
                shapes[border.name] = type_.shape
        return shapes

    def _bounded(
        self, clauses: _Clauses, interface: NetworkInterface
    ) -> dict[str, tuple[int, ...]]:
        """The axes along which tensors of inputs vary."""
        constants = set(map(constant_of, clauses.constants))
        inputs = tuple(b for b in interface.inputs if b.name not in constants)
        varying = [(port, type_) for port, type_ in clauses.typed_inputs() if type_.varies]
        if not varying:
            return {}
        chosen = self._match(clauses.side("in"), inputs)
        axes = {}
        for port, type_ in varying:
            for border in chosen[id(port)]:
                axes[border.name] = type_.bounded
        return axes

    def _wrong_batch(self, clauses: _Clauses, place: Path, batch: int) -> bool:
        """True after a fault: the network cannot be grouped like that."""
        reason = _against_batch(place, batch)
        if reason is None:
            return False
        message, help_text = reason
        self._context.fault("F409", message, clauses.settings["batch"].span, help=help_text)
        return True

    # -- ports and tensors -------------------------------------------------------------------------
    def _match(
        self, ports: list[s.NetPort], borders: tuple[Border, ...]
    ) -> dict[int, tuple[Border, ...]]:
        """The tensors of each port: by `from`, by its own name, or the only one left."""
        by_name = {b.name: b for b in borders}
        chosen: dict[int, tuple[Border, ...]] = {}
        for port in ports:
            if port.tensors:
                chosen[id(port)] = self._named_tensors(port, by_name)
            elif port.name.text in by_name:
                chosen[id(port)] = (by_name[port.name.text],)
        for port in ports:
            if id(port) not in chosen:
                chosen[id(port)] = self._only_left(port, _unused(borders, chosen))
        return chosen

    def _named_tensors(self, port: s.NetPort, by_name: dict[str, Border]) -> tuple[Border, ...]:
        """The tensors that its `from` names; none after a fault."""
        borders = []
        for text in port.tensors:
            if text.value in by_name:
                borders.append(by_name[text.value])
                continue
            side = "input" if port.direction == "in" else "output"
            message = f"the network has no {side} `{text.value}`"
            help_text = did_you_mean(text.value, by_name) or f"it has {one_of(by_name)}"
            self._context.fault("F405", message, text.span, help=help_text)
        return tuple(borders) if len(borders) == len(port.tensors) else ()

    def _only_left(self, port: s.NetPort, left: list[Border]) -> tuple[Border, ...]:
        """The one tensor of that side that no other port has; none after a fault."""
        if len(left) == 1:
            return (left[0],)
        names = one_of(b.name for b in left) or "none"
        message = f"`{port.name.text}` is the name of no tensor; left are: {names}"
        help_text = f'name it: `from "{left[0].name}"`' if left else ""
        self._context.fault("F405", message, port.span, help=help_text)
        return ()

    def _assemble(
        self, clauses: _Clauses, place: Path, interface: NetworkInterface
    ) -> Template | None:
        template = _NetworkTemplate(self, clauses, interface.inputs)
        for border in self._add_ports(template, clauses.side("in"), interface.inputs):
            template.add_bare(border, "in")
        outputs = clauses.side("out")
        unread = self._add_ports(template, outputs, interface.outputs)
        if not outputs:  # all of them are ports, under their own names
            for border in unread:
                template.add_bare(border, "out")
            unread = []
        if not template.good:
            return None
        batch = clauses.batch or 1
        ragged = next((t for t in template.tensors("out") if t.type.open), None)
        if ragged is not None and batch > 1:
            message = (
                f"`batch {batch}`, but the size of output `{ragged.name}` depends on data:"
                f" {ragged.type}"
            )
            help_text = "leave `batch` out: its parts cannot be assigned to inputs"
            self._context.fault("F409", message, clauses.settings["batch"].span, help=help_text)
            return None
        calibration = None
        pattern = self._calibrate(clauses.settings, clauses.precision)
        if pattern is not None:
            calibration = FilePath(pattern.value, str(beside(pattern.span, "")), pattern.span)
        network = Network(
            clauses.declaration.name.text,
            clauses.file.value,
            str(place),
            template.tensors("in"),
            template.tensors("out"),
            batch,
            clauses.precision,
            calibration,
            interface.external,
            interface.content_hash,
            interface.opset,
            unread=tuple(border.name for border in unread if border.carried),
            one_piece=_why_in_one_piece(interface),
            library=clauses.library,
            within_db=clauses.within_db,
            any_precision=_is_any(clauses.settings),
        )
        made = template.template(network)
        return sized(made, clauses.declaration, self._context) if made.varies else made

    def _add_ports(
        self, template: _NetworkTemplate, ports: list[s.NetPort], borders: tuple[Border, ...]
    ) -> list[Border]:
        """Add the declared ports of one side; its tensors that none of them carries."""
        chosen = self._match(ports, borders)
        for port in ports:
            template.add(port, chosen[id(port)])
        return _unused(borders, chosen)

    def _calibrate(self, settings: dict[str, s.SettingDecl], precision: str) -> s.Text | None:
        """The pattern of calibration data, which int8 needs."""
        setting = settings.get("calibrate")
        if setting is not None and isinstance(setting.value, s.Text):
            return setting.value
        if precision == "int8":
            message = "`int8` needs data to find the ranges of the tensors"
            help_text = (
                'add `calibrate "frames/*.npy"`: files with some typical inputs, relative to this'
                " text"
            )
            self._context.fault("F410", message, settings["precision"].span, help=help_text)
        return None

    def wrapped(self, port: s.NetPort, code: s.Text) -> Implementation | None:
        """The implementation of a port's `pre` or `post`."""
        located = self._find_code(code)
        if located is None:
            return None
        named, python = located
        implementation = named.implementation("cpu", "python", port.span)
        return replace(implementation, is_class=python.kind != "function", passes=())

    def fixed(
        self,
        border: Border,
        declared: TensorType | None,
        span: Span,
        port: str,
        cause: tuple[Border, ...],
        *,
        at_tensor: bool = False,
    ) -> TensorType | None:
        """The type of a tensor; a dimension that is still dynamic is filled from the declared type,
        or a fault.

        `cause`: the tensors whose dynamic dimensions explain those of this one. `at_tensor`: its
        sizes can stand there alone, since the port has another type, or none.
        """
        if not border.carried:
            message, help_text = not_carried(border)
            if cause:
                help_text += ", or leave it out: outputs that no port names are cut off"
            self._context.fault("F408", message, span, help=help_text)
            return None
        if declared is not None:
            if _fits(declared, border):
                return declared
            message = f"`{port}` is {declared}, tensor `{border.name}` is {border}"
            help_text = f"give `{port}` the type `{border}`, or convert it with `pre` or `post`"
            self._context.fault("F406", message, span, help=help_text)
            return None
        if border.fixed:
            return TensorType(border.dtype, border.shape)
        if all(b.fixed for b in cause):  # else its inputs are reported themselves
            self._report_dynamic(border, span, port, "out" if cause else "in", at_tensor)
        return None

    def before_post(
        self, border: Border, span: Span, inputs: tuple[Border, ...]
    ) -> TensorType | None:
        """The type of a tensor that a `post` reads: it may depend on data, once all inputs are
        fixed.
        """
        known = border.carried and border.dims != (ANY_RANK,)
        if border.fixed or not known or not all(b.fixed for b in inputs):
            return self.fixed(border, None, span, "", inputs, at_tensor=True)
        return TensorType(
            border.dtype, tuple(d if isinstance(d, int) else OPEN for d in border.dims)
        )

    def _report_dynamic(
        self, border: Border, span: Span, port: str, direction: s.Direction, at_tensor: bool
    ) -> None:
        """Report dimensions that neither the file nor the text fixes."""
        axes = [axis for axis, size in enumerate(border.dims) if not isinstance(size, int)]
        names = " and ".join(f"dimension {axis} (`{border.dims[axis]}`)" for axis in axes)
        verb = "is" if len(axes) == 1 else "are"
        message = f"tensor `{border.name}` is {border}: {names} {verb} not fixed"
        start = f"{direction} {port or 'NAME'}: {border.dtype}"
        end = f'from "{border.name}"'
        if at_tensor:
            sizes = _sizes(border, first="1" if direction == "in" else "SIZE0")
            help_text = f"give its sizes at the tensor: `{end} [{sizes}]`"
        elif direction == "out":
            declared = f"{start}[{_sizes(border)}] {end}"
            help_text = (
                f"if it depends on data, write a `post` that pads or cuts: `{declared} post"
                ' "file.py:function"`; if it is always the same, leave `post` out there'
            )
        else:
            declared = f"{start}[{_sizes(border, first='1')}] {end}"
            help_text = f"fix it with its sizes: `{declared}`"
            if axes == [0]:
                help_text = f"fix it: `batch 1`, or `{declared}`"
        self._context.fault("F403", message, span, help=help_text)

    def fault(self, code: str, message: str, span: Span, help: str = "") -> None:
        """Report through the shared context."""
        self._context.fault(code, message, span, help=help)


def _is_any(settings: dict[str, s.SettingDecl]) -> bool:
    """May a mapping choose the precision?"""
    value = settings["precision"].value if "precision" in settings else None
    return isinstance(value, s.Word) and value.text == ANY


def _why_in_one_piece(interface: NetworkInterface) -> str:
    """Why a network stays whole; empty if it need not."""
    own = f"operators of its own ({', '.join(interface.foreign[:MOST_NAMED])})"
    return interface.one_piece or (own if interface.foreign else "")


def _is_open(interface: NetworkInterface) -> bool:
    """Has an output, which channels can carry, no fixed size, where all inputs have one?"""
    fixed = all(b.fixed for b in interface.inputs)
    return fixed and any(b.carried and not b.fixed for b in interface.outputs)


def _fixed(look: NetworkInterface, file: NetworkInterface) -> dict[str, tuple[int, ...]]:
    """The sizes of inputs as far as the text fixes them (-1: open). First dimensions stay open
    where they are in the file, so that firings can be grouped.
    """
    shapes = {}
    for border, own in zip(look.inputs, file.inputs, strict=True):
        sizes = [d if isinstance(d, int) else -1 for d in border.dims]
        if sizes and not isinstance(own.dims[0], int):
            sizes[0] = -1
        shapes[border.name] = tuple(sizes)
    return shapes


def _left_open(
    shapes: dict[str, tuple[int, ...]], axes: dict[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Shapes of inputs with these axes left open (-1)."""
    left = {}
    for name, shape in shapes.items():
        varying = axes.get(name, ())
        left[name] = tuple(-1 if axis in varying else n for axis, n in enumerate(shape))
    return left


def _is_one(value: object, dtype: str) -> bool:
    """Is a value of a text one of that type?"""
    if dtype == "bool" or isinstance(value, bool):
        return dtype == "bool" and isinstance(value, bool)
    if dtype.startswith("float"):
        return isinstance(value, int | Fraction)
    bits = 8 * DTYPES[dtype][1]
    low, high = (0, 1 << bits) if dtype.startswith("u") else (-1 << bits - 1, 1 << bits - 1)
    return dtype[0] in "iu" and isinstance(value, int) and low <= value < high


def _unused(borders: tuple[Border, ...], chosen: dict[int, tuple[Border, ...]]) -> list[Border]:
    """The tensors that no port has."""
    used: set[str] = set()
    for group in chosen.values():
        used.update(border.name for border in group)
    return [border for border in borders if border.name not in used]


def _first(border: Border) -> int | None:
    """Its first dimension; None if that is dynamic, or if it has none."""
    size = border.dims[0] if border.dims else None
    return size if isinstance(size, int) else None


def _against_batch(place: Path, batch: int) -> tuple[str, str] | None:
    """Why a network cannot group its firings, and what to do; None if it can."""
    for border in read_network(place, {}, None).inputs:
        first = _first(border)
        if first is not None and (first != 1 or batch > 1):
            return (
                f"`batch {batch}`, but the first dimension of input `{border.name}` is fixed to"
                f" {first}",
                "export it with a dynamic first dimension, or leave `batch` out",
            )
    try:
        grouped = read_network(place, {}, batch)
    except NetworkError as fault:  # it can be read, but not with this batch
        return f"`batch {batch}`: {fault}", "leave `batch` out"
    for border in grouped.outputs:
        if batch > 1 and _first(border) not in (None, batch):
            return (
                f"`batch {batch}`, but output `{border.name}` is {border} for {batch} inputs",
                "leave `batch` out: this network mixes its inputs",
            )
    return None


def _fits(declared: TensorType, border: Border) -> bool:
    """True if a type is that of a tensor, with sizes for its dynamic dimensions."""
    if declared.dtype == border.dtype and border.dims == (ANY_RANK,):
        return True
    if declared.dtype != border.dtype or len(declared.shape) != len(border.dims):
        return False
    sizes = zip(border.dims, declared.shape, strict=True)
    return all(wanted == size for wanted, size in sizes if isinstance(wanted, int))


def _sizes(border: Border, first: str = "SIZE0") -> str:
    """Its dimensions as in a text, with words to be replaced for those that are dynamic."""
    sizes = []
    for axis, size in enumerate(border.dims):
        if isinstance(size, int):
            sizes.append(str(size))
        else:
            sizes.append(f"SIZE{axis}" if axis else first)
    return ", ".join(sizes)


class _NetworkTemplate:
    """Collects the ports of one network and the tasks around it."""

    def __init__(
        self, owner: NetworkBuilder, clauses: _Clauses, inputs: tuple[Border, ...]
    ) -> None:
        self._owner = owner
        self._inputs = inputs
        self._clauses = clauses
        self._declaration = clauses.declaration
        self._core: dict[str, dict[str, tuple[Port, Tensor]]] = {"in": {}, "out": {}}
        self._around: list[Task] = []
        self._links: list[TemplateChannel] = []
        self._seen: dict[str, dict[str, tuple[str, Port]]] = {"in": {}, "out": {}}
        self._names: set[str] = set()
        self.good = True

    def add(self, port: s.NetPort, borders: tuple[Border, ...]) -> None:
        """A port that the text declares."""
        if not borders:
            self.good = False
            return
        name, direction = port.name.text, port.direction
        if name in self._names:
            self._owner.fault("F102", f"two ports are called `{name}`", port.name.span)
            self.good = False
            return
        self._names.add(name)
        if port.wrap is not None and port.wrap_kind is not None:
            self._add_wrapped(port, port.wrap_kind, port.wrap, borders)
        elif len(borders) == 1:
            declared = self._clauses.type_of(port) or self._sized(borders[0])
            largest = (
                self._largest(borders[0]) if declared is not None and direction == "out" else None
            )
            if largest is None:
                cause = self._cause(direction)
                type_ = self._owner.fixed(borders[0], declared, port.span, name, cause)
            else:
                type_ = declared
            self._core_port(name, direction, borders[0], type_, port.span, largest)
            if type_ is not None:
                self._seen[direction][name] = ("", self._core[direction][name][0])
        else:
            message = f"`{name}` carries {len(borders)} tensors"
            help_text = (
                f'one function makes one port of them: `{_WRAP[direction]} "file.py:function"`'
            )
            self._owner.fault("F405", message, port.span, help_text)
            self.good = False

    def add_bare(self, border: Border, direction: s.Direction) -> None:
        """A tensor that the text does not mention: a port of its own name."""
        span = self._clauses.file.span
        type_ = self._owner.fixed(border, None, span, "", self._cause(direction))
        self._core_port(border.name, direction, border, type_, span)
        if type_ is not None:
            self._seen[direction][border.name] = ("", self._core[direction][border.name][0])

    def _sized(self, border: Border) -> TensorType | None:
        """The type of a tensor whose sizes stand in the text."""
        sizes = self._clauses.sizes.get(border.name)
        return None if sizes is None else TensorType(border.dtype, sizes)

    def _largest(self, border: Border) -> TensorType | None:
        """The type of an output for the largest inputs, where inputs have sizes that vary: `sized`
        compares what the text declares, once it is known what varies. Else None."""
        varies = any(type_.varies for _, type_ in self._clauses.typed_inputs())
        if not varies or not border.fixed or not border.carried:
            return None
        return TensorType(border.dtype, border.shape)

    def _cause(self, direction: s.Direction) -> tuple[Border, ...]:
        return self._inputs if direction == "out" else ()

    def _core_port(
        self,
        name: str,
        direction: s.Direction,
        border: Border,
        type_: TensorType | None,
        span: Span,
        largest: TensorType | None = None,
    ) -> None:
        if type_ is None:
            self.good = False
            return
        if name in self._core[direction] and type_.open:
            return  # the text declares its size
        self._core[direction][name] = (
            Port(name, direction, type_, (1,), False, span),
            Tensor(border.name, largest or type_),
        )

    def _add_wrapped(
        self, port: s.NetPort, word: s.Word, code: s.Text, borders: tuple[Border, ...]
    ) -> None:
        """A port with a `pre` or `post`: a task that stands between it and its tensors."""
        direction = port.direction
        if word.text != _WRAP[direction]:
            message = f"`{word.text}` does not fit an `{direction}` port"
            help_text = "`pre` is for inputs, `post` for outputs"
            self._owner.fault("F105", message, word.span, help_text)
            self.good = False
            return
        if port.type is None:
            help_text = (
                f"write `{direction} {port.name.text}: TYPE ... {word.text} ...`: the function"
                " decides what the port carries"
            )
            self._owner.fault("F602", f"`{port.name.text}` needs a type", port.span, help_text)
        implementation = self._owner.wrapped(port, code)
        inner = self._wrapped_ports(port, borders)
        declared = self._clauses.type_of(port)
        if implementation is None or declared is None or len(inner) != len(borders):
            self.good = False
            return
        outer = Port(port.name.text, direction, declared, (1,), False, port.span)
        wrapped = [p for p in self._clauses.side(direction) if p.wrap is not None]
        name = word.text if len(wrapped) == 1 else f"{word.text}_{port.name.text}"
        inputs, outputs = ((outer,), inner) if direction == "in" else (inner, (outer,))
        task = Task(
            name,
            f"{self._declaration.name.text}.{word.text}",
            inputs,
            outputs,
            (),
            (implementation,),
            (),
            not implementation.is_class,
            (),
            None,
            "",
            port.span,
            on_error=self._clauses.on_error,
            restart=self._clauses.restart,
        )
        self._around.append(task)
        for tensor in (p.name for p in inner):
            if direction == "in":
                self._links.append(TemplateChannel(name, tensor, "", tensor))
            else:
                self._links.append(TemplateChannel("", tensor, name, tensor))
        self._seen[direction][port.name.text] = (name, outer)

    def _wrapped_ports(self, port: s.NetPort, borders: tuple[Border, ...]) -> tuple[Port, ...]:
        """The ports of a `pre` or `post` towards the network, without those with a fault."""
        direction = port.direction
        inner: list[Port] = []
        for border in borders:
            sized = self._sized(border)
            if direction == "in" or sized is not None:
                cause = self._cause(direction)
                type_ = self._owner.fixed(
                    border, sized, port.span, border.name, cause, at_tensor=True
                )
            else:
                type_ = self._owner.before_post(border, port.span, self._inputs)
            self._core_port(border.name, direction, border, type_, port.span)
            if type_ is not None:
                towards: s.Direction = "out" if direction == "in" else "in"
                inner.append(Port(border.name, towards, type_, (1,), False, port.span))
        return tuple(inner)

    def tensors(self, direction: s.Direction) -> tuple[Tensor, ...]:
        """The tensors of that side, in port order."""
        return tuple(tensor for _, tensor in self._core[direction].values())

    def template(self, network: Network) -> Template:
        """The finished template."""
        declaration = self._declaration
        core = Task(
            "",
            declaration.name.text,
            tuple(p for p, _ in self._core["in"].values()),
            tuple(p for p, _ in self._core["out"].values()),
            (),
            (),
            (),
            True,
            (),
            network,
            declaration.doc,
            declaration.name.span,
            on_error=self._clauses.on_error,
            restart=self._clauses.restart,
        )
        before = [t for t in self._around if t.definition.endswith(".pre")]
        after = [t for t in self._around if t.definition.endswith(".post")]
        return Template(
            (*before, core, *after), tuple(self._links), self._seen["in"], self._seen["out"]
        )
