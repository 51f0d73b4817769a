"""Times of firings at a program's own pace, from when each was ready: with the overheads of runtime
and kernel.

In: firings with their begins and ends, and what tasks take from each other. Out: times in ns by
task, in order.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Callable, Collection, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple


class Fired(NamedTuple):
    """A firing, or a group of them in one call, on a thread; `end` and `start` in ns."""

    end: int
    start: int
    task: str
    firing: int
    group: int
    thread: int


class Need(NamedTuple):
    """What a task takes from a channel: `made` and `taken` are the tokens after each firing of the
    maker and of the task, without the initial ones."""

    maker: str
    made: List[int]
    taken: List[int]
    delay: int


def counts_of(events: Iterable[Fired], tasks: Iterable[str]) -> Dict[str, int]:
    """How many firings of each task there were, counted from its first one."""
    counts = dict.fromkeys(tasks, 0)
    for fired in events:
        counts[fired.task] = max(counts[fired.task], fired.firing + fired.group)
    return counts


def times_since_ready(
    events: Sequence[Fired],
    needs: Mapping[str, Sequence[Need]],
    released: Mapping[str, Callable[[int], int]],
    live: Collection[str],
) -> Dict[str, List[int]]:
    """The times by task.

    A firing was ready when its worker had finished the one before, and the firing that made its
    last token had ended; that of a source, when it was `released`. A `live` source is ready when
    its data have come: it takes the time from the start of its firing, which leaves out its wait.
    """
    ends: Dict[Tuple[str, int], int] = {}
    for fired in events:
        for k in range(fired.firing, fired.firing + fired.group):
            ends[fired.task, k] = fired.end
    before: Dict[int, int] = {}
    samples: Dict[str, List[int]] = {}
    for end, start, name, firing, group, thread in sorted(events):
        ready = start if name in live else before.get(thread, 0)
        before[thread] = end
        if name in released:
            ready = max(ready, released[name](firing))
        for need in needs[name]:
            wanted = need.taken[firing + group - 1] - need.delay
            if wanted > 0:  # otherwise initial tokens were enough
                last = bisect_left(need.made, wanted)
                ready = max(ready, ends.get((need.maker, last), 0))
        samples.setdefault(name, []).append((end - min(start, ready or start)) // group)
    return samples
