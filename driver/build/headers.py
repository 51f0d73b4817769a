"""The C prototypes of the tasks of a text, for the headers beside their sources."""

from __future__ import annotations

from pathlib import Path

from ...codegen.in_c import header
from ...model.application import Task
from ...model.diagnostic import Errors
from ..text.check import check


def headers_of(path: str | Path) -> dict[Path, str]:
    """The text of the header of each C source, by its path. Raises Errors.

    Headers help to write missing C code, so a missing function (F302) is not an error.
    """
    checked = check(path)
    if any(d.severity == "error" and d.code != "F302" for d in checked.diagnostics):
        raise Errors(checked.diagnostics)
    sources: dict[str, list[Task]] = {}
    for app in checked.loaded.system.apps:
        for task in app.tasks:
            for code in task.implementations:
                if code.language == "c":
                    sources.setdefault(code.path, []).append(task)
    headers = {}
    for path, tasks in sources.items():
        source = Path(path)
        headers[source.with_suffix(".flow.h")] = header(source.name, tuple(tasks))
    return headers
