"""How long the exact analyses take: least periods, verdicts on large graphs, least buffers of
networks.

    known graphs    the least period of four graphs of the literature (tests/data/known_graphs.json)
    as they are, and
                    with their least capacities as bounds; the answers are checked
    large graphs    random live CSDF graphs of up to 10,000 tasks and a million firings per
    iteration: the repetition
                    vector, and all verdicts (`analysis.dataflow.check.check`, which has the
                    repetition vector in it)
    networks        least buffers of ResNet-50 and DenseNet-121 (light models of the onnx package),
    by parts
    bounded graphs  the least period of random graphs that their capacities make strongly connected,
    10 seconds each

The peer of the known graphs is the classical way: expand the graph to one node per firing, and look
for the largest cycle ratio. Once with the solver of digraphx, a public library (in floats; flowc is
exact), where it is installed (`pip install digraphx`; flowc does not need it), once with flowc's
own solver, so that method and solver can be told apart. Tools made for dataflow (SDF3, Kiter) have
to be compiled and are not on PyPI.

Every side runs in a process of its own and analyses something small first, so that imports are not
in the times.
"""

from __future__ import annotations

import importlib.util
import json
import random
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import inf, lcm
from pathlib import Path
from statistics import median
from typing import Any

from flowc.analysis.dataflow.buffers import least_capacities
from flowc.analysis.dataflow.check import check
from flowc.analysis.dataflow.cycle_ratio import Arc, arcs_of, largest_cycle_ratio
from flowc.analysis.dataflow.graph import Graph, bounded, cyclic_parts, graph_of
from flowc.analysis.dataflow.order import iteration_order
from flowc.analysis.dataflow.repetition import repetition
from flowc.analysis.dataflow.throughput import least_period
from flowc.model.application import Application, Channel, Port, Task
from flowc.model.span import Span
from flowc.networks.dataflow.by_parts import by_parts, layerwise_elements
from flowc.networks.onnx.read_layers import read_layers
from paired import Others, Spread, alternate, execute, machine, ratio, rounds, table, verdict

HERE = Path(__file__).resolve().parent
PLACE = Span("benchmark", 1, 1, 1, 1)
SECONDS = 10.0  # for one least period of the bounded graphs
LARGE = (1_250, 2_500, 5_000, 10_000)  # tasks
LARGE_AIM = 10.0  # seconds, of the largest
NETWORKS = {"ResNet-50": "light_resnet50.onnx", "DenseNet-121": "light_densenet121.onnx"}
NETWORK_AIM = 30.0
BOUNDED = {10: 20, 30: 20, 100: 10, 300: 5, 1_000: 3}  # graphs by tasks

#: By name in the file: what it is, the least period, aim in seconds; least period with the least
#: capacities.
KNOWN = {
    "samplerate": ("CD to DAT", 960, 0.2, 1088),
    "modem": ("modem", 16, 0.2, 32),
    "satellite": ("satellite receiver", 1056, 0.2, 1320),
    "h263decoder": ("H.263 decoder", 332046, 1.0, 646262),
}


