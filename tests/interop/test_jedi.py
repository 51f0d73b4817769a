"""JEDI's configurations in and out: pins say what its numbers say, and files of strangers do no
harm."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from flowc.cli import app as cli
from flowc.driver.text import store
from flowc.driver.text.check import check
from flowc.dsl import format as layout
from flowc.dsl import load as loading
from flowc.dsl.parse import Parser
from flowc.interop.jedi import file as jedi_file
from flowc.interop.jedi import importer as jedi
from flowc.interop.jedi import libconfig
from flowc.interop.jedi.file import BOTH, DLA, GPU, JediInstance, JediStage, NotJedi
from flowc.model.catalogue import CODES
from flowc.model.diagnostic import Diagnostic, Errors
from flowc.model.mapping import Mapping as Found
from flowc.model.mapping import NetworkPlan, Pin, Placement, StagePlan, in_words
from flowc.model.system import System
from flowc.networks.darknet.cfg import read_sections
from flowc.networks.darknet.convert import network_of
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from typer.testing import CliRunner, Result

from builds import in_a_moment

FEW = settings(max_examples=40)
NUMBER = count()
#: Layers of the network that most tests cut; their names may hold anything.
LAYERS = ("conv_0_bn", "conv_0", 'a"b\\', "ü:0", "/x/Conv 1", "l5", "l6", "l7")


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `net.onnx`, as `flowc import net.cfg` writes it, and the same as `plain.onnx`
    without its numbers."""
    folder = tmp_path_factory.mktemp("nets")
    chain(folder / "net.onnx", LAYERS)
    chain(folder / "plain.onnx", LAYERS, numbered=False)
    return folder


# -- helpers ---------------------------------------------------------------------------------------
def chain(
    file: Path,
    layers: Sequence[str],
    *,
    dims: Sequence[int | str] = (1, 4),
    numbered: bool = True,
    skip: tuple[int, int] | None = None,
    outputs: Sequence[str] = (),
    inputs: Sequence[str] = ("image",),
) -> None:
    """A network of one operator after the other; `skip` adds the result of a layer to what another
    one gets."""
    names = [*inputs[:1], *layers]
    nodes = [helper.make_node("Relu", [a], [b]) for a, b in zip(names, layers, strict=False)]
    if skip is not None:
        nodes[skip[1]] = helper.make_node(
            "Add", [names[skip[1]], layers[skip[0]]], [layers[skip[1]]]
        )
    for other in inputs[1:]:
        nodes[0] = helper.make_node("Add", [inputs[0], other], [layers[0]])
    ends = [
        [helper.make_tensor_value_info(t, TensorProto.FLOAT, list(dims)) for t in end]
        for end in (inputs, outputs or layers[-1:])
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "net", *ends),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    if numbered:
        helper.set_model_props(model, {"darknet.tkdnn_layers": json.dumps(layers)})
    onnx.save(model, file)


SETTINGS = {
    "network_name": "yolo", "cfg_path": "/sdcard/net.cfg", "batch": "1", "device_num": "3", "pre_thread_num": "1",
    "post_thread_num": "1", "buffer_num": "8", "cut_points": "1,4,7", "streams": "1,4,3", "devices": "GPU,DLA,GPU",
    "dla_cores": "0,2,0", "data_type": "FP16",
}  # fmt: skip


def config(*instances: Mapping[str, str | None], number: int | None = None, top: str = "") -> bytes:
    """A file of instances: SETTINGS, changed and without those that are None."""
    groups = []
    for own in instances or ({},):
        said = {k: v for k, v in (SETTINGS | dict(own)).items() if v is not None}
        groups.append("{\n" + "".join(f'  {k} = "{v}"\n' for k, v in said.items()) + "}")
    return (
        f'configs = {{\ninstance_num = "{number or len(groups)}"\ninstances = (\n'
        + ",\n".join(groups)
        + f")\n}}\n{top}"
    ).encode()


def imported(
    data: bytes, folder: Path, *, quiet: bool = False
) -> tuple[System, jedi.ImportedConfig]:
    """What a file becomes: a text that has no faults and is laid out as the formatter does.

    `quiet`: nothing is said about it, except that INT8 needs data.
    """
    target = folder / f"g{next(NUMBER)}.flow"
    result = jedi.read(str(folder / "app.cfg"), data, target)
    if quiet:
        assert said(result.warnings) in (
            "",
            "instance 1: there are no inputs yet to calibrate 8 bits with",
        )
    assert all((w.code, w.severity) == ("F707", "warning") for w in result.warnings)
    target.write_text(result.text)
    loaded = loading.load(target)
    assert loaded.diagnostics == ()
    assert layout.format_text(str(target), result.text) == result.text
    return loaded.system, result


def exported(system: System, **options: Any) -> bytes:
    (platform,) = (p for p in system.platforms if p.name == "xavier")
    return jedi.write(system, platform, options.get("mapping"), options.get("app")).text.encode()


def only(data: bytes) -> JediInstance:
    (instance,) = jedi_file.read("app.cfg", data).instances
    return instance


def bare(pins: Sequence[Pin]) -> list[tuple[Any, ...]]:
    """What pins say, without where they stand."""
    return [
        (
            p.task,
            [(s.processors, s.until, s.streams, s.threads) for s in p.stages],
            p.buffers,
            p.pre,
            p.post,
            p.adapt,
        )
        for p in pins
    ]


def faults(data: bytes, folder: Path = Path()) -> list[tuple[str, str, int, int]]:
    """Code, message, line and column of every fault; places are inside of the file."""
    with pytest.raises(Errors) as raised:
        jedi.read("bad.cfg", data, folder / "x.flow")
    lines = data.decode("utf-8", "replace").split("\n")
    found = []
    for d in raised.value.diagnostics:
        assert (
            d.code in CODES
            and d.severity == "error"
            and d.span is not None
            and d.span.file == "bad.cfg"
        )
        for span in (d.span, *(n.span for n in d.notes)):
            assert (
                1 <= span.line <= len(lines) and 1 <= span.column <= len(lines[span.line - 1]) + 1
            )
        found.append((d.code, d.message, d.span.line, d.span.column))
    return found


def said(warnings: Sequence[Diagnostic]) -> str:
    return "\n".join(w.message for w in warnings)


def flowc(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(w) for w in words])


