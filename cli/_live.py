"""The status of a running program, as tables at the bottom of the terminal."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Group


class LiveTables:
    """Draws the status that a program writes to `descriptor`; its other output goes above.

    A context manager: the program gets the descriptor, which is closed at the end.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), refresh_per_second=4, transient=True)
        reading, self.descriptor = os.pipe()
        self._thread = threading.Thread(target=self._follow, args=(reading,), daemon=True)

    def __enter__(self) -> LiveTables:
        self._live.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from ..driver.execute.live_output import GRACE

        with suppress(OSError):
            os.close(self.descriptor)
        self._thread.join(GRACE)
        self._live.stop()

    def hear(self, name: str, piece: bytes) -> None:
        """A status line of the program."""
        text = piece.decode(errors="replace").rstrip("\n")
        self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _follow(self, reading: int) -> None:
        with open(reading, "rb") as stream:
            for line in stream:
                with suppress(ValueError, KeyError, TypeError):
                    self._live.update(tables(json.loads(line)))


def tables(now: dict[str, Any]) -> Group:
    """Apps, processors and channels at one time."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def table(*heads: str) -> Table:
        made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for k, head in enumerate(heads):
            made.add_column(head, justify="right" if k else "left")
        return made

    apps = table("app", "frames", "frames/s", "last latency ms", "missed", "skipped")
    for name, a in now["apps"].items():
        latency = "-" if a["latency_ms"] is None else f"{a['latency_ms']:.3f}"
        missed = Text(str(a["deadline_misses"]), "bold red" if a["deadline_misses"] else "")
        apps.add_row(
            Text(name), str(a["frames"]), f"{a['fps']:.1f}", latency, missed, str(a["skipped"])
        )
    busy = table("processor", "busy", "")
    for name, share in now["processors"].items():
        busy.add_row(
            Text(name), f"{100 * share:.0f} %", ProgressBar(100, min(100.0, 100 * share), 24)
        )
    held = table("channel between processors", "tokens", "")
    for name, (filled, capacity) in now["channels"].items():
        held.add_row(
            Text(name), f"{filled} of {capacity}", ProgressBar(max(1, capacity), filled, 24)
        )
    state = f", in {now['state']}" if "state" in now else ""
    return Group(
        Text(f"{now['seconds']:.0f} s{state}", "dim"),
        apps,
        busy,
        *([held] if now["channels"] else []),
    )
