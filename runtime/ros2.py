"""A program as a node of ROS 2: open ends are topics, tokens are messages of `sensor_msgs` and
`std_msgs`.

In: a program, in a process that ROS 2 has started. Out: its exit status. Written for ROS 2 Humble
and later, on the documented interface of rclpy.
"""

from __future__ import annotations

import array
import importlib.util
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from . import command
from .bridge import Bridge, room
from .program import Program
from .ros_messages import ENCODINGS, MESSAGES, is_picture
from .tokens import Port

#: Codes of elements where numpy and messages differ.
_CODES = {"l": "q", "L": "Q"}
#: Seconds between two looks whether the program has ended, and for which readers may take their
#: time at the end.
LOOK, ACKNOWLEDGED = 0.1, 5.0


def main(build: Callable[[], Program], ends: Dict[str, str], name: str) -> int:
    """What `main.py` does, as a node of that name: see `command.main`. `ends`: the topics of the
    open ends."""
    words = list(sys.argv)

    def made() -> Program:
        program = build()
        program.bridge = RosNode(program, ends, name, words)
        return program

    sys.argv = words[:1] + _own_words(words[1:])
    return command.main(made)


def _own_words(words: Sequence[str]) -> List[str]:
    """The words of a command line that are not for ROS 2, which has those from `--ros-args` to
    `--`."""
    own, theirs = [], False
    for word in words:
        if theirs:
            theirs = word != "--"
        elif word == "--ros-args":
            theirs = True
        else:
            own.append(word)
    return own


