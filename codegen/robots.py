"""A program as a node of a robot's dataflow: the common part of every such target.

In: a deployment. Out: its open ends under their outside names, and diagnostics for unsupported
ones. A target is a `Robot`: the files that it adds, and the place of the program among them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from ..model.application import Port, Task
from ..model.deployment import Deployment
from ..model.diagnostic import Diagnostic
from ..model.span import Span
from ..model.supports import Use
from ..model.system import System
from ..templates import environment
from .carried import carried
from .deploy import Deployed
from .features import of_port, refused
from .kinds.border import BorderCode
from .names import literal, one_line
from .sources import Plan

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class RobotEnd:
    """An open end: a task, and its name outside."""

    task: str
    name: str
    incoming: bool
    dtype: str
    shape: tuple[int, ...]

    @property
    def type(self) -> str:
        """Its type, as texts have it."""
        return f"{self.dtype}{list(self.shape)}" if self.shape else self.dtype


@dataclass(frozen=True, slots=True)
class Robot:
    """A target: `files` makes a build of a program, `root` is the folder of the program in it ('' =
    its own).

    `separator` stands between an app and its open end. `dtypes` are the types of its messages,
    `messages` their name, `made_there` the folders that it creates beside a program, `refused` the
    characters that its names may not contain, `most_bytes` the size limit of a message.
    """

    name: str
    messages: str
    dtypes: Container[str]
    files: Callable[[Deployed, Plan], Plan]
    root: Callable[[Deployment], str]
    separator: str
    made_there: tuple[str, ...] = ()
    refused: re.Pattern[str] | None = None
    most_bytes: int | None = None


def open_ends(deployment: Deployment, separator: str) -> tuple[RobotEnd, ...]:
    """All open ends; with the name of their app in front, if several apps have any."""
    bordered = []
    for app in deployment.apps:
        bordered += [(app.name, t) for t in app.tasks if isinstance(t.code, BorderCode)]
    several = len({name for name, _ in bordered}) > 1
    ends = []
    for app_name, task in bordered:
        (port,) = (*task.inputs, *task.outputs)
        name = f"{app_name}{separator}{port.name}" if several else port.name
        ends.append(RobotEnd(task.name, name, task.code.kind == "in", port.dtype, port.shape))
    return tuple(ends)


def own_ends(ends: tuple[RobotEnd, ...], deployment: Deployment) -> tuple[RobotEnd, ...]:
    """Those that a part has."""
    names = {t.name for t in deployment.tasks}
    return tuple(e for e in ends if e.task in names)


def node_name(stem: str, reserved: Container[str] = ()) -> str:
    """An identifier from the name of a file."""
    name = re.sub(r"\W+", "_", stem, flags=re.ASCII).strip("_").lower() or "app"
    if name[0].isdigit():
        name = f"app_{name}"
    return f"{name}_" if name in reserved else name


def refusals(system: System, robot: Robot) -> Iterator[Diagnostic]:
    """Errors for open ends whose type, size or name messages do not support."""
    bordered = [a for a in system.apps if any(t.border is not None for t in a.tasks)]
    if len(bordered) > 1:
        for app in bordered:
            yield from _misnamed(app.name, app.span, robot)
    for app in bordered:
        for task in app.tasks:
            if task.border is None:
                continue
            for port in (*task.inputs, *task.outputs):
                yield from _misnamed(port.name, task.span, robot)
                uses = [*of_port(task, port), *_at_end(task, port, robot)]
                messages = {"messages": robot.messages}
                uses = [replace(use, words={**use.words, **messages}) for use in uses]
                yield from refused(uses, "robot")


def _at_end(task: Task, port: Port, robot: Robot) -> Iterator[Use]:
    """Types that messages lack, and tokens that are too large for them. Messages of Arrow have a
    bit for each element beside its bytes, and a short header."""
    kind, most = port.type, robot.most_bytes
    if kind is None:
        return
    words = {"port": port.name, "type": kind}
    if kind.dtype not in robot.dtypes:
        half = kind.dtype == "float16"
        words["instead"] = "float32" if half else "two ends, one for each part of the number"
        yield Use("a type that messages lack", task.span, words)
    if most is not None and kind.bytes + prod(kind.shape) // 8 > most:
        words["most"] = f"{most // 10**6} MB"
        yield Use("an array that is too large for messages", task.span, words)


def _misnamed(name: str, span: Span | None, robot: Robot) -> Iterator[Diagnostic]:
    if robot.refused is None:
        return
    refused = robot.refused.search(name)
    if refused is not None:
        message = (
            f"`{name}` is part of the name of a topic, which may not have `{refused[0]}` in it"
        )
        yield Diagnostic("F536", message, span, help="give it another name")


def rendered(template: str, **words: object) -> bytes:
    """A file of a target."""
    return _jinja().get_template(f"robots/{template}.j2").render(words).encode()


@functools.cache
def _jinja() -> Environment:
    jinja = environment()
    jinja.filters["py"] = literal
    jinja.filters["line"] = one_line
    return jinja


def with_runtime(module: str, folder: str) -> Plan:
    """The files of the runtime that make a program a node, beside those of the program in that
    folder.

    The folder is "", or has a slash at the end.
    """
    files = carried((), (module,))
    del files["runtime/__init__.py"]  # the program's own names more
    return {f"{folder}{path}": content for path, content in files.items()}
