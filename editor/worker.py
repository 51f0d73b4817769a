"""The process that checks one open text and answers questions about it.

In: requests of `workers`, over a pipe, one after the other. Out: a reply to each. A check of a
large text holds the interpreter for seconds, so it is not done in a thread of the server, and it
can be stopped by ending the process.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from .findings import findings
from .navigate import RenameRefused
from .questions import QUESTIONS
from .session import CheckedText, Session

#: Seconds without a request after which garbage is collected.
IDLE = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """Check the text again. The value of the reply is the result of `findings`, or None if it is
    unchanged."""

    #: Texts that have changed, by path; None for a closed one.
    texts: Mapping[str, str | None]
    #: Have files that are not open changed, too?
    files: bool


@dataclass(frozen=True, slots=True)
class Prepare:
    """Prepare data that answers need and diagnostics do not."""


@dataclass(frozen=True, slots=True)
class Question:
    """One of `QUESTIONS`, with its arguments."""

    name: str
    arguments: tuple[Any, ...]


Request = Check | Prepare | Question


@dataclass(frozen=True, slots=True)
class Reply:
    """The value, or the reason why there is none: for the user, or an error of flowc."""

    value: Any = None
    refused: str = ""
    failed: str = ""


class EditorWorker:
    """The state of the process."""

    def __init__(self, path: str, encoding: str) -> None:
        self._path = path
        self._session = Session()
        self._session.encoding = encoding
        self._seen: CheckedText | None = None

    def reply(self, request: Request) -> Reply:
        """Never raises an exception."""
        try:
            match request:
                case Check():
                    return Reply(self._check(request))
                case Prepare():
                    self._prepare()
                    return Reply()
                case Question():
                    return Reply(self._answer(request))
        except RenameRefused as refused:
            return Reply(refused=str(refused))
        except Exception as error:
            # an error of flowc: it is logged in the editor, and the next change is another chance
            return Reply(failed=f"{error!r} in {self._path}")

    def _check(self, request: Check) -> dict[str, list[Any]] | None:
        for path, text in request.texts.items():
            if text is None:
                self._session.close(path)
            else:
                self._session.change(path, text)
        if request.files:
            self._session.forget()
        before, self._seen = self._seen, None
        seen = self._session.seen(self._path)
        found = None if seen is before else findings(self._session, seen)
        self._seen = seen
        return found

    def _prepare(self) -> None:
        if self._seen is not None:
            _ = self._seen.index

    def _answer(self, question: Question) -> Any:
        if self._seen is None:
            raise RenameRefused("flowc could not check this text: its log says why")
        return QUESTIONS[question.name](self._session, self._seen, self._path, *question.arguments)


def serve(connection: Connection, path: str, encoding: str) -> None:
    """Reply until the server closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server gets it, too, and ends
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # the editor's pipes stay open as long as a process holds them
        os.dup2(nothing, stream)
    gc.disable()  # a garbage collection of a large text takes as long as a check
    worker = EditorWorker(path, encoding)
    try:
        while True:
            if not connection.poll(IDLE):
                gc.collect()
            request = connection.recv()  # no limit: until the server closes the connection, or ends
            connection.send(worker.reply(request))
    except (EOFError, OSError):
        return  # the server has closed the connection, or has ended
