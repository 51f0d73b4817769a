"""A board that the system's `ssh` reaches, as a machine that programs run on.

In: an address. Out: a `Board`: files are compared by digest with those of an earlier connection, so
that only changed ones are sent; files that programs create (engines, timing caches) stay. One
connection carries everything; `agent.py` is its far end. Its answers are untrusted: they are
limited in size and in time (`frames.py`) and checked for their type (`answers.py`). FLOWC_SSH names
another `ssh`, with options.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import math
import os
import posixpath
import re
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from ..model.diagnostic import Diagnostic, Errors
from ..model.files import reason
from ..model.json_reader import read
from .agent import LENGTHS, MAGIC
from .answers import (
    Alive,
    Begun,
    Fault,
    FolderAnswer,
    KnownFiles,
    Nothing,
    Piece,
    Said,
    machine,
    of_command,
)
from .frames import Frames, Silent
from .host import Done, Identity, last_words

T = TypeVar("T")
Report = Callable[[str], None]

#: The folder for flowc's files on a board, in the home of its user.
FOLDER = "~/.cache/flowc-board"
#: Modules of flowc that run there, packages or files: with `runtime/` they need nothing else.
THERE = (
    "machines/__init__.py",
    "machines/children.py",
    "machines/whoami.py",
    "profiling/__init__.py",
    "profiling/there",
    "runtime",
)
#: No password is asked for, no unknown key is accepted, and a silent board is given up after half a
#: minute.
OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=6",
)
#: Seconds in which a lost board may come back (it may reboot), and between two attempts.
PATIENCE, PAUSE = 120.0, 2.0
#: Scripts of a build that compile it on the machine it is on: what Python calls, and a program in
#: C++. They run where one of these files has changed.
COMPILE, BUILD = "compile.sh", "build.sh"
COMPILED = (".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".sh")
#: How they are called, with the package of their compiler. Candidates of a search differ in
#: main.cpp alone: the other objects are there.
MAIN = "main.cpp"
_EVERYTHING = ((COMPILE, f"sh {COMPILE}", "gcc"), (BUILD, f"sh {BUILD}", "g++"))
_ONLY_MAIN = ((BUILD, f"rm -f main.o && FLOWC_KEEP=1 sh {BUILD}", "g++"),)
#: Where a program in C++ has the library of ONNX Runtime, and those of OpenVINO.
ONNXRUNTIME, OPENVINO = "lib/libonnxruntime.so.1", "lib/openvino"
#: Gives it those that the Python there has.
_LINK = f"""
import glob, importlib.util, os
for package, pattern, place in (
    ("onnxruntime", "capi/libonnxruntime.so.*", "{ONNXRUNTIME}"),
    ("openvino", "libs", "{OPENVINO}"),
):
    found = importlib.util.find_spec(package)
    for folder in found.submodule_search_locations if found else ():
        for file in sorted(glob.glob(os.path.join(folder, pattern)))[:1]:
            os.makedirs("lib", exist_ok=True)
            if os.path.lexists(place):
                os.unlink(place)
            os.symlink(file, place)
