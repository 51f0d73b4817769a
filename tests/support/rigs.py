"""A program on two machines that crosses in both directions: several rates, phases, delays, shared
firings."""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

import zmq

TEXT = """
task Camera(count: int = 40) { out frame: uint8[64]   out mark: int64   python "tasks.py:Camera" }
task Split { in frame: uint8[64]   in last: int64   out part: uint8[16] rate 4   out odd: int64 rate [1, 0]
    python "tasks.py:Split" }
task Weigh { in part: uint8[16]   out sum: int64   stateless   python "tasks.py:weigh" }
task Tell { in sums: int64 rate 4   in mark: int64   out last: int64   python "tasks.py:tell" }
task Odd { in odd: int64   python "tasks.py:Odd" }
app A {
    camera: Camera   split: Split   weigh: Weigh   tell: Tell   odd: Odd
    camera.frame -> split.frame
    split.part -> weigh -> tell.sums
    split.odd -> odd
    camera.mark -> delay 2 = [-1, -2] -> tell.mark
    tell.last -> delay 2 -> split.last
}
platform rig {
    machine front { cpu core[2] }
    machine back { cpu core[3] }
    link front back 110 MB/s 0.3 ms
}
mapping on rig {
    A.camera -> front.core[0]
    A.split -> front.core[1]
    A.weigh -> back.core[0], back.core[1]
    A.tell -> back.core[2]
    A.odd -> back.core[2]
}
"""
TASKS = """
import numpy as np
class Camera:
    def __init__(self, count): self.n, self.count = 0, count
    def __call__(self):
        if self.n == self.count: raise StopIteration
        self.n += 1
        return (np.arange(64) * self.n % 251).astype(np.uint8), np.int64(self.n)
class Split:
    def __init__(self): self.n = 0
    def __call__(self, frame, last):
        self.n += 1
        odd = np.array([self.n], np.int64) if self.n % 2 else np.zeros(0, np.int64)
        return (frame.reshape(4, 16) + int(last) % 7).astype(np.uint8), odd
def broken(part, seen=[]):
    seen.append(1)
    if len(seen) == 10: raise ValueError("no luck")
    return np.int64(part.sum())
def weigh(part): return np.int64(part.sum())
def tell(sums, mark):
    print(int(mark), int(sums.sum()), flush=True)
    return np.int64(sums.sum() + mark)
class Odd:
    def __call__(self, odd): self.last = int(odd)
    def close(self): print("odd", self.last, flush=True)
"""

#: On three machines: a window, `repeat`, frames that are skipped, and types of other sizes.
MIXED = """
task Source { out x: float32[8]   python "mixed.py:Source" }
task Bad { in x: float32[8]   out y: float32[8]   on error skip   python "mixed.py:Bad" }
task Sum { in y: float32[8] rate 1 window 4   out z: float32   python "mixed.py:total" }
task Pair { in z: float32 rate 3   in w: bool   out k: complex64[2]   python "mixed.py:pair" }
task Flag { in x: float32[8]   out w: bool   python "mixed.py:flag" }
task Show { in k: complex64[2]   python "mixed.py:show" }
app B {
    source: Source   bad: Bad   sum: Sum   pair: Pair   flag: Flag   show: Show
    source -> bad -> sum -> repeat 3 -> pair.z
    source -> flag -> pair.w
    pair -> show
}
platform rig {
    machine a { cpu core[2] }
    machine b { cpu core[2] }
    machine c { cpu core }
    link a b 1 GB/s 20 us
    link b c 100 MB/s 1 ms
    link a c 100 MB/s 1 ms
}
mapping on rig {
    B.source -> a.core[0]   B.bad -> a.core[1]   B.sum -> b.core[0]   B.flag -> c.core
    B.pair -> b.core[1]   B.show -> a.core[0]
}
"""
MIXED_TASKS = """
import numpy as np
class Source:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return np.arange(8, dtype=np.float32) * self.n
class Bad:
    def __init__(self): self.n = 0
    def __call__(self, x):
        self.n += 1
        if self.n % 5 == 0: raise ValueError("five")
        return x[::-1]
def total(y): return np.float32(y.sum())
def flag(x): return bool(x[1] > 3)
def pair(z, w): return np.array([z.sum(), 1j if w else 0], np.complex64)
def show(k): pass
"""


def unassigned_port() -> int:
    """Below those that the system gives to connecting processes, which may be taken before a
    process listens."""
    while True:
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("", port := random.randrange(20000, 32000)))
            return port


def joined(
    names: Sequence[str], hosts: Mapping[str, str] | None = None, **changed: str
) -> dict[str, dict[str, str]]:
    """The environment of each part; `hosts` are the addresses of machines, `changed` goes into what
    the last one gets."""
    keys = {name: [k.decode() for k in zmq.curve_keypair()] for name in names}
    ports = {name: unassigned_port() for name in names}
    found = {}
    for name in names:
        peers = {
            n: {
                "address": f"tcp://{(hosts or {}).get(n, '127.0.0.1')}:{ports[n]}",
                "public": keys[n][0],
            }
            for n in names
            if n != name
        }
        document = {
            "listen": f"tcp://*:{ports[name]}", "token": "t" * 64, "public": keys[name][0], "secret": keys[name][1],
            "peers": peers, **(changed if name == names[-1] else {}),
        }  # fmt: skip
        found[name] = {"FLOWC_MACHINES": json.dumps(document)}
    return found


def sites(folder: Path, *names: str) -> Path:
    """A file that says that all machines are this one."""
    file = folder / "rig.toml"
    file.write_text("".join(f"[{name}]\nhere = true\n" for name in names))
    return file
