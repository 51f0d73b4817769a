"""Platforms and pins: syntax to model.

Pins are checked against the apps, and against the platform where it is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from ..model.application import Application
from ..model.diagnostic import Note, did_you_mean, has_errors, listed, one_of
from ..model.mapping import (
    MOST_BUFFERS,
    MOST_ROWS,
    MOST_STREAMS,
    MOST_THREADS,
    Bands,
    ClockPin,
    Pin,
    PinStage,
)
from ..model.platform import (
    KINDS,
    MOST_PROCESSORS,
    SCHEDULERS,
    Contention,
    Platform,
    Pool,
    Scheduler,
)
from ..model.scenario import Scenario
from ..model.span import Span
from ..model.tensorrt import TensorRTVersion
from . import rig
from . import syntax as s
from .context import Context
from .evaluate import Evaluator

DEFAULT_SCHEDULER: dict[str, Scheduler] = {"cpu": "static_order", "gpu": "fifo", "dla": "fifo"}


def platform(declaration: s.PlatformDecl, context: Context, evaluate: Evaluator) -> Platform:
    """The platform; faults go to the context."""
    pools = _pools(declaration.items, context, evaluate)
    contention = _contention(declaration.items, pools, context, evaluate)
    machines = tuple(i for i in declaration.items if isinstance(i, s.MachineDecl))
    names = rig.names_of(machines, declaration, context)
    for machine in machines:
        own = _pools(machine.items, context, evaluate)
        disturbed = _contention(machine.items, own, context, evaluate)
        if not any(isinstance(item, s.PoolDecl) for item in machine.items):
            _without_processors(f"machine `{machine.name.text}`", machine.name.span, context)
        contention += rig.contention(machine, own.values(), disturbed)
        pools |= {pool.name: pool for pool in rig.pools(machine, own.values())}
    wires = rig.wires(declaration, names, context, evaluate)
    pools |= {pool.name: pool for pool in rig.links(wires)}
    if not any(isinstance(item, s.PoolDecl | s.MachineDecl) for item in declaration.items):
        _without_processors(f"platform `{declaration.name.text}`", declaration.name.span, context)
    return Platform(
        declaration.name.text,
        tuple(pools.values()),
        tuple(contention),
        declaration.doc,
        declaration.name.span,
        _tensorrt(declaration, context, any(p.kind == "dla" for p in pools.values())),
        names,
        wires,
        _board_power(declaration, context, evaluate),
    )


def _without_processors(what: str, span: Span, context: Context) -> None:
    context.fault(
        "F506", f"{what} has no processors", span, help="add a line such as `cpu core[4]`"
    )


def _pools(items: Iterable[object], context: Context, evaluate: Evaluator) -> dict[str, Pool]:
    """The processors that a platform or a machine declares."""
    pools: dict[str, Pool] = {}
    for item in items:
        if not isinstance(item, s.PoolDecl):
            continue
        if item.name.text in pools:
            context.fault("F102", f"two processors are called `{item.name.text}`", item.name.span)
            continue
        pool = _pool(item, context, evaluate)
        if pool is not None:
            pools[pool.name] = pool
    return pools


def _contention(
    items: Iterable[object], pools: dict[str, Pool], context: Context, evaluate: Evaluator
) -> list[Contention]:
    """How the processors of a platform or of a machine disturb each other."""
    found = []
    for item in items:
        if not isinstance(item, s.ContentionDecl):
            continue
        names = [*pools, *KINDS]
        for word in (item.victim, item.aggressor):
            if word.text not in names:
                context.fault(
                    "F501",
                    f"`{word.text}` is no processor here",
                    word.span,
                    help=did_you_mean(word.text, names),
                )
        factor = evaluate.number(item.factor, {}, "a contention factor", 1)
        found.append(Contention(item.victim.text, item.aggressor.text, factor or Fraction(1)))
    return found


def _board_power(declaration: s.PlatformDecl, context: Context, evaluate: Evaluator) -> Fraction:
    """The constant power of the board, in watts."""
    found = [i for i in declaration.items if isinstance(i, s.PowerDecl)]
    if len(found) > 1:
        notes = [Note("the first one", found[0].span)]
        context.fault("F115", "the `power` of the board is given twice", found[1].span, notes=notes)
    values = [
        evaluate.quantity(i.value.amount, i.value.unit, "power", "a power", {}) for i in found
    ]
    return values[0] or Fraction(0) if values else Fraction(0)


def _tensorrt(declaration: s.PlatformDecl, context: Context, dla: bool) -> tuple[int, ...]:
    """The board's version of TensorRT; a version that does not support declared DLAs is a fault."""
    found = [i for i in declaration.items if isinstance(i, s.TensorRTDecl)]
    if not found:
        return ()
    if len(found) > 1:
        context.fault(
            "F115",
            "`tensorrt` is given twice",
            found[1].span,
            notes=[Note("the first one", found[0].span)],
        )
    version = found[0].version
    if not re.fullmatch(r"\d+(\.\d+){1,3}", version.value):
        context.fault(
            "F105", f"`{version.value}` is no version", version.span, help='write it as `"10.3"`'
        )
        return ()
    numbers = TensorRTVersion(int(n) for n in version.value.split("."))
    if numbers.too_old:
        help_text = 'generated programs need `"8.5"` or later'
        context.fault(
            "F105",
            f"TensorRT {version.value} has no `execute_async_v3`",
            version.span,
            help=help_text,
        )
        return ()
    if dla and numbers.without_dla:
        message = f"TensorRT {version.value} has no DLA"
        help_text = "versions up to 10.7, and 11.4.1 and later, support it"
        context.fault("F510", message, version.span, help=help_text)
    return numbers


