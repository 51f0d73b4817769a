"""The verb `map`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._boards import BoardPython, Boards, hosts_of, search_workers_of
from ._common import (
    Json,
    NoMeasure,
    OnPlatform,
    RunTarget,
    Target,
    Text,
    in_full,
    measuring,
    print_json,
    progress,
    say,
    show_diagnostics,
    sources,
)
from ._groups import grouped
from ._searching import SearchOptions, SuppositionOptions

if TYPE_CHECKING:
    from ..driver.solve.map import Answer
    from ..driver.solve.request import WhatIf


@dataclass(frozen=True, slots=True)
class SiteOptions:
    """The kind of program, the platform, and the machines that measure what is not known of it."""

    no_measure: NoMeasure = False
    target: RunTarget = Target.PROGRAM
    platform: OnPlatform = "host"
    board: Boards = None
    board_python: BoardPython = "python3"


@grouped
def map_(
    file: Text,
    wanted: SearchOptions,
    suppositions: SuppositionOptions,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also why the winner won, and what limits it.")
    ] = False,
    slack: Annotated[
        bool,
        typer.Option("--slack", help="Also how much longer tasks may take, by the same bounds."),
    ] = False,
    gantt: Annotated[
        Path | None,
        typer.Option(help="Draw a simulation of the mapping.", metavar="FILE", show_default=False),
    ] = None,
    *,
    site: SiteOptions,
    as_json: Json = False,
) -> int:
    """Search where everything should run, and keep the answer. `build` and `run` use it.

    Apps with periods are mapped together, so that every deadline is met in the worst case. Without
    periods, the best configurations are run on this machine, and compared with the plain ways of
    running the same.
    """
    from ..driver.solve.map import find_mapping
    from ..model.extras import require
    from ._mapping import document, text_of

    asked = wanted.asked
    what_if = suppositions.what_if
    swept = suppositions.swept
    if gantt is not None:
        require("matplotlib", "plots", "`--gantt`")
    with (
        hosts_of(site.board, site.board_python) as host,
        search_workers_of(wanted.workers, wanted.cluster) as search_workers,
    ):
        asked |= {
            "platform": site.platform,
            "native": site.target == Target.NATIVE,
            "host": host,
            "search_workers": search_workers,
            "measure": not site.no_measure,
            "slack": slack,
            "on_measure": measuring,
            "report": progress,
        }
        if suppositions.sweep:
            return _swept(file, swept, asked, as_json)
        mapped = find_mapping(file, what_if=what_if, keep=suppositions.keep, **asked)
    show_diagnostics(mapped.diagnostics, sources(mapped.diagnostics))
    if gantt is not None:
        _draw(mapped, gantt)
    if as_json:
        print_json(document(mapped))
    else:
        print(text_of(mapped, explain=explain, evaluations=wanted.evaluations))
        if mapped.path is not None:
            print(f"\n{mapped.path}")
    return 1 if mapped.late else 0


def _swept(file: Path, what_ifs: list[WhatIf], asked: dict[str, Any], as_json: bool) -> int:
    """Map repeatedly; diagnostics of the text are reported once."""
    from ..driver.solve.sweep import sweep
    from ._sweep import document, table

    found = list(sweep(file, what_ifs, **asked))
    diagnostics = [d for s in found if s.mapped is not None for d in s.mapped.diagnostics]
    show_diagnostics(tuple(dict.fromkeys(diagnostics)), sources(diagnostics))
    if as_json:
        print_json(document(found))
    else:
        print(table(found))
    return 0


def _draw(mapped: Answer, file: Path) -> None:
    """The Gantt chart of a simulation of the mapped system. Raises Errors."""
    from ..driver.solve.deadlines import simulated
    from ..model.diagnostic import Diagnostic, Errors
    from ..report.gantt import draw

    if mapped.joint is None:
        help_text = "`flowc show --gantt` draws apps without periods"
        raise Errors(
            [Diagnostic("F605", "only apps with periods are simulated", None, help=help_text)]
        )
    chart = simulated(mapped.joint)
    if chart is not None:
        draw([chart], file)
        say(f"flowc: {in_full(file)}")
