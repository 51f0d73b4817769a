"""Several boards of one kind, as one machine that programs run on: they share measurements, in
turns.

In: boards behind ssh. Out: a `Fleet`, a host whose pieces of work (`steadily`) go to one board
after the other, and that runs several in parallel (`share`). A board with a lost connection is left
out from then on, and another one repeats its work: that only costs time.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from ..model.diagnostic import Diagnostic, Errors
from .board import Board, Lost, Report, address
from .host import Done, Host, Identity

T = TypeVar("T")


class Fleet:
    """Boards that were compared (`fleet`). Requests outside of a piece of work go to the first
    one."""

    name = "board"
    celsius: float | None = None

    def __init__(self, boards: Sequence[Board], report: Report | None = None) -> None:
        self._there, self._report = list(boards), report
        #: Diagnostics for the user before anything is measured.
        self.told = tuple(_duplicate_boards(boards))
        self._first = boards[0]
        self._mine = threading.local()
        self._pieces: Counter[Board] = Counter()
        self._runs: Counter[tuple[str, Board]] = Counter()

    @property
    def size(self) -> int:
        """The number of boards left."""
        return len(self._there)

    # -- what a host does --------------------------------------------------------------------------
    @property
    def identity(self) -> Identity:
        return self._first.identity

    @property
    def python(self) -> list[str]:
        return self._first.python

    @property
    def made(self) -> set[str]:
        return self._board.made

    def has_gpu(self) -> bool:
        return self._first.has_gpu()

    def has_npu(self) -> bool:
        return self._first.has_npu()

    @property
    def _board(self) -> Board:
        """The board on which this thread has a piece of work."""
        return getattr(self._mine, "board", None) or self._there[0]

    def put(self, directory: Path, about: str) -> str:
        return self._board.put(directory, about)

    def folder(self) -> AbstractContextManager[str]:
        return self._board.folder()

    def writing(self, files: Mapping[str, Path | None]) -> AbstractContextManager[dict[str, str]]:
        return self._board.writing(files)

    def execute(
        self,
        words: Sequence[str],
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Done:
        return self._board.execute(words, cwd=cwd, environment=environment)

    def module(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Done:
        return self._board.module(name, arguments, environment)

    def read(self, file: str) -> bytes | None:
        return self._board.read(file)

    def steadily(self, work: Callable[[], T]) -> T:
        """See `Host.steadily`: on the next board in turn, and on another one if the connection to
        that was lost."""
        if getattr(self._mine, "board", None) is not None:
            return work()  # part of a piece of work that is repeated as a whole
        (found,) = self.share([("", work)])
        return found

    # -- sharing -----------------------------------------------------------------------------------
    def share(self, jobs: Sequence[tuple[str, Callable[[], T]]]) -> list[T]:
        """The answers of jobs, in order: one at a time on each board.

        Jobs of one name go to all boards in turns, now and later, so that differences between
        boards do not affect their comparison. Raises the exception of the first failed job.
        """
        answers: dict[int, T] = {}
        waiting = list(range(len(jobs)))
        while waiting:
            now, waiting = waiting[: self.size], waiting[self.size :]
            places = self._places([jobs[job][0] for job in now])
            ends = self._side_by_side(
                [(board, jobs[job][1]) for board, job in zip(places, now, strict=True)]
            )
            lost = [job for job, end in zip(now, ends, strict=True) if isinstance(end, Lost)]
            for job, end in zip(now, ends, strict=True):
                if isinstance(end, Lost):
                    continue
                if isinstance(end, BaseException):
                    raise end
                answers[job] = end
            for board, end in zip(places, ends, strict=True):
                if isinstance(end, Lost):
                    self._leave_out(board, end)
            waiting = lost + waiting
        return [answers[job] for job in range(len(jobs))]

    def _places(self, names: Sequence[str]) -> list[Board]:
        """A board for each job: the one with the fewest jobs of that name, then the fewest of
        all."""
        free, boards = list(self._there), []
        for name in names:
            board = min(free, key=lambda b: (self._runs[name, b], self._pieces[b]))
            free.remove(board)
            boards.append(board)
            self._runs[name, board] += 1
            self._pieces[board] += 1
        return boards

    def _side_by_side(
        self, work: Sequence[tuple[Board, Callable[[], T]]]
    ) -> list[T | BaseException]:
        """The result of each job, or its exception; a single one is done by this thread."""
        if len(work) == 1:
            return [self._end_of(*work[0])]
        ends: SimpleQueue[tuple[int, T | BaseException]] = SimpleQueue()
        for k, (board, job) in enumerate(work):
            do = partial(self._tell, ends, k, board, job)
            threading.Thread(target=do, name=str(board.address), daemon=True).start()
        # no limit: a job ends, or the connection to its board is lost
        found = dict(ends.get() for _ in work)
        return [found[k] for k in range(len(work))]

    def _tell(
        self,
        ends: SimpleQueue[tuple[int, T | BaseException]],
        k: int,
        board: Board,
        job: Callable[[], T],
    ) -> None:
        ends.put((k, self._end_of(board, job)))

    def _end_of(self, board: Board, job: Callable[[], T]) -> T | BaseException:
        """Do the job there; if the connection to the last board is lost, wait for it."""
        self._mine.board = board
        try:
            return board.steadily(job) if self.size == 1 else job()
        except Exception as error:
            return error
        finally:
            self._mine.board = None

    def _leave_out(self, board: Board, lost: Lost) -> None:
        """Leave the board out from now on, if there is another one."""
        if self.size == 1:
            return
        self._there.remove(board)
        board.close()
        if self._report is not None:
            others = ", ".join(str(b.address) for b in self._there)
            self._report(
                f"the connection to {board.address} was lost ({lost}): {others} does its share"
            )


@contextmanager
def fleet(
    texts: Sequence[str], *, python: str = "python3", report: Report | None = None
) -> Iterator[Host]:
    """Boards at these addresses, connected; one is just that board. Raises Errors for all of them
    at once."""
    twice = [text for k, text in enumerate(texts) if address(text) in map(address, texts[:k])]
    if twice:
        message = f"`{twice[0]}` is named twice"
        raise Errors([Diagnostic("F655", message, None, help="name each board once")])
    with ExitStack() as stack:
        boards: list[Board] = []
        faults: list[Diagnostic] = []
        for text in texts:
            try:
                boards.append(stack.enter_context(Board(text, python=python, report=report)))
            except Errors as errors:
                faults += errors.diagnostics
        faults = faults or list(_unlike(boards))
        if faults:
            raise Errors(faults)
        yield boards[0] if len(boards) == 1 else Fleet(boards, report)


def _duplicate_boards(boards: Sequence[Board]) -> Iterator[Diagnostic]:
    """Warnings for boards that are the same machine under several names."""
    for k, board in enumerate(boards):
        same = next((b for b in boards[:k] if board.boot and b.boot == board.boot), None)
        if same is not None:
            message = (
                f"`{board.address}` and `{same.address}` are one machine: parallel runs disturb"
                " each other"
            )
            yield Diagnostic("F649", message, None, help="name each board once", severity="warning")


def _unlike(boards: Sequence[Board]) -> Iterator[Diagnostic]:
    """Errors for boards that cannot replace the first one."""
    first = boards[0]
    for board in boards[1:]:
        differs = [k for k, said in board.kind.items() if said != first.kind[k]]
        if differs:
            said = "; ".join(f"{k} {board.kind[k]} instead of {first.kind[k]}" for k in differs)
            message = f"`{board.address}` is not of the same kind as `{first.address}`: {said}"
            help_text = "boards can share runs only if they are of the same kind"
            yield Diagnostic("F655", message, None, help=help_text)
