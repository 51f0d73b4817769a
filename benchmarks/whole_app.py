"""Throughput of a whole application: examples/detect as flowc runs it after `map`, against the loop
one would write.

Every side fires the same functions of examples/detect/detect.py, and the checksum of what was found
is compared. Every side runs in a process of its own for some seconds, of which the first quarter
does not count. A run that other processes disturbed is repeated, for some minutes at most.

    flowc         the generated program, as `flowc map` found it
    default       a loop: camera, decode, `session.run`, non-maximum suppression, count, one after
    the other; session
                  options are those of ONNX Runtime
    two threads   the same with intra_op_num_threads=2
    one core      the same with intra_op_num_threads=1
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import flowc
import steady
from flowc.driver.solve.map import find_mapping
from paired import Others, Spread, alternate, execute, machine, ratio, rounds, table, verdict

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "detect"
SECONDS, CHECKED = 5.0, 40
WAYS: dict[str, dict[str, int]] = {
    "default": {},
    "two threads": {"intra_op_num_threads": 2},
    "one core": {"intra_op_num_threads": 1},
}
AIMS = {"default": 1.25}


def copy_example(folder: Path) -> Path:
    """The example with its network, and without a stored profile or mapping; its text."""
    for name in ("detect.flow", "detect.py", "make_network.py"):
        shutil.copy(EXAMPLE / name, folder)
    if (EXAMPLE / "ssd.onnx").is_file():
        shutil.copy(EXAMPLE / "ssd.onnx", folder)
    else:
        execute(sys.executable, folder / "make_network.py", folder)
    return folder / "detect.flow"


def by_hand(way: str, folder: str, seconds: float, frames: int) -> None:
    """A peer: prints ns per frame, or runs `frames` frames and prints what was found."""
    import onnxruntime

    sys.path.insert(0, folder)
    detect = importlib.import_module("detect")
    options = onnxruntime.SessionOptions()
    for name, value in WAYS[way].items():
        setattr(options, name, value)
    session = onnxruntime.InferenceSession(
        f"{folder}/ssd.onnx", options, providers=["CPUExecutionProvider"]
    )
    camera, count = detect.Camera(seed=1), detect.Count()

    def frame() -> None:
        image = detect.prepare(camera())
        boxes, scores = session.run(["boxes", "scores"], {"image": image})
        count(detect.select(boxes, scores))

    if frames:
        for _ in range(frames):
            frame()
        count.close()
    else:
        print(steady.loop(frame, seconds))


def peer(way: str, folder: Path, frames: int = 0) -> str:
    """What a peer prints, run in a process of its own."""
    arguments = json.dumps([way, str(folder), SECONDS, frames])
    return execute(sys.executable, Path(__file__).resolve(), "--peer", arguments)


def timed(way: str, folder: Path) -> float:
    """What a peer says of its speed."""
    return float(peer(way, folder))


def main() -> None:
    """Map, check, alternate, print."""
    count = rounds(__doc__, 11)
    others, quiet = Others(), steady.Quiet()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = copy_example(folder)
        quiet.wait()
        found = find_mapping(text).mapping.contestants[0]
        flowc.build(text, folder / "build")
        seen = {
            execute(
                sys.executable, folder / "build" / "main.py", "--frames", str(CHECKED), "--quiet"
            )
        }
        seen |= {peer(way, folder, CHECKED) for way in WAYS}
        if len(seen) > 1:
            raise SystemExit(f"the sides do not agree on what was found: {sorted(seen)}")
        calls: dict[str, Callable[[], float]] = {
            "flowc": lambda: steady.program(folder / "build", SECONDS)
        }
        calls |= {way: partial(timed, way, folder) for way in WAYS}
        samples = alternate({side: quiet.side(call) for side, call in calls.items()}, count)

    print(f"{machine()}; {others.text()}\n{quiet.text()}\n{count} rounds; checksums agree")
    print(f"mapping: {found.name}: {found.configuration}\n")
    rows = [["side", "frames/s", "flowc is faster, times: median [quartiles] least..most", "aim"]]
    for side, times in samples.items():
        gain = ratio(times, samples["flowc"])
        aim = verdict(gain.median, least=AIMS[side]) if side in AIMS else ""
        rows.append(
            [
                side,
                f"{1e9 / Spread.of(times).median:.1f}",
                "" if side == "flowc" else gain.text(),
                aim,
            ]
        )
    print(table(rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        by_hand(*json.loads(sys.argv[2]))
    else:
        main()
