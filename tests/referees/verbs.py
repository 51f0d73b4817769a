"""Verdicts of `flowc map` on random texts, against executions of the programs that `build` makes.

Each text (random_texts.py) goes through the verbs as a user calls them: `flowc map TEXT --platform
p --no-measure --json`, then `flowc build`. Of flowc nothing else is used: threads, orders and
capacities are those of the build's `deployment.json`, times and the platform are those of the text.
Executions are played by program_simulator.py, with times of its own (worst, random, extremes, none
at all), phases of its own (random, and data from outside that come just when firings of others
begin or end), orders among equals and late wakeups of its own.

Only executions count that keep the conditions of a verdict: data `apart` come no closer, at the
`pace` they come in equal distances, `together` at one time, in `phase` with the timers, and none is
dropped that is `taken`. Data of sources that no condition of an app names come as they like in some
executions, several at once; then that app alone is held against its verdict.

    python tests/referees/verbs.py --texts 500 --seed 1
    python tests/referees/verbs.py live drop taker --texts 100

prints by kind of text how many were refused, the apps, how many of these are proved, how many were
never seen late, and of the latter again how many are proved; what exceeded a bound; and the bound
over the largest time seen (median, p90) of apps released by timers, by live data and by tokens.
`--show SEED` with one kind prints that text. The exit status is 1 if a bound was exceeded: then the
shortest such text is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

from event_simulator import Time
from program_simulator import (
    Choices,
    Largest,
    Processors,
    largest,
    other_workers,
    paced_workers,
    pool_of,
)
from random_texts import CUDA, KINDS, PYTHON, Drawn, random_text

#: Executions of a text.
EXECUTIONS = 18
#: Executions end after so many of the longest periods.
LONG = 10
#: Seconds after which a verb hangs.
HANGS = 120
#: What releases an app.
RELEASES = ("timer", "live", "tokens")


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A bound that an execution of a text exceeds: what it bounds, and both times in ns."""

    kind: str
    seed: int
    what: str
    seen: float
    bound: float
    source: str
    how: str


@dataclass(slots=True)
class Found:
    """What texts of a kind showed."""

    texts: int = 0
    refused: list[str] = field(default_factory=list)
    apps: int = 0
    proved: int = 0
    never_late: int = 0
    both: int = 0
    exceeded: list[Exceeded] = field(default_factory=list)
    slack: dict[str, list[float]] = field(default_factory=lambda: {r: [] for r in RELEASES})
    #: The largest slack of each release, with the seed and the app.
    loosest: dict[str, tuple[float, int, str]] = field(default_factory=dict)

    def add(self, other: Found) -> None:
        """Also what other texts showed."""
        self.texts += other.texts
        self.refused += other.refused
        self.apps += other.apps
        self.proved += other.proved
        self.never_late += other.never_late
        self.both += other.both
        self.exceeded += other.exceeded
        for release, slack in other.slack.items():
            self.slack[release] += slack
        for release, loose in other.loosest.items():
            self.loosest[release] = max(loose, self.loosest.get(release, loose))

    def row(self, name: str) -> str:
        """A line of the table."""
        numbers = f"{self.texts:6d}{len(self.refused):8d}{self.apps:6d}{self.proved:7d}"
        late = f"{self.never_late:11d}{self.both:7d}{len(self.exceeded):9d}"
        slack = "".join(f"{_middle(self.slack[r]):>15}" for r in RELEASES)
        return f"{name:12}{numbers}{late}{slack}"


HEADING = (
    f"{'kind':12}{'texts':>6}{'refused':>8}{'apps':>6}{'proved':>7}{'never late':>11}{'proved':>7}"
    f"{'exceeded':>9}" + "".join(f"{r:>15}" for r in RELEASES)
)


def _middle(values: Sequence[float]) -> str:
    """Median and p90."""
    if not values:
        return "-"
    ordered = sorted(values)
    return f"{statistics.median(ordered):.2f} {ordered[int(0.9 * (len(ordered) - 1))]:.2f}"


