"""The mapping that `map` stored beside a text, `STEM.PLATFORM.mapping.json`: as good as pins, where it still fits.

In: a system after its own pins. Out: the system with the stored plans carried out. A mapping for other code or other
pins is named and left alone; one that was edited by hand is checked like pins.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from ..codegen.sources import c_includes
from ..dsl.modules import local_modules
from ..mapping.plans import as_pin
from ..mapping.problem import pinned
from ..mapping.stages import with_stages
from ..model.application import Task
from ..model.diagnostic import Diagnostic, Faults, has_errors
from ..model.files import read_bytes, reason, replace_file
from ..model.mapping import Mapping, Pin, PinStage
from ..model.platform import Platform
from ..model.system import System
from ..profiling.identity import content_hash, implementation_on

#: The key of the pins among the hashes of tasks: no task is called so.
PINS = "pins of the text"


def mapping_path(system: System, platform: Platform) -> Path:
    """STEM.PLATFORM.mapping.json beside the text."""
    return Path(system.path).parent / f"{system.stem}.{platform.name}.mapping.json"


def task_hashes(system: System) -> dict[str, str]:
    """A hash over code, parameters and types of each task: what was measured or decided for it holds as long."""
    return {t.name: content_hash(t, _helpers(t)) for a in system.apps for t in a.tasks}


def _helpers(task: Task) -> tuple[Path, ...]:
    """Files that a task's code brings along: local modules of Python, local headers of C."""
    found: list[Path] = []
    code, kernels = implementation_on(task), implementation_on(task, "gpu")
    if code is None and task.reference is not None:
        code = task.reference
        found.append(Path(code.path))
    if code is not None:
        found += local_modules(Path(code.path)) if code.language == "python" else c_includes(Path(code.path))
    if kernels is not None:
        found += c_includes(Path(kernels.path))
    return tuple(found)


def identity(system: System, platform: Platform) -> dict[str, str]:
    """What a mapping is for: its tasks as they are, and the pins of the text."""
    pins = [
        (p.task, [(s.processors, s.until, s.streams, s.threads, s.process, s.graph, s.fallback) for s in p.stages],
         p.wcet_ns, p.buffers, p.pre, p.post, p.adapt)
        for p in system.pins if p.platform == platform.name
    ]  # fmt: skip
    shape = [(a.name, a.period_ns, [(c.name, c.delay) for c in a.channels]) for a in system.apps]
    digest = hashlib.sha256(repr((pins, shape, platform.processors)).encode()).hexdigest()[:16]
    return {PINS: digest, **task_hashes(system)}


def save_mapping(system: System, platform: Platform, mapping: Mapping) -> Path:
    """Write the file. Raises Faults."""
    path = mapping_path(system, platform)
    try:
        replace_file(path, mapping.to_json(identity(system, platform)))
    except OSError as error:
        raise Faults([Diagnostic("F605", f"cannot write `{path}`: {error.strerror}", None)]) from error
    return path


def with_stored_mapping(system: System, platform: Platform) -> tuple[System, Mapping | None, tuple[Diagnostic, ...]]:
    """The system with the stored mapping carried out, the mapping, and why it is not used or what is wrong with it."""
    path = mapping_path(system, platform)
    if not path.is_file():
        return system, None, ()
    try:
        mapping, wanted = Mapping.from_json(read_bytes(path))
    except (OSError, ValueError) as error:
        return system, None, (_unused(f"`{path.name}` is not used: {reason(error)}"),)
    now = identity(system, platform)
    changed = [name for name in {**now, **wanted} if now.get(name) != wanted.get(name)]
    if changed:
        what = " and ".join(f"`{n}`" if n != PINS else "the graph or its pins" for n in changed[:3])
        return system, None, (_unused(f"`{path.name}` is stale: {what} changed since"),)
    found, faults = carried_out(system, platform, mapping)
    faults = tuple(replace(d, help=f"{d.help + '; ' if d.help else ''}this is said in `{path.name}`") for d in faults)
    return (system, None, faults) if has_errors(faults) else (found, mapping, ())


def carried_out(system: System, platform: Platform, mapping: Mapping) -> tuple[System, tuple[Diagnostic, ...]]:
    """The system with networks cut and tasks pinned by a mapping, where its text says nothing; and what is wrong."""
    tasks = {t.name: t for a in system.apps for t in a.tasks}
    own = {p.task for p in system.pins if p.platform == platform.name}
    pins = [as_pin(n, platform.name, tasks[n.task].span) for n in mapping.networks if n.task in tasks]
    for p in mapping.placements:
        if p.task in tasks:
            span = tasks[p.task].span
            stage = PinStage(p.processors, None, p.streams, span, p.threads, p.process, p.graph, p.fallback)
            pins.append(Pin(platform.name, p.task, (stage,), None, p.buffers, span))
    pins = [p for p in pins if p.task not in own]
    staged = with_stages(system.apps, platform.name, pins)
    faults = staged.diagnostics or pinned(staged.apps, platform, staged.pins)[1]
    found = replace(system, apps=staged.apps, pins=(*system.pins, *staged.pins))
    return found, tuple(d for d in faults if d.code != "F603")


def _unused(message: str) -> Diagnostic:
    help_text = "`flowc map` finds a new one; without it, tasks are placed by a quick rule"
    return Diagnostic("F609", message, None, "", (), help_text, "warning")
