"""Texts of programs that can be hurt in many ways by an environment variable, and how to run
them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from forks import PROGRAM, forks

HERE = Path(__file__).parent
#: Against hangs only: a busy machine needs time.
LIMIT = 120.0
TEXT = """
task Source { out n: int64              python "faults.py:Source" }
task Middle { in n: int64  out m: int64  %s }
task Sink   { in m: int64               python "faults.py:Sink" }
app A { %s source: Source  middle: Middle  sink: Sink   source -> middle -> sink }
platform two { cpu core[2] }
mapping on two { A.source -> core[0]  A.middle -> core[1]  A.sink -> core[0] }
"""
NETWORK = 'network Middle from "same.onnx" { in n: int64 from "x"  out m: int64 from "y" }'
Make = Callable[[str], Path]


def written(folder: Path, middle: str = 'python "faults.py:Middle"', period: str = "") -> Path:
    """The text with its tasks."""
    for name in ("faults.py", "faults.c"):
        shutil.copy(HERE / name, folder)
    flow = folder / "chaos.flow"
    flow.write_text(TEXT % (middle, period))
    return flow


def with_network(folder: Path) -> Path:
    """The text with a network in the middle, which returns its input."""
    import onnx
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.INT64, []) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "same.onnx"))
    flow = written(folder)
    lines = [
        NETWORK if line.startswith("task Middle") else line
        for line in flow.read_text().splitlines()
    ]
    flow.write_text("\n".join(lines))
    return flow


def hurt(directory: Path, fault: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program with a fault."""
    command = [directory / "main.py", "--quiet", *arguments]
    return forks(*PROGRAM).run(command, cwd="/", timeout=LIMIT, env=dict(os.environ, FAULT=fault))


def seen(stdout: str) -> int:
    """How many frames the sink saw, each once and in order."""
    frames = [int(line[4:]) for line in stdout.splitlines() if line.startswith("saw ")]
    assert frames == list(range(len(frames)))
    return len(frames)


class Running:
    """A program at work, leader of a group of its own as behind a terminal."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []

    def until(self, start: str) -> None:
        """Read what it prints up to that line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if line.startswith(start):
                return
        raise AssertionError(f"no line {start}")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Wait for it; status and all that it printed. Raises TimeoutExpired.

        `communicate` would miss what `until` has read ahead, which is much where the machine is
        busy.
        """
        said: dict[str, str] = {}

        def read(name: str) -> None:
            said[name] = getattr(self.process, name).read()

        readers = [
            threading.Thread(target=read, args=(name,), daemon=True)
            for name in ("stdout", "stderr")
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(LIMIT)
        if len(said) < len(readers):
            raise subprocess.TimeoutExpired(self.process.args, LIMIT)
        self.process.wait(LIMIT)
        return self.process.returncode, "".join(self.said) + said["stdout"], said["stderr"]


def _as_a_terminal_would() -> None:
    """What runs in the background of a script ignores SIGINT, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def started(directory: Path, fault: str, *arguments: str, **environment: str) -> Iterator[Running]:
    """Start it, and leave nothing behind."""
    command = [sys.executable, str(directory / "main.py"), "--quiet", *arguments]
    with subprocess.Popen(
        command, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "FAULT": fault, **environment}, preexec_fn=_as_a_terminal_would,
    ) as process:  # fmt: skip
        try:
            yield Running(process)
        finally:
            process.kill()
