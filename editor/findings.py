"""Diagnostics for an editor, and their quick fixes.

They are those of `flowc check`, at the same places; diagnostics without a place are at the top of
the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

from lsprotocol import types as lsp
from pygls.uris import from_fs_path

from ..model.diagnostic import Diagnostic
from ..model.span import Span
from .session import CheckedText, Session

#: The pages in a copy of the sources; an installed flowc has none.
_PAGE = Path(__file__).resolve().parent.parent / "docs" / "generated" / "diagnostics.md"
#: Most diagnostics of a text that are shown: more take an editor longer than the check.
MOST_SHOWN = 1000
_SUGGESTED = re.compile(r"did you mean `([^`]+)`\?")
_QUOTED = re.compile(r"`([^`\n]+)`")


def findings(session: Session, seen: CheckedText) -> dict[str, list[lsp.Diagnostic]]:
    """Diagnostics of a text by file, with the editor's names of files; the text itself is always
    included.

    If there are too many, the first errors are shown, and their number at the top of the text.
    """
    own = session.name(seen.path)
    by_file: dict[str, list[lsp.Diagnostic]] = {own: []}
    every = sorted(seen.checked.diagnostics, key=lambda d: d.severity != "error")
    for d in every[:MOST_SHOWN]:
        span = _place(d, seen)
        by_file.setdefault(session.name(span.file), []).append(_finding(session, d, span))
    if len(every) > MOST_SHOWN:
        message = (
            f"{len(every) - MOST_SHOWN} more errors and warnings: `flowc check` prints them all"
        )
        top = session.lines(seen.path).range(Span(seen.path, 1, 1, 1, 1))
        by_file[own].append(
            lsp.Diagnostic(
                top, message, severity=lsp.DiagnosticSeverity.Information, source="flowc"
            )
        )
    return by_file


def _place(d: Diagnostic, seen: CheckedText) -> Span:
    return d.span or Span(seen.path, 1, 1, 1, 1)


def _finding(session: Session, d: Diagnostic, span: Span) -> lsp.Diagnostic:
    related = [
        lsp.DiagnosticRelatedInformation(location(session, note.span), note.message)
        for note in d.notes
    ]
    details = [d.message]
    if d.label:
        details.append(d.label)
    if d.help:
        details.append(f"help: {d.help}")
    severity = lsp.DiagnosticSeverity.Error
    if d.severity != "error":
        severity = lsp.DiagnosticSeverity.Warning
    page = from_fs_path(str(_PAGE)) if _PAGE.is_file() else None
    return lsp.Diagnostic(
        session.lines(span.file).range(span),
        "\n".join(details),
        severity=severity,
        code=d.code,
        code_description=lsp.CodeDescription(f"{page}#{d.code.lower()}") if page else None,
        source="flowc",
        related_information=related or None,
    )


def location(session: Session, span: Span) -> lsp.Location:
    """A place in any file."""
    name = session.name(span.file)
    return lsp.Location(from_fs_path(name) or name, session.lines(span.file).range(span))


def actions(
    session: Session, seen: CheckedText, path: str, around: lsp.Range
) -> Iterator[lsp.CodeAction]:
    """The suggestion of `did you mean`, as an edit, for the diagnostics at a place."""
    name = session.name(path)
    for d in seen.checked.diagnostics:
        if d.span is None or session.name(d.span.file) != name:
            continue
        there = session.lines(path).range(d.span)
        edit = _edit(session, d, d.span)
        if edit is not None and _touch(there, around):
            yield lsp.CodeAction(
                f"Replace it by `{edit.new_text}`",
                kind=lsp.CodeActionKind.QuickFix,
                diagnostics=[_finding(session, d, d.span)],
                is_preferred=True,
                edit=lsp.WorkspaceEdit(changes={from_fs_path(name) or name: [edit]}),
            )


def _edit(session: Session, d: Diagnostic, span: Span) -> lsp.TextEdit | None:
    """The word that a message is about, replaced by the suggestion of its help."""
    suggested = _SUGGESTED.search(d.help)
    if suggested is None or span.line != span.end_line:
        return None
    lines = session.lines(span.file)
    stands = lines.lines[span.line - 1][span.column - 1 : span.end_column - 1]
    words = [w for w in _QUOTED.findall(d.message) if stands.count(w) == 1]
    if not words:
        return None
    word = max(words, key=lambda w: SequenceMatcher(None, w, suggested[1]).ratio())
    start = span.column + stands.index(word)
    exact = Span(span.file, span.line, start, span.line, start + len(word))
    return lsp.TextEdit(lines.range(exact), suggested[1])


def _touch(a: lsp.Range, b: lsp.Range) -> bool:
    def key(p: lsp.Position) -> tuple[int, int]:
        return (p.line, p.character)

    return key(a.start) <= key(b.end) and key(b.start) <= key(a.end)
