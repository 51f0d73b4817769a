"""The workers of a search: none, processes of this machine, or workers of a cluster. One interface,
`SearchWorkers.run`.

In: a function of a module, the input that all of its calls share, and the input of each call. Out:
the answers in order, independent of the workers. A worker that dies only costs time: its calls are
repeated, here if necessary. Executors of `concurrent.futures` do the work: a pool of processes, or
Dask's (extra `cluster`).
"""

from __future__ import annotations

import hashlib
import multiprocessing
import pickle
import signal
import socket
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from ..model.diagnostic import Diagnostic, Errors
from ..model.extras import require
from .children import ends_with_me

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741

#: Seconds for a scheduler to answer.
ANSWER = 10.0
#: Seconds without any answer of a worker, after which the search_workers checks whether any are
#: left.
PATIENCE = 10.0
#: Seconds for a worker to end after it was asked to.
ENDS = 5.0
#: Most shared inputs that are kept packed, and unpacked at a worker.
KEPT = 2
#: Most restarts of a pool after one of its workers died.
RESTARTS = 3


class SearchWorkers:
    """`size` workers of executors that `make` starts; without it everything is computed here, one
    after the other.

    `alive` checks whether any worker is left, and `gone` is what the executors raise if there is
    none. `told` holds diagnostics for the user.
    """

    def __init__(
        self,
        size: int = 1,
        make: Callable[[], Executor] | None = None,
        alive: Callable[[], bool] = lambda: True,
        *,
        gone: type[Exception] = BrokenProcessPool,
        restarts: int = RESTARTS,
    ) -> None:
        self.size = size
        self.told: list[Diagnostic] = []
        self._make, self._alive, self._gone, self._restarts = make, alive, gone, restarts
        self._executor: Executor | None = None
        self._shared: list[tuple[object, str, bytes]] = []

    def run(self, function: Callable[[S, I], O], shared: S, inputs: Sequence[I]) -> list[O]:
        """`function(shared, i)` for every input. Exceptions of these calls are raised here."""
        if self._make is None or len(inputs) < 2:
            return [function(shared, item) for item in inputs]
        digest, blob = self._packed(shared)
        answers: dict[int, O] = {}
        while self._make is not None and len(answers) < len(inputs):
            try:
                self._round(function, digest, blob, inputs, answers)
            except (self._gone, CancelledError, OSError) as fault:
                self._executor = None
                self._restarts -= 1
                if self._restarts < 0:
                    self._give_up(str(fault) or type(fault).__name__)
        for number, item in enumerate(inputs):
            if number not in answers:
                answers[number] = function(shared, item)
        return [answers[number] for number in range(len(inputs))]

    def _packed(self, shared: object) -> tuple[str, bytes]:
        """The shared input, packed once as long as it is the same object; a search has two of
        them."""
        for known, digest, blob in self._shared:
            if known is shared:
                return digest, blob
        blob = zlib.compress(pickle.dumps(shared), 1)
        digest = hashlib.sha256(blob).hexdigest()
        self._shared = [(shared, digest, blob), *self._shared][:KEPT]
        return digest, blob

    def _round(
        self,
        function: Callable[[S, I], O],
        digest: str,
        blob: bytes,
        inputs: Sequence[I],
        answers: dict[int, O],
    ) -> None:
        """Compute the missing answers. Raises the exceptions of executors whose workers are
        gone."""
        assert self._make is not None
        if self._executor is None:
            self._executor = self._make()
        waiting: dict[Future[O], int] = {}
        for number, item in enumerate(inputs):
            if number not in answers:
                waiting[self._executor.submit(_work, function, digest, blob, item)] = number
        while waiting:
            done = wait(waiting, timeout=PATIENCE, return_when="FIRST_COMPLETED").done
            for future in done:
                answers[waiting.pop(future)] = future.result()  # no limit: it is done
            if not done and not self._alive():
                self._give_up("no worker is left")
                return

    def _give_up(self, why: str) -> None:
        self._make = None
        self.size = 1
        message = f"no more help from workers: {why}; the search went on here"
        self.told.append(Diagnostic("F646", message, None, severity="warning"))

    def close(self) -> None:
        """Release the workers; their current calls are not waited for."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


#: No workers: everything is computed here.
ALONE = SearchWorkers()

_known: dict[str, Any] = {}


def _work(function: Callable[[S, I], O], digest: str, blob: bytes, own: I) -> O:
    """On a worker: unpack the shared input once, as long as it stays the same."""
    if digest not in _known:
        for old in list(_known)[: 1 - KEPT]:
            del _known[old]
        _known[digest] = pickle.loads(zlib.decompress(blob))
    return function(cast(S, _known[digest]), own)


# -- processes of this machine ---------------------------------------------------------------------
@contextmanager
def processes(count: int) -> Iterator[SearchWorkers]:
    """A search_workers of processes of this machine. They end with the search_workers, even in the
    middle of a call."""
    if count < 2:
        yield ALONE
        return
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    search_workers = SearchWorkers(
        count, lambda: ProcessPoolExecutor(count, context, _begin, (ends_with_me(),))
    )
    try:
        yield search_workers
    finally:
        search_workers.close()
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
            child.join(ENDS)
            child.kill()
            child.join()  # no limit: it was killed


def _begin(end_with_parent: Callable[[], None]) -> None:
    """Ignore Ctrl-C: the process that waits for the workers handles it, and keeps the best answer
    so far."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


