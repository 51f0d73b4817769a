"""Networks on CPUs that share segments with others: a session for each segment, which all of them
run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ...model.application import Segment, Task
from ...model.deployment import Deployment
from ...networks.onnx.memory import needs
from ...networks.onnx.whole import whole_of
from ..libraries import Library, onnxruntime
from ..names import literal, option
from .common_weights import place_common
from .kind import CPU, BuildCode, CodeSite, CpuMemory, Identifiers, Kind, several


@dataclass(frozen=True, slots=True)
class SegmentCode:
    """A model with the numbers of its inputs and outputs; `weights` are bytes that it has for
    itself."""

    file: str
    reads: tuple[tuple[str, int], ...]
    makes: tuple[tuple[str, int], ...]
    weights: int


@dataclass(frozen=True, slots=True)
class SegmentsCode(BuildCode):
    """Segments one after another; `outputs` are the numbers of their results, in port order.
    `common` is the file that lists common weights, and `common_weights` their bytes. The rest is as
    in `OnnxCode`."""

    segments: tuple[SegmentCode, ...]
    outputs: tuple[int, ...]
    threads: int = 1
    spin: bool = False
    block: int | None = None
    common: str = ""
    common_weights: int = 0
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
        weights = [(s.file, s.weights) for s in self.segments]
        if self.common:
            weights.append((self.common, self.common_weights))
        return CpuMemory(tuple(weights), self.block)

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        parts = [literal((s.file, list(s.reads), list(s.makes))) for s in self.segments]
        options = [
            option("threads", several(self.threads)),
            option("spin", self.spin),
            option("block", self.block),
            option("common", self.common),
        ]
        outputs = literal(list(self.outputs))
        return f"Segments([{', '.join(parts)}], {outputs}{''.join(options)})"


def _make(task: Task, site: CodeSite) -> SegmentsCode | None:
    whole = task.network
    if whole is None or whole.segments is None or site.batch > 1:
        return None
    parts, known = whole.segments, needs(whole)
    forms = {} if parts.common is None else {f.digest: f for f in parts.common.forms}
    segments = []
    for s in parts.segments:
        # File names of the user are assumed to have no `=`.
        file = site.sources.place(
            "networks", Path(whole.path).with_name(name_of(s.digest)), s.model
        )
        weights = forms[s.digest].weights if s.digest in forms else _laid_out(s)
        segments.append(SegmentCode(file, s.reads, s.makes, weights))
    spin = site.place.threads > 1 and site.alone
    block = None if known is None else known.block
    code = SegmentsCode(tuple(segments), parts.outputs, site.place.threads, spin, block)
    if parts.common is None:
        return code
    models = {digest: name_of(digest) for digest in forms}
    common = place_common(parts.common, models, site.sources)
    return replace(code, common=common, common_weights=parts.common.weights)


@cache
def _laid_out(segment: Segment) -> int:
    """Bytes of the weights of a segment, as ONNX Runtime lays them out where that is known."""
    import onnx

    known = whole_of(onnx.load_model_from_string(segment.model))
    return segment.weights if known is None else known.weights


def name_of(digest: str) -> str:
    """Of the file of a segment."""
    return f"shared={digest}.onnx"


KIND = Kind("segments", SegmentsCode.words, CPU, _make)
