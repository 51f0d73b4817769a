"""The networks of an application alone, for programs that other tools generate (external.json)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

EXTERNAL_VERSION = 1


@dataclass(frozen=True, slots=True)
class ExternalTensor:
    """A tensor at the border of a network, by its ONNX name, with the type of one frame."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExternalPort:
    """A port of a network, with the tensor that it carries."""

    name: str
    tensor: ExternalTensor


@dataclass(frozen=True, slots=True)
class ExternalStage:
    """A network or a stage of one: a file of the build, and its input and output tensors.

    `threads` of the inference library run it. With `bands` the file is a plan of firings.
    """

    name: str
    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    threads: int
    bands: bool = False


@dataclass(frozen=True, slots=True)
class ExternalNetwork:
    """One instance of a network, `App.task`.

    Ports are those of the whole network in the order of its declaration, however it is cut; the C
    functions are `function` with `_init`, `_execute`, `_wrapup` and `_error` behind it.
    """

    name: str
    function: str
    doc: str
    inputs: tuple[ExternalPort, ...]
    outputs: tuple[ExternalPort, ...]
    stages: tuple[ExternalStage, ...]


@dataclass(frozen=True, slots=True)
class External:
    """All networks of a text; `name` is its stem, `library` the linker's name of the shared
    library.
    """

    name: str
    source: str
    platform: str
    library: str
    networks: tuple[ExternalNetwork, ...]

    def to_json(self) -> str:
        """The text of external.json; deterministic for equal contents."""
        document: dict[str, Any] = {"version": EXTERNAL_VERSION, **asdict(self)}
        return json.dumps(document, indent=1) + "\n"
