"""Running a program on several machines: copy its parts there, start them together, join their
reports.

In: a build with parts, and the file with the addresses of the machines. Out: the same as a run of
one program. Parts learn the addresses and keys of each other only over the connections that start
them. `runtime/transport.py` defines how parts end each other; this module enforces it.
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
from ...runtime.transport import LISTENS, VARIABLE
from ..build.build import Built
from ..text.check import Report
from .joining import joined
from .live_output import Command, Hear, Wires, follow, signals_for, there

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
            threads = []
            for part in self._parts:
                machine = part.site.machine
                arguments = (part, words[machine], hear.of(machine))
                threads.append(threading.Thread(target=self._attend, args=arguments))
            for thread in threads:
                thread.start()
            self._see_to_the_end()
            for thread in threads:
                thread.join()  # no limit: its part has ended
        lost = [p for p in self._parts if p.lost]
        if lost:
            site, reason = lost[0].site, lost[0].lost
            message = f"the connection to `{site.machine}` ({site.board}) was lost\n{reason}"
            help_text = "all parts have been stopped: start again when it is back"
            raise Errors([Diagnostic("F643", message, None, help=help_text)])
        ends = [p.status for p in self._parts if p.status]
        return 1 if 1 in ends else next(iter(ends), 0)

    def files(self, name: str) -> dict[str, bytes]:
        """A file that each part has written in its folder, if it exists."""
        contents = {p.site.machine: p.host.read(f"{p.folder}/{name}") for p in self._parts}
        return {machine: content for machine, content in contents.items() if content is not None}

    def file(self, machine: str, name: str) -> str:
        """The path where a part writes a file of that name."""
        return next(f"{p.folder}/{name}" for p in self._parts if p.site.machine == machine)

    @contextmanager
    def writing(self, files: Mapping[str, Path]) -> Iterator[dict[str, str]]:
        """Paths where the parts write, by machine; afterwards their files are copied here."""
        with ExitStack() as stack:
            there = {}
            for part in self._parts:
                own = part.host.writing({"file": files[part.site.machine]})
                there[part.site.machine] = stack.enter_context(own)["file"]
            yield there

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines that each run a part."""
        return tuple(p.site.machine for p in self._parts)

    def deployments(self) -> dict[str, Any]:
        """What each part is, by machine."""
        folders = {m: self.built.directory / folder_of(m) for m in self.machines}
        return {m: json.loads((f / "deployment.json").read_bytes()) for m, f in folders.items()}

    def _attend(self, part: _Part, words: Sequence[str], hear: Hear) -> None:
        def started(send: Callable[[int], None]) -> None:
            part.send = send

        def fed(feed: Callable[[bytes], None]) -> None:
            part.feed = feed
            self._tell_where()

        def heard(name: str, piece: bytes) -> None:
            listening = _PORT.search(piece) if part.port is None and name == "err" else None
            if listening is not None:
                piece = piece.replace(listening[0], b"", 1)
                part.port = int(listening[1])
                self._tell_where()
            if piece:
                hear(name, piece)

        status = 1
        try:
            command = Command([*part.python, *words], part.tree, part.environment)
            status = follow(part.host, command, Wires(started, heard, fed=fed))
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
            feeds = self._unused_feeds()
        document: dict[str, Any] = {"peers": self._addresses()}
        if gone is not None:
            document = {"gone": f"part {gone} has ended before it began"}
        for feed in feeds:
            with suppress(OSError, Lost):  # it has just ended
                feed(json.dumps(document).encode() + b"\n")

    def _unused_feeds(self) -> list[Callable[[bytes], None]]:
        """The inputs of running parts that have got nothing yet; each is used once."""
        feeds = []
        for part in self._parts:
            if part.feed is not None and part.status is None:
                feeds.append(part.feed)
                part.feed = None
        return feeds

    def _addresses(self) -> dict[str, dict[str, str]]:
        """The addresses of the parts that listen, by machine."""
        addresses = {}
        for part in self._parts:
            if part.port is not None:
                address = _place(part.site.address, part.port)
                addresses[part.site.machine] = {"address": address}
        return addresses

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

        signals = iter((signal.SIGTERM, signal.SIGTERM, signal.SIGKILL))
        waiting = Waiting(self._report or (lambda _: None))
        with self._ended:
            while running := self._running():
                failed = any(p.status for p in self._parts)
                unheard = [p.site.machine for p in running if p.port is None]
                limit = TELL if unheard else None
                if failed:
                    limit = GRACE
                if not self._ended.wait(limit) and failed:
                    self._end(signals)
                elif unheard:
                    waiting.tell(f"part {' and part '.join(unheard)} to listen")

    def _running(self) -> list[_Part]:
        return [part for part in self._parts if part.status is None]

    def _end(self, signals: Iterator[int]) -> None:
        """Send all parts one signal after the other, with time in between to end."""
        for number in signals:
            self._hand_on(number)
            self._ended.wait_for(lambda: not self._running(), AGAIN)


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
                prefix = f"[{machine}] ".encode()
                piece = b"".join(prefix + line for line in piece.splitlines(keepends=True))
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
    with ExitStack() as stack:
        parts = []
        for site in sites:
            directory = built.directory / folder_of(site.machine)
            if directory.exists():  # else nothing runs there
                own = replace(built, directory=directory)
                parts.append(_part(stack, own, site, report))
        _ask(parts)
        _introduce(parts)
        yield Rig(built, parts, report)


