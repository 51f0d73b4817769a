"""The text of main.py: the graph, its code and its orders as calls of the runtime.

In: a deployment. Out: the text of main.py. The templates get strings that are ready to print; all
decisions are made here, for programs with states in `main_with_states`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedCrossing,
    DeployedPath,
    DeployedStamp,
    DeployedTask,
    Deployment,
)
from .kinds import code_of
from .kinds.kind import Identifiers
from .kinds.moving import MovingCode
from .main_with_states import main_with_states
from .names import identifiers, literal
from .statements import (
    END_TO_END,
    RESERVED,
    code_text,
    end_to_end,
    entry_text,
    initial_tokens,
    offsets,
    pace,
    port_class,
    port_text,
    scheduling,
    scheduling_class,
)

if TYPE_CHECKING:
    from jinja2 import Environment


def main_text(
    jinja: Environment, deployment: Deployment, needs: str, rounds: Sequence[str]
) -> bytes:
    """The text, with the libraries that it `needs` in words, and for each worker the name of the
    function of its `rounds` (empty: it has none)."""
    words = words_of(deployment)
    if deployment.scenario is not None:
        return main_with_states(jinja, deployment, deployment.scenario, needs, words, rounds)
    app_ids, task_ids = _identifiers(deployment)
    workers = [
        {
            "processor": worker.processor,
            "order": [entry_text(entry, task_ids[entry.task]) for entry in worker.order],
            "scheduling": scheduling(worker),
            "rounds": written,
        }
        for worker, written in zip(deployment.processors, rounds, strict=True)
    ]
    part = deployment.part
    stamps = part.stamps if part else ()
    ends = [
        end_to_end(p, task_ids[p.source], task_ids[p.sink])
        for app in deployment.apps
        for p in app.paths
        if p.kind in END_TO_END
    ]
    text = jinja.get_template("python/main.py.j2").render(
        deployment=deployment,
        needs=needs,
        apps=[_app(app, app_ids, task_ids) for app in deployment.apps],
        workers=workers,
        ends=ends,
        words=words,
        part=part,
        crossings=[_crossing(c, task_ids) for c in part.crossings] if part else [],
        told=[_told(s, task_ids) for s in stamps if s.outgoing],
        elsewhere=[_elsewhere(s, task_ids) for s in stamps if not s.outgoing],
    )
    return text.encode()


def words_of(deployment: Deployment) -> list[str]:
    """The names that main.py imports from the runtime."""
    words = {"Fire", "Program", "main"}
    for task in deployment.tasks:
        words |= code_of(task).words
        words |= {port_class(port) for port in (*task.inputs, *task.outputs)}
    words |= {scheduling_class(worker) for worker in deployment.every_worker} - {""}
    if any(t.keep is not None for t in deployment.tasks):
        words.add("Dropping")
    for app in deployment.every_app:
        words |= {END_TO_END[path.kind] for path in app.paths if path.kind in END_TO_END}
    if deployment.part is not None:
        words.add("Transport")
        if deployment.part.stamps:
            words.add("Stamps")
    if deployment.scenario is not None:
        words.add("Control")
        if any(s.like is not None for s in deployment.scenario.states):
            words.add("Select")
    return sorted(words)


def _identifiers(deployment: Deployment) -> tuple[Identifiers, Identifiers]:
    """The identifiers of apps and of tasks; those of tasks are short if there is one app."""
    several = len(deployment.apps) > 1
    apps = [a.name for a in deployment.apps]
    tasks = {}
    for app in deployment.apps:
        for task in app.tasks:
            tasks[task.name] = task.name if several else task.name.partition(".")[2]
    if deployment.part is not None:
        tasks |= {s.task: f"{s.task} elsewhere" for s in deployment.part.stamps if not s.outgoing}
    ids = identifiers([*(f"app {n}" for n in apps), *tasks.values()], RESERVED)
    return {n: ids[f"app {n}"] for n in apps}, {n: ids[short] for n, short in tasks.items()}


def _crossing(crossing: DeployedCrossing, task_ids: Identifiers) -> str:
    """The call in main.py for a channel between two parts."""
    call = "sends_to" if crossing.outgoing else "receives_from"
    arguments = [
        str(crossing.number),
        task_ids[crossing.task],
        literal(crossing.port),
        literal(crossing.other),
        literal(crossing.channel.name),
        f"capacity={crossing.channel.capacity}{initial_tokens(crossing.channel)}",
    ]
    return f"{call}({literal(crossing.peer)}).channel({', '.join(arguments)})"


def _told(stamp: DeployedStamp, task_ids: Identifiers) -> str:
    """The call in main.py for a task that another part asks about."""
    return f"tell({literal(stamp.peer)}, {task_ids[stamp.task]}{_asked(stamp)})"


def _elsewhere(stamp: DeployedStamp, task_ids: Identifiers) -> str:
    """The statement in main.py for a task of another part, the source of a path that ends here."""
    given = f"{literal(stamp.peer)}, {literal(stamp.task)}, firings={stamp.firings}"
    return f"{task_ids[stamp.task]} = stamps.elsewhere({given}{_asked(stamp)})"


def _asked(stamp: DeployedStamp) -> str:
    """What is told of a task, as further arguments."""
    words = ", releases=True" if stamp.releases else ""
    if stamp.ages:
        words += f", ages={literal(list(stamp.ages))}"
    if stamp.reactions:
        words += f", reactions={literal(list(stamp.reactions))}"
    return words


def _app(app: DeployedApp, app_ids: Identifiers, task_ids: Identifiers) -> dict[str, Any]:
    return {
        "name": app.name,
        "doc": app.doc,
        "id": app_ids[app.name],
        "pace": pace(app),
        "period": app.period_ns,
        "deadline": app.deadline_ns,
        "cuts": _cuts(app, task_ids),
        "tasks": [_task(t, task_ids) for t in app.tasks],
        "channels": [_channel(c, task_ids) for c in app.channels],
        "paths": [_path(p, task_ids) for p in app.paths if p.kind == "path"],
        "parts": [_path(p, task_ids) for p in app.paths if p.kind == "part"],
    }


def _channel(channel: DeployedChannel, task_ids: Identifiers) -> dict[str, Any]:
    return {
        "source": task_ids[channel.source],
        "source_port": channel.source_port,
        "destination": task_ids[channel.destination],
        "destination_port": channel.destination_port,
        "capacity": channel.capacity,
        "delay": initial_tokens(channel),
    }


def _path(path: DeployedPath, task_ids: Identifiers) -> dict[str, Any]:
    return {
        "source": task_ids[path.source],
        "sink": task_ids[path.sink],
        "newest": offsets(path.newest),
        "deadline": path.deadline_ns,
    }


def _task(task: DeployedTask, task_ids: Identifiers) -> dict[str, Any]:
    return {
        "name": task.name,
        "doc": task.doc,
        "id": task_ids[task.name],
        "code": code_text(task, task_ids),
        "live": task.live,
        "on_error": task.on_error,
        "restart": task.restart,
        "wcet": task.wcet_ns,
        "inputs": [port_text(p) for p in task.inputs],
        "outputs": [port_text(p) for p in task.outputs],
    }


def _cuts(app: DeployedApp, task_ids: Identifiers) -> list[dict[str, Any]]:
    """The cuts that move at run time, defined before the tasks that share them."""
    return [
        {
            "id": t.code.cut_id(task_ids),
            "name": t.code.network,
            "variants": t.code.variant_texts(),
            "start": t.code.start,
            "others": t.code.others,
            "options": t.code.options_text(),
        }
        for t in app.tasks
        if isinstance(t.code, MovingCode) and t.code.stage == 0
    ]
