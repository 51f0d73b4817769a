"""Configurations of JEDI as numbers, and numbers as configurations; `libconfig` reads and writes
the files.

In: the bytes of a file. Out: its instances, with all faults and warnings. And back: instances to
the text of a file that JEDI reads. JEDI requires every number as a text in quotes, lists as texts
with commas and without spaces, and counts: `device_num` and `instance_num` give how many entries
are read. `networks` finds the names of layers; `importer` and `writer` handle texts of flowc.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ...model.diagnostic import Diagnostic, Errors, closest, did_you_mean, one_of
from ...model.span import Span
from ..names import listed, shown
from .libconfig import (
    BrokenValue,
    ConfigGroup,
    ConfigSetting,
    Items,
    Scalar,
    Value,
    by_place,
    intact,
    parse,
    quoted,
    written,
)

GPU, DLA = "GPU", "DLA"
#: As a core: a copy of the stage on each of the two DLAs, which take frames in turn.
BOTH = 2
DATA_TYPES = {"FP32": "fp32", "FP16": "fp16", "INT8": "int8"}
#: The last cut point of an ONNX network in JEDI's own samples: beyond any layer.
BEYOND = 100000
#: Streams of a stage if the file names none.
STREAMS = 2
#: JEDI's names of `model_type`, in code and in its description: does it read ONNX files?
MODELS = {
    "TkdnnModel": False,
    "OnnxModel": True,
    "tkDNNApplication": False,
    "ONNXApplication": True,
}
DARKNET_PATH, ONNX_PATHS = "cfg_path", ("onnx_file_path", "onnx_path")
_COUNTS = ("batch", "pre_thread_num", "post_thread_num", "buffer_num")
_LISTS = ("cut_points", "streams", "devices", "dla_cores")
#: Numeric settings of an instance; all others are carried along unchanged.
OWN = frozenset({"device_num", *_COUNTS, *_LISTS, "data_type"})
_NUMBER = re.compile(r"[+-]?\d{1,9}")


class NotJedi(Errors):
    """A file without anything of a configuration of JEDI: it may be of another tool."""


@dataclass(frozen=True, slots=True)
class JediStage:
    """`core` is the number of a DLA, or `BOTH`; `streams` are those of both copies together.

    `last` is the number of the last layer, `span` its place in a file.
    """

    device: str
    core: int
    streams: int
    last: int
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class JediInstance:
    """One network with its surroundings.

    `precision` is empty if the file does not have one for all stages. `network` is the path of its
    file in the configuration, empty without one; `onnx`: JEDI reads an ONNX file and counts
    TensorRT's layers. `others` are all other settings, by name with their values in libconfig's
    form. `span` is the place in a file, `network_span` that of the path.
    """

    name: str
    stages: tuple[JediStage, ...]
    batch: int
    pre: int
    post: int
    buffers: int
    precision: str
    onnx: bool
    network: str = ""
    others: tuple[tuple[str, str], ...] = ()
    span: Span | None = field(default=None, compare=False)
    network_span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The instances that JEDI would run, and diagnostics about the others."""

    instances: tuple[JediInstance, ...]
    warnings: tuple[Diagnostic, ...]


# -- writing ---------------------------------------------------------------------------------------
def text_of(instances: Sequence[tuple[JediInstance, Sequence[str]]], remarks: Iterable[str]) -> str:
    """The file; `remarks` are comments at its top, and with each instance come some of its own."""
    lines = [
        *(f"# {line}" for line in remarks),
        "configs = {",
        f"    instance_num = {quoted(str(len(instances)))};",
        "    instances = (",
    ]
    for position, (instance, own) in enumerate(instances, 1):
        lines.append("        {")
        for line in own:
            lines.append(f"            # {line}")
        for name, value in settings_of(instance):
            lines.append(f"            {name} = {value};")
        if position < len(instances):
            lines.append("        },")
        else:
            lines.append("        }")
    return "\n".join([*lines, "    );", "};", ""])


