"""Where the machines of a platform are: a file that says for each of them how it is reached.

In: a TOML file with a table for each machine. Out: a `Site` for each of them. It is checked whole:
everything that is wrong is told at once.

    [front]
    board = "nano@10.0.0.5"     # or here = true
    address = "10.0.0.5"        # where the others find it (default: that of the board; here,
    127.0.0.1)
    port = 47600                # to listen at (default: a free one from 20000 to 31999)
    python = "python3"          # or the words of a command
    encrypted = true            # what the others send to it
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..model.diagnostic import Diagnostic, Errors, did_you_mean, listed
from ..model.files import read_bytes, reason
from .board import address as board_address

#: The keys of a table, and their types.
_KEYS: dict[str, tuple[type, ...]] = {
    "here": (bool,),
    "board": (str,),
    "address": (str,),
    "port": (int,),
    "python": (str, list),
    "encrypted": (bool,),
}
_LOCAL = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Site:
    """The place of a machine: `board` is its address for ssh, None = this machine. Others find it
    at `address`.

    `port` None is a free one; `python` are the words that start Python, () = those of the host.
    With `encrypted`, CURVE encrypts what others send to it, and only holders of a run's keys can
    connect; otherwise, every host that reaches its port can.
    """

    machine: str
    board: str | None
    address: str
    port: int | None
    python: tuple[str, ...]
    encrypted: bool = True


def read_sites(path: Path, machines: Sequence[str]) -> tuple[Site, ...]:
    """The sites of all `machines` in a file, in their order. Raises Errors."""
    try:
        document = tomllib.loads(read_bytes(path).decode())
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        help_text = (
            "it has a table for each machine: `[front]`, then `here = true` or `board ="
            ' "user@host"`'
        )
        raise Errors(
            [Diagnostic("F650", f"cannot read `{path}`: {why}", None, help=help_text)]
        ) from error
    faults = [
        Diagnostic("F650", f"`{path.name}`: {message}", None, help=help_text)
        for message, help_text in _faults(document, machines)
    ]
    if faults:
        raise Errors(faults)
    return tuple(_site(name, document[name]) for name in machines)


def _faults(document: dict[str, Any], machines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in machines:
        if name not in document:
            yield (
                f"it has no table for `{name}`",
                f"add a table `[{name}]` with `here = true` or `board = ...`",
            )
    for name, table in document.items():
        if name not in machines:
            yield (
                f"there is no machine `{name}`",
                did_you_mean(name, machines) or f"there are {listed(machines)}",
            )
        elif not isinstance(table, dict):
            yield f"`{name}` is not a table", f"write `[{name}]` in a line of its own"
        else:
            yield from _table_faults(name, table)


def _table_faults(name: str, table: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with the table of a machine, and what to do."""
    for key, value in table.items():
        fault = _value_fault(name, key, value)
        if fault is not None:
            yield fault
    board = table.get("board")
    if (table.get("here") is True) == ("board" in table):
        state = "here and on a board" if "board" in table else "neither here nor on a board"
        help_text = (
            'write `here = true` for this machine, or `board = "user@host"` for one behind ssh'
        )
        yield f"`{name}` is {state}", help_text
    elif isinstance(board, str):
        try:
            board_address(board)
        except Errors as errors:
            yield from ((d.message, d.help) for d in errors.diagnostics)


def _value_fault(name: str, key: str, value: Any) -> tuple[str, str] | None:
    """What is wrong with one value of a table, and what to do."""
    types = _KEYS.get(key)
    if types is None:
        help_text = did_you_mean(key, _KEYS) or f"a machine has {listed(_KEYS)}"
        return f"`{key}` of `{name}` is not known", help_text
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        names = " or ".join(t.__name__ for t in types)
        return f"`{key}` of `{name}` is no {names}", ""
    if isinstance(value, list) and not _is_command(value):
        message = f"`python` of `{name}` is not a command"
        return message, 'write `python = "python3"`, or the words of a command'
    if key == "port" and isinstance(value, int) and not 0 < value < 65536:
        return f"`{name}` cannot listen at port {value}", "ports go from 1 to 65535"
    return None


def _is_command(words: list[Any]) -> bool:
    return bool(words) and all(isinstance(word, str) for word in words)


def _site(name: str, table: dict[str, Any]) -> Site:
    board: str | None = table.get("board")
    host = _LOCAL if board is None else board_address(board).host.rpartition("@")[2]
    words = table.get("python", ())
    python = (words,) if isinstance(words, str) else tuple(words)
    return Site(
        name,
        board,
        table.get("address", host),
        table.get("port"),
        python,
        table.get("encrypted", True),
    )
