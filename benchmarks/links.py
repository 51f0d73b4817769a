"""The cost of a token between two machines: candidates for the transport between parts of a
program, with credits.

    python benchmarks/links.py [KIND...] [--size BYTES] [--rounds N]

Two processes over loopback, tokens of a megabyte, room for four (`WINDOW`): a credit comes back for
each. Paced (a token every 20 ms) the time from the call that sends to the token in hand; at full
speed the CPU time of both processes together per token. `tcp` is the reference: plain sockets of
the standard library, credits, nothing else. Each round takes all kinds in turn; the medians of the
rounds are printed. Zenoh (`pip install eclipse-zenoh`) and pyzmq (the extra `machines`) are left
out where they are not installed; keys and certificates for TLS are made by `openssl`. `program` is
an application in two parts as flowc builds it, source and sink and reports included, over
zmq-curve, and `program-plain` the same with `encrypted = false`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WINDOW, PACED, GAP, FAST = 4, 100, 0.02, 400
HEAD = struct.Struct("<qq")

#: Sends a token with its number; takes so many credits back (at least one).
Send = Callable[[int, np.ndarray], None]


def port_of_nobody() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


# -- plain sockets, and the same with TLS ----------------------------------------------------------
def _exactly(connection: Any, view: memoryview) -> None:
    while view.nbytes:
        view = view[connection.recv_into(view) :]


def tcp_sender(port: int, folder: Path, tls: bool) -> tuple[Send, Callable[[], int]]:
    listening = socket.create_server(("127.0.0.1", port))
    connection: Any = listening.accept()[0]
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        connection = context.wrap_socket(connection, server_side=True)

    def send(number: int, token: np.ndarray) -> None:
        connection.sendall(HEAD.pack(number, time.perf_counter_ns()))
        connection.sendall(token.data)

    return send, lambda: len(connection.recv(64))


def tcp_receiver(
    port: int, size: int, folder: Path, tls: bool
) -> tuple[Callable[[], tuple[int, int, Any]], Any]:
    while True:
        try:
            connection: Any = socket.create_connection(("127.0.0.1", port))
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls:
        context = ssl.create_default_context(cafile=str(folder / "cert.pem"))
        connection = context.wrap_socket(connection, server_hostname="localhost")
    pool, head = [np.empty(size, np.uint8) for _ in range(WINDOW)], bytearray(HEAD.size)

    def receive() -> tuple[int, int, Any]:
        _exactly(connection, memoryview(head))
        number, sent = HEAD.unpack(head)
        _exactly(connection, pool[number % WINDOW].data)
        return number, sent, pool[number % WINDOW]

    return receive, lambda: connection.sendall(b"c")


# -- ZeroMQ ----------------------------------------------------------------------------------------
def _zmq_pair(folder: Path, curve: bool, own: str, other: str) -> tuple[Any, Any]:
    """A socket to listen at and one to send with."""
    import zmq

    context = zmq.Context()
    ears, mouth = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    if curve:
        keys = json.loads((folder / "keys.json").read_text())
        ears.setsockopt(zmq.CURVE_SERVER, 1)
        for each in (ears, mouth):
            each.setsockopt(zmq.CURVE_SECRETKEY, keys[own][1].encode())
            each.setsockopt(zmq.CURVE_PUBLICKEY, keys[own][0].encode())
        mouth.setsockopt(zmq.CURVE_SERVERKEY, keys[other][0].encode())
    return ears, mouth


def zmq_sender(port: int, folder: Path, curve: bool) -> tuple[Send, Callable[[], int]]:
    ears, mouth = _zmq_pair(folder, curve, "a", "b")
    ears.bind(f"tcp://127.0.0.1:{port + 1}")
    mouth.connect(f"tcp://127.0.0.1:{port}")

    def send(number: int, token: np.ndarray) -> None:
        mouth.send_multipart([HEAD.pack(number, time.perf_counter_ns()), token.data], copy=False)

    return send, lambda: len(ears.recv())


def zmq_receiver(
    port: int, size: int, folder: Path, curve: bool
) -> tuple[Callable[[], tuple[int, int, Any]], Any]:
    ears, mouth = _zmq_pair(folder, curve, "b", "a")
    ears.bind(f"tcp://127.0.0.1:{port}")
    mouth.connect(f"tcp://127.0.0.1:{port + 1}")

    def receive() -> tuple[int, int, Any]:
        head, body = ears.recv_multipart(copy=False)
        number, sent = HEAD.unpack(head.buffer)
        return number, sent, np.frombuffer(body.buffer, np.uint8)

    return receive, lambda: mouth.send(b"c")


# -- Zenoh -----------------------------------------------------------------------------------------
def _zenoh(port: int, folder: Path, tls: bool, listens: bool) -> Any:
    import zenoh

    config = zenoh.Config()
    config.insert_json5("mode", '"peer"')
    config.insert_json5("scouting/multicast/enabled", "false")
    # there is none between machines
    config.insert_json5("transport/shared_memory/enabled", "false")
    place = f"tls/localhost:{port}" if tls else f"tcp/127.0.0.1:{port}"
    config.insert_json5("listen/endpoints" if listens else "connect/endpoints", json.dumps([place]))
    if tls:
        for name, file in (
            ("root_ca_certificate", "cert"),
            ("listen_private_key", "key"),
            ("listen_certificate", "cert"),
        ):
            config.insert_json5(
                f"transport/link/tls/{name}", json.dumps(str(folder / f"{file}.pem"))
            )
    return zenoh.open(config)


def zenoh_sender(port: int, folder: Path, tls: bool) -> tuple[Send, Callable[[], int]]:
    import queue

    import zenoh

    session, came = _zenoh(port, folder, tls, True), queue.SimpleQueue[int]()
    credits = session.declare_subscriber("f/c", lambda sample: came.put(1))
    tokens = session.declare_publisher(
        "f/x", congestion_control=zenoh.CongestionControl.BLOCK, express=True
    )
    came.get()  # the reader is there

    def send(number: int, token: np.ndarray) -> None:
        tokens.put(token.tobytes(), attachment=HEAD.pack(number, time.perf_counter_ns()))

    send.kept = session, credits  # type: ignore[attr-defined]
    return send, came.get


def zenoh_receiver(
    port: int, size: int, folder: Path, tls: bool
) -> tuple[Callable[[], tuple[int, int, Any]], Any]:
    import queue

    import zenoh

    time.sleep(1)
    session, came = _zenoh(port, folder, tls, False), queue.SimpleQueue[Any]()
    tokens = session.declare_subscriber("f/x", came.put)
    credits = session.declare_publisher(
        "f/c", congestion_control=zenoh.CongestionControl.BLOCK, express=True
    )
    time.sleep(1)
    credits.put(b"r")

    def receive() -> tuple[int, int, Any]:
        sample = came.get()
        number, sent = HEAD.unpack(sample.attachment.to_bytes())
        return number, sent, np.frombuffer(sample.payload.to_bytes(), np.uint8)

    receive.kept = session, tokens  # type: ignore[attr-defined]
    return receive, lambda: credits.put(b"c")


#: Of each kind: what sends, what receives, whether it is encrypted, and what has to be installed.
KINDS: dict[str, tuple[Any, Any, bool, str]] = {
    "tcp": (tcp_sender, tcp_receiver, False, ""),
    "tcp-tls": (tcp_sender, tcp_receiver, True, ""),
    "zmq": (zmq_sender, zmq_receiver, False, "zmq"),
    "zmq-curve": (zmq_sender, zmq_receiver, True, "zmq"),
    "program": (None, None, True, "zmq"),
    "program-plain": (None, None, False, "zmq"),
    "zenoh": (zenoh_sender, zenoh_receiver, False, "zenoh"),
    "zenoh-tls": (zenoh_sender, zenoh_receiver, True, "zenoh"),
}


# -- the two processes -----------------------------------------------------------------------------
def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def receiving(kind: str, port: int, size: int, folder: Path) -> None:
    """The reader's process: a line of JSON at its end."""
    make, secret = KINDS[kind][1], KINDS[kind][2]
    receive, credit = make(port, size, folder, secret)
    hops, order, begin = [], [], 0.0
    for number in range(PACED + FAST):
        if number == PACED:
            begin = _cpu()
        got, sent, token = receive()
        assert len(token) == size and token[0] == token[-1]
        hops.append(time.perf_counter_ns() - sent)
        order.append(got)
        credit()
    print(
        json.dumps(
            {
                "hops": hops[10:PACED],
                "cpu": _cpu() - begin,
                "good": order == list(range(PACED + FAST)),
            }
        )
    )
    sys.stdout.flush()
    time.sleep(1)
    os._exit(0)


