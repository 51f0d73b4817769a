"""Does again what a recording has: sources get their tokens from it, readers of mailboxes find the
tokens that they found, states change after the same frames; and everything else that was recorded
is compared, bit for bit.

In: a program that has not begun, and the file of a recorder (record.py). Out: the program, changed
so that it replays, and afterwards what was equal. A mailbox lets its writer be as far ahead of its
reader as it was, and no further: that order was possible once, so that no two apps wait for each
other.
"""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from .code import Code
from .ends import Inlet, Outlet, drop_token
from .mailbox import LOOK, Held, Marks
from .options import Mistake
from .parameters import give
from .record import base_of, is_recordable, listed, numbered, running, tokens_of
from .recorded_file import NONE, RecordedFile, Track
from .ros_messages import message_of, token_in
from .tokens import Port, TaskError

if TYPE_CHECKING:
    from .graph import App, Task
    from .program import Program
    from .run import Run

#: Seconds without any progress of the program after which a reader gives up.
PATIENCE = 10.0
#: Differences of channels that are told.
MOST_TOLD = 5
#: The place in the file of a token that is not there: behind all others.
_NOWHERE = 1 << 62


class Replay:
    """A replay of a program that has not begun. Raises Mistake."""

    def __init__(self, program: Program, file: RecordedFile, settings: Sequence[str] = ()) -> None:
        self._program, self._file = program, file
        program.run.replayed = True
        #: What the user should know before it begins.
        self.notes: List[str] = []
        self._compared: List[_Compared] = []
        if file.about.get("program") != program.name:
            raise Mistake(
                "%s is a recording of `%s`, and this program is `%s`; as a bag it feeds any"
                " program: rosbags-convert --src %s --dst bag, then --replay bag"
                % (file.path, file.about.get("program", "")[:80], program.name, quote(file.path))
            )
        if file.cut:
            self.notes.append("%s is replayed as far as it goes: %s" % (file.path, file.cut))
        self._give(settings)
        self._tracks = {
            track.metadata["channel"]: track
            for track in file.tracks.values()
            if "channel" in track.metadata
        }
        self._feed_sources()
        self._join_mailboxes()
        self._compare()
        self._follow_states()

    def _give(self, settings: Sequence[str]) -> None:
        """Parameters as they were, unless others are given now."""
        try:
            recorded = [str(word) for word in json.loads(self._file.about.get("settings", "[]"))]
        except (ValueError, TypeError) as error:
            raise Mistake("%s is damaged: %s" % (self._file.path, error)) from None
        mistakes = give(self._program, [*recorded, *settings])
        if mistakes:
            raise Mistake("\n".join(mistakes))

    # -- what the recording decides ----------------------------------------------------------------
    def _feed_sources(self) -> None:
        made: Dict[str, Replayed] = {}
        alone: List[str] = []
        for task in self._program.tasks:
            if isinstance(task.code, Outlet):
                task.code.give = task.code.give or drop_token
            if not _can_be_fed(task):
                continue
            tracks = [self._tracks.get("%s.%s" % (task.name, port.name)) for port in task.outputs]
            if None in tracks:
                if isinstance(task.code, Inlet):
                    raise Mistake(
                        "%s is not in %s: nothing feeds it" % (task.name, self._file.path)
                    )
                alone.append(task.name)
                continue
            if task.name not in made:
                made[task.name] = Replayed(self._file, task, tracks)  # type: ignore[arg-type]
            made[task.name].replace(task)
        self._limit_others({id(task) for code in made.values() for task in code.tasks})
        if alone:
            names = listed(list(dict.fromkeys(alone)))
            self.notes.append("not in the recording, and executed: %s" % names)
        self._fed = set(made)

    def _limit_others(self, fed: Set[int]) -> None:
        """Apps that nothing feeds have as many frames as in the recording."""
        for app in self._program.apps:
            sources = [t for t in app.tasks if id(t) in fed or t.code.finds_in is not None]
            if not sources and self._program.control is None:
                app.limit = self._file.decisions.begun.get(app.name, app.limit)

    def _join_mailboxes(self) -> None:
        for task in self._program.tasks:
            link = task.code.finds_in
            if link is None:
                continue
            takes = self._file.decisions.takes(task.name)
            if takes is None:
                takes = np.zeros(0, np.int64), np.zeros(0, np.int64)
            if not isinstance(link.place, Recalled):
                link.place = Recalled(link, not self._file.decisions.ended, *takes)
            link.place.readers.append(task)

    def _follow_states(self) -> None:
        control = self._program.control
        if control is None:
            return
        other = control.repeat(self._file.decisions.stays)
        if other is not None:
            raise Mistake(
                "%s is a recording of other states: `%s` is not this program's"
                % (self._file.path, other[:80])
            )

    # -- what is compared --------------------------------------------------------------------------
    def _compare(self) -> None:
        found: Dict[str, _Compared] = {}
        for task in self._program.tasks:
            if task.name in self._fed or not is_recordable(task):
                continue
            mine: List[Optional[_Compared]] = []
            for port in task.outputs:
                name = "%s.%s" % (task.name, port.name)
                track = self._tracks.get(name)
                if track is not None and name not in found:
                    self._require_same(name, track, port)
                    found[name] = _Compared(self._file, name, track, task, port)
                mine.append(found.get(name))
            if any(mine):
                self._listen_to(task, mine)
        self._compared = list(found.values())
        known = {"%s.%s" % (t.name, p.name) for t in self._program.tasks for p in t.outputs}
        gone = [name for name in self._tracks if name not in known]
        if gone:
            self.notes.append("not in this program, and not compared: %s" % listed(gone))

    def _require_same(self, name: str, track: Track, port: Port) -> None:
        recorded = track.metadata.get("dtype", "")[:40], track.metadata.get("shape", "")[:80]
        own = str(port.dtype), json.dumps(list(port.shape))
        if track.kind != message_of(port) or recorded != own:
            raise Mistake(
                "%s is %s%s in %s, and %s%s in this program"
                % (name, *recorded, self._file.path, *own)
            )

    def _listen_to(self, task: Task, channels: Sequence[Optional[_Compared]]) -> None:
        def recorded(firing: int, group: int, blocks: Optional[Sequence[Any]]) -> None:
            number, stacked = base_of(task) + firing, task.code.batch > 1
            for channel, port, block in zip(channels, task.outputs, blocks or ()):
                if channel is not None:
                    first = tokens_of(port, number)
                    for token, value in numbered(port, stacked, first, block):
                        channel.compare(token, value)

        task.recorded = recorded

    def told(self, limit: Optional[int]) -> Tuple[bool, List[str]]:
        """Was everything equal, and how to say so; the program was to end after `limit` frames."""
        frames = self._file.decisions.frames
        whole = tokens = 0
        differences: List[Tuple[int, str]] = []
        for channel in self._compared:
            done = frames.get(channel.app, 0)
            if limit is not None and self._program.control is None:
                done = min(done, limit)
            whole += channel.close(done)
            tokens += channel.equal
            if channel.first is not None:
                differences.append((channel.first[0], channel.said()))
        lines = [
            "%s of %s tokens of %d channel%s equal, bit for bit"
            % (
                format(tokens, ","),
                format(whole, ","),
                len(self._compared),
                "" if len(self._compared) == 1 else "s",
            )
        ]
        if not whole:
            lines = ["the recording has no tokens to compare"]
        differences.sort()
        for k, (_, text) in enumerate(differences[:MOST_TOLD]):
            lines.append("%s: %s" % ("then" if k else "first difference", text))
        if len(differences) > MOST_TOLD:
            lines.append("and %d more channels" % (len(differences) - MOST_TOLD))
        return not differences, lines


