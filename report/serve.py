"""A page that is served to the browsers of this machine, and gets events while it is open.

In: the bytes of a page, and events. Out: a server on the loopback interface, whose address holds a
random token. Requests without the token are rejected, and so are those of foreign pages whose host
name resolves to this server (`Host` is checked). Requests change nothing except through `use`. A
slow reader misses events and delays no other. Connections are limited: too many close those without
the token first.
"""

from __future__ import annotations

import io
import json
import queue
import secrets
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Events that wait for a browser; a suspended tab gets the newest ones when it continues.
WAITING = 16
#: Seconds between keep-alive messages to a browser without other events.
ALIVE = 15.0


#: Most bytes of a page's request, and of all that comes before it.
LONGEST, HEAD = 1 << 20, 1 << 16
#: Most connections at a time: without the token, and with it.
STRANGERS, OWN = 32, 64


class Refusal(Exception):
    """The reason why a page's request is rejected."""


class PageServer:
    """Serves `page` until it is closed. Raises OSError if the port is taken.

    `use` gets the requests of the page, and raises `Refusal`; without it all requests are rejected.
    """

    def __init__(
        self, page: Callable[[], bytes], port: int = 0, use: Callable[[str], None] | None = None
    ) -> None:
        self._page, self._use, self._using = page, use, threading.Lock()
        self._token = secrets.token_urlsafe(18)
        self._listeners: list[queue.Queue[str | None]] = []
        self._lock = threading.Lock()
        self._last: dict[str, str] = {}
        self.closed = False
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port where it listens."""
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        """The URL to open."""
        return f"http://127.0.0.1:{self.port}/{self._token}/"

    def tell(self, kind: str, data: Any) -> None:
        """Send an event to all listeners, and the newest one of its kind to later ones."""
        text = f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
        with self._lock:
            self._last[kind] = text
            for listener in self._listeners:
                _put(listener, text)

    def close(self) -> None:
        """Disconnect all browsers."""
        self.closed = True
        with self._lock:
            for listener in self._listeners:
                _put(listener, None)
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, host: str) -> tuple[int, bytes]:
        """The status and the page for a path; status 0 for a listener."""
        what, refused = self._asked(path, host)
        if refused:
            return 403, refused
        if what == "events":
            return 0, b""
        if what == "":
            return 200, self._page()
        return 404, b"There is only one page."

    def grant(self, path: str, host: str, origin: str | None, wish: bytes) -> tuple[int, bytes]:
        """The status and the answer for a request of the page: one at a time."""
        what, refused = self._asked(path, host)
        if refused or (origin is not None and origin != f"http://{host}"):
            return 403, refused or b"This page is not from here."
        if what != "use" or self._use is None:
            return 404, b"Nothing can be changed here."
        try:
            with self._using:
                self._use(wish.decode())
        except (Refusal, UnicodeDecodeError) as error:
            return 409, str(error).encode()
        return 200, b""

    def refused(self, path: str, host: str) -> bytes:
        """The reason why a path is rejected; empty with the token."""
        return self._asked(path, host)[1]

    def welcome(self, connection: socket.socket) -> None:
        """The token was shown on this connection: connections without token cannot displace it."""
        self._server.welcome(connection)

    def _asked(self, path: str, host: str) -> tuple[str, bytes]:
        """The resource of a path, and the reason why it is rejected."""
        name, _, port = host.rpartition(":")
        if name not in ("127.0.0.1", "localhost") or port != str(self.port):
            return "", b"This is not the name of this server."
        _, token, what, *_ = [*path.partition("?")[0].split("/"), "", ""]
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return "", b"Take the whole address that flowc has printed."
        return what, b""

    def listen(self) -> queue.Queue[str | None]:
        """The events for one browser from now on, None at the end."""
        listener: queue.Queue[str | None] = queue.Queue(WAITING)
        with self._lock:
            for text in self._last.values():
                _put(listener, text)
            if self.closed:
                _put(listener, None)
            self._listeners.append(listener)
        return listener

    def forget(self, listener: queue.Queue[str | None]) -> None:
        """A browser has disconnected."""
        with self._lock:
            self._listeners.remove(listener)


class _Server(ThreadingHTTPServer):
    """Each connection has a thread; if there are too many, the oldest is ended."""

    daemon_threads = True
    request_queue_size = STRANGERS

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._limit = threading.Lock()
        self._strangers: OrderedDict[socket.socket, None] = OrderedDict()
        self._own: OrderedDict[socket.socket, None] = OrderedDict()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """A connection was opened."""
        self._keep(self._strangers, request, STRANGERS)
        super().process_request(request, client_address)

    def welcome(self, request: socket.socket) -> None:
        """The token was shown on this connection."""
        with self._limit:
            here = request in self._strangers or request in self._own
            self._strangers.pop(request, None)
            self._own.pop(request, None)
        if here:  # otherwise it has just been ended
            self._keep(self._own, request, OWN)

    def _keep(
        self, those: OrderedDict[socket.socket, None], request: socket.socket, most: int
    ) -> None:
        with self._limit:
            those[request] = None
            ended = [those.popitem(last=False)[0] for _ in range(len(those) - most)]
        for connection in ended:
            with suppress(OSError):  # it has ended by itself
                connection.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """A connection has ended."""
        with self._limit:
            self._strangers.pop(request, None)
            self._own.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that disconnects in the middle."""


def _put(listener: queue.Queue[str | None], text: str | None) -> None:
    """Drop the oldest event to make room for the newest."""
    while True:
        try:
            return listener.put_nowait(text)
        except queue.Full:
            try:
                listener.get_nowait()
            except queue.Empty:
                continue


class _Head(io.BufferedReader):
    """The request of a browser, up to `left` bytes."""

    left = HEAD

    def readline(self, size: int | None = -1, /) -> bytes:
        """Raises ConnectionAbortedError if it is too large."""
        line = super().readline(size)
        self.left -= len(line)
        if self.left < 0:
            raise ConnectionAbortedError
        return line


def _handler(server: PageServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def setup(self) -> None:
            super().setup()
            self.rfile.close()
            self.rfile = self._head = _Head(self.connection.makefile("rb", 0))

        def handle_one_request(self) -> None:
            self._head.left = HEAD
            super().handle_one_request()

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            status, content = server.answer(self.path, self.headers.get("Host", ""))
            if status != 403:
                server.welcome(self.connection)
            self._send(status, content)

        def do_POST(self) -> None:
            refused = server.refused(self.path, self.headers.get("Host", ""))
            if refused:  # a rejected request is not even read
                self.close_connection = True
                self._send(403, refused)
                return
            size = self.headers.get("Content-Length", "")
            if not size.isdecimal() or int(size) > LONGEST:
                self.close_connection = True
                self._send(413, b"The request is too large, or has no length.")
                return
            wish = self.rfile.read(int(size))
            self._send(
                *server.grant(
                    self.path, self.headers.get("Host", ""), self.headers.get("Origin"), wish
                )
            )

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status or 200)
            kind = {0: "text/event-stream", 200: "text/html"}.get(status, "text/plain")
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            if status:
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                return
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            self._follow()

        def _follow(self) -> None:
            listener = server.listen()
            try:
                while not server.closed:
                    try:
                        text = listener.get(timeout=ALIVE)
                    except queue.Empty:
                        text = ": still here\n\n"
                    if text is None:
                        return
                    self.wfile.write(text.encode())
                    self.wfile.flush()
            except OSError:
                pass
            finally:
                server.forget(listener)

    return Handler
