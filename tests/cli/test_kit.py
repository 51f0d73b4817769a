"""`flowc new --kit`: what deploys and tests an application on other machines; and what a build
needs there."""

from __future__ import annotations

import configparser
import re
import shlex
import subprocess
import sys
from pathlib import Path

import flowc
import onnx
import pytest
from flowc.cli import app
from flowc.machines.whoami import version_of
from typer.testing import CliRunner

from builds import HANGS, Write, store_profile
from cnns import mobilenet

KIT = {"Dockerfile", ".dockerignore", ".github", ".gitignore", "requirements.txt"}


def new(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["new", *words])
    return done.exit_code, done.stdout, done.stderr


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_a_kit_comes_with_a_starter_or_beside_a_text(tmp_path: Path) -> None:
    assert new(str(tmp_path / "My_App"), "--kit")[0] == 0
    assert names(tmp_path / "My_App") == {
        "My_App.flow",
        "tasks.py",
        "README.md",
        "my-app.service",
        *KIT,
    }
    own = tmp_path / "own"
    own.mkdir()
    (own / "spot.flow").write_text("app A { }\n")
    assert new(str(own), "--kit")[0] == 0
    assert names(own) == {"spot.flow", "spot.service", *KIT}


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (["a.flow", "Dockerfile", ".gitignore"], "has `Dockerfile` and `.gitignore` already"),
        (["a.flow", "b.flow"], "has several texts: `a.flow` and `b.flow`"),
        (["a b.flow"], "`a b.flow` has a name that would need quotes"),
        (["notes.txt"], "is not empty"),
    ],
)
def test_a_kit_replaces_nothing(there: list[str], said: str, tmp_path: Path) -> None:
    for name in there:
        (tmp_path / name).write_text("mine")
    status, _, stderr = new(str(tmp_path), "--kit")
    assert status == 1 and "F604" in stderr and said in stderr
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == dict.fromkeys(there, "mine")


def test_the_commands_of_a_kit_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines that call flowc in the recipes, with nothing measured beforehand."""
    project = tmp_path / "spot"
    assert new(str(project), "--kit")[0] == 0
    recipe = (project / ".github" / "workflows" / "flowc.yml").read_text()
    steps = re.findall(r"^      - run: (flowc .*)$", recipe, re.MULTILINE)
    docker = (project / "Dockerfile").read_text()
    steps += re.findall(r"^RUN (flowc .*)$", docker, re.MULTILINE)
    assert [s.split()[1] for s in steps] == ["check", "build", "test", "build"]
    for step in steps:
        words = shlex.split(step.replace("/program", str(tmp_path / "program")))
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=HANGS,
            check=False,
        )
        assert done.returncode == 0 and "measuring" not in done.stderr, done.stderr
    assert (project / "build" / "tests.xml").read_text().startswith("<testsuites")
    assert (tmp_path / "program" / "main.py").is_file() and (
        tmp_path / "program" / "requirements.txt"
    ).is_file()
    assert 'ENTRYPOINT ["python", "/program/main.py"]' in docker and "STOPSIGNAL SIGTERM" in docker


def test_the_unit_knows_how_a_program_ends(tmp_path: Path) -> None:
    assert new(str(tmp_path / "spot"), "--kit")[0] == 0
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(tmp_path / "spot" / "spot.service")
    service = dict(unit["Service"])
    assert service["ExecStart"] == "/opt/spot-python/bin/python /opt/spot/main.py"
    assert service["SuccessExitStatus"] == "143" and service["KillSignal"] == "SIGTERM"
    # frames in flight get 5 s
    assert service["Restart"] == "on-failure" and float(service["TimeoutStopSec"]) > 5


# -- what a build needs ----------------------------------------------------------------------------
def requirements(directory: Path) -> list[str]:
    return [
        x
        for x in (directory / "requirements.txt").read_text().splitlines()
        if not x.startswith("#")
    ]


def test_a_program_without_networks_needs_numpy_alone(write: Write, tmp_path: Path) -> None:
    flow = write(
        'task T { out n: int64  python "t.py:t" }\napp A { t: T }', t_py="def t(): return 1\n"
    )
    store_profile(flow)
    assert requirements(flowc.build(flow, tmp_path / "out").directory) == ["numpy>=1.17.3"]


NETWORK = """
task Source { out x: float32[1, 3, 32, 32]  python "t.py:source" }
network Net from "net.onnx" { batch 1  in x from "image"  out y from "scores" }
task Sink { in y: float32[1, 10]  python "t.py:sink" }
app A { source: Source  net: Net  sink: Sink  source -> net -> sink }
platform pc { cpu core  gpu ada }
platform board { cpu core  gpu ampere  tensorrt "10.3" }
"""


@pytest.mark.parametrize("platform", ["host", "pc", "board"])
def test_networks_need_the_library_that_they_were_built_with(
    platform: str, write: Write, tmp_path: Path
) -> None:
    pin = f"mapping on {platform} {{ A.net -> ampere }}" if platform == "board" else ""
    pin = f"mapping on {platform} {{ A.net -> ada }}" if platform == "pc" else pin
    flow = write(NETWORK + pin, t_py="def source(): pass\ndef sink(y): pass\n")
    onnx.save(mobilenet(), tmp_path / "net.onnx")
    directory = flowc.build(flow, tmp_path / "out", platform=platform, measure=False).directory
    if platform == "host":
        version = version_of("onnxruntime")
        assert requirements(directory) == [
            "numpy>=1.17.3",
            f'onnxruntime=={version}; python_version >= "3.11"',
            'onnxruntime>=1.17; python_version < "3.11"',
        ]
    elif platform == "pc":
        assert (
            requirements(directory)[1].startswith("onnxruntime-gpu")
            and "cuda-python" in requirements(directory)[-1]
        )
    else:
        assert requirements(directory) == ["numpy>=1.17.3", "cuda-python  # or PyCUDA"]
        assert "# TensorRT 10.3: NVIDIA's package" in (directory / "requirements.txt").read_text()
