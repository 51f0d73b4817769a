"""What a built program does, by its `deployment.json`: one execution, event by event.

In: the deployment of a build as plain data, what the platform of the text says, and every choice
that a program leaves open: when data come from outside, how long firings take, who goes first among
equals, how late threads are woken. Out: the largest responses, latencies of paths, ages and
reactions by then. It imports nothing of flowc. Workers do what event_simulator.py says; what data
release is written down here, from docs/program.md, docs/language.md and docs/decisions:

- A live source fires when its next datum is there. What comes meanwhile waits for it.
- A source that drops holds the newest N tokens, and takes the oldest of these when it fires. It
  fires when those that drop and are joined with it have their first token of that iteration as well
  (apps without a period are not played), and while fewer iterations of its app are under way
  than it has stages, or fit into its deadline.
- `put` hands its token to another app at its end; `take` takes each token once, `latest` looks at
  the newest one, again and again, at the pace of its app.
- Data count from the moment when they came: from outside, or on the link.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from types import SimpleNamespace as Fields
from typing import Any

from event_simulator import Equals, Firing, Playing, Run, Task, Time, Worker, keep_larger


@dataclass(frozen=True, slots=True)
class Processors:
    """What the platform says: by pool its kind, scheduler and wakeup in ns, and who slows down
    whom (victim, aggressor, factor)."""

    kinds: Mapping[str, str]
    schedulers: Mapping[str, str]
    wakeups: Mapping[str, int]
    contention: Sequence[tuple[str, str, Fraction]] = ()


@dataclass(frozen=True, slots=True)
class Choices:
    """All choices of one execution up to the time `until`. `arrivals` are those of live sources,
    the rest is as in event_simulator.Run."""

    until: Time
    times: Mapping[str, Sequence[Time]]
    arrivals: Mapping[str, Sequence[Time]]
    equals: Equals = "first come"
    favorites: Sequence[int] = ()
    background: Sequence[Sequence[Time]] = ()
    pauses: Sequence[Sequence[Time]] = ()
    wakeups: Sequence[Sequence[Time]] = ()


@dataclass(slots=True)
class Largest:
    """The largest response of each app, and the largest time of each path (kind, source, task);
    when firings ended and started."""

    responses: dict[str, Time] = field(default_factory=dict)
    paths: dict[tuple[str, str, str], Time] = field(default_factory=dict)
    moments: list[Time] = field(default_factory=list)
    #: Sources of which a datum was dropped.
    dropped: frozenset[str] = frozenset()


def largest(deployment: Mapping[str, Any], processors: Processors, choices: Choices) -> Largest:
    """The largest times of one execution. What has not ended by then counts as far as it is."""
    program = Program(deployment, processors, choices)
    program.play_until(choices.until)
    found = Largest(program.responses(), program.latencies(), dropped=frozenset(program.dropped))
    for began, ended in program.seen.firings.values():
        found.moments += (began[0], ended[0])
    return found


def pool_of(processor: str) -> str:
    """The pool of a processor."""
    return processor.partition("[")[0]


def paced_workers(deployment: Mapping[str, Any]) -> list[Any]:
    """Threads of apps with a period."""
    return [w for w in deployment["processors"] if not (w["background"] or w.get("server"))]


def other_workers(deployment: Mapping[str, Any]) -> list[Any]:
    """Threads of apps without one."""
    return [w for w in deployment["processors"] if w["background"] or w.get("server")]


class _Data:
    """The data of a source: when each came, and of what source firing of its writer it tells."""

    def __init__(self, keep: int | None) -> None:
        self.keep = keep
        self.came: list[Time] = []
        self.written: list[int] = []
        self.next = 0

    def oldest(self, now: Time) -> int | None:
        """The number of the datum that a firing takes now."""
        there = bisect_right(self.came, now)
        first = self.next if self.keep is None else max(self.next, there - self.keep)
        return first if first < there else None


class Program(Playing):
    """One execution of a program."""

    def __init__(
        self, deployment: Mapping[str, Any], processors: Processors, choices: Choices
    ) -> None:
        self.came: dict[tuple[str, int], Time] = {}
        self.found: dict[tuple[str, int], tuple[str, int]] = {}
        self.data: dict[str, _Data] = {}
        self.dropped: set[str] = set()
        self.links: dict[str, str] = {}
        self.puts: dict[str, str] = {}
        self.put: dict[str, list[int]] = {}
        self.under_way: dict[str, int | None] = {}
        self.done: dict[str, int] = {}
        self.periods: dict[str, Fraction] = {}
        self.ended: dict[tuple[str, int], Time] = {}
        self.deployment = deployment
        paced = [app for app in deployment["apps"] if app["period_ns"] is not None]
        for app in paced:
            self.periods[app["name"]] = Fraction(app["period_ns"])
            self.done[app["name"]] = 0
            for task in app["tasks"]:
                self._add_source(task, choices)
            self.under_way[app["name"]] = self._limit(app)
        counts = {}
        for name, period in self.periods.items():
            counts[name] = 2 * ceil(choices.until / period) + 2
        run = Run(
            counts,
            choices.times,
            equals=choices.equals,
            favorites=choices.favorites,
            background=choices.background,
            pauses=choices.pauses,
            wakeups=choices.wakeups,
        )
        super().__init__(_system(deployment, processors), run)  # type: ignore[arg-type]
        self.sources = [t for t in self.tasks.values() if t.source]
        for name in self.data:  # no timer releases them
            self.tasks[name].source = False
        #: Sources that drop, with those that they are joined with, themselves included.
        self.joined = {name: names for app in paced for name, names in self._joined(app)}
        #: How often sources have fired.
        self.fired = dict.fromkeys(self.data, 0)
        threads = [*paced_workers(deployment), *other_workers(deployment)]
        for worker, thread in zip(self.workers, threads, strict=True):
            if thread["fixed_priority"] is not None:
                worker.rank = thread["fixed_priority"][1]

    def _add_source(self, task: Mapping[str, Any], choices: Choices) -> None:
        name, code = task["name"], task["code"]
        if code["kind"] == "link":
            if code["end"] == "put":
                self.puts[name] = code["link"]
                self.put[code["link"]] = []
                return
            self.links[name] = code["link"]
            if code["end"] == "take":
                self.data[name] = _Data(code["keep"])
        elif task["live"]:
            self.data[name] = _Data(task["keep"])
            self.data[name].came += choices.arrivals[name]

    def _joined(self, app: Mapping[str, Any]) -> Iterable[tuple[str, list[str]]]:
        """The sources of an app that drop, with those that arrows connect with them."""
        part = _parts(app)
        drops = [t for t in part if t in self.data and self.data[t].keep is not None]
        for name in drops:
            yield name, [other for other in drops if part[other] == part[name]]

    def _limit(self, app: Mapping[str, Any]) -> int | None:
        """How many iterations of an app may be under way where it drops tokens."""
        part = _parts(app)
        if len(set(part.values())) > 1 or app["deadline_ns"] is None:
            return None
        fresh = {t for t in part if t in self.data and self.data[t].keep is not None}
        readers = {c["destination"] for c in app["channels"] if c["source"] in fresh}
        entries = [
            entry
            for worker in self.deployment["processors"]
            for entry in worker["order"]
            if entry["task"] in part
        ]
        first = min([e["stage"] for e in entries if e["task"] in readers] or [0])
        behind = [e["stage"] + e["replica"][1] for e in entries if e["task"] not in fresh]
        stages = max(behind or [first + 1]) - first
        return max(stages, ceil(Fraction(app["deadline_ns"]) / Fraction(app["period_ns"])))

    # -- what happens ------------------------------------------------------------------------------
    def play_until(self, until: Time) -> None:
        """All that happens by then."""
        while True:
            self._settle()
            speeds = [self._time_of_work(p) for p in range(len(self.running))]
            coming = [] if self.next_release is None else [self.next_release]
            for p, w in enumerate(self.running):
                if w is not None and w.parts:
                    coming.append(self.now + w.parts[0] * speeds[p])
            time = min(coming, default=until)
            if time >= until:
                self.now = until
                return
            self._advance(time, speeds)

    def _at_hand(self, firing: Firing) -> bool:
        if firing.task.name in self.data and not self._is_there(firing):
            return False
        return super()._at_hand(firing)

    def _is_there(self, firing: Firing) -> bool:
        """Is there a datum for a source, and does it take it now?"""
        task = firing.task
        data = self.data[task.name]
        if data.keep is not None and not self._is_wanted(firing):
            return False
        return self._has_come(data)

    def _has_come(self, data: _Data) -> bool:
        """Is there a datum? Else it is looked at again when the next one comes."""
        if data.oldest(self.now) is None:
            there = bisect_right(data.came, self.now)
            if there < len(data.came):
                self._wake_at(data.came[there])
            return False
        return True

    def _is_wanted(self, firing: Firing) -> bool:
        name, app = firing.task.name, firing.task.app.name
        limit = self.under_way[app]
        if limit is not None and firing.iteration - self.done[app] >= limit:
            return False
        return firing.number > 0 or all(
            self.fired[other] > firing.iteration * self.tasks[other].firings
            or self._has_come(self.data[other])
            for other in self.joined[name]
        )

    def _start(self, w: Worker) -> bool:
        started = super()._start(w)
        if started and w.endless is None:
            firing = w.todo[w.done]
            if firing.task in self.sources:
                self._take(firing)
        return started

    def _take(self, firing: Firing) -> None:
        """What a firing of a source finds, and since when."""
        task = firing.task
        number = firing.iteration * task.firings + firing.number
        link = self.links.get(task.name)
        if task.name in self.data:
            data = self.data[task.name]
            taken = data.oldest(self.now)
            assert taken is not None
            if taken > data.next:
                self.dropped.add(task.name)
            data.next = taken + 1
            self.fired[task.name] += 1
            self.came[task.name, number] = data.came[taken]
            if link is not None:
                self.found[task.name, number] = link, data.written[taken]
            return
        self.came[task.name, number] = self._released(task, firing)

    def _released(self, task: Task, firing: Firing) -> Time:
        return task.app.releases[firing.iteration] + task.phases[firing.number]

    def _over(self, w: Worker) -> None:
        firing = None if w.endless is not None else w.todo[w.done]
        super()._over(w)
        if firing is None:
            return
        task = firing.task
        number = firing.iteration * task.firings + firing.number
        self.ended[task.name, number] = self.now
        link = self.links.get(task.name)
        if link is not None and task.name not in self.data and self.put[link]:
            self.found[task.name, number] = link, self.put[link][-1]
        if task.name in self.puts:
            link = self.puts[task.name]
            self.put[link].append(number)
            for reader, of in self.links.items():
                if of == link and reader in self.data:
                    self.data[reader].came.append(self.now)
                    self.data[reader].written.append(number)

    def _note(self, firing: Firing) -> None:
        task, app, n = firing.task, firing.task.app, firing.iteration
        for number, source, newest in task.paths:
            data = n * source.firings + newest[firing.number]
            if data >= 0:
                latency = self.now - self.came[source.name, data]
                keep_larger(self.seen.latencies, (app.name, number), (latency, n))
        if task.sink:
            left = app.left.get(n, app.sink_firings) - 1
            app.left[n] = left
            if not left:
                self.done[app.name] += 1
                response = self.now - self._begin_of(app.name, n)
                keep_larger(self.seen.responses, app.name, (response, n))

    def _begin_of(self, app: str, n: int) -> Time:
        """When an iteration is released: by its first data, of several sources by the last. What
        needs no data may end before they come: now, at the latest."""
        begins = [
            self.came.get((t.name, n * t.firings), self.now)
            for t in self.sources
            if t.app.name == app
        ]
        return max(begins)

    # -- what was seen -----------------------------------------------------------------------------
    def responses(self) -> dict[str, Time]:
        """The largest response of each app."""
        found = {app: time for app, (time, _) in self.seen.responses.items()}
        for app in self.apps.values():  # those that have begun, and have not ended
            sources = [t for t in self.sources if t.app is app]
            n = self.done[app.name]
            if all((t.name, n * t.firings) in self.came for t in sources):
                time = self.now - self._begin_of(app.name, n)
                found[app.name] = max(found.get(app.name, 0), time)
        return found

    def latencies(self) -> dict[tuple[str, str, str], Time]:
        """The largest latency of each path, and of ages and reactions over one link."""
        found: dict[tuple[str, str, str], Time] = {}
        for app in self.deployment["apps"]:
            if app["period_ns"] is None:
                continue
            paths = _paths_of(app)
            for number, path in enumerate(paths):
                seen = self.seen.latencies.get((app["name"], number))
                if seen is not None and path["kind"] == "path":
                    found["path", path["source"], path["sink"]] = seen[0]
            for path in app["paths"]:
                if path["kind"] in ("age", "reaction"):
                    time = self._over_link(path)
                    if time is not None:
                        found[path["kind"], path["source"], path["sink"]] = time
        return found

    def _over_link(self, path: Mapping[str, Any]) -> Time | None:
        """The largest age or reaction, where one way leads over one link."""
        parts = [p for app in self.deployment["apps"] for p in app["paths"] if p.get("newest")]
        puts = [p for p in parts if p["source"] == path["source"] and p["sink"] in self.puts]
        gets = [p for p in parts if p["sink"] == path["sink"] and p["source"] in self.links]
        ways = [
            (a, b) for a in puts for b in gets if self.puts[a["sink"]] == self.links[b["source"]]
        ]
        if len(ways) != 1 or len(gets) != 1:
            return None
        (a, b) = ways[0]
        worst: Time | None = None
        newest = -1
        for number in range(1_000_000):
            ended = self.ended.get((path["sink"], number))
            if ended is None:
                break
            of = self._newest(b, number)
            found = self.found.get((b["source"], of))
            if found is None:
                continue
            data = self._newest(a, found[1])
            if data < 0:
                continue
            time: Time | None = None
            if path["kind"] == "age":
                time = ended - self.came[a["source"], data]
            elif data > newest >= 0:
                time = ended - self.came[a["source"], newest]
            newest = max(newest, data)
            if time is not None:
                worst = time if worst is None else max(worst, time)
        return worst

    def _newest(self, part: Mapping[str, Any], number: int) -> int:
        """The number of the source's firing on which a firing of the task depends."""
        n, k = divmod(number, self.tasks[part["sink"]].firings)
        newest: int = part["newest"][k]
        return n * self.tasks[part["source"]].firings + newest