# -- graphs ----------------------------------------------------------------------------------------
class Sketch:
    """A graph that grows: phases and phase cycles of every task, and channels whose rates follow
    from them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names: list[str] = []
        self.phases: list[int] = []
        self.cycles: list[int] = []
        self.times: list[tuple[Fraction, ...]] = []
        self._ins: list[list[Port]] = []
        self._outs: list[list[Port]] = []
        self._channels: list[Channel] = []

    def task(self, phases: int, cycles: int, times: Sequence[int] = ()) -> int:
        """A task with as many phases, and as many cycles of them in an iteration; its index."""
        self.names.append(f"G.t{len(self.names)}")
        self.phases.append(phases)
        self.cycles.append(cycles)
        self.times.append(tuple(map(Fraction, times)))
        self._ins.append([])
        self._outs.append([])
        return len(self.names) - 1

    def channel(
        self, a: int, b: int, made: Sequence[int], taken: Sequence[int], tokens: int
    ) -> None:
        """A channel with these rates per phase."""
        out = Port(f"o{len(self._outs[a])}", "out", None, tuple(made), True, PLACE)
        into = Port(f"i{len(self._ins[b])}", "in", None, tuple(taken), True, PLACE)
        self._outs[a].append(out)
        self._ins[b].append(into)
        name = f"c{len(self._channels)}"
        ends = self.names[a], out.name, self.names[b], into.name
        self._channels.append(Channel(name, *ends, tokens, (), PLACE))

    def join(self, a: int, b: int, share: int = 0) -> None:
        """A channel with random rates; its initial tokens are the traffic of an iteration over
        `share` (0: none)."""
        traffic = lcm(self.cycles[a], self.cycles[b]) * self.rng.choice((1, 1, 2))
        made, taken = (self._split(traffic // self.cycles[t], self.phases[t]) for t in (a, b))
        self.channel(a, b, made, taken, traffic // share if share else 0)

    def _split(self, total: int, parts: int) -> list[int]:
        cuts = sorted(self.rng.randint(0, total) for _ in range(parts - 1))
        return [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)]

    def app(self, *, mixed: bool = True) -> Application:
        """The application; when `mixed`, its tasks in random order: what is written first need not
        run first."""
        tasks = [
            Task(name, name, tuple(ins), tuple(outs), (), (), (), True, times, None, "", PLACE)
            for name, ins, outs, times in zip(
                self.names, self._ins, self._outs, self.times, strict=True
            )
        ]
        if mixed:
            self.rng.shuffle(tasks)
        return Application("G", tuple(tasks), tuple(self._channels), None, None, 0, "", PLACE)


# -- known graphs ----------------------------------------------------------------------------------
def known_graph(name: str) -> Application:
    """As flowc imports it: an edge that keeps the firings of a task apart is what every task has
    anyway."""
    graphs = json.loads((HERE.parent / "tests/data/known_graphs.json").read_text())
    (numbers,) = (g for g in graphs if g["name"] == name)
    sketch = Sketch(random.Random(0))
    index = {a: sketch.task(len(times), 0, times) for a, times in numbers["exec"].items()}
    for a, b, made, taken, tokens in numbers["channels"]:
        if a != b or {*made, *taken, tokens} != {1}:
            sketch.channel(index[a], index[b], made, taken, tokens)
    return sketch.app(mixed=False)


def graph(app: Application) -> Graph:
    """With the times of the app; this much is in the times of all sides."""
    return graph_of(app, repetition(app).vector, {t.name: t.wcet_ns for t in app.tasks})


def ours(limited: Graph) -> Fraction:
    """flowc: the least period."""
    found = least_period(limited)
    if not found.exact:
        raise SystemExit("a least period is not proved")
    return found.lower


def expanded(limited: Graph) -> tuple[int, dict[tuple[int, int], tuple[int, int]]]:
    """One node per firing; (firing, firing that waits for it): time of the first, iterations that
    lie between.

    A task fires once at a time, so it is enough to wait for the firing that makes the last token
    needed.
    """
    first = [0, *accumulate(limited.firings)]
    arcs: dict[tuple[int, int], tuple[int, int]] = {}
    for e in limited.edges:
        times = limited.times[e.source]
        made = list(accumulate(e.produced * limited.cycles[e.source]))
        for k, taken in enumerate(accumulate(e.consumed * limited.cycles[e.destination])):
            if e.consumed[k % len(e.consumed)]:
                iteration, rest = divmod(taken - e.tokens - 1, made[-1])
                firing = bisect_left(made, rest + 1)
                arc = first[e.source] + firing, first[e.destination] + k
                if arc not in arcs or arcs[arc][1] > -iteration:
                    arcs[arc] = times[firing % len(times)], -iteration
    return first[-1], arcs


def own_solver(limited: Graph) -> Fraction | None:
    """The full expansion, with flowc's solver."""
    nodes, arcs = expanded(limited)
    found = largest_cycle_ratio(
        arcs_of(nodes, [Arc(a, b, spent, between, -1) for (a, b), (spent, between) in arcs.items()])
    )
    return found.ratio


def digraphx(limited: Graph) -> Fraction:
    """The full expansion, with the solver of digraphx in floats."""
    from digraphx.min_cycle_ratio import MinCycleRatioSolver

    nodes, arcs = expanded(limited)
    whole: dict[int, dict[int, dict[str, int]]] = {i: {} for i in range(nodes)}
    for (a, b), (spent, between) in arcs.items():
        whole[a][b] = {"cost": -spent, "time": between}
    least, _ = MinCycleRatioSolver(whole).run(dict.fromkeys(range(nodes), 0), 0.0)
    return Fraction(-least).limit_denominator(1000)


FLOWC, OWN, PEER = "flowc", "expanded, flowc's solver", "expanded, digraphx"
SOLVERS: dict[str, Callable[[Graph], Fraction | None]] = {
    FLOWC: ours,
    OWN: own_solver,
    PEER: digraphx,
}


