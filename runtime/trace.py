"""A trace that Perfetto (ui.perfetto.dev) and Chrome open.

A lane per processor with a slice per firing, arrows along the tokens between them, the fill of each
channel, and for each app its frames, with deadlines that were missed. Where it is asked for, also a
lane for each unit of bands of rows.
"""

from __future__ import annotations

from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

if TYPE_CHECKING:
    from .bands import Note
    from .graph import App, Path, Task
    from .program import Program
    from .tokens import Port

#: Processes of the trace: what runs on processors, and the first app, whose frames are a process
#: for each. Number 2 is left for predicted firings.
RUNNING, APPS = 1, 3
#: Of what flowc adds to the format of Chrome.
VERSION = 1


class Tracer:
    """Collects events while the program runs; times are ns of one clock.

    Of each app it keeps the frames from `first` to `end` (that one excluded; None: all). `bands`:
    what networks in bands of rows fire is in it, too. `kept` makes what holds events.
    """

    def __init__(
        self,
        program: Program,
        first: int = 0,
        end: Optional[int] = None,
        bands: bool = False,
        kept: Callable[[], Any] = list,
    ) -> None:
        self._name, self._run = program.name, program.run
        self._first, self._end = first, end
        self._units: List[Tuple[str, int, List[Note]]] = []
        for task in program.tasks:
            task.code.traced = bands
        #: Lane, task, firing, number of firings, start, end.
        self._firings = kept()
        #: Channel, tokens, time.
        self._fills = kept()
        #: Lane, task, firing, time.
        self._releases = kept()
        #: App, number, begin, end.
        self._frames = kept()
        #: Path, firing, latency, end.
        self._late = kept()

    def _keeps(self, frame: int) -> bool:
        return frame >= self._first and (self._end is None or frame < self._end)

    def firing(self, lane: str, task: Task, firing: int, group: int, start: int, end: int) -> None:
        """One run of a task: `group` firings, the first of which is `firing`. And how full its
        channels are then."""
        if not self._keeps(firing // task.per_iteration):
            return
        self._firings.append((lane, task, firing, group, start, end))
        code: Any = task.code
        if code.layout and code.traced:
            self._units.append(
                ("%s on %s" % (task.name, lane), firing // task.per_iteration, code.noted())
            )
        for channel in task.feeders + [c for readers in task.readers for c in readers]:
            self._fills.append((channel.name, channel.filled, end))  # type: ignore[union-attr]

    def release(self, lane: str, task: Task, firing: int, time: int) -> None:
        """A firing of a source was due at that time."""
        if self._keeps(firing // task.per_iteration):
            self._releases.append((lane, task, firing, time))

    def frame(self, app: App, number: int, begin: int, end: int) -> None:
        """A frame, from its release to the end of its last sink."""
        if self._keeps(number):
            self._frames.append((app, number, begin, end))

    def late(self, path: Path, firing: int, latency: int, end: int) -> None:
        """A firing of the sink of a path ended after the deadline."""
        if self._keeps(firing // path.sink.per_iteration):
            self._late.append((path, firing, latency, end))

    def events(self, build: Optional[str] = None) -> Dict[str, Any]:
        """Everything as Chrome trace JSON; `build` is the digest of the program."""
        begin = self._run.begin
        lanes: Dict[str, int] = {}
        units = [
            "%s: %s" % (where, unit) for where, _, notes in self._units for unit, _, _ in notes
        ]
        for lane in [f[0] for f in self._firings] + [r[0] for r in self._releases] + units:
            lanes.setdefault(lane, len(lanes) + 1)
        events = [_named("process_name", RUNNING, 0, self._name)]
        events += [_named("thread_name", RUNNING, number, lane) for lane, number in lanes.items()]
        apps = self._apps()
        events += [
            _named("process_name", process, 0, "%s: frames" % name)
            for name, process in apps.items()
        ]
        for lane, task, firing, group, start, end in self._firings:
            said = {"frame": firing // task.per_iteration, "firing": firing, "firings": group}
            slice_ = {
                "ph": "X",
                "name": task.name,
                "pid": RUNNING,
                "tid": lanes[lane],
                "ts": (start - begin) / 1000,
            }
            events.append({**slice_, "dur": (end - start) / 1000, "args": said})
        for where, frame, notes in self._units:
            for unit, start, end in notes:
                slice_ = {
                    "name": unit,
                    "tid": lanes["%s: %s" % (where, unit)],
                    "ts": (start - begin) / 1000,
                }
                one = {"ph": "X", "cat": "bands", "pid": RUNNING, "args": {"frame": frame}}
                events.append({**one, **slice_, "dur": (end - start) / 1000})
        for lane, task, firing, time in self._releases:
            events.append(
                {
                    "ph": "i",
                    "s": "t",
                    "name": "release",
                    "pid": RUNNING,
                    "tid": lanes[lane],
                    "ts": (time - begin) / 1000,
                    "args": {"task": task.name, "firing": firing},
                }
            )
        for channel, tokens, time in self._fills:
            events.append(
                {
                    "ph": "C",
                    "name": channel,
                    "pid": RUNNING,
                    "ts": (time - begin) / 1000,
                    "args": {"tokens": tokens},
                }
            )
        events += self._of_frames(apps)
        events += self._arrows(lanes)
        # When the clock of the trace was 0.
        began = time_ns() - (perf_counter_ns() - begin)
        kept = {"first_frame": self._first, "end_frame": self._end, "began_unix_us": began // 1000}
        return {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {"version": VERSION, "build": build, **kept},
        }

    def _apps(self) -> Dict[str, int]:
        """The process of each app, whatever state it is in."""
        names = [a.name for a in self._run.apps] + [frame[0].name for frame in self._frames]
        return {name: APPS + k for k, name in enumerate(dict.fromkeys(names))}

    def _of_frames(self, apps: Dict[str, int]) -> Iterator[Dict[str, Any]]:
        """Frames overlap, so they are asynchronous; what is late has a mark at its end."""
        begin = self._run.begin
        for k, (app, frame, start, end) in enumerate(self._frames):
            one = {
                "cat": "frame",
                "name": "frame",
                "pid": apps[app.name],
                "tid": 0,
                "id": "%s %d" % (app.name, k),
            }
            yield {
                **one,
                "ph": "b",
                "ts": (start - begin) / 1000,
                "args": {"app": app.name, "frame": frame},
            }
            yield {**one, "ph": "e", "ts": (end - begin) / 1000}
            if app.deadline is not None and end - start > int(app.deadline):
                said = {
                    "app": app.name,
                    "frame": frame,
                    "late_us": (end - start - int(app.deadline)) / 1000,
                }
                yield _missed(apps[app.name], (end - begin) / 1000, said)
        for path, firing, latency, end in self._late:
            sink = path.sink
            place = {
                "app": sink.app.name,
                "kind": path.kind,
                "source": path.source.name,
                "task": sink.name,
                "firing": firing,
            }
            said = {**place, "frame": firing // sink.per_iteration, "latency_us": latency / 1000}
            yield _missed(apps[sink.app.name], (end - begin) / 1000, said)

    def _arrows(self, lanes: Dict[str, int]) -> Iterator[Dict[str, Any]]:
        """From the firing that made the last token that a firing takes, to that one."""
        begin = self._run.begin
        makers = {
            id(channel): (task, port)
            for task in dict.fromkeys(firing[1] for firing in self._firings)
            for port, readers in zip(task.outputs, task.readers)
            for channel in readers
        }
        made: Dict[Tuple[Task, int], Tuple[str, int, int]] = {}
        for lane, task, firing, group, start, end in self._firings:
            for k in range(group):
                made[task, firing + k] = (lane, start, end)
        arrow = 0
        for lane, task, firing, group, start, _ in self._firings:
            for port, feeder in zip(task.inputs, task.feeders):
                if feeder is None or all(port.rate(firing + k) == 0 for k in range(group)):
                    continue
                if id(feeder) not in makers:
                    continue
                source, out = makers[id(feeder)]
                last = _tokens(port, firing + group) - 1 - feeder.delay
                origin = made.get((source, _maker(out, last))) if last >= 0 else None
                if origin is None:
                    continue
                arrow += 1
                one = {"cat": "tokens", "name": feeder.name, "pid": RUNNING, "id": arrow}
                at = max(origin[1], origin[2] - 1)  # inside of its slice
                yield {**one, "ph": "s", "tid": lanes[origin[0]], "ts": (at - begin) / 1000}
                yield {
                    **one,
                    "ph": "f",
                    "bp": "e",
                    "tid": lanes[lane],
                    "ts": (start - begin) / 1000,
                }


def _named(what: str, process: int, lane: int, name: str) -> Dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": lane, "args": {"name": name}}


def _missed(process: int, time: float, said: Dict[str, Any]) -> Dict[str, Any]:
    return {
        "ph": "i",
        "s": "p",
        "name": "deadline missed",
        "pid": process,
        "tid": 0,
        "ts": time,
        "args": said,
    }


def _tokens(port: Port, firings: int) -> int:
    """Tokens that so many firings take or make."""
    rounds, rest = divmod(firings, len(port.rates))
    return rounds * sum(port.rates) + sum(port.rates[:rest])


def _maker(port: Port, token: int) -> int:
    """The firing that makes a token, both counted from 0."""
    rates: Sequence[int] = port.rates
    rounds, rest = divmod(token, sum(rates))
    phase = 0
    while rest >= rates[phase]:
        rest -= rates[phase]
        phase += 1
    return rounds * len(rates) + phase
