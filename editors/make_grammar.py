"""Write the TextMate grammar of .flow texts, which colors them in VS Code: `python
editors/make_grammar.py`.

Its keywords are those of `dsl/grammar.lark`; a test fails when the file is older than they are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flowc.dsl.parse import OPENING_WORDS, keywords
from flowc.model.types import DTYPES

TARGET = Path(__file__).resolve().parent / "vscode" / "syntaxes" / "flow.tmLanguage.json"
NAME = "[A-Za-z_][A-Za-z_0-9]*"


def words(which: set[str]) -> str:
    """A pattern for any of them."""
    return rf"\b(?:{'|'.join(sorted(which))})\b"


def grammar() -> str:
    """The file's text."""
    openers, ways = set(OPENING_WORDS), {"in", "out"}
    named = openers - {"use", "mapping"}
    rules: list[dict[str, Any]] = [
        {"name": "comment.line.documentation.flow", "match": "///.*$"},
        {"name": "comment.line.double-slash.flow", "match": "//.*$"},
        {
            "name": "string.quoted.double.flow",
            "begin": '"',
            "end": '"|$',
            "patterns": [{"name": "constant.character.escape.flow", "match": r"\\."}],
        },
        {
            "match": rf"({words(named)})\s+({NAME})",
            "captures": {
                "1": {"name": "keyword.declaration.flow"},
                "2": {"name": "entity.name.type.flow"},
            },
        },
        {
            "match": rf"({NAME})(?:\[[^\]\n]*\])?\s*:\s*({NAME})",
            "captures": {
                "1": {"name": "variable.other.flow"},
                "2": {"name": "entity.name.type.flow"},
            },
        },
        {"name": "storage.modifier.flow", "match": words(ways)},
        {"name": "keyword.declaration.flow", "match": words(openers)},
        {"name": "support.type.flow", "match": words(set(DTYPES))},
        {"name": "constant.language.flow", "match": words({"true", "false"})},
        {"name": "keyword.other.flow", "match": words(set(keywords()) - openers - ways)},
        {"name": "constant.numeric.flow", "match": r"\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b"},
        {"name": "keyword.operator.flow", "match": r"->|[|+*/=-]"},
    ]
    document = {
        "scopeName": "source.flow",
        "name": "flow",
        "fileTypes": ["flow"],
        "patterns": rules,
    }
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    TARGET.write_text(grammar())
