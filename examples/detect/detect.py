"""Tasks of the example `detect`: a camera, what comes before the network, and what comes behind
it."""

from __future__ import annotations

import zlib

import numpy as np

WIDTH, HEIGHT = 1280, 720  # pixels of a frame
SCENE = 2048  # pixels: height and width of what the camera pans over
SIDE = 224  # pixels: height and width of the network's image
BT709 = (0, 1.793), (-0.213, -0.533), (2.112, 0)  # what U and V add to red, green and blue
#: Cells per side of each map of boxes, and the size of its boxes in parts of the image: (width,
#: height).
MAPS = (
    (14, ((0.15, 0.15), (0.21, 0.11), (0.11, 0.21))),
    (7, ((0.3, 0.3), (0.42, 0.21), (0.21, 0.42), (0.52, 0.17), (0.17, 0.52), (0.39, 0.39))),
    (4, ((0.5, 0.5), (0.71, 0.35), (0.35, 0.71), (0.87, 0.29), (0.29, 0.87), (0.61, 0.61))),
    (2, ((0.8, 0.8), (0.95, 0.57), (0.57, 0.95), (0.98, 0.46), (0.46, 0.98), (0.89, 0.89))),
)
CLASSES = 21  # class 0 is the background
SURE = 0.5  # the least score of a thing
OVERLAP = 0.45  # boxes of a class that overlap more are one thing
CANDIDATES, MOST = 100, 20  # boxes that are compared, and things that are reported at most

# -- the camera ------------------------------------------------------------------------------------