def _paths_of(app: Mapping[str, Any]) -> list[Any]:
    return [p for p in app["paths"] if p["newest"]]


# -- the same as fields that event_simulator reads -------------------------------------------------
def _system(deployment: Mapping[str, Any], processors: Processors) -> Fields:
    paced = [app for app in deployment["apps"] if app["period_ns"] is not None]
    app_of = {t["name"]: app["name"] for app in deployment["apps"] for t in app["tasks"]}
    names = list(dict.fromkeys(w["processor"] for w in deployment["processors"]))
    return Fields(
        groups=[_group(app) for app in paced],
        processors=[
            Fields(
                name=name,
                scheduler=processors.schedulers[pool_of(name)],
                kind=processors.kinds[pool_of(name)],
                pool=pool_of(name),
            )
            for name in names
        ],
        workers=[_worker(w, app_of) for w in paced_workers(deployment)],
        background=[_other(w) for w in other_workers(deployment)],
        slowdowns=[
            Fields(victim=victim, aggressor=aggressor, factor=factor)
            for victim, aggressor, factor in processors.contention
        ],
    )


def _group(app: Mapping[str, Any]) -> Fields:
    ports = {}
    for task in app["tasks"]:
        for port in (*task["inputs"], *task["outputs"]):
            ports[task["name"], port["name"]] = port["rates"]
    channels = []
    for c in app["channels"]:
        channels.append(
            Fields(
                source=c["source"],
                destination=c["destination"],
                produced=ports[c["source"], c["source_port"]],
                consumed=ports[c["destination"], c["destination_port"]],
                delay=c["delay"],
                capacity=c["capacity"],
            )
        )
    return Fields(
        name=app["name"],
        period=Fraction(app["period_ns"]),
        priority=app["priority"],
        offset=0,
        tasks=[Fields(name=t["name"], firings=t["firings"], wcet=(0,)) for t in app["tasks"]],
        channels=channels,
        paths=[
            Fields(source=p["source"], sink=p["sink"], newest=p["newest"]) for p in _paths_of(app)
        ],
    )


