"""The open ends of one app, for its caller: tokens are put in and results taken out, from any
thread.

In: a program that is about to run. Out: `Ends`, which stand between its inlets and outlets and who
uses it. Only what waits at the ends is here; how a program is started and stopped is left to
`embed.py`.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import numpy as np

from .answers import Answer, Asked, Asking, Awaited, Messenger
from .ends import Closed, Failed, Inlet, Outlet, Skipped, forked
from .failures import Failure
from .graph import FOREVER, App, Task
from .run import Run
from .spans import Spans
from .tokens import Port, TaskError, apart

#: Tokens that wait at an end: before the program takes them, and until the caller gets them.
WAIT_IN, WAIT_OUT = 4, 64
#: Seconds after which a waiting thread checks whether waiting still makes sense.
LOOK = 0.05

#: A token by the name of its end.
Tokens = Dict[str, np.ndarray]
#: What was put in together, who waits for the answer, when it came, and in which span.
Offer = Tuple[Tokens, Optional[Asking], int, Any]


class Ends:
    """The open ends of one app."""

    def __init__(self, run: Run, app: App, spans: Optional[Spans] = None) -> None:
        self._run, self._app, self._spans = run, app, spans
        self._inlets: Dict[str, Task] = {}
        self._outlets: Dict[str, Task] = {}
        for task in app.tasks:
            name = task.name[len(app.name) + 1 :]
            if isinstance(task.code, Inlet):
                self._inlets[name] = task
                within = task.code.within
                task.code.take = (
                    self._taking(name) if within is None else self._gathering(name, within)
                )
            elif isinstance(task.code, Outlet):
                self._outlets[name] = task
                task.code.give = self._giving(name)
        #: How many requests are taken in a batch at most; 0: each is a frame.
        self._most = max([t.code.requests(t.outputs) for t in self._inlets.values()] or [0])
        #: Of batches: how many each inlet has taken, the requests in those that some inlet has not
        #: taken yet, the numbers of requests under way, and those of the last ones of each batch.
        self._batches = dict.fromkeys(self._inlets, 0)
        self._sizes: Dict[int, int] = {}
        self._numbers: Deque[int] = deque()
        self._ends: Deque[int] = deque()
        lock = threading.Lock()
        self._lock = lock
        #: Conditions: of an inlet, of a caller that puts, of a caller that gets, of an outlet.
        self._filled, self._room = threading.Condition(lock), threading.Condition(lock)
        self._ready, self._taken = threading.Condition(lock), threading.Condition(lock)
        self._lobby: Deque[Offer] = deque()
        self._waiting: Dict[str, Deque[Tuple[np.ndarray, int]]] = {n: deque() for n in self._inlets}
        self._results: Dict[str, Deque[np.ndarray]] = {n: deque() for n in self._outlets}
        self._put = dict.fromkeys(self._inlets, 0)
        # Where every frame has an answer: results with their numbers, whose answers they are, from
        # which frame on.
        self._made: Dict[str, Deque[Tuple[int, np.ndarray]]] = {n: deque() for n in self._outlets}
        self._asked: Deque[Optional[Asking]] = deque()
        self._answered = self._come = 0
        #: Frames that have no answer, and why.
        self._left_out: Dict[int, Optional[Failure]] = {}
        app.told = self._leave_out
        self._messenger = Messenger()
        self._ports: Dict[str, Port] = {}
        self._why_not = "the program has not begun"
        self._ended = self._stopped = self._left = self._finished = False
        #: Was a caller told that the program has failed?
        self.told = False

    # -- for who runs the program ------------------------------------------------------------------
    def put(self, /, *token: Any, timeout: Optional[float] = None, **tokens: Any) -> None:
        """Put in a token for the one `in`, or one for each by name: copies, so that the arrays may
        be used again.

        Waits while the program has no room, for `timeout` seconds at most (TimeoutError). Raises
        ValueError for another dtype or shape or a timeout of NaN, Closed after the end, Failed when
        the program has failed.
        """
        self._offer(self._accepted(token, tokens), None, True, timeout)

    def get(self, out: Optional[str] = None, timeout: Optional[float] = None) -> Any:
        """The next result of the one `out`, or of the `out` of that name; of several, a dict with
        one of each.

        Results come in order, each once, as read-only arrays. Waits for `timeout` seconds at most
        (TimeoutError; ValueError for NaN). Raises Closed after the last one, Failed when the
        program has failed and there are no more.
        """
        self._require_here()
        names = self._wanted(out)
        results = [self._results[n] for n in names]
        until = _until(timeout)
        with self._lock:
            while True:
                over = self._over()  # first: what ends has given all it had
                if all(results):
                    found = {n: r.popleft() for n, r in zip(names, results)}
                    self._taken.notify_all()
                    return found if len(self._outlets) > 1 and out is None else found[names[0]]
                if over:
                    raise self._gone()
                _wait(self._ready, until, "no result came")

    def ask(self, /, *token: Any, **tokens: Any) -> Future[Any]:
        """Put in a token, or one for each `in` by name; the future has what `get` would give for
        it.

        Waits like `put` while there is no room. Any number of threads may ask at once.
        """
        future = Asked(self._run)
        self._offer(self._asking(token, tokens), future, True, None)
        return future

    async def aask(self, /, *token: Any, **tokens: Any) -> Any:
        """The answer to a token, for asyncio: as `ask`, but never holds up the event loop."""
        awaited = Awaited(asyncio.get_running_loop())
        self._offer(self._asking(token, tokens), awaited, False, None)
        return await awaited.future

    def end(self) -> None:
        """No more comes in. What is under way comes out, then the stream ends."""
        self._require_here()
        with self._lock:
            self._ended = True
            self._filled.notify_all()

    def __iter__(self) -> Iterator[Any]:
        """All results until the end."""
        while True:
            try:
                result = self.get()  # no limit: until the next result, or the end
            except Closed:
                return
            yield result

    def _require_here(self) -> None:
        """In a process that was forked there is no answer, and locks may be held for ever. Raises
        Failed."""
        if self._run.strayed:
            raise forked()

    # -- for the program ---------------------------------------------------------------------------
    @property
    def has_ends(self) -> bool:
        """Is there any?"""
        return bool(self._inlets or self._outlets)

    @property
    def inputs(self) -> Dict[str, Tuple[np.dtype[Any], Tuple[int, ...]]]:
        """The type of numbers and the shape of a token that each `in` takes."""
        ports = {name: self._port(name) for name in self._inlets}
        return {name: (port.dtype, port.shape) for name, port in ports.items()}

    @property
    def types(self) -> Dict[str, str]:
        """The type of a token of each end, `in` and `out`, in the words of the text."""
        ports: Dict[str, Any] = {name: self._port(name) for name in self._inlets}
        for name, task in self._outlets.items():
            port: Any = task.inputs[0]
            ports[name] = port.one if self._most and port.count else port
        return {name: port.kind(0).replace("[]", "") for name, port in ports.items()}

    @property
    def waiting(self) -> int:
        """Tokens that were put in and that the program has not taken yet."""
        with self._lock:
            inside = sum(len(tokens) for tokens in self._waiting.values())
            return inside + sum(len(tokens) for tokens, _, _, _ in self._lobby)

    @property
    def takes(self) -> bool:
        """Is there an `in`, so that `end` ends the app?"""
        return bool(self._inlets)

    def begin(self) -> None:
        """The program runs: from now on it is known how often tasks fire."""
        self._why_not = self._no_answers()

    def stop(self) -> None:
        """Nothing that waits outside is taken any more."""
        with self._lock:
            self._stopped = True
            self._filled.notify_all()
            self._room.notify_all()

    def leave(self) -> None:
        """Results need not be fetched any more."""
        with self._lock:
            self._left = True
            self._taken.notify_all()

    def look(self, finished: bool = False) -> bool:
        """Is the app over, or the whole program finished? Waiting callers are told then."""
        with self._lock:
            self._finished |= finished
            if not self._over():
                return False
            lost = [f for f in (*self._asked, *(f for _, f, _, _ in self._lobby)) if f is not None]
            self._asked.clear()
            self._lobby.clear()
            for condition in (self._filled, self._room, self._ready, self._taken):
                condition.notify_all()
        for future in lost:
            if future.running() or future.set_running_or_notify_cancel():
                future.set_exception(self._gone())
        if finished:
            self._messenger.close()
        return True

    def _over(self) -> bool:
        app = self._app
        failed = self._run.failure is not None
        return self._finished or failed or (app.limit < FOREVER and app.frames >= app.limit)

    def _gone(self) -> RuntimeError:
        failure = self._run.failure
        if failure is None:
            return Closed("the stream of app %s has ended" % self._app.name)
        self.told = True
        return Failed(failure)

    # -- in ----------------------------------------------------------------------------------------
    def _accepted(self, token: Sequence[Any], tokens: Dict[str, Any]) -> Tokens:
        """Copies of what is put in. Raises ValueError, or TypeError for other names."""
        self._require_here()
        names = list(self._inlets)
        if not names:
            raise TypeError("app %s has no `in`" % self._app.name)
        if token and (len(token) > 1 or tokens or len(names) > 1):
            raise TypeError("app %s takes %s: give each by name" % (self._app.name, listed(names)))
        given = {names[0]: token[0]} if token else tokens
        strange = sorted(set(given) - set(names))
        if strange:
            raise TypeError(
                "app %s has no `in` %s, it takes %s"
                % (self._app.name, listed(strange), listed(names))
            )
        per_frame = {self._inlets[n].per_iteration for n in names}
        missing = [n for n in names if n not in given]
        if not given or (missing and len(per_frame) == 1):
            raise TypeError("%s is missing" % listed(missing))
        return {n: _copied(self._port(n), value) for n, value in given.items()}

    def _port(self, name: str) -> Port:
        """The port of what is put in at an `in`: a token, which is a list where its rate is `up
        to`."""
        if name not in self._ports:
            port: Any = self._inlets[name].outputs[0]
            self._ports[name] = port.one if self._most else port
        return self._ports[name]

    def _asking(self, token: Sequence[Any], tokens: Dict[str, Any]) -> Tokens:
        if self._why_not:
            raise TypeError("app %s gives no answers: %s" % (self._app.name, self._why_not))
        return self._accepted(token, tokens)

    def _offer(
        self, tokens: Tokens, future: Optional[Asking], wait: bool, timeout: Optional[float]
    ) -> None:
        until = _until(timeout)
        caller = None if self._spans is None else self._spans.here()
        offer = (tokens, future, time.perf_counter_ns(), caller)
        with self._lock:
            while True:
                self._refuse(tokens)
                if not wait or (not self._lobby and self._fits(tokens)):
                    break
                _wait(self._room, until, "there was no room")
            for name in tokens:
                self._put[name] += 1
            self._lobby.append(offer)
            self._admit()

    def _refuse(self, tokens: Tokens) -> None:
        """Raise Closed or Failed where a token would never be taken."""
        limit = self._app.limit
        beyond = (
            limit < FOREVER
            and not self._most
            and any(self._put[n] >= limit * self._inlets[n].per_iteration for n in tokens)
        )
        if self._ended or self._stopped or beyond or self._over():
            raise self._gone()

    def _fits(self, tokens: Tokens) -> bool:
        return all(len(self._waiting[n]) < max(WAIT_IN, self._most) for n in tokens)

    def _admit(self) -> None:
        """Let in who waits outside, in order. An inlet is woken by what it can take, or by the
        first request of a batch: from then on it counts the time."""
        before = {name: len(tokens) for name, tokens in self._waiting.items()}
        while self._lobby and self._fits(self._lobby[0][0]):
            tokens, future, came, caller = self._lobby.popleft()
            if future is not None and not future.set_running_or_notify_cancel():
                for name in tokens:
                    self._put[name] -= 1
                continue  # he has gone away
            if not self._why_not:
                self._asked.append(future)
                self._tell_of(caller)
            for name, token in tokens.items():
                self._waiting[name].append((token, came))
        for name, waiting in self._waiting.items():
            if not before[name] or len(waiting) >= self._most:
                self._filled.notify_all()

    def _tell_of(self, caller: Any) -> None:
        """A request has come in, from that span. Outside of batches it is known in which frame."""
        if self._spans is None:
            return
        self._spans.asked(self._app, caller)
        self._come += 1
        per_frame = next(iter(self._inlets.values())).per_iteration
        if not self._most and self._come % per_frame == 0:
            self._spans.taken(self._app, self._come // per_frame - 1, per_frame)

    def _taking(self, name: str) -> Callable[[], Tuple[np.ndarray, Optional[int]]]:
        def take() -> Tuple[np.ndarray, Optional[int]]:
            waiting = self._waiting[name]

            def decided() -> bool:
                if self._stopped or self._run.stopping or waiting:
                    return True
                return self._ended and not self._lobby

            with self._lock:
                wait_in_worker(self._filled, decided)
                if self._stopped or self._run.stopping or not waiting:
                    raise StopIteration
                token = waiting.popleft()
                self._admit()
                self._room.notify_all()
                return token

        return take

    def _gathering(self, name: str, within: int) -> Callable[[], Tuple[Any, Optional[int]]]:
        """Takes a batch of requests: what has come `within` ns of the first of them."""

        def left() -> float:
            """Seconds until the batch is complete, unless others come."""
            waiting = self._waiting[name]
            if not waiting or len(waiting) >= self._most or self._batches[name] in self._sizes:
                return 0.0
            return max(0.0, (waiting[0][1] + within - time.perf_counter_ns()) / 1e9)

        def decided() -> bool:
            if self._stopped or self._run.stopping or (self._ended and not self._lobby):
                return True
            return bool(self._waiting[name]) and not left()

        def take() -> Tuple[Any, Optional[int]]:
            waiting = self._waiting[name]
            with self._lock:
                wait_in_worker(self._filled, decided, lambda: min(left() or LOOK, LOOK))
                if self._stopped or self._run.stopping or not waiting:
                    raise StopIteration
                size = self._begun_batch(name, min(len(waiting), self._most))
                taken = [waiting.popleft() for _ in range(size)]
                self._admit()
                self._room.notify_all()
            port: Any = self._inlets[name].outputs[0]
            return port.of([token for token, _ in taken]), taken[0][1]

        return take

    def _begun_batch(self, name: str, size: int) -> int:
        """An inlet takes its next batch: how many requests are in it, which the first inlet that
        comes to it decides."""
        batch = self._batches[name]
        if batch not in self._sizes:
            self._sizes[batch] = size
            self._numbers.extend(range(batch * self._most, batch * self._most + size))
            self._ends.append(self._numbers[-1])
            if self._spans is not None:
                self._spans.taken(self._app, batch, size)
        self._batches[name] += 1
        size = self._sizes[batch]
        if min(self._batches.values()) > batch:
            del self._sizes[batch]
        return size

    # -- out ---------------------------------------------------------------------------------------
    def _wanted(self, out: Optional[str]) -> List[str]:
        names = list(self._outlets)
        if not names:
            raise TypeError("app %s has no `out`" % self._app.name)
        if out is not None and out not in names:
            raise TypeError(
                "app %s has no `out` `%s`, it gives %s" % (self._app.name, out, listed(names))
            )
        if out is None and len({t.per_iteration for t in self._outlets.values()}) > 1:
            raise TypeError(
                "the ends %s give different numbers of results: get each by name" % listed(names)
            )
        return names if out is None else [out]

    def _giving(self, name: str) -> Callable[[np.ndarray], None]:
        def give(token: np.ndarray) -> None:
            results = self._results[name]
            answers: List[Answer] = []
            with self._lock:
                if self._why_not:
                    results.append(token)
                else:
                    number = _line()[1]
                    self._made[name].append((number, token))
                    if not self._ends or number >= self._ends[0]:
                        answers = self._hand_out()
                self._ready.notify_all()
            self._messenger.answer(answers)
            if len(results) <= WAIT_OUT:
                return
            with self._lock:
                wait_in_worker(
                    self._taken,
                    lambda: len(results) <= WAIT_OUT or self._left or self._run.stopping,
                )

        return give

    def _leave_out(self, iteration: int, failures: Sequence[Failure]) -> None:
        """A frame has ended without a part: what has not come out of it will not come."""
        if self._why_not:
            return
        per_iteration = next(iter(self._outlets.values())).per_iteration
        with self._lock:
            for at in range(per_iteration):
                number = iteration * per_iteration + at
                if self._is_under_way(number) and not self._is_made(number):
                    self._left_out[number] = self._reason(failures, at, per_iteration)
            answers = self._hand_out()
            self._ready.notify_all()
        self._messenger.answer(answers)

    def _reason(
        self, failures: Sequence[Failure], at: int, per_iteration: int
    ) -> Optional[Failure]:
        """Which of the failures in a frame is that of a request in it; else the first one."""
        firings = {task.name: task.per_iteration for task in self._app.tasks}
        for failure in failures:
            per_frame = firings.get(failure.task, 1)
            firing = (failure.firing or 0) % per_frame
            begins, ends = firing * per_iteration, (firing + 1) * per_iteration
            if begins < (at + 1) * per_frame and at * per_frame < ends:
                return failure
        return failures[0] if failures else None

    def _is_under_way(self, number: int) -> bool:
        """Is it the number of a result that is waited for?"""
        return number in self._numbers if self._most else number >= self._answered

    def _next(self) -> Optional[int]:
        """The number of the next result."""
        if self._most:
            return self._numbers[0] if self._numbers else None
        return self._answered

    def _is_made(self, number: int) -> bool:
        """Have all outlets come to that frame?"""
        return all(any(n == number for n, _ in made) for made in self._made.values())

    def _hand_out(self) -> List[Answer]:
        """Frames that all outlets have come to, in order, to who asked for them or to `get`; an
        error for a frame that is left out."""
        answers: List[Answer] = []
        while True:
            number = self._next()
            if number is None or not self._is_over(number):
                return answers
            self._answered += 1
            if self._most and self._numbers.popleft() == self._ends[0]:
                self._ends.popleft()
            future = self._asked.popleft() if self._asked else None
            frame = self._frame(number)
            if number in self._left_out:
                failure = self._left_out.pop(number)
                if future is not None:
                    answers.append((future, self._skipped(failure)))
            elif future is None:
                for name, token in frame.items():
                    self._results[name].append(token)
            else:
                answers.append((future, frame if len(frame) > 1 else next(iter(frame.values()))))

    def _is_over(self, number: int) -> bool:
        """Is the next result there at all outlets, or left out?"""
        if number in self._left_out:
            return True
        return all(made and made[0][0] == number for made in self._made.values())

    def _frame(self, number: int) -> Dict[str, Any]:
        """Take what outlets have of the next result."""
        frame = {}
        for name, made in self._made.items():
            if made and made[0][0] == number:
                frame[name] = made.popleft()[1]
        return frame

    def _skipped(self, failure: Optional[Failure]) -> Skipped:
        """What the answer to a frame that is left out raises."""
        if failure is None:
            reason = "a frame of app %s was left out" % self._app.name
            failure = Failure(self._app.name, "", None, reason)
        return Skipped(failure)

    def _no_answers(self) -> str:
        """Why the n-th result is not the answer to the n-th token; empty where it is."""
        if not self._inlets or not self._outlets:
            return "that needs an `in` and an `out`"
        times = max(1, self._most)
        counts = {n: t.per_iteration * times for n, t in self._inlets.items()}
        counts.update((n, t.per_iteration) for n, t in self._outlets.items())
        if len(set(counts.values())) > 1:
            shown = ", ".join("%s %d" % count for count in counts.items())
            return "tokens in one iteration are %s" % shown
        reached = self._reached([t.name for t in self._inlets.values()])
        behind = [n for n, t in self._outlets.items() if t.name not in reached]
        return "a delay lies before %s, or nothing leads there" % listed(behind) if behind else ""

    def _reached(self, tasks: Sequence[str]) -> Set[str]:
        """The tasks that these lead to without a delay between, and they themselves."""
        reached: Set[str] = set()
        news = list(tasks)
        while news:
            reached.update(news)
            channels = [c for c in self._app.channels if c.source in news and not c.delay]
            news = [c.destination for c in channels if c.destination not in reached]
        return reached


# -- waiting, and what is put in -------------------------------------------------------------------
def _until(timeout: Optional[float]) -> Optional[float]:
    """When a caller gives up. Raises ValueError for NaN, which would be never."""
    if timeout is None:
        return None
    if math.isnan(timeout):
        raise ValueError("a timeout is a number of seconds, and NaN is none")
    return time.monotonic() + timeout


def _wait(condition: threading.Condition, until: Optional[float], why: str) -> None:
    """A while, for a caller. Raises TimeoutError after `until`."""
    left = LOOK if until is None else min(LOOK, until - time.monotonic())
    if left <= 0:
        raise TimeoutError(why)
    condition.wait(left)


def wait_in_worker(
    condition: threading.Condition,
    decided: Callable[[], bool],
    pause: Callable[[], float] = lambda: LOOK,
) -> None:
    """Wait for a caller, for a `pause` of so many seconds each time. The worker counts as being in
    no firing meanwhile: the task takes no time."""
    if decided():
        return
    line = _line()
    number, line[0] = line[0], 0
    try:
        while not decided():
            condition.wait(pause())
    finally:
        line[2] = time.perf_counter_ns()
        line[0] = number


def _line() -> memoryview:
    """What the worker that calls is doing: the number of a task, its firing, and since when."""
    return threading.current_thread().line  # type: ignore[attr-defined,no-any-return]


def _copied(port: Port, value: Any) -> Any:
    try:
        with np.errstate(over="raise"):  # a number that is too large is no infinity
            accepted = port.accept(value, 0)
    except (TaskError, TypeError, ValueError, FloatingPointError):
        wanted = port.kind(0) if port.bounded else "%s%s" % (port.dtype, list(port.shape))
        raise ValueError(
            "`%s` takes %s, and was given %s" % (port.name, wanted, _shown(value))
        ) from None
    return apart(accepted)


def _shown(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        return "%s%s" % (value.dtype, list(value.shape))
    return "nothing" if value is None else "%s: %.60r" % (type(value).__name__, value)


def listed(names: Sequence[str]) -> str:
    """Names in a message."""
    return ", ".join("`%s`" % n for n in names)
