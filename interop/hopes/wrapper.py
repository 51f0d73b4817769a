"""C tasks of flowc around the code of HOPES tasks.

In: the usable code, and the dataflow. Out: the text's data for each task (`CalledFunction`), and
all files of a folder beside the text: `cic.h`, the project's own files unchanged, at their places
in the project, and one C file for each task, because such code keeps its state in static variables:
two instances of one library would share them.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import PurePosixPath

from ...model.types import DTYPES
from ..names import identifiers, refused_words, shown
from .code import CalledLibrary, HopesSource, header
from .counts import Place, loops_around
from .design import Direction, HopesPort, Parameter, Way
from .groups import Flow

_C_WORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while asm typeof main bool catch class const_cast delete explicit export false friend
mutable namespace new operator private protected public template this throw true try typeid typename
using virtual wchar_t
"""
#: Names that flags of the compiler define.
_DEFINED = re.compile(r"(?:^|\s)-D\s*([A-Za-z_]\w*)(?:=([\w.+-]+))?(?=\s|$)", re.ASCII)
_COMPLETED = {"TASK_INIT": "TASK_INIT { (void)TASK_ID; }", "TASK_WRAPUP": "TASK_WRAPUP { }"}


@dataclass(frozen=True, slots=True)
class GivenParameter:
    """A parameter of the task: its name in the text, the value, and its task and name in HOPES."""

    name: str
    value: int | Fraction
    task: str
    parameter: str


@dataclass(frozen=True, slots=True)
class CalledFunction:
    """The text's reference: `code` is `FILE:FUNCTION`. `file` is the task's own file, below the
    project."""

    code: str
    file: str
    parameters: tuple[GivenParameter, ...]


@dataclass(frozen=True, slots=True)
class Wrapped:
    """`files` by their paths beside the text."""

    called: Mapping[Way, CalledFunction]
    files: Mapping[str, str | bytes]
    folder: str


def wrapped(project: str, stem: str, sources: Mapping[Way, HopesSource], flow: Flow) -> Wrapped:
    """The C tasks of a text that is called `stem`."""
    folder = re.sub(r"[^A-Za-z0-9_.+-]", "_", stem) + "_c"
    reserved = {*_C_WORDS.split(), *_units(sources.values())}
    names = identifiers(("_".join(way) for way in sources), "task", reserved)
    called: dict[Way, CalledFunction] = {}
    files: dict[str, str | bytes] = {}
    if sources:
        files[f"{folder}/cic.h"] = header()
    for (way, source), name in zip(sources.items(), names, strict=True):
        ending = ".cpp" if source.cpp else ".c"
        path = f"{folder}/{name}{ending}"
        called[way] = CalledFunction(
            f"{path}:{name}_go", source.file, _parameters(way, source, flow)
        )
        files[path] = "\n".join(_file(project, way, source, flow, called[way])) + "\n"
    for source in sources.values():
        files |= {f"{folder}/{path}": data for path, data in source.files.items()}
    return Wrapped(called, files, folder)


def _units(sources: Iterable[HopesSource]) -> Iterator[str]:
    """The names of C files in the folder of the project itself."""
    for source in sources:
        for file in source.files:
            path = PurePosixPath(file)
            if len(path.parts) == 1 and path.suffix in (".c", ".cpp"):
                yield path.stem


def given(
    way: Way, own: Iterable[Parameter], around: Iterable[tuple[Way, Parameter]] = ()
) -> tuple[GivenParameter, ...]:
    """Parameters of a task, and of composites around it, under names that are valid in Python, C
    and the text."""
    found = [*((way, p) for p in own), *around]
    reserved = {*refused_words(), *_C_WORDS.split(), *keyword.kwlist}
    names = identifiers((p.name for _, p in found), "parameter", reserved)
    return tuple(
        GivenParameter(name, p.value, "_".join(w), p.name)
        for name, (w, p) in zip(names, found, strict=True)
    )


