"""The networks of an application as a C library, without the application.

In: a path. Out: a directory. Nothing is measured or run (except for quantizing networks to 8 bits),
so the tasks around the networks need no code: the caller of the library provides it.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...codegen.emit import digest
from ...codegen.external import (
    Caller,
    Version,
    external,
    refusals,
)
from ...codegen.features import refused
from ...codegen.write import CannotWrite, write
from ...model.diagnostic import Diagnostic, Errors
from ...model.external import External
from ...model.mapping import DEFAULT_ENGINE, Pin, Placement
from ...model.platform import Platform
from ...model.supports import Use, refusal
from ...model.system import System
from ...networks.quantization.quantize import QuantizationLoss
from ...targets.pins import pinned
from ..text.check import Report, Valid, prepare


@dataclass(frozen=True, slots=True)
class BuiltExternal:
    """A finished build. `fresh` is false if the directory already held exactly these files."""

    directory: Path
    digest: str
    external: External
    diagnostics: tuple[Diagnostic, ...]
    fresh: bool
    losses: dict[str, tuple[QuantizationLoss, ...]] = field(default_factory=dict)


def build_external(
    path: str | Path,
    output: str | Path | None = None,
    *,
    platform: str = "host",
    caller: Caller | None = None,
    force: bool = False,
    report: Report | None = None,
) -> BuiltExternal:
    """From a text to a directory with a library for C, by default build/STEM-external. Raises
    Errors.

    With `caller`, it also holds code that calls each network in a tool.
    """
    valid = prepare(path, platform=platform, report=report).require()
    every = (valid, *valid.others)
    faults = refusals([part.loaded.system for part in every])
    if faults:
        raise Errors([*valid.diagnostics, *faults])
    exported = external([_version(part) for part in every], valid.platform.name, caller)
    directory = Path("build") / f"{valid.system.stem}-external" if output is None else Path(output)
    try:
        fresh = write(exported.files, directory, {}, force=force)
    except CannotWrite as error:
        raise Errors(error.diagnostics) from error
    diagnostics = dict.fromkeys(valid.diagnostics)
    losses: dict[str, tuple[QuantizationLoss, ...]] = {}
    for part in every:
        diagnostics |= dict.fromkeys(in_full(part.loaded.system, ("fp16", "bf16")))
    for part in reversed(every):
        losses |= part.losses
    return BuiltExternal(
        directory, digest(exported.files), exported.external, tuple(diagnostics), fresh, losses
    )


def _version(valid: Valid) -> Version:
    """The exported system with one variant of each network: the text as written, and as cut. Raises
    Errors."""
    networks = {name for name, task in valid.tasks.items() if task.network is not None}
    # where other tasks run does not matter here
    pins = tuple(p for p in valid.system.pins if p.task in networks)
    placements, impossible = pinned(valid.system.apps, valid.platform, pins)
    if not impossible:
        impossible = _elsewhere(valid.platform, placements, {p.task: p for p in pins})
    if impossible:
        raise Errors(impossible)
    return Version(valid.loaded.system, valid.system, placements)


def in_full(system: System, precisions: Sequence[str] = ("fp16",)) -> tuple[Diagnostic, ...]:
    """Warnings about networks in `precisions` that what is built does not have on a CPU."""
    warnings = {}
    for app in system.apps:
        for task in app.tasks:
            if task.network is not None and task.network.precision in precisions:
                words = {"definition": task.definition}
                cell = refusal("`precision`", "networks in C")
                warnings[task.definition] = cell.at(task.span, words)
    return tuple(warnings.values())


def _elsewhere(
    platform: Platform, placements: MappingABC[str, Placement], pins: MappingABC[str, Pin]
) -> tuple[Diagnostic, ...]:
    """Errors for networks pinned to other processors than CPUs, or to other engines."""
    uses = []
    for place in (p for p in placements.values() if p.task in pins):
        span = pins[place.task].span
        if place.engine not in ("", DEFAULT_ENGINE):
            uses.append(Use("`engine`", span, {"task": place.task}))
        kinds = sorted({platform.pool_of(p).kind for p in place.processors} - {"cpu"})
        if kinds:
            words = {"task": place.task, "kind": kinds[0]}
            uses.append(Use("networks on accelerators", span, words))
    return refused(uses, "networks in C")
