"""The standard streams of a program: it speaks through descriptors of its own, whatever tasks do to
sys.stdout, to sys.stderr, or to the descriptors behind them.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Tuple

NAMES = ("stdin", "stdout", "stderr")
#: Of each stream that is its own: the descriptor, the encoding, and what becomes of characters that
#: it lacks.
_own: Dict[str, Tuple[int, str, str]] = {}


def open_streams() -> None:
    """Have all of them: where the caller has closed some, no other file shall get their numbers."""
    for number, name in enumerate(NAMES):
        try:
            os.fstat(number)
        except OSError:
            # takes the lowest number that is free
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))


def keep_streams() -> None:
    """From now on what is written here goes where the streams lead now."""
    for name in NAMES[1:]:
        stream: Any = getattr(sys, name)
        _own[name] = os.dup(stream.fileno()), stream.encoding, stream.errors


def write_to(name: str, text: str) -> None:
    """Write to a stream at once. Raises OSError and ValueError."""
    if name not in _own:
        stream: Any = getattr(sys, name)
        if stream is not None:
            stream.write(text)
            stream.flush()
        return
    descriptor, encoding, errors = _own[name]
    data = text.encode(encoding, errors)
    while data:
        data = data[os.write(descriptor, data) :]


def complain(text: str, details: str = "") -> None:
    """Write a line to standard error, behind details that have lines of their own, where that is
    possible."""
    try:
        write_to("stderr", "%sflowc: %s\n" % (details, text))
    except (OSError, ValueError):
        pass  # there is no reader any more


def is_terminal(name: str) -> bool:
    """Is it a terminal, where a person sees it at once?"""
    return os.isatty(_own[name][0]) if name in _own else bool(getattr(sys, name).isatty())


def flush_streams() -> None:
    """Write out what tasks have printed. Raises OSError."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if callable(getattr(stream, "flush", None)):
            try:
                stream.flush()  # type: ignore[union-attr]
            except ValueError:
                pass  # a task has closed it


def give_up(name: str) -> None:
    """What is left for it goes nowhere: Python would write it again at its end."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, NAMES.index(name))
    os.close(nothing)


def put_back_streams() -> None:
    """Give Python its streams again: at its end it stumbles over whatever else a task has put
    there."""
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
