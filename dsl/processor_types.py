"""Types of processors: which a platform has, and those that tasks give times for.

In: the pools of a platform, or the tasks of a text. Out: pools with their types, and errors about
types that no platform has. A type is what a pool says behind `type`, else its name; the pool that
is alone with its kind has the kind instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ..model.diagnostic import did_you_mean, one_of
from ..model.platform import KINDS, Platform, Pool
from ..model.span import Span
from . import syntax as s
from .context import Context
from .parse import Parser


def typed(pools: Iterable[Pool]) -> Iterator[Pool]:
    """The pools of a platform with the types that they are named by."""
    pools = tuple(pools)
    for pool in pools:
        alone = not any(p.kind == pool.kind and p is not pool for p in pools)
        if pool.type != pool.kind or alone or pool.kind == "link":
            yield pool
        else:
            yield replace(pool, type=pool.name)


def check_numbers(pools: Iterable[Pool], span: Span, context: Context) -> None:
    """The CPUs of a machine have numbers of their own, if one of them has any."""
    of_machine: dict[str, list[Pool]] = {}
    for pool in pools:
        if pool.kind == "cpu":
            of_machine.setdefault(pool.machine, []).append(pool)
    for own in of_machine.values():
        numbers = [number for pool in own for number in pool.cores]
        without = [pool.name for pool in own if not pool.cores]
        if len(numbers) != len(set(numbers)):
            twice = next(number for number in numbers if numbers.count(number) > 1)
            message = f"two processors are core {twice} of the operating system"
            help_text = "give each its number in /sys/devices/system/cpu, once"
            context.fault("F543", message, span, help=help_text)
        elif numbers and without:
            message = f"`{without[0]}` does not say which cores it is, and others do"
            help_text = f"give numbers to all CPUs: `cpu {without[0]} ... on [0, 1]`"
            context.fault("F543", message, span, help=help_text)


def times_on_unknown(
    tasks: Iterable[s.TaskDecl],
    platforms: Iterable[Platform],
    shipped: Iterable[Path],
    context: Context,
) -> None:
    """Errors for times on processors that no platform of the text has, and none of the boards that
    come with flowc. A platform that has faults may have them."""
    declared = [time for task in tasks for time in _times(task) if time.on is not None]
    if not declared or context.poisoned:
        return
    pools = [pool for platform in platforms for pool in platform.pools if pool.kind != "link"]
    known = {*KINDS, *(name for pool in pools for name in (pool.name, pool.type))}
    if all(time.on is None or time.on.text in known for time in declared):
        return
    everywhere = known.union(*(_names_in(file) for file in shipped))
    for time in declared:
        if time.on is not None and time.on.text not in everywhere:
            word, names = time.on.text, sorted(known)
            help_text = did_you_mean(word, names) or f"there is {one_of(names)}"
            message = f"no platform has processors of the type `{word}`"
            context.fault("F543", message, time.on.span, help=help_text)


def _times(task: s.TaskDecl) -> Iterator[s.FiringTimeDecl]:
    for item in task.items:
        if isinstance(item, s.WcetDecl):
            yield from item.times


def _names_in(file: Path) -> Iterator[str]:
    """The names of pools and types in the description of a board."""
    specification, _ = Parser().parse(str(file), file.read_text())
    for declaration in specification.declarations:
        for pool in declaration.items if isinstance(declaration, s.PlatformDecl) else ():
            if isinstance(pool, s.PoolDecl):
                yield pool.name.text
                yield from (o.word.text for o in pool.options if o.key == "type")
