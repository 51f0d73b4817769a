"""The open ends of apps: where tokens come in from the caller of the program, and go out to it.

In: a program with tasks whose code is an `Inlet` or an `Outlet`. Who joins them to the world
outside decides what they take and give: `embed.py` for a program that is used from Python, `feed`
for one that is measured or tested.
"""

from __future__ import annotations

import itertools
import os
import zlib
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple

import numpy as np

from .code import Code
from .failures import Failure
from .tokens import Port, TaskError

if TYPE_CHECKING:
    from .graph import Task
    from .program import Program

#: Different tokens that a measured or tested program gets, over and over.
SAMPLES = 8
#: What is wrong with a program in a forked process.
FORKED = (
    "the program runs in process %d, and this process was forked from it: open the program in each"
    " process, after the fork (with gunicorn in `post_fork`, or without `--preload`)"
)


class Closed(RuntimeError):
    """The stream has ended: nothing more goes in, or comes out."""


class Failed(RuntimeError):
    """The program has failed: `app`, `task`, `firing` (None: in none), `reason`, and `details`, a
    traceback."""

    def __init__(self, failure: Failure) -> None:
        RuntimeError.__init__(self, ("%s\n%s" % (failure, failure.details)).rstrip())
        self.app, self.task, self.firing = failure.app, failure.task, failure.firing
        self.reason, self.details = failure.reason, failure.details


class Skipped(Failed):
    """A frame was left out since a task has failed in it (`on error skip`); the program goes on."""


def forked() -> Failed:
    """What is raised in a process that was forked while the program ran."""
    return Failed(Failure("", "", None, FORKED % os.getppid()))


def _no_caller() -> NoReturn:
    raise TaskError("no caller puts tokens in: a program with open ends is opened from Python")


class Inlet(Code):
    """A source of what comes from outside. `take` gives the next token and when it came (ns of
    perf_counter_ns). With `within` it takes requests in batches: those that come so many ns after
    the first one, in a list."""

    def __init__(self, within: Optional[int] = None) -> None:
        self.within = within
        self.take: Callable[[], Tuple[np.ndarray, Optional[int]]] = _no_caller
        self._arrived: Optional[int] = None

    @property
    def fed(self) -> bool:
        """Is there a caller that puts tokens in?"""
        return self.take is not _no_caller

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        if not self.fed:
            _no_caller()

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        token, self._arrived = self.take()
        return token

    def arrived(self) -> Optional[int]:
        return self._arrived

    def requests(self, outputs: Sequence[Port]) -> int:
        return 0 if self.within is None else outputs[0].rates[0]


class Outlet(Code):
    """A sink whose tokens go to `give`; without one they are dropped."""

    def __init__(self) -> None:
        self.give: Optional[Callable[[np.ndarray], None]] = None

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        pass

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        if self.give is not None:
            self.give(inputs[0])


def drop_token(token: Any) -> None:
    """What an `Outlet` gives its tokens to in a program without a caller."""


def feed(program: Program) -> None:
    """Let all inlets deliver random tokens without end, the same at every run: what is measured and
    tested needs some.

    They are made now, so that the inlets take no time.
    """
    made = samples(program)
    for task in program.tasks:
        if isinstance(task.code, Inlet):
            tokens = made[task.name]
            task.code.take = zip(itertools.cycle(tokens), itertools.repeat(None)).__next__


def samples(program: Program) -> Dict[str, List[Any]]:
    """SAMPLES random tokens for each inlet, by its task."""
    made = {}
    for task in program.tasks:
        if isinstance(task.code, Inlet):
            random = np.random.default_rng(zlib.crc32(task.name.encode()))
            lengths = _lengths(task, random)
            made[task.name] = [_sample(task.outputs[0], length, random) for length in lengths]
    return made


def _lengths(task: Task, random: np.random.Generator) -> List[int]:
    """How many tokens each sample of an inlet has, where it gives lists. The requests of a batch
    have one token at each inlet."""
    most = task.outputs[0].rates[0]
    if not task.code.requests(task.outputs):
        return [int(length) for length in random.integers(0, most + 1, SAMPLES)]
    together = np.random.default_rng(zlib.crc32(task.app.name.encode()))
    return [int(length) for length in together.integers(1, most + 1, SAMPLES)]


def _sample(port: Port, length: int, random: np.random.Generator) -> Any:
    """Numbers in [0, 1), or small whole ones; a list of so many, if the port has lists."""
    if not port.count:
        return _drawn(port, _shape(port, random), random)
    if port.bounded:
        return [_drawn(port, _shape(port, random), random) for _ in range(length)]
    return _drawn(port, (length, *port.shape), random)


def _shape(port: Port, random: np.random.Generator) -> Tuple[int, ...]:
    """That of a token, some size where it has one of its own."""
    sizes = enumerate(port.shape)
    return tuple([int(random.integers(1, n + 1)) if i in port.bounded else n for i, n in sizes])


def _drawn(port: Port, shape: Tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    kind = port.dtype.kind
    if kind == "c":
        drawn: Any = random.random(shape) + 1j * random.random(shape)
    elif kind == "f":
        drawn = random.random(shape)
    else:
        drawn = random.integers(0, 2 if kind == "b" else 10, shape)
    sample = np.array(drawn, port.dtype)
    sample.setflags(write=False)
    return sample


def refusal(program: Program) -> str:
    """Why such a program cannot run by itself; empty if it can."""
    found: List[str] = []
    for app in program.apps:
        given = [(t.name.rpartition(".")[2], t.code) for t in app.tasks]
        ways = [
            ("takes", [n for n, c in given if isinstance(c, Inlet) and not c.fed]),
            ("gives", [n for n, c in given if isinstance(c, Outlet) and c.give is None]),
        ]
        said = [
            "%s %s" % (word, ", ".join("`%s`" % n for n in names)) for word, names in ways if names
        ]
        if said:
            found.append("app %s %s" % (app.name, " and ".join(said)))
    if not found:
        return ""
    folder, name = os.path.split(program.run.home)
    way = "`flowc.open(%r)`" % program.run.home
    if name.isidentifier():
        way = "`import %s` (with %r in sys.path) and `%s.open()`, or %s" % (name, folder, name, way)
    return "%s: open it from Python, with %s" % ("; ".join(found), way)
