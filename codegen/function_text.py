"""Versions of a piece of Python as one function: parameters for values that differ, branches for
statements that differ.

In: for each version its values, and its statements. Out: text of parameters, arguments and
branches. It knows nothing of apps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby

from .names import identifiers

#: The lines of a statement.
Statement = tuple[str, ...]
#: Numbers of versions.
Numbers = frozenset[int]


class Parameters:
    """The values (expressions in Python) of each version by name: those that differ are parameters.

    The default of a parameter is the value of the first version that has one.
    """

    def __init__(self, versions: Sequence[Mapping[str, str]], reserved: Collection[str]) -> None:
        self._defaults: dict[str, str] = {}
        for version in versions:
            self._defaults = {**version, **self._defaults}
        self._values = [{**self._defaults, **version} for version in versions]
        names: dict[str, None] = {}
        for version in versions:
            names |= dict.fromkeys(version)
        differing = [n for n in names if len({values[n] for values in self._values}) > 1]
        self._ids = identifiers(differing, reserved)

    @property
    def ids(self) -> Collection[str]:
        """The identifiers of all parameters."""
        return self._ids.values()

    def differs(self, name: str) -> bool:
        """Is this value a parameter?"""
        return name in self._ids

    def text(self, name: str) -> str:
        """A value inside of the function: a parameter, or the value of all versions."""
        return self._ids.get(name, self._defaults[name])

    @property
    def signature(self) -> str:
        """The parameters, with their defaults."""
        return ", ".join(f"{id_}={self._defaults[name]}" for name, id_ in self._ids.items())

    def arguments(self, version: int) -> str:
        """The arguments of a version, without those that equal the defaults."""
        values = self._values[version]
        differing = [name for name in self._ids if values[name] != self._defaults[name]]
        return ", ".join(f"{self._ids[name]}={values[name]}" for name in differing)

    def condition(self, versions: Numbers) -> str:
        """What holds in these versions and in no others: of one parameter, or of all together."""
        for names in (*([name] for name in self._ids), list(self._ids)):
            inside, outside = dict[str, None](), set()
            for number, values in enumerate(self._values):
                value = _tuple([values[name] for name in names])
                if number in versions:
                    inside[value] = None
                else:
                    outside.add(value)
            if outside.isdisjoint(inside):
                what = _tuple([self._ids[name] for name in names])
                if len(inside) == 1:
                    return f"{what} == {next(iter(inside))}"
                return f"{what} in ({', '.join(inside)})"
        raise AssertionError("versions with equal parameters have different statements")


def _tuple(expressions: Sequence[str]) -> str:
    return expressions[0] if len(expressions) == 1 else f"({', '.join(expressions)})"


def in_branches(
    versions: Sequence[Sequence[Statement]], condition: Callable[[Numbers], str]
) -> list[str]:
    """The lines of all versions in one: statements that some versions lack are behind an `if`."""
    every = frozenset(range(len(versions)))
    lines: list[str] = []
    served: Numbers = frozenset()  # the versions with a branch of the latest `if`
    for of, group in groupby(_merged(versions), key=lambda pair: pair[1]):
        own: list[str] = []
        for statement, _ in group:
            own += statement
        if of == every:
            lines += own
            served = frozenset()
            continue
        if not served or served & of:
            lines.append(f"if {condition(of)}:")
            served = of
        elif served | of == every:
            lines.append("else:")
            served = every
        else:
            lines.append(f"elif {condition(of)}:")
            served |= of
        lines += [f"    {line}" for line in own]
    return lines


def _merged(versions: Sequence[Sequence[Statement]]) -> list[tuple[Statement, Numbers]]:
    """All statements, each with the versions that have it there; the order of each version
    stays."""
    result: list[tuple[Statement, Numbers]] = []
    for number, statements in enumerate(versions):
        matcher = SequenceMatcher(None, [s for s, _ in result], statements, autojunk=False)
        following: list[tuple[Statement, Numbers]] = []
        for tag, first, last, own_first, own_last in matcher.get_opcodes():
            if tag == "equal":
                following += [(s, of | {number}) for s, of in result[first:last]]
            else:
                following += result[first:last]
                following += [(s, frozenset({number})) for s in statements[own_first:own_last]]
        result = following
    return result
