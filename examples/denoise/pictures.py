"""Tasks of denoise.flow that run in Python: a noisy scene, the reference of the CUDA kernels, and a
summary."""

import numpy as np

HEIGHT, WIDTH = 240, 320


class Camera:
    """Boxes that drift over a slope, with noise."""

    def __init__(self, seed):
        self.noise = np.random.default_rng(seed)
        self.number = 0

    def __call__(self):
        y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
        scene = 60 + 60 * x / WIDTH
        for k, level in enumerate((200, 20, 140)):
            left, top = (self.number * (k + 1) + 90 * k) % WIDTH, 30 + 60 * k
            scene[(y >= top) & (y < top + 40) & (x >= left) & (x < left + 70)] = level
        self.number += 1
        noisy = scene + self.noise.normal(0, 12, scene.shape)
        return np.clip(noisy, 0, 255).astype(np.uint8)


def edges(grey, height, width):
    """What edges.cu computes."""
    padded = np.pad(grey.astype(np.float32), 1, mode="edge")
    soft = sum(
        padded[dy : dy + height, dx : dx + width] for dy in range(3) for dx in range(3)
    ) / np.float32(9)
    wide = np.pad(soft, 1, mode="edge")
    across, down = wide[1:-1, 2:] - wide[1:-1, :-2], wide[2:, 1:-1] - wide[:-2, 1:-1]
    return np.minimum(np.sqrt(across**2 + down**2), 255).astype(np.uint8)


class Show:
    """Adds up what arrives."""

    def __init__(self):
        self.frames, self.clean, self.edges = 0, 0, 0.0

    def __call__(self, clean, edges):
        self.frames += 1
        self.clean = (31 * self.clean + int(clean.sum(dtype=np.int64))) % 1_000_003
        self.edges += float(edges.mean())

    def close(self):
        if self.frames:
            print(
                f"{self.frames} frames, checksum {self.clean}, mean edge"
                f" {self.edges / self.frames:.3f}"
            )
