"""`--machines`: where machines are, and a program whose parts are started there."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from flowc.driver.build.build import build
from flowc.driver.execute import rig
from flowc.driver.execute.run import run
from flowc.driver.execute.run import test as harness_of
from flowc.machines.rig import Site, read_sites
from flowc.model.diagnostic import Errors
from flowc.runtime import peer
from flowc.runtime.report import table

from builds import HANGS, Write, store_profile
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
    ran = run(
        text, tmp_path / "out", platform="rig", machines=file, settings=settings, document=True
    )
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
