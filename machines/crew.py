"""Who helps a search: nobody, processes of this machine, or workers of a cluster. One face, `Crew.run`.

In: a function of a module, what all of its calls share, and what each call has of its own. Out: the answers in order,
the same ones whoever computed them. A worker that dies costs time only: what it had is done again, here if need be.
Executors of `concurrent.futures` do the work: a pool of processes, or Dask's (extra `cluster`).
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

#: Seconds in which a scheduler has to answer.
ANSWER = 10.0
#: Seconds without any answer of a worker, after which somebody looks whether there are any left.
PATIENCE = 10.0
#: Seconds in which a worker ends that was told to.
ENDS = 5.0
#: Things that calls share and that are kept packed, and unpacked at a worker.
KEPT = 2
#: So often a pool is started anew after a worker of it died.
RESTARTS = 3


class Crew:
    """`size` workers of executors that `make` starts; without it everything is done here, one after the other.

    `alive` tells whether there is still somebody to wait for, and `gone` is what the executors raise where there is
    not. What somebody should know is in `told`.
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
        """`function(shared, i)` for every input. What these raise is raised here."""
        if self._make is None or len(inputs) < 2:
            return [function(shared, own) for own in inputs]
        digest, blob = self._packed(shared)
        found: dict[int, O] = {}
        while self._make is not None and len(found) < len(inputs):
            try:
                self._round(function, digest, blob, inputs, found)
            except (self._gone, CancelledError, OSError) as fault:
                self._executor = None
                self._restarts -= 1
                if self._restarts < 0:
                    self._give_up(str(fault) or type(fault).__name__)
        for k, own in enumerate(inputs):
            if k not in found:
                found[k] = function(shared, own)
        return [found[k] for k in range(len(inputs))]

    def _packed(self, shared: object) -> tuple[str, bytes]:
        """What is shared, packed once as long as it is the same object; a search has two of them."""
        for known, digest, blob in self._shared:
            if known is shared:
                return digest, blob
        blob = zlib.compress(pickle.dumps(shared), 1)
        digest = hashlib.sha256(blob).hexdigest()
        self._shared = [(shared, digest, blob), *self._shared][:KEPT]
        return digest, blob

    def _round(
        self, function: Callable[[S, I], O], digest: str, blob: bytes, inputs: Sequence[I], found: dict[int, O]
    ) -> None:
        """What is not found yet. Raises what executors raise whose workers are gone."""
        assert self._make is not None
        if self._executor is None:
            self._executor = self._make()
        waiting: dict[Future[O], int] = {}
        for k, own in enumerate(inputs):
            if k not in found:
                waiting[self._executor.submit(_work, function, digest, blob, own)] = k
        while waiting:
            done = wait(waiting, timeout=PATIENCE, return_when="FIRST_COMPLETED").done
            for future in done:
                found[waiting.pop(future)] = future.result()  # no limit: it is done
            if not done and not self._alive():
                self._give_up("no worker is left")
                return

    def _give_up(self, why: str) -> None:
        self._make = None
        self.size = 1
        message = f"no more help from workers: {why}; the search went on here"
        self.told.append(Diagnostic("F646", message, None, severity="warning"))

    def close(self) -> None:
        """Let the workers go; what they are at is not waited for."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


#: Nobody helps.
ALONE = Crew()

_known: dict[str, Any] = {}


def _work(function: Callable[[S, I], O], digest: str, blob: bytes, own: I) -> O:
    """On a worker: what is shared is unpacked once, as long as it stays the same."""
    if digest not in _known:
        for old in list(_known)[: 1 - KEPT]:
            del _known[old]
        _known[digest] = pickle.loads(zlib.decompress(blob))
    return function(cast(S, _known[digest]), own)


# -- processes of this machine -----------------------------------------------------------------------------------------
@contextmanager
def processes(count: int) -> Iterator[Crew]:
    """So many processes of this machine. They end with the crew, whatever they are at."""
    if count < 2:
        yield ALONE
        return
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    crew = Crew(count, lambda: ProcessPoolExecutor(count, context, _begin, (ends_with_me(),)))
    try:
        yield crew
    finally:
        crew.close()
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
            child.join(ENDS)
            child.kill()
            child.join()  # no limit: it was killed


def _begin(end_with_parent: Callable[[], None]) -> None:
    """Ctrl-C is for the process that waits for the workers: the best so far is kept there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


