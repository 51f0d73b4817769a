"""Programs that are run and waited for."""

from __future__ import annotations

import os
import signal

import pytest
from flowc.driver.execute import live_output
from flowc.driver.execute.live_output import attend
from flowc.machines.host import HERE


def test_what_a_program_leaves_behind_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that it has started, and that goes on, holds its output."""
    monkeypatch.setattr(live_output, "GRACE", 0.1)
    said: list[bytes] = []
    command = ["sh", "-c", "sleep 1000 & echo $!"]
    assert attend(HERE, command, silent=True, cwd=None, hear=lambda _, line: said.append(line)) == 0
    os.kill(int(b"".join(said)), signal.SIGKILL)  # which says that it was still there
