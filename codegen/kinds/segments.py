"""Networks on CPUs that share segments with others: a session for each segment, which all of them
run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...model.application import Task
from ...model.deployment import Deployment
from ...networks.onnx.memory import needs
from ..libraries import Library, onnxruntime
from ..names import literal, option
from .kind import CPU, BuildCode, CodeSite, CpuMemory, Identifiers, Kind, several


@dataclass(frozen=True, slots=True)
class SegmentCode:
    """A model with the numbers of its inputs and outputs; `weights` is in bytes."""

    file: str
    reads: tuple[tuple[str, int], ...]
    makes: tuple[tuple[str, int], ...]
    weights: int


@dataclass(frozen=True, slots=True)
class SegmentsCode(BuildCode):
    """Segments one after another; see `model.application.Segments`. The rest is as in
    `OnnxCode`."""

    segments: tuple[SegmentCode, ...]
    outputs: tuple[int, ...]
    threads: int = 1
    spin: bool = False
    block: int | None = None
    kind: str = "segments"

    words = frozenset({"Segments"})
    not_choosable = None
    abortable = True

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`."""
        return (onnxruntime(),)

    @property
    def memory(self) -> CpuMemory:
        """See `BuildCode`."""
        return CpuMemory(tuple((s.file, s.weights) for s in self.segments), self.block)

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        parts = [literal((s.file, list(s.reads), list(s.makes))) for s in self.segments]
        options = [
            option("threads", several(self.threads)),
            option("spin", self.spin),
            option("block", self.block),
        ]
        outputs = literal(list(self.outputs))
        return f"Segments([{', '.join(parts)}], {outputs}{''.join(options)})"


def _make(task: Task, site: CodeSite) -> SegmentsCode | None:
    whole = task.network
    if whole is None or whole.segments is None or site.batch > 1:
        return None
    parts, known = whole.segments, needs(whole)
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


KIND = Kind("segments", SegmentsCode.words, CPU, _make)