class Replayed(Code):
    """A source that does again what the recording has of it, in whatever state."""

    def __init__(self, file: RecordedFile, task: Task, tracks: Sequence[Track]) -> None:
        self._file, self._tracks = file, list(tracks)
        self._ports = task.outputs
        self._run: Any = None
        self.tasks: List[Task] = []
        self._lists = file.decisions.lists.get(task.name, {})
        for port, track in zip(self._ports, self._tracks):
            dtype, shape = track.metadata.get("dtype"), track.metadata.get("shape")
            own = str(port.dtype), json.dumps(list(port.shape))
            if (dtype, shape) != own or track.kind != message_of(port):
                raise Mistake(
                    "%s.%s is %s%s in %s, and %s%s in this program"
                    % (task.name, port.name, str(dtype)[:40], str(shape)[:80], file.path, *own)
                )
        #: All firings before this one are there.
        self.firings = min(self._known(p, t) for p, t in zip(self._ports, self._tracks))

    def replace(self, task: Task) -> None:
        """Be the code of a task from now on."""
        self.tasks.append(task)
        self._run = task.app.run
        task.code, task.live = self, False

    def _known(self, port: Port, track: Track) -> int:
        """Firings whose tokens of a port are all there, or are known not to be there."""
        told = max(self._lists, default=-1) + 1
        if port.count and told:
            lengths = self._lists[told - 1]
            length = None if lengths is None else lengths[self._ports.index(port)]
            last_one = tokens_of(port, told - 1) + (length or 0) - 1
            return told if not length or track.place(last_one) != NONE else told - 1
        if not len(track.numbers):
            return told
        last = int(track.numbers[-1]) + 1
        rounds, rest = divmod(last, sum(port.rates))
        firings, phase = rounds * len(port.rates), 0
        while phase < len(port.rates) and rest >= port.rates[phase] and rest:
            rest -= port.rates[phase]
            phase += 1
        return max(told, firings + phase)

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        pass

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        number = base_of(running(self.tasks, self._run)) + firing
        if number >= self.firings:
            raise StopIteration
        lengths = self._lists.get(number, [])
        if lengths is None:
            raise TaskError("was left out when it was recorded")
        made = []
        for k, (port, track) in enumerate(zip(self._ports, self._tracks)):
            length = lengths[k] if k < len(lengths) else None
            made.append(self._block(port, track, number, length))
        return made[0] if len(made) == 1 else tuple(made)

    def _block(self, port: Port, track: Track, firing: int, length: Optional[int]) -> Any:
        first = tokens_of(port, firing)
        if not port.stacked:
            return self._token(port, track, first)
        count = port.rate(firing) if length is None else min(length, port.rate(firing))
        tokens = [self._token(port, track, first + i) for i in range(count)]
        if port.bounded:
            return tokens
        return np.stack(tokens) if tokens else np.zeros((0,) + port.shape, port.dtype)

    def _token(self, port: Port, track: Track, number: int) -> np.ndarray:
        place = track.place(number)
        if place == NONE:
            raise TaskError("token %d of `%s` is not in the recording" % (number, port.name))
        try:
            return token_in(track.kind, self._file.message(track, place), port)
        except ValueError as error:
            raise TaskError("token %d of `%s` %s" % (number, port.name, error)) from None


