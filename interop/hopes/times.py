"""The times of a HOPES project as entries of a profile, and further times that the user gives.

In: the profiles' times by type of processor, and the names that tasks got. Out: a `TaskTimes` for
each task, by kind of processor; the sum of a network's layers is the time of those that can run
there. Entries need the content hashes of the tasks, which only the caller has. A column that equals
another one times a constant is marked as estimated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import PurePath
from statistics import median

from ...model.diagnostic import Diagnostic, Errors, did_you_mean, one_of
from ...model.json_reader import parse
from ...model.profile import LayerTime, Profile, ProfileEntry
from ...model.span import Span
from ..names import shown
from .design import HopesTask, Way
from .files import FAULTY, HopesCollector, start_of
from .hardware import KINDS
from .networks import Costs, HopesLayerTime, HopesNetwork
from .platform import HopesBoard
from .text import Part
from .words import CANNOT

#: Further times in ns: by the name of a task, and by kind of processor.
Given = Mapping[str, Mapping[str, int]]
#: With fewer layers than these, a constant ratio of two columns proves nothing.
_FEWEST = 8
#: The share of layers with one ratio from which on a column counts as computed from the other.
_SCALED = 0.75
#: Order of kinds; requests for one time of a task take the last entry: a DLA often runs a part of a
#: network only.
_ORDER = ("dla", "gpu", "cpu")


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """The times of one task of the text; `names` are those that a file with further times may use,
    the fullest first.

    `costs` are by kind of processor, or by type where CPUs differ (`HopesBoard.timed`); `layers` of
    a network as well, in its order. `file` is their source.
    """

    task: str
    names: tuple[str, ...]
    file: str
    costs: Mapping[str, HopesLayerTime]
    layers: Mapping[str, tuple[tuple[str, HopesLayerTime], ...]]
    estimated: frozenset[str] = frozenset()

    def entries(self, content_hash: str, given: Given) -> Iterator[ProfileEntry]:
        """An entry for each kind or type of processors that can run the task, or layers of it."""
        further = next((given[n] for n in self.names if n in given), {})
        for kind in _ORDER:
            if kind in further:
                ns = Fraction(further[kind])
                yield self._entry(kind, "given", content_hash, HopesLayerTime(ns, ns))
                continue
            for processor, cost in self.costs.items():
                if (processor if processor in _ORDER else "cpu") == kind:
                    yield self._imported(processor, content_hash, cost)

    def _imported(self, processor: str, content_hash: str, cost: HopesLayerTime) -> ProfileEntry:
        entry = self._entry(processor, f"hopes {self.file}", content_hash, cost)
        layers = []
        for name, each in self.layers.get(processor, ()):
            layers.append(LayerTime(name, float(each.value)))
        return replace(entry, estimated=processor in self.estimated, layers=tuple(layers))

    def _entry(
        self, processor: str, source: str, content_hash: str, cost: HopesLayerTime
    ) -> ProfileEntry:
        mean, worst = round(cost.value), round(cost.worst)
        times = mean, 0, worst, worst
        return ProfileEntry(processor, self.task, source, content_hash, "", 0, *times)


def profile_of(
    platform: str, host: str, times: tuple[TaskTimes, ...], hashes: Mapping[str, str], given: Given
) -> Profile:
    """The profile of a platform; `hashes` are the content hashes of tasks."""
    entries: list[ProfileEntry] = []
    for of_task in times:
        entries += of_task.entries(hashes[of_task.task], given)
    return Profile(platform, host, tuple(entries))


def check_types(costs: Iterable[Costs], board: HopesBoard, say: HopesCollector) -> None:
    """Types of processors that the board does not have are faults, each reported once."""
    seen: set[str] = set()
    for of_task in costs:
        for type_name, cost in of_task.items():
            if type_name not in seen and board.kind_of(type_name) is None and cost.span is not None:
                there = [p.type for p in board.pools]
                help_text = did_you_mean(type_name, there) or f"there is {one_of(there)}"
                say.fault(f"there is no type of processor {shown(type_name)}", cost.span, help_text)
            seen.add(type_name)


def times_of(
    tasks: Mapping[Way, HopesTask],
    own: Mapping[str, Costs],
    networks: Mapping[Way, HopesNetwork],
    board: HopesBoard,
    names: Mapping[Part, str],
    say: HopesCollector,
) -> tuple[TaskTimes, ...]:
    """The times of all tasks, in the order of their names in the text; `own` are those of the
    project's profile.

    Tasks without any times are included: the user may give them.
    """
    found = []
    for way, task in tasks.items():
        if task.kind not in ("task", "network"):
            continue
        full = "_".join(way)
        network = networks.get(way)
        if network is None:
            costs = _able(own.get(full, {}), task, board)
            found.append(_plain(names[way, ""], (full, way[-1], _bare(way)), costs, board))
            continue
        parts: tuple[tuple[Part, str | None], ...] = (
            ((way, "pre"), network.pre),
            ((way, "post"), network.post),
        )
        for part, layer in parts:
            if layer is not None:
                known = (f"{full}_{layer}", f"{way[-1]}_{layer}")
                found.append(_plain(names[part], known, network.times.get(layer, {}), board))
        found.append(_network(names[way, ""], (full, task.name), network, board, say))
    return tuple(sorted(found, key=lambda t: t.task))


def _able(costs: Costs, task: HopesTask, board: HopesBoard) -> Costs:
    """The times on processors that a task may run on."""
    if not task.kinds:
        return costs
    return {name: cost for name, cost in costs.items() if board.kind_of(name) in task.kinds}


def _bare(way: Way) -> str:
    """The name of a task inside a composite without the number of a copy."""
    return re.sub(r"^.*?\d_", "", way[-1]) if len(way) > 1 else way[-1]


def _plain(name: str, others: tuple[str, ...], costs: Costs, board: HopesBoard) -> TaskTimes:
    file = next((PurePath(c.span.file).name for c in costs.values() if c.span is not None), "")
    of_task = by_processor(costs, board)
    return TaskTimes(name, tuple(dict.fromkeys((name, *others))), file, of_task, {})


def by_processor(costs: Costs, board: HopesBoard) -> dict[str, HopesLayerTime]:
    """The same by `HopesBoard.timed`; of several types of accelerators the slowest counts."""
    found: dict[str, HopesLayerTime] = {}
    for type_name, cost in costs.items():
        processor = board.processor_of(type_name)
        if processor:
            found[processor] = max(found.get(processor, cost), cost, key=lambda c: c.worst)
    return found


def _network(
    name: str,
    others: tuple[str, ...],
    network: HopesNetwork,
    board: HopesBoard,
    say: HopesCollector,
) -> TaskTimes:
    layers: dict[str, list[tuple[str, HopesLayerTime]]] = {}
    nowhere = []
    for layer in network.layers:
        costs = by_processor(network.times.get(layer, {}), board)
        for processor, cost in costs.items():
            layers.setdefault(processor, []).append((layer, cost))
        if not costs:
            nowhere.append(layer)
    sums = {processor: _sum(cost for _, cost in own) for processor, own in layers.items()}
    estimated: frozenset[str] = frozenset()
    file = ""
    profile = network.profile
    if profile is not None:
        file = profile.name
        for layer in nowhere:
            message = f"a layer of {shown(network.name)} can run nowhere by its profile"
            say.warn_together(layer, message, start_of(profile))
        ratio = _ratio(dict(layers.get("gpu", ())), dict(layers.get("dla", ())))
        if ratio is not None:
            estimated = frozenset({"dla"})
            message = (
                f"the times of {shown(network.name)} on a DLA look computed: about {ratio:.2f}"
                " times those on a GPU"
            )
            say.warn(message, start_of(profile), "they are marked as estimated")
    fixed = {processor: tuple(own) for processor, own in layers.items()}
    return TaskTimes(name, tuple(dict.fromkeys((name, *others))), file, sums, fixed, estimated)


def _sum(costs: Iterable[HopesLayerTime]) -> HopesLayerTime:
    value = worst = Fraction(0)
    for cost in costs:
        value += cost.value
        worst += cost.worst
    return HopesLayerTime(value, worst)


def _ratio(gpu: Mapping[str, HopesLayerTime], dla: Mapping[str, HopesLayerTime]) -> float | None:
    """The one ratio of both columns, if most layers have it at a resolution of whole
    microseconds."""
    pairs = []
    for n in dla:
        if n in gpu and gpu[n].value:
            pairs.append((float(gpu[n].value), float(dla[n].value)))
    if len(pairs) < _FEWEST:
        return None
    ratio = median(slow / fast for fast, slow in pairs)
    alike = sum(abs(slow - ratio * fast) <= max(1500.0, 0.01 * slow) for fast, slow in pairs)
    return ratio if alike >= _SCALED * len(pairs) else None


# -- further times ---------------------------------------------------------------------------------
def read_times(path: str, data: bytes, times: tuple[TaskTimes, ...]) -> dict[str, dict[str, int]]:
    """Times in a JSON file, `{"TASK": {"cpu": MICROSECONDS, "gpu": ...}}`, in ns.

    A kind that is missing cannot run the task. Names are those of `TaskTimes`; a text called
    `comment` may stand among them. Raises Errors.
    """
    reader = _TimesReader(path, data)
    try:
        document = parse(data)
    except ValueError as error:
        raise Errors([reader.fault(f"this is {error}")]) from error
    if not isinstance(document, dict):
        raise Errors([reader.fault("this holds no times of tasks", help_text=_FORM)])
    known = {name for t in times for name in t.names}
    found: dict[str, dict[str, int]] = {}
    faults = []
    for name, kinds in document.items():
        if name == "comment":
            continue
        if name not in known:
            message = f"there is no task {shown(name)}"
            faults.append(reader.fault(message, name, did_you_mean(name, known)))
        if not isinstance(kinds, dict):
            message = f"{shown(name)} has no times by kind of processor"
            faults.append(reader.fault(message, name, _FORM))
            continue
        for kind, value in kinds.items():
            fault = reader.wrong(name, kind, value)
            if fault is not None:
                faults.append(fault)
            else:
                found.setdefault(name, {})[kind] = round(value * 1000)
    if faults:
        raise Errors(faults)
    return found


_FORM = 'write {"TASK": {"cpu": 1200, "gpu": 300}}, in microseconds'


@dataclass(frozen=True, slots=True)
class _TimesReader:
    path: str
    data: bytes

    def fault(self, message: str, at: str = "", help_text: str = "") -> Diagnostic:
        """A fault in the first line that names `at`."""
        lines = self.data.decode(errors="replace").splitlines()
        line = next((n for n, text in enumerate(lines, 1) if at and json.dumps(at) in text), 1)
        return Diagnostic(FAULTY, message, Span(self.path, line, 1, line, 1), help=help_text)

    def wrong(self, name: str, kind: str, value: object) -> Diagnostic | None:
        """The fault of a time; None if it is a number of microseconds on a kind of processor."""
        if kind not in KINDS:
            message = f"{shown(kind)} is no kind of processor"
            return self.fault(message, name, f"there is {one_of(KINDS)}")
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < CANNOT:
            return None
        message = f"the time of {shown(name)} on {kind} is no number of microseconds"
        return self.fault(message, name, _FORM)