# -- workers of a cluster ----------------------------------------------------------------------------------------------
@contextmanager
def cluster(address: str) -> Iterator[Crew]:
    """The workers of a Dask scheduler. Raises Errors: F644 for workers with another flowc, F645 for no scheduler.

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
        help_text = "start one with `dask scheduler`, workers with `dask worker tcp://HOST:8786 --nthreads 1`"
        raise Errors([Diagnostic("F645", message, None, help=help_text)]) from fault
    try:
        threads = client.nthreads()
        if not threads:
            help_text = f"start workers there: dask worker {address} --nthreads 1"
            raise Errors([Diagnostic("F645", f"`{address}` has no workers", None, help=help_text)])
        _require_same(client)
        crew = Crew(
            sum(threads.values()),
            lambda: cast(Executor, client.get_executor(pure=False)),
            lambda: _answers(client),
            gone=KilledWorker,
            restarts=0,
        )
        if not near:
            crew.told.append(Diagnostic("F646", _EXPOSED.format(address), None, help=_SAFER, severity="warning"))
        client.subscribe_topic("all", lambda event: crew.told.extend(_gone(event[1])))
        yield crew
    finally:
        client.close(timeout=ANSWER)


_EXPOSED = (
    "connections to `{}` are not encrypted: who reaches that port runs code there, as the user of its workers, and who "
    "answers there, or is on the way, runs code here"
)
_SAFER = "start it with TLS (`tls://...`), or let it listen at 127.0.0.1 and reach it through `ssh -L`"


def _require_certificates(address: str) -> None:
    """What Dask is configured with is enough for TLS. Raises Errors."""
    import dask.config
    from distributed import Security

    if dask.config.get("distributed.client.security-loader", None) is not None:
        return  # it is asked when the time has come
    try:
        security = cast(Any, Security)()
        if security.get_connection_args("client").get("ssl_context") is not None:
            return
        why = "Dask's configuration names none"
    except (OSError, TypeError, ValueError) as fault:
        why = str(fault)
    message = f"`{address}` needs certificates: {why}"
    names = ", ".join(f"`DASK_DISTRIBUTED__COMM__TLS__{n}`" for n in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY"))
    raise Errors([Diagnostic("F645", message, None, help=f"set {names}, or the same in Dask's configuration")])


def _gone(event: Any) -> Iterator[Diagnostic]:
    """A warning where the scheduler tells that it has lost a worker."""
    if isinstance(event, dict) and event.get("action") == "remove-worker":
        message = f"worker `{event.get('worker')}` is gone: what it was at is done again"
        yield Diagnostic("F656", message, None, severity="warning")


def _answers(client: Any) -> bool:
    try:
        return bool(client.nthreads())
    except (OSError, TimeoutError, ValueError):
        return False


def _reached(address: str) -> bool:
    """Does the connection stay on this machine, or is it encrypted? Raises OSError and ValueError where there is none.

    Asked before Dask is, whose client leaves a thread behind that tries on.
    """
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme not in ("tcp", "tls") or parts.hostname is None or parts.port is None:
        raise ValueError("an address is `tcp://HOST:PORT`, or `tls://HOST:PORT`")
    with socket.create_connection((parts.hostname, parts.port), timeout=ANSWER) as connection:
        return parts.scheme == "tls" or ip_address(connection.getpeername()[0]).is_loopback


def _require_same(client: Any) -> None:
    """Answers of another flowc are other answers. Raises Errors."""
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
    """The version of flowc, and what its code is."""
    root = Path(__file__).resolve().parent.parent
    parts = ("analysis", "machines", "model", "search", "targets")
    content = hashlib.sha256()
    for part in parts:
        for file in sorted((root / part).rglob("*.py")):
            content.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return f"{version('flowc')} ({content.hexdigest()[:12]})"
