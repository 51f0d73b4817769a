"""Which bands a network should go in: a front of memory against time.

In: a `BandNet`, and what it takes as a whole. Out: `Choice`s, from the least memory to the whole
network. The family: layers up to some tensor go in bands, the rest runs whole. Which units are
worth a look says a search for shortest paths (`paths`; msf-CNN does so without line buffers). Its
costs are estimates where tensors skip units; every plan that is offered is computed exactly, firing
by firing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...model.mapping import Bands
from ...model.profile import BandCosts
from ..onnx.whole import Needs
from .firings import HELD, BandPlan, CannotBand, plan, segments_of
from .made import as_made
from .net import Band, BandNet
from .paths import PathSearch, Proposal
from .units import BandUnit, cut_bytes

#: Multiplications per ns if not measured: of ONNX Runtime on one core of a server.
RATE = 40.0
#: Costs of bands if not measured, as observed there. In plain models, each byte crosses a boundary
#: in another layout; in ONNX Runtime's own (the second one) it is copied.
USUAL = (BandCosts(False, 12_000.0, 0.45, 0.07), BandCosts(True, 12_000.0, 0.18, 0.07))
#: Of a search, in a second: units that are looked at, and firings of plans that are computed.
LOOKS, FIRINGS = 5_000, 8_000


@dataclass(frozen=True, slots=True)
class Choice:
    """A network in some bands (none: whole), with what it takes then. `time` is in units of the
    whole network's.

    In bytes: `weights`, the `arena` between firings, the `block` inside of one, and what ONNX
    Runtime keeps for `sessions` beside that of the whole network. The layers that make
    `dictated_by` need the block. `estimated`: the costs of bands were not measured here.
    """

    bands: tuple[Bands, ...]
    weights: int
    arena: int
    block: int
    time: float
    firings: int
    dictated_by: str = ""
    estimated: bool = True
    sessions: int = 0

    @property
    def buffers(self) -> int:
        """For what lies between layers, and for firings of bands."""
        return self.arena + self.block + (HELD * self.firings if self.bands else 0)

    @property
    def bytes(self) -> int:
        """All of it: what a limit of a pin is held against, and what a plan of a program counts."""
        return self.weights + self.buffers + self.sessions


@dataclass(frozen=True, slots=True)
class Extra:
    """What a plan does beside the network: the share of its multiplications that is done again,
    bytes that are copied or go over borders, firings but the first, and bytes of weights that other
    firings read again.
    """

    work: float
    bytes: int
    firings: int
    weights: int

    def ns(self, costs: BandCosts, whole_ns: float) -> tuple[float, float, float, float]:
        """The time of each, of a network that takes `whole_ns` as a whole."""
        return (
            self.work * whole_ns * costs.again,
            self.bytes * costs.byte_ns,
            self.firings * costs.firing_ns,
            self.weights * costs.weight_ns,
        )


def extra_of(planned: BandPlan) -> Extra:
    """What a plan does beside the network."""
    net = planned.net
    moved = planned.moved if net.blocked else 0
    cut = read = once = 0
    for call in planned.calls:
        unit, band = call.firing.unit, call.firing.band
        read += sum(s.weights for s in unit.steps)
        if band is None:
            continue
        cut += cut_bytes(unit, *band)
        if not net.blocked:
            for view in (*call.reads, *call.makes):
                moved += net.bytes(view.tensor, view.rows[1] - view.rows[0])
    for segment in planned.segments:
        for unit in segment.units:
            once += sum(s.weights for s in unit.steps)
    return Extra(planned.work, moved + cut, len(planned.calls) - 1, read - once)


def costs_for(net: BandNet, costs: BandCosts | None) -> BandCosts:
    """What bands of a network cost: what was measured of this form of it, else as usual."""
    return costs if costs is not None and costs.blocked == net.blocked else USUAL[net.blocked]


def choice_of(
    planned: BandPlan,
    bands: tuple[Bands, ...],
    whole_ns: float | None = None,
    costs: BandCosts | None = None,
) -> Choice:
    """What a plan takes; in plain models, what ONNX Runtime holds inside of a firing is
    estimated.
    """
    price = costs_for(planned.net, costs)
    whole = (
        price.whole_ns
        or whole_ns
        or sum(s.macs for s in planned.net.steps) / RATE + price.firing_ns
    )
    time = 1 + sum(extra_of(planned).ns(price, whole)) / whole
    return Choice(
        bands,
        planned.weights,
        planned.arena,
        planned.block,
        time,
        len(planned.calls),
        planned.dictated_by,
        not price.plans,
        planned.sessions,
    )


def exact(net: BandNet, choice: Choice) -> Choice:
    """What is as estimated, as it is."""
    if net.blocked or not choice.bands:
        return choice
    return replace(choice, block=as_made(net, choice.bands).block)


def front(
    net: BandNet,
    whole: Needs,
    whole_ns: float | None = None,
    seconds: float = 3.0,
    plain: BandNet | None = None,
    costs: BandCosts | None = None,
) -> tuple[Choice, ...]:
    """Choices of which none is better in memory and in time than another, from least memory to
    least time.

    Of ONNX Runtime's own graph those that the `plain` network can do as well: that is what runs
    where it cannot be. `costs` are the measured ones of bands of this network, or None. The search
    takes about `seconds`; it counts steps, so that the same network has the same front wherever
    that is done.
    """
    price = costs_for(net, costs)
    search = PathSearch(net, _rate(net, price.whole_ns or whole_ns), price, whole.block)
    proposals: dict[Proposal, tuple[float, float]] = {}
    ends = search.ends()
    looks = int(seconds * LOOKS)
    for left in range(len(ends), 0, -1):  # the longest first: they save most
        share = 1 if left == 1 else 2
        proposals |= search.proposals(ends[left - 1], (looks - search.looks) // share)
    as_whole = Choice((), whole.weights, 0, whole.block, 1.0, 1, whole.dictated_by, not price.plans)
    choices, firings = [as_whole], int(seconds * FIRINGS)
    units: dict[Band, BandUnit] = {}
    for proposal in _best_first(proposals):
        if firings <= 0:
            break
        bands = (search.bands(proposal),)
        if plain is not None and not _possible(plain, bands, units):
            continue
        choices.append(choice_of(plan(net, search.segments(proposal)), bands, whole_ns, costs))
        firings -= choices[-1].firings
    return pareto([exact(net, choice) for choice in pareto(choices)])


def _rate(net: BandNet, whole_ns: float | None) -> float:
    """Multiplications in a ns, of a network that takes so long as a whole."""
    own = sum(s.macs for s in net.steps)
    return own / whole_ns if whole_ns and own else RATE


def _possible(net: BandNet, bands: tuple[Bands, ...], units: dict[Band, BandUnit]) -> bool:
    try:
        segments_of(net, bands, units)
    except CannotBand:
        return False
    return True


def _best_first(proposals: dict[Proposal, tuple[float, float]]) -> Iterator[Proposal]:
    """Those that nothing beats by their estimates, then those that only these beat, and so on."""
    left = sorted(proposals, key=lambda p: proposals[p])
    while left:
        least, beaten = float("inf"), []
        for p in left:
            if proposals[p][1] < least:
                least = proposals[p][1]
                yield p
            else:
                beaten.append(p)
        left = beaten


def pareto(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Those that no other one beats."""
    kept: list[Choice] = []
    for choice in sorted(choices, key=lambda choice: (choice.bytes, choice.time)):
        if not kept or choice.time < kept[-1].time - 1e-4:
            kept.append(choice)
    return tuple(kept)
