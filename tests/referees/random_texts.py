"""Random texts with the words of the language that releases, arrows and processors have.

In: a kind, and a generator of random numbers. Out: a text with declared times for all tasks, with
the files that it needs, and what an execution of it has to know: the times of tasks, and the
platform. `KINDS` says which words each kind has for certain; other words come by chance.

It imports nothing of flowc.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

#: Words of the grammar (terminals) that a kind has in all or in many of its texts.
KINDS: dict[str, tuple[str, ...]] = {
    "timers": ("TASK", "APP", "PERIOD", "PLATFORM", "WCET", "DIRECTION"),
    "every": ("EVERY",),
    "priority": ("PRIORITY", "SCHEDULER"),
    "pools": ("MAPPING", "ON"),
    "deadline": ("DEADLINE", "FROM"),
    "live": ("LIVE",),
    "drop": ("LIVE", "DROP"),
    "newest": ("LIVE", "LATEST"),
    "taker": ("DROP",),
    "looker": ("LATEST",),
    "age": ("LATEST", "DEADLINE", "FROM"),
    "reaction": ("LATEST", "REACTION", "FROM"),
    "delay": ("DELAY",),
    "loop": ("DELAY",),
    "rate": ("RATE",),
    "phases": ("RATE", "FOR", "WCET"),
    "lists": ("RATE", "_UP_TO", "BY"),
    "window": ("WINDOW",),
    "repeat": ("REPEAT",),
    "last": ("LAST",),
    "blocks": ("REPEAT", "LAST", "OF"),
    "graph": ("GRAPH",),
    "buffers": ("BUFFERS",),
    "background": ("APP",),
    "share": ("SHARE", "PERCENT", "OF"),
    "gpu": ("GRID", "BLOCK"),
    "contention": ("CONTENTION", "BY"),
    "wakeup": ("WAKEUP",),
    "order": ("SCHEDULER",),
    "types": ("WCET", "ON"),
}

#: Terminals that say nothing of times where all times are declared.
TIMELESS = frozenset(
    [
        "USE",
        "CONST",
        "_SPEED",
        "TYPE",
        "STATE",
        "STATELESS",
        "SCRATCH",
        "REFERENCE",
        "TOLERANCE",
        "SHARED",
        "MEMORY",
        "COMPUTE",
        "TENSORRT",
        "MODULE",
        "IDLE",
        "BUSY",
        "POWER",
        "MINIMISE",
        "PRECISION",
        "CALIBRATE",
        "LIBRARY",
        "ACCURACY",
        "ENGINE",
        "ENGINES",
        "FALLBACK",
        "PROCESS",
        "ADD",
        "MUL",
        "STRING",
        "NUMBER",
        "NAME",
        "DOC",
        "COMMENT",
        "BAD",
    ]
)

#: Terminals of texts that this referee does not draw: networks and their pins, requests, states,
#: clock rates, several machines. Nothing is said of them here.
NOT_DRAWN = frozenset(
    [
        "NETWORK",
        "WRAP",
        "VARIANT",
        "BATCH",
        "WITHIN",
        "UNTIL",
        "BANDS",
        "KEEP",
        "STREAMS",
        "THREADS",
        "ADAPT",
        "SCENARIO",
        "EVENT",
        "INITIAL",
        "RUN",
        "WEIGHT",
        "PREFER",
        "AFTER",
        "ONCE",
        "_AT",
        "FREQUENCIES",
        "FREQUENCY",
        "MACHINE",
        "LINK",
        "_SWITCH",
    ]
)

PYTHON = "def fire(*tokens):\n    raise NotImplementedError\n"
CUDA = 'extern "C" __global__ void fire(const float* x, float* y) { y[0] = x[0]; }\n'

#: In us; their least common multiple stays small.
PERIODS = (4000, 6000, 8000, 12000)


@dataclass(slots=True)
class Drawn:
    """A text. `times` are the worst cases in ns of tasks (`App.task`) by phase; those that are not
    there take none. `on_aux` are those on the CPUs `aux` where these are of another type, () where
    a task cannot run there. Pools have a kind, a scheduler and a wakeup in ns."""

    kind: str
    source: str = ""
    times: dict[str, tuple[int, ...]] = field(default_factory=dict)
    on_aux: dict[str, tuple[int, ...]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    schedulers: dict[str, str] = field(default_factory=dict)
    wakeups: dict[str, int] = field(default_factory=dict)
    contention: list[tuple[str, str, Fraction]] = field(default_factory=list)


@dataclass(slots=True)
class _Task:
    """A task that is drawn: its ports and options in the text."""

    name: str
    firings: int
    ports: list[str] = field(default_factory=list)
    wcet: tuple[int, ...] = ()
    source: bool = False
    on_gpu: bool = False


def _time_text(wcet: tuple[int, ...]) -> str:
    """Times in us as a text has them, one or one a phase."""
    return f"{wcet[0]} us" if len(wcet) == 1 else f"[{', '.join(map(str, wcet))}] us"


def random_text(kind: str, rng: random.Random) -> Drawn:
    """A text of a kind."""
    return _Drawing(kind, rng).drawn()


class _Drawing:
    """A text that is being drawn."""

    def __init__(self, kind: str, rng: random.Random) -> None:
        self.rng = rng
        self.has = {k for k in KINDS if k == kind or (k != "types" and rng.random() < 0.12)}
        if kind in ("timers", "priority", "pools"):
            self.has = {kind, *(k for k in KINDS if k in self.has and rng.random() < 0.3)}
        if self.has & {"share", "contention"}:
            self.has.discard("order")
        self.made = Drawn(kind)
        self.definitions: list[str] = []
        self.apps: list[str] = []
        self.pins: list[str] = []
        #: Of apps with a period: name, period in us, a task with the output that others may read.
        self.readable: list[tuple[str, int, _Task, str]] = []
        self.unit = 0

    def drawn(self) -> Drawn:
        rng = self.rng
        self.cores = rng.choice((1, 1, 2, 2, 3))
        if self.has & {"pools", "contention", "gpu", "types"}:
            self.cores = rng.choice((1, 2))
        count = rng.choice((1, 2, 2, 3))
        if self.has & {"taker", "looker", "age", "reaction", "priority"}:
            count = max(count, 2)
        #: Work of an app in a period, as part of it.
        self.load = rng.uniform(0.15, 0.75) * self.cores / count
        for number in range(count):
            self._app(number)
        if "background" in self.has:
            self._other_app("Idle", "")
        if "share" in self.has:
            of = rng.choice(("", " of 4 ms", " of 10 ms"))
            if self.made.kind == "share":
                of = " of 5 ms"
            self._other_app("Slice", f"share {rng.choice((5, 10, 20))} %{of}  ")
        platform = self._platform()
        lines = [*self.definitions, *self.apps, platform]
        if self.pins:
            lines.append("mapping on p {\n    " + "\n    ".join(self.pins) + "\n}")
        self.made.source = "\n".join(lines) + "\n"
        return self.made

    # -- processors --------------------------------------------------------------------------------
    def _platform(self) -> str:
        rng, made = self.rng, self.made
        pools = [f"cpu core[{self.cores}]"]
        names = ["core"]
        if self.has & {"pools", "contention", "types"}:
            pools.append("cpu aux[2]" if rng.random() < 0.3 else "cpu aux")
            names.append("aux")
        for number, name in enumerate(names):
            scheduler = "static_order" if "order" in self.has else "fixed_priority"
            made.kinds[name], made.schedulers[name] = "cpu", scheduler
            pools[number] += f" scheduler {scheduler}"
        if "gpu" in self.has:
            pools.append("gpu g memory 1 GB")
            names.append("g")
            made.kinds["g"], made.schedulers["g"] = "gpu", "fifo"
        for number, name in enumerate(names):
            made.wakeups[name] = 0
            if "wakeup" in self.has and (number == 0 or rng.random() < 0.5):
                made.wakeups[name] = rng.choice((20, 50, 100)) * 1000
                pools[number] += f" wakeup {made.wakeups[name] // 1000} us"
        if "contention" in self.has:
            victim, aggressor = rng.sample(names, 2)
            factor = rng.choice((Fraction(11, 10), Fraction(5, 4), Fraction(3, 2)))
            made.contention.append((victim, aggressor, factor))
            pools.append(f"contention {victim} by {aggressor} {float(factor)}")
        return "platform p {\n    " + "\n    ".join(pools) + "\n}"

    def _place(self) -> str:
        """Some CPU."""
        if self.has & {"pools", "contention"} and self.rng.random() < 0.4:
            return "aux"  # one of several is index 0: see below
        core = self.rng.randrange(self.cores)
        return f"core[{core}]"

    # -- apps --------------------------------------------------------------------------------------
    def _app(self, number: int) -> None:
        rng = self.rng
        name = "ABC"[number]
        period = rng.choice(PERIODS)
        tasks: list[_Task] = []
        arrows: list[str] = []
        words: list[str] = []
        inputs = self._inputs(name, number)
        if inputs:
            period = inputs[0][1] if inputs[0][0] == "taker" else period
            first = _Task("k0", inputs[0][3])
            first.ports.append("in l: float32" + _rate_text(inputs[0][4]))
            arrows.append(f"{inputs[0][2]} {self._link(inputs[0][0])} k0.l")
            tasks.append(first)
        else:
            first = _Task("k0", self._firings(), source=True)
            tasks.append(first)
        on_gpu = self._now("gpu")
        for n in range(1, 3 if on_gpu else rng.choice((2, 3, 3, 4))):
            tasks.append(_Task(f"k{n}", self._firings()))
            straight = on_gpu or rng.random() < 0.7
            before = tasks[n - 1] if straight else rng.choice(tasks[:-1])
            arrows.append(self._arrow(before, tasks[n], number))
        if self._now("loop") and not on_gpu:
            arrows.append(self._loop(tasks))
        tasks[1].on_gpu = on_gpu
        if len(tasks) > 2 and not (inputs or on_gpu) and rng.random() < 0.15:
            extra = _Task("k9", self._firings(), source=True)
            arrows.append(self._arrow(extra, tasks[-1], number))
            tasks.append(extra)
        self._work(name, tasks, period)
        instances = [self._instance(name, task, period) for task in tasks]
        in_text = any(" every " in i for i in instances)
        if not in_text:
            words.append(f"period {_us(period)}")
        if rng.random() < 0.3:
            words.append(f"deadline {_us(int(period * rng.choice((0.8, 1, 1.5, 2))))}")
        if "priority" in self.has or rng.random() < 0.7:
            words.append(f"priority {rng.randint(1, 3)}")
        if self._now("deadline"):
            sink = tasks[-1] if not tasks[-1].source else tasks[-2]
            source = "k0"
            if not inputs and sink.name != "k0":
                words.append(f"deadline {_us(2 * period)} from {source} to {sink.name}")
        if inputs and (self.made.kind == "age" or rng.random() < 0.5):
            origin = inputs[0][2].partition(".")[0]
            words.append(f"deadline {_us(8 * period)} from {origin}.k0 to {tasks[-1].name}")
        if inputs and (self._now("reaction")):
            origin = inputs[0][2].partition(".")[0]
            words.append(f"reaction {_us(8 * period)} from {origin}.k0 to {tasks[-1].name}")
        if "graph" in self.has and len(tasks) > 1 and not inputs:
            instances, arrows = self._in_graph(name, instances, arrows)
        self.apps.append(
            f"app {name} {{\n    "
            + "   ".join(words)
            + "\n    "
            + "\n    ".join([*instances, *arrows])
            + "\n}"
        )
        reader = next((t for t in tasks if any(p.startswith("out") for p in t.ports)), None)
        if reader is not None and "graph" not in self.has:
            port = next(p for p in reader.ports if p.startswith("out"))
            if "up to" not in port and "[" not in port:
                self.readable.append((name, period, reader, port))
        self._pin(name, tasks)

    def _inputs(self, name: str, number: int) -> list[tuple[str, int, str, int, int]]:
        """From which app an app reads, if it does: the kind, the period, the place, and how often
        its first task fires, with how many tokens each."""
        if not self.readable or number == 0:
            return []
        for kind in ("taker", "looker", "age", "reaction"):
            if kind in self.has and self.rng.random() < 0.8:
                writer, period, task, port = self.rng.choice(self.readable)
                words = port.split()
                rate = int(words[words.index("rate") + 1]) if "rate" in words else 1
                place = f"{writer}.{task.name}.{words[1].rstrip(':')}"
                if kind != "taker":
                    return [("looker", period, place, self._firings(), 1)]
                return [("taker", period, place, task.firings * rate, 1)]
        return []

    def _link(self, kind: str) -> str:
        word = "latest" if kind != "taker" else f"drop oldest {self.rng.choice((1, 2, 3, 8))}"
        return f"-> {word} wcet {self.rng.choice((10, 20, 40))} us ->"

    def _firings(self) -> int:
        if self.has & {"rate", "phases", "every"}:
            return self.rng.choice((1, 1, 2, 2, 3))
        return self.rng.choice((1, 1, 1, 1, 2))

    def _now(self, kind: str) -> bool:
        """Does it happen here? Always once in a text of the kind."""
        if kind not in self.has:
            return False
        return self.rng.random() < 0.6 or self.made.kind == kind

    def _arrow(self, a: _Task, b: _Task, number: int) -> str:
        """An arrow between two tasks, with ports for it."""
        self.unit += 1
        out, into = f"o{self.unit}", f"i{self.unit}"
        total = lcm(a.firings, b.firings)
        made = read = total
        between = ""
        if self._now("lists") and a.firings == b.firings == 1:
            most = self.rng.choice((2, 3))
            a.ports.append(f"out {out}: float32 rate up to {most} by n{self.unit}")
            b.ports.append(f"in {into}: float32 rate up to {most}")
            return f"{a.name}.{out} -> {b.name}.{into}"
        if self._now("repeat") or self._now("blocks"):
            block = 2 if self._now("blocks") else 1
            times = self.rng.choice((2, 3))
            made = read = total * block
            read *= times
            between += f"repeat {times}{f' of {block}' if block > 1 else ''} -> "
        if self._now("last") or ("blocks" in self.has and self.rng.random() < 0.5):
            block = 2 if "blocks" in self.has else 1
            times = self.rng.choice((2, 3))
            made *= times * block
            read *= block
            between += f"last {times}{f' of {block}' if block > 1 else ''} -> "
        if self._now("delay"):
            tokens = self.rng.choice((1, 1, 2, 3)) * self.rng.choice((1, read // b.firings))
            between += f"delay {tokens} -> "
        a.ports.append(f"out {out}: float32" + self._rate(made, a))
        rate = self._rate(read, b)
        if self._now("window"):
            size = read // b.firings + self.rng.randint(1, 3)
            rate = _rate_text(read // b.firings) + f" window {size}"
        b.ports.append(f"in {into}: float32" + rate)
        return f"{a.name}.{out} -> {between}{b.name}.{into}"

    def _rate(self, total: int, task: _Task) -> str:
        rate, rest = divmod(total, task.firings)
        assert not rest
        if "phases" in self.has and not task.firings % 2 and self.rng.random() < 0.6:
            first = self.rng.randint(0, 2 * rate)
            return f" rate [{first}, {2 * rate - first}]"
        if "phases" in self.has and task.firings == 3 and self.rng.random() < 0.6:
            return f" rate [{3 * rate}, 0 for 2]"
        return _rate_text(rate)

    def _loop(self, tasks: list[_Task]) -> str:
        """An arrow back, with tokens for an iteration."""
        self.unit += 1
        b, a = self.rng.choice(tasks[1:]), tasks[1]
        total = lcm(a.firings, b.firings)
        b.ports.append(f"out o{self.unit}: float32" + _rate_text(total // b.firings))
        a.ports.append(f"in i{self.unit}: float32" + _rate_text(total // a.firings))
        tokens = total * self.rng.choice((1, 1, 2))
        return f"{b.name}.o{self.unit} -> delay {tokens} -> {a.name}.i{self.unit}"

    def _work(self, name: str, tasks: list[_Task], period: int) -> None:
        """Worst cases in us that make up the load of an app."""
        parts = [self.rng.uniform(0.3, 1) for _ in tasks]
        for task, part in zip(tasks, parts, strict=True):
            worst = int(self.load * period * part / sum(parts) / task.firings) // 10 * 10
            worst = max(10, worst)
            task.wcet = (worst,)
            if "phases" in self.has and task.firings == 2 and self.rng.random() < 0.6:
                task.wcet = (worst, max(10, worst // 5 // 10 * 10))
            self.made.times[f"{name}.{task.name}"] = tuple(1000 * w for w in task.wcet)

    def _instance(self, app: str, task: _Task, period: int) -> str:
        """The declaration of a task and of its instance."""
        rng = self.rng
        live = task.source and bool(self.has & {"live", "drop", "newest"})
        live = live and (rng.random() < 0.7 or not self.apps)
        wcet = f"wcet {_time_text(task.wcet)}"
        code = 'python "t.py:fire"'
        fits = sum(p.startswith("in") for p in task.ports) == 1
        fits = fits and sum(p.startswith("out") for p in task.ports) == 1 and len(task.wcet) == 1
        fits = fits and not any("up to" in p or "window" in p for p in task.ports)
        task.on_gpu = task.on_gpu and fits
        if task.on_gpu:
            ports = [p.split()[1].rstrip(":") for p in task.ports]
            arguments = f"({', '.join(ports)})"
            code = f'on gpu cuda "t.cu:fire" {arguments} grid[1] block[32]'
        if "types" in self.has and not task.on_gpu:
            wcet = self._by_type(f"{app}.{task.name}", task)
        words = [*(["live"] if live else []), *task.ports, wcet, code]
        self.definitions.append(f"task {app}_{task.name} {{ {'   '.join(words)} }}")
        text = f"{task.name}: {app}_{task.name}"
        paced = task.source and task.name == "k0" and "every" in self.has and not self.apps
        if paced and period % task.firings == 0:
            text += f" every {period // task.firings} us"
        drops = live and not any("rate [" in port for port in task.ports)
        if drops and "newest" in self.has and (rng.random() < 0.7 or not self.apps):
            text += " latest"
        elif drops and "drop" in self.has and (rng.random() < 0.7 or not self.apps):
            text += f" drop oldest {rng.choice((1, 2, 4))}"
        return text

    def _in_graph(
        self, app: str, instances: list[str], arrows: list[str]
    ) -> tuple[list[str], list[str]]:
        """The last task as a graph of its own, where one arrow leads to it."""
        last = next(i for i in reversed(instances) if not i.startswith(("k9", "k0")))
        name = last.partition(":")[0]
        to = [a for a in arrows if f"-> {name}." in a]
        if len(to) != 1 or any(a.startswith(f"{name}.") for a in arrows):
            return instances, arrows
        port = to[0].rpartition(".")[2]
        declared = next(d for d in self.definitions if d.startswith(f"task {app}_{name} "))
        kind = "float32"
        if "up to" in declared:
            return instances, arrows
        self.definitions.append(f"graph {app}_G {{ in x: {kind}   {last}   x -> {name}.{port} }}")
        for times in (self.made.times, self.made.on_aux):
            if f"{app}.{name}" in times:
                times[f"{app}.g.{name}"] = times.pop(f"{app}.{name}")
        changed = [i for i in instances if i != last] + [f"g: {app}_G"]
        return changed, [a.replace(f"-> {name}.{port}", "-> g.x") for a in arrows]

    def _by_type(self, name: str, task: _Task) -> str:
        """Times that differ by the type of CPUs; some tasks run on one type only."""
        here, choice = _time_text(task.wcet), self.rng.random()
        if choice < 0.15:
            self.made.on_aux[name] = ()
            return f"wcet {here} on core"
        factor = self.rng.choice((Fraction(1, 2), Fraction(3, 2), Fraction(5, 2), Fraction(4)))
        there = tuple(max(10, int(factor * w) // 10 * 10) for w in task.wcet)
        self.made.on_aux[name] = tuple(1000 * w for w in there)
        if choice < 0.5:
            return f"wcet {here}, {_time_text(there)} on aux"
        return f"wcet {_time_text(there)} on aux, {here} on core"

    def _pin(self, app: str, tasks: list[_Task]) -> None:
        """Pins for some tasks."""
        rng = self.rng
        for task in tasks:
            name = f"{app}.{task.name}"
            if name not in self.made.times:
                continue
            if task.on_gpu:
                self.pins.append(f"{name} -> g wcet {task.wcet[0]} us")
                continue
            wish = rng.random() < (0.6 if "pools" in self.has else 0.15)
            if wish or ("buffers" in self.has and rng.random() < 0.5) or self._must_pin():
                place = f"core[{rng.randrange(self.cores)}]" if self.cores > 1 else "core[0]"
                buffers = f" buffers {rng.choice((2, 3, 4))}" if "buffers" in self.has else ""
                self.pins.append(f"{name} -> {place}{buffers}")

    def _must_pin(self) -> bool:
        return self.made.kind in ("pools", "buffers") and not self.pins

    def _other_app(self, name: str, words: str) -> None:
        """An app without a period: as fast as it can."""
        wcet = self.rng.choice((50, 200, 1000))
        self.definitions.append(
            f'task {name}_a {{ out o: float32   wcet {wcet} us   python "t.py:fire" }}\n'
            f'task {name}_b {{ in i: float32   wcet {2 * wcet} us   python "t.py:fire" }}'
        )
        self.apps.append(f"app {name} {{ {words}a: {name}_a   b: {name}_b   a -> b }}")
        for task, factor in (("a", 1), ("b", 2)):
            self.made.times[f"{name}.{task}"] = (1000 * wcet * factor,)


def _rate_text(rate: int) -> str:
    return "" if rate == 1 else f" rate {rate}"


def _us(time: int) -> str:
    return f"{time} us" if time % 1000 else f"{time // 1000} ms"
