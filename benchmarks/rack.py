"""More machines than available: the cost of cameras on a rack by the model of links, and its
bottlenecks.

    python benchmarks/rack.py [CAMERAS...]

Each camera is a machine with a core and a link of its own (1 GbE: 110 MB/s, 0.3 ms; for the least
number also ten times as fast and a ninth as fast) to a rack, to which it sends a frame of 0.92 MB
ten times a second; there each frame takes 20 ms of a core, and its result goes back. The rack gets
as many cores as that needs at 80 % of their time. Printed are what flowc says of it, and how long
it takes to say so: check, order and bounds, and a simulation beside the bounds, with links as
processors.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

import flowc
from flowc.analysis.timing.program import timed_program
from flowc.analysis.timing.response_time import worst_cases
from flowc.analysis.timing.simulate import Choices, simulate
from flowc.analysis.timing.system import utilization
from flowc.driver.plan.program import place, plan
from flowc.model.times import times_of
from flowc.runtime.report import columns

T = TypeVar("T")
TEXT = """
task Camera {{ out frame: uint8[480, 640, 3]   wcet 2 ms   python "t.py:camera" }}
task Detect {{ in frame: uint8[480, 640, 3]   out found: int32[16]   wcet 20 ms   python "t.py:detect" }}
task Act {{ in found: int32[16]   wcet 0.1 ms   python "t.py:act" }}
{apps}
platform rack {{
    machine rack {{ cpu core[{cores}] scheduler fixed_priority }}
{machines}
}}
mapping on rack {{
{pins}
}}
"""
TASKS = "def camera(): ...\ndef detect(frame): ...\ndef act(found): ...\n"
#: Of each core, and of each camera: ms of work in a period of 100 ms.
WORK, PERIOD = 20, 100
#: Of a core that is used at most.
SHARE = 0.8


def text(cameras: int, cores: int, rate: str) -> str:
    """So many cameras at so many MB/s each."""
    numbers = range(cameras)
    apps = "\n".join(
        f"app A{i} {{ period {PERIOD} ms   camera: Camera   detect: Detect   act: Act   camera ->"
        " detect -> act }"
        for i in numbers
    )
    machines = "\n".join(
        f"    machine cam{i} {{ cpu core scheduler fixed_priority }}\n    link cam{i} rack {rate}"
        " MB/s 0.3 ms"
        for i in numbers
    )
    pins = "\n".join(
        f"    A{i}.camera -> cam{i}.core\n    A{i}.act -> cam{i}.core\n    A{i}.detect ->"
        f" rack.core[{i % cores}]"
        for i in numbers
    )
    return TEXT.format(apps=apps, machines=machines, pins=pins, cores=cores)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    begin = time.process_time()
    return work(), time.process_time() - begin


def row(cameras: int, rate: str, folder: Path) -> list[Any]:
    """What is known of so many cameras with such links."""
    cores = ceil(cameras * WORK / PERIOD / SHARE)
    flow = folder / f"rack{cameras}.flow"
    flow.write_text(text(cameras, cores, rate))
    (folder / "t.py").write_text(TASKS)
    checked, check_s = timed(lambda: flowc.check(flow, platform="rack"))
    assert checked.ok, [d.message for d in checked.diagnostics][:3]
    valid = checked.require()
    times = times_of(valid.system, valid.platform)
    deployed, order_s = timed(lambda: plan(valid, times, place(valid, times)))
    worst = {n: tuple(t.worst_ns) for n in valid.tasks if (t := times.here(n)) is not None}
    system = timed_program(
        deployed.deployment, valid.platform, {n: max(w) for n, w in worst.items()}
    )
    found, bound_s = timed(lambda: worst_cases(system))
    known = [b for b in found.groups.values() if b is not None]
    # some app may be late without end
    longest = max(known) if len(known) == len(found.groups) else None
    seen, _ = timed(
        lambda: simulate(system, Fraction(PERIOD * 10**6 * 3), Choices(), random.Random(1))
    )
    late = max(seen.groups.values())
    busy = utilization(system)
    busiest = max(busy, key=lambda p: busy[p])
    link = max(share for p, share in busy.items() if "->" in p)
    assert longest is None or late <= longest
    bound = "none" if longest is None else f"{float(longest) / 1e6:.1f}"
    return [
        cameras,
        rate,
        cores,
        f"{float(busy[busiest]):.0%} {busiest}",
        f"{float(link):.1%}",
        bound,
        f"{float(late) / 1e6:.1f}",
        f"{check_s:.2f}",
        f"{order_s:.2f}",
        f"{bound_s:.2f}",
    ]


def main() -> None:
    wanted = [int(word) for word in sys.argv[1:]] or [10, 100, 300]
    head = [
        "cameras",
        "MB/s",
        "cores",
        "busiest",
        "busiest link",
        "bound ms",
        "simulated",
        "check s",
        "order s",
        "bounds s",
    ]
    rows = [head]
    with tempfile.TemporaryDirectory() as folder:
        rows += [row(n, "110", Path(folder)) for n in wanted]
        rows += [row(wanted[0], rate, Path(folder)) for rate in ("1000", "12.5")]
    print(columns(rows))


if __name__ == "__main__":
    main()