def _worker(worker: Mapping[str, Any], app_of: Mapping[str, str]) -> Fields:
    rounds: dict[str, int] = {}
    return Fields(
        processor=worker["processor"],
        sequence=list(_entries(worker["order"], app_of, rounds)),
        rounds=rounds,
    )


def _entries(
    order: Iterable[Mapping[str, Any]], app_of: Mapping[str, str], rounds: dict[str, int]
) -> Iterable[Fields]:
    for entry in order:
        app = app_of[entry["task"]]
        index, rounds[app] = entry["round"]
        assert entry["replica"][1] == 1, "iterations that alternate"
        for firing in range(entry["first"], entry["first"] + entry["times"]):
            yield Fields(
                group=app, task=entry["task"], firing=firing, index=index, stage=entry["stage"]
            )


def _other(worker: Mapping[str, Any]) -> Fields:
    server = worker.get("server")
    if server:
        server = Fields(budget_ns=server["budget_ns"], period_ns=Fraction(server["period_ns"]))
    return Fields(processor=worker["processor"], longest=1, server=server or None)


def _parts(app: Mapping[str, Any]) -> dict[str, str]:
    """A name for each part of an app that arrows connect, by its tasks."""
    part = {task["name"]: task["name"] for task in app["tasks"]}
    for channel in app["channels"]:
        one, other = part[channel["source"]], part[channel["destination"]]
        part = {task: one if of == other else of for task, of in part.items()}
    return part
