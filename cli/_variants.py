"""Output of `analyze` for the variants of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..driver.show.alternatives import Sharing, VariantComparison


def variants_table(comparison: VariantComparison) -> str:
    """What flowc shares, what SBRS would share, and its switches."""
    from ..runtime.report import columns

    weights = comparison.weights
    lines = [
        f"network {comparison.network}: variants {', '.join(comparison.variants)}",
        (
            f"  weights         {_mb(weights.separate)} of all, {_mb(weights.distinct)} of them"
            f" different, {_mb(weights.built)} in a program"
        ),
        f"  SBRS as printed {_sharing(comparison.printed, comparison)}",
        f"  made safe       {_sharing(comparison.safe, comparison)}",
    ]
    rows = [["switch", "", "steps as printed", "races", "made safe", "one after the other"]]
    for s in comparison.switches:
        steps = (s.steps, s.races, s.safe_steps, s.steps_in_turn)
        rows.append([s.source, s.target, *map(str, steps)])
    note = (
        "steps are layers, two of which may run at once; flowc changes between two frames, or"
        " breaks off one"
    )
    return "\n".join([*lines, "", columns(rows, left=2), note])


def _sharing(s: Sharing, comparison: VariantComparison) -> str:
    text = f"{s.layers} layers for {comparison.layers}, {s.buffers} buffers for {comparison.edges}"
    if s.overwritten:
        text += f"; {s.overwritten} pairs of tensors of one variant overwrite each other"
    return text


def _mb(count: int) -> str:
    return f"{count / 1e6:.2f} MB"
