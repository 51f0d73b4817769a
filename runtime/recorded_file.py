"""A file in the format MCAP, read with limits: what is in it, and where.

In: a path. Out: `RecordedFile`, with a `Track` for each topic, from which messages are read one by
one, and with what a recorder has noted of decisions (record.py). The file is not trusted: sizes are
checked before anything is read; records, the memory that they take and the time that they need are
limited by the bytes that the file has on its disk; a damaged file is a `Mistake`. One that ends too
early, as those of programs that were killed do, is read as far as it goes.
"""

from __future__ import annotations

import io
import json
import os
import stat
import struct
import threading
import time
import zlib
from array import array
from collections import OrderedDict
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from .options import Mistake
from .record import DECISIONS, require
from .ros_messages import text_in

MAGIC = b"\x89MCAP0\r\n"
#: Kinds of records.
_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _CHUNK_INDEX = 2, 3, 4, 5, 6, 8
_ATTACHMENT, _METADATA, _DATA_END = 9, 12, 15
_HEAD = struct.Struct("<BQ")
#: Of a message: channel, sequence number, time of the log, time of publication.
_MESSAGE_HEAD = struct.Struct("<HIQQ")
#: Of a chunk: first and last time, size, checksum, and the length of the name of its compression.
_CHUNK_HEAD = struct.Struct("<QQQII")
#: Bytes of the largest chunk and of the largest other record; topics; messages.
MOST_CHUNK, MOST_RECORD, MOST_TOPICS, MOST_MESSAGES = 256 << 20, 16 << 20, 4096, 20_000_000
#: Records that any file may have, and the bytes on the disk for each further one. (A message takes
#: at least 5 when it is compressed: its number and its times are others than those before.)
ANY_RECORDS, RECORD_BYTES = 100_000, 4
#: Bytes of texts (all records but messages, and decisions) for each byte on the disk, and more.
TEXT_RATIO = 16
#: Bytes of chunks that any file may have, and for each byte on the disk. Those that are unpacked
#: count once, those that are packed so often: they are on the disk, which packs them less.
ANY_CHUNKS, CHUNK_RATIO, PACKED = 1 << 30, 1000, 16
#: Seconds of computing that any file may take, and that it may take for each megabyte on the disk.
SECONDS, SECONDS_PER_MB = 5.0, 10.0
#: Bytes of chunks that are kept in memory.
KEPT = 64 << 20
#: A number that is none.
NONE = -1
_LARGEST = 1 << 62


