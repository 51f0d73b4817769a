"""Checks that an inference engine can run a network where a pin puts it.

In: a task and a stage of its pin. Out: code, message and help of a fault, or None.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ..model.application import Network, Task, all_tasks
from ..model.diagnostic import Diagnostic, one_of
from ..model.mapping import OtherEngine, PinStage
from ..model.platform import Platform
from ..model.system import System
from ..networks.engines import ENGINES, Engine, engine_of
from .fitness import Reason

#: What pins and mappings may choose where the text leaves the precision open.
CHOICES = ("fp32", "bf16", "int8")


def engine_for(network: Network, named: str = "") -> Engine:
    """The engine of a network on CPUs: the one that its pin names, or that a search has chosen,
    else the first one that computes in its precision."""
    if named or network.engine:
        return engine_of(named or network.engine)
    return next((e for e in ENGINES if network.precision in e.precisions), ENGINES[0])


def engines_in(system: System, platform: Platform) -> dict[str, str]:
    """The engines of networks on CPUs by task, as far as they are not the default one: by their
    pins, and by their precision."""
    pins = {p.task: p for p in system.pins if p.platform == platform.name}
    engines = {}
    for task in all_tasks(system.apps):
        if task.network is None:
            continue
        pin = pins.get(task.name)
        stage = None if pin is None else pin.stages[0]
        if stage is not None and _kinds(stage, platform) != {"cpu"}:
            continue
        engine = engine_for(task.network, "" if stage is None else stage.engine)
        if engine is not ENGINES[0]:
            engines[task.name] = engine.name
    return engines


def chosen_engines(system: System) -> dict[str, OtherEngine]:
    """The engines and precisions that a search has chosen for networks, by task."""
    chosen = {}
    for task in all_tasks(system.apps):
        network = task.network
        if network is not None and (network.engine or _chosen_precision(network)):
            chosen[task.name] = OtherEngine(network.engine, _chosen_precision(network))
    return chosen


def _chosen_precision(network: Network) -> str:
    """The precision, if it is not that of the text."""
    return network.precision if network.any_precision and network.precision != CHOICES[0] else ""


def with_engines(system: System, chosen: Mapping[str, OtherEngine]) -> System:
    """The system with engines that a search has chosen for some networks, in their precisions."""

    def on_engine(task: Task) -> Task:
        other, network = chosen.get(task.name), task.network
        if other is None or network is None:
            return task
        precision = other.precision or network.precision
        return replace(task, network=replace(network, engine=other.engine, precision=precision))

    apps = (replace(a, tasks=tuple(map(on_engine, a.tasks))) for a in system.apps)
    return replace(system, apps=tuple(apps))


def runs_in(system: System, platform: Platform) -> dict[str, tuple[str, str]]:
    """The same with the precisions of these networks, and networks on the default engine that a
    mapping or a pin gave another precision than that of the text."""
    engines = engines_in(system, platform)
    runs = {}
    for task in all_tasks(system.apps):
        network = task.network
        if network is None:
            continue
        if task.name in engines:
            runs[task.name] = engines[task.name], network.precision
        elif _chosen_precision(network):
            runs[task.name] = ENGINES[0].name, network.precision
    return runs


def _kinds(stage: PinStage, platform: Platform) -> set[str]:
    return {platform.pool_of(p).kind for p in stage.processors if p in platform.processors}


def unfit_inference(task: Task, stage: PinStage, kinds: Collection[str]) -> Reason | None:
    """The reason why a task cannot run on the engine of its pin."""
    network = task.network
    if network is None:
        if not (stage.engine or stage.precision):
            return None
        word = "engine" if stage.engine else "precision"
        return "F540", f"`{task.name}` is no network: it has no {word}", f"leave `{word}` out"
    if set(kinds) != {"cpu"}:
        if not stage.engine:
            return None
        message = f"`{task.name}` does not run on a CPU: `engine` is for networks there"
        return "F540", message, "leave `engine` out: the platform names that of its accelerators"
    try:
        engine = engine_for(network, stage.engine)
    except LookupError:
        names = one_of(e.name for e in ENGINES)
        return "F540", f"there is no engine `{stage.engine}`", f"engines of CPUs are {names}"
    if stage.precision:
        unfit = _unfit_choice(task, network, stage)
        if unfit is not None:
            return unfit
    if network.precision not in engine.precisions:
        return _unfit_precision(task, network, engine)
    if engine is ENGINES[0]:
        return None
    return (
        _unfit_beside(task, network, stage, engine)
        or _refused(task, network, engine)
        or _missing(task, engine)
    )


def unfit_unpinned(system: System, platform: Platform) -> tuple[Diagnostic, ...]:
    """Faults of networks without a pin whose precision needs an engine that they cannot have."""
    if all(pool.kind != "cpu" for pool in platform.pools):
        return ()
    pinned = {p.task for p in system.pins if p.platform == platform.name}
    faults = {}
    for task in all_tasks(system.apps):
        if task.network is None or task.name in pinned:
            continue
        stage = PinStage((), None, 1, task.span)
        reason = unfit_inference(task, stage, {"cpu"})
        if reason is not None:
            code, message, help_text = reason
            faults[task.definition] = Diagnostic(code, message, task.span, help=help_text)
    return tuple(faults.values())


def _unfit_choice(task: Task, network: Network, stage: PinStage) -> Reason | None:
    """A precision in a pin that the text does not leave open."""
    if stage.precision not in CHOICES:
        message = f"`{task.name}`: a pin cannot choose `precision {stage.precision}`"
        return "F540", message, f"it can choose {one_of(CHOICES)}"
    if stage.precision == CHOICES[0]:
        return None
    if network.any_precision:
        return _unfit_8_bits(task, network) if stage.precision == "int8" else None
    message = f"`{task.name}`: `precision {stage.precision}` would be less exact than the text says"
    return "F540", message, "write `precision any within 25 dB` in the network"


def _unfit_8_bits(task: Task, network: Network) -> Reason | None:
    """Why a pin cannot choose 8 bits for a network."""
    if network.calibrate is None:
        message = f"`{task.name}`: 8 bits need data to find the ranges of the tensors"
        return "F540", message, 'add `calibrate "frames/*.npy"` to the network'
    if network.model and network.converted_from is None:
        message = f"`{task.name}` is a part of `{network.file}`, which is in 8 bits as a whole"
        return "F540", message, "write `precision int8` in the network"
    if network.one_piece:
        message = f"`{task.name}` has {network.one_piece}: it stays in its own precision"
        return "F540", message, "leave `precision` out"
    return None


def _unfit_precision(task: Task, network: Network, engine: Engine) -> Reason:
    """A precision that an engine does not have on CPUs."""
    message = f"`{task.name}`: {engine.title} does not compute in {network.precision} on CPUs"
    help_text = f"it computes in {one_of(engine.precisions)}"
    if network.precision == "fp16" and "bf16" in engine.precisions:
        message += ", but in bf16 instead"
        help_text = "write `precision bf16`"
    return "F540", message, help_text


def _unfit_beside(task: Task, network: Network, stage: PinStage, engine: Engine) -> Reason | None:
    """What only ONNX Runtime does: bands, a known memory, a cut that moves."""
    if stage.bands:
        message = f"`{task.name}`: {engine.title} has no bands of rows"
        return "F540", message, "leave `bands` or `engine` out"
    if stage.memory is not None:
        message = f"`{task.name}`: what {engine.title} takes between layers is not known"
        return "F540", message, "leave `memory` or `engine` out"
    if network.moving is not None:
        message = f"the cut of `{task.name}` moves: its parts run on ONNX Runtime"
        return "F540", message, "leave `adapt` or `engine` out"
    return None


def _refused(task: Task, network: Network, engine: Engine) -> Reason | None:
    refusal = engine.refusal(network)
    if refusal is None:
        return None
    reason, help_text = refusal
    return "F540", f"`{task.name}` does not run on {engine.title}: {reason}", help_text


def _missing(task: Task, engine: Engine) -> Reason | None:
    if engine.version:
        return None
    message = (
        f"`{task.name}` runs on {engine.title}: it needs {engine.packages[0]}, which is not"
        " installed"
    )
    return "F615", message, f"install the extra `{engine.extra}`: {engine.install}"
