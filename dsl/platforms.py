"""Platforms and pins: syntax to model.

Pins are checked against the apps, and against the platform where it is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import ceil

from ..model.application import Application, all_tasks
from ..model.diagnostic import did_you_mean, has_errors, listed, one_of
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
from ..model.modules import MODULES, Module
from ..model.platform import (
    CPU_SCHEDULERS,
    GPU_SCHEDULERS,
    KINDS,
    MOST_PROCESSORS,
    NPU_ENGINES,
    OTHER_SCHEDULERS,
    SCHEDULERS,
    Contention,
    Kind,
    Platform,
    Pool,
    Scheduler,
    TimeSlice,
    first_of_pools,
)
from ..model.scenario import Scenario
from ..model.span import Span
from ..model.tensorrt import TensorRTVersion
from . import rig
from . import syntax as s
from .context import Context
from .evaluate import Evaluator
from .processor_types import check_numbers, typed


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
    pools = {pool.name: pool for pool in typed(pools.values())}
    check_numbers(pools.values(), declaration.name.span, context)
    if not any(isinstance(item, s.PoolDecl | s.MachineDecl) for item in declaration.items):
        _without_processors(f"platform `{declaration.name.text}`", declaration.name.span, context)
    dla = any(p.kind == "dla" for p in pools.values())
    module = _module(declaration, context, dla)
    return Platform(
        declaration.name.text,
        tuple(pools.values()),
        tuple(contention),
        declaration.doc,
        declaration.name.span,
        _tensorrt(declaration, context, dla, module),
        names,
        wires,
        _board_power(declaration, context, evaluate),
        module="" if module is None else module.name,
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
    disturbances = []
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
        disturbances.append(
            Contention(item.victim.text, item.aggressor.text, factor or Fraction(1))
        )
    return disturbances


def _board_power(declaration: s.PlatformDecl, context: Context, evaluate: Evaluator) -> Fraction:
    """The constant power of the board, in watts."""
    powers = [i for i in declaration.items if isinstance(i, s.PowerDecl)]
    twice = "the `power` of the board is given twice"
    return evaluate.power(powers, twice) or Fraction(0)


def _module(declaration: s.PlatformDecl, context: Context, dla: bool) -> Module | None:
    """Which of NVIDIA's modules it is; one without a DLA that is declared is a fault."""
    declared = [i for i in declaration.items if isinstance(i, s.ModuleDecl)]
    if not declared:
        return None
    if len(declared) > 1:
        context.repeated("F115", "`module` is given twice", declared[1].span, declared[0].span)
    name = declared[0].name
    module = MODULES.get(name.text)
    if module is None:
        help_text = did_you_mean(name.text, MODULES) or f"use {one_of(MODULES)}, or leave it out"
        context.fault("F105", f"`{name.text}` is no module", name.span, help=help_text)
    elif dla and not module.dla:
        message = f"the {module.title} has no DLA"
        context.fault("F510", message, name.span, help="leave `dla` out")
    return module


def _tensorrt(
    declaration: s.PlatformDecl, context: Context, dla: bool, module: Module | None
) -> tuple[int, ...]:
    """The board's version of TensorRT; a version that does not support declared DLAs is a fault."""
    declared = [i for i in declaration.items if isinstance(i, s.TensorRTDecl)]
    if not declared:
        return ()
    if len(declared) > 1:
        message = "`tensorrt` is given twice"
        context.repeated("F115", message, declared[1].span, declared[0].span)
    version = declared[0].version
    found = re.fullmatch(r"(rtx )?(\d+(?:\.\d+){1,3})", version.value)
    if found is None or (found[1] and not found[2].startswith("1.")):
        help_text = 'write it as `"10.3"`, or as `"rtx 1.7"` for TensorRT for RTX'
        context.fault("F105", f"`{version.value}` is no version", version.span, help=help_text)
        return ()
    numbers = TensorRTVersion(int(n) for n in found[2].split("."))
    if numbers.too_old or numbers.rtx != bool(found[1]):
        help_text = 'generated programs need `"8.5"` or later, or `"rtx 1.7"`'
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
    elif dla and module is None and numbers.without_most_dlas:
        message = f"TensorRT {version.value} uses the DLA of the AGX Orin alone"
        help_text = "write `module agx_orin` in the platform, if it is one"
        context.fault("F510", message, version.span, help=help_text)
    elif dla and module is not None and module.dla and not module.dla_works_with(numbers):
        message = f"TensorRT {version.value} does not use the DLA of the {module.title}"
        help_text = "leave `dla` out, or give the version of a JetPack that does"
        context.fault("F510", message, version.span, help=help_text)
    return numbers