# -- the verbs -------------------------------------------------------------------------------------
def by_process(folder: Path, *words: str) -> tuple[int, str]:
    """Call a verb in a process of its own: its exit status and standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "flowc", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    return done.returncode, done.stdout


def in_process(folder: Path, *words: str) -> tuple[int, str]:
    """The same in this process, which is faster."""
    from flowc.cli import app
    from typer.testing import CliRunner

    before = Path.cwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(app, list(words))
    finally:
        os.chdir(before)
    return done.exit_code, done.stdout


def mapped(
    drawn: Drawn, seed: int, *, processes: bool = False
) -> tuple[dict[str, Any], dict[str, Any]] | str:
    """The document of `map` and the deployment of `build`; or why flowc refuses the text."""
    call = by_process if processes else in_process
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "t.flow").write_text(drawn.source)
        (folder / "t.py").write_text(PYTHON)
        (folder / "t.cu").write_text(CUDA)
        common = ("t.flow", "--platform", "p", "--no-measure", "--json")
        limit = ("--budget", "2s") if processes else ("--evaluations", "6")
        objective = ("--objective", "cores") if seed % 4 == 0 else ()
        status, text = call(folder, "map", *common, *limit, *objective)
        said = _document(text)
        if status not in (0, 1) or said is None:
            return f"map ends with {status}"
        if "groups" not in said:
            return _why(said)
        status, text = call(folder, "build", *common)
        if status:
            return f"build: {_why(_document(text) or {})}"
        deployment = json.loads((folder / "build/t/deployment.json").read_text())
    return said, deployment


def _document(text: str) -> dict[str, Any] | None:
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _why(document: Mapping[str, Any]) -> str:
    errors = [d for d in document.get("diagnostics", ()) if d["severity"] == "error"]
    return ", ".join(sorted({d["code"] for d in errors})) or "no reason"


# -- executions ------------------------------------------------------------------------------------
class Executions:
    """Executions of one program."""

    def __init__(
        self, drawn: Drawn, said: Mapping[str, Any], deployment: Mapping[str, Any], seed: int
    ) -> None:
        self.drawn, self.said, self.deployment = drawn, said, deployment
        self.rng = random.Random(seed)
        self.processors = Processors(drawn.kinds, drawn.schedulers, drawn.wakeups, drawn.contention)
        paced = [app for app in deployment["apps"] if app["period_ns"] is not None]
        self.tasks = {t["name"]: t for app in paced for t in app["tasks"]}
        self.app_of = {t["name"]: app["name"] for app in paced for t in app["tasks"]}
        self.every = {}
        for app in paced:
            for task in app["tasks"]:
                self.every[task["name"]] = Fraction(app["period_ns"]) / task["firings"]
        self.until = LONG * max(Fraction(app["period_ns"]) for app in paced)
        self.live = [
            name for name, t in self.tasks.items() if t["live"] and t["code"]["kind"] != "link"
        ]
        #: The processors of tasks.
        self.places = {
            entry["task"]: thread["processor"]
            for thread in deployment["processors"]
            for entry in thread["order"]
        }
        self.worst = {name: self._worst(task) for name, task in self.tasks.items()}

    def _worst(self, task: Mapping[str, Any]) -> tuple[int, ...]:
        """Worst cases of a task by phase, as the text has them."""
        if "->" in task["name"]:  # repeat and last take no time
            return (0,)
        if task["code"]["kind"] == "link":
            wcet: int = task["wcet_ns"]
            return (wcet,)
        on_aux = self.drawn.on_aux.get(task["name"])
        if on_aux is not None and self.places[task["name"]].startswith("aux"):
            assert on_aux, f"{task['name']} has no time on aux"
            return on_aux
        return self.drawn.times[task["name"]]

    def named(self, app: str) -> dict[str, list[Mapping[str, Any]]]:
        """The conditions that name each live source, of all verdicts of an app."""
        found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in self.live}
        group = self.said["groups"][app]
        for owner in (group, *group["paths"]):
            for condition in owner["conditions"]:
                for name in condition["of"]:
                    if name in found:
                        found[name].append(condition)
        return found

    def taken(self, app: str) -> set[str]:
        """The sources of which a verdict of an app demands that none of their data is dropped."""
        group = self.said["groups"][app]
        conditions = [c for owner in (group, *group["paths"]) for c in owner["conditions"]]
        return {name for c in conditions if c["condition"] == "taken" for name in c["of"]}

    def all(self, count: int) -> Iterator[tuple[str, Largest, str | None]]:
        """Executions: how each is made, what it shows, and the app that it is about (None: all)."""
        apps = list(self.said["groups"])
        moments: list[Time] = []
        for number in range(count):
            wild = None
            if self.live and number % 6 == 5:
                wild = self.rng.choice(apps)
            choices = self._choices(number, moments, wild)
            seen = largest(self.deployment, self.processors, choices)
            moments = seen.moments
            yield f"execution {number}", seen, wild

    def _choices(self, number: int, moments: Sequence[Time], wild: str | None) -> Choices:
        rng = self.rng
        threads = [*paced_workers(self.deployment), *other_workers(self.deployment)]
        favorites = list(range(len(threads)))
        rng.shuffle(favorites)
        wakeups = []
        late = rng.random() < 0.5
        for thread in threads:
            most = self.drawn.wakeups.get(pool_of(thread["processor"]), 0)
            wakeups.append([most if late else rng.randint(0, most) for _ in range(3)])
        others = other_workers(self.deployment)
        return Choices(
            self.until,
            {name: self._times(name, number) for name in self.tasks},
            self._arrivals(moments, wild),
            rng.choice(("first come", "favorite")),
            favorites,
            [self._other_times(w) for w in others],
            [[rng.choice((0, 0, rng.randint(0, 4_000_000))) for _ in range(3)] for _ in others],
            wakeups if any(self.drawn.wakeups.values()) else (),
        )

    def _times(self, name: str, number: int) -> list[int]:
        """Execution times of successive firings."""
        worst, rng = self.worst[name], self.rng
        if number % 3 == 0:
            return list(worst)
        share = rng.choice((0, 0.5, 1)) if number % 3 == 1 else None
        found = []
        for _ in range(4):
            for most in worst:
                if share is not None:
                    found.append(rng.choice((most, int(most * share))))
                else:
                    found.append(rng.choice((most, 0, rng.randint(0, most))))
        return found

    def _other_times(self, worker: Mapping[str, Any]) -> list[int]:
        """Times of an app without a period."""
        longest = max(max(self.drawn.times.get(e["task"], (0,))) for e in worker["order"])
        if self.rng.random() < 0.5:
            return [max(longest, 1)]
        return [self.rng.randint(1, max(longest, 1)) for _ in range(3)]

    # -- data from outside -------------------------------------------------------------------------
    def _arrivals(self, moments: Sequence[Time], wild: str | None) -> dict[str, list[Time]]:
        found: dict[str, list[Time]] = {}
        #: When the first data of sources come that come together, and all of them where each
        #: iteration has one.
        first: dict[str, Time] = {}
        together: dict[str, list[Time]] = {}
        for name in self.live:
            app = self.app_of[name]
            conditions = self._conditions(name, wild)
            words = {c["condition"]: c["time_ns"] for c in conditions}
            if "phase" in words:
                found[name] = self._at_pace(0, self.every[name])
            elif "pace" in words:
                phase = self._phase(name, moments)
                if "together" in words:
                    phase = first.setdefault(app, phase)
                found[name] = self._at_pace(phase, self.every[name])
            elif "together" in words and app in together:
                found[name] = together[app]
            elif "apart" in words:
                found[name] = self._apart(name, Fraction(words["apart"]), moments)
            else:
                found[name] = self._as_they_like(name, wild)
            together[app] = found[name]
        return found

    def _conditions(self, name: str, wild: str | None) -> list[Mapping[str, Any]]:
        """What is demanded of the data of a source: by the verdict of one app, or by all."""
        apps = self.said["groups"] if wild is None else (wild,)
        return [c for app in apps for c in self.named(app)[name]]

    def _phase(self, name: str, moments: Sequence[Time]) -> Time:
        """When the first datum comes: at any time, or as something begins or ends."""
        rng = self.rng
        later = [m for m in moments if m < self.until / 3]
        if later and rng.random() < 0.7:
            return max(0, rng.choice(later) + rng.choice((0, 0, -1, 1)))
        if rng.random() < 0.2:
            return 0
        return rng.randrange(int(2 * self.every[name]))

    def _at_pace(self, first: Time, every: Fraction) -> list[Time]:
        return [first + k * every for k in range(ceil((self.until - first) / every))]

    def _apart(self, name: str, apart: Fraction, moments: Sequence[Time]) -> list[Time]:
        """No closer than that."""
        rng = self.rng
        time: Time = self._phase(name, moments)
        found = []
        style = rng.choice(("even", "random", "moments"))
        ordered = sorted(moments)
        while time < self.until:
            found.append(time)
            time += apart
            if style == "random" and rng.random() < 0.5:
                time += rng.randrange(int(apart) + 1)
            elif style == "moments":
                later = [m for m in ordered if time <= m <= time + apart]
                time = rng.choice(later) if later else time
        return found

    def _as_they_like(self, name: str, wild: str | None) -> list[Time]:
        """Several at once, or none for long. Where all verdicts count, at its pace."""
        if wild is None or self.rng.random() < 0.2:
            return self._at_pace(self._phase(name, ()), self.every[name])
        found: list[Time] = []
        while len(found) < 40:
            found += [self.rng.randrange(int(self.until))] * self.rng.choice((1, 2, 5))
        return sorted(found)


# -- verdicts --------------------------------------------------------------------------------------
def held(drawn: Drawn, seed: int, *, executions: int, processes: bool = False) -> Found:
    """What a text shows."""
    found = Found(texts=1)
    answer = mapped(drawn, seed, processes=processes)
    if isinstance(answer, str):
        found.refused.append(answer)
        return found
    said, deployment = answer
    plays = Executions(drawn, said, deployment, seed)
    bounds = dict(_bounds(said))
    most: dict[tuple[str, ...], Time] = {}
    for how, seen, wild in plays.all(executions):
        for what, time in _seen(seen, said):
            if wild is not None and what[0] != wild:
                continue
            if seen.dropped & plays.taken(what[0]):
                continue
            if wild is None:
                most[what] = max(most.get(what, 0), time)
            bound = bounds.get(what)
            if bound is not None and time > bound + 1 and not _told(found, what):
                found.exceeded.append(
                    Exceeded(
                        drawn.kind,
                        seed,
                        " ".join(what),
                        float(time),
                        bound,
                        drawn.source,
                        how if wild is None else f"{how}, data as they like",
                    )
                )
    for app, group in said["groups"].items():
        found.apps += 1
        found.proved += group["schedulable"]
        late = _is_late(app, group, most)
        found.never_late += not late
        found.both += group["schedulable"] and not late
        response, longest = group["response_time_ns"], most.get((app,), 0)
        if response is not None and longest:
            release = _release(app, deployment)
            slack = float(response / longest)
            found.slack[release].append(slack)
            loose = (slack, seed, app)
            found.loosest[release] = max(loose, found.loosest.get(release, loose))
    return found


def _told(found: Found, what: tuple[str, ...]) -> bool:
    return any(e.what == " ".join(what) for e in found.exceeded)


def _bounds(said: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Bounds of apps and of their paths."""
    for app, group in said["groups"].items():
        if group["response_time_ns"] is not None:
            yield (app,), group["response_time_ns"]
        for path in group["paths"]:
            if path["latency_ns"] is not None:
                yield (app, path["kind"], path["source"], path["task"]), path["latency_ns"]


