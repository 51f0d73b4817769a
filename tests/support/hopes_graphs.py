"""Random graphs of C tasks that print what they compute: each runtime has to print the same
lines."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import flowc
from flowc.interop.hopes.export.export_project import ExportedProject
from flowc.model.application import Application

from graphs import consistent

TYPES = {
    "float64": "double", "float32": "float", "int32": "int32_t", "uint8": "uint8_t", "int64": "int64_t", "bool": "_Bool",
}  # fmt: skip
_SIZES = {"": 1, "[2]": 2, "[2, 3]": 6}


def random_system(seed: int, folder: Path, most_tasks: int = 6) -> Path | None:
    """A text with one to three apps on two cores: several rates, phases, delays with values,
    cycles, windows, types.

    None if a graph that was drawn blocks.
    """
    rng = random.Random(seed)
    code, texts, pins = ["#include <math.h>\n#include <stdio.h>\n"], [], []
    number = 0
    for app in "ABC"[: rng.choice((1, 1, 2, 3))]:
        graph, _ = consistent(rng, most_tasks=most_tasks)
        lines = []
        for task in graph.tasks:
            short = task.name.partition(".")[2]
            lines.append(f"{short}: T{number + graph.tasks.index(task)}")
            pins.append(f"{app}.{short} -> core[{rng.randrange(2)}]")
        declared, arrows = _tasks(rng, graph, number, code)
        number += len(graph.tasks)
        texts += [*declared, "\n    ".join([f"app {app} {{", *lines, *arrows]) + "\n}"]
    texts.append(f"platform two {{ cpu core[2] }}\nmapping on two {{ {'  '.join(pins)} }}")
    (folder / "a.c").write_text("".join(code))
    flow = folder / "a.flow"
    flow.write_text("\n".join(texts) + "\n")
    checked = flowc.check(flow)
    codes = {d.code for d in checked.diagnostics if d.severity == "error"}
    assert codes <= {"F204"}, [d.message for d in checked.diagnostics]
    return None if codes else flow


def _tasks(
    rng: random.Random, graph: Application, first: int, code: list[str]
) -> tuple[list[str], list[str]]:
    """Declarations of the tasks of a graph, and its arrows."""
    kinds = {f"{c.source}.{c.source_port}": rng.choice(list(TYPES)) for c in graph.channels}
    shapes = {name: rng.choice(["", "", "[2]", "[2, 3]"]) for name in kinds}
    into = {
        f"{c.destination}.{c.destination_port}": f"{c.source}.{c.source_port}"
        for c in graph.channels
    }
    declared = []
    for number, task in enumerate(graph.tasks, first):
        ports: list[str] = []
        moved: list[Any] = []
        for port in (*task.inputs, *task.outputs):
            key = into.get(f"{task.name}.{port.name}", f"{task.name}.{port.name}")
            kind, shape = kinds[key], shapes[key]
            rates = list(port.rates) if len(port.rates) > 1 else port.rates[0]
            seen = (
                rng.choice([0, 0, max(port.rates) + rng.randint(0, 3)])
                if port.direction == "in"
                else 0
            )
            window = f" window {seen}" if seen else ""
            ports.append(f"{port.direction} {port.name}: {kind}{shape} rate {rates}{window}")
            moved.append((port.direction, port.name, kind, port.rates, _SIZES[shape], seen))
        gain = rng.randint(1, 9) / 4
        declared.append(
            f'task T{number}(gain: float = {gain}) {{ {"  ".join(ports)}  state n: int64  c "a.c:f{number}" }}'
        )
        code.append(_function(number, moved))
    arrows = []
    for c in graph.channels:
        values = (
            f" = {[rng.randint(0, 1) for _ in range(c.delay)]}"
            if c.delay and rng.random() < 0.5
            else ""
        )
        delay = f"delay {c.delay}{values} -> " if c.delay else ""
        ends = (f"{c.source}.{c.source_port}", f"{c.destination}.{c.destination_port}")
        here, there = (e.partition(".")[2] for e in ends)
        arrows.append(f"{here} -> {delay}{there}")
    return declared, arrows


def _function(number: int, moved: list[Any]) -> str:
    const = {"in": "const ", "out": ""}
    arguments = [f"{const[way]}{TYPES[kind]} *{name}" for way, name, kind, *_ in moved]
    body = [
        f"f{number}_state *s = state;",
        "double sum = p->gain * (s->n + 1);",
        "long k;",
        "(void)k;",
    ]
    for way, name, kind, rates, size, seen in moved:
        counts = (
            f"((long[]){{{', '.join(map(str, rates))}}}[s->n % {len(rates)}])"
            if not seen
            else str(seen)
        )
        if way == "in":
            body.append(
                f"for (k = 0; k < {counts} * {size}; k++) sum = fmod(sum * 3 + (double){name}[k], 251);"
            )
        else:
            value = "fmod(sum + k, 2) < 1" if kind == "bool" else "fmod(sum + k, 100)"
            body.append(
                f"for (k = 0; k < {counts} * {size}; k++) {name}[k] = ({TYPES[kind]})({value});"
            )
    body += [
        f'printf("{number} %ld %.17g\\n", (long)s->n, sum);',
        "fflush(stdout);",
        "s->n++;",
        "return 0;",
    ]
    head = f"int f{number}(void *state, {''.join(a + ', ' for a in arguments)}const f{number}_params *p)"
    return f"{head}\n{{\n    " + "\n    ".join(body) + "\n}\n"


def firings(flow: Path, made: ExportedProject, iterations: int) -> dict[str, int]:
    """Firings of HOPES in so many iterations."""
    checked = flowc.check(flow, platform="two")
    found = {}
    for app in checked.system.apps:
        for task in app.tasks:
            repeated = checked.verdicts[app.name].repetition[task.name]
            found[made.tasks[task.name]] = iterations * repeated // task.phases
    return found
