"""The application without flowc: threads around the same functions, as one would write them.

Usage: python plain.py      Needs numpy and a C compiler.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

import numpy as np
from robot import Camera, Drive, Log, plan, verify

HERE = Path(__file__).resolve().parent


class Newest:
    """A queue that keeps the newest items only; None is the end."""

    def __init__(self, keep):
        self.items, self.changed, self.ended, self.dropped = (
            deque(maxlen=keep),
            threading.Condition(),
            False,
            0,
        )

    def put(self, item):
        with self.changed:
            self.dropped += len(self.items) == self.items.maxlen
            self.items.append(item)
            self.changed.notify()

    def end(self):
        with self.changed:
            self.ended = True
            self.changed.notify()

    def take(self):
        with self.changed:
            self.changed.wait_for(lambda: self.items or self.ended)
            return self.items.popleft() if self.items else None


def load_find():
    """find.c as a function of arrays."""
    with tempfile.TemporaryDirectory() as folder:
        library = folder + "/find.so"
        subprocess.run(
            ["cc", "-O2", "-fPIC", "-shared", "-o", library, str(HERE / "find.c")], check=True
        )
        function = ctypes.CDLL(library).find
    function.argtypes = [ctypes.c_void_p] * 4

    def find(frame):
        target = np.zeros(4, np.float32)
        function(None, frame.ctypes.data, target.ctypes.data, None)
        return target

    return find


class Eye:
    """A camera, its detector and its log, with a thread for each; `latest` is what the planner
    looks at."""

    def __init__(self, name, camera, keep, find):
        self.camera, self.find, self.log = camera, find, Log(name)
        self.frames, self.targets = Newest(keep), Newest(64)
        self.latest, self.running = np.zeros(4, np.float32), True
        self.threads = [
            threading.Thread(target=work) for work in (self.deliver, self.look, self.write)
        ]
        for thread in self.threads:
            thread.start()

    def deliver(self):
        try:
            while True:
                self.frames.put(self.camera())
        except StopIteration:
            self.frames.end()

    def look(self):
        while (frame := self.frames.take()) is not None:
            try:
                self.latest = self.find(verify(frame))
                self.targets.put(self.latest)
            except ValueError as error:
                print("%s: %s" % (self.log.name, error), file=sys.stderr)
        self.running = False
        self.targets.end()

    def write(self):
        while (target := self.targets.take()) is not None:
            self.log(target)


def main():
    find = load_find()
    front = Eye("front", Camera(0, 30, 90), 2, find)
    rear = Eye("rear", Camera(180, 15, 45), 1, find)
    drive, due = Drive(), time.perf_counter()
    while front.running or rear.running:
        drive(plan(front.latest, rear.latest, 0, 180))
        due += 0.05
        time.sleep(max(0, due - time.perf_counter()))
    for eye in (front, rear):
        for thread in eye.threads:
            thread.join()
    for part in (drive, front.log, rear.log):
        part.close()


if __name__ == "__main__":
    main()
