"""Texts that are drawn by lot, for boards that are not here, and profiles without measurements."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from math import lcm
from pathlib import Path

import flowc
from flowc.machines.whoami import host_hash
from flowc.model.profile import Profile, ProfileEntry
from flowc.profiling.identity import task_hashes

US, MS = 1_000, 1_000_000


@dataclass(frozen=True)
class Entry:
    """What a profile says of a task on a kind of processor; `mean_ns` None: the worst case."""

    task: str
    kind: str
    wcet_ns: int
    mean_ns: int | None = None
    estimated: bool = False
    samples: int = 10
    totals_ns: tuple[int, ...] = ()


def store_entries(flow: Path, entries: Iterable[Entry], platform: str = "board") -> None:
    """Put a profile with these entries, in this order, beside a text."""
    system = flowc.check(flow, platform=platform, mapped=False).loaded.system
    hashes = task_hashes(system)
    made = tuple(
        ProfileEntry(
            e.kind, e.task, "", hashes[e.task], host_hash(), e.samples,
            e.wcet_ns if e.mean_ns is None else e.mean_ns, 0, e.wcet_ns, e.wcet_ns, estimated=e.estimated,
            totals_ns=e.totals_ns,
        )
        for e in entries
    )  # fmt: skip
    path = flow.with_name(f"{flow.stem}.{platform}.profile.json")
    path.write_text(Profile(platform, "nowhere", made).to_json())


@dataclass(frozen=True)
class Drawn:
    """A text for a platform `board`, and the profile beside it, if it has one."""

    text: str
    entries: tuple[Entry, ...]

    def put(self, folder: Path) -> Path:
        """Write both."""
        folder.mkdir()
        flow = folder / "app.flow"
        flow.write_text(self.text)
        if self.entries:
            store_entries(flow, self.entries)
        return flow


def draw(seed: int) -> Drawn:
    """Chains, forks, cycles and tasks that wait for themselves, at one rate or several, on 1 to 3
    CPUs, maybe a GPU.

    Times are declared, by phases too, pinned, measured or estimated, or several of these; some are
    nowhere.
    """
    rng = random.Random(seed)
    cores, gpu = rng.randint(1, 3), rng.random() < 0.35
    periods, profiled = rng.random() < 0.8, rng.random() < 0.7
    places = [f"core[{k}]" for k in range(cores)] + (["volta"] if gpu else [])
    lines: list[str] = []
    apps: list[str] = []
    pins: list[str] = []
    entries: list[Entry] = []
    for app in [f"G{k}" for k in range(rng.choice([1, 1, 1, 2]))]:
        count = rng.randint(1, 4)
        ports, chains = _channels(rng, count)
        for k in range(count):
            name, ns = f"{app}.t{k}", rng.choice([200 * US, 500 * US, MS, 2 * MS, 3 * MS, 7 * MS])
            how = rng.choice(
                ["declared", "declared", "phases", "measured", "both", "pinned", "estimated"]
            )
            clause = ""
            if how in ("declared", "both"):
                clause = f"wcet {ns} ns"
            elif how == "phases":
                clause = f"wcet [{ns}, {rng.choice([0, ns // 4, ns])}] ns"
            elif how == "pinned":
                pins.append(
                    f"{name} -> {rng.choice(places)}"
                    + rng.choice(["", f" wcet {ns} ns", f" wcet {ns} ns"])
                )
            if rng.random() < 0.4:
                clause += "  stateless"
            lines.append(f"task {app}T{k} {{ {'  '.join(ports[k] or ['out nothing'])}  {clause} }}")
            seen = rng.choice([ns // 10, ns // 2, ns, 2 * ns])
            entries.append(
                Entry(name, "cpu", seen, rng.randint(seen // 2, seen), how == "estimated")
            )
            if gpu and rng.random() < 0.5:
                on_gpu = rng.choice([seen // 3, 4 * seen // 5, 2 * seen])
                entries.append(Entry(name, "gpu", on_gpu, rng.randint(on_gpu // 2, on_gpu)))
        head = _period(rng) if periods else ""
        items = [*(f"t{k}: {app}T{k}" for k in range(count)), *chains]
        apps.append(f"app {app} {{ {head}\n    " + "\n    ".join(items) + "\n}")
    scheduler = rng.choice(["", " scheduler fixed_priority"])
    board = f"cpu core[{cores}]{scheduler}" + ("  gpu volta scheduler fifo" if gpu else "")
    if gpu and rng.random() < 0.3:
        board += "  contention cpu by gpu 1.5  contention gpu by cpu 1.2"
    lines += [*apps, f"platform board {{ {board} }}"]
    if pins:
        lines.append("mapping on board {\n    " + "\n    ".join(pins) + "\n}")
    rng.shuffle(entries)
    return Drawn("\n".join(lines) + "\n", tuple(entries) if profiled else ())


def _channels(rng: random.Random, count: int) -> tuple[list[list[str]], list[str]]:
    """Ports by task, and arrows: connected, with rates that balance, and enough tokens on every
    cycle."""
    firings = [rng.choice([1, 1, 1, 2, 3]) for _ in range(count)]
    arrows = [(rng.choice([k - 1, k - 1, rng.randrange(k)]), k, 0) for k in range(1, count)]
    if count > 2 and rng.random() < 0.3:
        arrows.append((0, count - 1, 0))
    if rng.random() < 0.3:
        at = rng.randrange(count)
        arrows.append((at, at, rng.randint(1, 2)))
    if count > 1 and rng.random() < 0.2:
        arrows.append((count - 1, rng.randrange(count - 1), -rng.randint(1, 2)))
    ports: list[list[str]] = [[] for _ in range(count)]
    chains = []
    for number, (a, b, tokens) in enumerate(arrows):
        whole = lcm(firings[a], firings[b])
        delay = -tokens * whole if tokens < 0 else tokens
        ports[a].append(f"out o{number} rate {whole // firings[a]}")
        ports[b].append(f"in i{number} rate {whole // firings[b]}")
        chains.append(f"t{a}.o{number} -> {f'delay {delay} -> ' if delay else ''}t{b}.i{number}")
    return ports, chains


def _period(rng: random.Random) -> str:
    period = rng.choice([3, 5, 8, 12, 20]) * rng.choice([1, 1, 2])
    head = f"period {period} ms"
    if rng.random() < 0.6:
        head += f"  deadline {rng.choice([period, max(1, period // 2), 2 * period, 3 * period])} ms"
    return head + (f"  priority {rng.randint(0, 2)}" if rng.random() < 0.3 else "")
