"""Records a run: what tasks write, and what was decided, so that a replay (replay.py) does the same
again.

In: a program that has not begun, a file, and the channels that are wanted. Out: a file in the
format MCAP with a topic for each channel, whose messages are tokens, and one for decisions: the
tokens that readers of mailboxes found, firings of sources that were left out or wrote lists, frames
and stays in states. A process of its own writes the file (record_file.py). What waits for it is
bounded: when the bound is reached, firings wait; when nothing goes on for long, tokens are dropped,
counted and told.

All that is recorded passes through one queue, in an order in which everything stands behind what it
depends on: whatever was recorded until the program was killed can be replayed.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
from collections import deque
from time import time_ns
from typing import TYPE_CHECKING, Any, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import record_file
from .forks import at_fork
from .options import Mistake
from .report import build_of
from .ros_messages import STRING, definition_of, message, message_of, text_message
from .tokens import OPEN, Missing, Pieces, Port

if TYPE_CHECKING:
    from .graph import Task
    from .program import Program

#: The topic of decisions, and the version of what they say.
DECISIONS, VERSION = "/flowc/decisions", "1"
#: Bytes that may wait to be written, and bytes of the largest token.
MOST_WAITING, LARGEST = 256 << 20, 200 << 20
#: Bytes that the queue needs beside a token.
BESIDE = 300
#: Seconds: between two looks at the queue, between two notes of how far the program is, and after
#: which what is stuck is given up.
LOOK, NOTED, PATIENCE = 0.05, 1.0, 10.0
#: Bytes that are written in one piece with others; size of the pipe.
SMALL, PIPE = 1 << 14, 1 << 20
#: Sets the size of a pipe (Linux).
_SET_PIPE_SIZE = 1031
#: Memory of large messages is kept for the next ones: this saves half of the work (glibc).
_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "268435456"}
#: What the process that writes executes: a file, its argument, and where packages are.
_RUN = """
import runpy, sys
sys.path[:] = sys.argv[3:]
runpy.run_path(sys.argv.pop(1), {}, "__main__")
"""


class Item(NamedTuple):
    """What waits to be written: a token, or a text as a decision."""

    channel: RecordedChannel
    number: int
    log: int
    publish: int
    token: Any


class RecordedChannel:
    """A port whose tokens are recorded, by its name `APP.TASK.PORT`."""

    def __init__(self, name: str, kind: str, task: Optional[Task], port: Optional[Port]) -> None:
        self.name, self.kind, self.task, self.port = name, kind, task, port
        self.topic = DECISIONS if port is None else topic_of(name)
        self.number = self.count = 0

    def about(self) -> Dict[str, Any]:
        """What the file says of it, once all tasks know how often they fire."""
        told: Dict[str, str] = {"version": VERSION}
        if self.task is not None and self.port is not None:
            port = self.port
            told = {
                "channel": self.name,
                "dtype": str(port.dtype),
                "shape": json.dumps(list(port.shape)),
                "tokens_per_frame": str(tokens_of(port, self.task.per_iteration)),
                "source": str(int(self.task.is_source)),
            }
        return {
            "topic": self.topic,
            "kind": self.kind,
            "definition": definition_of(self.kind),
            "metadata": told,
        }


def topic_of(name: str) -> str:
    """The topic of a channel `APP.TASK.PORT`, with characters that ROS 2 allows."""
    return "/" + re.sub("[^A-Za-z0-9_/]", "_", name.replace(".", "/"))


def tokens_of(port: Port, firings: int) -> int:
    """Tokens that the first firings write, at most."""
    rounds, rest = divmod(firings, len(port.rates))
    return rounds * sum(port.rates) + sum(port.rates[:rest])


def numbered(port: Port, stacked: bool, first: int, block: Any) -> List[Tuple[int, Any]]:
    """The tokens of a block, with their numbers: the first has the number `first`. Tokens that are
    not there have none."""
    if not (port.stacked or stacked):
        return [(first, block)]
    if isinstance(block, Missing):
        return []
    if not isinstance(block, Pieces):
        return [(first + i, token) for i, token in enumerate(block)]
    found: List[Tuple[int, Any]] = []
    for piece in block.pieces:
        if not isinstance(piece, Missing):
            found += [(first + i, token) for i, token in enumerate(piece)]
        first += len(piece)
    return found


def _lengths(ports: Sequence[Port], blocks: Sequence[Any]) -> List[Optional[int]]:
    """Of lists, how long they are."""
    return [len(block) if port.count else None for port, block in zip(ports, blocks)]


def is_recordable(task: Task) -> bool:
    """Can its tokens be recorded?"""
    return not task.code.hands_on and all(
        port.dtype != object and OPEN not in port.shape for port in task.outputs
    )


def base_of(task: Task) -> int:
    """Firings of a task in earlier stays in states."""
    return task.app.base * task.per_iteration


def wanted(names: Sequence[str], patterns: str) -> List[str]:
    """The names that patterns with commas between choose: `cam.image,plan.*`. Raises Mistake."""
    found: List[str] = []
    for pattern in filter(None, [p.strip() for p in patterns.split(",")]):
        exact = pattern.replace("[", "[[]")
        chosen = [
            name
            for name in names
            if fnmatch.fnmatchcase(name, exact) or fnmatch.fnmatchcase(name, "*." + exact)
        ]
        if not chosen:
            raise Mistake(
                "--channels: there is no channel `%s`; there is %s" % (pattern, listed(names))
            )
        found += chosen
    return list(dict.fromkeys(found))


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names in a text, not all of very many."""
    shown = ", ".join(names[:most])
    return shown + (" and %d more" % (len(names) - most) if len(names) > most else "")


