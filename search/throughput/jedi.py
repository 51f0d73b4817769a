"""The search of JEDI: Kim's thesis, ch. 3.5 (parameter maximizer, pipeline cut-point explorer,
fine-tuner).

In: a problem, and a function that runs mappings; without one, predictions replace runs. Out: the
mapping with the highest throughput that the heuristic finds. Mapping options and settings are in
`jedi_bench`, Algorithms 2 and 3 in `jedi_cuts`. The search treats one network after the other; a
network is not cut before its turn. It refuses other objectives than throughput, as the thesis has
no rule for them.

The steps of Fig. 3.6: the maximizer increases threads, streams and buffers on option E; the global
search alone compares the mapping options; the full search follows for the best of them; at the end
comes the fine-tuner. No configuration is run twice, as the thesis builds no engine twice.

Where the thesis is not specific:

- "until the performance is not improved anymore": runs scatter, so that a parameter has to gain 1
  %.
- The threshold T is "reduced in a greedy fashion until the local search is executed for a certain
  number of tuples": from 0.9 in steps of 0.1, until there were K. Utilization is that of the last
  stage's processor.
- The allowed loss of the fine-tuner is 1 % of the best value for all steps together.
- The streams of a stage on several processors are those on each of them; in the thesis they are the
  total (4 for two DLAs).
- The initial tuple balances the profile instead of being random, so that the seed has no effect.
- Batch and precision are not explored: the thesis sets them by hand, and so does the text of an
  application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...model.mapping import Mapping, NetworkPlan
from .design import Design
from .jedi_bench import BUFFERS, STREAMS, Bench, BenchSetting, options
from .jedi_cuts import Explorer
from .plans import whole
from .problem import Divisible, Problem
from .request import SearchRequest
from .trials import Over, Trials, as_auto, only_throughput

#: The least gain by increasing a parameter.
GAIN = 0.01
#: The maximum loss by all reductions of the fine-tuner together.
LOSS = 0.01
#: Option E with the smallest parameters: pre, post, buffers, streams.
FEWEST = (1, 1, 2, 1)
#: The number of tuples that the global search keeps, and from which local searches begin; 1 for a
#: warm start.
KEPT = 10
#: Thresholds of utilization, tried in turn until there were enough local searches.
THRESHOLDS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)


def search(request: SearchRequest, *, start: NetworkPlan | None = None) -> Mapping:
    """The best configuration of JEDI's kind, never worse than option E or frames in turn.
    Deterministic.

    `start` is the plan of a similar network (another input size or batch) for a warm start, with
    K = 1 (ch. 3.6.5). Raises Errors for other objectives.
    """
    return explored(request, "jedi", lambda bench, begin, most: fine_tuned(bench, begin), start)


#: A fine-tuner: the setting that it makes of one on a bench, where the maximizer has found another.
Tuner = Callable[[Bench, BenchSetting, BenchSetting], BenchSetting]


def explored(
    request: SearchRequest, name: str, tuner: Tuner, start: NetworkPlan | None = None
) -> Mapping:
    """The search with a fine-tuner, under its name."""
    only_throughput(name, request.objective)
    if not request.problem.networks:
        return as_auto(name, request)
    trials = Trials(request)
    plain: list[Design] = []
    notes: list[str] = []
    try:
        *_, design = _networks(request.problem, trials, tuner, start, plain, notes)
    except (Over, KeyboardInterrupt):
        if not plain:
            raise
        (design,) = trials.best()
        notes.append("the search was not finished: it ended with the best so far")
    return trials.answer(name, [*plain, design], notes)


def _networks(
    problem: Problem,
    trials: Trials,
    tuner: Tuner,
    start: NetworkPlan | None,
    plain: list[Design],
    notes: list[str],
) -> Iterator[Design]:
    """The answer for each network in turn, with the plans found for those before. Raises Over."""
    plans = {plan.task: plan for plan in whole(problem.networks, problem.cpus[:1])}
    for name in problem.networks:
        rest = [plan for task, plan in plans.items() if task != name]
        bench = Bench(problem, name, rest, trials)
        first = None
        if start is not None and start.task == name:
            first = _cuts_of(start, bench.network)
        design = _one(problem, name, bench, tuner, first, plain, notes)
        plans.update({plan.task: plan for plan in design.mapping.networks})
        yield design


def _cuts_of(start: NetworkPlan, network: Divisible) -> tuple[int, ...] | None:
    """The cut-point tuple of a similar network, or None if its layers are not in this one."""
    known = {name: k for k, name in enumerate(network.layers, 1)}
    cuts = []
    for stage in start.stages[:-1]:
        if stage.until is None or stage.until not in known:
            return None
        cuts.append(known[stage.until])
    return tuple(cuts)


def _one(
    problem: Problem,
    name: str,
    bench: Bench,
    tuner: Tuner,
    first: tuple[int, ...] | None,
    plain: list[Design],
    notes: list[str],
) -> Design:
    """Fig. 3.6 for one network. Raises Over."""
    keep = KEPT if first is None else 1
    table = options(problem, name)
    for option in table:
        if len(option.stages) == 1:
            setting = BenchSetting(option, (), FEWEST)
            bench.run(setting)
            plain.append(bench.design(setting))
    most = maximized(bench, BenchSetting(table[0], (), FEWEST))
    best, value = most, bench.run(most)
    explorers = []
    for option in table[1:]:
        numbers = bench.numbers(option, most.numbers)
        if len(option.stages) > 1:
            explorers.append(Explorer(bench, option, numbers, keep, first))
            explorers[-1].begin()  # so that every option is tried within a short budget
            continue
        uncut = BenchSetting(option, (), numbers)
        reached = bench.run(uncut)
        if reached < value:
            best, value = uncut, reached
    explorer = _best_of(explorers)
    tuples = sum(len(e.searched) for e in explorers)
    if explorer is not None and explorer.value < value:
        _search_fully(explorer, keep)
        best = explorer.best or best
    tuned = tuner(bench, best, most)
    notes.append(_summary(name, best, tuned, len(table), tuples, keep))
    return bench.design(tuned)


def _best_of(explorers: list[Explorer]) -> Explorer | None:
    """The mapping option with the best tuple of the global search, None without options. Raises
    Over."""
    for explorer in explorers:
        explorer.search(THRESHOLDS[0], local=False)
    return min(explorers, key=lambda e: e.value, default=None)


def _search_fully(explorer: Explorer, keep: int) -> None:
    """The global and the local search, with lower thresholds until there were `keep` local ones.
    Raises Over."""
    for threshold in THRESHOLDS:
        if explorer.search(threshold, local=True) >= keep:
            return


def maximized(bench: Bench, begin: BenchSetting) -> BenchSetting:
    """The parameter maximizer: each parameter is increased as long as that gains, until none does.
    Raises Over."""
    best, value, improved = begin, bench.run(begin), True
    while improved:
        best, reached = _increased(bench, best, value, (STREAMS, *bench.adjustable))
        improved, value = reached < value, reached
    return best


def _increased(
    bench: Bench, best: BenchSetting, value: float, parameters: Sequence[int]
) -> tuple[BenchSetting, float]:
    """The setting with each parameter increased as long as that gains, and its value."""
    for parameter in parameters:
        while (larger := best.changed(parameter, 1)) is not None:
            reached = bench.run(larger)
            if not reached < value * (1 - GAIN):  # also if both are infinite
                break
            best, value = larger, reached
    return best, value


def fine_tuned(bench: Bench, begin: BenchSetting) -> BenchSetting:
    """The parameter fine-tuner (ch. 3.5.2): increase one by one, reduce one by one, shift streams.
    Raises Over."""
    streams = range(STREAMS, STREAMS + len(begin.option.stages))
    best, value = _increased(bench, begin, bench.run(begin), (*bench.adjustable, *streams))
    best = _reduced(bench, best, value * (1 + LOSS), streams)
    first, *others = [STREAMS + k for k in best.option.main]
    if others:
        best = _shifted(bench, best, first, others[-1])
        best = _shifted(bench, best, others[-1], first)
    return best


def _reduced(
    bench: Bench, best: BenchSetting, allowed: float, streams: Sequence[int]
) -> BenchSetting:
    """The setting with each parameter reduced as far as its value stays allowed. Raises Over."""
    threads = [p for p in bench.adjustable if p != BUFFERS]
    for parameter in (
        *threads,
        *streams,
        BUFFERS,
    ):  # the least number of buffers follows the others
        while (smaller := best.changed(parameter, -1)) is not None:
            if bench.run(smaller) > allowed:
                break
            best = smaller
    return best


def _shifted(bench: Bench, best: BenchSetting, source: int, target: int) -> BenchSetting:
    """The setting with streams moved from one stage to another as long as that gains. Raises
    Over."""
    value = bench.run(best)
    while (smaller := best.changed(source, -1)) is not None:
        moved = smaller.changed(target, 1)
        if moved is None:
            break
        reached = bench.run(moved)
        if reached >= value:
            break
        best, value = moved, reached
    return best


def _summary(
    name: str, best: BenchSetting, tuned: BenchSetting, count: int, tuples: int, keep: int
) -> str:
    pre, post, buffers, *streams = tuned.numbers
    begun = "" if keep > 1 else ", from the cuts of a neighbor (K = 1)"
    loss = ""
    if tuned.numbers != best.numbers:
        loss = f"; the fine-tuner gave up at most {LOSS:.0%} for fewer of them"
    return (
        f"`{name}`: the best of {count} mapping options is {tuned.option.name}, after {tuples}"
        f" cut-point tuples of the global search{begun}; threads {pre} before and {post} behind,"
        f" {buffers} buffers, streams {', '.join(map(str, streams))}{loss}"
    )
