"""The server of a page: who gets in, what browsers are told, and that none holds up others."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from flowc.report.serve import OWN, STRANGERS, WAITING, PageServer, Refusal

from builds import HANGS

PAGE = b"<!doctype html><title>page</title>"


@pytest.fixture
def server() -> Iterator[PageServer]:
    made = PageServer(lambda: PAGE)
    yield made
    if not made.closed:
        made.close()


def ask(
    server: PageServer, path: str, host: str | None = None, method: str = "GET"
) -> tuple[int, bytes]:
    """An answer, whatever a proxy of the environment would say."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read()


def token(server: PageServer) -> str:
    return server.address.rstrip("/").rpartition("/")[2]


def test_only_the_whole_address_opens_the_page(server: PageServer) -> None:
    path = f"/{token(server)}/"
    assert ask(server, path) == (200, PAGE) == ask(server, path, f"localhost:{server.port}")
    assert ask(server, path + "other")[0] == 404
    for wrong in (
        "/",
        f"/{token(server)[:-1]}/",
        f"/{token(server)}x/",
        f"/?{token(server)}",
        "/%00/",
    ):
        status, said = ask(server, wrong)
        assert status == 403 and PAGE not in said
    assert ask(server, path, method="POST")[0] == 404


def wish(server: PageServer, what: bytes, path: str = "use", **headers: str) -> int:
    """The status of what a page asks for."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request("POST", f"/{token(server)}/{path}", what, headers)
        return connection.getresponse().status


def test_wishes_are_granted_to_the_page_alone_and_only_with_a_function_for_them() -> None:
    granted: list[str] = []

    def use(what: str) -> None:
        if what == "no":
            raise Refusal("not this one")
        granted.append(what)

    made = PageServer(lambda: PAGE, use=use)
    own = f"http://127.0.0.1:{made.port}"
    assert wish(made, b"this") == 200 == wish(made, b"that", Origin=own)
    assert wish(made, b"no") == 409 == wish(made, b"\xff")
    assert wish(made, b"x", Origin="http://evil.example") == 403 == wish(made, b"x", Origin="null")
    assert wish(made, b"x", Host="evil.example") == 403 and wish(made, b"x", "other") == 404
    assert wish(made, b"", **{"Content-Length": str(1 << 30)}) == 413
    assert ask(made, "/wrong/use", method="POST")[0] == 403
    made.close()
    assert granted == ["this", "that"]


def test_without_a_function_for_wishes_there_are_none(server: PageServer) -> None:
    assert wish(server, b"this") == 404


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{}", "127.0.0.1.evil.example:{}", "127.0.0.1:1", "", "[::1]:{}"],
)
def test_names_of_others_that_point_here_get_nothing(host: str, server: PageServer) -> None:
    assert ask(server, f"/{token(server)}/", host.format(server.port))[0] == 403
    assert ask(server, f"/{token(server)}/events", host.format(server.port))[0] == 403


def test_addresses_differ_and_a_port_is_taken_once(server: PageServer) -> None:
    other = PageServer(lambda: PAGE)
    assert token(other) != token(server) and len(token(other)) >= 20
    other.close()
    with pytest.raises(OSError, match=r"."):
        PageServer(lambda: PAGE, server.port)


class Tab:
    """A browser that listens."""

    def __init__(self, server: PageServer) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self._connection.request("GET", f"/{token(server)}/events")
        self.answer = self._connection.getresponse()
        assert self.answer.getheader("Content-Type") == "text/event-stream; charset=utf-8"

    def hear(self) -> tuple[str, object] | None:
        """The next event, None at the end."""
        kind = self.answer.readline().decode()
        if not kind:
            return None
        data = self.answer.readline().decode()
        assert self.answer.readline() == b"\n"
        return kind.removeprefix("event: ").strip(), json.loads(data.removeprefix("data: "))

    def leave(self) -> None:
        self._connection.close()


def test_ten_tabs_hear_the_same_and_late_ones_what_is_newest(server: PageServer) -> None:
    server.tell("state", "running")
    tabs = [Tab(server) for _ in range(10)]
    assert [tab.hear() for tab in tabs] == [("state", "running")] * 10
    for k in range(3):
        server.tell("live", {"k": k, "text": "a\nb"})
    assert [[tab.hear() for _ in range(3)] for tab in tabs] == [
        [("live", {"k": k, "text": "a\nb"}) for k in range(3)]
    ] * 10
    late = Tab(server)
    assert [late.hear(), late.hear()] == [("state", "running"), ("live", {"k": 2, "text": "a\nb"})]
    tabs[0].leave()
    server.tell("state", "ended")
    assert [tab.hear() for tab in tabs[1:]] == [("state", "ended")] * 9
    server.close()
    assert [tab.hear() for tab in tabs[1:]] == [None] * 9


def test_a_browser_that_sleeps_misses_events_and_holds_up_no_other(server: PageServer) -> None:
    """Its queue is as long as it may get, with the newest in it; telling never waits."""
    listener = server.listen()
    told = threading.Thread(target=lambda: [server.tell("live", k) for k in range(1000)])
    told.start()
    told.join(60)
    assert not told.is_alive()
    left = [listener.get_nowait() for _ in range(listener.qsize())]
    assert len(left) <= WAITING and left[-1] == "event: live\ndata: 999\n\n"
    server.forget(listener)


def connected(server: PageServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def has_ended(connection: socket.socket) -> bool:
    with contextlib.suppress(ConnectionResetError):
        return connection.recv(1) == b""
    return True


def test_a_flood_of_strangers_takes_few_threads_and_the_page_still_answers(
    server: PageServer,
) -> None:
    before = threading.active_count()
    tab = Tab(server)
    with contextlib.ExitStack() as stack:
        flood = []
        for k in range(200):
            flood.append(stack.enter_context(connected(server)))
            flood[-1].sendall(b"GET / HTTP/1.1\r\nX: ")
            if k % 100 == 50:
                assert ask(server, f"/{token(server)}/") == (200, PAGE)
        assert all(has_ended(stranger) for stranger in flood[:-STRANGERS])
        end = time.monotonic() + HANGS
        while threading.active_count() - before > STRANGERS + 3:  # the tab, and those that answer
            assert time.monotonic() < end
            time.sleep(0.01)
        assert ask(server, f"/{token(server)}/") == (200, PAGE)
        server.tell("live", 1)
        assert tab.hear() == ("live", 1)


def test_tabs_that_are_too_many_make_room_the_oldest_first(server: PageServer) -> None:
    tabs = [Tab(server) for _ in range(OWN + 1)]
    assert tabs[0].hear() is None
    server.tell("live", 1)
    assert tabs[-1].hear() == ("live", 1)


def test_what_comes_before_a_wish_and_wishes_of_strangers_are_limited(server: PageServer) -> None:
    with connected(server) as one:
        with contextlib.suppress(OSError):
            one.sendall(b"GET / HTTP/1.1\r\n")
            for _ in range(50):
                one.sendall(b"X: " + b"x" * 60_000 + b"\r\n")
        assert has_ended(one)
    with connected(server) as other:
        head = f"POST /wrong/use HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 1000000\r\n\r\n"
        other.sendall(head.encode())  # the wish itself never comes
        assert other.recv(12) == b"HTTP/1.1 403"
