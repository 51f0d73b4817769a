"""HOPES' second translator makes SDF3 of what is exported: an import of that has the same
firings."""

from __future__ import annotations

from math import gcd
from pathlib import Path

import flowc
import pytest
from flowc.interop.hopes.export.export_project import export_project

import hopes_sdf3
from hopes_graphs import firings, random_system


def compared(folder: Path, seed: int) -> int | None:
    """The graphs of a drawn text that were compared; None where it cannot be exported."""
    flow = random_system(seed, folder)
    if flow is None:
        return None
    made = export_project(flow, folder / "out", platform="two")
    wanted = firings(flow, made, 1)
    count = 0
    for name, path in hopes_sdf3.translate(made.directory, made.name).items():
        if "<actor " not in path.read_text():  # no channel, no graph
            continue
        text = flowc.import_(path, folder / "back" / f"{name}.flow").target
        (verdicts,) = flowc.check(text).verdicts.values()
        found = {task.partition(".")[2]: times for task, times in verdicts.repetition.items()}
        ours = {task: wanted[task] for task in found}
        least = gcd(*ours.values())  # the parts of an app have an iteration together
        assert found == {task: times // least for task, times in ours.items()}
        count += 1
    return count


def test_another_tool_of_hopes_counts_the_same(tmp_path: Path) -> None:
    try:
        hopes_sdf3.referee()
    except hopes_sdf3.Missing as why:
        pytest.skip(str(why))
    assert compared(tmp_path, 24) == 3
