"""Running a program on several machines: copy its parts there, start them together, join their
reports.

In: a build with parts, and the file with the addresses of the machines. Out: the same as a run of
one program. Parts learn the addresses and keys of each other only over the connections that start
them. `runtime/wire.py` defines how parts end each other; this module enforces it.
"""

from __future__ import annotations

import json
import re
import secrets
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...codegen.emit import folder_of
from ...machines.answers import printed_as
from ...machines.board import Board, Lost
from ...machines.host import HERE, Host, last_words
from ...machines.rig import Site, read_sites
from ...model.diagnostic import Diagnostic, Errors
from ...model.extras import require
from ...model.platform import Platform
from ...report.written import written
from ...runtime.peer import TELL, Waiting
from ...runtime.wire import LISTENS, VARIABLE
from ..build.build import Built
from ..text.check import Report
from .attending import Hear, follow, signals_for, there
from .joining import joined

#: A script that runs on each machine before any part starts. It checks: is the port free that its
#: part is to listen on, if one is given (else 0) and the address is its own; are the addresses of
#: the others known; and does the machine have what parts need?
_ASK = """
import errno, json, socket, sys
found = {"zmq": False, "taken": "", "unknown": []}
own, number = sys.argv[1], int(sys.argv[2])
try:
    known = socket.getaddrinfo(own, number, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
except socket.gaierror:
    known = [(socket.AF_INET, 0, 0, "", ("", number))]
port = socket.socket(known[0][0], socket.SOCK_STREAM)
port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    port.bind(known[0][4])
except OSError as error:
    if error.errno != errno.EADDRNOTAVAIL:
        found["taken"] = error.strerror
port.close()
for name in sys.argv[3:]:
    try:
        socket.getaddrinfo(name, None)
    except OSError as error:
        found["unknown"].append([name, error.strerror])
try:
    import zmq
    found["zmq"] = bool(zmq.has("curve"))
except ImportError:
    pass
print(); print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Its answer: an empty `taken` is a free port, `unknown` are addresses with the reasons."""

    zmq: bool
    taken: str
    unknown: tuple[tuple[str, str], ...]


#: How a part reports the port where it listens.
_PORT = re.compile(b"^" + LISTENS.encode() + rb"(\d{1,5})\n", re.MULTILINE)
#: Seconds for the other parts to end by themselves after one has failed, and between the signals
#: that end them.
GRACE, AGAIN = 4.0, 1.0
#: A joined run: its status, and one report for all parts.
Joined = tuple[int, dict[str, Any]]


@dataclass(slots=True)
class _Part:
    """A running part: `send` forwards a signal, `feed` its input; it listens at `port`, and ended
    with `status`."""

    site: Site
    host: Host
    python: list[str]
    tree: str
    folder: str
    environment: dict[str, str] = field(default_factory=dict)
    send: Callable[[int], None] | None = None
    feed: Callable[[bytes], None] | None = None
    port: int | None = None
    status: int | None = None
    lost: str = ""


