"""The processes beside the language server: what is checked there, what ends them, and what is
answered meanwhile."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from flowc.editor import workers
from flowc.editor.findings import MOST_SHOWN, findings
from flowc.editor.session import Session
from flowc.editor.workers import CannotAnswer, EditorWorkers, NotNow, prepare
from lsprotocol import types as lsp

from limits import HANGS

SMALL = "task T { out x: int64 }\n"
FAULTY = "const A = B\n"
START = lsp.Position(0, 6)


def large(tasks: int) -> str:
    """A text that takes a second or more for 20,000 tasks."""
    instances = "".join(f"    s{i}: S   k{i}: K   s{i} -> k{i}\n" for i in range(tasks // 2))
    return f"task S {{ out x: int64 }}\ntask K {{ in x: int64 }}\napp A {{\n{instances}}}\n"


class Server:
    """What the language server has: workers, what they have found last, and what went wrong."""

    def __init__(self) -> None:
        self.codes: dict[str, list[str]] = {}
        self.failed: list[str] = []
        self.workers = EditorWorkers(self._found, self._failed)
        self._news = asyncio.Event()

    def _found(self, path: str, found: dict[str, list[Any]]) -> None:
        self.codes[path] = [str(d.code) for d in found[path]]
        self._news.set()

    def _failed(self, said: str) -> None:
        self.failed.append(said)
        self._news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), HANGS)


def serving(what: Callable[[Server], Coroutine[Any, Any, None]]) -> None:
    """Do something with workers. None is left at the end."""
    before = pids()

    async def whole() -> None:
        server = Server()
        try:
            await asyncio.wait_for(what(server), HANGS)
        finally:
            server.workers.end()

    asyncio.run(whole())
    for child in multiprocessing.active_children():
        if child.pid not in before:
            child.join(HANGS)
    assert pids() <= before


def pids() -> set[int | None]:
    return {child.pid for child in multiprocessing.active_children()}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    prepare()
    monkeypatch.setattr(workers, "LONG", HANGS)
    return str(tmp_path / "a.flow")


def test_other_texts_are_answered_while_a_large_one_is_checked(path: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.flow")

    async def talk(server: Server) -> None:
        server.workers.change(other, SMALL)
        await server.until(lambda: other in server.codes)
        server.workers.change(path, large(40_000))
        with pytest.raises(NotNow):
            await server.workers.ask(path, "hover", START)
        assert "task T" in str(await server.workers.ask(other, "hover", START))
        symbols = asyncio.ensure_future(server.workers.ask(path, "symbols"))
        await asyncio.sleep(0)
        assert path not in server.codes
        assert [s.name for s in await symbols] == ["S", "K", "A"]
        assert server.codes[path] == []

    serving(talk)


def test_an_edit_ends_a_long_check(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LONG", 0.1)

    async def talk(server: Server) -> None:
        server.workers.change(path, large(400_000))
        first = pids()
        await asyncio.sleep(0.3)
        server.workers.change(path, FAULTY)
        await server.until(lambda: path in server.codes)
        assert server.codes == {path: ["F101"]} and not server.failed
        assert len(pids() - first) == 1

    serving(talk)


def test_edits_in_a_row_are_checked_by_one_process(path: str) -> None:
    async def talk(server: Server) -> None:
        server.workers.change(path, SMALL)
        await server.until(lambda: path in server.codes)
        first = pids()
        for text in (FAULTY, SMALL, FAULTY, SMALL):
            server.workers.change(path, text)
            assert await server.workers.ask(path, "symbols")  # of the text as it is now
            assert bool(server.codes[path]) == (text == FAULTY)
        assert pids() == first

    serving(talk)


def test_a_text_is_checked_again_when_one_that_it_uses_changes(path: str, tmp_path: Path) -> None:
    used = str(tmp_path / "used.flow")

    async def talk(server: Server) -> None:
        server.workers.change(path, 'use "used.flow"\nconst A = B\n')
        await server.until(lambda: server.codes.get(path) == ["F006", "F101"])
        server.workers.change(used, "const B = 1\n")
        await server.until(lambda: server.codes[path] == [])
        server.workers.close(used)
        await server.until(lambda: server.codes[path] == ["F006", "F101"])
        Path(used).write_text("const B = 1\n")
        server.workers.files_changed()
        await server.until(lambda: server.codes[path] == [])
        with pytest.raises(CannotAnswer, match="not open"):
            await server.workers.ask(used, "hover", START)

    serving(talk)


def test_a_process_that_dies_is_replaced(path: str) -> None:
    async def talk(server: Server) -> None:
        before = pids()
        server.workers.change(path, SMALL)
        assert await server.workers.ask(path, "symbols")
        kill(*pids() - before)
        with pytest.raises(NotNow):
            await server.workers.ask(path, "hover", START)
        server.workers.change(path, FAULTY)
        await server.until(lambda: server.codes[path] == ["F101"])
        assert not server.failed

    serving(talk)


def test_a_process_that_dies_of_a_text_is_told(path: str) -> None:
    async def talk(server: Server) -> None:
        before = pids()
        server.workers.change(path, large(400_000))
        await asyncio.sleep(0.3)  # it is at it
        kill(*pids() - before)
        await server.until(lambda: bool(server.failed))
        assert "has ended: the next change" in server.failed[0]
        with pytest.raises(CannotAnswer, match="could not check"):
            await server.workers.ask(path, "hover", START)
        server.workers.change(path, FAULTY)
        await server.until(lambda: server.codes.get(path) == ["F101"])

    serving(talk)


def kill(*processes: int | None) -> None:
    (pid,) = processes
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def test_of_very_many_faults_the_first_errors_are_shown(path: str) -> None:
    count = MOST_SHOWN + 500
    session = Session()
    session.change(path, "".join(f"const A{i} = B{i}\n" for i in range(count)))
    found = findings(session, session.seen(path))[path]
    assert [d.range.start.line for d in found[:-1]] == [*range(MOST_SHOWN)]
    assert found[-1].range.start.line == 0 and found[-1].message.startswith(
        "500 more errors and warnings"
    )
