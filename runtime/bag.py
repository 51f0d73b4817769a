"""Feeds the sources of a program from a bag of ROS 2, at the times at which its messages came.

In: a program that has not begun, and a bag, which the package `rosbags` reads. Out: the program, in
which sources that have a topic deliver its messages; others are executed. What is compressed is
unpacked within limits here, or looked at before the package unpacks it. A port has the topic of its
name (`/APP/TASK/PORT`), or the one whose last word is its name or its task's, or the only one
whose messages are its tokens.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)
from urllib.parse import quote

import numpy as np

from .code import Code
from .ends import Inlet, Outlet, drop_token
from .files import beginning, read_text
from .options import Mistake
from .record import is_recordable, listed, require, topic_of
from .recorded_file import (
    ANY_CHUNKS,
    CHUNK_RATIO,
    MAGIC,
    MOST_CHUNK,
    SECONDS,
    SECONDS_PER_MB,
    RecordedFile,
)
from .ros_messages import token_in
from .tokens import Port, TaskError

if TYPE_CHECKING:
    from .graph import Task
    from .program import Program
    from .run import Run

#: Messages of a topic that are read ahead; seconds between two looks whether the program ends.
AHEAD, LOOK = 8, 0.02
#: Topics that are named in messages.
MOST_LISTED = 8
#: What a database of SQLite begins with; of its machine, the steps between two looks at the time;
#: and the bytes that a column holds beside numbers.
SQLITE, STEPS = b"SQLite format 3\0", 10_000
_HELD = "(typeof({0}) IN ('text', 'blob')) * coalesce(length({0}), 0)"
#: What a file of Zstandard begins with, and from the second byte on one whose beginning is skipped.
_FRAME, _SKIPPED = b"\x28\xb5\x2f\xfd", b"\x2a\x4d\x18"
#: Bytes, unpacked, of a message that is compressed, and of all files of a bag that are.
MOST_MESSAGE, MOST_UNPACKED = 256 << 20, 1 << 36


class Topic(NamedTuple):
    """A topic: its name, the type of its messages, their number, and the first of them."""

    name: str
    kind: str
    messages: int
    first: bytes

    def refusal(self, port: Port) -> str:
        """Why its messages are no tokens of a port; empty if they are."""
        try:
            token_in(self.kind, self.first, port)
        except ValueError as error:
            return str(error)
        return ""


class Bag:
    """A bag as the source of a program that has not begun. Raises Mistake."""

    def __init__(self, program: Program, path: str) -> None:
        require("rosbags", "--replay of a bag")
        #: What the user should know before it begins.
        self.notes: List[str] = []
        self._path = path
        _require_limits(path)
        self._begin, self._topics = _topics(path)
        for task in program.tasks:
            if isinstance(task.code, Outlet):
                task.code.give = task.code.give or drop_token
        sources = {t.name: t for t in program.tasks if _may_be_fed(t)}
        ports = {(n, k): p for n, t in sources.items() for k, p in enumerate(t.outputs)}
        chosen = self._chosen(ports)
        fed: Dict[str, List[Topic]] = {}
        for name, task in sources.items():
            found = [chosen.get((name, k)) for k in range(len(task.outputs))]
            topics = [topic for topic in found if topic is not None]
            if len(topics) == len(found):
                fed[name] = topics
        self._tell(sources, fed)
        made = {n: Fed(path, self._begin, sources[n], topics) for n, topics in fed.items()}
        for task in program.tasks:
            if task.name in made:
                _put_in(task, made[task.name])

    def _tell(self, sources: Dict[str, Task], fed: Dict[str, List[Topic]]) -> None:
        """Say what is fed from what. Raises Mistake where an open end is not, or nothing is."""
        alone = [name for name in sources if name not in fed]
        closed = [name for name in alone if isinstance(sources[name].code, Inlet)]
        if closed or not fed:
            raise self._nothing_for({name: sources[name] for name in closed or alone})
        for name, topics in fed.items():
            for port, topic in zip(sources[name].outputs, topics):
                said = name, port.name, topic.name, format(topic.messages, ",")
                self.notes.append("%s.%s is fed from %s (%s messages)" % said)
        if alone:
            self.notes.append("not in the bag, and executed: %s" % listed(alone))

    def told(self, limit: Optional[int]) -> Tuple[bool, List[str]]:
        """There is nothing to compare."""
        return True, []

    def _chosen(self, ports: Dict[Tuple[str, int], Port]) -> Dict[Tuple[str, int], Topic]:
        """The topic of each port that has one. Raises Mistake for one whose name says what its
        messages are not."""
        found: Dict[Tuple[str, int], Topic] = {}
        by_type: Dict[Tuple[str, int], Topic] = {}
        for (task, k), port in ports.items():
            fits = [t for t in self._topics if not t.refusal(port)]
            named = self._named(task, port, fits)
            if named is not None:
                found[task, k] = named
            elif len(fits) == 1:
                by_type[task, k] = fits[0]
        taken = [t.name for t in [*found.values(), *by_type.values()]]
        for port_of, topic in by_type.items():
            if taken.count(topic.name) == 1:
                found[port_of] = topic
        return found

    def _named(self, task: str, port: Port, fits: Sequence[Topic]) -> Optional[Topic]:
        """The topic with the name of a port, whole or in its last part. Raises Mistake for one
        whose messages do not fit."""
        whole = topic_of("%s.%s" % (task, port.name))
        for topic in self._topics:
            if topic.name == whole:
                if topic.refusal(port):
                    raise Mistake("%s: a message %s" % (topic.name, topic.refusal(port)))
                return topic
        ends = (port.name, task.rpartition(".")[2])
        named = [t for t in fits if t.name.rpartition("/")[2] in ends]
        return named[0] if len(named) == 1 else None

    def _nothing_for(self, sources: Dict[str, Task]) -> Mistake:
        ports = [(name, port) for name, task in sources.items() for port in task.outputs]
        wanted = ["`%s.%s` (%s)" % (name, port.name, port.kind(0)) for name, port in ports]
        have = ["%s (%s)" % (topic.name, topic.kind) for topic in self._topics]
        reasons = [
            "a message of %s %s" % (topic.name, topic.refusal(port))
            for _, port in ports
            for topic in self._topics
            if topic.refusal(port)
        ]
        return Mistake(
            "%s has no topic, or several, for %s; it has %s%s; name the topic like the port"
            % (
                self._path,
                listed(wanted, MOST_LISTED) or "any source",
                listed(have, MOST_LISTED) or "no messages",
                "; " + reasons[0] if reasons else "",
            )
        )


def _may_be_fed(task: Task) -> bool:
    """Is it a source whose tokens may come from topics?"""
    recordable = task.is_source and bool(task.outputs) and is_recordable(task)
    return recordable and not task.code.alternatives()


def _put_in(task: Task, fed: Fed) -> None:
    """Let a source be fed; tokens that it may drop are dropped as ever."""
    around: Any = task.code
    if around.inner is not None and around.place is not None:
        around.code = around.inner = fed
    else:
        task.code = fed
    fed.run = task.app.run


def _reader(path: str) -> Any:
    """A bag that is open. Raises what the package raises."""
    from rosbags.rosbag2 import Reader

    reader = Reader(Path(path))
    reader.open()
    return reader


def _messages(reader: Any, connections: Sequence[Any]) -> Iterator[Tuple[int, bytes]]:
    """Times and bytes of messages; those that are compressed one by one are unpacked here. Raises
    what the package raises, and ValueError."""
    storage = reader.storage
    unpacked: Callable[[Any], bytes] = bytes
    if reader.compression_mode == "message":
        storage.metadata = storage.metadata._replace(compression_mode=None)
        unpacked = _unpacked
    for _, stamp, data in storage.messages(connections):
        yield stamp, unpacked(data)


def _unpacked(data: Any) -> bytes:
    """What a message holds that is compressed. Raises ValueError."""
    with _unpacking(data) as stream:
        found: bytes = stream.read(MOST_MESSAGE + 1)
    if len(found) > MOST_MESSAGE:
        raise ValueError("has more than %d MiB" % (MOST_MESSAGE >> 20))
    return found


def _unpacking(source: Any) -> Any:
    """A stream of what a stream or bytes hold."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=MOST_CHUNK)
    return decompressor.stream_reader(source, read_across_frames=True)