class Camera:
    """Endless frames of a random scene over which the camera pans, as NV12: brightness, then colors
    of 2 x 2 pixels.

    The same seed gives the same frames.
    """

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        self.luma = textured(rng, SCENE, 1)
        self.chroma = textured(rng, SCENE // 2, 2)  # U and V in turn
        self.fired = 0

    def __call__(self) -> np.ndarray:
        """Return the next frame, uint8[1080, 1280]: 720 rows of brightness, 360 of colors."""
        y, x = (
            2 * (self.fired * step % room)
            for step, room in ((7, (SCENE - HEIGHT) // 2), (11, (SCENE - WIDTH) // 2))
        )
        self.fired += 1
        # a frame belongs to the channel: never a view
        frame = np.empty((HEIGHT * 3 // 2, WIDTH), np.uint8)
        frame[:HEIGHT] = self.luma[y : y + HEIGHT, x : x + WIDTH]
        frame[HEIGHT:] = self.chroma[y // 2 : (y + HEIGHT) // 2, x : x + WIDTH]
        return frame


def textured(rng: np.random.Generator, side: int, channels: int) -> np.ndarray:
    """Random patches of many sizes, uint8[side, side * channels]."""
    picture = np.zeros((side, side, channels), np.float32)
    for grain, strength in ((256, 40), (64, 30), (16, 20), (4, 15)):
        # from large patches to fine texture
        cells = rng.normal(0, strength, (side // grain, side // grain, channels)).astype(np.float32)
        picture += cells.repeat(grain, axis=0).repeat(grain, axis=1)
    return np.clip(picture + 128, 0, 255).astype(np.uint8).reshape(side, side * channels)


# -- from a frame to what the network wants --------------------------------------------------------


def between(large: int, small: int) -> tuple[np.ndarray, np.ndarray]:
    """For each of `small` pixels the first of two neighbors among `large`, and how near it is to
    the second."""
    at = np.clip((np.arange(small) + 0.5) * large / small - 0.5, 0, large - 1.001)
    return at.astype(int), (at % 1).astype(np.float32)


(TOP, DOWN), (LEFT, RIGHT) = between(HEIGHT // 2, SIDE), between(WIDTH // 2, SIDE)


def decode(frame: np.ndarray) -> np.ndarray:
    """One colored pixel for 2 x 2 of NV12, uint8[1080, 1280]: float32[3, 360, 640], 0 to 255."""
    luma = frame[:HEIGHT]
    y = luma[::2, ::2].astype(np.uint16)
    for down, right in ((0, 1), (1, 0), (1, 1)):
        y += luma[down::2, right::2]
    y = np.float32(1.164 / 4) * (y - np.float32(4 * 16))
    u, v = (frame[HEIGHT:, k::2] - np.float32(128) for k in (0, 1))
    image = np.empty((3, *y.shape), np.float32)
    for plane, (of_u, of_v) in zip(image, BT709):
        np.clip(y + np.float32(of_u) * u + np.float32(of_v) * v, 0, 255, out=plane)
    return image


def prepare(frame: np.ndarray) -> np.ndarray:
    """Decode and shrink a frame, uint8[1080, 1280], to -1..1 and channels first: float32[1, 3, 224,
    224]."""
    image = decode(frame)
    image = image[:, TOP] + DOWN[:, None] * (image[:, TOP + 1] - image[:, TOP])
    image = image[:, :, LEFT] + RIGHT * (image[:, :, LEFT + 1] - image[:, :, LEFT])
    return image[None] * np.float32(1 / 127.5) - np.float32(1)


# -- from what the network says to things ----------------------------------------------------------


def anchors() -> np.ndarray:
    """Where boxes are before the network shifts them, map by map, cell by cell: center x and y,
    width, height."""
    found = []
    for cells, sizes in MAPS:
        y, x = (np.mgrid[:cells, :cells] + 0.5) / cells
        centers = np.stack([x, y], axis=-1)[:, :, None].repeat(len(sizes), axis=2)
        found.append(
            np.concatenate([centers, np.broadcast_to(sizes, centers.shape)], axis=-1).reshape(-1, 4)
        )
    return np.concatenate(found).astype(np.float32)


ANCHORS = anchors()


def select(boxes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Non-maximum suppression: float32[1, 1002, 4] and float32[1, 1002, 21] to the best things,
    float32[20, 6].

    A thing is its class, score, left, top, right and bottom in parts of the image; the rest is
    zero.
    """
    kinds = scores[0, :, 1:].argmax(axis=1) + 1
    best = np.take_along_axis(scores[0], kinds[:, None], axis=1)[:, 0]
    chosen = np.flatnonzero(best > SURE)
    chosen = chosen[np.argsort(-best[chosen], kind="stable")[:CANDIDATES]]
    anchor, shift = ANCHORS[chosen], boxes[0, chosen]
    center = anchor[:, :2] + 0.1 * shift[:, :2] * anchor[:, 2:]
    half = 0.5 * anchor[:, 2:] * np.exp(0.2 * shift[:, 2:])
    corners = np.clip(np.concatenate([center - half, center + half], axis=1), 0, 1)

    # How much boxes of one class have in common, of what they cover together.
    low = np.maximum(corners[:, None, :2], corners[:, :2])
    high = np.minimum(corners[:, None, 2:], corners[:, 2:])
    common = np.clip(high - low, 0, None).prod(axis=2)
    area = (corners[:, 2:] - corners[:, :2]).prod(axis=1)
    rivals = common > OVERLAP * (area[:, None] + area - common)
    rivals &= kinds[chosen][:, None] == kinds[chosen]

    things = np.zeros((MOST, 6), np.float32)
    left, count = np.ones(len(chosen), bool), 0
    for k in range(len(chosen)):
        if left[k] and count < MOST:
            left &= ~rivals[k]
            things[count, 0], things[count, 1] = kinds[chosen[k]], best[chosen[k]]
            things[count, 2:] = corners[k]
            count += 1
    return things


class Count:
    """Counts frames and things, and keeps a checksum of what was seen where, in whole pixels."""

    def __init__(self):
        self.frames = self.things = self.checksum = 0

    def __call__(self, things: np.ndarray) -> None:
        """Take the things of one frame, float32[20, 6]."""
        seen = things[things[:, 0] > 0]
        self.frames += 1
        self.things += len(seen)
        pixels = np.rint(seen[:, 2:] * np.float32([WIDTH, HEIGHT, WIDTH, HEIGHT])).astype(np.int32)
        self.checksum = zlib.crc32(
            np.column_stack([seen[:, 0].astype(np.int32), pixels]).tobytes(), self.checksum
        )

    def close(self) -> None:
        print(
            f"{self.frames} frames, {self.things} things, checksum {self.checksum:08x}", flush=True
        )