def _pool(item: s.PoolDecl, context: Context, evaluate: Evaluator) -> Pool | None:
    """None after a fault that leaves no pool."""
    kind = next((k for k in KINDS if k == item.kind.text), None)
    if kind is None:
        word = item.kind
        help_text = did_you_mean(word.text, KINDS) or f"use {one_of(KINDS)}"
        context.fault("F114", f"`{word.text}` is no kind of processor", word.span, help=help_text)
        return None
    count: int | None = 1
    if item.count is not None:
        what = "the number of processors"
        count = evaluate.integer(item.count, {}, what, 1, MOST_PROCESSORS)
    # Accelerators take work in the order in which it comes.
    scheduler: Scheduler = "static_order" if kind == "cpu" else "fifo"
    pool = Pool(item.name.text, kind, count or 1, item.count is not None, scheduler)
    options: dict[str, s.PoolOption] = {}
    for option in item.options:
        if option.key in options:
            message = f"`{option.key}` is given twice"
            context.repeated("F115", message, option.span, options[option.key].span)
        options[option.key] = option
        pool = _with_option(pool, option, context, evaluate)
    _check_power(pool, options, context)
    _check_cores(pool, options, context)
    if not _check_engine(pool, options, item, context):
        return None
    return None if count is None else pool


def _check_engine(
    pool: Pool, options: dict[str, s.PoolOption], item: s.PoolDecl, context: Context
) -> bool:
    """An NPU names its engine, and other processors do not."""
    word = options["engine"].word if "engine" in options else None
    if pool.kind != "npu":
        if word is not None:
            message = f"`{pool.name}` is no npu: it has no `engine`"
            context.fault("F540", message, word.span, help="leave `engine` out")
        return True
    if word is None:
        message = f"npu `{pool.name}` does not name its engine"
        help_text = f"write `engine {NPU_ENGINES[0]}` behind it"
        context.fault("F540", message, item.name.span, help=help_text)
    elif word.text not in NPU_ENGINES:
        message = f"there is no engine `{word.text}` of NPUs"
        help_text = did_you_mean(word.text, NPU_ENGINES) or f"there is {one_of(NPU_ENGINES)}"
        context.fault("F540", message, word.span, help=help_text)
    return pool.engine in NPU_ENGINES


def _with_option(pool: Pool, option: s.PoolOption, context: Context, evaluate: Evaluator) -> Pool:
    """The pool with one of its options."""
    word, values = option.word, option.values
    match option.key:
        case "scheduler":
            scheduler = _scheduler(word, pool.kind, context) or pool.scheduler
            slice_ = _slice(option, scheduler, context, evaluate)
            return replace(pool, scheduler=scheduler, slice=slice_)
        case "wakeup":
            latency = _wakeup(option, pool.kind, context, evaluate)
            return replace(pool, wakeup_ns=latency)
        case "frequencies":
            rates = _quantities(option, "frequency", "a frequency", evaluate)
            return replace(pool, frequencies_hz=rates)
        case "idle":
            return replace(pool, idle_w=_quantities(option, "power", "a power", evaluate))
        case "busy":
            return replace(pool, busy_w=_quantities(option, "power", "a power", evaluate))
        case "engines":
            engines = evaluate.integer(values[0], {}, "the number of engines", 1)
            return replace(pool, engines=engines, engines_total=_in_total(word, context))
        case "engine":
            return replace(pool, engine=word.text)
        case "type":
            return replace(pool, type=_type(word, pool.kind, context))
        case "speed":
            return replace(pool, speed=_speed(option, pool.kind, context, evaluate))
        case "on":
            numbers = [
                evaluate.integer(value, {}, "the number of a core", 0, MOST_PROCESSORS - 1)
                for value in values
            ]
            return replace(pool, cores=tuple(number for number in numbers if number is not None))
        case "compute":
            return replace(pool, compute=_capability(option, pool.kind, context, evaluate))
        case _:
            size = evaluate.quantity(values[0], word, "memory", "a memory size", {})
            return replace(pool, memory_bytes=int(size or 0))


