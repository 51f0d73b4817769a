"""The text of main.py: the graph, its code and its orders as calls of the runtime.

In: a deployment. Out: the text of main.py. The templates get strings that are ready to print; all
decisions are made here.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from ..model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedCrossing,
    DeployedPort,
    DeployedScenario,
    DeployedState,
    DeployedTask,
    DeployedWorker,
    Deployment,
    Entry,
)
from .kinds import KINDS, Code
from .kinds.moving import MovingCode
from .layouts import chosen, place_of
from .names import identifiers, literal

if TYPE_CHECKING:
    from jinja2 import Environment

#: Names that main.py uses itself.
RESERVED = frozenset(
    {
        "Fire",
        "HOME",
        "Port",
        "Program",
        "control",
        "main",
        "mesh",
        "os",
        "p",
        "program",
        "signal",
        "sys",
    }
).union({"Control", "Dropping", "Event", "Mesh", "Select"}, *(kind.words for kind in KINDS))


def main_text(jinja: Environment, deployment: Deployment, needs: str) -> bytes:
    """The text, with the libraries that it `needs` in words."""
    if deployment.scenario is not None:
        return _main_with_states(jinja, deployment, deployment.scenario, needs)
    several = len(deployment.apps) > 1
    names = [a.name for a in deployment.apps]
    tasks = [t.name for a in deployment.apps for t in a.tasks]
    ids = identifiers(
        [*(f"app {n}" for n in names), *(n if several else n.partition(".")[2] for n in tasks)],
        RESERVED,
    )
    app_ids = {n: ids[f"app {n}"] for n in names}
    task_ids = {n: ids[n if several else n.partition(".")[2]] for n in tasks}
    text = jinja.get_template("python/main.py.j2").render(
        deployment=deployment,
        needs=needs,
        apps=[_app(app, app_ids, task_ids) for app in deployment.apps],
        workers=[_worker(worker, task_ids) for worker in deployment.processors],
        words=words_of(deployment),
        part=deployment.part,
        crossings=[]
        if deployment.part is None
        else [_crossing(c, task_ids) for c in deployment.part.crossings],
    )
    return text.encode()


def _crossing(crossing: DeployedCrossing, task_ids: dict[str, str]) -> str:
    """The call in main.py for a channel between two parts."""
    here, channel = (
        f"{task_ids[crossing.task]}, {literal(crossing.port)}",
        _channel_text(crossing.channel),
    )
    call = "sends" if crossing.outgoing else "receives"
    return (
        f"{call}({crossing.number}, {here}, {literal(crossing.peer)}, {literal(crossing.other)},"
        f" {channel})"
    )


def _channel_text(channel: DeployedChannel) -> str:
    """Its name, its capacity and its initial tokens in main.py."""
    text = f"{literal(channel.name)}, capacity={channel.capacity}"
    text += f", delay={channel.delay}" if channel.delay else ""
    return text + (f", values={literal(list(channel.values))}" if channel.values else "")


def _main_with_states(
    jinja: Environment, deployment: Deployment, scenario: DeployedScenario, needs: str
) -> bytes:
    """Code of tasks is made once, for all states; apps, channels and processors are made for
    each."""
    apps = list(dict.fromkeys(a.name for a in deployment.every_app))
    tasks = {t.name: t for t in deployment.tasks}
    names = [*(f"app {n}" for n in apps), *tasks, *(f"code of {n}" for n in tasks)]
    ids = identifiers(names, RESERVED)
    codes = {n: ids[f"code of {n}"] for n in tasks}
    app_ids = {n: ids[f"app {n}"] for n in apps}
    states: list[dict[str, Any]] = []
    for state in scenario.states:
        if state.like is not None:
            states.append({**_meant_for(state), "like": state.like, "apps": [], "workers": []})
            continue
        choices = _choices([s for s in scenario.states if state.name in (s.name, s.like)], codes)
        made = [_app(app, app_ids, ids) for app in state.apps]
        for app, found in zip(state.apps, made, strict=True):
            for task, line in zip(app.tasks, found["tasks"], strict=True):
                line["name"], line["code"] = choices.get(task.name, (task.name, codes[task.name]))
            kept = [
                c for c, line in zip(app.channels, found["channels"], strict=True) if _kept(app, c)
            ]
            for key, c in enumerate(kept):
                found["channels"][app.channels.index(c)]["delay"] += f', key="{key}"'
        workers = [_worker(worker, ids) for worker in state.processors if worker.order]
        states.append({**_meant_for(state), "like": None, "apps": made, "workers": workers})
    text = jinja.get_template("python/main_with_states.py.j2").render(
        deployment=deployment,
        scenario=scenario,
        needs=needs,
        codes=[
            {"id": codes[n], "doc": t.doc, "text": _task(t, ids)["code"]} for n, t in tasks.items()
        ],
        states=states,
        words=words_of(deployment),
    )
    return text.encode()


def _meant_for(state: DeployedState) -> dict[str, Any]:
    """A state with its clock rates, its power, and the state of which it is a level."""
    clocks = {c.pool: (c.kind, c.hz, c.highest_hz) for c in state.clocks}
    return {"name": state.name, "clocks": clocks, "mw": state.energy_mw, "level_of": state.level_of}


def _choices(states: list[DeployedState], codes: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Tasks of the first state that a similar state replaces: the name of their place, and their
    code."""
    named: dict[str, list[tuple[str, str]]] = {}
    for state in states:
        place = place_of(state)
        for task in chosen(state):
            named.setdefault(place(task.name), []).append((state.name, task.name))
    found = {}
    for place_name, alternatives in named.items():
        if len({task for _, task in alternatives}) > 1:
            parts = [
                f"({literal(state)}, {literal(task)}, {codes[task]})"
                for state, task in alternatives
            ]
            found[alternatives[0][1]] = place_name, f"Select([{', '.join(parts)}])"
    return found


