"""`--machines`: where machines are, and a program whose parts are started there."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from flowc.driver.build.build import build
from flowc.driver.execute import rig
from flowc.driver.execute.recordings import join
from flowc.driver.execute.run import run
from flowc.driver.execute.run import test as harness_of
from flowc.machines.rig import Site, read_sites
from flowc.model.diagnostic import Errors
from flowc.runtime import peer
from flowc.runtime.options import Mistake
from flowc.runtime.record import DECISIONS
from flowc.runtime.record_file import McapWriter
from flowc.runtime.recorded_file import RecordedFile
from flowc.runtime.report import table
from flowc.runtime.ros_messages import STRING, definition_of, text_message
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

from builds import HANGS, Write, store_profile
from builds import run as run_program
from rigs import MIXED, MIXED_TASKS, TASKS, TEXT, sites

#: Runs the last of its words, as the far side of ssh does.
SHELL = "sh -c 'for last; do :; done; exec sh -c \"$last\"' ssh"


@pytest.fixture
def text(write: Write) -> Path:
    flow = write(TEXT, tasks_py=TASKS)
    store_profile(flow, platform="rig")
    return flow


def test_where_machines_are(tmp_path: Path) -> None:
    file = tmp_path / "rig.toml"
    file.write_text(
        '[front]\nboard = "nano@10.0.0.5:2222/dir"\nport = 47600\nencrypted = false\n[back]\nhere = true\naddress = "10.0.0.1"\n'
        'python = ["nice", "python3"]\n'
    )
    assert read_sites(file, ["back", "front"]) == (
        Site("back", None, "10.0.0.1", None, ("nice", "python3")),
        Site("front", "nano@10.0.0.5:2222/dir", "10.0.0.5", 47600, (), False),
    )


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "rig.toml"
    file.write_text(
        '[front]\nbord = "a"\nport = 70000\n[middle]\nboard = "a"\nhere = true\n[last]\nboard = "-x"\npython = []\n[bakc]\n'
    )
    with pytest.raises(Errors) as caught:
        read_sites(file, ["front", "middle", "last", "back"])
    assert [d.code for d in caught.value.diagnostics] == ["F650"] * 8
    said = "\n".join(f"{d.message} {d.help}" for d in caught.value.diagnostics)
    for words in (
        "it has no table for `back`", "there is no machine `bakc` did you mean `back`?", "`front` is neither here nor on a board",
        "`bord` of `front` is not known did you mean `board`?", "cannot listen at port 70000", "`middle` is here and on a board",
        "`-x` is not an address of a board", "`python` of `last` is not a command",
    ):  # fmt: skip
        assert words in said, said
    for content in (None, "[front", "\xff"):
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content.encode("latin-1"))
        with pytest.raises(Errors, match="F650"):
            read_sites(file, ["front"])


def test_parts_here_and_on_a_board_are_joined(
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.setenv("FLOWC_SSH", SHELL)
    file = tmp_path / "rig.toml"
    file.write_text(
        f'[front]\nhere = true\n[back]\nboard = "board{tmp_path}/far"\naddress = "127.0.0.1"\npython = "{sys.executable}"\n'
    )
    settings = ["A.camera.count=13"]  # goes to the part that has it
    asked: dict[str, Any] = {"settings": settings, "record": str(tmp_path / "r"), "channels": "*"}
    ran = run(text, tmp_path / "out", platform="rig", machines=file, document=True, **asked)
    out, err = capfdbinary.readouterr()
    assert ran.status == 0, err
    assert not out and err.count(b"[back] ") == 0  # results alone, on standard error
    document = json.loads(ran.report or "")
    assert document["apps"]["A"]["frames"] == 6 and document["failure"] is None
    assert document["apps"]["A"]["latency_ms"]["max"] > 0
    assert {t["firings"] for name, t in document["tasks"].items() if name == "A.weigh"} == {48}
    assert set(document["parts"]) == {"front", "back"}
    clock = document["parts"]["front"]["clocks"]["back"]  # one machine, one clock
    assert abs(clock["offset_ns"]) <= clock["round_trip_ns"]
    assert {"front->back", "back.core[1]"} <= set(document["processors"])
    assert "front->back" in table(document)  # of the same form as that of one program
    assert all(
        part["memory"].keys() == document["memory"].keys() for part in document["parts"].values()
    )
    most = {name: c["most"] <= c["capacity"] for name, c in document["channels"].items()}
    assert all(most.values())
    # what both have recorded is one file, which the program as a whole does again
    assert ran.recorded is not None and not ran.recorded.missing
    assert not list(tmp_path.glob("r.*"))
    found = Counter(topic for topic, _, _ in recorded_messages(tmp_path / "r"))
    decided = found.pop(DECISIONS)
    assert decided and len(found) == ran.recorded.channels == 6
    assert found["/A/camera/frame"] == found["/A/camera/mark"] == 13  # six frames and a half
    assert found["/A/weigh/sum"] >= 48 and found["/A/tell/last"] >= 12
    assert found.total() == ran.recorded.tokens
    done = run_program(tmp_path / "out", "--replay", str(tmp_path / "r"))
    assert re.search(r"(11\d) of \1 tokens of 4 channels equal, bit for bit", done.stderr), (
        done.stderr
    )
    with pytest.raises(Mistake, match=r"no channel `weight`; there is A.camera.frame,.* A.tell"):
        run(
            text,
            tmp_path / "out",
            platform="rig",
            machines=file,
            **(asked | {"channels": "weight"}),
        )


def recorded_messages(file: Path) -> list[tuple[str, int, Any]]:
    """Topic, time and content of each, in the order of the file, read by the package `mcap`."""
    with file.open("rb") as stream:
        reader = make_reader(stream, validate_crcs=True, decoder_factories=[DecoderFactory()])
        return [
            (channel.topic, message.log_time, said)
            for _, channel, message, said in reader.iter_decoded_messages(log_time_order=False)
        ]


def test_recordings_are_joined_by_the_moment_at_which_all_began(tmp_path: Path) -> None:
    """The clock of the second part is a day ahead; it was killed, and the third has left nothing."""
    day = 86_400 * 10**9
    files = {name: tmp_path / name for name in "abc"}
    for name, began, told in (
        ("a", 1000, [(5, 1), (20, 2), (30, True)]),
        ("b", 1000 + day, [(7, 1), (25, 9)]),
    ):
        with files[name].open("wb", 0) as stream:
            writer = McapWriter(stream)
            writer.about({"version": "1", "settings": json.dumps([f"A.{name}.x=1"])})
            writer.define(0, DECISIONS, STRING, definition_of(STRING), {"version": "1"})
            writer.define(1, f"/A/{name}", STRING, definition_of(STRING), {"channel": f"A.{name}"})
            for after, frames in told:
                progress = {
                    "ended": frames is True,
                    "frames": {"A": 3 if frames is True else frames},
                    "begun": {"A": 9},
                    "began": began,
                }
                writer.message(1, began + after - 1, text_message(f"{name}{after}"), began, after)
                writer.message(0, began + after, text_message(json.dumps(progress)), began, after)
            writer.finish()
    found = join({name: files[name] for name in "ab"}, tmp_path / "r", "build")
    assert (found.tokens, found.channels, found.parts) == (5, 2, 2)
    assert found.missing == ("b: it was killed",)
    rows = recorded_messages(tmp_path / "r")
    assert [(t, said.data) for topic, t, said in rows if topic != DECISIONS] == [
        (1004, "a5"), (1006, "b7"), (1019, "a20"), (1024, "b25"), (1029, "a30"),
    ]  # fmt: skip
    frames = [
        (t, json.loads(said.data)["frames"]["A"]) for topic, t, said in rows if topic == DECISIONS
    ]
    # what is said after the last message of the part that was killed does not count
    assert frames == [(1005, 0), (1007, 1), (1020, 1), (1025, 2)]
    joined = RecordedFile(str(tmp_path / "r"))
    assert not joined.decisions.ended and joined.about["build"] == "build"
    assert json.loads(joined.about["settings"]) == ["A.a.x=1", "A.b.x=1"]
    assert not any(file.exists() for file in files.values())
    files["a"].write_bytes(b"no recording")
    found = join({"a": files["a"], "c": files["c"]}, tmp_path / "r", "build")
    assert found.tokens == 0 and [m.partition(": ")[0] for m in found.missing] == ["a", "c"]


def test_parts_listen_where_the_others_find_them(text: Path, tmp_path: Path) -> None:
    file = tmp_path / "rig.toml"
    file.write_text('[front]\nhere = true\n[back]\nhere = true\naddress = "::1"\nport = 1234\n')
    built = build(text, tmp_path / "out", platform="rig")
    with rig.placed(built, read_sites(file, ["front", "back"])) as placed:
        told = {p.site.machine: json.loads(p.environment["FLOWC_MACHINES"]) for p in placed._parts}
    assert {m: t["listen"] for m, t in told.items()} == {
        "front": "tcp://127.0.0.1:*",
        "back": "tcp://[::1]:1234",
    }


def test_all_parts_together_equal_the_sequential_reference(write: Write, tmp_path: Path) -> None:
    flow = write(MIXED, mixed_py=MIXED_TASKS)
    store_profile(flow, platform="rig")
    file = sites(tmp_path, "a", "b", "c")
    tested = harness_of(
        flow, tmp_path / "out", platform="rig", machines=file, frames=12, quiet=True
    )
    assert tested.status == 0, [t for t in tested.tests if t.outcome != "passed"]
    assert {t.name for t in tested.tests} >= {"test_every_input_equals_the_sequential_reference"}


def test_machines_whose_clocks_are_a_day_apart(text: Path, tmp_path: Path) -> None:
    """A time namespace of Linux has a monotonic clock of its own."""
    apart = ["unshare", "--fork", "--time", "--monotonic", "86400"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*apart, "true"], capture_output=True, timeout=HANGS).returncode
    ):
        pytest.skip("time namespaces are for root")
    file = tmp_path / "rig.toml"
    file.write_text(
        f"[front]\nhere = true\npython = {json.dumps([*apart, sys.executable])}\n[back]\nhere = true\n"
    )
    ran = run(text, tmp_path / "out", platform="rig", machines=file, frames=5, document=True)
    document = json.loads(ran.report or "")
    assert ran.status == 0 and document["apps"]["A"]["frames"] == 5
    assert 0 < document["apps"]["A"]["latency_ms"]["max"] < 1000 * HANGS
    assert all(0 <= p["utilization"] <= 1 for p in document["processors"].values())
    clock = document["parts"]["back"]["clocks"]["front"]
    assert 0 < clock["round_trip_ns"] < HANGS * 10**9
    assert abs(clock["offset_ns"] - 86400 * 10**9) <= clock["round_trip_ns"]


def test_what_is_missing_on_machines_is_told_at_once(text: Path, tmp_path: Path) -> None:
    file = tmp_path / "rig.toml"
    file.write_text(
        f'[front]\nhere = true\npython = "/bin/false"\n[back]\nhere = true\npython = ["{sys.executable}", "-S"]\n'
    )
    with pytest.raises(Errors) as caught:
        run(text, tmp_path / "out", platform="rig", machines=file)
    assert [d.code for d in caught.value.diagnostics] == ["F651", "F651"]
    assert "`back` has no pyzmq" in caught.value.diagnostics[1].message


def test_ports_that_are_taken_and_names_that_no_server_knows(text: Path, tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        file = tmp_path / "rig.toml"
        file.write_text(
            f'[front]\nhere = true\nport = {port}\n[back]\nhere = true\naddress = "no.such.invalid"\n'
        )
        with pytest.raises(Errors) as caught:
            run(text, tmp_path / "out", platform="rig", machines=file)
    assert [d.code for d in caught.value.diagnostics] == ["F653", "F654"]
    said = [d.message for d in caught.value.diagnostics]
    assert (
        f"`front` cannot listen at port {port}" in said[0]
        and "`front` cannot resolve `no.such.invalid`" in said[1]
    )


def test_who_ends_before_it_listens_ends_all_at_once(
    text: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that has started both knows it, and says so while it waits; the other part does
    not look for it for a minute."""
    monkeypatch.setattr(rig, "TELL", 0.01)
    monkeypatch.setattr(peer, "TELL", 0.01)
    never, gate = tmp_path / "never", tmp_path / "gate"
    os.mkfifo(gate)
    held = os.open(gate, os.O_RDWR)  # with both ends here, no open waits for the other end
    never.write_text(
        f'#!/bin/sh\ncase "$*" in *main.py*) read x <{gate}; exit 3;; esac\nexec {sys.executable} "$@"\n'
    )
    never.chmod(0o755)
    file = tmp_path / "rig.toml"
    file.write_text(f'[front]\nhere = true\npython = "{never}"\n[back]\nhere = true\n')

    def report(text: str) -> None:
        if text.startswith("waits for part front to listen"):
            os.write(held, b"\n")

    try:
        assert (
            run(
                text, tmp_path / "out", platform="rig", machines=file, quiet=True, report=report
            ).status
            == 1
        )
    finally:
        os.close(held)
    assert "[back] flowc: part front has ended before it began" in capfd.readouterr().err


