"""The ledger: how many lines of code each room may have, and how long these are.

The table stands in pyproject.toml, `[tool.ledger]`. A change that needs a larger number raises it
there, in a line that its readers see, with the reason beside it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMITS: dict[str, list[float]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
    "ledger"
]
#: Suffixes of code.
CODE = {".py", ".j2", ".hpp", ".cpp", ".c", ".h", ".cu", ".js", ".css", ".html", ".lark"}
#: What a line of a comment begins with.
COMMENT = ("#", "//", "/*", "*", "{#")
#: Folders that builds, environments and tools make.
MADE = {"build", "dist", "node_modules", "__pycache__"}


@dataclass(frozen=True, slots=True)
class Size:
    """Lines of code, without blank lines and comments, and the characters in them."""

    lines: int = 0
    characters: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.lines + other.lines, self.characters + other.characters)

    @property
    def width(self) -> float:
        """Characters per line."""
        return self.characters / max(1, self.lines)


def size(text: str) -> Size:
    """The size of a file with this text."""
    lines = [line.strip() for line in text.splitlines()]
    code = [line for line in lines if line and not line.startswith(COMMENT)]
    return Size(len(code), sum(map(len, code)))


def files_of(room: Path) -> Iterator[Path]:
    """The files of code below a folder, without links."""
    for path in sorted(p for p in room.iterdir() if not p.is_symlink()):
        if path.is_dir():
            # A folder of the product may be called `build`: it is a package then.
            package = (path / "__init__.py").exists()
            if package or (not path.name.startswith(".") and path.name not in MADE):
                yield from files_of(path)
        elif path.suffix in CODE:
            yield path


def rooms(root: Path) -> dict[str, Size]:
    """The size of each folder of a tree; `root` is what lies outside of all."""
    found: dict[str, Size] = {}
    for path in files_of(root):
        parts = path.relative_to(root).parts
        room = parts[0] if len(parts) > 1 else "root"
        found[room] = found.get(room, Size()) + size(path.read_text())
    return found


def excesses(found: dict[str, Size], limits: dict[str, list[float]]) -> Iterable[str]:
    """What exceeds the table, and what to do."""
    for room, has in found.items():
        if room not in limits:
            yield f"{room}: a new room of {has.lines:,} lines: give it a row in [tool.ledger]"
            continue
        lines, width = limits[room]
        if has.lines > lines:
            yield (
                f"{room}: {has.lines:,} lines of code, {has.lines - lines:,} above the {lines:,} "
                "of [tool.ledger] in pyproject.toml: take out what is not needed, or raise the "
                f"number there and say why beside it (`git diff --stat main -- {room}` shows what "
                "grew)"
            )
        if has.width > width:
            yield (
                f"{room}: {has.width:.1f} characters per line, above the {width} of [tool.ledger] "
                "in pyproject.toml: write one thing per line"
            )
    for room in limits.keys() - found.keys():
        yield f"{room}: no such room: take its row out of [tool.ledger] in pyproject.toml"


def test_no_room_is_larger_than_its_row() -> None:
    problems = list(excesses(rooms(ROOT), LIMITS))
    assert not problems, "\n".join(problems)


def test_growth_and_packed_lines_are_told(tmp_path: Path) -> None:
    (tmp_path / "dsl" / "build").mkdir(parents=True)
    (tmp_path / "dsl" / "build" / "__init__.py").write_text("x = 1\n")
    (tmp_path / "dsl" / "a.py").write_text("# a comment\n\nx = 1\n" + "y = 22\n" * 299)
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "a.py").write_text("x = 1; y = 2; z = 3\n")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "main.py").write_text("x = 1\n")
    found = rooms(tmp_path)
    assert found == {"dsl": Size(301, 5 + 5 + 299 * 6), "cli": Size(1, 19)}
    packed, grown, gone = excesses(found, {"dsl": [100, 9.0], "cli": [100, 9.0], "api": [100, 9.0]})
    assert grown.startswith("dsl: 301 lines of code, 201 above the 100 of [tool.ledger]")
    assert packed.startswith("cli: 19.0 characters per line, above the 9.0")
    assert gone.startswith("api: no such room")
    (new,) = excesses(found, {"dsl": [400, 9.0]})
    assert new == "cli: a new room of 1 lines: give it a row in [tool.ledger]"
