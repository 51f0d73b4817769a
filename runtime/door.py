"""Where a part of a program listens, and who comes in: the other parts, and no stranger.

In: an address, and what a part has to know of this run. Out: a socket of ZeroMQ that messages of
other parts come from. Strangers are turned away and counted. Until all parts are there, few of them
are heard at a time, and of each no more than a piece of a message; from then on no connection is
taken any more, since parts do not come back.
"""

from __future__ import annotations

import ctypes
import errno
import hmac
import os
import random
import socket
from collections import OrderedDict
from typing import Any, Dict

#: Bytes that are sent in one frame: a heartbeat comes between two of them, and need not wait for
#: the end of a large token. And those of the longest frame, with what encryption adds.
PIECE = 1 << 17
_FRAME = PIECE + 1024
#: Ports that are taken where none is named: below the ephemeral ports of the system.
PORTS = 20000, 32000
#: Connections that are heard at a time before they belong to a part, beside those of all parts, and
#: milliseconds until they have to.
MOST, GREETING = 8, 10_000
#: Where ZeroMQ asks who may come in (RFC 27), and what it is told.
_ASKS, _WELCOME, _REFUSED = "inproc://zeromq.zap.01", b"200", b"400"
#: An option of sockets (<asm-generic/socket.h>), and a rule that lets nothing through
#: (<linux/filter.h>).
_SO_ATTACH_FILTER, _RETURN_NOTHING = 26, (0x06, 0, 0, 0)


class Door:
    """The socket `ears`, at `port`. `look` is called often, and whenever `news` or `asked` is
    ready.

    `given`: `listen` (`tcp://ADDRESS:PORT`, `*` for any), and the `secret` key, or the `token` of a
    run whose messages are not `encrypted`. So many parts are `expected`, all of them at once
    perhaps.
    """

    def __init__(self, context: Any, given: Dict[str, Any], expected: int) -> None:
        import zmq
        import zmq.utils.monitor  # here, as it imports much that a thread beside others should not

        self._zmq, self._token = zmq, given["token"].encode()
        host, _, port = given["listen"].partition("://")[2].rpartition(":")
        self._listener = _bound(host, port)
        self.port = int(self._listener.getsockname()[1])
        self.asked = context.socket(zmq.REP)
        self.asked.bind(_ASKS)
        self.ears = context.socket(zmq.PULL)
        if given.get("encrypted", True):
            self.ears.setsockopt(zmq.CURVE_SERVER, 1)
            self.ears.setsockopt(zmq.CURVE_SECRETKEY, given["secret"].encode())
        else:
            self.ears.setsockopt(zmq.PLAIN_SERVER, 1)
        for option, value in (
            (zmq.RCVHWM, 0),
            (zmq.LINGER, 0),
            (zmq.IPV6, 1),
            (zmq.MAXMSGSIZE, _FRAME),
            (zmq.HANDSHAKE_IVL, GREETING),
            (zmq.USE_FD, os.dup(self._listener.fileno())),
        ):
            self.ears.setsockopt(option, value)
        self.news = self.ears.get_monitor_socket()
        self.ears.bind("tcp://*:%d" % self.port)
        #: Connections that belong to no part yet, the oldest first; and how many ever came, and
        #: were let in.
        self._unknown: "OrderedDict[int, None]" = OrderedDict()
        self._came = self._welcome = 0
        self._most = MOST + expected

    @property
    def refused(self) -> int:
        """Connections that belonged to no part."""
        return self._came - self._welcome

    def look(self) -> None:
        """Answer who knocks, and end connections of strangers where there are too many."""
        while self.asked.poll(0):
            self._answer(self.asked.recv_multipart())  # no limit: it is there
        self._hear_news()
        while len(self._unknown) > self._most:
            self._end(self._unknown.popitem(last=False)[0])

    def _hear_news(self) -> None:
        """Who has come and gone."""
        from zmq.utils.monitor import parse_monitor_message

        while self.news.poll(0):
            found = parse_monitor_message(self.news.recv_multipart())  # no limit: it is there
            event, descriptor = found["event"], int(found["value"])
            if event == self._zmq.EVENT_ACCEPTED:
                self._came += 1
                self._unknown[descriptor] = None
            elif event in (self._zmq.EVENT_DISCONNECTED, self._zmq.EVENT_CLOSED):
                self._unknown.pop(descriptor, None)

    def _answer(self, asked: Any) -> None:
        """Is it a part of this run? Keys speak for themselves; where there are none, the token
        does."""
        mechanism, *told = asked[5:]
        known = mechanism == b"CURVE" or (
            mechanism == b"PLAIN" and hmac.compare_digest(told[1], self._token)
        )
        self.asked.send_multipart([*asked[:2], _WELCOME if known else _REFUSED, b"", b"", b""])

    def belongs(self, message: Any) -> None:
        """The connection of a message is that of a part: it has come before the message."""
        self._hear_news()
        self._welcome += 1
        self._unknown.pop(message.get(self._zmq.SRCFD), None)

    def shut(self) -> None:
        """All parts are there: no other connection is taken, or stays."""
        self._most = 0
        rule = (_Rule * 1)(_Rule(*_RETURN_NOTHING))
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, bytes(_Rules(1, rule)))
        except OSError:
            pass  # no Linux: who connects is sent away in `look`
        self.look()

    def _end(self, descriptor: int) -> None:
        """End a connection, if it is still one that came in here: ZeroMQ finds out and closes
        it."""
        try:
            with socket.socket(fileno=os.dup(descriptor)) as own:
                if own.getsockname()[1:2] == (self.port,):
                    own.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is gone

    def close(self) -> None:
        """Nothing is heard any more."""
        self._listener.close()


class _Rule(ctypes.Structure):
    """`struct sock_filter`."""

    _fields_ = [
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    ]


class _Rules(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = [("len", ctypes.c_uint16), ("filter", ctypes.POINTER(_Rule))]


def _bound(host: str, port: str) -> socket.socket:
    """A socket that listens, at a free port for `*`."""
    if port != "*":
        return _at(host.strip("[]"), int(port))
    while True:
        try:
            return _at(host.strip("[]"), random.randrange(*PORTS))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise


def _at(host: str, port: int) -> socket.socket:
    """At an address of this machine; at all of them where that is a name, or none of its own.

    Names mean something else here than elsewhere: many a system calls itself 127.0.1.1.
    """
    if host != "*":
        try:
            found = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
            return socket.create_server(found[0][4], family=found[0][0])
        except socket.gaierror:
            pass
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))
