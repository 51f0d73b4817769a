"""The hand-written side of twins.py: both applications of examples/twins in one script, without
flowc.

Usage: python twins_peers.py at_once|in_turn|no_spin FOLDER FRAMES

FOLDER holds twins.py and the two networks. Prints what the applications print, then the seconds
that the frames took.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import onnxruntime

# network, seed of the camera
APPS = {"left": ("mobilenet.onnx", 1), "right": ("squeezenet.onnx", 2)}


def options(way: str) -> onnxruntime.SessionOptions:
    """How each way opens its sessions; what is not named here is ONNX Runtime's default."""
    made = onnxruntime.SessionOptions()
    if way == "in_turn":
        made.intra_op_num_threads = 2
    if way == "no_spin":
        made.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return made


def main() -> None:
    """Open everything, then run all frames and take the time."""
    way, folder, frames = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    sys.path.insert(0, str(folder))
    tasks = importlib.import_module("twins")
    loops: list[Callable[[], None]] = []
    tops = []
    for name, (file, seed) in APPS.items():
        session = onnxruntime.InferenceSession(
            folder / file, options(way), providers=["CPUExecutionProvider"]
        )
        camera, top = tasks.Camera(seed), tasks.Top(name)

        def loop(
            session: onnxruntime.InferenceSession = session,
            camera: Callable[[], object] = camera,
            top: Callable[[object], None] = top,
        ) -> None:
            for _ in range(frames):
                image = tasks.prepare(camera())
                (logits,) = session.run(["logits"], {"image": image})
                top(logits)

        loops.append(loop)
        tops.append(top)

    threads = [threading.Thread(target=loop) for loop in loops]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
        if way == "in_turn":
            thread.join()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    for top in tops:
        top.close()
    print(seconds)


if __name__ == "__main__":
    main()
