"""Colors of a .flow text for Pygments: pages, notebooks, terminals. Keywords are those of the
grammar."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Token,
    Whitespace,
)

from ..dsl.parse import OPENING_WORDS, keywords
from ..model.types import DTYPES

_NAME = r"[A-Za-z_][A-Za-z_0-9]*"
_NAMED = "|".join(w for w in OPENING_WORDS if w not in ("use", "mapping"))


class FlowLexer(RegexLexer):  # type: ignore[misc]
    """The lexer `flow`."""

    name = "flow"
    aliases: ClassVar[list[str]] = ["flow"]
    filenames: ClassVar[list[str]] = ["*.flow"]
    tokens: ClassVar[dict[str, list[tuple[object, object]]]] = {
        "root": [
            (r"\s+", Whitespace),
            (r"///[^\n]*", String.Doc),
            (r"//[^\n]*", Comment.Single),
            (r'"(?:[^"\\\n]|\\.)*"', String.Double),
            (rf"\b({_NAMED})(\s+)({_NAME})", bygroups(Keyword.Declaration, Whitespace, Name.Class)),
            (rf"({_NAME})(\s*:\s*)({_NAME})", bygroups(Name.Variable, Punctuation, Name.Class)),
            (words(("true", "false"), prefix=r"\b", suffix=r"\b"), Keyword.Constant),
            (words(DTYPES, prefix=r"\b", suffix=r"\b"), Keyword.Type),
            (words(sorted(keywords()), prefix=r"\b", suffix=r"\b"), Keyword),
            (_NAME, Name),
            (r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", Number),
            (r"->|[|+*/=-]", Operator),
            (r"[{}()\[\]:,.]", Punctuation),
            (r".", Token.Error),
        ]
    }


__all__ = ["FlowLexer"]
