"""External tasks of HOPES: the layers of a network, and their times on every type of processor.

In: the files that an external task names, a `.prototxt` with the layers and a CIC profile with
their times; and the profile of a project's own tasks. Out: a `HopesNetwork` with its layers in
order, and times in ns by type of processor; types that cannot run a layer are left out. `platform`
maps types to kinds of processors.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from ...model.diagnostic import did_you_mean
from ...model.span import Span
from ..names import listed, shown
from ..xml_tree import Element
from .design import HopesTask
from .files import HopesCollector, HopesProject, read_text, read_xml, start_of
from .words import CANNOT

_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<text>"[^"\n]*"|'[^'\n]*')|(?P<word>[^\s{}:"'\#]+)|(?P<sign>[{}:])|(?P<bad>.)"""
)


@dataclass(frozen=True, slots=True)
class HopesLayerTime:
    """ns of one firing: HOPES' value, and the bound `Maximum` if there is one."""

    value: Fraction
    worst: Fraction
    span: Span | None = None


#: By type of processor, as HOPES calls it.
Costs = dict[str, HopesLayerTime]


@dataclass(frozen=True, slots=True)
class HopesLayer:
    """A layer, with those it reads."""

    name: str
    reads: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class HopesNetwork:
    """`name` is that of the network's file; `pre` and `post` are the layers around `layers`, None
    if there is none.

    `times` has an entry for each profiled layer; `mapping` is the file with the authors' own
    mapping.
    """

    name: str
    pre: str | None
    layers: tuple[str, ...]
    post: str | None
    times: Mapping[str, Costs]
    profile: Path | None
    mapping: Path | None
    architecture: Path | None

    @property
    def everything(self) -> tuple[str, ...]:
        """All layers from front to back."""
        return (*filter(None, [self.pre]), *self.layers, *filter(None, [self.post]))


def network_of(task: HopesTask, project: HopesProject, say: HopesCollector) -> HopesNetwork | None:
    """The network of an external task; None after a fault."""
    files = {}
    for key in ("networkFile", "profileFile", "mappingFile", "architectureFile"):
        files[key] = _named_file(key, task, project, say)
    if not task.network.get("networkFile"):
        say.fault(f"{shown(task.name)} is external, but names no networkFile", task.span)
    path = files["networkFile"]
    if path is None:
        return None
    layers = _layers(path, say)
    if layers is None:
        return None
    names = [layer.name for layer in layers]
    profile = files["profileFile"]
    times: dict[str, Costs] = {}
    if profile is not None:
        part = HopesCollector()
        stated = dict(_profile(profile, names, part))
        if say.forgive(part, f"the profile of network {shown(path.stem)}"):
            times = stated
    pre = _taken_out(names, 0, "pre")
    post = _taken_out(names, -1, "post")
    if not names:
        say.fault("this network has no layers", start_of(path))
        return None
    return HopesNetwork(
        path.stem,
        pre,
        tuple(names),
        post,
        times,
        profile,
        files["mappingFile"],
        files["architectureFile"],
    )


def _taken_out(names: list[str], position: int, word: str) -> str | None:
    """Remove the layer at a position and return its name, if that is `word`; None if not."""
    if names and names[position].lower() == word:
        return names.pop(position)
    return None


def _named_file(
    key: str, task: HopesTask, project: HopesProject, say: HopesCollector
) -> Path | None:
    """A file that an external task names; without times and places, it can be imported."""
    name = task.network.get(key, "")
    if not name:
        return None
    near = project.graph.parent
    path = project.named(name, near)
    if path is None:
        part = HopesCollector()
        message = f"the {key} of {shown(task.name)} is missing: there is no {shown(name)}"
        part.fault(message, task.span, f"put it into `{near}`")
        if key in ("profileFile", "mappingFile"):
            say.forgive(part, f"a file of {shown(task.name)}")
        else:
            say.faults += part.faults
    return path