def _kept(app: DeployedApp, channel: DeployedChannel) -> bool:
    """Does it hold tokens between two frames, or does its reader keep some?"""
    reader = next(t for t in app.tasks if t.name == channel.destination)
    return bool(
        channel.delay or next(p.window for p in reader.inputs if p.name == channel.destination_port)
    )


def words_of(deployment: Deployment) -> list[str]:
    """The names that main.py imports from the runtime."""
    words = {"Fire", "Port", "Program", "main"}.union(
        *(cast(Code, t.code).words for t in deployment.tasks)
    )
    if any(t.keep is not None for t in deployment.tasks):
        words.add("Dropping")
    if deployment.scenario is not None:
        words.add("Control")
    if deployment.part is not None:
        words.add("Mesh")
    if deployment.scenario is not None and any(
        s.like is not None for s in deployment.scenario.states
    ):
        words.add("Select")
    return sorted(words)


def _app(app: DeployedApp, app_ids: dict[str, str], task_ids: dict[str, str]) -> dict[str, Any]:
    channels = []
    for c in app.channels:
        delay = f", delay={c.delay}" if c.delay else ""
        if c.values:
            delay += f", values={literal(list(c.values))}"
        channels.append(
            {
                "source": task_ids[c.source],
                "source_port": c.source_port,
                "destination": task_ids[c.destination],
                "destination_port": c.destination_port,
                "capacity": c.capacity,
                "delay": delay,
            }
        )
    return {
        "name": app.name,
        "doc": app.doc,
        "id": app_ids[app.name],
        "pace": _pace(app),
        "period": app.period_ns,
        "deadline": app.deadline_ns,
        "cuts": _cuts(app, task_ids),
        "tasks": [_task(t, task_ids) for t in app.tasks],
        "channels": channels,
        "paths": [
            {
                "source": task_ids[path.source],
                "sink": task_ids[path.sink],
                "newest": _offsets(path.newest),
                "deadline": path.deadline_ns,
            }
            for path in app.paths
        ],
    }