# -- in --------------------------------------------------------------------------------------------
def test_a_text_as_it_is_written(nets: Path) -> None:
    own = {
        "app_type": "YoloApplication",
        "model_dir": "./models/",
        "pre_thread_num": "4",
        "sample_size": "4952",
    }
    system, result = imported(config(own), nets, quiet=True)
    assert result.text == (
        '// YoloApplication is C++ code: give these tasks code of their own, such as `python "FILE.py:NAME"`,'
        " and ports a type.\n"
        "task YoloSource { out frame }\n"
        "task YoloPre { in frame   out image: float32[1, 4]   stateless }\n"
        "task YoloPost { in l7: float32[1, 4]   out result   stateless }\n"
        "task YoloSink { in result }\n"
        'network YoloNet from "net.onnx" { precision fp16 }\n'
        "\n"
        "/// Imported from `app.cfg` (JEDI), instance 1.\n"
        '/// jedi: network_name = "yolo"\n'
        '/// jedi: cfg_path = "/sdcard/net.cfg"\n'
        '/// jedi: app_type = "YoloApplication"\n'
        '/// jedi: model_dir = "./models/"\n'
        '/// jedi: sample_size = "4952"\n'
        "app Yolo {\n"
        "    source: YoloSource\n"
        "    pre: YoloPre\n"
        "    net: YoloNet\n"
        "    post: YoloPost\n"
        "    sink: YoloSink\n"
        "\n"
        "    source -> pre -> net -> post -> sink\n"
        "}\n"
        "\n"
        "/// NVIDIA Jetson AGX Xavier.\n"
        "platform xavier {\n"
        "    cpu carmel[8] frequencies [1190.4, 1728, 2265.6] MHz\n"
        "    gpu volta frequencies [675.75, 905.25, 1377] MHz\n"
        "    dla nvdla[2] engines 4 total\n"
        "}\n"
        "\n"
        "mapping on xavier {\n"
        '    Yolo.net -> volta until "conv_0" | nvdla[0], nvdla[1] until "/x/Conv 1" streams 2 | volta streams 3'
        " buffers 8 pre 4\n"
        "}\n"
    )
    checked = check(system.path, platform="xavier")
    assert checked.diagnostics == ()
    assert [t.name for t in checked.system.apps[0].tasks][2:5] == [
        f"Yolo.net.stage{k}" for k in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("own", "pin"),
    [
        # The mapping options of JEDI: one stage, two, three with one DLA and with both, four,
        # duplicated parts.
        ({"device_num": "1", "devices": "GPU", "cut_points": "7", "streams": "4"}, "volta streams 4"),
        ({"device_num": "2", "devices": "DLA,GPU", "cut_points": "4,7", "streams": "2,2", "dla_cores": "0,1"},
         'nvdla[0] until "/x/Conv 1" streams 2 | volta streams 2'),
        ({"device_num": "2", "devices": "DLA,GPU", "cut_points": "0,7", "streams": "4,2", "dla_cores": "2,1,0,1"},
         'nvdla[0], nvdla[1] until "conv_0_bn" streams 2 | volta streams 2'),
        ({"devices": "DLA,DLA,GPU", "dla_cores": "0,1,0", "streams": "1,1,1"},
         'nvdla[0] until "conv_0" | nvdla[1] until "/x/Conv 1" | volta'),
        ({"device_num": "4", "devices": "GPU,DLA,DLA,GPU", "dla_cores": "0,0,1,0", "streams": "1,1,1,1", "cut_points": "2,3,5,7"},
         'volta until "a\\"b\\\\" | nvdla[0] until "ü:0" | nvdla[1] until "l5" | volta'),
        # Any number of copies: JEDI's streams take DLA 0 and 1 in turn.
        ({"devices": "GPU, DLA ,GPU", "dla_cores": " 9,7, 9"}, 'volta until "conv_0" | nvdla[0], nvdla[1] until "/x/Conv 1" streams 2 | volta streams 3'),
        # Without streams JEDI takes two.
        ({"streams": None}, 'volta until "conv_0" streams 2 | nvdla[0], nvdla[1] until "/x/Conv 1" | volta streams 2'),
        ({"streams": "1"}, 'volta until "conv_0" | nvdla[0], nvdla[1] until "/x/Conv 1" | volta streams 2'),
        # The last cut point may lie beyond the last layer, as in JEDI's own samples.
        ({"cut_points": "1,4,100000,", "streams": "1,2,1,1"}, 'volta until "conv_0" | nvdla[0], nvdla[1] until "/x/Conv 1" | volta'),
    ],
)  # fmt: skip
def test_stages_become_pins(own: dict[str, str], pin: str, nets: Path) -> None:
    system, result = imported(config(own), nets)
    assert f"    Yolo.net -> {pin} buffers 8\n" in result.text
    assert len(system.pins) == 1
    assert {w.message for w in result.warnings} <= {
        "`streams` has 4 entries, and `device_num` is 3"
    }


def test_several_instances_have_names_of_their_own(nets: Path) -> None:
    others = {
        "network_name": None,
        "devices": "GPU",
        "device_num": "1",
        "cut_points": "7",
        "streams": "2",
    }
    system, result = imported(config({}, {"network_name": "YOLO"}, others), nets, quiet=True)
    assert [a.name for a in system.apps] == ["Yolo", "YOLO_2", "App"]
    assert bare(system.pins)[2] == ("App.net", [(("volta",), None, 2, 1)], 8, 1, 1, False)
    assert re.findall("instance ([0-9])", result.text) == ["1", "2", "3"]
    system, result = imported(config({}, {"network_name": "other"}, number=1), nets)
    assert [a.name for a in system.apps] == ["Yolo"]
    assert (
        said(result.warnings)
        == "`instance_num` is 1: of 2 instances JEDI runs 1, and so much is imported"
    )


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"data_type": None}, "instance 1 does not say its `data_type`"),
        ({"data_type": "INT8,FP16"}, "the stages of instance 1 differ in their data type: `FP16` and `INT8`"),
        ({"streams": "1,5,3"}, "5 over two DLAs cannot be halved"),
        ({"devices": "GPU,DLA,GPU,DLA"}, "`devices` has 4 entries, and `device_num` is 3"),
        ({"cut_points": "1,4,6"}, "instance 1: JEDI stops after layer 6 of `net.onnx`"),
        ({"batch": "4"}, "instance 1: batch 4 is left out"),
        ({"cfg_path": "plain.cfg"}, "instance 1: `plain.onnx` does not say how tkDNN numbers its layers\n"
                                    "instance 1: the names of layers 1 and 4 are not known: nothing is pinned"),
    ],
)  # fmt: skip
def test_what_flowc_says_differently_is_warned_of(
    own: dict[str, str], expected: str, nets: Path
) -> None:
    system, result = imported(config(own), nets)
    assert said(result.warnings) == expected
    assert all(w.help for w in result.warnings)
    assert check(system.path, platform="xavier").ok


def test_settings_outside_of_instances_are_warned_of(nets: Path) -> None:
    _, result = imported(config(top="x = 1; y = (1, 2);"), nets)
    assert said(result.warnings) == "`x` and `y`: not read"


def test_one_stream_over_two_dlas_uses_the_first(nets: Path) -> None:
    system, result = imported(config({"streams": "1,1,1"}), nets)
    assert system.pins[0].stages[1].processors == ("nvdla[0]",)
    assert result.warnings[0].help == "imported as one stream: JEDI uses DLA 0 alone"


def test_a_network_with_several_ends(tmp_path: Path) -> None:
    names = ("593", "in", "out")
    chain(tmp_path / "net.onnx", names, inputs=("x.1", "frame"), outputs=("593", "out"))
    system, result = imported(config({"cut_points": "0,1,2"}), tmp_path, quiet=True)
    (app,) = system.apps
    joined = {(c.source, c.source_port, c.destination, c.destination_port) for c in app.channels}
    assert {c for c in joined if "Yolo.net" in c} == {
        ("Yolo.pre", "x_1", "Yolo.net", "x_1"), ("Yolo.pre", "frame", "Yolo.net", "frame"),
        ("Yolo.net", "port_593", "Yolo.post", "port_593"), ("Yolo.net", "out", "Yolo.post", "out"),
    }  # fmt: skip
    assert 'from "x.1"' in result.text
    assert check(system.path, platform="xavier").ok