"""
#: Files that programs create and all of them share there: plans are named after what they depend
#: on.
ENGINES, BUILDER = "engines", "build_engines.py"
#: Most restarts of a lost piece of work.
AGAIN = 3
#: Seconds for Python to start there, for an answer, without any keep-alive while a command runs,
#: and for an orderly end.
BEGIN, ANSWER, SILENCE, LEAVE = 60.0, 120.0, 30.0, 15.0
#: Bytes per second of the slowest supported connection.
SLOWEST = 10_000
#: Most bytes that are kept of each output of a command, of all its output, and of a file from
#: there.
MOST_KEPT, MOST_SAID, MOST_FILE = 1 << 26, 1 << 30, 1 << 30
#: Most bytes of a file that is copied from there into a file here.
MOST_WRITTEN = 1 << 36
#: Properties that boards of one kind share, in words and by their names in `whoami`.
KIND = {
    "CPU": "description",
    "GPU": "device",
    "Python": "python",
    "numpy": "numpy",
    "TensorRT": "tensorrt",
}
#: Oldest Python and numpy for programs: the first numpy for that Python.
LEAST_PYTHON, LEAST_NUMPY = (3, 8), "1.17.3"


#: Exit status of a shell that does not find a command.
NO_COMMAND = 127


class Lost(Exception):
    """The connection to the board was lost; the message is ssh's, `status` its exit status, if it
    ended."""

    def __init__(self, said: str, status: int | None = None) -> None:
        super().__init__(said)
        self.status = status


@dataclass(frozen=True, slots=True)
class Address:
    """`user@host:port/dir`: the user and host for ssh, and the folder there."""

    host: str
    port: int | None
    folder: str

    def __str__(self) -> str:
        return self.host + (f":{self.port}" if self.port is not None else "")


def address(text: str) -> Address:
    """Read `[user@]host[:port][/dir]`; an IPv6 address stands in brackets. Raises Errors."""
    found = re.fullmatch(
        r"((?:[\w.+-]+@)?(?:\[[0-9a-fA-F:.%\w]+\]|[\w.-]+))(?::(\d+))?(/.+)?", text, re.ASCII
    )
    port = int(found[2]) if found is not None and found[2] else None
    if found is None or found[1].startswith("-") or (port is not None and not 0 < port < 65536):
        message = f"`{text}` is not an address of a board"
        raise Errors(
            [
                Diagnostic(
                    "F640",
                    message,
                    None,
                    help="write `user@host`, `user@host:2222` or `user@host/folder`",
                )
            ]
        )
    return Address(found[1].replace("[", "").replace("]", ""), port, found[3] or FOLDER)


def _is_made(directory: Path, path: Path) -> bool:
    """Is it made on the machine that a directory is on: by Python, by compilers, by flowc?"""
    if {"__pycache__", ENGINES}.intersection(path.parts) or path.name.startswith(".flowc-new"):
        return True
    if path.suffix == ".so" and (directory / path).with_suffix(".c").exists():
        return True
    native = (directory / BUILD).exists()
    if native and len(path.parts) == 1 and (path.suffix == ".so" or path.name == "main"):
        return True
    of_engine = path.as_posix() == ONNXRUNTIME or path.as_posix().startswith(f"{OPENVINO}/")
    return native and (path.suffix == ".o" or of_engine)


class Board:
    """A board behind ssh; a context manager. Methods raise Errors for faults of the board, and Lost
    if the connection is lost.

    `python` is the interpreter there, `report` is called when the connection was lost.
    """

    name = "board"

    def __init__(self, text: str, *, python: str = "python3", report: Report | None = None) -> None:
        self.address = address(text)
        self._python, self._report = python, report
        self._process: subprocess.Popen[bytes] | None = None
        self._frames: Frames | None = None
        self._base = ""
        self._identity: Identity | None = None
        self._gpu = False
        #: Properties that identify its kind, in words, and the identity of this very machine.
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection: programs there are stopped, folders are removed."""
        process, frames = self._process, self._frames
        self._process = self._frames = None
        if process is None or frames is None:
            return
        assert (
            process.stdin is not None and process.stdout is not None and process.stderr is not None
        )
        end = time.monotonic() + LEAVE
        with suppress(OSError):
            process.stdin.close()
        frames.drain(LEAVE)
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            _kill(process)
            process.wait()  # no limit: it was killed
        process.stdout.close()
        process.stderr.close()

    # -- the connection ----------------------------------------------------------------------------
    def _connect(self) -> None:
        agent = resources.files(__package__).joinpath("agent.py").read_bytes()
        command = self._ssh(
            f"import sys;exec(compile(sys.stdin.buffer.read({len(agent)}),'flowc-agent','exec'))"
        )
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for flowc, which ends ssh in order
            )
        except FileNotFoundError as error:
            message = f"there is no `{command[0]}` here"
            help_text = (
                "install it (`apt install openssh-client`), or name another one in FLOWC_SSH"
            )
            raise Errors([Diagnostic("F640", message, None, help=help_text)]) from error
        assert (
            process.stdin is not None and process.stdout is not None and process.stderr is not None
        )
        self._process, self._frames = process, Frames(process.stdout, process.stdin, process.stderr)
        with self._reached() as frames:
            frames.send(agent, BEGIN)
            self._tell_before(frames.begin(MAGIC, BEGIN))
        who = f"{_user()} on {socket.gethostname()}, process {os.getpid()}"
        begun = self._ask(Begun, "begin", folder=self.address.folder, who=who, alive=SILENCE / 6)
        self._check_begun(begun)
        self._base = begun.base

    def _ssh(self, program: str) -> list[str]:
        """The command that runs a program of Python on the board."""
        command = shlex.split(os.environ.get("FLOWC_SSH", "ssh"))
        for option in OPTIONS:
            command += ["-o", option]
        if self.address.port is not None:
            command += ["-p", str(self.address.port)]
        # The far side gives only this to a shell.
        line = f"exec {shlex.quote(self._python)} -c {shlex.quote(program)}"
        return [*command, "-T", self.address.host, "--", line]

    def _check_begun(self, begun: Begun) -> None:
        """Nothing else uses the folder, and programs can run there. Raises Errors."""
        if begun.foreign:
            shown = ", ".join(f"`{name}`" for name in begun.foreign)
            message = f"`{begun.base}` on `{self.address}` holds other files: {shown}"
            raise Errors(
                [Diagnostic("F604", message, None, help="name an empty folder: `user@host/folder`")]
            )
        if begun.taken is not None:
            message = f"`{self.address}` is in use by flowc already ({begun.taken})"
            help_text = (
                "wait until that has ended: two at once would disturb each other's measurements"
            )
            raise Errors([Diagnostic("F642", message, None, help=help_text)])
        if begun.python < LEAST_PYTHON:
            version = ".".join(map(str, begun.python))
            message = (
                f"`{self._python}` on `{self.address}` is Python {version}, but programs need 3.8"
                " or later"
            )
            raise Errors(
                [
                    Diagnostic(
                        "F641", message, None, help="name another one: `--board-python python3.8`"
                    )
                ]
            )

    def _look_around(self) -> None:
        with resources.as_file(resources.files(__package__.rpartition(".")[0])) as root:
            files = {"flowc/__init__.py": b""}
            for part in THERE:
                for file in sorted(
                    (root / part).rglob("*") if (root / part).is_dir() else [root / part]
                ):
                    if file.suffix in (".py", ".c"):
                        files[f"flowc/{file.relative_to(root).as_posix()}"] = file.read_bytes()
        self._ours = posixpath.join(self._base, "flowc")
        self._send_files(self._ours, files)
        done = self.execute(
            [*self.python, "-m", "flowc.machines.whoami"], cwd=self._ours, seconds=ANSWER
        )
        if done.status:
            message = f"Python on `{self.address}` does not start\n{last_words(done.stderr)}"
            raise Errors([Diagnostic("F641", message, None)])
        try:
            facts = machine(done.stdout)
        except ValueError as error:
            self._refuse(error)
        if not facts.numpy:
            message = f"`{self._python}` on `{self.address}` has no numpy"
            help_text = (
                "install it there (`pip install numpy`), or name another Python with --board-python"
            )
            raise Errors([Diagnostic("F641", message, None, help=help_text)])
        if _numbers(facts.numpy) < _numbers(LEAST_NUMPY):
            message = (
                f"numpy of `{self._python}` on `{self.address}` is {facts.numpy}: programs need"
                f" {LEAST_NUMPY}"
            )
            help_text = (
                "install a newer one there, for example in a virtual environment, and name it with"
                " --board-python"
            )
            raise Errors([Diagnostic("F641", message, None, help=help_text)])
        self._gpu = facts.device is not None
        self.kind = {name: str(getattr(facts, key) or "none") for name, key in KIND.items()}
        self.boot, self.celsius = facts.boot, facts.celsius
        self._identity = Identity(
            facts.cores, facts.memory_bytes, _plain(facts.description), facts.host_hash
        )

    def _tell_before(self, before: bytes) -> None:
        """Report what the shell there has printed before Python started."""
        said = _plain(last_words(before.decode(errors="replace")))
        if said and self._report is not None:
            self._report(f"before Python starts, {self.address} prints\n{said}")

    def _ask(self, kind: type[T], do: str, payload: bytes = b"", **request: Any) -> T:
        """One request and its answer. Raises Lost, and Errors if the request fails."""
        self._request(do, payload, **request)
        return self._answer(kind, _seconds(len(payload)))[0]

    def _request(self, do: str, payload: bytes = b"", **request: Any) -> None:
        header = json.dumps({"do": do, **request}).encode()
        with self._reached() as frames:
            frames.send(
                LENGTHS.pack(len(header), len(payload)) + header + payload, _seconds(len(payload))
            )

    def _answer(self, kind: type[T], seconds: float) -> tuple[T, bytes]:
        """The next answer, and the bytes after it. Raises Lost, and Errors if the request
        failed."""
        with self._reached() as frames:
            document, content = frames.next(seconds)
            if isinstance(document, dict) and "fault" in document:
                fault = read(Fault, document)
            else:
                return read(kind, document), content
        message = f"on `{self.address}`: {fault.fault}" + (f": `{fault.at}`" if fault.at else "")
        help_text = "free some space there, or name another folder: `user@host/folder`"
        raise Errors([Diagnostic("F605", message, None, help=help_text)])

    @contextmanager
    def _reached(self) -> Iterator[Frames]:
        """The connection; its faults raise Lost, and Errors for invalid answers."""
        frames = self._frames
        if frames is None:
            raise Lost("the connection was closed")
        try:
            yield frames
        except Silent as silent:
            said = _last(frames)
            raise Lost(str(silent) + (f"; it says\n{said}" if said else "")) from silent
        except (OSError, EOFError) as error:
            raise self._lost(frames) from error
        except ValueError as error:
            self._refuse(error)

    def _refuse(self, why: ValueError) -> NoReturn:
        """Give up a board with an invalid answer: it is not used any more. Raises Errors."""
        if self._process is not None:
            _kill(self._process)
        self.close()
        message = f"`{self.address}` gave an invalid answer: {why}"
        help_text = (
            f"another program may write among the answers: {_try(self.address)}, which has to print"
            " nothing"
        )
        raise Errors([Diagnostic("F657", message, None, help=help_text)])

    def _lost(self, frames: Frames) -> Lost:
        """ssh's message when it ended, or the invalid output instead of an answer."""
        process = self._process
        if process is None:  # closed by another thread
            return Lost("the connection was closed")
        try:
            status = process.wait(5)
        except subprocess.TimeoutExpired:
            status = None
        return Lost(_last(frames) or f"ssh ended with status {status}", status)

    # -- what a host does --------------------------------------------------------------------------
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
            if file.is_file() and not _is_made(directory, path):
                files[path.as_posix()] = file.read_bytes()
        changed = self._send_files(tree, files)
        code = [path for path in changed if path.endswith(COMPILED)]
        if code:
            main_only = BUILD in files and code == [MAIN]
            for script, words, package in _ONLY_MAIN if main_only else _EVERYTHING:
                if script in files:
                    self._compile(tree, script, words, package)
            if BUILD in files and any(path.startswith("networks/") for path in files):
                self.execute([*self.python, "-c", _LINK], cwd=tree)
        return tree

    def _compile(self, tree: str, script: str, words: str, package: str) -> None:
        """Run a script of a build that compiles, with these words. Raises Errors."""
        done = self.execute(["sh", "-c", words], cwd=tree)
        if done.status:
            # so that it is tried again
            self._ask(Nothing, "put", tree=tree, files=[], gone=[script])
            message = f"C code does not compile on `{self.address}`\n{last_words(done.stderr)}"
            help_text = f"install a compiler there: `apt install {package}`"
            raise Errors([Diagnostic("F641", message, None, help=help_text)])

    def _send_files(self, tree: str, files: Mapping[str, bytes]) -> list[str]:
        """The files that changed."""
        known = self._ask(KnownFiles, "known", tree=tree).files
        digests = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
        changed = [path for path, digest in digests.items() if known.get(path) != digest]
        gone = [path for path in known if path not in files]
        if changed or gone:
            entries = [
                (path, digests[path], len(files[path]), path.endswith(".sh")) for path in changed
            ]
            content = b"".join(files[path] for path in changed)
            shared = [ENGINES] if BUILDER in files else []
            self._ask(Nothing, "put", content, tree=tree, files=entries, gone=gone, shared=shared)
        return changed

    @contextmanager
    def _folder(self) -> Iterator[str]:
        path = self._ask(FolderAnswer, "folder").path
        yield path
        # After a failure the next answer is unknown; the far end removes the folder when the
        # connection ends.
        self._ask(Nothing, "remove", path=path)

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
                pieces = self._pieces(there[name], MOST_WRITTEN)
                first = next(pieces, None)
                if first is None:
                    continue
                try:
                    with file.open("wb") as stream:
                        stream.write(first)
                        stream.writelines(pieces)
                except OSError as error:
                    raise Errors([_unwritable(file, reason(error))]) from error

    def execute(
        self,
        words: Sequence[str],
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        seconds: float = math.inf,
    ) -> Done:
        """See `Host.execute`, with a limit in `seconds`."""
        heard = _Heard(self._refuse)
        status = self.attend(words, heard.hear, cwd=cwd, environment=environment, seconds=seconds)
        out, err = (bytes(heard.said[name]).decode(errors="replace") for name in ("out", "err"))
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
        seconds: float = math.inf,
    ) -> int:
        """Run a command and pass its output ("out" or "err") to `hear` as it arrives; returns its
        status.

        It may take `seconds`. `started` gets a function that forwards a signal to it, `fed` one
        that sends its whole input.
        """
        writing = threading.Lock()

        def hand_on(number: int) -> None:
            with writing:
                self._request("signal", number=number)

        def feed(content: bytes) -> None:
            with writing:
                self._request("feed", content)

        self._request(
            "run",
            words=list(words),
            cwd=cwd,
            environment=dict(environment or {}),
            fed=fed is not None,
        )
        if started is not None:
            started(hand_on)
        if fed is not None:
            fed(feed)
        end = time.monotonic() + seconds
        while True:
            with self._reached() as frames:
                if time.monotonic() > end:
                    raise Silent(f"{shlex.join(words)} has not ended in {seconds:g} s")
                document, piece = frames.next(SILENCE)
                answer = of_command(document)
            if isinstance(answer, Said):
                hear(answer.said, piece)
            elif isinstance(answer, Fault):
                raise Errors([Diagnostic("F605", f"on `{self.address}`: {answer.fault}", None)])
            elif not isinstance(answer, Alive):
                break
        if answer.missing is not None:
            message = f"there is no `{answer.missing}` on `{self.address}`"
            raise Errors([Diagnostic("F641", message, None, help="install it there")])
        return answer.end

    def module(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Done:
        return self.execute(
            [*self.python, "-m", f"flowc.{name}", *arguments],
            cwd=self._ours,
            environment=environment,
        )

    def read(self, file: str) -> bytes | None:
        pieces = list(self._pieces(file, MOST_FILE))
        return b"".join(pieces) if pieces else None

    def _pieces(self, file: str, most: int) -> Iterator[bytes]:
        """The pieces of a file of `most` bytes; an empty file is an empty piece, one that does not
        exist is none."""
        self._request("get", path=file)
        size, begin = 0, time.monotonic()
        while True:
            answer, piece = self._answer(Piece, begin + _seconds(size) - time.monotonic())
            size += len(piece)
            if answer.there:
                yield piece
            if not answer.more:
                return
            if not piece or size > most:
                self._refuse(
                    ValueError(f"`{file}` has more than {most >> 20} MiB, or an empty piece")
                )

    def has_gpu(self) -> bool:
        return self._gpu

    def has_npu(self) -> bool:
        return True

    def steadily(self, work: Callable[[], T]) -> T:
        """See `Host.steadily`: lost runs are not counted. Raises Errors if the board does not come
        back."""
        for _ in range(AGAIN):
            try:
                return work()
            except Lost as lost:
                self._return(lost)
        message = f"the connection to `{self.address}` was lost {AGAIN} times"
        raise Errors([Diagnostic("F643", message, None, help="what was measured so far is kept")])

    def _return(self, lost: Lost) -> None:
        """Wait until the board is back. Raises Errors."""
        if self._report is not None:
            self._report(f"the connection to {self.address} was lost ({lost}): waiting for it")
        end = time.monotonic() + PATIENCE
        while True:
            self.close()
            try:
                self._connect()
                return
            except Lost as again:
                if time.monotonic() > end:
                    raise Errors([lost_way(self.address, str(again))]) from again
            except Errors as faults:  # the far end of the lost connection may still hold its lock
                if faults.diagnostics[0].code != "F642" or time.monotonic() > end:
                    raise
            time.sleep(PAUSE)


def _last(frames: Frames) -> str:
    """The last message of ssh or the board, beside answers."""
    return _plain(last_words(frames.words()))


def _plain(said: str) -> str:
    """Text without characters that control the terminal."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in said
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user's number has no name here, as in many containers
        return f"user {os.getuid()}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill ssh and its children: FLOWC_SSH may be a script."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _seconds(count: int) -> float:
    """Seconds for a question of so many bytes, or for its answer."""
    return ANSWER + count / SLOWEST


class _Heard:
    """The end of a command's output; `refuse` is called if it is longer than that of any command of
    flowc."""

    def __init__(self, refuse: Callable[[ValueError], NoReturn]) -> None:
        self.said = {"out": bytearray(), "err": bytearray()}
        self._refuse, self._count = refuse, 0

    def hear(self, name: str, piece: bytes) -> None:
        """Add output."""
        said = self.said[name]
        said += piece
        if len(said) > 2 * MOST_KEPT:
            del said[:-MOST_KEPT]
        self._count += LENGTHS.size + len(piece)
        if self._count > MOST_SAID:
            self._refuse(ValueError(f"the output of a command there exceeds {MOST_SAID >> 20} MiB"))


def _numbers(version: str) -> tuple[int, ...]:
    """The key for comparing versions."""
    return tuple(int(n) for n in re.findall(r"\d{1,9}", version)[:3])


def _try(where: Address) -> str:
    """A command that tests the connection without flowc."""
    port = "" if where.port is None else f"-p {where.port} "
    return f"try `ssh {port}{where.host} true`"


def lost_way(where: Address, said: str) -> Diagnostic:
    """The connection to a board was lost."""
    help_text = (
        "programs there are stopped, and what was measured so far is kept: start again when the"
        " board is back"
    )
    return Diagnostic("F643", f"the connection to `{where}` was lost\n{said}", None, help=help_text)


def _unwritable(file: Path, why: str) -> Diagnostic:
    return Diagnostic("F605", f"cannot write `{file}`: {why}", None)


def _unreachable(where: Address, lost: Lost) -> Diagnostic:
    """The first connection failed: ssh's message, and help."""
    said = str(lost)
    if lost.status == NO_COMMAND:
        message = f"Python does not start on `{where}`\n{said}"
        return Diagnostic("F641", message, None, help="name it with --board-python, or install it")
    low, advice = said.lower(), _try(where)
    if "host key verification failed" in low or "no matching host key" in low:
        advice = (
            "flowc accepts no key by itself: connect once with `ssh`, and compare the key with that"
            " of the board"
        )
    elif "permission denied" in low:
        advice = (
            "flowc asks for no password: put a key there with `ssh-copy-id`, or load it with"
            " `ssh-add`"
        )
    return Diagnostic("F640", f"`{where}` cannot be reached\n{said}", None, help=advice)
