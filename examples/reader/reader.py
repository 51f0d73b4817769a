"""Tasks of the example `reader`: pages with some digits on them, a detector, and what it found."""

from __future__ import annotations

import numpy as np

HEIGHT, WIDTH, MOST = 240, 320, 16  # pixels, pixels, digits on a page
ROW, COLUMN = 48, 40  # pixels: where one digit has room
SIDE = 28  # pixels: height and width of what the network sees


class Scanner:
    """Endless pages with handwritten digits, and what they show, line by line.

    `glyphs` is an .npz with `images` uint8[n, 8, 8] in 0..16 and `labels` int64[n]. The same seed
    gives the same pages.
    """

    def __init__(self, glyphs: str, seed: int = 1):
        with np.load(glyphs) as stored:
            self.images = stored["images"] / 16.0
            self.labels = stored["labels"].astype(np.int64)
        self.rng = np.random.default_rng(seed)

    def __call__(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a page, uint8[240, 320], and its digits: int64[k] for k of them, 0 to 16."""
        rng = self.rng
        places = np.sort(rng.choice(30, size=rng.integers(MOST + 1), replace=False))
        chosen = rng.integers(len(self.images), size=len(places))
        page = rng.uniform(30, 80) + rng.normal(0, rng.uniform(8, 16), size=(HEIGHT, WIDTH))
        for place, image in zip(places, self.images[chosen]):
            top = ROW * (place // 6) + rng.uniform(0, 6) + 8
            left = (WIDTH - 6 * COLUMN) / 2 + COLUMN * (place % 6) + rng.uniform(0, 6) + 6
            page += rng.uniform(90, 150) * draw(image, top, left, rng.uniform(2.6, 3.2))
        return np.clip(page, 0, 255).astype(np.uint8), self.labels[chosen]


def draw(glyph: np.ndarray, top: float, left: float, scale: float) -> np.ndarray:
    """Place a glyph, float[8, 8] in 0..1, on an empty page: float64[240, 320].

    `top` and `left` are its corner in pixels, `scale` is in pixels per glyph pixel.
    """
    rows = np.maximum(0, 1 - abs((np.arange(HEIGHT)[:, None] - top) / scale - np.arange(8)))
    columns = np.maximum(0, 1 - abs((np.arange(WIDTH)[:, None] - left) / scale - np.arange(8)))
    return rows @ glyph @ columns.T


def find(page: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Find the digits on a page, uint8[240, 320].

    Returns a list of crops, float32[1, 1, 28, 28] each with the background at about 0 and strokes
    at about 1, and a list of boxes, int32[4]: top, left, bottom and right in pixels.
    """
    grey = page.astype(np.float64) - np.median(page)
    ink = smooth(grey, 2)
    inside = smooth(grey, 11)
    crops, boxes = [], []
    while len(boxes) < MOST:
        row, column = np.unravel_index(inside.argmax(), inside.shape)
        if inside[row, column] < 12:
            break
        top, left = max(0, row - 18), max(0, column - 16)
        near = ink[top : row + 19, left : column + 17]
        bright = float(np.percentile(near, 97))
        strokes = near > bright / 2
        rows, columns = np.flatnonzero(strokes.any(1)), np.flatnonzero(strokes.any(0))
        box = top + rows[0], left + columns[0], top + rows[-1], left + columns[-1]
        middle = (box[0] + box[2]) // 2 + 1, (box[1] + box[3]) // 2 + 1
        # Padded by half a crop, the crop around a pixel starts at the pixel's own place.
        padded = np.pad(grey, SIDE // 2)
        crop = padded[middle[0] : middle[0] + SIDE, middle[1] : middle[1] + SIDE] / bright
        crops.append(crop[None, None].astype(np.float32))
        boxes.append(np.array(box, np.int32))
        inside[max(0, row - 24) : row + 25, max(0, column - 20) : column + 21] = 0
    return crops, boxes


def smooth(page: np.ndarray, reach: int) -> np.ndarray:
    """The mean over a square around each pixel, `reach` pixels to each side."""
    edge = np.pad(page, reach)
    size = 2 * reach + 1
    lines = sum(edge[y : y + HEIGHT] for y in range(size)) / size
    return sum(lines[:, x : x + WIDTH] for x in range(size)) / size


def name(scores: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Name the digits: scores float32[k, 1, 10] and boxes int32[k, 4], returns int64[k]."""
    middles = (box[:, 0] + box[:, 2]) // 2
    order = np.lexsort((box[:, 1], middles // ROW))
    return scores.reshape(-1, 10).argmax(axis=1).astype(np.int64)[order]


class Report:
    """Prints what was read and counts how much of it is right."""

    def __init__(self):
        self.pages = self.right = self.digits = 0

    def __call__(self, text: np.ndarray, drawn: np.ndarray) -> None:
        """Compare the digits that were read with those drawn: int64[k] and int64[n]."""
        self.pages += 1
        self.digits += len(drawn)
        if len(text) == len(drawn):
            self.right += int((text == drawn).sum())
        if self.pages <= 10 or self.pages % 100 == 0:
            read, there = ("".join(str(d) for d in digits) or "-" for digits in (text, drawn))
            print(f"page {self.pages}: read {read}, drawn {there}", flush=True)

    def close(self) -> None:
        share = 100 * self.right / max(self.digits, 1)
        print(f"read {self.right} of {self.digits} digits right ({share:.1f} %)", flush=True)
