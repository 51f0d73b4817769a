"""Times of layers from files of NVIDIA's trtexec, and what a profile makes of them."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from pathlib import Path

import flowc
import onnx
import pytest
from flowc.cli import app
from flowc.driver.measure.foreign_times import TimesFile, entries_of
from flowc.model.diagnostic import Errors
from flowc.model.profile import Profile
from flowc.profiling.trtexec import layer_profile
from typer.testing import CliRunner

EXPORTED = b"""[
  { "count" : 500 }
, { "name" : "stem + relu\x1f[ONNX Layer: stem]", "timeMs" : 100, "averageMs" : 0.2, "percentage" : 40 }
, { "name" : "Reformatting CopyNode", "timeMs" : 50, "averageMs" : 0.1, "medianMs" : 0.1, "percentage" : 20 }
]
"""
EIGHT = b"""[05/12/2024-10:00:00] [I] === Profile (9 iterations ) ===
[05/12/2024-10:00:00] [I]      Layer   Time (ms)   Avg. Time (ms)   Time %
[05/12/2024-10:00:00] [I]  nothing of this      1.00           0.1000      9.0
[05/12/2024-10:00:00] [I]
[05/12/2024-10:00:01] [I] === Profile (500 iterations ) ===
[05/12/2024-10:00:01] [I]                  Layer   Time (ms)   Avg. Time (ms)   Median Time (ms)   Time %
[05/12/2024-10:00:01] [I]            stem + relu      100.00           0.2000             0.2000     40.0
[05/12/2024-10:00:01] [I]  Reformatting CopyNode       50.00           0.1000             0.1000     20.0
[05/12/2024-10:00:01] [I]                  Total      150.00           0.3000             0.3000    100.0
[05/12/2024-10:00:01] [I]
[05/12/2024-10:00:01] [I] PASSED 1 2 3 4
"""
TEN = b"""=== Profile (500 iterations ) ===
   Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer
     100.00       0.2000       0.2000      40.0   stem + relu
      50.00       0.1000       0.1000      20.0   Reformatting CopyNode
     150.00       0.3000       0.3000     100.0   Total
"""


@pytest.mark.parametrize("content", [EXPORTED, EIGHT, TEN])
def test_what_trtexec_exports_and_prints(content: bytes) -> None:
    found = layer_profile(content)
    assert found.iterations == 500
    first, second = found.layers
    assert first.name.startswith("stem + relu") and second.name == "Reformatting CopyNode"
    assert (first.ns, second.ns) == (200_000, 100_000)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "neither the list"),
        (b"\x00\xff", "neither the list"),
        (b"[]", "no list of layers"),
        (b"[1]", "is 1"),
        (b'[{"count": 0}]', "count"),
        (b'[{"count": 3}]', "all of its times are 0"),
        (b'[{"count": 3}, {"name": "a", "averageMs": -1}]', "averageMs"),
        (b'[{"count": 3}, {"name": "a", "averageMs": NaN}]', "NaN"),
        (b"=== Profile (3 iterations ) ===\n", "not the head of a table"),
        (b"=== Profile (3 iterations ) ===\n Layer Time (ms) Avg. Time (ms) Time %\n", "no row"),
        (EIGHT.partition(b" Total")[0], "no row"),
        (TEN.replace(b"50.00 ", b"50.00x"), "this is no row of a table of layers: 50.00x"),
    ],
)
def test_other_files_are_refused(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        layer_profile(content)


def test_mutated_files_are_read_or_refused() -> None:
    draw = random.Random(1)
    read = 0
    for _ in range(2_000):
        content = bytearray(draw.choice([EXPORTED, EIGHT, TEN]))
        for _ in range(draw.randint(1, 8)):
            place = draw.randrange(len(content))
            content[place : place + draw.randint(0, 3)] = draw.randbytes(draw.randint(0, 3))
        with contextlib.suppress(ValueError):
            read += layer_profile(bytes(content)).iterations >= 0
    assert 200 < read < 2_000


@pytest.fixture
def detector(examples: Path, tmp_path: Path) -> Path:
    """The detector without pins, and a profile of its network."""
    folder = tmp_path / "detector"
    shutil.copytree(examples / "detector", folder)
    text = folder / "detector.flow"
    text.write_text(text.read_text().partition("/// GPU, DLA")[0])
    entries = [{"name": f"{n}.sum + {n}", "averageMs": ms} for n, ms in (("stem", 2), ("entry", 1))]
    (folder / "gpu.json").write_text(json.dumps([{"count": 100}, *entries]))
    return text


def test_a_profile_has_the_times_of_the_file(detector: Path) -> None:
    """Layers of the engine are led back to layers of the model; the rest was measured before."""
    command = ["profile", str(detector), "--platform", "orin", "--seconds", "0.1"]
    file = detector.with_name("gpu.json")
    done = CliRunner().invoke(app, [*command, "--from", str(file), "--from", f"dla={file}"])
    assert done.exit_code == 0 and "onnx yolo.onnx on a gpu, gpu.json" in done.stdout, done.output
    assert "layers with only" in done.stderr
    profile = Profile.from_json(detector.with_name("detector.orin.profile.json").read_text())
    times = {e.processor: e for e in profile.entries if e.subject == "Detect.find"}
    assert times.keys() == {"cpu", "gpu", "dla"}
    gpu = times["gpu"]
    assert (gpu.mean_ns, gpu.samples, gpu.precision) == (3_000_000, 100, "fp16")
    assert gpu.estimated and gpu.host_hash == ""
    layers = {x.layer: x.mean_ns for x in gpu.layers}
    assert sum(layers.values()) == 3_000_000
    assert layers["stem.sum"] + layers["stem"] == 2_000_000
    assert layers["neck"] == 0


def test_a_dla_takes_so_many_times_as_long(detector: Path) -> None:
    """By the ratio of Kim's thesis; searches still add a margin."""
    command = ["profile", str(detector), "--platform", "orin", "--seconds", "0.1"]
    file = detector.with_name("gpu.json")
    words = ["--from", f"gpu={file}", "--from", f"dla={file}*2.5"]
    done = CliRunner().invoke(app, [*command, *words])
    assert done.exit_code == 0 and "gpu.json*2.5" in done.stdout, done.output
    profile = Profile.from_json(detector.with_name("detector.orin.profile.json").read_text())
    gpu, dla = ({e.processor: e for e in profile.entries}[kind] for kind in ("gpu", "dla"))
    assert (gpu.mean_ns, dla.mean_ns, dla.estimated) == (3_000_000, 7_500_000, True)
    times = [{x.layer: x.mean_ns for x in entry.layers} for entry in (gpu, dla)]
    assert times[1]["stem.sum"] == pytest.approx(2.5 * times[0]["stem.sum"])
    done = CliRunner().invoke(app, [*command, "--from", f"dla={file}*0"])
    assert done.exit_code == 2 and "`0` is no ratio" in done.stderr