def yolov2() -> str:
    """The structure of YOLOv2 with ReLU, 32 layers in Darknet."""

    def conv(filters: int, size: int, activation: str = "relu") -> str:
        norm = "batch_normalize=1\n" if activation == "relu" else ""
        return f"[convolutional]\n{norm}filters={filters}\nsize={size}\npad=1\nactivation={activation}\n"

    def convs(*filters: int) -> str:
        return "".join(conv(n, 1 if k % 2 else 3) for k, n in enumerate(filters))

    pool = "[maxpool]\nsize=2\nstride=2\n"
    parts = [
        convs(32),
        convs(64),
        convs(128, 64, 128),
        convs(256, 128, 256),
        convs(512, 256, 512, 256, 512),
    ]
    parts = [
        pool.join([*parts, convs(1024, 512, 1024, 512, 1024)]),
        convs(1024),
        convs(1024),
        "[route]\nlayers=-9\n",
    ]
    parts += [
        conv(64, 1),
        "[reorg]\nstride=2\n",
        "[route]\nlayers=-1,-4\n",
        convs(1024),
        conv(425, 1, "linear"),
    ]
    anchors = ",".join(["1"] * 10)
    parts.append(f"[region]\nclasses=80\nnum=5\ncoords=4\nanchors={anchors}\n")
    return "[net]\nwidth=416\nheight=416\nchannels=3\n" + "".join(parts)


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "jedi.md").read_text()
    configuration, parts = re.findall(r"```(?:text|flow)\n(.*?)```", page, re.DOTALL)
    (tmp_path / "yolo2_relu.cfg").write_text(yolov2())
    result = jedi.read(str(tmp_path / "app.cfg"), configuration.encode(), tmp_path / "app.flow")
    assert all(part in result.text for part in parts.split("\n\n"))
    assert '/// jedi: sample_size = "4952"\n' in result.text
    assert said(result.warnings) == "instance 1: there is no `yolo2_relu.onnx` beside the text"


# -- networks that are not there, or count differently ---------------------------------------------
NET = """\
[net]
width=8
height=8
channels=1
[convolutional]
filters=2
activation=relu
[maxpool]
size=2
stride=2
[convolutional]
filters=18
activation=linear
[yolo]
mask=0,1,2
num=3
classes=1
anchors=1,2,3,4,5,6
"""


def test_layers_of_a_darknet_network_are_known_before_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cfg = Path("tiny.cfg")
    cfg.write_text(NET)
    numbers = sum(part.count for part in network_of(read_sections(cfg)).parts)
    cfg.with_suffix(".weights").write_bytes(
        struct.pack("<3iq", 0, 2, 5, 0) + np.ones(numbers, "<f4").tobytes()
    )
    own = {"cfg_path": "/sdcard/data/tiny.cfg", "cut_points": "1,2,4", "data_type": "INT8"}
    Path("app.cfg").write_bytes(config(own))
    first = flowc("import", "app.cfg", "--json")
    assert first.exit_code == 0 and json.loads(first.stdout) == {"text": "app.flow"}
    assert "there is no `tiny.onnx` beside the text" in first.stderr
    assert "= help: run `flowc import tiny.cfg -o tiny.onnx`\n" in first.stderr
    text = Path("app.flow").read_text()
    assert (
        'volta until "conv_0" | nvdla[0], nvdla[1] until "maxpool_1" streams 2 | volta streams 3 buffers 8'
        in text
    )
    assert [d.code for d in check("app.flow", platform="xavier").diagnostics] == ["F401"]
    assert flowc("import", "tiny.cfg").exit_code == 0
    assert check("app.flow", platform="xavier").ok
    assert "no inputs yet to calibrate 8 bits with\n --> app.cfg:4:1" in first.stderr
    Path("calibration/Yolo").mkdir(parents=True)
    np.save("calibration/Yolo/0.npy", np.zeros((1, 1, 8, 8), np.float32))
    again = flowc("import", "app.cfg", "--force")
    assert again.stderr == "" and Path("app.flow").read_text() == text
    # And back: --force again, since app.cfg is there.
    assert (
        "F604"
        in flowc(
            "export", "app.flow", "--format", "jedi", "--platform", "xavier", "-o", "app.cfg"
        ).stderr
    )
    done = flowc(
        "export", "app.flow", "--format", "jedi", "--platform", "xavier", "-o", "back.cfg", "--json"
    )
    assert json.loads(done.stdout) == {"file": "back.cfg"}
    assert (
        "JEDI also needs `app_type`, `model_dir`, `sample_size`, `bin_path` and `calib_table`"
        in done.stderr
    )
    back, there = only(Path("back.cfg").read_bytes()), only(config(own))
    assert back == replace(there, others=(*there.others, ("model_type", '"TkdnnModel"')))


def test_without_any_file_the_numbers_are_a_comment(tmp_path: Path) -> None:
    target = tmp_path / "a.flow"
    result = jedi.read("app.cfg", config({"cfg_path": "../x/gone.cfg"}), target)
    assert said(result.warnings) == (
        "instance 1: there is no `gone.onnx` beside the text\n"
        "instance 1: the names of layers 1 and 4 are not known: nothing is pinned"
    )
    assert result.warnings[0].help == (
        f"run `flowc import gone.cfg -o {tmp_path / 'gone.onnx'}`, and import this file again"
    )
    assert (
        "    // The names of these layers are not known here, only JEDI's numbers: put them in.\n"
        '    // Yolo.net -> volta until "layer 1" | nvdla[0], nvdla[1] until "layer 4" streams 2 | volta streams 3'
    ) in result.text
    target.write_text(result.text)
    assert [d.code for d in loading.load(target).diagnostics] == ["F401"]
    chain(tmp_path / "gone.onnx", LAYERS)
    assert loading.load(target).diagnostics == ()
    # One stage needs no names.
    one = {
        "device_num": "1",
        "cut_points": "268",
        "devices": "DLA",
        "dla_cores": "1",
        "streams": "1",
    }
    text = jedi.read("app.cfg", config({"cfg_path": "none.cfg", **one}), target).text
    assert "    Yolo.net -> nvdla[1] buffers 8\n" in text


def test_a_network_that_jedi_builds_in_code(tmp_path: Path) -> None:
    own = {"app_type": "CenternetApplication", "network_name": "centernet", "cfg_path": None}
    result = jedi.read("app.cfg", config(own), tmp_path / "a.flow")
    assert 'network CenternetNet from "centernet.onnx"' in result.text
    assert result.warnings[0].help == "put it there, and import this file again"


def test_a_damaged_network_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"PK\3\4 no network")
    result = jedi.read("app.cfg", config(), tmp_path / "a.flow")
    assert "`net.onnx` is an archive (zip) that is damaged" in said(result.warnings)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("A" * 5000, "net.cfg"), ("../../etc/passwd", ""), ("a", "\\x00.cfg"), ("a", "A" * 6000), ("in", "/"),
        ("ä ö", ".."), ("q", "C:\\\\foo\\\\net.cfg"), ("\\n// } app", "/proc/kcore"), (" ", "\\\"'"),
    ],
)  # fmt: skip
def test_names_of_strangers_do_no_harm(name: str, path: str, nets: Path) -> None:
    own = {
        "network_name": name,
        "cfg_path": path,
        "app_type": name,
        "device_num": "1",
        "cut_points": "100000",
    }
    for changed in ({}, {"model_type": "OnnxModel", "onnx_file_path": path, "data_type": "INT8"}):
        target = nets / "strange.flow"
        target.write_text(jedi.read(str(nets / "app.cfg"), config({**own, **changed}), target).text)
        loaded = loading.load(target)
        assert {d.code for d in loaded.diagnostics} <= {"F401", "F402"}
        assert layout.format_text(str(target), target.read_text()) == target.read_text()


