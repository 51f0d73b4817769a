"""What `map --sweep` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..driver.solve.sweep import SweptAnswer


def table(found: list[SweptAnswer]) -> str:
    """A row per supposition, and below the reasons for infeasible ones."""
    from ..runtime.report import columns

    rows = [["fps", "cores", "", "busiest processor", "of the tightest deadline", "frames/s"]]
    for s in found:
        rows.append(
            [
                "" if s.what_if.fps is None else f"{float(s.what_if.fps):.4g}",
                "" if s.what_if.cores is None else str(s.what_if.cores),
                s.verdict,
                _percent(s.utilization),
                _percent(s.tightest),
                "-" if s.frames_per_second is None else f"{s.frames_per_second:.4g}",
            ]
        )
    kept = [k for k in range(len(rows[0])) if any(row[k] not in ("", "-") for row in rows[1:])]
    why = dict.fromkeys(d.message for s in found for d in s.faults)
    return "\n".join(
        [columns([[row[k] for k in kept] for row in rows], left=0), *("", *why) * bool(why)]
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"


def document(found: list[SweptAnswer]) -> list[dict[str, Any]]:
    """As in docs/json.md."""
    return [
        {
            "fps": None if s.what_if.fps is None else float(s.what_if.fps),
            "cores": s.what_if.cores,
            "verdict": s.verdict or None,
            "max_utilization": s.utilization,
            "tightest": s.tightest,
            "frames_per_second": s.frames_per_second,
            "why": [d.message for d in s.faults],
        }
        for s in found
    ]
