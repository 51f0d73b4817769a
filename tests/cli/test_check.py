"""What `check` says of several apps: each alone, and the sum of the work of all."""

from __future__ import annotations

from pathlib import Path

import pytest
from flowc.cli import app as flowc
from typer.testing import CliRunner

TASKS = "task S { out x wcet 4 ms }\ntask K { in x wcet 4 ms }\n"
ONE = "platform p { cpu core }\n"
TWO = "platform p { cpu core[2] gpu g }\n"


def app(name: str, period: int = 10) -> str:
    return f"app {name} {{ period {period} ms deadline 40 ms s: S k: K s -> k }}\n"


def pins(**cores: int) -> str:
    places = [f"{name}.{task} -> core[{n}]" for name, n in cores.items() for task in "sk"]
    return f"mapping on p {{ {' '.join(places)} }}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (app("A") + app("B") + app("C") + ONE, "with `B` and `C` it needs 2.40 CPUs"),
        (app("A", 5) + app("B", 5) + app("C") + TWO, "with `B` and `C` it needs 4.00 CPUs"),
        (app("A", 5) + ONE, "it needs 1.60 CPUs by declared times, and there is 1"),
        (app("A") + app("B") + TWO + pins(A=0, B=0), "with `B` it needs 160 % of the time of"),
        (app("A") + app("B") + app("C", 20) + TWO, ""),
        (app("A") + app("B") + TWO + pins(A=0, B=1), ""),
        (app("A") + app("B", 40) + ONE, ""),
    ],
)
def test_more_work_than_there_is_time_is_a_no(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "a.flow"
    path.write_text(TASKS + text)
    result = CliRunner().invoke(flowc, ["check", str(path), "--platform", "p"])
    said = " ".join(result.output.split())
    if why:
        assert (
            result.exit_code == 1 and f"schedulable no {why}" in said and "judged alone" not in said
        )
    else:
        assert result.exit_code == 0 and "schedulable no" not in said and "judged alone" in said
