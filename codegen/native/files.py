"""The files of a native program, beside those of the same program in Python.

In: a deployment that a native program can carry out. Out: files: main.cpp, the runtime in
`native/`, build.sh, which compiles them, and for networks the library of ONNX Runtime. What is in
Python there is the harness, and the program that it compares with; a machine that only runs the
native program needs none of it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ...model.deployment import Deployment
from ...templates import __file__ as TEMPLATES
from .. import c_text
from ..carried import LICENSE
from ..deploy import Deployed
from ..emit import readme
from ..in_c import compile_command, is_cpp, shell_word
from ..printing import printing
from ..sources import Plan
from .main_cpp import has_networks, main_cpp
from .symbols import symbols_of

#: The executable that build.sh makes, and the one of its recorder, for the harness.
PROGRAM = "main"
#: Where it looks for ONNX Runtime.
LIBRARY = "lib/libonnxruntime.so.1"
RUNTIME = Path(TEMPLATES).resolve().parent / "native" / "runtime"
_FLAGS = "-std=gnu++17 -O2 -Wall"


def native_files(deployed: Deployed) -> Plan:
    """What makes the program of a build a native one."""
    jinja = printing().overlay()
    jinja.filters = {**jinja.filters, "c": c_text.text}
    symbols = symbols_of(deployed.deployment)
    networks = has_networks(deployed.deployment)
    plan: Plan = {"main.cpp": main_cpp(jinja, deployed.deployment)}
    for file in sorted(RUNTIME.glob("*.?pp")):
        if file.stem == "network" and not networks:
            continue
        plan[f"native/{file.name}"] = file.read_bytes()
    plan["native/LICENSE"] = LICENSE.read_bytes()
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
    library = onnxruntime_library() if networks else None
    if library is not None:
        plan[LIBRARY] = library
        plan |= {f"lib/onnxruntime/{text.name}": text.read_bytes() for text in _licenses(library)}
    link = " ".join(
        [
            "${CXX:-g++}",
            _FLAGS,
            "$CFLAGS $CXXFLAGS",
            f"-o {PROGRAM}",
            "main.cpp",
            *(shell_word(o) for o in _objects(deployed.deployment)),
            '-lm -ldl -lpthread "$@"',
        ]
    )
    plan["README.md"] = readme(deployed, native=True)
    text = jinja.get_template("native/build.sh.j2").render(
        sources=sources, link=link, networks=networks
    )
    plan["build.sh"] = text.encode()
    return plan


def executables_of(deployed: Deployed) -> tuple[str, ...]:
    """What build.sh makes."""
    return (*_objects(deployed.deployment), PROGRAM)


def _objects(deployment: Deployment) -> list[str]:
    common = ["native/program.o"]
    if has_networks(deployment):
        common.append("native/network.o")
    return [*common, *map(_object, symbols_of(deployment).sources)]


def onnxruntime_library() -> Path | None:
    """The shared library in the package of ONNX Runtime; None if the package has none."""
    found = find_spec("onnxruntime")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for file in sorted(Path(folder, "capi").glob("libonnxruntime.so.*")):
            return file
    return None


def _licenses(library: Path) -> list[Path]:
    """The texts that the package of ONNX Runtime has about its license and those of its parts."""
    texts = (library.parent.parent / name for name in ("LICENSE", "ThirdPartyNotices.txt"))
    return [text for text in texts if text.is_file()]


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
