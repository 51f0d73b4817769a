"""The code around the network: a scene to look at, and a sink that keeps the last picture."""

import struct
import zlib

import numpy as np

HEIGHT, WIDTH = 180, 320


class Scene:
    """Pans over rings, stripes and disks of many sizes; small pictures, as a cheap camera gives
    them."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        fine = 3
        y, x = np.mgrid[0 : fine * HEIGHT, 0 : fine * (WIDTH + 64)].astype(np.float32) / fine
        rings = 0.5 + 0.5 * np.cos(((x - 110) ** 2 + (y - 90) ** 2) / 260)
        stripes = 0.5 + 0.5 * np.sign(np.sin(x * (0.05 + y / 900)))
        scene = np.stack([rings, 0.5 * rings + 0.5 * stripes, stripes])
        for _ in range(40):
            cx, cy, r = (
                self.rng.uniform(0, WIDTH + 64),
                self.rng.uniform(0, HEIGHT),
                self.rng.uniform(3, 22),
            )
            scene[:, (x - cx) ** 2 + (y - cy) ** 2 < r * r] = self.rng.uniform(0, 1, (3, 1))
        shape = 3, HEIGHT, fine, WIDTH + 64, fine
        self.scene = scene.reshape(shape).mean((2, 4)).astype(np.float32)
        self.frame = 0

    def __call__(self):
        left = abs(self.frame % 128 - 64)
        self.frame += 1
        return np.ascontiguousarray(self.scene[None, :, :, left : left + WIDTH])


class Keep:
    """Counts pictures; at the end it says how bright the last one is, and writes it to a PNG file
    if it is told one."""

    def __init__(self, file):
        self.file, self.frames, self.last = file, 0, None

    def __call__(self, large):
        self.frames += 1
        self.last = large

    def close(self):
        if self.last is None:
            return
        picture = (self.last[0].transpose(1, 2, 0) * 255 + 0.5).astype(np.uint8)
        print(
            "%d pictures of %d x %d, mean brightness %.1f"
            % (self.frames, *picture.shape[1::-1], picture.mean())
        )
        if self.file:
            with open(self.file, "wb") as stream:
                stream.write(png(picture))


def png(picture):
    """The bytes of a PNG file."""
    height, width, _ = picture.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, -1)], 1)

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
        + chunk(b"IEND", b"")
    )
