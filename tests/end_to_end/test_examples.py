"""The examples, as their READMEs say; each is built with its own measurement and tested by its own
harness."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader

from builds import HANGS, ROOT, build, run, store_profile
from forks import FLOWC, forks


def flowc(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return forks(*FLOWC).run(["-m", "flowc", *arguments], cwd=cwd, timeout=HANGS)


@pytest.mark.parametrize(
    "name",
    ["hello", "digits", "twins", "detect", "spotter", "robot", "patrol", "drone", "tracker"],
)
def test_an_example_checks_and_passes_its_harness(
    examples: Path, tmp_path: Path, name: str
) -> None:
    text = str(examples / name / f"{name}.flow")
    assert flowc("check", text, cwd=tmp_path).returncode == 0
    done = flowc("test", text, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "OK" in done.stderr


def test_digits_are_read(examples: Path, tmp_path: Path) -> None:
    done = flowc("run", str(examples / "digits" / "digits.flow"), "--frames", "200", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    right, of = map(int, re.search(r"read (\d+) of (\d+) digits right", done.stdout).groups())  # type: ignore[union-attr]
    assert of == 1000 and right >= 970


def test_tracks_follow_what_the_detector_finds(examples: Path, tmp_path: Path) -> None:
    text = str(examples / "tracker" / "tracker.flow")
    done = flowc("run", text, "--frames", "60", "--full-speed", "--no-measure", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (off,) = map(float, re.findall(r"tracks are ([\d.]+) pixels off", done.stdout))
    assert off < 2


#: Tensors of superres that stay whole between bands of rows.
KEPT = '"conv_0", "add_4", "add_8", "add_12", "add_16", "add_18"'


def test_superres_makes_the_same_picture_in_little_memory(examples: Path, tmp_path: Path) -> None:
    """Whole, and in bands; planned memory is a quarter of what it was."""
    seen, planned = [], []
    for name, bands in (("whole", ""), ("bands", f"bands 16 keep {KEPT}")):
        flow = examples / "superres" / f"{name}.flow"
        flow.write_text(
            'use "superres.flow"\nplatform one { cpu core[1] }\n'
            f"mapping on one {{ Super.enlarge -> core[0] {bands} }}\n"
        )
        out = build(flow, tmp_path / name, platform="one")
        done = run(
            out, "--frames", "3", "--quiet", "--set", f"Super.keep.file={tmp_path / name}.png"
        )
        assert done.returncode == 0, done.stderr
        seen.append(done.stdout)
        planned.append(json.loads((out / "deployment.json").read_text())["planned"]["buffers"])
    assert seen[0] == seen[1] and "3 pictures of 640 x 360" in seen[0]
    assert planned[1] < planned[0] / 4
    assert (
        (tmp_path / "whole.png").read_bytes()[:8]
        == (tmp_path / "bands.png").read_bytes()[:8]
        == b"\x89PNG\r\n\x1a\n"
    )


def test_hello_settles_at_a_strength_of_one(examples: Path, tmp_path: Path) -> None:
    done = flowc(
        "run", str(examples / "hello" / "hello.flow"), "--frames", "300", "--json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "block  300: mean strength" in done.stderr
    report = json.loads(done.stdout)
    assert report["apps"]["Hello"]["frames"] == 300
    assert report["tasks"]["Hello.smooth"]["firings"] == 2400


def test_twins_run_on_a_core_each(examples: Path, tmp_path: Path) -> None:
    """With the times of a usual machine; a measured profile would make this a test of the
    weather."""
    flow = examples / "twins" / "two_cores.flow"
    flow.write_text('use "twins.flow"\nplatform two { cpu core[2] }')
    store_profile(flow, {"Left.recognize": 7_200_000, "Right.recognize": 6_800_000}, platform="two")
    tasks = json.loads(
        flowc("build", str(flow), "--platform", "two", "--json", cwd=tmp_path).stdout
    )["tasks"]
    places: dict[str, set[str]] = {"Left": set(), "Right": set()}
    for name, processors in tasks.items():
        places[name.partition(".")[0]].update(processors)
    assert len(places["Left"]) == len(places["Right"]) == 1 and places["Left"] != places["Right"]


@pytest.mark.parametrize(
    "find",
    [
        "core[0], core[1]",
        'core[0] until "add_72" | core[1]',
        'core[0] until "add_49" | core[1] until "clip_98" | core[0]',
        'core[0] bands 4 until "conv_20" keep "conv_9"',
    ],
)
def test_detect_sees_the_same_wherever_it_runs(examples: Path, tmp_path: Path, find: str) -> None:
    """On one core, with the frames or the layers of its network shared by two, and in bands of
    rows."""
    seen = set()
    others = " ".join(f"Detect.{task} -> core[0]" for task in ("camera", "select", "count"))
    for name, prepare, place in (("one", "core[0]", "core[0]"), ("two", "core[0], core[1]", find)):
        flow = examples / "detect" / f"{name}.flow"
        pins = f"{others} Detect.prepare -> {prepare} Detect.find -> {place}"
        flow.write_text(
            f'use "detect.flow"\nplatform two {{ cpu core[2] }}\nmapping on two {{ {pins} }}'
        )
        done = run(build(flow, tmp_path / name, platform="two"), "--frames", "12", "--quiet")
        assert done.returncode == 0, done.stderr
        seen.add(done.stdout)
    (said,) = seen
    assert re.fullmatch(r"12 frames, [1-9]\d* things, checksum [0-9a-f]{8}\n", said)


def test_the_spotter_hears_what_was_said(examples: Path, tmp_path: Path) -> None:
    """On one core and on two, as the plain loop does."""
    folder = examples / "spotter"
    (folder / "one_core.flow").write_text('use "spotter.flow"\nplatform one { cpu core }')
    command = [sys.executable, str(folder / "plain.py")]
    heard = {
        subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=True).stdout
    }
    for text, platform in (("one_core", "one"), ("two_cores", "two")):
        done = run(
            build(folder / f"{text}.flow", tmp_path / text, platform=platform),
            "--full-speed",
            "--quiet",
        )
        assert done.returncode == 0, done.stderr
        heard.add(done.stdout)
    (said,) = heard
    words = re.findall(r" s: (\w+) +\(0\.\d\d\)\n", said)
    assert words == ["up", "down", "tone", "hiss", "down", "up", "hiss", "tone", "tone", "up"]
    assert said.endswith("10 events in 108 decisions\n")


def test_each_frame_of_the_robot_is_logged_skipped_or_dropped(
    examples: Path, tmp_path: Path
) -> None:
    """With cameras ten times as fast; how many frames are dropped depends on the machine, their sum
    does not."""
    flow = examples / "robot" / "fast.flow"
    flow.write_text('use "robot.flow"')
    fast = ["--set", "Front.camera.fps=300", "--set", "Rear.camera.fps=150"]
    built, file = build(flow, tmp_path / "fast"), tmp_path / "run.mcap"
    words = ["--quiet", "--report", str(tmp_path / "report.json")]
    done = run(built, *words, *fast, "--record", str(file))
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    apps, dropped = report["apps"], report["dropped"]
    for name, frames in (("Front", 90), ("Rear", 45)):
        assert dropped[f"{name}.camera"] == {
            "written": frames,
            "dropped": frames - apps[name]["frames"],
        }
        link = dropped[f"{name}Log.from_{name}_look"]
        assert link["written"] == apps[name]["frames"] - apps[name]["skipped"]
        (logged,) = re.findall(rf"{name.lower()}: (\d+) targets", done.stdout)
        assert int(logged) == link["written"] - link["dropped"]
        assert done.stderr.count(f"task {name}.look.verify failed") == apps[name]["skipped"]
    (decisions,) = re.findall(r"(\d+) decisions", done.stdout)
    assert int(decisions) == apps["Planner"]["frames"] > 0

    # Other readers find all of it in the recording, whose replay does the same again.
    with file.open("rb") as stream, AnyReader([file]) as bag:
        decoder = DecoderFactory()
        made = make_reader(stream, validate_crcs=True, decoder_factories=[decoder])
        by_mcap = Counter(channel.topic for _, channel, _, _ in made.iter_decoded_messages())
        by_rosbags = Counter(
            connection.topic
            for connection, _, raw in bag.messages()
            if bag.deserialize(raw, connection.msgtype)
        )
    assert by_mcap == by_rosbags
    assert by_mcap["/Front/camera/raw"] == apps["Front"]["frames"]
    assert by_mcap["/Planner/plan/course"] == apps["Planner"]["frames"]
    again = run(built, *words, "--replay", str(file))
    assert again.returncode == 0, again.stderr
    repeated = json.loads((tmp_path / "report.json").read_text())
    for name in ("FrontLog.from_Front_look", "RearLog.from_Rear_look"):
        assert repeated["dropped"][name] == dropped[name]
    assert again.stdout.split("decisions")[1] == done.stdout.split("decisions")[1]


def test_the_robot_runs_without_flowc(examples: Path) -> None:
    command = [sys.executable, str(examples / "robot" / "plain.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=True)
    assert re.search(r"decisions\nfront: \d+ targets, \d+ with the ball\nrear: ", done.stdout)


def test_a_missing_network_names_the_script_that_makes_it(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "examples" / "twins",
        tmp_path / "twins",
        ignore=shutil.ignore_patterns("*.onnx", "*.json"),
    )
    done = flowc("check", "twins/twins.flow", cwd=tmp_path)
    assert done.returncode == 1
    assert "make_networks.py" in done.stderr and "F401" in done.stderr
