"""What programs use of dora's node, which hears what a file says (FLOWC_STAND_IN_EVENTS) and prints
what it sends.

The file is JSON: a list of events as dora's Python interface has them, with `value` as a list of
elements and `dtype` beside it, `times` for equal ones, and null for a connection that ends.
`{"after": [OUTPUT, N]}` comes when so many tokens were sent there, and is not heard of.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow


class Node:
    """The node of this process."""

    def __init__(self) -> None:
        self._sent: Counter[str] = Counter()
        self._events = self._all(json.loads(Path(os.environ["FLOWC_STAND_IN_EVENTS"]).read_text()))

    def _all(self, events: list[dict[str, Any] | None]) -> Iterator[dict[str, Any] | None]:
        for event in events:
            if event is not None and "after" in event:
                output, count = event["after"]
                while self._sent[output] < count:
                    time.sleep(0.001)
            elif event is not None and event["type"] == "INPUT":
                value = pyarrow.array(np.array(event["value"], event["dtype"]))
                metadata = {"timestamp": None, **event["metadata"]}
                yield from (
                    {**event, "value": value, "metadata": metadata}
                    for _ in range(event.get("times", 1))
                )
            else:
                yield event

    def node_config(self) -> dict[str, Any]:
        """Its part of the dataflow: another node says what was taken of `brightness`."""
        return {
            "inputs": {"image": "camera/image", "brightness.taken": {"source": "show/taken"}},
            "outputs": [],
        }

    def dataflow_descriptor(self) -> dict[str, Any]:
        """The dataflow: the camera wants to know what was taken of `image`."""
        camera = {
            "id": "camera",
            "inputs": {"taken": {"source": "node/image.taken"}},
            "outputs": ["image"],
        }
        return {"nodes": [camera, {"id": "node", **self.node_config()}, {"id": "other"}]}

    def next(self, timeout: float) -> dict[str, Any] | None:
        """The next event; one that says so where none comes in time."""
        for event in self._events:
            return event
        time.sleep(timeout)
        return {
            "type": "ERROR",
            "error": "Timeout event stream error: Receiver timed out",
            "kind": "dora",
        }

    def send_output(self, output_id: str, data: Any, metadata: dict[str, Any]) -> None:
        """Print it."""
        print(
            output_id,
            data.to_numpy(zero_copy_only=False).tolist(),
            json.dumps(metadata),
            flush=True,
        )
        self._sent[output_id] += 1
