"""The systems of `boards` as texts: the HOPES example ImgProcessing, random graphs, scenarios.

In: a joint problem without its candidates, or the states of a scenario. Out: texts with the boards
`xavier` and `clocked`, whose clock rates and powers are those of `clocks`.
"""

from __future__ import annotations

from collections.abc import Sequence

import boards
import clocks
from flowc.search.deadline.problem import DeadlineNetwork, DeadlineTask, JointProblem
from published_systems import texts

from kim_examples import TABLE_4_7

#: The processors of both boards: of a Xavier, of which four cores are used.
POOLS = {
    "cpu": "cpu cpu[4] scheduler fixed_priority",
    "gpu": "gpu gpu scheduler fifo",
    "dla": "dla dla[2] engines 4 total scheduler fifo",
}
ESTIMATED = frozenset({"dla"})


def write(stem: str, problem: JointProblem) -> None:
    """A text with its apps, tasks and times, for `xavier`."""
    texts.write_board("xavier", *POOLS.values())
    texts.write(stem, _text(problem), "xavier", _times(problem), estimated=ESTIMATED)


def write_scenario(
    stem: str,
    states: Sequence[tuple[int, ...]],
    periods_ms: Sequence[int],
    *,
    last: str = "",
    pins: str = "",
) -> None:
    """The four cameras in these states, each at all of the periods, for `clocked`; `last` are
    more words of the last state."""
    problem = boards.imgprocessing(10)
    lines = [f"scenario {stem} {{", "    minimise energy", "    event next"]
    names = []
    for number, cameras in enumerate(states):
        apps = ", ".join(f"G{camera + 1}" for camera in cameras)
        for ms in periods_ms:
            names.append(state_name(number, ms))
            first = "" if names[1:] else "initial "
            words = last if number == len(states) - 1 else ""
            lines.append(f"    {first}state {names[-1]} {{ run {apps} period {ms} ms {words} }}")
    after = [*names[1:], names[0]]
    pairs = zip(names, after, strict=True)
    lines += [f"    {old} -> {new} on next" for old, new in pairs if old != new]
    text = "\n".join([_text(problem) + lines[0], *lines[1:], "}"]) + "\n" + pins
    pools = [f"{pool} {_powers(kind)}" for kind, pool in POOLS.items()]
    texts.write_board("clocked", *pools, f"power {float(clocks.BOARD)} W")
    texts.write(stem, text, "clocked", _times(problem), estimated=ESTIMATED)


def on_gpu() -> str:
    """Pins of all networks to the GPU."""
    networks = boards.imgprocessing(10).networks
    lines = [f"    {network.name} -> gpu" for network in networks]
    return "\n".join(["mapping on clocked {", *lines, "}"]) + "\n"


def state_name(number: int, period_ms: int) -> str:
    """A state of a scenario at a period."""
    return f"sc{number}_{period_ms}"


def _powers(kind: str) -> str:
    """The rates of Table 4.7 with made-up powers: voltages rise with the rate. Firings take the
    mean time, a share of their worst case, which the text does not know: the power has it."""
    idle, busy = clocks.WATTS[kind]
    waits, works = [], []
    for mhz in TABLE_4_7[kind]:
        speed = mhz / TABLE_4_7[kind][-1]
        volts = 0.65 + 0.35 * speed
        waits.append(f"{idle * (volts + volts**2 * speed) / 2:.4f}")
        works.append(f"{busy * volts**2 * speed * float(clocks.MEAN):.4f}")
    rates = ", ".join(f"{mhz:g}" for mhz in TABLE_4_7[kind])
    return f"frequencies [{rates}] MHz idle [{', '.join(waits)}] W busy [{', '.join(works)}] W"


def _text(problem: JointProblem) -> str:
    """Tasks without code, each of a type of its own."""
    items: list[DeadlineTask | DeadlineNetwork] = [*problem.tasks, *problem.networks]
    tasks, apps = [], []
    for group in problem.groups:
        apps.append(f"app {group.name} {{\n    period 100 ms   priority {group.priority}")
        arrows = []
        for item in items:
            if item.group == group.name:
                name = item.name.partition(".")[2]
                into = [c.source for c in group.channels if c.destination == item.name]
                ports = [f"in i{n}" for n in range(len(into))]
                ports += ["out o"] if any(c.source == item.name for c in group.channels) else []
                tasks.append(f"task {group.name}_{name} {{ {'   '.join([*ports, 'stateless'])} }}")
                apps.append(f"    {name}: {group.name}_{name}")
                for n, source in enumerate(into):
                    arrows.append(f"    {source.partition('.')[2]} -> {name}.i{n}")
        apps += [*arrows, "}"]
    return "\n".join([*tasks, *apps]) + "\n"


def _times(problem: JointProblem) -> dict[str, dict[str, texts.Times]]:
    """In ns. Estimates are without their margin, which flowc adds."""
    times: dict[str, dict[str, texts.Times]] = {}
    for item in problem.tasks:
        times[item.name] = {kind: round(ns) for kind, ns in item.wcet_ns.items()}
    for network, own in zip(problem.networks, boards.figures()["groups"], strict=True):
        times[network.name] = {
            kind: {
                f"kernel_{n}": 1000.0 * us for n, us in enumerate(own[kind], 1) if us is not None
            }
            for kind in ("gpu", "dla")
        }
    return times
