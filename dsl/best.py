"""`= best` in a state: all variants that its networks may have there, the most accurate ones first.

In: what a state chooses. Out: its options, each with a variant for every network, and how accurate these are together:
the sum of what their variants say. Which option counts is decided by whoever knows how long networks take.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from math import prod

from ..model.diagnostic import Note, has_errors
from . import syntax as s
from .context import Context
from .evaluate import Evaluator

#: What stands for a variant where the best one is wanted.
BEST = "best"
#: So many options a state may have: each of them is checked, and may be mapped.
MOST = 64

#: The variants of networks, and their accuracy together.
Choices = tuple[dict[str, str], Fraction]


def wanted(choices: Mapping[str, str]) -> tuple[str, ...]:
    """The networks of a state that are to have the best variant."""
    return tuple(name for name, variant in choices.items() if variant == BEST)


class Ranking:
    """Ranks the variants of each network once, so that what it lacks is told once."""

    def __init__(self, context: Context, evaluate: Evaluator) -> None:
        self._context, self._evaluate = context, evaluate
        self._ranks: dict[str, list[tuple[str, Fraction]]] = {}

    def options(
        self, mode: s.ModeDecl, choices: Mapping[str, str], networks: Mapping[str, s.NetworkDecl]
    ) -> tuple[Choices, ...]:
        """The most accurate ones first, among equals as the text has them; one alone where nothing is to be the best.

        None at all after a fault.
        """
        names = wanted(choices)
        rows = [self._ranked(networks[n], mode) for n in names]
        count = prod(map(len, rows))
        if count > MOST:
            message = f"the networks of `{mode.name.text}` have {count} combinations of variants"
            help_text = f"choose the variants of some of them: up to {MOST} combinations are tried"
            self._context.fault("F813", message, mode.name.span, help=help_text)
            return ()
        found = []
        for row in product(*rows):
            taken = {n: variant for n, (variant, _) in zip(names, row, strict=True)}
            found.append(({**choices, **taken}, sum((accuracy for _, accuracy in row), Fraction(0))))
        return tuple(sorted(found, key=lambda option: -option[1]))

    def _ranked(self, network: s.NetworkDecl, mode: s.ModeDecl) -> list[tuple[str, Fraction]]:
        """Variants with their accuracy."""
        name = network.name.text
        if name not in self._ranks:
            found = self._ranks[name] = []
            for variant in network.variants:
                if variant.accuracy is None:
                    notes = [Note(f"`{mode.name.text}` wants the best one", mode.name.span)]
                    message = f"nobody says how good `{variant.name.text}` of `{name}` is"
                    help_text = "write `accuracy 0.7` behind it: what is larger is better"
                    self._context.fault("F812", message, variant.name.span, notes=notes, help=help_text)
                elif not has_errors(self._context.faults):  # else it may be told a second time
                    value = self._evaluate.number(variant.accuracy, {}, "an accuracy", 0)
                    found.append((variant.name.text, Fraction(0) if value is None else value))
        return self._ranks[name]
