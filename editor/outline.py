"""The outline of a text, its folds, and the annotations that an editor shows between its lines."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types as lsp

from ..dsl.index import Symbol
from ..dsl.parse import tokens_and_comments
from .hover import measured, tasks_of
from .places import Lines, plain
from .session import CheckedText, Session

_KINDS = {
    "constant": lsp.SymbolKind.Constant,
    "type": lsp.SymbolKind.Struct,
    "task": lsp.SymbolKind.Class,
    "network": lsp.SymbolKind.Class,
    "graph": lsp.SymbolKind.Module,
    "app": lsp.SymbolKind.Module,
    "platform": lsp.SymbolKind.Namespace,
    "scenario": lsp.SymbolKind.Module,
    "variant": lsp.SymbolKind.EnumMember,
    "mode": lsp.SymbolKind.Object,
    "event": lsp.SymbolKind.Event,
    "parameter": lsp.SymbolKind.Variable,
    "port": lsp.SymbolKind.Interface,
    "state": lsp.SymbolKind.Field,
    "instance": lsp.SymbolKind.Object,
    "processor": lsp.SymbolKind.Object,
    "machine": lsp.SymbolKind.Namespace,
}


#: Commands that an editor can start for an application, if it knows them: name, and the label above
#: the app.
COMMANDS = {"flowc.run": "Run", "flowc.map": "Map", "flowc.report": "Report"}


def lenses(session: Session, seen: CheckedText, path: str) -> list[lsp.CodeLens]:
    """Commands above the first app of a text."""
    lines = session.lines(path)
    apps = [s for s in seen.index.members("") if s.span.file == path and s.kind == "app"]
    if not apps:
        return []
    place = lines.range(apps[0].span)
    return [
        lsp.CodeLens(place, lsp.Command(title, name, arguments=[path]))
        for name, title in COMMANDS.items()
    ]


def outline(session: Session, seen: CheckedText, path: str) -> list[lsp.DocumentSymbol]:
    """The declarations of a text with their members."""
    lines = session.lines(path)
    return [
        _entry(
            lines,
            symbol,
            [_inside(lines, seen, inner) for inner in seen.index.members(symbol.name)],
        )
        for symbol in seen.index.members("")
        if symbol.span.file == path
    ]


def _inside(lines: Lines, seen: CheckedText, inner: Symbol) -> lsp.DocumentSymbol:
    """The names that a declaration defines, with the processors of a machine."""
    own = seen.index.members(f"{inner.owner}.{inner.name}") if inner.kind == "machine" else ()
    return _entry(lines, inner, [_entry(lines, symbol, []) for symbol in own])


def _entry(lines: Lines, symbol: Symbol, inside: list[lsp.DocumentSymbol]) -> lsp.DocumentSymbol:
    return lsp.DocumentSymbol(
        symbol.name,
        _KINDS[symbol.kind],
        lines.range(symbol.whole),
        lines.range(symbol.span),
        detail=symbol.of or symbol.direction or symbol.kind,
        children=inside or None,
    )


def folds(text: str) -> Iterator[lsp.FoldingRange]:
    """Blocks in braces, and comments of several lines."""
    opened: list[int] = []
    comment: list[int] = []
    for token in tokens_and_comments(plain(text)):
        line = (token.line or 1) - 1
        if token.type in ("COMMENT", "DOC"):
            if comment and line == comment[-1] + 1:
                comment.append(line)
                continue
            yield from _comment(comment)
            comment = [line]
        elif token.type == "LBRACE":
            opened.append(line)
        elif token.type == "RBRACE" and opened:
            start = opened.pop()
            if line > start:
                yield lsp.FoldingRange(start, line)
    yield from _comment(comment)


def _comment(lines: list[int]) -> Iterator[lsp.FoldingRange]:
    if len(lines) > 1:
        yield lsp.FoldingRange(lines[0], lines[-1], kind=lsp.FoldingRangeKind.Comment)


def hints(
    session: Session, seen: CheckedText, path: str, within: lsp.Range
) -> Iterator[lsp.InlayHint]:
    """After each instance: its firings in an iteration, if more than one, and its measured time."""
    lines = session.lines(path)
    for symbol in seen.index.symbols:
        if symbol.kind != "instance" or symbol.whole.file != path:
            continue
        where = lines.position(symbol.whole.end_line, symbol.whole.end_column)
        if not within.start.line <= where.line <= within.end.line:
            continue
        said = _said(seen, symbol)
        if said:
            yield lsp.InlayHint(where, said, padding_left=True)


def _said(seen: CheckedText, symbol: Symbol) -> str:
    tasks = tasks_of(seen, symbol)
    if not tasks:
        return ""
    name = tasks[0].name
    verdicts = seen.checked.verdicts.get(name.partition(".")[0])
    firings = verdicts.repetition.get(name, 1) if verdicts is not None else 1
    time = measured(seen, name).partition(",")[0].removeprefix("measured ")
    return ", ".join([*([f"× {firings}"] if firings != 1 else []), *([time] if time else [])])
