"""`= best` in a state: all variants that its networks may have there, the most accurate ones first.

In: the variants that a state selects. Out: its options, each with a variant for every network, and
the sum of their accuracies. The search selects an option, since it knows the times of networks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction
from itertools import product
from math import prod
from typing import cast, get_args

from ..model.diagnostic import Note, has_errors, one_of
from ..model.scenario import Criterion
from . import syntax as s
from .context import Context
from .evaluate import Evaluator

#: The word that selects the best variant.
BEST = "best"
#: Maximum number of options of a state: each of them is checked, and may be mapped.
MOST = 64

CRITERIA = get_args(Criterion)

#: The variants of networks, and their accuracy together.
Choices = tuple[dict[str, str], Fraction]


def wanted(choices: Mapping[str, str]) -> tuple[str, ...]:
    """The networks of a state with `= best`."""
    return tuple(name for name, variant in choices.items() if variant == BEST)


class Ranking:
    """Ranks the variants of each network once, so that a missing accuracy is reported once."""

    def __init__(self, context: Context, evaluate: Evaluator) -> None:
        self._context, self._evaluate = context, evaluate
        self._ranks: dict[str, list[tuple[str, Fraction]]] = {}

    def options(
        self, mode: s.ModeDecl, choices: Mapping[str, str], networks: Mapping[str, s.NetworkDecl]
    ) -> tuple[Choices, ...]:
        """The options, the most accurate first, equal ones in the order of the text; a single one
        without `= best`.

        Empty after a fault.
        """
        names = wanted(choices)
        rows = [self._ranked(networks[n], mode) for n in names]
        count = prod(map(len, rows))
        if count > MOST:
            message = f"the networks of `{mode.name.text}` have {count} combinations of variants"
            help_text = f"select the variants of some of them: up to {MOST} combinations are tried"
            self._context.fault("F813", message, mode.name.span, help=help_text)
            return ()
        found = []
        for row in product(*rows):
            taken = {n: variant for n, (variant, _) in zip(names, row, strict=True)}
            found.append(
                ({**choices, **taken}, sum((accuracy for _, accuracy in row), Fraction(0)))
            )
        return tuple(sorted(found, key=lambda option: -option[1]))

    def preferred(
        self, mode: s.ModeDecl, best: Collection[str]
    ) -> tuple[tuple[Criterion, Fraction], ...]:
        """The weights of what a state prefers, with the sum 1."""
        weights: dict[Criterion, Fraction] = {}
        for item in mode.items:
            if not isinstance(item, s.PreferDecl):
                continue
            for word, value in item.criteria:
                if word.text not in CRITERIA:
                    message = f"`{word.text}` cannot be preferred"
                    help_text = f"it is {one_of(CRITERIA)}"
                    self._context.fault("F105", message, word.span, help=help_text)
                elif word.text in weights:
                    message = f"`{word.text}` is preferred twice"
                    self._context.fault("F105", message, word.span, help="keep one of them")
                else:
                    number = self._evaluate.number(value, {}, "a weight", 0)
                    weights[cast(Criterion, word.text)] = number or Fraction(0)
            if not best:
                message = f"`{mode.name.text}` prefers something, and has nothing to choose"
                help_text = "write `NETWORK = best` in this state, or leave `prefer` out"
                self._context.fault("F105", message, item.span, help=help_text)
        total = sum(weights.values(), Fraction(0))
        if weights and best and not total:
            message = f"all weights of what `{mode.name.text}` prefers are 0"
            self._context.fault("F105", message, mode.name.span, help="leave `prefer` out")
        total = total or Fraction(1)
        return tuple((word, weight / total) for word, weight in weights.items())

    def _ranked(self, network: s.NetworkDecl, mode: s.ModeDecl) -> list[tuple[str, Fraction]]:
        """Variants with their accuracy."""
        name = network.name.text
        if name not in self._ranks:
            ranked = self._ranks[name] = []
            for variant in network.variants:
                if variant.accuracy is None:
                    notes = [Note(f"`{mode.name.text}` selects the best one", mode.name.span)]
                    message = f"variant `{variant.name.text}` of `{name}` has no `accuracy`"
                    help_text = "write `accuracy 0.7` behind it: larger is better"
                    self._context.fault(
                        "F812", message, variant.name.span, notes=notes, help=help_text
                    )
                elif not has_errors(self._context.faults):  # else it may be reported twice
                    value = self._evaluate.number(variant.accuracy, {}, "an accuracy", 0)
                    ranked.append((variant.name.text, Fraction(0) if value is None else value))
        return self._ranks[name]
