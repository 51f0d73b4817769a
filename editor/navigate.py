"""Declaration and uses of a name, and its renaming."""

from __future__ import annotations

import re
from pathlib import Path

from lsprotocol import types as lsp
from pygls.uris import from_fs_path

from ..dsl.index import Index, Symbol
from ..model.diagnostic import listed
from ..model.span import Span
from .code import file_of, line_of
from .findings import location
from .places import plain
from .session import CheckedText, Session

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


class RenameRefused(Exception):
    """Why a name cannot be changed."""


def definition(
    session: Session, seen: CheckedText, path: str, line: int, column: int
) -> lsp.Location | None:
    """The declaration of a name; for a quoted text, the file or the line that it refers to."""
    named = seen.index.quoted_at(path, line, column)
    if named is not None and named.kind == "layer":
        return None
    if named is not None:
        file, number = line_of(named) or (file_of(named), 1)
        return _line(file, number) if file.is_file() else None
    found = seen.index.at(path, line, column)
    return None if found is None else location(session, found[1].span)


def _line(file: Path, number: int) -> lsp.Location:
    here = lsp.Position(number - 1, 0)
    return lsp.Location(from_fs_path(str(file.resolve())) or "", lsp.Range(here, here))


def references(
    session: Session, seen: CheckedText, path: str, line: int, column: int, declared: bool = True
) -> list[lsp.Location]:
    """All places of a name."""
    occurrence = seen.index.at(path, line, column)
    if occurrence is None:
        return []
    places = seen.index.places(occurrence[1])
    return [location(session, span) for span in places[0 if declared else 1 :]]


def renamed(
    session: Session, seen: CheckedText, path: str, line: int, column: int, name: str
) -> dict[str, str]:
    """The texts after renaming, by their paths. Raises Refused if that would change the meaning."""
    symbol = _symbol_at(seen, path, line, column)
    if not _NAME.fullmatch(name):
        raise RenameRefused(f"`{name}` is not a name: letters, digits and `_`, no digit first")
    if symbol.kind == "parameter" and _has_code(seen.index, symbol):
        raise RenameRefused(f"the code of `{symbol.owner}` uses the name `{symbol.name}`")
    places = seen.index.places(symbol)
    files = {place.file for place in places}
    texts = {file: _replaced(plain(session.text(file)), file, places, name) for file in files}
    after = session.with_texts(seen.path, texts)
    before = {diagnostic.code for diagnostic in seen.checked.diagnostics}
    for diagnostic in after.checked.diagnostics:
        # a warning may say that a stored mapping is for other names: `map` makes another
        if diagnostic.severity == "error" and diagnostic.code not in before:
            raise RenameRefused(diagnostic.message)
    if not _declares(after.index, _moved(places, name, symbol)):
        raise RenameRefused(
            f"`{name}` means something else in {listed([symbol.owner or 'this text'])}"
        )
    return texts


def _declares(index: Index, places: list[Span]) -> bool:
    """True if these are all places of one name, its declaration first."""
    symbol = next((s for s in index.symbols if s.span == places[0]), None)
    return symbol is not None and set(index.places(symbol)) == set(places)


def _symbol_at(seen: CheckedText, path: str, line: int, column: int) -> Symbol:
    """The name at a place. Raises Refused."""
    occurrence = seen.index.at(path, line, column)
    if occurrence is None:
        raise RenameRefused("there is no name here")
    return occurrence[1]


def _has_code(index: Index, symbol: Symbol) -> bool:
    owner = index.declared(symbol.owner)
    if owner is None or owner.kind != "task":
        return False
    code = [quoted.span for quoted in index.quoted if quoted.kind in ("python", "c", "cuda")]
    return any(_contains(owner.whole, span) for span in code)


def _contains(whole: Span, span: Span) -> bool:
    start, end = (whole.line, whole.column), (whole.end_line, whole.end_column)
    return span.file == whole.file and start <= (span.line, span.column) <= end


def _replaced(text: str, file: str, places: tuple[Span, ...], name: str) -> str:
    lines = text.split("\n")
    for span in sorted((p for p in places if p.file == file), key=lambda p: (p.line, -p.column)):
        line = lines[span.line - 1]
        lines[span.line - 1] = line[: span.column - 1] + name + line[span.end_column - 1 :]
    return "\n".join(lines)


def _moved(places: tuple[Span, ...], name: str, symbol: Symbol) -> list[Span]:
    """The places after each of them has got another length."""
    longer = len(name) - len(symbol.name)
    moved = []
    for place in places:
        line = [other for other in places if (other.file, other.line) == (place.file, place.line)]
        before = [other for other in line if other.column < place.column]
        column = place.column + len(before) * longer
        moved.append(Span(place.file, place.line, column, place.line, column + len(name)))
    return moved


def edits(
    session: Session, seen: CheckedText, path: str, line: int, column: int, name: str
) -> lsp.WorkspaceEdit:
    """The same as edits for the editor. Raises Refused."""
    renamed(session, seen, path, line, column, name)
    changes: dict[str, list[lsp.TextEdit]] = {}
    for place in seen.index.places(_symbol_at(seen, path, line, column)):
        where = location(session, place)
        changes.setdefault(where.uri, []).append(lsp.TextEdit(where.range, name))
    return lsp.WorkspaceEdit(changes=changes)
