"""A plan to a directory: the only function that writes a build.

The files in a build directory's manifest belong to flowc: they are replaced, any other file stops
the build. Everything is written to a temporary folder beside it first, then moved in, so that
nothing half-written remains. A link inside the directory is not followed: neither it nor a manifest
can lead to files outside.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from ..model.diagnostic import Diagnostic
from ..model.files import has_link, make_folders, read_bytes, scratch
from ..model.json_reader import parse_version
from ..model.version import __version__
from .compiler import absent, absent_tools, failure_of
from .elf import defined_names
from .emit import digest
from .in_c import (
    FIRINGS,
    compile_command,
    failing,
    is_cpp,
    not_called,
    preprocess,
    remedy,
    shell_word,
)
from .kept import Object, keep, keys_of, put_kept
from .sources import CTask, Plan

MANIFEST, MANIFEST_VERSION = ".flowc-manifest.json", 1
STAGE = ".flowc-new-"
#: How files begin that programs write: reports, traces, recordings.
_OF_A_RUN = (
    rb'\{\s*"version": \d+,\s*"status": -?\d+,\s*"failure": |\{"traceEvents": \[|\x89MCAP0\r\n'
)
#: Folders that a program creates beside itself: compiled Python, and plans of TensorRT.
MADE_THERE = ("__pycache__", "engines")


class CannotWrite(Exception):
    """The build cannot be written; carries the diagnostics."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(diagnostics[0].message)
        self.diagnostics = diagnostics


def write(
    plan: Plan,
    directory: Path,
    c_tasks: Mapping[str, dict[str, tuple[CTask, ...]]],
    *,
    force: bool = False,
    made_there: tuple[str, ...] = MADE_THERE,
    objects: tuple[Object, ...] = (),
    linked: tuple[str, ...] = (),
) -> bool:
    """Write and compile a build; False if the directory holds exactly this already.

    `c_tasks` are the C sources of each program in it, by its folder ("" = the directory), with the
    tasks that use them. `made_there` are folders that other tools fill: see `refuse_foreign`.
    `objects` and `linked` are the files that its build.sh makes. Raises CannotWrite; then the
    directory is unchanged.
    """
    refuse_foreign(directory, force, made_there)
    _refuse_obstacles(directory, plan)
    compiler = []
    if any(c_tasks.values()):
        compiler = [os.environ.get("CC", "cc"), os.environ.get("CFLAGS", "")]
    if linked:
        compiler += [os.environ.get("CXX", "g++"), os.environ.get("CXXFLAGS", "")]
    identity = {"digest": digest(plan), "compiler": compiler}
    manifest = _manifest(directory)
    if (
        manifest.get("identity") == identity
        and manifest.get("stamps") == _stamps(directory, listed(directory))
        and _are_made_of(directory, c_tasks, objects, plan, manifest.get("objects"))
    ):
        return False
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        # Inside an existing directory: it may be a mount point, or its parent may be read-only.
        with scratch(directory if directory.exists() else directory.parent, STAGE) as stage:
            _fill(stage, plan)
            keys: dict[str, str | None] = {}
            for folder, tasks in c_tasks.items():
                libraries = compile_tasks(stage / folder, tasks, list(_below(folder, plan)))
                keys |= {str(PurePath(folder, path)): key for path, key in libraries.items()}
            if linked:
                sources = [source for tasks in c_tasks.values() for source in tasks]
                keys |= run_build_script(stage, sources, objects)
            files = sorted([*plan, *keys, *linked])
            document = {
                "version": MANIFEST_VERSION,
                "identity": identity,
                "flowc": __version__,
                "files": files,
                "objects": keys,
                "stamps": _stamps(stage, files),
            }
            (stage / MANIFEST).write_text(json.dumps(document, indent=1) + "\n")
            _move_in(stage, directory, files)
        return True
    except OSError as error:
        reason = error.strerror or str(error)
        help_text = "choose another place with `-o`"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            help_text = f"free some space, or {help_text}"
        raise CannotWrite(
            Diagnostic("F605", f"cannot write `{directory}`: {reason}", None, help=help_text)
        ) from error


def _stamps(directory: Path, files: list[str]) -> dict[str, list[int]]:
    """Size and time of each file: changed or damaged files are written again."""
    stamps = {}
    for file in files:
        with contextlib.suppress(OSError):
            status = (directory / file).lstat()
            stamps[file] = [status.st_size, status.st_mtime_ns]
    return stamps


