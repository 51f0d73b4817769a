"""Files of libconfig (`name = value;`, groups in braces, lists in parentheses), safely: bytes to
settings and back.

In: the bytes of a file. Out: its settings, each with its place, and all faults of the file: an
unreadable setting becomes `BrokenValue` and hides no other. No other file is opened (`@include` is
rejected), nesting and size are limited. The formats interpret the settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedToken

from ...model.diagnostic import Diagnostic, Note
from ...model.span import Span
from ..names import shown

#: Most nested brackets; configurations need about four.
DEEPEST = 32
#: Bytes of a file; configurations have a few thousand.
LARGEST = 1 << 18
#: Most syntax faults of one file that are reported.
MOST = 10

# BROKEN matches when no other terminal does. The parser accepts it as a value, so that a faulty
# setting can be replaced by `name = BROKEN` and the rest of the file can be read.
_GRAMMAR = r"""
start: setting*
setting: NAME EQUALS value [SEMICOLON | COMMA]
?value: scalar | array | items | group
scalar: BOOLEAN | NUMBER | STRING+ | BROKEN
array: LSQB [scalar (COMMA scalar)* [COMMA]] RSQB
items: LPAR [value (COMMA value)* [COMMA]] RPAR
group: LBRACE setting* RBRACE

NAME: /[A-Za-z*][-A-Za-z0-9_*]*/
BOOLEAN.2: /(?i:true|false)(?![-A-Za-z0-9_*])/
NUMBER: /0[Xx][0-9A-Fa-f]+L{0,2}|[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?L{0,2}/
STRING: /"(?:[^"\\]|\\.)*"/s
EQUALS: "=" | ":"
SEMICOLON: ";"
COMMA: ","
LSQB: "["
RSQB: "]"
LPAR: "("
RPAR: ")"
LBRACE: "{"
RBRACE: "}"
BROKEN.-10: /@include|./s
%ignore /\s+/
%ignore /(?:#|\/\/)[^\n]*/
%ignore /\/\*(?s:.)*?\*\//
"""
_OPENING = {"LSQB": "RSQB", "LPAR": "RPAR", "LBRACE": "RBRACE"}
_CLOSING = frozenset(_OPENING.values())
_CLOSED_BY = {"[": "]", "(": ")", "{": "}"}
_WHOLE = re.compile(r"[-+]?\d+")
_ESCAPE = re.compile(rb"\\([xX][0-9A-Fa-f]{2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"f": b"\f", b"\\": b"\\", b'"': b'"'}
#: Terminals that may follow, in a reader's order.
_WORDS = {
    "EQUALS": "`=`",
    "NAME": "a setting such as `name = value`",
    "STRING": "a text in quotes, a number, true or false",
    "LBRACE": "`{`",
    "LPAR": "`(`",
    "LSQB": "`[`",
    "COMMA": "`,`",
    "SEMICOLON": "`;`",
    "RBRACE": "`}`",
    "RPAR": "`)`",
    "RSQB": "`]`",
}


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text, number or truth value. `plain`: a text without escapes and on one line, so that its
    parts have places."""

    value: bool | int | float | str
    span: Span
    plain: bool = False

    def part(self, start: int, end: int) -> Span:
        """The place of some characters of a text; of all of it if it is not plain."""
        if not self.plain:
            return self.span
        first = self.span.column + 1
        return Span(self.span.file, self.span.line, first + start, self.span.line, first + end)


@dataclass(frozen=True, slots=True)
class Items:
    """A list in parentheses, or an `array` (in brackets) of scalars of one type."""

    items: tuple[Value, ...]
    array: bool
    span: Span


@dataclass(frozen=True, slots=True)
class ConfigGroup:
    """Settings in braces; a name occurs once. `span` is the opening brace."""

    settings: tuple[ConfigSetting, ...]
    span: Span

    def get(self, name: str) -> ConfigSetting | None:
        """The setting of that name."""
        return next((s for s in self.settings if s.name == name), None)

    def value(self, name: str) -> Value | None:
        """The value of the setting of that name."""
        return next((s.value for s in self.settings if s.name == name), None)


@dataclass(frozen=True, slots=True)
class BrokenValue:
    """A value that could not be read: its fault is reported."""

    span: Span


@dataclass(frozen=True, slots=True)
class ConfigSetting:
    """`span` is the name."""

    name: str
    value: Value
    span: Span


Value = Scalar | Items | ConfigGroup | BrokenValue


@dataclass(frozen=True, slots=True)
class Parsed:
    """`root` is None if brackets do not match, so that the rest is unknown."""

    root: ConfigGroup | None
    faults: tuple[Diagnostic, ...]


def parse(path: str, data: bytes, code: str) -> Parsed:
    """Read a file. `path` is shown in places; faults have `code`."""
    start = Span(path, 1, 1, 1, 1)
    if len(data) > LARGEST:
        message = f"this file has {len(data)} bytes, and a configuration at most {LARGEST}"
        return Parsed(None, (Diagnostic(code, message, start),))
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return Parsed(
            None,
            (Diagnostic(code, "this is not a text", start, help="a configuration is UTF-8 text"),),
        )
    return _Reader(path, code, list(_lark().lex(text))).read()


def by_place(faults: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Faults of a file in the order of their places."""

    def place(fault: Diagnostic) -> tuple[int, int]:
        if fault.span is None:
            return (0, 0)
        return (fault.span.line, fault.span.column)

    return sorted(faults, key=place)


def intact(value: Value) -> bool:
    """Could a value be read, with all its parts?"""
    match value:
        case Items():
            return all(map(intact, value.items))
        case ConfigGroup():
            return all(intact(s.value) for s in value.settings)
        case _:
            return not isinstance(value, BrokenValue)


def written(value: Value) -> str:
    """An intact value as libconfig writes it, on one line."""
    match value:
        case Scalar():
            return _scalar(value.value)
        case Items():
            inside = ", ".join(map(written, value.items))
            if value.array:
                return f"[{inside}]"
            return f"({inside})"
        case ConfigGroup():
            return " ".join(
                ["{", *(f"{s.name} = {written(s.value)};" for s in value.settings), "}"]
            )
        case BrokenValue():
            raise ValueError("a faulty setting has no value")


def quoted(text: str) -> str:
    """A text as libconfig writes it, on one line."""
    return '"' + "".join(map(_character, text)) + '"'


def _scalar(value: bool | int | float | str) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and not -(1 << 31) <= value < 1 << 31:
        return f"{value}L"
    return repr(value)


def _character(c: str) -> str:
    if c in '"\\':
        return f"\\{c}"
    named = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"}
    if c in named:
        return named[c]
    if c >= " " and c != "\x7f":
        return c
    return f"\\x{ord(c):02x}"


# -- reading ---------------------------------------------------------------------------------------
@lru_cache(maxsize=1)
def _lark() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", lexer="basic", maybe_placeholders=False)


@dataclass(slots=True)
class _Place:
    """A bracket that is open: its token (None for the file), and where its last setting begins."""

    token: Token | None
    setting: int | None = None


@dataclass(slots=True)
class _Reader:
    """Parses the tokens of one file, as often as settings turn out to be faulty."""

    path: str
    code: str
    tokens: list[Token]
    faults: list[Diagnostic] = field(default_factory=list)

    def read(self) -> Parsed:
        """The settings, with everything that is wrong."""
        while len(self.faults) < MOST:
            parser = _lark().parse_interactive()
            places = [_Place(None)]
            refused = self._feed(parser, places)
            if refused is None:
                return self._given_up()
            if refused == len(self.tokens):
                tree = _fed(parser, Token("$END", ""))
                if tree:
                    return Parsed(_Builder(self).transform(tree[0]), self._sorted())
            if not self._refuse(refused, places, parser):
                break
        return self._given_up()

    def _feed(self, parser: Any, places: list[_Place]) -> int | None:
        """The number of the token that does not fit, the number of all tokens if all fit; None
        after a fault of brackets."""
        for i, token in enumerate(self.tokens):
            if token.type in _OPENING and len(places) > DEEPEST:
                self._fault(f"more than {DEEPEST} brackets inside each other", token)
                return None
            # An empty one replaces a value whose fault is reported already.
            if (token.type == "BROKEN" and token) or not _fed(parser, token):
                return i
            _follow(i, token, places)
        opened = places[-1].token
        if opened is not None:
            help_text = f"add `{_CLOSED_BY[str(opened)]}`"
            self._fault(f"this `{opened}` is never closed", opened, help_text)
            return None
        return len(self.tokens)

    def _given_up(self) -> Parsed:
        return Parsed(None, self._sorted())

    def _sorted(self) -> tuple[Diagnostic, ...]:
        return tuple(by_place(self.faults))

    def span(self, token: Token) -> Span:
        """Where a token stands."""
        line, column = token.line or 1, token.column or 1
        return Span(self.path, line, column, token.end_line or line, token.end_column or column)

    def _fault(
        self, message: str, at: Token, help: str = "", label: str = "", notes: tuple[Note, ...] = ()
    ) -> None:
        self.faults.append(
            Diagnostic(self.code, message, self.span(at), label=label, notes=notes, help=help)
        )

    def refuse(self, message: str, span: Span, help: str = "", notes: Iterable[Note] = ()) -> None:
        """Note a fault of a value."""
        self.faults.append(Diagnostic(self.code, message, span, notes=tuple(notes), help=help))

    def _refuse(self, at: int, places: Sequence[_Place], parser: Any) -> bool:
        """Report a fault at a token, and replace it; False if that is not possible."""
        if at == len(self.tokens):
            last = self.tokens[-1]
            self._fault(f"the file ends after {shown(last)}", last, f"expected {_expected(parser)}")
            return self._replace(at, places)
        token = self.tokens[at]
        if token.type == "BROKEN":
            return self._refuse_character(at, token, places)
        help_text = self._help(at) or f"expected {_expected(parser)}"
        label = ""
        if at and self.tokens[at - 1]:
            label = f"after {shown(self.tokens[at - 1])}"
        opened = places[-1].token
        notes: tuple[Note, ...] = ()
        closes = ""
        if opened is not None:
            closes = _OPENING[opened.type]
            if token.type in _CLOSING:
                notes = (Note("opened here", self.span(opened)),)
        self._fault(f"{shown(token)} does not fit here", token, help_text, label, notes)
        if token.type in _CLOSING and token.type != closes:
            return False
        return self._replace(at, places)

    def _help(self, at: int) -> str:
        """What a mistake with quotes looks like; "" if it is another one."""
        if not at:
            return ""
        token, before = self.tokens[at], self.tokens[at - 1]
        if before.type == "EQUALS" and token.type == "NAME" and not _assigned(self.tokens, at):
            return f"texts stand in quotes: {quoted(str(token))}"
        if before.type == "STRING" and before.line != before.end_line:
            return (
                f"the text in front of it begins in line {before.line}: is a quote missing there?"
            )
        return ""

    def _refuse_character(self, at: int, token: Token, places: Sequence[_Place]) -> bool:
        """The same as `_refuse`, for tokens without meaning in these files."""
        follows = None
        if at + 1 < len(self.tokens):
            follows = self.tokens[at + 1]
        if token == "@include":
            self._fault("`@include` is not followed", token, "put the text of that file here")
            end = at + 1
            if follows is not None and follows.type == "STRING":
                end = at + 2
            del self.tokens[at:end]
            return True
        if token == '"':
            self._fault("this text is never closed", token, 'add a `"`')
            return False
        if token == "/" and follows == "*" and follows.start_pos == token.end_pos:
            self._fault("this comment is never closed", token, "add `*/`")
            return False
        self._fault(f"{shown(token)} means nothing here", token, "texts stand in quotes")
        return self._replace(at, places)

    def _replace(self, at: int, places: Sequence[_Place]) -> bool:
        """Replace the setting of a token by a faulty one; False if it belongs to none, or that is
        done."""
        start = places[-1].setting
        if start is None or (start + 3 == at and not self.tokens[start + 2]):
            return False
        name = self.tokens[start]
        stand_ins = [Token.new_borrow_pos(kind, "", name) for kind in ("EQUALS", "BROKEN")]
        self.tokens[start : _end_of_setting(self.tokens, at)] = [name, *stand_ins]
        return True


def _end_of_setting(tokens: Sequence[Token], at: int) -> int:
    """Behind the last token of the setting that a token belongs to."""
    depth = 0
    for end in range(at, len(tokens)):
        kind = tokens[end].type
        if depth == 0 and (kind in _CLOSING or _assigned(tokens, end)):
            return end
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0 and kind == "SEMICOLON":
            return end + 1
    return len(tokens)


def _assigned(tokens: Sequence[Token], at: int) -> bool:
    """Does a setting begin here?"""
    return tokens[at].type == "NAME" and at + 1 < len(tokens) and tokens[at + 1].type == "EQUALS"


def _follow(i: int, token: Token, places: list[_Place]) -> None:
    """Keep track of open brackets and of the settings in them."""
    if token.type in _OPENING:
        places.append(_Place(token))
    elif token.type in _CLOSING:
        places.pop()
    elif token.type == "NAME":
        places[-1].setting = i


def _fed(parser: Any, token: Token) -> tuple[Any, ...]:
    """The result of the parser for a token, None if it does not fit; lark does not type this."""
    try:
        return (parser.feed_token(token),)
    except UnexpectedToken:
        return ()


def _expected(parser: Any) -> str:
    """What the parser accepts, in words."""
    accepted = parser.accepts()
    words = [word for kind, word in _WORDS.items() if kind in accepted]
    if "$END" in accepted:
        words += ["the end of the file"]
    if len(words) > 1:
        return " or ".join([", ".join(words[:-1]), words[-1]])
    return "".join(words)


class _Builder(Transformer[Token, Any]):
    """The parse tree, which is no deeper than the brackets, to settings."""

    def __init__(self, reader: _Reader) -> None:
        super().__init__()
        self._reader = reader

    def start(self, settings: list[ConfigSetting]) -> ConfigGroup:
        return ConfigGroup(self._once(settings), Span(self._reader.path, 1, 1, 1, 1))

    def setting(self, parts: list[Any]) -> ConfigSetting:
        name, _, value, *_ = parts
        return ConfigSetting(str(name), value, self._reader.span(name))

    def group(self, parts: list[Any]) -> ConfigGroup:
        return ConfigGroup(self._once(parts[1:-1]), self._reader.span(parts[0]))

    def items(self, parts: list[Any]) -> Items:
        return self._items(parts, False)

    def array(self, parts: list[Any]) -> Items:
        items = self._items(parts, True)
        known = [i for i in items.items if isinstance(i, Scalar)]
        other = next((i for i in known if type(i.value) is not type(known[0].value)), None)
        if other is not None:
            self._reader.refuse(
                "the entries of an array have one type",
                other.span,
                "lists of any values stand in ()",
            )
        return items

    def scalar(self, tokens: list[Token]) -> Value:
        first = tokens[0]
        span = self._reader.span(first)
        match first.type:
            case "BROKEN":
                return BrokenValue(span)
            case "BOOLEAN":
                return Scalar(first.lower() == "true", span)
            case "NUMBER":
                return self._number(str(first), span)
            case _:
                plain = len(tokens) == 1 and "\\" not in first and "\n" not in first
                return Scalar(
                    "".join(map(_unquoted, tokens)), span.to(self._reader.span(tokens[-1])), plain
                )

    def _number(self, text: str, span: Span) -> Value:
        """Whole numbers have at most 64 bits, and others are finite."""
        bare = text.rstrip("L")
        if len(bare) > 40:
            self._reader.refuse("this number is too long", span)
            return BrokenValue(span)
        whole = None
        if bare[:2].lower() == "0x":
            whole = int(bare, 16)
        elif _WHOLE.fullmatch(bare):
            whole = int(bare)
        if whole is not None and not -(1 << 63) <= whole < 1 << 64:
            self._reader.refuse("this number has more than 64 bits", span)
            return BrokenValue(span)
        if whole is not None:
            return Scalar(whole, span)
        if text != bare or not isfinite(float(bare)):
            self._reader.refuse(f"`{text}` is no number", span)
            return BrokenValue(span)
        return Scalar(float(bare), span)

    def _items(self, parts: Sequence[Any], array: bool) -> Items:
        opening, *inside, _ = parts
        return Items(
            tuple(p for p in inside if not isinstance(p, Token)), array, self._reader.span(opening)
        )

    def _once(self, settings: Iterable[ConfigSetting]) -> tuple[ConfigSetting, ...]:
        seen: dict[str, ConfigSetting] = {}
        for s in settings:
            first = seen.setdefault(s.name, s)
            if first is not s:
                notes = (Note("the first one", first.span),)
                self._reader.refuse(f"`{s.name}` is set twice", s.span, "remove one", notes)
        return tuple(seen.values())


def _unquoted(token: Token) -> str:
    """The text of a token; `\\x` names a byte, and a backslash before any other character is
    kept."""

    def plain(found: re.Match[bytes]) -> bytes:
        what = found[1]
        if len(what) > 1:
            return bytes([int(what[1:], 16)])
        return _ESCAPED.get(what, found[0])

    return _ESCAPE.sub(plain, token[1:-1].encode()).decode(errors="replace")
