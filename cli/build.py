"""The verb `build`."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
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
    sources,
)
from ._tables import in_8_bits

if TYPE_CHECKING:
    from ..codegen.robots import Robot
    from ..driver.build.build import Built


class Target(StrEnum):
    """The kinds of output of `build`."""

    PROGRAM = "program"
    HOPES_EXTERNAL = "hopes-external"
    FMU = "fmu"
    DORA = "dora"
    ROS2 = "ros2"


def build(
    file: Text,
    output: Output = None,
    target: Annotated[
        Target,
        typer.Option(
            help=(
                "The program; its networks alone as a C library (in build/STEM-external); a graph"
                " of the text as a "
                "Functional Mock-up Unit for Simulink, OpenModelica and others (build/GRAPH.fmu);"
                " or the program as a "
                "module of dora (build/STEM-dora), or a package of ROS 2 (build/STEM-ros2)."
            )
        ),
    ] = Target.PROGRAM,
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

    if (graph is None) == (target is Target.FMU):
        help_text = (
            "`--target fmu` needs `--graph NAME`"
            if graph is None
            else "`--graph` is for `--target fmu` only"
        )
        raise typer.BadParameter(help_text, param_hint="--graph")
    if target is Target.FMU and graph is not None:
        if platform != "host":
            raise typer.BadParameter(
                "a unit runs where its simulator does", param_hint="--platform"
            )
        return _fmu(file, graph, output, force, as_json)
    if target is Target.HOPES_EXTERNAL:
        return _external(file, output, platform, force, as_json)
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
                **({} if target is Target.PROGRAM else {"ends": [asdict(e) for e in built.ends]}),
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
    if target is Target.DORA:
        _how_with_dora(built)
    elif target is Target.ROS2:
        print(f"put {built.directory} into a workspace and run `colcon build`")
    return 0


def _robot(target: Target) -> Robot | None:
    """What the program is a node of, if any."""
    if target is Target.DORA:
        from ..codegen.dora import DORA

        return DORA
    if target is Target.ROS2:
        from ..codegen.ros2 import ROS2

        return ROS2
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


def _external(file: Path, output: Path | None, platform: str, force: bool, as_json: bool) -> int:
    from ..driver.build.external import build_external

    built = build_external(file, output, platform=platform, force=force, report=progress)
    show_diagnostics(built.diagnostics, sources(built.diagnostics))
    networks = built.external.networks
    if as_json:
        print_json(
            {
                "directory": str(built.directory),
                "digest": built.digest,
                "fresh": built.fresh,
                "library": f"lib{built.external.library}.so",
                "losses": {
                    name: [asdict(x) for x in found] for name, found in built.losses.items()
                },
                "networks": {
                    n.name: {"function": n.function, "stages": [s.name for s in n.stages]}
                    for n in networks
                },
            }
        )
        return 0
    print(f"{built.directory}{'' if built.fresh else ' (up to date)'}")
    for line in in_8_bits(built.losses):
        print(f"  {line}")
    for network in networks:
        stages = f", {len(network.stages)} stages" if len(network.stages) > 1 else ""
        print(f"  {network.name}{stages}: {network.function}_init, _execute, _wrapup, _error")
    print(f"`python3 {built.directory / 'build_shim.py'}` makes lib{built.external.library}.so")
    return 0


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
