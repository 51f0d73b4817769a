"""The options of a board, and the connection that they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._common import say

if TYPE_CHECKING:
    from ..machines.host import Host

BoardAddress = Annotated[
    str | None,
    typer.Option(
        "--board",
        help="Do it on a machine that ssh reaches: flowc stays here, programs run there.",
        metavar="[USER@]HOST[:PORT][/DIR]",
        show_default=False,
    ),
]
BoardPython = Annotated[
    str, typer.Option("--board-python", help="Python of the board: 3.8 or later, with numpy.", metavar="COMMAND")
]
Machines = Annotated[
    Path | None,
    typer.Option(
        "--machines",
        help="Run each part on its machine; a TOML file says where these are.",
        metavar="FILE",
        show_default=False,
    ),
]


@contextmanager
def host_of(board: str | None, python: str) -> Iterator[Host]:
    """This machine, or the board, connected. Raises Errors."""
    from ..machines.host import HERE

    if board is None:
        yield HERE
        return
    from ..machines.board import Board

    with Board(board, python=python, report=lambda said: say(f"flowc: {said}")) as reached:
        say(f"flowc: {reached.address} is {reached.identity.description}")
        yield reached
