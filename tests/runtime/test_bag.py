"""Bags of ROS 2 as sources of programs."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest
import zstandard
from flowc.runtime import bag as bags
from flowc.runtime import recorded_file
from flowc.runtime.options import Mistake
from flowc.runtime.ros_messages import IMAGE, token_in
from flowc.runtime.tokens import Port
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from builds import HANGS, Write, run

TYPES = get_typestore(Stores.ROS2_HUMBLE)
TEXT = """
type Picture = uint8[6, 8, 3]
task Camera { out image: Picture  live  python "t.py:never" }
task Odometer { out speed: float32[2]  python "t.py:never" }
task Mean { in image: Picture  in speed: float32[2]  out y: float32  python "t.py:mean" }
task Show { in y: float32  python "t.py:show" }
app A { camera: Camera  odometer: Odometer  mean: Mean  show: Show
        camera -> mean.image  odometer -> mean.speed  mean -> show }
"""
CODE = """
import numpy as np
def never(): raise ValueError("executed")
def mean(image, speed): return np.float32(image.mean() + speed[0] * 1000 + speed[1])
def show(y): print(repr(float(y)))
"""
COUNT, STEP = 9, 20_000_000


def picture(k: int) -> np.ndarray[Any, Any]:
    """The picture of a message."""
    return np.random.default_rng(k).integers(0, 255, (6, 8, 3)).astype(np.uint8)


def written(
    path: Path,
    image: str,
    storage: StoragePlugin,
    encoding: str = "bgr8",
    packed: CompressionMode = CompressionMode.NONE,
) -> Path:
    """A bag of pictures, whose rows are filled up, and of speeds."""
    times, header = TYPES.types["builtin_interfaces/msg/Time"], TYPES.types["std_msgs/msg/Header"]
    layout = TYPES.types["std_msgs/msg/MultiArrayLayout"]
    made = Writer(path, version=9, storage_plugin=storage)
    made.set_compression(packed, CompressionFormat.ZSTD)
    with made as writer:
        kinds = {image: "sensor_msgs/msg/Image", "/base/speed": "std_msgs/msg/Float32MultiArray"}
        topics = {n: writer.add_connection(n, kind, typestore=TYPES) for n, kind in kinds.items()}
        for k in range(COUNT):
            rows = np.zeros((6, 32), np.uint8)
            rows[:, :24] = picture(k).reshape(6, 24)
            message = TYPES.types["sensor_msgs/msg/Image"](
                header(times(0, 0), "camera"), 6, 8, encoding, 0, 32, rows.reshape(-1)
            )
            speed = TYPES.types["std_msgs/msg/Float32MultiArray"](
                layout([], 0), np.array([k, k / 4], np.float32)
            )
            for name, said in ((image, message), ("/base/speed", speed)):
                raw = TYPES.serialize_cdr(said, kinds[name])
                writer.write(topics[name], 10**18 + k * STEP, raw)
    return path


def built(write: Write, tmp_path: Path, text: str = TEXT) -> Path:
    """The program."""
    flowc.build(write(text, t_py=CODE), tmp_path / "b", measure=False)
    return tmp_path / "b"


@pytest.mark.parametrize("storage", list(StoragePlugin))
def test_sources_deliver_the_messages_of_a_bag(
    write: Write, tmp_path: Path, storage: StoragePlugin
) -> None:
    program = built(write, tmp_path)
    bag = written(tmp_path / "bag", "/front/camera", storage)
    done = run(program, "--replay", str(bag), "--quiet", "--full-speed")
    assert done.returncode == 0, done.stderr
    wanted = [
        np.float32(picture(k).mean() + np.float32(k) * 1000 + np.float32(k / 4))
        for k in range(COUNT)
    ]
    assert np.allclose([float(line) for line in done.stdout.split()], wanted, rtol=1e-6)
    assert "A.camera.image is fed from /front/camera (9 messages)" in done.stderr
    assert "A.odometer.speed is fed from /base/speed (9 messages)" in done.stderr
    one = next(bag.glob("*.mcap"), None) or next(bag.glob("*.db3"))
    alone = run(program, "--replay", str(one), "--quiet", "--full-speed")
    assert alone.returncode == 0 and alone.stdout == done.stdout


@pytest.mark.parametrize("packed", ["NONE", "FILE", "MESSAGE"])
def test_compressed_bags_are_unpacked_within_limits(
    write: Write, tmp_path: Path, packed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(
        tmp_path / "bag", "/front/camera", StoragePlugin.SQLITE3, packed=CompressionMode[packed]
    )
    bags._require_limits(str(path))
    begin, topics = bags._topics(str(path))
    assert begin == 10**18 and {t.name: t.messages for t in topics} == {
        "/front/camera": COUNT,
        "/base/speed": COUNT,
    }
    assert (
        picture(0).tobytes()[:3] in topics[0].first or picture(0).tobytes()[:3] in topics[1].first
    )
    monkeypatch.setattr(bags, "MOST_UNPACKED", 1000)
    monkeypatch.setattr(bags, "MOST_MESSAGE", 20)
    if packed == "FILE":
        with pytest.raises(Mistake, match=r"\.zstd is larger than the room for it, unpacked"):
            bags._require_limits(str(path))
    else:
        bags._require_limits(str(path))
    if packed == "MESSAGE":
        with pytest.raises(Mistake, match="cannot be read as a bag of ROS 2: has more than 0 MiB"):
            bags._topics(str(path))


def test_parts_of_bags_are_as_large_as_they_say(tmp_path: Path) -> None:
    """The second of two frames of a chunk is unpacked as well, and counts."""
    frame = zstandard.ZstdCompressor().compress
    content = frame(bytes(100)) + frame(bytes(1 << 16))
    assert recorded_file._decompressed(frame(bytes(100)), "zstd", 100) == bytes(100)
    with pytest.raises(ValueError, match="a chunk has 101 bytes instead of 100"):
        recorded_file._decompressed(content, "zstd", 100)
    assert bags._unpacked(content) == bytes(100 + (1 << 16))
    (tmp_path / "skipped").write_bytes(b"\x50\x2a\x4d\x18" + bytes(4) + content)
    assert bags._require_unpacked(str(tmp_path / "skipped"), 1 << 20) == 100 + (1 << 16)
    with pytest.raises(ValueError, match="larger than the room"):
        bags._require_unpacked(str(tmp_path / "skipped"), 1 << 10)


def test_messages_come_when_they_came(write: Write, tmp_path: Path) -> None:
    program = built(write, tmp_path)
    bag = written(tmp_path / "bag", "/front/camera", StoragePlugin.MCAP)
    done = run(program, "--replay", str(bag), "--report", str(tmp_path / "r.json"), "--quiet")
    assert done.returncode == 0
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["apps"]["A"]["frames"] == COUNT
    # no earlier: how much later is up to the machine
    assert report["apps"]["A"]["seconds"] >= (COUNT - 1) * STEP / 1e9


def test_a_bag_is_recorded_and_its_recording_is_replayed(write: Write, tmp_path: Path) -> None:
    program = built(write, tmp_path)
    bag = written(tmp_path / "bag", "/camera/image", StoragePlugin.MCAP)
    file = tmp_path / "r"
    done = run(program, "--replay", str(bag), "--full-speed", "--record", str(file))
    assert done.returncode == 0 and "27 tokens of 3 channels are in" in done.stderr
    again = run(program, "--replay", str(file))
    assert again.returncode == 0 and "9 of 9 tokens of 1 channel equal" in again.stderr


@pytest.mark.parametrize(
    ("encoding", "dtype"),
    [("32FC1", "float32"), ("32FC3", "float32"), ("16SC1", "int16"), ("64FC", "float64")],
)
def test_pictures_in_encodings_of_opencv(encoding: str, dtype: str) -> None:
    shape = (3, 4, 3) if encoding.endswith("3") else (3, 4)
    numbers = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    stamp = TYPES.types["builtin_interfaces/msg/Time"](sec=0, nanosec=0)
    header = TYPES.types["std_msgs/msg/Header"](stamp=stamp, frame_id="")
    data = numbers.view(np.uint8).ravel()
    image = TYPES.types[IMAGE](
        header=header, height=3, width=4, encoding=encoding, is_bigendian=0, step=data.size // 3,
        data=data,
    )  # fmt: skip
    found = token_in(IMAGE, TYPES.serialize_cdr(image, IMAGE), Port("p", dtype, shape, (1,)))
    assert found.dtype == dtype and np.array_equal(found, numbers)


@pytest.mark.parametrize(
    ("kind", "dtype", "number"),
    [("Float32", "float32", 0.5), ("Float64", "float64", 0.1), ("Bool", "bool", True),
     ("Int16", "int16", -7), ("UInt64", "uint64", 2**63)],
)  # fmt: skip
def test_messages_of_one_number(kind: str, dtype: str, number: float) -> None:
    kind = f"std_msgs/msg/{kind}"
    data = TYPES.serialize_cdr(TYPES.types[kind](data=number), kind)
    for shape in ((), (1,), (1, 1)):
        found = token_in(kind, data, Port("p", dtype, shape, (1,)))
        assert (found.dtype, found.shape, found.item()) == (dtype, shape, number)
    with pytest.raises(ValueError, match="tokens of `p` are"):
        token_in(kind, data, Port("p", dtype, (2,), (1,)))


def test_open_ends_are_fed_too(write: Write, tmp_path: Path) -> None:
    text = TEXT.replace("camera: Camera", "in image: Picture").replace(
        "camera -> mean", "image -> mean"
    )
    program = built(write, tmp_path, text)
    done = run(program, "--frames", "3")
    assert done.returncode == 2 and "open it from Python" in done.stderr
    bag = written(tmp_path / "bag", "/x/image", StoragePlugin.MCAP)
    done = run(program, "--replay", str(bag), "--quiet", "--full-speed")
    assert done.returncode == 0 and len(done.stdout.split()) == COUNT


def test_a_recording_of_another_program_feeds_open_ends_as_a_bag(
    write: Write, tmp_path: Path
) -> None:
    """By the command that the refusal names, which the package of bags brings."""
    bag = written(tmp_path / "first", "/camera/image", StoragePlugin.MCAP)
    file = tmp_path / "run.mcap"
    record = ("--full-speed", "--quiet", "--record", str(file))
    done = run(built(write, tmp_path), "--replay", str(bag), *record)
    assert done.returncode == 0, done.stderr
    flow = tmp_path / "other.flow"
    flow.write_text(
        TEXT.replace("camera: Camera", "in image: Picture").replace("camera ->", "image ->")
    )
    flowc.build(flow, tmp_path / "other", measure=False)
    refused = run(tmp_path / "other", "--replay", str(file))
    assert refused.returncode == 2
    words = re.search(r"rosbags-convert (--src .* --dst )bag, then --replay bag", refused.stderr)
    assert words is not None, refused.stderr
    converted = str(tmp_path / "bag")
    subprocess.run(
        [sys.executable, "-m", "rosbags.convert", *shlex.split(words[1]), converted],
        timeout=HANGS,
        check=True,
    )
    fed = run(tmp_path / "other", "--replay", converted, "--quiet", "--full-speed")
    assert fed.returncode == 0 and fed.stdout == done.stdout


def test_what_a_bag_does_not_have_is_told(write: Write, tmp_path: Path) -> None:
    text = TEXT.replace("float32[2]", "float32[3]").replace("uint8[6, 8, 3]", "uint8[5, 8, 3]")
    program = built(write, tmp_path, text)
    bag = written(tmp_path / "bag", "/front/camera", StoragePlugin.MCAP)
    done = run(program, "--replay", str(bag))
    assert done.returncode == 2 and not done.stdout
    assert (
        "has no topic, or several, for `A.camera.image` (uint8[5, 8, 3]), `A.odometer.speed` (float32[3])"
        in done.stderr
    )
    assert (
        "it has /front/camera (sensor_msgs/msg/Image), /base/speed (std_msgs/msg/Float32MultiArray)"
        in done.stderr
    )
    assert (
        "a message of /front/camera is uint8[6, 8, 3], and tokens of `image` are uint8[5, 8, 3]"
        in done.stderr
    )
    exact = run(
        program, "--replay", str(written(tmp_path / "exact", "/A/camera/image", StoragePlugin.MCAP))
    )
    assert exact.returncode == 2 and "/A/camera/image: a message is uint8[6, 8, 3]" in exact.stderr


def test_files_that_are_no_bags_are_refused(write: Write, tmp_path: Path) -> None:
    program = built(write, tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.db3").write_bytes(b"SQLite format 3\0" + bytes(100))
    (tmp_path / "x.bag").write_bytes(b"#ROSBAG V2.0\n")
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "x.txt").write_text("no frames")
    (tmp_path / "x.mcap").write_bytes(b"\x89MCAP0\r\n" + bytes(30))
    for name, reason in (
        ("empty", "cannot be read as a bag of ROS 2"), ("x.db3", "cannot be read as a bag of ROS 2"),
        ("x.bag", "is a bag of ROS 1"), ("x.json", "if it is a report: this program has no states"),
        ("x.txt", "x.txt is no recording of flowc (MCAP) and no bag of ROS 2\n"),
        ("x.mcap", "cannot be read as a bag of ROS 2"), ("no", "there is no such file"),
    ):  # fmt: skip
        done = run(program, "--replay", str(tmp_path / name))
        assert done.returncode == 2 and reason in done.stderr, (name, done.stderr)
        assert "Traceback" not in done.stderr


def base(path: Path, made: str) -> Path:
    """A database that looks like a bag, with something else in it."""
    with closing(sqlite3.connect(path)) as found:
        found.executescript(
            "CREATE TABLE topics(id INTEGER PRIMARY KEY, name, type, serialization_format);"
            "INSERT INTO topics VALUES (1, '/x', 'std_msgs/msg/Float32', 'cdr');" + made
        )
    return path


def test_databases_hold_rows_as_large_as_themselves(tmp_path: Path) -> None:
    """A row may be computed, and a page may be in many places of a table."""
    columns = "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id, timestamp, data"
    endless = (
        "WITH RECURSIVE n(schema_version) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT * FROM n"
    )
    rows = ";INSERT INTO messages SELECT value, 1, 1, zeroblob(1000) FROM json_each('[%s]')"
    filled = columns + ")" + rows % ",".join(map(str, range(1, 400)))
    plain = base(tmp_path / "plain.db3", filled)
    bags._require_limits(str(plain))
    size, content = 4096, bytearray(plain.read_bytes())
    with closing(sqlite3.connect(plain)) as found:
        (root,) = found.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'messages'"
        ).fetchone()
    page = content[(root - 1) * size : root * size]
    cell = int.from_bytes(page[12:14], "big")  # all cells are the first one
    page[12 : 12 + 2 * 130] = page[12:14] * 130
    page[3:5] = (130).to_bytes(2, "big")
    content[(root - 1) * size : root * size] = page
    assert page[0] == 5 and cell < size
    (tmp_path / "again.db3").write_bytes(content)
    for name, reason in (
        ("again", "`messages` has more in it than the file"),
        ("computed", "`messages` has columns that are computed"),
        ("endless", "`schema` is computed"),
    ):
        path = tmp_path / (name + ".db3")
        if name == "computed":
            base(path, columns + " AS (zeroblob(1000000)))")
        if name == "endless":
            base(path, columns + "); CREATE VIEW schema AS " + endless)
        with pytest.raises(Mistake, match=reason):
            bags._require_limits(str(path))
    base(tmp_path / "slow.db3", columns + ")")
    with (
        pytest.MonkeyPatch.context() as patched,
        pytest.raises(Mistake, match="it takes more than"),
    ):
        patched.setattr(bags, "SECONDS", -1.0)
        patched.setattr(bags, "STEPS", 1)
        bags._require_limits(str(tmp_path / "slow.db3"))
