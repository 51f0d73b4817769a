"""A compiler for programs in C++ that does not compile again what is the same in all of them: the
runtime, and its header for main.cpp, as it is read with and without the recorder. Programs that are
libraries as well have a runtime of another kind, which the first of them makes, and no header."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flowc.codegen.native.files import RUNTIME

#: Seconds for one call.
LIMIT = 300
#: In a hurry: compilers take most of the time of tests.
QUICK = "-O0"
_COMPILER = """\
#!/bin/sh
kind=
for word; do
    case "$word" in
    -E)
        exec {compiler} "$@"
        ;;
    -fPIC)
        kind=.in_library
        ;;
    native/program.cpp)
        made={folder}/program$kind.o
        if [ ! -e $made ]; then
            {compiler} "$@" && cp native/program.o $made.$$ && exec mv $made.$$ $made
            exit 1
        fi
        exec cp $made native/program.o
        ;;
    main.cpp)
        [ -z "$kind" ] || exec {compiler} "$@"
        ln -s {folder}/flow.hpp.gch native/
        {compiler} "$@"
        status=$?
        rm native/flow.hpp.gch
        exit $status
        ;;
    esac
done
exec {compiler} "$@"
"""


@contextmanager
def in_a_hurry(shared: Path) -> Iterator[None]:
    """All programs in C++ are compiled by `quick` meanwhile."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in quick(shared).items():
            patched.setenv(name, value)
        yield


def quick(shared: Path) -> dict[str, str]:
    """The variables of the compiler that all tests have in common. What it keeps is in the folder
    that their processes share; the first one makes it."""
    folder = shared / "compiler"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # no limit: who holds it compiles, and that has one
        variables = _variables(folder, QUICK)
        if not Path(variables["CXX"]).exists():
            compiler(folder, QUICK)
    return variables


def compiler(folder: Path, flags: str) -> dict[str, str]:
    """The variables that name it, with these flags for all that it compiles. What it keeps is in a
    folder."""
    command = os.environ.get("CXX", "g++")
    shutil.copytree(RUNTIME, folder / "runtime", dirs_exist_ok=True)
    (folder / "flow.hpp.gch").mkdir(exist_ok=True)

    def run(*words: str) -> None:
        called = [command, "-std=gnu++17", "-Wall", *words]
        subprocess.run(
            called, cwd=folder / "runtime", check=True, capture_output=True, timeout=LIMIT
        )

    run(*flags.split(), "-c", "-o", "../program.o", "program.cpp")
    for name, words in (("plain", ()), ("recorder", ("-DFLOWC_RECORD",))):
        made = ("-x", "c++-header", "-o", f"../flow.hpp.gch/{name}", "flow.hpp")
        run("-O2", *flags.split(), *words, *made)
    variables = _variables(folder, flags)
    script = Path(variables["CXX"])
    script.write_text(_COMPILER.format(folder=folder, compiler=command))
    script.chmod(0o755)
    return variables


def _variables(folder: Path, flags: str) -> dict[str, str]:
    return {"CXX": str(folder / "cxx"), "CFLAGS": flags, "CXXFLAGS": flags}
