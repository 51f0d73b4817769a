"""From a valid system to a directory with a running program: place, plan, emit, write.

In: a valid system, its times, a mapping. Out: `Built`. Faults (missing code, kernels that do not
compile, a directory that holds other files) are raised or returned as diagnostics; nothing
half-written remains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field, fields, replace
from math import ceil
from pathlib import Path
from statistics import mean
from typing import Any

from ...analysis.dataflow.check import measured_too_slow
from ...analysis.dataflow.order import TooLong
from ...codegen.deploy import Deployed, deploy, missing
from ...codegen.emit import digest, emit, folder_of
from ...codegen.nvrtc import faults as cuda_faults
from ...codegen.robots import End, Robot, open_ends, refusals
from ...codegen.sources import Plan
from ...codegen.states import deployed_states, together
from ...codegen.write import MADE_THERE, CannotWrite, refuse_foreign, write
from ...dsl.modules import local_modules
from ...machines.host import HERE, Host
from ...model.diagnostic import Diagnostic, Errors, has_errors, listed
from ...model.mapping import Mapping, NetworkPlan, Placement
from ...model.platform import Platform
from ...model.profile import Profile
from ...model.resampling import with_resampling, without_resampling
from ...model.system import System
from ...model.times import Times, times_of
from ...model.transfers import without_transfers
from ...networks.quantization.quantize import Loss
from ...passes.moving import calibrated
from ...search.throughput import greedy
from ...search.throughput.accelerate import on_gpu
from ...search.throughput.machines import on_machines
from ...search.throughput.problem import Problem, mapping_of
from ...targets.pins import pinned
from ..plan.program import (
    kernel_faults,
    made_there_for,
    deployment,
    require_buildable,
    sources_of,
    without_gpu,
    write_program,
)
from ..text import store
from ..text.check import OnMeasure, Report, prepare
from ..plan.memory import beyond_platform
from ..plan.protocols import changes_of_build
from ..text.notebook_result import NotebookResult


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How a program is built: the platform, and the `host` that runs what has to be measured.

    `force` overwrites a directory that holds other files. Without `measure`, nothing is run or
    stored: stored times count, also those of another machine. `on_measure` is called before tasks
    run (`report` if there is none), and `report` gets lines of progress.
    """

    platform: str = "host"
    host: Host = HERE
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

    `times` holds the source of each task's time, in the words of `model.times.Source`; `predicted`
    is a stage's time from the stored mapping, `reference` the time of the task's stand-in,
    `unknown` none. `ends` are the open ends of a node of a robot.
    """

    directory: Path
    digest: str
    mapping: Mapping
    profile: Profile | None
    diagnostics: tuple[Diagnostic, ...]
    fresh: bool
    losses: dict[str, tuple[Loss, ...]] = field(default_factory=dict)
    times: dict[str, str] = field(default_factory=dict)
    ends: tuple[End, ...] = ()



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
    from ..measure.measure import measure as measured

    options = BuildOptions(**asked)
    measure = options.measure
    valid = prepare(path, platform=options.platform, host=options.host, report=options.report).require()
    for part in valid.parts:
        require_buildable(part, robot)
    stem = valid.system.stem if robot is None else f"{valid.system.stem}-{robot.name}"
    directory = Path(output) if output is not None else Path("build") / stem
    try:  # before anything is measured
        refuse_foreign(directory, options.force, made_there_for(robot))
    except CannotWrite as error:
        raise Errors([error.diagnostic]) from error
    impossible = [d for p in valid.parts for d in pinned(p.system.apps, p.platform, p.system.pins)[1]]
    if impossible:
        raise Errors(impossible)
    profile, warnings = store.read_profile(valid) if measure else store.read_estimates(valid)
    extra = [*warnings, *(d for part in valid.parts for d in without_gpu(part))]
    if profile is None and measure:
        profile, seen = measured(valid, on_measure=options.on_measure or options.report)
        extra += seen
        extra += store.save_profile(valid, profile)
    mapping, deployed, told, states = deployment(valid, profile, measure)
    sources = {t: s for state in states for t, s in sources_of(state, times_of(state.system, state.platform, profile)).items()}
    extra += told
    too_much = beyond_platform(deployed, valid.platform)
    if too_much:
        raise Errors([*valid.diagnostics, *too_much])
    extra += [d for part in valid.parts for d in kernel_faults(part)]
    content, fresh = write_program(deployed, directory, force=options.force, robot=robot)
    said = tuple(dict.fromkeys((*valid.diagnostics, *extra)))
    losses = {n: x for part in (*valid.others, *valid.parts, valid) for n, x in part.losses.items()}
    ends = () if robot is None else open_ends(deployed.deployment, robot.separator)
    return Built(directory, content, mapping, profile, said, fresh, losses, sources, ends)
