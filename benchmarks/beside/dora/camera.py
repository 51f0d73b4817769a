"""A frame at every tick, and where everything is in it."""

import os
import time

import pyarrow as pa
from dora import Node
from tracker import Camera

node, camera, count = Node(), Camera(), 0
for event in node:
    if event["type"] != "INPUT":
        continue
    began = time.monotonic_ns()
    frame, truth = camera()
    node.send_output("frame", pa.array(frame.ravel()), {"shape": [*frame.shape], "began": began})
    node.send_output("truth", pa.array(truth.ravel()))
    count += 1
    if count == int(os.environ["FRAMES"]):
        break
