"""The verb `map`."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._boards import BoardPython, Boards, Cluster, Workers, crew_of, hosts_of
from ._common import (
    Json,
    NoMeasure,
    OnPlatform,
    Text,
    in_full,
    measuring,
    print_json,
    progress,
    say,
    seconds,
    show_diagnostics,
    sources,
)
from ._deadlines import document as joint_document
from ._deadlines import (
    explanation,
    joint_table,
    states_document,
    states_table,
    why_elsewhere,
    why_no_better,
    why_rates,
)
from ._sweep import Sweep, parsed
from ._sweep import document as sweep_document
from ._sweep import table as sweep_table
from ._tables import fitted, folded, in_8_bits

if TYPE_CHECKING:
    from ..driver.solve.map import Answer
    from ..driver.solve.request import WhatIf
    from ..model.deployment import PlannedMemory
    from ..model.mapping import Mapping

#: Characters of a configuration in the table; --explain prints the winner's in full.
WIDEST = 72
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
UNITS = {"throughput": "frames/s", "latency": "ms", "energy": "mJ", "memory": "frames/s"}


def map_(
    file: Text,
    search: Annotated[
        str, typer.Option(help="`auto`, `exact`, ...: see docs/mapping.md.", metavar="SEARCH")
    ] = "auto",
    objective: Annotated[
        str,
        typer.Option(
            help="What matters, in this order: `cores,utilization`. See docs/mapping.md.",
            metavar="LIST",
        ),
    ] = "",
    memory: Annotated[
        str | None,
        typer.Option(
            help="Networks may take so much: `20MB`, `512KiB`.", metavar="SIZE", show_default=False
        ),
    ] = None,
    budget: Annotated[
        str,
        typer.Option(
            help="How long to search: `60s`, `5min`. Ctrl-C keeps the best so far.", metavar="TIME"
        ),
    ] = "60s",
    evaluations: Annotated[
        int | None,
        typer.Option(
            help="Try N things instead, however long they take: repeatable.",
            min=1,
            metavar="N",
            show_default=False,
        ),
    ] = None,
    workers: Workers = 1,
    cluster: Cluster = None,
    seed: Annotated[int, typer.Option(help="For searches that draw lots.")] = 0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also why the winner won, and what limits it.")
    ] = False,
    fps: Annotated[
        str | None,
        typer.Option(
            help="What if every app had so many frames/s? Not stored.",
            metavar="F",
            show_default=False,
        ),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(
            help="What if a pool of CPUs had N? Not stored.", min=1, metavar="N", show_default=False
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Store what was found for `--fps` or `--cores`, too.")
    ] = False,
    sweep: Sweep = None,
    profile: Annotated[
        Path | None,
        typer.Option(help="Times from this file.", metavar="P.json", show_default=False),
    ] = None,
    gantt: Annotated[
        Path | None,
        typer.Option(help="Draw a simulation of the mapping.", metavar="FILE", show_default=False),
    ] = None,
    no_measure: NoMeasure = False,
    platform: OnPlatform = "host",
    board: Boards = None,
    board_python: BoardPython = "python3",
    as_json: Json = False,
) -> int:
    """Search where everything should run, and keep the answer. `build` and `run` use it.

    Apps with periods are mapped together, so that every deadline is met in the worst case. Without
    periods, the best configurations are run on this machine, and compared with the plain ways of
    running the same.
    """
    from ..driver.solve.map import find_mapping
    from ..driver.solve.request import WhatIf
    from ..driver.solve.sweep import suppositions
    from ..driver.text.check import ValidScenario
    from ..model.extras import require
    from ..search.objectives import OBJECTIVES
    from ..search.registry import SEARCHES

    unknown = [
        word for word in objective.split(",") if word.strip() and word.strip() not in OBJECTIVES
    ]
    if unknown:
        expected = ", ".join(OBJECTIVES)
        raise typer.BadParameter(
            f"unknown objective {unknown[0]}; expected {expected}", param_hint="--objective"
        )
    names = {s.name for s in SEARCHES}
    if search not in names:
        raise typer.BadParameter(
            f"unknown search {search}; expected {_searches()}", param_hint="--search"
        )
    if gantt is not None:
        require("matplotlib", "plots", "`--gantt`")
    what_if = WhatIf(_rate(fps), cores, profile)
    swept = parsed(sweep or ())
    with hosts_of(board, board_python) as host, crew_of(workers, cluster) as crew:
        options: dict[str, Any] = {
            "platform": platform,
            "host": host,
            "search": search,
            "objective": objective,
            "budget": seconds(budget),
            "evaluations": evaluations,
            "seed": seed,
            "crew": crew,
            "memory": _size(memory),
            "measure": not no_measure,
            "on_measure": measuring,
            "report": progress,
        }
        if sweep:
            return _swept(file, suppositions(*swept, what_if), options, as_json)
        mapped = find_mapping(file, what_if=what_if, keep=keep, **options)
    show_diagnostics(mapped.diagnostics, sources(mapped.diagnostics))
    if gantt is not None:
        _draw(mapped, gantt)
    if as_json:
        print_json(_document(mapped))
    elif mapped.states is not None:
        print(states_table(mapped.states))
        _tell_memory(mapped.mapping)
        for name, joint in mapped.states.joints.items() if explain else ():
            why = (of(mapped.states, name) for of in (why_elsewhere, why_no_better, why_rates))
            lines = [*(line for lines in why for line in lines), *explanation(joint)]
            print(f"\n{name}:\n" + "\n".join(folded(line, 2) for line in lines))
    elif isinstance(mapped.valid, ValidScenario):
        print(_places(mapped.mapping))
        _tell_memory(mapped.mapping)
    elif mapped.joint is not None:
        print(joint_table(mapped.joint))
        _tell_memory(mapped.mapping)
        if explain:
            print("\n" + "\n".join(folded(line, 2) for line in explanation(mapped.joint)))
    else:
        print(_table(mapped.mapping, evaluations))
        _tell_memory(mapped.mapping)
        for line in in_8_bits(mapped.valid.losses):
            print(line)
        if explain:
            print("\n" + "\n".join(folded(line, 2) for line in mapped.mapping.why))
    if mapped.path is not None and not as_json:
        print(f"\n{mapped.path}")
    return 1 if mapped.late else 0


def _swept(file: Path, what_ifs: list[WhatIf], options: dict[str, Any], as_json: bool) -> int:
    """Map repeatedly; diagnostics of the text are reported once."""
    from ..driver.solve.sweep import sweep

    found = list(sweep(file, what_ifs, **options))
    told = tuple(
        dict.fromkeys(d for s in found if s.mapped is not None for d in s.mapped.diagnostics)
    )
    show_diagnostics(told, sources(told))
    if as_json:
        print_json(sweep_document(found))
    else:
        print(sweep_table(found))
    return 0


def _searches() -> str:
    """Every name with its purpose."""
    from ..search.registry import searches_for

    names = {
        kind: ", ".join(s.name for s in searches_for(kind)) for kind in ("throughput", "deadlines")
    }
    return f"{names['deadlines']} for apps with periods, {names['throughput']} for others"


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
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
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


def _tell_memory(mapping: Mapping) -> None:
    """The memory of networks, if it was requested."""
    if mapping.memory is not None:
        print(_planned(mapping.memory))


def _planned(memory: PlannedMemory) -> str:
    parts = {"weights": memory.weights, "between layers": memory.buffers, "tokens": memory.tokens}
    parts |= {"in arenas of devices": memory.arenas} if memory.arenas else {}
    parts |= {"for sessions": memory.sessions} if memory.sessions else {}
    return f"networks take {memory.total / 1e6:.2f} MB: " + ", ".join(
        f"{n / 1e6:.2f} {what}" for what, n in parts.items()
    )


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


def _places(mapping: Mapping) -> str:
    """The places of everything, in all states."""
    from ..model.mapping import in_words
    from ..runtime.report import columns

    rows = [["task", "runs on"]]
    rows += [[p.task, ", ".join(p.processors)] for p in mapping.placements]
    return columns([*rows, *([n.task, in_words(n)] for n in mapping.networks)], left=2)


def _table(mapping: Mapping, limit: int | None) -> str:
    unit = UNITS[mapping.effort.objective]
    rows = [["contestant", "configuration", f"predicted {unit}", f"measured {unit}"]]
    for c in mapping.contestants:
        short = (
            c.configuration
            if len(c.configuration) <= WIDEST
            else c.configuration[: WIDEST - 3] + "..."
        )
        rows.append(
            [c.name, short, *(_value(mapping, ns) for ns in (c.predicted_ns, c.measured_ns))]
        )
    effort = mapping.effort
    looked, ran = f"{effort.evaluations} configurations", f"{effort.measured_runs} runs"
    if limit is not None and effort.measured_runs:  # then runs are counted
        ran = f"{effort.measured_runs} of {limit} runs"
    elif limit is not None and effort.evaluations <= limit:
        looked = f"{effort.evaluations} of {limit} configurations"
    said = f"{looked}, {ran}, {effort.seconds:.1f} s"
    if effort.lower_bound_ns and effort.objective == "throughput":
        said += f"; proved, no mapping has more than {1e9 / effort.lower_bound_ns:.4g} frames/s"
    return fitted(rows, 2, 1) + f"\n\n{_tie(mapping)}{mapping.search}: {said}"


def _tie(mapping: Mapping) -> str:
    """Why the winner is not the one with the best number, if so; a line of its own."""
    if not mapping.contestants or mapping.effort.objective == "memory":
        return ""
    first, *others = mapping.contestants
    measured = first.measured_ns is not None
    own = first.measured_ns if measured else first.predicted_ns
    values = [(c.measured_ns if measured else c.predicted_ns, c.name) for c in others]
    ahead = [(ns, name) for ns, name in values if ns is not None and own is not None and ns < own]
    if not ahead:
        return ""
    how = "surely better" if measured else "better by 1 %"
    return (
        f"`{min(ahead)[1]}` is not {how}: within the tie margin the simpler `{first.name}` wins\n"
    )


def _value(mapping: Mapping, ns: float | None) -> str:
    if ns is None or ns == float("inf"):
        return "-"
    return f"{1e9 / ns if UNITS[mapping.effort.objective] == 'frames/s' else ns / 1e6:.4g}"


def _document(mapped: Answer) -> dict[str, Any]:
    """As in docs/json.md: shares of processors, places of tasks, stages of networks, contestants,
    effort."""
    mapping = mapped.mapping
    if mapped.states is not None:
        return states_document(mapped.states, mapped.path)
    if mapped.joint is not None:
        return joint_document(mapped.joint, mapped.path)
    best = mapping.contestants[0] if mapping.contestants else None
    timed = mapping.effort.objective != "energy"  # its values are energies

    def rate(value: float | None) -> float | None:
        return None if not timed or not value or value == float("inf") else round(1e9 / value, 3)

    tasks: dict[str, Any] = {p.task: list(p.processors) for p in mapping.placements}
    networks = {}
    for n in mapping.networks:
        cuts = [s.until for s in n.stages if s.until is not None]
        tasks[n.task] = sorted({p for s in n.stages for p in s.processors})
        networks[n.task] = {
            "option": best.name if best else "",
            "cuts": cuts,
            "stages": [
                {
                    "processors": list(s.processors),
                    "first_layer": None if k == 0 else n.stages[k - 1].until,
                    "last_layer": s.until,
                    "replicas": len(s.processors),
                    "streams": s.streams,
                    "threads": s.threads,
                    "bands": [asdict(b) for b in s.bands],
                    "predicted_ns": round(s.predicted_ns),
                }
                for k, s in enumerate(n.stages)
            ],
            "predicted_fps": rate(best.predicted_ns if best else None),
            "measured_fps": rate(best.measured_ns if best else None),
            "contestants": [
                {
                    "name": c.name,
                    "configuration": c.configuration,
                    "predicted_fps": rate(c.predicted_ns),
                    "measured_fps": rate(c.measured_ns),
                }
                for c in mapping.contestants
            ],
        }
    effort, memory = mapping.effort, mapping.memory
    return {
        "tasks": tasks,
        "networks": networks,
        "why": list(mapping.why),
        **({} if memory is None else {"memory": memory.figures | {"total": memory.total}}),
        "file": None if mapped.path is None else str(mapped.path),
        "search": {
            "name": mapping.search,
            "objective": effort.objective,
            "seed": effort.seed,
            "evaluations": effort.evaluations,
            "measured_runs": effort.measured_runs,
            "seconds": round(effort.seconds, 3),
            "lower_bound": None if effort.lower_bound_ns is None else round(effort.lower_bound_ns),
            "optimal": effort.optimal,
        },
    }