def settings_of(instance: JediInstance) -> list[tuple[str, str]]:
    """All settings of an instance, by name with their values in libconfig's form: those that are
    carried along first."""
    stages = instance.stages
    lists = {
        "cut_points": (s.last for s in stages),
        "streams": (s.streams for s in stages),
        "devices": (s.device for s in stages),
        "dla_cores": (s.core for s in stages),
    }
    said = {"device_num": len(stages), "batch": instance.batch, "pre_thread_num": instance.pre}
    said |= {"post_thread_num": instance.post, "buffer_num": instance.buffers}
    texts = {name: str(number) for name, number in said.items()}
    for name, entries in lists.items():
        texts[name] = ",".join(map(str, entries))
    data_types = {word: name for name, word in DATA_TYPES.items()}
    if instance.precision:
        texts["data_type"] = data_types[instance.precision]
    return [*instance.others, *((name, quoted(text)) for name, text in texts.items())]


# -- reading ---------------------------------------------------------------------------------------
def read(path: str, data: bytes) -> Configuration:
    """The instances of a file. Raises Errors (F705, F706) with all faults; NotJedi if nothing
    matches."""
    parsed = parse(path, data, "F705")
    root = parsed.root
    if root is None:
        raise (Errors if b"instances" in data else NotJedi)(parsed.faults)
    inside = root.value("configs")
    if isinstance(inside, BrokenValue):
        raise Errors(parsed.faults)
    instances = None
    if isinstance(inside, ConfigGroup):
        instances = inside.get("instances")
    if not isinstance(inside, ConfigGroup) or instances is None:
        raise NotJedi([*parsed.faults, _no_instances(root, inside)])
    reader = _Reader(list(parsed.faults))
    reader.unread(s for s in (*root.settings, *inside.settings) if s.name not in _FRAME)
    found = reader.instances(inside, instances)
    if reader.faults:
        raise Errors(by_place(reader.faults))
    return Configuration(tuple(found), tuple(reader.warnings))


_FRAME = ("configs", "instances", "instance_num")


def _no_instances(root: ConfigGroup, inside: Value | None) -> Diagnostic:
    group, wanted, where = root, "configs", "it has"
    if isinstance(inside, ConfigGroup):
        group, wanted, where = inside, "instances", "`configs` has"
    names = [setting.name for setting in group.settings]
    help_text = did_you_mean(wanted, names).replace("did you mean", "it has")
    there = listed(names) or "nothing"
    message = f"there is no `{wanted}` in this configuration: {where} {there}"
    return Diagnostic(
        "F705",
        message,
        group.span,
        help=help_text or "JEDI reads `configs = { ... instances = ( ... ) }`",
    )


