"""What a monitoring system asks of a running program: counters and gauges, as plain data.

In: a program that runs, and its open ends. Out: families of samples, in the terms of Prometheus
(https://prometheus.io/docs/concepts/metric_types/). Nothing is imported for them: a `Collector`
hands them to the `prometheus_client` of who has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple

from .graph import App
from .program import Program

if TYPE_CHECKING:
    from .open_ports import Ends


class Family(NamedTuple):
    """Samples of one kind: `kind` is "counter" or "gauge", `labels` the names of the label values
    that stand in front of each number of `samples`."""

    name: str
    kind: str
    help: str
    labels: List[str]
    samples: List[List[Any]]


class Collector:
    """Gives a `prometheus_client` registry what `families` gives, whenever it is asked:
    `registry.register(Collector(running.metrics))`."""

    def __init__(self, families: Callable[[], List[Family]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Any]:
        """For `prometheus_client`, which calls it."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
        for family in self._families():
            made = kinds[family.kind](family.name, family.help, labels=family.labels)
            for *labels, number in family.samples:
                made.add_metric(labels, number)
            yield made


def families(program: Program, ends: Dict[str, Ends], alive: bool) -> List[Family]:
    """What the program has done so far; `ends` are those of apps that have open ones."""
    apps: Dict[str, List[App]] = {}
    for app in program.run.totals or program.apps:  # each state has its own
        apps.setdefault(app.name, []).append(app)

    def of_apps(number: Callable[[App], float]) -> List[List[Any]]:
        return [[name, sum(number(app) for app in own)] for name, own in apps.items()]

    tasks: Dict[str, List[Any]] = {}
    for own in apps.values():
        for app in own:
            for task in app.tasks:
                done = tasks.setdefault(task.name, [task.name, 0, 0.0, 0])
                done[1] += task.firings
                done[2] += task.busy / 1e9
                done[3] += task.failed
    firings = [[name, fired] for name, fired, _, _ in tasks.values()]
    seconds = [[name, busy] for name, _, busy, _ in tasks.values()]
    failed = [[name, failures] for name, _, _, failures in tasks.values()]
    dropped = [
        [link.name, link.place.dropped] for link in program.links.values() if not link.looked_at
    ]
    waiting = [[name, each.waiting] for name, each in ends.items()]
    a, t = ["app"], ["task"]
    return [
        Family("flowc_up", "gauge", "1 while the program runs and has not failed", [], [[alive]]),
        Family("flowc_frames", "counter", "Finished frames", a, of_apps(lambda x: x.frames)),
        Family("flowc_skipped", "counter", "Frames left out", a, of_apps(lambda x: x.skipped)),
        Family("flowc_missed", "counter", "Missed deadlines", a, of_apps(lambda x: x.late())),
        Family(
            "flowc_frame_seconds",
            "counter",
            "Seconds from start to end, of all complete frames together",
            a,
            of_apps(lambda x: x.total_latency / 1e9),
        ),
        Family("flowc_firings", "counter", "Firings of tasks", t, firings),
        Family("flowc_firing_seconds", "counter", "Seconds in firings of tasks", t, seconds),
        Family("flowc_failed_firings", "counter", "Firings that raised an error", t, failed),
        Family("flowc_dropped", "counter", "Tokens dropped between apps", ["mailbox"], dropped),
        Family("flowc_waiting", "gauge", "Tokens that wait to be taken", a, waiting),
    ]
