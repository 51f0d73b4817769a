"""Parameters with other values than in the text: `main.py --set App.task.name=value`, and the
variable FLOWC_SET.

In: texts. Out: tasks whose code starts with these values, or all that is wrong, in words.
deployment.json says which parameters there are, of which type, and which the program itself is made
of.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .code import C, Code, Python
from .options import SETTINGS
from .program import Program
from .reference import every, load_deployment

#: Parameters that are listed for who has named one that does not exist.
MOST_LISTED = 40
#: What C can hold.
_INT64 = range(-(1 << 63), 1 << 63)
_KINDS = {bool: "bool", int: "int", float: "float", str: "string"}


class _Parameter:
    """One that exists: its type, and the value that the text gives it. `kind` is None where it
    cannot be set."""

    def __init__(
        self, task: str, name: str, kind: Optional[str], value: Any, language: str
    ) -> None:
        self.task, self.name, self.language = task, name, language
        self.kind, self.value = kind, value

    def __str__(self) -> str:
        value = os.path.basename(self.value["file"]) if self.kind == "file" else self.value
        if self.kind == "bool":
            value = str(value).lower()
        elif self.kind == "string":
            value = repr(value)
        return "%s.%s (%s, %s)" % (self.task, self.name, self.kind, value)


def give(
    program: Program, settings: Sequence[str], variable: str = "", word: str = "--set"
) -> List[str]:
    """Let tasks start with these values; those of the variable count less. Returns all mistakes:
    nothing is done then.

    `word`: what the settings are called where they were given.
    """
    given = [(SETTINGS, text.strip()) for text in variable.split(";") if text.strip()]
    given += [(word, text) for text in settings]
    if not given:
        return []
    try:
        known = _known(load_deployment(program.run.home))
    except (OSError, ValueError, KeyError) as error:
        return ["%s: deployment.json does not say what there is: %s" % (given[0][0], error)]
    mistakes, values, lost = [], [], False
    for place, text in given:
        path, equals, value = text.partition("=")
        parameter = known.get(path.strip())
        try:
            if not equals:
                raise ValueError("write App.task.parameter=value")
            if parameter is None:
                lost = True
                raise ValueError(_unknown(path.strip(), program, known))
            values.append((parameter, _read(parameter, value)))
        except ValueError as error:
            mistakes.append("%s %s: %s" % (place, text, error))
    if lost:
        mistakes.append(_listed([p for p in known.values() if p.kind is not None]))
    if not mistakes:
        codes = {task.name: task.code for task in program.tasks}
        for parameter, value in values:
            _set(codes[parameter.task], parameter.name, value)
    return mistakes


def _read(parameter: _Parameter, text: str) -> Any:
    """Its value. Raises ValueError for one that it cannot have."""
    if parameter.kind is None:
        raise ValueError("it is fixed when the program is built: change it in the .flow")
    return _READERS[parameter.kind](text, parameter.language)


def _set(code: Code, parameter: str, value: Any) -> None:
    code = code.innermost
    assert isinstance(code, (C, Python))
    code.give(parameter, value)


def _known(deployment: Dict[str, Any]) -> Dict[str, _Parameter]:
    """All parameters by their full name."""
    found: Dict[str, _Parameter] = {}
    for task in (t for app in every(deployment, "apps") for t in app["tasks"]):
        language, fixed = task["code"]["kind"], task["fixed"]
        made: List[Tuple[str, Optional[str], Any]] = [(name, None, None) for name in fixed]
        for name, *rest in (
            task["code"].get("parameters", ()) if language in ("python", "c") else ()
        ):
            kind = "file" if isinstance(rest[-1], dict) else _KINDS[type(rest[-1])]
            made += [(name, kind, rest[-1])] if name not in fixed else []
        for name, settable, value in made:
            found["%s.%s" % (task["name"], name)] = _Parameter(
                task["name"], name, settable, value, language
            )
    return found


def _unknown(path: str, program: Program, known: Dict[str, _Parameter]) -> str:
    """Which part of a name is wrong, and what may have been meant."""
    task, _, name = path.rpartition(".")
    app = path.partition(".")[0]
    if task in [t.name for t in program.tasks]:
        said = "task %s has no parameter %s" % (task, name)
    elif app in [a.name for a in program.apps]:
        said = "app %s has no task %s" % (app, task.partition(".")[2] or name)
    else:
        said = "there is no app %s" % app
    near = difflib.get_close_matches(
        path, [key for key, p in known.items() if p.kind is not None], 1
    )
    return said + ("; did you mean %s?" % near[0] if near else "")


def _listed(settable: Sequence[_Parameter]) -> str:
    if not settable:
        return "no parameter of this program can be set"
    shown = ", ".join(str(p) for p in settable[:MOST_LISTED])
    more = len(settable) - MOST_LISTED
    return "parameters that can be set: %s%s" % (shown, " and %d more" % more if more > 0 else "")


# -- values ----------------------------------------------------------------------------------------
def _whole(word: str, language: str) -> int:
    if not re.match(r"[+-]?[0-9]+\Z", word.strip()):
        raise ValueError("an int is needed, such as 3")
    value = int(word)
    if language == "c" and value not in _INT64:
        raise ValueError("too large for C's int64_t")
    return value


def _real(word: str, language: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError("a float is needed, such as 0.5")
    return value


def _truth(word: str, language: str) -> bool:
    if word.strip() not in ("true", "false"):
        raise ValueError("a bool is needed: true or false")
    return word.strip() == "true"


def _text(word: str, language: str) -> str:
    return word


def _file(word: str, language: str) -> str:
    """Relative to where the program is started."""
    path = os.path.abspath(word)
    if not word or not os.path.isfile(path):
        raise ValueError("there is no file %s" % path)
    return path


_READERS: Dict[str, Callable[[str, str], Any]] = {
    "int": _whole,
    "float": _real,
    "bool": _truth,
    "string": _text,
    "file": _file,
}
