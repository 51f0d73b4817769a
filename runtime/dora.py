"""A program as a node of dora (https://dora-rs.ai): open ends are its inputs and outputs, tokens
are Arrow arrays.

In: a program, in a process that dora has started. Out: its exit status. Written for dora-rs 1.x, on
its documented Python interface.
"""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from typing import Any, Callable, Dict, List, Optional

import numpy as np

from . import command
from .bridge import Bridge
from .open_ports import wait_in_worker
from .program import Program
from .tokens import TaskError

#: Set by dora for the processes that it starts.
CONFIG = "DORA_NODE_CONFIG"
#: The output by which a part says where it is; inputs that hear of others begin with its name.
MEET = "flowc.meet"
#: What stands behind the name of an end, for the word how many of its tokens have been taken; and
#: how many more than these may be on their way, where the dataflow says it.
TAKEN, WINDOW = ".taken", 16
#: Seconds between two looks whether the program has ended, and without a token behind the end of an
#: input: the word that an input has ended may come before its last tokens.
LOOK, QUIET = 0.1, 0.4


def main(
    build: Callable[[], Program], ends: Dict[str, str], arguments: Optional[List[str]] = None
) -> int:
    """What `main.py` does, as a node: see `command.main`. `ends`: what dora calls the open ends."""

    def made() -> Program:
        program = build()
        program.bridge = DoraNode(program, ends)
        return program

    return command.main(made, arguments)


