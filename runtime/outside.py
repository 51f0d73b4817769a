"""What a program with states is told from outside: events over a socket, events of a script, a log
to be followed.

In: the options of the command line. Out: threads that raise events, or the stays that the
controller follows.
"""

from __future__ import annotations

import difflib
import json
import os
import socket
import stat
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence

from .clocks import RatesRefused
from .files import read_text
from .options import Mistake, RunOptions
from .replaying import is_report
from .report import VERSION
from .scenario import LOOK, Stay

if TYPE_CHECKING:
    from .control import Control
    from .program import Program
    from .run import Run

#: Bytes of a datagram that are looked at.
LONGEST = 256


def prepare(control: Control, program: Program, options: RunOptions) -> Outside:
    """What the options ask for. Raises Mistake."""
    if options.start:
        if options.start not in control.states:
            raise Mistake(
                "there is no state `%s`%s"
                % (options.start, _near(options.start, list(control.states)))
            )
        control.initial = options.start
    if options.replay and is_report(options.replay):
        if options.start or options.events or options.control:
            raise Mistake(
                "--replay does again what was done: it goes with none of --start, --events and"
                " --control"
            )
        control.script = _stays(options.replay, control)
    refused = ""
    if options.clocks != "model":
        try:
            (control.set_clocks if options.clocks == "set" else control.play_clocks)()
        except (RatesRefused, OSError, ValueError) as error:
            refused = "clock rates are left alone: %s" % error
    script = _script(options.events, program, control) if options.events else []
    return Outside(program.run, control, script, options.control, refused)


def _near(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    if near:
        return "; did you mean `%s`?" % near[0]
    return "; there is %s" % ", ".join(known) if known else ""


class ScriptLine:
    """A line of a script: after so many seconds, or so many frames of an app, an event."""

    def __init__(self, when: float, app: Optional[str], event: str) -> None:
        self.when, self.app, self.event = when, app, event


def _script(path: str, program: Program, control: Control) -> List[ScriptLine]:
    """The lines of a file: `2.5 s turn`, or `120 Front turn` for 120 frames of an app. Raises
    Mistake."""
    try:
        texts = read_text(path).splitlines()
    except (OSError, ValueError) as error:
        raise Mistake(
            "cannot read %s: %s" % (path, getattr(error, "strerror", None) or error)
        ) from None
    apps, found = {a.name for a in program.apps}, []
    for number, text in enumerate(texts, 1):
        words = text.partition("#")[0].split()
        if not words:
            continue
        place = "%s, line %d: " % (path, number)
        if len(words) < 3:
            raise Mistake(place + "write `2.5 s EVENT`, or `120 APP EVENT` for its 120th frame")
        try:
            when = float(words[0])
        except ValueError:
            raise Mistake(place + "`%s` is no number" % words[0]) from None
        if words[1] != "s" and words[1] not in apps:
            raise Mistake(
                place + "there is no app `%s`%s" % (words[1], _near(words[1], sorted(apps)))
            )
        event = " ".join(words[2:])
        if words[2] not in control.events:
            raise Mistake(
                place + "there is no event `%s`%s" % (words[2], _near(words[2], control.events))
            )
        try:
            control.parsed(event)
        except ValueError as error:
            raise Mistake(place + str(error)) from None
        found.append(ScriptLine(when, None if words[1] == "s" else words[1], event))
    return found


def _stays(path: str, control: Control) -> List[Stay]:
    """What a report says of the stays in states. Raises Mistake."""
    try:
        document = json.loads(read_text(path))
        if document.get("version", VERSION) != VERSION:
            raise ValueError("its version is %r" % (document["version"],))
        stays = [
            Stay(str(s["state"]), {str(a): int(n) for a, n in s["frames"].items()})
            for s in document["stays"]
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Mistake("%s is no report of a program with states: %s" % (path, error)) from None
    for stay in stays:
        state = control.states.get(stay.state)
        if state is None or set(stay.frames) != {a.name for a in state.apps}:
            raise Mistake(
                "%s is the report of another program: its state `%s` is not this one's"
                % (path, stay.state)
            )
    return stays


def _dead(path: str) -> bool:
    """Is it a socket without a listener, of a program that was killed?"""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            probe.connect(path)
    except ConnectionRefusedError:
        return True
    except OSError:
        pass
    return False


def _listening(path: str) -> socket.socket:
    """A socket that only this user can write to. Raises Mistake."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    before = os.umask(0o177)
    try:
        if _dead(path):
            os.unlink(path)
        listener.bind(path)
    except OSError as error:
        listener.close()
        raise Mistake("cannot listen at %s: %s" % (path, error.strerror)) from None
    finally:
        os.umask(before)
    return listener


def _begin(target: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=target, args=arguments, name="outside", daemon=True).start()


class Outside:
    """Raises events while the program runs: call `start` before, and `close` afterwards."""

    def __init__(
        self,
        run: Run,
        control: Control,
        script: Sequence[ScriptLine],
        path: Optional[str],
        refused: str,
    ) -> None:
        self._run, self._control = run, control
        self._script, self._path, self._refused = list(script), path, refused
        self._listener: Optional[socket.socket] = None
        #: Was something at the path before? Then it is not ours.
        self._taken = path is not None and os.path.lexists(path) and not _dead(path)
        self._over = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin; the program may not have begun yet. Raises Mistake."""
        if self._refused:
            self._run.warn_once(self._refused)
        listener = self._listener = _listening(self._path) if self._path else None
        if self._script:
            self._control.raise_due = self.raise_due
            _begin(self._follow)
        if listener is not None:
            _begin(self._listen, listener)

    def close(self) -> None:
        """Stop listening. In the process that looks after the program: nor if that could not say so
        itself."""
        self._over.set()
        if self._listener is not None:
            self._listener.close()
        if self._path and not self._taken:
            try:
                os.unlink(self._path)
            except OSError:
                pass  # it was removed

    def _follow(self) -> None:
        while not self._run.go.wait(0.05):
            if self._over.is_set():
                return
        while self._script and not self._over.wait(LOOK):
            self.raise_due()

    def raise_due(self) -> bool:
        """Raise the events of the script whose time has come; True if there were any."""
        seconds = (time.perf_counter_ns() - self._run.begin) / 1e9
        due: List[ScriptLine] = []
        waiting: List[ScriptLine] = []
        with self._lock:
            for line in self._script:
                passed = seconds if line.app is None else self._control.had(line.app)
                (due if passed >= line.when else waiting).append(line)
            self._script = waiting
        for line in due:
            self._control.raise_event(line.event)
        return bool(due)

    def _listen(self, listener: socket.socket) -> None:
        while not self._over.is_set():
            try:
                heard = listener.recv(LONGEST)  # no limit: nothing waits for this thread
                word = heard.decode("utf-8", "replace").strip()
            except OSError:
                return  # closed
            try:
                self._control.raise_event(word)
            except ValueError as error:
                shown = word.encode("unicode_escape").decode("ascii")
                reason = str(error)
                if word.partition(" ")[0] not in self._control.events:
                    near = _near(word, self._control.events)
                    reason = "there is no event `%s`%s" % (shown, near)
                self._run.warn_once(reason)
                self._control.ignored[shown] = self._control.ignored.get(shown, 0) + 1
