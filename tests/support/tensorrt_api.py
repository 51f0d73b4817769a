"""Type-check programs for TensorRT against its genuine Python bindings, without a GPU and without
its libraries.

The bindings are on PyPI as small wheels of NVIDIA's, but every version of them is the module
`tensorrt_bindings`, so an environment holds one at a time. `python tests/support/tensorrt_api.py`
puts all three beside each other under the prefix of this environment; tests for which a version is
missing are skipped.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from limits import HANGS

BINDINGS = {
    # the oldest: 8.5, which the AGX Xavier has, is not on PyPI
    "trt8": ("tensorrt_bindings", "8.6.1"),
    "trt10": ("tensorrt_cu12_bindings", "10.3.0"),
    "trt11": ("tensorrt_cu13_bindings", "11.4.0.106"),
}
"""Distribution and version of each dialect."""

FETCHED = Path(sys.prefix) / "share" / "tensorrt"

_CACHE = Path(__file__).resolve().parents[2] / ".mypy_cache" / "programs"

LIBRARIES = ("nvinfer", "nvonnxparser", "nvinfer_plugin", "nvparsers")

SYMBOLS = (
    "createInferBuilder_INTERNAL",
    "createInferRuntime_INTERNAL",
    "createInferRefitter_INTERNAL",
    "createNvOnnxParser_INTERNAL",
    "createNvOnnxParserRefitter_INTERNAL",
    "getPluginRegistry",
    "getBuilderPluginRegistry",
    "getNvOnnxParserVersion",
    "initLibNvInferPlugins",
    # The parsers of UFF and Caffe, up to 8.6. They are C++, but their mangled names are names in C.
    "_ZN11nvuffparser15createUffParserEv",
    "_ZN11nvuffparser8FieldMapC1EPKcPKvNS_9FieldTypeEi",
    "_ZN14nvcaffeparser117createCaffeParserEv",
    "_ZN14nvcaffeparser123shutdownProtobufLibraryEv",
)
"""What the bindings want of the libraries in order to be imported; nothing of it is called."""

WRITE = """
import pybind11_stubgen, sys, tensorrt

for kind in [value for value in vars(tensorrt).values() if isinstance(value, type)]:
    for name, member in list(vars(kind).items()):
        if isinstance(member, property) and member.fget is None:
            # pybind11-stubgen leaves out what can only be set, such as IExecutionContext.device_memory.
            setattr(kind, name, property(lambda self: None, member.fset))
pybind11_stubgen.main(["tensorrt", "--print-invalid-expressions-as-is", "-o", sys.argv[1]])
"""

DIMENSIONS = re.compile(r"(?<![\w.])(?:Dims(?:HW|\d)?|Permutation)(?!\w)")


def fetch(dialect: str) -> None:
    """Install the bindings of a dialect where `stubs` looks for them."""
    distribution, version = BINDINGS[dialect]
    folder = FETCHED / dialect
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
    ]
    subprocess.run(
        [*command, "--target", str(folder), f"{distribution}=={version}"],
        check=True,
        timeout=10 * HANGS,
    )


def bindings(dialect: str) -> Path | None:
    """The package of a dialect's bindings: fetched, or installed in this environment."""
    version = BINDINGS[dialect][1]
    installed = importlib.util.find_spec("tensorrt_bindings")
    found = (installed and installed.submodule_search_locations) or ()
    for package in (FETCHED / dialect / "tensorrt_bindings", *map(Path, found)):
        # Of two versions installed, only the later one's files are left, whatever their metadata
        # says.
        module = package / "__init__.py"
        if module.is_file() and f'__version__ = "{version}"' in module.read_text():
            return package
    return None


