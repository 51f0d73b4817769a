"""Run a generated program in a time of its own: `python tests/support/virtual.py BUILD_DIR --frames
4 --report FILE`.

Time passes in a worker only while a task or a release of a source sleeps; everything else takes
none. Every worker has a clock of its own, and a token carries the time at which it was made:
its reader was waiting for it until then, and a writer that needs room waited for the firing that
made it. So the times of a run follow from its graph, orders and sleeps alone, whatever else the
machine does. Replicas are not known here.
"""

from __future__ import annotations

import runpy
import sys
import threading
import time
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

#: When everything begins; 0 would mean that it has not begun.
START = 1_000_000_000
_own = threading.local()


def now() -> int:
    """The time of the calling thread in ns."""
    found: int = getattr(_own, "now", START)
    return found


def _until(moment: int) -> None:
    _own.now = max(now(), moment)


def worked() -> int:
    """For how long the calling thread has slept in ns: that is all the work there is."""
    found: int = getattr(_own, "worked", 0)
    return found


def _sleep(seconds: float) -> None:
    ns = max(1, round(1e9 * seconds))
    _own.worked = worked() + ns
    _until(now() + ns)


def _with_times(channel: Any) -> None:
    """Let tokens and room carry times. Inside of a worker they need none."""
    made, acquire, release = channel.__init__, channel.acquire, channel.release
    claim, commit = channel.claim, channel.commit

    def timed_init(self: Any, name: str, capacity: int, initial: Any = None) -> None:
        made(self, name, capacity, initial)
        self.full, self.empty_since = deque([START] * self.filled), deque([START] * self.free)

    def timed_acquire(self: Any, count: int, *rest: Any) -> Any:
        tokens = acquire(self, count, *rest)
        for _ in range(count):
            _until(self.full.popleft())
        return tokens

    def timed_release(self: Any, count: int) -> None:
        self.empty_since.extend([now()] * count)
        release(self, count)

    def timed_claim(self: Any, count: int, *rest: Any) -> None:
        claim(self, count, *rest)
        for _ in range(count):
            _until(self.empty_since.popleft())

    def timed_commit(self: Any, block: Any, count: int, *rest: Any) -> None:
        self.full.extend([now()] * count)
        commit(self, block, count, *rest)

    channel.__init__, channel.acquire, channel.release = timed_init, timed_acquire, timed_release
    channel.claim, channel.commit = timed_claim, timed_commit


def _with_latest_ends(app: Any) -> None:
    """The end of a frame is that of its last sink by these clocks, in whichever order they end."""
    ended, ends, changing = app.ended, defaultdict(int), threading.Lock()

    def latest(self: Any, iteration: int, end: int) -> None:
        with changing:
            ends[id(self), iteration] = max(ends[id(self), iteration], end)
            ended(self, iteration, ends[id(self), iteration])

    app.ended = latest


def main(build: Path) -> None:
    """Run it as its own command line would."""
    sys.path[0] = str(build)
    from runtime import command
    from runtime.channel import Channel
    from runtime.graph import App

    _with_times(Channel)
    _with_latest_ends(App)
    execute = command.execute

    def asleep(program: Any, *arguments: Any, **options: Any) -> bool:
        # so that sources sleep until they are released, and do not wait for an event
        program.run.stir()
        good: bool = execute(program, *arguments, **options)
        return good

    command.execute = asleep
    time.perf_counter_ns, time.sleep = now, _sleep
    time.thread_time_ns = worked
    sys.argv = [str(build / "main.py"), *sys.argv[2:]]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