def _seen(seen: Largest, said: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Time]]:
    for app, time in seen.responses.items():
        if app in said["groups"]:
            yield (app,), time
    for (kind, source, task), time in seen.paths.items():
        yield (task.partition(".")[0], kind, source, task), time


def _is_late(app: str, group: Mapping[str, Any], most: Mapping[tuple[str, ...], Time]) -> bool:
    """Was an app seen late?"""
    deadline = group["deadline_ns"]
    if deadline is not None and most.get((app,), 0) > deadline:
        return True
    for path in group["paths"]:
        key = (app, path["kind"], path["source"], path["task"])
        if path["deadline_ns"] is not None and most.get(key, 0) > path["deadline_ns"]:
            return True
    return False


def _release(app: str, deployment: Mapping[str, Any]) -> str:
    """What releases an app."""
    for known in deployment["apps"]:
        if known["name"] == app:
            live = [t for t in known["tasks"] if t["live"]]
            if any(t["code"]["kind"] == "link" for t in live):
                return "tokens"
            return "live" if live else "timer"
    raise KeyError(app)


def one(job: tuple[str, int, int, bool]) -> Found:
    """The text of a kind and a seed."""
    kind, seed, executions, processes = job
    drawn = random_text(kind, random.Random(f"{kind} {seed}"))
    return held(drawn, seed, executions=executions, processes=processes)


