"""Texts with tasks in C that are drawn by lot: rates, phases, windows, delays with values, cycles,
`repeat` and `last`, parameters, several apps on several cores, and states of them, with variants of
networks. Every token depends on all that its task has read.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from math import lcm

#: Types of tokens: that of an element in the text and in C, and elements.
TYPES = (
    ("int64", "int64_t", 1),
    ("int32", "int32_t", 2),
    ("uint8", "uint8_t", 3),
    ("float32", "float", 1),
)


@dataclass
class Port:
    """`rates` of its phases; a firing sees `window` tokens if that is not 0."""

    name: str
    type: tuple[str, str, int]
    rates: list[int]
    window: int = 0

    def __str__(self) -> str:
        dtype, _, size = self.type
        shape = f"[{size}]" if size > 1 else ""
        rates = str(self.rates[0]) if len(self.rates) == 1 else str(self.rates)
        window = f" window {self.window}" if self.window else ""
        return f"{self.name}: {dtype}{shape} rate {rates}{window}"


@dataclass
class Task:
    """A task with its firings in an iteration."""

    name: str
    firings: int
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)


def draw(
    seed: int, apps: int = 4, cores: int = 3, see: random.Random | None = None
) -> tuple[str, str]:
    """A text for the platform `board`, and its app.c; with `see`, each app has a network `see`."""
    rng = random.Random(seed)
    declared, bodies, functions, pins = [], [], [], []
    for number in range(apps):
        app = f"App{number}"
        tasks, arrows = _graph(rng)
        networks = []
        if see is not None:
            arrows += _see(see, tasks)
            networks = ["see: See"]
            place = f"core[{see.randrange(cores)}]"
            pins += [f"    {app}.see.{variant} -> {place}" for variant in VARIANTS]
        for k, task in enumerate(tasks):
            kind = f"T{number}_{k}"
            ports = [f"in {p}" for p in task.inputs] + [f"out {p}" for p in task.outputs]
            code = f'state n: int64   state seen: int64   c "app.c:{kind.lower()}"'
            what = f"{'   '.join(ports)}   {code}   wcet 10 us"
            declared.append(f"task {kind}(add: int) {{ {what} }}")
            functions.append(_function(kind.lower(), k, task))
            pins.append(f"    {app}.{task.name} -> core[{rng.randrange(cores)}]")
        period = rng.choice(["", "", "period 20 ms", "period 30 ms", "period 40 ms"])
        body = [period] if period else []
        body += [f"{t.name}: T{number}_{k}(add = {5 * k + 1})" for k, t in enumerate(tasks)]
        body += networks
        lines = "\n    ".join([*body, *arrows])
        bodies.append(f"app {app} {{\n    {lines}\n}}")
    scheduler = rng.choice(["", " scheduler fixed_priority"])
    platform = f"platform board {{ cpu core[{cores}]{scheduler} }}"
    mapping = "mapping on board {\n" + "\n".join(pins) + "\n}"
    return "\n".join([*declared, *bodies, platform, mapping, ""]), _HEAD + "".join(functions)


def draw_with_states(seed: int, apps: int = 4, cores: int = 3) -> tuple[str, str, str]:
    """The same text with a scenario, whose states run some of the apps each; once more with other
    places; and its app.c."""
    text, code = draw(seed, apps, cores)
    rng = random.Random(f"states {seed}")
    count = rng.randrange(2, 5)
    runs: list[list[int]] = [
        sorted(rng.sample(range(apps), rng.randrange(1, apps))) for _ in range(count)
    ]
    for app in set(range(apps)).difference(*runs):
        runs[rng.randrange(count)].append(app)
    states, arrows = [], []
    for state, numbers in enumerate(runs):
        word = "initial state" if state == 0 else "state"
        periods = [rng.choice(["", " period 25 ms", " period 50 ms"]) for _ in numbers]
        lines = "   ".join(f"run App{n}{p}" for n, p in zip(numbers, periods, strict=True))
        states.append(f"    {word} s{state} {{ {lines} }}")
        arrows.append(f"    s{state} -> s{(state + 1) % count} on go{state}")
    events = [f"go{state}" for state in range(count)]
    if count > 2 and rng.random() < 0.5:
        arrows.append("    s2 -> s1 on back")
        events.append("back")
    lines = "\n".join([f"    event {', '.join(events)}", *states, *arrows])
    text += f"scenario S {{\n{lines}\n}}\n"
    places = r"(-> core)\[\d\]"
    elsewhere = re.sub(places, lambda found: f"{found[1]}[{rng.randrange(cores)}]", text)
    return text, elsewhere, code


#: Networks of random texts: each multiplies what it reads, and adds to it.
VARIANTS = {"v0": (3, 1), "v1": (2, 5), "v2": (-1, 4)}
_NETWORK = """network See {
    in x: float32[4] from "x"   out y: float32[4] from "y"
    variant v0 from "v0.onnx"   variant v1 from "v1.onnx"   variant v2 from "v2.onnx"
}
"""


def draw_with_variants(seed: int, cores: int = 3) -> tuple[str, str, str]:
    """A text, the same with other places, and its app.c. Its states run two apps, and differ in
    variants of their networks; some in their periods, too."""
    rng = random.Random(f"variants {seed}")
    text, code = draw(seed, 2, cores, see=rng)
    count = rng.randrange(2, 5)
    periods = [rng.choice(["", "", "", " period 25 ms"]) for _ in range(count)]
    chosen = [[rng.choice(list(VARIANTS)) for _ in range(2)] for _ in range(count)]
    ways = [(s, (s + 1) % count, "go") for s in range(count)]
    ways += [(s, 0, "back") for s in range(2, count)]
    states, arrows = [], []
    for state, period in enumerate(periods):
        word = "initial state" if state == 0 else "state"
        choices = "   ".join(f"App{n}.see = {name}" for n, name in enumerate(chosen[state]))
        states.append(f"    {word} s{state} {{ run App0, App1{period}   {choices} }}")
    for a, b, event in ways:
        possible = periods[a] == periods[b] and chosen[a] != chosen[b]
        at_once = " at once" if possible and rng.random() < 0.4 else ""
        arrows.append(f"    s{a} -> s{b} on {event}{at_once}")
    lines = "\n".join(["    event go, back", *states, *arrows])
    text = f"{_NETWORK}{text}scenario S {{\n{lines}\n}}\n"
    # all variants of a network keep one place, so that frames need not end before a change
    places = r"(\.t\d -> core)\[\d\]"
    elsewhere = re.sub(places, lambda found: f"{found[1]}[{rng.randrange(cores)}]", text)
    return text, elsewhere, code


def _graph(rng: random.Random) -> tuple[list[Task], list[str]]:
    """Tasks and arrows of an app."""
    count = rng.randrange(2, 6)
    tasks = [Task(f"t{k}", rng.choice([1, 1, 2, 3, 4])) for k in range(count)]
    phases = [rng.choice([p for p in (1, 1, 2, 3) if t.firings % p == 0]) for t in tasks]
    arrows = []
    for k in range(1, count):
        for source in rng.sample(range(k), rng.choice([1, 1, 2]) if k > 1 else 1):
            arrows.append(_arrow(rng, tasks, phases, source, k, back=False))
    if rng.random() < 0.5:
        source = rng.randrange(1, count)
        arrows.append(_arrow(rng, tasks, phases, source, rng.randrange(source + 1), back=True))
    return tasks, arrows


def _arrow(
    rng: random.Random, tasks: list[Task], phases: list[int], source: int, to: int, *, back: bool
) -> str:
    """An arrow with its two ports; one that leads `back` holds the tokens of an iteration."""
    writer, reader = tasks[source], tasks[to]
    tokens = lcm(writer.firings, reader.firings) * rng.choice([1, 1, 2])
    kind = rng.choice(TYPES)
    times, word = 1, ""
    if not back and rng.random() < 0.2:
        times = rng.choice([2, 3])
        word = rng.choice(["repeat", "last"])
    made = tokens * (times if word == "last" else 1)
    taken = tokens * (times if word == "repeat" else 1)
    outputs, inputs = writer.outputs, reader.inputs
    out = Port(f"o{len(outputs)}", kind, _rates(rng, made // writer.firings, phases[source]))
    into = Port(f"i{len(inputs)}", kind, _rates(rng, taken // reader.firings, phases[to]))
    shared = [p for p in outputs if p.type == kind and p.rates == out.rates]
    if shared and rng.random() < 0.7:
        out = shared[0]
    else:
        outputs.append(out)
    if rng.random() < 0.3:
        into.window = max(into.rates) + rng.randrange(1, 5)
    inputs.append(into)
    delay = made if back else rng.choice([0, 0, 0, 1, 2, 3])
    delayed = ""
    if delay:
        values = [rng.randrange(9) for _ in range(delay)]
        delayed = f" -> delay {delay}" + rng.choice(["", f" = {values}"])
    between = f" -> {word} {times}" if word else ""
    return f"{writer.name}.{out.name}{delayed}{between} -> {reader.name}.{into.name}"


def _see(rng: random.Random, tasks: list[Task]) -> list[str]:
    """A network between two tasks."""
    source = rng.randrange(len(tasks) - 1)
    writer, reader = tasks[source], tasks[rng.randrange(source + 1, len(tasks))]
    tokens = lcm(writer.firings, reader.firings) * rng.choice([1, 1, 2])
    kind = ("float32", "float", 4)
    writer.outputs.append(Port("seen", kind, [tokens // writer.firings]))
    window = tokens // reader.firings + rng.randrange(1, 4) if rng.random() < 0.5 else 0
    reader.inputs.append(Port("sees", kind, [tokens // reader.firings], window))
    return [f"{writer.name}.seen -> see.x", f"see.y -> {reader.name}.sees"]


def _rates(rng: random.Random, mean: int, phases: int) -> list[int]:
    """Rates of phases with that mean."""
    rates = [mean] * phases
    for _ in range(phases - 1):
        one, other = rng.randrange(phases), rng.randrange(phases)
        moved = rng.randrange(rates[one] + 1)
        rates[one] -= moved
        rates[other] += moved
    return rates


_HEAD = """\
#define AT(table, n) table[(n) % (int)(sizeof table / sizeof *table)]
#define SEE(port, count) \\
    for (int64_t k = 0; k < (count); k++) \\
        s->seen = (31 * s->seen + (int64_t)port[k] + 1) % 1000003
