"""Processes that try inputs within limits, and are started again when one of them dies.

In: a seed, and how long or how many. Out: counts by kind, and findings: what happened, where, and
the files that did it. Input `n` depends on the seed and on `n` alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from flowc.dsl import format as layout
from flowc.dsl import load
from flowc.dsl.parse import Parser

from .faces import ROOT
from .kinds import KINDS

#: What an input may take: seconds of CPU, seconds of waiting, bytes beyond those of the start.
CPU, WAIT, MEMORY = 10.0, 300.0, 1 << 30
#: Inputs until a process is started afresh: caches of the libraries grow.
MOST_INPUTS = 1500


class Slow(BaseException):
    """Raised where an input is when its time is over."""


@dataclass
class Finding:
    """What happened to one input; `place` tells findings apart."""

    kind: str
    key: str
    what: str
    place: str
    text: str
    count: int = 1

    @property
    def name(self) -> str:
        """A name for files."""
        return "".join(c if c.isalnum() else "-" for c in f"{self.kind}-{self.what}-{self.place}")[
            :120
        ]


@dataclass
class Tally:
    """Inputs by kind and outcome, and one finding for each place, with its files in a folder if one
    was given."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)
    slowest: dict[str, tuple[float, str]] = field(default_factory=dict)


def attempt(
    kind: str, key: str, folder: Path, files: Path | None = None
) -> tuple[str, Finding | None]:
    """Make an input (or take the one in `files`) and try it, within the limits of time."""
    rng = Random(key)
    chosen = KINDS[kind]
    try:
        chosen.make(rng, folder)
        if files is not None:
            shutil.copytree(files, folder, dirs_exist_ok=True)
        return ("accepted" if chosen.run(Random(key + " run"), folder) else "refused"), None
    except Slow as slow:
        return "finding", _finding(kind, key, "slow", slow)
    except MemoryError as error:
        return "finding", _finding(kind, key, "memory", error)
    except Exception as error:
        return "finding", _finding(kind, key, type(error).__name__, error)


