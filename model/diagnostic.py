"""Diagnostics as data: every package can create one, only the CLI prints it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from .span import Span

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that belongs to a fault, with a message."""

    message: str
    span: Span


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault of the user's input.

    `code` is stable and explained by `flowc explain`; `message` gives the reason; `label` is
    written under the carets at `span`; `notes` are other places; `help` gives the remedy.
    """

    code: str
    message: str
    span: Span | None
    label: str = ""
    notes: tuple[Note, ...] = ()
    help: str = ""
    severity: Severity = "error"


class Errors(Exception):
    """Raised by a stage that cannot continue; carries all its diagnostics, not just the first."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in self.diagnostics))


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """True if one of them is an error."""
    return any(d.severity == "error" for d in diagnostics)


def in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """By file, line and column; those without a place come last."""

    def place(d: Diagnostic) -> tuple[bool, str, int, int]:
        return (False, d.span.file, d.span.line, d.span.column) if d.span else (True, "", 0, 0)

    return tuple(sorted(diagnostics, key=place))


#: Limit of comparisons with known names per text: about a second.
MOST_COMPARED = 50_000
#: Maximum length of a name that is compared.
LONGEST_COMPARED = 100
_left: ContextVar[list[int] | None] = ContextVar("left", default=None)


@contextmanager
def few_guesses() -> Iterator[None]:
    """Limit the comparisons of unknown names with known ones while an untrusted text is read.

    Without it, a text with n unknown and n known names would need n * n comparisons.
    """
    before = _left.set([MOST_COMPARED])
    try:
        yield
    finally:
        _left.reset(before)


def closest(word: str, known: Iterable[str]) -> str:
    """The known word that is most similar to `word`, or an empty string."""
    left = _left.get()
    if len(word) > LONGEST_COMPARED or (left is not None and left[0] <= 0):
        return ""
    lowered = {c.lower(): c for c in sorted(set(known)) if len(c) <= LONGEST_COMPARED}
    if left is not None:
        left[0] -= len(lowered)
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean ...?` for the closest known word, or an empty string."""
    near = closest(word, known)
    return f"did you mean `{near}`?" if near else ""


def one_of(names: Iterable[str], limit: int = 8) -> str:
    """`a`, `b` or `c`: a readable list for messages, cut after `limit` names."""
    return _joined(names, " or ", limit)


def listed(names: Iterable[str], limit: int = 8) -> str:
    """`a`, `b` and `c`: all of them, cut after `limit` names."""
    return _joined(names, " and ", limit)


def _joined(names: Iterable[str], last: str, limit: int) -> str:
    known = names if isinstance(names, Collection) else tuple(names)
    quoted = [f"`{n}`" for n in islice(known, limit)]
    if len(known) > limit:
        return ", ".join(quoted) + f" and {len(known) - limit} more"
    return last.join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else "".join(quoted)
