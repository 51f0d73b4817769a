"""Measures what pieces of networks take while each runs again and again on one thread. Runs on that
machine.

In: a request in JSON. Out: JSON, with a row for each step: the piece (null: none), the watts, the
ns of a run, and when. Every block has every step once, in an order of its own, as in `power`.

A piece runs in a process of its own, as long as its standard input is open.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from ...runtime.session import opened
from .kernels import MODEL, WARM_UP, random_inputs
from .power import NoMeter, in_blocks, joules_of, mean_watts

#: Seconds in which a piece is loaded and warm, or ends.
LIMIT = 120.0
READY = "ready"


class PieceFailed(Exception):
    """A piece of a network does not run; the message says why."""


class Piece:
    """A piece of a network that runs; `ns` of a run are known when it has ended."""

    ns: Optional[float] = None


def measured(
    folders: Sequence[str],
    joules: Callable[[float], float],
    seconds: float,
    blocks: int,
    seed: int,
) -> Iterator[Dict[str, Any]]:
    """A row for each step of each block."""
    begin = time.monotonic()
    steps: List[Optional[int]] = [None, *range(len(folders))]
    for step in in_blocks(steps, blocks, seed):
        with _running(None if step is None else folders[step]) as piece:
            watts, middle = mean_watts(joules, seconds)
        yield {"piece": step, "watts": watts, "ns": piece.ns, "at": middle - begin}


@contextlib.contextmanager
def _running(folder: Optional[str]) -> Iterator[Piece]:
    """The model in a folder runs, if there is one. Raises PieceFailed where it does not."""
    piece = Piece()
    if folder is None:
        yield piece
        return
    safe = ["-P"] if getattr(sys.flags, "safe_path", False) else []
    words = [sys.executable, *safe, "-m", "%s.energy" % __package__, "run", folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, universal_newlines=True, **pipes) as child:  # type: ignore[call-overload]
        try:
            there, _, _ = select.select([child.stdout], [], [], LIMIT)
            # no limit: a line is there, or the end
            if not there or child.stdout.readline().strip() != READY:
                raise _does_not_begin(child)
            yield piece
            said, errors = child.communicate(timeout=LIMIT)
            if child.returncode:
                raise PieceFailed(_last_line(errors) or "it ends with status %d" % child.returncode)
            piece.ns = json.loads(said)
        finally:
            child.kill()


def _does_not_begin(child: Any) -> PieceFailed:
    child.kill()
    _, errors = child.communicate(timeout=LIMIT)
    return PieceFailed(_last_line(errors) or "it does not begin in %g s" % LIMIT)


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def run(folder: str) -> float:
    """Run the model in a folder until the standard input ends; the ns of a run."""
    import onnxruntime as ort

    def options() -> Any:
        made = ort.SessionOptions()
        made.intra_op_num_threads = made.inter_op_num_threads = 1
        made.log_severity_level = 3
        return made

    def wait() -> None:
        sys.stdin.read()
        over.set()

    session, values = opened(os.path.join(folder, MODEL), options), random_inputs(folder)
    over = threading.Event()
    for _ in range(WARM_UP):
        session.run(None, values)
    threading.Thread(target=wait, daemon=True).start()
    print(READY, flush=True)
    runs, begin = 0, time.perf_counter_ns()
    while not runs or not over.is_set():
        session.run(None, values)
        runs += 1
    return (time.perf_counter_ns() - begin) / runs


def answer(request: Dict[str, Any]) -> Dict[str, Any]:
    """The rows, an `error` of the meter, or why a piece `failed`."""
    try:
        joules = joules_of(request["meter"], request["root"])
        how = request["seconds"], request["blocks"], request["seed"]
        folders = [os.path.join(request["folder"], name) for name in request["pieces"]]
        return {"rows": list(measured(folders, joules, *how))}
    except NoMeter as error:
        return {"error": str(error)}
    except PieceFailed as failure:
        return {"failed": str(failure)}


if __name__ == "__main__":
    if sys.argv[1] == "run":
        print(json.dumps(run(sys.argv[2])))
    else:
        print(json.dumps(answer(json.loads(sys.argv[1]))))