def _parameters(way: Way, source: HopesSource, flow: Flow) -> tuple[GivenParameter, ...]:
    """Parameters of the task, and those of composites around it that its code uses."""
    above = []
    for n in range(len(way) - 1, 0, -1):
        for parameter in flow.tasks[way[:n]].parameters:
            if parameter.name in source.words:
                above.append((way[:n], parameter))
    return given(way, flow.tasks[way].parameters, above)


# -- a file ----------------------------------------------------------------------------------------
def _file(
    project: str, way: Way, source: HopesSource, flow: Flow, called: CalledFunction
) -> Iterator[str]:
    full, function = "_".join(way), called.code.rpartition(":")[2]
    libraries = _once(source.links)
    yield (
        f"/* {_comment(full)} of the HOPES project {_comment(project)}: its code is as it was"
        " there. */"
    )
    yield from _definitions(way, source, flow, called)
    for path in source.further:
        yield f'#include "{path}"'
    yield '#include "cic.h"'
    for link in source.links:
        yield f"static void {_start(link)}(void), {_end(link)}(void);"
    yield ""
    yield from _functions(way, source, flow, called, function, libraries)
    for link in source.links:
        yield from _library(link, link in libraries)
    for path in (*source.headers, source.file):
        yield f'#include "{path}"'
    for word in source.lacks:
        yield _COMPLETED[word]


def _definitions(
    way: Way, source: HopesSource, flow: Flow, called: CalledFunction
) -> Iterator[str]:
    """What cic.h has to know of a task."""
    for name, value in _DEFINED.findall(flow.tasks[way].flags):
        yield f"#define {name} {value or 1}"
    yield f"#define TASK_NAME {_text('_'.join(way))}"
    loops = [flow.tasks[w].loop for w in (way, *loops_around(way, flow.tasks))]
    turns = next((loop.count for loop in loops if loop is not None), 1)
    yield f"#define CIC_TURNS {turns}"
    around = [flow.tasks[way[:n]].mode for n in range(len(way), 0, -1)]
    mode = next(filter(None, around), "Default")
    yield f"#define CIC_MODE {_text(mode)}"
    yield from _list("CIC_PORTS", [entry for entry, _ in _ports(way, flow, source)])
    yield from _list(
        "CIC_PARAMETERS",
        [f"CIC_VALUE({_text(g.task)}, {_text(g.parameter)})" for g in called.parameters],
    )


def _functions(
    way: Way,
    source: HopesSource,
    flow: Flow,
    called: CalledFunction,
    function: str,
    libraries: list[CalledLibrary],
) -> Iterator[str]:
    """The functions that flowc calls."""
    ports = [port for _, port in _ports(way, flow, source)]
    used = [port for port in ports if (way, port.direction, port.name) in flow.tokens]
    pointers = [f"{_pointer(way, port, flow)}p{n}" for n, port in enumerate(used)]
    arguments = ", ".join(["void *state", *pointers, f"const {function}_params *given"])
    data = ", ".join(f"p{n}" for n in range(len(used))) or "0"
    yield f"void *{function}_init(const {function}_params *given)"
    yield "{"
    for i, g in enumerate(called.parameters):
        yield f"    cic_parameters[{i}].value = (double)given->{g.name};"
    if not called.parameters:
        yield "    (void)given;"
    for link in libraries:
        yield f"    {_start(link)}();"
    yield "    return cic_start();"
    yield "}"
    yield ""
    yield f"int {function}({arguments})"
    yield "{"
    yield "    (void)state, (void)given;"
    yield f"    const void *const data[] = {{ {data} }};"
    yield "    return cic_fire(data);"
    yield "}"
    yield ""
    yield f"void {function}_exit(void *state)"
    yield "{"
    yield "    (void)state;"
    yield "    cic_end();"
    for link in libraries:
        yield f"    {_end(link)}();"
    yield "}"
    yield ""
    yield f"const char *{function}_error(void *state) {{ return (void)state, cic_said; }}"
    yield ""


def _once(links: tuple[CalledLibrary, ...]) -> list[CalledLibrary]:
    """One link to each library."""
    return list({link.library.name: link for link in reversed(links)}.values())[::-1]


