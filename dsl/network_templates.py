"""Network declarations, with their ONNX files, to templates: ports, tensors, and the tasks of `pre`
and `post`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..model.application import MOST_BATCH, FilePath, Implementation, Network, Port, Task, Tensor
from ..model.diagnostic import Note, did_you_mean, one_of
from ..model.span import Span
from ..model.types import OPEN, TensorType
from ..networks.onnx.interface import Border, NetworkError, NetworkInterface, read_network
from . import syntax as s
from .code import PythonSymbol
from .context import Context
from .evaluate import Evaluator
from .template import Link, Template, beside

PRECISIONS = ("fp32", "fp16", "int8")
#: Finds `"file.py:name"`: (file as written, its path, symbol, what is known of it), or None after a
#: fault.
FindCode = Callable[[s.Text, str], tuple[str, str, str, PythonSymbol | None] | None]


class NetworkBuilder:
    """A network declaration and its ONNX file to a template."""

    def __init__(self, context: Context, evaluator: Evaluator, find_code: FindCode) -> None:
        self._context = context
        self._evaluate = evaluator
        self._find_code = find_code

    def build(self, declaration: s.NetworkDecl) -> Template | None:
        """None after a fault."""
        settings: dict[str, s.Setting] = {}
        ports: list[s.NetPort] = []
        for item in declaration.items:
            match item:
                case s.Setting():
                    if item.key in settings:
                        note = Note("the first one", settings[item.key].span)
                        self._context.fault(
                            "F115", f"`{item.key}` is given twice", item.span, notes=[note]
                        )
                    settings[item.key] = item
                case s.NetPort():
                    ports.append(item)
        if declaration.file is None:
            help_text = 'write `network Name from "file.onnx"`'
            self._context.fault(
                "F401",
                f"network `{declaration.name.text}` has no file",
                declaration.name.span,
                help=help_text,
            )
            return None
        batch = self._batch(settings)
        precision = self._precision(settings)
        types = {id(p): self._evaluate.type(p.type, {}) for p in ports if p.type is not None}
        interface = self._interface(declaration, ports, types, batch)
        # The clauses that would fix its shapes could not be read; that is reported already.
        unread = None in types.values() or ("batch" in settings and batch is None)
        if interface is None or unread:
            return None
        return self._assemble(declaration, ports, types, interface, batch or 1, precision, settings)

    def _batch(self, settings: dict[str, s.Setting]) -> int | None:
        setting = settings.get("batch")
        if setting is None or isinstance(setting.value, s.Word):
            return None
        return self._evaluate.integer(setting.value, {}, "the batch", 1, MOST_BATCH)

    def _precision(self, settings: dict[str, s.Setting]) -> str:
        setting = settings.get("precision")
        if setting is None or not isinstance(setting.value, s.Word):
            return "fp32"
        word = setting.value
        if word.text not in PRECISIONS:
            help_text = did_you_mean(word.text, PRECISIONS) or f"use {one_of(PRECISIONS)}"
            self._context.fault("F105", f"`{word.text}` is no precision", word.span, help=help_text)
        return word.text

    def _interface(
        self,
        declaration: s.NetworkDecl,
        ports: list[s.NetPort],
        types: dict[int, TensorType | None],
        batch: int | None,
    ) -> NetworkInterface | None:
        assert declaration.file is not None
        place = beside(declaration.file.span, declaration.file.value)
        fixed = {
            p.tensors[0].value: kind.shape
            for p in ports
            if p.direction == "in"
            and p.wrap is None
            and len(p.tensors) == 1
            and (kind := types.get(id(p))) is not None
        }
        try:
            interface = read_network(place, fixed, 1 if batch else None)
            bare = [
                p
                for p in ports
                if p.direction == "in"
                and p.wrap is None
                and not p.tensors
                and types.get(id(p)) is not None
            ]
            if bare:  # a port without `from` fixes the tensor it will be matched to
                chosen = self._match([p for p in ports if p.direction == "in"], interface.inputs)
                for port in bare:
                    if kind := types[id(port)]:
                        fixed.update({b.name: kind.shape for b in chosen.get(id(port), ())})
                interface = read_network(place, fixed, 1 if batch else None)
        except NetworkError as fault:
            self._context.fault(fault.code, fault.message, declaration.file.span, help=fault.help)
            return None
        if batch is not None and self._wrong_batch(declaration, interface, batch, place):
            return None
        return interface

    def _wrong_batch(
        self, declaration: s.NetworkDecl, interface: NetworkInterface, batch: int, place: Path
    ) -> bool:
        original = read_network(place, {}, None)
        for border in original.inputs:
            first = border.dims[0] if border.dims else "?"
            if isinstance(first, int) and (first != 1 or batch > 1):
                span = next(
                    i.span
                    for i in declaration.items
                    if isinstance(i, s.Setting) and i.key == "batch"
                )
                help_text = "export it with a dynamic first dimension, or leave `batch` out"
                self._context.fault(
                    "F409",
                    f"`batch {batch}`, but the first dimension of input `{border.name}`"
                    f" is fixed to {first}",
                    span,
                    help=help_text,
                )
                return True
        try:
            grouped = read_network(place, {}, batch)
        except NetworkError as fault:  # it can be read, but not with this batch
            span = next(
                i.span for i in declaration.items if isinstance(i, s.Setting) and i.key == "batch"
            )
            self._context.fault("F409", f"`batch {batch}`: {fault}", span, help="leave `batch` out")
            return True
        for border in grouped.outputs:
            if (
                batch > 1
                and border.dims
                and isinstance(border.dims[0], int)
                and border.dims[0] != batch
            ):
                span = next(
                    i.span
                    for i in declaration.items
                    if isinstance(i, s.Setting) and i.key == "batch"
                )
                message = (
                    f"`batch {batch}`, but output `{border.name}` is {border} for {batch} inputs"
                )
                self._context.fault(
                    "F409", message, span, help="leave `batch` out: this network mixes its inputs"
                )
                return True
        return False

    def _match(
        self, ports: list[s.NetPort], borders: tuple[Border, ...]
    ) -> dict[int, tuple[Border, ...]]:
        """The tensors of each port: by `from`, by its own name, or the only one left."""
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
                            "F405",
                            f"the network has no {side} `{text.value}`",
                            text.span,
                            help=guess,
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
                    "F405",
                    f"`{port.name.text}` is the name of no tensor; left are: {names}",
                    port.span,
                    help=help_text,
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
            unread = (
                tuple(b.name for b in borders if b.name not in used)
                if way == "out" and declared
                else ()
            )
            if way == "in" or not declared:
                for border in borders:
                    if border.name not in used:
                        builder.add_bare(border, "in" if way == "in" else "out")
        if not builder.good:
            return None
        ragged = next((t for t in builder.tensors("out") if t.type.open), None)
        if ragged is not None and batch > 1:
            message = (
                f"`batch {batch}`, but the size of output `{ragged.name}` depends on data:"
                f" {ragged.type}"
            )
            help_text = "leave `batch` out: its parts cannot be assigned to inputs"
            self._context.fault("F409", message, settings["batch"].span, help=help_text)
            return None
        pattern = self._calibrate(settings, precision)
        network = Network(
            declaration.name.text,
            declaration.file.value,
            str(beside(declaration.file.span, declaration.file.value)),
            builder.tensors("in"),
            builder.tensors("out"),
            batch,
            precision,
            FilePath(pattern.value, str(beside(pattern.span, ""))) if pattern is not None else None,
            interface.external,
            interface.content_hash,
            interface.opset,
            unread=unread,
        )
        return builder.template(network)

    def _calibrate(self, settings: dict[str, s.Setting], precision: str) -> s.Text | None:
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

    def wrapped(self, port: s.NetPort) -> Implementation | None:
        """The implementation of a port's `pre` or `post`."""
        assert port.wrap is not None
        found = self._find_code(port.wrap, "python")
        if found is None:
            return None
        file, path, symbol, python = found
        assert python is not None
        return Implementation(
            "cpu", "python", file, path, symbol, port.span, python.kind != "function", ()
        )

    def fixed(
        self,
        border: Border,
        declared: TensorType | None,
        span: Span,
        port: str,
        cause: tuple[Border, ...],
    ) -> TensorType | None:
        """The type of a tensor; a dimension that is still dynamic is filled from the declared type,
        or a fault.

        `cause`: the tensors whose dynamic dimensions explain those of this one.
        """
        if (
            declared is not None
            and len(declared.shape) == len(border.dims)
            and declared.dtype == border.dtype
        ):
            pairs = zip(border.dims, declared.shape, strict=True)
            if all(not isinstance(d, int) or d == n for d, n in pairs):
                return declared
        if declared is not None:
            help_text = f"give `{port}` the type `{border}`, or convert it with `pre` or `post`"
            self._context.fault(
                "F406",
                f"`{port}` is {declared}, tensor `{border.name}` is {border}",
                span,
                help=help_text,
            )
            return None
        if not border.fixed and not all(b.fixed for b in cause):
            return None  # its inputs are the cause, and are reported themselves
        if not border.fixed:
            self._dynamic(border, span, port, "out" if cause else "in")
            return None
        return TensorType(border.dtype, border.shape)

    def before_post(
        self, border: Border, span: Span, inputs: tuple[Border, ...]
    ) -> TensorType | None:
        """The type of a tensor that a `post` reads: it may depend on data, once all inputs are
        fixed.
        """
        if border.fixed or not all(b.fixed for b in inputs):
            return self.fixed(border, None, span, "", inputs)
        return TensorType(
            border.dtype, tuple(d if isinstance(d, int) else OPEN for d in border.dims)
        )

    def _dynamic(self, border: Border, span: Span, port: str, way: str) -> None:
        where = [i for i, d in enumerate(border.dims) if not isinstance(d, int)]
        names = " and ".join(f"dimension {i} (`{border.dims[i]}`)" for i in where)
        sizes = ", ".join(
            str(d) if isinstance(d, int) else "1" if i == 0 else f"SIZE{i}"
            for i, d in enumerate(border.dims)
        )
        fix = f'`{way} {port or "NAME"}: {border.dtype}[{sizes}] from "{border.name}"`'
        help_text = (
            f"fix it: `batch 1`, or {fix}" if where == [0] else f"fix it with its sizes: {fix}"
        )
        if way == "out":
            sizes = ", ".join(
                str(d) if isinstance(d, int) else f"SIZE{i}" for i, d in enumerate(border.dims)
            )
            fix = f'out {port or "NAME"}: {border.dtype}[{sizes}] from "{border.name}"'
            help_text = (
                f"if it depends on data, write a `post` that pads or cuts: `{fix} post"
                ' "file.py:function"`'
            )
            help_text += "; if it is always the same, leave `post` out there"
        message = (
            f"tensor `{border.name}` is {border}: {names} {'is' if len(where) == 1 else 'are'} not"
            " fixed"
        )
        self._context.fault("F403", message, span, help=help_text)

    def fault(self, code: str, message: str, span: Span, help: str = "") -> None:
        """Report through the shared context."""
        self._context.fault(code, message, span, help=help)


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
        self._names: set[str] = set()
        self.good = True

    def add(self, port: s.NetPort, borders: tuple[Border, ...]) -> None:
        """A port that the text declares."""
        if not borders:
            self.good = False
            return
        name, way = port.name.text, port.direction
        if name in self._names:
            self._owner.fault("F102", f"two ports are called `{name}`", port.name.span)
            self.good = False
            return
        self._names.add(name)
        declared = self._types.get(id(port))
        if port.wrap is None:
            if len(borders) > 1:
                help_text = (
                    f"one function makes one port of them: `{'pre' if way == 'in' else 'post'}"
                    ' "file.py:function"`'
                )
                self._owner.fault(
                    "F405", f"`{name}` carries {len(borders)} tensors", port.span, help_text
                )
                self.good = False
                return
            kind = self._owner.fixed(borders[0], declared, port.span, name, self._cause(way))
            self._core_port(name, way, borders[0], kind, port.span)
            if kind is not None:
                self._seen[way][name] = ("", self._core[way][name][0])
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

    def _core_port(
        self, name: str, way: s.Direction, border: Border, kind: TensorType | None, span: Span
    ) -> None:
        if kind is None:
            self.good = False
            return
        if name in self._core[way] and kind.open:
            return  # the text declares its size
        self._core[way][name] = (
            Port(name, way, kind, (1,), False, span),
            Tensor(border.name, kind),
        )

    def _wrap(
        self, port: s.NetPort, borders: tuple[Border, ...], declared: TensorType | None
    ) -> None:
        assert port.wrap_kind is not None
        way, word = port.direction, port.wrap_kind.text
        if word != ("pre" if way == "in" else "post"):
            help_text = "`pre` is for inputs, `post` for outputs"
            self._owner.fault(
                "F105", f"`{word}` does not fit an `{way}` port", port.wrap_kind.span, help_text
            )
            self.good = False
            return
        if port.type is None:
            help_text = (
                f"write `{way} {port.name.text}: TYPE ... {word} ...`: the function decides what"
                " the port carries"
            )
            self._owner.fault("F602", f"`{port.name.text}` needs a type", port.span, help_text)
        implementation = self._owner.wrapped(port)
        inner = []
        for border in borders:
            if way == "in":
                kind = self._owner.fixed(border, None, port.span, "", ())
            else:
                kind = self._owner.before_post(border, port.span, self._inputs)
            self._core_port(border.name, way, border, kind, port.span)
            if kind is not None:
                inner.append(
                    Port(border.name, "out" if way == "in" else "in", kind, (1,), False, port.span)
                )
        if implementation is None or declared is None or len(inner) != len(borders):
            self.good = False
            return
        outer = Port(port.name.text, way, declared, (1,), False, port.span)
        several = sum(
            p.wrap is not None and p.direction == way
            for p in self._declaration.items
            if isinstance(p, s.NetPort)
        )
        name = word if several == 1 else f"{word}_{port.name.text}"
        inputs, outputs = ((outer,), tuple(inner)) if way == "in" else (tuple(inner), (outer,))
        task = Task(
            name,
            f"{self._declaration.name.text}.{word}",
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
        )
        self._around.append(task)
        for p in inner:
            self._links.append(
                Link(name, p.name, "", p.name) if way == "in" else Link("", p.name, name, p.name)
            )
        self._seen[way][port.name.text] = (name, outer)

    def tensors(self, way: s.Direction) -> tuple[Tensor, ...]:
        """The tensors of that side, in port order."""
        return tuple(tensor for _, tensor in self._core[way].values())

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
        )
        before = [t for t in self._around if t.definition.endswith(".pre")]
        after = [t for t in self._around if t.definition.endswith(".post")]
        return Template(
            (*before, core, *after), tuple(self._links), self._seen["in"], self._seen["out"]
        )
