"""What a search has chosen among: over what an answer is optimal, or a bound holds."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Scope:
    """A proof of a search holds over all that differs in what it has `moved`, with what it has
    `held` as given: other values there may be better."""

    moved: tuple[str, ...] = ()
    held: tuple[str, ...] = ()

    def holding(self, *more: str) -> Scope:
        """The same with more that is held."""
        return replace(self, held=tuple(dict.fromkeys((*self.held, *more))))

    def moving(self, name: str) -> Scope:
        """The same with one more that differs."""
        held = tuple(other for other in self.held if other != name)
        return Scope((*self.moved, name), held)

    @property
    def in_words(self) -> str:
        """The end of a sentence that says what is proved."""
        if not self.moved:
            return f"with {_in_a_row(('places', *self.held))} as given"
        said = f"over {_in_a_row(self.moved)}"
        return f"{said}, with {_in_a_row(self.held)} as given" if self.held else said


#: That of an answer of which nothing is proved.
NOTHING_MOVED = Scope()


def _in_a_row(names: tuple[str, ...]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
