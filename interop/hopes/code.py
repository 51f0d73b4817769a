"""The code of a HOPES project that runs in flowc unchanged: C in `.cic` files, and the reasons that
exclude other code.

In: a project and its tasks. Out: a `Source` for every task whose code is C that needs only standard
headers, files of the project (including sources that are linked with it), and the functions of
`cic.h`. All others are reported with the reason (F722). Files are read, not compiled; `wrapper`
writes the code around them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ...model.files import read_bytes
from ..names import listed, shown
from .design import Graph, Task, Way
from .files import Collector, Project
from .libraries import Library
from .words import HELD

#: Headers of C and POSIX.
_STANDARD = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign
stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath time uchar wchar
wctype dirent fcntl getopt libgen malloc memory poll pthread sched semaphore strings sys/file
sys/ioctl sys/ipc sys/mman sys/resource sys/select sys/shm sys/stat sys/time sys/types sys/wait
termios unistd
"""
#: Those of C++.
_CPP_STANDARD = """
algorithm any array atomic bitset charconv chrono complex condition_variable deque exception
filesystem forward_list fstream functional future initializer_list iomanip ios iosfwd iostream
istream iterator limits list locale map memory mutex new numeric optional ostream queue random ratio
regex set shared_mutex sstream stack stdexcept streambuf string string_view system_error thread
tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector
cassert cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef
cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype
"""
_COMMENT_OR_TEXT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
_INCLUDE = re.compile(
    r"^[ \t]*#[ \t]*(?:include|include_next|import)\b[ \t]*([^\r\n]*)", re.MULTILINE
)
_PLAIN_INCLUDE = re.compile(r"""(["<])([^">]+)[">]\s*""")
#: Prefix of HOPES' functions; a request to its kernel has a name of its own.
_OFFERED = re.compile(
    r"\b(?:U[FKC][A-Z]\w*_\w+|(?:MQ|AC)_\w+|BUF_(?:SEND|RECEIVE)|PORT_INITIALIZE|SYS_REQ(?:_\w+|\s*\(\s*\w+)?)\b",
    re.ASCII,
)
_CUDA = re.compile(r"\b(?:__global__|__device__|KERNEL_CALL)\b|<<<")
_CALL = re.compile(r"\bLIBCALL\s*\(\s*(\w+)", re.ASCII)
_CPP = re.compile(
    r"\b(?:class|template|namespace|using|new|delete|try|catch|std|bool|true|false|\w+_cast)\b|::"
)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE | re.ASCII)
#: A conditional part of code; names of compilers and systems begin with `_`, with two exceptions.
_CONDITION = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b[ \t]*(.*)", re.DOTALL)
_OF_SYSTEM = frozenset({"linux", "unix"})
#: Options for C++ in a build, after its `cc`.
_COMPILERS = ("g++", "c++")
_COMPILED = (".c", ".cc", ".cpp", ".cu")
_CPP_ENDINGS = (".cc", ".cpp", ".cxx")
_SOURCES = (".cic", ".cicl", ".h", ".hpp", *_COMPILED)
_SIMPLE_PATH = re.compile(r"[\w ./+-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Link:
    """A library that is called through a port; `files` are its header, if it has one, and its
    code."""

    port: str
    library: Library
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Code of a task. Files are paths below the project; `files` has all that `file` needs, and
    `file` itself.

    `lacks` has those of TASK_INIT and TASK_WRAPUP that it does not define, `words` its string
    literals. `headers` are included before it, `further` are sources that are linked with it.
    `cpp`: it is C++. `held` has the initial tokens at inputs that its own code provides.
    """

    file: str
    files: Mapping[str, bytes]
    links: tuple[Link, ...]
    lacks: tuple[str, ...]
    words: frozenset[str]
    headers: tuple[str, ...] = ()
    cpp: bool = False
    further: tuple[str, ...] = ()
    held: Mapping[str, int] = field(default_factory=dict)


class _Unusable(Exception):
    """Why code is not imported; `help` tells what to do, unless that is to fill in a stub."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A file: its bytes, its text without comments, and that without texts in quotes as well."""

    data: bytes
    text: str
    code: str


def sources_of(
    project: Project, graph: Graph, tasks: Mapping[Way, Task], say: Collector
) -> dict[Way, Source]:
    """The usable code, by task; reasons against other code are reported to `say`."""
    return _Sources(project, graph, tasks, say).found()


@cache
def header() -> str:
    """The file cic.h."""
    return (Path(__file__).parent / "cic.h").read_text()


@cache
def _known() -> frozenset[str]:
    """The functions of cic.h under the names of HOPES."""
    return frozenset(_OFFERED.findall(header()))


class _Sources:
    def __init__(
        self, project: Project, graph: Graph, tasks: Mapping[Way, Task], say: Collector
    ) -> None:
        self._project, self._graph, self._tasks, self._say = project, graph, tasks, say
        self._read: dict[Path, _Read] = {}
        self._names: dict[Path, frozenset[str]] = {}
        self._flags = {
            name for task in tasks.values() for name in re.findall(r"-D\s*(\w+)", task.flags)
        }
        #: Files that tasks are linked with.
        self._sources = {name for task in tasks.values() for name in task.sources}
        #: By name and place of a library: the number of ports that lead to it.
        self._users = Counter(
            (name, g.libraries[name].span)
            for _, g in self._levels()
            for name in g.calls.values()
            if name in g.libraries
        )

    def found(self) -> dict[Way, Source]:
        found: dict[Way, Source] = {}
        for way, task in self._tasks.items():
            if task.kind == "task" and (task.code or task.language):
                try:
                    found[way] = self._source(way, task)
                except _Unusable as why:
                    self._say.warn_together(
                        task.name, f"code is not imported: {why}", task.span, "fill in the stub"
                    )
            taken = {Path(name).name for name in found[way].files} if way in found else set()
            data = [name for name in task.files if Path(name).name not in taken]
            if data:
                what = "further files of a task are not imported"
                self._say.warn_together(f"{task.name} ({listed(data)})", what, task.span)
        shared = Counter(name for source in found.values() for name in source.further)
        for way, source in found.items():
            for name in (name for name in source.further if shared[name] > 1):
                what = (
                    "a source that several tasks are linked with is compiled for each: what it"
                    " keeps is not shared"
                )
                self._say.warn_together(name, what, self._tasks[way].span)
        used = {
            (link.library.name, link.library.span)
            for source in found.values()
            for link in source.links
        }
        for library in (lib for _, g in self._levels() for lib in g.libraries.values()):
            if (library.name, library.span) not in used:
                what = "libraries are not imported that no imported code calls"
                self._say.warn_together(library.name, what, library.span)
        return found

    def _levels(self) -> Iterator[tuple[Way, Graph]]:
        yield (), self._graph
        yield from ((way, t.graph) for way, t in self._tasks.items() if t.graph is not None)

    # -- tasks -------------------------------------------------------------------------------------
    def _source(self, way: Way, task: Task) -> Source:
        near = Path(task.span.file).parent
        file = self._project.below(task.code, near)
        if file is None:
            raise _Unusable("its file is not in the project")
        libraries = re.findall(r"(?:^|\s)-l\s*(\S+)", task.linked)
        if libraries and re.search(r"(?:^|\s)-L\s*\.", task.linked):
            # there may be others for other tasks
            raise _Unusable(f"it is linked with {shown(libraries[0])}, a library of the project")
        headers = {
            name: self._project.below(name, near) or self._project.anywhere(name)
            for name in task.headers
        }
        missing = [name for name, header in headers.items() if header is None]
        if missing:
            raise _Unusable(f"its header {shown(missing[0])} is not in the project")
        closed: dict[Path, None] = {}
        for path in (*filter(None, headers.values()), file):
            closed |= self._closure(path, task.language)
        further = self._further(task, near, closed)
        code = " ".join(self._read[path].code for path in closed)
        # Without a compiler for C++, code that is also valid C is used.
        cpp = task.language not in ("", "C") and any(map(shutil.which, _COMPILERS))
        if not cpp and task.language not in ("", "C") and _CPP.search(code):
            raise _Unusable(f"it is {task.language}, and there is no g++ here")
        for path in further:
            if cpp != (path.suffix in _CPP_ENDINGS):
                raise _Unusable(f"its further source {shown(path.name)} is {'C' if cpp else 'C++'}")
        if re.search(r"\bTASK_GO\b", code) is None:
            raise _Unusable(f"there is no TASK_GO in {shown(task.code)}")
        links = tuple(self._link(way, port) for port in dict.fromkeys(_CALL.findall(code)))
        for link in links:
            for name in link.files:
                closed |= self._closure(self._project.files / name, link.library.language)
                called = self._content(self._project.files / name).code
                if not cpp and link.library.language not in ("", "C") and _CPP.search(called):
                    raise _Unusable(
                        f"library {shown(link.library.name)} is {link.library.language}"
                    )
        lacks = tuple(
            word for word in ("TASK_INIT", "TASK_WRAPUP") if re.search(rf"\b{word}\b", code) is None
        )
        words = frozenset(
            w for path in closed for w in re.findall(r'"(\w+)"', self._read[path].text)
        )
        files = {self._named(path): self._read[path].data for path in closed}
        return Source(
            self._named(file),
            files,
            links,
            lacks,
            words,
            tuple(self._named(h) for h in headers.values() if h),
            cpp,
            tuple(map(self._named, further)),
            {m[1]: int(m[2]) for m in HELD.finditer(self._read[file].text)},
        )

    def _further(self, task: Task, near: Path, closed: dict[Path, None]) -> tuple[Path, ...]:
        """The sources that are linked with a task: those that it names, and those of headers that
        are read.

        Their includes are added to `closed`.
        """
        found: dict[Path, None] = {}
        while True:
            headers = [p.stem for p in closed if p.suffix in (".h", ".hpp")]
            behind = [
                stem + end for stem in headers for end in _COMPILED if stem + end in self._sources
            ]
            paths = [self._linked(name, near) for name in dict.fromkeys((*task.sources, *behind))]
            more = [path for path in paths if path not in closed]
            if not more:
                return tuple(found)
            for path in more:
                found[path] = None
                closed |= self._closure(path, task.language)
                calls = [
                    call
                    for p in self._closure(path, task.language)
                    for call in _OFFERED.findall(self._read[p].code)
                ]
                if calls:
                    raise _Unusable(
                        f"its further source {shown(path.name)} calls `{calls[0].split('(')[0]}`"
                    )

    def _linked(self, name: str, near: Path) -> Path:
        """A source that is linked with a task."""
        path = self._project.below(name, near) or self._project.anywhere(name)
        if path is None:
            raise _Unusable(f"its further source {shown(name)} is not in the project")
        if path.suffix not in (".c", *_CPP_ENDINGS):
            raise _Unusable(
                "it is CUDA" if path.suffix == ".cu" else f"it is linked with {shown(path.name)}"
            )
        return path

    def _link(self, way: Way, port: str) -> Link:
        """The library behind a port, searched outwards."""
        level, name, outer = way[:-1], way[-1], port
        while True:
            graph = self._tasks[level].graph if level else self._graph
            assert graph is not None
            if (name, outer) in graph.calls:
                break
            ports = self._tasks[level].libraries if level else {}
            above = next((p for p, inside in ports.items() if inside == (name, outer)), None)
            if above is None:
                raise _Unusable(f"no library is connected to its port {shown(port)}")
            level, name, outer = level[:-1], level[-1], above
        library = graph.libraries.get(graph.calls[name, outer])
        if library is None:
            raise _Unusable(f"there is no library {shown(graph.calls[name, outer])}")
        if library.calls:
            raise _Unusable(f"library {shown(library.name)} calls another one")
        if library.stateful and self._users[library.name, library.span] > 1:
            raise _Unusable(f"library {shown(library.name)} has a state that several tasks share")
        near = Path(library.span.file).parent
        files = [self._project.below(path, near) for path in (library.header, library.file) if path]
        missing = [
            path
            for path, found in zip((library.header, library.file), files, strict=False)
            if found is None
        ]
        if missing or not library.file:
            raise _Unusable(
                f"there is no {listed(missing) or 'file'} of library {shown(library.name)}"
            )
        code = " ".join(self._content(path).code for path in files if path is not None)
        for word in ("init", "wrapup"):
            if re.search(rf"\bLIBFUNC\s*\([^,()]*,\s*{word}\b", code) is None:
                raise _Unusable(f"library {shown(library.name)} has no function `{word}`")
        return Link(port, library, tuple(self._named(path) for path in files if path is not None))

    # -- files -------------------------------------------------------------------------------------
    def _closure(self, file: Path, language: str) -> dict[Path, None]:
        """The file and those that it includes, if all of them can be used."""
        found: dict[Path, None] = {}
        waiting = [file]
        while waiting:
            path = waiting.pop()
            if path not in found:
                found[path] = None
                read = self._content(path)
                self._usable(path, read.code)
                waiting += self._includes(path, read.text, language not in ("", "C"))
        return found

    def _content(self, path: Path) -> _Read:
        if path not in self._read:
            try:
                data = read_bytes(path)
            except OSError as error:
                raise _Unusable(f"{shown(path.name)} cannot be read: {error.strerror}") from error
            # Comments may be in any encoding: only ASCII matters.
            text = _COMMENT_OR_TEXT.sub(_without_comment, data.decode("latin-1"))
            text = "".join(_compiled(text, self._defined(path.parent)))
            self._read[path] = _Read(data, text, _COMMENT_OR_TEXT.sub('""', text))
        return self._read[path]

    def _defined(self, folder: Path) -> frozenset[str]:
        """The names that files beside each other define, and those of flags of the project's
        compiler."""
        if folder not in self._names:
            texts = []
            for path in sorted(
                p for p in folder.iterdir() if p.suffix in _SOURCES and os.path.isfile(p)
            ):
                try:
                    texts.append(read_bytes(path).decode("latin-1"))
                except OSError:
                    continue  # reported where it is needed
            self._names[folder] = frozenset(
                {name for text in texts for name in _DEFINE.findall(text)} | self._flags
            )
        return self._names[folder]

    def _usable(self, path: Path, code: str) -> None:
        name = shown(path.name)
        if "\0" in code:
            raise _Unusable(f"{name} is not a text")
        if _CUDA.search(code):
            raise _Unusable("it is CUDA")
        for call in _OFFERED.findall(code):
            request = re.sub(r"\s*\(\s*", "_", call)
            if request not in _known() and request != "SYS_REQ":
                raise _Unusable(
                    "it calls"
                    f" `{request.replace('SYS_REQ_', 'SYS_REQ(')}{')' if '(' in call else ''}`"
                )

    def _includes(self, path: Path, text: str, cpp: bool) -> Iterator[Path]:
        """The local files that a file includes."""
        for said in _INCLUDE.findall(text):
            plain = _PLAIN_INCLUDE.fullmatch(said)
            if plain is None:
                raise _Unusable(f"it includes {shown(said.strip())}")
            quote, name = plain.groups()
            local = self._local(path, name) if quote == '"' else None
            if local is not None:
                yield local
            elif name.removesuffix(".h") not in _STANDARD.split() and not (
                cpp and name in _CPP_STANDARD.split()
            ):
                raise _Unusable(
                    f"it includes {shown(name)}, which is neither of C nor in the project"
                )

    def _local(self, path: Path, name: str) -> Path | None:
        """The file of that name beside another one; None where there is none."""
        place = Path(os.path.normpath(path.parent / name.replace("\0", "")))
        inside = place.is_relative_to(os.path.normpath(self._project.files))
        if not inside or (
            os.path.isfile(place)
            and not place.resolve().is_relative_to(self._project.files.resolve())
        ):
            raise _Unusable(f"it includes {shown(name)}, which is outside of the project")
        return place if os.path.isfile(place) else None

    def _named(self, path: Path) -> str:
        """The path below the project, in a form that C and other files can use."""
        name = os.path.relpath(path, self._project.files)
        if _SIMPLE_PATH.fullmatch(name) is None:
            raise _Unusable(f"{shown(name)} cannot be named in C")
        return name


def _compiled(text: str, defined: frozenset[str]) -> Iterator[str]:
    """The lines of code, without those that only an undefined name would enable: these are
    empty."""
    said: list[bool] = []
    for line in text.splitlines(keepends=True):
        found = _CONDITION.match(line) if "#" in line else None
        if found is None:
            yield line if all(said) else "\n"
            continue
        word, name = found[1], found[2].strip()
        unknown = re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) is not None and name not in {
            *defined,
            *_OF_SYSTEM,
        }
        if word in ("if", "ifdef", "ifndef"):
            said.append(not (name == "0" if word == "if" else word == "ifdef" and unknown))
        elif word in ("elif", "else") and said:
            said[-1] = True
        elif word == "endif" and said:
            said.pop()
        yield line if all(said) else "\n"


def _without_comment(found: re.Match[str]) -> str:
    said = found.group()
    return " " + "\n" * said.count("\n") if said.startswith("/") else said
