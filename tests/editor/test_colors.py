"""Colors of texts: the TextMate grammar of VS Code, and the lexer for Pygments."""

from __future__ import annotations

import json
import re
import runpy

from flowc.dsl.parse import keywords
from flowc.editor.lexer import FlowLexer
from pygments.token import Comment, Keyword, String, Token

from builds import ROOT

GRAMMAR = ROOT / "editors/vscode/syntaxes/flow.tmLanguage.json"


def test_the_grammar_of_vs_code_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "editors/make_grammar.py"))["grammar"]()
    assert GRAMMAR.read_text() == made, "run `python editors/make_grammar.py`"
    rules = json.loads(made)["patterns"]
    assert all(re.compile(rule.get("match") or rule["begin"]) for rule in rules)
    colored = [
        rule["match"] for rule in rules if rule.get("name", "").startswith(("keyword", "storage"))
    ]
    for word in keywords():
        assert any(re.fullmatch(pattern, word) for pattern in colored), word


def test_pygments_reads_all_examples() -> None:
    lexer = FlowLexer()
    for flow in [*ROOT.glob("examples/*/*.flow"), *ROOT.glob("platforms/*.flow")]:
        text = flow.read_text()
        found = list(lexer.get_tokens(text))
        assert "".join(value for _, value in found).strip() == text.strip()
        assert not [value for kind, value in found if kind in Token.Error], flow
    found = list(lexer.get_tokens('task T { in x rate 2 }  // "no text"\n"a" ?'))
    kinds = {value: kind for kind, value in found}
    assert kinds["task"] in Keyword and kinds["rate"] in Keyword and kinds["T"] not in Keyword
    assert kinds['// "no text"'] in Comment and kinds['"a"'] in String and kinds["?"] in Token.Error
