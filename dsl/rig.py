"""Platforms of several machines, and the links between these: syntax to model.

In: `machine` and `link` of a platform. Out: the machines' processors under names such as
`front.core[0]`, and each direction of a link as a processor of its own, `front->back`, which runs
one transfer at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

from ..model.diagnostic import did_you_mean, one_of
from ..model.platform import Contention, Pool, Wire
from ..model.span import Span
from . import syntax as s
from .context import Context
from .evaluate import Evaluator


def names_of(
    machines: Iterable[s.MachineDecl], declaration: s.PlatformDecl, context: Context
) -> tuple[str, ...]:
    """The names of the machines, each once."""
    seen: dict[str, Span] = {}
    for machine in machines:
        name = machine.name
        if name.text in seen:
            context.called_twice("machines", name, seen[name.text])
        seen.setdefault(name.text, name.span)
    alone = next((i for i in declaration.items if isinstance(i, s.PoolDecl)), None)
    if seen and alone is not None:
        message = (
            f"`{alone.name.text}` belongs to no machine, and `{declaration.name.text}` has machines"
        )
        help_text = f"put it inside of one: `machine {next(iter(seen))} {{ ... }}`"
        context.fault("F528", message, alone.name.span, help=help_text)
    for item in declaration.items:
        if seen and isinstance(item, s.ContentionDecl):
            message = (
                f"contention is within one machine: which `{item.victim.text}` is meant is not"
                " clear"
            )
            help_text = f"put it inside of one: `machine {next(iter(seen))} {{ ... }}`"
            context.fault("F528", message, item.span, help=help_text)
    return tuple(seen)


def pools(machine: s.MachineDecl, own: Iterable[Pool]) -> Iterator[Pool]:
    """The processors of a machine as those of the platform."""
    for pool in own:
        yield replace(pool, name=f"{machine.name.text}.{pool.name}", machine=machine.name.text)


def contention(
    machine: s.MachineDecl, own: Iterable[Pool], declared: Iterable[Contention]
) -> Iterator[Contention]:
    """How the processors of a machine disturb each other: a kind means those of this machine."""
    own = tuple(own)

    def named(word: str) -> list[str]:
        meant = [pool for pool in own if word in (pool.name, pool.kind)]
        return [f"{machine.name.text}.{pool.name}" for pool in meant]

    for item in declared:
        for victim in named(item.victim):
            for aggressor in named(item.aggressor):
                yield Contention(victim, aggressor, item.factor)


def wires(
    declaration: s.PlatformDecl, machines: tuple[str, ...], context: Context, evaluate: Evaluator
) -> tuple[Wire, ...]:
    """Both ways of every link."""
    directions: dict[tuple[str, str], Wire] = {}
    for item in declaration.items:
        if not isinstance(item, s.WireDecl):
            continue
        ends = item.ends[0].text, item.ends[1].text
        unknown = [end for end in item.ends if not _known(end, machines, context)]
        rate = _rate(item, context, evaluate)
        latency = evaluate.quantity(
            item.latency.amount, item.latency.unit, "time", "the latency of a link", {}
        )
        if unknown:
            continue
        if ends[0] == ends[1]:
            message = f"this link leads from `{ends[0]}` to itself"
            context.fault("F529", message, item.ends[1].span, help="name two machines")
        elif ends in directions:
            message = f"`{ends[0]}` and `{ends[1]}` are joined twice"
            help_text = "declare one link with the bandwidth of both"
            context.repeated("F529", message, item.span, directions[ends].span, help=help_text)
        elif rate is not None and latency is not None:
            for source, destination in (ends, ends[::-1]):
                directions[source, destination] = Wire(
                    source, destination, latency, rate, item.span
                )
    return tuple(directions.values())


def _known(end: s.Word, machines: tuple[str, ...], context: Context) -> bool:
    if end.text in machines:
        return True
    help_text = "declare it: `machine`"
    if machines:
        help_text = did_you_mean(end.text, machines) or f"there is {one_of(machines)}"
    context.fault("F529", f"there is no machine `{end.text}` here", end.span, help=help_text)
    return False


def _rate(item: s.WireDecl, context: Context, evaluate: Evaluator) -> Fraction | None:
    """The ns that a byte takes."""
    per_second = evaluate.quantity(
        item.rate.amount, item.rate.unit, "memory", "the rate of a link", {}
    )
    if item.per.text != "s":
        context.fault(
            "F529",
            "the rate of a link is given per second",
            item.per.span,
            help="write for example `110 MB/s`",
        )
        return None
    if per_second == 0:
        context.fault(
            "F529",
            "this link carries nothing",
            item.rate.span,
            help="give its rate, such as `110 MB/s`",
        )
    return Fraction(10**9) / per_second if per_second else None


def links(wires: Iterable[Wire]) -> Iterator[Pool]:
    """Each way of a link as a pool of one processor, on the machine that sends."""
    for wire in wires:
        yield Pool(wire.processor, "link", 1, False, "fifo", machine=wire.source)