def test_faults_of_files_are_told_together(detector: Path) -> None:
    valid = flowc.check(detector, platform="orin").require()
    other = detector.with_name("other.json")
    other.write_text('[{"count": 3}, {"name": "x", "averageMs": 1}]')
    files = [
        TimesFile(other),
        TimesFile(detector),
        TimesFile(detector.with_name("gpu.json"), "gpu", "Detect.fnd"),
        TimesFile(detector.with_name("none.json"), "dla"),
    ]
    with pytest.raises(Errors) as caught:
        entries_of(valid, files)
    messages = [d.message for d in caught.value.diagnostics]
    assert len(messages) == 4
    assert messages[0] == f"none of the 1 layers in `{other}` is of `yolo.onnx`"
    assert messages[2] == "the text has no network `Detect.fnd`"


def test_a_file_with_few_known_layers_is_doubted(detector: Path) -> None:
    valid = flowc.check(detector, platform="orin").require()
    file = detector.with_name("gpu.json")
    entries = json.loads(file.read_text())
    file.write_text(json.dumps([*entries, {"name": "unknown", "averageMs": 7}]))
    _, warnings = entries_of(valid, [TimesFile(file)])
    few, part = (w.message for w in warnings)
    assert few == f"only 30% of the time in `{file}` is in known layers of `yolo.onnx`"
    assert part.startswith("layers with only ") and part.endswith(f" are in `{file}`")


def test_a_file_is_for_all_tasks_with_its_network(examples: Path, tmp_path: Path) -> None:
    """Also those of other variants, which have other networks."""
    folder = tmp_path / "drone"
    shutil.copytree(examples / "drone", folder)
    text = folder / "drone.flow"
    valid = flowc.check(text, platform="orin").require()
    names = [n.output[0] for n in onnx.load(folder / "tiny.onnx").graph.node]
    entries = [{"name": f"node_of_{name}", "averageMs": 1} for name in names]
    nodes = [n.name for n in onnx.load(folder / "tiny.onnx").graph.node if n.name]
    entries += [{"name": name, "averageMs": 1} for name in nodes]
    file = folder / "gpu.json"
    file.write_text(json.dumps([{"count": 3}, *entries]))
    with pytest.raises(Errors, match="several networks"):
        entries_of(valid, [TimesFile(file)])
    found, warnings = entries_of(valid, [TimesFile(file, "gpu", "See.traffic.tiny")])
    assert [e.subject for e in found] == ["See.traffic.tiny"] and not warnings