@pytest.mark.parametrize("metadata", ['"x"', "[]", "[1]", "[", "{}", "[" * 100_000])
def test_numbers_of_layers_that_make_no_sense_are_none(
    metadata: str, nets: Path, tmp_path: Path
) -> None:
    model = onnx.load(nets / "plain.onnx")
    helper.set_model_props(model, {"darknet.tkdnn_layers": metadata})
    onnx.save(model, tmp_path / "net.onnx")
    _, result = imported(config(), tmp_path)
    assert "`net.onnx` does not say how tkDNN numbers its layers" in said(result.warnings)


ONNX = {
    "model_type": "OnnxModel",
    "app_type": "DETROnnxApplication",
    "onnx_file_path": "/sdcard/models/plain.onnx",
}


def test_layers_of_onnx_networks_are_counted_by_tensorrt(nets: Path) -> None:
    system, result = imported(config(ONNX), nets)
    assert (
        said(result.warnings)
        == "instance 1: the names of layers 1 and 4 are not known: nothing is pinned"
    )
    assert system.pins == ()
    with pytest.raises(Errors, match=r"F708: `Yolo.net` is not mapped on `xavier`"):
        exported(system)
    # The user puts the names in, and JEDI's numbers are still there.
    target = Path(system.path)
    pin = 'Yolo.net -> volta until "conv_0" | nvdla[0] until "l5" | volta buffers 8'
    target.write_text(
        result.text.replace("mapping on xavier {\n", f"mapping on xavier {{\n    {pin}\n")
    )
    system = loading.load(target).system
    (platform,) = (p for p in system.platforms if p.name == "xavier")
    written = jedi.write(system, platform, None, None)
    assert "the cut points are those of the `jedi:` line" in said(written.warnings)
    back = only(written.text.encode())
    assert [s.last for s in back.stages] == [1, 4, 7] and back.onnx
    assert dict(back.others)["onnx_file_path"] == '"/sdcard/models/plain.onnx"'
    text = target.read_text()
    for changed in (
        'cuts = "1,4,7"',
        'cut_points = "1,4"',
        'cut_points = "4,1,7"',
        'cut_points = "1,x,7"',
        "cut_points = 5",
    ):
        target.write_text(text.replace('cut_points = "1,4,7"', changed))
        with pytest.raises(
            Errors, match=r"F708: the layers of `plain.onnx` have no numbers here: TensorRT counts"
        ):
            exported(loading.load(target).system)


def test_one_stage_of_an_onnx_network_comes_back(nets: Path) -> None:
    own = {
        **ONNX,
        "device_num": "1",
        "cut_points": "100000",
        "devices": "GPU",
        "streams": "1",
        "dla_cores": "0",
    }
    system, _ = imported(config(own), nets, quiet=True)
    assert only(exported(system)) == only(config(own))
    # The older names of the thesis mean the same, and without any the paths decide.
    for changed in ({"model_type": "ONNXApplication"}, {"model_type": None, "cfg_path": None}):
        assert only(config({**own, **changed})).onnx
    assert not only(config({**own, "model_type": "tkDNNApplication"})).onnx
    assert not only(config({**own, "model_type": None})).onnx


@pytest.mark.parametrize(
    ("dims", "said_here", "warned"),
    [(("N", 4), True, False), ((4, 4), False, False), ((1, 4), False, True)],
)
def test_batches(
    dims: tuple[int | str, ...], said_here: bool, warned: bool, tmp_path: Path
) -> None:
    chain(tmp_path / "plain.onnx", LAYERS, dims=dims, numbered=False)
    own = {
        **ONNX,
        "batch": "4",
        "device_num": "1",
        "cut_points": "100000",
        "devices": "GPU",
        "streams": "1",
        "dla_cores": "0",
    }
    system, result = imported(config(own), tmp_path, quiet=not warned)
    assert ("batch 4 }" in result.text, "out frame rate 4" in result.text) == (said_here, said_here)
    assert ('jedi: batch = "4"' in result.text) == (not said_here)
    checked = check(system.path, platform="xavier")
    assert checked.ok
    assert checked.verdicts["Yolo"].repetition["Yolo.net"] == (4 if said_here else 1)
    assert only(exported(system)) == only(config(own))


# -- round trips -----------------------------------------------------------------------------------
@st.composite
def _stages(draw: st.DrawFn) -> list[tuple[str, int, int, int]]:
    """Device, core, streams and last layer."""
    last = [*sorted(draw(st.sets(st.integers(0, len(LAYERS) - 2), max_size=4))), len(LAYERS) - 1]
    found = []
    for number in last:
        device = draw(st.sampled_from([GPU, DLA]))
        core = draw(st.integers(0, BOTH)) if device == DLA else 0
        streams = draw(st.integers(1, 4)) * (2 if core == BOTH else 1)
        found.append((device, core, streams, number))
    return found


