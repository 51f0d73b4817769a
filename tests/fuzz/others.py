"""Files of other tools: arrays of numpy, networks of Darknet, configurations of JEDI, graphs of
SDF3, HOPES projects."""

from __future__ import annotations

import io
import json
import shutil
import struct
import zipfile
from functools import lru_cache
from pathlib import Path
from random import Random

import flowc
import numpy as np
from flowc.cli.import_ import import_
from flowc.interop.registry import Options
from flowc.networks.onnx.interface import Border, NetworkError
from flowc.networks.quantization.calibration import calibration

from ..referees.hopes_cic import translated
from . import mutate
from .faces import ROOT, face


def nothing(folder: Path) -> None:
    """No files are needed."""


# -- arrays ----------------------------------------------------------------------------------------
def make_numpy(rng: Random, folder: Path) -> None:
    """An `.npy` or an `.npz`, damaged."""
    shape = rng.choice(((1, 2, 4), (5, 2, 4), (2, 4), (0, 2, 4), (2,), ()))
    array = np.zeros(shape, rng.choice(("<f4", "<f8", "<i8", "?", ">f4", "<U3")))
    stream = io.BytesIO()
    if rng.random() < 0.5:
        np.save(stream, array)
        content = stream.getvalue()
        if rng.random() < 0.5:
            header = mutate.text(
                rng, content[10:128].decode(), [content[10:128].decode(), "(True, 8)", "1" * 60]
            )
            content = content[:10] + header.encode()[:118].ljust(118) + content[128:]
        name = "a.npy"
    else:
        (np.savez if rng.random() < 0.5 else np.savez_compressed)(
            stream, x=array, **({"y": array} if rng.random() < 0.5 else {})
        )
        content = stream.getvalue()
        if rng.random() < 0.2:
            content = _with_other_entry(rng)
        name = "a.npz"
    (folder / name).write_bytes(mutate.data(rng, content) if rng.random() < 0.6 else content)


def _with_other_entry(rng: Random) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(
        stream, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    ) as file:
        shape = rng.choice(("(40000000, 2, 4)", "(10000000000, 8)", "(-1, 8)", "(True, 8)"))
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        file.writestr(
            "x.npy",
            b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(64),
        )
    return stream.getvalue()


def run_numpy(rng: Random, folder: Path) -> bool:
    """Samples for a network of one or two inputs."""
    names = rng.choice((("x",), ("x", "y")))
    try:
        return bool(calibration("*.np*", folder, [Border(n, "float32", (1, 2, 4)) for n in names]))
    except NetworkError:
        return False


# -- Darknet ---------------------------------------------------------------------------------------
CFG = """\
[net]
width=16
height=16
channels=3
batch=1

[convolutional]
batch_normalize=1
filters=4
size=3
stride=1
pad=1
activation=leaky

[maxpool]
size=2
stride=2

[convolutional]
filters=21
size=1
activation=linear

[route]
layers=-1,-2

[upsample]
stride=2

[shortcut]
from=-1
activation=linear

[convolutional]
size=1
filters=21
activation=linear

[yolo]
mask=0,1,2
anchors=1,2, 3,4, 5,6
classes=2
num=3
"""


def make_darknet(rng: Random, folder: Path) -> None:
    """A .cfg, and weights of about the right size."""
    cfg = mutate.text(
        rng,
        CFG,
        [
            CFG,
            "[connected]\noutput=7\n[softmax]\n[dropout]\n[region]\n[local]\n[reorg]\nstride=2\n",
        ],
    )
    (folder / "net.cfg").write_bytes(cfg.encode(errors="surrogatepass"))
    weights = struct.pack("<3iq", 0, 2, 0, 0) + struct.pack("<f", 0.5) * rng.choice(
        (4, 774, 775, 775, 775, 776)
    )
    (folder / "net.weights").write_bytes(
        mutate.data(rng, weights) if rng.random() < 0.4 else weights
    )


def run_darknet(rng: Random, folder: Path) -> bool:
    """Import it."""
    return face(
        import_, folder / "net.cfg", output=folder / "net.onnx", options=Options(), force=True
    )


# -- JEDI ------------------------------------------------------------------------------------------
JEDI = """\
configs = {
instance_num = "1"
instances = ({
  network_name = "yolo"
  cfg_path = "/sdcard/net.cfg"
  onnx_file_path = "net.onnx"
  batch = "1"
  device_num = "3"
  pre_thread_num = "1"
  post_thread_num = "1"
  buffer_num = "8"
  cut_points = "1,4,7"
  streams = "1,4,3"
  devices = "GPU,DLA,GPU"
  dla_cores = "0,2,0"
  data_type = "FP16"
  app_type = "YoloApplication"
})
}
"""
#: Values of settings with something inside that cannot be read.
FAULTY_VALUES = (
    "{ b }",
    "( { b } )",
    "( 1, ( b ) )",
    "[ 1, @ ]",
    "{ a = { b } }",
    "{ a = @include }",
    "( , )",
)


def make_jedi(rng: Random, folder: Path) -> None:
    """A configuration, whose settings may have values with something faulty inside."""
    seed = JEDI
    if rng.random() < 0.3:
        name, value = rng.choice(("model_dir", "batch", "app_type")), rng.choice(FAULTY_VALUES)
        seed = JEDI.replace('  batch = "1"', f'  batch = "1"\n  {name} = {value};')
    text = mutate.text(
        rng, seed, [JEDI, "@include 0x1FL [1, 2] (1, (2)) { a : 1; } # x\n/* y */ true", CFG]
    )
    (folder / "app.cfg").write_bytes(text.encode(errors="surrogatepass"))
    if rng.random() < 0.3:
        (folder / "net.cfg").write_text(mutate.text(rng, CFG, [CFG]))


