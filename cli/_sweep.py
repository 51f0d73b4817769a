"""What `map --sweep` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..driver.solve.sweep import SweptAnswer


def table(suppositions: list[SweptAnswer]) -> str:
    """A row per supposition, and below the reasons for infeasible ones."""
    from ..runtime.report import columns

    rows = [["fps", "cores", "", "busiest processor", "of the tightest deadline", "frames/s"]]
    for s in suppositions:
        fps, cores, reached = s.what_if.fps, s.what_if.cores, s.frames_per_second
        rows.append(
            [
                "" if fps is None else f"{float(fps):.4g}",
                "" if cores is None else str(cores),
                s.verdict,
                _percent(s.utilization),
                _percent(s.tightest),
                "-" if reached is None else f"{reached:.4g}",
            ]
        )
    text = columns(_without_empty_columns(rows), left=0)
    reasons: dict[str, None] = {}
    for s in suppositions:
        reasons |= dict.fromkeys(fault.message for fault in s.faults)
    return "\n".join([text, "", *reasons] if reasons else [text])


def _without_empty_columns(rows: list[list[str]]) -> list[list[str]]:
    """The columns in which a row below the header has something."""
    columns = zip(*rows, strict=True)
    kept = [column for column in columns if any(cell not in ("", "-") for cell in column[1:])]
    return [list(row) for row in zip(*kept, strict=True)]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"


def document(suppositions: list[SweptAnswer]) -> list[dict[str, Any]]:
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
        for s in suppositions
    ]