def _manifest(directory: Path) -> dict[str, Any]:
    try:
        return parse_version(read_bytes(directory / MANIFEST), "manifest", MANIFEST_VERSION)
    except (OSError, ValueError):
        return {}


def listed(directory: Path) -> list[str]:
    """The files that flowc wrote, by the manifest. It may have been edited: only files inside
    count."""
    files = _manifest(directory).get("files")
    if not isinstance(files, list):
        return []
    return [f for f in files if isinstance(f, str) and _is_inside(directory, f)]


def _is_inside(directory: Path, file: str) -> bool:
    path = PurePath(file)
    if not path.parts or ".." in path.parts or path.is_absolute() or "\0" in file:
        return False
    return not has_link(directory, path.parent) and not (directory / path).is_dir()


def _refuse_obstacles(directory: Path, plan: Plan) -> None:
    for path in plan:
        if has_link(directory, PurePath(path).parent):
            message = f"`{directory / path}` has to be written, but a folder above it is a link"
            raise _obstacle(message, "remove it, or choose another place with `-o`")
        if (directory / path).is_dir():
            message = (
                f"`{directory / path}` is a directory, but a file of that name has to be written"
            )
            raise _obstacle(message, "remove it, or choose another place with `-o`")


def _obstacle(message: str, help_text: str) -> CannotWrite:
    return CannotWrite(Diagnostic("F604", message, None, help=help_text))


def refuse_foreign(directory: Path, force: bool, made_there: tuple[str, ...] = MADE_THERE) -> None:
    """Raise CannotWrite if the directory holds files that flowc did not write (unless forced).

    Folders with a name in `made_there` are not checked. What a run has written into its build stays
    there.
    """
    if force or not directory.exists():
        return
    if not directory.is_dir():
        raise _obstacle(f"`{directory}` is a file", "choose another place with `-o`")
    own = listed(directory)
    foreign = sorted(_files_in(directory, made_there) - {*own, MANIFEST})
    if own:
        foreign = [file for file in foreign if not _is_of_a_run(directory / file)]
    if foreign:
        shown = ", ".join(f"`{f}`" for f in foreign[:3])
        if len(foreign) > 3:
            shown += f" and {len(foreign) - 3} more"
        raise _obstacle(
            f"`{directory}` holds files that flowc did not write: {shown}",
            "choose another place with `-o`, or use `--force` (those files stay unless a new file"
            " has the same name)",
        )


def _is_of_a_run(file: Path) -> bool:
    """Is it a report, a trace or a recording, by its beginning?"""
    try:
        with file.open("rb") as stream:
            return re.match(_OF_A_RUN, stream.read(200)) is not None
    except OSError:
        return False


def _files_in(directory: Path, made_there: tuple[str, ...]) -> set[str]:
    """All files and links, without folders with a name in `made_there`, and those of writing."""
    paths: set[str] = set()
    for folder, folders, files in os.walk(directory):
        links = [f for f in folders if (Path(folder) / f).is_symlink()]
        folders[:] = [f for f in folders if f not in made_there and not f.startswith(STAGE)]
        paths.update(str((Path(folder) / f).relative_to(directory)) for f in (*files, *links))
    return paths


