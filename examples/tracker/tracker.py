"""The code around the detector of `tracker.flow`."""

import numpy as np

KINDS = ("disc", "square", "cross")
HEIGHT, WIDTH, RADIUS = 96, 128, 6
#: Columns that a pillar hides.
PILLAR = (58, 70)
#: Below this score a shape is hidden.
SEEN = 0.35


def shape(kind, row, column):
    """Where a shape is: 1 inside of it, 0 elsewhere."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    y, x = np.abs(y - row), np.abs(x - column)
    inside = {
        "disc": y**2 + x**2 <= RADIUS**2,
        "square": np.maximum(y, x) <= RADIUS - 1,
        "cross": (np.minimum(y, x) <= 1.5) & (np.maximum(y, x) <= RADIUS + 1),
    }
    return inside[kind].astype(np.float32)


class Camera:
    """Shapes that bounce off the walls, with noise."""

    def __init__(self):
        self.random = np.random.default_rng(1)
        self.at = np.array([[20, 30], [48, 90], [76, 50]], float)
        self.speed = np.array([[0.4, 0.9], [-0.5, 0.7], [0.3, -0.8]])

    def __call__(self):
        self.at += self.speed
        low, high = RADIUS + 4, np.array([HEIGHT, WIDTH]) - RADIUS - 5
        self.speed = np.where((self.at < low) | (self.at > high), -self.speed, self.speed)
        self.at = np.clip(self.at, low, high)
        picture = 40 + self.random.normal(0, 6, (HEIGHT, WIDTH))
        for kind, (row, column) in zip(KINDS, self.at):
            picture += 120 * shape(kind, row, column)
        picture[:, PILLAR[0] : PILLAR[1]] = 90
        truth = np.column_stack([np.ones(3), self.at])
        return np.clip(picture, 0, 255).astype(np.uint8), truth.astype(np.float32)


def prepare(frames):
    """The newer frame, around 0."""
    return frames[-1].astype(np.float32)[None, None] / 128 - 0.5


def peaks(heat):
    """Score, row and column of the highest point of each map."""
    flat = heat[0].reshape(3, -1)
    row, column = np.divmod(flat.argmax(1), heat.shape[-1])
    return np.stack([flat.max(1), 2 * row, 2 * column], 1).astype(np.float32)


class Track:
    """A place and a speed of each shape (an alpha-beta filter)."""

    def __init__(self):
        self.at, self.speed = None, np.zeros((3, 2))

    def __call__(self, found):
        seen, places = found[:, :1] > SEEN, found[:, 1:]
        if self.at is None:
            self.at = places.astype(float)
        self.at = self.at + self.speed
        off = np.where(seen, places - self.at, 0)
        self.at, self.speed = self.at + 0.6 * off, self.speed + 0.2 * off
        return np.column_stack([seen, self.at]).astype(np.float32)


class Plan:
    """The side of the room with more space, and at the end how well the tracks followed."""

    def __init__(self):
        self.side, self.count, self.off = None, 0, []

    def __call__(self, tracks, truth):
        self.count += 1
        self.off.append(np.linalg.norm(tracks[:, :, 1:] - truth[1::2, :, 1:], axis=2).mean())
        side = "left" if tracks[-1, :, 2].mean() > WIDTH / 2 else "right"
        if side != self.side:
            places = ", ".join(
                "%s %.0f %.0f" % (kind, row, column)
                for kind, (_, row, column) in zip(KINDS, tracks[-1])
            )
            print("%.1f s: keep %s (%s)" % (self.count / 5, side, places))
        self.side = side

    def close(self):
        if self.off:
            print("tracks are %.1f pixels off on average" % np.mean(self.off))
