"""The files of a native program, beside those of the same program in Python.

In: a deployment that a native program can carry out. Out: files: main.cpp, the runtime in
`native/`, build.sh, which compiles them, and the libraries that run its networks. What is in Python
there is the harness, and the program that it compares with; a machine that only runs the native
program needs none of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ...model.deployment import Deployment
from ...templates import __file__ as TEMPLATES
from .. import c_text
from ..carried import LICENSE
from ..deploy import Deployed
from ..emit import readme
from ..in_c import compile_command, is_cpp, preprocess, shell_word
from ..kept import Object
from ..printing import printing
from ..sources import Plan
from .choice import chooses
from .engines import engine_libraries
from .kernels import compiled_kernels, has_kernels
from .library import header, library_of
from .main_cpp import ENGINES, engines_in, main_cpp, networks_on_gpu
from .states import main_with_states
from .symbols import Symbols, symbols_of

if TYPE_CHECKING:
    from jinja2 import Environment

#: What open ends are for: the functions of a library, or the steps of a unit.
Face = Literal["library", "unit"]
#: The executable that build.sh makes, and the one of its recorder, for the harness.
PROGRAM = "main"
RUNTIME = Path(TEMPLATES).resolve().parent / "native" / "runtime"
_EXPORTS = "native/exports.map"
_PROGRAM_O, _MAIN_O = "native/program.o", "main.o"
_STANDARD, LINKED = "-std=gnu++17", "-lm -ldl -lpthread"
_OF_MAIN, _OF_RUNTIME = "-O2 -Wall", "-O1 -Wall"
#: Of a program that is a library as well. Tasks need only the first one: others do not see them.
_IN_LIBRARY = "-fPIC -fvisibility=hidden"


def native_files(deployed: Deployed) -> Plan:
    """What makes the program of a build a native one."""
    jinja = printing_of()
    objects = objects_of(deployed)
    engines = engines_in(deployed.deployment)
    scenario = deployed.deployment.scenario
    if scenario is None:
        text_of_main = main_cpp(jinja, deployed.deployment)
    else:
        text_of_main = main_with_states(jinja, deployed.deployment, scenario)
    plan: Plan = {"main.cpp": text_of_main}
    library = library_of(deployed.deployment)
    if library is not None:
        plan[library.header] = header(jinja, deployed.deployment, library)
        plan[_EXPORTS] = library.exports
    plan |= compiled_kernels(deployed.deployment, deployed.files)
    plan |= runtime_files(deployed.deployment, None if library is None else "library")
    # what runs networks on a GPU has more files than that, and CUDA's libraries
    elsewhere = {"network"} if networks_on_gpu(deployed.deployment) else set()
    plan |= engine_libraries(engine for engine in engines if engine not in elsewhere)
    compiler = compiler_call(shared=library is not None)
    others = " ".join(shell_word(o.path) for o in objects if o.path != _MAIN_O)
    link = f'{compiler} -o {PROGRAM} "$@" {others} {LINKED}'
    shared = ""
    if library is not None:
        alone = f"-Wl,-Bsymbolic -Wl,--version-script={_EXPORTS}"
        shared = f"{compiler} -shared {alone} -o {library.file} main.o {others} {LINKED}"
    plan["README.md"] = readme(deployed, native=True)
    said = [
        {"word": shell_word(o.path), "commands": o.commands, "aside": o.path == _PROGRAM_O}
        for o in objects
    ]
    text = jinja.get_template("native/build.sh.j2").render(objects=said, link=link, shared=shared)
    plan["build.sh"] = text.encode()
    return plan


def printing_of() -> Environment:
    """The environment of the templates of native programs."""
    jinja = printing().overlay()
    jinja.filters = {**jinja.filters, "c": c_text.text}
    return jinja


def compiler_call(*, shared: bool = True) -> str:
    """The call that compiles main.cpp and links, as words of build.sh."""
    flags = f"{_OF_MAIN} {_IN_LIBRARY}" if shared else _OF_MAIN
    return f"${{CXX:-g++}} {_STANDARD} {flags} $CFLAGS $CXXFLAGS"


def runtime_files(deployment: Deployment, face: Face | None) -> Plan:
    """The runtime of a program, whose open ends are for such a caller."""
    unused = _unused(deployment, face)
    plan: Plan = {"native/LICENSE": LICENSE.read_bytes()}
    for file in sorted(RUNTIME.iterdir()):
        if file.stem not in unused:
            plan[f"native/{file.name}"] = file.read_bytes()
    return plan


def _unused(deployment: Deployment, face: Face | None) -> set[str]:
    """The files of the runtime that a program does not need, without their suffixes."""
    engines = engines_in(deployment)
    unused = set(ENGINES).difference(engines)
    unused |= set() if engines else {"inference"}
    unused |= set() if chooses(deployment.scenario) else {"choice"}
    unused |= set() if has_kernels(deployment) else {"gpu", "cuda_driver"}
    unused |= {"library", "unit"}.difference({face})
    return unused if face else unused | {"image"}


def objects_of(deployed: Deployed, face: Face = "library") -> tuple[Object, ...]:
    """The objects of a native program, whose open ends are for such a caller: the longest one
    first, beside the others."""
    symbols = symbols_of(deployed.deployment)
    library = library_of(deployed.deployment)
    common = [_PROGRAM_O]
    common += [f"native/{engine}.o" for engine in engines_in(deployed.deployment)]
    if has_kernels(deployed.deployment):
        common.append("native/gpu.o")
    beside = ["native", "main.cpp"]
    if library is not None:
        common.append(f"native/{face}.o")
        beside.append(library.header)
    shared = library is not None
    return (
        *(_in_cpp(path, _OF_RUNTIME, shared, "native") for path in common),
        *(_of_tasks(source, symbols, shared) for source in symbols.sources),
        _in_cpp(_MAIN_O, _OF_MAIN, shared, *beside),
    )


def _in_cpp(path: str, flags: str, shared: bool, *own: str) -> Object:
    source = path.replace(".o", ".cpp")
    flags = f"{flags} {_IN_LIBRARY}" if shared else flags
    call = f"${{CXX:-g++}} {_STANDARD} {flags} $CFLAGS $CXXFLAGS"
    return Object(path, f"{call} -E {source}", (f"{call} -c -o {path} {source}",), own)


def _of_tasks(source: str, symbols: Symbols, shared: bool) -> Object:
    """The object of a source, in which other files see its tasks alone."""
    path = source.rsplit(".", 1)[0] + ".o"
    word = shell_word(path)
    call = _compile(source, path, shared)
    commands = [call]
    if is_cpp(source):
        whole = shell_word(path + ".whole")
        commands.append(f"${{LD:-ld}} -r --force-group-allocation -o {whole} {word}")
        commands.append(f"mv {whole} {word}")
    names = symbols.in_source(source).items()
    renamed = [f"--redefine-sym {old}={new}" for old, new in names]
    visible = [f"--keep-global-symbol={new}" for _, new in names]
    for options in (renamed, visible):
        lines = ["${OBJCOPY:-objcopy}", *(f"    {option}" for option in options), f"    {word}"]
        commands += [f"{line} \\" for line in lines[:-1]] + lines[-1:]
    return Object(path, preprocess(call, path), tuple(commands))


def linked_by(deployed: Deployed) -> tuple[str, ...]:
    """What is linked of the objects."""
    library = library_of(deployed.deployment)
    return (PROGRAM,) if library is None else (PROGRAM, library.file)


def _compile(source: str, path: str, shared: bool) -> str:
    """The compiler call for a source of tasks: an object, where Python programs have a library."""
    left_out = ("-shared",) if shared else ("-shared", "-fPIC")
    words = compile_command(source)
    compiler = "${CXX:-g++} $CFLAGS $CXXFLAGS" if is_cpp(source) else "${CC:-cc} $CFLAGS"
    kept = [w for w in words[2:] if w not in left_out and not w.startswith(("-l", "-Wl"))]
    made = [path if w.endswith(".so") else w for w in kept]
    return " ".join([compiler, "-c", *(shell_word(word) for word in made)])
