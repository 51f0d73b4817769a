"""Where a sub-graph takes more than it is fed, or makes more than it hands on.

PiSDF counts for itself how often a sub-graph fires what is inside. If that takes more tokens from an input interface
than one firing from outside brings, those tokens come again from the first one on; of what is made for an output
interface only the last tokens leave. PREESM puts a broadcast or a roundbuffer there, and so does this import: a task
that copies. This is the one place that knows of it: an arrow that repeats tokens by itself would be said here.
"""

from __future__ import annotations

from typing import Literal

from .graph import Direction

Border = Literal["", "broadcast", "roundbuffer"]


def border(direction: Direction, outside: int, inside: int) -> Border:
    """What stands at an interface; "" where the same tokens go in and out.

    `outside` tokens pass the interface in one firing of the sub-graph, `inside` ones are taken or made in it.
    """
    if outside == inside:
        return ""
    return "broadcast" if direction == "in" else "roundbuffer"
