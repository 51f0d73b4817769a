"""A program that runs: its page in a browser (the verb `view`), and tables in a terminal (`run
--live`)."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flowc.cli import app
from flowc.cli._live import tables
from flowc.cli.view import _in_browser
from rich.console import Console
from typer.testing import CliRunner

from builds import HANGS, Write, store_profile
from forks import FLOWC, forks
from limits import next_line

TEXT = """
task Count { out n: int64  python "t.py:Count" }
task Show { in n: int64  python "t.py:show" }
app Slow { period 20 ms  count: Count  show: Show  count -> show }
"""
CODE = """
class Count:
    n = 0
    def __call__(self):
        self.n += 1
        return self.n
def show(n): print("shown", n)
"""


@pytest.fixture
def viewing(write: Write, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the address that it has printed. Proxies of the environment have no part in
    it."""
    flow = write(TEXT, t_py=CODE)
    store_profile(flow)
    command = [sys.executable, "-m", "flowc", "view", str(flow), "--no-browser"]
    proxies = {"http_proxy": "http://192.0.2.1:9", "HTTP_PROXY": "http://192.0.2.1:9"}
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, **proxies},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process, next_line(process).strip()
        process.kill()


@pytest.mark.browser
def test_a_page_follows_the_program_and_ctrl_c_ends_both(
    browser: Any, viewing: tuple[subprocess.Popen[str], str]
) -> None:
    from playwright.sync_api import expect

    process, address = viewing
    context = browser.new_context()
    said: list[str] = []
    shown = context.new_page()
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.goto(address)
    frames = shown.locator('[data-live="Slow frames"]')
    frames.wait_for(timeout=1000 * HANGS)
    first = int(frames.inner_text())
    expect(frames).not_to_have_text(str(first), timeout=1000 * HANGS)
    assert int(frames.inner_text()) > first
    assert "Running for" in shown.locator("#live").inner_text()
    assert shown.locator("#live .meter").count() >= 1
    process.send_signal(signal.SIGINT)
    assert process.wait(HANGS) == 130
    assert said == []
    context.close()


def test_a_port_that_is_taken_is_said_so(
    viewing: tuple[subprocess.Popen[str], str], write: Write, tmp_path: Path
) -> None:
    process, address = viewing
    port = address.split(":")[2].split("/")[0]
    done = CliRunner().invoke(
        app, ["view", str(tmp_path / "app.flow"), "--no-browser", "--port", port]
    )
    assert done.exit_code == 1 and "F623" in done.stderr and port in done.stderr
    process.send_signal(signal.SIGTERM)
    assert process.wait(HANGS) == 143


# -- in the terminal -------------------------------------------------------------------------------
NOW = {
    "seconds": 12.5,
    "apps": {"Slow": {"frames": 625, "fps": 50.0, "latency_ms": 1.25, "deadline_misses": 2, "skipped": 0},
             "[red]Free": {"frames": 0, "fps": 0.0, "latency_ms": None, "deadline_misses": 0, "skipped": 0}},
    "processors": {"cpu[0]": 0.987},
    "channels": {"Slow.count.n->Slow.show.n": [2, 3]},
}  # fmt: skip


def test_tables_of_a_running_program() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(tables(NOW))
    lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert lines[0] == "12 s" and "Slow 625 50.0 1.250 2 0" in lines
    assert "[red]Free 0 0.0 - 0 0" in lines
    assert any(line.startswith("cpu[0] 99 %") for line in lines)
    assert any(line.startswith("Slow.count.n->Slow.show.n 2 of 3") for line in lines)


def test_what_a_program_says_stands_above_its_tables(write: Write, tmp_path: Path) -> None:
    """Where the output is no terminal, there are the words of the program, and the table at its
    end."""
    flow = write(TEXT, t_py=CODE)
    store_profile(flow)
    words = ["run", str(flow), "--live", "--frames", "20", "-o", str(tmp_path / "out")]
    done = forks(*FLOWC).run(["-m", "flowc", *words], cwd=tmp_path, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    assert (
        "shown 20" in done.stderr and "latency ms" in done.stderr and "Traceback" not in done.stderr
    )


def test_a_browser_gets_a_file_that_only_its_user_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments of processes can be read by all users of a machine: the address is none."""
    opened: list[str] = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", opened.append)
    text, address = tmp_path / "app.flow", "http://127.0.0.1:1/secret/"
    for beside in (text, tmp_path / "no" / "such.flow"):
        with _in_browser(address, beside):
            file = Path(opened[-1].removeprefix("file://"))
            assert address not in opened[-1] and f"url={address}" in file.read_text()
            assert file.stat().st_mode & 0o777 == 0o600
            assert (file.parent == tmp_path) == (beside == text)
        assert not file.exists()
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with _in_browser(address, text):
        assert len(opened) == 2
