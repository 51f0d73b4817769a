"""Who reaches the port of a part, and is no part: it takes no memory to speak of, ends nothing, and
is counted."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import zmq
from flowc.runtime import door
from flowc.runtime.door import Door

from builds import build
from limits import HANGS, next_line
from rigs import TASKS, TEXT, joined

ENDLESS = TEXT.replace("count: int = 40", "count: int = 1000000")
#: What strangers can take at a port, in bytes: one of them, and many who come faster than they are
#: sent away.
MOST = {"frames": 8_000_000, "many": 40_000_000, "bytes": 8_000_000}
#: Parts that a door may expect.
PARTS = 10
#: How ZeroMQ begins a conversation, for each way to say who one is; and the beginning of a frame of
#: 2 GiB.
GREETING = {
    m: b"\xff" + bytes(8) + b"\x7f\x03\x00" + m.ljust(20, b"\0") + bytes(32)
    for m in (b"NULL", b"PLAIN", b"CURVE")
}
LARGE = b"\x06" + struct.pack(">Q", 1 << 31)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers")
    (folder / "app.flow").write_text(ENDLESS)
    (folder / "tasks.py").write_text(TASKS)
    return build(folder / "app.flow", folder / "out", platform="rig")


def resident(process: int) -> int:
    """What a process and those that it has started take now, in bytes."""
    found = 0
    with contextlib.suppress(OSError, StopIteration):  # it has just ended
        with open(f"/proc/{process}/smaps_rollup") as file:
            found += next(int(line.split()[1]) * 1024 for line in file if line.startswith("Rss:"))
        with open(f"/proc/{process}/task/{process}/children") as file:
            found += sum(resident(int(child)) for child in file.read().split())
    return found


def connected(port: int) -> socket.socket:
    """A connection to it, as soon as something listens there."""
    end = time.monotonic() + HANGS
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port), timeout=5)
        assert time.monotonic() < end
        time.sleep(0.01)


def pushed(connection: socket.socket, content: bytes, times: int = 1) -> None:
    """Send it, as long as it is taken."""
    with contextlib.suppress(OSError):
        for _ in range(times):
            connection.sendall(content)


def frames(port: int, mechanism: bytes) -> Iterator[socket.socket]:
    """One frame after the other that is longer than any."""
    with connected(port) as connection:
        pushed(connection, GREETING[mechanism] + LARGE)
        pushed(connection, b"x" * (1 << 20), 64)
        yield connection


def many(port: int, mechanism: bytes) -> Iterator[list[socket.socket]]:
    """A flood of connections, each with a part of a frame."""
    with ExitStack() as stack:
        found = []
        for _ in range(600):
            with contextlib.suppress(OSError):
                connection = stack.enter_context(connected(port))
                found.append(connection)
                connection.setblocking(False)
                pushed(connection, GREETING[mechanism] + b"\x06" + struct.pack(">Q", door.PIECE))
                pushed(connection, b"x" * (door.PIECE - 1))
        yield found


def bytes_(port: int, mechanism: bytes) -> Iterator[Any]:
    """Messages of a byte, of who does not say who it is, or says something else; one that is not of
    ZeroMQ at all."""
    with (
        zmq.Context() as context,
        context.socket(zmq.PUSH) as plain,
        context.socket(zmq.PUSH) as other,
    ):
        for sender in (plain, other):
            sender.setsockopt(zmq.LINGER, 0)
        other.setsockopt(zmq.PLAIN_USERNAME, b"front")
        other.setsockopt(zmq.PLAIN_PASSWORD, b"guessed")
        for sender in (plain, other):
            sender.connect(f"tcp://127.0.0.1:{port}")
            sender.send(b"x")
        with connected(port) as connection:
            pushed(connection, b"GET / HTTP/1.1\r\n\r\n" + b"\r\n" * 100)
            yield connection


ATTACKS: dict[str, Callable[[int, bytes], Iterator[Any]]] = {
    "frames": frames,
    "many": many,
    "bytes": bytes_,
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("encrypted", [True, False])
def test_strangers_take_nothing_and_end_nothing(
    out: Path, attack: str, encrypted: bool, tmp_path: Path
) -> None:
    environments = joined(["back", "front"])
    for name, other in (("back", "front"), ("front", "back")):
        document = json.loads(environments[name]["FLOWC_MACHINES"])
        document["encrypted"] = encrypted
        if not encrypted:
            del document["peers"][other]["public"]
        environments[name]["FLOWC_MACHINES"] = json.dumps(document)
    port = int(json.loads(environments["front"]["FLOWC_MACHINES"])["listen"].rpartition(":")[2])

    def started(name: str, stack: ExitStack) -> subprocess.Popen[bytes]:
        words = [
            sys.executable,
            str(out / "parts" / name / "main.py"),
            "--quiet",
            "--report",
            str(tmp_path / name),
        ]
        child = subprocess.Popen(
            words,
            env={**os.environ, **environments[name]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        stack.enter_context(child)
        stack.callback(child.kill)
        return child

    with ExitStack() as stack:
        front = started("front", stack)
        connected(port).close()
        time.sleep(0.5)  # it has imported everything
        before = resident(front.pid)
        for _ in ATTACKS[attack](port, b"CURVE" if encrypted else b"PLAIN"):
            time.sleep(0.5)
            assert resident(front.pid) - before < MOST[attack]
            back = started("back", stack)
            lines = [next_line(back) for _ in range(5)]  # it runs while the stranger is still there
            assert all(lines), back.communicate(timeout=HANGS)
        with pytest.raises(OSError):  # the port is closed to all other processes
            socket.create_connection(("127.0.0.1", port), timeout=0.5).close()
        back.terminate()
        _, said = back.communicate(timeout=HANGS)
        assert back.returncode in (0, 143), said
        assert front.wait(HANGS) == 0
    refused = json.loads((tmp_path / "front").read_text())["part"]["refused"]
    assert refused >= (1 if attack == "frames" else 3)


def test_a_door_is_where_it_has_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """At an address of its own; at all, where that is a name or that of another machine."""
    for host, own in (
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("*", None),
        ("somewhere", None),
        ("192.0.2.7", None),
    ):
        if own == "::1" and not socket.has_dualstack_ipv6():
            continue
        with zmq.Context() as context:
            made = Door(context, {"listen": f"tcp://{host}:*", "token": "t", "encrypted": False}, 1)
            assert made.port in range(*door.PORTS)
            assert made._listener.getsockname()[0] in ((own,) if own else ("::", "0.0.0.0"))
            made.close()
            context.destroy(0)


def test_connections_that_are_too_many_are_ended_the_oldest_first() -> None:
    with zmq.Context() as context, ExitStack() as stack:
        made = Door(
            context, {"listen": "tcp://127.0.0.1:*", "token": "t", "encrypted": False}, PARTS
        )
        stack.callback(context.destroy, 0)
        stack.callback(made.close)
        strangers = []
        for n in range(door.MOST + PARTS + 5):
            strangers.append(stack.enter_context(connected(made.port)))
            while made.refused <= n:
                made.look()
        assert all(_has_ended(s, HANGS) for s in strangers[:5])
        assert not any(_has_ended(s, 0) for s in strangers[5:])
        made.shut()
        assert (
            all(_has_ended(s, HANGS) for s in strangers) and made.refused == door.MOST + PARTS + 5
        )


def _has_ended(connection: socket.socket, seconds: float) -> bool:
    """Does the other side end it in that time?"""
    with contextlib.suppress(ConnectionResetError):
        while select.select([connection], [], [], seconds)[0]:
            if not connection.recv(100):  # else it is how ZeroMQ begins
                return True
        return False
    return True
