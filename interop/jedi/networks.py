"""Facts about the network of a JEDI instance: its file, inputs and outputs, and its layers by
number.

In: an instance, and the folders of its configuration and of the text to be written. Out: facts from
the existing files, and the reasons why others are missing. JEDI's paths belong to the board, so
files are also found by their names. For tkDNN, layers are those that `flowc import` writes into an
ONNX file, or those of the Darknet `.cfg` itself, which needs no weights for that; only TensorRT
knows its layers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from ...model.json_reader import parse, read
from ...networks.darknet import convert as darknet
from ...networks.darknet.cfg import read_sections
from ...networks.darknet.net import INPUT
from ...networks.onnx.interface import Border, NetworkError, read_network
from .file import JediInstance


@dataclass(frozen=True, slots=True)
class KnownNetwork:
    """`file` is the ONNX file as named in the text; `there`: it exists.

    `inputs` and `outputs` are None if unknown, `layers` (tensors by tkDNN's numbers) as well.
    `missing` is a reason and what to do, both empty if nothing is missing.
    """

    file: str
    there: bool
    inputs: tuple[Border, ...] | None = None
    outputs: tuple[Border, ...] | None = None
    layers: tuple[str, ...] | None = None
    missing: tuple[str, str] = ("", "")

    @property
    def open_batch(self) -> bool:
        """Is the first dimension of an input left open?"""
        return any(b.dims and not isinstance(b.dims[0], int) for b in self.inputs or ())

    @property
    def first_dimensions(self) -> set[int | str]:
        """Of all inputs."""
        return {b.dims[0] for b in self.inputs or () if b.dims}


def look(instance: JediInstance, name: str, configuration: Path, text: Path) -> KnownNetwork:
    """Facts about the network of an instance; `name` is its network if the configuration names no
    file.

    `configuration` and `text` are the files, the latter of which need not exist.
    """
    path = instance.network.replace("\\", "/")
    named = PurePosixPath(path).name
    file = named
    if not named:
        file = re.sub(r"[^-\w.]", "_", name) + ".onnx"
    elif not instance.onnx:
        file = f"{PurePosixPath(named).stem}.onnx"
    stated = configuration.parent / path
    folders = (text.parent, configuration.parent)
    places = [folder / file for folder in folders]
    # An untrusted path may lead anywhere: a file that is read completely has at least the name of a
    # network.
    if named and stated.suffix == ".onnx":
        places.insert(0, stated)
    onnx = _first(places)
    if onnx is not None:
        return _of_onnx(instance, onnx, text)
    reason = f"there is no `{file}` beside the text"
    if instance.onnx or not named:
        return KnownNetwork(
            file, False, missing=(reason, "put it there, and import this file again")
        )
    cfg = _first([stated, *(folder / named for folder in folders)])
    return _without_onnx(cfg, named, text.parent / file, reason)


def _without_onnx(cfg: Path | None, named: str, file: Path, reason: str) -> KnownNetwork:
    """A Darknet network that is called `named`; `cfg` is its description, None if there is none."""
    source: str | Path = named
    known = None
    if cfg is not None:
        known = _of_darknet(cfg, file.name)
    if cfg is not None and known is not None:
        source = cfg
    known = known or KnownNetwork(file.name, False)
    help_text = f"run `flowc import {source} -o {file}`"
    if not known.layers:
        help_text += ", and import this file again"
    return replace(known, missing=(reason, help_text))


def tkdnn_layers(onnx: Path) -> tuple[str, ...] | None:
    """The tensors by tkDNN's layer numbers that `flowc import` has written into an ONNX file; None
    if it has none."""
    import onnx as library
    from google.protobuf.message import DecodeError

    try:
        model = library.load(str(onnx), load_external_data=False)
        said = {p.key: p.value for p in model.metadata_props}
        return read(tuple[str, ...], parse(said.get("darknet.tkdnn_layers", "null"))) or None
    except (DecodeError, OSError, ValueError):
        return None


def _first(paths: Iterable[Path]) -> Path | None:
    """The first that is a file; an untrusted path may be invalid."""
    return next((p for p in paths if os.path.isfile(p)), None)


def _of_onnx(instance: JediInstance, onnx: Path, text: Path) -> KnownNetwork:
    """An ONNX file that exists."""
    file = os.path.relpath(onnx, text.parent).replace(os.sep, "/")
    layers = None
    if not instance.onnx:
        layers = tkdnn_layers(onnx)
    missing = ("", "")
    try:
        border = read_network(onnx, {}, None)
    except NetworkError as fault:
        return KnownNetwork(file, True, layers=layers, missing=(fault.message, fault.help))
    if layers is None and not instance.onnx:
        again = "write it again from the Darknet network: `flowc import NET.cfg`"
        missing = (f"`{file}` does not say how tkDNN numbers its layers", again)
    return KnownNetwork(file, True, border.inputs, border.outputs, layers, missing)


def _of_darknet(cfg: Path, file: str) -> KnownNetwork | None:
    """A Darknet network whose ONNX file does not exist yet; None if it is none, or faulty."""
    try:
        if not darknet.is_darknet(cfg):
            return None
        net = darknet.network_of(read_sections(cfg))
    except NetworkError:  # its faults are reported when it is imported itself
        return None
    borders = ({INPUT: net.input}, net.outputs)
    inputs, outputs = (
        tuple(Border(t, "float32", (1, *shape)) for t, shape in end.items()) for end in borders
    )
    return KnownNetwork(file, False, inputs, outputs, tuple(net.steps))
