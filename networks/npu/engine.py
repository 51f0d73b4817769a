"""An engine of NPUs as data: what it is called, what installs it, and which layers it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...machines.whoami import version_of
from ..accelerators.breaches import Breach
from ..accelerators.layers import checked_layers

#: Element types that no engine of NPUs takes.
WIDE = ("float64", "string")


@dataclass(frozen=True, slots=True)
class NpuEngine:
    """`name` is written in platforms; `package` is that of PyPI, `install` the command for it, with
    the extra of flowc, and `purpose` what it is for, in the words of `flowc doctor`.

    `precisions` are those in which it computes on some NPU, `operators` those of ONNX that it
    offers (None: only the machine with the NPU knows). A pool has at most `cores` of its
    processors, and a network there takes and gives tensors of the types `borders` (None: any).
    """

    name: str
    title: str
    package: str
    install: str
    purpose: str
    precisions: tuple[str, ...]
    operators: frozenset[str] | None
    cores: int | None = None
    borders: tuple[str, ...] | None = None

    @property
    def version(self) -> str:
        """What is installed here; empty if it is not."""
        return version_of(self.package) or ""

    def breaches(
        self, path: Path, input_shapes: Mapping[str, tuple[int, ...]] = {}
    ) -> tuple[Breach, ...]:
        """What keeps layers off the NPU, in the order of the file. Raises NetworkError."""
        found = []
        for layer in checked_layers(path, input_shapes, 1):
            shapeless = layer.shapeless()
            types = {layer.tensors[t].dtype for t in layer.inputs if t in layer.flowing}
            wide = sorted(types.intersection(WIDE))
            if self.operators is not None and layer.op not in self.operators:
                rule, detail = f"not offered by {self.title}", layer.op
            elif shapeless is not None:
                rule, detail = "static shapes", f"`{shapeless}` has no fixed shape"
            elif wide:
                rule, detail = "data of at most 32 bits", wide[0]
            else:
                continue
            found.append(Breach(layer.name, layer.op, rule, detail))
        return tuple(found)