def solve_known(side: str) -> dict[str, Any]:
    """Seconds of one side for all known graphs, as they are and bounded."""
    solver = SOLVERS[side]
    solver(graph(known_graph("modem")))
    seconds, facts = {}, {}
    for name, (_, free, _, tight) in KNOWN.items():
        app = known_graph(name)
        capacities = least_capacities(graph(app)).capacities
        for period, bounds in ((free, None), (tight, capacities)):
            begin = time.perf_counter()
            limited = graph(app) if bounds is None else bounded(graph(app), bounds)
            answer = solver(limited)
            seconds[f"{name}{' bounded' if bounds else ''}"] = time.perf_counter() - begin
            if answer != period:
                raise SystemExit(f"{side}: the least period of {name} is {answer}, not {period}")
        facts[name] = [len(limited.names), sum(limited.firings), sum(capacities.values())]
    return {"seconds": seconds, "facts": facts}


def known(count: int) -> str:
    """Alternate the sides; the tables."""
    there = importlib.util.find_spec("digraphx") is not None
    sides = {side: Side("known", side) for side in SOLVERS if side != PEER or there}
    alternate(sides, count)
    facts = sides[FLOWC].facts[0]
    note = "" if there else "\n(digraphx is not installed: pip install digraphx)"
    rows = [[f"least period, {count} rounds", "tasks", "firings", "ms", "aim"]]
    beside = [["flowc is faster, times, than", *(s for s in sides if s != FLOWC)]]
    for name, (title, free, aim, tight) in KNOWN.items():
        tasks, firings, total = facts[name]
        for key in (name, f"{name} bounded"):
            spread = Spread.of([1e3 * s for s in sides[FLOWC].seconds(key)])
            limit = key != name
            label = f"{title}, {total} tokens of space: {tight}" if limit else f"{title}: {free}"
            reached = "" if limit else verdict(spread.median, most=1e3 * aim, digits=0)
            rows.append([label, str(tasks), f"{firings:,}", spread.text(), reached])
            mine = sides[FLOWC].seconds(key)
            others = (
                ratio(s.seconds(key), mine).text(1) for side, s in sides.items() if side != FLOWC
            )
            beside.append([f"{title}{', bounded' if limit else ''}", *others])
    return f"{table(rows)}\n\n{table(beside)}{note}"