class Rig:
    """The parts of a build on their machines, ready to start; made by `placed`."""

    def __init__(self, built: Built, parts: list[_Part], report: Report | None = None) -> None:
        self.built, self._parts, self._report = built, parts, report
        self._ended = threading.Condition()

    def run(self, words: Mapping[str, Sequence[str]], *, silent: bool) -> int:
        """Start all parts, each with its arguments, and wait for them to end; 1 if one has failed.

        If `silent`, standard output is not used: what parts print goes to standard error.
        """
        with signals_for(self._hand_on):
            hear = _Said(silent)
            threads = [
                threading.Thread(
                    target=self._attend, args=(p, words[p.site.machine], hear.of(p.site.machine))
                )
                for p in self._parts
            ]
            for thread in threads:
                thread.start()
            self._see_to_the_end()
            for thread in threads:
                thread.join()  # no limit: its part has ended
        lost = [p for p in self._parts if p.lost]
        if lost:
            message = (
                f"the connection to `{lost[0].site.machine}` ({lost[0].site.board}) was"
                f" lost\n{lost[0].lost}"
            )
            help_text = "all parts have been stopped: start again when it is back"
            raise Errors([Diagnostic("F643", message, None, help=help_text)])
        ends = [p.status for p in self._parts if p.status]
        return 1 if 1 in ends else next(iter(ends), 0)

    def files(self, name: str) -> dict[str, bytes]:
        """A file that each part has written in its folder, if it exists."""
        found = {p.site.machine: p.host.read(f"{p.folder}/{name}") for p in self._parts}
        return {machine: content for machine, content in found.items() if content is not None}

    def file(self, machine: str, name: str) -> str:
        """The path where a part writes a file of that name."""
        return next(f"{p.folder}/{name}" for p in self._parts if p.site.machine == machine)

    @property
    def machines(self) -> tuple[str, ...]:
        """Threads that each run a part."""
        return tuple(p.site.machine for p in self._parts)

    def _attend(self, part: _Part, words: Sequence[str], hear: Hear) -> None:
        def started(send: Callable[[int], None]) -> None:
            part.send = send

        def fed(feed: Callable[[bytes], None]) -> None:
            part.feed = feed
            self._tell_where()

        def heard(name: str, piece: bytes) -> None:
            found = _PORT.search(piece) if part.port is None and name == "err" else None
            if found is not None:
                piece = piece.replace(found[0], b"", 1)
                part.port = int(found[1])
                self._tell_where()
            if piece:
                hear(name, piece)

        status = 1
        try:
            status = follow(
                part.host,
                [*part.python, *words],
                silent=False,
                cwd=part.tree,
                environment=part.environment,
                hear=heard,
                started=started,
                fed=fed,
            )
        except Lost as lost:
            part.lost = str(lost)
        except Errors as errors:
            part.lost = str(errors)
        finally:
            with self._ended:
                part.status = status
                self._ended.notify_all()
            self._tell_where()

    def _tell_where(self) -> None:
        """When all parts listen, send each the addresses of all; if one has ended before, send
        that."""
        with self._ended:
            gone = next((p.site.machine for p in self._parts if p.status is not None), None)
            if gone is None and any(p.port is None for p in self._parts):
                return
            waiting = [p for p in self._parts if p.feed is not None and p.status is None]
            feeds = [p.feed for p in waiting]
            for part in waiting:
                part.feed = None
        where = {
            p.site.machine: {"address": _place(p.site.address, p.port)}
            for p in self._parts
            if p.port is not None
        }
        document = (
            {"peers": where} if gone is None else {"gone": f"part {gone} has ended before it began"}
        )
        for feed in feeds:
            assert feed is not None
            with suppress(OSError, Lost):  # it has just ended
                feed(json.dumps(document).encode() + b"\n")

    def _hand_on(self, number: int) -> None:
        for part in self._parts:
            if part.send is not None and part.status is None:
                try:
                    part.send(number)
                except (OSError, Lost):  # it has just ended
                    continue

    def _see_to_the_end(self) -> None:
        """Wait for all parts; kill those that do not end by themselves after one has failed."""
        import signal

        ways, waiting = (
            iter((signal.SIGTERM, signal.SIGTERM, signal.SIGKILL)),
            Waiting(self._report or (lambda _: None)),
        )
        with self._ended:
            while True:
                running = [p for p in self._parts if p.status is None]
                if not running:
                    return
                failed = any(p.status for p in self._parts)
                unheard = [p.site.machine for p in running if p.port is None]
                if self._ended.wait(GRACE if failed else TELL if unheard else None) or not failed:
                    if unheard:
                        waiting.tell(f"part {' and part '.join(unheard)} to listen")
                    continue
                for number in ways:
                    self._hand_on(number)
                    self._ended.wait_for(
                        lambda: all(p.status is not None for p in self._parts), AGAIN
                    )


class _Said:
    """Forward the output of parts: results unchanged, messages prefixed with the name of the
    machine."""

    def __init__(self, silent: bool) -> None:
        self._out = sys.stderr if silent else sys.stdout
        self._lock = threading.Lock()

    def of(self, machine: str) -> Hear:
        """A listener for one part."""

        def hear(name: str, piece: bytes) -> None:
            if name == "err":
                piece = b"".join(
                    f"[{machine}] ".encode() + line for line in piece.splitlines(keepends=True)
                )
            stream = self._out if name == "out" else sys.stderr
            with self._lock:
                stream.buffer.write(piece)
                stream.buffer.flush()

        return hear


def sites_for(path: Path, platform: Platform, others: Iterable[Platform]) -> tuple[Site, ...]:
    """The addresses of a platform's machines; `others` are platforms to suggest instead. Raises
    Errors."""
    if not platform.machines:
        message = (
            f"`--machines` is for platforms of several machines, but `{platform.name}` is a single"
            " machine"
        )
        help_text = (
            "declare them: `platform rig { machine front { cpu core[2] } ... link front back 110"
            " MB/s 0.3 ms }`"
        )
        meant = [p.name for p in others if p.machines]
        if meant:
            help_text = f"choose one of the text: `--platform {meant[0]}`"
        raise Errors([Diagnostic("F652", message, platform.span, help=help_text)])
    require("zmq", "machines", "a program on several machines")
    return read_sites(path, platform.machines)


