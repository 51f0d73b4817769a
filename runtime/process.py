"""Tasks in processes of their own, where Python code cannot hold up the rest of the program.

In: the code of a task. Out: code with the same face that fires in a child process. The worker
thread stays in the program and keeps everything that has to do with channels; while the child
works, it waits in a read, without the interpreter lock. Tensors lie in memory that both ends have
mapped; what goes through the pipes is a few bytes per firing, what the task prints, and the words
of a failure. Which tasks are worth a process is decided elsewhere.
"""

from __future__ import annotations

import codecs
import faulthandler
import io
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import time
import weakref
from importlib import import_module
from queue import SimpleQueue
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .channel import EndOfStream
from .code import Code
from .failures import STRAY, Failure, describe, details_of
from .forks import at_fork
from .pipes import Pipes, Ring, rings_of
from .streams import complain
from .system import FAREWELL, anonymous_memory, die_with_the_parent, how_it_ended
from .tokens import Port, TaskError, split_outputs

#: What a message is about. The parent asks the first three, the child answers with one of the
#: others.
OPEN, FIRE, CLOSE, DONE, OVER, FAILED, STDOUT, STDERR = (b"%c" % c for c in b"OFCdofte")

_FIRING = struct.Struct("<q")
_OURS = {signal.SIGINT, signal.SIGTERM}

#: Loads this copy of the runtime, wherever the program was started, and nothing of the program
#: itself.
_BOOT = """
import sys
name, folder, ends, sys.path[:] = sys.argv[1], sys.argv[2], sys.argv[3:7], sys.argv[7:]
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
package = sys.modules[name] = module_from_spec(spec)
spec.loader.exec_module(package)
import_module(name + ".process").serve(*map(int, ends))
"""


class Process(Code):
    """Any code, fired in a child process: `Process(Python("tasks/x.py", "f", a=1))`.

    What is not shared with a thread: module-level variables of the task's file, and the identity of
    arrays. What a firing returns is checked against the ports at every firing.
    """

    def __init__(self, code: Code) -> None:
        self.code = self.inner = code
        #: Children, for a task without state that several processors fire at once.
        self.copies = 1
        #: The app and the task that it belongs to.
        self.owner = ("", "")
        self._children: List[_Child] = []
        self._idle: SimpleQueue[_Child] = SimpleQueue()

    def fired_by(self, workers: int) -> None:
        self.copies = max(self.copies, workers)  # states share it

    def starter(self, app: str, task: str) -> Optional[Callable[[], None]]:
        self.owner = app, task
        return self.start

    def start(self) -> None:
        """Start the interpreters without waiting for them: several can come up at once."""
        if not self._children:
            self._children = [_Child() for _ in range(self.copies)]

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self.start()
        self._idle = SimpleQueue()
        try:
            for child in self._children:
                child.open(self.code, self.owner, home, inputs, outputs)
                self._idle.put(child)
        except BaseException:
            self.discard()
            raise

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        # no limit: that of the firing that it is at, which the watchdog ends
        child = self._idle.get()
        try:
            return child.fire(inputs, firing)
        finally:
            self._idle.put(child)

    def kill(self) -> bool:
        """End the children that are in a firing, which then counts as never begun. Was there
        any?"""
        killed = [child.kill() for child in self._children]
        return any(killed)

    def discard(self) -> None:
        """End the children without closing their tasks: the program does not begin."""
        for child in self._children:
            child.end()
        self._children = []

    def close(self) -> None:
        children, self._children = self._children, []
        failures = [error for error in [child.close() for child in children] if error is not None]
        if failures:
            raise failures[0]


class ChildFailure(TaskError):
    """A failure of a task's code in a child: the reason and the traceback as they were told
    there."""

    def __init__(self, reason: str, details: str) -> None:
        TaskError.__init__(self, reason)
        self.details = details