def run_jedi(rng: Random, folder: Path) -> bool:
    """Import it; what comes out is a text that flowc can read."""
    done = face(
        import_, folder / "app.cfg", output=folder / "app.flow", options=Options(), force=True
    )
    if done:
        _is_readable(folder / "app.flow")
    return done


def _is_readable(file: Path) -> None:
    found = [d for d in flowc.check(file).diagnostics if d.code in ("F001", "F003", "F101", "F102")]
    assert not found, found


# -- SDF3 ------------------------------------------------------------------------------------------
@lru_cache(maxsize=1)
def _graphs() -> list[str]:
    """Known graphs as SDF3 writes them."""
    texts = []
    for graph in json.loads((ROOT / "tests" / "data" / "known_graphs.json").read_text())[:6]:
        name, kind = graph["name"], graph["kind"]
        ports: dict[str, str] = dict.fromkeys(graph["exec"], "")
        channels = ""
        for i, (a, b, out, into, tokens) in enumerate(graph["channels"]):
            ports[a] += f'<port name="o{i}" type="out" rate="{",".join(map(str, out))}"/>\n'
            ports[b] += f'<port name="i{i}" type="in" rate="{",".join(map(str, into))}"/>\n'
            channels += (
                f'<channel name="c{i}" srcActor="{a}" srcPort="o{i}" dstActor="{b}" dstPort="i{i}" '
                f'initialTokens="{tokens}"/>\n'
            )
        actors = "".join(f'<actor name="{a}" type="{a}">\n{p}</actor>\n' for a, p in ports.items())
        times = "".join(
            f'<actorProperties actor="{a}"><processor type="p1" default="true"><executionTime time="'
            f'{",".join(map(str, t))}"/></processor></actorProperties>\n'
            for a, t in graph["exec"].items()
        )
        texts.append(
            f'<?xml version="1.0" encoding="UTF-8"?>\n<sdf3 type="{kind}" version="1.0">\n<applicationGraph name="{name}">\n'
            f'<{kind} name="{name}" type="G">\n{actors}{channels}</{kind}>\n<{kind}Properties>\n{times}</{kind}Properties>\n'
            "</applicationGraph>\n</sdf3>\n"
        )
    return texts


def make_sdf3(rng: Random, folder: Path) -> None:
    """A graph."""
    bombs = '<!DOCTYPE a [<!ENTITY b "x">]> &b; <![CDATA[ ]]> <!-- --> <?x?> encoding="UTF-16" xmlns:a="b"'
    text = mutate.text(rng, rng.choice(_graphs()), [*_graphs(), bombs])
    (folder / "g.xml").write_bytes(text.encode(errors="surrogatepass"))


def run_sdf3(rng: Random, folder: Path) -> bool:
    """Import it; what comes out is a text that flowc can read."""
    done = face(import_, folder / "g.xml", output=folder / "g.flow", options=Options(), force=True)
    if done:
        _is_readable(folder / "g.flow")
    return done


# -- HOPES -----------------------------------------------------------------------------------------
HOPES = ("Doorbell", "Mixer", "Doorbell_cic", "Mixer_cic")


def prepare_hopes(folder: Path) -> None:
    """A project with networks, and one with code; both in both forms."""
    for name in ("Doorbell", "Mixer"):
        shutil.copytree(ROOT / "tests" / "data" / "hopes" / name, folder / name)
        translated(folder / name / f"{name}.files", folder / f"{name}_cic")


def make_hopes(rng: Random, folder: Path) -> None:
    """One of its files changed; sometimes times beside it."""
    files = sorted(p for p in (folder / rng.choice(HOPES)).rglob("*") if p.is_file())
    file = rng.choice(files)
    texts = [p.read_text(errors="replace") for p in files]
    file.write_bytes(
        mutate.text(rng, file.read_text(errors="replace"), texts).encode(errors="surrogatepass")
    )
    times = json.dumps({"Doorbell1.Face": {"cpu": 1200, "gpu": 300}, "comment": "x"})
    (folder / "times.json").write_bytes(mutate.json_text(rng, times).encode(errors="surrogatepass"))


def run_hopes(rng: Random, folder: Path) -> bool:
    """Import them; what comes out are texts that flowc can read."""
    times = folder / "times.json" if rng.random() < 0.3 else None
    part = rng.choice(
        [{}] * 7 + [{"state": "busy"}, {"device": "Door_Board"}, {"modes": ["Camera_1=Day"]}]
    )
    done = True
    for name in HOPES:
        out = folder / "out" / f"{name}.flow"
        options = Options({"times": times, **part})
        if face(import_, folder / name, output=out, options=options, force=True):
            _is_readable(out)
        else:
            done = False
    return done


# -- PREESM ----------------------------------------------------------------------------------------
def prepare_preesm(folder: Path) -> None:
    """A project."""
    shutil.copytree(ROOT / "tests" / "data" / "preesm" / "Ramp", folder / "Ramp")


def make_preesm(rng: Random, folder: Path) -> None:
    """One of its files changed."""
    files = sorted(
        p
        for p in (folder / "Ramp").rglob("*")
        if p.suffix in (".pi", ".slam", ".scenario", ".h", ".c")
    )
    file = rng.choice(files)
    texts = [p.read_text() for p in files]
    file.write_bytes(mutate.text(rng, file.read_text(), texts).encode(errors="surrogatepass"))


def run_preesm(rng: Random, folder: Path) -> bool:
    """Import it; what comes out is a text that flowc can read."""
    out = folder / "out" / "ramp.flow"
    name = rng.choice(["Scenarios/two.scenario", "Algo/ramp.pi"])
    done = face(import_, folder / "Ramp" / name, output=out, options=Options(), force=True)
    if done:
        _is_readable(out)
    return done
