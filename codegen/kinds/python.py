"""Tasks in Python: a function, or a class whose calls are firings; in a separate process if a
mapping says so."""

from __future__ import annotations

import keyword
from dataclasses import dataclass, replace
from pathlib import Path

from ...model.application import Implementation, Task
from ...model.deployment import DataFile, Plain
from ..names import literal
from .kind import CPU, BuildCode, CodeSite, Identifiers, Kind, plain, value_text


@dataclass(frozen=True, slots=True)
class PythonCode(BuildCode):
    """A function or class in a copied file; `process`: it runs in a process of its own."""

    file: str
    name: str
    parameters: tuple[tuple[str, Plain | DataFile], ...]
    process: bool = False
    kind: str = "python"

    @property
    def words(self) -> frozenset[str]:
        """See `BuildCode`."""
        return frozenset({"Python", "Process"} if self.process else {"Python"})

    @property
    def not_choosable(self) -> str | None:
        """See `BuildCode`."""
        return "runs in a process of its own" if self.process else None

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`. Parameters with names of Python keywords are passed as **."""
        arguments = [literal(self.file), literal(self.name)]
        keywords = []
        for name, value in self.parameters:
            if keyword.iskeyword(name):
                keywords.append(f"{literal(name)}: {value_text(value)}")
            else:
                arguments.append(f"{name}={value_text(value)}")
        if keywords:
            arguments.append(f"**{{{', '.join(keywords)}}}")
        text = f"Python({', '.join(arguments)})"
        return f"Process({text})" if self.process else text


@dataclass(frozen=True, slots=True)
class RaisingCode(PythonCode):
    """The same with `events` that its `task` may raise: functions that it gets as keyword
    arguments."""

    task: str = ""
    events: tuple[str, ...] = ()

    @property
    def words(self) -> frozenset[str]:
        """See `BuildCode`."""
        return frozenset({"Event", "Process", "Python"} if self.process else {"Event", "Python"})

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        plain = PythonCode.text(self, ids)
        given = [f"{literal(e)}: Event(p, {literal(f'{self.task}.{e}')})" for e in self.events]
        return f"{plain[:-1]}, **{{{', '.join(given)}}})"


def python_code(task: Task, code: Implementation, site: CodeSite) -> PythonCode:
    """The code of an implementation, or of a reference, in this process."""
    file = site.sources.place("tasks", code.path)
    for helper in site.helpers(Path(code.path)):
        site.sources.place("tasks", helper)
    known = [(n, v) for n, v in task.parameters if code.passes is None or n in code.passes]
    return PythonCode(file, code.symbol, tuple((n, plain(v, site.sources)) for n, v in known))


def _make(task: Task, site: CodeSite) -> PythonCode | None:
    code = task.implementation_on("cpu") or task.reference
    if task.network is not None or code is None or code.language != "python":
        return None
    made = replace(python_code(task, code, site), process=site.place.process)
    if not task.events:
        return made
    return RaisingCode(
        made.file, made.name, made.parameters, made.process, task=task.name, events=task.events
    )


KIND = Kind("python", frozenset({"Python", "Process"}), CPU, _make)