def _library(link: CalledLibrary, first: bool) -> Iterator[str]:
    """The functions of a library, each under a unique name, and the macro that calls them."""
    prefix = _prefix(link)
    if first:
        yield f"/* Library {_comment(link.library.name)}. */"
        yield f"#define LIBFUNC(type, function, ...) type {prefix}##function(__VA_ARGS__)"
        yield f"#define LIBCALL_this(function, ...) {prefix}##function(__VA_ARGS__)"
        for path in link.files:
            yield f'#include "{path}"'
        yield "#undef LIBFUNC"
        yield "#undef LIBCALL_this"
        yield f"static void {_start(link)}(void) {{ {prefix}init(); }}"
        yield f"static void {_end(link)}(void) {{ {prefix}wrapup(); }}"
    yield f"#define LIBCALL_{link.port}(function, ...) {prefix}##function(__VA_ARGS__)"
    yield ""


def _prefix(link: CalledLibrary) -> str:
    (name,) = identifiers([link.library.name], "library")
    return f"l_{name}_"


def _start(link: CalledLibrary) -> str:
    return f"cic_start_{_prefix(link)}"


def _end(link: CalledLibrary) -> str:
    return f"cic_end_{_prefix(link)}"


def _pointer(way: Way, port: HopesPort, flow: Flow) -> str:
    """The type of a port's argument."""
    dtype = flow.tokens[way, port.direction, port.name].type.partition("[")[0] or "uint8"
    const = "const " if port.direction == "in" else ""
    return f"{const}{DTYPES[dtype][0]} *"


#: Macros for the ports of a task, outputs and inputs.
_Macros = dict[Direction, str]
_PLAIN: _Macros = {"out": "CIC_OUT", "in": "CIC_IN"}
_BACK: _Macros = {"out": "CIC_NEXT", "in": "CIC_SHARED"}
_TURNS: _Macros = {"out": "CIC_LAST", "in": "CIC_SHARED"}
_BUFFERS: _Macros = {"out": "CIC_NEWEST", "in": "CIC_SEEN"}


def _ports(way: Way, flow: Flow, source: HopesSource) -> Iterator[tuple[str, HopesPort]]:
    """The entry of each port in the table: its name in HOPES, and the bytes of a firing."""
    for (direction, name), port in flow.tasks[way].ports.items():
        place: Place = (way, direction, name)
        token = flow.tokens.get(place)
        if token is None:
            yield f"CIC_LOOSE({_text(name)})", port
            continue
        size = token.bytes * token.rate
        if name in source.held and direction == "in":
            yield f"CIC_HELD({_text(name)}, {size}, {token.bytes * source.held[name]})", port
        else:
            yield f"{_macros(place, flow)[direction]}({_text(name)}, {size})", port


def _macros(place: Place, flow: Flow) -> _Macros:
    """The macros for a port: what becomes of tokens that a firing does not move."""
    if place in flow.back:
        return _BACK
    if _in_turns(place, flow):
        return _TURNS
    if place in flow.buffers:
        return _BUFFERS
    return _PLAIN


def _in_turns(place: Place, flow: Flow) -> bool:
    """Is the port at the border of a loop whose turns read the same tokens, or of which the last
    turn counts?"""
    while True:
        if place in flow.turns and flow.turns[place].count > 1:
            return True
        way, direction, name = place
        level = way[:-1]
        if not level:
            return False
        for (of, outer), end in flow.tasks[level].inside.items():
            if of == direction and end == (way[-1], name):
                place = (level, direction, outer)
                break
        else:
            return False


def _list(name: str, items: list[str]) -> Iterator[str]:
    yield " \\\n    ".join([f"#define {name}", *(f"{item}," for item in items)])


def _text(name: str) -> str:
    """An untrusted name as a string literal of C."""
    literal = ""
    for byte in name.encode():
        if 32 <= byte < 127 and chr(byte) not in '"\\?':
            literal += chr(byte)
        else:
            literal += f"\\{byte:03o}"
    return f'"{literal}"'


def _comment(name: str) -> str:
    return shown(name).replace("*/", "* /").replace("/*", "/ *")
