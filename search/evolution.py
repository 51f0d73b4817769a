"""The numbers of a search by evolution, which a user may set.

In: words such as `population=128,generations=50`. Out: the numbers of a search, those that its
thesis prints where the words say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..model.diagnostic import Diagnostic, Errors, one_of

#: Numbers that a user wants, by their names.
Changes = Mapping[str, float]
UNCHANGED: Changes = {}


@dataclass(frozen=True, slots=True)
class Evolution:
    """Individuals, generations at most, generations without progress until the end, the
    probability that a gene of a child changes, and the individuals that compete to be a parent
    (0: parents are selected by another rule)."""

    population: int
    generations: int
    patience: int
    mutation: float
    selection: int = 0

    def changed(self, wanted: Changes) -> Evolution:
        """The same with the numbers that a user wants. Raises Errors (F508) for the rivals of a
        tournament where there is none."""
        if "selection" in wanted and not self.selection:
            raise _fault("this search selects without tournaments", "leave `selection` out")
        whole = {
            name: value if name == "mutation" else int(value) for name, value in wanted.items()
        }
        return replace(self, **whole)  # type: ignore[arg-type]


#: The numbers that a user may set, with the least and the largest.
LIMITS = {
    "population": (2, 10**6),
    "generations": (1, 10**6),
    "patience": (1, 10**6),
    "mutation": (0, 1),
    "selection": (1, 10**6),
}


def evolution_words(text: str) -> dict[str, float]:
    """The numbers of words such as `population=128,mutation=0.1`; none if the text is empty.

    Raises Errors (F508) for unknown words, and for numbers that no search can have.
    """
    found: dict[str, float] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in word.partition("="))
        if name in found:
            raise _fault(f"`{name}` is given twice", "keep one of them")
        if name not in LIMITS:
            raise _fault(f"searches by evolution have no `{name}`", f"it is {one_of(LIMITS)}")
        least, most = LIMITS[name]
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not least <= number <= most or (name != "mutation" and number != int(number)):
            kind = "a number" if name == "mutation" else "a whole number"
            raise _fault(f"`{word}` is not possible", f"{name} is {kind} from {least} to {most}")
        found[name] = number
    return found


def _fault(message: str, help_text: str) -> Errors:
    return Errors([Diagnostic("F508", message, None, help=help_text)])
