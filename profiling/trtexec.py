"""Times of layers that NVIDIA's trtexec has measured.

In: the bytes of a file from anywhere, which `--exportProfile=FILE` wrote (JSON), or what
`--dumpProfile` printed. Out: the layers of one engine, with average times.
What they mean for a network is left to `engine_layers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from ..model.json_reader import Between, parse, read
from .engine_layers import EngineLayer

#: Limits of a file: large engines have some thousands of layers, whose names join those of nodes.
MOST_LAYERS, LONGEST_NAME = 100_000, 100_000

#: trtexec writes names into JSON as they are, with the control characters of TensorRT 8.6.
_PRINTABLE = bytes(c if c >= 32 or c in b"\n\r\t" else 32 for c in range(256))
_STAMP = re.compile(r"^\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[\w\] ?")
_TITLE = re.compile(r"=== Profile \((\d+) iterations? *\) ===")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class LayerProfile:
    """The layers of an engine in their order; means of `iterations` runs."""

    iterations: int
    layers: tuple[EngineLayer, ...]

    def longer(self, ratio: float) -> LayerProfile:
        """The same with so many times as long layers."""
        layers = tuple(replace(layer, ns=layer.ns * ratio) for layer in self.layers)
        return LayerProfile(self.iterations, layers)


@dataclass(frozen=True, slots=True)
class _Count:
    """The first entry of an exported profile."""

    count: Annotated[int, Between(1, 10**12)]


@dataclass(frozen=True, slots=True)
class _Layer:
    """What is read of a further entry."""

    name: str
    ms: Annotated[float, Between(0, 10**9)] = field(metadata={"json": "averageMs"})


@dataclass(frozen=True, slots=True)
class _Document:
    """The entries behind the first one."""

    layers: tuple[_Layer, ...]


def layer_profile(content: bytes) -> LayerProfile:
    """What is in a file. Raises ValueError."""
    if content.lstrip()[:1] == b"[" and not _STAMP.match(content[:40].decode("latin-1")):
        return _limited(_exported(parse(content.translate(_PRINTABLE))))
    return _limited(_printed(content.decode("utf-8", errors="replace").splitlines()))


def _limited(found: LayerProfile) -> LayerProfile:
    if len(found.layers) > MOST_LAYERS:
        raise ValueError(f"it has more than {MOST_LAYERS} layers")
    if any(len(layer.name) > LONGEST_NAME for layer in found.layers):
        raise ValueError(f"a name is longer than {LONGEST_NAME} characters")
    if not any(layer.ns for layer in found.layers):
        raise ValueError("all of its times are 0")
    return found


def _exported(document: Any) -> LayerProfile:
    if not isinstance(document, list) or not document:
        raise ValueError("it is no list of layers of trtexec")
    count = read(_Count, document[0]).count
    known = ("name", "averageMs")
    entries = [
        {name: value for name, value in entry.items() if name in known}
        for entry in document[1:]
        if isinstance(entry, dict)
    ]
    layers = read(_Document, {"layers": entries}).layers
    return LayerProfile(count, tuple(EngineLayer(x.name, 1e6 * x.ms) for x in layers))


def _printed(lines: Sequence[str]) -> LayerProfile:
    """The last table of the profile in what trtexec printed."""
    plain = [_STAMP.sub("", line).strip() for line in lines]
    titles = [(k, found) for k, line in enumerate(plain) if (found := _TITLE.fullmatch(line))]
    if not titles:
        raise ValueError(
            "it has neither the list of `trtexec --exportProfile` nor the table of `--dumpProfile`"
        )
    start, title = titles[-1]
    rows = [line for line in plain[start + 1 :] if line]
    head = rows[0] if rows else ""
    numbers = len(re.findall(r"\(ms\)|%", head))
    if "Layer" not in head or numbers not in (3, 4):
        raise ValueError(f"line {start + 2} is not the head of a table of layers")
    layers = tuple(_rows(rows[1:], head.startswith("Layer"), numbers))
    return LayerProfile(int(title[1]), layers)


def _rows(lines: Iterable[str], names_first: bool, numbers: int) -> Iterator[EngineLayer]:
    """The layers below a head, with so many numbers, the second of which is the average.

    TensorRT 8 prints names first.
    """
    for line in lines:
        words = line.split()
        given, name = words[:numbers], words[numbers:]
        if names_first:
            name, given = words[:-numbers], words[-numbers:]
        if not name or not all(_NUMBER.fullmatch(word) for word in given):
            raise ValueError(f"this is no row of a table of layers: {line[:80]}")
        if name == ["Total"]:
            return
        yield EngineLayer(" ".join(name), 1e6 * float(given[1]))
    raise ValueError("its table of layers has no row `Total`")
