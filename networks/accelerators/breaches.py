"""The layers of a network that an accelerator cannot run, and what is left of it.

In: breaches of rules. Out: the longest legal runs of layers, rows of a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Breach:
    """A layer, called after its first output tensor, that breaks `rule`; `detail` is what it has
    instead.
    """

    layer: str
    op: str
    rule: str
    detail: str


@dataclass(frozen=True, slots=True)
class LegalRun:
    """`count` legal layers from `first` to `last` that follow each other in the file."""

    first: str
    last: str
    count: int


@dataclass(frozen=True, slots=True)
class Row:
    """`count` layers of one operator that break one rule; `layers` names some of them."""

    op: str
    count: int
    rule: str
    layers: str


def legal_runs(layers: Iterable[str], breached: Iterable[Breach]) -> tuple[LegalRun, ...]:
    """The runs of layers without a breach, longest first; `layers` are all names in order (those of
    a `Chain`).

    A run lies between two cuts of the chain, so it can be a stage of its own.
    """
    illegal = {b.layer for b in breached}
    groups = (list(g) for legal, g in groupby(layers, lambda name: name not in illegal) if legal)
    runs = (LegalRun(g[0], g[-1], len(g)) for g in groups)
    return tuple(sorted(runs, key=lambda run: -run.count))


def summary(breached: Iterable[Breach], shown: int = 3) -> tuple[Row, ...]:
    """Rows of the table op | count | rule | layers, most layers first; at most `shown` layers are
    named in a row.
    """
    layers: dict[tuple[str, str], list[str]] = {}
    for breach in breached:
        layers.setdefault((breach.op, breach.rule), []).append(breach.layer)
    rows = []
    for (op, rule), names in layers.items():
        listed = ", ".join(names[:shown])
        if len(names) > shown:
            listed += f" and {len(names) - shown} more"
        rows.append(Row(op, len(names), rule, listed))
    return tuple(sorted(rows, key=lambda row: -row.count))
