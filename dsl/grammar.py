"""The grammar of `.flow` texts as plain data: what reading a text needs of it.

In: `grammar.lark`. Out: a `Grammar`. lark compiles it once, and the result is kept for later
processes, which do not import lark: compiling takes longer than reading most texts.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.files import own_cache

if TYPE_CHECKING:
    from lark import Lark

#: Comments: tokens that no rule takes.
COMMENTS = ("COMMENT", "DOC")
#: All tokens that no rule takes: also characters that mean nothing.
UNRULED = (*COMMENTS, "BAD")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a rule that counts: its index, whether its own parts stand in its place, and how
    many optional parts are missing in front of it."""

    index: int
    spread: bool
    missing: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: the number of its parts, and the symbol that they become.

    `node` names what is built of the parts that count, all of them if `parts` is None. `missing`
    optional parts are missing behind the last one. A `transparent` rule with one part is that part.
    """

    size: int
    symbol: str
    node: str
    transparent: bool
    parts: tuple[Part, ...] | None
    missing: int


@dataclass(frozen=True, slots=True)
class Grammar:
    """Tokens, and a table of type LALR(1).

    `states` has the step of each state for each terminal or symbol: a number from 0 is the next
    state, a negative one is rule `~number`, whose parts are complete. `pattern` matches the blanks
    in front of a token, and the token in a group of its terminal; `words` are the terminals that
    it matches as names.
    """

    start: int
    end: int
    states: tuple[Mapping[str, int], ...]
    rules: tuple[Rule, ...]
    pattern: str
    words: Mapping[str, str]
    keywords: tuple[str, ...]
    soft_keywords: tuple[str, ...]

    def walk(self, terminals: Iterable[str]) -> tuple[int, list[int]]:
        """How many terminals fit, and the states behind them, the last one on top."""
        behind, fitting = [self.start], 0
        for terminal in terminals:
            if not self._take(behind, terminal):
                break
            fitting += 1
        return fitting, behind

    def accepted(self, behind: Sequence[int]) -> frozenset[str]:
        """The terminals that may follow in the last of these states."""
        possible = (word for word in self.states[behind[-1]] if word.isupper())
        return frozenset(word for word in possible if self._take([*behind], word))

    def _take(self, behind: list[int], terminal: str) -> bool:
        """Extend a stack of states by a terminal; False if it does not fit."""
        while True:
            step = self.states[behind[-1]].get(terminal)
            if step is None:
                return False
            if step >= 0:
                behind.append(step)
                return True
            rule = self.rules[~step]
            del behind[-rule.size :]
            behind.append(self.states[behind[-1]][rule.symbol])
            if behind[-1] == self.end:
                return True


@cache
def flow_grammar() -> Grammar:
    """The grammar of `.flow` texts.

    What is kept begins with a digest of all that it depends on, and of itself: a file that is of
    other versions, broken, or cannot be written costs only time.
    """
    text = Path(__file__).with_name("grammar.lark").read_text()
    place = _kept()
    if place is None:
        return _compiled(text)
    origin = _origin(text)
    content = _read(place)
    mark, _, data = content.partition(b"\n")
    if mark == _mark(origin, data):
        return _from_data(json.loads(data))
    grammar = _compiled(text)
    data = json.dumps(asdict(grammar), separators=(",", ":")).encode()
    _write(place, _mark(origin, data) + b"\n" + data)
    return grammar


def _kept() -> Path | None:
    """The file of the compiled grammar; None without one."""
    folder = own_cache()
    if folder is None:
        return None
    return folder / f"grammar-{sys.version_info[0]}.{sys.version_info[1]}.json"


def _origin(text: str) -> bytes:
    """What the compiled grammar depends on: the grammar, this module, and the version of lark,
    which its first module tells without being imported."""
    lark = find_spec("lark")
    told = b""
    if lark is not None and lark.origin is not None:
        told = Path(lark.origin).read_bytes()
    return b"\0".join((text.encode(), Path(__file__).read_bytes(), told))


def _mark(origin: bytes, data: bytes) -> bytes:
    """The first line of a kept grammar."""
    return hashlib.sha256(origin + b"\0" + data).hexdigest().encode()


def _read(place: Path) -> bytes:
    """What is kept; nothing if it is no file that can be read."""
    if not place.is_file():
        return b""
    try:
        return place.read_bytes()
    except OSError:
        return b""


def _write(place: Path, content: bytes) -> None:
    """Keep it, if possible; no process reads a part of it."""
    draft = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(place)
    except OSError:
        with suppress(OSError):
            draft.unlink()


def _from_data(data: dict[str, Any]) -> Grammar:
    """The reverse of `asdict`."""
    rules = []
    for rule in data.pop("rules"):
        parts = rule.pop("parts")
        kept = None if parts is None else tuple(Part(**part) for part in parts)
        rules.append(Rule(**rule, parts=kept))
    for name in ("states", "keywords", "soft_keywords"):
        data[name] = tuple(data[name])
    return Grammar(**data, rules=tuple(rules))


def _compiled(text: str) -> Grammar:
    """What lark makes of a grammar."""
    from lark import Lark
    from lark.lark import PostLex

    class Unruled(PostLex):
        """Tokens that no rule of the grammar takes, which lark would leave out otherwise."""

        always_accept = UNRULED

        def process(self, stream: Iterator[Any]) -> Iterator[Any]:
            return stream

    made = Lark(text, parser="lalr", lexer="basic", postlex=Unruled(), maybe_placeholders=True)
    machine: Any = made.parse_interactive().parser_state.parse_conf  # lark does not type these
    numbers = {rule: number for number, rule in enumerate(made.rules)}
    states = []
    for number in range(len(machine.states)):
        steps = machine.states[number]
        states.append({word: _step(what, numbers) for word, (_, what) in steps.items()})
    pattern, words = _scanner(made)
    soft = {rule.expansion[0].name for rule in made.rules if rule.origin.name == "_soft"}
    return Grammar(
        machine.start_state,
        machine.end_state,
        tuple(states),
        tuple(_rules(made)),
        pattern,
        words,
        tuple(_words(made.terminals)),
        tuple(_words(t for t in made.terminals if t.name in soft)),
    )


def _step(what: Any, numbers: Mapping[Any, int]) -> int:
    """The step to a state, or the one that completes a rule."""
    return what if isinstance(what, int) else ~numbers[what]


def _rules(made: Lark) -> Iterator[Rule]:
    """The rules, with the parts that count as lark's builder of trees knows them."""
    from lark import Tree
    from lark.parse_tree_builder import ExpandSingleChild, ParseTreeBuilder

    builder: Any = ParseTreeBuilder
    for rule, wrappers in builder(made.rules, Tree, maybe_placeholders=True).rule_builders:
        assert rule.expansion, "lark has written out what may be missing"
        parts, missing = None, 0
        transparent = ExpandSingleChild in wrappers
        for select in wrappers:
            if select is not ExpandSingleChild:
                parts, missing = _selection(*select.args)
        node = rule.alias or rule.options.template_source or rule.origin.name
        yield Rule(len(rule.expansion), rule.origin.name, str(node), transparent, parts, missing)


