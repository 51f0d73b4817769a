"""The features of the language that a text uses, as far as some kind of program refuses them.

In: apps, tasks and pins. Out: a `Use` for each feature and place; `model.supports` says what comes
of it in each kind of program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..model.application import Application, Network, Port, Task
from ..model.diagnostic import Diagnostic
from ..model.mapping import Pin
from ..model.platform import Platform
from ..model.scenario import Scenario
from ..model.supports import Execution, Use
from ..model.system import System


def refused(uses: Iterable[Use], execution: Execution) -> tuple[Diagnostic, ...]:
    """What a kind of program refuses of some features: each message of a place once."""
    faults = (use.refused(execution) for use in uses)
    found = [fault for fault in faults if fault is not None]
    return tuple({(d.code, d.message, d.span): d for d in found}.values())


# -- tasks -----------------------------------------------------------------------------------------
def of_task(task: Task) -> Iterator[Use]:
    """The features of a task, apart from its code."""
    words = words_of(task)

    def use(feature: str, **more: object) -> Use:
        return Use(feature, task.span, {**words, **more})

    for port in (*task.inputs, *task.outputs):
        yield from of_port(task, port)
    if task.link is not None:
        yield use("`latest`, `drop oldest`")
    elif task.live and task.border is None:
        yield use("`live`")
    elif task.every_ns is not None:
        yield use("`every`")
    if task.on_error != "stop":
        yield use("`on error`", policy=task.on_error)


def of_port(task: Task, port: Port) -> Iterator[Use]:
    """The features of a port of a task."""
    words = {**words_of(task), "port": port.name, "type": port.type, "most": port.rates[0]}

    def use(feature: str) -> Use:
        return Use(feature, task.span, words)

    at_an_end = task.border is not None
    if task.within_ns is not None and port.count:
        yield use("`batch up to` for requests")
    elif port.count:
        yield use("`rate up to`")
        if at_an_end:
            yield use("a list at an open end")
    if port.varies:
        yield use("types with `up to`")
        if at_an_end:
            yield use("`up to` at an open end")
    if port.type is not None and port.type.open:
        yield use("sizes that data decide on")


def of_code(task: Task) -> Iterator[Use]:
    """The features of what a task runs on CPUs."""
    words = words_of(task)
    if task.network is not None:
        yield from of_network(task, task.network)
        return
    code = task.implementation_on("cpu")
    if code is None:
        yield Use("code for a GPU only", task.span, words)
    elif code.language == "python":
        around = task.definition.endswith((".pre", ".post"))
        feature = "`pre`, `post`" if around else "Python"
        named = f"{code.file}:{code.symbol}"
        yield Use(feature, code.span, {**words, "code": named, "symbol": code.symbol})


def of_network(task: Task, network: Network) -> Iterator[Use]:
    """The features of a network."""
    words = words_of(task)
    if network.moving is not None:
        yield Use("`adapt`", task.span, {**words, "task": task.definition})
    if network.library:
        yield Use("own operators", task.span, {**words, "library": network.one_piece})


def words_of(task: Task) -> dict[str, object]:
    """The names of a task, for diagnostics."""
    short = task.name.partition(".")[2]
    return {"task": task.name, "short": short, "definition": task.definition}


# -- pins, platforms and states --------------------------------------------------------------------
def of_pin(pin: Pin, task: Task | None) -> Iterator[Use]:
    """The features of a pin."""
    words = {"task": pin.task}
    if pin.adapt:
        yield Use("`adapt`", pin.span, words)
    for stage in pin.stages:
        begins_anew = task is not None and task.on_error == "restart"
        if len(stage.processors) * stage.streams > 1 and begins_anew:
            yield Use("`on error restart` in turn", pin.span, words)
        if stage.bands:
            yield Use("`bands`", pin.span, words)


def of_states(scenario: Scenario) -> Iterator[Use]:
    """The features of a scenario."""
    for state in scenario.states:
        for app in state.apps:
            for chain in app.chains:
                words = {"kind": chain.kind, "sink": chain.sink}
                yield Use("chains over apps with states", chain.span, words)


def of_text(system: System, platform: Platform, scenario: Scenario | None) -> Iterator[Use]:
    """The features of a whole text. Where there is a GPU, the place of a task decides which of its
    codes it runs."""
    if scenario is not None:
        yield from of_states(scenario)
    if platform.machines:
        yield Use("several machines", platform.span, {})
    gpu = any(pool.kind == "gpu" for pool in platform.pools)
    tasks = {task.name: task for app in system.apps for task in app.tasks}
    for task in tasks.values():
        yield from of_task(task)
        written = task.border is None and task.link is None and not task.built_in
        if written and not (gpu and task.implementation_on("gpu")):
            yield from of_code(task)
    for pin in system.pins:
        if pin.platform == platform.name:
            yield from of_pin(pin, tasks.get(pin.task))


def of_ends(app: Application) -> Iterator[Use]:
    """The open ends of an app, or that it has none."""
    ends = [task for task in app.tasks if task.border is not None]
    if not ends:
        yield Use("no open ends", app.span, {"app": app.name})
