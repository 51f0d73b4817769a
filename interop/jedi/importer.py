"""Configurations of JEDI (cap-lab's framework for Jetson boards) to `.flow` texts; `writer` is the
inverse.

In: the bytes of a file, and the place of the text, because networks are searched there. Out: a text
in which each instance is an app with a network, and a mapping with pins for JEDI's numbers; and
warnings about what cannot be expressed or is unknown. JEDI's C++ code becomes abstract tasks,
settings without a meaning here become `jedi:` lines before the app, from which `writer` takes them.
`file` reads the numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...model.diagnostic import Diagnostic, Errors
from ...model.mapping import NetworkPlan, StagePlan, in_words
from ...model.span import Span
from ...networks.onnx.interface import Border
from .. import registry
from ..content import content
from ..names import capitalised, identifiers, shown
from ..registry import Exported, Request, Source
from . import file as jedi_file
from .file import BOTH, GPU, JediInstance, JediStage, NotJedi
from .networks import KnownNetwork, look
from .writer import KEPT, write

__all__ = ["ImportedConfig", "NotJedi", "read", "write"]
#: Widest task on one line.
WIDEST = 110
#: JEDI's board, as far as its files depend on it: its processors, and their frequencies.
BOARD = """\
/// NVIDIA Jetson AGX Xavier.
platform xavier {
    cpu carmel[8] frequencies [1190.4, 1728, 2265.6] MHz
    gpu volta frequencies [675.75, 905.25, 1377] MHz
    dla nvdla[2] engines 4 total
}
"""
_GPU, _DLAS = "volta", ("nvdla[0]", "nvdla[1]")


@dataclass(frozen=True, slots=True)
class ImportedConfig:
    """`text` is the .flow source."""

    text: str
    warnings: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of an instance's parts in the text."""

    app: str
    source: str
    pre: str
    post: str
    sink: str
    network: str


@dataclass(frozen=True, slots=True)
class _Port:
    """A port of the network: its name, the tensor, and its type with a colon before it, if
    known."""

    name: str
    tensor: str
    type: str


def read(path: str, data: bytes, target: Path) -> ImportedConfig:
    """Import a configuration. `path` is its place and is shown in messages, `target` is the place
    of the text.

    Raises Errors with all faults; NotJedi if the file has nothing of a configuration.
    """
    configuration = jedi_file.read(path, data)
    names = _names(configuration.instances, Path(path).stem)
    warnings = list(configuration.warnings)
    faults: list[Diagnostic] = []
    apps, pins = [], []
    for number, (instance, name) in enumerate(zip(configuration.instances, names, strict=True), 1):
        known = look(instance, instance.name or name.app.lower(), Path(path), target)
        found = _App(Path(path).name, target.parent, number, instance, name, known)
        faults += found.faults()
        warnings += found.warnings()
        apps.append(found.text())
        pins += [f"    {line}" for line in found.pin()]
    if faults:
        raise Errors(faults)
    mapping = "\n".join(["mapping on xavier {", *pins, "}", ""])
    return ImportedConfig("\n".join([*apps, BOARD, mapping]), tuple(warnings))


def _names(instances: Sequence[JediInstance], stem: str) -> list[_Names]:
    """Unique names; apps first, so that these have the names of JEDI's networks."""
    apps = identifiers([capitalised(i.name or stem, "app") for i in instances], "app")
    parts = []
    for app in apps:
        for part in ("Source", "Pre", "Post", "Sink", "Net"):
            parts.append(f"{app}{part}")
    others = identifiers([*apps, *parts], "app")[len(apps) :]
    return [_Names(app, *others[5 * k : 5 * k + 5]) for k, app in enumerate(apps)]


