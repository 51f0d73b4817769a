"""The code of a HOPES project that runs in flowc unchanged: C in `.cic` files, and the reasons that
exclude other code.

In: a project and its tasks. Out: a `HopesSource` for every task whose code is C that needs only
standard headers, files of the project (including sources that are linked with it), and the
functions of `cic.h`. All others are reported with the reason (F722). Files are read, not compiled;
`wrapper` writes the code around them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ...model.files import read_bytes
from ...model.span import Span
from ..names import listed, shown
from .counts import Place
from .design import HopesGraph, HopesTask, Way
from .files import HopesCollector, HopesProject
from .libraries import HopesLibrary
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
class CalledLibrary:
    """A library that is called through a port; `files` are its header, if it has one, and its
    code."""

    port: str
    library: HopesLibrary
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HopesSource:
    """Code of a task. Files are paths below the project; `files` has all that `file` needs, and
    `file` itself.

    `lacks` has those of TASK_INIT and TASK_WRAPUP that it does not define, `words` its string
    literals. `headers` are included before it, `further` are sources that are linked with it.
    `cpp`: it is C++. `held` has the initial tokens at inputs that its own code provides.
    """

    file: str
    files: Mapping[str, bytes]
    links: tuple[CalledLibrary, ...]
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
    project: HopesProject, graph: HopesGraph, tasks: Mapping[Way, HopesTask], say: HopesCollector
) -> dict[Way, HopesSource]:
    """The usable code, by task; reasons against other code are reported to `say`."""
    return _Sources(project, graph, tasks, say).found()


def held_by(sources: Mapping[Way, HopesSource]) -> dict[Place, int]:
    """The initial tokens that the code of readers has, by their ports."""
    held: dict[Place, int] = {}
    for way, source in sources.items():
        for port, count in source.held.items():
            held[way, "in", port] = count
    return held


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
        self,
        project: HopesProject,
        graph: HopesGraph,
        tasks: Mapping[Way, HopesTask],
        say: HopesCollector,
    ) -> None:
        self._project, self._graph, self._tasks, self._say = project, graph, tasks, say
        self._read: dict[Path, _Read] = {}
        self._names: dict[Path, frozenset[str]] = {}
        self._flags: set[str] = set()
        #: Files that tasks are linked with.
        self._sources: set[str] = set()
        for task in tasks.values():
            self._flags.update(re.findall(r"-D\s*(\w+)", task.flags))
            self._sources.update(task.sources)
        #: By name and place of a library: the number of ports that lead to it.
        self._users: Counter[tuple[str, Span]] = Counter()
        for _, level in self._levels():
            for name in level.calls.values():
                if name in level.libraries:
                    self._users[name, level.libraries[name].span] += 1

    def found(self) -> dict[Way, HopesSource]:
        sources: dict[Way, HopesSource] = {}
        for way, task in self._tasks.items():
            if task.kind == "task" and (task.code or task.language):
                try:
                    sources[way] = self._source(way, task)
                except _Unusable as why:
                    self._say.warn_together(
                        task.name, f"code is not imported: {why}", task.span, "fill in the stub"
                    )
            self._tell_data(task, sources.get(way))
        self._tell_shared(sources)
        self._tell_unused_libraries(sources)
        return sources

    def _tell_data(self, task: HopesTask, source: HopesSource | None) -> None:
        """Files of a task that its code does not have."""
        if source is not None:
            taken = {Path(name).name for name in source.files}
        else:
            taken = set()
        data = [name for name in task.files if Path(name).name not in taken]
        if data:
            what = "further files of a task are not imported"
            self._say.warn_together(f"{task.name} ({listed(data)})", what, task.span)

    def _tell_shared(self, sources: Mapping[Way, HopesSource]) -> None:
        """Sources that are linked with several tasks."""
        users = Counter(name for source in sources.values() for name in source.further)
        what = (
            "a source that several tasks are linked with is compiled for each: what it"
            " keeps is not shared"
        )
        for way, source in sources.items():
            for name in source.further:
                if users[name] > 1:
                    self._say.warn_together(name, what, self._tasks[way].span)

    def _tell_unused_libraries(self, sources: Mapping[Way, HopesSource]) -> None:
        used = set()
        for source in sources.values():
            for link in source.links:
                used.add((link.library.name, link.library.span))
        what = "libraries are not imported that no imported code calls"
        for _, graph in self._levels():
            for library in graph.libraries.values():
                if (library.name, library.span) not in used:
                    self._say.warn_together(library.name, what, library.span)

    def _levels(self) -> Iterator[tuple[Way, HopesGraph]]:
        yield (), self._graph
        for way, t in self._tasks.items():
            if t.graph is not None:
                yield way, t.graph

    # -- tasks -------------------------------------------------------------------------------------
    def _source(self, way: Way, task: HopesTask) -> HopesSource:
        near = Path(task.span.file).parent
        file = self._project.below(task.code, near)
        if file is None:
            raise _Unusable("its file is not in the project")
        _refuse_own_libraries(task)
        headers = self._headers(task, near)
        closed: dict[Path, None] = {}
        for path in (*headers, file):
            closed |= self._closure(path, task.language)
        further = self._further(task, near, closed)
        code = " ".join(self._read[path].code for path in closed)
        cpp = _is_cpp(task, code, further)
        if not _has_word("TASK_GO", code):
            raise _Unusable(f"there is no TASK_GO in {shown(task.code)}")
        links = tuple(self._link(way, port) for port in dict.fromkeys(_CALL.findall(code)))
        for link in links:
            for name in link.files:
                closed |= self._called(link.library, self._project.files / name, cpp)
        lacks = [word for word in ("TASK_INIT", "TASK_WRAPUP") if not _has_word(word, code)]
        words: set[str] = set()
        for path in closed:
            words.update(re.findall(r'"(\w+)"', self._read[path].text))
        files = {self._named(path): self._read[path].data for path in closed}
        return HopesSource(
            self._named(file),
            files,
            links,
            tuple(lacks),
            frozenset(words),
            tuple(map(self._named, headers)),
            cpp,
            tuple(map(self._named, further)),
            {m[1]: int(m[2]) for m in HELD.finditer(self._read[file].text)},
        )

    def _headers(self, task: HopesTask, near: Path) -> list[Path]:
        """The files that are included before the code of a task."""
        headers = {name: self._anywhere(name, near) for name in task.headers}
        for name, header in headers.items():
            if header is None:
                raise _Unusable(f"its header {shown(name)} is not in the project")
        return [header for header in headers.values() if header is not None]

    def _anywhere(self, name: str, near: Path) -> Path | None:
        """The file of that name, preferably in a folder."""
        return self._project.below(name, near) or self._project.anywhere(name)

    def _called(self, library: HopesLibrary, file: Path, cpp: bool) -> dict[Path, None]:
        """A file of a library, with those that it includes."""
        closed = self._closure(file, library.language)
        if not cpp and _other_than_c(library.language) and _CPP.search(self._content(file).code):
            raise _Unusable(f"library {shown(library.name)} is {library.language}")
        return closed

    def _further(self, task: HopesTask, near: Path, closed: dict[Path, None]) -> tuple[Path, ...]:
        """The sources that are linked with a task: those that it names, and those of headers that
        are read.

        Their includes are added to `closed`.
        """
        found: dict[Path, None] = {}
        while True:
            names = dict.fromkeys((*task.sources, *self._behind_headers(closed)))
            paths = [self._linked(name, near) for name in names]
            new = [path for path in paths if path not in closed]
            if not new:
                return tuple(found)
            for path in new:
                found[path] = None
                closure = self._closure(path, task.language)
                closed |= closure
                self._refuse_calls(path, closure)

    def _behind_headers(self, closed: Iterable[Path]) -> Iterator[str]:
        """Names of sources that tasks are linked with, beside headers that are read."""
        for path in closed:
            if path.suffix in (".h", ".hpp"):
                for end in _COMPILED:
                    if path.stem + end in self._sources:
                        yield path.stem + end

    def _refuse_calls(self, source: Path, closure: Iterable[Path]) -> None:
        """A further source calls no functions of HOPES."""
        for path in closure:
            call = _OFFERED.search(self._read[path].code)
            if call is not None:
                called = call.group().split("(")[0]
                raise _Unusable(f"its further source {shown(source.name)} calls `{called}`")

    def _linked(self, name: str, near: Path) -> Path:
        """A source that is linked with a task."""
        path = self._anywhere(name, near)
        if path is None:
            raise _Unusable(f"its further source {shown(name)} is not in the project")
        if path.suffix not in (".c", *_CPP_ENDINGS):
            if path.suffix == ".cu":
                raise _Unusable("it is CUDA")
            raise _Unusable(f"it is linked with {shown(path.name)}")
        return path

    def _link(self, way: Way, port: str) -> CalledLibrary:
        """The library behind a port, if it can be used."""
        library = self._behind(way, port)
        if library.calls:
            raise _Unusable(f"library {shown(library.name)} calls another one")
        if library.stateful and self._users[library.name, library.span] > 1:
            raise _Unusable(f"library {shown(library.name)} has a state that several tasks share")
        files = self._files(library)
        code = " ".join(self._content(path).code for path in files)
        for word in ("init", "wrapup"):
            if re.search(rf"\bLIBFUNC\s*\([^,()]*,\s*{word}\b", code) is None:
                raise _Unusable(f"library {shown(library.name)} has no function `{word}`")
        return CalledLibrary(port, library, tuple(map(self._named, files)))

    def _behind(self, way: Way, port: str) -> HopesLibrary:
        """The library behind a port, searched outwards."""
        level, name, outer = way[:-1], way[-1], port
        while True:
            graph = self._graph_of(level)
            if (name, outer) in graph.calls:
                break
            above = self._port_above(level, (name, outer))
            if above is None:
                raise _Unusable(f"no library is connected to its port {shown(port)}")
            level, name, outer = level[:-1], level[-1], above
        library = graph.libraries.get(graph.calls[name, outer])
        if library is None:
            raise _Unusable(f"there is no library {shown(graph.calls[name, outer])}")
        return library

    def _graph_of(self, level: Way) -> HopesGraph:
        """The graph of a composite, or of the project."""
        inside = None
        if level:
            inside = self._tasks[level].graph
        return inside or self._graph

    def _port_above(self, level: Way, end: tuple[str, str]) -> str | None:
        """The library port of a composite that leads to a port inside; None if there is none."""
        if level:
            for port, inside in self._tasks[level].libraries.items():
                if inside == end:
                    return port
        return None

    def _files(self, library: HopesLibrary) -> list[Path]:
        """The header of a library, if it has one, and its code."""
        near = Path(library.span.file).parent
        files: list[Path] = []
        missing: list[str] = []
        for name in (library.header, library.file):
            path = None
            if name:
                path = self._project.below(name, near)
            if path is not None:
                files.append(path)
            elif name:
                missing.append(name)
        if missing or not library.file:
            raise _Unusable(
                f"there is no {listed(missing) or 'file'} of library {shown(library.name)}"
            )
        return files

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
                waiting += self._includes(path, read.text, _other_than_c(language))
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
                called = request.replace("SYS_REQ_", "SYS_REQ(")
                if "(" in call:
                    called += ")"
                raise _Unusable(f"it calls `{called}`")

    def _includes(self, path: Path, text: str, cpp: bool) -> Iterator[Path]:
        """The local files that a file includes."""
        for said in _INCLUDE.findall(text):
            plain = _PLAIN_INCLUDE.fullmatch(said)
            if plain is None:
                raise _Unusable(f"it includes {shown(said.strip())}")
            quote, name = plain.groups()
            local = None
            if quote == '"':
                local = self._local(path, name)
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
        if os.path.isfile(place):
            return place
        return None

    def _named(self, path: Path) -> str:
        """The path below the project, in a form that C and other files can use."""
        name = os.path.relpath(path, self._project.files)
        if _SIMPLE_PATH.fullmatch(name) is None:
            raise _Unusable(f"{shown(name)} cannot be named in C")
        return name


def _has_word(word: str, code: str) -> bool:
    return re.search(rf"\b{word}\b", code) is not None


def _other_than_c(language: str) -> bool:
    return language not in ("", "C")


def _refuse_own_libraries(task: HopesTask) -> None:
    """A task that is linked with a library of the project: there may be others of that name for
    other tasks."""
    libraries = re.findall(r"(?:^|\s)-l\s*(\S+)", task.linked)
    if libraries and re.search(r"(?:^|\s)-L\s*\.", task.linked):
        raise _Unusable(f"it is linked with {shown(libraries[0])}, a library of the project")


def _is_cpp(task: HopesTask, code: str, further: Iterable[Path]) -> bool:
    """Is a task compiled as C++? Without a compiler for it, code that is also valid C is used."""
    cpp = _other_than_c(task.language) and any(map(shutil.which, _COMPILERS))
    if not cpp and _other_than_c(task.language) and _CPP.search(code):
        raise _Unusable(f"it is {task.language}, and there is no g++ here")
    for path in further:
        if cpp != (path.suffix in _CPP_ENDINGS):
            language = "C" if cpp else "C++"
            raise _Unusable(f"its further source {shown(path.name)} is {language}")
    return cpp


def _compiled(text: str, defined: frozenset[str]) -> Iterator[str]:
    """The lines of code, without those that only an undefined name would enable: these are
    empty."""
    #: Whether the present part of each open condition may be compiled, outermost first.
    enabled: list[bool] = []
    for line in text.splitlines(keepends=True):
        found = None
        if "#" in line:
            found = _CONDITION.match(line)
        if found is not None:
            word, name = found[1], found[2].strip()
            if word in ("if", "ifdef", "ifndef"):
                enabled.append(_may_hold(word, name, defined))
            elif word in ("elif", "else") and enabled:
                enabled[-1] = True
            elif word == "endif" and enabled:
                enabled.pop()
        yield line if all(enabled) else "\n"


def _may_hold(word: str, name: str, defined: frozenset[str]) -> bool:
    """May an `#if` hold? Not `#if 0`, nor `#ifdef` of a name that is known to be undefined."""
    if word == "if":
        return name != "0"
    if word == "ifndef" or name in defined or name in _OF_SYSTEM:
        return True
    return re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) is None


def _without_comment(found: re.Match[str]) -> str:
    said = found.group()
    if said.startswith("/"):
        return " " + "\n" * said.count("\n")
    return said
