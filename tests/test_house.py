"""Rules of the house that no other tool checks."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from flowc.interop.registry import Exporter, Importer, Target

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_is_listed() -> None:
    """A folder that is missing from the list works in an editable install and vanishes from the
    wheel."""
    beside = {"examples", "tests", "benchmarks", "docs", "typings", "build"}
    found = {"flowc"}
    for init in ROOT.glob("*/**/__init__.py"):
        parts = init.parent.relative_to(ROOT).parts
        if parts[0] not in beside and not parts[0].startswith("."):
            found.add(".".join(["flowc", *parts]))
    assert set(SETTINGS["tool"]["setuptools"]["packages"]) == found


def test_type_checkers_see_every_room() -> None:
    rooms = {p.split(".")[1] for p in SETTINGS["tool"]["setuptools"]["packages"] if "." in p}
    modules = {p.name for p in ROOT.glob("*.py")}
    seen = {p.name for p in (ROOT / "typings" / "flowc").iterdir()}
    assert rooms | modules | {"py.typed"} == seen


@pytest.mark.parametrize(
    "file",
    [
        f
        for room in ("runtime", "profiling/there", "interop/hopes/there", "machines")
        for f in sorted((ROOT / room).glob("*.py"))
    ],
    ids=lambda p: p.name,
)
def test_what_runs_on_old_boards_is_valid_there(file: Path) -> None:
    ast.parse(file.read_text(), feature_version=(3, 8))


@pytest.mark.parametrize("file", sorted(ROOT.glob("examples/*/*.py")), ids=lambda p: p.name)
def test_example_tasks_are_valid_on_old_boards(file: Path) -> None:
    ast.parse(file.read_text(), feature_version=(3, 8))


def test_nothing_asks_the_clock_that_is_set() -> None:
    """Times and waits are by clocks that only go on."""
    beside = {"examples", "tests", "benchmarks", "docs", "typings", "build"}
    judged = [
        f
        for f in ROOT.glob("*/**/*.py")
        if f.relative_to(ROOT).parts[0] not in beside and ".venv" not in f.parts
    ]
    assert len(judged) > 300
    for file in judged:
        text = file.read_text()
        asks = "time.time" in text or "now" in text or "utcnow" in text
        for node in ast.walk(ast.parse(text)) if asks else ():
            if isinstance(node, ast.Attribute):
                asked = ast.unparse(node)
                assert asked not in (
                    "time.time",
                    "time.time_ns",
                    "datetime.now",
                    "datetime.utcnow",
                ), f"{file}: {asked}"


def test_only_the_cli_prints_or_exits() -> None:
    """Whatever folder it is in; what is `there` are programs of their own."""
    free = {"cli", "runtime", "examples", "tests", "benchmarks", "docs", "typings", "build"}
    rooms = [r for r in ROOT.iterdir() if not r.name.startswith(".") and r.name not in free]
    files = [
        f for room in rooms for f in ([room] if room.suffix == ".py" else room.glob("**/*.py"))
    ]
    judged = [f for f in files if f.parent.name != "there"]
    assert any(len(f.relative_to(ROOT).parts) > 2 for f in judged)
    for file in judged:
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if "print" in text or "exit" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                called = ast.unparse(node.func)
                assert called not in ("print", "sys.exit", "exit"), (
                    f"{file.relative_to(ROOT)}:{node.lineno}"
                )


def test_every_package_is_banned_as_a_name_of_its_own() -> None:
    """`import dsl` works in a checkout and nowhere else."""
    rooms = {p.split(".")[1] for p in SETTINGS["tool"]["setuptools"]["packages"] if "." in p}
    assert set(SETTINGS["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]) == rooms


#: What may name a tool outside of its room: the list of packages and entry points, and the table of
#: all diagnostics.
NAME_ROOMS = {"pyproject.toml", "model/catalogue.py"}


def test_a_format_of_another_tool_is_one_room() -> None:
    """No file outside of its room names HOPES, nor is called after it; entry points lead there."""
    beside = {"examples", "tests", "benchmarks", "docs", "typings", "build", "interop"}
    suffixes = {".py", ".toml", ".j2", ".c", ".h", ".lark", ".js"}
    shared = [*ROOT.glob("*.toml"), *ROOT.glob("interop/*.py")]
    for room in ROOT.iterdir():
        if room.is_dir() and room.name not in beside and not room.name.startswith("."):
            shared += [f for f in room.rglob("*") if f.suffix in suffixes]
    assert len(shared) > 300
    naming = {
        str(f.relative_to(ROOT))
        for f in shared
        if "hopes" in str(f.relative_to(ROOT)).lower() or "hopes" in f.read_text().lower()
    }
    assert naming == NAME_ROOMS


def test_formats_of_flowc_are_installed() -> None:
    """An installation that is older than `pyproject.toml` lacks entry points: install it again."""
    known = SETTINGS["project"]["entry-points"]["flowc.formats"]
    installed = {e.name: e.value for e in entry_points(group="flowc.formats")}
    assert known.items() <= installed.items()
    for entry in entry_points(group="flowc.formats"):
        assert isinstance(entry.load(), Importer | Exporter | Target)


@pytest.mark.parametrize("page", ["architecture", "first_read", "one_firing"])
def test_the_map_of_the_code_names_what_is_there(page: str) -> None:
    """Of `FILE.py: name` in these pages, the file exists and has the name."""
    tracked = [
        str(file.relative_to(ROOT)) for file in ROOT.rglob("*.py") if ".venv" not in file.parts
    ]
    text = (ROOT / "docs" / f"{page}.md").read_text()
    missing = []
    for path, name in re.findall(r"`([\w/]+\.py)(?:: (\w+))?`", text):
        if "NAME" in path or "VERB" in path or path in ("main.py", "rounds.py", "build_engines.py"):
            continue  # of a build, or to be made
        files = [file for file in tracked if file == path or file.endswith(f"/{path}")]
        found = any(re.search(rf"\b{name}\b", (ROOT / file).read_text()) for file in files)
        if not found:
            missing.append(f"{path}: {name}")
    assert not missing