def _pace(app: DeployedApp) -> str:
    if app.period_ns is None:
        return "As fast as data allows."
    text = f"One iteration every {_ms(app.period_ns)}"
    if app.deadline_ns is not None and app.deadline_ns != app.period_ns:
        text += f", to be done within {_ms(app.deadline_ns)}"
    return text + "."


def _ms(ns: str) -> str:
    return f"{float(Fraction(ns)) / 1e6:g} ms"


def _task(task: DeployedTask, task_ids: dict[str, str]) -> dict[str, Any]:
    code = cast(Code, task.code).text(task_ids)
    return {
        "name": task.name,
        "doc": task.doc,
        "id": task_ids[task.name],
        "code": code if task.keep is None else f"Dropping(p, {code}, keep={task.keep})",
        "live": task.live,
        "on_error": task.on_error,
        "inputs": [_port(p) for p in task.inputs],
        "outputs": [_port(p) for p in task.outputs],
    }


def _cuts(app: DeployedApp, task_ids: dict[str, str]) -> list[dict[str, Any]]:
    """The cuts that move at run time, each defined before the two tasks that share it."""
    return [
        {
            "id": t.code.cut_id(task_ids),
            "name": t.code.network,
            "variants": t.code.variant_texts(),
            "start": t.code.start,
            "others": t.code.others,
        }
        for t in app.tasks
        if isinstance(t.code, MovingCode) and t.code.side == "front"
    ]


def _port(port: DeployedPort) -> str:
    text = f"Port({literal(port.name)}, {literal(port.dtype)}"
    if port.shape or port.rates != (1,) or port.stacked:
        text += f", {literal(port.shape)}"
    if port.rates != (1,) or port.stacked:
        text += f", rates={_rates(port.rates)}"
    if port.window:
        text += f", window={port.window}"
    elif port.stacked and port.rates == (1,):
        text += ", stacked=True"
    return text + ")"


def _rates(rates: tuple[int, ...]) -> str:
    """Long repetitive lists are written as sums of repeated parts."""
    parts: list[tuple[int, int]] = []
    for rate in rates:
        if parts and parts[-1][0] == rate:
            parts[-1] = (rate, parts[-1][1] + 1)
        else:
            parts.append((rate, 1))
    if len(rates) > 8 and len(parts) < len(rates) // 2:
        return " + ".join(f"({rate},) * {count}" for rate, count in parts)
    return literal(rates)


def _offsets(numbers: tuple[int, ...]) -> str:
    """Long lists that go up in equal steps are written as ranges."""
    steps = {b - a for a, b in pairwise(numbers)}
    if len(numbers) > 8 and len(steps) == 1 and 0 not in steps:
        (step,) = steps
        return f"range({numbers[0]}, {numbers[-1] + step}{f', {step}' if step != 1 else ''})"
    return literal(list(numbers))


def _worker(worker: DeployedWorker, task_ids: dict[str, str]) -> dict[str, Any]:
    fixed = f", fixed_priority={worker.fixed_priority}" if worker.fixed_priority is not None else ""
    return {
        "processor": worker.processor,
        "order": [_entry(e, task_ids) for e in worker.order],
        "fixed_priority": fixed,
    }


def _entry(entry: Entry, task_ids: dict[str, str]) -> str:
    parts = [task_ids[entry.task]]
    if entry.times != 1:
        parts.append(f"times={entry.times}")
    if entry.first:
        parts.append(f"first={entry.first}")
    if entry.stage:
        parts.append(f"stage={entry.stage}")
    if entry.replica[1] > 1:
        parts.append(f"replica={entry.replica}")
    if entry.round[1] > 1:
        parts.append(f"round={entry.round}")
    return ", ".join(parts)
