"""What comes in at the port of a part: messages of another part that were changed, and of
strangers."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import sys
import time
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import zmq
from flowc.runtime import transport as wire
from flowc.runtime.door import PIECE
from flowc.runtime.failures import Failure
from flowc.runtime.stamps import Stamps
from flowc.runtime.tokens import Port

from . import mutate

#: Seconds in which an answer comes, on a machine with other things to do.
HANGS = 60.0
TOKEN = "t" * 64
HELLO = {
    "version": wire.VERSION, "whole": "w", "token": TOKEN, "order": sys.byteorder, "name": "front", "apps": ["A"],
    "near": ["back"],
}  # fmt: skip


class _Run:
    """As far as a part's connections see it."""

    def __init__(self) -> None:
        app = SimpleNamespace(
            name="A", started_elsewhere=lambda number, began: None, end_at=lambda number: None
        )
        self.apps, self.interrupts, self.stopping = [app], 0, False
        self.board = SimpleNamespace(beat=lambda: None)
        self.failure: Failure | None = None

    def fail(self, failure: Failure) -> None:
        self.failure, self.stopping = self.failure or failure, True

    def say(self, text: str) -> None:
        pass

    def drain(self) -> None:
        pass

    def who_waits(self) -> str:
        return "no worker waits"


def _messages() -> list[list[bytes]]:
    """What a part says, in order: heads without their last number, and bodies."""
    failed = json.dumps(
        {"part": "front", "app": "A", "task": "A.x", "firing": 3, "reason": "why"}
    ).encode()
    tokens = bytes(32)
    bodies = [
        (wire.HELLO, 0, 0, 0, json.dumps(HELLO).encode()), (wire.PING, 0, 0, 77, b""), (wire.READY, 0, 0, 0, b""),
        (wire.GO, 0, 0, 99, b""), (wire.STARTED, 0, 0, 1, struct.pack("<q", 5) + b"A"), (wire.LIMIT, 0, 0, 9, b"A"),
        (wire.STAMP, 0, 1, 5, struct.pack("<q", 5) + b"A.x"), (wire.TOKENS, 0, 2, 0, tokens), (wire.HOLES, 0, 1, 0, b""), (wire.CREDIT, 1, 0, 0, b""),
        (wire.DRAIN, 0, 0, 0, b""), (wire.PONG, 0, 0, 1, struct.pack("<q", 4)), (wire.FAILED, 0, 0, 0, failed),
        (wire.BYE, 0, 0, 0, b""),
    ]  # fmt: skip
    return [
        [wire._HEAD.pack(kind, 1, where, count, number, 0), body]
        for kind, where, count, number, body in bodies
    ]


def make(rng: Random, folder: Path) -> None:
    """What is said, by whom: one in four says what parts say."""
    known = _messages()
    kept = [known[0], *rng.sample(known[1:12], rng.randrange(11))]
    honest = rng.random() < 0.25
    if not honest and rng.random() < 0.2:
        kept = [*kept, *known[12:]]
    numbered = [
        [head[:-8] + struct.pack("<Q", n), *body] for n, (head, *body) in enumerate(kept, 1)
    ]
    if not honest:
        numbered = _changed(rng, numbered)
    plan = {
        "honest": honest,
        "encrypted": rng.random() < 0.5,
        "stranger": rng.choice(("none", "none", "plain", "guess", "bytes", "many")),
        "bytes": mutate.data(
            rng, b"\xff" + bytes(8) + b"\x7f\x03\0CURVE" + bytes(48) + b"\4\x19\5READY" + bytes(20)
        ).hex(),
        "messages": [[frame.hex() for frame in message] for message in numbered],
    }
    (folder / "said.json").write_text(json.dumps(plan))


def _changed(rng: Random, messages: list[list[bytes]]) -> list[list[bytes]]:
    """With some other message, or one that is changed, missing, doubled or cut into pieces."""
    for _ in range(mutate.edits(rng)):
        at = rng.randrange(len(messages))
        match rng.randrange(8):
            case 0:
                messages = [*messages[:at], *messages[at + 1 :]] or messages
            case 1:
                messages = [*messages[:at], messages[at], *messages[at:]]
            case 2:
                frame = rng.randrange(len(messages[at]))
                messages[at] = [
                    *messages[at][:frame],
                    mutate.data(rng, messages[at][frame]),
                    *messages[at][frame + 1 :],
                ]
            case 3:
                messages[at] = [
                    messages[at][0],
                    *[b"x" * rng.choice((0, 1, 1000))] * rng.choice((0, 2, 100)),
                ]
            case 4:
                numbers = rng.choice((0, 1, 13, 14, 255)), rng.choice((0, 1, 2, 65535)), *(
                    rng.choice((0, 1, 3, 2**32 - 1)) for _ in range(2)
                ), rng.choice((0, 2**63 - 1, -1, -(2**63))), 1 + at  # fmt: skip
                messages[at] = [wire._HEAD.pack(*numbers), *messages[at][1:]]
            case 5 if messages[at][1:]:
                with contextlib.suppress(ValueError):
                    messages[at][1] = mutate.json_text(rng, messages[at][1].decode()).encode(
                        errors="surrogatepass"
                    )
            case 6:
                messages[at] = [
                    messages[at][0],
                    b"x" * (PIECE + rng.choice((-1, 0, 1, 4096, 1 << 20))),
                ]
            case _:
                messages[at] = [b"[" * 200_000]
    return messages