#: Tokens of a byte, and some that are sent in several pieces.
SIZES = """
task Source { out large: float32[3, 270000]   out small: bool   python "t.py:Source" }
task Sink { in large: float32[3, 270000]   in small: bool   python "t.py:sink" }
app S { source: Source   sink: Sink   source.large -> sink.large   source.small -> sink.small }
platform rig { machine front { cpu core }   machine back { cpu core }   link front back 1 GB/s 20 us }
mapping on rig { S.source -> front.core   S.sink -> back.core }
"""
SIZES_TASKS = """
import numpy as np
class Source:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return np.arange(810000, dtype=np.float32).reshape(3, -1) * self.n, self.n % 2 == 0
def sink(large, small): print(float(large[0, 1]), float(large[2, -1]), bool(small), flush=True)
"""


def test_tokens_of_all_sizes_over_ipv6_at_a_port_of_ones_own_in_plain(
    write: Write, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What goes to one is not encrypted, what comes back from it is: the others have no key of
    the first."""
    text = write(SIZES, t_py=SIZES_TASKS)
    store_profile(text, platform="rig")
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    file = tmp_path / "rig.toml"
    file.write_text(
        f'[front]\nhere = true\naddress = "::1"\nport = {port}\nencrypted = false\n[back]\nhere = true\naddress = "::1"\n'
    )
    ran = run(text, tmp_path / "out", platform="rig", machines=file, frames=3, quiet=True)
    out, err = capfd.readouterr()
    assert ran.status == 0 and "listens" not in err, err
    assert out.splitlines() == [f"{float(n)} {float(809999 * n)} {n % 2 == 0}" for n in (1, 2, 3)]