def _pool(item: s.PoolDecl, context: Context, evaluate: Evaluator) -> Pool | None:
    kind = item.kind.text
    if kind not in KINDS:
        help_text = did_you_mean(kind, KINDS) or f"use {one_of(KINDS)}"
        context.fault("F114", f"`{kind}` is no kind of processor", item.kind.span, help=help_text)
        return None
    count = (
        1
        if item.count is None
        else evaluate.integer(item.count, {}, "the number of processors", 1, MOST_PROCESSORS)
    )
    scheduler, frequencies = DEFAULT_SCHEDULER[kind], tuple[Fraction, ...]()
    watts: dict[str, tuple[Fraction, ...]] = {}
    engines, total, memory, compute = None, False, 0, None
    seen: dict[str, Span] = {}
    for option in item.options:
        if option.key in seen:
            context.fault(
                "F115",
                f"`{option.key}` is given twice",
                option.span,
                notes=[Note("the first one", seen[option.key])],
            )
        seen[option.key] = option.span
        match option.key:
            case "scheduler":
                word = option.word.text
                known = next((s for s in SCHEDULERS if s == word), None)
                scheduler = known or scheduler
                if known is None:
                    help_text = did_you_mean(word, SCHEDULERS) or f"use {one_of(SCHEDULERS)}"
                    context.fault(
                        "F105", f"`{word}` is no scheduler", option.word.span, help=help_text
                    )
            case "frequencies":
                factor = evaluate.unit(option.word, "frequency", "a frequency")
                values = [evaluate.number(v, {}, "a frequency", 0) for v in option.values]
                frequencies = tuple(
                    v * factor for v in values if v is not None and factor is not None
                )
            case "idle" | "busy":
                factor = evaluate.unit(option.word, "power", "a power")
                values = [evaluate.number(v, {}, "a power", 0) for v in option.values]
                watts[option.key] = tuple(
                    v * factor for v in values if v is not None and factor is not None
                )
            case "engines":
                engines = evaluate.integer(option.values[0], {}, "the number of engines", 1)
                total = option.word.text == "total"
                if option.word.text not in ("total", "each"):
                    help_text = (
                        did_you_mean(option.word.text, ("total", "each"))
                        or "write `engines 4 total` or `engines 16 each`"
                    )
                    context.fault(
                        "F105",
                        f"`{option.word.text}` does not fit after `engines`",
                        option.word.span,
                        help=help_text,
                    )
            case "compute":
                compute = _capability(option, kind, context, evaluate)
            case _:
                size = evaluate.quantity(
                    option.values[0], option.word, "memory", "a memory size", {}
                )
                memory = int(size or 0)
    _power_fits(item, frequencies, watts, seen, context)
    if count is None:
        return None
    return Pool(
        item.name.text,
        kind,
        count,
        item.count is not None,
        scheduler,
        frequencies,
        engines,
        total,
        memory,
        compute,
        watts.get("idle", ()),
        watts.get("busy", ()),
    )


