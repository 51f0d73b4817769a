"""Shares of CPUs: whether the places of apps with a share let a program keep it.

In: apps, and places of their tasks. Out: a diagnostic for each place with which it cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from ..model.application import Application
from ..model.diagnostic import Diagnostic
from ..model.mapping import Placement
from ..model.platform import Platform


def unkept(
    apps: Sequence[Application], platform: Platform, places: Mapping[str, Placement]
) -> Iterator[Diagnostic]:
    """Tasks whose work is not that of one thread, and CPUs of which nothing is left."""
    taken: dict[str, Fraction] = {}
    for app in apps:
        if app.share is None:
            continue
        processors: set[str] = set()
        for task in app.tasks:
            place = places.get(task.name)
            if place is None:
                continue
            processors.update(place.processors)
            if place.threads > 1 or place.process:
                where = "several threads" if place.threads > 1 else "a process of its own"
                message = f"`{task.name}` has {where}, and `{app.name}` a share of its CPU"
                help_text = "leave out `threads` and `process`, or `share`"
                yield Diagnostic("F223", message, app.share.span, help=help_text)
        for name in sorted(processors):
            if platform.pool_of(name).kind != "cpu":
                continue
            taken[name] = taken.get(name, Fraction(0)) + app.share.part
            if taken[name] > 1:
                message = f"shares of `{name}` are {float(100 * taken[name]):g} % together"
                help_text = "make them smaller, or pin one of the apps elsewhere"
                yield Diagnostic("F223", message, app.share.span, help=help_text)
