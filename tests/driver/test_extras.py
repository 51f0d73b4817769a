"""Without an extra, what needs it is refused before anything is done, and everything else works."""

from __future__ import annotations

import sys
from pathlib import Path

import flowc
import pytest
from flowc.cli import app
from flowc.model.diagnostic import Errors
from flowc.search.registry import SEARCHES, Search
from typer.testing import CliRunner

from builds import Write, pretend_runs, store_profile

TEXT = """
task Count { out n: int64  wcet 1 us  python "t.py:count" }
task Show { in n: int64  wcet 1 us  python "t.py:show" }
app A { %s c: Count  s: Show  c -> s }
"""
CODE = "def count(): return 1\ndef show(n): pass\n"


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing but the least was installed."""
    for name in ("matplotlib", "ortools", "deap"):
        monkeypatch.setitem(sys.modules, name, None)


def refused(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1 and done.stderr.startswith("error[F615]"), done.stderr
    return done.stderr


@pytest.mark.usefixtures("plain")
def test_pictures_name_their_extra(write: Write, tmp_path: Path) -> None:
    flow = write(TEXT % "period 1 ms", t_py=CODE)
    assert "`flowc show` needs matplotlib" in refused(
        "show", str(flow), "-o", str(tmp_path / "a.svg")
    )
    said = refused("map", str(flow), "--gantt", str(tmp_path / "a.svg"), "--search", "baseline")
    assert "pip install 'flowc[plots]'" in said
    assert {p.name for p in tmp_path.iterdir()} == {"app.flow", "t.py"}


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("search", SEARCHES, ids=lambda s: f"{s.kind} {s.name}")
def test_searches_name_their_extra_before_anything_is_measured(
    search: Search, write: Write
) -> None:
    flow = write(TEXT % ("period 1 ms" if search.kind == "deadlines" else ""), t_py=CODE)
    told: list[str] = []
    if search.only_for:
        pytest.skip("needs a platform with powers")
    if not search.needs:
        assert flowc.map(flow, search=search.name, budget=1.0, measure=False).mapping.placements
        return
    with pytest.raises(Errors) as raised:
        flowc.map(flow, search=search.name, on_measure=told.append)
    (fault,) = raised.value.diagnostics
    assert (
        fault.code == "F615"
        and search.needs in fault.message
        and "flowc[search]" in fault.help
        and not told
    )


@pytest.mark.usefixtures("plain")
def test_programs_are_built_without_extras(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_runs(monkeypatch)
    flow = write(TEXT % "", t_py=CODE)
    store_profile(flow)
    assert (
        flowc.build(flow, tmp_path / "out").fresh
        and flowc.analyze(flow).apps
        and flowc.map(flow, budget=0.5).path
    )