def run(rng: Random, folder: Path) -> bool:
    """Let a part hear it; strangers end nothing, and a part that says other things ends all with a
    reason."""
    plan = json.loads((folder / "said.json").read_text())
    messages = [[bytes.fromhex(frame) for frame in message] for message in plan["messages"]]
    with zmq.Context() as context:
        context.setsockopt(zmq.LINGER, 0)
        try:
            return _heard(context, plan, messages)
        finally:
            context.destroy(0)


def _heard(context: Any, plan: dict[str, Any], messages: list[list[bytes]]) -> bool:
    own, other = zmq.curve_keypair(), zmq.curve_keypair()
    ears = context.socket(zmq.PULL)
    ears.setsockopt(zmq.CURVE_SERVER, 1)
    ears.setsockopt(zmq.CURVE_SECRETKEY, other[1])
    there = {
        "address": f"tcp://127.0.0.1:{ears.bind_to_random_port('tcp://127.0.0.1')}",
        "public": other[0].decode(),
    }
    run = _Run()
    program: Any = SimpleNamespace(run=run)
    mesh = wire.Transport(program, "back", ["front"], "w", (), ())
    Stamps(program, mesh).elsewhere("front", "A.x", releases=True)
    task: Any = SimpleNamespace(name="A.y", inputs=[Port("x", "float32", (4,))])
    mesh.receives_from("front").channel(0, task, "x", "A.x", "c", 4)
    mesh.sends_to("front").channel(1, task, "y", "A.z", "d", 4)
    received, sent = mesh.remote_ends
    mesh.into(received, task.inputs[0])
    mesh.out(sent, Port("y", "float32", (4,)))
    mesh.given = {
        "listen": "tcp://127.0.0.1:*", "token": TOKEN, "public": own[0].decode(), "secret": own[1].decode(),
        "encrypted": plan["encrypted"], "peers": {"front": there},
    }  # fmt: skip
    assert mesh.start() and mesh._door is not None
    port = mesh._door.port
    try:
        with _stranger(context, plan, port):
            mouth = context.socket(zmq.PUSH)
            if plan["encrypted"]:
                mouth.setsockopt(zmq.CURVE_SERVERKEY, own[0])
                mouth.setsockopt(zmq.CURVE_PUBLICKEY, other[0])
                mouth.setsockopt(zmq.CURVE_SECRETKEY, other[1])
            else:
                mouth.setsockopt(zmq.PLAIN_USERNAME, b"front")
                mouth.setsockopt(zmq.PLAIN_PASSWORD, TOKEN.encode())
            ends = mouth.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            mouth.connect(f"tcp://127.0.0.1:{port}")
            for message in messages:
                mouth.send_multipart(message)
            ping = wire._HEAD.pack(wire.PING, 1, 0, 0, 4711, len(messages) + 1)
            mouth.send_multipart([ping])
            answered = _answered(ears, ends, run)
    finally:
        mesh.close()
    assert answered or not plan["honest"], run.failure
    return answered


def _answered(ears: Any, ends: Any, run: _Run) -> bool:
    """Wait for the answer to the last ping; False where the program ends, or the connection, of
    which a part dies."""
    end = time.monotonic() + HANGS
    while run.failure is None and not ends.poll(0):
        assert time.monotonic() < end, "neither an answer nor a failure"
        if ears.poll(20):
            head = wire._HEAD.unpack(ears.recv_multipart()[0])  # no limit: it is there
            if head[0] == wire.PONG and head[4] == 4711:
                return True
    assert run.failure is None or run.failure.reason
    return False


@contextlib.contextmanager
def _stranger(context: Any, plan: dict[str, Any], port: int) -> Any:
    """Who is no part, and says something as well."""
    with contextlib.ExitStack() as stack:
        if plan["stranger"] in ("plain", "guess"):
            mouth = context.socket(zmq.PUSH)
            if plan["stranger"] == "guess":
                mouth.setsockopt(zmq.PLAIN_USERNAME, b"front")
                mouth.setsockopt(zmq.PLAIN_PASSWORD, b"guess")
            mouth.setsockopt(zmq.SNDTIMEO, 1000)  # a part that refuses it takes nothing
            mouth.connect(f"tcp://127.0.0.1:{port}")
            with contextlib.suppress(zmq.Again):
                mouth.send(b"x")
        for _ in range({"bytes": 1, "many": 20}.get(plan["stranger"], 0)):
            with contextlib.suppress(OSError):
                connection = stack.enter_context(
                    socket.create_connection(("127.0.0.1", port), timeout=1)
                )
                connection.sendall(bytes.fromhex(plan["bytes"]))
        yield
