"""Completions at a place in a text: keywords, names of the right kind, files, code, layers.

Only the text in front of the place decides, because the text after it is incomplete. Names come
from all that parses, instances of the declaration around the place from its tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lsprotocol import types as lsp

from ..dsl.advice import ITEMS
from ..dsl.best import BEST
from ..dsl.components import PARAMETER_TYPES
from ..dsl.index import Symbol
from ..dsl.load import SHIPPED
from ..dsl.network_templates import ANY, PRECISIONS
from ..dsl.parse import OPENING_WORDS, expected_behind, tokens_and_comments
from ..dsl.task_code import LANGUAGES
from ..dsl.template import beside
from ..dsl.tokens import Token
from ..model.platform import KINDS
from ..model.span import Span
from ..model.types import DTYPES
from ..networks.engines import ENGINES
from ..networks.onnx.interface import NetworkError, read_network
from ..targets.inference import CHOICES
from .code import layers, symbols
from .places import plain
from .session import CheckedText, Session

_PARTIAL = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")
_ENDINGS = {"python": ".py", "c": ".c", "cuda": ".cu"}
#: Terminals with several spellings.
_TERMINALS = {"in": "DIRECTION", "out": "DIRECTION", "pre": "WRAP", "post": "WRAP"}
#: Most files of a folder that are offered.
MOST_FILES = 200
_EXPRESSION = (
    "RATE",
    "WINDOW",
    "LSQB",
    "ADD",
    "MUL",
    "EQUAL",
    "DELAY",
    "REPEAT",
    "LAST",
    "OF",
    "EVERY",
    "BATCH",
)

Kind = lsp.CompletionItemKind


@dataclass(frozen=True, slots=True)
class Offer:
    """A completion."""

    text: str
    kind: Kind
    detail: str = ""


def complete(
    session: Session, seen: CheckedText, path: str, line: int, column: int
) -> list[lsp.CompletionItem]:
    """All completions at a place; the editor filters by the typed prefix."""
    text = plain(session.text(path)).split("\n")
    before = text[line - 1][: column - 1]
    if _in_comment(before):
        return []
    quote = _open_quote(before)
    typed = before[quote + 1 :] if quote is not None else _typed(before)
    start = column - len(typed)
    behind = "\n".join([*text[: line - 1], before[: quote if quote is not None else start - 1]])
    chunk, accepted = expected_behind(behind)
    place = _Place(seen, path, chunk, accepted, _around(chunk, "\n".join(text)))
    offers = _quoted(place, typed) if quote is not None else _names(place)
    lines = session.lines(path)
    where = lsp.Range(lines.position(line, start), lines.position(line, column))
    return [
        lsp.CompletionItem(
            offer.text,
            kind=offer.kind,
            detail=offer.detail or None,
            text_edit=lsp.TextEdit(where, offer.text),
        )
        for offer in dict.fromkeys(offers)
    ]


def _typed(before: str) -> str:
    match = _PARTIAL.search(before)
    return match[0] if match else ""


def _open_quote(before: str) -> int | None:
    """The start of a quoted text that is not closed."""
    opened = None
    for match in re.finditer(r'\\.|"', before):
        if match[0] == '"':
            opened = match.start() if opened is None else None
    return opened


def _in_comment(before: str) -> bool:
    return "//" in re.sub(r'"(?:[^"\\]|\\.)*("|\Z)', "", before)


@dataclass(frozen=True, slots=True)
class _Place:
    """Tokens of the declaration in front of a place, the tokens that may follow, and all tokens of
    the declaration."""

    seen: CheckedText
    path: str
    chunk: list[Token]
    accepted: frozenset[str]
    around: list[Token]

    def kind(self, back: int = 1) -> str:
        return str(self.chunk[-back].type) if len(self.chunk) >= back else ""

    @property
    def declaration(self) -> str:
        return str(self.chunk[0].type) if self.chunk and "$END" not in self.accepted else ""

    @property
    def name(self) -> str:
        return str(self.chunk[1]) if len(self.chunk) > 1 else ""

    @property
    def in_parentheses(self) -> int | None:
        """The index of the innermost open parenthesis among the tokens."""
        opened = []
        for i, token in enumerate(self.chunk):
            if token.type == "LPAR":
                opened.append(i)
            elif token.type == "RPAR" and opened:
                opened.pop()
        return opened[-1] if opened else None

    @property
    def depth(self) -> int:
        """Open braces."""
        return sum((t.type == "LBRACE") - (t.type == "RBRACE") for t in self.chunk)


def _around(chunk: list[Token], text: str) -> list[Token]:
    """The tokens of the declaration that begins as `chunk` does, up to the next one or the end of
    the text."""
    if not chunk:
        return []
    tokens = [t for t in tokens_and_comments(text) if t.type not in ("COMMENT", "DOC")]
    first = next(
        (i for i, t in enumerate(tokens) if (t.line, t.column) == (chunk[0].line, chunk[0].column)),
        None,
    )
    if first is None:
        return chunk
    depth = 0
    for i in range(first, len(tokens)):
        depth += (tokens[i].type == "LBRACE") - (tokens[i].type == "RBRACE")
        if tokens[i].type == "RBRACE" and depth <= 0:
            return tokens[first : i + 1]
    return tokens[first:]


# -- words and names -------------------------------------------------------------------------------
def _names(place: _Place) -> Iterator[Offer]:
    if not place.declaration:
        yield from (Offer(w, Kind.Keyword) for w in OPENING_WORDS)
        return
    match place.declaration:
        case "APP" | "GRAPH":
            yield from _block(place)
        case "TASK" | "NETWORK":
            yield from _port(place)
        case "TYPE" if place.kind() == "EQUAL":
            yield from _types(place)
        case "MAPPING":
            yield from _pin(place)
        case "SCENARIO":
            yield from _transition(place)
        case "PLATFORM" if place.kind() in ("LBRACE", "RSQB", "NAME"):
            yield from (Offer(k, Kind.EnumMember) for k in KINDS)
        case "CONST" if place.kind() in _EXPRESSION or place.kind() == "LPAR":
            yield from _values(place)
    yield from _words(place)


def _words(place: _Place) -> Iterator[Offer]:
    """Words that open an item, or continue one; none where any word would be a name."""
    if place.kind() in ("COLON", "DOT", "_ARROW", "DIRECTION", "LPAR", "EQUAL"):
        return
    for word in ITEMS.get(place.declaration, ()):
        terminal = _TERMINALS.get(word, word.upper())
        if terminal in place.accepted or (word in LANGUAGES and "NAME" in place.accepted):
            yield Offer(word, Kind.Keyword)


def _symbols(symbols: Iterable[Symbol], kind: Kind) -> Iterator[Offer]:
    for symbol in symbols:
        yield Offer(symbol.name, kind, symbol.of or symbol.direction or symbol.kind)


def _types(place: _Place) -> Iterator[Offer]:
    yield from (Offer(name, Kind.TypeParameter) for name in DTYPES)
    yield from _symbols(place.seen.index.members("", "type"), Kind.Struct)


def _values(place: _Place) -> Iterator[Offer]:
    index = place.seen.index
    yield from _symbols(index.members("", "constant"), Kind.Constant)
    yield from (Offer(name, Kind.Variable, "parameter") for name in _parameters(place))


def _parameters(place: _Place) -> Iterator[str]:
    """Parameters of the declaration around the place, which may not parse yet."""
    for i, token in enumerate(place.around[:-1]):
        if token.type == "LBRACE":
            return
        if place.around[i + 1].type == "COLON":
            yield str(token)


def _port(place: _Place) -> Iterator[Offer]:
    """In a task or a network."""
    if place.kind() == "COLON":
        if place.depth == 0:
            yield from (Offer(name, Kind.TypeParameter) for name in PARAMETER_TYPES)
        else:
            yield from _types(place)
    elif place.kind() == "PRECISION":
        yield from (Offer(name, Kind.EnumMember) for name in (*PRECISIONS, ANY))
    elif place.kind() == "ON":
        yield from (Offer(name, Kind.EnumMember) for name in (*KINDS, "error"))
    elif place.kind() in _EXPRESSION or place.in_parentheses is not None:
        yield from _values(place)


def _instances(place: _Place) -> dict[str, str]:
    """Instances of the block around the place, each with its definition, as far as they are
    typed."""
    instances: dict[str, str] = {}
    tokens = place.around
    for i, token in enumerate(tokens[:-1]):
        if token.type != "COLON":
            continue
        at = i - 1
        if tokens[at].type == "RSQB":
            while at > 0 and tokens[at].type != "LSQB":
                at -= 1
            at -= 1
        if at > 0 and tokens[at - 1].type != "DIRECTION" and tokens[i + 1].type == "NAME":
            instances[str(tokens[at])] = str(tokens[i + 1])
    return instances


def _ends(place: _Place) -> dict[str, str]:
    """Ports of the graph around the place, or open ends of the app, each with its direction."""
    tokens = place.around
    return {str(name): str(way) for way, name in pairwise(tokens) if way.type == "DIRECTION"}


def _block(place: _Place) -> Iterator[Offer]:
    """In an app or a graph."""
    index, instances = place.seen.index, _instances(place)
    opened = place.in_parentheses
    if opened is not None and place.depth > 0:
        yield from _arguments(place, str(place.chunk[opened - 1]))
    elif place.kind() == "COLON":
        ends = place.depth > 0 and place.kind(3) == "DIRECTION"
        if ends:
            yield from _types(place)
        else:
            yield from _symbols(index.members("", "task", "network", "graph"), Kind.Class)
    elif place.kind() == "DOT":
        yield from _inside(place, str(_before_index(place.chunk[:-1])), instances)
    elif place.kind() in _EXPRESSION:
        yield from _values(place)
    elif place.kind() != "DIRECTION" and place.depth > 0:
        yield from _ends_of_arrows(place, instances)


def _arguments(place: _Place, of: str) -> Iterator[Offer]:
    """In the parentheses of an instance."""
    if place.kind() in ("LPAR", "COMMA"):
        yield from _symbols(place.seen.index.members(of, "parameter"), Kind.Property)
    else:
        yield from _values(place)


def _ends_of_arrows(place: _Place, instances: dict[str, str]) -> Iterator[Offer]:
    """What an arrow may join."""
    yield from (Offer(name, Kind.Variable, of) for name, of in instances.items())
    yield from (Offer(name, Kind.Interface, way) for name, way in _ends(place).items())
    if place.declaration == "APP":
        others = [a for a in place.seen.index.members("", "app") if a.name != place.name]
        yield from _symbols(others, Kind.Module)


def _before_index(tokens: list[Token]) -> Token | str:
    """The name in front of a dot, which may have an index."""
    if tokens and tokens[-1].type == "RSQB":
        while tokens and tokens[-1].type != "LSQB":
            tokens = tokens[:-1]
        tokens = tokens[:-1]
    return tokens[-1] if tokens else ""


def _inside(place: _Place, name: str, instances: dict[str, str]) -> Iterator[Offer]:
    """Completions after `name.`: ports of an instance, instances of an app or of a graph."""
    index = place.seen.index
    owner = instances.get(name) or name
    yield from _symbols(index.members(owner, "port"), Kind.Interface)
    if index.declared(owner) is not None and owner == name:
        yield from _symbols(index.members(owner, "instance"), Kind.Variable)


def _pin(place: _Place) -> Iterator[Offer]:
    """In a mapping."""
    index = place.seen.index
    if place.kind() == "ON":
        yield from _symbols(index.members("", "platform"), Kind.Module)
        yield from (Offer(name, Kind.Module, "comes with flowc") for name in SHIPPED)
    elif place.kind() == "DOT":
        yield from _instances_inside(place, str(_before_index(place.chunk[:-1])))
    elif place.kind() == "ENGINE":
        yield from (Offer(engine.name, Kind.EnumMember, engine.title) for engine in ENGINES)
    elif place.kind() == "PRECISION":
        yield from (Offer(name, Kind.EnumMember) for name in CHOICES)
    elif place.kind() in ("_ARROW", "COMMA", "VBAR"):
        name = str(place.chunk[2]) if len(place.chunk) > 2 else ""
        for platform in place.seen.checked.system.platforms:
            if platform.name == name:
                yield from (Offer(processor, Kind.Value) for processor in platform.processors)
    elif place.kind() != "MAPPING":
        yield from _symbols(index.members("", "app"), Kind.Module)


def _instances_inside(place: _Place, name: str) -> Iterator[Offer]:
    """Instances of an app, or of the graph of an instance."""
    index = place.seen.index
    declared = index.declared(name)
    owner = name
    if declared is None or declared.kind != "app":
        graphs = {s.name: s.of for s in index.symbols if s.kind == "instance"}
        owner = graphs.get(name, "")
    yield from _symbols(index.members(owner, "instance"), Kind.Variable)


def _transition(place: _Place) -> Iterator[Offer]:
    """In a scenario: apps after `run`, events after `on`, variants after a network, states
    elsewhere."""
    index, behind = place.seen.index, [str(t.type) for t in place.chunk[::-2]]
    if place.kind() == "EQUAL":
        yield from _variants(place)
        return
    if place.kind() == "RUN" or (place.kind() == "COMMA" and "RUN" in behind[:9]):
        yield from _symbols(index.members("", "app"), Kind.Module)
    elif place.kind() == "ON":
        yield from (Offer(name, Kind.Event) for name in _events(place))
        yield from _symbols(index.members("", "app"), Kind.Module)
    elif place.depth == 1:
        known = (str(b) for a, b in pairwise(place.around) if a.type == "STATE")
        yield from (Offer(name, Kind.Variable, "state") for name in known)


def _variants(place: _Place) -> Iterator[Offer]:
    """The variants of the network whose path precedes a `=`, and the best of them."""
    index, names = place.seen.index, [str(place.chunk[-2])]
    for dot, before in zip(place.chunk[-3::-2], place.chunk[-4::-2], strict=False):
        if dot.type != "DOT":
            break
        names.insert(0, str(before))
    owner = names[0]
    for name in names[1:]:
        owner = next((m.of for m in index.members(owner, "instance") if m.name == name), "")
    variants = index.members(owner, "variant") if owner else ()
    yield from _symbols(variants, Kind.EnumMember)
    if variants:
        yield Offer(BEST, Kind.Keyword, "the most accurate one that keeps the deadlines")


def _events(place: _Place) -> Iterator[str]:
    """Events of the scenario around the place, which may not parse yet."""
    listing = False
    for token in place.around:
        if listing and token.type == "NAME":
            yield str(token)
        listing = token.type == "EVENT" or (listing and token.type in ("NAME", "COMMA"))


# -- texts in quotes -------------------------------------------------------------------------------
def _quoted(place: _Place, typed: str) -> Iterator[Offer]:
    language = str(place.chunk[-1]) if place.chunk else ""
    if place.kind() == "WRAP":
        language = "python"
    if place.kind() == "USE":
        yield from _files(place, typed, (".flow",))
    elif language in _ENDINGS:
        yield from _code(place, typed, language)
    elif place.kind() == "FROM":
        if place.depth == 0:
            yield from _files(place, typed, (".onnx",))
        else:
            yield from _tensors(place)
    elif place.kind() == "UNTIL":
        yield from (Offer(name, Kind.Value, "layer") for name in _layers(place))
    elif place.kind() == "EQUAL":
        yield from _files(place, typed, ())


def _here(place: _Place, name: str) -> Path:
    return beside(Span(place.path, 1, 1, 1, 1), name)


def _files(place: _Place, typed: str, endings: tuple[str, ...]) -> Iterator[Offer]:
    """Files and folders beside the text, or below the folder that was typed."""
    folder = typed.rpartition("/")[0]
    try:
        files = sorted(_here(place, folder or ".").iterdir())[:MOST_FILES]
    except (OSError, ValueError):
        return
    for file in files:
        name = f"{folder}/{file.name}" if folder else file.name
        if file.name.startswith("."):
            continue
        if file.is_dir():
            yield Offer(f"{name}/", Kind.Folder)
        elif not endings or file.suffix in endings:
            yield Offer(name, Kind.File)


def _code(place: _Place, typed: str, language: str) -> Iterator[Offer]:
    file, colon, _ = typed.rpartition(":")
    if not colon:
        for offer in _files(place, typed, (_ENDINGS[language],)):
            yield offer if offer.kind == Kind.Folder else Offer(f"{offer.text}:", Kind.File)
        return
    yield from (
        Offer(f"{file}:{name}", Kind.Function) for name in symbols(_here(place, file), language)
    )


def _network_file(place: _Place, name: str) -> Path | None:
    """The .onnx file of the network of that name."""
    declared = place.seen.index.declared(name)
    files = [q for q in place.seen.index.quoted if q.kind == "onnx"]
    if declared is None or declared.kind != "network":
        return None
    line = declared.span.line
    quoted = next(
        (q for q in files if q.span.file == declared.span.file and q.span.line >= line), None
    )
    return None if quoted is None else beside(quoted.span, quoted.value)


def _tensors(place: _Place) -> Iterator[Offer]:
    """The input and output tensors of the network around the place."""
    name = next(
        (t for i, t in enumerate(place.chunk) if i and place.chunk[i - 1].type == "FROM"), None
    )
    if name is None:
        return
    try:
        interface = read_network(_here(place, str(name)[1:-1]), {}, None)
    except NetworkError:
        return
    for border in (*interface.inputs, *interface.outputs):
        yield Offer(border.name, Kind.Value, str(border))


def _layers(place: _Place) -> tuple[str, ...]:
    """Layers of the network whose pin is being written."""
    arrows = [i for i, t in enumerate(place.chunk) if t.type == "_ARROW"]
    if not arrows:
        return ()
    instance = str(_before_index(place.chunk[: arrows[-1]]))
    of = next(
        (s.of for s in place.seen.index.symbols if s.kind == "instance" and s.name == instance), ""
    )
    file = _network_file(place, of)
    return () if file is None else layers(file)
