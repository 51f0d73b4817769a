"""Questions of an editor about a text, by name: the answers of the other modules, in the protocol's
terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lsprotocol import types as lsp

from ..dsl.format import format_text
from ..model.diagnostic import Errors
from . import navigate, outline
from .completion import complete
from .findings import actions
from .hover import hover
from .places import plain
from .session import CheckedText, Session

#: A question gets the open texts, the text as it was checked, its path, and its arguments.
Answer = Callable[..., Any]


def _hover(session: Session, seen: CheckedText, path: str, at: lsp.Position) -> lsp.Hover | None:
    said = hover(session, seen, path, *session.lines(path).place(at))
    return None if said is None else lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, said))


def _definition(
    session: Session, seen: CheckedText, path: str, at: lsp.Position
) -> lsp.Location | None:
    return navigate.definition(session, seen, path, *session.lines(path).place(at))


def _references(
    session: Session, seen: CheckedText, path: str, at: lsp.Position, declared: bool
) -> list[lsp.Location]:
    return navigate.references(session, seen, path, *session.lines(path).place(at), declared)


def _completion(
    session: Session, seen: CheckedText, path: str, at: lsp.Position
) -> list[lsp.CompletionItem]:
    return complete(session, seen, path, *session.lines(path).place(at))


def _name(session: Session, seen: CheckedText, path: str, at: lsp.Position) -> lsp.Range | None:
    found = seen.index.at(path, *session.lines(path).place(at))
    return None if found is None else session.lines(path).range(found[0])


def _rename(
    session: Session, seen: CheckedText, path: str, at: lsp.Position, name: str
) -> lsp.WorkspaceEdit:
    return navigate.edits(session, seen, path, *session.lines(path).place(at), name)


def _actions(
    session: Session, seen: CheckedText, path: str, around: lsp.Range
) -> list[lsp.CodeAction]:
    return list(actions(session, seen, path, around))


def _symbols(session: Session, seen: CheckedText, path: str) -> list[lsp.DocumentSymbol]:
    return outline.outline(session, seen, path)


def _folds(session: Session, seen: CheckedText, path: str) -> list[lsp.FoldingRange]:
    return list(outline.folds(session.text(path)))


def _lenses(session: Session, seen: CheckedText, path: str) -> list[lsp.CodeLens]:
    return outline.lenses(session, seen, path)


def _hints(
    session: Session, seen: CheckedText, path: str, within: lsp.Range
) -> list[lsp.InlayHint]:
    return list(outline.hints(session, seen, path, within))


def _format(session: Session, seen: CheckedText, path: str) -> list[lsp.TextEdit]:
    text = session.text(path)
    try:
        formatted = format_text(path, plain(text))
    except Errors:
        return []
    return [] if formatted == text else [lsp.TextEdit(session.lines(path).whole, formatted)]


#: The user waits for these answers: a late one is useless.
ABOUT_A_PLACE: dict[str, Answer] = {
    "hover": _hover,
    "definition": _definition,
    "references": _references,
    "completion": _completion,
    "name": _name,
    "actions": _actions,
}
#: All of them.
QUESTIONS: dict[str, Answer] = {
    **ABOUT_A_PLACE,
    "rename": _rename,
    "symbols": _symbols,
    "folds": _folds,
    "lenses": _lenses,
    "hints": _hints,
    "format": _format,
}
