"""The files of a unit to an archive: compile the library in a temporary folder, then zip
everything.

Nothing is written elsewhere. Entries are in order and have one date, so that the same files and the
same compiler make the same bytes.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from ...model.diagnostic import Diagnostic, Errors
from ...model.files import scratch
from ..compiler import failure_of
from ..in_c import PROTOTYPES
from ..sources import CTask
from ..write import CannotWrite, compile_tasks, run_build_script
from .files import FLAGS, UnitFiles

#: The date of all entries, the first one that an archive can hold.
_DATE = (1980, 1, 1, 0, 0, 0)
#: How sources/build.py begins to say what it needs of Python.
_OF_PYTHON = (" has no cffi", " has no Python.h", " has no shared libpython")


def pack(made: UnitFiles, c_tasks: Mapping[str, tuple[CTask, ...]]) -> bytes:
    """The archive. Raises Errors, and OSError if the temporary folder cannot be written."""
    with scratch() as stage:
        for path, content in made.plan.items():
            target = stage / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.read_bytes())
        (stage / made.library).parent.mkdir(parents=True)
        if made.objects:
            _compile_native(stage / "sources", made, c_tasks)
        else:
            _compile(stage, made, c_tasks)
        return _zipped(stage, sorted([*made.plan, made.library]))


def _zipped(stage: Path, paths: list[str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in paths:
            entry = zipfile.ZipInfo(path, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if path.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, (stage / path).read_bytes())
    return stream.getvalue()


def _compile(stage: Path, made: UnitFiles, c_tasks: Mapping[str, tuple[CTask, ...]]) -> None:
    """Compile each C file of tasks separately, so that its errors have a place in the text; then
    make the library."""
    faults, objects = [], []
    for path, source in made.units.items():
        code = c_tasks[source][0].code
        objects.append(f"{Path(path).stem}.o")
        said = _run(stage, [*_compiler(), "-c", Path(path).name, "-o", objects[-1]])
        if isinstance(said, Diagnostic):
            faults.append(said)
            break
        if said is not None:
            message = f"`{code.file}` does not compile\n{said.strip().replace(source, code.file)}"
            faults.append(Diagnostic("F306", message, code.span, help=PROTOTYPES))
    if faults:
        raise Errors(faults)
    if made.unit.called:
        said = _run(stage, [sys.executable, "build.py"])
    else:
        rest = [f"{made.unit.face}.c", "model.c"]
        command = [*_compiler(), "-shared", *objects, *rest, "-o", f"../{made.library}", "-lm"]
        said = _run(stage, command)
    if isinstance(said, Diagnostic):
        raise Errors([said])
    if said is not None:
        raise Errors([_no_library(made, said.strip())])


def _compile_native(
    sources: Path, made: UnitFiles, c_tasks: Mapping[str, tuple[CTask, ...]]
) -> None:
    """The same by the script in the folder of sources."""
    inside = [path.removeprefix("sources/") for path in made.plan if path.startswith("sources/")]
    try:
        compile_tasks(sources, c_tasks, inside)
        run_build_script(sources, list(c_tasks), made.objects)
    except CannotWrite as error:
        raise Errors(error.diagnostics) from error


def _no_library(made: UnitFiles, said: str) -> Diagnostic:
    message = f"the library of `{made.unit.name}` cannot be built\n{said}"
    if "multiple definition" in said or "duplicate symbol" in said:
        help_text = "two C files define one name: make what only its own file uses `static`"
    elif any(missing in said for missing in _OF_PYTHON):
        help_text = "install it"
        if not any(path.startswith("resources/tasks/") for path in made.plan):
            help_text += ", or build it with `--target native-fmu`: no task is in Python"
    else:
        help_text = "the message is that of the compiler, or of sources/build.py in the unit"
    return Diagnostic("F619", message, None, help=help_text)


def _compiler() -> list[str]:
    return [
        *shlex.split(os.environ.get("CC", "cc")),
        *FLAGS,
        *shlex.split(os.environ.get("CFLAGS", "")),
    ]


def _run(stage: Path, command: list[str]) -> str | Diagnostic | None:
    """The error of a failed command in the folder of sources, else None."""
    try:
        return failure_of(command, stage / "sources")
    except FileNotFoundError:
        help_text = "install one (`apt install gcc`), or name it in the variable CC"
        return Diagnostic("F307", f"there is no C compiler `{command[0]}`", None, help=help_text)
