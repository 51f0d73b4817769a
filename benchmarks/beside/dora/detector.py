"""Looks at every second frame."""

import os

import numpy as np
import onnxruntime
import pyarrow as pa
from dora import Node
from tracker import peaks, prepare

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(
    os.environ["DETECTOR"], options, providers=["CPUExecutionProvider"]
)
node, count = Node(), 0
for event in node:
    if event["type"] != "INPUT":
        continue
    count += 1
    if count % 2:
        continue
    frame = np.asarray(event["value"]).reshape(event["metadata"]["shape"])
    (heat,) = session.run(None, {"image": prepare(frame[None])})
    node.send_output("found", pa.array(peaks(heat).ravel()), {"began": event["metadata"]["began"]})