def require(package: str, option: str) -> None:
    """Raises Mistake where a package is not installed."""
    if importlib.util.find_spec(package) is None:
        raise Mistake(
            "%s needs the package %s: pip install 'flowc[record]' (or %s alone)"
            % (option, package, package)
        )


class Recorder:
    """Records a program that has not begun. Raises Mistake for what is asked wrongly, and OSError
    for a file that cannot be written."""

    def __init__(
        self,
        program: Program,
        path: str,
        patterns: Optional[str] = None,
        settings: Sequence[str] = (),
    ) -> None:
        require("mcap", "--record")
        self.path, self._program, self._run = path, program, program.run
        self._lock = threading.Lock()
        self._queue: Deque[Item] = deque()
        self._waiting = 0
        #: Is nothing written any more, and why?
        self.broken = ""
        self.dropped = self.waited = 0
        self._closed = False
        self._moved = time.monotonic()
        self._wall = time_ns() - time.perf_counter_ns()
        self._decided = RecordedChannel("", STRING, None, None)
        self.channels: Dict[str, RecordedChannel] = {}
        self._defined = False
        self._about = {
            "version": VERSION,
            "program": program.name,
            "build": build_of(program.run.home) or "",
            "settings": json.dumps(list(settings)),
        }
        self._choose(patterns)
        file = _opened(path)
        try:
            self._process = _started(file)
        finally:
            os.close(file)
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        at_fork(self)
        self._thread = threading.Thread(target=self._feed, name="recorder", daemon=True)
        self._thread.start()

    def forked(self) -> None:
        """A process that is forked from this one does not keep the writer waiting for its end."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    # -- what is recorded --------------------------------------------------------------------------
    def _choose(self, patterns: Optional[str]) -> None:
        tasks = [t for t in self._program.tasks if t.outputs and is_recordable(t)]
        names = {"%s.%s" % (t.name, p.name): (t, p) for t in tasks for p in t.outputs}
        if patterns is None:
            chosen = [n for n, (t, _) in names.items() if t.code.device is None]
        else:
            chosen = wanted(list(names), patterns)
        topics: Dict[str, str] = {}
        for name in chosen:
            task, port = names[name]
            size = int(np.prod(port.shape, dtype=np.int64)) * port.dtype.itemsize
            if size > LARGEST:
                raise Mistake(
                    "tokens of %s have %d MB, and a recording takes %d MB at most: leave it out"
                    " with --channels" % (name, size >> 20, LARGEST >> 20)
                )
            channel = RecordedChannel(name, message_of(port), task, port)
            while channel.topic in topics:
                channel.topic += "_"
            topics[channel.topic] = name
            self.channels[name] = channel
        for number, each in enumerate([self._decided, *self.channels.values()]):
            each.number = number
        for task in self._program.tasks:
            self._listen_to(task)

    def _listen_to(self, task: Task) -> None:
        if task.code.finds_in is not None:
            reader: Any = task.code
            reader.told = lambda firing, number: self._took(reader, firing, number)
            return
        mine = [self.channels.get("%s.%s" % (task.name, port.name)) for port in task.outputs]
        if not any(mine):
            return

        before = task.recorded

        def recorded(firing: int, group: int, blocks: Optional[Sequence[Any]]) -> None:
            if before is not None:
                before(firing, group, blocks)
            self._record(task, mine, firing, blocks)

        task.recorded = recorded

    def _record(
        self,
        task: Task,
        channels: Sequence[Optional[RecordedChannel]],
        firing: int,
        blocks: Optional[Sequence[Any]],
    ) -> None:
        """What firings of a task have written; None: they were left out."""
        now = time.perf_counter_ns()
        number = base_of(task) + firing
        if task.is_source and (blocks is None or task.lists is not None):
            lengths = None if blocks is None else _lengths(task.outputs, blocks)
            self._decide(now, {"task": task.name, "firing": number, "lists": lengths})
        if blocks is None:
            return
        release = task.app.released(firing // task.per_iteration)
        publish = self._wall + (now if release is None else release)
        stacked = task.code.batch > 1
        for channel, port, block in zip(channels, task.outputs, blocks):
            if channel is not None:
                for token, value in numbered(port, stacked, tokens_of(port, number), block):
                    item = Item(channel, token, self._wall + now, publish, value)
                    self._put(item, value.nbytes + BESIDE)

    def _took(self, reader: Any, firing: int, number: Optional[int]) -> None:
        """The reader of a mailbox has found a token."""
        task = running(reader.tasks, self._run)
        told = {"reader": task.name, "firing": base_of(task) + firing, "took": number}
        self._decide(time.perf_counter_ns(), told)

    def _decide(self, now: int, told: Dict[str, Any]) -> None:
        time_ns = self._wall + now
        self._put(Item(self._decided, 0, time_ns, time_ns, told), BESIDE)

    def _put(self, item: Item, size: int) -> None:
        """Give it to the thread that writes; wait where too much waits already."""
        if self._waiting > MOST_WAITING and not self.broken:
            self._wait()
        if self.broken:
            with self._lock:
                self.dropped += 1
            return
        self._append(item, size)

    def _append(self, item: Item, size: int) -> None:
        with self._lock:
            self._queue.append(item)
            self._waiting += size

    def _wait(self) -> None:
        begin = time.monotonic()
        while self._waiting > MOST_WAITING and not self.broken:
            if self._run.stopping:
                break
            if time.monotonic() - self._moved > PATIENCE:
                self.broken = "nothing could be written for %d s" % PATIENCE
            time.sleep(LOOK)
        with self._lock:
            self.waited += int((time.monotonic() - begin) * 1e9)

    # -- the thread --------------------------------------------------------------------------------
    def _feed(self) -> None:
        noted = time.monotonic()
        try:
            while True:
                closed = self._closed
                now = time.monotonic()
                due = now - noted > NOTED and self._run.begin
                if due:
                    noted = now
                    self._note(False)
                moved = self._drain()
                if due:
                    self._send(record_file.FLUSH)
                if closed and not moved:
                    return
                if not moved:
                    self._moved = now
                    time.sleep(LOOK)
        except OSError:
            self.broken = self.broken or self._reason()
        except Exception as error:  # our own mistake
            self.broken = "internal error: %s: %s" % (type(error).__name__, error)

    def _note(self, ended: bool) -> None:
        """How far the program is."""
        told = progress(self._program, ended)
        if self._run.begin:
            told["began"] = self._wall + self._run.begin
        now = self._wall + time.perf_counter_ns()
        self._append(Item(self._decided, 0, now, now, told), BESIDE)

    def _drain(self) -> bool:
        """Write all that waits; False if nothing did."""
        if not self._queue:
            return False
        if not self._defined:
            self._define()
        together: List[bytes] = []
        size = 0
        for _ in range(len(self._queue)):
            item = self._queue.popleft()
            before, data = self._packed(item)
            if len(data) > SMALL:
                self._write(b"".join([*together, before]))
                self._write(memoryview(data))
                together, size = [], 0
            else:
                together += [before, bytes(data)]
                size += len(before) + len(data)
                if size > SMALL:
                    self._write(b"".join(together))
                    together, size = [], 0
            token = item.token
            with self._lock:
                self._waiting -= BESIDE + (0 if item.channel.port is None else token.nbytes)
        self._write(b"".join(together))
        return True

    def _define(self) -> None:
        """Say what is in the file; by now tasks know how often they fire."""
        self._defined = True
        self._send(record_file.ABOUT, 0, json.dumps(self._about).encode())
        for channel in [self._decided, *self.channels.values()]:
            about = json.dumps(channel.about()).encode()
            self._send(record_file.CHANNEL, channel.number, about)

    def _packed(self, item: Item) -> Tuple[bytes, Any]:
        channel = item.channel
        if channel.port is None:
            data: Any = text_message(json.dumps(item.token))
            before = b""
        else:
            before, data = message(channel.kind, item.token, item.publish)
        sequence = (channel.count if channel.port is None else item.number) & 0xFFFFFFFF
        channel.count += 1
        size = len(before) + len(data)
        head = record_file.HEAD.pack(
            record_file.MESSAGE, channel.number, sequence, item.log, max(0, item.publish), size
        )
        return head + before, data

    def _send(self, kind: int, channel: int = 0, data: bytes = b"") -> None:
        self._write(record_file.HEAD.pack(kind, channel, 0, 0, 0, len(data)) + data)

    def _write(self, data: Any) -> None:
        """Raises OSError when the process that writes has ended."""
        while data:
            data = data[os.write(self._pipe, data) :]
            self._moved = time.monotonic()

    def _reason(self) -> str:
        """Why the process that writes has ended."""
        try:
            _, said = self._process.communicate(timeout=PATIENCE)
        except (subprocess.TimeoutExpired, ValueError):
            said = b""
        return said.decode("utf-8", "replace").strip() or "its process has ended"

    # -- the end -----------------------------------------------------------------------------------
    def finish(self) -> str:
        """The program is over: write what waits. What has to be said where something is missing."""
        if not self.broken:
            self._note(True)
        self._closed = True
        while self._thread.is_alive() and time.monotonic() - self._moved < PATIENCE:
            self._thread.join(LOOK)
        if self._thread.is_alive():
            self.broken = self.broken or "nothing could be written for %d s" % PATIENCE
            self._process.kill()
            self._thread.join(PATIENCE)
        self._end_process()
        left = self.dropped + sum(i.channel.port is not None for i in self._queue)
        if not self.broken:
            return ""
        lost = "; %s tokens are missing" % format(left, ",") if left else ""
        return "the recording %s is not complete: %s%s" % (self.path, self.broken, lost)

    def _end_process(self) -> None:
        process = self._process
        try:
            _, said = process.communicate(timeout=PATIENCE)
            status = process.returncode
        except (OSError, ValueError, subprocess.TimeoutExpired):
            process.kill()
            said, status = b"", 1
        if status and not self.broken:
            self.broken = said.decode("utf-8", "replace").strip() or "its process has ended"

    def told(self) -> str:
        """What is in the file."""
        tokens = sum(c.count for c in self.channels.values())
        text = "%s tokens of %d channels are in %s (%.1f MB)" % (
            format(tokens, ","),
            len(self.channels),
            self.path,
            os.path.getsize(self.path) / 1e6,
        )
        if self.waited > 1e7:
            text += "; firings waited %.2f s until it was written" % (self.waited / 1e9)
        return text


def running(tasks: Sequence[Task], run: Any) -> Task:
    """Of the tasks that are one in several states: that of the state that the program is in."""
    if len(tasks) == 1:
        return tasks[0]
    apps = run.running
    return next((task for task in tasks if task.app in apps), tasks[0])


def progress(program: Program, ended: bool) -> Dict[str, Any]:
    """How far a program is: frames of each app that have ended and begun, in all states; and its
    stays in states that are not over, which follow so many that are."""
    apps = {app.name: app for app in program.apps}
    apps.update((app.name, app) for app in program.run.running)
    control = program.control
    told: Dict[str, Any] = {"ended": ended, "frames": {}, "begun": {}}
    for name, app in apps.items():
        base = app.base if control is None or app in program.run.running else control.had(name)
        here = control is None or app in program.run.running
        told["frames"][name] = base + (app.done if here else 0)
        told["begun"][name] = base + (app.begun + 1 if here else 0)
    if control is not None:
        told["after"], told["stays"] = control.so_far()
    return told


def _opened(path: str) -> int:
    """A file that is empty now. Raises OSError and Mistake."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise Mistake("--record: %s is no file" % path)
    os.ftruncate(file, 0)
    return file


def _started(file: int) -> subprocess.Popen[bytes]:
    """The process that writes to a file."""
    command = [sys.executable, *subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]
    command += ["-c", _RUN, os.path.abspath(record_file.__file__), str(file)]
    command += [p for p in sys.path if isinstance(p, str)]
    process = subprocess.Popen(
        command,
        env=dict(os.environ, **_MEMORY),
        pass_fds=[file],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    try:
        import fcntl

        assert process.stdin is not None
        fcntl.fcntl(process.stdin.fileno(), _SET_PIPE_SIZE, PIPE)
    except OSError:
        pass  # it is as large as the system likes
    return process