class Track:
    """The messages of a topic, in the order in which they were recorded."""

    def __init__(self, topic: str, kind: str, metadata: Dict[str, str]) -> None:
        self.topic, self.kind, self.metadata = topic, kind, metadata
        self._numbers, self._chunks = array("q"), array("q")
        self._starts, self._sizes, self._orders = array("q"), array("q"), array("q")
        #: Once all of them are known: numbers of tokens, in order, each once, and where its message
        #: is among all of the topic.
        self.numbers = np.zeros(0, np.int64)
        self._places = np.zeros(0, np.int64)

    def add(self, sequence: int, chunk: int, start: int, size: int, order: int) -> None:
        """One more message. Sequence numbers have 32 bits: a number is the nearest to the last."""
        last = self._numbers[-1] if self._numbers else 0
        number = last + ((sequence - last + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
        self._numbers.append(max(0, number))
        self._chunks.append(chunk)
        self._starts.append(start)
        self._sizes.append(size)
        self._orders.append(order)

    def complete(self) -> None:
        """All are known. Of messages with one number the last one counts: a source may have made a
        token that a change of state has cut off, and then another one in its place."""
        backwards = np.array(self._numbers, np.int64)[::-1]
        self.numbers, places = np.unique(backwards, return_index=True)
        self._places = len(backwards) - 1 - places

    def place(self, number: int) -> int:
        """Where a token is among `numbers`, or NONE."""
        place = int(np.searchsorted(self.numbers, number))
        there = place < len(self.numbers) and self.numbers[place] == number
        return place if there else NONE

    def order(self, place: int) -> int:
        """Which of all messages of the file it is."""
        return self._orders[int(self._places[place])]

    def where(self, place: int) -> Tuple[int, int, int]:
        """The chunk of a token, where its message begins there, and its size."""
        k = int(self._places[place])
        return self._chunks[k], self._starts[k], self._sizes[k]


class Decisions:
    """What was decided while a program was recorded."""

    def __init__(self) -> None:
        self._takes: Dict[str, Tuple[Any, Any]] = {}
        #: Of sources: firings that were left out (None), or the lengths of lists at each port.
        self.lists: Dict[str, Dict[int, Optional[List[Optional[int]]]]] = {}
        #: Frames of each app that had ended, and begun.
        self.frames: Dict[str, int] = {}
        self.begun: Dict[str, int] = {}
        self.stays: List[Tuple[str, Dict[str, int]]] = []
        #: When the program began, in ns since 1970; 0: not known.
        self.began = 0
        #: Is it all that the program did?
        self.ended = False

    def add(self, told: Dict[str, Any]) -> None:
        """One more. Raises ValueError, TypeError and LookupError for what is none."""
        if "took" in told:
            firings, numbers = self._takes.setdefault(str(told["reader"]), (array("q"), array("q")))
            firings.append(_number(told["firing"]))
            numbers.append(NONE if told["took"] is None else _number(told["took"]))
        elif "lists" in told:
            lengths = told["lists"]
            if lengths is not None:
                lengths = [None if n is None else _number(n) for n in lengths]
            self.lists.setdefault(str(told["task"]), {})[_number(told["firing"])] = lengths
        elif "frames" in told:
            self.frames, self.begun = _numbers(told["frames"]), _numbers(told["begun"])
            self.ended = bool(told["ended"])
            self.began = _number(told.get("began", self.began))
            if "stays" in told:
                del self.stays[_number(told["after"]) :]
                self.stays += [(str(s["state"]), _numbers(s["frames"])) for s in told["stays"]]

    def takes(self, reader: str) -> Optional[Tuple[np.ndarray, np.ndarray]]:
        """The firings of a reader and the token that each found (NONE: none yet); None where
        nothing is known of it."""
        if reader not in self._takes:
            return None
        firings, numbers = (np.array(a, np.int64) for a in self._takes[reader])
        own, places = np.unique(firings[::-1], return_index=True)
        return own, numbers[::-1][places]


def _number(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < _LARGEST:
        raise ValueError("%r is no number" % (value,))
    return value


def _numbers(value: Dict[str, Any]) -> Dict[str, int]:
    return {str(name): _number(number) for name, number in value.items()}


class RecordedFile:
    """A file, of which everything is known but the messages themselves. Raises Mistake."""

    def __init__(self, path: str) -> None:
        require("mcap", "--replay")
        self.path = path
        self.tracks: Dict[str, Track] = {}
        #: What the recorder has said of the program; empty: another program has written the file.
        self.about: Dict[str, str] = {}
        self.decisions = Decisions()
        #: Why it is not whole, in words; and the bytes from its beginning that are.
        self.cut, self.whole = "", 0
        #: The latest time of a message, in ns since 1970.
        self.last = 0
        self._schemas: Dict[int, str] = {}
        self._channels: Dict[int, Track] = {}
        self._chunks: List[Tuple[int, int, int, str]] = []
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._count = self._records = self._texts = self._contents = 0
        self._begin = time.thread_time()
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            about = os.fstat(self._file)
            if not stat.S_ISREG(about.st_mode):
                raise Mistake("--replay: %s is no file" % path)
            self._size = about.st_size
            #: Bytes on the disk: a file may have holes.
            self._stored = min(self._size, 512 * about.st_blocks) or self._size
            with os.fdopen(os.dup(self._file), "rb") as stream:
                self._scan(stream)
        except OSError as error:
            raise Mistake("cannot read %s: %s" % (path, error.strerror)) from None
        for track in self.tracks.values():
            track.complete()

    def message(self, track: Track, place: int) -> memoryview:
        """The bytes of a message. Raises ValueError where the file has changed meanwhile."""
        chunk, start, size = track.where(place)
        if chunk == NONE:
            data = os.pread(self._file, size, start)
            if len(data) < size:
                raise ValueError("the file has become shorter")
            return memoryview(data)
        return memoryview(self._chunk(chunk))[start : start + size]

    def close(self) -> None:
        """No message is read any more."""
        os.close(self._file)

    def _chunk(self, number: int) -> bytes:
        with self._lock:
            data = self._kept.get(number)
            if data is not None:
                self._kept.move_to_end(number)
                return data
            start, stored, size, compression = self._chunks[number]
            data = _decompressed(os.pread(self._file, stored, start), compression, size)
            self._kept[number] = data
            while len(self._kept) > 1 and sum(map(len, self._kept.values())) > KEPT:
                self._kept.popitem(last=False)
            return data

    # -- once through the file ---------------------------------------------------------------------
    def _scan(self, stream: Any) -> None:
        if stream.read(len(MAGIC)) != MAGIC:
            raise Mistake("%s is no recording in the format MCAP" % self.path)
        while True:
            begin = self.whole = stream.tell()
            head = stream.read(_HEAD.size)
            if len(head) < _HEAD.size:
                self.cut = "it ends after %d bytes, before its end" % begin
                return
            kind, size = _HEAD.unpack(head)
            start = begin + _HEAD.size
            if start + size > self._size:
                self.cut = "it ends in the middle of what was written last, at byte %d" % begin
                return
            if kind == _DATA_END:
                return
            if not kind:  # as a file system leaves a file that was not written in time
                self.cut = "nothing was written from byte %d on" % begin
                return
            self._count_record(kind, size)
            if kind != _ATTACHMENT and size > _most(kind):
                raise self._damaged(begin, "a record of %d bytes" % size)
            if kind not in (_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _METADATA):
                stream.seek(size, 1)
                continue
            try:
                if kind == _CHUNK:
                    self._count_content(PACKED * size)
                    self._read_chunk(stream.read(size), start)
                else:
                    self._read_record(kind, stream.read(size), NONE, start)
            except Mistake:
                raise
            except (ValueError, LookupError, struct.error, TypeError, RecursionError) as error:
                raise self._damaged(begin, str(error)) from None
            except Exception as error:  # of the package, where a record ends too early
                raise self._damaged(begin, type(error).__name__) from None

    def _count_record(self, kind: int, size: int) -> None:
        """One more record. Raises Mistake where a file of this size cannot have so many."""
        self._records += 1
        if kind in (_SCHEMA, _CHANNEL, _METADATA):
            self._count_text(size)
        if self._records > ANY_RECORDS + self._stored // RECORD_BYTES:
            raise self._too_much("%s records" % format(self._records - 1, ","))
        if self._records % 1024 == 0 or kind == _CHUNK:
            took = time.thread_time() - self._begin
            most = SECONDS + SECONDS_PER_MB * self._stored / 1e6
            if took > most:
                raise self._too_much("is read in %.0f s" % most)

    def _count_content(self, size: int) -> None:
        """So many more bytes of chunks. Raises Mistake."""
        self._contents += size
        if self._contents > ANY_CHUNKS + CHUNK_RATIO * self._stored:
            raise self._too_much("%s bytes of chunks" % format(self._contents, ","))

    def _count_text(self, size: int) -> None:
        """So many more bytes of texts. Raises Mistake."""
        self._texts += size
        if self._texts > MOST_RECORD + TEXT_RATIO * self._stored:
            raise self._too_much("%s bytes of descriptions" % format(self._texts, ","))

    def _too_much(self, what: str) -> Mistake:
        return Mistake(
            "%s has %s bytes on the disk and more than %s: no recording is packed so"
            " (`mcap decompress` unpacks one)" % (self.path, format(self._stored, ","), what)
        )

    def require_index(self) -> None:
        """Raises Mistake where another reader, which trusts the index at the end of the file, might
        read anything but what was checked here."""
        if self.cut:
            raise Mistake("%s cannot be read as a bag of ROS 2: %s" % (self.path, self.cut))
        size = self._size - self.whole
        if size > MOST_CHUNK:
            raise self._damaged(self.whole, "an index of %d bytes" % size)
        index = os.pread(self._file, size, self.whole)
        known = {(start, stored, size) for start, stored, size, _ in self._chunks}
        begins = {0}
        try:
            for kind, start, end in _records(index[: -len(MAGIC)]):
                self._count_record(kind, end - start)
                begins.add(self.whole + start - _HEAD.size)
                if kind == _CHUNK_INDEX and _indexed(index[start:end]) not in known:
                    raise ValueError("the index names a chunk that is not there")
                if kind == _FOOTER and struct.unpack_from("<Q", index, start)[0] not in begins:
                    raise ValueError("the index begins elsewhere")
                if kind in (_MESSAGE, _CHUNK):
                    raise ValueError("a message behind the end of the data")
        except (ValueError, struct.error) as error:
            raise self._damaged(self.whole, str(error)) from None

    def _damaged(self, at: int, reason: str) -> Mistake:
        return Mistake("%s is damaged at byte %d: %s" % (self.path, at, reason[:200]))

    def _read_chunk(self, content: bytes, start: int) -> None:
        _, _, size, checksum, letters = _CHUNK_HEAD.unpack_from(content)
        at = _CHUNK_HEAD.size + letters
        compression = content[_CHUNK_HEAD.size : at].decode()
        (stored,) = struct.unpack_from("<Q", content, at)
        at += 8
        if at + stored > len(content) or size > MOST_CHUNK:
            raise ValueError("a chunk of %d bytes" % max(size, stored))
        self._count_content(size)
        data = _decompressed(content[at : at + stored], compression, size)
        if checksum and zlib.crc32(data) != checksum:
            raise ValueError("the checksum of a chunk is another one")
        number = len(self._chunks)
        self._chunks.append((start + at, stored, size, compression))
        for kind, begin, end in _records(data):
            self._count_record(kind, end - begin)
            if kind in (_SCHEMA, _CHANNEL, _MESSAGE):
                content = data if kind == _MESSAGE else data[begin:end]
                self._read_record(kind, content, number, begin, end)

    def _read_record(
        self, kind: int, content: bytes, chunk: int, start: int, end: Optional[int] = None
    ) -> None:
        from mcap.data_stream import ReadDataStream
        from mcap.records import Channel, Metadata, Schema

        if kind == _MESSAGE:
            self._read_message(content, chunk, start, end)
            return
        stream = ReadDataStream(io.BytesIO(content))
        if kind == _SCHEMA:
            schema = Schema.read(stream)
            self._schemas[schema.id] = schema.name
        elif kind == _METADATA:
            metadata = Metadata.read(stream)
            if metadata.name == "flowc":
                self.about = metadata.metadata
        else:
            channel = Channel.read(stream)
            known = self.tracks.get(channel.topic)
            if known is None:
                if len(self.tracks) >= MOST_TOPICS:
                    raise ValueError("more than %d topics" % MOST_TOPICS)
                kind_of = self._schemas.get(channel.schema_id, "")
                known = Track(channel.topic, kind_of, channel.metadata)
                self.tracks[channel.topic] = known
            self._channels[channel.id] = known

    def _read_message(self, content: bytes, chunk: int, start: int, end: Optional[int]) -> None:
        """`content`: the chunk in which it lies from `start` to `end`, or itself."""
        begin = start if chunk != NONE else 0
        end = len(content) if end is None else end
        if begin + _MESSAGE_HEAD.size > end:
            raise ValueError("a message of %d bytes" % (end - begin))
        channel, sequence, log, _ = _MESSAGE_HEAD.unpack_from(content, begin)
        track = self._channels[channel]
        self._count += 1
        self.last = max(self.last, log)
        if self._count > MOST_MESSAGES:
            raise Mistake(
                "%s has more than %s messages: record fewer channels"
                % (self.path, format(MOST_MESSAGES, ","))
            )
        size = end - begin - _MESSAGE_HEAD.size
        if track.topic == DECISIONS and track.metadata.get("version"):
            if size > MOST_RECORD:
                raise ValueError("a decision of %d bytes" % size)
            self._count_text(size)
            said = content[begin + _MESSAGE_HEAD.size : end]
            told = json.loads(text_in(said))
            try:
                self.decisions.add(told)
            except (TypeError, LookupError):
                raise ValueError("a decision is not what it should be") from None
        else:
            track.add(sequence, chunk, start + _MESSAGE_HEAD.size, size, self._count)


def _records(data: bytes) -> Iterator[Tuple[int, int, int]]:
    """The records in a chunk: their kind, where their content begins, and where it ends."""
    at = 0
    while at < len(data):
        kind, size = _HEAD.unpack_from(data, at)
        if not kind:
            raise ValueError("a record of no kind")
        at += _HEAD.size
        if at + size > len(data):
            raise ValueError("a record of %d bytes in a chunk of %d" % (size, len(data)))
        yield kind, at, at + size
        at += size


def _most(kind: int) -> int:
    """Bytes of the largest record of a kind."""
    return MOST_CHUNK if kind in (_CHUNK, _MESSAGE) else MOST_RECORD


def _indexed(content: bytes) -> Tuple[int, int, int]:
    """Of the chunk that a record of the index names: where its content begins, the bytes that it
    has in the file, and those that it becomes."""
    (begin,) = struct.unpack_from("<Q", content, 16)
    (offsets,) = struct.unpack_from("<I", content, 32)
    at = 36 + offsets + 8
    (letters,) = struct.unpack_from("<I", content, at)
    stored, size = struct.unpack_from("<QQ", content, at + 4 + letters)
    return begin + _HEAD.size + _CHUNK_HEAD.size + letters + 8, stored, size


def _decompressed(data: bytes, compression: str, size: int) -> bytes:
    """What a chunk holds, `size` bytes. Raises ValueError for anything else."""
    found = data
    try:
        if compression == "zstd":
            import zstandard

            decompressor = zstandard.ZstdDecompressor(max_window_size=MOST_CHUNK)
            with decompressor.stream_reader(data, read_across_frames=True) as stream:
                found = stream.read(size + 1)
        elif compression == "lz4":
            import lz4.frame

            found = lz4.frame.LZ4FrameDecompressor().decompress(data, size + 1)
        elif compression:
            raise ValueError("it is compressed by `%s`" % compression[:20])
    except ValueError:
        raise
    except Exception as error:  # of a package that is not there, or of what is damaged
        raise ValueError("%s: %s" % (type(error).__name__, error)) from None
    if len(found) != size:
        raise ValueError("a chunk has %d bytes instead of %d" % (len(found), size))
    return found
