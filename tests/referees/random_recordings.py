"""Random apps that cannot be repeated by themselves: sources draw their numbers, readers take what
there is, events change states at random. A recording has to make them do the same again.

    python tests/referees/random_recordings.py --apps 100          # run to their end
    python tests/referees/random_recordings.py --apps 100 --kill   # killed at a random moment

Each app is recorded and replayed; the table says what was compared, and the exit status is 1 if a
token was different. With --kill every second program is killed together with the process that
writes its file.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import flowc

from limits import HANGS

CODE = """
import random, time
import numpy as np

class Drawn:
    def __init__(self, last, sleep):
        self.left, self.sleep, self.random = last, sleep, np.random.default_rng()
    def wait(self):
        if not self.left: raise StopIteration
        self.left -= 1
        if self.sleep: time.sleep(self.sleep * self.random.random())
class Number(Drawn):
    def __call__(self):
        self.wait()
        return np.int64(self.random.integers(0, 1000))
class Four(Drawn):
    def __call__(self):
        self.wait()
        return self.random.integers(0, 1000, 4).astype(np.int64)
class List(Drawn):
    def __call__(self):
        self.wait()
        return self.random.integers(0, 1000, int(self.random.integers(0, 5))).astype(np.int64)
class Picture(Drawn):
    def __call__(self):
        self.wait()
        return self.random.integers(0, 255, (12, 16, 3)).astype(np.uint8)
class Slow:
    def __init__(self): self.random = random.Random()
    def __call__(self, x):
        time.sleep(self.random.random() * 0.003)
        return x
class Sum:
    def __init__(self): self.sum = np.int64(0)
    def __call__(self, x):
        self.sum += np.int64(np.sum(x))
        return self.sum
class Turn:
    def __init__(self, turn): self.turn, self.random = turn, random.Random()
    def __call__(self, x):
        if self.random.random() < 0.15: self.turn()
def mean(p): return np.float32(p.mean() / 3)
def add(a, b): return np.int64(a) * 3 + np.int64(b)
def one(x): return x * 7 + 1
def total(xs): return np.int64(xs.sum()) if len(xs) else np.int64(-1)
def end(x): pass
def fails(x):
    if int(np.sum(x)) % 5 == 0: raise ValueError("no")
    return x
