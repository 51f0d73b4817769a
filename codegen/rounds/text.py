"""The text of written rounds: a function for a worker whose static order leaves nothing to decide.

In: the plan of a worker. Out: lines of Python, a function of the worker's `Rounds` in the runtime,
which has everything that is not known before the program starts. A channel inside the worker is a
few variables; those to other workers stay what they are. What a firing is checked for, what is told
of it and how it fails is as in the runtime's `worker.py`, which does the first rounds, and the last
ones from wherever the stream ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...model.deployment import DeployedPort
from ...runtime.plan import Block, Segment
from ..names import literal, one_line
from .chains import Chain, can_follow, chain_of, rate
from .lists import Guards
from .names import Names
from .plan import Firing, Plan

#: Characters that a condition may have in a line.
_WIDTH = 76
#: One level of indentation.
_IN = "    "


def function_text(name: str, plan: Plan, guards: Guards | None, *, recorded: bool) -> list[str]:
    """The lines of the function. Where rounds are `recorded`, every firing is told with what it
    read and made."""
    return _Function(plan, guards, recorded).lines(name)


def _is_alone(plan: Plan) -> bool:
    """Is everything of the app here? No other worker has to know then of frames that have begun."""
    tasks = plan.order.tasks
    if len(tasks) < len(plan.order.app.tasks) or plan.stages != [0]:
        return False
    if any(task.live for task in tasks):
        return False
    return all(plan.order.is_inside(channel) for task in tasks for channel in task.feeders)


class _Function:
    """`n` is the number of the round, `k` says between which firings it is, `t` is when the next
    one begins. A block goes with its last reader. `flush_stats` hands over what is known so far,
    also to a thread that gives up waiting for a firing.
    """

    def __init__(self, plan: Plan, guards: Guards | None, recorded: bool) -> None:
        self._plan, self._order, self._tasks = plan, plan.order, plan.order.tasks
        self._recorded = recorded
        self._guards = guards
        self._guarded = {} if guards is None else guards.by_position
        self._names = Names(self._tasks)
        self._alone = _is_alone(plan)
        self._starters = [f.position for f in plan.firings if f.task.starts_frame and not f.offset]
        self._enders = [
            f.position for f in plan.firings if f.task.ends_frame and f.closes_iteration
        ]
        #: Does it wait for the release of its first firing, so that no frame has begun before?
        self._begins_late = self._alone and self._is_paced(plan.firings[0])
        #: Does the code before the next firing know when that begins?
        self._timed = False
        #: What is bound before the rounds begin: expressions by variable.
        self._bound: dict[str, str] = {}
        self._last = self._last_uses()
        #: Blocks by the position of their last readers.
        self._go: dict[int, list[str]] = {}
        for block, position in self._last.items():
            self._go.setdefault(position, []).append(self._names.block(block))
        self._chains = self._find_chains()

    # -- what is worked out first ------------------------------------------------------------------
    def _last_uses(self) -> dict[Block, int]:
        """The last reader of a block in the round, or its maker; blocks that stay are left out."""
        last: dict[Block, int] = {}
        for firing in self._plan.firings:
            for block in firing.outputs:
                last[block] = firing.position
            for take in firing.takes:
                for segment in take or ():
                    last[segment.block] = firing.position
        if self._recorded:  # what only passes is told of, too, whenever that is
            for firing in self._plan.sequence:
                for take in firing.takes if firing.passes else ():
                    for segment in take or ():
                        last[segment.block] = len(self._plan.firings)
        for block in self._plan.kept:
            last.pop(block._replace(age=block.age - 1), None)
        return last

    def _find_chains(self) -> list[Chain]:
        """The chains of the round. What a task with a window sees lies with chains, or with the
        channel: if they do not have all of its firings, they have none."""
        left_out: set[int] = set()
        # A recording has every token, so that none of them is the chain's own.
        last = {} if self._recorded else self._last
        while True:
            groups = self._chained(left_out)
            inside = {firing.position for firings in groups for firing in firings}
            outside = {f.number for f in self._plan.firings if f.position not in inside}
            torn = {
                firing.number
                for firings in groups
                for firing in firings
                if firing.number in outside and any(p.window for p in firing.task.inputs)
            }
            if not torn:
                return [chain_of(self._plan, firings, last) for firings in groups]
            left_out |= torn

    def _chained(self, left_out: set[int]) -> list[list[Firing]]:
        """Firings between which nothing has to be said or waited for."""
        found: list[list[Firing]] = [[]]
        for firing in self._plan.firings:
            fits = self._fits_a_chain(firing) and firing.number not in left_out
            if not fits or self._says_before(firing):
                found.append([])
            if fits:
                found[-1].append(firing)
            if self._says_after(firing):
                found.append([])
        return [firings for firings in found if len(firings) > 1]

    def _fits_a_chain(self, firing: Firing) -> bool:
        guarded = firing.position in self._guarded
        return can_follow(firing.task) and not guarded and not self._waits(firing)

    def _says_before(self, firing: Firing) -> bool:
        """Is something said or waited for before it: a frame begins, or a release is kept?"""
        task = firing.task
        starters = self._starters[:1] if self._alone else self._starters
        if firing.position in starters or (task.opens and not self._alone):
            return True
        return self._is_paced(firing) or (task.is_source and task.keeps_releases)

    def _says_after(self, firing: Firing) -> bool:
        """Is something said behind it: a frame ends, or a path that is measured?"""
        enders = self._enders[-1:] if self._alone else self._enders
        return firing.position in enders or firing.task.measured

    def _is_paced(self, firing: Firing) -> bool:
        """Does it wait for its release, unless at full speed?"""
        task = firing.task
        return self._order.app.paced and task.is_source and not task.live

    def _counts(self) -> list[int]:
        """How often each task fires in a round."""
        counts = [0] * len(self._tasks)
        for firing in self._plan.sequence:
            counts[firing.number] += 1
        return counts

    # -- the function ------------------------------------------------------------------------------
    def lines(self, name: str) -> list[str]:
        """All of it."""
        body = [*self._variables(), *self._tell(), *self._loop()]
        head = [f"def {name}(ctx):", *_in(self._head())]
        rounds = ["def rounds(blocks):", *_in(body)]
        return [*head, "", *_in(rounds), "", f"{_IN}return rounds"]

    def _head(self) -> list[str]:
        """What is bound once."""
        tasks = ", ".join(self._names.tasks)
        return [
            f'"""{_in_doc(self._order.name)}: tasks of {_in_doc(self._order.app.name)}."""',
            "worker, run, app, line = ctx.worker, ctx.run, ctx.app, ctx.worker.line",
            f"{tasks}{',' if len(self._tasks) == 1 else ''} = ctx.tasks",
            *self._expected(),
            "DONE, TELL, paced = ctx.done, ctx.tell_after, ctx.paced",
            "Stopped, EndOfStream = ctx.Stopped, ctx.EndOfStream",
            "freeze, join, again, leave = ctx.freeze, ctx.join, ctx.again, ctx.leave",
            *(
                line
                for k, chain in enumerate(self._chains, 1)
                for line in self._chain_head(k, chain)
            ),
            *(f"{variable} = {value}" for variable, value in self._bound.items()),
        ]

    def _expected(self) -> list[str]:
        """What the program is compared with, and what lies on channels between two rounds."""
        start = {}
        for k, task in enumerate(self._tasks):
            for i, channel in enumerate(task.feeders):
                if self._order.is_inside(channel):
                    start[k, i] = [
                        (*segment.block, segment.first, segment.tokens)
                        for segment in self._plan.start[channel]
                    ]
        guarded = {
            (f.number, f.offset): (
                *self._guarded[f.position].block[:3],
                self._guarded[f.position].token,
            )
            for f in self._plan.firings
            if f.position in self._guarded
        }
        in_c = [k for k, task in enumerate(self._tasks) if task.in_c]
        releases = [k for k, task in enumerate(self._tasks) if task.keeps_releases]
        lines = [
            "ctx.expect(",
            f"{_IN}warm={self._plan.warm},",
            f"{_IN}blocks={literal(self._names.outputs)},",
            f"{_IN}# by task and input, blocks: task, output, firing, age; first token, tokens",
            f"{_IN}start={{",
        ]
        lines += [f"{_IN}{_IN}{literal(key)}: {literal(value)}," for key, value in start.items()]
        lines += [f"{_IN}}},"]
        for word, value in (
            ("in_c", in_c),
            ("releases", releases),
            ("passing", sorted(self._plan.passing)),
            ("guards", guarded),
        ):
            if value:
                lines.append(f"{_IN}{word}={literal(value)},")
        return [*lines, ")"]

    def _bind(self, variable: str, value: str) -> str:
        """A variable that has that value from the start."""
        self._bound[variable] = value
        return variable

    def _of(self, word: str, number: int, value: str) -> str:
        """The same for what belongs to a task; its name stands for `{}` in the value."""
        return self._bind(
            self._names.of(word, number), value.replace("{}", self._names.tasks[number])
        )

    def _variables(self) -> list[str]:
        """What is known when the rounds begin."""
        lines = ["n, k = worker.round, 0", "t = since = clock()", "latencies = []"]
        if self._alone:
            lines.append("late = latencies.append")
        for name in sorted(self._names.block(block) for block in self._plan.kept):
            lines.append(f'{name} = blocks["{name}"]')
        guarded = [f for f in self._plan.firings if f.position in self._guarded]
        for number in sorted({f.number for f in guarded}):
            lines.append(f"{self._names.of('left', number)} = 0")
        for firing in guarded:
            lines += [f"{self._names.block(block)} = None" for block in firing.outputs]
        for number, count in enumerate(self._counts()):
            own = self._names.tasks[number]
            lines += [
                f"busy_{own} = squares_{own} = 0",
                f"longest_{own} = {own}.longest",
                f"flushed_{own} = n * {count}",
            ]
        return lines

    def _tell(self) -> list[str]:
        """The function that hands over what was done since it was called last."""
        left_out = {f.number for f in self._plan.firings if f.position in self._guarded}
        lines = ["nonlocal since, t"]
        for number, own in enumerate(self._names.tasks):
            left = f", left_{own}" if number in left_out else ""
            lines.append(f"nonlocal busy_{own}, squares_{own}, longest_{own}, flushed_{own}{left}")
        lines.append("done = DONE[k]")
        for number in sorted({f.number for chain in self._chains for f in chain.firings}):
            own = self._names.tasks[number]
            lines += [
                f"busy, squares, longest = {self._bind('take', 'ctx.take')}({number})",
                f"busy_{own} += busy",
                f"squares_{own} += squares",
                f"longest_{own} = max(longest_{own}, longest)",
            ]
        for number, count in enumerate(self._counts()):
            own = self._names.tasks[number]
            lines.append(f"d = n * {count} + done[{number}]")
            if number in left_out:
                lines += [
                    f"{own}.absent += left_{own}",
                    f"flushed_{own} += left_{own}",
                    f"left_{own} = 0",
                ]
            given = f"d - flushed_{own}, busy_{own}, squares_{own}, longest_{own}"
            lines += [
                f"worker.record({own}, {given})",
                f"busy_{own} = squares_{own} = 0",
                f"flushed_{own} = d",
            ]
        if self._alone:
            lines.append("app.finished(latencies, t)")
        return [
            "",
            "def flush_stats():",
            *_in([*lines, "worker.round = n", "since = t = clock()"]),
            "",
        ]

    def _loop(self) -> list[str]:
        """The rounds themselves."""
        last = ["if clock() - since > TELL:", f"{_IN}flush_stats()"]
        return [
            "worker.rest = flush_stats",
            "error = None",
            "try:",
            f"{_IN}while True:",
            *_in(_in([*self._round(), *last])),
            "except Stopped:",
            f"{_IN}raise",
            "except BaseException as problem:",
            f"{_IN}error = problem",
            "finally:",
            f"{_IN}worker.rest = None",
            f"{_IN}flush_stats()",
            "return leave(error, k, locals())",
        ]

    def _round(self) -> list[str]:
        """One round."""
        lines = []
        # First what a stop reads, then what it writes: either it sees this iteration, or this
        # iteration sees it.
        if self._alone and not self._begins_late:
            lines.append("app.begun = n")
        lines += ["if n >= app.limit and app.over(n):", f"{_IN}break"]
        lines += self._first_firings()
        self._timed = False
        chains = {chain.first.position: (k, chain) for k, chain in enumerate(self._chains, 1)}
        done = {firing for chain in self._chains for firing in chain.firings[1:]}
        for firing in self._plan.sequence:
            if firing in done:
                continue
            if firing.passes:
                lines += self._passed_on(firing)
            elif firing.position in self._guarded:
                lines += self._stretch(firing, done)
            elif firing.position in chains:
                lines += self._chain(*chains[firing.position])
            else:
                lines += self._firing(firing)
        return [*lines, *self._ageing(), "line[0] = 0", "n += 1", "k = 0"]

    def _first_firings(self) -> Iterator[str]:
        """The number of each task's first firing of the iteration that it is in."""
        stages = {firing.number: firing.stage for firing in self._plan.sequence}
        for number, task in enumerate(self._tasks):
            iteration = f"n - {stages[number]}" if stages[number] else "n"
            if task.firings > 1:
                iteration = (
                    f"({iteration}) * {task.firings}" if stages[number] else f"n * {task.firings}"
                )
            yield f"first_{self._names.tasks[number]} = {iteration}"

    def _ageing(self) -> list[str]:
        """What stays on a channel is a round older now."""
        lines, kept = [], self._plan.kept
        for block in sorted(kept, key=lambda b: (-b.age, b)):
            young = block._replace(age=block.age - 1)
            lines.append(f"{self._names.block(block)} = {self._names.block(young)}")
            if young not in kept:
                lines.append(f"{self._names.block(young)} = None")
        return lines

    # -- a firing ----------------------------------------------------------------------------------
    def _number(self, firing: Firing) -> str:
        """The expression for the number of a firing."""
        first = self._names.of("first", firing.number)
        return f"{first} + {firing.offset}" if firing.offset else first

    def _iteration(self, firing: Firing) -> str:
        return f"n - {firing.stage}" if firing.stage else "n"

    def _title(self, firing: Firing) -> str:
        """A comment above what is done for a firing."""
        task = firing.task
        which = f", {firing.offset + 1} of {task.firings}" if task.firings > 1 else ""
        return f"# {one_line(task.name)}{which}"

    def _firing(self, firing: Firing) -> list[str]:
        task = firing.task
        lines = [self._title(firing), f"k = {firing.position}"]
        if firing.opens_entry:
            lines += ["if run.stopping:", f"{_IN}raise Stopped"]
        inputs = self._inputs(firing)
        lines += self._begun(firing)
        if self._recorded or task.lists:
            lines += [f"in{i} = {text}" for i, text in enumerate(inputs)]
            inputs = [f"in{i}" for i in range(len(inputs))]
        lines += self._call(firing, inputs)
        lines += self._seen(firing, inputs)
        lines += self._measured(firing)
        lines += self._handed_on(firing)
        if (self._recorded or task.lists) and task.inputs:
            lines += [f"{' = '.join(f'in{i}' for i in range(len(task.inputs)))} = None"]
        # what is left out ends frames, too
        if firing.position not in self._guarded:
            lines += self._ended(firing)
        return lines

    def _inputs(self, firing: Firing) -> list[str]:
        """The expressions for what a firing reads."""
        return [
            f"taken{i}" if take is None else self._tokens(firing, i, take)
            for i, take in enumerate(firing.takes)
        ]

    def _begun(self, firing: Firing) -> list[str]:
        """What it waits for, when it begins, and what begins with it."""
        task, waits, lines = firing.task, self._waits(firing), list[str]()
        if task.opens and not firing.offset and not self._alone:
            lines += ["line[0] = 0", f"app.begin({self._iteration(firing)})"]
        if self._is_paced(firing):
            lines += self._release(firing)
            if self._timed and not waits:
                lines.append(f"{_IN}t = clock()")
        if waits:
            lines += ["line[0] = 0", f"worker.at({self._iteration(firing)})", *waits]
        if self._begins_late and not firing.position:
            lines += [
                "app.begun = n",
                "if n >= app.limit and app.over(n):",
                f"{_IN}raise EndOfStream",
            ]
        if waits or not self._timed:
            lines.append("t = clock()")
        return lines + self._starts(firing)

    def _release(self, firing: Firing) -> list[str]:
        """Waits for the release of a firing, if the app is paced."""
        own = self._names.tasks[firing.number]
        released = f"run.wait_for_release(worker, {own}, {self._number(firing)})"
        return [
            "if paced:",
            f"{_IN}line[0] = 0",
            f"{_IN}worker.at({self._iteration(firing)})",
            f"{_IN}release = {released}",
        ]

    def _starts(self, firing: Firing) -> list[str]:
        """What starts at the time at which a firing begins."""
        task, lines = firing.task, list[str]()
        begins = "release if paced else t" if self._is_paced(firing) else "t"
        if self._alone and self._starters and firing.position == self._starters[0]:
            lines.append(f"begin = {begins}")
        elif not self._alone and firing.position in self._starters and not task.live:
            lines.append(f"app.started({self._iteration(firing)}, {begins})")
        if task.is_source and task.keeps_releases and not task.live:
            lines += self._released(firing, begins)
        return lines

    def _waits(self, firing: Firing) -> list[str]:
        """For tokens and for room of other workers: what may take long, and may find that the
        stream has ended."""
        task, number, lines = firing.task, firing.number, []
        outside = [
            (i, port, f"{{}}.feeders[{i}]")
            for i, (port, channel) in enumerate(zip(task.inputs, task.feeders, strict=True))
            if not self._order.is_inside(channel)
        ]
        for i, port, channel in outside if task.hesitates else ():
            ready = self._of(f"ready{i}", number, f"{channel}.ready")
            lines.append(f"{ready}({rate(port, firing.offset)}, worker)")
        for i, port, channel in outside:
            acquire = self._of(f"acquire{i}", number, f"{channel}.acquire")
            lines.append(
                f"taken{i} = {acquire}({rate(port, firing.offset)}, {port.stacked}, worker)"
            )
        for i, j, port in self._written_outside(firing):
            claim = self._of(f"claim{i}_{j}", number, f"{{}}.readers[{i}][{j}].claim")
            lines.append(f"{claim}({rate(port, firing.offset)}, worker)")
        if task.samples and not self._alone:
            gate = self._of("gate", number, "{}.gate")
            lines += [
                f"if {gate} is not None:",
                f"{_IN}{gate}.enter({self._number(firing)}, worker)",
            ]
        return lines

    def _written_outside(self, firing: Firing) -> Iterator[tuple[int, int, DeployedPort]]:
        """The channels to other workers: output, number among its readers, port."""
        task = firing.task
        for i, (port, channels) in enumerate(zip(task.outputs, task.readers, strict=True)):
            for j, channel in enumerate(channels):
                if not self._order.is_inside(channel):
                    yield i, j, port

    def _call(self, firing: Firing, inputs: Sequence[str]) -> list[str]:
        """The call of the task's code, with what it returns checked and made read-only, and its
        time."""
        task, number, own = firing.task, firing.number, self._names.tasks[firing.number]
        at = self._number(firing)
        lines = [
            f"line[1] = {at}",
            "line[2] = t",
            f"line[0] = {self._of('number', number, '{}.number')}",
        ]
        if task.live:
            lines.append("spent = cpu()")
        phase = f"call{firing.phase}" if task.phases > 1 else "call"
        function = self._of(phase, number, f"ctx.call({{}}, {firing.phase})")
        call = f"{function}({', '.join(inputs)})"
        lines += self._accepted(firing, call)
        lines += self._lists(firing, inputs)
        if not task.in_c:
            lines += ["if run.strayed:", f"{_IN}run.end_stray({own}, {at})"]
        lines.append("e = clock()")
        if task.live:
            lines += [
                "d = cpu() - spent",
                f"came = {own}.arrival(e, e - t - d)",
                f"app.started({self._iteration(firing)}, came)",
            ]
            if task.keeps_releases:
                lines += self._released(firing, "came")
        else:
            lines.append("d = e - t")
        self._timed = True
        return [
            *lines,
            f"busy_{own} += d",
            f"squares_{own} += d * d",
            f"if d > longest_{own}:",
            f"{_IN}longest_{own} = d",
            "t = e",
        ]

    def _accepted(self, firing: Firing, call: str) -> list[str]:
        """The call, and its results as one read-only array for each output."""
        task, number = firing.task, firing.number
        outputs = [self._names.block(block) for block in firing.outputs]
        if not outputs:
            return [call]
        accept = self._of("accept", number, "ctx.accept({})")
        several = len(outputs) > 1
        given, targets = ("r" if several else outputs[0]), ", ".join(outputs)
        lines = [f"{given} = {call}"]
        again = f"{targets}{'' if several else ','} = {accept}({given}, {self._number(firing)})"
        if any(port.bounded for port in task.outputs):  # `accept` looks at the sizes
            return [*lines, again]
        if several:
            nothing = ", ".join(["None"] * len(outputs))
            fits = f"type(r) is tuple and len(r) == {len(outputs)}"
            lines.append(f"{targets} = r if {fits} else ({nothing})")
        checks = [
            check
            for i, (port, name) in enumerate(zip(task.outputs, outputs, strict=True))
            for check in self._checks(firing, i, port, name)
        ]
        condition = " and ".join(checks)
        if len(condition) <= _WIDTH:
            lines.append(f"if {condition}:")
        else:
            lines += ["if (", f"{_IN}{checks[0]}"]
            lines += [f"{_IN}and {check}" for check in checks[1:]]
            lines.append("):")
        for name in outputs:
            lines += [
                f"{_IN}if {name}.base is None:",
                f"{_IN}{_IN}{name}.setflags(False)",
                f"{_IN}else:",
                f"{_IN}{_IN}freeze({name})",
            ]
        lines += ["else:", f"{_IN}{again}"]
        return [*lines, "r = None"] if several else lines

    def _checks(self, firing: Firing, i: int, port: DeployedPort, name: str) -> list[str]:
        """What holds for an array of an output."""
        dtype = self._of(f"dtype{i}", firing.number, f"{{}}.outputs[{i}].dtype")
        checks = [f"type({name}) is ndarray", f"{name}.dtype is {dtype}"]
        if port.count:
            shape = literal(port.shape)
            return [*checks, f"{name}.shape[1:] == {shape}", f"len({name}) <= {port.rates[0]}"]
        return [*checks, f"{name}.shape == {literal(block_shape(port, firing.offset))}"]

    def _lists(self, firing: Firing, inputs: Sequence[str]) -> list[str]:
        """How long the lists of a firing are, and whether those with one count are as long."""
        task, number = firing.task, firing.number
        outputs = [self._names.block(block) for block in firing.outputs]
        lines: list[str] = []
        first: dict[str, str] = {}
        blocks = [*inputs, *outputs]
        for port, block in zip(task.ports, blocks, strict=True):
            other = first.setdefault(port.count, block)
            if port.count and other is not block:
                agree = self._of("agree", number, "ctx.agree({})")
                lines += [
                    f"if len({other}) != len({block}):",
                    f"{_IN}{agree}([{', '.join(blocks)}])",
                ]
        for i, (port, block) in enumerate(zip(task.outputs, outputs, strict=True)):
            if port.count:
                counted = self._of(f"counted{i}", number, f"{{}}.outputs[{i}].counted")
                lines += [f"length_{block} = len({block})", f"{counted}(length_{block})"]
        return lines

    def _seen(self, firing: Firing, inputs: Sequence[str]) -> list[str]:
        """Tell what it read and made, where that is recorded."""
        if not self._recorded:
            return []
        outputs = ", ".join(self._names.block(block) for block in firing.outputs)
        return [f"{self._tell_of(firing)}, [{', '.join(inputs)}], [{outputs}])"]

    def _tell_of(self, firing: Firing) -> str:
        """The call that tells of a firing, up to what it read."""
        seen = self._of("seen", firing.number, "ctx.seen({})")
        return f"{seen}({self._number(firing)}"

    def _passed_on(self, firing: Firing) -> list[str]:
        """Tell what passes, where that is recorded."""
        if not self._recorded:
            return []
        (take,) = firing.takes
        tokens = self._tokens(firing, 0, take or ())
        return [self._title(firing), f"{self._tell_of(firing)}, [{tokens}], [])"]

    def _measured(self, firing: Firing) -> list[str]:
        """Paths that end with it."""
        if not firing.task.measured:
            return []
        paths = self._of("paths", firing.number, "{}.paths")
        return [f"for path in {paths}:", f"{_IN}path.ended({self._number(firing)}, t)"]

    def _released(self, firing: Firing, time: str) -> list[str]:
        """Keep when a source was released, for the paths that begin there."""
        own, number = self._names.tasks[firing.number], self._number(firing)
        if firing.offset:
            number = f"({number})"
        return [f"{own}.releases[{number} % len({own}.releases)] = {time}"]

    def _handed_on(self, firing: Firing) -> list[str]:
        """Tokens and room for other workers, and what is not needed any more."""
        task, number, lines = firing.task, firing.number, []
        for i, j, port in self._written_outside(firing):
            commit = self._of(f"commit{i}_{j}", number, f"{{}}.readers[{i}][{j}].commit")
            name = self._names.block(firing.outputs[i])
            lines.append(f"{commit}({name}, {rate(port, firing.offset)}, {port.stacked})")
        for i, (port, channel) in enumerate(zip(task.inputs, task.feeders, strict=True)):
            if not self._order.is_inside(channel):
                release = self._of(f"release{i}", number, f"{{}}.feeders[{i}].release")
                lines += [f"taken{i} = None", f"{release}({rate(port, firing.offset)})"]
        return [*lines, *self._gone(range(firing.position, firing.position + 1))]

    def _gone(self, positions: range) -> list[str]:
        """Blocks whose last reader is there."""
        gone = [name for position in positions for name in self._go.get(position, ())]
        return [f"{' = '.join(gone)} = None"] if gone else []

    def _ended(self, firing: Firing) -> list[str]:
        """Frames that end with it."""
        if firing.position not in self._enders:
            return []
        if not self._alone:
            return [f"app.ended({self._iteration(firing)}, t)"]
        return ["late(t - begin)"] if firing.position == self._enders[-1] else []

    # -- what a firing reads -----------------------------------------------------------------------
    def _tokens(self, firing: Firing, i: int, take: Sequence[Segment]) -> str:
        """What a firing gets through one input that is fed in this worker."""
        port, number = firing.task.inputs[i], firing.number
        viewed = bool(port.window or port.bounded)
        if not port.stacked:
            return self._token(take[0])
        if port.count:
            return self._list(firing, i, take)
        if not take and not viewed:
            return self._of(f"empty{i}", number, f"{{}}.feeders[{i}].empty")
        is_one = len(take) > 1 and take[0].tokens == 1 and list(take).count(take[0]) == len(take)
        if is_one and not viewed:
            return f"again({self._token(take[0])}, {len(take)})"
        pieces = [
            f"{self._names.block(segment.block)}[None]" if segment.single else self._slice(segment)
            for segment in take
        ]
        if viewed:
            over = self._of(f"over{i}", number, f"{{}}.feeders[{i}].view.over")
            return f"{over}([{', '.join(pieces)}], {rate(port, firing.offset)})"
        return pieces[0] if len(pieces) == 1 else f"join(({', '.join(pieces)}))"

    def _token(self, segment: Segment) -> str:
        """The first token of a segment alone."""
        name = self._names.block(segment.block)
        return name if segment.single else f"{name}[{segment.first}, ...]"

    def _list(self, firing: Firing, i: int, take: Sequence[Segment]) -> str:
        """The list that a firing reads: as it was written, or of what fired for its tokens."""
        assert self._guards is not None
        first, number = take[0], firing.number
        block, there = self._guards.read(take)
        view = f"{{}}.feeders[{i}].view"
        if block is None:
            of = self._of(f"of{i}", number, f"{view}.of")
            return f"{of}([{self._names.block(first.block)}])"
        made = "".join(f"{self._names.block(segment.block)}, " for segment in take)
        name = self._names.block(block)
        have = self._bind(f"have_{self._names.block(first.block)}", literal(there))
        word = "tokens" if first.single else "of"
        of = self._of(f"{word}{i}", number, f"{view}.{'of_tokens' if first.single else 'of'}")
        return f"{of}(({made})[:{have}[length_{name}]])"

    def _slice(self, segment: Segment) -> str:
        block, first, count, _ = segment
        maker, name = self._plan.made_by(block), self._names.block(block)
        whole = (first, count) == (0, rate(maker.task.outputs[block.output], maker.offset))
        return name if whole else f"{name}[{first}:{first + count}]"

    # -- lists -------------------------------------------------------------------------------------
    def _stretch(self, start: Firing, done: set[Firing]) -> list[str]:
        """Firings that depend on one list, as many as there are tokens; `done` gets what is
        written with them."""
        assert self._guards is not None
        run = self._guards.run(start.position)
        sequence = self._plan.sequence
        between = sequence[sequence.index(run[0]) : sequence.index(run[-1]) + 1]
        done.update(between)
        lines = []
        for firing in between:
            if firing.passes:
                lines += self._passed_on(firing)
        if not self._timed:
            lines.append("t = clock()")
        self._timed = True
        block, token = self._guarded[start.position].block, -1
        length = f"length_{self._names.block(block)}"
        body: list[str] = []
        for firing in run:
            guard = self._guarded[firing.position]
            if guard.token != token:
                token = guard.token
                body += [f"if {length} <= {token}:", f"{_IN}break"]
            body += self._firing(firing)
        lines += ["while True:", *_in(body), f"{_IN}break"]
        lines += self._left_out(run, block, length)
        for firing in run if self._recorded else ():
            token = self._guarded[firing.position].token
            lines += [f"if {length} <= {token}:", f"{_IN}{self._tell_of(firing)}, None, None)"]
        lines += self._gone(range(start.position, run[-1].position + 1))
        for firing in run:
            lines += self._ended(firing)
        return lines

    def _left_out(self, run: Sequence[Firing], block: Block, length: str) -> Iterator[str]:
        """Count the firings of each task that did not take place."""
        assert self._guards is not None
        lengths = range(self._guards.most(block) + 1)
        for number in dict.fromkeys(firing.number for firing in run):
            tokens = [self._guarded[f.position].token for f in run if f.number == number]
            table = [sum(token >= there for token in tokens) for there in lengths]
            gone = self._bind(self._names.of(f"gone{run[0].position}", number), literal(table))
            yield f"{self._names.of('left', number)} += {gone}[{length}]"

    # -- chains ------------------------------------------------------------------------------------
    def _chain_head(self, k: int, chain: Chain) -> list[str]:
        """A chain as it is made."""
        lines = [
            f"chain{k} = ctx.chain(",
            f"{_IN}memory={chain.memory},",
            f"{_IN}shared={len(chain.bases) + len(chain.windows)},",
        ]
        if chain.windows:
            lines.append(f"{_IN}windows={literal([tuple(w) for w in chain.windows])},")
        lines += [
            f"{_IN}# task, firing, stage; copies: from, to (base, offset), bytes; arguments: base,"
            " offset, bytes to clear",
            f"{_IN}steps=[",
        ]
        for firing, pieces, arguments in chain.steps:
            copies = tuple((*p.source, *p.target, p.size) for p in pieces)
            places = tuple((*place, cleared) for place, cleared in arguments)
            step = (firing.number, firing.offset, firing.stage, copies, places)
            lines.append(f"{_IN}{_IN}{literal(step)},")
        return [
            *lines,
            f"{_IN}],",
            ")",
            f"fire{k}, why{k}, at{k} = chain{k}.fire, chain{k}.why, chain{k}.addresses",
        ]

    def _chain(self, k: int, chain: Chain) -> list[str]:
        """Several firings in C by one call."""
        first, last = chain.first, chain.last
        lines = [
            *(self._title(firing) for firing in chain.firings),
            f"k = {first.position}",
            "if run.stopping:",
            f"{_IN}raise Stopped",
            *self._begun(first),
        ]
        gone = []
        for base in chain.bases:
            name = self._names.block(base.block)
            maker = self._plan.made_by(base.block)
            address = f"at{k}[{base.number}] = {self._bind('address', 'ctx.address')}"
            if base.made:
                i = base.block.output
                shape = literal(block_shape(maker.task.outputs[i], maker.offset))
                dtype = self._of(f"dtype{i}", maker.number, f"{{}}.outputs[{i}].dtype")
                lines += [f"{name} = empty({shape}, {dtype})", f"{address}({name})"]
            elif maker.task.in_c:
                lines.append(f"{address}({name})")
            else:
                # What others make need not lie in one piece; the copy lives until the chain is
                # over.
                copy = f"copy_{name}"
                lines += [f"{copy} = ascontiguousarray({name})", f"{address}({copy})"]
                gone.append(copy)
            if first.position <= self._last.get(base.block, -1) <= last.position:
                gone.append(name)
        lines += [
            f"d = fire{k}(n)",
            f"if d < {len(chain.steps)}:",
            f"{_IN}k = {first.position} + d",
            f"{_IN}raise why{k}(d)",
            "t = clock()",
        ]
        made = [self._names.block(base.block) for base in chain.bases if base.made]
        lines += [f"{name}.setflags(False)" for name in made]
        for firing in chain.firings:
            lines += self._seen(firing, self._inputs(firing)) if self._recorded else []
        self._timed = True
        lines += self._measured(last)
        if gone:
            lines.append(f"{' = '.join(gone)} = None")
        return lines + self._ended(last)


def block_shape(port: DeployedPort, firing: int) -> tuple[int, ...]:
    """The shape of what one firing passes through a port."""
    return (port.window or rate(port, firing), *port.shape) if port.stacked else port.shape


def _in(lines: Iterable[str]) -> list[str]:
    """The same, one level deeper."""
    return [f"{_IN}{line}" if line else line for line in lines]


def _in_doc(name: str) -> str:
    """A name inside of a docstring."""
    return one_line(name).replace("\\", "/").replace('"', "'")
