"""Tasks in C and C++: their headers, their names there, and their compiler calls.

In: tasks, and the name of their source. Out: the header beside it, and the call of the compiler.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..model.application import Task
from ..model.diagnostic import Diagnostic
from ..model.types import DTYPES, TensorType
from .kinds.c import parameter_type
from .printing import printing
from .sources import CTask

if TYPE_CHECKING:
    from jinja2 import Environment

#: A wrong pointer type in C is a wrong token: these warnings are errors.
STRICT_C = (
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
    "-Werror=implicit-function-declaration",
)


#: FLOWC_END, as in `runtime/code.py`: "END". Not -1, which many functions return on failure.
END = 0x454E44
#: Fires C tasks one after another, beside their own sources.
FIRINGS = "runtime/firings.c"
#: What helps where a source does not fit.
PROTOTYPES = "the prototype that flowc calls is written by `flowc headers`"


def compile_command(source: str) -> list[str]:
    """The compiler call for one C source of a build, with paths relative to the build."""
    stem = source.rsplit(".", 1)[0]
    standard, strict, libraries = "-std=gnu11", list(STRICT_C), ["-lm"]
    if is_cpp(source):
        standard, strict, libraries = "-std=gnu++17", [], ["-lstdc++", "-lm"]
    flags = [standard, "-O2", "-fPIC", "-shared", "-Wall"]
    if source != FIRINGS:
        # A task's function with the name of one in libc is meant wherever the source calls it.
        flags += ["-Wl,-Bsymbolic", *strict, "-include", f"{stem}.flow.h"]
    return ["${CC:-cc}", "$CFLAGS", *flags, "-o", f"{stem}.so", source, *libraries]


def preprocess(call: str, made: str) -> str:
    """The call that prints what the compiler reads, for one that makes this file."""
    return call.replace(f" -o {shell_word(made)} ", " -E ")


def is_cpp(source: str) -> bool:
    """Is it C++, by its name?"""
    return source.endswith((".cpp", ".cc", ".cxx"))


def failing(said: str, symbols: Sequence[str]) -> str:
    """The function, of those with these symbols, that a compiler names with its first error; the
    first one where it names none."""
    before, _, error = said.partition(": error: ")
    inside = re.findall(r": (?:In function|At top level)(.*)", before)
    for text in (*inside[-1:], error.partition("\n")[0]):
        for symbol in symbols:
            if re.search(rf"\b{symbol}(_init|_exit|_error)?\b", text, re.ASCII):
                return symbol
    return symbols[0]


def remedy(said: str, symbol: str) -> str:
    """What to do where a source with a function of that name does not compile."""
    clash = rf"^(/\S+?):\d+:\d+: error: conflicting .*\b{symbol}\b"
    header = re.search(clash, said, re.ASCII | re.MULTILINE)
    if header is None:
        return PROTOTYPES
    return f"`{symbol}` is a function of {header[1]}, too: give that of the task another name"


def shell_word(word: str) -> str:
    """A word of a command in a script; `$` starts a variable."""
    if word.startswith("$") or re.fullmatch(r"[\w./=+,-]+", word, re.ASCII):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


# -- headers ---------------------------------------------------------------------------------------
C_PARAMETERS = {"int": "int64_t", "float": "double", "bool": "bool", "string": "const char *"}


def header(file: str, tasks: Iterable[Task], jinja: Environment | None = None) -> str:
    """Prototypes of all tasks with code in one C file."""
    unique: dict[str, tuple[Task, str]] = {}
    for task in tasks:
        code = task.implementation_on("cpu")
        if code is not None:
            unique.setdefault(code.symbol, (task, code.symbol))
    guard = "FLOWC_" + re.sub(r"\W", "_", file, flags=re.ASCII).upper() + "_H"
    template = (jinja or printing()).get_template("c/task.h.j2")
    found = [_in_header(t, s, is_cpp(file)) for t, s in unique.values()]
    # <complex.h> takes the name `I`
    is_complex = any(
        t.dtype.startswith("complex") for task, _ in unique.values() for t in _types(task)
    )
    return template.render(file=file, guard=guard, end=hex(END), tasks=found, complex=is_complex)


def _types(task: Task) -> Iterator[TensorType]:
    """The types of all that the code of a task is given."""
    for port in (*task.inputs, *task.outputs):
        if port.type is not None:
            yield port.type
    for field in task.state:
        yield field.type


def prototypes(task: Task, symbol: str, cpp: bool) -> dict[str, str]:
    """Prototypes by the names of functions: of a firing, and of what is optional in the source,
    called once at the start and at the end, and for the message of a failure."""
    arguments = ""
    for port in (*task.inputs, *task.outputs):
        if port.type is not None:
            const = "const " if port.direction == "in" else ""
            arguments += f"{const}{DTYPES[port.type.dtype][0]} *{c_name(port.name, cpp)}, "
    parameters = f"const {symbol}_params *p"
    return {
        symbol: f"int {symbol}(void *state, {arguments}{parameters})",
        f"{symbol}_init": f"void *{symbol}_init({parameters})",
        f"{symbol}_exit": f"void {symbol}_exit(void *state)",
        f"{symbol}_error": f"const char *{symbol}_error(void *state)",
    }


def not_called(made: CTask, names: Collection[str]) -> Iterator[Diagnostic]:
    """Errors for functions of a task that its library, which defines these names, does not have as
    flowc calls them: in C++ a function with other parameters is another one."""
    code = made.code
    for name, prototype in prototypes(made.task, code.symbol, is_cpp(code.file)).items():
        another = any(each.startswith(f"_Z{len(name)}{name}") for each in names)
        if name not in names and (another or name == code.symbol):
            message = f"`{code.file}` has no function `{name}` that can be called from C"
            if another:
                message = f"`{name}` in `{code.file}` has other parameters than flowc calls it with"
            message += f"\nexpected: {prototype}"
            yield Diagnostic("F306", message, code.span, help=PROTOTYPES)


def _in_header(task: Task, symbol: str, cpp: bool) -> dict[str, Any]:
    typed = all(port.type is not None for port in (*task.inputs, *task.outputs))
    ports = []
    for port in (*task.inputs, *task.outputs):
        if port.type is None:
            continue
        rates = str(port.rates[0])
        if len(port.rates) > 1:
            rates = f"{list(port.rates)} (one entry per phase)"
        tokens = f" x {rates}" if port.stacked else ""
        if port.window:
            tokens = f" x {port.window}, of which the last {rates} are new"
        ports.append(f"{port.direction} {port.name}: {port.type}{tokens}")
    return {
        "definition": task.definition,
        "doc": task.doc,
        "symbol": symbol,
        "parameters": [
            (C_PARAMETERS[parameter_type(v)], c_name(n, cpp)) for n, v in task.parameters
        ],
        "state": [
            (DTYPES[f.type.dtype][0], c_name(f.name, cpp), "".join(f"[{n}]" for n in f.type.shape))
            for f in task.state
        ],
        "ports": ports,
        "prototypes": list(prototypes(task, symbol, cpp).values()) if typed else [],
    }


#: Names that no port or parameter has in C: keywords, names of headers, and those of the prototype.
_IN_C = """
I NULL errno i386 linux unix auto break case char const continue default do double else enum extern
float for goto if inline int long register restrict return short signed sizeof static struct switch
typedef union unsigned void volatile while bool true false complex state p
"""
#: Words of C++ that are none of C.
_IN_CPP = """
alignas alignof and and_eq asm bitand bitor bool catch char16_t char32_t class compl const_cast
constexpr decltype delete dynamic_cast explicit export false friend mutable namespace new noexcept
not not_eq nullptr operator or or_eq protected public reinterpret_cast static_assert static_cast
template this thread_local throw true try typeid typename private using virtual wchar_t xor xor_eq
"""
C_KEYWORDS = frozenset(_IN_C.split())
CPP_KEYWORDS = frozenset(_IN_CPP.split())


def c_name(name: str, cpp: bool = False) -> str:
    """A port or parameter as an identifier of C, or C++."""
    if name in C_KEYWORDS or (cpp and name in CPP_KEYWORDS):
        return f"{name}_"
    return name
