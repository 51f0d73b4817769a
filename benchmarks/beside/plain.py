"""The application of examples/tracker by hand: one loop with a clock."""

import os
import time
from pathlib import Path

import numpy as np
import onnxruntime
from tracker import Camera, Plan, Track, peaks, prepare

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(
    os.environ["DETECTOR"], options, providers=["CPUExecutionProvider"]
)
camera, track, plan = Camera(), Track(), Plan()
tracks, truth, latencies = [], [], []
begin = time.monotonic()
for number in range(int(os.environ["FRAMES"])):
    time.sleep(max(0.0, begin + 0.02 * number - time.monotonic()))
    began = time.monotonic_ns()
    frame, where = camera()
    truth.append(where)
    if number % 2:
        (heat,) = session.run(None, {"image": prepare(frame[None])})
        tracks.append(track(peaks(heat)))
        latencies.append(time.monotonic_ns() - began)
    if len(truth) == 10:
        plan(np.stack(tracks), np.stack(truth))
        tracks, truth = [], []
Path(os.environ["LATENCIES"]).write_text("\n".join(map(str, latencies)))
Path(os.environ["ERRORS"]).write_text(f"{np.mean(plan.off):.4f} {plan.count}")