def _quantities(
    option: s.PoolOption, dimension: str, what: str, evaluate: Evaluator
) -> tuple[Fraction, ...]:
    """The values of an option in their base unit, those without a fault."""
    factor = evaluate.unit(option.word, dimension, what)
    values = [evaluate.number(v, {}, what, 0) for v in option.values]
    if factor is None:
        return ()
    return tuple(value * factor for value in values if value is not None)


def _scheduler(word: s.Word, kind: str, context: Context) -> Scheduler | None:
    """None after a fault. What runs on other processors than CPUs is not interrupted: programs
    start it in the order in which it comes, on GPUs by the priorities of streams or in slices."""
    words = {"cpu": CPU_SCHEDULERS, "gpu": GPU_SCHEDULERS}.get(kind, OTHER_SCHEDULERS)
    for scheduler in words:
        if scheduler == word.text:
            return scheduler
    help_text = did_you_mean(word.text, words) or f"use {one_of(words)}"
    message = f"`{word.text}` is no scheduler"
    if word.text in SCHEDULERS:
        message = f"programs do not keep `{word.text}` on a {kind}"
    if word.text == "fixed_priority" and kind == "gpu":
        help_text = (
            "a kernel that runs is not interrupted: write `scheduler priority`, or `scheduler"
            " time_slice 2 ms switch 100 us` where apps take turns"
        )
    context.fault("F105", message, word.span, help=help_text)
    return None


def _slice(
    option: s.PoolOption, scheduler: Scheduler, context: Context, evaluate: Evaluator
) -> TimeSlice | None:
    """The slice of `scheduler time_slice 2 ms switch 50 us`; None without one, or after a fault."""
    what = ("a slice", "the time of a switch")
    times = [
        evaluate.quantity(time.amount, time.unit, "time", name, {})
        for time, name in zip(option.times, what, strict=False)
    ]
    if any(time is None for time in times):
        return None
    length, switch = [*(ceil(time or 0) for time in times), 0, 0][:2]
    if scheduler != "time_slice" and not times:
        return None
    help_text = "write it as `scheduler time_slice 2 ms switch 50 us`"
    if scheduler != "time_slice":
        message = f"`{scheduler}` has no slices of time"
    elif not length:
        message = "`time_slice` needs the length of a slice"
    elif switch >= length:
        message = "a switch takes as long as a slice: nothing would ever end"
    else:
        return TimeSlice(length, switch)
    context.fault("F105", message, option.span, help=help_text)
    return None


def _wakeup(option: s.PoolOption, kind: str, context: Context, evaluate: Evaluator) -> int:
    """A wake-up latency in ns, rounded up."""
    if kind != "cpu":
        help_text = "write it behind `cpu`: the threads that wait for others run there"
        context.fault("F105", f"a {kind} has no `wakeup`", option.span, help=help_text)
        return 0
    latency = evaluate.quantity(option.values[0], option.word, "time", "a wake-up latency", {})
    return ceil(latency or 0)


def _type(word: s.Word, kind: Kind, context: Context) -> str:
    """The name of a type, which is no kind; the kind after a fault."""
    if word.text not in KINDS:
        return word.text
    message = f"`{word.text}` is a kind of processor, and no type of one"
    help_text = "name what these processors are, such as `type a76`, or leave it out"
    context.fault("F543", message, word.span, help=help_text)
    return kind


def _speed(option: s.PoolOption, kind: str, context: Context, evaluate: Evaluator) -> Fraction:
    """A speed above 0, relative to other CPUs of the platform; 0 after a fault."""
    if kind != "cpu":
        help_text = "leave it out, and measure there: `flowc profile`"
        context.fault("F543", f"a {kind} has no `speed`", option.span, help=help_text)
        return Fraction(0)
    speed = evaluate.number(option.values[0], {}, "a speed", 0)
    if speed == 0:
        message = "processors of speed 0 never end anything"
        help_text = "the fastest ones have 1, and those that take twice as long 0.5"
        context.fault("F543", message, option.span, help=help_text)
    return Fraction(speed or 0)


