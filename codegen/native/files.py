"""The files of a native program, beside those of the same program in Python.

In: a deployment that a native program can carry out. Out: files: main.cpp, the runtime in
`native/`, and build.sh, which compiles them. What is in Python there is the harness, and the
program that it compares with; a machine that only runs the native program needs none of it.
"""

from __future__ import annotations

from pathlib import Path

from ...templates import __file__ as TEMPLATES
from .. import c_text
from ..deploy import Deployed
from ..emit import readme
from ..in_c import compile_command, is_cpp, shell_word
from ..printing import printing
from ..sources import Plan
from .main_cpp import main_cpp
from .symbols import symbols_of

#: The executable that build.sh makes, and the one of its recorder, for the harness.
PROGRAM = "main"
RUNTIME = Path(TEMPLATES).resolve().parent / "native" / "runtime"
_FLAGS = "-std=gnu++17 -O2 -Wall"


def native_files(deployed: Deployed) -> Plan:
    """What makes the program of a build a native one."""
    jinja = printing().overlay()
    jinja.filters = {**jinja.filters, "c": c_text.text}
    symbols = symbols_of(deployed.deployment)
    plan: Plan = {"main.cpp": main_cpp(jinja, deployed.deployment)}
    for file in sorted(RUNTIME.glob("*.?pp")):
        plan[f"native/{file.name}"] = file.read_bytes()
    sources = []
    for source in symbols.sources:
        sources.append(
            {
                "source": source,
                "cpp": is_cpp(source),
                "compile": _compile(source),
                "symbols": list(symbols.in_source(source).items()),
                "object": shell_word(_object(source)),
            }
        )
    objects = [shell_word(_object(source)) for source in symbols.sources]
    link = " ".join(
        [
            "${CXX:-g++}",
            _FLAGS,
            "$CFLAGS $CXXFLAGS",
            f"-o {PROGRAM}",
            "main.cpp",
            "native/program.o",
            *objects,
            '-lm -ldl -lpthread "$@"',
        ]
    )
    plan["README.md"] = readme(deployed, native=True)
    text = jinja.get_template("native/build.sh.j2").render(sources=sources, link=link)
    plan["build.sh"] = text.encode()
    return plan


def executables_of(deployed: Deployed) -> tuple[str, ...]:
    """What build.sh makes."""
    sources = symbols_of(deployed.deployment).sources
    return (*map(_object, sources), "native/program.o", PROGRAM)


def _object(source: str) -> str:
    return source.rsplit(".", 1)[0] + ".o"


def _compile(source: str) -> str:
    """The compiler call for a source of tasks: an object, where Python programs have a library."""
    words = compile_command(source)
    compiler = "${CXX:-g++} $CFLAGS $CXXFLAGS" if is_cpp(source) else "${CC:-cc} $CFLAGS"
    kept = [
        w for w in words[2:] if w not in ("-shared", "-fPIC") and not w.startswith(("-l", "-Wl"))
    ]
    made = [_object(source) if w.endswith(".so") else w for w in kept]
    return " ".join([compiler, "-c", *(shell_word(word) for word in made)])
