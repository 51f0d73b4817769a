"""A trace that Perfetto (ui.perfetto.dev) and Chrome open: a lane per processor, a slice per firing, channel fills."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple


class Tracer:
    """Collects events while the program runs; times are ns of one clock, `begin` is the zero of the trace."""

    def __init__(self) -> None:
        self._firings: List[Tuple[str, str, int, int, int, int]] = []
        self._fills: List[Tuple[str, int, int]] = []

    def firing(self, processor: str, task: str, firing: int, group: int, start: int, end: int) -> None:
        """One run of a task: `group` firings, the first of which is `firing`."""
        self._firings.append((processor, task, firing, group, start, end))

    def fill(self, channel: str, tokens: int, time: int) -> None:
        """Tokens on a channel at that time."""
        self._fills.append((channel, tokens, time))

    def events(self, begin: int) -> Dict[str, Any]:
        """Everything as Chrome trace JSON."""
        lanes: Dict[str, int] = {}
        events: List[Dict[str, Any]] = []
        for processor, task, firing, group, start, end in self._firings:
            lane = lanes.setdefault(processor, len(lanes) + 1)
            events.append(
                {
                    "ph": "X", "name": task, "pid": 1, "tid": lane, "ts": (start - begin) / 1000,
                    "dur": (end - start) / 1000, "args": {"firing": firing, "firings": group},
                }
            )  # fmt: skip
        for channel, tokens, time in self._fills:
            events.append(
                {"ph": "C", "name": channel, "pid": 1, "ts": (time - begin) / 1000, "args": {"tokens": tokens}}
            )
        for name, lane in lanes.items():
            events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": lane, "args": {"name": name}})
        return {"traceEvents": events, "displayTimeUnit": "ms"}
