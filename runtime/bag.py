"""Feeds the sources of a program from a bag of ROS 2, at the times at which its messages came.

In: a program that has not begun, and a bag, which the package `rosbags` reads. Out: the program, in
which sources that have a topic deliver its messages; others are executed. A port has the topic of
its name (`/APP/TASK/PORT`), or the one whose last word is its name or its task's, or the only one
whose messages are its tokens.
"""

from __future__ import annotations

import queue
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .code import Code
from .ends import Inlet, Outlet, drop_token
from .options import Mistake
from .record import is_recordable, listed, require, topic_of
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
        self._program, self._path = program, path
        self._begin, self._topics = _topics(path)
        ports: Dict[Tuple[str, int], Port] = {}
        sources: Dict[str, Task] = {}
        for task in program.tasks:
            if isinstance(task.code, Outlet):
                task.code.give = task.code.give or drop_token
            if task.is_source and is_recordable(task) and not task.code.alternatives():
                sources[task.name] = task
                ports.update(((task.name, k), port) for k, port in enumerate(task.outputs))
        chosen = self._chosen(ports)
        fed = {
            name: [chosen[name, k] for k in range(len(task.outputs))]
            for name, task in sources.items()
            if task.outputs and all((name, k) in chosen for k in range(len(task.outputs)))
        }
        alone = [name for name, task in sources.items() if task.outputs and name not in fed]
        closed = [name for name in alone if isinstance(sources[name].code, Inlet)]
        if closed or not fed:
            raise self._nothing_for(closed or alone, ports)
        for name, topics in fed.items():
            for port, topic in zip(sources[name].outputs, topics):
                said = name, port.name, topic.name, format(topic.messages, ",")
                self.notes.append("%s.%s is fed from %s (%s messages)" % said)
        if alone:
            self.notes.append("not in the bag, and executed: %s" % listed(alone))
        made = {n: Fed(path, self._begin, sources[n], topics) for n, topics in fed.items()}
        for task in program.tasks:
            if task.name in made:
                _put_in(task, made[task.name])

    def told(self, limit: Optional[int]) -> Tuple[bool, List[str]]:
        """There is nothing to compare."""
        return True, []

    def _chosen(self, ports: Dict[Tuple[str, int], Port]) -> Dict[Tuple[str, int], Topic]:
        """The topic of each port that has one. Raises Mistake for one whose name says what its
        messages are not."""
        found: Dict[Tuple[str, int], Topic] = {}
        by_type: Dict[Tuple[str, int], Topic] = {}
        for (task, k), port in ports.items():
            name = "%s.%s" % (task, port.name)
            exact = [t for t in self._topics if t.name == topic_of(name)]
            if exact and exact[0].refusal(port):
                raise Mistake("%s: a message %s" % (exact[0].name, exact[0].refusal(port)))
            fits = [t for t in self._topics if not t.refusal(port)]
            ends = (port.name, task.rpartition(".")[2])
            named = [t for t in fits if t.name.rpartition("/")[2] in ends]
            if exact or len(named) == 1:
                found[task, k] = (exact or named)[0]
            elif len(fits) == 1:
                by_type[task, k] = fits[0]
        taken = [t.name for t in [*found.values(), *by_type.values()]]
        for port_of, topic in by_type.items():
            if taken.count(topic.name) == 1:
                found[port_of] = topic
        return found

    def _nothing_for(self, names: Sequence[str], ports: Dict[Tuple[str, int], Port]) -> Mistake:
        wanted = [
            "`%s.%s` (%s)" % (task, port.name, port.kind(0))
            for (task, _), port in ports.items()
            if task in names
        ]
        have = ["%s (%s)" % (topic.name, topic.kind) for topic in self._topics]
        reasons = [
            "a message of %s %s" % (topic.name, topic.refusal(port))
            for (task, _), port in ports.items()
            for topic in self._topics
            if task in names and topic.refusal(port)
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


def _topics(path: str) -> Tuple[int, List[Topic]]:
    """When the first message came, and the topics with messages. Raises Mistake."""
    if path.endswith(".bag"):
        raise Mistake("%s is a bag of ROS 1: `rosbags-convert` makes one of ROS 2 of it" % path)
    try:
        reader = _reader(path)
        found = []
        for connection in reader.connections:
            for _, _, data in reader.messages([connection]):
                count = connection.msgcount
                found.append(Topic(connection.topic, connection.msgtype, count, bytes(data)))
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
            for _, stamp, data in reader.messages(wanted):
                if not self._put((stamp, token_in(self._topic.kind, bytes(data), self._port))):
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