def _part(stack: ExitStack, built: Built, site: Site, report: Report | None) -> _Part:
    """A part on its machine. Raises Errors."""
    host: Host = HERE
    if site.board is not None:
        words = site.python or ("python3",)
        host = stack.enter_context(Board(site.board, python=words[0], report=report))
    python = list(site.python) or host.python
    tree = there(built, host, report)
    if host is HERE:
        tree = str(Path(tree).resolve())
    return _Part(site, host, python, tree, stack.enter_context(host.folder()))


def _introduce(parts: Sequence[_Part]) -> None:
    """Give each part its keys, the public keys of the others, and a token that all know."""
    import zmq

    public, secret = {}, {}
    for part in parts:
        keys = zmq.curve_keypair()
        public[part.site.machine], secret[part.site.machine] = (key.decode() for key in keys)
    token = secrets.token_hex(32)
    for part in parts:
        site = part.site
        peers = {}
        for other in parts:
            machine = other.site.machine
            if other is not part:
                peers[machine] = {"public": public[machine]} if other.site.encrypted else {}
        document = {
            "listen": _place(site.address, site.port or "*"),
            "token": token,
            "public": public[site.machine],
            "secret": secret[site.machine],
            "encrypted": site.encrypted,
            "peers": peers,
            "fed": True,
        }
        part.environment[VARIABLE] = json.dumps(document)


def _place(address: str, port: int | str) -> str:
    return f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}"


def _ask(parts: Sequence[_Part]) -> None:
    """Check that all machines have what their parts need. Raises Errors that list all that is
    missing."""
    faults: list[Diagnostic] = []
    for part in parts:
        others = [p.site.address for p in parts if p is not part]
        faults += _missing(part, others)
    if faults:
        raise Errors(faults)


def _missing(part: _Part, others: Sequence[str]) -> Iterator[Diagnostic]:
    """What a machine lacks for its part; `others` are the addresses of the other parts."""
    machine, port = part.site.machine, part.site.port
    done = part.host.execute(
        [*part.python, "-c", _ASK, part.site.address, str(port or 0), *others], cwd=part.tree
    )
    if done.status:
        message = f"Python does not start on `{machine}`\n{last_words(done.stderr)}"
        help_text = "name it in the file of machines: `python = ...`"
        yield Diagnostic("F651", message, None, help=help_text)
        return
    try:
        answer = printed_as(_Asked, done.stdout)
    except ValueError as error:
        message = f"Python on `{machine}` gave an invalid answer: {error}"
        help_text = "name another one in the file of machines"
        yield Diagnostic("F657", message, None, help=help_text)
        return
    if not answer.zmq:
        message = f"`{machine}` has no pyzmq with CURVE, which its part needs to reach the others"
        yield Diagnostic("F651", message, None, help="install it there: `pip install pyzmq`")
    if answer.taken:
        message = f"`{machine}` cannot listen at port {port}: {answer.taken}"
        help_text = "name another one in the file of machines, or none to use a free one"
        yield Diagnostic("F653", message, None, help=help_text)
    for name, why in answer.unknown:
        message = f"`{machine}` cannot resolve `{name}`: {why}"
        help_text = (
            "give that machine an `address` in the file of machines that the others can reach"
        )
        yield Diagnostic("F654", message, None, help=help_text)


def run_parts(
    rig: Rig,
    words: Sequence[str],
    settings: Sequence[str],
    own_words: Mapping[str, Sequence[str]],
    *,
    silent: bool,
) -> Joined:
    """Run the program to its end, each part with words of its own as well; returns its status and
    the joined report. Raises Errors."""
    name = "report.json"
    own = settings_of(rig, settings)
    start = {}
    for machine in rig.machines:
        start[machine] = ["main.py", *words, *own_words[machine]]
        for setting in own[machine]:
            start[machine] += ["--set", setting]
        start[machine] += ["--quiet", "--report", rig.file(machine, name)]
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
    machine_of: dict[str, str] = {}
    for machine, deployment in rig.deployments().items():
        for app in deployment["apps"]:
            machine_of |= {task["name"]: machine for task in app["tasks"]}
    by_machine: dict[str, list[str]] = {machine: [] for machine in rig.machines}
    for setting in settings:
        task = setting.partition("=")[0].rpartition(".")[0]
        by_machine[machine_of.get(task, rig.machines[0])].append(setting)
    return by_machine


def record_parts(rig: Rig, frames: int, folder: Path, *, silent: bool) -> int:
    """Run every part for so many frames, and copy all inputs and outputs of its firings into a
    folder here."""
    name = "recorded.npz"
    words = {m: ["-m", "runtime.recording", rig.file(m, name), str(frames)] for m in rig.machines}
    status = rig.run(words, silent=silent)
    for machine, content in rig.files(name).items():
        (folder / f"{machine}.npz").write_bytes(content)
    return status