@dataclass(frozen=True, slots=True)
class _App:
    """One instance as a part of the text, which will stand in `folder`."""

    file: str
    folder: Path
    number: int
    instance: JediInstance
    names: _Names
    known: KnownNetwork

    # -- what is said ------------------------------------------------------------------------------
    def faults(self) -> list[Diagnostic]:
        """Cut points that the network does not have."""
        layers = self.known.layers
        if layers is None:
            return []
        last = len(layers) - 1
        found = []
        for stage in self.instance.stages[:-1]:
            if stage.last >= last:
                message = (
                    f"there is nothing after layer {stage.last}: the layers of `{self.known.file}`"
                    f" are 0 to {last}"
                )
                found.append(
                    Diagnostic("F706", message, stage.span, help="every stage needs a layer")
                )
        return found

    def warnings(self) -> Iterator[Diagnostic]:
        """Warnings about missing values, and values that mean less than in JEDI."""
        instance, known, stages = self.instance, self.known, self.instance.stages
        reason, help_text = known.missing
        if reason:
            yield self._warning(reason, help_text, instance.network_span)
        if len(stages) > 1 and known.layers is None:
            yield self._nameless()
        last, end = stages[-1].last, len(known.layers or ()) - 1
        if last < end:
            help_text = f"in flowc the last stage extends to the end of the network, layer {end}"
            message = f"JEDI stops after layer {last} of `{known.file}`"
            yield self._warning(message, help_text, stages[-1].span)
        if self._batch_left_out and known.first_dimensions != {instance.batch}:
            help_text = (
                f"`{known.file}` takes one input at a time; `batch` needs an open first dimension"
            )
            yield self._warning(f"batch {instance.batch} is left out", help_text, instance.span)
        if instance.precision == "int8" and not any(self.folder.glob(self._calibration)):
            help_text = (
                f"write some as `{self._calibration}`; JEDI's own table is one of TensorRT's"
            )
            message = "there are no inputs yet to calibrate 8 bits with"
            yield self._warning(message, help_text, instance.span)

    def _warning(self, message: str, help_text: str, span: Span | None) -> Diagnostic:
        text = f"instance {self.number}: {message}"
        return Diagnostic("F707", text, span, help=help_text, severity="warning")

    def _nameless(self) -> Diagnostic:
        """The warning that names of layers at cuts are not known."""
        cuts = [str(s.last) for s in self.instance.stages[:-1]]
        what = f"the name of layer {cuts[0]} is"
        if len(cuts) > 1:
            what = f"the names of layers {' and '.join(cuts)} are"
        help_text = f"it follows from `{self.known.file}`"
        if self.instance.onnx:
            help_text = (
                "JEDI counts the layers that TensorRT makes, and prints them: put names into the"
                " mapping"
            )
        return self._warning(
            f"{what} not known: nothing is pinned", help_text, self.instance.stages[0].span
        )

    @property
    def _calibration(self) -> str:
        """The place of inputs for calibration: beside the text, as files of numpy."""
        ending = "npz"
        if len(self.known.inputs or ()) <= 1:
            ending = "npy"
        return f"calibration/{self.names.app}/*.{ending}"

    @property
    def _batch_left_out(self) -> bool:
        """Does the text lack the batch? Only networks with an open first dimension can be
        grouped."""
        return self.instance.batch > 1 and not self.known.open_batch

    # -- the text ----------------------------------------------------------------------------------
    def text(self) -> str:
        """Tasks, network and app."""
        n, inputs, outputs = self.names, *self._ports()
        lines = [
            f"// {self._code()} is C++ code: give these tasks code of their own,"
            ' such as `python "FILE.py:NAME"`, and ports a type.',
            *self._tasks(inputs, outputs),
            self._network(inputs, outputs),
            "",
            f"/// Imported from {shown(self.file)} (JEDI), instance {self.number}.",
        ]
        for name, value in self._kept():
            lines.append(f"/// {KEPT} {name} = {value}")
        lines.append(f"app {n.app} {{")
        for part, of in _PARTS:
            lines.append(f"    {part}: {getattr(n, of)}")
        lines.append("")
        for line in _arrows(inputs, outputs):
            lines.append(f"    {line}")
        return "\n".join([*lines, "}", ""])

    def _code(self) -> str:
        """The class of JEDI's application."""
        code = dict(self.instance.others).get("app_type", '"YoloApplication"')
        name = ""
        if _plain(code):
            name = json.loads(code).strip()
        return name or "JEDI"

    def _tasks(self, inputs: Sequence[_Port], outputs: Sequence[_Port]) -> Iterator[str]:
        """The tasks around the network."""
        frame = identifiers([*(p.name for p in inputs), "frame"], "port")[-1]
        result = identifiers([*(p.name for p in outputs), "result"], "port")[-1]
        given = [f"out {p.name}{p.type}" for p in inputs] or ["out data"]
        taken = [f"in {p.name}{p.type}" for p in outputs] or ["in data"]
        source = f"out {frame}"
        if self.known.open_batch and self.instance.batch > 1:
            source += f" rate {self.instance.batch}"
        yield _task(self.names.source, [source])
        yield _task(self.names.pre, [f"in {frame}", *given, "stateless"])
        yield _task(self.names.post, [*taken, f"out {result}", "stateless"])
        yield _task(self.names.sink, [f"in {result}"])

    def _kept(self) -> list[tuple[str, str]]:
        """Settings that `writer` takes back."""
        kept = list(self.instance.others)
        if self._batch_left_out:
            kept.append(("batch", f'"{self.instance.batch}"'))
        if self.instance.onnx:  # only TensorRT knows what these numbers count
            kept.append(("cut_points", f'"{",".join(str(s.last) for s in self.instance.stages)}"'))
        return kept

    def _ports(self) -> tuple[list[_Port], list[_Port]]:
        """The ports of the network, with names that arrows can use; none if they are unknown."""
        inputs, outputs = self.known.inputs or (), self.known.outputs or ()
        borders = (*inputs, *outputs)
        names = identifiers([b.name for b in borders], "port")
        made = [_Port(n, b.name, self._type(b)) for n, b in zip(names, borders, strict=True)]
        return made[: len(inputs)], made[len(inputs) :]

    def _type(self, border: Border) -> str:
        """The type of a token: an open first dimension is 1 in it."""
        dims = list(border.dims)
        if dims and not isinstance(dims[0], int):
            dims[0] = 1
        if not all(isinstance(d, int) for d in dims):
            return ""
        if dims:
            return f": {border.dtype}[{', '.join(map(str, dims))}]"
        return f": {border.dtype}"

    def _network(self, inputs: Sequence[_Port], outputs: Sequence[_Port]) -> str:
        instance, known = self.instance, self.known
        items = []
        if any(p.name != p.tensor for p in (*inputs, *outputs)):
            for p in inputs:
                items.append(f"in {p.name} from {_text(p.tensor)}")
            for p in outputs:
                items.append(f"out {p.name} from {_text(p.tensor)}")
        if instance.precision not in ("", "fp32"):
            items.append(f"precision {instance.precision}")
        if instance.precision == "int8":
            items.append(f"calibrate {_text(self._calibration)}")
        if known.open_batch:
            items.append(f"batch {instance.batch}")
        head = f"network {self.names.network} from {_text(known.file)}"
        if items:
            return _block(head, items)
        return head

    def pin(self) -> list[str]:
        """The lines of the mapping; comments if the names of layers are unknown."""
        instance = self.instance
        *cut, last = instance.stages
        stages = [_stage(s, self._layer(s.last)) for s in cut]
        stages.append(_stage(last, None))
        plan = NetworkPlan(
            f"{self.names.app}.net", tuple(stages), instance.buffers, instance.pre, instance.post
        )
        line = f"{plan.task} -> {in_words(plan)}"
        if not cut or self.known.layers is not None:
            return [line]
        return [
            "// The names of these layers are not known here, only JEDI's numbers: put them in.",
            f"// {line}",
        ]

    def _layer(self, number: int) -> str:
        """The name of a layer, or its number in words if names are unknown."""
        layers = self.known.layers
        if layers is None:
            return f"layer {number}"
        return layers[min(number, len(layers) - 1)]