def _power_fits(
    item: s.PoolDecl,
    frequencies: Sequence[Fraction],
    watts: dict[str, tuple[Fraction, ...]],
    seen: dict[str, Span],
    context: Context,
) -> None:
    """Clock rates rise, and there is a power for each of them."""
    name = item.name.text
    if any(a >= b for a, b in pairwise(frequencies)) and watts:
        help_text = "write the slowest one first, and the powers in the same order"
        context.fault(
            "F809", f"the clock rates of `{name}` do not rise", seen["frequencies"], help=help_text
        )
    written = {option.key: len(option.values) for option in item.options}
    for key in watts:
        count, wanted = written[key], max(1, written.get("frequencies", 1))
        if count != wanted:
            rates = f"{wanted} clock rates" if wanted > 1 else "one clock rate"
            message = (
                f"`{name}` has {rates} and {count} {'values' if count != 1 else 'value'} of `{key}`"
            )
            help_text = f"give `{key}` a value for each of `frequencies`, in the same order"
            context.fault("F809", message, seen[key], help=help_text)
    if len(watts) == 1:
        [key] = watts
        other = "busy" if key == "idle" else "idle"
        message = f"`{name}` has `{key}`, but not `{other}`"
        help_text = (
            "`idle` is the constant power of each processor, `busy` what it takes in addition while"
            " it works"
        )
        context.fault("F809", message, seen[key], help=help_text)


def _capability(
    option: s.PoolOption, kind: str, context: Context, evaluate: Evaluator
) -> tuple[int, int] | None:
    """`compute 8.7` as (8, 7)."""
    value = evaluate.number(option.values[0], {}, "a compute capability", 1)
    if value is None:
        return None
    if kind != "gpu" or (10 * value).denominator != 1:
        message = f"`compute {float(value):g}` is no compute capability of a {kind}"
        context.fault("F105", message, option.span, help="a GPU has one, such as `compute 8.7`")
        return None
    return int(10 * value) // 10, int(10 * value) % 10


def pins(
    declaration: s.MappingDecl,
    apps: Iterable[Application],
    platforms: dict[str, Platform],
    context: Context,
    evaluate: Evaluator,
    seen: dict[tuple[str, str], Span],
) -> Iterable[Pin]:
    """The pins of one mapping; `seen` collects those of all mappings.

    A platform that is not declared here has a file of its own: its processors are not checked yet.
    """
    known = {t.name for a in apps for t in a.tasks}
    target = platforms.get(declaration.platform.text)
    for item in declaration.pins:
        parts = []
        for element in item.path:
            index = (
                None
                if element.index is None
                else evaluate.integer(element.index, {}, "an index", 0)
            )
            parts.append(element.name.text + (f"[{index}]" if index is not None else ""))
        task = ".".join(parts)
        span = item.path[0].span.to(item.path[-1].span)
        if task not in known:
            prefixes = {".".join(parts[: i + 1]) for i in range(len(parts))}
            if parts[0] not in context.poisoned and not prefixes & context.broken:
                context.fault(
                    "F502", f"there is no task `{task}`", span, help=did_you_mean(task, known)
                )
            continue
        key = declaration.platform.text, task
        if key in seen:
            context.fault(
                "F115",
                f"`{task}` is pinned twice",
                span,
                notes=[Note("the first one", seen[key])],
                help="remove one",
            )
            continue
        seen[key] = span
        stages = tuple(_stage(stage, target, context, evaluate) for stage in item.stages)
        wcet = None
        if item.wcet is not None:
            wcet = evaluate.quantity(item.wcet.amount, item.wcet.unit, "time", "a wcet", {})
        buffers = (
            None
            if item.buffers is None
            else evaluate.integer(item.buffers, {}, "the number of buffers", 1, MOST_BUFFERS)
        )
        pre, post = (
            _count(e, evaluate, "the number of threads", MOST_THREADS)
            for e in (item.pre, item.post)
        )
        yield Pin(
            declaration.platform.text, task, stages, wcet, buffers, item.span, pre, post, item.adapt
        )


def _count(given: s.Expr | None, evaluate: Evaluator, what: str, most: int) -> int:
    return 1 if given is None else evaluate.integer(given, {}, what, 1, most) or 1