@dataclass(slots=True)
class _Reader:
    """Collects the faults and warnings of a file."""

    faults: list[Diagnostic]
    warnings: list[Diagnostic] = field(default_factory=list)

    def fault(self, message: str, span: Span, help: str = "") -> None:
        """An error: JEDI could not run it, or it has no meaning."""
        self.faults.append(Diagnostic("F706", message, span, help=help))

    def warn(self, message: str, span: Span, help: str) -> None:
        """A warning: flowc does not support it, or differs."""
        self.warnings.append(Diagnostic("F707", message, span, help=help, severity="warning"))

    def unread(self, settings: Iterable[ConfigSetting]) -> None:
        """Settings outside of instances, which JEDI does not read."""
        left = [s for s in settings if not isinstance(s.value, BrokenValue)]
        if left:
            self.warn(
                f"{listed(s.name for s in left)}: not read",
                left[0].span,
                "JEDI reads what stands in instances",
            )

    def instances(self, configs: ConfigGroup, setting: ConfigSetting) -> list[JediInstance]:
        """As many as JEDI would run."""
        value = setting.value
        if isinstance(value, BrokenValue):
            return []
        if not isinstance(value, Items) or value.array or not value.items:
            self.fault(
                "`instances` is no list of groups",
                setting.span,
                "write `instances = ( { ... }, { ... } );`",
            )
            return []
        count = self._count(configs, setting, len(value.items))
        if count is not None and count < len(value.items):
            said = f"`instance_num` is {count}: of {len(value.items)} instances JEDI runs {count}"
            self.warn(
                f"{said}, and so much is imported",
                value.items[count].span,
                "set `instance_num` to change that",
            )
        found = []
        for number, item in enumerate(value.items[:count], 1):
            instance = self._instance(item, number)
            if instance is not None:
                found.append(instance)
        return found

    def _instance(self, item: Value, number: int) -> JediInstance | None:
        """None after a fault."""
        if isinstance(item, ConfigGroup):
            return _Fields(self, item, number).instance()
        if not isinstance(item, BrokenValue):
            self.fault(
                f"instance {number} is no group",
                item.span,
                "an instance is `{ name = value; ... }`",
            )
        return None

    def _count(self, configs: ConfigGroup, instances: ConfigSetting, there: int) -> int | None:
        setting = configs.get("instance_num")
        if setting is None:
            help_text = f'add `instance_num = "{there}";`: without it JEDI runs nothing'
            self.fault("`configs` has no `instance_num`", instances.span, help_text)
            return None
        number = self.number(setting)
        if number is not None and number > there:
            instances_there = _number(there, "instance", "instances")
            self.fault(
                f"`instance_num` is {number}, and the file has {instances_there}",
                setting.value.span,
            )
        return number

    def number(self, setting: ConfigSetting) -> int | None:
        """A whole number from 1 on; None after a fault."""
        value = setting.value
        if isinstance(value, BrokenValue):
            return None
        if (
            isinstance(value, Scalar)
            and isinstance(value.value, (int, str))
            and not isinstance(value.value, bool)
        ):
            return self.whole(str(value.value), f"`{setting.name}`", value.span, 1)
        self.fault(f"`{setting.name}` is no number", setting.span, f'write `{setting.name} = "1";`')
        return None

    def whole(self, text: str, what: str, span: Span, least: int) -> int | None:
        """A number that is not below `least`; None after a fault."""
        text = text.strip()  # of separators, too, that `int` does not take
        if not _NUMBER.fullmatch(text):
            self.fault(f"{what} is {shown(text)}, which is no whole number", span)
        elif int(text) < least:
            self.fault(f"{what} is {int(text)}, and has to be {least} or more", span)
        else:
            return int(text)
        return None


def _number(count: int, one: str, several: str) -> str:
    if count == 1:
        return f"{count} {one}"
    return f"{count} {several}"


@dataclass(frozen=True, slots=True)
class _Entry:
    """One of the entries of a list that is written with commas."""

    text: str
    span: Span


def _stage(
    kind: str | None, core: int | None, streams: int | None, last: int | None, cut: _Entry
) -> JediStage:
    """A stage without faults, so that all of it is known."""
    return JediStage(kind or "", core or 0, streams or 0, last or 0, cut.span)