def _fill(stage: Path, plan: Plan) -> None:
    for path, content in plan.items():
        target = stage / path
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise RuntimeError(f"a plan may not leave its directory: {path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            shutil.copyfile(content, target)
    stage.chmod(0o755)


def _move_in(stage: Path, directory: Path, files: list[str]) -> None:
    """Replace the files of an earlier build, by renaming inside one file system: each file is old
    or new, never half."""
    if not directory.exists():
        os.rename(stage, directory)
        return
    for old in listed(directory):
        if old not in files:
            (directory / old).unlink(missing_ok=True)
    for path in [*files, MANIFEST]:
        os.replace(
            stage / path, make_folders(directory, PurePath(path).parent) / PurePath(path).name
        )
    _forget_compiled(directory, files)


def _forget_compiled(directory: Path, files: list[str]) -> None:
    """Remove what Python has compiled of earlier files: it takes a file of the same size and second
    for the one that it knows."""
    for folder in {PurePath(path).parent for path in files}:
        compiled = folder / "__pycache__"
        if has_link(directory, compiled):
            continue
        for file in (directory / compiled).glob("*.pyc"):
            if str(folder / f"{file.name.partition('.')[0]}.py") in files:
                with contextlib.suppress(OSError):
                    file.unlink()


def _below(folder: str, plan: Plan) -> Iterator[str]:
    """The paths of a plan in a folder ("" = all), as they are there."""
    for path in plan:
        if PurePath(path).is_relative_to(folder):
            yield str(PurePath(path).relative_to(folder))


def _are_made_of(
    directory: Path,
    c_tasks: Mapping[str, dict[str, tuple[CTask, ...]]],
    objects: Sequence[Object],
    plan: Plan,
    keys: Any,
) -> bool:
    """Would compilers read the same for each object of a build as they did for these keys?"""
    now = dict(keys_of(directory, objects))
    for folder, tasks in c_tasks.items():
        libraries = _libraries(tasks, list(_below(folder, plan)))
        found = keys_of(directory / folder, libraries.values())
        now |= {str(PurePath(folder, path)): key for path, key in found.items()}
    return now == (keys or {}) and None not in now.values()


def compile_tasks(
    stage: Path, c_tasks: Mapping[str, tuple[CTask, ...]], files: Collection[str]
) -> dict[str, str | None]:
    """Compile each C source; returns the libraries with their keys.

    A failure shows the compiler's output at the place in the .flow, or the prototype of a function
    that is not there.
    """
    libraries = _libraries(c_tasks, files)
    keys = keys_of(stage, libraries.values())
    for source, library in libraries.items():
        others = put_kept(stage, [library], keys)
        if others:
            _compile(stage, source, c_tasks)
        names = defined_names((stage / library.path).read_bytes())
        if names is not None:
            tasks = c_tasks.get(source, ())
            missing = dict.fromkeys(f for task in tasks for f in not_called(task, names))
            if missing:
                raise CannotWrite(*missing)
        keep(stage, others, keys)
    return keys


def _libraries(
    c_tasks: Mapping[str, tuple[CTask, ...]], files: Collection[str]
) -> dict[str, Object]:
    """The libraries of a program, by their sources."""
    sources = sorted(c_tasks)
    if sources and FIRINGS in files:
        sources.append(FIRINGS)
    libraries = {}
    for source in sources:
        path = f"{source.rsplit('.', 1)[0]}.so"
        call = " ".join(map(shell_word, compile_command(source)))
        own = (FIRINGS,) if source == FIRINGS else ()
        libraries[source] = Object(path, preprocess(call, path), (call,), own)
    return libraries


def _compile(stage: Path, source: str, c_tasks: Mapping[str, tuple[CTask, ...]]) -> None:
    command = [
        *os.environ.get("CC", "cc").split(),
        *os.environ.get("CFLAGS", "").split(),
        *compile_command(source)[2:],
    ]
    tasks = c_tasks.get(source) or next(iter(c_tasks.values()))
    code = tasks[0].code
    try:
        said = failure_of(command, stage)
    except FileNotFoundError as error:
        raise CannotWrite(absent("CC", code.span)) from error
    if said is None:
        return
    file, help_text = source, "it is flowc's own file: check the variables CC and CFLAGS"
    if source != FIRINGS:
        file = code.file
        said = said.replace(source, file)
        of = {task.code.symbol: task.code for task in tasks}
        code = of[failing(said, tuple(of))]
        help_text = remedy(said, code.symbol)
    message = f"`{file}` does not compile\n{said.strip()}"
    raise CannotWrite(Diagnostic("F306", message, code.span, help=help_text))


def run_build_script(
    stage: Path, sources: Sequence[str], objects: Sequence[Object]
) -> dict[str, str | None]:
    """Compile a native program with these sources of tasks; returns the objects with their keys.
    The objects that are kept are there before."""
    tools = ["CXX"]
    if sources:
        tools.append("OBJCOPY")
    if any(is_cpp(source) for source in sources):
        tools.append("LD")
    missing = absent_tools(tools)
    if missing:
        raise CannotWrite(*missing)
    keys = keys_of(stage, objects)
    others = put_kept(stage, objects, keys)
    said = failure_of(["sh", "build.sh"], stage, {"FLOWC_KEEP": "1"})
    if said is not None:
        message = f"the native program does not compile\n{said.strip()}"
        help_text = "check the variables CC, CXX, OBJCOPY, CFLAGS and CXXFLAGS"
        raise CannotWrite(Diagnostic("F306", message, None, help=help_text))
    keep(stage, others, keys)
    return keys