def _check_cores(pool: Pool, options: dict[str, s.PoolOption], context: Context) -> None:
    """Behind `on` is a number for each CPU."""
    if "on" not in options:
        return
    span = options["on"].span
    if pool.kind != "cpu":
        message = f"`{pool.name}` is a {pool.kind}: the operating system numbers CPUs only"
        context.fault("F543", message, span, help="leave `on` out")
    elif len(set(pool.cores)) != pool.count:
        has = _counted(pool.count, "processor", one="one")
        numbers = _counted(len(set(pool.cores)), "number", one="one")
        message = f"`{pool.name}` has {has} and {numbers}"
        help_text = "give each its number in /sys/devices/system/cpu, once"
        context.fault("F543", message, span, help=help_text)


def _in_total(word: s.Word, context: Context) -> bool:
    """True if `engines` counts those of all processors of the pool."""
    if word.text not in ("total", "each"):
        help_text = did_you_mean(word.text, ("total", "each"))
        help_text = help_text or "write `engines 4 total` or `engines 16 each`"
        message = f"`{word.text}` does not fit after `engines`"
        context.fault("F105", message, word.span, help=help_text)
    return word.text == "total"


def _check_power(pool: Pool, options: dict[str, s.PoolOption], context: Context) -> None:
    """Clock rates rise, and there is a power for each of them; `options` are those written."""
    powers = [options[key] for key in ("idle", "busy") if key in options]
    if not powers:
        return
    if any(slower >= faster for slower, faster in pairwise(pool.frequencies_hz)):
        message = f"the clock rates of `{pool.name}` do not rise"
        help_text = "write the slowest one first, and the powers in the same order"
        context.fault("F809", message, options["frequencies"].span, help=help_text)
    rates = len(options["frequencies"].values) if "frequencies" in options else 1
    for option in powers:
        if len(option.values) != rates:
            has = _counted(rates, "clock rate", one="one")
            values = _counted(len(option.values), "value", one="1")
            message = f"`{pool.name}` has {has} and {values} of `{option.key}`"
            help_text = f"give `{option.key}` a value for each of `frequencies`, in the same order"
            context.fault("F809", message, option.span, help=help_text)
    if len(powers) == 1:
        key = powers[0].key
        other = "busy" if key == "idle" else "idle"
        message = f"`{pool.name}` has `{key}`, but not `{other}`"
        help_text = (
            "`idle` is the constant power of each processor, `busy` what it takes in addition while"
            " it works"
        )
        context.fault("F809", message, powers[0].span, help=help_text)


def _counted(number: int, noun: str, one: str) -> str:
    return f"{one} {noun}" if number == 1 else f"{number} {noun}s"


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
    evaluator: Evaluator,
    seen: dict[tuple[str, str], Span],
) -> Iterable[Pin]:
    """The pins of one mapping; `seen` collects those of all mappings.

    A platform that is not declared here has a file of its own: its processors are not checked yet.
    """
    tasks = {task.name for task in all_tasks(apps)}
    name = declaration.platform.text
    target = platforms.get(name)
    for item in declaration.pins:
        task = evaluator.path(item.path)
        span = item.path[0].span.to(item.path[-1].span)
        if task not in tasks:
            _report_unknown(task, span, tasks, context)
            continue
        if (name, task) in seen:
            message = f"`{task}` is pinned twice"
            context.repeated("F115", message, span, seen[name, task], help="remove one")
            continue
        seen[name, task] = span
        wcet, buffers = None, None
        stages = tuple(_stage(stage, target, context, evaluator) for stage in item.stages)
        if item.wcet is not None:
            wcet = evaluator.quantity(item.wcet.amount, item.wcet.unit, "time", "a wcet", {})
        if item.buffers is not None:
            what = "the number of buffers"
            buffers = evaluator.integer(item.buffers, {}, what, 1, MOST_BUFFERS)
        pre = _count(item.pre, evaluator, "the number of threads", MOST_THREADS)
        post = _count(item.post, evaluator, "the number of threads", MOST_THREADS)
        yield Pin(name, task, stages, wcet, buffers, item.span, pre, post, item.adapt)


def _report_unknown(task: str, span: Span, tasks: set[str], context: Context) -> None:
    """Report a task that does not exist, unless another fault is the reason for that."""
    if context.blamed(task):
        return
    in_apps = sorted(name for name in tasks if name.partition(".")[2] == task)
    help_text = f"did you mean {one_of(in_apps)}?" if in_apps else did_you_mean(task, tasks)
    context.fault("F502", f"there is no task `{task}`", span, help=help_text)


