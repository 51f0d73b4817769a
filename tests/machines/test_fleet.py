"""Several boards of one kind, all of them this machine: a shell stands for ssh, each has a folder
of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from flowc.driver.measure import measure as measuring
from flowc.driver.solve import contest, known_times
from flowc.driver.solve import map as mapping
from flowc.machines.board import Board
from flowc.machines.fleet import Fleet, fleet
from flowc.model.diagnostic import Errors
from typer.testing import CliRunner

from builds import Write
from limits import HANGS

#: Runs the last of its words, as the far side of ssh does. What is called `other` has another
#: numpy, `old` an old one.
SSH = """#!/bin/sh
for last; do case $last in other) export PYTHONPATH={stand_in} NUMPY=1.17.3;; old) export PYTHONPATH={stand_in} NUMPY=1.13.3;; esac; done
exec sh -c "$last"
"""
ANOTHER_NUMPY = """
import importlib.metadata, os
found = importlib.metadata.version
importlib.metadata.version = lambda name: os.environ["NUMPY"] if name == "numpy" else found(name)
"""
KILL_THE_AGENT = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
TEXT = """
task Count { out n: int32  python "tasks.py:Count" }
task Keep { in m: int32  python "tasks.py:keep" }
app Sum { count: Count  keep: Keep  count -> keep }
"""
TASKS = """
class Count:
    n = 0
    def __call__(self):
        self.n += 1
        return self.n
def keep(m): pass
"""

Reach = Callable[..., Fleet]


@pytest.fixture
def reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reach]:
    """Boards of these names, with a folder each."""
    (tmp_path / "stand_in").mkdir()
    (tmp_path / "stand_in" / "sitecustomize.py").write_text(ANOTHER_NUMPY)
    (tmp_path / "ssh").write_text(SSH.format(stand_in=tmp_path / "stand_in"))
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("FLOWC_SSH", str(tmp_path / "ssh"))
    with ExitStack() as stack:

        def reached(*names: str, said: list[str] | None = None) -> Fleet:
            texts = [f"{name}{tmp_path}/{name}" for name in names]
            report = None if said is None else said.append
            found = stack.enter_context(fleet(texts, python=sys.executable, report=report))
            assert isinstance(found, Fleet)
            return found

        yield reached


def place(boards: Fleet) -> str:
    """Where a piece of work is done."""
    with boards.folder() as folder:
        return Path(folder).parent.name


def test_boards_share_what_is_to_be_done_in_turns(reach: Reach) -> None:
    boards = reach("a", "b")
    both = threading.Barrier(2)

    def work() -> str:
        both.wait(HANGS)  # they are at it side by side
        return boards.steadily(lambda: place(boards))

    seen: dict[str, list[str]] = {"x": [], "y": [], "z": []}
    for _ in range(2):
        for names in (["x", "y"], ["z"]):
            jobs = [(name, work if len(names) == 2 else placing(boards)) for name in names]
            for name, where in zip(names, boards.share(jobs), strict=True):
                seen[name].append(where)
    assert all(sorted(places) == ["a", "b"] for places in seen.values()), seen
    assert sorted(boards.steadily(lambda: place(boards)) for _ in range(2)) == ["a", "b"]
    assert [d.code for d in boards.told] == ["F649"]  # it is one machine

    def failing() -> str:
        raise ValueError("no camera")

    with pytest.raises(ValueError, match="no camera"):
        boards.share([("x", placing(boards)), ("y", failing)])
    assert boards.share([("x", placing(boards))])


def placing(boards: Fleet) -> Callable[[], str]:
    return lambda: place(boards)


def test_a_board_that_dies_costs_time_only(reach: Reach, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one is waited for."""
    monkeypatch.setattr("flowc.machines.board.PAUSE", 0.05)
    said: list[str] = []
    boards, begun = reach("a", "b", said=said), []

    def dying() -> str:
        begun.append(place(boards))
        if len(begun) == 1:
            boards.execute([*boards.python, "-c", KILL_THE_AGENT])
        return place(boards)

    first, second = boards.share([("x", dying), ("y", placing(boards))])
    dead = begun[0]
    assert len(begun) == 2 and first != dead != begun[1] and boards.size == 1
    assert len(said) == 1 and "was lost" in said[0] and f"{first} does its share" in said[0]
    assert boards.share([("x", placing(boards)), ("y", placing(boards))]) == [first] * 2
    assert second in ("a", "b") and boards.identity.cores
    begun.clear()
    assert boards.share([("x", dying)]) == [first] and len(begun) == 2
    assert "waiting for it" in said[-1]


def test_boards_that_cannot_share(reach: Reach, tmp_path: Path) -> None:
    with pytest.raises(Errors) as caught:
        reach("a", "other")
    (fault,) = caught.value.diagnostics
    assert fault.code == "F655"
    assert "`other` is not of the same kind as `a`: numpy 1.17.3 instead of" in fault.message
    assert "Python" not in fault.message
    with pytest.raises(Errors) as caught:
        reach("a", "old")
    assert [d.code for d in caught.value.diagnostics] == [
        "F641"
    ] and "1.13.3" in caught.value.diagnostics[0].message
    with pytest.raises(Errors) as caught:
        reach("a", "b", "a")
    assert [d.code for d in caught.value.diagnostics] == ["F655"]
    with (
        pytest.raises(Errors) as caught,
        fleet([f"{n}{tmp_path}/{n}" for n in "ab"], python="no-python"),
    ):
        pass
    assert [d.code for d in caught.value.diagnostics] == ["F641"] * 2  # all of them at once


def test_contestants_are_shared(
    reach: Reach, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contest, "SHORTEST", 0.1)
    monkeypatch.setattr(measuring, "SHORT", 0.1)
    # what the runtime costs
    monkeypatch.setattr(known_times, "with_layers", lambda valid, profile, **_: (profile, ()))
    boards = reach("a", "b")
    used: list[Board] = []
    put = Board.put
    monkeypatch.setattr(
        Board, "put", lambda self, *words: (used.append(self), put(self, *words))[1]
    )
    flow = write(TEXT, tasks_py=TASKS)
    found = mapping.find_mapping(flow, host=boards, evaluations=2)
    assert found.mapping.effort.measured_runs >= 1 and found.path is not None
    assert found.path.name.endswith(".board.mapping.json")
    assert len(set(used)) == 2


def test_a_program_runs_on_one_board(write: Write) -> None:
    from flowc.cli import app

    flow = write(TEXT, tasks_py=TASKS)
    done = CliRunner().invoke(app, ["run", str(flow), "--board", "a,b"])
    assert done.exit_code == 2 and "a program runs on one board" in done.output
