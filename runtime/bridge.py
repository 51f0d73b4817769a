"""The open ends of a program as ports of a robot's dataflow: what dora and ROS 2 have in common.

In: a program, and what its open ends are called there. Out: a `Bridge`, which hands tokens from
messages to inlets and from outlets to messages, and tells the program when everything is to end.
How messages travel is left to `dora.py` and `ros2.py`. Where the program is the part of one
machine, the parts find each other through the dataflow: they say where they listen, and with which
key. Tokens between them go their own way (see `transport.py`).
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import secrets
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Optional, Sequence, Set, Tuple

import numpy as np

from .ends import Inlet, Outlet
from .failures import Failure, describe
from .graph import Task
from .open_ports import LOOK, wait_in_worker
from .peer import PATIENCE, Waiting
from .tokens import Port, TaskError
from .transport import lacking

if TYPE_CHECKING:
    from .program import Program
    from .transport import Transport

#: The variable that says where the others find the machine of that name; without it all parts run
#: on one.
ADDRESS, LOCAL = "FLOWC_ADDRESS_%s", "127.0.0.1"
#: Tokens that wait at an end at most, and the bytes that they may have.
MOST, MOST_BYTES, LEAST = 1000, 1 << 28, 16
#: What a part says of itself, and as what.
_GREETING = {
    "name": str,
    "whole": str,
    "host": str,
    "address": str,
    "port": int,
    "public": str,
    "share": str,
}


def room(dtype: str, shape: Sequence[int]) -> int:
    """How many tokens of that type wait at an end before the program gives up: nothing slows down
    who sends them."""
    size = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
    return int(max(LEAST, min(MOST, MOST_BYTES // max(1, size))))


class Bridge:
    """Joins the open ends of a program to a dataflow; `ends` says what each of them, a task, is
    called there."""

    def __init__(self, program: "Program", ends: Dict[str, str]) -> None:
        self.run = program.run
        self.inlets: Dict[str, Task] = {}
        self.outlets: Dict[str, Task] = {}
        self._changed = threading.Condition(threading.Lock())
        self._waiting: Dict[str, Deque[Tuple[np.ndarray, int]]] = {}
        self._closed: Set[str] = set()
        self._met: Dict[str, Dict[str, Any]] = {}
        for task in program.tasks:
            if isinstance(task.code, Inlet):
                name = ends[task.name]
                self.inlets[name], self._waiting[name] = task, deque()
                task.code.take = self._taking(name)
            elif isinstance(task.code, Outlet):
                self.outlets[ends[task.name]] = task
                task.code.give = self._giving(ends[task.name])

    # -- what a dataflow has to offer --------------------------------------------------------------
    def lacks(self) -> str:
        """What is missing for taking part in the dataflow; empty if nothing is."""
        raise NotImplementedError

    def connect(self) -> None:
        """Become a node. From now on `came`, `closed` and `met` are called, from any thread. Raises
        what it likes."""
        raise NotImplementedError

    def send(self, name: str, token: np.ndarray) -> None:
        """Hand a token to the reader of that end."""
        raise NotImplementedError

    def taken(self, name: str) -> None:
        """The program has taken a token of that inlet; its sender may want to know."""

    def tell(self, text: str) -> None:
        """Say something to all other parts, which hear it by `met`."""
        raise NotImplementedError

    def disconnect(self) -> None:
        """Leave; what was sent last still arrives."""
        raise NotImplementedError

    # -- for the program ---------------------------------------------------------------------------
    def unready(self) -> str:
        """Why the program cannot run as it was started; empty if it can."""
        return self.lacks() or ("" if self.run.transport is None else lacking())

    def start(self) -> bool:
        """Connect, and meet the other parts, if there are any. False where that is not possible."""
        try:
            self.connect()
            transport = self.run.transport
            if transport is not None:
                transport.given = self._greeted(transport)
            return True
        except Exception as error:
            self.fail("cannot join the dataflow: %s" % describe(error))
            return False

    def close(self) -> None:
        """Leave the dataflow."""
        try:
            self.disconnect()
        except Exception as error:
            self.fail("cannot leave the dataflow: %s" % describe(error))

    # -- what is heard -----------------------------------------------------------------------------
    def came(self, name: str, token: Any, shape: Optional[Sequence[int]] = None) -> None:
        """A token has come for an inlet: an array with its elements, which is copied. What does not
        fit is a failure.

        `shape` is what its sender says, if anything.
        """
        task = self.inlets[name]
        port = task.outputs[0]
        array = np.asarray(token)
        fits = array.dtype == port.dtype and array.size == int(np.prod(port.shape, dtype=np.int64))
        if not fits or (shape is not None and tuple(shape) != port.shape):
            given = "%s%s" % (array.dtype, list(array.shape if shape is None else shape))
            self.fail("`%s` takes %s, and was given %s" % (name, _shown(port), given), task)
            return
        kept = np.array(array, order="C").reshape(port.shape)
        kept.setflags(write=False)
        with self._changed:
            waiting = self._waiting[name]
            waiting.append((kept, time.perf_counter_ns()))
            self._changed.notify_all()
        if len(waiting) > room(str(port.dtype), port.shape):
            self.fail(
                "%d tokens wait at `%s`: they come faster than the program takes them"
                % (len(waiting), name),
                task,
            )

    def closed(self, name: str) -> None:
        """No more comes for an inlet: its stream ends behind what waits."""
        with self._changed:
            self._closed.add(name)
            self._changed.notify_all()

    def met(self, text: str) -> None:
        """Another part has said who it is. What no part says is left alone: others may write there,
        too."""
        try:
            said = json.loads(text)
            fits = all(isinstance(said[key], kind) for key, kind in _GREETING.items())
        except (ValueError, LookupError, TypeError, RecursionError):
            return
        if not fits or self.run.transport is None or said["name"] not in self.run.transport.names:
            return
        with self._changed:
            self._met[said["name"]] = said
            self._changed.notify_all()

    def stop(self) -> None:
        """The dataflow is to end: what has begun is finished."""
        self.run.interrupts += 1

    def fail(self, reason: str, task: Optional[Task] = None) -> None:
        """End the program; `task` is the open end that it is about."""
        if not self.run.stopping:
            app, name = ("", "") if task is None else (task.app.name, task.name)
            self.run.fail(Failure(app, name, None, reason))

    # -- the ends ----------------------------------------------------------------------------------
    def _taking(self, name: str) -> Callable[[], Tuple[np.ndarray, Optional[int]]]:
        def take() -> Tuple[np.ndarray, Optional[int]]:
            waiting, run = self._waiting[name], self.run

            def decided() -> bool:
                return bool(waiting) or name in self._closed or run.ending or run.stopping

            with self._changed:
                wait_in_worker(self._changed, decided)
                if run.stopping or not waiting:
                    raise StopIteration
                token = waiting.popleft()
            self.taken(name)
            return token

        return take

    def _giving(self, name: str) -> Callable[[np.ndarray], None]:
        return lambda token: self.send(name, token)

    # -- the other parts ---------------------------------------------------------------------------
    def _greeted(self, transport: Transport) -> Dict[str, Any]:
        """Where all parts listen, and with which keys. Raises TaskError."""
        import zmq

        public, secret = [key.decode() for key in zmq.curve_keypair()]
        address, port = os.environ.get(ADDRESS % transport.name, LOCAL), _free_port()
        own = {
            "name": transport.name,
            "whole": transport.whole,
            "host": socket.gethostname(),
            "address": address,
            "port": port,
            "public": public,
            "share": secrets.token_hex(32),
        }
        self.tell(json.dumps(own))
        others = [self._heard_of(name, own) for name in transport.names if name != transport.name]
        shares = sorted(str(said["share"]) for said in (own, *others))
        return {
            "listen": _place(address, port),
            "token": hashlib.sha256("".join(shares).encode()).hexdigest(),
            "public": public,
            "secret": secret,
            "peers": {
                o["name"]: {"address": _place(o["address"], o["port"]), "public": o["public"]}
                for o in others
            },
        }

    def _heard_of(self, name: str, own: Dict[str, Any]) -> Dict[str, Any]:
        """What another part has said, once it has. Raises TaskError."""
        waiting = Waiting(self.run.warn_once)
        with self._changed:
            while name not in self._met:
                if self.run.stopping or self.run.interrupts:
                    raise TaskError("it ends before part %s is there" % name)
                if waiting.seconds > PATIENCE:
                    raise TaskError("part %s has not said where it is" % name)
                waiting.tell("part %s to say where it is" % name, PATIENCE)
                self._changed.wait(LOOK)
            said = self._met[name]
        if said["whole"] != own["whole"]:
            raise TaskError("part %s belongs to another build" % name)
        if said["host"] != own["host"] and LOCAL in (said["address"], own["address"]):
            raise TaskError(
                "part %s runs on %s, this one on %s: say where they are, in the variables %s and %s"
                % (name, said["host"], own["host"], ADDRESS % name, ADDRESS % own["name"])
            )
        return said


def _shown(port: Port) -> str:
    return "%s%s" % (port.dtype, list(port.shape))


def _place(address: str, port: int) -> str:
    return "tcp://[%s]:%d" % (address, port) if ":" in address else "tcp://%s:%d" % (address, port)


def _free_port() -> int:
    """A port below the ephemeral ports of the system."""
    while True:
        with socket.socket() as free:
            try:
                free.bind(("", random.randrange(20000, 32000)))
                return int(free.getsockname()[1])
            except OSError:
                continue
