"""The options for boards and for workers of a search, and the connections that they describe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._common import say, show_diagnostics

if TYPE_CHECKING:
    from ..machines.host import Host
    from ..machines.search_workers import SearchWorkers

BoardAddress = Annotated[
    str | None,
    typer.Option(
        "--board",
        help="Do it on a machine that ssh reaches: flowc stays here, programs run there.",
        metavar="[USER@]HOST[:PORT][/DIR]",
        show_default=False,
    ),
]
Boards = Annotated[
    str | None,
    typer.Option(
        "--board",
        help="Do it on a machine that ssh reaches, or share it among several of one kind.",
        metavar="[USER@]HOST[:PORT][/DIR],...",
        show_default=False,
    ),
]
BoardPython = Annotated[
    str,
    typer.Option(
        "--board-python", help="Python of the board: 3.8 or later, with numpy.", metavar="COMMAND"
    ),
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
Workers = Annotated[
    int, typer.Option(help="Processes that search for deadlines together.", min=1, metavar="N")
]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="The same with the workers of a Dask scheduler.",
        metavar="tls://HOST:PORT",
        show_default=False,
    ),
]


@contextmanager
def search_workers_of(workers: int, cluster: str | None) -> Iterator[SearchWorkers]:
    """The workers of a search. Raises BadParameter, and Errors if a cluster cannot be used."""
    from ..machines import search_workers

    if cluster is not None and workers > 1:
        raise typer.BadParameter("the cluster has workers of its own", param_hint="--workers")
    if cluster is None:
        connection = search_workers.processes(workers)
    else:
        connection = search_workers.cluster(cluster)
    with connection as group:
        if cluster is not None:
            say(f"flowc: {group.size} workers at {cluster}")
        yield group


@contextmanager
def host_of(board: str | None, python: str) -> Iterator[Host]:
    """This machine, or the board, connected. Raises BadParameter for several boards, and Errors."""
    if board is not None and "," in board:
        raise typer.BadParameter(
            "a program runs on one board: several are for measurements", param_hint="--board"
        )
    with hosts_of(board, python) as host:
        yield host


@contextmanager
def hosts_of(boards: str | None, python: str) -> Iterator[Host]:
    """This machine, or the boards, connected. Raises Errors."""
    from ..machines.host import HERE

    if boards is None:
        yield HERE
        return
    from ..machines.fleet import Fleet, fleet

    with fleet(
        boards.split(","), python=python, report=lambda message: say(f"flowc: {message}")
    ) as reached:
        if isinstance(reached, Fleet):
            show_diagnostics(reached.told, {})
        where = f"each of {reached.size} boards" if isinstance(reached, Fleet) else boards
        say(f"flowc: {where} is {reached.identity.description}")
        yield reached