VALUES = st.recursive(
    st.one_of(
        st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.from_regex(r"[a-z_*][-a-z0-9_*]{0,5}", fullmatch=True).filter(
        lambda n: n[0] != "_" and n not in ("true", "false")), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip


def value_of(found: Any) -> libconfig.Value:
    span = libconfig.Span("", 1, 1, 1, 1)
    if isinstance(found, list):
        return libconfig.Items(tuple(map(value_of, found)), False, span)
    if isinstance(found, dict):
        return libconfig.ConfigGroup(
            tuple(libconfig.ConfigSetting(k, value_of(v), span) for k, v in found.items()), span
        )
    return libconfig.Scalar(found, span)


@FEW
@given(
    stages=_stages(), numbers=st.tuples(*[st.integers(1, 9)] * 3), data_type=st.sampled_from(["FP32", "FP16", "INT8"]),
    name=st.text("aBz09_- .", min_size=1, max_size=8).map(str.strip).filter(bool), other=VALUES,
)  # fmt: skip
def test_what_is_imported_is_exported_again(
    stages: list[tuple[str, int, int, int]], numbers: tuple[int, int, int], data_type: str, name: str, other: Any,
    nets: Path,
) -> None:  # fmt: skip
    pre, post, buffers = numbers
    there = JediInstance(
        name, tuple(JediStage(*s) for s in stages), 1, pre, post, buffers, jedi_file.DATA_TYPES[data_type], False,
        "a/net.cfg",
        (("network_name", libconfig.quoted(name)), ("model_type", '"TkdnnModel"'), ("cfg_path", '"a/net.cfg"'),
         ("custom", libconfig.written(value_of(other)))),
    )  # fmt: skip
    data = jedi_file.text_of([(there, ["a remark"])], ["another"]).encode()
    assert only(data) == there
    system, _ = imported(data, nets, quiet=True)
    assert only(exported(system)) == there


PROCESSORS = [("volta",), ("nvdla[0]",), ("nvdla[1]",), ("nvdla[0]", "nvdla[1]")]
FLOW = """\
task Camera {{ out frame }}
task Scale {{ in frame   out image   stateless }}
task Boxes {{ in scores   out boxes   stateless }}
task Show {{ in boxes }}
network Net from "net.onnx" {{ precision {precision}   calibrate "*.npy" }}
{doc}
app A {{ {app}camera: Camera   scale: Scale   net: Net   boxes: Boxes   show: Show   camera -> scale -> net -> boxes -> show }}
platform xavier {{ cpu carmel[8]   gpu volta   gpu second   dla nvdla[3] }}
mapping on xavier {{ {pin} }}
"""


def system_of(
    folder: Path,
    pin: str = "",
    precision: str = "fp32",
    doc: str = "",
    app: str = "",
    more: str = "",
) -> System:
    path = folder / f"f{next(NUMBER)}.flow"
    path.write_text(FLOW.format(pin=pin, precision=precision, doc=doc, app=app) + more)
    loaded = loading.load(path)
    assert loaded.diagnostics == ()
    return loaded.system


@FEW
@given(
    after=st.sets(st.sampled_from(range(len(LAYERS) - 1)), max_size=4), data=st.data(),
    precision=st.sampled_from(["fp32", "fp16", "int8"]), numbers=st.tuples(*[st.integers(1, 9)] * 3),
)  # fmt: skip
def test_what_is_exported_is_imported_again(
    after: set[int], data: st.DataObject, precision: str, numbers: tuple[int, int, int], nets: Path
) -> None:
    until = [*(LAYERS[k] for k in sorted(after)), None]
    stages = [
        StagePlan(data.draw(st.sampled_from(PROCESSORS)), layer, data.draw(st.integers(1, 4)))
        for layer in until
    ]
    plan = NetworkPlan("A.net", tuple(stages), *numbers)
    system = system_of(nets, f"A.net -> {in_words(plan)}", precision)
    back, _ = imported(exported(system), nets, quiet=True)
    assert bare(back.pins) == bare(system.pins)
    network = back.apps[0].task("A.net").network
    assert network is not None and network.precision == precision
    again = exported(back)
    assert only(again) == only(exported(system)) == only(exported(imported(again, nets)[0]))


# -- out -------------------------------------------------------------------------------------------
def test_a_file_as_it_is_written(nets: Path) -> None:
    doc = '/// Finds things.\n/// jedi: app_type = "YoloApplication"\n/// jedi: model_dir = "."\n/// jedi: sample_size = "0"\n/// jedi: bin_path = "bin"'
    pin = 'A.net -> volta until "conv_0" streams 2 | nvdla[0], nvdla[1] streams 3'
    system = system_of(nets, pin, "int8", doc + '\n/// jedi: calib_table = "t"', "period 20 ms   ")
    (platform,) = system.platforms
    written = jedi.write(system, platform, None, "A")
    assert written.name == "A"
    assert said(written.warnings) == "JEDI has no periods: `A` runs as fast as it can"
    name = Path(system.path).name
    assert written.text == (
        f"# Written by flowc from `{name}`, platform `xavier`.\n"
        "configs = {\n"
        '    instance_num = "1";\n'
        "    instances = (\n"
        "        {\n"
        "            # App `A`; C++ code of `app_type` does the work of: A.camera, A.scale, A.boxes, A.show.\n"
        '            app_type = "YoloApplication";\n'
        '            model_dir = ".";\n'
        '            sample_size = "0";\n'
        '            bin_path = "bin";\n'
        '            calib_table = "t";\n'
        '            network_name = "a";\n'
        '            model_type = "TkdnnModel";\n'
        '            cfg_path = "net.cfg";\n'
        '            device_num = "2";\n'
        '            batch = "1";\n'
        '            pre_thread_num = "1";\n'
        '            post_thread_num = "1";\n'
        '            buffer_num = "6";\n'
        '            cut_points = "1,7";\n'
        '            streams = "2,6";\n'
        '            devices = "GPU,DLA";\n'
        '            dla_cores = "0,2";\n'
        '            data_type = "INT8";\n'
        "        }\n"
        "    );\n"
        "};\n"
    )


@pytest.mark.parametrize(
    ("pin", "expected"),
    [
        ("", "`A.net` is not mapped on `xavier`"),
        ("A.net -> carmel[0]", "`carmel[0]` is a CPU: JEDI runs networks on a GPU and on DLAs"),
        (
            'A.net -> volta until "l5" | carmel[2]',
            "`carmel[2]` is a CPU: JEDI runs networks on a GPU and on DLAs",
        ),
        (
            "A.net -> volta, second",
            "JEDI uses one GPU, and this stage has several; F708: stages run on `volta` and `second`",
        ),
        ('A.net -> volta until "l5" | second', "stages run on `volta` and `second`"),
        ("A.net -> volta, nvdla[0]", "JEDI runs a stage on a GPU or on DLAs, not on both"),
        ("A.net -> nvdla[2]", "JEDI uses two DLAs: `nvdla[0]` and `nvdla[1]`"),
        ("A.net -> nvdla[0], nvdla[0]", "this stage names a DLA twice"),
        ("A.net -> volta threads 2", "JEDI has no `threads 2`"),
        ("A.net -> volta process", "JEDI has no `process`"),
        ("A.net -> volta adapt", "JEDI's cut points stay as they are: it cannot `adapt` them"),
        ('A.net -> volta until "conv_O" | volta', "no layer of tkDNN ends with `conv_O`"),
        (
            'A.net -> carmel[0] until "l5" threads 3 | volta adapt',
            "JEDI's cut points stay as they are: it cannot `adapt` them; F708: JEDI has no `threads 3`; "
            "F708: `carmel[0]` is a CPU: JEDI runs networks on a GPU and on DLAs",
        ),
    ],
)
def test_what_jedi_cannot_say_is_a_fault(pin: str, expected: str, nets: Path) -> None:
    system = system_of(nets, pin)
    with pytest.raises(Errors) as raised:
        exported(system)
    assert str(raised.value) == f"F708: {expected}"
    assert all(d.span is not None and d.span.file == system.path for d in raised.value.diagnostics)


def test_windows_are_warned_of(nets: Path) -> None:
    system = system_of(nets, "A.net -> volta")
    (app,) = system.apps
    show = app.task("A.show")
    wide = replace(show, inputs=(replace(show.inputs[0], window=3), *show.inputs[1:]))
    system = replace(
        system, apps=(replace(app, tasks=tuple(wide if t is show else t for t in app.tasks)),)
    )
    (channel,) = system.apps[0].windows
    assert f"JEDI has no windows: `{channel}` hands over what is new" in said(
        jedi.write(system, system.platforms[0], None, "A").warnings
    )


def test_a_tensor_that_crosses_two_cuts_is_a_fault(tmp_path: Path) -> None:
    chain(tmp_path / "net.onnx", LAYERS, skip=(1, 7))
    with pytest.raises(Errors, match=r"^F708: `conv_0` crosses cuts 1 and 2$"):
        exported(system_of(tmp_path, 'A.net -> volta until "ü:0" | nvdla[0] until "l5" | volta'))
    assert (
        only(exported(system_of(tmp_path, 'A.net -> volta until "ü:0" | nvdla[0]'))).stages[0].last
        == 3
    )


def test_apps_that_are_no_instance(nets: Path) -> None:
    pin = "A.net -> volta   Two.a -> volta   Two.b -> volta   Loop.net -> volta"
    more = (
        "app None { camera: Camera   scale: Scale   boxes: Boxes   show: Show   camera -> scale -> boxes -> show }\n"
        "app Two { camera: Camera   a: Net   b: Net   show: Show   camera -> a -> b -> show }\n"
        "task Both { in x   in last   out y }\n"
        "app Loop { camera: Camera   both: Both   net: Net   show: Show\n"
        "    camera -> both.x   both -> net -> delay 1 -> both.last   net -> show }\n"
    )
    system = system_of(nets, more=more.replace("Loop.net", "Loop.net"))
    system = replace(system, pins=system_of(nets, pin, more=more).pins)
    with pytest.raises(Errors) as raised:
        exported(system)
    assert [d.message for d in raised.value.diagnostics] == [
        "`None` has no networks", "`Two` has 2 networks (`Two.a` and `Two.b`)", "`Loop.net` depends on its own results",
    ]  # fmt: skip
    assert only(exported(system, app="A")).name == "a"
    with pytest.raises(Errors, match="F215: there is no app `B`"):
        exported(system, app="B")


def test_lines_for_jedi_that_cannot_be_read_are_left_out(nets: Path) -> None:
    doc = '/// jedi: x = 1 2\n/// jedi:\n/// jedi: a = 1; b = 2\n/// jedi: device_num = "7"\n/// jedi: opt = { a = ("x", 1.5) }'
    system = system_of(nets, "A.net -> volta", doc=doc)
    (platform,) = system.platforms
    written = jedi.write(system, platform, None, None)
    assert said(written.warnings).split("\n")[:4] == [
        "`jedi: x = 1 2` is left out: it cannot be read",
        "`jedi:` is left out: it cannot be read",
        "`jedi: a = 1; b = 2` is left out: it cannot be read",
        '`jedi: device_num = "7"` is left out',
    ]
    assert 'opt = { a = ("x", 1.5); };' in written.text


def test_paths_of_another_network_are_not_kept(nets: Path) -> None:
    doc = '/// jedi: cfg_path = "/board/{}.cfg"'
    for kept, path in (("net", "/board/net.cfg"), ("other", "net.cfg")):
        assert (
            only(exported(system_of(nets, "A.net -> volta", doc=doc.format(kept)))).network == path
        )


def test_a_stored_mapping_is_exported(
    nets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.onnx").write_bytes((nets / "net.onnx").read_bytes())
    Path("a.flow").write_text(FLOW.format(pin="", precision="fp16", doc="", app=""))
    checked = check("a.flow", platform="xavier", mapped=False)
    assert checked.platform is not None
    plan = NetworkPlan("A.net", (StagePlan(("nvdla[1]",), "l5", 2), StagePlan(("volta",))), 4)
    placements = tuple(
        Placement(f"A.{t}", ("carmel[0]",)) for t in ("camera", "scale", "boxes", "show")
    )
    for found in (
        Found("xavier", placements, (), "test", networks=(plan,)),
        Found("xavier", (*placements, Placement("A.net", ("volta",), 3, buffers=5)), (), "test"),
    ):
        store.save_mapping(checked.require(), found)
        done = flowc("export", "a.flow", "--format", "jedi", "--platform", "xavier", "--force")
        assert done.exit_code == 0, done.stderr
        assert done.stdout == "A.cfg\n"
        instance = only(Path("A.cfg").read_bytes())
        seen = [(s.device, s.core, s.streams, s.last) for s in instance.stages], instance.buffers
        assert seen == (
            ([(DLA, 1, 2, 5), (GPU, 0, 1, 7)], 4) if found.networks else ([(GPU, 0, 3, 7)], 5)
        )
    Path("xavier.A.mapping.json").unlink(missing_ok=True)
    # What the text says comes first.
    Path("a.flow").write_text(FLOW.format(pin="A.net -> volta", precision="fp16", doc="", app=""))
    assert (
        flowc("export", "a.flow", "--format", "jedi", "--platform", "xavier", "--force").exit_code
        == 0
    )
    assert only(Path("A.cfg").read_bytes()).stages == (JediStage(GPU, 0, 1, 7),)


# -- files that are not in order -------------------------------------------------------------------
@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"device_num": None, "batch": None}, "instance 1 has no `batch` and `device_num`"),
        ({"cut_points": None, "cutpoints": "1,2,3"}, "instance 1 has no `cut_points`"),
        ({"dla_cores": None}, "instance 1 has no `dla_cores`"),
        ({"batch": "0"}, "`batch` is 0, and has to be 1 or more"),
        ({"batch": "two"}, "`batch` is `two`, which is no whole number"),
        ({"buffer_num": "1e3"}, "`buffer_num` is `1e3`, which is no whole number"),
        ({"device_num": "9999999999"}, "`device_num` is `9999999999`, which is no whole number"),
        ({"device_num": "4"}, "`devices` has 3 entries, and `device_num` is 4\n`cut_points` has 3 entries, and `device_num` is 4\n"
                              "`dla_cores` has 3 entries, and `device_num` is 4"),
        ({"cut_points": "1,4"}, "`cut_points` has 2 entries, and `device_num` is 3"),
        ({"cut_points": "1,,7"}, "a cut point is ``, which is no whole number"),
        ({"cut_points": "4,1,7"}, "cut point 1 does not come after 4"),
        ({"cut_points": "4,4,7"}, "cut point 4 does not come after 4"),
        ({"cut_points": "-1,4,7"}, "a cut point is -1, and has to be 0 or more"),
        ({"cut_points": ""}, "`cut_points` has 0 entries, and `device_num` is 3"),
        ({"cut_points": "1,7,8"}, "there is nothing after layer 7: the layers of `net.onnx` are 0 to 7"),
        ({"cut_points": "8,9,10"}, "there is nothing after layer 8: the layers of `net.onnx` are 0 to 7\n"
                                   "there is nothing after layer 9: the layers of `net.onnx` are 0 to 7"),
        ({"devices": "GPU,CPU,gpu"}, "`CPU` is no device\n`gpu` is no device"),
        ({"dla_cores": "0,x,0"}, "a DLA core is `x`, which is no whole number"),
        ({"streams": "1,0,1"}, "a number of streams is 0, and has to be 1 or more"),
        ({"data_type": "FP15,INT8"}, "`FP15` is no data type"),
        ({"data_type": ""}, "`data_type` is empty"),
    ],
)  # fmt: skip
def test_faulty_instances(own: dict[str, str], expected: str, nets: Path) -> None:
    data = config(own)
    found = faults(data, nets)
    assert "\n".join(m for _, m, _, _ in sorted(found, key=lambda f: f[1])) == "\n".join(
        sorted(expected.split("\n"))
    )
    assert {code for code, *_ in found} == {"F706"}
    lines = data.decode().split("\n")
    for _, message, line, column in found:  # the place is the entry itself
        quoted = re.match("`(.*)` is no (?:device|data type)", message)
        assert quoted is None or lines[line - 1][column - 1 :].startswith(quoted[1])