def _finding(kind: str, key: str, what: str, error: BaseException) -> Finding:
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(str(ROOT))
    ]
    own = [
        f for f in frames if "/tests/" not in f.filename and "/.venv/" not in f.filename
    ] or frames[-1:]
    last = own[-1]
    place = Path(last.filename).relative_to(ROOT).as_posix()
    place += f":{last.name}" if what == "slow" else f":{last.lineno}"
    return Finding(kind, key, what, place, "".join(traceback.format_exception(error))[-6000:])


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Slow is raised in the block when it takes too long; C code that never returns ends the
    process."""

    def stop(number: int, frame: object) -> None:
        raise Slow

    for name in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(name, stop)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + 3 * CPU), hard))
    signal.setitimer(signal.ITIMER_PROF, CPU)
    signal.setitimer(signal.ITIMER_REAL, WAIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def run(
    seed: str,
    kinds: Sequence[str],
    *,
    inputs: int | None = None,
    minutes: float | None = None,
    jobs: int = 1,
    keep: Path | None = None,
) -> Tally:
    """Try inputs until there were so many, or the time is over."""
    tally = Tally()
    end = time.monotonic() + 60 * minutes if minutes is not None else None
    with (
        selectors.DefaultSelector() as selector,
        tempfile.TemporaryDirectory(prefix="fuzz.") as scratch,
    ):
        workers = [
            _Worker(seed, kinds, first, jobs, inputs, Path(scratch) / str(first), keep)
            for first in range(jobs)
        ]
        for worker in workers:
            worker.start(selector)
        try:
            while selector.get_map():
                for key, _ in selector.select(timeout=1):
                    key.data.hear(selector, tally)
                if end is not None and time.monotonic() > end:
                    break
        finally:
            for worker in workers:
                worker.stop()
    return tally


class _Worker:
    """The parent's side of a process: which input it is at, and what it says."""

    def __init__(
        self,
        seed: str,
        kinds: Sequence[str],
        first: int,
        step: int,
        inputs: int | None,
        folder: Path,
        keep: Path | None,
    ) -> None:
        self._seed, self._kinds, self._next, self._step, self._inputs = (
            seed,
            kinds,
            first,
            step,
            inputs,
        )
        self._folder, self._keep = folder, keep
        self._pid = 0
        self._said = b""
        self._at: tuple[str, str] | None = None

    def start(self, selector: selectors.BaseSelector) -> None:
        read, write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(read)
            try:
                self._child(write)
            except BaseException:
                traceback.print_exc()
                os._exit(3)
            os._exit(0)
        os.close(write)
        self._pipe = read
        selector.register(read, selectors.EVENT_READ, self)

    def stop(self) -> None:
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)  # no limit: it was killed
            os.close(self._pipe)
            self._pid = 0

    def hear(self, selector: selectors.BaseSelector, tally: Tally) -> None:
        """Take in what the process says; when it is gone, note why, and start another one where it
        was."""
        data = os.read(self._pipe, 1 << 16)  # no limit: the selector says that there is something
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line), tally)
        if data:
            return
        selector.unregister(self._pipe)
        os.close(self._pipe)
        # no limit: it has closed its pipe, which it does by ending
        _, status = os.waitpid(self._pid, 0)
        self._pid, self._said = 0, b""
        if self._at is not None:
            kind, key = self._at
            what = (
                f"signal {os.WTERMSIG(status)}"
                if os.WIFSIGNALED(status)
                else f"exit {os.WEXITSTATUS(status)}"
            )
            self._note(Finding(kind, key, "died", what, f"the process ended: {what}"), tally)
            tally.counts[kind, "finding"] += 1
            self._at = None
            self._next += self._step
        elif status:
            sys.exit(f"a process of the fuzzer failed with status {status}")
        if self._inputs is None or self._next < self._inputs:
            self.start(selector)

    def _take(self, said: dict[str, Any], tally: Tally) -> None:
        if "at" in said:
            self._at = tuple(said["at"])
            return
        assert self._at is not None
        kind, key = self._at
        tally.counts[kind, said["outcome"]] += 1
        tally.slowest[kind] = max(tally.slowest.get(kind, (0.0, "")), (said["cpu"], key))
        if said["finding"] is not None:
            self._note(Finding(**said["finding"]), tally)
        self._at = None
        self._next += self._step

    def _note(self, finding: Finding, tally: Tally) -> None:
        if finding.name in tally.findings:
            tally.findings[finding.name].count += 1
            return
        tally.findings[finding.name] = finding
        if finding.what == "died" and self._keep is not None:
            store(self._keep / finding.name, finding, self._folder)

    def _child(self, write: int) -> None:
        parser = Parser()  # most of the time of a small text goes into compiling the grammar
        load.Parser = layout.Parser = lambda: parser  # type: ignore[assignment,misc]
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        weights = [KINDS[k].weight for k in self._kinds]
        for n in range(self._next, self._next + MOST_INPUTS * self._step, self._step):
            if self._inputs is not None and n >= self._inputs:
                return
            (kind,) = Random(f"{self._seed} {n}").choices(self._kinds, weights)
            key = f"{self._seed} {kind} {n}"
            _say(write, {"at": [kind, key]})
            prepare(self._folder, kind)
            before = time.process_time()
            with limited():
                outcome, finding = attempt(kind, key, self._folder)
            if (
                finding is not None
                and self._keep is not None
                and not (self._keep / finding.name).exists()
            ):
                store(self._keep / finding.name, finding, self._folder)
            found = None if finding is None else finding.__dict__
            _say(write, {"outcome": outcome, "finding": found, "cpu": time.process_time() - before})


def prepare(folder: Path, kind: str) -> None:
    """An empty folder with what inputs of a kind stand among."""
    shutil.rmtree(folder, ignore_errors=True)
    master = folder.with_name(f"{folder.name}.{kind}")
    if not master.exists():
        master.mkdir(parents=True)
        KINDS[kind].prepare(master)
    shutil.copytree(master, folder, symlinks=True)


def store(place: Path, finding: Finding, files: Path) -> None:
    """Keep the files of a finding, and how to see it again."""
    shutil.rmtree(place, ignore_errors=True)
    if files.exists():
        shutil.copytree(files, place / "files", symlinks=True)
    place.mkdir(parents=True, exist_ok=True)
    (place / "finding.json").write_text(json.dumps(finding.__dict__, indent=1))
    (place / "traceback.txt").write_text(
        f"python -m tests.fuzz --replay '{finding.key}'\n\n{finding.text}"
    )


def _say(write: int, document: dict[str, Any]) -> None:
    data = json.dumps(document).encode() + b"\n"
    while data:
        data = data[os.write(write, data) :]
