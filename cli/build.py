"""The verb `build`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from sys import executable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._common import (
    Force,
    Json,
    NoMeasure,
    OnPlatform,
    Output,
    Text,
    print_json,
    progress,
    replace,
    show_built,
    show_diagnostics,
    show_folder,
    sources,
    with_freshness,
)
from ._formats import choice, completed
from ._groups import grouped
from ._place import Measured
from ._tables import in_8_bits

if TYPE_CHECKING:
    from ..codegen.fmu.variables import Variable
    from ..codegen.robots import Robot
    from ..driver.build.build import Built
    from ..driver.build.fmu import BuiltFmu
    from ..model.mapping import Mapping as StoredMapping
    from ..networks.quantization.quantize import QuantizationLoss

#: Most tasks of a processor that are named.
MOST_TASKS = 8


#: What is built without a format of another tool.
PROGRAM, NATIVE, DORA, ROS2 = "program", "native", "dora", "ros2"
FMU, NATIVE_FMU = "fmu", "native-fmu"
OF_PROGRAMS = (PROGRAM, NATIVE, DORA, ROS2)
UNITS = (FMU, NATIVE_FMU)
OWN = (*OF_PROGRAMS, *UNITS)


@dataclass(frozen=True, slots=True)
class BuildTarget(Measured):
    """The kind of output, its place, and the platform that it is for."""

    output: Output = None
    target: Annotated[str, typer.Option(help="What to build.")] = PROGRAM
    graph: Annotated[
        str | None,
        typer.Option(
            help="With `--target fmu` or `native-fmu`: the graph, or the app with open ends.",
            show_default=False,
        ),
    ] = None
    platform: OnPlatform = "host"
    sbom: Annotated[
        Path | None,
        typer.Option(
            "--sbom",
            help="Of a program: also write what it is made of, in CycloneDX (JSON).",
            metavar="FILE",
            show_default=False,
        ),
    ] = None
    force: Force = False
    no_measure: NoMeasure = False

    @property
    def native(self) -> bool:
        """See `Measured`."""
        return self.target == NATIVE


@grouped
def build(file: Text, options: BuildTarget, as_json: Json = False) -> int:
    """Write the program: a directory that runs without flowc. It needs numpy and ONNX Runtime."""
    if options.target not in UNITS and options.graph is not None:
        raise typer.BadParameter(
            "`--graph` is for `--target fmu` and `native-fmu` only", param_hint="--graph"
        )
    if options.target not in OF_PROGRAMS and options.sbom is not None:
        kinds = ", ".join(f"`{target}`" for target in OF_PROGRAMS)
        raise typer.BadParameter(f"it is for programs: {kinds}", param_hint="--sbom")
    if options.target in UNITS:
        return _fmu(file, options, as_json)
    if options.target not in OWN:
        return _foreign(file, options, as_json)
    return _program(file, options, as_json)


def build_with_formats() -> Callable[..., int]:
    """The verb for the installed formats. Raises Errors."""
    from ..interop.registry import targets

    known = targets()
    foreign = "".join(f" {each.about};" for each in known.values())
    about = (
        "The program; the same in C++, without an interpreter, with open ends as a library for C"
        " (build/STEM-native);"
        f"{foreign} a graph of the text as a Functional Mock-up Unit for Simulink,"
        " OpenModelica and others (build/GRAPH.fmu), or the same in C++, without Python; or the"
        " program as a module of dora (build/STEM-dora), or a package of ROS 2 (build/STEM-ros2)."
    )
    names = choice((PROGRAM, NATIVE, *known, *UNITS, DORA, ROS2))
    return completed(build, target=Annotated[names, typer.Option(help=about)])


def _program(file: Path, options: BuildTarget, as_json: bool) -> int:
    """Build the program, as a node of a robot if that is the target."""
    from ..driver.build.build import build as driver_build

    built = driver_build(file, options.output, robot=_robot(options.target), **options.asked)
    show_built(built)
    if options.sbom is not None:
        _write_bill(built, options.sbom)
    if as_json:
        document = _document_of_program(built)
        if options.sbom is not None:
            document["sbom"] = str(options.sbom)
        if options.target not in (PROGRAM, NATIVE):
            document["ends"] = [asdict(end) for end in built.ends]
        print_json(document)
        return 0
    print(with_freshness(built.directory, built.fresh))
    for processor, tasks in sorted(_tasks_by_processor(built.mapping).items()):
        hidden = len(tasks) - MOST_TASKS
        shown = ", ".join(tasks[:MOST_TASKS])
        if hidden > 0:
            shown += f" and {hidden} more"
        print(f"  {processor}: {shown}")
    for end in built.ends:
        direction = "input" if end.incoming else "output"
        print(f"  {direction} {end.name}: {end.type}")
    if options.target == DORA:
        _how_with_dora(built)
    elif options.target == ROS2:
        print(f"put {built.directory} into a workspace and run `colcon build`")
    return 0


def _write_bill(built: Built, file: Path) -> None:
    """Raises Errors, and BadParameter for a time that is none."""
    from ..driver.build.sbom import bill_of_materials

    try:
        content = bill_of_materials(built.directory, built.digest)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--sbom") from None
    replace(file, content)


def _document_of_program(built: Built) -> dict[str, Any]:
    return {
        "directory": str(built.directory),
        "digest": built.digest,
        "fresh": built.fresh,
        "search": built.mapping.search,
        "losses": _losses(built.losses),
        "compared": [asdict(one) for one in built.compared],
        "tasks": {p.task: list(p.processors) for p in built.mapping.placements},
        "times": built.times,
        "predicted_period_ns": _predicted(built),
    }


def _losses(losses: Mapping[str, Iterable[QuantizationLoss]]) -> dict[str, list[dict[str, Any]]]:
    """The losses of networks in 8 bits, as data."""
    return {network: [asdict(loss) for loss in own] for network, own in losses.items()}


def _tasks_by_processor(mapping: StoredMapping) -> dict[str, list[str]]:
    """The tasks of each processor; of a task on several, the part that this one has."""
    tasks: dict[str, list[str]] = {}
    for placement in mapping.placements:
        several = len(placement.processors)
        name = f"{placement.task} (1/{several})" if several > 1 else placement.task
        for processor in placement.processors:
            tasks.setdefault(processor, []).append(name)
    return tasks


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


def _foreign(file: Path, options: BuildTarget, as_json: bool) -> int:
    """The output of a format of another tool."""
    from ..interop.registry import Order, targets

    known = targets()
    if options.target not in known:
        names = ", ".join(f"'{name}'" for name in (*OWN, *known))
        raise typer.BadParameter(f"'{options.target}' is not one of {names}", param_hint="--target")
    order = Order(file, options.output, options.platform, force=options.force, report=progress)
    return show_folder(known[options.target].make(order), as_json)


def _fmu(file: Path, options: BuildTarget, as_json: bool) -> int:
    from ..driver.build.fmu import build_fmu

    if options.graph is None:
        message = f"`--target {options.target}` needs `--graph NAME`"
        raise typer.BadParameter(message, param_hint="--graph")
    if options.platform != "host":
        raise typer.BadParameter("a unit runs where its simulator does", param_hint="--platform")
    built = build_fmu(
        file,
        options.graph,
        options.output,
        native=options.target == NATIVE_FMU,
        force=options.force,
        report=progress,
    )
    show_diagnostics(built.diagnostics, sources(built.diagnostics))
    shown = [v for v in built.variables if v.role in ("input", "output", "parameter")]
    if as_json:
        print_json(_document_of_unit(built, shown))
        return 0
    print(with_freshness(built.file, built.fresh))
    for line in in_8_bits(built.losses):
        print(f"  {line}")
    because = f": {built.why}" if built.why else ""
    step = f" of {built.step} s" if built.step else ""
    print(f"  FMI {built.version}.0{because}; a step is an iteration{step}")
    for variable in shown:
        print(f"  {_in_words(variable)}")
    if built.python:
        print(
            f"  it needs {executable}: `python3 sources/build.py` in the unit builds it for"
            " another one"
        )
    return 0


def _document_of_unit(built: BuiltFmu, shown: Iterable[Variable]) -> dict[str, Any]:
    return {
        "file": str(built.file),
        "fresh": built.fresh,
        "fmi": f"{built.version}.0",
        "token": built.token,
        "python": built.python,
        "step_size": float(built.step) if built.step else None,
        "losses": _losses(built.losses),
        "variables": [_variable_as_data(variable) for variable in shown],
    }


def _variable_as_data(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "causality": variable.role,
        "type": variable.fmi,
        "dtype": variable.dtype,
        "shape": variable.dimensions,
    }


def _in_words(variable: Variable) -> str:
    size = str(list(variable.dimensions)) if variable.dimensions else ""
    widened = f", widened from {variable.dtype}" if variable.widened else ""
    return f"{variable.role} {variable.name}: {variable.fmi}{size}{widened}"