class RosNode(Bridge):
    """The open ends of a program, as topics of a node."""

    def __init__(
        self, program: Program, ends: Dict[str, str], name: str, words: Sequence[str]
    ) -> None:
        Bridge.__init__(self, program, ends)
        self._name, self._words = name, list(words)
        self._rclpy: Any = None
        self._node: Any = None
        self._executor: Any = None
        self._meeting: Any = None
        self._publishers: Dict[str, Any] = {}
        self._kinds: Dict[str, Any] = {}
        self._sending = threading.Lock()
        self._thread: Optional[threading.Thread] = None
        self._leaving = False

    def lacks(self) -> str:
        """See `Bridge`."""
        missing = [
            n for n in ("rclpy", "sensor_msgs", "std_msgs") if importlib.util.find_spec(n) is None
        ]
        return "%s is missing: source the setup of ROS 2 first" % missing[0] if missing else ""

    def connect(self) -> None:
        """See `Bridge`."""
        import rclpy
        import sensor_msgs.msg
        import std_msgs.msg
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
        from rclpy.signals import SignalHandlerOptions

        self._rclpy = rclpy
        # signals are the supervisor's
        rclpy.init(args=self._words, signal_handler_options=SignalHandlerOptions.NO)
        transport = self.run.transport
        self._node = node = rclpy.create_node(
            self._name if transport is None else "%s_%s" % (self._name, transport.name)
        )
        reliable = {"reliability": ReliabilityPolicy.RELIABLE, "history": HistoryPolicy.KEEP_LAST}
        for tasks in (self.inlets, self.outlets):
            for name, task in tasks.items():
                (port,) = (*task.inputs, *task.outputs)
                picture = is_picture(str(port.dtype), port.shape)
                messages = sensor_msgs.msg.Image
                if not picture:
                    messages = getattr(std_msgs.msg, MESSAGES[str(port.dtype)])
                quality = QoSProfile(depth=room(str(port.dtype), port.shape), **reliable)
                self._kinds[name] = messages
                if tasks is self.inlets:
                    node.create_subscription(messages, name, self._hearing(name, picture), quality)
                else:
                    self._publishers[name] = node.create_publisher(messages, name, quality)
        if transport is not None:
            kept = QoSProfile(
                depth=len(transport.names), durability=DurabilityPolicy.TRANSIENT_LOCAL, **reliable
            )
            topic = "%s/meet" % self._name
            node.create_subscription(
                std_msgs.msg.String, topic, lambda message: self.met(message.data), kept
            )
            self._meeting = node.create_publisher(std_msgs.msg.String, topic, kept)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(node)
        self._thread = threading.Thread(target=self._run, name="ros2", daemon=True)
        self._thread.start()

    def send(self, name: str, token: np.ndarray) -> None:
        """See `Bridge`."""
        make = self._picture if is_picture(str(token.dtype), token.shape) else self._numbers
        message = make(self._kinds[name](), token)
        with self._sending:
            self._publishers[name].publish(message)

    def tell(self, text: str) -> None:
        """See `Bridge`."""
        from std_msgs.msg import String

        self._meeting.publish(String(data=text))

    def disconnect(self) -> None:
        """See `Bridge`."""
        if self._node is None:
            return
        from rclpy.duration import Duration

        for publisher in self._publishers.values():
            publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGED))
        self._leaving = True
        if self._thread is not None:
            self._thread.join()  # no limit: it looks every LOOK seconds
        self._node.destroy_node()
        self._rclpy.try_shutdown()
        self._node = self._thread = None

    def _run(self) -> None:
        try:
            while not self._leaving:
                self._executor.spin_once(timeout_sec=LOOK)
                if not self._rclpy.ok():
                    self.stop()
                    return
        except Exception as error:  # what comes in is not what it should be
            self.fail("the connection to ROS 2 failed: %s: %s" % (type(error).__name__, error))

    # -- messages ----------------------------------------------------------------------------------
    def _hearing(self, name: str, picture: bool) -> Callable[[Any], None]:
        read = self._from_picture if picture else self._from_numbers
        port = self.inlets[name].outputs[0]

        def hear(message: Any) -> None:
            try:
                token, shape = read(message, port)
            except ValueError as error:
                self.fail("`%s` was given %s" % (name, error), self.inlets[name])
                return
            self.came(name, token, shape)

        return hear

    def _picture(self, message: Any, token: np.ndarray) -> Any:
        height, width, channels = (*token.shape, 1)[:3]
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.height, message.width = height, width
        message.encoding = ENCODINGS[str(token.dtype), channels][0]
        message.is_bigendian = int(sys.byteorder == "big")
        message.step = width * channels * token.itemsize
        message.data = array.array("B", token.tobytes())
        return message

    def _numbers(self, message: Any, token: np.ndarray) -> Any:
        from std_msgs.msg import MultiArrayDimension

        strides = np.cumprod((1, *reversed(token.shape)))[:0:-1]
        message.layout.dim = [
            MultiArrayDimension(label="axis%d" % i, size=size, stride=int(stride))
            for i, (size, stride) in enumerate(zip(token.shape, strides))
        ]
        numbers = np.ascontiguousarray(token, np.uint8) if token.dtype == bool else token
        code = numbers.dtype.char
        message.data = array.array(_CODES.get(code, code), numbers.tobytes())
        return message

    def _from_picture(
        self, message: Any, port: Port
    ) -> Tuple[np.ndarray, Optional[Tuple[int, ...]]]:
        """The rows without what fills them up. Raises ValueError."""
        found = [key for key, names in ENCODINGS.items() if message.encoding in names]
        if not found:
            raise ValueError("a picture in `%s`" % message.encoding)
        (kind, channels), order = found[0], ">" if message.is_bigendian else "<"
        rows = np.frombuffer(message.data, np.uint8).reshape(message.height, message.step)
        own = np.ascontiguousarray(rows[:, : message.width * channels * np.dtype(kind).itemsize])
        token = own.view(np.dtype(order + np.dtype(kind).str[1:])).astype(kind, copy=False)
        shape = (message.height, message.width) + (
            (channels,) if channels > 1 or len(port.shape) == 3 else ()
        )
        return token, shape

    def _from_numbers(
        self, message: Any, port: Port
    ) -> Tuple[np.ndarray, Optional[Tuple[int, ...]]]:
        """Raises ValueError for what begins somewhere in the data."""
        if message.layout.data_offset:
            raise ValueError("data with an offset of %d" % message.layout.data_offset)
        numbers = np.asarray(message.data)
        shape = tuple(d.size for d in message.layout.dim)
        return numbers.astype(bool) if port.dtype == bool else numbers, shape or None