class DoraNode(Bridge):
    """The open ends of a program, as inputs and outputs of a node."""

    def __init__(self, program: Program, ends: Dict[str, str]) -> None:
        Bridge.__init__(self, program, ends)
        self._node: Any = None
        self._thread: Optional[threading.Thread] = None
        self._sending = threading.Lock()
        self._sent: Dict[str, int] = {}
        self._next: Dict[str, int] = {}
        #: Inputs that have ended, and when something came from them last.
        self._ended: Dict[str, float] = {}
        #: Inlets whose senders want to know what was taken, and outlets whose readers say it: how
        #: many so far.
        self._told: Dict[str, int] = {}
        self._credited: Dict[str, int] = {}
        self._credit = threading.Condition(threading.Lock())
        self._stopped = self._leaving = False

    def lacks(self) -> str:
        """See `Bridge`."""
        if any(importlib.util.find_spec(name) is None for name in ("dora", "pyarrow")):
            return "dora-rs is missing: python3 -m pip install dora-rs"
        if CONFIG not in os.environ:
            return "this is a node: start its dataflow, with `dora run dataflow.yml`"
        return ""

    def connect(self) -> None:
        """See `Bridge`. Returns when all nodes of the dataflow are there."""
        from dora import Node

        try:
            self._node = Node()
        except RuntimeError as error:
            raise TaskError(_cause(error)) from None
        given = self._node.node_config().get("inputs") or {}
        self._credited = {name: 0 for name in self.outlets if name + TAKEN in given}
        read = _sources(self._node.dataflow_descriptor())
        self._told = {
            name: 0 for name in self.inlets if any(s.endswith("/" + name + TAKEN) for s in read)
        }
        self._thread = threading.Thread(target=self._run, name="dora", daemon=True)
        self._thread.start()

    def send(self, name: str, token: np.ndarray) -> None:
        """See `Bridge`. `token` in the metadata counts, so that a reader can see whether one is
        missing.

        Waits while too many are on their way to a reader who says what was taken.
        """
        if name in self._credited:
            with self._credit:
                wait_in_worker(self._credit, lambda: self._may_send(name) or self.run.stopping)
            if self.run.stopping:
                return
        with self._sending:
            number = self._sent[name] = self._sent.get(name, -1) + 1
            self._put(
                name,
                token,
                {"dtype": str(token.dtype), "shape": list(token.shape), "token": number},
            )

    def _may_send(self, name: str) -> bool:
        credit = self._credited.get(name)
        return credit is None or self._sent.get(name, -1) + 1 < credit + WINDOW

    def taken(self, name: str) -> None:
        """See `Bridge`. What is said is how many they are in all: if a word is lost, the next one
        has it."""
        if name in self._told:
            self._told[name] += 1
            with self._sending:
                self._put(name + TAKEN, np.array([self._told[name]]), {})

    def tell(self, text: str) -> None:
        """See `Bridge`."""
        with self._sending:
            self._put(MEET, np.frombuffer(text.encode(), np.uint8), {})

    def _put(self, name: str, token: np.ndarray, metadata: Dict[str, Any]) -> None:
        import pyarrow

        self._node.send_output(
            name, pyarrow.array(np.ascontiguousarray(token).reshape(-1)), metadata
        )

    def disconnect(self) -> None:
        """See `Bridge`."""
        self._leaving = True
        if self._thread is not None:
            self._thread.join()  # no limit: it looks every LOOK seconds
        self._thread = self._node = None

    # -- the thread that hears ---------------------------------------------------------------------
    def _run(self) -> None:
        try:
            while not self._leaving:
                event = self._node.next(timeout=LOOK)
                if event is None:
                    self._over()
                    return
                self._hear(event)
                for name in [
                    n for n, since in self._ended.items() if time.monotonic() - since > QUIET
                ]:
                    del self._ended[name]
                    self.closed(name)
        except Exception as error:  # what comes in is not what it should be
            self.fail("the connection to dora failed: %s: %s" % (type(error).__name__, error))

    def _over(self) -> None:
        for name in self.inlets:
            self.closed(name)
        for name in () if self.run.transport is None else self.run.transport.names:
            self._part_ended(name)
        if not (self._stopped or self._leaving):
            self.fail("dora is gone")

    def _hear(self, event: Dict[str, Any]) -> None:
        kind, name = event["type"], event.get("id", "")
        if kind == "INPUT":
            self._came_at(name, event)
        elif kind == "INPUT_CLOSED":
            self._closed_at(name)
        elif kind == "STOP":
            self._stopped = True
            if name == "MANUAL":
                self.stop()
        elif kind == "NODE_FAILED":
            self.fail("node %s has failed: %s" % (name, event["value"]["error"]))
        elif kind == "ERROR" and "imed out" not in str(event["error"]):  # nothing came for a while
            self.fail("dora says: %s" % event["error"])

    def _came_at(self, name: str, event: Dict[str, Any]) -> None:
        """A token, what a reader has taken, or a part that begins."""
        value = event["value"]
        if name in self.inlets:
            self._input(name, value, event["metadata"])
        elif _output_of(name) in self._credited:
            self._taken(_output_of(name), int(value.to_numpy(zero_copy_only=False)[0]))
        else:
            self.met(bytes(value.to_numpy(zero_copy_only=False)).decode())

    def _closed_at(self, name: str) -> None:
        """The other end of an input is gone."""
        if _output_of(name) in self._credited:
            self._taken(_output_of(name), None)
        elif name.startswith(MEET):
            self._part_ended(name[len(MEET) + 1 :])
        elif name in self.inlets:
            self._ended[name] = time.monotonic()

    def _taken(self, end: str, tokens: Optional[int]) -> None:
        """The reader of an output has taken so many tokens so far; None: there is no reader any
        more."""
        with self._credit:
            if tokens is None:
                del self._credited[end]
            else:
                self._credited[end] = max(self._credited[end], tokens)
            self._credit.notify_all()

    def _part_ended(self, name: str) -> None:
        """A part is no node any more. After its hello, its connection tells how it has ended."""
        transport = self.run.transport
        if transport is None or name == transport.name or self._leaving:
            return
        peer = transport.peers.get(name)
        if peer is None or not peer.said_hello:
            self.fail("part %s has ended before all were there" % name)

    def _input(self, name: str, value: Any, metadata: Dict[str, Any]) -> None:
        if name in self._ended:
            self._ended[name] = time.monotonic()
        number, shape = metadata.get("token"), metadata.get("shape")
        if isinstance(number, int):
            expected = self._next.get(name, number)
            self._next[name] = number + 1
            if number != expected:
                self.fail(
                    "token %d came at `%s` where %d was next" % (number, name, expected),
                    self.inlets[name],
                )
                return
        self.came(
            name, value.to_numpy(zero_copy_only=False), shape if isinstance(shape, list) else None
        )


def _output_of(name: str) -> str:
    """The output whose reader says at this input what it has taken; empty where none does."""
    return name[: -len(TAKEN)] if name.endswith(TAKEN) else ""


def _cause(error: RuntimeError) -> str:
    """What dora says last of causes, which is the first one, without where that stands in its own
    code."""
    said = str(error).partition("\nLocation:")[0].split("\n")
    return [line for line in said if line.strip()][-1].strip().lstrip("0123456789: ")


def _sources(descriptor: Dict[str, Any]) -> List[str]:
    """What the nodes of a dataflow read: `NODE/OUTPUT`."""
    inputs = [i for node in descriptor["nodes"] for i in (node.get("inputs") or {}).values()]
    return [str(i["source"] if isinstance(i, dict) else i) for i in inputs]
