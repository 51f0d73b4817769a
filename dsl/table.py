"""Declarations from tokens, by the parse table of the grammar.

In: the tokens of one declaration. Out: the node of its rule, or the token that does not fit. lark
would build a tree with places and walk it with a transformer, which takes two thirds of the time of
a check. Here a rule becomes its node as soon as it has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..model.span import Span
from .grammar import Grammar, Rule
from .tokens import Token

#: Builds the node of a rule from its place and the nodes of its parts.
Node = Callable[..., Any]
#: Builds something of the parts of a rule.
Build = Callable[[list[Any]], Any]


@dataclass(frozen=True, slots=True)
class Unfit:
    """The token that does not fit; behind the last one: the declaration is not complete."""

    position: int


class Table:
    """A grammar, with what its rules become by their names. One declaration at a time."""

    def __init__(self, grammar: Grammar, nodes: Mapping[str, Node]) -> None:
        self._grammar = grammar
        placed = {name: self._placed(node) for name, node in nodes.items()}
        #: Length, symbol and builder of each rule; other rules spread the parts of those without a
        #: node.
        self._rules = [
            (rule.size, rule.symbol, _builder(rule, placed.get(rule.node, _listed)))
            for rule in grammar.rules
        ]
        self._file = ""
        self._first: Any = None  # nothing is read yet
        self._last: Any = None

    def _placed(self, node: Node) -> Build:
        def build(parts: list[Any]) -> Any:
            first, last = self._first, self._last
            return node(
                Span(self._file, first.line, first.column, last.end_line, last.end_column), *parts
            )

        return build

    def read(self, file: str, tokens: Sequence[Token]) -> Any:
        """The node of the declaration with these tokens, or `Unfit`."""
        self._file = file
        states, rules = self._grammar.states, self._rules
        state, end = self._grammar.start, self._grammar.end
        # Parallel stacks: states behind the parts read, their nodes, first tokens and last tokens.
        behind, values, firsts, lasts = [state], list[Any](), list[Token](), list[Token]()
        for position, token in enumerate((*tokens, ending(tokens))):
            while True:
                step = states[state].get(token.type)
                if step is None:
                    return Unfit(position)
                if step >= 0:
                    state = step
                    behind.append(state)
                    values.append(token)
                    firsts.append(token)
                    lasts.append(token)
                    break
                size, symbol, build = rules[~step]
                if size == 1:
                    self._first, self._last = firsts[-1], lasts[-1]
                    values[-1] = build(values[-1:])
                else:
                    self._first, self._last = firsts[-size], lasts[-1]
                    values[-size:] = [build(values[-size:])]
                    del firsts[1 - size :], lasts[-size:-1], behind[1 - size :]
                state = behind[-1] = states[behind[-2]][symbol]
                if state == end:
                    return values[-1]
        raise AssertionError("the end of a declaration fits, or it does not")


def ending(tokens: Sequence[Token]) -> Token:
    """The token behind the last one."""
    last = tokens[-1]
    return Token(
        "$END",
        "",
        last.start_pos,
        last.line,
        last.column,
        last.end_line,
        last.end_column,
        last.end_pos,
    )


def _listed(parts: list[Any]) -> list[Any]:
    """What a rule without a node becomes. Not copied: repeated parts are collected one by one."""
    return parts


def _builder(rule: Rule, build: Build) -> Build:
    """Builds a node of those parts of a rule that count."""
    if rule.transparent:
        build = _unless_single(build)
    return build if rule.parts is None else _of_selected(rule, build)


def _unless_single(build: Build) -> Build:
    def built(parts: list[Any]) -> Any:
        return parts[0] if len(parts) == 1 else build(parts)

    return built


def _of_selected(rule: Rule, build: Build) -> Build:
    steps = [(part.index, part.spread, part.missing) for part in rule.parts or ()]
    behind = rule.missing

    def built(parts: list[Any]) -> Any:
        selected: list[Any] = []
        for index, spread, missing in steps:
            if missing:
                selected += [None] * missing
            if not spread:
                selected.append(parts[index])
            elif selected:
                selected += parts[index]
            else:
                selected = parts[index]  # no other rule has it, and it may be long
        if behind:
            selected += [None] * behind
        return build(selected)

    return built
