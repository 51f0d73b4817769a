"""The options of `map` that say what to search, and under which suppositions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._boards import Cluster, Workers
from ._common import seconds

if TYPE_CHECKING:
    from ..driver.solve.request import WhatIf

#: Units of sizes, as in texts.
UNITS_OF_MEMORY = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ "


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The search, its objectives and limits, and how long it may take."""

    search: Annotated[
        str, typer.Option(help="`auto`, `exact`, ...: see docs/mapping.md.", metavar="SEARCH")
    ] = "auto"
    objective: Annotated[
        str,
        typer.Option(
            help="What matters, in this order: `cores,utilization`. See docs/mapping.md.",
            metavar="LIST",
        ),
    ] = ""
    memory: Annotated[
        str | None,
        typer.Option(
            help="Networks may take so much: `20MB`, `512KiB`.", metavar="SIZE", show_default=False
        ),
    ] = None
    budget: Annotated[
        str,
        typer.Option(
            help="How long to search: `60s`, `5min`. A run that has begun is finished, and with"
            " `--target native` compiled first. Ctrl-C keeps the best so far.",
            metavar="TIME",
        ),
    ] = "60s"
    evaluations: Annotated[
        int | None,
        typer.Option(
            help="Try N things instead, however long they take: repeatable.",
            min=1,
            metavar="N",
            show_default=False,
        ),
    ] = None
    evolution: Annotated[
        str,
        typer.Option(
            help="Numbers of a genetic search: `population=128,generations=50,mutation=0.1`.",
            metavar="LIST",
        ),
    ] = ""
    workers: Workers = 1
    cluster: Cluster = None
    seed: Annotated[int, typer.Option(help="For searches that draw lots.")] = 0

    @property
    def asked(self) -> dict[str, Any]:
        """The same as fields of a `MapRequest`. Raises BadParameter."""
        self._require_known_words()
        return {
            "search": self.search,
            "objective": self.objective,
            "evolution": self.evolution,
            "budget": seconds(self.budget),
            "evaluations": self.evaluations,
            "seed": self.seed,
            "memory": _size(self.memory),
        }

    def _require_known_words(self) -> None:
        """Raises BadParameter for objectives and searches that do not exist."""
        from ..model.diagnostic import Errors
        from ..search.evolution import evolution_words
        from ..search.objectives import OBJECTIVES, words_of
        from ..search.registry import SEARCHES

        for word in words_of(self.objective):
            if word not in OBJECTIVES:
                raise typer.BadParameter(
                    f"unknown objective {word}; expected {', '.join(OBJECTIVES)}",
                    param_hint="--objective",
                )
        if self.search not in {word for search in SEARCHES for word in (search.name, search.word)}:
            raise typer.BadParameter(
                f"unknown search {self.search}; expected {_searches()}", param_hint="--search"
            )
        try:
            evolution_words(self.evolution)
        except Errors as errors:
            (fault,) = errors.diagnostics
            text = f"{fault.message}: {fault.help}"
            raise typer.BadParameter(text, param_hint="--evolution") from errors


@dataclass(frozen=True, slots=True)
class SuppositionOptions:
    """What to suppose instead of the text."""

    fps: Annotated[
        str | None,
        typer.Option(
            help="What if every app had so many frames/s? Its deadline stays. Not stored.",
            metavar="F",
            show_default=False,
        ),
    ] = None
    cores: Annotated[
        int | None,
        typer.Option(
            help="What if a pool of CPUs had N? Not stored.", min=1, metavar="N", show_default=False
        ),
    ] = None
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Store what was found for `--fps`, `--cores` or guessed times, too."
        ),
    ] = False
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            help=(
                "What if, for each of these: `fps=10,15,20`, `cores=2,4` (all pairs of both). Not"
                " stored."
            ),
            metavar="WHAT=A,B",
            show_default=False,
        ),
    ] = None
    profile: Annotated[
        Path | None,
        typer.Option(help="Times from this file.", metavar="P.json", show_default=False),
    ] = None

    @property
    def what_if(self) -> WhatIf:
        """The suppositions, but for those of `sweep`. Raises BadParameter."""
        from ..driver.solve.request import WhatIf

        return WhatIf(_rate(self.fps), self.cores, self.profile)

    @property
    def swept(self) -> list[WhatIf]:
        """The suppositions of `sweep`, each with those of other options. Raises BadParameter."""
        from ..driver.solve.sweep import suppositions

        rates: list[Fraction] = []
        cores: list[int] = []
        for text in self.sweep or ():
            kind, numbers = _values_of_sweep(text)
            if kind == "fps":
                rates += numbers
            else:
                cores += [int(number) for number in numbers]
        return suppositions(rates, cores, self.what_if)


def _values_of_sweep(text: str) -> tuple[str, list[Fraction]]:
    """What a sweep varies, and its values. Raises BadParameter."""
    kind, _, values = text.partition("=")
    try:
        numbers = [Fraction(value) for value in values.split(",")]
    except (ValueError, ZeroDivisionError):
        numbers = []
    whole = kind != "cores" or all(number.denominator == 1 for number in numbers)
    if kind not in ("fps", "cores") or not numbers or min(numbers) <= 0 or not whole:
        message = f"`{text}` is not a sweep: write `fps=10,15,20` or `cores=2,4`"
        raise typer.BadParameter(message, param_hint="--sweep")
    return kind, numbers


def _searches() -> str:
    """Every name with its purpose."""
    from ..search.registry import words_for

    with_periods = ", ".join(words_for("deadlines"))
    others = ", ".join(words_for("throughput"))
    return f"{with_periods} for apps with periods, {others} for others"


def _rate(text: str | None) -> Fraction | None:
    """Frames per second as an exact number. Raises BadParameter."""
    if text is None:
        return None
    try:
        rate = Fraction(text)
    except (ValueError, ZeroDivisionError):
        rate = Fraction(0)
    if rate <= 0:
        raise typer.BadParameter(
            f"`{text}` is not a rate: write `25` or `29.97`", param_hint="--fps"
        )
    return rate


def _size(text: str | None) -> int | None:
    """`20MB`, `512 KiB`: bytes. Raises BadParameter."""
    if text is None:
        return None
    number = text.rstrip(LETTERS)
    unit = text[len(number) :].strip()
    try:
        size = int(Fraction(number) * UNITS_OF_MEMORY[unit])
    except (ValueError, KeyError, ZeroDivisionError):
        size = 0
    if size < 1:
        raise typer.BadParameter(
            f"`{text}` is not a size: write `20MB` or `512KiB`", param_hint="--memory"
        )
    return size
