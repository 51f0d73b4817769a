"""A worker process for each open text, and the server's requests to it.

In: changes of texts, and questions. Out: the worker's findings, and its answers. All waiting for a
worker is asynchronous.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from typing import Any

from .questions import ABOUT_A_PLACE
from .worker import Check, Prepare, Question, Reply, Request, serve

#: Seconds without a change after which a text is checked.
PAUSE = 0.01
#: Seconds after which an edit ends a check of the old text. A new process has to read all files
#: again.
LONG = 0.5
#: Characters of all open texts above which questions about a place do not wait for checks.
LARGE = 100_000
#: Seconds that they wait in that case.
PATIENCE = 0.15
#: Most seconds for any question.
LONGEST = 60.0

#: Findings for a text, by file: see `findings`.
Found = dict[str, list[Any]]


class NotNow(Exception):
    """The text has not been checked yet, or has changed meanwhile."""


class CannotAnswer(Exception):
    """Why there is no answer."""


class FlowcError(Exception):
    """An error of flowc."""


class _Ended(Exception):
    """The process has ended."""


class EditorWorkers:
    """One worker for each open text, by its path."""

    def __init__(self, found: Callable[[str, Found], None], failed: Callable[[str], None]) -> None:
        self.encoding = "utf-16"
        self._found, self._failed = found, failed
        self._texts: dict[str, str] = {}
        self._workers: dict[str, _Worker] = {}

    def change(self, path: str, text: str) -> None:
        """A text was opened, or has changed."""
        self._texts[path] = text
        if path not in self._workers:
            self._workers[path] = _Worker(
                path, self._texts, self.encoding, self._found, self._failed
            )
        for other, worker in self._workers.items():
            worker.outdate(edited=other == path)

    def close(self, path: str) -> None:
        """A text is closed: the content of its file counts again."""
        self._texts.pop(path, None)
        worker = self._workers.pop(path, None)
        if worker is not None:
            worker.end()
        for other in self._workers.values():
            other.outdate()

    def files_changed(self) -> None:
        """Files that are not open may have changed."""
        for worker in self._workers.values():
            worker.outdate(files=True)

    async def ask(self, path: str, name: str, *arguments: Any) -> Any:
        """The answer to a question about an open text. Raises NotNow, CannotAnswer and Broken."""
        if path not in self._workers:
            raise CannotAnswer(f"`{path}` is not open")
        return await self._workers[path].ask(name, arguments)

    def end(self) -> None:
        """End all processes."""
        for worker in self._workers.values():
            worker.end()


class _Worker:
    """The worker of one text. Its process is replaced if it has worked too long on an old
    version."""

    def __init__(
        self,
        path: str,
        texts: Mapping[str, str],
        encoding: str,
        found: Callable[[str, Found], None],
        failed: Callable[[str], None],
    ) -> None:
        self._path, self._texts, self._encoding = path, texts, encoding
        self._found, self._failed = found, failed
        self._process = _Process(path, encoding)
        #: Number of all changes, number of changes of this text, and the former at the last check.
        self._changes = self._edits = self._checked = 0
        self._files = False
        self._up_to_date = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def outdate(self, *, edited: bool = False, files: bool = False) -> None:
        """This text, another open one, or files that are not open have changed."""
        self._changes += 1
        self._edits += edited
        self._files |= files
        self._up_to_date.clear()
        if edited and (self._process.late or self._process.ended):
            self._replace()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._check())

    async def ask(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """See `EditorWorkers`."""
        large = sum(map(len, self._texts.values())) > LARGE
        patience = PATIENCE if large and name in ABOUT_A_PLACE else LONGEST
        try:
            await asyncio.wait_for(self._up_to_date.wait(), patience)
            reply = await asyncio.wait_for(
                self._process.request(Question(name, arguments)), LONGEST
            )
        except (TimeoutError, _Ended):
            raise NotNow from None
        if reply.refused:
            raise CannotAnswer(reply.refused)
        if reply.failed:
            raise FlowcError(f"{reply.failed}, at `{name}`")
        return reply.value

    def end(self) -> None:
        """The text is closed."""
        if self._task is not None:
            self._task.cancel()
        self._process.end()

    async def _check(self) -> None:
        """Check the text until it stays unchanged meanwhile."""
        while self._checked != self._changes:
            await asyncio.sleep(PAUSE)  # the user may type more
            process, changes = self._process, self._changes
            try:
                await self._check_once(process)
            except _Ended:
                if process is not self._process:
                    continue
                self._failed(
                    f"the process that checked {self._path} has ended: the next change starts"
                    " another one"
                )
                self._replace()
            self._checked = changes
        self._up_to_date.set()

    async def _check_once(self, process: _Process) -> None:
        edits, files, self._files = self._edits, self._files, False
        reply = await process.request(Check(process.changed(self._texts), files))
        if reply.failed:
            self._failed(reply.failed)
        elif reply.value is not None and edits == self._edits:
            self._found(self._path, reply.value)
        await process.request(Prepare())

    def _replace(self) -> None:
        self._process.end()
        self._process = _Process(self._path, self._encoding)


class _Process:
    """A process, and a thread that waits for its replies."""

    def __init__(self, path: str, encoding: str) -> None:
        processes = multiprocessing.get_context("forkserver")
        self._here, there = processes.Pipe()
        self._process = processes.Process(target=serve, args=(there, path, encoding), daemon=True)
        self._process.start()
        there.close()
        self._thread = ThreadPoolExecutor(1)
        self._told: dict[str, str] = {}
        self._closed = False
        #: When its current request was sent.
        self._began: float | None = None

    @property
    def late(self) -> bool:
        """Has it worked on a request for longer than an edit waits?"""
        began = self._began
        return began is not None and time.monotonic() - began > LONG

    @property
    def ended(self) -> bool:
        """Has it ended by itself, or was it killed? Its pipe may close slightly before the system
        reports that."""
        return self._closed or not self._process.is_alive()

    def changed(self, texts: Mapping[str, str]) -> dict[str, str | None]:
        """The texts that the process does not know, and None for closed ones."""
        closed = dict.fromkeys(self._told.keys() - texts.keys())
        changed = {path: text for path, text in texts.items() if self._told.get(path) is not text}
        self._told = {**texts}
        return {**closed, **changed}

    async def request(self, request: Request) -> Reply:
        """The reply, after those to earlier requests. Raises _Ended."""
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, self._exchange, request
        )

    def _exchange(self, request: Request) -> Reply:
        self._began = time.monotonic()
        try:
            self._here.send(request)
            # no limit: in a thread of its own, until the process ends
            reply: Reply = self._here.recv()
        except (EOFError, OSError):
            self._closed = True
            raise _Ended from None
        finally:
            self._began = None
        return reply

    def end(self) -> None:
        """End it at once. Requests that wait for a reply raise _Ended."""
        self._process.kill()
        self._thread.shutdown(wait=False)


def prepare() -> None:
    """Start the process from which workers are forked. It imports what they need while the server
    starts."""
    multiprocessing.set_forkserver_preload([f"{__package__}.preloaded"])
    forkserver.ensure_running()
