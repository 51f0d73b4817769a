"""Which tasks begin and end the frames of an app, as `runtime/graph.py: App.prepare` has it.

In: an app of a deployment. Out: the same that a program in Python finds when it starts.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..model.deployment import DeployedApp, DeployedChannel, DeployedPort, DeployedTask


def starts_frame(app: DeployedApp, task: DeployedTask) -> bool:
    """Sources do, or all tasks where there are none."""
    return not task.inputs or all(t.inputs for t in app.tasks)


def opens(app: DeployedApp, task: DeployedTask) -> bool:
    """Can it be the first to fire in an iteration, as it begins with initial tokens?"""
    fed = list(fed_by(app, task))
    return bool(fed) and all(channel.delay >= port.rates[0] for channel, port in fed)


def fed_by(app: DeployedApp, task: DeployedTask) -> Iterator[tuple[DeployedChannel, DeployedPort]]:
    """The channels that a task reads, with its ports."""
    for channel in app.channels:
        if channel.destination == task.name:
            yield channel, next(p for p in task.inputs if p.name == channel.destination_port)


def enders(app: DeployedApp) -> list[str]:
    """The tasks that end a frame; the first one where there are none."""
    return [t.name for t in app.last_tasks] or [app.tasks[0].name]