# -- workers of a cluster --------------------------------------------------------------------------
@contextmanager
def cluster(address: str) -> Iterator[SearchWorkers]:
    """The workers of a Dask scheduler. Raises Errors: F644 for workers with another flowc, F645 for
    no scheduler.

    Keys and certificates for `tls://` are those of Dask's own configuration.
    """
    require("distributed", "cluster", "`--cluster`")
    from distributed import Client, KilledWorker

    if address.startswith("tls://"):
        _require_certificates(address)
    try:
        near = _reached(address)
        client: Any = cast(Any, Client)(address, timeout=ANSWER, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as fault:
        message = f"no scheduler answers at `{address}`: {str(fault) or type(fault).__name__}"
        help_text = (
            "start one with `dask scheduler`, workers with `dask worker tcp://HOST:8786"
            " --nthreads 1`"
        )
        raise Errors([Diagnostic("F645", message, None, help=help_text)]) from fault
    try:
        threads = client.nthreads()
        if not threads:
            help_text = f"start workers there: dask worker {address} --nthreads 1"
            raise Errors([Diagnostic("F645", f"`{address}` has no workers", None, help=help_text)])
        _require_same(client)
        search_workers = SearchWorkers(
            sum(threads.values()),
            lambda: cast(Executor, client.get_executor(pure=False)),
            lambda: _answers(client),
            gone=KilledWorker,
            restarts=0,
        )
        if not near:
            search_workers.told.append(
                Diagnostic("F646", _EXPOSED.format(address), None, help=_SAFER, severity="warning")
            )
        client.subscribe_topic("all", lambda event: search_workers.told.extend(_gone(event[1])))
        yield search_workers
    finally:
        client.close(timeout=ANSWER)


_EXPOSED = (
    "connections to `{}` are not encrypted: every host that reaches that port can run code there,"
    " as the user of its workers, and a host that answers there, or is on the way, can run code"
    " here"
)
_SAFER = (
    "start it with TLS (`tls://...`), or let it listen at 127.0.0.1 and reach it through `ssh -L`"
)


def _require_certificates(address: str) -> None:
    """Check that Dask's configuration is enough for TLS. Raises Errors."""
    import dask.config
    from distributed import Security

    if dask.config.get("distributed.client.security-loader", None) is not None:
        return  # it is read on connection
    try:
        security = cast(Any, Security)()
        if security.get_connection_args("client").get("ssl_context") is not None:
            return
        why = "Dask's configuration names none"
    except (OSError, TypeError, ValueError) as fault:
        why = str(fault)
    message = f"`{address}` needs certificates: {why}"
    names = ", ".join(
        f"`DASK_DISTRIBUTED__COMM__TLS__{n}`" for n in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")
    )
    raise Errors(
        [
            Diagnostic(
                "F645", message, None, help=f"set {names}, or the same in Dask's configuration"
            )
        ]
    )


def _gone(event: Any) -> Iterator[Diagnostic]:
    """A warning for each worker that the scheduler reports as lost."""
    if isinstance(event, dict) and event.get("action") == "remove-worker":
        message = f"worker `{event.get('worker')}` is gone: its work is repeated"
        yield Diagnostic("F656", message, None, severity="warning")


def _answers(client: Any) -> bool:
    try:
        return bool(client.nthreads())
    except (OSError, TimeoutError, ValueError):
        return False


def _reached(address: str) -> bool:
    """Does the connection stay on this machine, or is it encrypted? Raises OSError and ValueError
    if there is none.

    Checked before Dask connects, because its client leaves a thread behind that keeps trying.
    """
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme not in ("tcp", "tls") or parts.hostname is None or parts.port is None:
        raise ValueError("an address is `tcp://HOST:PORT`, or `tls://HOST:PORT`")
    with socket.create_connection((parts.hostname, parts.port), timeout=ANSWER) as connection:
        return parts.scheme == "tls" or ip_address(connection.getpeername()[0]).is_loopback


def _require_same(client: Any) -> None:
    """Reject workers with another flowc: their answers may differ. Raises Errors."""
    here, others = identity(), {}
    try:
        others = client.run(_said, on_error="return")
    except (OSError, TimeoutError, ImportError) as fault:
        others = {"scheduler": fault}
    wrong = {worker: said for worker, said in others.items() if said != here}
    if wrong:
        worker, said = next(iter(wrong.items()))
        what = str(said) if isinstance(said, BaseException) else f"flowc {said}"
        message = f"worker `{worker}` has {what}, and here is flowc {here}"
        help_text = "install the same version of flowc, with the same Python, for all workers"
        raise Errors([Diagnostic("F644", message, None, help=help_text)])


def _said() -> str:
    return identity()


@cache
def identity() -> str:
    """The version of flowc, and the digest of its code."""
    root = Path(__file__).resolve().parent.parent
    parts = ("analysis", "machines", "model", "search", "targets")
    content = hashlib.sha256()
    for part in parts:
        for file in sorted((root / part).rglob("*.py")):
            content.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return f"{version('flowc')} ({content.hexdigest()[:12]})"