_PARTS = (
    ("source", "source"),
    ("pre", "pre"),
    ("net", "network"),
    ("post", "post"),
    ("sink", "sink"),
)


def _stage(stage: JediStage, until: str | None) -> StagePlan:
    """JEDI counts the streams of both copies, a pin those of each."""
    streams = stage.streams
    if stage.device == GPU:
        return StagePlan((_GPU,), until, streams)
    if stage.core < BOTH or streams == 1:  # of two copies, a single stream uses the first
        return StagePlan((_DLAS[stage.core % BOTH],), until, streams)
    return StagePlan(_DLAS, until, streams // 2)


def _arrows(inputs: Sequence[_Port], outputs: Sequence[_Port]) -> list[str]:
    """One chain, unless the network has several inputs or outputs."""
    if len(inputs) <= 1 and len(outputs) <= 1:
        return ["source -> pre -> net -> post -> sink"]
    lines = ["source -> pre -> net"]
    if len(inputs) > 1:
        lines = ["source -> pre", *(f"pre.{p.name} -> net.{p.name}" for p in inputs)]
    if len(outputs) <= 1:
        return [*lines, "net -> post -> sink"]
    return [*lines, *(f"net.{p.name} -> post.{p.name}" for p in outputs), "post -> sink"]


def _task(name: str, items: Sequence[str]) -> str:
    return _block(f"task {name}", items)


def _block(head: str, items: Sequence[str]) -> str:
    line = f"{head} {{ {'   '.join(items)} }}"
    if len(line) <= WIDEST:
        return line
    return "\n    ".join([f"{head} {{", *items]) + "\n}"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _plain(value: str) -> bool:
    """Is a value of libconfig a text that JSON reads as well?"""
    return value.startswith('"') and value.isprintable() and "\\" not in value


def imported(request: Request) -> registry.Imported:
    """The file of a request as a text. Raises Errors."""
    try:
        found = read(str(request.path), content(request.path, "F705"), request.target)
    except NotJedi as fault:  # other tools name their files .cfg, too
        message = f"`{request.path}` is no Darknet network: it does not begin with [net]"
        network = Diagnostic(
            "F402", message, None, help="a .cfg of Darknet describes the layers of a network"
        )
        raise Errors([network, *fault.diagnostics]) from fault
    return registry.Imported({request.target.name: found.text}, found.warnings)


def exported(source: Source, wanted: str | None) -> Exported:
    """The apps of a system, or one of them, with its mapping. Raises Errors."""
    # Networks are cut in the staged system; JEDI gets the cut of the whole.
    found = write(source.whole, source.platform, source.mapping, wanted)
    return Exported(found.name, found.text, found.warnings)
