"""A build carries the files of the runtime that it can use, and no others."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from flowc.codegen.carried import RUNTIME, carried, imports_in
from flowc.runtime import FACES

from builds import HANGS, ROOT, Write, build

TASKS = "def make(): return 1\ndef same(x): return x\ndef take(x): pass\n"
DECLARED = """
task Make { out x: int64  python "t.py:make" }
task Same { in x: int64  out y: int64  python "t.py:same" }
task Take { in x: int64  python "t.py:take" }
platform two { cpu core[2] }
"""
PLAIN = DECLARED + "app A { m: Make  s: Same  t: Take  m -> s -> t }\n"
STATES = (
    PLAIN
    + """
app B { m: Make  t: Take  m -> t }
scenario Modes { event turn  initial state one { run A, B }  state two { run A }  one -> two on turn  two -> one on turn }
"""
)
LINKED = (
    DECLARED
    + "app A { m: Make  t: Take  m -> t }\napp B { s: Same  t: Take  A.m -> latest -> s  s -> t }\n"
)


def imported(out: Path, *words: str) -> set[str]:
    """The files of the runtime that a process of a build imports, also in its children."""
    command = [sys.executable, "-X", "importtime", *words]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=out, capture_output=True, text=True, timeout=HANGS, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return set(re.findall(r"\| +(?:\w+\.)?runtime\.(\w+)$", done.stderr, re.MULTILINE))


def test_the_license_goes_with_the_runtime() -> None:
    assert carried(())["runtime/LICENSE"] == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("text", [PLAIN, STATES, LINKED], ids=["plain", "states", "linked"])
def test_every_file_is_imported_by_something(write: Write, tmp_path: Path, text: str) -> None:
    out = build(write(text, t_py=TASKS), tmp_path / "built", platform="two")
    carried = {f.stem for f in (out / "runtime").glob("*.py")} - {"__init__"}
    named = set(
        re.findall(
            r"\w+", re.findall(r"from runtime import (.*)", (out / "main.py").read_text())[0]
        )
    )
    opened = "import sys; sys.path.insert(0, '..'); import built; built.open(3).stop()"
    used = imported(out, "main.py", "--frames", "3", "--trace", "t.json")
    used |= imported(out, "main.py", "--frames", "3", "--record", "r.mcap")
    used |= imported(out, "main.py", "--replay", "r.mcap")
    used |= imported(out, "-m", "runtime.outcomes", "o.json") | imported(out, "-c", opened)
    if text == STATES:
        (out / "events").write_text("3 A turn\n")
        used |= imported(out, "main.py", "--frames", "9", "--events", "events")
    # what `import_module` loads is not in the list of imports
    used |= {FACES[name] for name in named} | {"outcomes"}
    assert carried - used == set()


def test_a_plain_program_carries_no_devices_states_or_other_machines(
    write: Write, tmp_path: Path
) -> None:
    out = build(write(PLAIN, t_py=TASKS), tmp_path / "out", platform="two")
    carried = {f.stem for f in (out / "runtime").glob("*.py")}
    assert not carried & {
        "adapt",
        "bands",
        "control",
        "cuda",
        "device",
        "engines",
        "fresh",
        "link",
        "process",
        "scheduling",
        "select",
        "transport",
    }
    assert sum(len(f.read_text().splitlines()) for f in (out / "runtime").glob("*.py")) < 12800


def test_no_modules_of_the_runtime_import_each_other_in_a_circle() -> None:
    """Imports inside of functions count."""
    modules = sorted(f.stem for f in RUNTIME.glob("*.py") if f.stem != "__init__")
    reached = {
        module: {Path(file).stem for file in carried((), [module])} - {module} for module in modules
    }
    circles = [(a, b) for a, b in combinations(modules, 2) if b in reached[a] and a in reached[b]]
    assert len(modules) > 50 and not circles


def _imports(tree: ast.Module) -> Iterator[str]:
    """The same as `imports_in`, of all statements."""
    left: list[ast.stmt] = [*tree.body]
    while left:
        statement = left.pop()
        if isinstance(statement, ast.ImportFrom) and statement.level == 1:
            if statement.module is None:
                yield from (alias.name for alias in statement.names)
            else:
                yield statement.module.partition(".")[0]
        elif isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            left += statement.orelse
        else:
            for field in ("body", "orelse", "finalbody"):
                left += getattr(statement, field, ())
            for handler in getattr(statement, "handlers", ()):
                left += handler.body


def test_imports_are_found_as_python_finds_them() -> None:
    strange = """
if TYPE_CHECKING:
    from .types import A

    from .more import B
else:
    from .real import A
def f():
    try:
        from . import (
            one,  # two
            three as four,
        )
    except ImportError:
        from .other.inner import x  # from .none import y
    if TYPE_CHECKING:
        from .hidden import z
    from . import last
from ..outside import w
"""
    found = {"real", "one", "three", "other", "last"}
    assert set(imports_in(strange)) == set(_imports(ast.parse(strange))) == found
    texts = [f.read_text() for f in (*RUNTIME.glob("*.py"), *ROOT.glob("interop/*/there/*.py"))]
    assert len(texts) > 90
    for text in texts:
        assert set(imports_in(text)) == set(_imports(ast.parse(text)))
