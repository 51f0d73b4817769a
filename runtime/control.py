"""The controller of a program with states: which state it is in, what leads to another one, and the
change itself.

A change disturbs no frame: apps begin no others, those that have begun end, and the apps of the
next state begin together (the protocol `idle`). Where states differ in alternatives of networks
alone, nothing has to wait: frames that begin from then on take those of the next state (`next`), or
an inference is broken off, and its frame done again with them (`at once`). What lies on channels
between two frames (the tokens of delays, what windows keep) goes on to the same app in the next
state; code and its state are shared by all states. Events wait until every app has begun a frame,
and then count together, so that no storm of them can keep a state from doing something.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from fractions import Fraction
from typing import (
    TYPE_CHECKING,
    Callable,
    Deque,
    Dict,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from .clocks import Clocks, EmulatedClocks, RatesRefused, Wanted
from .failures import Failure, describe
from .graph import FOREVER, App
from .outside import Outside, prepare
from .power import Power
from .scenario import LOOK, Change, State, Stay, tour
from .select import Select
from .steady import wait

if TYPE_CHECKING:
    from .options import RunOptions
    from .program import Program
    from .worker import Worker

#: The event that comes with a rate, and chooses among levels of states.
PACE = "pace"
#: Seconds after which it is said whom a change waits for.
PATIENCE = 2.0


class Event:
    """What a task calls to raise an event."""

    def __init__(self, program: "Program", name: str) -> None:
        self._program, self._name = program, name

    def __call__(self) -> None:
        if self._program.control is not None:
            self._program.control.raise_event(self._name)


class Control(threading.Thread):
    """Changes states. `stays` is what has been, `script` what is to be, where that is known
    beforehand."""

    def __init__(self, program: "Program", events: Sequence[str] = ()) -> None:
        threading.Thread.__init__(self, name="control", daemon=True)
        # `run` is what a thread does
        self._program, self._of_run = program, program.run
        program.control = self
        program.run.wakers.append(self.wake)
        self.states: Dict[str, State] = {}
        self.initial = ""
        #: All events that there are.
        self.events = list(events)
        self.stays: List[Stay] = []
        self.changes: List[Change] = []
        self.script: Optional[List[Stay]] = None
        #: Raises the events of a script whose time has come; True if there were any.
        self.raise_due: Callable[[], bool] = lambda: False
        #: Events that led nowhere, by name.
        self.ignored: Dict[str, int] = {}
        self.frames: Optional[int] = None
        #: The setter of clock rates, if they are to be set, and the meter of joules, if there is
        #: one.
        self.clocks: Optional[Union[Clocks, EmulatedClocks]] = None
        self.power: Optional[Power] = None
        #: Where clocks and meters are.
        self.sysfs = "/sys"
        self._levels: Dict[str, List[Tuple[float, State]]] = {}
        #: The frames per second that were asked for.
        self._pace: Optional[float] = None
        self._queue: Deque[Tuple[str, int, Optional[float]]] = deque()
        self._changed = threading.Condition()
        self._number = 0
        self._over = False
        #: Are slower clock rates to be set once the frames of the state before have ended?
        self._slower = False
        #: When it last saw that some app of the state had not begun.
        self._early = 0
        self._last: Dict[str, App] = {}
        self._had: Dict[str, int] = {}
        self._fired: Dict[str, int] = {}
        self._ended: List[str] = []
        #: Stays that were told as being over.
        self._told = 0
        #: Stays since apps began anew the last time, with the first frame of each app.
        self._stretches: List[Tuple[Stay, Dict[str, int]]] = []

    # -- construction ------------------------------------------------------------------------------
    def state(
        self,
        name: str,
        initial: bool = False,
        clocks: Optional[Wanted] = None,
        energy_mw: Optional[float] = None,
        level_of: Optional[Tuple[str, float]] = None,
        like: Optional[str] = None,
    ) -> None:
        """A state: the apps and processors that follow are its own.

        `clocks` are the rates that it is meant for (kind, Hz, and the highest there are, by pool),
        `energy_mw` what it takes in the mean by the model. `level_of`: it is one of several that
        differ in their pace, which have a name together; and the frames per second of this one. No
        apps follow where it is `like` another one, from which only alternatives tell it apart.
        """
        made = self.states[name] = State(name)
        made.clocks, made.energy_mw = clocks or {}, energy_mw
        self._program.state_being_built = None if like is not None else made
        if like is not None:
            made.apps, made.workers = self.states[like].apps, self.states[like].workers
        if level_of is not None:
            self.level(made, *level_of)
        if initial:
            self.initial = name

    def transition(
        self,
        source: str,
        target: str,
        events: Sequence[str] = (),
        after: Optional[str] = None,
        bound: Optional[int] = None,
        protocol: str = "idle",
    ) -> None:
        """What leads from one state to another: events, or so many ns in the state; at most `bound`
        ns are known.

        `protocol`: "idle", or without a pause, from the "next" frame on or "at once".
        """
        state = self.states[source]
        state.targets.append(target)
        for event in events:
            # of several levels the fastest one, which comes first
            state.leads.setdefault(event, target)
        if after is not None:
            state.after = state.after or (int(Fraction(after)), target)
        if bound is not None:
            state.bounds[target] = bound
        if protocol != "idle":
            state.protocols[target] = protocol

    # -- from outside ------------------------------------------------------------------------------
    def raise_event(self, name: str) -> None:
        """It counts as soon as every app of the state has begun a frame. `pace 20` asks for 20
        frames per second.

        Raises ValueError for one that is unknown.
        """
        word, value = self.parsed(name)
        with self._changed:
            self._queue.append((word, time.perf_counter_ns(), value))
            self._changed.notify_all()

    def parsed(self, text: str) -> Tuple[str, Optional[float]]:
        """An event, and the rate that comes with `pace`. Raises ValueError for one that is
        unknown."""
        word, _, rate = text.partition(" ")
        if word not in self.events or (rate and word != PACE):
            raise ValueError("there is no event `%s`" % text)
        if word != PACE or not self._levels:
            return word, None
        try:
            value = float(rate)
        except ValueError:
            value = 0.0
        if not 0 < value < float("inf"):
            raise ValueError("`%s` needs a number of frames per second: `%s 20`" % (text, PACE))
        return word, value

    def level(self, state: State, of: str, rate: float) -> None:
        """The state is one of several that are one in the text, with so many frames per second."""
        state.levels = self._levels.setdefault(of, [])
        state.levels.append((rate, state))

    def wake(self) -> None:
        """Everybody looks again."""
        with self._changed:
            self._changed.notify_all()

    def had(self, app: str) -> int:
        """Frames that an app has finished, in whatever state."""
        last = self._last.get(app)
        return 0 if last is None else last.base + last.done

    def repeat(self, stays: Sequence[Tuple[str, Dict[str, int]]]) -> Optional[str]:
        """Stay in states for these frames, instead of heeding events; the first of them that is not
        one of this program, None where all are."""
        for name, frames in stays:
            state = self.states.get(name)
            if state is None or not {a.name for a in state.apps} >= set(frames):
                return name
        self.script = [Stay(name, dict(frames)) for name, frames in stays]
        return None

    def so_far(self) -> Tuple[int, List[Dict[str, object]]]:
        """How many stays are over, and those that are not, with the frames that have begun in
        them."""
        stretches = list(self._stretches)
        told: List[Dict[str, object]] = []
        for k, (stay, firsts) in enumerate(stretches):
            behind = stretches[k + 1][1] if k + 1 < len(stretches) else {}
            frames = dict(stay.frames)
            for app in self._of_run.running if not frames else ():
                end = behind.get(app.name, app.begun + 1)
                frames[app.name] = max(0, end - firsts.get(app.name, 0))
            told.append({"state": stay.state, "frames": frames})
        stays = list(self.stays)
        current = [k for k, stay in enumerate(stays) if stretches and stay is stretches[0][0]]
        over = current[0] if current else len(stays)
        earlier: List[Dict[str, object]] = [
            {"state": s.state, "frames": dict(s.frames)} for s in stays[self._told : over]
        ]
        first, self._told = self._told, over
        return first, [*earlier, *told]

    def stays_of(self, worker: "Worker") -> Iterator[None]:
        """Wait until the state of a worker is entered, again and again, until the program ends."""
        seen = 0
        while True:
            with self._changed:
                worker.parked = True
                self._changed.notify_all()
                while not (self._over or self._of_run.stopping):
                    if (
                        self._of_run.state is not None
                        and worker in self._of_run.state.workers
                        and self._number > seen
                    ):
                        break
                    # no limit: until a change of state, or the end, which wakes all
                    self._changed.wait()
                else:
                    return
                seen, worker.parked = self._number, False
            yield

    def set_clocks(self) -> None:
        """Set the clock rates of states. Raises Refused where the machine cannot, or no mapping has
        any."""
        self.clocks = Clocks(self._chosen(), self.sysfs)

    def play_clocks(self) -> None:
        """Work is to take as long as at the clock rates of states. Raises Refused where no mapping
        has chosen any."""
        self._chosen()
        self.clocks = self._of_run.played = EmulatedClocks()

    def _chosen(self) -> List[Wanted]:
        wanted = [s.clocks for s in self.states.values() if s.clocks]
        if not wanted:
            raise RatesRefused("no stored mapping has chosen any (see `flowc map`)")
        return wanted

    def outside(self, options: RunOptions) -> Outside:
        """Who raises events, as the options say. Raises Mistake."""
        return prepare(self, self._program, options)

    def let_break_off(self) -> None:
        """Where a change is made at once, an inference under way can be broken off."""
        for state in self.states.values():
            if "at once" in state.protocols.values():
                for select in [
                    t.code for a in state.apps for t in a.tasks if isinstance(t.code, Select)
                ]:
                    select.breaks = True

    def tour(self, frames: int) -> List[Stay]:
        """Stays in states so that every transition is used that can be reached without ever being
        at a dead end."""
        leads = {s.name: s.targets for s in self.states.values()}
        apps = {s.name: [a.name for a in s.apps] for s in self.states.values()}
        return tour(self.initial, leads, apps, frames)

    # -- the thread --------------------------------------------------------------------------------
    def run(self) -> None:
        if any(s.energy_mw is not None for s in self.states.values()):
            self.power = Power(
                self.sysfs, any(t.code.device is not None for t in self._of_run.tasks)
            )
            self.power.start()
        try:
            self._go_on()
        except BaseException as error:  # our own mistake: report it rather than hang
            reason = "internal error: " + describe(error)
            self._of_run.fail(Failure("", "", None, reason, traceback.format_exc()))
        finally:
            if self.power is not None:
                self.power.end()
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _go_on(self) -> None:
        if self.script is not None:
            self._repeat(self.script)
            return
        state = self.states[self.initial]
        self._enter(state)
        while True:
            change = self._next(state)
            if change is None:
                break
            if change.protocol != "idle":
                self._follow(change)
                state = change.target
                continue
            if not self._drain(change):
                break
            self._leave(state)
            self.changes.append(change)
            state = change.target
            self._enter(state)
            change.entered = state.since
        self._leave(state)

    def _repeat(self, script: Sequence[Stay]) -> None:
        """Stay in states as they are given, those without a pause between them together."""
        left = list(script)
        while left:
            stays = [left.pop(0)]
            while left and left[0].state in self.states[stays[-1].state].protocols:
                stays.append(left.pop(0))
            state = self.states[stays[0].state]
            if self._of_run.state is not None:
                self.changes.append(self._given(self.stays[-1], stays[0]))
            self._enter(state, stays)
            good = self._until_parked(state)
            self._leave(state)
            if not good:
                break

    def _given(self, before: Stay, after: Stay) -> Change:
        """A change without an event."""
        change = Change(
            self.states[before.state], self.states[after.state], "", time.perf_counter_ns()
        )
        change.drained = change.asked
        return change

    def _follow(self, change: Change) -> None:
        """The next state goes on with the frames of this one, at the faster ones of the clock rates
        of both."""
        source, target = change.source, change.target
        self._set_clocks(target, down=False)
        if self.power is not None:
            self.power.enter(target.name, target.energy_mw)
        self._stretches.append((Stay(target.name), {}))
        for app in source.apps:
            mark = app.follow(target.name, change.protocol == "at once")
            self._stretches[-1][1][app.name] = mark
            app.awaited.append((mark, change))
        change.drained = now = time.perf_counter_ns()
        source.spent += now - source.since
        self._begins(target, now)
        self.stays.append(self._stretches[-1][0])
        self.changes.append(change)
        self._slower = self.clocks is not None
        with self._changed:
            self._of_run.state = target

    def _begins(self, state: State, now: int) -> None:
        state.entered += 1
        state.since = state.timer = now

    def _next(self, state: State) -> Optional[Change]:
        """Wait for the next change; None when there is nothing left to do."""
        with self._changed:
            while not self._of_run.stopping:
                ending, parked = self._of_run.ending, state.parked
                if ending and parked:
                    return None
                now = time.perf_counter_ns()
                asked = bool(self._queue) or now >= state.due
                if asked and not ending and (parked or state.begun):
                    change = self._advanced(state, now)
                    if change is not None:
                        change.ready = max(change.asked, self._early)
                        return change
                    continue
                self._early = now if asked else 0
                if parked:
                    if not self.raise_due():
                        return None  # the streams of all its apps have ended
                    continue
                self._slow_down(state)
                self._rest(state, asked, now)
        return None

    def _slow_down(self, state: State) -> None:
        """Set slower clock rates once no frame is left that counts on the old ones."""
        if self._slower and not any(a.awaited and a.limit > a.mark for a in state.apps):
            self._slower = False
            self._set_clocks(state, down=True)

    def _rest(self, state: State, asked: bool, now: int) -> None:
        """Wait for an event, and for what workers do without a word where something was `asked`."""
        if asked or self._slower:
            wait(self._changed, LOOK)
        elif state.due < FOREVER:
            wait(self._changed, max(LOOK, (state.due - now) / 1e9))
        else:
            self._changed.wait()  # no limit: until an event, or the end of the program

    def _advanced(self, state: State, now: int) -> Optional[Change]:
        """Let all events count that have come; None where they lead back to where it is, or
        nowhere."""
        at, cause, since = state, "", 0
        due = state.due
        if state.after is not None and now >= due and (not self._queue or self._queue[0][1] >= due):
            at, cause, since = self._paced(self.states[state.after[1]]), "after", due
        while self._queue:
            name, when, rate = self._queue.popleft()
            self._pace = self._pace if rate is None else rate
            following = at.name if rate is not None and at.levels else at.leads.get(name)
            if following is None:
                self.ignored[name] = self.ignored.get(name, 0) + 1
            else:
                at, cause, since = self._paced(self.states[following]), name, since or when
        if at is state:
            if cause:  # there and back again: its time begins anew
                state.timer = now
            return None
        return Change(state, at, cause, max(since, state.since))

    def _paced(self, state: State) -> State:
        """The slowest level of a state that is fast enough, the fastest one where none is, or no
        rate was asked for."""
        if not state.levels:
            return state
        asked = float("inf") if self._pace is None else self._pace
        enough = [(rate, n) for n, (rate, _) in enumerate(state.levels) if rate >= asked]
        level = min(enough)[1] if enough else 0
        return state.levels[level][1]

    def _drain(self, change: Change) -> bool:
        """No new frames, and wait for those that have begun. False when the program ends
        instead."""
        self._set_clocks(change.target, down=False)
        change.stopped = time.perf_counter_ns()
        for app in change.source.apps:
            app.drain()
        good = self._until_parked(change.source, change.target)
        change.drained = time.perf_counter_ns()
        change.ended = max(change.stopped, *(app.last_end for app in change.source.apps))
        return good and not self._of_run.ending

    def _until_parked(self, state: State, target: Optional[State] = None) -> bool:
        begin = time.monotonic()
        with self._changed:
            while not state.parked:
                if self._of_run.stopping:
                    return False
                wait(self._changed, PATIENCE)
                if target is not None and not state.parked and time.monotonic() - begin > PATIENCE:
                    waits = self._of_run.who_waits()
                    self._of_run.warn_once(
                        "the change from %s to %s waits; %s" % (state.name, target.name, waits)
                    )
        return not self._of_run.stopping

    def _set_clocks(self, state: State, down: bool) -> None:
        """The rates of a state: slower ones only when no frame is under way that counts on the old
        ones."""
        if self.clocks is None:
            return
        try:
            (self.clocks.lower if down else self.clocks.reach)(state.clocks)
        except RatesRefused as refused:
            self.clocks.restore()
            self.clocks = None
            self._of_run.warn_once("clock rates are left alone: %s" % refused)

    def _enter(self, state: State, given: Sequence[Stay] = ()) -> None:
        """Its apps begin anew. `given` are stays with their frames, which follow each other without
        a pause."""
        self._set_clocks(state, down=True)
        self._slower = False
        if self.power is not None:
            self.power.enter(state.name, state.energy_mw)
        now = time.perf_counter_ns()
        names = [stay.state for stay in given] or [state.name]
        self._stretches = [(Stay(name), {}) for name in names]
        for app in state.apps:
            self._begin_anew(app, names, given, now)
        self.changes += [self._given(a, b) for a, b in zip(given, given[1:])]
        for name in names:
            self._begins(self.states[name], now)
        self.stays += [stay for stay, _ in self._stretches]
        self._of_run.calm()
        if self._of_run.ending:  # it may have been ended before the apps of this state were ready
            for app in state.apps:
                app.drain()
        with self._changed:
            for worker in state.workers:
                worker.parked = False
            self._of_run.state = state
            self._number += 1
            self._changed.notify_all()

    def _begin_anew(self, app: App, names: Sequence[str], given: Sequence[Stay], now: int) -> None:
        """An app goes on where it was in the state in which it last ran, through states that follow
        each other without a pause."""
        #: The first frame in each of the states, and the one behind the last.
        marks = [0]
        for stay in given:
            marks.append(marks[-1] + stay.frames.get(app.name, 0))
        for (_, firsts), mark in zip(self._stretches, marks):
            firsts[app.name] = mark
        had = self._had.get(app.name, 0)
        over = app.name in self._ended
        if over:
            limit = 0
        elif given:
            limit = marks[-1]
        elif self.frames is None:
            limit = FOREVER
        else:
            limit = max(0, self.frames - had)
        before = None if over else self._last.get(app.name)
        app.enter(before, had, limit, now, list(zip(names, marks)))
        app.awaited.extend((0, change) for change in self.changes[-1:])
        for task in app.tasks:
            task.before = self._fired.get(task.name, 0)
            for name, share in task.code.shares.items():
                share.before = self._fired.get(name, 0)
        self._last[app.name] = app

    def _leave(self, state: State) -> None:
        """Count what was done since the apps began anew."""
        state.spent += time.perf_counter_ns() - state.since
        for app in state.apps:
            done = app.done
            ends = [firsts[app.name] for _, firsts in self._stretches[1:]] + [done]
            for (stay, firsts), end in zip(self._stretches, ends):
                stay.frames[app.name] = max(0, min(end, done) - firsts[app.name])
            self._had[app.name] = self._had.get(app.name, 0) + done
            if app.exhausted:
                self._ended.append(app.name)
            for task in app.tasks:
                fired = {task.name: done * task.per_iteration}
                if isinstance(task.code, Select):
                    fired = task.code.leave(done)
                for name, firings in fired.items():
                    self._fired[name] = self._fired.get(name, 0) + firings

    # -- afterwards --------------------------------------------------------------------------------
    def totals(self) -> List[App]:
        """One app for each name, with what it did in all states: call it once, when everything is
        over."""
        found: Dict[str, App] = {}
        for app in self._of_run.apps:
            app.tasks = [made for task in app.tasks for made in task.apart()]
            if app.name in found:
                found[app.name].add(app)
            else:
                found[app.name] = app
        return list(found.values())