class Recalled:
    """A mailbox whose reader finds what it found when the program was recorded: see
    `mailbox.NewestTokens`. Only tokens that will be found are kept."""

    def __init__(self, link: Any, cut: bool, firings: np.ndarray, numbers: np.ndarray) -> None:
        self._link, self.keep = link, link.place.keep
        #: Was the program killed? Then frames that were under way end where tokens are missing.
        self._cut = cut
        self._run: Run = link.run
        self._firings, self._numbers = firings, numbers
        self._needed = np.unique(numbers[numbers >= 0])
        self._tokens: Dict[int, Held] = {}
        self._changed = threading.Condition(threading.Lock())
        self.readers: List[Task] = []
        self.written = self.dropped = 0

    def put(self, token: Any, came: Optional[int] = None, marks: Marks = ()) -> None:
        """A new one. Waits while as many are ahead of the reader as there may be."""
        now = time.perf_counter_ns() if came is None else came
        with self._changed:
            number = self.written
            at = int(np.searchsorted(self._needed, number))
            if at == len(self._needed) or self._needed[at] != number:
                self.written += 1
                self.dropped += not self._link.looked_at
                return
            self._until(self._has_room, "comes too early", number)
            self._tokens[number] = Held(token, now, marks, number)
            self.written += 1
            self._changed.notify_all()

    def newest(self, firing: int, over: Callable[[], bool]) -> Optional[Held]:
        """The one that a firing found; None where there was none. Raises StopIteration behind the
        last firing that is known."""
        number = base_of(running(self.readers, self._run)) + firing
        place = int(np.searchsorted(self._firings, number))
        if place == len(self._firings) or self._firings[place] != number:
            raise StopIteration
        wanted = int(self._numbers[place])
        if wanted == NONE:
            return None
        with self._changed:
            self._until(partial(self._is_there, wanted), "does not come", wanted)
            if wanted not in self._tokens:
                raise StopIteration
            found = self._tokens[wanted]
            later = self._numbers[place + 1] if place + 1 < len(self._numbers) else NONE
            if later != wanted:
                for gone in [n for n in self._tokens if n <= wanted]:
                    del self._tokens[gone]
                self._changed.notify_all()
        return found

    def take(self, firing: int, over: Callable[[], bool]) -> Held:
        """The same, where there was one."""
        found = self.newest(firing, over)
        if found is None:
            raise StopIteration
        return found

    def _has_room(self) -> bool:
        """May the next token be put there? It may, too, when the reader has no frame left."""
        readers = [task.app for task in self.readers]
        return len(self._tokens) < self.keep or self._are_over(readers)

    def _is_there(self, number: int) -> bool:
        """Is a token there, or is it known that it does not come?"""
        return number in self._tokens or (self._cut and self._are_over(self._link.writers))

    def _are_over(self, apps: Sequence[App]) -> bool:
        """Has none of these apps a frame left in the state that the program is in?"""
        here = [app for app in apps if app in self._run.running]
        return all(app.done >= app.limit for app in here)

    def _until(self, good: Callable[[], bool], what: str, number: int) -> None:
        """Wait, as long as the program does not end, and anything in it goes on. Raises
        TaskError."""
        done, since = -1, time.monotonic()
        while not good():
            if self._run.stopping or self._run.ending:
                return
            now, progress = time.monotonic(), sum(w.progress for w in self._run.workers)
            if progress != done:
                done, since = progress, now
            if now - since > PATIENCE:
                raise TaskError(
                    "token %d of %s, which was there when the program was recorded, %s; was it"
                    " recorded with another mapping?" % (number, self._link.name, what)
                )
            self._changed.wait(LOOK)