@dataclass(slots=True)
class _Fields:
    """One instance while it is read."""

    reader: _Reader
    group: ConfigGroup
    number: int
    missing: list[str] = field(default_factory=list)

    def instance(self) -> JediInstance | None:
        """None after a fault."""
        before = len(self.reader.faults)
        name, (onnx, path) = self._text("network_name"), self._network()
        batch, pre, post, buffers = (self._number(name) for name in _COUNTS)
        stages = self._stages()
        precision, kept = self._precision(len(stages))
        self._tell_missing()
        if batch is None or pre is None or post is None or buffers is None:
            return None
        if not stages or len(self.reader.faults) > before:
            return None
        others = []
        for s in self.group.settings:
            if intact(s.value) and (s.name not in OWN or (kept and s.name == "data_type")):
                others.append((s.name, written(s.value)))
        span = self.group.span
        network = self.group.value(path)
        return JediInstance(
            name,
            tuple(stages),
            batch,
            pre,
            post,
            buffers,
            precision,
            onnx,
            self._text(path),
            tuple(others),
            span,
            network.span if network is not None else span,
        )

    # -- single settings ---------------------------------------------------------------------------
    def _text(self, name: str) -> str:
        """An optional text, without spaces around it; JEDI reads its first word."""
        setting = self.group.get(name)
        if setting is None or isinstance(setting.value, BrokenValue):
            return ""
        if isinstance(setting.value, Scalar) and isinstance(setting.value.value, str):
            return setting.value.value.strip()
        self.reader.fault(f"`{name}` is no text", setting.span, f'write `{name} = "...";`')
        return ""

    def _number(self, name: str) -> int | None:
        setting = self.group.get(name)
        if setting is None:
            self.missing.append(name)
            return None
        return self.reader.number(setting)

    def _entries(self, name: str) -> list[_Entry] | None:
        """The entries of a list; None if it is missing or faulty."""
        setting = self.group.get(name)
        if setting is None or isinstance(setting.value, BrokenValue):
            return None
        value = setting.value
        if isinstance(value, Scalar) and type(value.value) is int:
            return [_Entry(str(value.value), value.span)]
        if not isinstance(value, Scalar) or not isinstance(value.value, str):
            self.reader.fault(
                f"`{name}` is no text",
                setting.span,
                f'JEDI reads lists as texts: `{name} = "1,2,3";`',
            )
            return None
        found = []
        for piece in re.finditer(r"[^,]+|(?<=,)(?=,)|^(?=,)", value.value):
            text = piece[0].strip()
            start = piece.start() + len(piece[0]) - len(piece[0].lstrip())
            found.append(_Entry(text, value.part(start, start + max(len(text), 1))))
        while found and not found[-1].text:  # a comma at the end
            found.pop()
        return found

    def _network(self) -> tuple[bool, str]:
        """Does JEDI read an ONNX file, and which setting names the file that it reads?"""
        kind = self._text("model_type")
        onnx_path = next((name for name in ONNX_PATHS if self._text(name)), "")
        darknet_path = ""
        if self._text(DARKNET_PATH):
            darknet_path = DARKNET_PATH
        onnx = MODELS.get(kind, bool(onnx_path) and not darknet_path)
        return onnx, onnx_path if onnx else darknet_path

    def _precision(self, count: int) -> tuple[str, bool]:
        """The precision, and whether `data_type` contains more than that."""
        setting = self.group.get("data_type")
        entries = self._entries("data_type")
        if setting is None:
            help_text = (
                'add `data_type = "FP16";` or `precision fp16` to the network: without it FP32 is'
                " meant here"
            )
            self.reader.warn(
                f"instance {self.number} does not say its `data_type`", self.group.span, help_text
            )
        if setting is None or entries is None:
            return "", False
        for entry in entries:
            if entry.text not in DATA_TYPES:
                help_text = (
                    did_you_mean(entry.text, DATA_TYPES) or f"JEDI knows {one_of(DATA_TYPES)}"
                )
                self.reader.fault(f"{shown(entry.text)} is no data type", entry.span, help_text)
        if not entries:
            self.reader.fault(
                "`data_type` is empty", setting.span, f"JEDI knows {one_of(DATA_TYPES)}"
            )
            return "", False
        # Stages without an entry have the type of the first.
        types = {e.text for e in entries[: max(count, 1)]}
        if len(types) > 1:
            message = (
                f"the stages of instance {self.number} differ in their data type:"
                f" {listed(sorted(types))}"
            )
            help_text = (
                "a network of flowc has one precision: none is written, and JEDI's line goes along"
            )
            self.reader.warn(message, setting.span, help_text)
            return "", True
        return DATA_TYPES.get(entries[0].text, ""), False

    def _tell_missing(self) -> None:
        if not self.missing:
            return
        there = [s.name for s in self.group.settings if s.name not in OWN]
        message = f"instance {self.number} has no {listed(self.missing)}"
        help_text = f'add `{self.missing[0]} = "...";`'
        for name in self.missing:
            close = closest(name, there)
            if close:
                help_text = f"is `{close}` meant to be `{name}`?"
                break
        self.reader.fault(message, self.group.span, help_text)

    # -- stages ------------------------------------------------------------------------------------
    def _stages(self) -> list[JediStage]:
        """Empty after a fault."""
        before = len(self.reader.faults)
        count = self._number("device_num")
        lists = {name: self._entries(name) for name in _LISTS}
        complete = count is not None
        for name in self._needed(lists):
            complete &= self._check_list(name, lists[name], count)
        devices, cuts, cores, streams = (
            (lists[n] or [])[:count] for n in ("devices", "cut_points", "dla_cores", "streams")
        )
        kinds = [self._device(e) for e in devices]
        lasts = [self.reader.whole(e.text, "a cut point", e.span, 0) for e in cuts]
        self._check_order(lasts, cuts)
        on = [self._core(k, kind, cores) for k, kind in enumerate(kinds)]
        shares = [self._streams(k, core, streams) for k, core in enumerate(on)]
        if not complete or len(self.reader.faults) > before:
            return []
        return [*map(_stage, kinds, on, shares, lasts, cuts)]

    def _check_list(self, name: str, entries: list[_Entry] | None, count: int | None) -> bool:
        """Can a list be read? If so, it has an entry for each stage, or that is a fault."""
        setting = self.group.get(name)
        if setting is None:
            self.missing.append(name)
        elif count is not None and entries is not None:
            self._check_length(setting, len(entries), count)
        return entries is not None

    def _needed(self, lists: Mapping[str, list[_Entry] | None]) -> list[str]:
        """The lists that an instance must have."""
        needed = ["devices", "cut_points"]
        if any(entry.text == DLA for entry in lists["devices"] or ()):
            needed.append("dla_cores")
        return needed

    def _check_length(self, setting: ConfigSetting, there: int, count: int) -> None:
        name, span = setting.name, setting.value.span
        entries = _number(there, "entry", "entries")
        message = f"`{name}` has {entries}, and `device_num` is {count}"
        if there < count:
            help_text = "each stage has one"
            if name == "cut_points":
                help_text = "each stage has one: the number of its last layer, also the last stage"
            self.reader.fault(message, span, help_text)
        elif there > count and name != "dla_cores":
            self.reader.warn(message, span, "JEDI reads no more")

    def _device(self, entry: _Entry) -> str | None:
        if entry.text in (GPU, DLA):
            return entry.text
        help_text = (
            did_you_mean(entry.text, (GPU, DLA)) or f"JEDI runs stages on {one_of((GPU, DLA))}"
        )
        self.reader.fault(f"{shown(entry.text)} is no device", entry.span, help_text)
        return None

    def _check_order(self, lasts: Sequence[int | None], cuts: Sequence[_Entry]) -> None:
        known = []
        for last, entry in zip(lasts, cuts, strict=False):
            if last is not None:
                known.append((last, entry))
        for (a, _), (b, entry) in pairwise(known):
            if b <= a:
                message = f"cut point {b} does not come after {a}"
                self.reader.fault(
                    message, entry.span, "cut points rise: each is the last layer of its stage"
                )

    def _core(self, k: int, kind: str | None, entries: Sequence[_Entry]) -> int | None:
        if kind != DLA or k >= len(entries):
            return 0
        core = self.reader.whole(entries[k].text, "a DLA core", entries[k].span, 0)
        if core is None:
            return None
        return min(core, BOTH)

    def _streams(self, k: int, core: int | None, entries: Sequence[_Entry]) -> int | None:
        """The streams of all copies together; an odd number over two DLAs cannot be expressed."""
        if k >= len(entries):
            return STREAMS
        streams = self.reader.whole(entries[k].text, "a number of streams", entries[k].span, 1)
        if streams is not None and core == BOTH and streams % 2:
            written_as = f"{streams // 2} streams on each"
            if streams == 1:
                written_as = "one stream: JEDI uses DLA 0 alone"
            self.reader.warn(
                f"{streams} over two DLAs cannot be halved",
                entries[k].span,
                f"imported as {written_as}",
            )
        return streams
