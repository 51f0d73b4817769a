"""Tasks of the example `digits`: a synthetic camera, and the code around the network that reads
it."""

from __future__ import annotations

import numpy as np

HEIGHT, CELL, DIGITS = 48, 32, 5  # pixels, pixels, digits in a frame: one in each cell
SIDE = 28  # pixels: height and width of what the network sees


def draw(glyph: np.ndarray, top: float, left: float, scale: float) -> np.ndarray:
    """Place a glyph, float[8, 8] in 0..1, in an empty cell.

    `top` and `left` are the glyph's corner in pixels and may be fractions, `scale` is in pixels per
    glyph pixel. Returns float64[48, 32] in 0..1, interpolated linearly.
    """
    rows = np.maximum(0, 1 - abs((np.arange(HEIGHT)[:, None] - top) / scale - np.arange(8)))
    columns = np.maximum(0, 1 - abs((np.arange(CELL)[:, None] - left) / scale - np.arange(8)))
    return rows @ glyph @ columns.T


class Camera:
    """Endless frames of five handwritten digits, and what they show.

    `glyphs` is an .npz with `images` uint8[n, 8, 8] in 0..16 and `labels` int64[n]. The same seed
    gives the same frames.
    """

    def __init__(self, glyphs: str, seed: int = 1):
        with np.load(glyphs) as stored:
            self.images = stored["images"] / 16.0
            self.labels = stored["labels"].astype(np.int64)
        self.rng = np.random.default_rng(seed)

    def __call__(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a frame, uint8[48, 160] of grey levels, and its digits from left to right,
        int64[5]."""
        rng = self.rng
        chosen = rng.integers(len(self.images), size=DIGITS)
        cells = []
        for image in self.images[chosen]:
            scale = rng.uniform(2.5, 3.2)
            size = 7 * scale  # from the center of the first glyph pixel to that of the last
            top = (HEIGHT - size) / 2 + rng.uniform(-9, 9)
            left = (CELL - size) / 2 + rng.uniform(-3, 3)
            cells.append(rng.uniform(70, 150) * draw(image, top, left, scale))
        light = rng.uniform(30, 80)
        # grey levels from the center to the bottom and to the right edge
        slope = rng.uniform(-15, 15, size=2)
        light = (
            light
            + slope[0] * np.linspace(-1, 1, HEIGHT)[:, None]
            + slope[1] * np.linspace(-1, 1, CELL * DIGITS)
        )
        noise = rng.normal(0, rng.uniform(8, 20), size=(HEIGHT, CELL * DIGITS))
        frame = np.hstack(cells) + light + noise
        return np.clip(frame, 0, 255).astype(np.uint8), self.labels[chosen]


# For the plane a + b y + c x under a frame: float64[48 * 160, 3].
_PLANE = np.stack(
    [
        np.ones((HEIGHT, CELL * DIGITS)),
        *np.meshgrid(np.linspace(-1, 1, HEIGHT), np.linspace(-1, 1, CELL * DIGITS), indexing="ij"),
    ],
    axis=-1,
).reshape(-1, 3)


def flatten(frame: np.ndarray) -> np.ndarray:
    """Subtract the background light from a frame, uint8[48, 160]; returns float64[48, 160]."""
    grey = frame.reshape(-1).astype(np.float64)
    rest = grey - np.median(grey)
    for _ in range(4):  # digits are bright: each round fits the plane to fewer pixels of theirs
        kept = rest <= 1.5 * np.sqrt(np.mean(rest**2))
        plane = _PLANE[kept]
        rest = grey - _PLANE @ np.linalg.solve(plane.T @ plane, plane.T @ grey[kept])
    return rest.reshape(frame.shape)


def segment(frame: np.ndarray) -> np.ndarray:
    """Cut the five digits out of a frame, uint8[48, 160].

    Returns float32[5, 1, 1, 28, 28]: each digit centered, background at about 0 and strokes at
    about 1.
    """
    rest = flatten(frame)
    crops = np.empty((DIGITS, 1, 1, SIDE, SIDE), np.float32)
    for i in range(DIGITS):
        cell = rest[:, i * CELL : (i + 1) * CELL]
        edge = np.pad(cell, 2)
        smooth = sum(edge[y : y + HEIGHT] for y in range(5)) / 5
        smooth = sum(smooth[:, x : x + CELL] for x in range(5)) / 5
        bright = max(float(np.percentile(smooth, 98)), 1.0)  # an empty cell must not divide by 0
        ink = smooth > bright / 2
        rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
        top = (int(rows[0]) + int(rows[-1])) // 2 + 1 if len(rows) else HEIGHT // 2
        left = (int(columns[0]) + int(columns[-1])) // 2 + 1 if len(columns) else CELL // 2
        # Padded by half a crop, the crop around a pixel starts at the pixel's own place.
        crops[i, 0, 0] = np.pad(cell, SIDE // 2)[top : top + SIDE, left : left + SIDE] / bright
    return crops


def decode(scores: np.ndarray) -> np.ndarray:
    """Name the best digit of each crop: scores float32[5, 1, 10], returns int64[5]."""
    return scores.reshape(-1, 10).argmax(axis=1).astype(np.int64)


class Report:
    """Prints what was read and counts how much of it is right."""

    def __init__(self):
        self.frames = self.right = self.digits = 0

    def __call__(self, text: np.ndarray, truth: np.ndarray) -> None:
        """Compare the digits read with those drawn, both int64[5]."""
        self.frames += 1
        self.right += int((text == truth).sum())
        self.digits += len(truth)
        if self.frames <= 10 or self.frames % 100 == 0:
            read, drawn = (" ".join(str(digit) for digit in digits) for digits in (text, truth))
            print(f"frame {self.frames}: read {read}, drawn {drawn}", flush=True)

    def close(self) -> None:
        share = 100 * self.right / max(self.digits, 1)
        print(f"read {self.right} of {self.digits} digits right ({share:.1f} %)", flush=True)
