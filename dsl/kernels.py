"""Kernels of CUDA tasks: their signatures in a `.cu` file, and launches that match them.

In: the clause of the text (`on gpu cuda "f.cu:name" (arguments) grid [..] block [..] shared ..`),
ports, memory and parameters of the task. Out: launches with numbers, checked against the kernel's
parameter list. Nothing is compiled here; the compiler checks the rest (templates, other types).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod
from pathlib import Path

from ..model.application import FilePath, Launch, Parameter, Port, StateField, Value
from ..model.diagnostic import did_you_mean, one_of
from ..model.files import read_bytes
from ..model.types import TensorType
from . import syntax as s
from .context import Context
from .evaluate import Evaluator

#: Sizes that are not given: enough for analyses, not for a program.
UNKNOWN = (0, 0, 0)
#: Limits that hold on every GPU (CUDA programming guide, technical specifications per compute
#: capability).
MOST_THREADS, MOST_BLOCK, MOST_GRID = 1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535)
#: Dynamic shared memory of a block: 227 KiB on the largest of them (compute capability 9.0).
MOST_SHARED = 227 << 10

#: The dtypes of pointers to C types, and of values of them.
_TYPES = {
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long": "int64",
    "unsigned long": "uint64",
    "long long": "int64",
    "unsigned long long": "uint64",
    "size_t": "uint64",
    "ssize_t": "int64",
    "ptrdiff_t": "int64",
    "intptr_t": "int64",
    "uintptr_t": "uint64",
    "uchar": "uint8",
    "ushort": "uint16",
    "uint": "uint32",
    "ulong": "uint64",
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "cuFloatComplex": "complex64",
    "cuDoubleComplex": "complex128",
    **{f"{u}int{n}_t": f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)},
}
#: Vectors of these have their elements' dtype.
_VECTOR = re.compile(r"(char|uchar|short|ushort|int|uint|float|double)[1-4]")
_ELEMENT = {
    "uchar": "uint8",
    "ushort": "uint16",
    "uint": "uint32",
    **{k: _TYPES[k] for k in ("char", "short", "int")},
}
_ELEMENT |= {"float": "float32", "double": "float64"}


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """`dtype` is None when the type is not known here; `nested`: a pointer to pointers."""

    name: str
    text: str
    dtype: str | None
    pointer: bool
    constant: bool
    nested: bool = False


@dataclass(frozen=True, slots=True)
class KernelText:
    """A `__global__` function as its file has it. `plain`: it has C linkage, so that it is found by
    its name.
    """

    name: str
    parameters: tuple[KernelParameter, ...]
    plain: bool
    line: int


def kernels(path: Path) -> dict[str, KernelText]:
    """The `__global__` functions of a file, by name."""
    return _kernels(str(path), path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _kernels(path: str, modified: int) -> dict[str, KernelText]:
    text = read_bytes(path).decode(errors="replace")
    bare = re.sub(r"/\*.*?\*/|//[^\n]*", _blank, text, flags=re.DOTALL)
    bare = re.sub(r"\b__\w+__\s*\((?:[^()]|\([^()]*\))*\)", _blank, bare)
    declared: dict[str, KernelText] = {}
    for match in re.finditer(r"\b__global__\b[\w\s]*?\b(\w+)\s*\(([^)]*)\)", bare):
        start = max(bare.rfind(end, 0, match.start()) for end in (";", "}", "{")) + 1
        plain = re.search(r'extern\s+"C"', bare[start : match.start()]) is not None or _in_block(
            bare, match.start()
        )
        earlier = declared.get(match[1])  # a declaration may come first, and its linkage holds
        line = bare.count("\n", 0, match.start(1)) + 1
        parameters = [p for p in match[2].split(",") if p.strip() not in ("", "void")]
        plain = plain or (earlier is not None and earlier.plain)
        declared[match[1]] = KernelText(
            match[1], tuple(_parameter(p) for p in parameters), plain, line
        )
    return declared


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _in_block(text: str, position: int) -> bool:
    """Is this inside `extern "C" { ... }`?"""
    for match in re.finditer(r'extern\s+"C"\s*\{', text[:position]):
        block = text[match.end() : position]
        if block.count("}") <= block.count("{"):
            return True
    return False


def _parameter(text: str) -> KernelParameter:
    """The type of a parameter; `dtype` is None for types that are not known here, such as pointers
    to pointers.
    """
    text = text.split("=")[0]
    stars = text.count("*") + text.count("[")
    bare = re.sub(r"\[[^\]]*\]", " ", text.replace("std::", ""))
    words = re.findall(
        r"\w+", re.sub(r"\b(const|volatile|__restrict__|__restrict|restrict|struct)\b", " ", bare)
    )
    name, kind = (words[-1], _kind(words[:-1])) if len(words) > 1 else ("", _kind(words))
    vector = _VECTOR.fullmatch(kind)
    dtype = _ELEMENT[vector[1]] if vector else _TYPES.get(kind)
    if stars > 1 or (vector and not stars):
        dtype = None
    constant = re.search(r"\bconst\b", text.split("*")[0]) is not None
    return KernelParameter(name, " ".join(text.split()), dtype, stars > 0, constant, stars > 1)


def _kind(words: list[str]) -> str:
    """A type in its shortest form: `long long unsigned int` is `unsigned long long`."""
    sizes = [word for word in words if word in ("short", "long")]
    unsigned = "unsigned" in words
    if not sizes and not unsigned and "signed" not in words:
        return " ".join(words)
    if "char" in words:
        return "unsigned char" if unsigned else "signed char"
    rest = [word for word in words if word not in ("int", "signed", "unsigned", *sizes)]
    shortest = [*sizes, *rest]
    if unsigned:
        shortest.insert(0, "unsigned")
    return " ".join(shortest) or "int"


class LaunchBuilder:
    """Makes the launches of one task; faults go to the context."""

    def __init__(
        self,
        context: Context,
        evaluate: Evaluator,
        task: s.TaskDecl,
        ports: dict[str, Port],
        memory: Iterable[StateField],
        parameters: dict[str, Parameter],
    ) -> None:
        self._context, self._evaluate, self._task = context, evaluate, task
        self._ports, self._memory, self._parameters = ports, {f.name: f for f in memory}, parameters

    def launch(self, item: s.ImplementationDecl, path: Path, symbol: str) -> Launch | None:
        """The launch that one clause asks for; None after a fault."""
        if not self._ports_fit(item):
            return None
        kernel = self._kernel(item, path, symbol)
        if kernel is None:
            return None
        ports = self._ports.items()
        self._evaluate.shapes = {n: p.type.shape for n, p in ports if p.type is not None}
        try:
            grid = self._sizes(item.grid, "grid", MOST_GRID)
            block = self._block(item.block)
            arguments = self._arguments(item, kernel)
        finally:
            self._evaluate.shapes = {}
        shared = self._shared(item)
        if grid is None or block is None or arguments is None or shared is None:
            return None
        return Launch(symbol, arguments, grid, block, shared)

    def _ports_fit(self, item: s.ImplementationDecl) -> bool:
        """Check that a kernel can have such ports: a launch has no phase and no older tokens."""
        ports = self._ports.values()
        uneven = next((p for p in ports if len(set(p.rates)) > 1), None)
        if uneven is not None:
            message = (
                f"the rate of `{uneven.name}` changes from phase to phase, and a kernel does not"
                " get its phase"
            )
            help_text = "give it one rate, or do this task on a CPU"
            self._context.fault("F309", message, item.span, help=help_text)
            return False
        windowed = next((p for p in ports if p.window), None)
        if windowed is not None:
            message = f"`{windowed.name}` has a window, and a GPU keeps no consumed tokens"
            help_text = "add a task on a CPU in front of it, with the window"
            self._context.fault("F309", message, item.span, help=help_text)
        return windowed is None

    def _kernel(self, item: s.ImplementationDecl, path: Path, symbol: str) -> KernelText | None:
        """The kernel of that name; None after a fault."""
        known = kernels(path)
        kernel = known.get(symbol)
        if kernel is None:
            help_text = did_you_mean(symbol, known)
            if known and not help_text:
                help_text = f"it has {one_of(known)}"
            message = f"`{path.name}` has no kernel `{symbol}`"
            self._context.fault("F302", message, item.code.span, help=help_text)
            return None
        if not kernel.plain:
            message = f"kernel `{symbol}` cannot be found by its name: C++ changes it"
            label = f"line {kernel.line} of its file"
            help_text = f'write `extern "C" __global__ void {symbol}(...)`'
            self._context.fault("F309", message, item.code.span, label=label, help=help_text)
            return None
        return kernel

    def _shared(self, item: s.ImplementationDecl) -> int | None:
        if item.shared is None:
            return 0
        size = self._evaluate.quantity(
            item.shared.amount, item.shared.unit, "memory", "shared memory", self._parameters
        )
        if size is not None and size > MOST_SHARED:
            message = (
                f"{int(size)} bytes of shared memory: the largest GPU has {MOST_SHARED} for a block"
            )
            self._context.fault("F309", message, item.shared.span)
            return None
        return None if size is None else int(size)

    def _block(self, written: tuple[s.Expr, ...] | None) -> tuple[int, int, int] | None:
        """Its threads along each dimension; None after a fault."""
        block = self._sizes(written, "block", MOST_BLOCK)
        if written is not None and block is not None and prod(block) > MOST_THREADS:
            message = f"a block of {prod(block)} threads: a GPU takes at most {MOST_THREADS}"
            span = written[0].span.to(written[-1].span)
            help_text = "make the block smaller and the grid larger"
            self._context.fault("F309", message, span, help=help_text)
            return None
        return block

    def _sizes(
        self, written: tuple[s.Expr, ...] | None, what: str, most: tuple[int, ...]
    ) -> tuple[int, int, int] | None:
        """The three dimensions of a grid or block; None after a fault."""
        if written is None:
            return UNKNOWN
        if len(written) > 3:
            self._context.fault("F309", f"a {what} has at most 3 dimensions", written[3].span)
            return None
        sizes = []
        for expr, limit in zip(written, most, strict=False):
            dimension = f"a dimension of the {what}"
            size = self._evaluate.integer(expr, self._parameters, dimension, 1)
            if size is not None and size <= limit:
                sizes.append(size)
            elif size is not None:
                message = f"{dimension} is {size}: at most {limit}"
                self._context.fault("F309", message, expr.span)
        if len(sizes) < len(written):
            return None
        x, y, z = sizes + [1] * (3 - len(sizes))
        return x, y, z

    # -- arguments ---------------------------------------------------------------------------------
    def _arguments(
        self, item: s.ImplementationDecl, kernel: KernelText
    ) -> tuple[str | tuple[str, Value], ...] | None:
        """What a launch hands to each parameter of the kernel; None after a fault."""
        expressions = item.arguments
        if expressions is None:
            names = self._default_arguments()
            expressions = tuple(s.Name(name, item.code.span) for name in names)
        parameters = kernel.parameters
        if len(expressions) != len(parameters):
            takes = ", ".join(p.text for p in parameters)
            names_taken = ", ".join(p.name for p in parameters)
            gets = ", ".join(_shown(e) for e in expressions)
            message = (
                f"`{kernel.name}({takes})` takes {len(parameters)} arguments, and gets"
                f" {len(expressions)}: {gets}"
            )
            self._context.fault(
                "F309",
                message,
                item.code.span,
                label=f"defined in line {kernel.line} of its file",
                help=f'name them: `cuda "..." ({names_taken})`',
            )
            return None
        arguments = []
        for expr, parameter in zip(expressions, parameters, strict=True):
            argument = self._argument(expr, parameter, kernel, item)
            if argument is not None:
                arguments.append(argument)
        return tuple(arguments) if len(arguments) == len(parameters) else None

    def _default_arguments(self) -> tuple[str, ...]:
        """As a C task has them: inputs, outputs, parameters."""
        inputs = [p.name for p in self._ports.values() if p.direction == "in"]
        outputs = [p.name for p in self._ports.values() if p.direction == "out"]
        return *inputs, *outputs, *self._parameters

    def _argument(
        self,
        expr: s.Expr,
        parameter: KernelParameter,
        kernel: KernelText,
        item: s.ImplementationDecl,
    ) -> str | tuple[str, Value] | None:
        if isinstance(expr, s.Name) and (expr.text in self._ports or expr.text in self._memory):
            port = self._ports.get(expr.text)
            kind = port.type if port is not None else self._memory[expr.text].type
            return self._pointer(expr, kind, port, parameter, kernel)
        value = self._evaluate.value(expr, self._parameters)
        if value is None:
            return None
        return self._value(expr, value, parameter, kernel)

    def _pointer(
        self,
        expr: s.Name,
        kind: TensorType | None,
        port: Port | None,
        parameter: KernelParameter,
        kernel: KernelText,
    ) -> str | None:
        if not parameter.pointer or parameter.nested:
            self._mismatch(expr, f"`{expr.text}` is an array", parameter, kernel)
            return None
        if kind is not None and parameter.dtype is not None and parameter.dtype != kind.dtype:
            self._mismatch(expr, f"`{expr.text}` is {kind}", parameter, kernel)
            return None
        is_input = port is not None and port.direction == "in"
        if is_input and not parameter.constant and parameter.dtype is not None:
            message = (
                f"`{expr.text}` is an input, and `{parameter.text}` of `{kernel.name}` may write to"
                " it"
            )
            help_text = (
                "inputs are shared with other readers: write"
                f" `const {parameter.text}` in the .cu file"
            )
            self._context.fault("F309", message, expr.span, help=help_text)
            return None
        return expr.text

    def _value(
        self, expr: s.Expr, value: Parameter, parameter: KernelParameter, kernel: KernelText
    ) -> tuple[str, Value] | None:
        if isinstance(value, (str, FilePath)) or parameter.pointer:
            self._mismatch(expr, f"{_shown(expr)} is no array", parameter, kernel)
            return None
        if parameter.dtype is None:
            message = (
                f"`{kernel.name}` takes `{parameter.text}` there, a type whose size is not known"
                " here"
            )
            help_text = "pass it as a number: `int`, `float`, `uint8_t`, ..."
            self._context.fault(
                "F309", message, expr.span, label=f"line {kernel.line} of its file", help=help_text
            )
            return None
        if not _holds(parameter.dtype, value):
            self._mismatch(expr, f"{_shown(expr)} is {value}", parameter, kernel)
            return None
        return parameter.dtype, value

    def _mismatch(
        self, expr: s.Expr, what: str, parameter: KernelParameter, kernel: KernelText
    ) -> None:
        message = f"{what}, and `{kernel.name}` takes `{parameter.text}` there"
        self._context.fault("F309", message, expr.span, label=f"line {kernel.line} of its file")


def _holds(dtype: str, value: int | Fraction) -> bool:
    """True if a number fits into that type."""
    if not dtype.startswith(("int", "uint")):
        return True
    bits = int(dtype.lstrip("uint"))
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)
    if dtype.startswith("u"):
        low, high = 0, 2**bits
    return not isinstance(value, Fraction) and low <= value < high


def _shown(expr: s.Expr) -> str:
    match expr:
        case s.Name(text=text):
            return f"`{text}`"
        case s.Number(value=value):
            return f"`{value}`"
        case _:
            return "the argument"
