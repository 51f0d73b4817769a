"""The recordings of the parts of a program on several machines, as one.

In: the parts on their machines, a path, and the channels that are wanted. Out: one file, which the
program as a whole can replay (`runtime/replay.py`). Each part records into a file of its own beside
that one; these are joined when all have ended. Clocks of machines differ: times are shifted so that
all parts began at the same moment, as they did.

What was decided about a task or a mailbox is known to its part alone; a frame of an app has ended
when all parts say so. Where a part was killed, no frame counts as ended that ended after its last
message: it may depend on what is missing.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from ...model.diagnostic import Diagnostic, Errors
from ...model.files import reason
from ...runtime.options import Mistake
from ...runtime.record import DECISIONS, wanted
from ...runtime.record_file import McapWriter
from ...runtime.recorded_file import MOST_CHUNK, RecordedFile
from ...runtime.ros_messages import definition_of, text_in, text_message
from .rig import Rig

if TYPE_CHECKING:
    from mcap.records import Channel, Message

#: Kinds of code that hand on what others have written.
_HANDING_ON = frozenset({"transfer", "resample", "link"})


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is in the file: tokens, and channels of so many parts. `missing` says why a part's
    recording is not whole."""

    path: Path
    tokens: int
    channels: int
    parts: int
    missing: tuple[str, ...]


@dataclass(slots=True)
class Recording:
    """Parts that record: the options of each, and in the end what they have recorded (None: they do
    not record)."""

    words: dict[str, list[str]]
    recorded: Recorded | None = None


class _Row(NamedTuple):
    """A message of a part: its time in the result, its channel in the part's file."""

    time_ns: int
    machine: str
    channel: Channel
    message: Message


@contextmanager
def recording(rig: Rig, path: Path | None, channels: str | None) -> Iterator[Recording]:
    """Let all parts record, if there is a `path`, and join their files when they have ended. Raises
    Errors, and Mistake for channels that no part has."""
    asked = Recording({machine: [] for machine in rig.machines})
    if path is None:
        yield asked
        return
    chosen = {} if channels is None else _chosen(rig, channels)
    try:
        path.write_bytes(b"")
    except OSError as error:
        raise Errors([_unwritable(path, error)]) from None
    files = {machine: path.with_name(f"{path.name}.{machine}") for machine in rig.machines}
    for file in files.values():
        file.unlink(missing_ok=True)
    try:
        with rig.writing(files) as there:
            for machine, words in asked.words.items():
                words += ["--record", there[machine]]
                if machine in chosen:
                    words += ["--channels", chosen[machine]]
            yield asked
    finally:
        asked.recorded = join(files, path, rig.built.digest)


def _chosen(rig: Rig, patterns: str) -> dict[str, str]:
    """The channels of each part, of those that patterns choose. Raises Mistake."""
    known: dict[str, list[str]] = {}
    for machine, deployment in rig.deployments().items():
        tasks = [task for app in deployment["apps"] for task in app["tasks"]]
        known[machine] = [
            f"{task['name']}.{port['name']}"
            for task in tasks
            for port in task["outputs"]
            if task["code"]["kind"] not in _HANDING_ON
        ]
    chosen = set(wanted([name for names in known.values() for name in names], patterns))
    return {
        machine: ",".join(name for name in names if name in chosen)
        for machine, names in known.items()
    }


def join(files: Mapping[str, Path], path: Path, build: str) -> Recorded:
    """Join the files of parts, by machine, which are removed then. Raises Errors."""
    found, missing = {}, []
    for machine, file in files.items():
        try:
            part = found[machine] = RecordedFile(str(file))
        except Mistake as mistake:
            missing.append(f"{machine}: {mistake}")
            continue
        if not part.decisions.ended:
            missing.append(f"{machine}: {part.cut or 'it was killed'}")
    try:
        with path.open("wb", 0) as stream:
            joining = _Joining(found, stream)
            joining.write(build)
    except OSError as error:
        raise Errors([_unwritable(path, error)]) from None
    finally:
        for part in found.values():
            part.close()
    for file in files.values():
        file.unlink(missing_ok=True)
    return Recorded(path, joining.tokens, len(joining.channels) - 1, len(found), tuple(missing))


def _unwritable(path: Path, error: OSError) -> Diagnostic:
    return Diagnostic("F605", f"cannot write `{path}`: {reason(error)}", None)