# -- layers ----------------------------------------------------------------------------------------
def _layers(path: Path, say: HopesCollector) -> list[HopesLayer] | None:
    """The layers of a prototxt in its order; None after a fault."""
    text = read_text(path, say)
    if text is None:
        return None
    try:
        fields = _fields(list(_tokens(str(path), text)))
    except _Unreadable as fault:
        say.fault(fault.message, fault.span)
        return None
    layers = _chain(
        [(value, span) for key, value, span in fields if key in ("layer", "layers")], say
    )
    if not layers:
        say.fault("this network has no layers", start_of(path), 'write `layer { name: "..." }`')
        return None
    skips = [b for a, b in pairwise(layers) if b.reads != (a.name,)]
    if skips:
        message = (
            f"this network is no chain: {listed(s.name for s in skips)} read other layers than the"
            " one before"
        )
        say.warn(
            message,
            skips[0].span,
            "only the times of layers are imported, not what crosses between them",
        )
    return layers


@dataclass(frozen=True, slots=True)
class _Block:
    """What the block of a layer states: the data that it reads, with their places, and makes."""

    name: str | None
    bottoms: list[tuple[str, Span]]
    tops: list[str]


def _block(fields: Iterable[Field]) -> _Block:
    name = None
    bottoms = []
    tops = []
    for key, text, at in fields:
        if isinstance(text, str):
            if key == "name":
                name = text
            elif key == "bottom":
                bottoms.append((text, at))
            elif key == "top":
                tops.append(text)
    return _Block(name, bottoms, tops)


def _chain(
    blocks: Iterable[tuple[str | list[Field], Span]], say: HopesCollector
) -> list[HopesLayer]:
    """The layers that are described by these blocks, each below those that it reads."""
    layers: dict[str, HopesLayer] = {}
    #: The layer that makes some data.
    made_by: dict[str, str] = {}
    for fields, span in blocks:
        if isinstance(fields, str):
            continue
        block = _block(fields)
        name = block.name
        if name is None:
            say.fault("this layer has no name", span)
            continue
        reads = []
        for bottom, at in block.bottoms:
            if bottom in made_by:
                reads.append(made_by[bottom])
                continue
            message = f"layer {shown(name)} reads {shown(bottom)}, which no layer above makes"
            help_text = did_you_mean(bottom, made_by)
            say.fault(message, at, help_text or "layers stand in the order in which they run")
        if name in layers:
            say.fault(f"two layers are called {shown(name)}", span)
            continue
        layers[name] = HopesLayer(name, tuple(reads), span)
        made_by.update(dict.fromkeys(block.tops, name))
    return [*layers.values()]


Field = tuple[str, "str | list[Field]", Span]


class _Unreadable(Exception):
    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message, self.span = message, span


def _tokens(path: str, text: str) -> Iterable[tuple[str, str, Span]]:
    line, start = 1, 0
    for match in _TOKEN.finditer(text):
        column = match.start() - start + 1
        span = Span(path, line, column, line, column + len(match.group()))
        kind = match.lastgroup
        if kind == "bad":
            raise _Unreadable(f"{shown(match.group())} does not belong here", span)
        if kind == "text":
            yield kind, match.group().strip("\"'"), span
        elif kind is not None:
            yield kind, match.group(), span
        breaks = match.group().count("\n")
        if breaks:
            line, start = line + breaks, match.start() + match.group().rindex("\n") + 1


def _fields(tokens: list[tuple[str, str, Span]]) -> list[Field]:
    """`key: value` and `key { ... }` of a prototxt, nested."""
    stack: list[list[Field]] = [[]]
    opened: list[tuple[str, Span]] = []
    position = 0
    while position < len(tokens):
        match tokens[position : position + 3]:
            case [("sign", "}", _), *_] if opened:
                fields = stack.pop()
                key, at = opened.pop()
                stack[-1].append((key, fields, at))
                position += 1
            case [("word", text, span), ("sign", "{", _), *_]:
                opened.append((text, span))
                stack.append([])
                position += 2
            case [("word", text, span), ("sign", ":", _), ("sign", "{", _)]:
                opened.append((text, span))
                stack.append([])
                position += 3
            case [("word", text, span), ("sign", ":", _), ("sign", _, _)]:
                raise _Unreadable(f"{shown(text)} has no value", span)
            case [("word", text, span), ("sign", ":", _), (_, value, _)]:
                stack[-1].append((text, value, span))
                position += 3
            case [(_, text, span), *_]:
                raise _Unreadable(f"{shown(text)} does not belong here", span)
    if opened:
        raise _Unreadable(f"{shown(opened[-1][0])} is not closed", opened[-1][1])
    return stack[0]


