"""The code of the tasks of patrol.flow."""

import numpy as np

HEIGHT, WIDTH, RADIUS = 96, 128, 4
#: Pictures between two appearances of something, and for how many it stays.
EVERY, STAYS = 200, 50


def picture(rng, there):
    """Noise and shadows, and a bright spot where something is there."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    scene = (
        60
        + 20 * np.sin(x / rng.uniform(9, 25) + rng.uniform(0, 6))
        + rng.normal(0, 12, (HEIGHT, WIDTH))
    )
    if there:
        row, column = rng.integers(8, HEIGHT - 8), rng.integers(8, WIDTH - 8)
        scene += rng.uniform(12, 60) * np.exp(
            -((y - row) ** 2 + (x - column) ** 2) / (2 * RADIUS**2)
        )
    return np.clip(scene, 0, 255).astype(np.uint8)


class Camera:
    """Pictures that were taken beforehand, again and again."""

    def __init__(self, device):
        rng = np.random.default_rng(device)
        self.empty = [picture(rng, False) for _ in range(20)]
        self.full = [picture(rng, True) for _ in range(20)]
        self.n = EVERY - 40 * (device + 1)

    def __call__(self):
        self.n += 1
        return (self.full if self.n % EVERY < STAYS else self.empty)[self.n % 20]


def tensor(picture):
    """What the networks read: brightness from -1 to 1."""
    return picture[None, None].astype(np.float32) / 127.5 - 1


class Watch:
    """Tells of a change when three pictures in a row show it."""

    def __init__(self, name, seen, gone):
        self.name, self.seen, self.gone = name, seen, gone
        self.there, self.count, self.frames = False, 0, 0

    def __call__(self, heat):
        self.frames += 1
        self.count = self.count + 1 if (heat.max() > 0) != self.there else 0
        if self.count == 3:
            self.there, self.count = not self.there, 0
            what = "something" if self.there else "nothing"
            print("%s: %s in picture %d" % (self.name, what, self.frames), flush=True)
            (self.seen if self.there else self.gone)()
