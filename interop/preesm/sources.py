"""The C files of a project that actors need, and their places beside the text.

In: the headers that actors name, and the functions that they call. Out: files by their new paths,
and the functions that they define. In PREESM, the project's makefile defines the sources and the
search path of headers; here a header implies the source of the same name, and includes are searched
beside the file, beside the headers of actors, then anywhere in the project. Contents are unchanged,
except `#include <x.h>` of a header that is among those of actors, because there is no search path
beside the text. Nothing is compiled.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .files import PreesmCollector, PreesmProject, read_text, start_of

#: The folder of the project's files: one below the generated file, so that `../include/x.h` stays
#: inside.
ROOM = "src"
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_ANGLED = re.compile(r"^([ \t]*#[ \t]*include[ \t]*)<([^>\n]+)>", re.MULTILINE)
#: C's own headers, also between quotes.
_STANDARD = """
assert complex ctype errno fenv float inttypes limits locale math setjmp signal stdalign stdarg
stdatomic stdbool stddef stdint stdio stdlib string tgmath threads time uchar wchar wctype
"""
_PLAIN = re.compile(r"[\w.+ -]+(/[\w.+ -]+)*", re.ASCII)
_DEFINED = re.compile(r"\b([A-Za-z_]\w*)\s*\([^;{}()]*(?:\([^;{}()]*\)[^;{}()]*)*\)\s*\{")
#: At the start of a line: definitions that belong to one file alone.
_STATIC = re.compile(
    r"^static\b[^;{}()=]*?\b([A-Za-z_]\w*)[ \t]*(?:\[[^\]\n]*\][ \t]*)*[=;(]", re.MULTILINE
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MOST = 400
STAND_IN = """/* Stands in for the file of this name, which is not in the project. */
#ifndef PREESM_H
#define PREESM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN
#define OUT

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#endif
"""


@dataclass(slots=True)
class PreesmSources:
    """`placed` are files by their paths beside the text, a text if there is no file; `sources`
    those to compile."""

    project: PreesmProject
    say: PreesmCollector
    placed: dict[str, Path | str] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    headers: dict[Path, str] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    _named: dict[str, list[Path]] = field(default_factory=dict)
    _folders: dict[Path, None] = field(default_factory=dict)

    def collect(self, headers: Iterable[Path], functions: Iterable[str]) -> None:
        """Place the files that headers need, then sources that define the functions still
        missing."""
        for file in self.project.files:
            if _PLAIN.fullmatch(file.name):
                self._named.setdefault(file.name, []).append(file)
        headers = [h for h in headers if _PLAIN.fullmatch(h.name)]
        self._folders.update(dict.fromkeys(h.parent for h in headers))
        for header in headers:
            self.headers[header] = self._place(header, posixpath.join(ROOM, header.name))
        for function in functions:
            if function not in self.defined:
                found = next(self._defining(function), None)
                if found is not None:
                    self._source(found)

    def contents(self) -> Iterator[tuple[str, str | bytes]]:
        """The files by their paths."""
        for path, file in self.placed.items():
            text: str | None
            if isinstance(file, str):
                text = file
            else:
                text = read_text(file)
            if text is not None:
                yield path, self._quoted(text)

    def compiled(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Sources, with those of their static names that an earlier one has as well: in one unit
        they would conflict."""
        known: set[str] = set()
        for path in self.sources:
            file = self.placed[path]
            text = ""
            if isinstance(file, Path):
                text = _COMMENT.sub(" ", read_text(file) or "")
            own = dict.fromkeys(_STATIC.findall(text))
            yield path, tuple(name for name in own if name in known)
            known |= own.keys()

    def mentions(self, word: str) -> Path | None:
        """The first file that uses a word."""
        for file in self.placed.values():
            if isinstance(file, Path):
                text = _COMMENT.sub(" ", read_text(file) or "")
                if re.search(rf"\b{word}\b", text):
                    return file
        return None

    def _place(self, file: Path, path: str) -> str:
        """A file, what it includes, and the source of a header."""
        if path in self.placed or len(self.placed) >= _MOST:
            return path
        self.placed[path] = file
        text = self._quoted(read_text(file) or "")
        bare = _COMMENT.sub(" ", text)
        self.defined |= set(_DEFINED.findall(bare))
        for name in dict.fromkeys(_INCLUDE.findall(text)):
            self._include(file, path, name)
        if file.suffix == ".h":
            named = self._named.get(f"{file.stem}.c", [])
            beside = [f for f in named if self._part(f) == self._part(file)]
            if beside:
                self._source(_nearest(beside, file))
        return path

    def _include(self, file: Path, path: str, name: str) -> None:
        """A file that one, whose place is `path`, includes by that name."""
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        if target.startswith(("tasks.", "..", "/")) or not _PLAIN.fullmatch(target):
            self.say.warn_together(
                name, "included from outside of the project, and left out", start_of(file)
            )
            return
        found = self._included(file, name)
        if found is not None:
            self._place(found, target)
        elif posixpath.basename(name) == "preesm.h":
            self.placed.setdefault(target, STAND_IN)
        elif name.removesuffix(".h") not in _STANDARD.split():
            self.say.warn_together(name, "included, and not in the project", start_of(file))

    def _quoted(self, text: str) -> str:
        """The text with quotes around the names of headers that are among those of actors."""

        def quoted(found: re.Match[str]) -> str:
            own = any(self.project.holds(folder / found[2]) for folder in self._folders)
            if own:
                return f'{found[1]}"{found[2]}"'
            return found[0]

        return _ANGLED.sub(quoted, text)

    def _source(self, file: Path) -> None:
        path = posixpath.join(ROOM, file.name)
        if path not in self.placed:
            self._place(file, path)
            self.sources.append(path)

    def _included(self, file: Path, name: str) -> Path | None:
        for folder in (file.parent, *self._folders):
            beside = Path(os.path.normpath(folder / name))
            if self.project.holds(beside):
                return beside
        known = self._named.get(posixpath.basename(name), [])
        fitting = [f for f in known if f.as_posix().endswith(f"/{name}")] or known
        if fitting:
            return _nearest(fitting, file)
        return None

    def _part(self, file: Path) -> str:
        """The folder below the project: `Code` and `CodeC6678` are programs for different
        machines."""
        return os.path.relpath(file, self.project.root).split(os.sep)[0]

    def _defining(self, function: str) -> Iterator[Path]:
        parts = {self._part(h) for h in self.headers}
        for files in self._named.values():
            for file in files:
                if file.suffix != ".c" or self._part(file) not in parts:
                    continue
                text = read_text(file) or ""
                if function in text and function in _DEFINED.findall(_COMMENT.sub(" ", text)):
                    yield file


def _nearest(files: Iterable[Path], to: Path) -> Path:
    """The file with the longest common path; a folder `src` before others."""

    def distance(file: Path) -> tuple[int, bool, str]:
        common = len(Path(os.path.commonpath([file, to])).parts)
        return len(file.parts) - 2 * common, file.parent.name != "src", str(file)

    return min(files, key=distance)