@pytest.mark.parametrize(
    "value", ["{ b }", "( { b } )", "( 1, ( b ) )", "[ 1, @ ]", "{ a = { b } }", "{ a = @include }"]
)
def test_what_is_broken_inside_of_a_setting_is_told(value: str, nets: Path) -> None:
    """Of a setting that only JEDI has, and that would go along."""
    data = config({"model_dir": "HERE"}).replace(b'"HERE"', value.encode())
    assert {code for code, *_ in faults(data, nets)} == {"F705"}


def test_separators_around_a_number_are_space(nets: Path) -> None:
    """Python's `int` takes fewer kinds of space than `strip`."""
    assert jedi.read("a.cfg", config({"device_num": "\x1e3"}), nets / "x.flow").text


def test_a_misspelt_setting_is_pointed_at(nets: Path) -> None:
    with pytest.raises(Errors) as raised:
        jedi.read("a.cfg", config({"buffer_num": None, "bufer_num": "2"}), nets / "x.flow")
    assert raised.value.diagnostics[0].help == "is `bufer_num` meant to be `buffer_num`?"


def test_all_faults_of_a_file_are_reported_at_once(nets: Path) -> None:
    data = config(
        {"batch": "0", "devices": "GPU,DLA,TPU"}, {"cut_points": "1,1,7"}, {"buffer_num": None}
    ).replace(b'"FP16"', b"FP16")
    assert [(code, message) for code, message, _, _ in faults(data, nets)] == [
        ("F706", "`batch` is 0, and has to be 1 or more"),
        ("F706", "`TPU` is no device"),
        ("F705", "`FP16` does not fit here"),
        ("F706", "cut point 1 does not come after 1"),
        ("F705", "`FP16` does not fit here"),
        ("F706", "instance 3 has no `buffer_num`"),
        ("F705", "`FP16` does not fit here"),
    ]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ('configs = { instances = ( { } ); }', "F706", "`configs` has no `instance_num`"),
        ('configs = { instance_num = "2"; instances = ( { } ); }', "F706", "`instance_num` is 2, and the file has 1 instance"),
        ('configs = { instance_num = true; instances = ( { } ); }', "F706", "`instance_num` is no number"),
        ('configs = { instance_num = 1; instances = ( ); }', "F706", "`instances` is no list of groups"),
        ('configs = { instance_num = 1; instances = { }; }', "F706", "`instances` is no list of groups"),
        ('configs = { instance_num = 1; instances = ( 5 ); }', "F706", "instance 1 is no group"),
        ('configs = { instance_num = 1; instance = ( { } ); }', "F705", "there is no `instances` in this configuration: `configs` has `instance_num` and `instance`"),
        ('config = { }', "F705", "there is no `configs` in this configuration: it has `config`"),
        ("configs = 1", "F705", "there is no `configs` in this configuration: it has `configs`"),
        ("", "F705", "there is no `configs` in this configuration: it has nothing"),
        ("configs = ; instances = 1", "F705", "`;` does not fit here"),
    ],
)  # fmt: skip
def test_files_that_are_no_configurations(text: str, code: str, message: str) -> None:
    assert (code, message) in [(c, m) for c, m, _, _ in faults(text.encode())]


