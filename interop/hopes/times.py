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
from dataclasses import dataclass
from fractions import Fraction
from pathlib import PurePath
from statistics import median

from ...model.diagnostic import Diagnostic, Errors, did_you_mean, one_of
from ...model.json_reader import parse
from ...model.platform import KINDS
from ...model.profile import LayerTime, Profile, ProfileEntry
from ...model.span import Span
from ..names import shown
from .design import HopesTask, Way
from .files import FAULTY, HopesCollector, start_of
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

    `costs` are by kind of processor, `layers` of a network as well, in its order. `file` is their
    source.
    """

    task: str
    names: tuple[str, ...]
    file: str
    costs: Mapping[str, HopesLayerTime]
    layers: Mapping[str, tuple[tuple[str, HopesLayerTime], ...]]
    estimated: frozenset[str] = frozenset()

    def entries(self, content_hash: str, given: Given) -> Iterator[ProfileEntry]:
        """An entry for each kind of processor that can run the task, or layers of it."""
        further = next((given[n] for n in self.names if n in given), {})
        for kind in (k for k in _ORDER if k in further or k in self.costs):
            more = kind in further
            layers: tuple[LayerTime, ...] = ()
            if more:
                said, cost = (
                    "given",
                    HopesLayerTime(Fraction(further[kind]), Fraction(further[kind])),
                )
            else:
                said, cost = f"hopes {self.file}", self.costs[kind]
                layers = tuple(
                    LayerTime(name, float(each.value)) for name, each in self.layers.get(kind, ())
                )
            mean, worst = round(cost.value), round(cost.worst)
            estimated = kind in self.estimated and not more
            yield ProfileEntry(
                kind,
                self.task,
                said,
                content_hash,
                "",
                0,
                mean,
                0,
                worst,
                worst,
                estimated=estimated,
                layers=layers,
            )


def profile_of(
    platform: str, host: str, times: tuple[TaskTimes, ...], hashes: Mapping[str, str], given: Given
) -> Profile:
    """The profile of a platform; `hashes` are the content hashes of tasks."""
    return Profile(
        platform, host, tuple(e for t in times for e in t.entries(hashes[t.task], given))
    )


def check_types(costs: Iterable[Costs], board: HopesBoard, say: HopesCollector) -> None:
    """Types of processors that the board does not have are faults, each reported once."""
    seen: set[str] = set()
    for type_name, cost in (pair for found in costs for pair in found.items()):
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
    for way, task in ((w, t) for w, t in tasks.items() if t.kind in ("task", "network")):
        full = "_".join(way)
        network = networks.get(way)
        if network is None:
            bare = re.sub(r"^.*?\d_", "", way[-1]) if len(way) > 1 else way[-1]
            costs = {
                t: c
                for t, c in own.get(full, {}).items()
                if not task.kinds or board.kind_of(t) in task.kinds
            }
            found.append(_plain(names[way, ""], (full, way[-1], bare), costs, board))
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


def _plain(name: str, others: tuple[str, ...], costs: Costs, board: HopesBoard) -> TaskTimes:
    file = next((PurePath(c.span.file).name for c in costs.values() if c.span is not None), "")
    return TaskTimes(name, tuple(dict.fromkeys((name, *others))), file, _by_kind(costs, board), {})


def _by_kind(costs: Costs, board: HopesBoard) -> dict[str, HopesLayerTime]:
    """Types of processors become kinds; of several types of one kind the slowest counts."""
    found: dict[str, HopesLayerTime] = {}
    for type_name, cost in costs.items():
        kind = board.kind_of(type_name)
        if kind:
            found[kind] = max(found.get(kind, cost), cost, key=lambda c: c.worst)
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
        costs = _by_kind(network.times.get(layer, {}), board)
        for kind, cost in costs.items():
            layers.setdefault(kind, []).append((layer, cost))
        if not costs:
            nowhere.append(layer)
    sums = {
        kind: HopesLayerTime(
            sum((c.value for _, c in found), Fraction(0)),
            sum((c.worst for _, c in found), Fraction(0)),
        )
        for kind, found in layers.items()
    }
    estimated = set()
    profile = network.profile
    if profile is not None:
        for layer in nowhere:
            message = f"a layer of {shown(network.name)} can run nowhere by its profile"
            say.warn_together(layer, message, start_of(profile))
        ratio = _ratio(dict(layers.get("gpu", ())), dict(layers.get("dla", ())))
        if ratio is not None:
            estimated.add("dla")
            message = (
                f"the times of {shown(network.name)} on a DLA look computed: about {ratio:.2f}"
                " times those on a GPU"
            )
            say.warn(message, start_of(profile), "they are marked as estimated")
    fixed = {kind: tuple(found) for kind, found in layers.items()}
    file = profile.name if profile is not None else ""
    return TaskTimes(
        name, tuple(dict.fromkeys((name, *others))), file, sums, fixed, frozenset(estimated)
    )


def _ratio(gpu: Mapping[str, HopesLayerTime], dla: Mapping[str, HopesLayerTime]) -> float | None:
    """The one ratio of both columns, if most layers have it at a resolution of whole
    microseconds."""
    pairs = [(float(gpu[n].value), float(dla[n].value)) for n in dla if n in gpu and gpu[n].value]
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

    def fault(message: str, at: str = "", help_text: str = "") -> Diagnostic:
        lines = data.decode(errors="replace").splitlines()
        line = next((n for n, text in enumerate(lines, 1) if at and json.dumps(at) in text), 1)
        return Diagnostic(FAULTY, message, Span(path, line, 1, line, 1), help=help_text)

    form = 'write {"TASK": {"cpu": 1200, "gpu": 300}}, in microseconds'
    try:
        document = parse(data)
    except ValueError as error:
        raise Errors([fault(f"this is {error}")]) from error
    if not isinstance(document, dict):
        raise Errors([fault("this holds no times of tasks", help_text=form)])
    known = {name for t in times for name in t.names}
    faults: list[Diagnostic] = []
    found: dict[str, dict[str, int]] = {}
    for name, kinds in document.items():
        if name == "comment":
            continue
        if name not in known:
            faults.append(fault(f"there is no task {shown(name)}", name, did_you_mean(name, known)))
        if not isinstance(kinds, dict):
            faults.append(fault(f"{shown(name)} has no times by kind of processor", name, form))
            continue
        for kind, value in kinds.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if kind not in KINDS:
                faults.append(
                    fault(
                        f"{shown(kind)} is no kind of processor", name, f"there is {one_of(KINDS)}"
                    )
                )
            elif not number or not 0 < value < CANNOT:
                faults.append(
                    fault(
                        f"the time of {shown(name)} on {kind} is no number of microseconds",
                        name,
                        form,
                    )
                )
            else:
                found.setdefault(name, {})[kind] = round(value * 1000)
    if faults:
        raise Errors(faults)
    return found
