"""The code of the tasks of drone.flow."""

import numpy as np

HEIGHT, WIDTH, RADIUS = 96, 128, 4
#: What the battery loses with each look at it while the drone flies, and gains while it is charged.
LOSS, GAIN = 0.03, 0.1


def picture(rng, there):
    """The road from above: noise and shadows, and something bright in each quarter where `there` is
    true."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    scene = (
        70
        + 20 * np.sin(x / rng.uniform(9, 25) + rng.uniform(0, 6))
        + rng.normal(0, 14, (HEIGHT, WIDTH))
    )
    for quarter in np.flatnonzero(there):
        row = rng.integers(8, HEIGHT // 2 - 8) + quarter // 2 * (HEIGHT // 2)
        column = rng.integers(8, WIDTH // 2 - 8) + quarter % 2 * (WIDTH // 2)
        scene += rng.uniform(18, 60) * np.exp(
            -((y - row) ** 2 + (x - column) ** 2) / (2 * RADIUS**2)
        )
    return np.clip(scene, 0, 255).astype(np.uint8)


class Camera:
    """Pictures that were taken beforehand, again and again, twice as large as the networks want
    them."""

    def __init__(self):
        rng = np.random.default_rng(7)
        small = [picture(rng, rng.random(4) < 0.4) for _ in range(40)]
        self.frames = [np.repeat(np.repeat(p, 2, 0), 2, 1) for p in small]
        self.n = -1

    def __call__(self):
        self.n += 1
        return self.frames[self.n % len(self.frames)]


def shrink(frame):
    """Half the size, brightness from -1 to 1."""
    small = frame.reshape(HEIGHT, 2, WIDTH, 2).astype(np.float32).mean((1, 3))
    return small[None, None] / np.float32(127.5) - 1


class Send:
    """What the ground gets: the quarters of the picture in which something drives."""

    def __init__(self):
        self.frames = self.seen = 0

    def __call__(self, logits):
        self.frames += 1
        self.seen += int((logits > 0).sum())

    def close(self):
        print("%d pictures looked at, %d vehicles seen" % (self.frames, self.seen), flush=True)


class Battery:
    """Empties while the drone flies, and is charged from a fifth on until it is nearly full."""

    def __init__(self, low, full):
        self.low, self.full = low, full
        self.charge, self.charging = 1.0, False

    def __call__(self):
        self.charge += GAIN if self.charging else -LOSS
        if not self.charging and self.charge < 0.2:
            self.charging = True
            self.low()
        elif self.charging and self.charge > 0.9:
            self.charging = False
            self.full()
        return np.float32(self.charge)


class Log:
    """Tells how full the battery is, every tenth time."""

    def __init__(self):
        self.n = -1

    def __call__(self, charge):
        self.n += 1
        if self.n % 10 == 0:
            print("battery at %.0f %%" % (100 * charge), flush=True)
