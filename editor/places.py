"""Positions in a text: conversion between spans and the Language Server Protocol.

Spans count lines and characters from 1, in a text whose lines end with a line feed. The protocol
counts from 0, and in code units of an encoding that editor and server agree on, by default UTF-16.
"""

from __future__ import annotations

from dataclasses import dataclass

from lsprotocol import types as lsp

from ..model.span import Span


def plain(text: str) -> str:
    """A text as flowc reads it: without a byte order mark, with line feeds only."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a text; an editor may count `shift` characters in front of it that flowc does
    not read."""

    lines: tuple[str, ...]
    encoding: str = "utf-16"
    shift: int = 0

    @staticmethod
    def of(text: str, encoding: str = "utf-16") -> Lines:
        """The lines of a text as an editor or a file has it."""
        return Lines(tuple(plain(text).split("\n")), encoding, int(text.startswith("\ufeff")))

    def position(self, line: int, column: int) -> lsp.Position:
        """The position of a span; after the end of the text, it is its end."""
        if line > len(self.lines):
            line, column = len(self.lines), len(self.lines[-1]) + 1
        before = self.lines[line - 1][: column - 1]
        return lsp.Position(
            line - 1, _units(before, self.encoding) + (self.shift if line == 1 else 0)
        )

    def range(self, span: Span) -> lsp.Range:
        """The range of a span."""
        return lsp.Range(
            self.position(span.line, span.column), self.position(span.end_line, span.end_column)
        )

    def place(self, position: lsp.Position) -> tuple[int, int]:
        """Line and column, from 1, of a position; after the end of a line, it is its end."""
        number = min(position.line, len(self.lines) - 1)
        wanted = position.character - (self.shift if number == 0 else 0)
        text = self.lines[number]
        if position.line > number:
            return number + 1, len(text) + 1
        at = units = 0
        while at < len(text) and units < wanted:
            units += _units(text[at], self.encoding)
            at += 1
        return number + 1, at + 1

    @property
    def whole(self) -> lsp.Range:
        """The whole text."""
        return lsp.Range(
            lsp.Position(0, 0), self.position(len(self.lines), len(self.lines[-1]) + 1)
        )


def _units(text: str, encoding: str) -> int:
    if text.isascii() or encoding == "utf-32":
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
