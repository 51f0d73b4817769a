"""Each step is taken once: a verb reads, parses, rewrites and judges a text a single time, through
the one driver.

Steps are counted wherever a module holds the function.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import flowc
import flowc.analysis.dataflow.check as judging
import flowc.dsl.load as loading
import flowc.passes as passes
import pytest
from flowc.cli import app
from flowc.dsl.parse import Parser
from flowc.model.diagnostic import Diagnostic, Errors
from typer.testing import CliRunner

from builds import HANGS, Write, store_profile

for _driver in (
    "build.build",
    "exchange.export",
    "exchange.import_",
    "execute.run",
    "measure.measure",
    "show.analyze",
    "show.networks",
    "show.show",
    "solve.map",
    "text.check",
):
    import_module(f"flowc.driver.{_driver}")

PARTS = """
task Source { out x: int64  python "code.py:source"  wcet 1 ms }
task Half { in x: int64  out y: int64  python "code.py:half"  wcet 1 ms }
task Sink { in y: int64  python "code.py:sink"  wcet 1 ms }
"""
TEXT = """
use "parts.flow"
app A {{ {period} source: Source   half: Half   sink: Sink   source -> half -> sink }}
app B {{ {period} source: Source   half: Half   sink: Sink   source -> half -> sink }}
platform board {{ cpu core[2] }}
"""
CODE = "def source(): return 1\ndef half(x): return x\ndef sink(y): pass\n"
VERBS = {
    "check": ["check"],
    "check --json": ["check", "--json"],
    "analyze": ["analyze"],
    "analyze --buffers": ["analyze", "--buffers", "--json"],
    "show": ["show", "-o", "graph.svg"],
    "show --gantt": ["show", "--gantt", "-o", "chart.svg"],
    "export": ["export", "--app", "A", "-o", "a.xml"],
    "build": ["build", "-o", "out"],
    "map": ["map", "--budget", "200ms", "--explain"],
}


def counted(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], key: Callable[..., object]
) -> list[object]:
    """What each call of a function was about, from every caller."""
    seen: list[object] = []

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        seen.append(key(*args))
        return function(*args, **kwargs)

    holders = [m for name, m in sorted(sys.modules.items()) if name.split(".")[0] == "flowc"]
    for module in holders:
        for name, held in list(vars(module).items()):
            if held is function:
                monkeypatch.setattr(module, name, wrapped)
    return seen


@pytest.fixture
def flow(write: Write) -> Path:
    path = write(TEXT.format(period=""), code_py=CODE)
    path.with_name("parts.flow").write_text(PARTS)
    return path


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("period", ["", "period 20 ms"])
@pytest.mark.parametrize("verb", VERBS)
def test_each_step_is_taken_once(
    flow: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    verb: str,
    period: str,
    mapped: bool,
) -> None:
    """With a stored profile; with a stored mapping or without."""
    flow.write_text(TEXT.format(period=period))
    monkeypatch.chdir(tmp_path)
    store_profile(flow, platform="board")
    if mapped:
        flowc.map(flow, platform="board", budget=0.2)
        assert (tmp_path / "app.board.mapping.json").exists()
    loads = counted(monkeypatch, loading.load, lambda path, *rest: Path(path).name)
    stages = counted(monkeypatch, passes.stage, lambda system, *rest: system.stem)
    verdicts = counted(monkeypatch, judging.check, lambda app, *rest: app.name)
    parsed: list[str] = []
    parse = Parser.parse

    def once_more(self: Parser, path: str, text: str) -> Any:
        parsed.append(Path(path).name)
        return parse(self, path, text)

    monkeypatch.setattr(Parser, "parse", once_more)
    name, *words = VERBS[verb]
    done = CliRunner().invoke(app, [name, str(flow), "--platform", "board", *words])
    assert done.exit_code == 0, done.output
    assert loads == ["app.flow"]
    assert sorted(parsed) == ["app.flow", "parts.flow"]
    assert stages == ["app"]
    assert sorted(str(v) for v in verdicts) == ["A", "B"]


FACES = {
    "check": ("text.measured", "check", "check"),
    "load": ("text.check", "check", ""),  # there is no such verb
    "analyze": ("show.analyze", "analyze", "analyze"),
    "export": ("exchange.export", "export", "export"),
    "import_": ("exchange.import_", "import_", "import"),
    "map": ("solve.map", "find_mapping", "map"),
    "build": ("build.build", "build", "build"),
    "profile": ("measure.measure", "profile", "profile"),
    "run": ("execute.run", "run", "run"),
    "test": ("execute.run", "test", "test"),
}


@pytest.mark.parametrize("face", FACES)
def test_python_and_the_command_line_call_the_same_function(
    flow: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, face: str
) -> None:
    module, function, verb = FACES[face]
    calls: list[Path] = []

    def called(path: Path, *args: object, **kwargs: object) -> None:
        calls.append(Path(path))
        raise Errors([Diagnostic("F002", "called", None)])

    monkeypatch.setattr(f"flowc.driver.{module}.{function}", called)
    monkeypatch.chdir(tmp_path)
    if face != "load":
        assert getattr(flowc, face) is called
    with pytest.raises(Errors, match="called"):
        getattr(flowc, face)(flow)
    assert calls == [flow]
    if verb:
        done = CliRunner().invoke(app, [verb, str(flow)])
        assert done.exit_code == 1 and "called" in done.stderr
        assert calls == [flow, flow]


def test_every_verb_of_the_python_face_is_tried() -> None:
    # a program is opened in tests/runtime/test_embed.py
    no_verbs = ("Errors", "__version__", "open")
    assert set(FACES) == {name for name in flowc.__all__ if name not in no_verbs}


# -- what check leaves alone -----------------------------------------------------------------------
WATCH = """
import json, sys
from flowc.cli import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    status = end.code
json.dump({"status": status, "modules": sorted(sys.modules)}, open("watched.json", "w"))
"""
FOREIGN = ("numpy", "networkx", "onnx", "jinja2", "matplotlib", "scipy", "ortools", "onnxruntime")
LATER = ("flowc.codegen", "flowc.search", "flowc.report", "flowc.interop")


def watched(flow: Path, *words: str) -> tuple[int, set[str]]:
    """The status of a verb in a process of its own, and the modules that it imported."""
    command = [sys.executable, "-c", WATCH, *words]
    subprocess.run(command, cwd=flow.parent, capture_output=True, timeout=HANGS, check=True)
    found = json.loads((flow.parent / "watched.json").read_text())
    return found["status"], set(found["modules"])


@pytest.mark.parametrize(
    ("period", "status", "needed"),
    [
        ("", 0, []),
        ("period 20 ms", 0, []),
        ("period 500 us", 1, []),
        ("period 20 ms  deadline 1 ms", 1, ["numpy"]),  # the longest path through the graph
    ],
)
def test_check_imports_what_it_needs_and_no_more(
    flow: Path, period: str, status: int, needed: list[str]
) -> None:
    flow.write_text(TEXT.format(period=period))
    found, modules = watched(flow, "check", "app.flow", "--platform", "board")
    assert found == status and "flowc.driver.text.check" in modules
    assert [m for m in FOREIGN if m in modules] == needed
    assert sorted(m for m in modules if m.startswith(LATER)) == []


def test_check_runs_no_code_of_tasks(flow: Path) -> None:
    """Nor does it compile any: Python and C are only read."""
    traces = "import pathlib\npathlib.Path('it_ran').touch()\n"
    flow.with_name("code.py").write_text(traces + CODE)
    flow.with_name("conftest.py").write_text(traces)
    flow.with_name("step.c").write_text(
        '#include "step.h"\nvoid step(const int64_t *x, int64_t *y) { *y = *x; }\n'
    )
    flow.with_name("step.h").write_text("#include <stdint.h>\n")
    parts = PARTS.replace('python "code.py:half"', 'c "step.c:step"')
    flow.with_name("parts.flow").write_text(parts)
    before = {p.name for p in flow.parent.iterdir()}
    status, modules = watched(flow, "check", "app.flow", "--platform", "board")
    assert status == 0 and "code" not in modules
    assert {p.name for p in flow.parent.iterdir()} - before == {"watched.json"}