# -- large graphs ----------------------------------------------------------------------------------
def large_app(tasks: int) -> Application:
    """Random, consistent and live; tasks have 1 to 4 phases and about a hundred firings.

    A tenth of the tasks is one strongly connected part; a third is in parts of 300, a fifth in
    parts of 2 to 20, the rest on their own, every fifth with a loop to itself. Each part is a ring
    with half as many chords, a tenth of the pairs with two channels. The tokens on its channels
    that lead back last for 1/4 to 1/12 of the iteration: that is an iteration of the part alone, so
    it is live.
    """
    rng = random.Random(tasks)
    sketch = Sketch(rng)
    sizes = [tasks // 10, *[300] * (tasks // 900)]
    while sum(sizes) < tasks * 19 // 30:
        sizes.append(rng.randint(2, 20))
    sizes += [1] * (tasks - sum(sizes))
    rng.shuffle(sizes)
    for size in sizes:
        before = len(sketch.names)
        share = rng.choice((4, 5, 6, 8, 9, 10, 12))
        part = [
            sketch.task(rng.randint(1, 4), share * rng.choice((1, 2, 3, 4, 6, 8, 12)))
            for _ in range(size)
        ]
        arrows = list(pairwise(part)) + ([(part[-1], part[0])] if size > 1 else [])
        for _ in range(size // 2):
            a = rng.randrange(size)
            arrows.append((part[a], part[max(0, min(size - 1, a + rng.randint(-20, 20)))]))
        for a, b in arrows:
            for _ in range(rng.choice((1,) * 9 + (2,))):
                sketch.join(a, b, share if b <= a else 0)
        if size == 1 and rng.random() < 0.2:
            sketch.join(part[0], part[0], share)
        for _ in range(1 + size // 5 + (rng.random() < 0.4) if before else 0):
            sketch.join(rng.randrange(before), rng.choice(part))
    return sketch.app()


def judge_large(tasks: int) -> dict[str, Any]:
    """Seconds of one large graph."""
    check(large_app(100))
    app = large_app(tasks)
    begin = time.perf_counter()
    vector = repetition(app).vector
    middle = time.perf_counter()
    verdicts, _ = check(app)
    end = time.perf_counter()
    if not (
        verdicts.consistent.holds and verdicts.deadlock_free.holds and verdicts.repetition == vector
    ):
        raise SystemExit(
            f"the graph of {tasks} tasks is not what it should be: {verdicts.deadlock_free.witness}"
        )
    parts = cyclic_parts(graph_of(app, vector, overlap=True))
    facts = [len(app.channels), sum(vector.values()), len(parts), max(len(p.tasks) for p in parts)]
    return {"seconds": {"repetition": middle - begin, "check": end - middle}, "facts": facts}


def large(count: int) -> str:
    """Alternate the sizes; the tables."""
    sides = {str(tasks): Side("large", str(tasks)) for tasks in LARGE}
    alternate(sides, count)
    head = f"verdicts, {count} rounds"
    rows = [
        [head, "channels", "firings", "cyclic parts", "largest", "repetition s", "all s", "aim"]
    ]
    growth = [["us per firing", "all", f"over {LARGE[0]:,} tasks"]]
    each: dict[str, list[float]] = {}
    for tasks, side in sides.items():
        channels, firings, parts, largest = side.facts[0]
        whole = Spread.of(side.seconds("check"))
        aim = verdict(whole.median, most=LARGE_AIM, digits=0) if int(tasks) == LARGE[-1] else ""
        label = f"{int(tasks):,} tasks"
        counts = (f"{n:,}" for n in (channels, firings, parts, largest))
        rows.append(
            [
                label,
                *counts,
                f"{Spread.of(side.seconds('repetition')).median:.2f}",
                whole.text(),
                aim,
            ]
        )
        each[tasks] = [1e6 * s / firings for s in side.seconds("check")]
        growth.append(
            [label, Spread.of(each[tasks]).text(), ratio(each[tasks], each[str(LARGE[0])]).text()]
        )
    return f"{table(rows)}\n\n{table(growth)}"


# -- networks --------------------------------------------------------------------------------------
def buffers_of(name: str) -> dict[str, Any]:
    """Seconds of a network from its file to its least buffers."""
    import onnx

    cnn = read_layers(Path(onnx.__file__).parent / "backend/test/data/light" / NETWORKS[name])
    least_capacities(graph_of(small := bounded_app(0, 5), repetition(small).vector))
    begin = time.perf_counter()
    cnn = read_layers(Path(cnn.file))
    middle = time.perf_counter()
    app = by_parts(cnn, "Net")
    least = least_capacities(graph_of(app, repetition(app).vector, overlap=True))
    end = time.perf_counter()
    phases = sum(layer.phases for layer in cnn.layers)
    facts = [len(cnn.layers), phases, layerwise_elements(cnn), least.total, least.lower]
    return {"seconds": {"read": middle - begin, "buffers": end - middle}, "facts": facts}


def networks(count: int) -> str:
    """Alternate the networks; the table."""
    sides = {name: Side("network", name) for name in NETWORKS}
    alternate(sides, count)
    head = f"least buffers, {count} rounds"
    rows = [
        [
            head,
            "layers",
            "phases",
            "elements",
            "by parts",
            "less",
            "",
            "reading s",
            "analysis s",
            "aim",
        ]
    ]
    for name, side in sides.items():
        layers, phases, whole, least, lower = side.facts[0]
        spread = Spread.of(side.seconds("buffers"))
        proved = (
            "proved"
            if least == lower
            else f"at most {100 * (least - lower) / lower:.1f} % too many"
        )
        counts = (f"{n:,}" for n in (layers, phases, whole, least))
        times = f"{Spread.of(side.seconds('read')).median:.2f}", spread.text()
        aim = verdict(spread.median, most=NETWORK_AIM, digits=0)
        rows.append([name, *counts, f"{whole / least:.1f}x", proved, *times, aim])
    return table(rows)


# -- bounded graphs --------------------------------------------------------------------------------
def bounded_app(seed: int, tasks: int) -> Application:
    """Random, connected, live, with times of 1 to 100 ns: 1 to 3 phases, half as many joins as
    tasks, some loops."""
    rng = random.Random(f"{tasks} {seed}")
    sketch = Sketch(rng)
    for _ in range(tasks):
        phases = rng.randint(1, 3)
        sketch.task(
            phases, rng.choice((1, 2, 3, 4, 6)), [rng.randint(1, 100) for _ in range(phases)]
        )
    for b in range(1, tasks):
        sketch.join(rng.randrange(max(0, b - 10), b), b)
    for _ in range(tasks // 2):
        a, b = sorted(rng.sample(range(tasks), 2))
        sketch.join(a, b)
    for _ in range(tasks // 10):
        a, b = sorted(rng.sample(range(tasks), 2))
        sketch.join(b, a, 1)
    return sketch.app()


def sequential_capacities(app: Application, vector: dict[str, int]) -> dict[int, int]:
    """The room that one sequential schedule takes, downstream first: enough to be live, and not
    much more."""
    tasks = {t.name: t for t in app.tasks}
    touching: dict[str, tuple[list[tuple[int, Port]], list[tuple[int, Port]]]] = {
        n: ([], []) for n in tasks
    }
    for i, c in enumerate(app.channels):
        touching[c.source][0].append((i, tasks[c.source].port(c.source_port)))
        touching[c.destination][1].append((i, tasks[c.destination].port(c.destination_port)))
    tokens = [c.delay for c in app.channels]
    most = list(tokens)
    fired = dict.fromkeys(tasks, 0)
    for name, times in iteration_order(app, vector).firings:
        outs, ins = touching[name]
        for k in range(fired[name], fired[name] + times):
            for i, port in outs:
                tokens[i] += port.rate(k)
                most[i] = max(most[i], tokens[i])
            for i, port in ins:
                tokens[i] -= port.rate(k)
        fired[name] += times
    return dict(enumerate(most))


def periods_of(tasks: int) -> dict[str, Any]:
    """Seconds and gap of some bounded graphs, once each: the capacities of a sequential schedule,
    and twice those."""
    least_period(graph(bounded_app(0, 5)))
    found: dict[str, list[tuple[float, float, int]]] = {"tight": [], "twice": []}
    for seed in range(BOUNDED[tasks]):
        app = bounded_app(seed, tasks)
        capacities = sequential_capacities(app, repetition(app).vector)
        for way, times in (("tight", 1), ("twice", 2)):
            limited = bounded(graph(app), {c: times * n for c, n in capacities.items()})
            begin = time.perf_counter()
            period = least_period(limited, seconds=SECONDS)
            spent = time.perf_counter() - begin
            gap = (
                float(period.upper / period.lower) - 1
                if period.upper is not None and period.lower > 0
                else inf
            )
            found[way].append((spent, gap, sum(limited.firings)))
    return {"seconds": {}, "facts": found}


def random_bounded() -> str:
    """One pass over all graphs; the table."""
    wanted = f"proved in {SECONDS:.0f} s"
    rows = [
        [
            "least period, bounded",
            "capacities",
            "firings",
            "median s",
            "worst s",
            wanted,
            "largest gap",
        ]
    ]
    for tasks in BOUNDED:
        side = Side("bounded", str(tasks))
        side()
        for way, found in side.facts[0].items():
            seconds, gaps, firings = zip(*found, strict=True)
            proved = f"{sum(g == 0 for g in gaps)} of {len(gaps)}"
            gap = (
                ""
                if max(gaps) == 0
                else "no bound"
                if max(gaps) == inf
                else f"{100 * max(gaps):.0f} %"
            )
            times = f"{median(seconds):.3f}", f"{max(seconds):.3f}"
            rows.append(
                [
                    f"{tasks:,} tasks, {BOUNDED[tasks]} graphs",
                    way,
                    f"{median(firings):,.0f}",
                    *times,
                    proved,
                    gap,
                ]
            )
    return table(rows)


# -- all -------------------------------------------------------------------------------------------
class Side:
    """Something that is measured, in a process of its own: `python analysis.py --one PART NAME`
    prints JSON."""

    def __init__(self, part: str, name: str) -> None:
        self._command = sys.executable, Path(__file__).resolve(), "--one", part, name
        self._records: list[dict[str, Any]] = []

    def __call__(self) -> float:
        self._records.append(json.loads(execute(*self._command)))
        return float(sum(self._records[-1]["seconds"].values()))

    def seconds(self, key: str) -> list[float]:
        """Round by round."""
        return [r["seconds"][key] for r in self._records]

    @property
    def facts(self) -> list[Any]:
        """Round by round."""
        return [r["facts"] for r in self._records]


PARTS: dict[str, Callable[[str], dict[str, Any]]] = {
    "known": solve_known,
    "large": lambda tasks: judge_large(int(tasks)),
    "network": buffers_of,
    "bounded": lambda tasks: periods_of(int(tasks)),
}


def main() -> None:
    """Alternate, print."""
    count = rounds(__doc__, 5)
    others = Others()
    tables = known(2 * count), large(count), networks(count), random_bounded()
    print(
        f"{machine()}; {others.text()}\nTimes and ratios: median [quartiles] least..most",
        *tables,
        sep="\n\n",
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(PARTS[sys.argv[2]](sys.argv[3])))
    else:
        main()
