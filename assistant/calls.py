"""Calls of verbs by a program that reads their JSON, within limits.

In: the words of a verb, and a folder. Out: the one document that the verb prints with `--json`, its
exit status, and the end of what it says on standard error. Each call is a process of its own, so
that nothing that a text does can end or disturb who calls.
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

from ..machines.children import ends_with_me

#: Bytes that are read at once.
PIECE = 65536
#: Seconds in which a call that is ended may end its own children.
GRACE = 5.0


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

    A call that is cancelled is ended with all that it has started.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "flowc", *words, "--json"),
        cwd=folder,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
        preexec_fn=ends_with_me(signal.SIGTERM),
    )
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
        if process.returncode is None:
            with anyio.CancelScope(shield=True):
                await _ended(process)
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
    """End a process and its group; it gets some time to do so itself."""
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            # no limit: SIGKILL cannot be refused
            await asyncio.wait_for(process.wait(), patience)
            return
