"""A place in a text. Lines and columns count from 1; the end column is exclusive."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """`file` is the path as the user gave it; the end is exclusive.

    A text has several for each of its words, and a frozen dataclass takes four times as long to
    create.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, other: Span) -> Span:
        """The text from the start of this span to the end of `other` (same file)."""
        return Span(self.file, self.line, self.column, other.end_line, other.end_column)