def _require_limits(path: str) -> None:
    """Raises Mistake for files with more in them than their size allows: the package unpacks them
    as they are, and reads to the end."""
    try:
        if not os.path.isdir(path):
            _require_content(path)
            return
        about = read_text(os.path.join(path, "metadata.yaml"))
        files = [os.path.join(path, name) for name in sorted(os.listdir(path))]
        whole = re.search(r"compression_mode:[ '\"]*file", about, re.IGNORECASE) is not None
        room = min(MOST_UNPACKED, shutil.disk_usage(tempfile.gettempdir()).free)
        for file in files:
            _require_content(file)
            if whole and not file.endswith(".yaml"):
                room -= _require_unpacked(file, room)
    except Mistake:
        raise
    except Exception as error:  # of the package, for what is damaged
        reason = getattr(error, "strerror", None) or error
        raise Mistake("%s cannot be read as a bag of ROS 2: %s" % (path, reason)) from None


def _require_content(path: str) -> None:
    """Raises Mistake and ValueError for a file of a bag that holds more than it can."""
    begin = beginning(path, len(SQLITE))
    if begin == SQLITE:
        _require_table(path)
    elif begin.startswith(MAGIC):
        recorded = RecordedFile(path)
        recorded.require_index()
        recorded.close()


def _require_table(path: str) -> None:
    """Raises ValueError for a database of SQLite that holds anything but rows as large as itself:
    a damaged or made one has rows without end. And what the package `sqlite3` raises."""
    import sqlite3

    size = os.path.getsize(path)
    seconds = SECONDS + SECONDS_PER_MB * size / 1e6
    end = time.thread_time() + seconds
    file = "file:%s?mode=ro&immutable=1" % quote(os.path.abspath(path))
    with closing(sqlite3.connect(file, uri=True)) as base:
        base.set_progress_handler(lambda: time.thread_time() > end, STEPS)
        try:
            _require_rows(base, size)
        except sqlite3.OperationalError:
            if time.thread_time() > end:
                raise ValueError("it takes more than %.0f s" % seconds) from None
            raise


