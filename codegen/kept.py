"""Objects and libraries that compilers have made before, in the user's cache folder.

In: an object, in the folder of its build. Out: that object without compiling it, if all that it was
made of is the same: its commands, what the preprocessor now makes of its source (with all that the
source includes or asks for, wherever that is), tools, variables and machine.

All native programs have one runtime, candidates of a search one set of tasks, and a candidate that
runs again one main.cpp. An object is not kept if it may be made of more than that: files that
assembler code or a flag names are in no list of a compiler.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..model.files import own_cache, read_bytes, replace_file, scratch
from ..model.json_reader import parse_object
from .compiler import TOOLS, command_of, failure_of

#: Variables that change what a compiler makes.
VARIABLES = (
    *("CFLAGS", "CXXFLAGS"),
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("LIBRARY_PATH", "LD_RUN_PATH"),
)
#: Objects that are kept, those that were used last, and their bytes; and the bytes of one at most.
MOST, MOST_BYTES, LARGEST = 200, 1 << 27, 1 << 24
#: Flags with a value for the preprocessor, whose output shows it, and flags that name no file.
_FOR_PREPROCESSOR = r"-(?:I|D|U|isystem|iquote|idirafter|include|imacros)"
_SEEN_FLAG = re.compile(
    rf"{_FOR_PREPROCESSOR}.+|--sysroot=.+|-f[\w-]+-prefix-map=.+"
    r"|-f(?!plugin|profile|auto-profile|modules)[\w=,+-]+|-W[\w=+-]*|-m[\w=.,+-]+"
    r"|-(?:[Og]\w*|std=[\w+]+|pedantic|pipe|pthread|static|w)"
)
#: Preprocessed text of which a compiler may read more: assembler code (except other names of
#: symbols, which headers of the system have), and data that a preprocessor leaves to the compiler.
_UNSEEN = re.compile(
    rb'\b(?:asm|__asm|__asm__)\b(?!\s*\(\s*(?:"\w*"\s*)+\))|[.\\]\w*incbin|^\s*#\s*embed\b',
    re.MULTILINE,
)
#: Digests of what the preprocessor made of flowc's own text, which only reads the system's headers.
_OWN: dict[str, str | None] = {}


@dataclass(frozen=True, slots=True)
class Object:
    """A file that compilers make in the folder of a build, by these lines of a script.

    `preprocess` prints what the compiler reads. `own` are the files and folders of the build that
    the object is made of, if flowc wrote them all.
    """

    path: str
    preprocess: str
    commands: tuple[str, ...]
    own: tuple[str, ...] = ()


def keys_of(stage: Path, objects: Iterable[Object]) -> dict[str, str | None]:
    """What the objects of a build are made of: with the same key, an object is the same. None if
    that cannot be known."""
    return {each.path: _key(stage, each) for each in objects}


def put_kept(
    stage: Path, objects: Iterable[Object], keys: Mapping[str, str | None]
) -> list[Object]:
    """Put the objects that are kept into the folder of a build; returns the others."""
    return [o for o in objects if not _put(stage, o, _place(keys[o.path]))]


def keep(stage: Path, objects: Iterable[Object], keys: Mapping[str, str | None]) -> None:
    """Keep objects that were just made there."""
    for each in objects:
        place = _place(keys[each.path])
        if place is not None:
            with contextlib.suppress(OSError, ValueError):
                _keep(stage, each, place)


def _place(key: str | None) -> Path | None:
    folder = None if key is None else own_cache("objects")
    return None if folder is None or key is None else folder / key


def _key(stage: Path, made: Object) -> str | None:
    if not _flags_are_seen():
        return None
    key = hashlib.sha256()
    for word in (*_machine(), made.path, *made.commands):
        key.update(f"{len(word)} {word}".encode(errors="surrogateescape"))
    if not made.own:
        read = _read(stage, made)
    else:
        own = key.copy()
        for file in _files(stage, made.own):
            own.update(file.read_bytes())
        name = own.hexdigest()
        if name not in _OWN:
            _OWN[name] = _read(stage, made)
        read = _OWN[name]
    if read is None:
        return None
    key.update(read.encode())
    return key.hexdigest()


def _flags_are_seen() -> bool:
    """Is all that flags make compilers read in the key?"""
    tools = (command_of(name)[1:] for name in TOOLS)
    text = " ".join([word for words in tools for word in words])
    for name in ("CFLAGS", "CXXFLAGS"):
        text = f"{text} {os.environ.get(name, '')}"
    words = re.sub(rf"(?<!\S)({_FOR_PREPROCESSOR})\s+", r"\1", text).split()
    return all(_SEEN_FLAG.fullmatch(word) or shutil.which(word) for word in words)


def _files(stage: Path, paths: Iterable[str]) -> Iterator[Path]:
    """Sources and headers at these paths, and in those that are folders."""
    for path in paths:
        if (stage / path).is_dir():
            found = (stage / path).iterdir()
            yield from sorted(file for file in found if file.suffix in (".cpp", ".hpp", ".h"))
        elif (stage / path).exists():  # a unit has no header of a library
            yield stage / path


def _read(stage: Path, made: Object) -> str | None:
    """A digest of what the compiler reads; None if it may read more than the preprocessor shows."""
    with scratch() as folder:
        text = folder / "text"
        if failure_of(["sh", "-c", f'{made.preprocess} >"$0"', str(text)], stage) is not None:
            return None
        content = text.read_bytes()
    if not made.own and _UNSEEN.search(content):
        return None
    return hashlib.sha256(content).hexdigest()


def _machine() -> Iterator[str]:
    """Of this machine, of its tools and the variables for them all that has a say."""
    yield platform.node()
    yield platform.machine()
    for name in VARIABLES:
        yield os.environ.get(name, "")
    for name in TOOLS:
        for word in command_of(name):
            found = shutil.which(word)
            yield word if found is None else f"{word} {found} {_stamp(os.path.realpath(found))}"


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
        (stage / made.path).write_bytes(content)
        os.utime(place.with_suffix(".o"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return True


def _keep(stage: Path, made: Object, place: Path) -> None:
    """Raises OSError, and ValueError for an object that is too large."""
    content = read_bytes(stage / made.path, LARGEST)
    about = {"digest": hashlib.sha256(content).hexdigest()}
    replace_file(place.with_suffix(".json"), json.dumps(about))
    replace_file(place.with_suffix(".o"), content)
    _forget(place.parent)


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
