"""What workers do in tests: functions of a module, as workers need them."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def added(shared: int, own: int) -> int:
    """A sum."""
    return shared + own


def refusing(shared: str, own: int) -> int:
    """Fails for one of its inputs."""
    if own == 1:
        raise ValueError(shared)
    return own


def dying(mark: str, own: int) -> int:
    """The first that comes here dies, with all that it was given."""
    if own == 1:
        try:
            Path(mark).touch(exist_ok=False)
        except FileExistsError:
            return own
        os.kill(os.getpid(), signal.SIGKILL)
    return own


def always_dying(own_pid: int, own: int) -> int:
    """Dies in every process but one."""
    if os.getpid() != own_pid:
        os.kill(os.getpid(), signal.SIGKILL)
    return own
