"""What programs use of rclpy (Humble to Rolling), over sockets in a folder: FLOWC_STAND_IN_BUS.

Arguments have the names and kinds that rclpy documents. Tokens are pickled; a publisher waits where
a reader is slow, as reliable topics do while their history lasts. A late reader of a
`TRANSIENT_LOCAL` topic gets what was said before.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from messages import Time

from .duration import Duration
from .qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from .signals import SignalHandlerOptions

_running = False
_numbers = itertools.count()


def init(
    *, args: list[str] | None = None, signal_handler_options: SignalHandlerOptions | None = None
) -> None:
    """Begin. `--ros-args -r FROM:=TO` renames topics."""
    global _running
    assert not _running and args is not None and signal_handler_options is SignalHandlerOptions.NO
    _running = True
    Node.renamed = dict(word.split(":=") for word in args if ":=" in word)


def ok() -> bool:
    """Has it begun, and not ended?"""
    return _running


def try_shutdown() -> None:
    """End."""
    global _running
    _running = False


def create_node(node_name: str) -> Node:
    """A node; its name has to be one."""
    assert _running and node_name.isidentifier() and "__" not in node_name, node_name
    return Node(node_name)


def _folder(topic: str) -> Path:
    assert all(part.isidentifier() and "__" not in part for part in topic.split("/")), topic
    folder = Path(os.environ["FLOWC_STAND_IN_BUS"]) / topic.replace("/", ".")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _checked(quality: QoSProfile) -> None:
    assert (
        quality.history is HistoryPolicy.KEEP_LAST
        and quality.reliability is ReliabilityPolicy.RELIABLE
    )


class Clock:
    """What time it is."""

    def now(self) -> Clock:
        """Now."""
        return self

    def to_msg(self) -> Any:
        """As a message."""
        return Time(sec=int(time.time()), nanosec=0)


class Publisher:
    """Sends to all readers that are there."""

    def __init__(self, msg_type: type, topic: str, quality: QoSProfile) -> None:
        self._kind, self._folder, self._quality = msg_type, _folder(topic), quality

    def publish(self, msg: Any) -> None:
        """Send a message."""
        assert type(msg) is self._kind, msg
        data = pickle.dumps(msg)
        if self._quality.durability is DurabilityPolicy.TRANSIENT_LOCAL:
            new = self._folder / f"{os.getpid()}.{next(_numbers)}.new"
            new.write_bytes(data)
            new.rename(new.with_suffix(".kept"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            for reader in self._folder.glob("*.sock"):
                with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):  # it has left
                    out.sendto(data, str(reader))

    def get_subscription_count(self) -> int:
        """How many read it."""
        return len(list(self._folder.glob("*.sock")))

    def wait_for_all_acked(self, timeout: Duration) -> bool:
        """Have all readers got everything?"""
        assert isinstance(timeout, Duration)
        return True


class Node:
    """A node with its topics."""

    renamed: ClassVar[dict[str, str]] = {}

    def __init__(self, name: str) -> None:
        self.name = name
        self.readers: dict[socket.socket, Callable[[Any], None]] = {}
        self._paths: list[Path] = []

    def create_publisher(self, msg_type: type, topic: str, qos_profile: QoSProfile) -> Publisher:
        """One who sends."""
        _checked(qos_profile)
        return Publisher(msg_type, self.renamed.get(topic, topic), qos_profile)

    def create_subscription(
        self, msg_type: type, topic: str, callback: Callable[[Any], None], qos_profile: QoSProfile
    ) -> None:
        """Have a function called with each message."""
        _checked(qos_profile)
        folder = _folder(self.renamed.get(topic, topic))
        path = folder / f"{os.getpid()}.{next(_numbers)}.sock"
        reader = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        reader.bind(str(path))
        self._paths.append(path)
        self.readers[reader] = callback
        if qos_profile.durability is DurabilityPolicy.TRANSIENT_LOCAL:
            for kept in sorted(folder.glob("*.kept")):
                callback(pickle.loads(kept.read_bytes()))

    def get_clock(self) -> Clock:
        """Its clock."""
        return Clock()

    def destroy_node(self) -> None:
        """Leave."""
        for path in self._paths:
            path.unlink()


class SingleThreadedExecutor:
    """Calls callbacks, one after the other."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []

    def add_node(self, node: Node) -> bool:
        """Call those of a node."""
        self._nodes.append(node)
        return True

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Call one, if a message comes in time."""
        readers = {
            reader: callback for node in self._nodes for reader, callback in node.readers.items()
        }
        ready, _, _ = select.select(list(readers), [], [], timeout_sec)
        for reader in ready[:1]:
            # no limit: `select` says that there is something
            readers[reader](pickle.loads(reader.recv(1 << 20)))
