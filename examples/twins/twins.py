"""Tasks of the example `twins`: a cheap camera, and the code around its networks."""

from __future__ import annotations

import zlib

import numpy as np

SIDE = 224  # pixels: height and width of a frame
SCENE = 1024  # pixels: height and width of what the camera pans over


class Camera:
    """Endless frames of a colored random scene, over which the camera pans. The same seed gives the same frames."""

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        scene = np.zeros((SCENE, SCENE, 3), np.float32)
        for grain, strength in ((256, 50), (64, 35), (16, 25), (4, 20)):  # from large patches to fine texture
            cells = rng.normal(0, strength, (SCENE // grain, SCENE // grain, 3)).astype(np.float32)
            scene += cells.repeat(grain, axis=0).repeat(grain, axis=1)
        self.scene = np.clip(scene + 128, 0, 255).astype(np.uint8)
        self.fired = 0

    def __call__(self) -> np.ndarray:
        """Return the next frame, uint8[224, 224, 3]."""
        y, x = (self.fired * step % (SCENE - SIDE) for step in (37, 59))
        self.fired += 1
        return self.scene[y : y + SIDE, x : x + SIDE].copy()  # a frame belongs to the channel: never a view


def prepare(frame: np.ndarray) -> np.ndarray:
    """Bring a frame, uint8[224, 224, 3], to -1..1 and channels first: float32[1, 3, 224, 224]."""
    image = np.empty((1, 3, SIDE, SIDE), np.float32)
    np.multiply(frame.transpose(2, 0, 1), np.float32(1 / 64), out=image[0])
    image -= 2
    return image


class Top:
    """Counts frames and keeps a checksum of the best class of each."""

    def __init__(self, name: str):
        self.name = name
        self.frames = self.checksum = 0

    def __call__(self, logits: np.ndarray) -> None:
        """Take the logits of one frame, float32[1, 1000]."""
        self.frames += 1
        self.checksum = zlib.crc32(b"%d " % logits.argmax(), self.checksum)

    def close(self) -> None:
        print(f"{self.name}: {self.frames} frames, checksum {self.checksum:08x}", flush=True)
