"""Output of `analyze` for the variants of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..driver.show.alternatives import Comparison, Sharing


def variants_table(found: Comparison) -> str:
    """What flowc shares, what SBRS would share, and its switches."""
    from ..runtime.report import columns

    weights = found.weights
    lines = [
        f"network {found.network}: variants {', '.join(found.variants)}",
        (
            f"  weights         {_mb(weights.separate)} of all, {_mb(weights.distinct)} of them"
            f" different, {_mb(weights.built)} in a program"
        ),
        f"  SBRS as printed {_sharing(found.printed, found)}",
        f"  made safe       {_sharing(found.safe, found)}",
    ]
    rows = [["switch", "", "steps as printed", "races", "made safe", "one after the other"]]
    rows += [
        [s.source, s.target, str(s.steps), str(s.races), str(s.safe_steps), str(s.steps_in_turn)]
        for s in found.switches
    ]
    told = (
        "steps are layers, two of which may run at once; flowc changes between two frames, or"
        " breaks off one"
    )
    return "\n".join([*lines, "", columns(rows, left=2), told])


def _sharing(s: Sharing, found: Comparison) -> str:
    text = f"{s.layers} layers for {found.layers}, {s.buffers} buffers for {found.edges}"
    if s.overwritten:
        text += f"; {s.overwritten} pairs of tensors of one variant overwrite each other"
    return text


def _mb(count: int) -> str:
    return f"{count / 1e6:.2f} MB"