#define MAKE(port, count, number) \\
    for (int64_t k = 0; k < (count); k++) { \\
        if (port[k]) \\
            return 8; /* it has to be zero */ \\
        port[k] = (s->seen + number + p->add + 11 * s->n + k) % 251; \\
    }
"""


def _function(name: str, number: int, task: Task) -> str:
    inputs = [f"const {p.type[1]} *{p.name}, " for p in task.inputs]
    outputs = [f"{p.type[1]} *{p.name}, " for p in task.outputs]
    lines = [f"    {name}_state *s = state;"]
    for p in (*task.inputs, *task.outputs):
        lines.append(f"    static const int64_t r_{p.name}[] = {{{', '.join(map(str, p.rates))}}};")
    for p in task.inputs:
        seen = str(p.window) if p.window else f"AT(r_{p.name}, s->n)"
        lines.append(f"    SEE({p.name}, {seen} * {p.type[2]});")
        if p.window:
            lines.append(f"    (void)r_{p.name};")
    for i, p in enumerate(task.outputs):
        lines.append(
            f"    MAKE({p.name}, AT(r_{p.name}, s->n) * {p.type[2]}, {7 * number + 3 * i});"
        )
    body = "\n".join([*lines, "    s->n++;", "    return 0;"])
    ports = "".join((*inputs, *outputs))
    parameters = f"{ports}const {name}_params *p"
    return f"\nint {name}(void *state, {parameters})\n{{\n    (void)p;\n{body}\n}}\n"