class _Joining:
    """Files of parts, by machine, that become one in a stream."""

    def __init__(self, parts: Mapping[str, RecordedFile], stream: IO[bytes]) -> None:
        self._parts = parts
        self._writer = McapWriter(stream)
        self.tokens = self._decisions = 0
        #: Numbers of channels by their names, and the topics of all.
        self.channels: dict[str, int] = {}
        self._topics: set[str] = set()
        #: What each part has said last of how far it is.
        self._notes: dict[str, dict[str, Any]] = {}
        began = [part.decisions.began for part in parts.values() if part.decisions.began]
        #: By how many ns the times of each part are those of a later moment in the result.
        self._ahead = {
            machine: part.decisions.began - began[0] if part.decisions.began else 0
            for machine, part in parts.items()
        }
        #: The moment up to which everything is known of all parts, in ns; None: all have ended.
        self._known = min(
            (p.last - self._ahead[m] for m, p in parts.items() if not p.decisions.ended),
            default=None,
        )

    def write(self, build: str) -> None:
        """All messages, in the order of their times. Raises OSError."""
        self._writer.about(self._about(build))
        rows = [self._messages(machine, part) for machine, part in self._parts.items()]
        for row in heapq.merge(*rows, key=lambda row: row.time_ns):
            self._write(row)
        self._writer.finish()

    def _about(self, build: str) -> dict[str, str]:
        """What is said of the program: parameters are those of all parts."""
        about: dict[str, str] = {}
        settings: dict[str, None] = {}
        for part in self._parts.values():
            about |= part.about
            settings |= dict.fromkeys(json.loads(part.about.get("settings", "[]")))
        return {**about, "build": build, "settings": json.dumps(list(settings))}

    def _messages(self, machine: str, part: RecordedFile) -> Iterator[_Row]:
        """The messages of a part, as far as its file is whole."""
        from mcap.records import Channel, Chunk, Message
        from mcap.stream_reader import StreamReader, breakup_chunk

        channels: dict[int, Channel] = {}
        with open(part.path, "rb") as stream:
            records = StreamReader(stream, emit_chunks=True, record_size_limit=MOST_CHUNK).records
            while stream.tell() < part.whole:
                record = next(records)
                for each in breakup_chunk(record) if isinstance(record, Chunk) else [record]:
                    if isinstance(each, Channel):
                        channels[each.id] = each
                    elif isinstance(each, Message):
                        time_ns = max(0, each.log_time - self._ahead[machine])
                        yield _Row(time_ns, machine, channels[each.channel_id], each)

    def _write(self, row: _Row) -> None:
        message = row.message
        data, sequence = message.data, message.sequence
        if row.channel.topic == DECISIONS:
            told = json.loads(text_in(data))
            if "frames" in told:
                if self._known is not None and row.time_ns > self._known:
                    return
                self._notes[row.machine] = told
                told = self._progress()
            data, sequence = text_message(json.dumps(told)), self._decisions
            self._decisions += 1
        else:
            self.tokens += 1
        released = max(0, message.publish_time - self._ahead[row.machine])
        self._writer.message(self._number(row), row.time_ns, data, released, sequence)

    def _number(self, row: _Row) -> int:
        """The number of a channel in the result."""
        channel = row.channel
        name = channel.metadata.get("channel", channel.topic)
        if name not in self.channels:
            topic = channel.topic
            while topic in self._topics:
                topic += "_"
            self._topics.add(topic)
            self.channels[name] = len(self.channels)
            kind = self._parts[row.machine].tracks[channel.topic].kind
            self._writer.define(
                self.channels[name], topic, kind, definition_of(kind), channel.metadata
            )
        return self.channels[name]

    def _progress(self) -> dict[str, Any]:
        """How far all parts are: a frame has ended when all that have its app say so."""
        notes = self._notes
        apps = {name: None for part in self._parts.values() for name in part.decisions.frames}
        having = {
            app: [m for m, part in self._parts.items() if app in part.decisions.frames]
            for app in apps
        }

        def least(what: str, app: str) -> int:
            return min(notes[m][what].get(app, 0) if m in notes else 0 for m in having[app])

        return {
            "ended": len(notes) == len(self._parts) and all(n["ended"] for n in notes.values()),
            "frames": {app: least("frames", app) for app in apps},
            "begun": {app: least("begun", app) for app in apps},
        }
