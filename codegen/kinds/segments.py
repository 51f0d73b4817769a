"""Networks on CPUs that share segments with others: a session for each segment, which all of them
run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...model.application import Task
from ...model.deployment import Deployment
from ...networks.onnx.memory import needs
from ..names import literal, option
from .kind import CodeSite, Identifiers, Kind, several


@dataclass(frozen=True, slots=True)
class SegmentCode:
    """A model with the numbers of its inputs and outputs; `weights` is in bytes."""

    file: str
    reads: tuple[tuple[str, int], ...]
    makes: tuple[tuple[str, int], ...]
    weights: int


@dataclass(frozen=True, slots=True)
class SegmentsCode:
    """Segments one after another; see `model.application.Segments`. The rest is as in
    `OnnxCode`."""

    segments: tuple[SegmentCode, ...]
    outputs: tuple[int, ...]
    threads: int = 1
    spin: bool = False
    block: int | None = None
    kind: str = "segments"

    on_device = False
    batch, moves = 1, False
    words = frozenset({"Segments"})

    def libraries(self, deployment: Deployment) -> tuple[str, ...]:
        """See `Code`."""
        return ("onnxruntime",)

    def text(self, ids: Identifiers) -> str:
        """See `Code`."""
        parts = [literal((s.file, list(s.reads), list(s.makes))) for s in self.segments]
        options = [
            option("threads", several(self.threads)),
            option("spin", self.spin),
            option("block", self.block),
        ]
        outputs = literal(list(self.outputs))
        return f"Segments([{', '.join(parts)}], {outputs}{''.join(options)})"


def _serves(task: Task, site: CodeSite) -> bool:
    return (
        task.network is not None
        and task.network.segments is not None
        and site.on_cpu
        and site.batch == 1
    )


def _make(task: Task, site: CodeSite) -> SegmentsCode:
    assert task.network is not None and task.network.segments is not None
    whole, parts, known = task.network, task.network.segments, needs(task.network)
    segments = []
    for s in parts.segments:
        # File names of the user are assumed to have no `=`.
        file = site.sources.place(
            "networks", Path(whole.path).with_name(f"shared={s.digest}.onnx"), s.model
        )
        segments.append(SegmentCode(file, s.reads, s.makes, s.weights))
    spin = site.place.threads > 1 and site.alone
    block = None if known is None else known.block
    return SegmentsCode(tuple(segments), parts.outputs, site.place.threads, spin, block)


KIND = Kind("segments", SegmentsCode.words, _serves, _make)