# -- the parent's end ------------------------------------------------------------------------------
class _Child:
    """One child, seen from the program."""

    def __init__(self) -> None:
        if not sys.executable:
            raise TaskError(
                "no process can be started: this interpreter does not know its own path"
            )
        orders, to_child = os.pipe()
        from_child, answers = os.pipe()
        lifeline, ours = os.pipe()
        self._memory = anonymous_memory()
        theirs = (orders, answers, lifeline, self._memory)
        command = [sys.executable, *subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]
        command += [
            "-c",
            _BOOT,
            str(__package__),
            os.path.dirname(os.path.abspath(__file__)),
            *map(str, theirs),
        ]
        command += [p for p in sys.path if isinstance(p, str)]
        # Ctrl-C in a terminal reaches the child as well: until it has its handlers, it does not see
        # it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
        try:
            self._process = subprocess.Popen(command, pass_fds=theirs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for end in (orders, answers, lifeline):
                os.close(end)
        self._wire = Pipes(from_child, to_child)
        self._printed: Dict[bytes, codecs.IncrementalDecoder] = {}
        #: Nothing can be asked of it: not open yet, or gone.
        self._over = True
        self._fired = self._firing = self._killed = False
        self._inputs: List[Ring] = []
        self._outputs: List[Ring] = []
        self._next = b""
        self._rest = (ours, self._memory)
        self.end = weakref.finalize(self, _bury, self._process, self._wire, self._rest)
        at_fork(self)

    def forked(self) -> None:
        """A process that is forked from this one is none of the child's parents, and does not keep
        it alive."""
        if self.end.detach() is not None:
            self._wire.close()
            for end in self._rest:
                os.close(end)

    def open(
        self,
        code: Code,
        owner: Tuple[str, str],
        home: str,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
    ) -> None:
        """Open the code there."""
        self._inputs, self._outputs = rings_of(self._memory, inputs, outputs, child=False)
        streams = [_encoding(sys.stdout), _encoding(sys.stderr)]
        self._printed = {
            kind: codecs.getincrementaldecoder(encoding)("replace")
            for kind, (encoding, _) in zip((STDOUT, STDERR), streams)
        }
        try:
            beside = sys.path, sys.argv, faulthandler.is_enabled(), streams
            order = pickle.dumps((*beside, code, owner, home, list(inputs), list(outputs)))
        except Exception as error:
            raise TaskError(
                "its parameters cannot be sent to a process: %s" % describe(error)
            ) from error
        self._next = self._ask(OPEN, order)
        self._over = False

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Tuple[np.ndarray, ...]:
        """One firing there."""
        for ring, slot, array in zip(self._inputs, self._next, inputs):
            ring.put(slot, firing, array)
        slots = bytes([ring.pick() for ring in self._outputs])
        if not self._fired:
            self._fired = True
            self._take_over_priority()
        self._firing = True
        try:
            self._next = self._ask(FIRE, _FIRING.pack(firing) + slots)
        finally:
            self._firing = False
        return tuple([ring.take(slot, firing) for ring, slot in zip(self._outputs, slots)])

    def _take_over_priority(self) -> None:
        """The child runs where and how urgently the worker would that it works for."""
        try:
            policy, pid = os.sched_getscheduler(0), self._process.pid
            if policy != os.SCHED_OTHER:
                os.sched_setaffinity(pid, os.sched_getaffinity(0))
                os.sched_setscheduler(pid, policy, os.sched_getparam(0))
            os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0))
        except (OSError, AttributeError):
            pass  # the worker has said so already, or the child is gone: the next answer tells

    def kill(self) -> bool:
        """A thread that waits for the answer to a firing learns that it will not come. Did one
        wait?"""
        if self._firing:
            self._killed = True
            self._process.kill()
        return self._firing

    def close(self) -> Optional[Exception]:
        """Close the code there and end the child; what went wrong."""
        failure: Optional[Exception] = None
        try:
            if not self._over:
                self._ask(CLOSE)
                self._see_off()
        except EndOfStream:
            pass  # it was killed
        except Exception as error:
            failure = error
        self._over = True
        self.end()
        return failure

    def _see_off(self) -> None:
        """What it prints when it exits, and its end; it may not take for ever."""
        deadline = time.monotonic() + FAREWELL
        try:
            while True:
                self._print(*self._wire.receive(max(0.0, deadline - time.monotonic())))
        except TimeoutError:
            return
        except EOFError:
            self._status(deadline - time.monotonic())

    def _ask(self, order: bytes, content: bytes = b"") -> bytes:
        try:
            self._wire.send(order, content)
        except BrokenPipeError:
            pass  # it is gone: what it said before comes first
        unheard: Optional[Exception] = None
        while True:
            try:
                kind, content = self._wire.receive()
            except EOFError:
                self._over = True
                if self._killed:
                    raise EndOfStream from None
                raise TaskError(self._last_words()) from None
            if kind in self._printed:
                try:
                    self._print(kind, content)
                except Exception as error:
                    # the program's output has no reader any more; the answer has to be taken
                    unheard = error
            elif unheard is not None:
                raise unheard
            elif kind == OVER:
                raise StopIteration
            elif kind == FAILED:
                raise ChildFailure(*json.loads(content))
            else:
                return content

    def _print(self, kind: bytes, content: bytes) -> None:
        stream = sys.stdout if kind == STDOUT else sys.stderr
        if stream is not None:
            stream.write(self._printed[kind].decode(content))
            # as the task may have wished; beside the way through the pipe it costs nothing
            stream.flush()

    def _last_words(self) -> str:
        """How the child came to its end."""
        status = self._status(FAREWELL)
        if status is None:
            return "its process does not answer any more"
        return "its process " + how_it_ended(status)

    def _status(self, seconds: float) -> Optional[int]:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


def _bury(process: Any, wire: Pipes, rest: Sequence[int]) -> None:
    process.kill()
    try:
        process.wait(FAREWELL)
    except subprocess.TimeoutExpired:
        pass
    wire.close()
    for end in rest:
        os.close(end)


