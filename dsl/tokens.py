"""Tokens of a `.flow` text."""

from __future__ import annotations


class Token(str):
    """The characters of a token; the terminal of the grammar, and the place. Lines and columns
    count from 1, positions from 0; ends are behind the last character."""

    __slots__ = ("column", "end_column", "end_line", "end_pos", "line", "start_pos", "type")

    type: str
    start_pos: int
    line: int
    column: int
    end_line: int
    end_column: int
    end_pos: int

    def __new__(
        cls,
        type: str,
        value: str,
        start_pos: int,
        line: int,
        column: int,
        end_line: int,
        end_column: int,
        end_pos: int,
    ) -> Token:
        token = str.__new__(cls, value)
        token.type = type
        token.start_pos = start_pos
        token.line = line
        token.column = column
        token.end_line = end_line
        token.end_column = end_column
        token.end_pos = end_pos
        return token