def stubs(dialect: str, folder: Path) -> Path:
    """Write the type stubs of a dialect as the package `tensorrt`; returns the folder that holds
    this package.

    Skips the test where the bindings, pybind11-stubgen or a C compiler are missing.
    """
    package = bindings(dialect)
    if package is None:
        pytest.skip(
            f"{'=='.join(BINDINGS[dialect])} is not installed: run python tests/tensorrt_api.py"
        )
    if importlib.util.find_spec("pybind11_stubgen") is None:
        pytest.skip("pybind11-stubgen is not installed")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    home = folder / dialect
    raw, libraries, modules = home / "raw", home / "lib", home / "modules"
    libraries.mkdir(parents=True)
    modules.mkdir()
    # On a board the package is called `tensorrt`; imported under this name, every stub says so,
    # too.
    (modules / "tensorrt").symlink_to(package.resolve(), target_is_directory=True)
    source, library = libraries / "empty.c", libraries / "empty.so"
    source.write_text("".join(f"void {symbol}(void) {{}}\n" for symbol in SYMBOLS))
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True, timeout=HANGS
    )
    for name in LIBRARIES:
        shutil.copy(library, libraries / f"lib{name}.so.{BINDINGS[dialect][1].split('.')[0]}")
    done = subprocess.run(
        [sys.executable, "-c", WRITE, str(raw)],
        env=os.environ
        | {
            "LD_LIBRARY_PATH": str(libraries),
            "PYTHONPATH": str(modules),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    (home / "tensorrt").mkdir()
    for stub in sorted((raw / "tensorrt").glob("*.pyi")):
        (home / "tensorrt" / stub.name).write_text(repaired(stub.read_text()))
    return home


def type_faults(program: Path, stub_folder: Path) -> list[str]:
    """What mypy finds in a program, one `line: error: message  [code]` each.

    A function without types is a fault as well: mypy would not know that its parameters are
    TensorRT's objects.
    """
    return type_faults_of([program], stub_folder)[program.name]


def type_faults_of(programs: Sequence[Path], stub_folder: Path) -> dict[str, list[str]]:
    """The same for several programs in one folder, by name: most of the time goes to what mypy does
    once."""
    (folder,) = {p.parent for p in programs}
    if not (stub_folder / "tensorrt" / "__init__.pyi").is_file():
        # mypy would take all of it for right
        raise FileNotFoundError(f"no stubs of tensorrt in {stub_folder}")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=",
        "--no-error-summary",
        "--no-color-output",
        "--no-pretty",
    ]
    command += [
        "--hide-error-context",
        "--check-untyped-defs",
        "--disallow-untyped-defs",
        "--strict-equality",
    ]
    # Only the program is judged; cuda-python and the like need not be installed.
    command += ["--ignore-missing-imports", "--follow-imports=silent"]
    # a build is a package, and its scripts run by themselves as well
    command += ["--explicit-package-bases"]
    # One cache for all dialects and all who ask: most of the time goes to numpy.
    command += [f"--cache-dir={_CACHE}", *(p.name for p in programs)]
    done = subprocess.run(
        command,
        env=os.environ | {"MYPYPATH": str(stub_folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    # The stubs have faults of their own, such as an `__eq__` that takes one class: these change
    # nothing.
    own = {
        p.name: [
            x.removeprefix(f"{p.name}:")
            for x in done.stdout.splitlines()
            if x.startswith(f"{p.name}:")
        ]
        for p in programs
    }
    if done.returncode > 1 and not any(own.values()):
        raise RuntimeError(done.stdout + done.stderr)
    return {name: [line for line in lines if ": error: " in line] for name, lines in own.items()}


def repaired(text: str) -> str:
    """A stub as pybind11-stubgen writes it, made valid and true: C++ is left in its signatures."""
    text = re.sub(r"<\w+\.\w+: -?\d+>", "...", text)  # the default `<DataType.FLOAT: 0>`
    # nvinfer1::v_1_0::IErrorRecorder
    text = re.sub(r"\b(?:[a-z]\w*::)+(?=[A-Z])", "", text).replace("::", ".")
    # pybind11 3 says SupportsInt where it refuses a float (tried), and also of what it gives to a
    # callback.
    text = text.replace("typing.SupportsInt", "int").replace("typing.SupportsFloat", "float")
    tree = ast.parse("\n".join(map(_parseable, text.splitlines())))
    return ast.unparse(ast.fix_missing_locations(_Repair(tree).visit(tree)))


def _parseable(line: str) -> str:
    """A line of a stub; of a signature that is not Python, only the name and, if possible, the
    result."""
    signature = re.match(r"(\s*def \w+)\(.*\)( -> .*)?:$", line)
    if signature is None:
        return line
    anything = f"{signature[1]}(*args: typing.Any, **kwargs: typing.Any)"
    # A parameter called `in`, one without a default behind one with, a template of C++.
    for candidate in (line, f"{anything}{signature[2] or ''}:"):
        try:
            ast.parse(candidate.strip() + " ...")
        except SyntaxError:
            continue
        return candidate
    return f"{anything} -> typing.Any:"


class _Repair(ast.NodeTransformer):
    """Make each annotation mean what the bindings do."""

    def __init__(self, module: ast.Module) -> None:
        self.types = {"typing"} | {
            node.name for node in module.body if isinstance(node, ast.ClassDef)
        }
        for node in module.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.types |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        # `tensorrt.bool` is a data type; in an annotation, `bool` is Python's.
        targets = (node.target for node in module.body if isinstance(node, ast.AnnAssign))
        self.shadowed = {target.id for target in targets if isinstance(target, ast.Name)} & vars(
            builtins
        ).keys()

    def visit_Module(self, node: ast.Module) -> ast.Module:
        self.generic_visit(node)
        node.body[1:1] = ast.parse("import builtins, typing").body  # behind `from __future__`
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.body = [*_protocols(node), *node.body]
        self.generic_visit(node)
        node.body = [part for member in node.body for part in _assignable(member)]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        parameters = node.args.args
        for parameter in parameters:
            if parameter.arg == "self":
                parameter.annotation = None  # sometimes another class than the one it stands in
            elif parameter.annotation is not None:
                parameter.annotation = _converted(self.annotation(parameter.annotation))
        defaults = node.args.defaults
        for parameter, default in zip(
            parameters[len(parameters) - len(defaults) :], defaults, strict=True
        ):
            if ast.unparse(default) == "None" and parameter.annotation is not None:
                parameter.annotation = _expression(f"{ast.unparse(parameter.annotation)} | None")
        if node.returns is not None:
            node.returns = self.annotation(node.returns)
            # What a program has to reckon with, such as an engine that cannot be read. After an
            # index out of range the documentation has "or :class:`None`", which would only make
            # programs assert what they know.
            if re.search(r":returns:.* or None\b", ast.get_docstring(node) or ""):
                node.returns = _expression(f"{ast.unparse(node.returns)} | None")
        node.body = [ast.Expr(ast.Constant(...))]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.annotation = self.annotation(node.annotation)
        return node

    def annotation(self, node: ast.expr) -> ast.expr:
        """With the names of Python for those of C++, and `Any` for a name that nothing defines."""
        return _expression(
            re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda word: self._name(word[0]), ast.unparse(node))
        )

    def _name(self, name: str) -> str:
        if name in self.shadowed:
            return f"builtins.{name}"
        if name in self.types or hasattr(builtins, name):
            return name
        # the IBuilder of C++ is Builder
        return name[1:] if name[1:] in self.types else "typing.Any"


def _protocols(node: ast.ClassDef) -> list[ast.stmt]:
    """What Python can do with an object and its stub does not say."""
    methods = [member for member in node.body if isinstance(member, ast.FunctionDef)]
    names = {method.name for method in methods}
    added = ""
    if node.name == "IHostMemory":
        # a serialized engine; no class says that it is a buffer before Python 3.12
        added = "def __buffer__(self, flags: int) -> memoryview: ..."
    elif {"__len__", "__getitem__"} <= names and "__iter__" not in names:  # iterates by index
        for method in methods:
            if (
                method.name == "__getitem__"
                and ast.unparse(method.args).endswith(": int")
                and method.returns is not None
            ):
                added = f"def __iter__(self) -> typing.Iterator[{ast.unparse(method.returns)}]: ..."
    return ast.parse(added).body


def _assignable(node: ast.stmt) -> list[ast.stmt]:
    """An attribute that gives dimensions and takes any sequence."""
    if not isinstance(node, ast.AnnAssign) or not DIMENSIONS.fullmatch(
        ast.unparse(node.annotation)
    ):
        return [node]
    name, given, taken = (
        ast.unparse(part) for part in (node.target, node.annotation, _converted(node.annotation))
    )
    getter = f"@property\ndef {name}(self) -> {given}: ..."
    return ast.parse(
        f"{getter}\n@{name}.setter\ndef {name}(self, value: {taken}) -> None: ..."
    ).body


def _converted(node: ast.expr) -> ast.expr:
    """What a parameter takes: pybind11 makes dimensions of a sequence (the docstring of Dims, and
    tried)."""
    return _expression(DIMENSIONS.sub(r"\g<0> | typing.Sequence[int]", ast.unparse(node)))


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


if __name__ == "__main__":
    for known in BINDINGS:
        fetch(known)
