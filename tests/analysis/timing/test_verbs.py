"""Verdicts of verbs against executions of what they build (tests/referees/verbs).

Hundreds of texts: `python tests/referees/verbs.py`.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import flowc
import pytest

from random_texts import KINDS, NOT_DRAWN, TIMELESS, random_text
from verbs import Found, one

GRAMMAR = Path(flowc.__file__).parent / "dsl/grammar.lark"


def _terminals() -> dict[str, str]:
    """The terminals of the grammar, with what they match."""
    found = re.findall(r"^([A-Z_]+)(?:\.-?\d+)?: (.+)$", GRAMMAR.read_text(), re.M)
    return dict(found)


def test_each_word_of_the_language_has_a_kind() -> None:
    drawn = {word for words in KINDS.values() for word in words}
    known = drawn | TIMELESS | NOT_DRAWN
    # the parser makes _ON_TYPE of ON
    assert not set(_terminals()) - known - {"_ARROW", "_ON_TYPE"}
    assert not known - set(_terminals())
    assert not drawn & (TIMELESS | NOT_DRAWN)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_a_kind_have_its_words(kind: str) -> None:
    terminals = _terminals()
    texts = [random_text(kind, random.Random(f"{kind} {n}")).source for n in range(30)]
    for word in KINDS[kind]:
        match = terminals[word]
        pattern = match[1:-1] if match.startswith("/") else re.escape(match.strip('"'))
        if match.startswith('"') and pattern.isalpha():
            pattern = rf"\b{pattern}\b"
        assert any(re.search(pattern, text) for text in texts), word


@pytest.mark.parametrize("kind", ["timers", "live", "taker"])
def test_no_execution_exceeds_a_bound(kind: str) -> None:
    found = Found()
    for seed in range(20006, 20010):
        found.add(one((kind, seed, 12, False)))
    assert not found.exceeded
    assert found.proved


@pytest.mark.parametrize(("kind", "seed"), [("live", 5085), ("taker", 5074), ("age", 5010)])
def test_data_that_pause_or_are_dropped_are_a_condition(kind: str, seed: int) -> None:
    """Texts whose bounds supposed that data come every period, or that none of an iteration are
    dropped, and did not say so."""
    found = one((kind, seed, 18, False))
    assert not found.exceeded
    assert found.proved