"""
TASKS = """
type Picture = uint8[12, 16, 3]
task Number(last: int, sleep: float)  { out x: int64                python "t.py:Number" }
task Four(last: int, sleep: float)    { out x: int64 rate 4         python "t.py:Four" }
task List(last: int, sleep: float)    { out x: int64 rate up to 4   python "t.py:List" }
task Look(last: int, sleep: float)    { out x: Picture              python "t.py:Picture" }
task Mean  { in x: Picture  out y: float32  python "t.py:mean" }
task One   { in x: int64  out y: int64  python "t.py:one" }
task Add   { in a: int64  in b: int64  out y: int64  python "t.py:add" }
task Fails { in x: int64  out y: int64  on error skip  python "t.py:fails" }
task Sum   { in x: int64  out y: int64  python "t.py:Sum" }
task Slow  { in x: int64  out y: int64  python "t.py:Slow" }
task Total { in x: int64 rate up to 4  out y: int64  python "t.py:total" }
task End   { in x: int64  python "t.py:end" }
task Seen  { in x: float32  python "t.py:end" }
task Turn  { in x: int64  event turn  python "t.py:Turn" }
platform two { cpu core[2] }
"""


def text_of(rng: random.Random, last: int) -> str:
    """Apps with and without states; each source ends after `last` firings."""

    def source(name: str) -> str:
        return f"{name}(last = {last}, sleep = {rng.choice(['0.0', '0.002'])})"

    if rng.random() < 1 / 3:
        return TASKS + (
            f"app A {{ c: {source('Number')}  o: One  q: Sum  t: Turn  c -> o -> q -> t }}\n"
            f"app R {{ c: {source('Number')}  a: Add  q: Sum  e: Turn"
            "  A.o -> latest -> a.a  c -> a.b  a -> q -> e }\n"
            f"app B {{ c: {source('Number')}  q: Sum  e: Turn  c -> q -> e }}\n"
            "scenario M { initial state one { run A, R }  state two { run A, B }"
            "  state three { run R, B }  one -> two on A.t.turn  two -> three on B.e.turn"
            "  three -> one on R.e.turn  one -> three on R.e.turn }\n"
        )
    dropping = rng.choice(["", " every 2 ms drop oldest 2", " every 2 ms latest"])
    period = "" if dropping else rng.choice(["", "period 3 ms"])
    made = (
        f"app A {{ {period}  c: {source('Number')}{dropping}  s: Slow  o: One  q: Sum  e: End"
        "  c -> s -> o -> q -> e }\n"
    )
    made += {
        0: "",
        1: f"app B {{ p: {source('Look')}  m: Mean  e: Seen  p -> m -> e }}\n",
        2: f"app B {{ p: {source('List')}  o: One  m: Total  e: End  p -> o -> m -> e }}\n",
        3: f"app B {{ p: {source('Four')}  o: One  f: Fails  q: Sum  e: End  p -> o -> f -> q -> e }}\n",
    }[rng.randrange(4)]
    link = rng.choice(["latest", "drop oldest 1", "drop oldest 3"])
    period = rng.choice(["", "period 2 ms"])
    made += rng.choice(
        [
            f"app R {{ {period}  c: {source('Number')}  a: Add  q: Sum  e: End"
            f"  A.o -> {link} -> a.a  c -> a.b  a -> q -> e }}\n",
            f"app R {{ {period}  f: Fails  q: Sum  e: End  A.o -> {link} -> f -> q -> e }}\n",
            f"app R {{ {period}  q: Sum  e: End  A.o -> {link} -> q -> e }}\n",
        ]
    )
    return TASKS + made


def built(folder: Path, rng: random.Random, last: int) -> Path:
    """The directory of a random program."""
    flow = folder / "a.flow"
    flow.write_text(text_of(rng, last))
    (folder / "t.py").write_text(CODE)
    flowc.build(flow, folder / "b", platform="two", measure=False)
    return folder / "b"


def killed(program: Path, file: Path, rng: random.Random, writer: bool) -> bytes:
    """Record it, and kill it less than 0.1 s after its file has begun: a busy machine takes 30 s to
    replay the first MB. With the `writer` of the file, or alone. The file as it is then."""
    command = [sys.executable, program / "main.py", "--quiet", "--record", file]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + HANGS
        while not (file.exists() and file.stat().st_size > 20_000):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        time.sleep(rng.random() / 10)
    finally:
        if writer:
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait(HANGS)
    deadline = time.monotonic() + HANGS
    while not writer and file.read_bytes()[-8:] != b"\x89MCAP0\r\n":
        assert time.monotonic() < deadline, "the process that writes did not finish the file"
        time.sleep(0.01)
    return file.read_bytes()


def replayed(program: Path, file: Path) -> tuple[int, list[str]]:
    """The exit status of a replay, and what it says last."""
    command = [sys.executable, program / "main.py", "--replay", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
    return done.returncode, [line for line in done.stderr.splitlines() if "skipped" not in line]


def main() -> int:
    """Record, replay and print a line for each; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    bad = 0
    for seed in range(options.seed, options.seed + options.apps):
        rng = random.Random(seed)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            program, file = built(folder, rng, 1_000_000 if options.kill else 150), folder / "r"
            if options.kill:
                killed(program, file, rng, writer=bool(seed % 2))
            else:
                command = [sys.executable, program / "main.py", "--quiet", "--record", file]
                subprocess.run(command, check=True, timeout=HANGS, stderr=subprocess.DEVNULL)
            status, said = replayed(program, file)
            bad += status != 0
            print(
                seed, "equal" if not status else "DIFFERENT", said[-1] if said else "", flush=True
            )
    print(f"{options.apps - bad} of {options.apps} equal")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
