"""Straight rounds: what a worker does once its static order leaves nothing to decide.

In: a worker whose order belongs to one app. Out: a function that runs round after round, written
for this order: which tokens a firing takes, from which blocks and in how many pieces, is worked out
once (`Plan`), so that a channel inside the worker is a few variables. Channels to other workers
stay what they are. What a firing is checked for, what is told of it and how it fails is as in
worker.py, which runs the first rounds, and the last ones from wherever the stream ends.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from .chain import Chain, Sums, can_follow
from .channel import EndOfStream, LocalChannel, Stopped
from .code import C, address
from .failures import NO_SOURCE, Failure, describe, details_of
from .graph import Fire, Task, signed
from .plan import MOST_WARM, Block, Firing, Passing, Plan, Segment, name_of
from .tokens import TaskError, freeze, joined, split_outputs

if TYPE_CHECKING:
    from .worker import Worker

#: Statistics are kept in variables, and handed over after so many ns.
TELL = 20_000_000
#: The same where the end of the first frames of a state has to be known.
TELL_OFTEN = 1_000_000
#: Firings of a round up to which it is written out.
MOST_FIRINGS = 1500


class Rounds:
    """The rounds of a worker. Call `enter` between two rounds; it returns where they stopped, or
    None: not yet."""

    def __init__(self, worker: Worker, plan: Plan) -> None:
        self._worker, self._plan = worker, plan
        tasks = plan.tasks
        names: Dict[str, Any] = {
            "worker": worker,
            "run": tasks[0].app.run,
            "app": tasks[0].app,
            "line": worker.line,
            "TELL": TELL if worker.control is None else TELL_OFTEN,
            "clock": time.perf_counter_ns,
            "cpu": time.thread_time_ns,
            "ndarray": np.ndarray,
            "freeze": freeze,
            "Stopped": Stopped,
            "EndOfStream": EndOfStream,
            "leave": self._leave,
            "join": joined,
            "again": _again,
            "DONE": plan.done(),
        }
        for k, task in enumerate(tasks):
            names["task%d" % k] = task
            names["fire%d" % k] = task.code.fire
            for phase, call in enumerate(plan.callers(task)):
                names["call%d_%d" % (k, phase)] = signed(call, task.name)
            names["accept%d" % k] = _acceptance(task)
            names["recorded%d" % k] = task.recorded
            for i, port in enumerate(task.outputs):
                names["dtype%d_%d" % (k, i)] = port.dtype
                if port.count:
                    names["counted%d_%d" % (k, i)] = port.counted  # type: ignore[attr-defined]
            if task.lists is not None:
                names["agree%d" % k] = partial(task.lists.agree, [*task.inputs, *task.outputs])
        for k, channel in enumerate(plan.remote):
            names["acquire%d" % k], names["release%d" % k] = channel.acquire, channel.release
            names["ready%d" % k] = channel.ready
            names["claim%d" % k], names["commit%d" % k] = channel.claim, channel.commit
        for k, channel in enumerate(plan.local):
            names["empty%d" % k] = channel.empty
            if channel.view is not None:
                names["over%d" % k] = channel.view.over
                names["of%d" % k] = getattr(channel.view, "of", None)
                names["of_tokens%d" % k] = getattr(channel.view, "of_tokens", None)
        # No name and no value of a text is in the source. It counts as a file of ours, which
        # tracebacks leave out.
        file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rounds")
        source = _Source(plan)
        text = source.text()
        for k, chain in enumerate(source.chains):
            names["chain%d" % k], names["why%d" % k] = chain.caller(), chain.why
            names["at%d" % k] = chain.addresses
        names.update(
            address=address, empty=np.empty, contiguous=np.ascontiguousarray, take=source.sums.take
        )
        names.update(source.tables)
        exec(compile(text, file, "exec"), names)
        self._rounds: Callable[[Dict[str, Any]], int] = names["rounds"]

    def enter(self) -> Optional[int]:
        """Run as many rounds as possible; the entry of the order to go on with."""
        # One round more than channels need to look the same, so that all of them have been as full
        # as they get.
        if self._worker.round <= self._plan.warm:
            return None
        blocks = self._plan.read()
        return None if blocks is None else self._rounds(blocks)

    def _leave(self, error: Optional[BaseException], position: int, blocks: Dict[str, Any]) -> int:
        """Put what lies in variables back on the channels; the entry to go on with."""
        worker, plan = self._worker, self._plan
        run = plan.tasks[0].app.run
        if run.strayed:  # what the board says is the other process's
            at = plan.firings[position]
            run.end_stray(at.task, blocks["f%d" % plan.tasks.index(at.task)] + at.offset)
        firing, worker.line[0] = worker.firing, 0
        if error is not None:
            _ended(worker, plan.firings[position].entry, firing, error)
        plan.write(position, blocks)
        return 0 if error is None else plan.firings[position].number + 1


def _ended(
    worker: Worker, entry: Fire, inside: Optional[Tuple[Task, int, int]], error: BaseException
) -> None:
    """A round was left: the stream ends there, or everything does (Stopped)."""
    if inside is None:
        if not isinstance(error, EndOfStream):
            raise error  # between two firings: our own mistake
        return
    task, number, _ = inside
    if isinstance(error, EndOfStream) or (isinstance(error, StopIteration) and task.is_source):
        task.app.end_at(worker.round - entry.stage)
        return
    if isinstance(error, StopIteration):
        error = TaskError(NO_SOURCE)
    task.app.run.fail(Failure(task.app.name, task.name, number, describe(error), details_of(error)))
    raise Stopped from None


def rounds_of(worker: Worker) -> Optional[Rounds]:
    """The rounds of a worker, or None where others want to know more, or its order is another."""
    limited = worker.scheduling is not None and worker.scheduling.limited
    if limited or not _is_straight(worker.order):
        return None
    plan = Plan(worker)
    lists = _lists(worker.order)
    if lists is not None:
        plan.stretches = lists.stretches(plan)
        if not plan.stretches.fits:
            return None
    return Rounds(worker, plan) if plan.warm <= MOST_WARM else None


def _is_straight(order: Sequence[Fire]) -> bool:
    """Does an order of one app leave nothing to decide, while nothing looks at single firings?"""
    app = order[0].task.app
    run = app.run
    if run.tracer is not None or run.transport is not None or run.played is not None:
        return False
    if any(task.on_error != "stop" for task in app.tasks):
        return False
    lists = _lists(order)
    if lists is not None and not lists.stays(order):
        return False
    if sum(entry.times for entry in order) > MOST_FIRINGS:
        return False
    return all(entry.task.app is app and _is_plain(entry) for entry in order)


def _lists(order: Sequence[Fire]) -> Any:
    """Some port of lists of the app; None if it has no lists."""
    return next((t.lists for t in order[0].task.app.tasks if t.lists is not None), None)


def _is_plain(entry: Fire) -> bool:
    """Does one worker fire the task, on a CPU, each firing by itself?"""
    task = entry.task
    if entry.replicas > 1 or entry.per_round > 1 or task.turnstile is not None:
        return False
    if task.code.batch > 1 or task.code.device is not None or task.from_device:
        return False
    if task.per_iteration % task.phases:
        return False
    return all(port.dtype != object for port in task.inputs + task.outputs)


# -- the same as Python ----------------------------------------------------------------------------
class _Source:
    """Variables are numbered, everything else is looked up: `t` is the time at which a firing
    begins.

    `k` says between which firings the round is. A block goes with its last reader. `tell` hands
    over what is known so far, also to a thread that gives up waiting for a firing.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._number = {task: k for k, task in enumerate(plan.tasks)}
        self._remote = {channel: k for k, channel in enumerate(plan.remote)}
        self._local = {channel: k for k, channel in enumerate(plan.local)}
        app = plan.tasks[0].app
        self._stages = sorted({f.entry.stage for f in plan.sequence})
        #: Everything of the app is here: no other worker has to know of frames that have begun.
        self._alone = len(plan.tasks) == len(app.tasks) and not plan.remote and self._stages == [0]
        self._paced = app.period is not None and not app.run.full_speed
        self._starters = [f.position for f in plan.firings if f.task.starts_frame and not f.offset]
        self._enders = [
            f.position for f in plan.firings if f.task.ends_frame and f.closes_iteration
        ]
        self._alone &= not any(t.live for t in plan.tasks)
        self._recorded = app.run.recorder is not None
        self._last = self._last_uses()
        first = plan.firings[0].task
        #: Does it wait for the release of its first firing, so that no frame has begun before?
        self._begins_late = self._alone and self._paced and first.is_source and not first.live
        #: Does the code before the next firing know when that begins?
        self._timed = False
        #: Which firings depend on lists, and what depends on the lengths of these.
        self._guards: Dict[int, Any] = {} if plan.stretches is None else plan.stretches.guards
        self.tables: Dict[str, Any] = {}
        self.sums = Sums(len(plan.tasks))
        # Who records wants to see every token, so that none of them is the chain's own.
        last = {} if self._recorded else dict(self._last)
        for firing in self._plan.firings if last else ():
            if firing.task.recorded is not None:
                for i in range(len(firing.task.outputs)):
                    last.pop(name_of((firing.position, i, 0)), None)
        self.chains = [Chain(plan, firings, last, self.sums) for firings in self._chained()]

    def _chained(self) -> List[List[Firing]]:
        """Firings between which nothing has to be said or waited for."""
        found: List[List[Firing]] = [[]]
        for firing in self._plan.firings:
            task, position = firing.task, firing.position
            starts = position in (self._starters[:1] if self._alone else self._starters)
            begins = starts or task.releases or (task.opens and not self._alone)
            ends = position in (self._enders[-1:] if self._alone else self._enders) or task.paths
            fits = can_follow(task) and position not in self._guards and not self._waits(firing)
            if begins or not fits:
                found.append([])
            if fits:
                found[-1].append(firing)
            if ends:
                found.append([])
        return [firings for firings in found if len(firings) > 1]

    def _last_uses(self) -> Dict[str, int]:
        """The last reader of a block in the round, or its maker; blocks that stay are left out."""
        last: Dict[str, int] = {}
        for firing in self._plan.firings:
            for i in range(len(firing.task.outputs)):
                last[name_of((firing.position, i, 0))] = firing.position
            for segment in [s for take in firing.takes for s in take or ()]:
                last[name_of(segment[0])] = firing.position
        if self._recorded:  # what only passes is told of, too, whenever that is
            passing = [item for item in self._plan.sequence if isinstance(item, Passing)]
            last.update(
                (name_of(block), len(self._plan.firings))
                for item in passing
                for block, *_ in item.takes
            )
        for segments in self._plan.start.values():
            for (position, output, age), *_ in segments:
                last.pop(name_of((position, output, age - 1)), None)
        return last

    def text(self) -> str:
        """The function `rounds`."""
        lines = [*self._variables(), *self._tell()]
        lines += ["    worker.rest = tell", "    error = None", "    try:", "        while True:"]
        lines += ["            " + line for line in self._round()]
        lines += ["            if clock() - since > TELL: tell()"]
        lines += ["    except Stopped: raise", "    except BaseException as e: error = e"]
        lines += ["    finally:", "        worker.rest = None", "        tell()"]
        lines += ["    return leave(error, k, locals())"]
        return "\n".join(lines) + "\n"

    def _variables(self) -> List[str]:
        """What is known when the rounds begin."""
        kept = {name_of(s[0]) for segments in self._plan.start.values() for s in segments}
        lines = [
            "def rounds(blocks):",
            "    n = worker.round; k = 0",
            "    t = since = clock()",
            "    latencies = []",
        ]
        if self._alone:
            lines.append("    late = latencies.append")
        for name in sorted(kept):
            lines.append('    %s = blocks["%s"]' % (name, name))
        guarded = [f for f in self._plan.firings if f.position in self._guards]
        for j in sorted({self._number[f.task] for f in guarded}):
            lines.append("    z%d = 0" % j)
        for firing in guarded:
            made = [name_of((firing.position, i, 0)) for i in range(len(firing.task.outputs))]
            lines += ["    %s = None" % name for name in made]
        for j, count in enumerate(self._plan.done()[-1]):
            lines.append(
                "    b%d = q%d = 0; m%d = task%d.longest; c%d = n * %d" % (j, j, j, j, j, count)
            )
        return lines

    def _tell(self) -> List[str]:
        """The function that hands over what was done since it was called last."""
        tasks = range(len(self._plan.tasks))
        guarded = [f for f in self._plan.firings if f.position in self._guards]
        left_out = sorted({self._number[f.task] for f in guarded})
        lines = [
            "    def tell():",
            "        nonlocal since, t, %s"
            % ", ".join(
                [
                    *("b%d, q%d, c%d, m%d" % (j, j, j, j) for j in tasks),
                    *("z%d" % j for j in left_out),
                ]
            ),
            "        done = DONE[k]",
        ]
        for j in sorted({self._number[f.task] for chain in self.chains for f in chain.firings}):
            lines += ["        busy, squares, longest = take(%d)" % j]
            lines += ["        b%d += busy; q%d += squares; m%d = max(m%d, longest)" % (j, j, j, j)]
        count = self._plan.done()[-1]
        for j in tasks:
            lines += ["        d = n * %d + done[%d]" % (count[j], j)]
            if j in left_out:
                lines += ["        task%d.absent += z%d; c%d += z%d; z%d = 0" % ((j,) * 5)]
            lines += [
                "        worker.tell(task%d, d - c%d, b%d, q%d, m%d); b%d = q%d = 0; c%d = d"
                % ((j,) * 8)
            ]
        if self._alone:
            lines.append("        app.finished(latencies, t)")
        return [*lines, "        worker.round = n", "        since = t = clock()"]

    def _round(self) -> List[str]:
        """One round."""
        lines = []
        # First what a stop reads, then what it writes: either it sees this iteration, or this
        # iteration sees it.
        if self._alone and not self._begins_late:
            lines.append("app.begun = n")
        lines.append("if n >= app.limit and app.over(n): break")
        lines += self._numbers()
        self._timed = False
        chains = {chain.first: (k, chain) for k, chain in enumerate(self.chains)}
        inside = {firing for chain in self.chains for firing in chain.firings}
        done: Set[Any] = set()
        for firing in self._plan.sequence:
            if firing in done:
                continue
            if isinstance(firing, Passing):
                if self._recorded:
                    lines.append(self._passed_on(firing))
            elif firing.position in self._guards:
                run = self._plan.stretches.run(firing.position)
                lines += self._stretch(run, done)
            elif firing.position in chains:
                lines += self._chain(*chains[firing.position])
            elif firing not in inside:
                lines += self._firing(firing)
        return [*lines, *self._ageing(), "line[0] = 0", "n += 1; k = 0"]

    def _stretch(self, run: List[Firing], done: Set[Any]) -> List[str]:
        """Firings that depend on one list, as many as there are tokens; `done` gets what is
        written with them."""
        sequence = self._plan.sequence
        between = sequence[sequence.index(run[0]) : sequence.index(run[-1]) + 1]
        done.update(between)
        passing = [item for item in between if isinstance(item, Passing)] if self._recorded else []
        lines = [self._passed_on(item) for item in passing]
        if not self._timed:
            lines += ["t = clock()"]
        self._timed = True
        block, token = self._guards[run[0].position][0], -1
        length, first = "l" + name_of(block), run[0].position
        body: List[str] = []
        for firing in run:
            if self._guards[firing.position][1] != token:
                token = self._guards[firing.position][1]
                body += ["if %s <= %d: break" % (length, token)]
            body += self._firing(firing)
        lines += ["while True:", *("    " + line for line in body), "    break"]
        lengths = range(self._plan.stretches.most(block) + 1)
        for task in dict.fromkeys(firing.task for firing in run):
            j, tokens = (
                self._number[task],
                [self._guards[f.position][1] for f in run if f.task is task],
            )
            table = "gone%d_%d" % (first, j)
            self.tables[table] = [sum(t >= there for t in tokens) for there in lengths]
            lines += ["z%d += %s[%s]" % (j, table, length)]
        for firing in run if self._recorded else ():
            given = (
                length,
                self._guards[firing.position][1],
                self._number[firing.task],
                self._number[firing.task],
                firing.offset,
            )
            lines += ["if %s <= %d: run.recorder(task%d, f%d + %d, 1, None, None)" % given]
        positions = range(first, run[-1].position + 1)
        gone = [name for name, position in self._last.items() if position in positions]
        lines += ["%s = None" % " = ".join(gone)] if gone else []
        for firing in run:
            lines += self._ended(firing)
        return lines

    def _numbers(self) -> List[str]:
        """The number of each task's first firing in the round."""
        lines = []
        for stage in self._stages:
            tasks = {self._number[f.task] for f in self._plan.sequence if f.entry.stage == stage}
            for j in sorted(tasks):
                rate = self._plan.tasks[j].per_iteration
                iteration = "n - %d" % stage
                if rate > 1:
                    iteration = "(%s) * %d" % (iteration, rate)
                lines.append("f%d = %s" % (j, iteration))
        return lines

    def _ageing(self) -> List[str]:
        """What stays on a channel is a round older now."""
        kept: Set[Block] = {s[0] for segments in self._plan.start.values() for s in segments}
        lines = []
        for position, output, age in sorted(kept, key=lambda b: -b[2]):
            young = (position, output, age - 1)
            lines.append("%s = %s" % (name_of((position, output, age)), name_of(young)))
            if young not in kept:
                lines.append("%s = None" % name_of(young))
        return lines

    def _firing(self, firing: Firing) -> List[str]:
        task, position = firing.task, firing.position
        j = self._number[task]
        lines = ["k = %d" % position]
        if firing.opens:
            lines += ["if run.stopping: raise Stopped"]
        inputs = [
            self._tokens(task, i, firing.offset, take) if take is not None else "a%d" % i
            for i, take in enumerate(firing.takes)
        ]
        lines += self._begun(firing, self._waits(firing))
        if self._recorded or task.lists is not None:
            lines += ["i%d = %s" % (i, text) for i, text in enumerate(inputs)]
            inputs = ["i%d" % i for i in range(len(inputs))]
        if self._plan.callers(task):
            call = "call%d_%d(%s)" % (j, firing.phase, ", ".join(inputs))
        else:
            call = "fire%d((%s), f%d + %d)" % (
                j,
                "".join("%s, " % text for text in inputs),
                j,
                firing.offset,
            )
        lines += self._call(firing, call)
        if self._recorded:
            lines += [self._record(firing, inputs)]
        lines += self._tell_tokens(firing)
        lines += self._measured(firing) + self._hand_on(firing)
        if task.lists is not None and task.inputs:
            lines += ["%s = None" % " = ".join("i%d" % i for i in range(len(task.inputs)))]
        # what is left out ends frames, too
        return lines if position in self._guards else lines + self._ended(firing)

    def _begun(self, firing: Firing, waits: List[str]) -> List[str]:
        """What it waits for, when it begins, and what begins with it."""
        task, position, lines = firing.task, firing.position, list(waits)
        if self._begins_late and not position:
            lines += ["app.begun = n", "if n >= app.limit and app.over(n): raise EndOfStream"]
        if task.opens and not firing.offset and not self._alone:
            lines = ["line[0] = 0", "app.begin(n - %d)" % firing.entry.stage, *lines]
        if waits or not self._timed:
            lines += ["t = clock()"]
        release = "release" if self._paced and task.is_source else "t"
        if self._alone and self._starters and position == self._starters[0]:
            lines += ["begin = %s" % release]
        elif not self._alone and position in self._starters and not task.live:
            lines += ["app.started(n - %d, %s)" % (firing.entry.stage, release)]
        if task.releases and not task.live:
            lines += [self._released(firing, release)]
        return lines

    def _record(self, firing: Firing, inputs: Sequence[str]) -> str:
        """Tell what it read and made."""
        j, outputs = (
            self._number[firing.task],
            [name_of((firing.position, i, 0)) for i in range(len(firing.task.outputs))],
        )
        given = (j, j, firing.offset, ", ".join(inputs), ", ".join(outputs))
        return "run.recorder(task%d, f%d + %d, 1, [%s], [%s])" % given

    def _tell_tokens(self, firing: Firing) -> List[str]:
        """Tell what it wrote, where that is recorded."""
        if firing.task.recorded is None:
            return []
        outputs = [name_of((firing.position, i, 0)) for i in range(len(firing.task.outputs))]
        j = self._number[firing.task]
        return ["recorded%d(f%d + %d, 1, [%s])" % (j, j, firing.offset, ", ".join(outputs))]

    def _passed_on(self, passing: Passing) -> str:
        """Tell what passes."""
        j = self._number[passing.task]
        tokens = self._tokens(passing.task, 0, passing.offset, passing.takes)
        return "run.recorder(task%d, f%d + %d, 1, [%s], [])" % (j, j, passing.offset, tokens)

    def _measured(self, firing: Firing) -> List[str]:
        """Paths that end with it."""
        j, paths = self._number[firing.task], firing.task.paths
        return [
            "task%d.paths[%d].ended(f%d + %d, t)" % (j, i, j, firing.offset)
            for i in range(len(paths))
        ]

    def _ended(self, firing: Firing) -> List[str]:
        """Frames that end with it."""
        if firing.position not in self._enders:
            return []
        if not self._alone:
            return ["app.ended(n - %d, t)" % firing.entry.stage]
        return ["late(t - begin)"] if firing.position == self._enders[-1] else []

    def _chain(self, number: int, chain: Chain) -> List[str]:
        """Several firings in C by one call."""
        first, last = chain.firings[0], chain.firings[-1]
        lines = [
            "k = %d" % first.position,
            "if run.stopping: raise Stopped",
            *self._begun(first, []),
        ]
        copies: List[str] = []
        for base in chain.bases:
            given, name = (number, base.number), name_of(base.block)
            position, output, _ = base.block
            firing = self._plan.firings[position]
            if base.made:
                port = firing.task.outputs[output]
                shape = (name, port.block_shape(firing.offset), self._number[firing.task], output)
                lines += [
                    "%s = empty(%r, dtype%d_%d)" % shape,
                    "at%d[%d] = address(%s)" % (*given, name),
                ]
            elif position >= 0 and type(firing.task.code) is C:
                lines += ["at%d[%d] = address(%s)" % (*given, name)]
            else:
                # What others make need not lie in one piece; the copy lives until the chain is
                # over.
                copies += ["h%d" % base.number]
                lines += [
                    "%s = contiguous(%s); at%d[%d] = address(%s)"
                    % (copies[-1], name, *given, copies[-1])
                ]
        lines += ["d = chain%d(n)" % number, "if d < %d:" % len(chain.firings)]
        lines += ["    k = %d + d" % first.position, "    raise why%d(d)" % number]
        lines += ["t = clock()"]
        lines += ["%s.setflags(False)" % name_of(base.block) for base in chain.bases if base.made]
        for firing in chain.firings if self._recorded else ():
            takes = enumerate(firing.takes)
            inputs = [
                self._tokens(firing.task, i, firing.offset, take)
                for i, take in takes
                if take is not None
            ]
            lines += [self._record(firing, inputs)]
        for firing in chain.firings:
            lines += self._tell_tokens(firing)
        self._timed = True
        shared = {name_of(base.block) for base in chain.bases}
        gone = [x for x in shared if first.position <= self._last.get(x, -1) <= last.position]
        gone += copies
        lines += self._measured(last) + (["%s = None" % " = ".join(gone)] if gone else [])
        return lines + self._ended(last)

    def _waits(self, firing: Firing) -> List[str]:
        """For its release, for tokens and for room: what may take long, and may find that the
        stream has ended."""
        task, lines = firing.task, []
        if task.is_source and self._paced and not task.live:
            number = self._number[task]
            lines += [
                "release = run.wait_for_release(worker, task%d, f%d + %d)"
                % (number, number, firing.offset)
            ]
        for port, channel in zip(task.inputs, task.feeders) if task.hesitates else ():
            if channel in self._remote:
                lines += ["ready%d(%d, worker)" % (self._remote[channel], port.rate(firing.offset))]
        for i, (port, channel) in enumerate(zip(task.inputs, task.feeders)):
            if channel in self._remote:
                asked = (i, self._remote[channel], port.rate(firing.offset), port.stacked)
                lines += ["a%d = acquire%d(%d, %s, worker)" % asked]
        for port, channels in zip(task.outputs, task.readers):
            for channel in channels:
                if channel in self._remote:
                    lines += [
                        "claim%d(%d, worker)" % (self._remote[channel], port.rate(firing.offset))
                    ]
        return ["line[0] = 0", "worker.at(n - %d)" % firing.entry.stage, *lines] if lines else []

    def _call(self, firing: Firing, call: str) -> List[str]:
        """The call of the task's code, with what it returns checked and made read-only, and its
        time."""
        task, j, offset = firing.task, self._number[firing.task], firing.offset
        outputs = [name_of((firing.position, i, 0)) for i in range(len(task.outputs))]
        lines = ["line[1] = f%d + %d; line[2] = t; line[0] = %d" % (j, offset, task.number)]
        accept = "accept%d(%s, f%d + %d)" % (j, "%s", j, offset)
        if task.live:
            lines += ["spent = cpu()"]
        if not outputs:
            lines += [call]
        else:
            given = outputs if len(outputs) == 1 else ["r"]
            good = " and ".join(self._good(task, j, i, offset, x) for i, x in enumerate(outputs))
            lines += ["%s = %s" % (given[0], call)]
            if len(outputs) > 1:
                nothing = ", ".join(["None"] * len(outputs))
                lines += [
                    "%s = r if type(r) is tuple and len(r) == %d else (%s)"
                    % (", ".join(outputs), len(outputs), nothing)
                ]
            lines += ["if %s:" % good]
            for x in outputs:
                lines += [
                    "    if %s.base is None: %s.setflags(False)" % (x, x),
                    "    else: freeze(%s)" % x,
                ]
            lines += ["else: %s, = %s" % (", ".join(outputs), accept % given[0])]
            lines += ["r = None"] if len(outputs) > 1 else []
        lines += self._lists_of(task, outputs)
        if type(task.code) is not C:
            lines += ["if run.strayed: run.end_stray(task%d, f%d + %d)" % (j, j, offset)]
        if task.live:
            lines += [
                "e = clock(); d = cpu() - spent; came = task%d.arrival(e)" % j,
                "app.started(n - %d, came)" % firing.entry.stage,
            ]
            lines += [self._released(firing, "came")] if task.releases else []
        else:
            lines += ["e = clock(); d = e - t"]
        lines += ["b%d += d; q%d += d * d" % (j, j), "if d > m%d: m%d = d" % (j, j), "t = e"]
        self._timed = True
        return lines

    def _lists_of(self, task: Task, outputs: Sequence[str]) -> List[str]:
        """How long the lists of a firing are, and whether those with one count are as long."""
        lines, j = [], self._number[task]
        first: Dict[str, str] = {}
        blocks = ["i%d" % i for i in range(len(task.inputs))] + [*outputs]
        for port, block in zip([*task.inputs, *task.outputs], blocks):
            other = first.setdefault(port.count, block)
            if port.count and other is not block:
                given = (other, block, j, ", ".join(blocks))
                lines += ["if len(%s) != len(%s): agree%d([%s])" % given]
        for i, (port, block) in enumerate(zip(task.outputs, outputs)):
            if port.count:
                lines += ["l%s = len(%s); counted%d_%d(l%s)" % (block, block, j, i, block)]
        return lines

    def _released(self, firing: Firing, time: str) -> str:
        """Keep when a source was released, for the paths that begin there."""
        j = self._number[firing.task]
        if firing.task.told is not None:
            return "task%d.released(f%d + %d, %s)" % (j, j, firing.offset, time)
        return "task%d.releases[(f%d + %d) %% %d] = %s" % (
            j,
            j,
            firing.offset,
            len(firing.task.releases),
            time,
        )

    def _good(self, task: Task, j: int, i: int, offset: int, x: str) -> str:
        port = task.outputs[i]
        if port.bounded:  # `accept` looks at the sizes
            return "False"
        if port.count:
            given = (x, x, j, i, x, port.shape, x, port.rates[0])
            return (
                "type(%s) is ndarray and %s.dtype is dtype%d_%d and %s.shape[1:] == %r"
                " and len(%s) <= %d" % given
            )
        shape = port.block_shape(offset)
        return "type(%s) is ndarray and %s.dtype is dtype%d_%d and %s.shape == %r" % (
            x,
            x,
            j,
            i,
            x,
            shape,
        )

    def _hand_on(self, firing: Firing) -> List[str]:
        """Tokens and room for other workers, and what is not needed any more."""
        task, lines = firing.task, []
        for i, (port, channels) in enumerate(zip(task.outputs, task.readers)):
            for channel in channels:
                if channel in self._remote:
                    name = name_of((firing.position, i, 0))
                    given = (self._remote[channel], name, port.rate(firing.offset), port.stacked)
                    lines += ["commit%d(%s, %d, %s)" % given]
        for i, (port, feeder) in enumerate(zip(task.inputs, task.feeders)):
            if feeder in self._remote:
                lines += [
                    "a%d = None; release%d(%d)"
                    % (i, self._remote[feeder], port.rate(firing.offset))
                ]
        gone = [name for name, position in self._last.items() if position == firing.position]
        return lines + (["%s = None" % " = ".join(gone)] if gone else [])

    def _tokens(self, task: Task, i: int, offset: int, take: List[Segment]) -> str:
        """What a firing gets through one input that is fed in this worker."""
        channel = task.feeders[i]
        assert isinstance(channel, LocalChannel)
        if not task.inputs[i].stacked:
            ((block, start, _, single),) = take
            return name_of(block) if single else "%s[%d, ...]" % (name_of(block), start)
        if task.inputs[i].count:
            return self._list(task, i, take)
        if not take and channel.view is None:
            return "empty%d" % self._local[channel]
        if (
            len(take) > 1
            and take.count(take[0]) == len(take)
            and take[0][2] == 1
            and channel.view is None
        ):
            block, start, _, single = take[0]
            one = name_of(block) if single else "%s[%d, ...]" % (name_of(block), start)
            return "again(%s, %d)" % (one, len(take))
        pieces = [
            "%s[None]" % name_of(block) if single else self._slice(block, start, count)
            for block, start, count, single in take
        ]
        if channel.view is not None:
            return "over%d([%s], %d)" % (
                self._local[channel],
                ", ".join(pieces),
                task.inputs[i].rate(offset),
            )
        return pieces[0] if len(pieces) == 1 else "join((%s))" % ", ".join(pieces)

    def _list(self, task: Task, i: int, take: List[Segment]) -> str:
        """The list that a firing reads: as it was written, or of what fired for its tokens."""
        channel = task.feeders[i]
        assert isinstance(channel, LocalChannel)
        (first, _, _, single), number = take[0], self._local[channel]
        block, there = self._plan.stretches.read(take)
        if block is None:
            return "of%d([%s])" % (number, name_of(first))
        made = "".join("%s, " % name_of(segment[0]) for segment in take)
        self.tables["have%d" % first[0]] = there
        given = ("_tokens" if single else "", number, made, first[0], name_of(block))
        return "of%s%d((%s)[:have%d[l%s]])" % given

    def _slice(self, block: Block, start: int, count: int) -> str:
        position, output, _ = block
        firing = self._plan.firings[position]
        whole = (start, count) == (0, firing.task.outputs[output].rate(firing.offset))
        return name_of(block) if whole else "%s[%d:%d]" % (name_of(block), start, start + count)


def _again(token: np.ndarray, times: int) -> np.ndarray:
    return np.broadcast_to(token, (times,) + token.shape)


def _acceptance(task: Task) -> Callable[[Any, int], List[np.ndarray]]:
    """What a firing returned, as one read-only array for each output. Raises TaskError."""
    outputs = task.outputs

    def accept(result: Any, firing: int) -> List[np.ndarray]:
        found = [p.accept(v, firing) for p, v in zip(outputs, split_outputs(result, outputs))]
        for array in found:
            freeze(array)
        return found

    return accept
