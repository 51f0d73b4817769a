"""The search of JEDI: Kim's thesis, ch. 3.5 (parameter maximizer, pipeline cut-point explorer,
fine-tuner).

In: a problem, and a way to run mappings; without one, predictions stand for runs. Out: a mapping
with the highest throughput that the heuristic finds. Mapping options and settings are in
`jedi_bench`, Algorithms 2 and 3 in `jedi_cuts`. It works on each network in turn with the others
whole until it is theirs, and it refuses other objectives than throughput, as the thesis has no rule
for them.

Fig. 3.6 in the words of flowc: the maximizer raises threads, streams and buffers on option E; the
global search alone compares the mapping options; the full search follows for the best of them; the
fine-tuner ends. No configuration is run twice: the thesis builds no engine twice. What it leaves
open, and how it is read here:

- "until the performance is not improved anymore": runs scatter, so that a parameter has to gain 1
  %.
- The threshold T is "reduced in a greedy fashion until the local search is executed for a certain
  number of tuples":
  from 0.9 in steps of 0.1, until there were K. Utilization is that of the last stage's processor.
- The allowed loss of the fine-tuner is 1 % of the best value, over all steps together and not for
  each one.
- A stage mapped to several processors counts its streams on each of them, the thesis in total (4
  for two DLAs).
- Nothing is drawn: the initial tuple balances the profile instead of being random, so that the
  seed has no effect.
- Batch and precision are not explored: the thesis sets them by hand, and the text of an
  application says them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model.mapping import Mapping, NetworkPlan, StagePlan
from ..budget import DEFAULT, Budget
from .design import Design
from .jedi_bench import BUFFERS, STREAMS, Bench, Setting, options
from .jedi_cuts import Explorer
from .partition import Objective
from .problem import Divisible, Measure, Problem, Progress
from .trials import Over, Trials, as_auto, only_throughput

#: A parameter that is raised has to gain this much.
GAIN = 0.01
#: What all reductions of the fine-tuner together may cost.
LOSS = 0.01
#: Tuples that the global search keeps, and from how many of them local searches begin; one for a
#: warm start.
KEPT = 10
#: Thresholds of utilization, tried in turn until there were enough local searches.
THRESHOLDS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)


def search(
    problem: Problem,
    *,
    seed: int = 0,
    budget: Budget = DEFAULT,
    progress: Progress | None = None,
    measure: Measure | None = None,
    objective: Objective = "throughput",
    start: NetworkPlan | None = None,
) -> Mapping:
    """The best configuration of JEDI's kind, never worse than option E or frames in turn;
    deterministic.

    `start` is a plan found for a neighbor (another input size or batch): a warm start, with K = 1
    (ch. 3.6.5). Raises Errors for other objectives.
    """
    only_throughput("jedi", objective)
    if not problem.networks:
        return as_auto("jedi", problem, seed, budget, progress, measure, objective)
    trials = Trials(problem, measure, objective, budget, progress)
    plain: list[Design] = []
    notes: list[str] = []
    try:
        last = None
        for design in _networks(problem, trials, start, plain, notes):
            last = design
        assert last is not None
        found = last
    except (Over, KeyboardInterrupt):
        if not plain:
            raise
        (found,) = trials.best()
        notes.append("the search was not finished: it ended with the best so far")
    return trials.answer("jedi", [*plain, found], seed, notes)


def _networks(
    problem: Problem,
    trials: Trials,
    start: NetworkPlan | None,
    plain: list[Design],
    notes: list[str],
) -> Iterator[Design]:
    """The answer for each network in turn; those before keep theirs. Raises Over."""
    plans = {n: NetworkPlan(n, (StagePlan(problem.cpus[:1]),)) for n in problem.networks}
    for name in problem.networks:
        bench = Bench(problem, name, [p for n, p in plans.items() if n != name], trials)
        first = _cuts_of(start, bench.network) if start is not None and start.task == name else None
        design = _one(problem, name, bench, first, plain, notes)
        plans.update({p.task: p for p in design.mapping.networks})
        yield design


def _cuts_of(start: NetworkPlan, network: Divisible) -> tuple[int, ...] | None:
    """The cut-point tuple of a neighbor, or None where its layers are not those of this network."""
    ends = [s.until for s in start.stages[:-1]]
    known = {name: k for k, name in enumerate(network.layers, 1)}
    return tuple(known[e] for e in ends if e is not None) if all(e in known for e in ends) else None


def _one(
    problem: Problem,
    name: str,
    bench: Bench,
    first: tuple[int, ...] | None,
    plain: list[Design],
    notes: list[str],
) -> Design:
    """Fig. 3.6 for one network. Raises Over."""
    keep = KEPT if first is None else 1
    table = options(problem, name)
    for option in table:
        if len(option.stages) == 1:
            setting = Setting(option, (), (1, 1, 2, 1))
            bench.run(setting)
            plain.append(bench.design(setting))
    most = maximized(bench, Setting(table[0], (), (1, 1, 2, 1)))
    best, value, explorer = most, bench.run(most), None
    explorers = []
    for option in table[1:]:
        numbers = bench.numbers(option, most.numbers)
        if len(option.stages) > 1:
            explorers.append(Explorer(bench, option, numbers, keep, first))
            explorers[-1].begin()  # so that a short budget has seen every option
        elif bench.run(Setting(option, (), numbers)) < value:
            best = Setting(option, (), numbers)
            value = bench.run(best)
    for tried in explorers:
        tried.search(THRESHOLDS[0], local=False)
        if tried.best is not None and tried.value < value:
            best, value, explorer = tried.best, tried.value, tried
    tuples = sum(len(e.searched) for e in explorers)
    if explorer is not None:
        for threshold in THRESHOLDS:
            if explorer.search(threshold, local=True) >= keep:
                break
        assert explorer.best is not None
        best, value = explorer.best, explorer.value
    tuned = fine_tuned(bench, best)
    notes.append(_said(name, best, tuned, len(table), tuples, keep))
    return bench.design(tuned)


def maximized(bench: Bench, begin: Setting) -> Setting:
    """The parameter maximizer: each parameter is raised as long as it gains, until none does.
    Raises Over."""
    best, value, improved = begin, bench.run(begin), True
    while improved:
        best, reached = _raised(bench, best, value, (STREAMS, *bench.adjustable))
        improved, value = reached < value, reached
    return best


def _raised(
    bench: Bench, best: Setting, value: float, which: Sequence[int]
) -> tuple[Setting, float]:
    for parameter in which:
        while (more := best.changed(parameter, 1)) is not None:
            reached = bench.run(more)
            if not reached < value * (1 - GAIN):  # also where both are infinite
                break
            best, value = more, reached
    return best, value


def fine_tuned(bench: Bench, begin: Setting) -> Setting:
    """The parameter fine-tuner (ch. 3.5.2): raise one by one, reduce one by one, shift streams.
    Raises Over."""
    lanes = range(STREAMS, STREAMS + len(begin.option.stages))
    best, value = _raised(bench, begin, bench.run(begin), (*bench.adjustable, *lanes))
    allowed = value * (1 + LOSS)
    for parameter in (*(p for p in bench.adjustable if p != BUFFERS), *lanes, BUFFERS):
        # buffers follow the others
        while (less := best.changed(parameter, -1)) is not None and bench.run(less) <= allowed:
            best = less
    main = [STREAMS + k for k in best.option.main]
    value = bench.run(best)
    for taken, given in ((main[0], main[-1]), (main[-1], main[0])) if len(main) > 1 else ():
        while (less := best.changed(taken, -1)) is not None:
            shifted = less.changed(given, 1)
            if shifted is None or bench.run(shifted) >= value:
                break
            best, value = shifted, bench.run(shifted)
    return best


def _said(name: str, best: Setting, tuned: Setting, count: int, tuples: int, keep: int) -> str:
    pre, post, buffers, *streams = tuned.numbers
    begun = "" if keep > 1 else ", from the cuts of a neighbor (K = 1)"
    given = (
        f"; the fine-tuner gave up at most {LOSS:.0%} for fewer of them"
        if tuned.numbers != best.numbers
        else ""
    )
    return (
        f"`{name}`: the best of {count} mapping options is {tuned.option.name}, after {tuples}"
        f" cut-point tuples of the global search{begun}; threads {pre} before and {post} behind,"
        f" {buffers} buffers, streams {', '.join(map(str, streams))}{given}"
    )
