"""Straight rounds: what a worker does when its order leaves nothing to decide.

In: a worker that fires all tasks of one app, each once per iteration, and everything that passes between them is one
token per firing. Out: a function that runs whole iterations, or None where there is more to decide (several rates,
initial tokens, other workers, devices, batches, periods, somebody who watches each firing).

Between two tasks there is a variable then, instead of a channel: no counting, no looking for tokens and space. What a
firing is checked for, what is told of it and how it fails is as in worker.py.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

import numpy as np

from .channel import EndOfStream, LocalChannel, Stopped
from .device import OnDevice
from .graph import NO_SOURCE, Failure, Task, describe, details_of, signed
from .tokens import TaskError, freeze, split_outputs

if TYPE_CHECKING:
    from .worker import Worker

#: Statistics are kept in variables, and handed over after so many ns.
TELL = 20_000_000


def straight(worker: Worker) -> Optional[Callable[[], None]]:
    """A function that fires the worker's order until its app ends, from an iteration on in which all is checked."""
    if not _is_straight(worker):
        return None
    tasks = [entry.task for entry in worker.order]
    names: Dict[str, Any] = {
        "worker": worker, "program": worker.program, "app": tasks[0].app, "line": worker.line, "TELL": TELL,
        "clock": time.perf_counter_ns, "ndarray": np.ndarray, "freeze": freeze, "Stopped": Stopped, "ended": _ended,
    }  # fmt: skip
    names["places"] = {0: 0, **{task.number: k for k, task in enumerate(tasks)}}
    for k, task in enumerate(tasks):
        names["task%d" % k] = task
        names["call%d" % k] = signed(task.code.caller(), task.name)
        names["accept%d" % k] = _acceptance(task)
    # No name and no value of a text is in the source. It counts as a file of ours, which tracebacks leave out.
    exec(compile(_source(tasks), os.path.join(os.path.dirname(os.path.abspath(__file__)), "rounds"), "exec"), names)
    made: Callable[[], None] = names["rounds"]
    return made


def _is_straight(worker: Worker) -> bool:
    program = worker.program
    if program.strict or program.recorder is not None or program.tracer is not None:
        return False
    tasks = [entry.task for entry in worker.order]
    app = tasks[0].app
    if len(tasks) != len(app.tasks) or any(t.app is not app for t in tasks):
        return False
    if app.period is not None and not program.full_speed:
        return False
    for entry in worker.order:
        task = entry.task
        if (entry.times, task.per_iteration, entry.stage, entry.replicas, entry.per_round) != (1, 1, 0, 1, 1):
            return False
        if task.code.batch > 1 or isinstance(task.code, OnDevice) or task.turnstile is not None:
            return False
        if any(p.stacked or p.rates != (1,) for p in task.inputs + task.outputs):
            return False
        if not all(isinstance(c, LocalChannel) and not c.delay for c in task.feeders):
            return False
    return True


def _source(tasks: List[Task]) -> str:
    """The rounds as Python: variables are numbered, everything else is looked up in `names`.

    `t` is the time at which a task begins, which is when the one before has ended. A token goes with its last reader.
    `tell` hands over what is known so far, also to somebody who gives up waiting for a firing.
    """
    variable: Dict[int, str] = {}
    for k, task in enumerate(tasks):
        for i, channels in enumerate(task.readers):
            variable.update((id(c), "x%d_%d" % (k, i)) for c in channels)
    reads = [[variable[id(c)] for c in task.feeders] for task in tasks]
    last = max(k for k, t in enumerate(tasks) if t.ends_frame)
    lines: List[str] = []
    for k, task in enumerate(tasks):
        outputs = ["x%d_%d" % (k, i) for i in range(len(task.outputs))]
        lines += ["line[2], line[0] = t, %d" % task.number]
        if k == 0:
            lines += ["begin = t"]
        call = "call%d(%s)" % (k, ", ".join(reads[k]))
        if len(outputs) == 1 and not task.guarded[0]:
            (x,) = outputs
            lines += [
                "%s = %s" % (x, call),
                "if type(%s) is ndarray:" % x,
                "    if %s.base is None: %s.setflags(write=False)" % (x, x),
                "    else: freeze(%s)" % x,
                "else:",
                "    (%s,) = accept%d(%s, n)" % (x, k, x),
            ]
        elif outputs:
            lines += ["(%s,) = accept%d(%s, n)" % (", ".join(outputs), k, call)]
        else:
            lines += [call]
        later = {x for names in reads[k + 1 :] for x in names}
        gone = [x for x in dict.fromkeys([*reads[k], *outputs]) if x not in later]
        lines += ["%s = None" % " = ".join(gone)] if gone else []
        lines += ["e = clock()", "d = e - t", "b%d += d" % k, "q%d += d * d" % k, "if d > m%d: m%d = d" % (k, k)]
        lines += ["t = e"]
        if k == last:
            lines += ["late(t - begin)"]
    counters = range(len(tasks))
    sums = ", ".join("b%d, q%d" % (k, k) for k in counters)
    text = ["def rounds():", "    n = told = worker.round", "    t = since = clock()", "    latencies = []"]
    text += ["    late = latencies.append"]
    text += ["    b%d = q%d = 0; m%d = task%d.longest" % (k, k, k, k) for k in counters]
    text += ["    def tell():", "        nonlocal told, since, t, %s" % sums]
    text += ["        done = places[line[0]]"]  # tasks that have fired in the iteration that is under way
    for k in counters:
        text += ["        worker.tell(task%d, n - told + (%d < done), b%d, q%d, m%d)" % (k, k, k, k, k)]
        text += ["        b%d = q%d = 0" % (k, k)]
    text += ["        app.finished(latencies, t)", "        told = worker.round = n", "        since = t = clock()"]
    text += ["    worker.rest = tell", "    try:", "        while True:"]
    # First what a stop reads, then what it writes: either it sees this iteration, or this iteration sees it.
    text += ["            app.begun = line[1] = n", "            if n >= app.limit: break"]
    text += ["            if program.stopping: raise Stopped"]
    text += ["            " + x for x in lines]
    text += ["            line[0] = 0", "            n += 1", "            if t - since > TELL: tell()"]
    text += ["    except Stopped: raise"]
    text += ["    except BaseException as error: ended(worker, error)"]
    text += ["    finally:", "        worker.rest = None", "        tell()", "        line[0] = 0"]
    return "\n".join(text) + "\n"


def _acceptance(task: Task) -> Callable[[Any, int], List[np.ndarray]]:
    """What a firing returned, as one read-only array for each output. Raises TaskError."""
    outputs, guarded = task.outputs, task.guarded

    def accept(result: Any, firing: int) -> List[np.ndarray]:
        values = split_outputs(result, outputs)
        found = [
            v if isinstance(v, np.ndarray) and not g else p.accept(v, firing)
            for p, v, g in zip(outputs, values, guarded)
        ]
        for array in found:
            freeze(array)
        return found

    return accept


def _ended(worker: Worker, error: BaseException) -> None:
    """A firing raised something: the stream ends there, or everything does."""
    firing = worker.firing
    if firing is None:  # between two firings: our own mistake
        raise error
    task, iteration, _ = firing
    if isinstance(error, EndOfStream) or (isinstance(error, StopIteration) and task.is_source):
        task.app.end_at(iteration)
        return
    if isinstance(error, StopIteration):
        error = TaskError(NO_SOURCE)
    worker.program.fail(Failure(task.app.name, task.name, iteration, describe(error), details_of(error)))
    raise Stopped from None
