"""Calls of verbs by a program that reads their JSON, within limits.

In: the words of a verb, and a folder. Out: the one document that the verb prints with `--json`, its
exit status, and the end of what it says on standard error. Each call is a process of its own, so
that nothing that a text does can end or disturb the server. The process of a call adopts what its
descendants leave behind, and the server what calls leave behind: no process outlives its call.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from ..machines.children import adopt, adopting, children, descendants

#: Bytes that are read at once.
PIECE = 65536
#: Seconds in which a call that is ended may end its own children.
GRACE = 5.0
#: The processes of calls; and held while one starts, or strays are looked for.
_CALLS: set[int] = set()
_STARTING = asyncio.Lock()
#: Are all other children strays?
_adopts = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one call: seconds, and bytes of its document and of what it says beside it."""

    seconds: float = 120.0
    document: int = 1_000_000
    said: int = 4_000


@dataclass(frozen=True, slots=True)
class Answer:
    """The exit status of a verb; its document, None if it printed none; the end of what it said."""

    status: int
    document: dict[str, Any] | None
    said: str


class LimitReached(Exception):
    """Why a call was ended, and what to do about it."""


async def call(words: Sequence[str], folder: Path, limits: Limits) -> Answer:
    """Run `flowc` with these words and `--json` in a folder. Raises LimitReached.

    A call that is cancelled is ended. In a process that has called `adopt_strays`, everything that
    a call has started ends with it.
    """
    async with _STARTING:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "flowc", *words, "--json"),
            cwd=folder,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
            preexec_fn=adopting(signal.SIGTERM),
        )
        _CALLS.add(process.pid)
    try:
        async with asyncio.timeout(limits.seconds):
            document, said = await asyncio.gather(
                _whole(process.stdout, limits.document), _end_of(process.stderr, limits.said)
            )
            status = await process.wait()
    except TimeoutError:
        raise LimitReached(
            f"`flowc {words[0]}` has not ended after {limits.seconds:g} s and was ended: ask for"
            " less, or start the server with another `--limit`"
        ) from None
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                await _ended(process)
            async with _STARTING:
                _CALLS.discard(process.pid)
                _end_strays()
    return Answer(status, _parsed(document), said.decode(errors="replace").strip())


def _parsed(content: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(content)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


async def _whole(stream: asyncio.StreamReader | None, most: int) -> bytes:
    """All that comes. Raises LimitReached."""
    content = bytearray()
    while stream is not None and (piece := await stream.read(PIECE)):
        content += piece
        if len(content) > most:
            raise LimitReached(
                f"the document has more than {most} bytes: ask for less, or have it written by"
                " the command line (`--json`)"
            )
    return bytes(content)


async def _end_of(stream: asyncio.StreamReader | None, most: int) -> bytes:
    """The last bytes of all that comes."""
    content = b""
    while stream is not None and (piece := await stream.read(PIECE)):
        content = (content + piece)[-most:]
    return content


async def _ended(process: Process) -> None:
    """End a process; it gets some time to do so itself."""
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            # no limit: SIGKILL cannot be refused
            await asyncio.wait_for(process.wait(), patience)
            return


def adopt_strays() -> None:
    """From now on all children of this process are calls, or were left behind by calls."""
    global _adopts
    adopt()
    _adopts = True


def _end_strays() -> None:
    """End the processes that calls have left behind when they ended: children of this process that
    are no calls, and all that descends from them."""
    while _adopts:
        strays = [pid for pid in children(os.getpid()) if pid not in _CALLS]
        if not strays:
            return
        for stray in strays:
            for pid in (*descendants(stray), stray):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(stray, 0)  # no limit: SIGKILL cannot be refused
