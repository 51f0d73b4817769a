"""The formatter: one layout for every text, line breaks and comments kept.

A line is indented by its enclosing blocks, items on one line are three spaces apart, tokens are
spaced by rule. Columns that the user aligned stay aligned, and comments behind code are aligned
over neighboring lines. Formatting is idempotent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby, pairwise, takewhile

from lark import Token

from ..model.diagnostic import Errors
from ..model.span import Span
from . import syntax as s
from .parse import Parser, tokens_and_comments

INDENT = "    "
BETWEEN_ITEMS = "   "
_COMMENTS = ("COMMENT", "DOC")
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
    "EVERY",
    "WEIGHT",
    "AFTER",
)


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
    starts = {
        (span.line, span.column) for d in specification.declarations for span in _item_starts(d)
    }
    lines: list[Line | None] = []
    depth = 0
    previous = 0
    before: Token | None = None
    for number, group in groupby(tokens_and_comments(text), key=lambda t: t.line):
        tokens = list(group)
        if previous and (number or 0) > previous + 1:
            lines.append(None)
        previous = tokens[-1].end_line or 0
        line, before = _line(number or 0, tokens, starts, depth, before)
        lines.append(line)
        depth += sum(_opens(t) for t in tokens)
    for blank, block in groupby(lines, key=lambda line: line is None):
        if not blank:
            _align([line for line in block if line is not None], starts)
    return "\n".join(_with_comments(lines)).rstrip("\n") + "\n" if lines else ""


def _opens(token: Token) -> int:
    return (token.type in ("LBRACE", "LPAR", "LSQB")) - (token.type in ("RBRACE", "RPAR", "RSQB"))


def _line(
    number: int, tokens: list[Token], starts: set[tuple[int, int]], depth: int, before: Token | None
) -> tuple[Line, Token | None]:
    closing = 0
    for token in tokens:
        if token.type not in ("RBRACE", "RPAR", "RSQB"):
            break
        closing += 1
    first = tokens[0]
    continues = (
        not closing
        and first.type not in _COMMENTS
        and _key(first) not in starts
        and before is not None
    )
    indent = INDENT * max(depth - closing + (1 if continues and first.type != "LBRACE" else 0), 0)
    line = Line(number)
    # `link a b 110 MB/s 0.3 ms`
    rated = first.type == "LINK" and len(tokens) > 1 and tokens[1].type == "NAME"
    last: Token | None = None
    for token in tokens:
        if token.type in _COMMENTS:
            line.comment = _comment(token)
            continue
        if last is None:
            gap = indent
        elif _key(token) in starts and last.type != "LBRACE":
            gap = BETWEEN_ITEMS
        elif rated and "MUL" in (last.type, token.type):
            gap = ""
        else:
            gap = _space(last, token, before)
        line.tokens.append(token)
        line.gaps.append(gap)
        before, last = last or before, token
    if first.type in _COMMENTS:
        line.comment = indent + line.comment
    return line, last or before


def _align(lines: list[Line], starts: set[tuple[int, int]]) -> None:
    """Keep columns that the user aligned: items (or `{`, `=`, `from`) below each other, after a
    wider gap.
    """

    def alike(a: Token, b: Token) -> bool:
        return (_key(a) in starts and _key(b) in starts) or (
            a.type == b.type and a.type in _LINED_UP
        )

    places: dict[tuple[int, int], list[tuple[Line, int]]] = {}
    for above, below in pairwise(lines):
        if below.number != above.number + 1:
            continue
        by_column = {t.column: i for i, t in enumerate(above.tokens) if i}
        for i, token in enumerate(below.tokens):
            j = by_column.get(token.column) if i else None
            if (
                j is not None
                and alike(above.tokens[j], token)
                and (_gap(below, i) > 1 or _gap(above, j) > 1)
            ):
                group = places.get((above.number, j)) or [(above, j)]
                group.append((below, i))
                places[above.number, j] = places[below.number, i] = group
    groups = {id(g): g for g in places.values()}
    for group in sorted(groups.values(), key=lambda g: g[0][0].tokens[g[0][1]].column or 0):
        column = max(len(line.code(i)) for line, i in group)
        for line, i in group:
            line.columns[i] = column


def _gap(line: Line, i: int) -> int:
    return (line.tokens[i].column or 0) - (line.tokens[i - 1].end_column or 0)


def _key(token: Token) -> tuple[int, int]:
    return token.line or 0, token.column or 0


def _comment(token: Token) -> str:
    marker = "///" if token.type == "DOC" else "//"
    text = str(token)[len(marker) :].rstrip()
    return marker + (" " + text.lstrip() if text.strip() and token.type == "COMMENT" else text)


def _space(left: Token, right: Token, before: Token | None) -> str:
    if right.type in _TIGHT_BEFORE or left.type in _TIGHT_AFTER:
        return ""
    if right.type == "LPAR" and left.type == "NAME":
        return ""
    if right.type == "LSQB" and left.type not in (
        "RATE",
        "FREQUENCIES",
        "IDLE",
        "BUSY",
        "PERIOD",
        "WCET",
        "EQUAL",
        "COLON",
        "COMMA",
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


def _item_starts(declaration: s.Declaration) -> list[Span]:
    spans = [declaration.span]
    match declaration:
        case s.TaskDecl() | s.NetworkDecl() | s.GraphDecl() | s.AppDecl() | s.PlatformDecl():
            spans += [item.span for item in declaration.items]
            spans += [
                i.span
                for item in declaration.items
                if isinstance(item, s.MachineDecl)
                for i in item.items
            ]
            spans += [
                port.span
                for item in declaration.items
                if isinstance(item, s.VariantDecl)
                for port in item.ports
            ]
        case s.ScenarioDecl():
            spans += [item.span for item in declaration.items]
            spans += [
                part.span
                for mode in declaration.items
                if isinstance(mode, s.ModeDecl)
                for part in mode.items
            ]
        case s.MappingDecl():
            spans += [pin.span for pin in declaration.pins]
            spans += [clock.span for clock in declaration.clocks]
        case _:
            pass
    return spans