def _selection(included: Sequence[Sequence[int]], missing: int = 0) -> tuple[tuple[Part, ...], int]:
    """The parts that count, and how many are missing behind them."""
    parts = []
    for index, spread, *before in included:
        parts.append(Part(index, bool(spread), sum(before)))
    return tuple(parts), missing


def _words(terminals: Iterable[Any]) -> Iterator[str]:
    """The keywords among the terminals."""
    for terminal in terminals:
        words = terminal.pattern.value.removesuffix(r"\b").strip("()").split("|")
        if all(w.isalpha() and w.islower() for w in words):
            yield from words


def _scanner(made: Lark) -> tuple[str, Mapping[str, str]]:
    """A pattern for blanks and comments with the token behind them, and the keyword terminals,
    which it matches as names.

    lark's lexer has the same pattern, but matches blanks as tokens of their own, and names twice.
    """
    terminals, ignored = made.lexer_conf.terminals, made.lexer_conf.ignore
    left_out = [t for t in terminals if t.name in ignored]
    words = {
        t.pattern.value: t.name
        for t in terminals
        if t.pattern.type == "str" and t.pattern.value.isalpha()
    }
    rest = [t for t in terminals if t.name not in (*ignored, *words.values())]
    rest.sort(key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name))
    blanks = "|".join(t.pattern.to_regexp() for t in left_out)
    tokens = "|".join(f"(?P<{t.name}>{t.pattern.to_regexp()})" for t in rest)
    return rf"(?:{blanks})*+(?:{tokens}|(?P<END>\Z))", words
