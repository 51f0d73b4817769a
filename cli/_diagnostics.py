"""Draws diagnostics: an excerpt with carets for people, plain data for programs. Independent of the
CLI."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..model.diagnostic import Diagnostic, Note
from ..model.span import Span

#: A place in a text, the character that underlines it, and the label beside it.
_Mark = tuple[Span, str, str]
#: A text in a color.
_Paint = Callable[[str, str], str]
_RED, _YELLOW, _BLUE, _BOLD, _END = "\033[1;31m", "\033[1;33m", "\033[1;34m", "\033[1m", "\033[0m"
#: Excerpt lines longer than this are cut around the carets.
WIDEST = 160


def render(diagnostic: Diagnostic, sources: Mapping[str, str], *, color: bool = False) -> str:
    """One diagnostic as text, several lines, without a line end."""

    def paint(code: str, text: str) -> str:
        return f"{code}{text}{_END}" if color and text else text

    tone = _RED if diagnostic.severity == "error" else _YELLOW
    message, *details = diagnostic.message.split("\n")
    lines = [
        f"{paint(tone, f'{diagnostic.severity}[{diagnostic.code}]')}{paint(_BOLD, ': ' + message)}"
    ]
    marks = _marks(diagnostic)
    width = max((len(str(span.line)) for span, _, _ in marks), default=1)
    margin, bar, equals = " " * width, paint(_BLUE, "|"), paint(_BLUE, "=")
    by_file: dict[str, list[_Mark]] = {}
    for mark in marks:
        by_file.setdefault(mark[0].file, []).append(mark)
    arrow = "-->"
    for file, here in by_file.items():
        lead = here[0][0]
        lines.append(f"{margin}{paint(_BLUE, arrow)} {file}:{lead.line}:{lead.column}")
        arrow = ":::"
        text = sources.get(file)
        if text is None or not text.strip():
            lines += [f"{margin} {equals} {label}" for _, _, label in here if label]
            continue
        lines.append(f"{margin} {bar}")
        lines += _excerpt(text.split("\n"), here, width, tone, paint)
    lines += [f"{margin} {bar} {detail}" for detail in details]
    if diagnostic.help:
        lines.append(f"{margin} {equals} help: {diagnostic.help}")
    return "\n".join(_printable(line, color) for line in lines)


def _marks(diagnostic: Diagnostic) -> list[_Mark]:
    """The places that are underlined: that of the diagnostic, and those of its notes."""
    marks = [(note.span, "-", note.message) for note in diagnostic.notes]
    if diagnostic.span is None:
        return marks
    return [(diagnostic.span, "^", diagnostic.label), *marks]


def _printable(line: str, color: bool) -> str:
    """Control characters of untrusted text are shown as \\xNN (flowc's own colors are kept)."""
    own = "\033" if color else ""
    return "".join(
        c if c.isprintable() or c == own else c.encode("unicode_escape").decode() for c in line
    )


def _excerpt(
    source: list[str], marks: list[_Mark], width: int, tone: str, paint: _Paint
) -> list[str]:
    """The lines of a text that have marks, and the marks below them."""
    result = []
    bar = paint(_BLUE, "|")
    for number in sorted({span.line for span, _, _ in marks}):
        text = source[number - 1].replace("\t", " ") if number <= len(source) else ""
        here = sorted(
            (m for m in marks if m[0].line == number), key=lambda m: (m[1] != "^", m[0].column)
        )
        while here:  # marks far apart in a long line get an excerpt each
            piece, start, inside = _window(text, here)
            here = [m for m in here if m not in inside]
            result.append(f"{paint(_BLUE, f'{number:>{width}} |')} {piece}".rstrip())
            for span, mark, label in inside:
                last = start + len(piece) + 1
                end = min(span.end_column, last) if span.end_line == span.line else last
                carets = mark * max(1, end - span.column)
                drawn = paint(tone if mark == "^" else _BLUE, f"{carets} {label}".rstrip())
                indent = " " * (span.column - 1 - start)
                result.append(f"{' ' * width} {bar} {indent}{drawn}")
    return result


def _window(text: str, marks: list[_Mark]) -> tuple[str, int, list[_Mark]]:
    """The piece of a line around its first mark, the column before the piece, and the marks in
    it."""
    if len(text) <= WIDEST:
        return text, 0, marks
    start = max(0, marks[0][0].column - 20)
    piece = text[start : start + WIDEST]
    inside = [m for m in marks if start < m[0].column <= start + WIDEST]
    inside = inside or marks[:1]  # after the end of the line
    if not start:
        return piece, 0, inside
    lead = "... "
    return lead + piece, start - len(lead), inside


def as_data(diagnostics: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """Diagnostics as JSON data (see `check` in docs/json.md)."""
    return [
        {
            "code": d.code,
            "severity": d.severity,
            "message": d.message,
            **_place(d.span),
            "related": [_related(note) for note in d.notes],
            "help": d.help,
        }
        for d in diagnostics
    ]


def _related(note: Note) -> dict[str, Any]:
    span = note.span
    return {"message": note.message, "file": span.file, "line": span.line, "column": span.column}


def _place(span: Span | None) -> dict[str, Any]:
    if span is None:
        return dict.fromkeys(("file", "line", "column", "end_line", "end_column"))
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }
