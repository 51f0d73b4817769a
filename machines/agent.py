"""The far end of a board: keeps files there, runs commands, and cleans up when the connection ends.

Its text is sent to a Python (3.6 or later) on the board, which needs nothing else. It reads
requests from its standard input and writes answers to its standard output: first MAGIC, because the
shell of the board may have printed something before, then frames, each a length, a JSON header, a
length, bytes. Names and words of commands travel as data and never pass through a shell. Requests
are answered one after the other; while a command runs, only `signal` and `feed` are accepted, and a
keep-alive is sent every few seconds. When the input ends (Ctrl-C, a lost connection), commands are
stopped, folders removed, and the lock ends with its process.
"""

import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Any, Dict, List, Optional, Sequence, Tuple

#: A file that marks a folder of flowc.
MARK = ".flowc-board"
#: The files that were put into a directory: {path: [digest, size, time]}.
SENT = ".flowc-sent.json"
#: Precedes all answers.
MAGIC = b"\nflowc: the far end of a board\n"
#: The lengths of a header and of the bytes behind it.
LENGTHS = struct.Struct(">IQ")
#: Seconds for a command to end by itself.
GRACE = 5.0
#: Most bytes after the header of an answer.
PIECE = 1 << 16


class Agent:
    """Answers requests until its input ends."""

    def __init__(self, source: IO[bytes], sink: IO[bytes]) -> None:
        self._source, self._sink = source, sink
        self._sending = threading.Lock()
        self._folders = []  # type: List[str]
        self._child = None  # type: Optional[subprocess.Popen[bytes]]
        self._lock = None  # type: Optional[IO[str]]
        self._base = ""
        self._alive = 0.0

    # -- frames ------------------------------------------------------------------------------------
    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            piece = self._source.read(count - len(found))
            if not piece:
                raise EOFError
            found += piece
        return found

    def _receive(self) -> Tuple[Dict[str, Any], bytes]:
        header, payload = LENGTHS.unpack(self._exactly(LENGTHS.size))
        return json.loads(self._exactly(header).decode()), self._exactly(payload)

    def _send(self, answer: Dict[str, Any], payload: bytes = b"") -> None:
        header = json.dumps(answer).encode()
        with self._sending:
            self._sink.write(LENGTHS.pack(len(header), len(payload)) + header + payload)
            self._sink.flush()

    # -- requests ----------------------------------------------------------------------------------
    def serve(self) -> None:
        """Serve requests until the input ends."""
        try:
            self._sink.write(MAGIC)
            self._sink.flush()
            while True:
                request, payload = self._receive()
                try:
                    self._answer(request, payload)
                except OSError as error:
                    at = None if error.filename is None else str(error.filename)
                    self._send({"fault": error.strerror or str(error), "at": at})
        except (EOFError, BrokenPipeError):
            pass
        finally:
            self._stop()
            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)

    def _answer(self, request: Dict[str, Any], payload: bytes) -> None:
        getattr(self, "do_" + request.pop("do"))(payload=payload, **request)

    def do_begin(self, folder: str, who: str, alive: float, payload: bytes) -> None:
        """Take a folder for this connection. `seconds` are between two keep-alives while a command
        runs."""
        self._alive = alive
        base = os.path.abspath(os.path.expanduser(folder))
        os.makedirs(base, exist_ok=True)
        mark = os.path.join(base, MARK)
        if not os.path.exists(mark) and os.listdir(base):
            self._send({"foreign": sorted(os.listdir(base))[:3], "base": base})
            return
        lock = self._lock = open(mark, "a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            self._send({"taken": lock.read().strip(), "base": base})
            return
        lock.truncate(0)
        lock.write(who + "\n")
        lock.flush()
        for name in os.listdir(base):  # left by a flowc that was killed
            if name.startswith("tmp-"):
                shutil.rmtree(os.path.join(base, name), ignore_errors=True)
        self._base = base
        self._send({"base": base, "python": list(sys.version_info[:3])})

    def do_known(self, tree: str, payload: bytes) -> None:
        """The files that an earlier connection put into a directory, if they are unchanged."""
        self._send({"files": {path: known[0] for path, known in self._known(tree).items()}})

    def _known(self, tree: str) -> Dict[str, List[Any]]:
        try:
            with open(os.path.join(tree, SENT)) as file:
                sent = json.load(file)
            return {
                path: known
                for path, known in sent.items()
                if _stamp(os.path.join(tree, path)) == known[1:]
            }
        except (OSError, ValueError, AttributeError, TypeError):  # it does not exist, or was edited
            return {}

    def do_put(
        self,
        tree: str,
        files: Sequence[Any],
        gone: Sequence[str],
        payload: bytes,
        shared: Sequence[str] = (),
    ) -> None:
        """Write files (path, digest, size, executable), whose contents follow each other, and
        remove others.

        Folders that are `shared` are common to all directories.
        """
        os.makedirs(tree, exist_ok=True)
        for name in shared:
            os.makedirs(os.path.join(self._base, name), exist_ok=True)
            if not os.path.lexists(os.path.join(tree, name)):
                os.symlink(os.path.join(self._base, name), os.path.join(tree, name))
        known = self._known(tree)
        for path in gone:
            known.pop(path, None)
            if os.path.exists(os.path.join(tree, path)):
                os.unlink(os.path.join(tree, path))
        at = 0
        for path, digest, size, executable in files:
            target = os.path.join(tree, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target + ".new", "wb") as file:
                file.write(payload[at : at + size])
            at += size
            os.chmod(target + ".new", 0o755 if executable else 0o644)
            os.replace(target + ".new", target)
            known[path] = [digest] + (_stamp(target) or [])
        with open(os.path.join(tree, SENT + ".new"), "w") as file:
            json.dump(known, file)
        os.replace(os.path.join(tree, SENT + ".new"), os.path.join(tree, SENT))
        self._send({})

    def do_folder(self, payload: bytes) -> None:
        """Make a temporary folder."""
        self._folders.append(tempfile.mkdtemp(prefix="tmp-", dir=self._base))
        self._send({"path": self._folders[-1]})

    def do_remove(self, path: str, payload: bytes) -> None:
        """Remove a temporary folder."""
        shutil.rmtree(path, ignore_errors=True)
        self._send({})

    def do_get(self, path: str, payload: bytes) -> None:
        """A file, in pieces; the last answer has none."""
        try:
            with open(path, "rb") as file:
                piece = file.read(PIECE)
                while piece:
                    self._send({"more": True}, piece)
                    piece = file.read(PIECE)
        except FileNotFoundError:
            self._send({"more": False, "there": False})
            return
        self._send({"more": False})

    def do_run(
        self,
        words: Sequence[str],
        cwd: Optional[str],
        environment: Dict[str, str],
        payload: bytes,
        fed: bool = False,
    ) -> None:
        """Run a command; its output is sent as it arrives. It has no input, unless it is `fed`."""
        try:
            self._child = subprocess.Popen(
                words,
                cwd=cwd,
                env=dict(os.environ, **environment),
                stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            self._send({"end": 127, "missing": error.filename})
            return
        child = self._child
        readers = [
            threading.Thread(target=self._pass_on, args=(stream, name), daemon=True)
            for stream, name in ((child.stdout, "out"), (child.stderr, "err"))
        ]
        for reader in readers:
            reader.start()
        over = threading.Event()
        threading.Thread(target=self._show_life, args=(over,), daemon=True).start()
        threading.Thread(target=self._wait, args=(child, readers, over), daemon=True).start()

    def _pass_on(self, stream: IO[bytes], name: str) -> None:
        while True:
            piece = os.read(stream.fileno(), PIECE)  # no limit: in a thread of its own
            if not piece:
                return
            try:
                self._send({"said": name}, piece)
            except OSError:  # the connection was lost: `serve` detects that, too
                return

    def _show_life(self, over: threading.Event) -> None:
        while not over.wait(self._alive):
            try:
                self._send({"alive": True})
            except OSError:  # the connection was lost: `serve` detects that, too
                return

    def _wait(self, child: Any, readers: Sequence[threading.Thread], over: threading.Event) -> None:
        status = child.wait()  # no limit: it is stopped when the connection ends
        for reader in readers:
            reader.join(GRACE)  # a grandchild may hold the pipe
        over.set()
        try:
            self._send({"end": status})
        except OSError:
            pass

    def do_feed(self, payload: bytes) -> None:
        """The whole input of the running command."""
        if self._child is not None and self._child.stdin is not None:
            try:
                self._child.stdin.write(payload)
                self._child.stdin.close()
            except OSError:  # it has just ended
                pass

    def do_signal(self, number: int, payload: bytes) -> None:
        """Forward a signal to the running command."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)

    def _stop(self) -> None:
        child = self._child
        if child is None or child.poll() is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(child.pid, number)
            except OSError:
                return
            end = time.monotonic() + GRACE
            while child.poll() is None and time.monotonic() < end:
                time.sleep(0.02)


def _stamp(path: str) -> Optional[List[int]]:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the input ends as well
    said = os.dup(1)
    os.dup2(2, 1)  # no other output may come between the answers
    Agent(sys.stdin.buffer, os.fdopen(said, "wb")).serve()
