"""A board that the system's `ssh` reaches, as a machine that programs run on.

In: an address. Out: a `Board`: what is put there is compared by digest with what an earlier connection left, so that
only changed files travel; what programs make beside themselves (engines, timing caches) stays. One connection carries
everything; `agent.py` is its far end. FLOWC_SSH names another `ssh`, with options.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import posixpath
import re
import shlex
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

from ..model.diagnostic import Diagnostic, Errors
from ..model.files import reason
from ..model.json_reader import parse_object
from .host import Done, Identity, last_words

T = TypeVar("T")
Report = Callable[[str], None]

#: Where a board keeps what was put there, in the home of its user.
FOLDER = "~/.cache/flowc-board"
#: Modules of flowc that run there, as far as they are packages or files: with `runtime/` they need nothing else.
THERE = ("machines/__init__.py", "machines/whoami.py", "profiling/__init__.py", "profiling/there", "runtime")
#: No password is asked for, no key is taken unseen, and a silent board is gone after half a minute.
OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=6",
)
#: Seconds in which a board that was lost may come back (it may reboot), and between two attempts.
PATIENCE, PAUSE = 120.0, 2.0
#: What programs make beside themselves and all of them share there: plans are named after what they depend on.
ENGINES, BUILDER = "engines", "build_engines.py"
#: How often a piece of work that was lost begins again.
AGAIN = 3
#: What boards of one kind have in common, in words and as `whoami` calls it.
KIND = {"CPU": "description", "GPU": "device", "Python": "python", "numpy": "numpy", "TensorRT": "tensorrt"}
#: Oldest Python and numpy that programs run with: numpy's first for that Python.
LEAST_PYTHON, LEAST_NUMPY = (3, 8), "1.17.3"


#: What a shell ends with that finds no such command.
NO_COMMAND = 127


class Lost(Exception):
    """The way to the board was cut; the message is what ssh said, `status` what it ended with, if it did."""

    def __init__(self, said: str, status: int | None = None) -> None:
        super().__init__(said)
        self.status = status


@dataclass(frozen=True, slots=True)
class Address:
    """`user@host:port/dir`: whom to ask for, and the folder there."""

    host: str
    port: int | None
    folder: str

    def __str__(self) -> str:
        return self.host + (f":{self.port}" if self.port is not None else "")


def address(text: str) -> Address:
    """Read `[user@]host[:port][/dir]`; an IPv6 address stands in brackets. Raises Errors."""
    found = re.fullmatch(r"((?:[\w.+-]+@)?(?:\[[0-9a-fA-F:.%\w]+\]|[\w.-]+))(?::(\d+))?(/.+)?", text, re.ASCII)
    port = int(found[2]) if found is not None and found[2] else None
    if found is None or found[1].startswith("-") or (port is not None and not 0 < port < 65536):
        message = f"`{text}` is no address of a board"
        raise Errors(
            [Diagnostic("F640", message, None, help="write `user@host`, `user@host:2222` or `user@host/folder`")]
        )
    return Address(found[1].replace("[", "").replace("]", ""), port, found[3] or FOLDER)


class Board:
    """A board behind ssh; a context manager. Methods raise Errors for what is wrong with it, and Lost when it is gone.

    `python` is the interpreter there, `report` is told when the way was lost.
    """

    name = "board"

    def __init__(self, text: str, *, python: str = "python3", report: Report | None = None) -> None:
        self.address = address(text)
        self._python, self._report = python, report
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the board)
        self._base = ""
        self._identity: Identity | None = None
        self._gpu = False
        #: What makes it a board of its kind, in words, and what tells this very machine from all others.
        self.kind: dict[str, str] = {}
        self.boot = ""
        self.made: set[str] = set()
        self.celsius: float | None = None
        self._ours = ""

    def __enter__(self) -> Board:
        try:
            self._connect()
            self._look_around()
        except Lost as lost:
            self.close()
            raise Errors([_unreachable(self.address, lost)]) from lost
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the connection: whatever runs there is stopped, folders are removed."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    # -- the connection ------------------------------------------------------------------------------------------------
    def _connect(self) -> None:
        agent = resources.files(__package__).joinpath("agent.py").read_bytes()
        begin = f"import sys;exec(compile(sys.stdin.buffer.read({len(agent)}),'flowc-agent','exec'))"
        command = shlex.split(os.environ.get("FLOWC_SSH", "ssh"))
        command += [word for option in OPTIONS for word in ("-o", option)]
        command += ["-p", str(self.address.port)] if self.address.port is not None else []
        # The far side gives this to a shell; nothing else does it ever see.
        command += ["-T", self.address.host, "--", f"exec {shlex.quote(self._python)} -c {shlex.quote(begin)}"]
        self._said.seek(0)
        self._said.truncate()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                start_new_session=True,  # Ctrl-C is for us: we end it in order
            )
        except FileNotFoundError as error:
            message = f"there is no `{command[0]}` here"
            help_text = "install it (`apt install openssh-client`), or name another one in FLOWC_SSH"
            raise Errors([Diagnostic("F640", message, None, help=help_text)]) from error
        self._write(agent)
        who = f"{getpass.getuser()} on {socket.gethostname()}, process {os.getpid()}"
        answer, _ = self._ask("begin", folder=self.address.folder, who=who)
        if "foreign" in answer:
            shown = ", ".join(f"`{name}`" for name in answer["foreign"])
            message = f"`{answer['base']}` on `{self.address}` holds other files: {shown}"
            raise Errors([Diagnostic("F604", message, None, help="name an empty folder: `user@host/folder`")])
        if "taken" in answer:
            message = f"`{self.address}` is in use by flowc already ({answer['taken']})"
            help_text = "wait until that has ended: two at once would measure each other"
            raise Errors([Diagnostic("F642", message, None, help=help_text)])
        self._base = answer["base"]
        if tuple(answer["python"]) < LEAST_PYTHON:
            version = ".".join(map(str, answer["python"]))
            message = f"`{self._python}` on `{self.address}` is Python {version}, and programs need 3.8 or later"
            raise Errors([Diagnostic("F641", message, None, help="name another one: `--board-python python3.8`")])

    def _look_around(self) -> None:
        with resources.as_file(resources.files(__package__.rpartition(".")[0])) as root:
            files = {"flowc/__init__.py": b""}
            for part in THERE:
                for file in sorted((root / part).rglob("*") if (root / part).is_dir() else [root / part]):
                    if file.suffix in (".py", ".c"):
                        files[f"flowc/{file.relative_to(root).as_posix()}"] = file.read_bytes()
        self._ours = posixpath.join(self._base, "flowc")
        self._send_files(self._ours, files)
        done = self.module("machines.whoami", [])
        if done.status:
            message = f"Python on `{self.address}` does not start\n{last_words(done.stderr)}"
            raise Errors([Diagnostic("F641", message, None)])
        found = parse_object(done.stdout.encode())
        if not found["numpy"]:
            message = f"`{self._python}` on `{self.address}` has no numpy"
            help_text = "install it there (`pip install numpy`), or name another Python with --board-python"
            raise Errors([Diagnostic("F641", message, None, help=help_text)])
        if _numbers(found["numpy"]) < _numbers(LEAST_NUMPY):
            message = f"numpy of `{self._python}` on `{self.address}` is {found['numpy']}: programs need {LEAST_NUMPY}"
            help_text = "install a newer one there, in a virtual environment say, and name it with --board-python"
            raise Errors([Diagnostic("F641", message, None, help=help_text)])
        self._gpu = found["device"] is not None
        self.kind = {name: str(found[key] or "none") for name, key in KIND.items()}
        self.boot, self.celsius = found["boot"], found["celsius"]
        self._identity = Identity(*(found[name] for name in ("cores", "memory_bytes", "description", "host_hash")))

    def _ask(self, do: str, payload: bytes = b"", **request: Any) -> tuple[dict[str, Any], bytes]:
        """One request and its answer. Raises Lost, and Errors where the board cannot."""
        self._request(do, payload, **request)
        answer, found = self._answer()
        if "fault" in answer:
            message = f"on `{self.address}`: {answer['fault']}" + (f": `{answer['at']}`" if answer.get("at") else "")
            help_text = "free some space there, or name another folder: `user@host/folder`"
            raise Errors([Diagnostic("F605", message, None, help=help_text)])
        return answer, found

    def _request(self, do: str, payload: bytes = b"", **request: Any) -> None:
        header = json.dumps({"do": do, **request}).encode()
        self._write(struct.pack(">IQ", len(header), len(payload)) + header + payload)

    def _write(self, content: bytes) -> None:
        if self._process is None:
            raise Lost("the connection was closed")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(content)
            self._process.stdin.flush()
        except OSError as error:
            raise self._lost() from error

    def _answer(self) -> tuple[dict[str, Any], bytes]:
        header, payload = struct.unpack(">IQ", self._exactly(12))
        return json.loads(self._exactly(header)), self._exactly(payload)

    def _exactly(self, count: int) -> bytes:
        if self._process is None:
            raise Lost("the connection was closed")
        assert self._process.stdout is not None
        found = self._process.stdout.read(count)
        if len(found) < count:
            raise self._lost()
        return found

    def _lost(self) -> Lost:
        """What ssh said when it ended."""
        process = self._process
        if process is None:  # closed by another thread
            return Lost("the connection was closed")
        try:
            status = process.wait(5)
        except subprocess.TimeoutExpired:
            status = None
        self._said.seek(0)
        said = last_words(self._said.read().decode(errors="replace"))
        return Lost(said or f"ssh ended with status {status}", status)

    # -- what a host does ---------------------------------------------------------------------------------------------
    @property
    def identity(self) -> Identity:
        assert self._identity is not None, "a board is entered before it is used"
        return self._identity

    @property
    def python(self) -> list[str]:
        return [self._python]

    def put(self, directory: Path, about: str) -> str:
        """See `Host.put`."""
        where = hashlib.sha256(f"{socket.gethostname()}:{about}".encode()).hexdigest()[:8]
        readable = re.sub(r"[^A-Za-z0-9_.-]", "_", posixpath.basename(about))[-40:]
        tree = posixpath.join(self._base, f"{readable}-{where}")
        files = {}
        for file in sorted(directory.rglob("*")):
            path = file.relative_to(directory)
            made = {"__pycache__", ENGINES}.intersection(path.parts) or file.name.startswith(".flowc-new")
            if file.is_file() and not made and not (file.suffix == ".so" and file.with_suffix(".c").exists()):
                files[path.as_posix()] = file.read_bytes()
        changed = self._send_files(tree, files)
        if any(path.endswith((".c", ".h", ".sh")) for path in changed) and "compile.sh" in files:
            done = self.execute(["sh", "compile.sh"], cwd=tree)
            if done.status:
                self._ask("put", tree=tree, files=[], gone=["compile.sh"])  # so that it is tried again
                message = f"C code does not compile on `{self.address}`\n{last_words(done.stderr)}"
                raise Errors([Diagnostic("F641", message, None, help="install a compiler there: `apt install gcc`")])
        return tree

    def _send_files(self, tree: str, files: Mapping[str, bytes]) -> list[str]:
        """Those that changed."""
        known: dict[str, str] = self._ask("known", tree=tree)[0]["files"]
        digests = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
        changed = [path for path, digest in digests.items() if known.get(path) != digest]
        gone = [path for path in known if path not in files]
        if changed or gone:
            entries = [(path, digests[path], len(files[path]), path.endswith(".sh")) for path in changed]
            content = b"".join(files[path] for path in changed)
            shared = [ENGINES] if BUILDER in files else []
            self._ask("put", content, tree=tree, files=entries, gone=gone, shared=shared)
        return changed

    @contextmanager
    def _folder(self) -> Iterator[str]:
        path = self._ask("folder")[0]["path"]
        yield path
        # After a failure nobody knows which answer comes next; the far end removes it when the connection ends.
        self._ask("remove", path=path)

    def folder(self) -> AbstractContextManager[str]:
        return self._folder()

    @contextmanager
    def writing(self, files: Mapping[str, Path | None]) -> Iterator[dict[str, str]]:
        """See `Host.writing`. Raises Errors for files that cannot be written here."""
        kept = {name: file for name, file in files.items() if file is not None}
        for file in kept.values():
            if not file.parent.is_dir():
                raise Errors([_unwritable(file, "there is no such folder")])
        with self.folder() as folder:
            there = {name: f"{folder}/{k}" for k, name in enumerate(files)}
            yield there
            for name, file in kept.items():
                content = self.read(there[name])
                if content is not None:
                    try:
                        file.write_bytes(content)
                    except OSError as error:
                        raise Errors([_unwritable(file, reason(error))]) from error

    def execute(
        self, words: Sequence[str], *, cwd: str | None = None, environment: Mapping[str, str] | None = None
    ) -> Done:
        said: dict[str, list[bytes]] = {"out": [], "err": []}
        status = self.attend(words, lambda name, piece: said[name].append(piece), cwd=cwd, environment=environment)
        out, err = (b"".join(said[name]).decode(errors="replace") for name in ("out", "err"))
        return Done(status, out, err)

    def attend(
        self,
        words: Sequence[str],
        hear: Callable[[str, bytes], None],
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        started: Callable[[Callable[[int], None]], None] | None = None,
        fed: Callable[[Callable[[bytes], None]], None] | None = None,
    ) -> int:
        """Run a command and `hear` what it says ("out" or "err") as it comes; returns its status.

        `started` gets a function that hands a signal on to it, `fed` one that gives it all that it will read.
        """
        writing = threading.Lock()

        def hand_on(number: int) -> None:
            with writing:
                self._request("signal", number=number)

        def feed(content: bytes) -> None:
            with writing:
                self._request("feed", content)

        self._request("run", words=list(words), cwd=cwd, environment=dict(environment or {}), fed=fed is not None)
        if started is not None:
            started(hand_on)
        if fed is not None:
            fed(feed)
        while True:
            answer, piece = self._answer()
            if "fault" in answer:
                raise Errors([Diagnostic("F605", f"on `{self.address}`: {answer['fault']}", None)])
            if "end" not in answer:
                hear(answer["said"], piece)
                continue
            if "missing" in answer:
                message = f"there is no `{answer['missing']}` on `{self.address}`"
                raise Errors([Diagnostic("F641", message, None, help="install it there")])
            return int(answer["end"])

    def module(self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Done:
        return self.execute([*self.python, "-m", f"flowc.{name}", *arguments], cwd=self._ours, environment=environment)

    def read(self, file: str) -> bytes | None:
        answer, content = self._ask("get", path=file)
        return content if answer["there"] else None

    def has_gpu(self) -> bool:
        return self._gpu

    def steadily(self, work: Callable[[], T]) -> T:
        """See `Host.steadily`: what was lost is not counted. Raises Errors when the board does not come back."""
        for _ in range(AGAIN):
            try:
                return work()
            except Lost as lost:
                self._return(lost)
        message = f"the way to `{self.address}` was lost {AGAIN} times"
        raise Errors([Diagnostic("F643", message, None, help="what was measured so far is kept")])

    def _return(self, lost: Lost) -> None:
        """Wait until the board is there again. Raises Errors."""
        if self._report is not None:
            self._report(f"the way to {self.address} was lost ({lost}): waiting for it")
        end = time.monotonic() + PATIENCE
        while True:
            self.close()
            try:
                self._connect()
                return
            except Lost as again:
                if time.monotonic() > end:
                    raise Errors([lost_way(self.address, str(again))]) from again
            except Errors as faults:  # the other end of what was lost may still hold its lock
                if faults.diagnostics[0].code != "F642" or time.monotonic() > end:
                    raise
            time.sleep(PAUSE)


def _numbers(version: str) -> tuple[int, ...]:
    """What two versions are compared by."""
    return tuple(int(n) for n in re.findall(r"\d+", version)[:3])


def lost_way(where: Address, said: str) -> Diagnostic:
    """The way to a board was lost."""
    help_text = "programs there are stopped, and what was measured so far is kept: start again when the board is back"
    return Diagnostic("F643", f"the way to `{where}` was lost\n{said}", None, help=help_text)


def _unwritable(file: Path, why: str) -> Diagnostic:
    return Diagnostic("F605", f"cannot write `{file}`: {why}", None)


def _unreachable(where: Address, lost: Lost) -> Diagnostic:
    """The first connection failed: what ssh says, and what to do."""
    said = str(lost)
    if lost.status == NO_COMMAND:
        message = f"Python does not start on `{where}`\n{said}"
        return Diagnostic("F641", message, None, help="name it with --board-python, or install it")
    low, advice = said.lower(), f"try `ssh {where.host} true`"
    if where.port is not None:
        advice = f"try `ssh -p {where.port} {where.host} true`"
    if "host key verification failed" in low or "no matching host key" in low:
        advice = "flowc accepts no key by itself: connect once with `ssh`, and compare the key with that of the board"
    elif "permission denied" in low:
        advice = "flowc asks for no password: put a key there with `ssh-copy-id`, or load it with `ssh-add`"
    return Diagnostic("F640", f"`{where}` cannot be reached\n{said}", None, help=advice)
