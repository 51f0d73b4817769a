"""Declarations from tokens, by lark's parse table of the grammar.

In: the tokens of one declaration. Out: the node of its rule, or the token that does not fit. lark
would build a tree with places and walk it with a transformer, which takes two thirds of the time of
a check. Here a rule becomes its node as soon as it has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from lark import Lark, Token, Tree
from lark.parse_tree_builder import ParseTreeBuilder
from lark.parsers.lalr_analysis import Shift

from ..model.span import Span

#: Builds the node of a rule from its place and the nodes of its parts.
Node = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Unfit:
    """The token that does not fit; behind the last one: the declaration is not complete."""

    position: int


class Table:
    """A grammar, with what its rules become by their names. One declaration at a time."""

    def __init__(self, grammar: Lark, nodes: Mapping[str, Node]) -> None:
        self._machine = grammar.parse_interactive().parser_state.parse_conf
        named = SimpleNamespace(**{name: self._placed(node) for name, node in nodes.items()})
        made = _shapes(grammar).create_callback(named)
        assert all(rule.expansion for rule in made), "lark has written out what may be missing"
        #: Length, name and builder of each rule: by its identity, as its hash is slow.
        self._rules = {
            id(rule): (len(rule.expansion), rule.origin.name, build) for rule, build in made.items()
        }
        self._file = ""
        self._first: Any = None  # lark's types do not guarantee places of tokens
        self._last: Any = None

    def _placed(self, node: Node) -> Callable[[list[Any]], Any]:
        def build(parts: list[Any]) -> Any:
            first, last = self._first, self._last
            return node(
                Span(self._file, first.line, first.column, last.end_line, last.end_column), *parts
            )

        return build

    def read(self, file: str, tokens: Sequence[Token]) -> Any:
        """The node of the declaration with these tokens, or `Unfit`."""
        self._file = file
        states, rules = self._machine.states, self._rules
        state, end = self._machine.start_state, self._machine.end_state
        # Parallel stacks: states behind the parts read, their nodes, first tokens and last tokens.
        behind, values, firsts, lasts = [state], list[Any](), list[Token](), list[Token]()
        for position, token in enumerate((*tokens, ending(tokens))):
            while True:
                step = states[state].get(token.type)
                if step is None:
                    return Unfit(position)
                action, what = step
                if action is Shift:
                    state = what
                    behind.append(state)
                    values.append(token)
                    firsts.append(token)
                    lasts.append(token)
                    break
                size, name, build = rules[id(what)]
                if size == 1:
                    self._first, self._last = firsts[-1], lasts[-1]
                    values[-1] = build(values[-1:])
                else:
                    self._first, self._last = firsts[-size], lasts[-1]
                    values[-size:] = [build(values[-size:])]
                    del firsts[1 - size :], lasts[-size:-1], behind[1 - size :]
                state = behind[-1] = states[behind[-2]][name][1]
                if state == end:
                    return values[-1]
        raise AssertionError("the end of a declaration fits, or it does not")


def ending(tokens: Sequence[Token]) -> Token:
    """The token behind the last one."""
    return Token.new_borrow_pos("$END", "", tokens[-1])


@cache
def _shapes(grammar: Lark) -> Any:
    """Which parts of a rule count, and where one is missing; lark does not type this."""
    shapes: Any = ParseTreeBuilder
    return shapes(grammar.rules, Tree, maybe_placeholders=True)
