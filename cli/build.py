"""The verb `build`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from sys import executable
from typing import TYPE_CHECKING, Annotated

import typer

from ._common import (
    Force,
    Json,
    NoMeasure,
    OnPlatform,
    Output,
    Text,
    measuring,
    print_json,
    progress,
    show_diagnostics,
    show_folder,
    sources,
)
from ._formats import choice, completed
from ._tables import in_8_bits

if TYPE_CHECKING:
    from ..codegen.robots import Robot
    from ..driver.build.build import Built


#: What is built without a format of another tool.
PROGRAM, FMU, DORA, ROS2 = "program", "fmu", "dora", "ros2"
OWN = (PROGRAM, FMU, DORA, ROS2)


def build(
    file: Text,
    output: Output = None,
    target: Annotated[str, typer.Option(help="What to build.")] = PROGRAM,
    graph: Annotated[
        str | None,
        typer.Option(
            help="With `--target fmu`: the graph, or the app with open ends.", show_default=False
        ),
    ] = None,
    platform: OnPlatform = "host",
    force: Force = False,
    no_measure: NoMeasure = False,
    as_json: Json = False,
) -> int:
    """Write the program: a directory that runs without flowc. It needs numpy and ONNX Runtime."""
    from ..driver.build.build import build as driver_build

    if (graph is None) == (target == FMU):
        help_text = (
            "`--target fmu` needs `--graph NAME`"
            if graph is None
            else "`--graph` is for `--target fmu` only"
        )
        raise typer.BadParameter(help_text, param_hint="--graph")
    if target == FMU and graph is not None:
        if platform != "host":
            raise typer.BadParameter(
                "a unit runs where its simulator does", param_hint="--platform"
            )
        return _fmu(file, graph, output, force, as_json)
    if target not in OWN:
        return _foreign(target, file, output, platform, force, as_json)
    built = driver_build(
        file,
        output,
        platform=platform,
        force=force,
        measure=not no_measure,
        on_measure=measuring,
        report=progress,
        robot=_robot(target),
    )
    show_diagnostics(built.diagnostics, sources(built.diagnostics))
    if as_json:
        print_json(
            {
                "directory": str(built.directory),
                "digest": built.digest,
                "fresh": built.fresh,
                "search": built.mapping.search,
                "losses": {
                    name: [asdict(x) for x in found] for name, found in built.losses.items()
                },
                "tasks": {p.task: list(p.processors) for p in built.mapping.placements},
                "times": built.times,
                "predicted_period_ns": _predicted(built),
                **({} if target == PROGRAM else {"ends": [asdict(e) for e in built.ends]}),
            }
        )
        return 0
    print(f"{built.directory}{'' if built.fresh else ' (up to date)'}")
    for line in in_8_bits(built.losses):
        print(f"  {line}")
    processors: dict[str, list[str]] = {}
    for placement in built.mapping.placements:
        for processor in placement.processors:
            share = f" (1/{len(placement.processors)})" if len(placement.processors) > 1 else ""
            processors.setdefault(processor, []).append(placement.task + share)
    for processor, tasks in sorted(processors.items()):
        shown = ", ".join(tasks[:8]) + (f" and {len(tasks) - 8} more" if len(tasks) > 8 else "")
        print(f"  {processor}: {shown}")
    for end in built.ends:
        print(f"  {'input' if end.incoming else 'output'} {end.name}: {end.type}")
    if target == DORA:
        _how_with_dora(built)
    elif target == ROS2:
        print(f"put {built.directory} into a workspace and run `colcon build`")
    return 0


def _robot(target: str) -> Robot | None:
    """What the program is a node of, if any."""
    if target == DORA:
        from ..codegen import dora

        return dora.DORA
    if target == ROS2:
        from ..codegen import ros2

        return ros2.ROS2
    return None


def _how_with_dora(built: Built) -> None:
    if any(end.incoming for end in built.ends):
        print(f"`module: {built.directory / 'module.yml'}` makes it a node of a dataflow")
    else:
        print(f"`dora run {built.directory / 'dataflow.yml'}` starts it")


def _predicted(built: Built) -> dict[str, int | None]:
    """Time between frames of each app, if the times of its tasks are known."""
    guessed = {
        task.partition(".")[0] for task, source in built.times.items() if source == "unknown"
    }
    return {
        name: None if name in guessed else round(ns)
        for name, ns in built.mapping.predicted_period_ns
    }


def _foreign(
    target: str, file: Path, output: Path | None, platform: str, force: bool, as_json: bool
) -> int:
    """The output of a format of another tool."""
    from ..interop.registry import Order, targets

    known = targets()
    if target not in known:
        names = ", ".join(f"'{name}'" for name in (*OWN, *known))
        raise typer.BadParameter(f"'{target}' is not one of {names}", param_hint="--target")
    order = Order(file, output, platform, force=force, report=progress)
    return show_folder(known[target].make(order), as_json)


def build_with_formats() -> Callable[..., int]:
    """The verb for the installed formats. Raises Errors."""
    from ..interop.registry import targets

    known = targets()
    foreign = "".join(f" {each.about};" for each in known.values())
    about = (
        f"The program;{foreign} a graph of the text as a Functional Mock-up Unit for Simulink,"
        " OpenModelica and others (build/GRAPH.fmu); or the program as a module of dora"
        " (build/STEM-dora), or a package of ROS 2 (build/STEM-ros2)."
    )
    names = choice((PROGRAM, *known, FMU, DORA, ROS2))
    return completed(build, target=Annotated[names, typer.Option(help=about)])


def _fmu(file: Path, graph: str, output: Path | None, force: bool, as_json: bool) -> int:
    from ..driver.build.fmu import build_fmu

    built = build_fmu(file, graph, output, force=force, report=progress)
    show_diagnostics(built.diagnostics, sources(built.diagnostics))
    shown = [v for v in built.variables if v.role in ("input", "output", "parameter")]
    if as_json:
        print_json(
            {
                "file": str(built.file),
                "fresh": built.fresh,
                "fmi": f"{built.version}.0",
                "token": built.token,
                "python": built.python,
                "step_size": float(built.step) if built.step else None,
                "losses": {
                    name: [asdict(x) for x in found] for name, found in built.losses.items()
                },
                "variables": [
                    {
                        "name": v.name,
                        "causality": v.role,
                        "type": v.fmi,
                        "dtype": v.dtype,
                        "shape": v.dimensions,
                    }
                    for v in shown
                ],
            }
        )
        return 0
    print(f"{built.file}{'' if built.fresh else ' (up to date)'}")
    for line in in_8_bits(built.losses):
        print(f"  {line}")
    because = f": {built.why}" if built.why else ""
    print(
        f"  FMI {built.version}.0{because}; a step is an iteration"
        + (f" of {built.step} s" if built.step else "")
    )
    for v in shown:
        size = str(list(v.dimensions)) if v.dimensions else ""
        widened = f", widened from {v.dtype}" if v.widened else ""
        print(f"  {v.role} {v.name}: {v.fmi}{size}{widened}")
    if built.python:
        print(
            f"  it needs {executable}: `python3 sources/build.py` in the unit builds it for"
            " another one"
        )
    return 0