def _require_rows(base: Any, size: int) -> None:
    """Raises ValueError for a database, of so many bytes, whose tables are not what it holds."""
    for (name,) in base.execute("SELECT name FROM sqlite_master WHERE rootpage = 0"):
        raise ValueError("`%s` is computed" % str(name)[:80])
    for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        columns = base.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (name,)).fetchall()
        if any(hidden for _, hidden in columns):
            raise ValueError("`%s` has columns that are computed" % name[:80])
        held = " + ".join(_HELD.format(_quoted(column)) for column, _ in columns)
        some = "SELECT %s AS held FROM %s LIMIT %d" % (held, _quoted(name), size + 1)
        rows = base.execute("SELECT count(*), total(held) FROM (%s)" % some)
        if max(rows.fetchone()) > size:
            raise ValueError("`%s` has more in it than the file" % name[:80])


def _quoted(name: str) -> str:
    return '"%s"' % name.replace('"', '""')


def _require_unpacked(path: str, most: int) -> int:
    """Bytes of a file when it is unpacked; 0 for one that is not compressed. Raises OSError and
    what the package raises; Mistake and ValueError for more than `most`, and for what it holds."""
    size = 0
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as source, tempfile.NamedTemporaryFile() as copy:
        begin = source.peek(4)
        if begin[:4] != _FRAME and begin[1:4] != _SKIPPED:
            return 0
        most = min(most, ANY_CHUNKS + CHUNK_RATIO * os.fstat(file).st_size)
        with _unpacking(source) as stream:
            while True:
                piece = stream.read(1 << 20)
                size += len(piece)
                if not piece:
                    break
                if size > most:
                    raise ValueError("%s is larger than the room for it, unpacked" % path)
                copy.write(piece)
        copy.flush()
        _require_content(copy.name)
    return size