# -- times -----------------------------------------------------------------------------------------
def _profile(path: Path, layers: list[str], say: HopesCollector) -> Iterable[tuple[str, Costs]]:
    """The times of existing layers; times of others, and layers without any, are faults."""
    root = read_xml(path, say, "CIC_Profile")
    if root is None:
        return
    seen: set[str] = set()
    for node, name, costs in _tasks(root, say):
        if name not in layers:
            say.fault(
                f"there is no layer {shown(name)} in the network",
                node.span,
                did_you_mean(name, layers),
            )
        seen.add(name)
        yield name, costs
    missing = [name for name in layers if name not in seen]
    if missing:
        say.fault(f"the profile has no times of {listed(missing)}", root.span)


def task_times(path: Path, known: Iterable[str], say: HopesCollector) -> dict[str, Costs]:
    """The profile of a project's own tasks, by their full names."""
    root = read_xml(path, say, "CIC_Profile")
    names = set(known)
    found: dict[str, Costs] = {}
    if root is None:
        return found
    for node, name, costs in _tasks(root, say):
        own = meant(name, names)
        if own is None:
            say.fault(f"there is no task {shown(name)}", node.span, did_you_mean(name, names))
        else:
            found[own] = costs
    return found


def meant(name: str, known: Collection[str]) -> str | None:
    """The task that a profile or a mapping names; HOPES calls the task inside a loop
    `X_Instance`."""
    return next((n for n in (name, name.removesuffix("_Instance")) if n in known), None)


def _tasks(root: Element, say: HopesCollector) -> Iterable[tuple[Element, str, Costs]]:
    for node in root.all("task"):
        name = say.attribute(node, "name")
        if name is not None:
            yield node, name, _costs(node, name, say)
    for node in root.all("library", "comm", "migration"):
        what = "times of communication, migration and libraries in a profile are not imported"
        say.warn_together(node.tag, what, node.span)


def _costs(node: Element, name: str, say: HopesCollector) -> Costs:
    modes = list(node.all("mode"))
    default = [m for m in modes if m.attributes.get("name") == "Default"]
    mode = [*default, *modes, node][0]
    if len(modes) > 1:
        chosen = shown(mode.attributes.get("name", ""))
        say.warn_together(name, f"of several modes in a profile, {chosen} is taken", mode.span)
    costs: Costs = {}
    for profile in mode.all("profile"):
        kind = say.attribute(profile, "processorType")
        cost = _cost(profile, name, kind, say)
        if kind is not None and cost is not None:
            costs[kind] = cost
    return costs


def _cost(
    profile: Element, name: str, kind: str | None, say: HopesCollector
) -> HopesLayerTime | None:
    """The time of a task on a kind of processor; None if it cannot run there, and after faults."""
    text = say.attribute(profile, "value")
    if kind is None or text is None:
        return None
    if re.fullmatch("0*[0-9]{1,15}", text) and int(text) >= CANNOT:
        return None
    if "unit" not in profile.attributes:
        say.warn_together(name, "times of a profile without a unit are taken as us", profile.span)
    of = f"the time of {shown(name)}"
    value = say.time_ns(text, profile.attributes.get("unit", "us"), of, profile.span)
    if value is None:
        return None
    most = value
    for bound in profile.all("bound"):
        if bound.attributes.get("type") == "Maximum":
            said, unit = bound.attributes.get("value", ""), bound.attributes.get("unit", "us")
            ns = say.time_ns(said, unit, of, bound.span)
            if ns is not None:
                most = max(most, ns)
    return HopesLayerTime(value, most, profile.span)
