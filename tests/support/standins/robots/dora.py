"""What programs use of dora's node, which hears what a file says (FLOWC_STAND_IN_EVENTS) and prints what it sends.

The file is JSON: a list of events as dora's Python interface has them, with `value` as a list of elements and `dtype`
beside it, `times` for equal ones, and null for a connection that ends.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow


class Node:
    """The node of this process."""

    def __init__(self) -> None:
        self._events = self._all(json.loads(Path(os.environ["FLOWC_STAND_IN_EVENTS"]).read_text()))

    def _all(self, events: list[dict[str, Any] | None]) -> Iterator[dict[str, Any] | None]:
        for event in events:
            if event is not None and event["type"] == "INPUT":
                value = pyarrow.array(np.array(event["value"], event["dtype"]))
                metadata = {"timestamp": None, **event["metadata"]}
                yield from ({**event, "value": value, "metadata": metadata} for _ in range(event.get("times", 1)))
            else:
                yield event

    def next(self, timeout: float) -> dict[str, Any] | None:
        """The next event; one that says so where none comes in time."""
        for event in self._events:
            return event
        time.sleep(timeout)
        return {"type": "ERROR", "error": "Timeout event stream error: Receiver timed out", "kind": "dora"}

    def send_output(self, output_id: str, data: Any, metadata: dict[str, Any]) -> None:
        """Print it."""
        print(output_id, data.to_numpy(zero_copy_only=False).tolist(), json.dumps(metadata), flush=True)
