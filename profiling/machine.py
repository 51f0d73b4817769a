"""What this machine costs beside computing: handing a tensor to another core, and how much its times scatter.

In: nothing but the machine. Out: a linear cost of transfers between CPUs, and the noise of a fixed piece of work.
"""

from __future__ import annotations

import threading
import time

from ..model.profile import Transfer
from ..runtime.channel import Channel, Waiter

#: Bytes of the tensors that are handed over.
SIZES = (1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22)
#: Hand-overs of each size; the median of them counts.
ROUNDS = 60


def transfer() -> Transfer:
    """What a tensor costs the core that receives it: a wake-up, and reading what another core has written.

    Fitted to measurements of `SIZES` by least squares, never below zero. Tensors are handed over by reference.
    """
    import numpy as np

    hop = _hop_ns()
    sizes = np.array(SIZES, dtype=float)
    extra = np.array([max(0.0, _read_ns(size, False) - _read_ns(size, True)) for size in SIZES])
    # Relative errors count: otherwise the largest size alone decides.
    weights = 1 / (hop + extra)
    slope = float(np.sum(weights * sizes * extra) / np.sum(weights * sizes * sizes))
    return Transfer("cpu", "cpu", hop, max(0.0, slope))


def _hop_ns() -> float:
    """Half of the time that a token needs to another thread and back, when the other one sleeps."""
    import numpy as np

    there, back = Channel("there", 2), Channel("back", 2)
    token = np.zeros(1)
    rounds = 4 * ROUNDS

    def echo() -> None:
        waiter = Waiter()
        for _ in range(rounds):
            there.acquire(1, False, waiter)
            there.release(1)
            back.claim(1, waiter)
            back.commit(token, 1, False)

    thread = threading.Thread(target=echo, daemon=True)
    thread.start()
    waiter = Waiter()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        there.claim(1, waiter)
        there.commit(token, 1, False)
        back.acquire(1, False, waiter)
        back.release(1)
        times.append(time.perf_counter_ns() - begin)
    thread.join()
    return float(np.median(times)) / 2


def _read_ns(size: int, here: bool) -> float:
    """Time to read an array that was just written by this thread, or by another one."""
    import numpy as np

    times = []
    array = np.zeros(size // 8)
    for k in range(ROUNDS):
        if here:
            array.fill(k)
        else:
            writer = threading.Thread(target=array.fill, args=(k,))
            writer.start()
            writer.join()
        begin = time.perf_counter_ns()
        array.sum()
        times.append(time.perf_counter_ns() - begin)
    return float(np.median(times))


def noise() -> float:
    """How much equal work differs on this machine now: the span from the 10th to the 90th percentile, relative."""
    import numpy as np

    a = np.ones((96, 96), np.float32)
    times = []
    for _ in range(400):
        begin = time.perf_counter_ns()
        for _ in range(4):
            a @ a
        times.append(time.perf_counter_ns() - begin)
    low, middle, high = np.percentile(times, [10, 50, 90])
    return float((high - low) / middle)