def _count(expr: s.Expr | None, evaluate: Evaluator, what: str, most: int) -> int:
    """A number that is 1 where it is left out."""
    if expr is None:
        return 1
    return evaluate.integer(expr, {}, what, 1, most) or 1


def _stage(
    stage: s.StageDecl, target: Platform | None, context: Context, evaluate: Evaluator
) -> PinStage:
    processors = tuple(_processor(p, target, context, evaluate) for p in stage.processors)
    streams = _count(stage.streams, evaluate, "the number of streams", MOST_STREAMS)
    threads = _count(stage.threads, evaluate, "the number of threads", MOST_THREADS)
    memory = None
    if stage.memory is not None:
        amount, unit = stage.memory.amount, stage.memory.unit
        memory = int(evaluate.quantity(amount, unit, "memory", "a memory size", {}) or 0)
    if stage.fallback is not None and stage.fallback.text != "gpu":
        message = f"`fallback {stage.fallback.text}`"
        context.fault("F114", message, stage.fallback.span, help="write `fallback gpu`")
    return PinStage(
        processors,
        _text_of(stage.until),
        streams,
        stage.span,
        threads,
        stage.process,
        stage.graph,
        stage.fallback is not None,
        tuple(_bands(bands, evaluate) for bands in stage.bands),
        memory,
        stage.engine.text if stage.engine else "",
        stage.precision.text if stage.precision else "",
    )


def _processor(
    written: s.ProcessorName, target: Platform | None, context: Context, evaluate: Evaluator
) -> str:
    """The name of a processor; one that the platform does not have is a fault."""
    name = evaluate.element(written.name, written.index)
    if written.machine is not None:
        name = f"{written.machine.text}.{name}"
    if target is not None and name not in target.processors:
        pools = [pool for pool in target.pools if pool.kind != "link"]
        names = first_of_pools(pools)
        help_text = did_you_mean(name, names) or f"it has {one_of(names)}"
        message = f"platform `{target.name}` has no processor `{name}`"
        context.fault("F501", message, written.span, help=help_text)
    return name


def _bands(item: s.BandsDecl, evaluate: Evaluator) -> Bands:
    rows = _count(item.rows, evaluate, "the number of rows", MOST_ROWS)
    return Bands(rows, _text_of(item.until), tuple(text.value for text in item.keep))


def _text_of(text: s.Text | None) -> str | None:
    return text.value if text else None


def clock_pins(
    declaration: s.MappingDecl,
    scenario: Scenario | None,
    platforms: dict[str, Platform],
    context: Context,
    evaluate: Evaluator,
    seen: dict[tuple[str, str, str], Span],
) -> Iterator[ClockPin]:
    """The clock rates that a mapping sets; `seen` collects those of all mappings."""
    name = declaration.platform.text
    target = platforms.get(name)
    for item in declaration.clocks:
        pool = item.pool.text
        hz = evaluate.quantity(item.rate.amount, item.rate.unit, "frequency", "a clock rate", {})
        state = _state_named(item, scenario, context)
        if target is not None and not _has_rate(target, item, hz, context):
            continue
        if state is None or hz is None:
            continue
        key = name, pool, state
        if key in seen:
            message = f"the clock rate of `{pool}` in `{state}` is given twice"
            context.repeated("F115", message, item.span, seen[key], help="remove one")
            continue
        seen[key] = item.span
        yield ClockPin(name, pool, state, hz, item.span)


def _has_rate(target: Platform, item: s.ClockDecl, hz: Fraction | None, context: Context) -> bool:
    """Check that the platform has the pool, and the pool that clock rate."""
    pools = {p.name: p for p in target.pools}
    pool = pools.get(item.pool.text)
    if pool is None:
        help_text = did_you_mean(item.pool.text, pools) or f"it has {one_of(pools)}"
        message = f"platform `{target.name}` has no pool `{item.pool.text}`"
        context.fault("F501", message, item.pool.span, help=help_text)
        return False
    if hz is None or hz in pool.frequencies_hz:
        return True
    help_text = "add `frequencies` to it"
    if pool.frequencies_hz:
        help_text = f"its rates are {listed([_mhz(rate) for rate in pool.frequencies_hz])}"
    message = f"`{pool.name}` has no clock rate of {_mhz(hz)}"
    context.fault("F105", message, item.rate.span, help=help_text)
    return False


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
