"""Tasks for the examples. They are read; only the builds run them."""

import numpy as np

GAIN = 2


class Camera:
    """A source of three frames."""

    def __init__(self, source="demo"):
        self.source = source
        self.left = 3

    def __call__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return np.zeros((4, 4), np.uint8)


class Sensor:
    """A source of three measurements."""

    def __init__(self):
        self.left = 3

    def __call__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return np.ones((1, 4), np.float32)


class Filter:
    """Has no __call__."""

    def __init__(self, size):
        self.size = size

    def apply(self, frame):
        return frame


class Replay:
    """Needs to know what to replay."""

    def __init__(self, recording):
        self.recording = recording

    def __call__(self):
        return self.recording


def grey(frame):
    return frame


def blend(left, right):
    return left + right


def resize(frame, width, height):
    return frame


def show(frame):
    pass


def crash(frame):
    raise ValueError("the lens cap is on")


def day():
    return np.bool_(True)


def prepared(photo):
    return np.zeros((1, 3, 480, 640), np.float32)