class _Compared:
    """What a channel carries in a replay, beside what it carried."""

    def __init__(self, file: RecordedFile, name: str, track: Track, task: Task, port: Port) -> None:
        self._file, self._name, self._track, self._port = file, name, track, port
        self._task = task
        self.app = task.app.name
        self.equal = self._different = self._missing = 0
        self._largest = 0.0
        self._seen = np.zeros(len(track.numbers), bool)
        #: The first difference: where it is among all messages of the file, and in words.
        self.first: Optional[Tuple[int, str]] = None
        self._at = 0, 0
        self._lock = threading.Lock()

    def compare(self, number: int, token: Any) -> None:
        """A token of the replay."""
        place = self._track.place(number)
        if place == NONE:
            with self._lock:
                self._note(_NOWHERE, number, "is not in the recording")
            return
        reason = ""
        try:
            recorded = token_in(
                self._track.kind, self._file.message(self._track, place), self._port
            )
        except ValueError as error:
            reason = str(error)
        else:
            if recorded.shape != token.shape:
                reason = "is %s instead of %s" % (list(token.shape), list(recorded.shape))
            elif recorded.tobytes() != token.tobytes():
                reason = "differs"
                with self._lock:
                    self._largest = max(self._largest, _distance(recorded, token))
        with self._lock:
            self._seen[place] = True
            if not reason:
                self.equal += 1
                return
            self._different += 1
            self._note(self._track.order(place), number, reason)

    def _note(self, order: int, number: int, reason: str) -> None:
        if self.first is None or (order, number) < self._at:
            self._at = order, number
            self.first = order, "token %d %s" % (number, reason)

    def close(self, frames: int) -> int:
        """It is over, and so many frames had ended when it was recorded: the tokens that count."""
        end = tokens_of(self._port, frames * self._task.per_iteration)
        if self.first is not None and self.first[0] == _NOWHERE and self._at[1] >= end:
            self.first = None  # of a frame that had not ended
        due = self._track.numbers < end
        missing = np.flatnonzero(due & ~self._seen)
        self._missing = len(missing)
        if len(missing):
            place = int(missing[0])
            number = int(self._track.numbers[place])
            self._note(self._track.order(place), number, "does not come")
        return int(np.count_nonzero(due | self._seen))

    def said(self) -> str:
        """What is different."""
        assert self.first is not None
        text = "%s %s" % (self._name, self.first[1])
        if self._largest and self.first[1].endswith("differs"):
            text = text[: -len(" differs")] + ", largest %.3g" % self._largest
        counts = [(self._different, "differ"), (self._missing, "do not come")]
        more = [
            "%s of %s %s" % (format(n, ","), format(len(self._seen), ","), word)
            for n, word in counts
            if n
        ]
        return text + (" (%s)" % ", ".join(more) if more else "")


def _can_be_fed(task: Task) -> bool:
    """Is it a source whose tokens can be in a recording, and that has no others to choose from?"""
    if not task.is_source or not task.outputs or not is_recordable(task):
        return False
    return not task.code.alternatives()


def _distance(recorded: np.ndarray, token: np.ndarray) -> float:
    """The largest difference of two arrays of one shape, where both are numbers."""
    kind = complex if recorded.dtype.kind == "c" else float
    with np.errstate(all="ignore"):
        difference = np.abs(recorded.astype(kind) - np.asarray(token).astype(kind))
        finite = difference[np.isfinite(difference)]
    return float(finite.max()) if finite.size else 0.0
