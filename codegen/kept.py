"""Objects and libraries that compilers have made before, in the user's cache folder.

In: an object, in the folder of its build. Out: that object without a compiler, if all that it was
made of is the same: its commands, the files of the build beside its source, tools, variables and
machine, and the headers of the system (by size and time).

All native programs have one runtime, candidates of a search one set of tasks, and a candidate that
runs again one main.cpp. What cannot be read is made again, and what cannot be written is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from ..model.files import own_cache, read_bytes, replace_file
from ..model.json_reader import parse_object
from .compiler import TOOLS, command_of

#: Variables that change what a compiler makes.
VARIABLES = (
    *("CFLAGS", "CXXFLAGS"),
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
)
#: Objects that are kept, those that were used last, and their bytes; and the bytes of one at most.
MOST, MOST_BYTES, LARGEST = 200, 1 << 27, 1 << 24
#: A word of a rule as compilers write it for make: blanks in it have a backslash.
_WORD = re.compile(r"(?:[^\s\\]|\\.)+")


@dataclass(frozen=True, slots=True)
class Object:
    """A file that compilers make in the folder of a build, by these lines of a script, out of
    files and folders there."""

    path: str
    made_of: tuple[str, ...]
    commands: tuple[str, ...]

    def is_made_of(self, file: str) -> bool:
        """May the compiler read that file of the build?"""
        return any(file == part or file.startswith(f"{part}/") for part in self.made_of)

    @property
    def rule(self) -> str:
        """The file in which the compiler says what it has read, with `-MD`."""
        return str(PurePath(self.path).with_suffix(".d"))


def put_kept(stage: Path, objects: Iterable[Object], files: Collection[str]) -> list[Object]:
    """Put the objects that are kept into the folder of a build with these files; returns the
    others."""
    return [o for o in objects if not _put(stage, o, _place(stage, o, files))]


def keep(stage: Path, objects: Iterable[Object], files: Collection[str]) -> None:
    """Keep objects that were just made there, with what compilers say of them, which is removed."""
    for each in objects:
        place = _place(stage, each, files)
        with contextlib.suppress(OSError, ValueError):
            if place is not None:
                _keep(stage, each, place)
        (stage / each.rule).unlink(missing_ok=True)


def _place(stage: Path, made: Object, files: Collection[str]) -> Path | None:
    """Where it is kept: the name says what it is made of, but for headers of the system."""
    folder = own_cache("objects")
    if folder is None:
        return None
    key = hashlib.sha256()
    for word in (*_machine(), made.path, *made.commands):
        key.update(f"{len(word)} {word}".encode(errors="surrogateescape"))
    for file in sorted(file for file in files if made.is_made_of(file)):
        content = (stage / file).read_bytes()
        key.update(f"{len(file)} {file} {len(content)} ".encode(errors="surrogateescape"))
        key.update(content)
    return folder / key.hexdigest()


def _machine() -> Iterator[str]:
    """Of this machine, of its tools and the variables for them all that has a say."""
    yield platform.node()
    yield platform.machine()
    for name in VARIABLES:
        yield os.environ.get(name, "")
    for name in TOOLS:
        words = command_of(name)
        found = shutil.which(words[0])
        yield " ".join(words)
        yield "" if found is None else f"{found} {_stamp(os.path.realpath(found))}"


def _stamp(file: str) -> list[int]:
    found = os.stat(file)
    return [found.st_size, found.st_mtime_ns]


def _put(stage: Path, made: Object, place: Path | None) -> bool:
    """Is it kept, and as it was made?"""
    if place is None:
        return False
    try:
        about = parse_object(read_bytes(place.with_suffix(".json")))
        content = read_bytes(place.with_suffix(".o"), LARGEST)
        if about["digest"] != hashlib.sha256(content).hexdigest():
            return False
        if any(_stamp(header) != stamp for header, stamp in about["headers"].items()):
            return False
        (stage / made.path).write_bytes(content)
        os.utime(place.with_suffix(".o"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return True


def _keep(stage: Path, made: Object, place: Path) -> None:
    """Raises OSError, and ValueError where it is not known what it was made of."""
    content = read_bytes(stage / made.path, LARGEST)
    headers = {}
    for file in _read_by_compiler((stage / made.rule).read_text(errors="surrogateescape")):
        if os.path.isabs(file):
            headers[file] = _stamp(file)
        elif ".." in PurePath(file).parts:
            raise ValueError(f"{file} is outside of the build")
    about = {"digest": hashlib.sha256(content).hexdigest(), "headers": headers}
    replace_file(place.with_suffix(".json"), json.dumps(about))
    replace_file(place.with_suffix(".o"), content)
    _forget(place.parent)


def _read_by_compiler(rule: str) -> list[str]:
    """The files behind the colon of a rule for make."""
    _, colon, files = rule.partition(": ")
    if not colon:
        raise ValueError("not a rule")
    return [word.replace("\\ ", " ") for word in _WORD.findall(files.replace("\\\n", " "))]


def _forget(folder: Path) -> None:
    """Remove the objects that were not used for longest."""
    found = [(file.stat(), file) for file in folder.glob("*.o")]
    total = 0
    for number, (about, file) in enumerate(sorted(found, key=_last_used, reverse=True)):
        total += about.st_size
        if number >= MOST or total > MOST_BYTES:
            file.unlink(missing_ok=True)
            file.with_suffix(".json").unlink(missing_ok=True)


def _last_used(found: tuple[os.stat_result, Path]) -> int:
    return found[0].st_mtime_ns
