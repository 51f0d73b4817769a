"""System H under loads that come and go: Algorithm 2 of the paper and flowc's rule for cuts that
move, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from unittest import mock

from flowc.runtime import adapt
from flowc.search.throughput.partition import Costs
from published_systems.rows import Table, by_benchmark, table

#: A load lasts so long.
LASTS = 5 * 10**9
#: Frames of a measurement of Algorithm 2: as many as flowc's rule looks at.
FRAMES = adapt.WINDOW
#: Layers on the GPU of the seven cuts that a program of flowc holds: 8 % of the work apart.
HELD = (16, 18, 21, 23, 25, 28, 30)
#: The name of the profile without a load, its best cut, and the number of layers.
ALONE, START, LAYERS = "baseline", 23, 31

#: Times of both stages in ns with so many layers on the GPU, at a time in ns.
Times = Callable[[int, int], tuple[float, float]]


def tables(profiles: Mapping[str, Costs]) -> tuple[Table, Table]:
    """Where both rules end under each load, and what they reach when loads change."""
    return _where_they_end(profiles), _changing(profiles)


def _where_they_end(profiles: Mapping[str, Costs]) -> Table:
    alone = profiles[ALONE]
    rows = []
    for name, costs in profiles.items():
        count, ends = _ends(alone, costs)
        rows.append((name, count, *(f"{k}: {1e9 / _slowest(costs, k):.1f}" for k in ends)))
    return table(
        "Algorithm 2 (section V-A), the cut for each load of Table 5 (layers on the GPU, images per"
        " second).",
        "With the profile above, from the best cut without a load. Meant is that Algorithm 2"
        " compares with the time now. As printed, it gets the time from before the load: no cut is"
        " faster, and it stays. flowc's rule predicts from the times of both stages, and moves at"
        " once to one of the seven cuts that a program holds, if that promises 7 %.",
        "load | cuts measured | Algorithm 2 as printed | as meant | flowc's rule | best of all",
        rows,
        filled_by=by_benchmark(
            "cuts move while a program runs: `flowc run` with a pin that has `adapt` needs the board;"
            " the runtime's own rule is asked here, in virtual time"
        ),
    )


def _ends(alone: Costs, loaded: Costs) -> tuple[int, tuple[int, ...]]:
    """How many cuts Algorithm 2 measures; where it ends as printed and as meant, where flowc's rule
    does, and the best cut of all."""
    measured: list[int] = []

    def measure(cut: int) -> float:
        measured.append(cut)
        return _slowest(loaded, cut)

    def times(cut: int, now: int) -> tuple[float, float]:
        return stages(loaded, cut)

    meant = climb(START, measure)
    count = len(measured)
    printed = climb(START, measure, _slowest(alone, START))
    cut = loaded_cuts(alone)
    moving(cut, times, LASTS)
    return count, (printed, meant, _layers(cut), min(range(1, LAYERS), key=measure))


def _changing(profiles: Mapping[str, Costs]) -> Table:
    costs = list(profiles.values())
    end = 2 * len(costs) * LASTS

    def times(cut: int, now: int) -> tuple[float, float]:
        return stages(costs[now // LASTS % len(costs)], cut)

    frames = {k: fixed(k, times, end) for k in range(1, LAYERS)}
    best = max(frames, key=lambda k: frames[k])
    most = sum(1 / min(_slowest(c, k) for k in range(1, LAYERS)) for c in costs)
    ways = {
        f"fixed: {START}, the best one without a load": frames[START],
        f"fixed: {best}, the best one for these loads": frames[best],
        "Algorithm 2, again and again": climbing(times, end),
        "flowc's rule": moving(loaded_cuts(profiles[ALONE]), times, end),
        "the best cut at every moment": int(2 * LASTS * most),
    }
    return table(
        "The same, loads that change every five seconds.",
        "All five conditions of Table 5 one after the other, twice, in virtual time; noticing a"
        " load is included. Algorithm 2 runs each cut that it measures for"
        f" {FRAMES} frames, the slower ones too. No rule can gain more over the best fixed cut than"
        " the last row.",
        "cut | frames | over the best fixed cut",
        ((way, n, f"{n / frames[best]:.2f}") for way, n in ways.items()),
        filled_by=by_benchmark("as above"),
    )


def _layers(cut: adapt.Cut) -> int:
    """On the GPU now."""
    return int(cut.variants[cut.current].layers[0])


def _slowest(costs: Costs, cut: int) -> float:
    """The time between frames in ns."""
    return max(stages(costs, cut))


def stages(costs: Costs, cut: int) -> tuple[float, float]:
    """Times of both stages in ns, with so many layers on the GPU and the others on the CPU."""
    return sum(costs.layers["gpu"][:cut]), sum(costs.layers["cpu"][cut:])


def climb(begin: int, measure: Callable[[int], float], before: float | None = None) -> int:
    """Algorithm 2: more layers on the GPU as long as frames get faster, or else fewer.

    Meant is to beat the time that `begin` takes now. As printed and explained, the time to beat is
    the one `before` the load.
    """
    best = begin
    least, first = (measure(begin), begin + 1) if before is None else (before, begin)
    for cuts in (range(first, LAYERS), range(begin - 1, 0, -1)):
        for cut in cuts:
            now = measure(cut)
            if now >= least:
                break
            best, least = cut, now
        if best != begin:
            break
    return best


def fixed(cut: int, times: Times, end: int) -> int:
    """Frames until `end` with one cut."""
    program = _Program(times)
    while program.now < end:
        program.frame(cut)
    return program.frames_before(end)


def climbing(times: Times, end: int) -> int:
    """Frames until `end` with Algorithm 2 again and again: each measurement runs its cut for some
    frames."""
    program, cut = _Program(times), START

    def measure(cut: int) -> float:
        since = program.now
        for _ in range(FRAMES):
            program.frame(cut)
        return (program.now - since) / FRAMES

    while program.now < end:
        cut = climb(cut, measure)
    return program.frames_before(end)


def moving(cut: adapt.Cut, times: Times, end: int) -> int:
    """Frames until `end` with flowc's rule."""
    program = _Program(times)
    clock = SimpleNamespace(perf_counter_ns=lambda: program.now)
    with mock.patch.object(adapt, "time", clock):
        while program.now < end:
            number = cut.current
            spent = program.frame(_layers(cut))
            for stage, ns in enumerate(spent):
                cut.took(stage, number, int(ns))
    return program.frames_before(end)


def loaded_cuts(planned: Costs) -> adapt.Cut:
    """The network in a program of flowc, planned with these times; layers are numbers."""
    nothing = ("", (), ())
    variants = [adapt.Variant([str(k)], [nothing, nothing], stages(planned, k)) for k in HELD]
    return adapt.Cut("Net", variants, HELD.index(START))


class _Program:
    """A pipeline of two stages whose frames take as long as the slower one."""

    def __init__(self, times: Times) -> None:
        self._times = times
        self.now = 0
        self._ends: list[int] = []

    def frame(self, cut: int) -> tuple[float, float]:
        """Go on by a frame; what both stages took."""
        spent = self._times(cut, self.now)
        self.now += int(max(spent))
        self._ends.append(self.now)
        return spent

    def frames_before(self, end: int) -> int:
        """How many have ended by then."""
        return sum(e <= end for e in self._ends)