def once(kind: str, size: int, folder: Path) -> tuple[float, float, float, bool]:
    """The median hop in us, CPU us per token, tokens per second, and whether all came in order."""
    port = port_of_nobody()
    command = [sys.executable, __file__, "--receive", kind, str(port), str(size), str(folder)]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE)
    send, credited = KINDS[kind][0](port, folder, KINDS[kind][2])
    token, room, used, begin = np.zeros(size, np.uint8), WINDOW, 0.0, 0.0
    for number in range(PACED + FAST):
        if number == PACED:
            used, begin = _cpu(), time.perf_counter()
        while not room:
            room += credited()
        room -= 1
        send(number, token)
        if number < PACED:
            time.sleep(GAP)
    while room < WINDOW:
        room += credited()
    seconds, used = time.perf_counter() - begin, _cpu() - used
    assert reader.stdout is not None
    said = json.loads(reader.stdout.readline())
    reader.wait()
    return (
        statistics.median(said["hops"]) / 1e3,
        (used + said["cpu"]) / FAST * 1e6,
        FAST / seconds,
        said["good"],
    )


# -- the parts of a program ------------------------------------------------------------------------
TEXT = """
task Source {{ out token: uint8[{size}]   python "t.py:Source" }}
task Sink {{ in token: uint8[{size}]   python "t.py:sink" }}
app A {{ {pace} source: Source   sink: Sink   source -> sink }}
platform rig {{ machine a {{ cpu core }}   machine b {{ cpu core }}   link a b 1 GB/s 20 us }}
mapping on rig {{ A.source -> a.core   A.sink -> b.core buffers 4 }}
"""
TASKS = """
import numpy as np
class Source:
    def __init__(self): self.token = np.zeros({size}, np.uint8)
    def __call__(self): return self.token
def sink(token): token[0] + token[-1]
"""