def _topics(path: str) -> Tuple[int, List[Topic]]:
    """When the first message came, and the topics with messages. Raises Mistake."""
    if path.endswith(".bag"):
        raise Mistake("%s is a bag of ROS 1: `rosbags-convert` makes one of ROS 2 of it" % path)
    try:
        reader = _reader(path)
        found = []
        for connection in reader.connections:
            for _, data in _messages(reader, [connection]):
                count = connection.msgcount
                found.append(Topic(connection.topic, connection.msgtype, count, data))
                break
        begin = reader.start_time
        reader.close()
    except Exception as error:  # of the package, for whatever is wrong with the file
        raise Mistake("%s cannot be read as a bag of ROS 2: %s" % (path, error)) from None
    return begin, found


class Fed(Code):
    """A source whose tokens are the messages of topics, one for each of its ports."""

    def __init__(self, path: str, begin: int, task: Task, topics: Sequence[Topic]) -> None:
        self._begin, self._ports = begin, task.outputs
        self._feeds = [_Feed(path, topic, port) for topic, port in zip(topics, task.outputs)]
        self._arrived: Optional[int] = None
        self.run: Any = None

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        for feed in self._feeds:
            feed.start()

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        made: List[Any] = []
        for port, feed in zip(self._ports, self._feeds):
            tokens = [self._next(feed) for _ in range(port.rate(firing))]
            if not port.stacked:
                made.append(tokens[0])
            else:
                made.append(tokens if port.bounded or not tokens else np.stack(tokens))
        return made[0] if len(made) == 1 else tuple(made)

    def _next(self, feed: _Feed) -> np.ndarray:
        """The next token, when its time has come. Raises StopIteration at the end."""
        stamp, token = feed.next(self.run)
        due = self.run.begin + stamp - self._begin
        while not self.run.full_speed:
            left = due - time.perf_counter_ns()
            if left <= 0:
                break
            if self.run.ending or self.run.stopping:
                raise StopIteration
            time.sleep(min(left / 1e9, LOOK))
        self._arrived = max(self._arrived or 0, due) if not self.run.full_speed else None
        return token

    def arrived(self) -> Optional[int]:
        return self._arrived

    def close(self) -> None:
        for feed in self._feeds:
            feed.over.set()


class _Feed(threading.Thread):
    """Reads the messages of a topic ahead."""

    def __init__(self, path: str, topic: Topic, port: Port) -> None:
        threading.Thread.__init__(self, name="bag", daemon=True)
        self._path, self._topic, self._port = path, topic, port
        self._ready: queue.Queue[Any] = queue.Queue(AHEAD)
        self.over = threading.Event()

    def next(self, run: Run) -> Tuple[int, np.ndarray]:
        """Time and token. Raises StopIteration at the end, and TaskError for what is no token."""
        while not (run.ending or run.stopping):
            try:
                found = self._ready.get(timeout=LOOK)
            except queue.Empty:
                continue
            if isinstance(found, BaseException):
                self._ready.put(found)
                raise found
            return found  # type: ignore[no-any-return]
        raise StopIteration

    def run(self) -> None:
        end: BaseException = StopIteration()
        try:
            reader = _reader(self._path)
            wanted = [c for c in reader.connections if c.topic == self._topic.name]
            for stamp, data in _messages(reader, wanted):
                if not self._put((stamp, token_in(self._topic.kind, data, self._port))):
                    break
            reader.close()
        except ValueError as error:
            end = TaskError("a message of %s %s" % (self._topic.name, error))
        except Exception as error:  # of the package
            end = TaskError("%s cannot be read: %s" % (self._path, error))
        self._put(end)

    def _put(self, found: Any) -> bool:
        """False when the program has ended, and reads no more."""
        while not self.over.is_set():
            try:
                self._ready.put(found, timeout=LOOK)
                return True
            except queue.Full:
                continue
        return False
