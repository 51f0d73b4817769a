"""An application and the places of its network as a configuration of JEDI; `importer` is the
inverse.

In: a system before its networks are cut, the platform, and the mapping stored beside the text. Out:
the text of a file that JEDI reads, one instance for each app; features that JEDI does not support
are faults. Lines `jedi: NAME = VALUE` in the documentation of an app go into its instance: settings
that flowc does not have. JEDI's code around the network is C++, and is left to the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath

from ...model.application import Application, Network, Task, all_tasks
from ...model.diagnostic import Diagnostic, Errors, closest
from ...model.mapping import Mapping, Pin, PinStage, as_pin
from ...model.platform import Platform
from ...model.span import Span
from ...model.system import System
from ...networks.onnx.cuts import Cut, jedi_allows, read_chain, skips
from ...networks.onnx.interface import NetworkError
from ..names import listed, shown
from ..registry import no_app
from .file import (
    BEYOND,
    BOTH,
    DARKNET_PATH,
    DLA,
    GPU,
    MODELS,
    ONNX_PATHS,
    OWN,
    JediInstance,
    JediStage,
    text_of,
)
from .libconfig import Scalar, parse, quoted, written
from .networks import tkdnn_layers

#: Prefix of a line for JEDI in an app's documentation.
KEPT = "jedi:"
#: Settings of JEDI that may override flowc's values: for values that flowc cannot express.
_YIELDING = frozenset({"batch", "data_type", "cut_points"})


@dataclass(frozen=True, slots=True)
class WrittenConfig:
    """`name` is a name for the file."""

    name: str
    text: str
    warnings: tuple[Diagnostic, ...]


def write(
    system: System, platform: Platform, mapping: Mapping | None, wanted: str | None
) -> WrittenConfig:
    """The file for all apps of a system, or for the one that is `wanted`. Raises Errors (F215,
    F708)."""
    apps = [a for a in system.apps if wanted is None or a.name == wanted]
    if not apps:
        raise no_app(wanted, (a.name for a in system.apps))
    faults: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    instances = []
    for app in apps:
        made = _App(app, platform, _pins(system, platform, mapping))
        instance = made.instance()
        if instance is not None:
            instances.append((instance, made.remarks))
        faults += made.faults
        warnings += made.warnings
    if faults:
        raise Errors(faults)
    text = PurePosixPath(system.path).name
    remarks = [f"Written by flowc from {shown(text)}, platform {shown(platform.name)}."]
    name = system.stem
    if len(apps) == 1:
        name = apps[0].name
    return WrittenConfig(name, text_of(instances, remarks), tuple(warnings))


def _pins(system: System, platform: Platform, mapping: Mapping | None) -> dict[str, Pin]:
    """The place of each network: its pin, else the stored mapping."""
    pins = {p.task: p for p in system.pins if p.platform == platform.name}
    spans = {task.name: task.span for task in all_tasks(system.apps)}
    if mapping is None:
        return pins
    for plan in mapping.networks:
        if plan.task in spans:
            pins.setdefault(plan.task, as_pin(plan, platform.name, spans[plan.task]))
    for p in mapping.placements:
        if p.task in spans:
            stage = PinStage(
                p.processors,
                None,
                p.streams,
                spans[p.task],
                p.threads,
                p.process,
                engine=p.engine,
                precision=p.precision,
            )
            pins.setdefault(
                p.task, Pin(platform.name, p.task, (stage,), None, p.buffers, spans[p.task])
            )
    return pins


@dataclass(slots=True)
class _App:
    """One app while it is written; `remarks` are comments for its instance."""

    app: Application
    platform: Platform
    pins: dict[str, Pin]
    faults: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def _fault(self, message: str, span: Span, help: str = "") -> None:
        self.faults.append(Diagnostic("F708", message, span, help=help))

    def _warn(self, message: str, help: str) -> None:
        self.warnings.append(
            Diagnostic("F707", message, self.app.span, help=help, severity="warning")
        )

    def instance(self) -> JediInstance | None:
        """None after a fault."""
        networks = [(t, t.network) for t in self.app.tasks if t.network is not None]
        if len(networks) != 1:
            names = ""
            if networks:
                names = f" ({listed(t.name for t, _ in networks)})"
            message = f"`{self.app.name}` has {len(networks) or 'no'} networks{names}"
            help_text = (
                "an instance of JEDI is one network; choose another app with --app, or split"
                " this one"
            )
            self._fault(message, self.app.span, help_text)
            return None
        ((task, network),) = networks
        pin = self.pins.get(task.name)
        if pin is None:
            help_text = (
                f"pin it: `mapping on {self.platform.name} {{ {task.name} -> ... }}`, or run `flowc"
                " map`"
            )
            self._fault(
                f"`{task.name}` is not mapped on `{self.platform.name}`", task.span, help_text
            )
            return None
        return self._of(task, network, pin)

    def _of(self, task: Task, network: Network, pin: Pin) -> JediInstance | None:
        kept = self._kept()
        layers = tkdnn_layers(Path(network.path))
        kind = _bare(kept.get("model_type", ""))
        onnx = MODELS.get(kind, layers is None)
        self._check_pin(pin)
        self._check_loops(task)
        cut_points = _bare(kept.pop("cut_points", ""))
        if onnx or layers is None:
            numbers = self._kept_numbers(network, pin, onnx, cut_points)
        else:
            numbers = [self._number(stage, layers) for stage in pin.stages]
        self._check_cuts(network, pin)
        stages = [self._stage(stage, last) for stage, last in zip(pin.stages, numbers, strict=True)]
        self._check_gpus(pin)
        batch, data_type = _bare(kept.pop("batch", "")), kept.pop("data_type", "")
        others = self._others(kept, network.file, onnx, network.precision)
        self._tell_timing()
        if self.faults:
            return None
        precision = network.precision
        if data_type and precision == "fp32":
            precision = ""
        if not precision:
            others["data_type"] = data_type
        frames = network.batch
        if frames == 1:
            frames = max(1, _whole(batch))
        return JediInstance(
            self.app.name,
            tuple(stages),
            frames,
            pin.pre,
            pin.post,
            pin.buffers or max(2, *(s.streams for s in stages)),
            precision,
            onnx,
            network.file,
            tuple(others.items()),
        )

    # -- what JEDI cannot say ----------------------------------------------------------------------
    def _check_pin(self, pin: Pin) -> None:
        if pin.adapt:
            self._fault(
                "JEDI's cut points stay as they are: it cannot `adapt` them",
                pin.span,
                "leave `adapt` out",
            )
        for stage in pin.stages:
            if stage.threads > 1:
                help_text = (
                    "leave `threads` out: a stage of JEDI runs on a GPU or DLA, in `streams`"
                )
                self._fault(f"JEDI has no `threads {stage.threads}`", stage.span, help_text)
            if stage.engine:
                self._fault(f"JEDI has no `engine {stage.engine}`", stage.span, "leave it out")
            if stage.precision:
                word = f"precision {stage.precision}"
                self._fault(f"JEDI has no `{word}` of a stage", stage.span, "leave it out")
            if stage.process:
                self._fault("JEDI has no `process`", stage.span, "leave it out")

    def _check_gpus(self, pin: Pin) -> None:
        processors = [p for stage in pin.stages for p in stage.processors]
        gpus = dict.fromkeys(p for p in processors if self._kind(p) == "gpu")
        if len(gpus) > 1:
            self._fault(f"stages run on {listed(gpus)}", pin.span, "JEDI uses one GPU")

    def _tell_timing(self) -> None:
        if self.app.period_ns is not None or self.app.deadline_ns is not None:
            self._warn(f"JEDI has no periods: `{self.app.name}` runs as fast as it can", "")
        for name in self.app.windows:
            self._warn(
                f"JEDI has no windows: `{name}` hands over what is new",
                "the C++ code has to keep what it sees again",
            )

    def _check_loops(self, task: Task) -> None:
        """Frames of JEDI do not depend on each other."""
        behind: dict[str, list[str]] = {}
        for c in self.app.channels:
            behind.setdefault(c.source, []).append(c.destination)
        seen: set[str] = set()
        waiting = list(behind.get(task.name, ()))
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += behind.get(name, ())
        if task.name in seen:
            message = f"`{task.name}` depends on its own results"
            self._fault(
                message, task.span, "frames of JEDI do not depend on each other: break the cycle"
            )

    def _check_cuts(self, network: Network, pin: Pin) -> None:
        """A tensor crosses one cut only."""
        after = [s.until for s in pin.stages[:-1]]
        if len(after) < 2:
            return
        try:
            chain = read_chain(Path(network.path), network.shapes)
        except NetworkError as fault:
            self.faults.append(Diagnostic(fault.code, fault.message, pin.span, help=fault.help))
            return
        cuts: list[Cut] = [c for c in chain.cuts() if c.layer in after]
        if jedi_allows(cuts):
            return
        for k, tensors in enumerate(skips(cuts), 1):
            if tensors:
                verb = "crosses" if len(tensors) == 1 else "cross"
                message = f"{listed(tensors)} {verb} cuts {k} and {k + 1}"
                help_text = "stages of JEDI hand over to the next one only: cut elsewhere"
                self._fault(message, pin.stages[k].span, help_text)

    # -- stages ------------------------------------------------------------------------------------
    def _kind(self, processor: str) -> str:
        return self.platform.pool_of(processor).kind

    def _stage(self, stage: PinStage, last: int) -> JediStage:
        """The stage; after a fault its content does not matter."""
        processors = stage.processors
        kinds = {self._kind(p) for p in processors}
        if kinds == {"gpu"} and len(processors) == 1:
            return JediStage(GPU, 0, stage.streams, last)
        if kinds == {"dla"}:
            return self._on_dlas(stage, last)
        if "cpu" in kinds:
            cpu = next(p for p in processors if self._kind(p) == "cpu")
            self._fault(f"`{cpu}` is a CPU: JEDI runs networks on a GPU and on DLAs", stage.span)
        elif kinds == {"gpu"}:
            self._fault("JEDI uses one GPU, and this stage has several", stage.span)
        else:
            self._fault(
                "JEDI runs a stage on a GPU or on DLAs, not on both",
                stage.span,
                "make two stages of it",
            )
        return JediStage(GPU, 0, 1, last)

    def _on_dlas(self, stage: PinStage, last: int) -> JediStage:
        dlas: list[str] = []
        for pool in self.platform.pools:
            if pool.kind == "dla":
                dlas += pool.processors
        cores = [dlas.index(p) for p in stage.processors]
        if len(set(cores)) < len(cores):
            self._fault(
                "this stage names a DLA twice",
                stage.span,
                "name each once: `streams` says how often",
            )
        elif max(cores) >= BOTH:
            self._fault(f"JEDI uses two DLAs: {listed(dlas[:BOTH])}", stage.span)
        elif len(cores) == 1:
            return JediStage(DLA, cores[0], stage.streams, last)
        return JediStage(DLA, BOTH, stage.streams * BOTH, last)

    def _kept_numbers(self, network: Network, pin: Pin, onnx: bool, kept: str) -> Sequence[int]:
        """The number of the last layer of each stage, as the `jedi:` line `kept` has them; zeros
        after a fault."""
        numbers = [_whole(n) for n in kept.split(",")]
        rising = all(a < b for a, b in pairwise([-1, *numbers]))
        if rising and len(numbers) == len(pin.stages):
            if len(numbers) > 1:
                help_text = (
                    "JEDI counts TensorRT's layers, which flowc cannot compare with those of the"
                    " pin"
                )
                self._warn(f"the cut points are those of the `{KEPT}` line", help_text)
            return numbers
        if len(pin.stages) == 1:
            return [BEYOND]
        example = ",".join(["NUMBER"] * len(pin.stages))
        why = "it does not say how tkDNN counts its layers"
        if onnx:
            why = "TensorRT counts layers"
        help_text = (
            f'write JEDI\'s numbers in front of the app: `/// {KEPT} cut_points = "{example}"`'
        )
        file = shown(network.file)
        self._fault(f"the layers of {file} have no numbers here: {why}", pin.span, help_text)
        return [0] * len(pin.stages)

    def _number(self, stage: PinStage, layers: tuple[str, ...]) -> int:
        """The number of the last layer of a stage, as tkDNN counts; 0 after a fault."""
        if stage.until is None:
            return len(layers) - 1
        if stage.until in layers:
            return layers.index(stage.until)
        near = closest(stage.until, layers)
        help_text = "cut after another layer"
        if near:
            help_text = f"did you mean {shown(near)}?"
        self._fault(f"no layer of tkDNN ends with {shown(stage.until)}", stage.span, help_text)
        return 0

    # -- settings that only JEDI has ---------------------------------------------------------------
    def _kept(self) -> dict[str, str]:
        """The `jedi:` lines of the app, by name as libconfig writes their values."""
        found: dict[str, str] = {}
        for line in self.app.doc.split("\n"):
            if not line.strip().startswith(KEPT):
                continue
            parsed = parse("", line.strip().removeprefix(KEPT).encode(errors="replace"), "F705")
            if parsed.root is None or parsed.faults or len(parsed.root.settings) != 1:
                self._warn(
                    f"{shown(line.strip())} is left out: it cannot be read",
                    f'write `{KEPT} NAME = "VALUE"`',
                )
                continue
            setting = parsed.root.settings[0]
            if setting.name in OWN - _YIELDING:
                self._warn(f"{shown(line.strip())} is left out", "the mapping determines this")
            else:
                found[setting.name] = written(setting.value)
        return found

    def _others(
        self, kept: dict[str, str], file: str, onnx: bool, precision: str
    ) -> dict[str, str]:
        """Settings of JEDI that flowc does not have, with paths of the network that fit it."""
        found = dict(kept)
        found.setdefault("network_name", quoted(self.app.name.lower()))
        needed = ["app_type", "model_dir", "sample_size"]
        if onnx:
            found.setdefault("model_type", quoted("OnnxModel"))
            name = next((n for n in ONNX_PATHS if n in found), ONNX_PATHS[0])
            if PurePosixPath(_bare(found.get(name, ""))).name != PurePosixPath(file).name:
                found[name] = quoted(file)
        else:
            needed.append("bin_path")
            found.setdefault("model_type", quoted("TkdnnModel"))
            stem = PurePosixPath(file).stem
            if PurePosixPath(_bare(found.get(DARKNET_PATH, ""))).stem != stem:
                found[DARKNET_PATH] = quoted(f"{stem}.cfg")
        if precision == "int8":
            needed.append("calib_table")
        around = [t.name for t in self.app.tasks if t.network is None]
        self.remarks.append(
            f"App `{self.app.name}`; C++ code of `app_type` does the work of: {_plain(around)}."
        )
        self._tell_needed([name for name in needed if name not in found])
        return found

    def _tell_needed(self, missing: list[str]) -> None:
        """Settings to be filled in."""
        if missing:
            self.remarks.append(
                f"Fill in: {_plain(missing)}, and what the application reads itself."
            )
            example = f'`/// {KEPT} {missing[0]} = "..."`'
            self._warn(
                f"JEDI also needs {listed(missing)}",
                f"write them into the file, or before the app: {example}",
            )


def _bare(value: str) -> str:
    """The text of a value in libconfig's form; empty if it is no text."""
    if not value:
        return ""
    parsed = parse("", f"x = {value}".encode(), "F705").root
    if parsed is None or not parsed.settings:
        return ""
    found = parsed.settings[0].value
    if isinstance(found, Scalar) and isinstance(found.value, str):
        return found.value.strip()
    return ""


def _whole(text: str) -> int:
    """A number in a `jedi:` line, -1 for anything else."""
    text = text.strip()
    if text.isdecimal() and len(text) < 10:
        return int(text)
    return -1


def _plain(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
