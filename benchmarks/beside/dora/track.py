"""Tracks of what was found, and how long each took from the camera on."""

import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from dora import Node
from tracker import Track

node, track, latencies = Node(), Track(), []
for event in node:
    if event["type"] != "INPUT":
        continue
    tracks = track(np.asarray(event["value"]).reshape(3, 3))
    latencies.append(time.monotonic_ns() - event["metadata"]["began"])
    node.send_output("tracks", pa.array(tracks.ravel()))
Path(os.environ["LATENCIES"]).write_text("\n".join(map(str, latencies)))
