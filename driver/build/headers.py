"""The C prototypes of the tasks of a text, for the headers beside their sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ...codegen.in_c import header
from ...dsl.syntax import Specification, TaskDecl
from ...model.application import Task
from ...model.diagnostic import Diagnostic, Errors, listed
from ..text.check import check


def headers_of(path: str | Path) -> dict[Path, str]:
    """The text of the header of each C source, by its path. Raises Errors, also where a text has
    tasks with C code and uses none of them.

    Headers help to write missing C code, so a missing function (F302) is not an error.
    """
    checked = check(path)
    if any(d.severity == "error" and d.code != "F302" for d in checked.diagnostics):
        raise Errors(checked.diagnostics)
    system = checked.loaded.system
    sources: dict[str, list[Task]] = {}
    for app in system.apps:
        for task in app.tasks:
            for code in task.implementations:
                if code.language == "c":
                    sources.setdefault(code.path, []).append(task)
    unused = [] if sources else [*_in_c(checked.loaded.specifications)]
    if unused:
        names = listed([task.name.text for task in unused])
        help_text = f"use {names} in an app or a graph: prototypes may depend on parameters"
        message = "no app uses a task with C code"
        raise Errors([Diagnostic("F662", message, unused[0].name.span, help=help_text)])
    for declared in system.in_c:
        found = declared.task.implementation_on("cpu")
        if found is not None and not declared.guessed:
            sources.setdefault(found.path, []).append(declared.task)
    headers = {}
    for path, tasks in sources.items():
        source = Path(path)
        headers[source.with_suffix(".flow.h")] = header(source.name, tuple(tasks))
    return headers


def _in_c(specifications: Iterable[Specification]) -> Iterator[TaskDecl]:
    """The tasks of the files of a text that have code in C or C++."""
    for specification in specifications:
        for task in specification.declarations:
            if isinstance(task, TaskDecl) and task.in_c:
                yield task