def main() -> None:
    """Try many texts."""
    parser = argparse.ArgumentParser(description="verdicts of the verbs against executions")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--texts", type=int, default=500, help="of all kinds together")
    parser.add_argument("--seed", type=int, default=0, help="of the first text of each kind")
    parser.add_argument("--executions", type=int, default=EXECUTIONS, help="of each text")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--processes", action="store_true", help="call verbs in processes")
    parser.add_argument("--show", action="store_true", help="print the first text of each kind")
    options = parser.parse_args()
    unknown = sorted(set(options.kinds) - set(KINDS))
    if unknown:
        parser.error(f"there is no kind {', '.join(unknown)}")
    kinds = options.kinds or list(KINDS)
    if options.show:
        for kind in kinds:
            print(random_text(kind, random.Random(f"{kind} {options.seed}")).source)
        return
    each = ceil(options.texts / len(kinds))
    total = Found()
    print(HEADING, flush=True)
    with ProcessPoolExecutor(options.workers) as pool:
        for kind in kinds:
            seeds = range(options.seed, options.seed + each)
            jobs = [(kind, seed, options.executions, options.processes) for seed in seeds]
            found = Found()
            for part in pool.map(one, jobs):
                found.add(part)
            print(found.row(kind), flush=True)
            _print_details(found)
            total.add(found)
    print(total.row("all"))
    for release, (slack, seed, app) in total.loosest.items():
        print(f"  loosest of {release}: {slack:.2f} ({app}, seed {seed})")
    if total.exceeded:
        print(_shortest(total.exceeded).source)
    sys.exit(bool(total.exceeded))


def _print_details(found: Found) -> None:
    reasons = {reason: found.refused.count(reason) for reason in sorted(set(found.refused))}
    if reasons:
        print("  refused: " + "; ".join(f"{r} ({n})" for r, n in reasons.items()))
    for e in found.exceeded:
        seen, bound = e.seen / 1e6, e.bound / 1e6
        print(f"  exceeded: {e.kind} {e.seed}: {e.what}: {seen:.3f} of {bound:.3f} ms ({e.how})")


def _shortest(exceeded: Iterable[Exceeded]) -> Exceeded:
    return min(exceeded, key=lambda e: len(e.source))


if __name__ == "__main__":
    main()
