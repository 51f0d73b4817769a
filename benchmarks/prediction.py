"""flowc's predictions for a network alone against measurements of the generated program.

Every network of structures.py gets the app of one_network.py. Its layers are profiled as `flowc
map` does it, and fixed configurations are predicted and run: one core; frames in turn on two; two
stages with 30, 50 and 70 % of the time in the first; three stages, the outer ones on the same core.
A run that other processes disturbed is repeated, for some minutes at most; configurations take
turns, and medians over the rounds count.

Errors are predicted / measured - 1: for stages the mean time of a firing, for pipelines the time
between frames.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import flowc
import steady
import structures
from flowc.driver.solve.map import find_mapping
from flowc.driver.solve.throughput_problem import problem_of
from flowc.driver.text import store
from flowc.model.mapping import NetworkPlan, Placement, StagePlan
from flowc.model.times import times_of
from flowc.profiling.machine import noise
from flowc.profiling.measure import run_build
from flowc.search.throughput.design import Design, complete
from flowc.search.throughput.problem import Divisible, Problem
from one_network import write_app
from paired import Others, machine, table, verdict

NET = "One.net"
AIMS = {"stages": 0.05, "pipelines": 0.08}


@dataclass
class Trial:
    """A configuration of a network with what its runs showed, in ns: the period, and each stage's
    time."""

    network: str
    design: Design
    build: Path
    periods: list[float] = field(default_factory=list)
    firings: list[list[float]] = field(default_factory=list)

    def run(self) -> float:
        """One more run; the period."""
        seen = run_build(self.build, steady.long_enough(self.design.predicted), strict=False)
        times = []
        for name in self.stage_names:
            kept = seen.samples[name][len(seen.samples[name]) // 4 :]
            times.append(sum(kept) / len(kept))
        self.periods.append(seen.period_ns["One"])
        self.firings.append(times)
        return self.periods[-1]

    @property
    def plan(self) -> NetworkPlan:
        (plan,) = self.design.mapping.networks
        return plan

    @property
    def stage_names(self) -> list[str]:
        count = len(self.plan.stages)
        return [NET] if count == 1 else [f"{NET}.stage{k}" for k in range(1, count + 1)]

    @property
    def pipeline_error(self) -> float:
        return self.design.predicted / median(self.periods) - 1

    @property
    def stage_errors(self) -> list[float]:
        measured = [median(times) for times in zip(*self.firings, strict=True)]
        return [s.predicted_ns / ns - 1 for s, ns in zip(self.plan.stages, measured, strict=True)]


# -- configurations --------------------------------------------------------------------------------
def nearest_cut(network: Divisible, share: float) -> int:
    """The cut before which about that share of the time is spent: the number of layers in front."""
    times = network.costs.layers["cpu"]
    whole = sum(times)
    return min(
        (after for after, _ in network.costs.cuts),
        key=lambda after: abs(sum(times[:after]) - share * whole),
    )


def plans(network: Divisible, cpus: tuple[str, ...]) -> Iterator[tuple[str, NetworkPlan]]:
    """The fixed configurations, by name."""

    def staged(*shares: float) -> NetworkPlan:
        ends = sorted({nearest_cut(network, share) for share in shares})
        untils = [*(network.layers[end - 1] for end in ends), None]
        return NetworkPlan(
            NET, tuple(StagePlan((cpus[k % 2],), until) for k, until in enumerate(untils))
        )

    yield "one core", NetworkPlan(NET, (StagePlan(cpus[:1]),))
    yield "frames in turn", NetworkPlan(NET, (StagePlan(cpus[:2]),))
    if network.costs.cuts:
        for share in (0.3, 0.5, 0.7):
            yield f"2 stages at {share:.0%}", staged(share)
        yield "3 stages", staged(0.25, 0.75)


def trials(name: str, network: Path, folder: Path) -> Iterator[Trial]:
    """Profile a network, predict and build its configurations."""
    text = write_app(folder, network)
    find_mapping(text, budget=0.0)  # for the profile
    valid = flowc.check(text, mapped=False).require()
    profile, _ = store.read_profile(valid)
    problem: Problem = problem_of(valid, times_of(valid.system, valid.platform, profile), profile)
    others = {task: Placement(task, problem.cpus[:1]) for task in ("One.frames", "One.largest")}
    for number, (what, plan) in enumerate(plans(problem.networks[NET], problem.cpus)):
        design = complete(problem, [plan], what, others=others)
        store.save_mapping(valid, design.mapping)
        flowc.build(text, folder / f"build{number}")
        yield Trial(name, design, folder / f"build{number}")


# -- the table -------------------------------------------------------------------------------------
def in_words(errors: list[float]) -> list[str]:
    """Number, median of the error with its sign, median of its size, and the worst."""
    sizes = [abs(e) for e in errors]
    return [
        str(len(errors)),
        f"{median(errors):+.1%}",
        f"{median(sizes):.1%}",
        f"{max(errors, key=abs):+.1%}",
    ]


def rows_by(done: list[Trial], key: str) -> Iterator[list[str]]:
    """One row for each group of trials."""
    for value in dict.fromkeys(t.network if key == "network" else t.design.name for t in done):
        own = [t for t in done if value in (t.network, t.design.name)]
        stages = [e for t in own for e in t.stage_errors]
        yield [value, *in_words(stages), *in_words([t.pipeline_error for t in own])]


def main() -> None:
    """Network by network: profile, build, alternate; then the errors by network and by
    configuration."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default 3")
    parser.add_argument(
        "--only",
        action="append",
        choices=list(structures.NETWORKS),
        metavar="NAME",
        help="repeatable",
    )
    parser.add_argument(
        "--networks", type=Path, metavar="FOLDER", help="keep the networks (1.4 GB) here"
    )
    given = parser.parse_args()
    others, quiet = Others(), steady.Quiet()
    done: list[Trial] = []
    noises = []
    for name in given.only or structures.NETWORKS:
        with tempfile.TemporaryDirectory() as scratch:
            network = structures.write(given.networks or Path(scratch), [name])[name]
            quiet.wait()
            noises.append(noise()[0])
            own = list(trials(name, network, Path(scratch) / name))
            for _ in range(given.rounds):
                for trial in own:
                    quiet.run(trial.run)
        done += own
        for t in own:
            said = " ".join(f"{e:+.1%}" for e in t.stage_errors)
            print(
                f"{name}, {t.design.name}: period {t.pipeline_error:+.1%}, stages {said}",
                file=sys.stderr,
                flush=True,
            )

    print(f"{machine()}; {others.text()}\n{quiet.text()}")
    print(
        f"{given.rounds} rounds; noise of equal work before each network: median"
        f" {median(noises):.1%}"
    )
    print("errors: number, median, median size, worst\n")
    head = ["stages", "median", "size", "worst", "pipelines", "median", "size", "worst"]
    print(table([["network", *head], *rows_by(done, "network")]), end="\n\n")
    print(table([["configuration", *head], *rows_by(done, "configuration")]), end="\n\n")
    stages = median(abs(e) for t in done for e in t.stage_errors)
    pipelines = median(abs(t.pipeline_error) for t in done)
    rows = [["median error", "", "aim"]]
    for what, error in (("stages", stages), ("pipelines", pipelines)):
        rows.append([what, f"{error:.1%}", verdict(error, most=AIMS[what])])
    print(table(rows))


if __name__ == "__main__":
    main()