def program(size: int, folder: Path, secret: bool) -> tuple[float, float, float, bool]:
    """The same of a program that flowc writes: a frame from its release to its end, and CPU time
    per frame."""
    encrypted = json.dumps(secret)
    (folder / "rig.toml").write_text(
        "".join(f"[{m}]\nhere = true\nencrypted = {encrypted}\n" for m in "ab")
    )
    (folder / "t.py").write_text(TASKS.format(size=size))
    used, seconds = {}, {}
    for name, pace, frames in (
        ("paced", "period 20 ms", PACED),
        ("few", "", FAST),
        ("many", "", 3 * FAST),
    ):
        flow = folder / f"{name}.flow"
        flow.write_text(TEXT.format(size=size, pace=pace))
        run = [
            sys.executable,
            "-m",
            "flowc",
            "run",
            str(flow),
            "--platform",
            "rig",
            "--json",
            "--frames",
        ]
        words = ["--no-measure", "--machines", str(folder / "rig.toml"), "-o", str(folder / name)]
        subprocess.run([*run, "1", *words], check=True, capture_output=True)  # builds it
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*run, str(frames), *words], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used[name] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        app = json.loads(done.stdout)["apps"]["A"]
        assert app["frames"] == frames
        seconds[name] = app["latency_ms"]["p50"] if name == "paced" else 1 / app["fps"]
    per_token = (used["many"] - used["few"]) / (2 * FAST)
    return seconds["paced"] * 1e3, per_token * 1e6, 1 / seconds["many"], True


def _secrets(folder: Path) -> None:
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-addext",
            "basicConstraints=CA:FALSE",
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    if importlib.util.find_spec("zmq"):
        import zmq

        keys = {name: [k.decode() for k in zmq.curve_keypair()] for name in "ab"}
        (folder / "keys.json").write_text(json.dumps(keys))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    kinds = [k for k in options.kinds if not KINDS[k][3] or importlib.util.find_spec(KINDS[k][3])]
    found: dict[str, list[tuple[float, float, float, bool]]] = {k: [] for k in kinds}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _secrets(folder)
        for _ in range(options.rounds):
            for kind in kinds:  # a process of its own, so that none inherits the threads of another
                words = [sys.executable, __file__, "--once", kind, str(options.size), made]
                done = subprocess.run(
                    words, stdout=subprocess.PIPE, text=True, timeout=300, check=True
                )
                found[kind].append(tuple(json.loads(done.stdout)))
    yardstick = statistics.median(r[1] for r in found.get("tcp", [(0.0, 1.0, 0.0, True)]))
    print(
        f"{'kind':13}  {'p50 us':>8}  {'CPU us':>8}  {'x tcp':>6}  {'tokens/s':>8}  complete, in"
        " order"
    )
    for kind, rows in found.items():
        p50, cpu, rate = (statistics.median(r[i] for r in rows) for i in range(3))
        good = "yes" if all(r[3] for r in rows) else "NO"
        print(f"{kind:13}  {p50:8.0f}  {cpu:8.0f}  {cpu / yardstick:6.2f}  {rate:8.0f}  {good}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--receive"]:
        receiving(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
    elif sys.argv[1:2] == ["--once"]:
        kind, size, folder = sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
        made = KINDS[kind][0]
        print(
            json.dumps(once(kind, size, folder) if made else program(size, folder, KINDS[kind][2])),
            flush=True,
        )
        os._exit(0)
    else:
        main()