def test_names_of_other_kinds_are_told(nets: Path) -> None:
    data = (
        config()
        .replace(b'"GPU,DLA,GPU"', b"5")
        .replace(b'"yolo"', b"(1)")
        .replace(b'"1,4,3"', b"[1]")
    )
    assert [m for _, m, _, _ in faults(data, nets)] == [
        "`network_name` is no text", "`streams` is no text", "`devices` has 1 entry, and `device_num` is 3",
        "`5` is no device",
    ]  # fmt: skip


# -- libconfig -------------------------------------------------------------------------------------
def plain(value: libconfig.Value) -> Any:
    match value:
        case libconfig.Scalar():
            return value.value
        case libconfig.Items():
            return [plain(i) for i in value.items]
        case libconfig.ConfigGroup():
            return {s.name: plain(s.value) for s in value.settings}
        case libconfig.BrokenValue():
            return None


def parsed(text: str | bytes) -> tuple[Any, list[tuple[str, int, int]]]:
    found = libconfig.parse("a.cfg", text.encode() if isinstance(text, str) else text, "F705")
    told = [(d.message, d.span.line, d.span.column) for d in found.faults if d.span is not None]
    return (None if found.root is None else plain(found.root)), told


def test_everything_that_libconfig_has() -> None:
    text = """\
# a comment; // another
a = 1; b : -2, c = 0x1F d = 5000000000L
e = [1.5, -.5, 3., 1e3, 2E-2]; f = (1, "x", { y = TRUE }, [ ], ( ), { }, );
g = "one " /* between */ "two" ; h = "\\x41\\xc3\\xa4\\n\\t\\\\\\"\\q"
i = "over
lines"; j-k* = false;
"""
    assert parsed(text) == (
        {
            "a": 1, "b": -2, "c": 31, "d": 5000000000, "e": [1.5, -0.5, 3.0, 1000.0, 0.02],
            "f": [1, "x", {"y": True}, [], [], {}], "g": "one two", "h": 'Aä\n\t\\"\\q', "i": "over\nlines", "j-k*": False,
        },
        [],
    )  # fmt: skip
    assert parsed("\ufeffa = 1\r\nb = 2")[0] == {"a": 1, "b": 2}


@FEW
@given(found=VALUES)
def test_values_survive_the_way_out_and_in(found: Any) -> None:
    text = f"x = {libconfig.written(value_of(found))};"
    assert "\n" not in text
    assert parsed(text) == ({"x": found}, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = GPU; b = 1", [("`GPU` does not fit here", 1, 5)]),
        ("a = 1\nb 2\nc = 3", [("`2` does not fit here", 2, 3)]),
        (
            "a = ;\nb = = 2;\nc = 3",
            [("`;` does not fit here", 1, 5), ("`=` does not fit here", 2, 5)],
        ),
        ("a = 1 2; b = 3", [("`2` does not fit here", 1, 7)]),
        (
            "a = { b = 1 } 5 c = { d = }",
            [("`5` does not fit here", 1, 15), ("`}` does not fit here", 1, 27)],
        ),
        ("a = ( 1 2 )\nb = 1", [("`2` does not fit here", 1, 9)]),
        ("a = 1;; b = 2", [("`;` does not fit here", 1, 7)]),
        ("a = 'x'", [("`'` means nothing here", 1, 5)]),
        ('a = "x', [("this text is never closed", 1, 5)]),
        ("a = 1 /* x", [("this comment is never closed", 1, 7)]),
        ("a = { b = 1", [("this `{` is never closed", 1, 5)]),
        ("a = ( { b = 1 )", [("`)` does not fit here", 1, 15)]),
        ("}", [("`}` does not fit here", 1, 1)]),
        ("a", [("the file ends after `a`", 1, 1)]),
        (
            '@include "/etc/passwd"\na = ;',
            [("`@include` is not followed", 1, 1), ("`;` does not fit here", 2, 5)],
        ),
        ("a = 1\na = 2", [("`a` is set twice", 2, 1)]),
        (
            "a = { b };\nc = ( d )",
            [("`}` does not fit here", 1, 9), ("`d` does not fit here", 2, 7)],
        ),
        ('a = [1, "x"]', [("the entries of an array have one type", 1, 9)]),
        ("a = 99999999999999999999", [("this number has more than 64 bits", 1, 5)]),
        (f"a = {'9' * 5000}", [("this number is too long", 1, 5)]),
        ("a = 1e999", [("`1e999` is no number", 1, 5)]),
        ("a = 1.5L", [("`1.5L` is no number", 1, 5)]),
        ("a = " + "(" * 33, [("more than 32 brackets inside each other", 1, 37)]),
        (b"a = \xff", [("this is not a text", 1, 1)]),
        (b"a = \0", [("this is not a text", 1, 1)]),
        ('a = "1\nb = "2"\nc = 3', [("`2` does not fit here", 2, 6)]),
    ],
)
def test_syntax_faults(text: str | bytes, expected: list[tuple[str, int, int]]) -> None:
    assert parsed(text)[1] == expected


