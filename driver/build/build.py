"""From a valid system to a directory with a running program: place, plan, emit, write.

In: a valid system, its times, a mapping. Out: `Built`. Faults (missing code, kernels that do not
compile, a directory that holds other files) are raised or returned as diagnostics; nothing
half-written remains.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ...codegen.robots import Robot, RobotEnd, open_ends
from ...codegen.write import CannotWrite, refuse_foreign
from ...machines.host import HERE, Host
from ...model.diagnostic import Diagnostic, Errors
from ...model.mapping import Mapping
from ...model.profile import Profile
from ...model.times import times_of
from ...networks.quantization.quantize import QuantizationLoss
from ...targets.pins import pinned
from ..plan.compared import Compared, engine_comparisons
from ..plan.memory import beyond_platform
from ..plan.program import (
    deployment,
    kernel_faults,
    made_there_for,
    require_buildable,
    require_native,
    require_native_places,
    require_one_process,
    sources_of,
    without_gpu,
    write_program,
)
from ..text import store
from ..text.asked import asked_of
from ..text.check import OnMeasure, Report, Valid, prepare
from ..text.notebook_result import NotebookResult


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How a program is built: the platform, and the `host` that runs what has to be measured.

    `native`: in C++, which needs no interpreter, and as `main`. `force` overwrites a directory that
    holds other files. Without `measure`, nothing is run or stored: stored times count, also those
    of another machine. `on_measure` is called before tasks run (`report` if there is none), and
    `report` gets lines of progress.
    """

    platform: str = "host"
    host: Host = HERE
    native: bool = False
    force: bool = False
    measure: bool = True
    on_measure: OnMeasure | None = None
    report: Report | None = None

    @classmethod
    def taken_from(cls, asked: dict[str, Any]) -> BuildOptions:
        """The requested ones that are no longer in the system then."""
        names = [each.name for each in fields(cls) if each.name in asked]
        return cls(**{name: asked.pop(name) for name in names})


@dataclass(frozen=True, slots=True)
class Built(NotebookResult):
    """A finished build. `fresh` is false if the directory already held exactly these files.

    `times` holds the source of each task's time, in the words of `TimeOrigin`; `predicted`
    is a stage's time from the stored mapping, `reference` the time of the task's stand-in,
    `unknown` none. `compared` says of networks in fewer bits on another engine how near they are to
    32 bits. `ends` are the open ends of a node of a robot.
    """

    directory: Path
    digest: str
    mapping: Mapping
    profile: Profile | None
    diagnostics: tuple[Diagnostic, ...]
    fresh: bool
    losses: dict[str, tuple[QuantizationLoss, ...]] = field(default_factory=dict)
    times: dict[str, str] = field(default_factory=dict)
    ends: tuple[RobotEnd, ...] = ()
    compared: tuple[Compared, ...] = ()


def build(
    path: str | Path,
    output: str | Path | None = None,
    *,
    robot: Robot | None = None,
    **asked: Any,
) -> Built:
    """From a text to a directory with a running program; `asked` are fields of `BuildOptions`.
    Raises Errors.

    Without a stored profile for these tasks, the application is measured briefly first, and the
    profile is stored beside the text. For a `robot`, the program is a node of its dataflow, by
    default in build/STEM-ROBOT.
    """
    return build_with(asked_of(BuildOptions, "build", asked), path, output, robot)


def build_with(
    options: BuildOptions,
    path: str | Path,
    output: str | Path | None = None,
    robot: Robot | None = None,
) -> Built:
    """The same with options that are one value."""
    valid = prepare(
        path,
        platform=options.platform,
        native=options.native,
        host=options.host,
        report=options.report,
    ).require()
    directory = _directory(valid, output, robot, options.native)
    _require_possible(valid, options, directory, robot)
    profile, warnings = _known_times(valid, options)
    mapping, deployed, of_deployment, states = deployment(valid, profile, options.measure)
    warnings += of_deployment
    too_much = beyond_platform(deployed, valid.platform)
    if too_much:
        raise Errors([*valid.diagnostics, *too_much])
    for part in valid.parts:
        warnings += kernel_faults(part)
    if options.native:
        require_native_places(valid, deployed)
    digest, fresh = write_program(
        deployed, directory, force=options.force, robot=robot, native=options.native
    )
    ends = () if robot is None else open_ends(deployed.deployment, robot.separator)
    return Built(
        directory,
        digest,
        mapping,
        profile,
        tuple(dict.fromkeys((*valid.diagnostics, *warnings))),
        fresh,
        _losses(valid),
        _sources(states, profile),
        ends,
        tuple(c for part in valid.parts for c in engine_comparisons(part) if c.figure),
    )


def _directory(valid: Valid, output: str | Path | None, robot: Robot | None, native: bool) -> Path:
    """The directory of the build, by default one below `build`."""
    if output is not None:
        return Path(output)
    stem = f"{valid.system.stem}-native" if native else valid.system.stem
    return Path("build") / (stem if robot is None else f"{stem}-{robot.name}")


def _require_possible(
    valid: Valid, options: BuildOptions, directory: Path, robot: Robot | None
) -> None:
    """Errors that can be known before anything is measured. Raises Errors."""
    if options.native:
        require_native(valid)
    for part in valid.parts:
        require_buildable(part, robot)
        require_one_process(part.platform)
    try:
        refuse_foreign(directory, options.force, made_there_for(robot))
    except CannotWrite as error:
        raise Errors(error.diagnostics) from error
    impossible: list[Diagnostic] = []
    for part in valid.parts:
        impossible += pinned(part.system.apps, part.platform, part.system.pins)[1]
    if impossible:
        raise Errors(impossible)


def _known_times(valid: Valid, options: BuildOptions) -> tuple[Profile | None, list[Diagnostic]]:
    """The profile of the tasks, measured and stored if there is none, and warnings. Raises
    Errors."""
    from ..measure.measure import measure

    read = store.read_profile if options.measure else store.read_estimates
    profile, of_profile = read(valid)
    warnings = [*of_profile]
    for part in valid.parts:
        warnings += without_gpu(part)
    if profile is None and options.measure:
        profile, seen = measure(valid, on_measure=options.on_measure or options.report)
        warnings += seen
        warnings += store.save_profile(valid, profile)
    return profile, warnings


def _losses(valid: Valid) -> dict[str, tuple[QuantizationLoss, ...]]:
    """The losses of all networks in 8 bits, of all variants and states."""
    losses: dict[str, tuple[QuantizationLoss, ...]] = {}
    for part in (*valid.others, *valid.parts, valid):
        losses |= part.losses
    return losses


def _sources(states: Iterable[Valid], profile: Profile | None) -> dict[str, str]:
    """The source of the time of each task of all states."""
    sources: dict[str, str] = {}
    for state in states:
        times = times_of(state.system, state.platform, profile)
        sources |= sources_of(state, times)
    return sources
