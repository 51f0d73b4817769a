"""Programs are built once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from builds import build, with_processes

from .programs import Make, with_network, written


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """The directory of a program: tasks as `threads` or `processes`, `paced`, with a middle in `c`,
    or a `network`."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            if kind == "network":
                flow = with_network(folder)
            else:
                middle = 'c "faults.c:middle"' if kind == "c" else 'python "faults.py:Middle"'
                flow = written(folder, middle, "period 10 ms" if kind == "paced" else "")
            made[kind] = build(flow, folder / "out", platform="two")
            if kind == "processes":
                main = made[kind] / "main.py"
                text, count = re.subn(
                    r"( +)(Python\(.*\)),\n", r"\1Process(\2),\n", main.read_text()
                )
                assert count == 3
                with_processes(made[kind], text)
        return made[kind]

    return make