@contextmanager
def placed(built: Built, sites: Sequence[Site], report: Report | None = None) -> Iterator[Rig]:
    """The parts of a build on their machines. Raises Errors."""
    import zmq

    with ExitStack() as stack:
        parts = []
        for site in sites:
            directory = built.directory / folder_of(site.machine)
            if not directory.exists():  # nothing runs there
                continue
            host: Host = HERE
            if site.board is not None:
                words = site.python or ("python3",)
                host = stack.enter_context(Board(site.board, python=words[0], report=report))
            python = list(site.python) or host.python
            tree = there(replace(built, directory=directory), host, report)
            tree = str(Path(tree).resolve()) if host is HERE else tree
            parts.append(_Part(site, host, python, tree, stack.enter_context(host.folder())))
        _ask(parts)
        keys = {p.site.machine: [k.decode() for k in zmq.curve_keypair()] for p in parts}
        known = {
            p.site.machine: {"public": keys[p.site.machine][0]} if p.site.encrypted else {}
            for p in parts
        }
        token = secrets.token_hex(32)
        for part in parts:
            own = part.site.machine
            document = {
                "listen": _place(part.site.address, part.site.port or "*"),
                "token": token,
                "public": keys[own][0],
                "secret": keys[own][1],
                "encrypted": part.site.encrypted,
                "peers": {m: k for m, k in known.items() if m != own},
                "fed": True,
            }
            part.environment[VARIABLE] = json.dumps(document)
        yield Rig(built, parts, report)


def _place(address: str, port: int | str) -> str:
    return f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}"


def _ask(parts: Sequence[_Part]) -> None:
    """Check that all machines have what their parts need. Raises Errors that list all that is
    missing."""
    faults = []
    for part in parts:
        others = [p.site.address for p in parts if p is not part]
        done = part.host.execute(
            [*part.python, "-c", _ASK, part.site.address, str(part.site.port or 0), *others],
            cwd=part.tree,
        )
        if done.status:
            message = f"Python does not start on `{part.site.machine}`\n{last_words(done.stderr)}"
            faults.append(
                Diagnostic(
                    "F651", message, None, help="name it in the file of machines: `python = ...`"
                )
            )
            continue
        try:
            answer = printed_as(_Asked, done.stdout)
        except ValueError as error:
            message = f"Python on `{part.site.machine}` gave an invalid answer: {error}"
            faults.append(
                Diagnostic("F657", message, None, help="name another one in the file of machines")
            )
            continue
        if not answer.zmq:
            message = (
                f"`{part.site.machine}` has no pyzmq with CURVE, which its part needs to reach the"
                " others"
            )
            faults.append(
                Diagnostic("F651", message, None, help="install it there: `pip install pyzmq`")
            )
        if answer.taken:
            message = (
                f"`{part.site.machine}` cannot listen at port {part.site.port}: {answer.taken}"
            )
            help_text = "name another one in the file of machines, or none to use a free one"
            faults.append(Diagnostic("F653", message, None, help=help_text))
        for name, why in answer.unknown:
            message = f"`{part.site.machine}` cannot resolve `{name}`: {why}"
            help_text = (
                "give that machine an `address` in the file of machines that the others can reach"
            )
            faults.append(Diagnostic("F654", message, None, help=help_text))
    if faults:
        raise Errors(faults)


def run_parts(rig: Rig, words: Sequence[str], settings: Sequence[str], *, silent: bool) -> Joined:
    """Run the program to its end; returns its status and the joined report. Raises Errors."""
    name = "report.json"
    own = settings_of(rig, settings)
    start = {
        m: [
            "main.py",
            *words,
            *(w for s in own[m] for w in ("--set", s)),
            "--quiet",
            "--report",
            rig.file(m, name),
        ]
        for m in rig.machines
    }
    status = rig.run(start, silent=silent)
    reports = {}
    for machine, content in rig.files(name).items():
        try:
            reports[machine] = written(content)[1]
        except ValueError as error:
            if not status:  # otherwise it was killed while writing
                message = f"the report of `{machine}` cannot be read: {error}"
                help_text = (
                    "the machine may have no space left, or another program writes its files"
                )
                raise Errors([Diagnostic("F657", message, None, help=help_text)]) from error
    return status, joined(reports, status, rig.built.digest)


def settings_of(rig: Rig, settings: Sequence[str]) -> dict[str, list[str]]:
    """Values of parameters, by part; a value whose task is in no part goes to the first, which
    reports it."""
    tasks: dict[str, str] = {}
    for machine in rig.machines:
        deployment = json.loads(
            (rig.built.directory / folder_of(machine) / "deployment.json").read_bytes()
        )
        tasks |= {t["name"]: machine for a in deployment["apps"] for t in a["tasks"]}
    found: dict[str, list[str]] = {m: [] for m in rig.machines}
    for text in settings:
        found[tasks.get(text.partition("=")[0].rpartition(".")[0], rig.machines[0])].append(text)
    return found


def record_parts(rig: Rig, frames: int, folder: Path, *, silent: bool) -> int:
    """Run every part for so many frames, and copy all inputs and outputs of its firings into a
    folder here."""
    name = "recorded.npz"
    words = {m: ["-m", "runtime.recording", rig.file(m, name), str(frames)] for m in rig.machines}
    status = rig.run(words, silent=silent)
    for machine, content in rig.files(name).items():
        (folder / f"{machine}.npz").write_bytes(content)
    return status
