"""The connections between the parts of a program that runs on several machines.

In: a part that knows its peers, and where they are (FLOWC_MACHINES, from the process that starts
all parts; or it listens where there is room, says so, and reads where the others are). Out: tokens
in order, credits, the end of streams and failures, told to those whom they are about. Sockets,
framing, encryption, keys and heartbeats are ZeroMQ's (pyzmq, CURVE); what is added is the contract
of channels. Each part listens at one place (`door.py`), and sends to each peer over a connection of
its own. Nothing is sent twice and no peer comes back: a connection that ends before its farewell is
the death of that part, and with it of all others.
"""

from __future__ import annotations

import json
import os
import select
import struct
import sys
import threading
import time
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from .counts import Absent, Null
from .door import PIECE, Door
from .failures import Failure
from .graph import FOREVER, App, Task
from .peer import PATIENCE, Peer, Waiting, awaited
from .remote_channel import Incoming, Outgoing
from .tokens import Hole, Missing, Pieces, Port

if TYPE_CHECKING:
    from .program import Program
    from .stamps import Stamps

#: Where a part finds out about its peers: a JSON document.
VARIABLE = "FLOWC_MACHINES"
#: What a part says on standard error that listens at a port of its own choice, before the number.
LISTENS = "flowc: listens at port "
#: What a peer of another version would not understand.
VERSION = 3
#: Milliseconds between heartbeats, and without an answer until a part counts as gone.
BEAT, GONE = 250, 2750
#: Milliseconds between two looks, and for which the last words of a part may take to leave.
LOOK, LINGER = 50, 1000
#: Seconds in which the farewell of a peer comes behind the end of its connection, if nothing else
#: does; and looks, as a busy machine takes longer to bring what was sent.
FAREWELL, LOOKS = 0.5, 5
#: Nanoseconds between the word that all begin and the beginning.
START = 20_000_000

HELLO, READY, GO, TOKENS, HOLES, CREDIT, LIMIT, STARTED, DRAIN, FAILED, BYE, PING, PONG = range(13)
NULLS, STAMP = 13, 14
#: Kind, sender, channel or app, how many, a number, and the number of the message between these
#: two.
_HEAD = struct.Struct("<BxHIIqQ")


class RemoteEnd(NamedTuple):
    """This part's end of a channel between two parts. `leaves`: its tokens go from here to there;
    `other` is the task at the other end, in the part `peer`."""

    leaves: bool
    number: int
    task: Task
    port: str
    peer: str
    other: str
    name: str
    capacity: int
    delay: int
    values: Sequence[float]


class RemoteChannels:
    """Collects the channels between this part and `peer` in one direction."""

    def __init__(self, ends: List[RemoteEnd], leaves: bool, peer: str) -> None:
        self._ends, self._leaves, self._peer = ends, leaves, peer

    def channel(
        self,
        number: int,
        task: Task,
        port: str,
        other: str,
        name: str,
        capacity: int,
        delay: int = 0,
        values: Sequence[float] = (),
    ) -> None:
        """A channel between a task of this part and the task `other` of the peer."""
        end = (number, task, port, self._peer, other, name, capacity, delay, values)
        self._ends.append(RemoteEnd(self._leaves, *end))