def test_syntax_faults_say_what_to_do() -> None:
    text = 'a = GPU; b = 1 2; c = ( { ); d = "1\ne = "2"'
    found = libconfig.parse("a.cfg", text.encode(), "F705").faults
    assert [d.help for d in found] == [
        'texts stand in quotes: "GPU"',
        "expected a setting such as `name = value`, `,`, `;` or the end of the file",
        "expected a setting such as `name = value` or `}`",
    ]
    assert [n.message for n in found[2].notes] == ["opened here"]
    (found_quote, *_) = libconfig.parse("a.cfg", b'd = "1\ne = "2"', "F705").faults
    assert found_quote.help == "the text in front of it begins in line 1: is a quote missing there?"


def test_a_hostile_file_takes_a_moment() -> None:
    with in_a_moment():
        large = b"".join(b"a%d=1\n" % i for i in range(2_500))
        assert len(parsed(large + b"x = = 1;" * 50)[1]) == libconfig.MOST
        assert parsed(b"(" * libconfig.LARGEST)[0] is None
        assert parsed(b"a = " + b"{ a = " * 30_000)[0] is None
        assert parsed(large * 40)[1] == [
            (f"this file has {len(large) * 40} bytes, and a configuration at most {1 << 18}", 1, 1)
        ]


PIECES = re.findall(rb'"[^"]*"|\w+|\s+|.', config())
OTHERS = [
    b'"',
    b'""',
    b'"-1"',
    b"0",
    b"{",
    b"}",
    b"(",
    b")",
    b"=",
    b";",
    b",",
    b"#",
    b"/*",
    b"@include",
    b"\xff",
    b'"1,2"',
]


@FEW
@given(data=st.data())
def test_a_mutated_file_never_crashes(data: st.DataObject, nets: Path) -> None:
    pieces = list(PIECES)
    for _ in range(data.draw(st.integers(1, 4))):
        at, other = (
            data.draw(st.integers(0, len(pieces) - 1)),
            data.draw(st.integers(0, len(pieces) - 1)),
        )
        match data.draw(st.sampled_from(["delete", "double", "swap", "replace"])):
            case "delete":
                pieces[at] = b""
            case "double":
                pieces[at] += b" " + pieces[at]
            case "swap":
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case _:
                pieces[at] = data.draw(st.sampled_from(OTHERS))
    try:
        result = jedi.read("app.cfg", b"".join(pieces), nets / "x.flow")
    except Errors as found:
        assert found.diagnostics and all(
            d.code in ("F705", "F706") and d.message for d in found.diagnostics
        )
        return
    assert Parser().parse("x.flow", result.text)[1] == []


# -- the verbs -------------------------------------------------------------------------------------
@pytest.fixture
def here(nets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder with the network."""
    (tmp_path / "net.onnx").write_bytes((nets / "net.onnx").read_bytes())
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def test_import_and_export_from_the_command_line(here: Path) -> None:
    Path("app.cfg").write_bytes(config({}, {"network_name": "other"}))
    done = flowc("import", "app.cfg", "-o", "out/app.flow")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "out/app.flow\n", "")
    assert 'from "../net.onnx"' in Path("out/app.flow").read_text()
    assert (
        "error[F604]: `out/app.flow` exists"
        in flowc("import", "app.cfg", "-o", "out/app.flow").stderr
    )
    done = flowc("export", "out/app.flow", "--format", "jedi", "--platform", "xavier")
    assert (done.exit_code, done.stdout) == (0, "app.cfg\n") or "F604" in done.stderr
    done = flowc(
        "export", "out/app.flow", "--format", "jedi", "--platform", "xavier", "-o", "back.cfg"
    )
    assert (done.exit_code, done.stdout) == (0, "back.cfg\n")
    back = jedi_file.read("back.cfg", Path("back.cfg").read_bytes()).instances
    there = jedi_file.read("app.cfg", Path("app.cfg").read_bytes()).instances
    assert [i.stages for i in back] == [i.stages for i in there]
    done = flowc(
        "export", "out/app.flow", "--format", "jedi", "--platform", "xavier", "--app", "Other"
    )
    assert (done.exit_code, done.stdout) == (0, "Other.cfg\n")
    assert flowc("export", "out/app.flow", "--format", "jedi").stderr.startswith(
        "error[F708]: `Yolo.net` is not mapped"
    )


def test_wrong_files_are_told_apart(here: Path) -> None:
    Path("neither.cfg").write_text("[section]\nkey=value\n")
    done = flowc("import", "neither.cfg")
    assert done.exit_code == 1
    assert (
        "error[F402]: `neither.cfg` is no Darknet network: it does not begin with [net]"
        in done.stderr
    )
    assert "error[F705]: `[` does not fit here\n --> neither.cfg:1:1" in done.stderr
    Path("faulty.cfg").write_bytes(config({"devices": "GPU,TPU,GPU"}))
    done = flowc("import", "faulty.cfg", "--json")
    assert done.exit_code == 1
    assert [d["code"] for d in json.loads(done.stdout)["diagnostics"]] == ["F706"]
    assert "F402" not in done.stderr and "Traceback" not in done.stderr
    Path("tiny.cfg").write_text(NET)
    with pytest.raises(NotJedi):
        jedi.read("tiny.cfg", NET.encode(), Path("x.flow"))
    # it is Darknet's, whose weights are missing
    assert flowc("import", "tiny.cfg").stderr.startswith("error[F407]")
    assert flowc("import", "none.cfg").stderr.startswith("error[F401]: cannot read `none.cfg`")
    assert flowc("import", "faulty.cfg", "--weights", "x").exit_code == 2
    assert flowc("import", "faulty.cfg", "--processor", "x").exit_code == 2
    assert flowc("export", "net.onnx", "--format", "jedi").exit_code == 2
    assert flowc("export", "net.onnx", "--format", "jed").exit_code == 2


def test_faults_of_a_text_come_before_its_export(here: Path) -> None:
    Path("a.flow").write_text(
        FLOW.format(pin='A.net -> volta until "l9" | volta', precision="fp16", doc="", app="")
    )
    done = flowc("export", "a.flow", "--format", "jedi", "--platform", "xavier")
    assert done.exit_code == 1 and done.stderr.startswith("error[F507]: `net.onnx` has no layer")
    assert not Path("A.cfg").exists()