def _encoding(stream: Any) -> Tuple[str, str]:
    return getattr(stream, "encoding", None) or "utf-8", getattr(stream, "errors", None) or "strict"


# -- the child's end -------------------------------------------------------------------------------
class _Relay(io.RawIOBase):
    """What a task prints, on its way to the program's stream: there it comes between the right
    lines of others."""

    def __init__(self, wire: Pipes, kind: bytes, number: int) -> None:
        io.RawIOBase.__init__(self)
        self._wire, self._kind, self._number = wire, kind, number

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._wire.send(self._kind, content)
        return len(content)


class _Unpickler(pickle.Unpickler):
    """Takes classes of the runtime from this copy: packages above it, of the user of the program,
    are not imported."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(str(__package__) + "."):
            return getattr(import_module(module), name)
        return super().find_class(module, name)


class _Server:
    """Answers the orders of the parent."""

    def __init__(self, wire: Pipes, memory: int) -> None:
        self._wire, self._memory = wire, memory
        self._streams: List[Any] = []
        self._outputs: Sequence[Port] = ()
        self._readable: List[Ring] = []
        self._writable: List[Ring] = []
        self._next = b""
        self._owner = ("", "")
        self._firing: Optional[int] = None
        #: Is this a process that the task has forked?
        self.strayed = False

    def run(self) -> None:
        """Until the task is closed or the parent is gone."""
        orders: Dict[bytes, Callable[[bytes], bytes]] = {
            OPEN: self._open,
            FIRE: self._fire,
            CLOSE: self._close,
        }
        kind = b""
        while kind != CLOSE:
            try:
                kind, content = self._wire.receive()
            except EOFError:
                return
            try:
                answer = DONE, orders[kind](content)
            except BaseException as error:
                if kind == FIRE and isinstance(error, StopIteration):
                    answer = OVER, b""
                else:
                    answer = FAILED, json.dumps([describe(error), details_of(error)]).encode()
            if self.strayed:
                complain(str(Failure(*self._owner, self._firing, STRAY)))
                os._exit(1)
            for stream in self._streams:
                if not stream.closed:
                    stream.flush()
            self._wire.send(*answer)

    def _open(self, content: bytes) -> bytes:
        path, sys.argv, crashes, streams, code, self._owner, home, inputs, outputs = _Unpickler(
            io.BytesIO(content)
        ).load()
        sys.path[:] = path
        if crashes:
            faulthandler.enable()
        for kind, number, (encoding, errors) in ((STDOUT, 1, streams[0]), (STDERR, 2, streams[1])):
            buffer = io.BufferedWriter(_Relay(self._wire, kind, number))
            self._streams.append(io.TextIOWrapper(buffer, encoding, errors, line_buffering=True))
        sys.stdout, sys.stderr = self._streams
        self._readable, self._writable = rings_of(self._memory, inputs, outputs, child=True)
        os.close(self._memory)
        self._code, self._outputs = code, outputs
        code.open(home, inputs, outputs)
        return self._pick()

    def _fire(self, content: bytes) -> bytes:
        (firing,) = _FIRING.unpack_from(content)
        self._firing = firing
        self._fire_into(content[_FIRING.size :], firing)
        # after the arrays of this firing are gone, unless the task has kept some
        return self._pick()

    def _fire_into(self, slots: bytes, firing: int) -> None:
        inputs = [ring.take(slot, firing) for ring, slot in zip(self._readable, self._next)]
        result = self._code.fire(inputs, firing)
        if not self._outputs:
            return
        values = split_outputs(result, self._outputs)
        accepted = [p.accept(v, firing) for p, v in zip(self._outputs, values)]
        for ring, slot, array in zip(self._writable, slots, accepted):
            ring.put(slot, firing, array)

    def _close(self, content: bytes) -> bytes:
        self._firing = None
        self._code.close()
        return b""

    def _pick(self) -> bytes:
        self._next = bytes([ring.pick() for ring in self._readable])
        return self._next


def serve(orders: int, answers: int, lifeline: int, memory: int) -> None:
    """The whole life of a child; the numbers are its ends of the pipes, and the memory."""
    for number in _OURS:
        # Ended by the parent only. Not SIG_IGN: what a task starts should not inherit it.
        signal.signal(number, lambda *_: None)
        signal.siginterrupt(number, False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OURS)
    die_with_the_parent(lifeline)
    wire = Pipes(orders, answers)
    for end in (orders, answers, lifeline, memory):
        os.set_inheritable(end, False)

    server = _Server(wire, memory)

    def forked() -> None:
        """A process that the task forks is none of ours: it must not keep the pipes open."""
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        wire.close()
        os.close(lifeline)
        server.strayed = True

    os.register_at_fork(after_in_child=forked)
    server.run()