class Transport:
    """What a part knows of the others, and the thread that hears them.

    `led` are the apps whose sources are all elsewhere, `passed` those that end elsewhere. Without a
    `hub` all parts are joined with each other; else all with the hub, which hands on what is about
    apps, and where there are channels.
    """

    def __init__(
        self,
        program: "Program",
        name: str,
        peers: Sequence[str],
        whole: str,
        led: Sequence[str] = (),
        passed: Sequence[str] = (),
        hub: Optional[str] = None,
    ) -> None:
        self.run = program.run
        self.run.transport = self
        self.name, self.whole = name, whole
        self.led, self.passed = frozenset(led), frozenset(passed)
        self.names, self.hub = sorted([name, *peers]), hub
        self.remote_ends: List[RemoteEnd] = []
        self._cause: Optional[Dict[str, Any]] = None
        self.peers: Dict[str, Peer] = {}
        self.outgoing: Dict[int, Outgoing] = {}
        self.incoming: Dict[int, List[Incoming]] = {}
        self._of: Dict[int, str] = {}
        self._groups: Dict[Tuple[str, str], int] = {}
        self._limits: Dict[str, int] = {}
        #: When all parts begin, in ns; 0: not known yet.
        self._begin = 0
        self._context: Any = None
        self._door: Optional[Door] = None
        self._thread: Optional[threading.Thread] = None
        self._closing = self._told = self._fed = False
        #: Where this part listens and where the others are, if they have found each other; else
        #: VARIABLE says it.
        self.given: Optional[Dict[str, Any]] = None
        #: The times that parts tell each other, and the parts that are told, or tell.
        self.stamps: Optional[Stamps] = None
        self.told: Set[str] = set()

    # -- construction ------------------------------------------------------------------------------
    def sends_to(self, peer: str) -> "RemoteChannels":
        """The channels to another part; their initial tokens lie there."""
        return RemoteChannels(self.remote_ends, True, peer)

    def receives_from(self, peer: str) -> "RemoteChannels":
        """The channels from another part."""
        return RemoteChannels(self.remote_ends, False, peer)

    def unready(self) -> str:
        """Why a part cannot run as it was started; empty if it can."""
        if VARIABLE not in os.environ:
            how = "with `flowc run --machines`"
            if os.path.exists(os.path.join(self.run.home, "node.py")):
                how = "as nodes: dora or ROS 2 starts node.py"
            return "this is part %s of %s: start all parts together, %s" % (
                self.name,
                " and ".join(self.names),
                how,
            )
        return lacking()

    def out(self, remote_end: RemoteEnd, port: Port) -> Outgoing:
        """The writer's end of a channel; tokens for several readers in one part are sent once."""
        number, group = remote_end.number, (remote_end.task.name, remote_end.peer)
        first = group not in self._groups
        self._groups.setdefault(group, number)
        self._of[number] = remote_end.peer
        send = self._tokens if first else None
        made = Outgoing(number, remote_end.name, remote_end.capacity, port, remote_end.delay, send)
        self.outgoing[number] = made
        return made

    def into(self, remote_end: RemoteEnd, port: Port) -> Incoming:
        """The reader's end of a channel that another part writes."""
        number = remote_end.number
        group = self._groups.setdefault((remote_end.other, remote_end.peer), number)
        self._of[number] = remote_end.peer
        made = Incoming(
            number,
            remote_end.name,
            remote_end.capacity,
            port,
            remote_end.delay,
            remote_end.values,
            self._credit,
        )
        self.incoming.setdefault(group, []).append(made)
        return made

    # -- the connections ---------------------------------------------------------------------------
    def start(self) -> bool:
        """Listen, and look for the peers. False where that is not possible."""
        given = self.given or json.loads(os.environ[VARIABLE])
        try:
            door = self._listen(given)
        except Exception as error:
            why = getattr(error, "strerror", None) or error
            self._end("part %s cannot listen at %s: %s" % (self.name, given["listen"], why))
            return False
        self._fed = bool(given.get("fed"))
        peers = self._told_where(door) if self._fed else {}
        if peers is None:
            return False
        try:
            self._connect(
                given,
                {name: {**peer, **peers.get(name, {})} for name, peer in given["peers"].items()},
            )
        except Exception as error:
            self._end("part %s cannot look for the others: %s" % (self.name, error))
            return False
        self._thread = threading.Thread(
            target=self._run, args=(door,), name="transport", daemon=True
        )
        self._thread.start()
        return True

    def _listen(self, given: Dict[str, Any]) -> Door:
        import zmq

        self._context = zmq.Context()
        self._door = door = Door(self._context, given, len(self.names) - 1)
        if given.get("fed"):
            os.write(2, ("%s%d\n" % (LISTENS, door.port)).encode())
        return door

    def _told_where(self, door: Door) -> Optional[Dict[str, Any]]:
        """Where the others are, from the process that starts all parts; None: that will not be."""
        told, interrupts = b"", self.run.interrupts
        while self.run.interrupts == interrupts:
            self.run.cells.beat()
            door.look()
            if not select.select([0], [], [], LOOK / 1e3)[0]:
                continue
            piece = os.read(0, 1 << 16)  # no limit: it is there
            told += piece
            if not piece or piece.endswith(b"\n"):
                found = json.loads(told or b"{}")
                if "peers" in found:
                    peers: Dict[str, Any] = found["peers"]
                    return peers
                self._end(
                    found.get("gone", "the process that started part %s has left" % self.name)
                )
                return None
        return None

    def _connect(self, given: Dict[str, Any], peers: Dict[str, Any]) -> None:
        import zmq
        import zmq.utils.monitor  # here, as it imports much that a thread beside others should not

        self._token = given["token"]
        public, secret = given["public"].encode(), given["secret"].encode()
        near = self.names
        if self.hub is not None and self.hub != self.name:
            near = sorted({self.hub, *self._of.values(), *self.told})
        for name in near:
            if name == self.name:
                continue
            peer = peers[name]
            socket = self._context.socket(zmq.PUSH)
            for option, value in (
                (zmq.SNDHWM, 0),
                (zmq.LINGER, LINGER),
                (zmq.IPV6, 1),
                (zmq.HEARTBEAT_IVL, BEAT),
                (zmq.HEARTBEAT_TIMEOUT, GONE),
            ):
                socket.setsockopt(option, value)
            keys: Tuple[Tuple[Any, bytes], ...]
            if "public" in peer:
                keys = (
                    (zmq.CURVE_SERVERKEY, peer["public"].encode()),
                    (zmq.CURVE_PUBLICKEY, public),
                    (zmq.CURVE_SECRETKEY, secret),
                )
            else:  # it wants to hear all in plain
                keys = (
                    (zmq.PLAIN_USERNAME, self.name.encode()),
                    (zmq.PLAIN_PASSWORD, self._token.encode()),
                )
            for option, key in keys:
                socket.setsockopt(option, key)
            monitor = socket.get_monitor_socket()
            socket.connect(peer["address"])
            self.peers[name] = Peer(name, peer["address"], socket, monitor)
        for peer_ in self.peers.values():
            self._say(peer_, HELLO, body=json.dumps(self._hello(peer_.name)).encode())

    def _hello(self, peer: str) -> Dict[str, Any]:
        """What both ends of each channel have to agree about."""
        return {
            "version": VERSION,
            "whole": self.whole,
            "token": self._token,
            "order": sys.byteorder,
            "name": self.name,
            "apps": [a.name for a in self.run.apps],
            "near": sorted(self.peers),
        }

    def _say(
        self,
        peer: Peer,
        kind: int,
        where: int = 0,
        count: int = 0,
        number: int = 0,
        body: Optional[Any] = None,
    ) -> None:
        """Send a message, with bytes behind it; who is gone or has left hears nothing."""
        with peer.lock:
            if peer.ended is not None or self._closing:
                return
            peer.sent += 1
            head = _HEAD.pack(kind, self.names.index(self.name), where, count, number, peer.sent)
            pieces = []
            if body is not None:
                pieces = [body[at : at + PIECE] for at in range(0, max(1, len(body)), PIECE)]
            peer.socket.send_multipart([head, *pieces], copy=False)

    def _all(
        self, kind: int, where: int = 0, number: int = 0, body: Optional[bytes] = None
    ) -> None:
        for peer in self.peers.values():
            self._say(peer, kind, where, 0, number, body)

    def _of_app(
        self, app: str, kind: int, number: int, body: bytes, origin: Optional[Peer] = None
    ) -> None:
        """Tell all that have a share of an app; what comes from `origin`, those that it is not
        joined with."""
        for peer in self.peers.values():
            if peer.apps is None or app in peer.apps:
                if origin is None or (peer is not origin and peer.name not in origin.near):
                    self._say(peer, kind, 0, 0, number, body)

    # -- what channels and apps say ----------------------------------------------------------------
    def _tokens(self, number: int, block: Any, count: int) -> None:
        peer = self.peers[self._of[number]]
        if isinstance(block, Pieces) and block.mixed:
            for piece in block.pieces:
                self._tokens(number, piece, len(piece))
        elif isinstance(block, Missing):
            kind, absent = NULLS if block.expected else HOLES, isinstance(block, Absent)
            self._say(peer, kind, number, count, int(absent))
        else:
            content = self.outgoing[number].port.packed(block)
            self._say(peer, TOKENS, number, count, 0, content.data)

    def _credit(self, number: int, count: int) -> None:
        self._say(self.peers[self._of[number]], CREDIT, number, count)

    def stamp(self, part: str, of_marks: bool, firing: int, times: int, body: bytes) -> None:
        """Tell a part so many times of a firing, and whose they are: see `stamps.py`."""
        self._say(self.peers[part], STAMP, int(of_marks), times, firing, body)

    def limit(self, app: App, iterations: int) -> None:
        """An app ends after so many iterations: no part begins others."""
        if iterations < self._limits.get(app.name, FOREVER):
            self._limits[app.name] = iterations
            self._of_app(app.name, LIMIT, iterations, app.name.encode())

    def started(self, app: App, iteration: int, time_ns: int) -> None:
        """A frame has begun here, at that time of ours."""
        body = struct.pack("<q", time_ns) + app.name.encode()
        self._of_app(app.name, STARTED, iteration, body)

    def drain(self) -> None:
        """The program is asked to end in order."""
        self._all(DRAIN)

    def failed(self, failure: Failure) -> None:
        """Everybody ends, and says why."""
        if not self._told:
            self._told = True
            document = {
                "app": failure.app,
                "task": failure.task,
                "firing": failure.firing,
                "reason": failure.reason,
            }
            self._all(
                FAILED, body=json.dumps(self._cause or {"part": self.name, **document}).encode()
            )

    # -- beginning and end -------------------------------------------------------------------------
    def meet(self) -> Optional[int]:
        """Wait until all parts are ready; the moment at which all begin, in ns. None: something is
        in the way."""
        if not self._wait(lambda p: p.round_trip > 0):  # else their times mean nothing here
            return None
        self._all(READY)
        lead = self.hub or self.names[0]
        if lead == self.name:
            if not self._wait(lambda p: p.ready):
                return None
            farthest = max([p.round_trip for p in self.peers.values()] or [0])
            self._begin = time.perf_counter_ns() + START + farthest
            self._all(GO, number=self._begin)
        elif not self._wait(lambda p: self._begin != 0 or p.name != lead):
            return None
        time.sleep(min(1.0, max(0, self._begin - time.perf_counter_ns()) / 1e9))
        return self._begin

    def farewell(self) -> None:
        """Wait until all others have done what they had to do, and let them go; a hub is the last
        one."""
        if self.hub != self.name:
            self._all(BYE)
        if self._wait(lambda p: p.left, to_end=True) and self.hub == self.name:
            self._all(BYE)

    def _wait(self, there: Callable[[Peer], bool], to_end: bool = False) -> bool:
        """Wait for all peers; False when the program is to end before. A part that is not there yet
        may come late."""
        run, waiting = self.run, Waiting(self.run.warn_once)
        interrupts = run.interrupts
        while not run.stopping:
            late = [p for p in self.peers.values() if not there(p)]
            if not late:
                return True
            run.cells.beat()
            if run.interrupts > interrupts:
                if not to_end or run.interrupts > interrupts + 1:
                    return False
                run.drain()
            unheard = [p for p in late if not p.said_hello]
            if unheard and waiting.seconds > PATIENCE:
                self._end("part %s at %s does not answer" % (unheard[0].name, unheard[0].address))
                return False
            if not to_end:
                waiting.tell(awaited(late, unheard), PATIENCE if unheard else None)
            time.sleep(0.005)
        return False

    def close(self) -> None:
        """End all connections; what was said last still leaves."""
        if self._thread is not None:
            self._closing = True
            self._thread.join()  # no limit: it looks at `_closing` between messages
        self._thread = None
        if self._context is not None:
            for peer in self.peers.values():
                # Who is not there yet may still want to know of a failure.
                if peer.gone or peer.ended is not None or not (peer.joined or self.run.failure):
                    peer.socket.close(0)
            self._context.destroy(LINGER)
        if self._door is not None:
            self._door.close()
        self._context = None

    def _end(self, reason: str) -> None:
        if not (self._closing or self.run.stopping):
            self.run.fail(Failure("", "", None, reason))

    # -- the thread that hears ---------------------------------------------------------------------
    def _run(self, door: Door) -> None:
        import zmq

        poller = zmq.Poller()
        for socket in (door.ears, door.news, door.asked):
            poller.register(socket, zmq.POLLIN)
        monitors = {p.monitor: p for p in self.peers.values()}
        for monitor in monitors:
            poller.register(monitor, zmq.POLLIN)
        try:
            while not self._closing:
                ready = dict(poller.poll(LOOK))
                if door.news in ready or door.asked in ready:
                    door.look()
                if door.ears in ready:
                    self._hear_all(zmq, door)
                for monitor in ready:
                    if monitor in monitors:
                        self._look_at(monitors[monitor], zmq)
                for peer in self.peers.values():
                    self._look_after(peer)
        except Exception as error:  # what comes in is not what it should be
            self._end(
                "the connection of part %s failed: %s: %s"
                % (self.name, type(error).__name__, error)
            )

    def _hear_all(self, zmq: Any, door: Door) -> None:
        for _ in range(256):  # others want to be looked at, too
            try:
                frames = door.ears.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            head = frames[0].buffer
            if len(head) != _HEAD.size:
                raise ValueError("a message of %d bytes" % len(head))
            kind, sender, where, count, number, order = _HEAD.unpack(head)
            if sender >= len(self.names) or self.names[sender] not in self.peers:
                raise ValueError("a message of part number %d" % sender)
            peer = self.peers[self.names[sender]]
            new = not peer.said_hello
            self._hear(peer, kind, where, count, number, order, frames[1:])
            if new:
                door.belongs(frames[0])
                if all(p.said_hello for p in self.peers.values()):
                    door.shut()

    def _hear(
        self,
        peer: Peer,
        kind: int,
        where: int,
        count: int,
        number: int,
        order: int,
        body: Sequence[Any],
    ) -> None:
        _count(peer, kind, order)
        if kind in (TOKENS, HOLES, NULLS):
            self._arrived(kind, where, count, number, body)
        elif kind == CREDIT:
            self.outgoing[where].release(count)
        elif kind == STAMP and self.stamps is not None:
            content = bytes(_joined(body))
            self.stamps.heard(peer.name, peer.offset, bool(where), number, count, content)
        elif kind == PING:
            self._say(peer, PONG, 0, 0, number, struct.pack("<q", time.perf_counter_ns()))
        elif kind == PONG:
            if peer.ping_back(
                number, struct.unpack("<q", body[0].buffer)[0], time.perf_counter_ns()
            ):
                self._say(peer, PING, number=time.perf_counter_ns())
        elif kind == STARTED:
            began = struct.unpack("<q", body[0].buffer[:8])[0] - peer.offset
            self._hear_of_app(peer, kind, number, bytes(body[0].buffer[8:]), began)
        elif kind == LIMIT:
            self._hear_of_app(peer, kind, number, bytes(body[0].buffer))
        else:
            self._hear_of(peer, kind, number, body)

    def _arrived(self, kind: int, where: int, count: int, number: int, body: Sequence[Any]) -> None:
        """Tokens, or what stands for them, have come for a channel."""
        content: Any
        if kind == TOKENS:
            content = _joined(body)
        elif kind == HOLES:
            content = Hole(count)
        else:
            content = Absent(count) if number else Null(count)
        for channel in self.incoming[where]:
            channel.arrived(content, count)

    def _hear_of_app(self, peer: Peer, kind: int, number: int, name: bytes, began: int = 0) -> None:
        """A frame has begun, or an app ends after so many."""
        app = self._app(name)
        if kind == STARTED and app is not None:
            app.started_elsewhere(number, began)
        elif kind == LIMIT and app is not None and number < self._limits.get(app.name, FOREVER):
            self._limits[app.name] = number
            app.end_at(number)
        if self.hub == self.name:
            body = struct.pack("<q", began) + name if kind == STARTED else name
            self._of_app(name.decode(), kind, number, body, peer)

    def _hear_of(self, peer: Peer, kind: int, number: int, body: Sequence[Any]) -> None:
        """What is about a part as a whole."""
        if kind == HELLO:
            said, wanted = json.loads(bytes(_joined(body))), self._hello(peer.name)
            wrong = [
                key
                for key in ("version", "whole", "token", "order")
                if said.get(key) != wanted[key]
            ]
            words = {"order": "has another byte order", "token": "belongs to another run"}
            if wrong:
                self._end(
                    "part %s at %s %s"
                    % (peer.name, peer.address, words.get(wrong[0], "is of another build"))
                )
            peer.apps, peer.near = set(said.get("apps", ())), set(said.get("near", ()))
            peer.said_hello = True
        elif kind == READY:
            peer.ready = True
        elif kind == GO:
            self._begin = number - peer.offset
        elif kind == DRAIN:
            self.run.drain()
        elif kind == FAILED:
            told = json.loads(bytes(_joined(body)))
            cause = Failure(told["app"], told["task"], told["firing"], told["reason"])
            self._cause = self._cause or told
            self._end("part %s failed: %s; here %s" % (told["part"], cause, self.run.who_waits()))
        elif kind == BYE:
            peer.left = True
        else:
            raise ValueError("a message of kind %d" % kind)

    def _app(self, name: bytes) -> Optional[App]:
        return next((a for a in self.run.apps if a.name.encode() == name), None)

    def _look_at(self, peer: Peer, zmq: Any) -> None:
        """What has become of the connection to a peer."""
        from zmq.utils.monitor import parse_monitor_message

        while True:
            try:
                event = parse_monitor_message(peer.monitor.recv_multipart(zmq.NOBLOCK))["event"]
            except zmq.Again:
                return
            if event == zmq.EVENT_CONNECTED:
                peer.reached = True
            elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                peer.joined = True
            elif event == zmq.EVENT_CLOSED and self._fed and not peer.joined:
                # it has listened before we were told
                peer.gone = True
                self._end(
                    "part %s at %s is gone, or something is in the way" % (peer.name, peer.address)
                )
            elif event == zmq.EVENT_DISCONNECTED and peer.joined and peer.ended is None:
                peer.ended = time.monotonic()
            elif event == zmq.EVENT_DISCONNECTED and peer.reached and not peer.joined:
                peer.gone = True
                self._end(
                    "the process at %s is not part %s of this run, or has exited"
                    % (peer.address, peer.name)
                )

    def _look_after(self, peer: Peer) -> None:
        peer.quiet += 1
        silent = (
            peer.ended is not None
            and peer.quiet > LOOKS
            and time.monotonic() - peer.ended > FAREWELL
        )
        if silent and not peer.left:
            waits = self.run.who_waits()
            self._end("part %s at %s is gone; here %s" % (peer.name, peer.address, waits))
        if peer.begins_row():
            self._say(peer, PING, number=time.perf_counter_ns())

    # -- the report --------------------------------------------------------------------------------
    def document(self) -> Dict[str, Any]:
        """What is known of the parts, for the report."""
        clocks = {
            p.name: {"offset_ns": p.offset, "round_trip_ns": p.round_trip}
            for p in self.peers.values()
        }
        refused = 0 if self._door is None else self._door.refused
        return {
            "name": self.name,
            "passed": sorted(self.passed),
            "clocks": clocks,
            "refused": refused,
        }


def _count(peer: Peer, kind: int, order: int) -> None:
    """A message has come from a peer. Raises ValueError where one before it has not."""
    peer.heard += 1
    peer.quiet = 0
    if peer.ended is not None:
        peer.ended = time.monotonic()
    if order != peer.heard:
        raise ValueError("message %d of part %s came as number %d" % (order, peer.name, peer.heard))
    if not peer.said_hello and kind != HELLO:
        raise ValueError("part %s has not said who it is" % peer.name)


def _joined(body: Sequence[Any]) -> Any:
    """The bytes of a message that came in pieces."""
    return body[0].buffer if len(body) == 1 else b"".join(frame.buffer for frame in body)


def lacking() -> str:
    """What is missing for connections between parts; empty if nothing is."""
    try:
        import zmq
    except ImportError:
        return "pyzmq is missing: python3 -m pip install -r requirements.txt"
    return "" if zmq.has("curve") else "pyzmq has no CURVE here: install it from PyPI, which has it"
