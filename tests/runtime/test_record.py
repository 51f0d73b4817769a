"""Recordings of programs: what other readers find in them, and what a replay does with them."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import struct
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest
from flowc.runtime import record, recorded_file
from flowc.runtime.options import Mistake
from flowc.runtime.record import DECISIONS, wanted
from flowc.runtime.recorded_file import RecordedFile
from mcap.reader import make_reader
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType, Writer
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader

import random_recordings
from builds import Write, run
from forks import PROGRAM, forks
from limits import HANGS

TEXT = (
    random_recordings.TASKS
    + """
app A { c: Number(last = 60, sleep = 0.002) every 2 ms drop oldest 2  o: One  q: Sum  e: End  c -> o -> q -> e }
app B { p: Look(last = 40, sleep = 0.001)  m: Mean  e: Seen  p -> m -> e }
app L { p: List(last = 40, sleep = 0.001)  o: One  m: Total  e: End  p -> o -> m -> e }
app F { p: Four(last = 20, sleep = 0.001)  o: One  f: Fails  q: Sum  e: End  p -> o -> f -> q -> e }
app R { c: Number(last = 60, sleep = 0.002)  a: Add  q: Sum  e: End  A.o -> latest -> a.a  c -> a.b  a -> q -> e }
app S { q: Sum  e: End  A.q -> drop oldest 2 -> q -> e }
"""
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program with all that is decided while it runs, and its recording."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "a.flow").write_text(TEXT)
    (folder / "t.py").write_text(random_recordings.CODE)
    flowc.build(folder / "a.flow", folder / "b", platform="two", measure=False)
    file = folder / "run.mcap"
    done = run(folder / "b", "--record", str(file))
    assert done.returncode == 0, done.stderr
    assert f"are in {file}" in done.stderr
    return folder / "b", file


def said(done: subprocess.CompletedProcess[str]) -> str:
    """What a replay says, without frames that were left out."""
    left_out = ("skipped", "left out")
    lines = done.stderr.splitlines()
    return "\n".join(line for line in lines if not any(words in line for words in left_out))


def messages(file: Path) -> list[tuple[Any, Any, Any]]:
    """Channels, messages and what they say, read by the package `mcap`."""
    with file.open("rb") as stream:
        reader = make_reader(stream, validate_crcs=True, decoder_factories=[DecoderFactory()])
        return [(channel, m, said) for _, channel, m, said in reader.iter_decoded_messages()]


# -- what is in the file ---------------------------------------------------------------------------
def test_readers_of_mcap_and_ros_find_all_tokens(made: tuple[Path, Path]) -> None:
    found = Counter(channel.topic for channel, _, _ in messages(made[1]))
    assert found["/B/p/x"] == found["/B/m/y"] == 40
    assert found["/F/p/x"] == found["/F/o/y"] == 80 and 20 < found["/F/f/y"] < 80
    # on a busy machine A may have ended before R looks for the first time
    assert 0 < found["/A/c/x"] <= 60 and found["/R/a/y"] <= 60
    with AnyReader([made[1]]) as reader:
        again = Counter(connection.topic for connection, _, _ in reader.messages())
        for connection, _, raw in reader.messages():
            reader.deserialize(raw, connection.msgtype)
    assert again == found


def test_pictures_are_images_and_other_tokens_arrays_with_their_shape(
    made: tuple[Path, Path],
) -> None:
    pictures = [said for channel, _, said in messages(made[1]) if channel.topic == "/B/p/x"]
    means = [said for channel, _, said in messages(made[1]) if channel.topic == "/B/m/y"]
    assert {(p.height, p.width, p.encoding, p.step) for p in pictures} == {(12, 16, "rgb8", 48)}
    # what a task made of each picture is what another reader makes of it
    for picture, mean in zip(pictures, means, strict=True):
        pixels = np.frombuffer(picture.data, np.uint8)
        assert list(mean.data) == [np.float32(pixels.mean() / 3)] and not mean.layout.dim
    assert {(c.topic, c.metadata["channel"], c.metadata["dtype"]) for c, _, _ in messages(made[1])
            if c.topic == "/B/p/x"} == {("/B/p/x", "B.p.x", "uint8")}  # fmt: skip


def test_messages_have_their_number_their_time_and_their_release(
    write: Write, tmp_path: Path
) -> None:
    flow = write(
        random_recordings.TASKS
        + "app A { period 10 ms  p: Four(last = 9, sleep = 0.0)  o: One  e: End  p -> o -> e }",
        t_py=random_recordings.CODE,
    )
    flowc.build(flow, tmp_path / "b", platform="two", measure=False)
    assert run(tmp_path / "b", "--record", str(tmp_path / "r"), "--quiet").returncode == 0
    rows = [
        (m.sequence, m.publish_time, m.log_time)
        for c, m, _ in messages(tmp_path / "r")
        if c.topic == "/A/o/y"
    ]
    assert sorted(number for number, _, _ in rows) == list(range(36))
    releases = [publish for _, publish, _ in sorted(rows)[::4]]
    assert {b - a for a, b in pairwise(releases)} == {10_000_000}
    assert all(log > publish for _, publish, log in rows)


def test_channels_are_chosen_by_patterns(made: tuple[Path, Path], tmp_path: Path) -> None:
    done = run(made[0], "--record", str(tmp_path / "r"), "--channels", "m.y, A.*")
    assert done.returncode == 0, done.stderr
    topics = {channel.topic for channel, _, _ in messages(tmp_path / "r")} - {"/flowc/decisions"}
    assert topics == {"/B/m/y", "/L/m/y", "/A/c/x", "/A/o/y", "/A/q/y"}
    assert wanted(["A.cam[0].x", "A.cam[1].x"], "cam[1].x") == ["A.cam[1].x"]
    done = run(made[0], "--record", str(tmp_path / "r"), "--channels", "camera.x")
    assert done.returncode == 2 and "there is no channel `camera.x`; there is A.c.x," in done.stderr
    done = run(made[0], "--channels", "m.y")
    assert done.returncode == 2 and "it is about --record FILE" in done.stderr


# -- replays ---------------------------------------------------------------------------------------
def test_a_replay_is_equal_bit_for_bit(made: tuple[Path, Path]) -> None:
    done = run(made[0], "--replay", str(made[1]))
    assert done.returncode == 0, done.stderr
    assert " of 11 channels equal, bit for bit" in done.stderr
    whole, tokens = (
        int(n.replace(",", "")) for n in said(done).split("flowc: ")[-1].split()[0:3:2]
    )
    sources = ("/A/c/x", "/B/p/x", "/L/p/x", "/F/p/x", "/R/c/x", "/flowc/decisions")
    assert whole == tokens == sum(c.topic not in sources for c, _, _ in messages(made[1]))
    quiet = run(made[0], "--replay", str(made[1]), "--quiet")
    assert quiet.returncode == 0 and said(quiet) == ""


def test_a_replay_names_the_first_difference(made: tuple[Path, Path], tmp_path: Path) -> None:
    changed = shutil.copytree(made[0], tmp_path / "b")
    code = (changed / "tasks/t.py").read_text()
    (changed / "tasks/t.py").write_text(
        code.replace("return np.float32(p.mean() / 3)", "return np.float32(p.mean() / 3 + (p[0, 0, 0] > 99) / 8)")
    )  # fmt: skip
    done = run(changed, "--replay", str(made[1]))
    assert done.returncode == 1
    pictures = [s for c, _, s in messages(made[1]) if c.topic == "/B/p/x"]
    other = [k for k, picture in enumerate(pictures) if picture.data[0] > 99]
    line = next(line for line in done.stderr.splitlines() if "first difference" in line)
    assert line.startswith(f"flowc: first difference: B.m.y token {other[0]}, largest 0.125")
    assert f"({len(other)} of 40 differ)" in line


def test_a_recording_fits_its_program_alone(made: tuple[Path, Path], tmp_path: Path) -> None:
    for name, reason in (
        ("other", "is a recording of `a`, and this program is `other`; as a bag it feeds any"),
        ("a", "B.p.x is uint8[12, 16, 3] in"),
    ):
        (tmp_path / f"{name}.flow").write_text(TEXT.replace("uint8[12, 16, 3]", "uint8[12, 17, 3]"))
        (tmp_path / "t.py").write_text(random_recordings.CODE)
        flowc.build(tmp_path / f"{name}.flow", tmp_path / name, platform="two", measure=False)
        done = run(tmp_path / name, "--replay", str(made[1]))
        assert done.returncode == 2 and reason in done.stderr


def test_sources_that_are_not_recorded_are_executed(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    file = tmp_path / "r"
    assert run(made[0], "--record", str(file), "--channels", "A.*,S.*", "--quiet").returncode == 0
    done = run(made[0], "--replay", str(file))
    assert done.returncode == 0, done.stderr
    assert "not in the recording, and executed: B.p, L.p, F.p, R.c" in done.stderr
    assert "of 3 channels equal, bit for bit" in done.stderr


def test_parameters_are_those_of_the_recording(write: Write, tmp_path: Path) -> None:
    text = "task Src { out x: int64  python 't.py:src' }  task Add(more: int = 1) { in x: int64  out y: int64  python 't.py:add' }"
    text += " task End { in x: int64  python 't.py:end' }  app A { s: Src  a: Add  e: End  s -> a -> e }"
    code = "def src(): return 1\ndef add(x, more): return x + more\ndef end(x): pass\n"
    flow = write(text.replace("'", '"'), t_py=code)
    flowc.build(flow, tmp_path / "b", measure=False)
    words = ["--frames", "5", "--quiet", "--set", "A.a.more=7"]
    assert run(tmp_path / "b", *words, "--record", str(tmp_path / "r")).returncode == 0
    assert (
        "5 of 5 tokens of 1 channel equal"
        in run(tmp_path / "b", "--replay", str(tmp_path / "r")).stderr
    )
    other = run(tmp_path / "b", "--replay", str(tmp_path / "r"), "--set", "A.a.more=9")
    assert other.returncode == 1 and "token 0, largest 2 (5 of 5 differ)" in other.stderr


def test_random_apps_do_the_same_again(tmp_path: Path) -> None:
    """Two of them have states."""
    for seed in (0, 3, 8):
        folder = tmp_path / str(seed)
        folder.mkdir()
        program = random_recordings.built(folder, random.Random(seed), 60)
        assert run(program, "--quiet", "--record", str(folder / "r")).returncode == 0
        done = run(program, "--replay", str(folder / "r"))
        assert done.returncode == 0 and "equal, bit for bit" in done.stderr, done.stderr


@pytest.mark.parametrize("writer", [True, False])
def test_what_a_killed_program_has_recorded_is_replayed(tmp_path: Path, writer: bool) -> None:
    rng = random.Random(4 + writer)
    program = random_recordings.built(tmp_path, rng, 1_000_000)
    content = random_recordings.killed(program, tmp_path / "r", rng, writer)
    # without its writer a file ends somewhere, and every chunk that is whole is read
    whole = content.endswith(b"\x89MCAP0\r\n")
    assert whole or writer
    done = run(program, "--replay", str(tmp_path / "r"))
    assert done.returncode == 0 and "equal, bit for bit" in done.stderr, done.stderr
    assert ("is replayed as far as it goes" in done.stderr) == (not whole)


# -- files that are not as they should be ----------------------------------------------------------
def test_files_that_cannot_be_written_are_found_at_the_start(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    done = run(made[0], "--record", str(tmp_path / "no" / "r"))
    assert done.returncode == 1 and "No such file or directory" in done.stderr
    os.mkfifo(tmp_path / "pipe")
    for path, reason in (
        (tmp_path, "Is a directory"),
        ("/dev/null", "is no file"),
        (tmp_path / "pipe", "No such device"),
    ):
        done = run(made[0], "--record", str(path))
        assert done.returncode in (1, 2) and reason in done.stderr and not done.stdout
    done = run(made[0], "--record", str(made[1]), "--replay", str(made[1]))
    assert done.returncode == 2 and "would overwrite" in done.stderr


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    with pytest.raises(
        Mistake, match=r"--record needs the package no_mcap: pip install 'flowc\[record\]'"
    ):
        record.require("no_mcap", "--record")


def read(content: bytes, path: Path) -> RecordedFile | None:
    """A file with that content; None where it is refused in words."""
    path.write_bytes(content)
    try:
        found = RecordedFile(str(path))
    except Mistake as mistake:
        assert str(path) in str(mistake)
        return None
    for track in found.tracks.values():
        for place in range(0, len(track.numbers), 17):
            found.message(track, place)
    return found


def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    content = made[1].read_bytes()
    rng, before = random.Random(1), -1
    for size in sorted(rng.sample(range(8, len(content)), 60)):
        found = read(content[:size], tmp_path / "cut")
        assert found is not None
        count = sum(len(track.numbers) for track in found.tracks.values())
        assert count >= before
        before = count
    assert before > 0


def test_damaged_files_are_refused_or_read(made: tuple[Path, Path], tmp_path: Path) -> None:
    content, rng = bytearray(made[1].read_bytes()), random.Random(2)
    refused = 0
    for _ in range(100):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 1, 20])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        refused += read(bytes(damaged), tmp_path / "damaged") is None
    assert refused > 50  # chunks have checksums
    for other in (b"", b"{}", b"\x89MCAP0\r\n" + bytes(50), os.urandom(500)):
        read(other, tmp_path / "damaged")


def rewritten(source: Path, target: Path, compression: CompressionType) -> None:
    """The same in a file of another writer."""
    with source.open("rb") as stream, target.open("wb") as out:
        writer = Writer(out, compression=compression)
        writer.start("ros2", "another")
        ids: dict[tuple[str, int], int] = {}
        for found in StreamReader(stream).records:
            kind = type(found).__name__
            if kind == "Schema" and ("s", found.id) not in ids:
                ids["s", found.id] = writer.register_schema(found.name, found.encoding, found.data)
            elif kind == "Channel" and ("c", found.id) not in ids:
                schema = ids["s", found.schema_id]
                ids["c", found.id] = writer.register_channel(
                    found.topic, "cdr", schema, found.metadata
                )
            elif kind == "Message":
                writer.add_message(
                    ids["c", found.channel_id],
                    found.log_time,
                    found.data,
                    found.publish_time,
                    found.sequence,
                )
            elif kind == "Metadata":
                writer.add_metadata(found.name, found.metadata)
        writer.finish()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("compression", [CompressionType.ZSTD, CompressionType.LZ4])
def test_files_that_others_have_compressed_are_replayed(
    made: tuple[Path, Path], tmp_path: Path, compression: CompressionType
) -> None:
    rewritten(made[1], tmp_path / "r", compression)
    assert (tmp_path / "r").stat().st_size < made[1].stat().st_size
    done = run(made[0], "--replay", str(tmp_path / "r"))
    assert done.returncode == 0 and "equal, bit for bit" in done.stderr


def test_a_chunk_that_becomes_larger_than_it_says_is_refused(tmp_path: Path) -> None:
    import zstandard

    bomb = zstandard.compress(bytes(1 << 30))
    head = struct.pack("<QQQI", 0, 0, 100, 0) + struct.pack("<I", 4) + b"zstd"
    chunk = head + struct.pack("<Q", len(bomb)) + bomb
    header = b"\x01" + struct.pack("<Q", 8) + bytes(8)
    content = b"\x89MCAP0\r\n" + header + b"\x06" + struct.pack("<Q", len(chunk)) + chunk
    path = tmp_path / "bomb"
    path.write_bytes(content)
    with pytest.raises(
        Mistake, match="is damaged at byte 25: a chunk has 101 bytes instead of 100"
    ):
        RecordedFile(str(path))
    assert recorded_file.MOST_CHUNK < 1 << 30


def packed(content: bytes) -> bytes:
    """A chunk, compressed."""
    import zstandard

    data = zstandard.compress(content)
    head = struct.pack("<QQQI", 0, 0, len(content), 0) + word(b"zstd")
    return entry(6, head + struct.pack("<Q", len(data)) + data)


def entry(kind: int, content: bytes = b"") -> bytes:
    """A record of a file."""
    return struct.pack("<BQ", kind, len(content)) + content


def word(text: bytes) -> bytes:
    """A text with its size before it."""
    return struct.pack("<I", len(text)) + text


MAGIC = b"\x89MCAP0\r\n" + entry(1, word(b"ros2") + word(b"x"))
CHANNELS = b"".join(
    entry(4, struct.pack("<HH", k, 0) + word(topic) + word(b"cdr") + word(about))
    for k, (topic, about) in enumerate(
        [(b"/x", b""), (DECISIONS.encode(), word(b"version") + word(b"1"))]
    )
)
SAYS = entry(12, word(b"flowc") + word(word(b"program") + word(b"x")))


def message(channel: int, data: bytes = b"") -> bytes:
    """A message without times."""
    return entry(5, struct.pack("<HIQQ", channel, 0, 0, 0) + data)


def schemas(number: int) -> bytes:
    """A chunk of descriptions."""
    made = (struct.pack("<H", number + k) + word(bytes(1 << 20)) + word(b"") * 2 for k in range(9))
    return packed(b"".join(entry(3, content) for content in made))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (packed(message(0) * 200_000), "more than 10[0-9],[0-9]+ records"),
        (packed(entry(0x90) * 200_000), "more than 10[0-9],[0-9]+ records"),
        (b"".join(map(schemas, range(0, 36, 9))), "bytes of descriptions"),
        (packed(message(1, bytes(17 << 20))), "a decision of 17825792 bytes"),
        (packed(entry(0x90, bytes(99 << 20))) * 12, "bytes of chunks"),
        (packed(bytes(1000)), "a record of no kind"),
    ],
    ids=["messages", "unknown", "schemas", "decision", "chunks", "zeros"],
)
def test_a_file_has_no_more_in_it_than_its_size_allows(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "made.mcap"
    path.write_bytes(MAGIC + SAYS + CHANNELS + content)
    with pytest.raises(Mistake, match=reason):
        RecordedFile(str(path))


def test_holes_of_a_file_are_not_walked_through(tmp_path: Path) -> None:
    path = tmp_path / "sparse.mcap"
    path.write_bytes(MAGIC + SAYS + CHANNELS + message(0))
    size = path.stat().st_size
    os.truncate(path, 1 << 40)
    found = RecordedFile(str(path))
    assert found.cut == f"nothing was written from byte {size} on"
    assert len(found.tracks["/x"].numbers) == 1
    with pytest.raises(Mistake, match="cannot be read as a bag of ROS 2: nothing was written"):
        found.require_index()
    path.write_bytes(MAGIC + struct.pack("<BQ", 5, 1 << 39))
    os.truncate(path, 1 << 40)
    with pytest.raises(Mistake, match="a record of 549755813888 bytes"):
        RecordedFile(str(path))


def test_reading_has_a_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_file, "SECONDS", -1.0)
    monkeypatch.setattr(recorded_file, "SECONDS_PER_MB", 0.0)
    (tmp_path / "slow").write_bytes(MAGIC + packed(entry(0x90)))
    with pytest.raises(Mistake, match="and more than is read in -1 s"):
        RecordedFile(str(tmp_path / "slow"))


@pytest.mark.parametrize("wrong", ["", "elsewhere", "chunk", "index"])
def test_an_index_names_what_is_in_the_file(tmp_path: Path, wrong: str) -> None:
    """Another reader unpacks what the index names."""
    bomb = packed(bytes(9999))
    begin = MAGIC + CHANNELS + packed(message(0))
    attachment = entry(9, bytes(20) + bomb)
    data = begin + attachment + entry(15, bytes(4))
    named = bomb if wrong == "index" else packed(message(0))
    at = len(begin) + 9 + 20 if wrong == "index" else len(MAGIC + CHANNELS)
    (unpacked,) = struct.unpack_from("<Q", named, 9 + 16)
    sizes = struct.pack("<QQ", len(named) - 9 - 44, unpacked)
    where = struct.pack("<QQQQ", 0, 9, at, len(named)) + word(b"") + struct.pack("<Q", 0)
    index = entry(8, where + word(b"zstd") + sizes)
    if wrong == "chunk":
        index += bomb
    start = len(data) + (wrong == "elsewhere")
    footer = entry(2, struct.pack("<QQI", start, 0, 0)) + MAGIC[:8]
    (tmp_path / "made.mcap").write_bytes(data + index + footer)
    found = RecordedFile(str(tmp_path / "made.mcap"))
    if not wrong:
        found.require_index()
        return
    reason = {
        "elsewhere": "the index begins elsewhere",
        "chunk": "a message behind the end of the data",
        "index": "the index names a chunk that is not there",
    }[wrong]
    with pytest.raises(Mistake, match=reason):
        found.require_index()


# -- when the file is not written in time ----------------------------------------------------------
def recorded_with(change: str, program: Path, file: Path) -> subprocess.CompletedProcess[str]:
    """Record 20 frames, with a change of the module `record`."""
    script = file.parent / "script.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(program)!r})\nfrom runtime import command, record\n"
        f"import main\n{change}\n"
        "sys.exit(command.main(main.program, sys.argv[1:]))\n"
    )
    words = ["--frames", "20", "--full-speed", "--record", file]
    return forks(*PROGRAM).run([script, *words], cwd="/", timeout=HANGS)


def test_firings_wait_where_much_waits_to_be_written(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    slow = "import time\nwrite = record.Recorder._write\n"
    slow += "record.Recorder._write = lambda self, data: (time.sleep(0.005), write(self, data))\n"
    done = recorded_with(slow + "record.MOST_WAITING = 2000", made[0], tmp_path / "r")
    assert done.returncode == 0 and "; firings waited " in done.stderr, done.stderr
    counts = Counter(channel.topic for channel, _, _ in messages(tmp_path / "r"))
    assert counts["/B/p/x"] == counts["/B/m/y"] == 20 and counts["/F/o/y"] == 80


def test_what_cannot_be_written_is_counted_and_told(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    """The process that writes is gone, or stands still."""
    start = "start = record._started\ndef started(file):\n    process = start(file)\n    process."
    end = "\n    return process\nrecord._started = started\nrecord.PATIENCE = 0.3\n"
    gone = recorded_with(start + "kill(); process.wait()" + end, made[0], tmp_path / "r")
    still = "record.MOST_WAITING = 2000\nrecord.PIPE = 4096"
    stands = recorded_with(start + "send_signal(19)" + end + still, made[0], tmp_path / "r")
    for done, reason in ((gone, "its process has ended"), (stands, "nothing could be written")):
        assert done.returncode == 1
        assert f"the recording {tmp_path / 'r'} is not complete: {reason}" in done.stderr
        assert re.search(r"; \d+ tokens are missing", done.stderr), done.stderr


def test_decisions_are_readable(made: tuple[Path, Path]) -> None:
    told = [json.loads(s.data) for c, _, s in messages(made[1]) if c.topic == "/flowc/decisions"]
    found = sum(c.topic == "/R/a/y" for c, _, _ in messages(made[1]))
    assert found <= sum(t.get("reader") == "R.from_A_o" for t in told)
    lists = [t["lists"] for t in told if t.get("task") == "L.p"]
    assert len(lists) == 40 and all(0 <= length <= 4 for (length,) in lists)
    assert told[-1]["ended"] or any(t.get("ended") for t in told)
