"""The formatter: one layout for every text, line breaks and comments kept.

A line is indented by its enclosing blocks, items on one line are three spaces apart, tokens are
spaced by rule. Columns that the user aligned stay aligned, and comments behind code are aligned
over neighboring lines. Formatting is idempotent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise, takewhile

from ..model.diagnostic import Errors
from ..model.span import Span
from . import syntax as s
from .parse import Parser, tokens_and_comments
from .tokens import Token

INDENT = "    "
BETWEEN_ITEMS = "   "
_COMMENTS = ("COMMENT", "DOC")
_OPENING = ("LBRACE", "LPAR", "LSQB")
_CLOSING = ("RBRACE", "RPAR", "RSQB")
_TIGHT_BEFORE = ("RPAR", "RSQB", "COMMA", "COLON", "DOT")
_TIGHT_AFTER = ("LPAR", "LSQB", "DOT")
_LINED_UP = ("LBRACE", "EQUAL", "FROM", "_ARROW", "LPAR")
_BEFORE_SIGN = (
    "LPAR",
    "LSQB",
    "COMMA",
    "EQUAL",
    "ADD",
    "MUL",
    "RATE",
    "DELAY",
    "REPEAT",
    "LAST",
    "OF",
    "FOR",
    "PERIOD",
    "DEADLINE",
    "PRIORITY",
    "SHARE",
    "REACTION",
    "EVERY",
    "WEIGHT",
    "AFTER",
)


#: Line and column of a token.
Key = tuple[int, int]


@dataclass(slots=True)
class Line:
    """One line of the text: its tokens, the rule's gap in front of each, and the comment behind
    them.
    """

    number: int
    tokens: list[Token] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    comment: str = ""
    #: Columns (from 0) that some tokens must start at, by position in the line.
    columns: dict[int, int] = field(default_factory=dict)

    def code(self, count: int | None = None) -> str:
        """The text of the first `count` tokens (default: all); for fewer, the gap of the next one
        is included.
        """
        text = ""
        for i, token in enumerate(self.tokens[:count]):
            text += self.gaps[i]
            text = text.ljust(self.columns.get(i, 0)) + str(token)
        if count is not None:
            text = (text + self.gaps[count]).ljust(self.columns.get(count, 0))
        return text


def format_text(path: str, text: str) -> str:
    """The formatted text. Raises Errors when it has syntax errors: nothing is changed then."""
    specification, faults = Parser().parse(path, text)
    if faults:
        raise Errors(faults)
    starts: set[Key] = set()
    for declaration in specification.declarations:
        starts.update((span.line, span.column) for span in _item_starts(declaration))
    layout = _Layout(starts)
    lines: list[Line | None] = []
    end_of_previous = 0
    for number, group in groupby(tokens_and_comments(text), key=lambda t: t.line or 0):
        tokens = list(group)
        if lines and number > end_of_previous + 1:
            lines.append(None)
        end_of_previous = tokens[-1].end_line or 0
        lines.append(layout.line(number, tokens))
    for blank, block in groupby(lines, key=lambda line: line is None):
        if not blank:
            _align([line for line in block if line is not None], starts)
    if not lines:
        return ""
    return "\n".join(_with_comments(lines)).rstrip("\n") + "\n"


def _opens(token: Token) -> int:
    return (token.type in _OPENING) - (token.type in _CLOSING)


class _Layout:
    """Lays out the tokens of one line after the other; `starts` are the places of items."""

    def __init__(self, starts: set[Key]) -> None:
        self._starts = starts
        self._depth = 0
        #: The token in front of the last one.
        self._before: Token | None = None

    def line(self, number: int, tokens: list[Token]) -> Line:
        """The next line of the text."""
        line = Line(number)
        indent = self._indent(tokens)
        # `link a b 110 MB/s 0.3 ms`
        has_rate = tokens[0].type == "LINK" and len(tokens) > 1 and tokens[1].type == "NAME"
        last: Token | None = None
        for token in tokens:
            if token.type in _COMMENTS:
                line.comment = _comment(token)
                continue
            gap = indent
            if last is not None:
                gap = self._gap(last, token, has_rate)
            line.tokens.append(token)
            line.gaps.append(gap)
            self._before, last = last or self._before, token
        if tokens[0].type in _COMMENTS:
            line.comment = indent + line.comment
        self._before = last or self._before
        self._depth += sum(_opens(token) for token in tokens)
        return line

    def _indent(self, tokens: list[Token]) -> str:
        closing = len(list(takewhile(lambda token: token.type in _CLOSING, tokens)))
        depth = self._depth - closing
        if self._continues(tokens[0]):
            depth += 1
        return INDENT * depth

    def _continues(self, first: Token) -> bool:
        """True if a line that begins with that token continues an item."""
        if self._before is None or _key(first) in self._starts:
            return False
        return first.type not in (*_COMMENTS, *_CLOSING, "LBRACE")

    def _gap(self, last: Token, token: Token, has_rate: bool) -> str:
        if _key(token) in self._starts and last.type != "LBRACE":
            return BETWEEN_ITEMS
        if has_rate and "MUL" in (last.type, token.type):
            return ""
        return _space(last, token, self._before)


def _align(lines: list[Line], starts: set[Key]) -> None:
    """Keep columns that the user aligned: items (or `{`, `=`, `from`) below each other, after a
    wider gap.
    """
    groups: dict[Key, list[tuple[Line, int]]] = {}
    for above, below in pairwise(lines):
        if below.number != above.number + 1:
            continue
        for upper, lower in _lined_up(above, below, starts):
            group = groups.setdefault((above.number, upper), [(above, upper)])
            group.append((below, lower))
            groups[below.number, lower] = group
    unique = {id(group): group for group in groups.values()}
    for group in sorted(unique.values(), key=_column):
        column = max(len(line.code(position)) for line, position in group)
        for line, position in group:
            line.columns[position] = column


def _column(group: list[tuple[Line, int]]) -> int:
    line, position = group[0]
    return line.tokens[position].column or 0


def _lined_up(above: Line, below: Line, starts: set[Key]) -> Iterator[tuple[int, int]]:
    """The positions of tokens of two lines that the user put below each other."""
    by_column = {token.column: i for i, token in enumerate(above.tokens) if i}
    for lower, token in enumerate(below.tokens):
        upper = by_column.get(token.column)
        if lower == 0 or upper is None:
            continue
        other = above.tokens[upper]
        items = _key(other) in starts and _key(token) in starts
        alike = other.type == token.type and token.type in _LINED_UP
        wider = _gap(below, lower) > 1 or _gap(above, upper) > 1
        if wider and (items or alike):
            yield upper, lower


def _gap(line: Line, i: int) -> int:
    return (line.tokens[i].column or 0) - (line.tokens[i - 1].end_column or 0)


def _key(token: Token) -> Key:
    return token.line or 0, token.column or 0


def _comment(token: Token) -> str:
    marker = "///" if token.type == "DOC" else "//"
    text = str(token)[len(marker) :].rstrip()
    if text.strip() and token.type == "COMMENT":
        text = " " + text.lstrip()
    return marker + text


def _space(left: Token, right: Token, before: Token | None) -> str:
    if right.type in _TIGHT_BEFORE or left.type in _TIGHT_AFTER:
        return ""
    if right.type == "LPAR" and left.type == "NAME":
        return ""
    if right.type == "LSQB" and left.type not in (
        "RATE",
        "ON",
        "FREQUENCIES",
        "IDLE",
        "BUSY",
        "PERIOD",
        "WCET",
        "EQUAL",
        "COLON",
        "COMMA",
        "STRING",
    ):
        return ""
    if left.type == "ADD" and before is not None and before.type in _BEFORE_SIGN:
        return ""
    return " "


def _with_comments(lines: list[Line | None]) -> list[str]:
    """Comments behind code start in one column over neighboring lines that have one."""
    result: list[str] = []
    width = 0
    for i, line in enumerate(lines):
        if line is None or not _has_both(line):
            result.append("" if line is None else line.code() or line.comment)
            continue
        if i == 0 or not _has_both(lines[i - 1]):
            block = takewhile(_has_both, lines[i:])
            width = max(len(member.code()) for member in block if member is not None)
        result.append(f"{line.code():<{width}}  {line.comment}")
    return result


def _has_both(line: Line | None) -> bool:
    return line is not None and bool(line.comment and line.tokens)


def _item_starts(declaration: s.Declaration) -> Iterator[Span]:
    yield declaration.span
    match declaration:
        case s.MappingDecl():
            yield from (pin.span for pin in declaration.pins)
            yield from (clock.span for clock in declaration.clocks)
        case s.UseDecl() | s.ConstDecl() | s.TypeDecl():
            pass
        case _:
            for item in declaration.items:
                yield item.span
                yield from _starts_inside(item)


def _starts_inside(item: object) -> Iterator[Span]:
    match item:
        case s.MachineDecl() | s.ModeDecl():
            yield from (part.span for part in item.items)
        case s.VariantDecl():
            yield from (port.span for port in item.ports)
        case _:
            pass