def _stage(
    stage: s.StageDecl, target: Platform | None, context: Context, evaluate: Evaluator
) -> PinStage:
    processors = []
    for element in stage.processors:
        index = (
            None if element.index is None else evaluate.integer(element.index, {}, "an index", 0)
        )
        machine = "" if element.machine is None else f"{element.machine.text}."
        name = machine + element.name.text + (f"[{index}]" if index is not None else "")
        if target is not None and name not in target.processors:
            names = [p for pool in target.pools if pool.kind != "link" for p in pool.processors]
            help_text = did_you_mean(name, names) or f"it has {one_of(names)}"
            context.fault(
                "F501",
                f"platform `{target.name}` has no processor `{name}`",
                element.span,
                help=help_text,
            )
        processors.append(name)
    streams = _count(stage.streams, evaluate, "the number of streams", MOST_STREAMS)
    threads = _count(stage.threads, evaluate, "the number of threads", MOST_THREADS)
    until = stage.until.value if stage.until else None
    bands = tuple(
        Bands(rows, b.until.value if b.until else None, tuple(k.value for k in b.keep))
        for b in stage.bands
        for rows in [evaluate.integer(b.rows, {}, "the number of rows", 1, MOST_ROWS) or 1]
    )
    memory = None
    if stage.memory is not None:
        memory = int(
            evaluate.quantity(stage.memory.amount, stage.memory.unit, "memory", "a memory size", {})
            or 0
        )
    if stage.fallback is not None and stage.fallback.text != "gpu":
        context.fault(
            "F114",
            f"`fallback {stage.fallback.text}`",
            stage.fallback.span,
            help="write `fallback gpu`",
        )
    return PinStage(
        tuple(processors),
        until,
        streams,
        stage.span,
        threads,
        stage.process,
        stage.graph,
        stage.fallback is not None,
        bands,
        memory,
    )


def clock_pins(
    declaration: s.MappingDecl,
    scenario: Scenario | None,
    platforms: dict[str, Platform],
    context: Context,
    evaluate: Evaluator,
    seen: dict[tuple[str, str, str], Span],
) -> Iterator[ClockPin]:
    """The clock rates that a mapping sets; `seen` collects those of all mappings."""
    target = platforms.get(declaration.platform.text)
    for item in declaration.clocks:
        hz = evaluate.quantity(item.rate.amount, item.rate.unit, "frequency", "a clock rate", {})
        state = _state_named(item, scenario, context)
        pools = {p.name: p for p in target.pools} if target is not None else {}
        if target is not None and item.pool.text not in pools:
            help_text = did_you_mean(item.pool.text, pools) or f"it has {one_of(pools)}"
            message = f"platform `{target.name}` has no pool `{item.pool.text}`"
            context.fault("F501", message, item.pool.span, help=help_text)
            continue
        rates = pools[item.pool.text].frequencies_hz if pools else ()
        if hz is not None and target is not None and hz not in rates:
            known = (
                f"its rates are {listed([_mhz(r) for r in rates])}"
                if rates
                else "add `frequencies` to it"
            )
            message = f"`{item.pool.text}` has no clock rate of {_mhz(hz)}"
            context.fault("F105", message, item.rate.span, help=known)
            continue
        if state is None or hz is None:
            continue
        key = declaration.platform.text, item.pool.text, state
        if key in seen:
            notes = [Note("the first one", seen[key])]
            message = f"the clock rate of `{item.pool.text}` in `{state}` is given twice"
            context.fault("F115", message, item.span, notes=notes, help="remove one")
            continue
        seen[key] = item.span
        yield ClockPin(declaration.platform.text, item.pool.text, state, hz, item.span)


def _state_named(item: s.ClockDecl, scenario: Scenario | None, context: Context) -> str | None:
    """The state that `Scenario.state` denotes; None without a scenario, or after a fault."""
    span = item.state[0].span.to(item.state[-1].span)
    path = ".".join(e.name.text for e in item.state)
    if scenario is None:
        if not has_errors(context.faults):
            context.fault("F101", f"there is no state `{path}`", span, help="declare a `scenario`")
        return None
    known = list(dict.fromkeys(f"{scenario.name}.{s.of}" for s in scenario.states))
    if path not in known:
        help_text = did_you_mean(path, known) or f"there is {one_of(known)}"
        context.fault("F101", f"there is no state `{path}`", span, help=help_text)
        return None
    return item.state[-1].name.text


def _mhz(hz: Fraction) -> str:
    return f"{float(hz) / 1e6:g} MHz"
