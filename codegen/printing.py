"""The environment for templates of programs: printing of names, lines and steps.

In: nothing. Out: an environment of Jinja with these filters.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ..model.deployment import Entry
from ..templates import environment
from .names import literal, one_line

if TYPE_CHECKING:
    from jinja2 import Environment


@functools.cache
def printing() -> Environment:
    """The environment of all templates of a program."""
    jinja = environment()
    jinja.filters["py"] = literal
    jinja.filters["line"] = one_line
    jinja.filters["cell"] = lambda text: one_line(str(text)).replace("|", "\\|")
    jinja.filters["steps"] = _step_in_words
    jinja.filters["comment"] = lambda text: (
        one_line(str(text)).replace("*/", "* /").replace("/*", "/ *")
    )
    return jinja


def _step_in_words(entry: Entry) -> str:
    times = f" x {entry.times}" if entry.times > 1 else ""
    share = f" (every {entry.replica[1]}. iteration)" if entry.replica[1] > 1 else ""
    return one_line(entry.task).replace("|", "\\|") + times + share
