"""The Python tasks of robot.flow: a ball rolls around a robot, and two cameras look for it."""

from __future__ import annotations

import time
import zlib

import numpy as np

WIDTH, HEIGHT, SIGHT = 128, 96, 60  # pixels, and degrees that a camera sees to either side
SPEED, RADIUS = 90, 9  # of the ball: degrees in a second, pixels
TORN = 20  # one of so many frames
UNKNOWN = -1000
ROWS, COLUMNS = np.mgrid[:HEIGHT, :WIDTH]


class Camera:
    """Looks into the direction `angle`, `fps` times a second by its own clock, and ends after
    `frames` frames."""

    def __init__(self, angle, fps, frames):
        self.angle, self.fps, self.frames, self.fired = angle, fps, frames, 0
        self.background = np.random.default_rng(int(angle)).integers(
            20, 120, (HEIGHT, WIDTH), np.uint8
        )
        self.begin = time.perf_counter()

    def __call__(self):
        if self.fired == self.frames:
            raise StopIteration
        seconds = self.fired / self.fps
        time.sleep(max(0, self.begin + seconds - time.perf_counter()))
        self.timestamp = time.perf_counter_ns()  # latencies are measured from here
        frame = draw(self.background, self.fired, (SPEED * seconds - self.angle + 180) % 360 - 180)
        self.fired += 1
        if self.fired % TORN == 0:
            frame[HEIGHT // 2 :] = 0
        return frame


def draw(background, number, degrees):
    """The frame of that number, with the ball so many degrees to the right: uint8[97, 128]."""
    x, y = WIDTH / 2 * (1 + degrees / SIGHT), 60
    picture = np.where((COLUMNS - x) ** 2 + (ROWS - y) ** 2 < RADIUS**2, 230, background).astype(
        np.uint8
    )
    header = np.zeros(WIDTH, np.uint8)
    header[:8] = np.array([number, zlib.crc32(picture)], np.uint32).view(np.uint8)
    return np.concatenate([header[None], picture])


def verify(raw):
    number, checksum = raw[0, :8].view(np.uint32)
    if zlib.crc32(raw[1:]) != checksum:
        raise ValueError("frame %d is torn" % number)
    return raw


def plan(ahead, behind, front, rear):
    """To the ball, if a camera has it; both have the same field of view."""
    for target, angle in ((ahead, front), (behind, rear)):
        if target[3]:
            degrees = angle + SIGHT * (target[1] / (WIDTH / 2) - 1)
            return np.float32((degrees + 180) % 360 - 180)
    return np.float32(UNKNOWN)


class Drive:
    """Says where to, whenever it is another direction."""

    def __init__(self):
        self.decisions, self.direction = 0, ""

    def __call__(self, course):
        self.decisions += 1
        direction = (
            "wait"
            if course == UNKNOWN
            else ("back", "left", "ahead", "right")[int((course + 225) // 90) % 4]
        )
        if direction != self.direction:
            self.direction = direction
            print("%5.2f s: %s" % (0.05 * self.decisions, direction), flush=True)

    def close(self):
        print("%d decisions" % self.decisions, flush=True)


class Log:
    """Keeps every target; a real one would write it."""

    def __init__(self, name):
        self.name, self.targets = name, []

    def __call__(self, target):
        self.targets.append(target)

    def close(self):
        numbers = [int(target[0]) for target in self.targets]
        seen = sum(target[3] > 0 for target in self.targets)
        assert numbers == sorted(set(numbers))
        print("%s: %d targets, %d with the ball" % (self.name, len(numbers), seen), flush=True)
