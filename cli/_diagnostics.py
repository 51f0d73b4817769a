"""Draws diagnostics: an excerpt with carets for people, plain data for programs. Independent of the
CLI."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..model.diagnostic import Diagnostic
from ..model.span import Span

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
    marks: list[tuple[Span, str, str]] = []
    if diagnostic.span is not None:
        marks.append((diagnostic.span, "^", diagnostic.label))
    marks += [(note.span, "-", note.message) for note in diagnostic.notes]
    width = max((len(str(span.line)) for span, _, _ in marks), default=1)
    files = list(dict.fromkeys(span.file for span, _, _ in marks))
    for position, file in enumerate(files):
        here = [m for m in marks if m[0].file == file]
        lead = here[0][0]
        arrow = "-->" if position == 0 else ":::"
        lines.append(f"{' ' * width}{paint(_BLUE, arrow)} {file}:{lead.line}:{lead.column}")
        text = sources.get(file)
        if text is None or not text.strip():
            lines += [f"{' ' * width} {paint(_BLUE, '=')} {label}" for _, _, label in here if label]
            continue
        lines.append(f"{' ' * width} {paint(_BLUE, '|')}")
        lines += _excerpt(text.split("\n"), here, width, tone, paint)
    lines += [f"{' ' * width} {paint(_BLUE, '|')} {detail}" for detail in details]
    if diagnostic.help:
        lines.append(f"{' ' * width} {paint(_BLUE, '=')} help: {diagnostic.help}")
    return "\n".join(_printable(line, color) for line in lines)


def _printable(line: str, color: bool) -> str:
    """Control characters of untrusted text are shown as \\xNN (flowc's own colors are kept)."""
    own = "\033" if color else ""
    return "".join(
        c if c.isprintable() or c == own else c.encode("unicode_escape").decode() for c in line
    )


def _excerpt(
    source: list[str], marks: list[tuple[Span, str, str]], width: int, tone: str, paint: Any
) -> list[str]:
    result = []
    for number in sorted({span.line for span, _, _ in marks}):
        text = source[number - 1].replace("\t", " ") if number <= len(source) else ""
        here = sorted(
            (m for m in marks if m[0].line == number), key=lambda m: (m[1] != "^", m[0].column)
        )
        while here:  # marks far apart in a long line get an excerpt each
            start, piece = 0, text
            if len(text) > WIDEST:
                start = max(0, here[0][0].column - 20)
                piece = ("... " if start else "") + text[start : start + WIDEST]
            inside = (
                [m for m in here if start < m[0].column <= start + WIDEST]
                if len(text) > WIDEST
                else here
            )
            inside = inside or here[:1]  # after the end of the line
            here = [m for m in here if m not in inside]
            start -= 4 if start else 0
            result.append(f"{paint(_BLUE, f'{number:>{width}} |')} {piece}".rstrip())
            for span, mark, label in inside:
                end = span.end_column if span.end_line == span.line else start + len(piece) + 1
                carets = mark * max(1, min(end, start + len(piece) + 1) - span.column)
                drawn = paint(tone if mark == "^" else _BLUE, f"{carets} {label}".rstrip())
                result.append(
                    f"{' ' * width} {paint(_BLUE, '|')} {' ' * (span.column - 1 - start)}{drawn}"
                )
    return result


def as_data(diagnostics: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """Diagnostics as JSON data (see `check` in docs/json.md)."""
    return [
        {
            "code": d.code,
            "severity": d.severity,
            "message": d.message,
            **_place(d.span),
            "related": [
                {
                    "message": n.message,
                    "file": n.span.file,
                    "line": n.span.line,
                    "column": n.span.column,
                }
                for n in d.notes
            ],
            "help": d.help,
        }
        for d in diagnostics
    ]


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
