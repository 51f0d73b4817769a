"""The document of a report: rows for everything on its page.

In: results of the verbs for a text, and of a run of its program. Out: a `Document`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from ...analysis.dataflow.analyze import Analysis, Capacities
from ...analysis.dataflow.analyze import analyze as analyze_app
from ...model.application import Application, Port, Task
from ...model.diagnostic import Diagnostic
from ...model.mapping import GroupBound, as_text, race_in_words
from ...model.mapping import Mapping as StoredMapping
from ...model.verdict import Verdict
from ...model.version import __version__
from ...networks.engines import engine_of
from ...report.document import (
    AcceleratorRow,
    AppRow,
    ChannelRow,
    ChartRow,
    CompareRow,
    ContestantRow,
    Document,
    MemoryPoint,
    NetworkRow,
    PathRow,
    PortRow,
    ProcessorRow,
    SearchRow,
    TaskRow,
)
from ...report.graph import rate
from ...report.layout import layout
from ...report.measured import Latency, MeasuredRun, RanApp, RanTask, Traced
from ...targets.inference import engines_in
from ..build.accelerators import OnAccelerator
from ..plan.compared import compared_before
from ..plan.program import firing_means, sources_of
from ..text.measured import measured_verdicts
from .comparing import Rows, compared
from .firings import measured_chart, predicted_charts
from .reporting_states import changes_of, in_the_mean, states_of
from .show import Shown

#: Seconds for each search of an analysis. Most take a few hundredths; longer ones are left to the
#: `analyze` command.
SECONDS = 2.0
#: Units in which a search counts.
UNITS = {"throughput": "ns", "latency": "ns", "energy": "nJ", "utilization": ""}


MeasuredRow = TypeVar("MeasuredRow", TaskRow, PathRow)


class DocumentRows:
    """Rows of the document, from results of the verbs."""

    def __init__(
        self,
        shown: Shown,
        path: Path,
        platform: str,
        ran: MeasuredRun | None,
        traced: Traced | None,
    ) -> None:
        self._shown, self._path, self._ran, self._traced = shown, path, ran, traced
        self._valid, self._mapping = shown.valid, shown.valid.mapping
        #: The measurements; empty if nothing has run.
        self._measured = ran or MeasuredRun(None, 0, "", {}, {}, {}, {})
        self._on = "" if platform == "host" else f" --platform {platform}"
        self._missing: dict[str, str] = {}
        self._verdicts = measured_verdicts(self._valid, shown.times)
        self._analyses = dict(self._analyzed())
        self._capacities = {} if shown.planned is None else shown.planned.capacities
        self._limited = sorted(shown.reports, key=lambda r: (r.network, r.kind))

    def document(self, compare: str | Path | None) -> Document:
        """The whole document. Raises Errors if the file to compare with cannot be read."""
        valid, ran, shown = self._valid, self._ran, self._shown
        tasks = tuple(self._tasks())
        channels = tuple(self._channels())
        paths = tuple(self._paths())
        processors = tuple(self._processors())
        states, changes = tuple(states_of(valid, ran)), tuple(changes_of(valid, ran))
        index = {t.name: i for i, t in enumerate(tasks)}
        predicted = predicted_charts(shown, index)
        measured = None if self._traced is None else measured_chart(self._traced, valid, index)
        self._note_missing(predicted, measured)
        versus: CompareRow | None = None
        if compare is not None:
            rows = Rows(tasks, channels, paths, processors, states, changes)
            versus = compared(Path(compare), rows)
        return Document(
            name=valid.system.stem,
            platform=valid.platform.name,
            flowc=__version__,
            machine=shown.profile.host if shown.profile is not None else "",
            imported=self._imported,
            build=self._measured.build,
            status=None if ran is None else ran.status,
            failure=self._measured.failure,
            twin=self._measured.twin,
            commands=tuple(self._commands()),
            diagnostics=tuple((d.severity, d.code, d.message) for d in self._told()),
            apps=tuple(self._app(a) for a in valid.system.apps),
            processors=processors,
            tasks=tasks,
            channels=channels,
            paths=paths,
            states=states,
            changes=changes,
            predicted=predicted,
            measured=measured,
            memory=tuple(self._memory()),
            search=self._search(),
            dla=tuple(map(_limited, self._limited)),
            compare=versus,
            missing=dict(self._missing),
            slack=() if self._mapping is None else self._mapping.slack,
        )

    def _told(self) -> Iterator[Diagnostic]:
        yield from dict.fromkeys((*self._valid.diagnostics, *self._shown.diagnostics))

    def _command(self, verb: str, rest: str = "") -> str:
        native = self._valid.platform.native and verb in ("profile", "map", "run")
        target = " --target native" if native else ""
        return f"flowc {verb} {self._path.name}{rest}{self._on}{target}"

    def _commands(self) -> Iterator[str]:
        """Commands that reproduce this report."""
        if self._shown.profile is not None and not self._imported:
            yield self._command("profile")
        if self._mapping is not None:
            yield self._command("map", "".join(f" {option}" for option in _options(self._mapping)))
        if self._ran is not None:
            frames = max((a.frames for a in self._ran.apps.values()), default=0)
            trace = "" if self._traced is None else " --trace trace.json"
            twin = " --twin" if self._ran.twin else ""
            yield self._command("run", f" --frames {frames} --report run.json{trace}{twin}")

    @property
    def _imported(self) -> bool:
        return self._shown.profile is not None and self._shown.profile.imported

    def _note_missing(self, predicted: tuple[ChartRow, ...], measured: ChartRow | None) -> None:
        missing, run = self._missing, self._command("report", " --run 200")
        if self._valid.platform.native:
            run = self._command("run", " --report run.json --trace trace.json")
        sources = sources_of(self._valid, self._shown.times)
        if self._shown.profile is None and "unknown" in sources.values():
            missing["times"] = self._command("profile")
        if self._ran is None:
            missing["run"] = run
        if measured is None:
            missing["trace"] = run
        if not predicted:
            missing["predicted"] = self._command("show", " --gantt")
        if self._mapping is None:
            missing["search"] = missing["bounds"] = self._command("map")
        elif not (self._mapping.groups or self._mapping.states):
            missing["bounds"] = ""
        if not any(self._memory()):
            missing["memory"] = self._command("analyze", " --pareto")
        if not self._limited:
            missing["dla"] = "" if self._on else self._command("report", " --platform orin")

    # -- apps --------------------------------------------------------------------------------------
    def _analyzed(self) -> Iterator[tuple[str, Analysis]]:
        for app in self._valid.system.apps:
            analysis = analyze_app(
                app,
                self._valid.verdicts[app.name],
                self._shown.times.app(app),
                for_period=True,
                pareto=True,
                seconds=SECONDS,
            )
            yield app.name, analysis

    def _app(self, app: Application) -> AppRow:
        analysis, ran = self._analyses[app.name], self._ran_app(app.name)
        where = layout(app)
        schedulable, by = self._schedulable(app)
        channels = dict.fromkeys(hop.channel for hop in analysis.critical_cycle if hop.channel)
        row = AppRow(
            name=app.name,
            doc=app.doc,
            period_ns=_ns(app.period_ns),
            deadline_ns=_ns(app.due_ns),
            consistent=analysis.verdicts.consistent.holds,
            deadlock_free=analysis.verdicts.deadlock_free.holds,
            schedulable=schedulable.holds,
            schedulable_by=by,
            least_period_ns=_ns(analysis.period),
            unit_times=analysis.times.unknown,
            critical_tasks=tuple(dict.fromkeys(h.task for h in analysis.critical_cycle)),
            critical_channels=tuple(channels),
            columns=where.columns,
            routes={name: route for name, route in where.routes.items() if route},
            back=where.back,
        )
        if ran is None:
            return row
        return replace(
            row,
            frames=ran.frames,
            skipped=ran.skipped,
            fps=ran.fps,
            deadline_misses=ran.latency.misses,
            overruns=ran.overruns,
        )

    def _schedulable(self, app: Application) -> tuple[Verdict, str]:
        """The verdict of `check`; where the text alone does not decide, that of the mapping in use
        is a yes, too. And what leads to it, as `AppRow.schedulable_by`."""
        verdict = self._verdicts[app.name].schedulable
        if verdict.proved is None and self._mapping is not None:
            of_states = (group for state in self._mapping.states for group in state.groups)
            bounds = [g for g in (*self._mapping.groups, *of_states) if g.app == app.name]
            if bounds and all(g.schedulable and not g.supposed for g in bounds):
                return Verdict(True), "mapping"
        return verdict, "profile" if verdict.measured else ""

    def _ran_app(self, name: str) -> RanApp | None:
        return self._measured.apps.get(name)

    def _processors(self) -> Iterator[ProcessorRow]:
        """Predicted: the search's value, else the mean times of the placed tasks over the period.

        Without a period the busiest processor of an app is always busy. States count by their
        weights.
        """
        shares: Mapping[str, float] = {}
        if self._mapping is not None:
            shares = dict(self._mapping.utilization) or in_the_mean(self._valid)
        shares = shares or self._predicted_utilization()
        for pool in self._valid.platform.pools:
            for name in pool.processors:
                share = shares.get(name)
                predicted = None if share is None else round(share, 4)
                measured = self._measured.processors.get(name)
                yield ProcessorRow(name, pool.kind, predicted, measured)

    def _predicted_utilization(self) -> dict[str, float]:
        """The share of its time that each processor works, by the mean times of placed tasks."""
        means = firing_means(self._valid, self._shown.times, self._mapping)
        total: dict[str, float] = {}
        for app in self._valid.system.apps:
            loads = self._loads(app, means)
            period = max(loads.values(), default=0.0)
            if app.period_ns is not None:
                period = float(app.period_ns)
            for processor, work in loads.items():
                total[processor] = total.get(processor, 0.0) + (work / period if period else 0.0)
        return total

    def _loads(self, app: Application, means: Mapping[str, float]) -> dict[str, float]:
        """The time that an iteration of an app takes of each processor."""
        loads: dict[str, float] = {}
        firings = self._valid.repetition[app.name]
        for task in app.tasks:
            if task.name not in means:
                continue
            places = self._shown.places.get(task.name, ())
            for processor in places:
                work = means[task.name] * firings[task.name] / len(places)
                loads[processor] = loads.get(processor, 0.0) + work
        return loads

    # -- tasks -------------------------------------------------------------------------------------
    def _tasks(self) -> Iterator[TaskRow]:
        means = firing_means(self._valid, self._shown.times, self._mapping)
        sources = sources_of(self._valid, self._shown.times)
        for app in self._valid.system.apps:
            for task in app.tasks:
                source = sources.get(task.name, "")
                row = self._task(app, task, means.get(task.name), source)
                ran = self._measured.tasks.get(task.name)
                yield row if ran is None else self._compared(_with_run(row, ran))

    def _task(self, app: Application, task: Task, mean: float | None, source: str) -> TaskRow:
        """The prediction for a task; code on an arrow takes no time."""
        time = self._shown.times.here(task.name)
        fired = None if time is None or time.entry is None else time.entry.fired
        if mean is not None and fired and time is not None and time.source != "pin":
            mean /= fired  # as runs measure them: only firings that had tokens
        group, _, label = task.name.partition(".")[2].rpartition(".")
        row = TaskRow(
            name=task.name,
            app=app.name,
            kind=_kind_of_row(task),
            group=group,
            label=label,
            definition=task.definition,
            doc=task.doc,
            place=f"{Path(task.span.file).name}:{task.span.line}",
            code=_code(task, self._kind(task.name)),
            firings=self._valid.repetition[app.name].get(task.name, 0),
            processors=self._shown.places.get(task.name, ()),
            ports=(*_ports("in", task.inputs), *_ports("out", task.outputs)),
            network=self._network(task),
            times_from="imported" if self._imported and source == "measured" else source,
            predicted_ns=None if mean is None else round(mean),
            worst_ns=None if time is None else _ns(time.longest_ns),
        )
        if task.resampling is None:
            return row
        label = str(task.resampling)
        return replace(row, label=label, definition="", predicted_ns=None, worst_ns=None)

    def _kind(self, task: str) -> str:
        places = self._shown.places.get(task, ())
        return self._valid.platform.pool_of(places[0]).kind if places else "cpu"

    def _network(self, task: Task) -> NetworkRow | None:
        if task.network is None:
            return None
        time = self._shown.times.here(task.name)
        layers: tuple[tuple[str, int], ...] = ()
        overhead_ns = 0
        if time is not None and time.entry is not None:
            layers = tuple((layer.layer, round(layer.mean_ns)) for layer in time.entry.layers)
            overhead_ns = time.entry.overhead_ns
        dla = "; ".join(
            f"{found.legal} of {found.layers} layers can run on {found.title}"
            for found in self._limited
            if found.network == task.network.definition
        )
        engine = noise = ""
        if self._kind(task.name) == "cpu":
            named = engines_in(self._valid.system, self._valid.platform).get(task.name, "")
            runs = engine_of(named)
            engine = runs.title
            near = compared_before(task, runs, self._valid, of_source=False)
            noise = "" if near is None else near.figure
        return NetworkRow(
            file=(task.network.cut_from or task.network).file,
            precision=task.network.precision,
            batch=task.network.batch,
            layers=layers,
            overhead_ns=overhead_ns,
            dla=dla,
            engine=engine,
            noise=noise,
        )

    # -- channels, paths ---------------------------------------------------------------------------
    def _channels(self) -> Iterator[ChannelRow]:
        for app in self._valid.system.apps:
            analysis = self._analyses[app.name]
            least = _sizes(analysis.least_buffers)
            kept = _sizes(analysis.period_buffers)
            for channel in app.channels:
                out = app.task(channel.source).port(channel.source_port)
                into = app.task(channel.destination).port(channel.destination_port)
                capacity, most = self._measured.channels.get(
                    channel.name, (self._capacities.get(channel.name), None)
                )
                yield ChannelRow(
                    name=channel.name,
                    app=app.name,
                    source=channel.source,
                    source_port=channel.source_port,
                    target=channel.destination,
                    target_port=channel.destination_port,
                    rates=(rate(out), rate(into)),
                    delay=channel.delay,
                    type=_type(out),
                    token_bytes=_bytes(out),
                    capacity=capacity,
                    least=least.get(channel.name),
                    for_period=kept.get(channel.name),
                    most=most,
                )

    def _paths(self) -> Iterator[PathRow]:
        groups = {g.app: g for g in self._mapping.groups} if self._mapping is not None else {}
        for app in self._valid.system.apps:
            yield from self._paths_of(app, groups.get(app.name))

    def _paths_of(self, app: Application, group: GroupBound | None) -> Iterator[PathRow]:
        """The frames of an app, and the paths that have a deadline or a number."""
        analysis, ran = self._analyses[app.name], self._ran_app(app.name)
        supposed = "" if group is None else group.supposed
        frames = PathRow(
            app=app.name,
            kind="path",
            source="",
            task="",
            deadline_ns=_ns(app.due_ns),
            bound_ns=None if group is None else group.response_ns,
            least_ns=_ns(analysis.latency_lower),
            supposed=supposed,
        )
        yield frames if ran is None else self._compared(_with_latency(frames, ran.latency))
        least = {("path", p.source, p.sink): _ns(p.lower) for p in analysis.paths}
        bounds: dict[tuple[str, str, str], int | None] = {}
        if group is not None:
            bounds = {(p.kind, p.source, p.task): p.latency_ns for p in group.paths}
        deadlines = {("path", p.source, p.sink): _ns(p.deadline_ns) for p in app.paths}
        for chain in app.chains:
            deadlines[chain.kind, chain.source, chain.sink] = _ns(chain.deadline_ns)
        latencies = {} if ran is None else ran.paths
        for ends in dict.fromkeys((*deadlines, *least, *bounds, *latencies)):
            kind, source, task = ends
            row = PathRow(
                app=app.name,
                kind=kind,
                source=source,
                task=task,
                deadline_ns=deadlines.get(ends),
                bound_ns=bounds.get(ends),
                least_ns=least.get(ends),
                supposed=supposed,
            )
            latency = latencies.get(ends)
            yield row if latency is None else self._compared(_with_latency(row, latency))

    def _compared(self, row: MeasuredRow) -> MeasuredRow:
        """A row without what compares the times of a twin with those of the platform."""
        if not self._measured.twin:
            return row
        if isinstance(row, TaskRow):
            return replace(row, error=None)
        return replace(row, above_bound=None)

    # -- fronts, searches --------------------------------------------------------------------------
    def _memory(self) -> Iterator[MemoryPoint]:
        for app in self._valid.system.apps:
            analysis = self._analyses[app.name]
            if "pareto" in analysis.cut:
                continue
            for p in analysis.pareto or ():
                if p.period is not None:
                    yield MemoryPoint(app.name, round(p.period), p.bytes, p.total, p.channels)

    def _search(self) -> SearchRow | None:
        mapping = self._mapping
        if mapping is None:
            return None
        effort = mapping.effort
        power = effort.objective == "energy" and bool(mapping.groups or mapping.states)
        return SearchRow(
            name=mapping.search,
            objective=effort.objective,
            unit="W" if power else UNITS.get(effort.objective, ""),
            used=as_text(mapping.platform, mapping.placements, mapping.networks),
            seed=effort.seed,
            evaluations=effort.evaluations,
            measured_runs=effort.measured_runs,
            seconds=round(effort.seconds, 3),
            optimal=effort.optimal,
            over=effort.scope.in_words if effort.optimal else "",
            decided=race_in_words(mapping),
            contestants=tuple(
                ContestantRow(
                    c.name, c.configuration, c.predicted_ns, c.measured_ns, c.runs, c.pins
                )
                for c in mapping.contestants
            ),
            history=tuple((p.seconds, p.evaluations, p.value, p.bound) for p in effort.history),
            front=tuple(
                (p.utilization, p.tightest, p.pins, p.watts, p.cpus, p.bytes) for p in effort.front
            ),
            why=mapping.why,
            priorities="" if mapping.priorities is None else mapping.priorities.in_words,
        )


def _options(mapping: StoredMapping) -> Iterator[str]:
    """The options that `map` had when it found a mapping, as far as they are kept."""
    yield f"--search {mapping.search}"
    if mapping.effort.objective not in ("throughput", "utilization"):
        yield f"--objective {mapping.effort.objective}"
    yield f"--seed {mapping.effort.seed}"
    supposed = mapping.supposed
    if supposed is None:
        return
    if supposed.fps is not None:
        yield f"--fps {supposed.fps}"
    if supposed.cores is not None:
        yield f"--cores {supposed.cores}"
    yield "--keep"


def _ns(time: Fraction | None) -> int | None:
    return None if time is None else round(time)


def _sizes(capacities: Capacities | None) -> Mapping[str, int]:
    """The capacity of each channel, if it is known."""
    return {} if capacities is None else capacities.channels


def _type(port: Port) -> str:
    return "" if port.type is None else str(port.type)


def _bytes(port: Port) -> int | None:
    return None if port.type is None or port.type.open else port.type.bytes


def _code(task: Task, kind: str) -> str:
    """The code of a task, in words."""
    if task.network is not None:
        return f"onnx {(task.network.cut_from or task.network).file}"
    code = task.implementation_on(kind) or next(iter(task.implementations), None)
    return "" if code is None else f"{code.language} {code.file}:{code.symbol}"


def _kind_of_row(task: Task) -> str:
    if task.resampling is not None:
        return "resampling"
    if task.network:
        return "network"
    if task.border:
        return "border"
    return "link" if task.link else "task"


def _ports(direction: str, ports: Iterable[Port]) -> Iterator[PortRow]:
    for port in ports:
        yield PortRow(port.name, direction, _type(port), rate(port))


def _with_run(row: TaskRow, ran: RanTask) -> TaskRow:
    """A task with what a run measured of it; code on an arrow takes no time."""
    ports = [replace(p, list=ran.lists[p.name]) if p.name in ran.lists else p for p in row.ports]
    row = replace(row, fired=ran.firings, failed=ran.failed, ports=tuple(ports))
    if row.kind == "resampling":
        return row
    error = None
    if row.predicted_ns and ran.mean_ns is not None:
        error = round(ran.mean_ns / row.predicted_ns - 1, 4)
    return replace(
        row,
        measured_ns=ran.mean_ns,
        measured_max_ns=ran.max_ns if ran.firings else None,
        share=ran.share,
        error=error,
    )


def _with_latency(row: PathRow, latency: Latency) -> PathRow:
    """A path with the latencies of a run."""
    above = None
    if row.bound_ns is not None and latency.max_ns is not None:
        bins = zip(latency.edges_ns, latency.counts, strict=False)
        certain = sum(count for edge, count in bins if edge > row.bound_ns)
        above = max(certain, int(latency.max_ns > row.bound_ns))
    return replace(
        row,
        count=latency.count,
        mean_ns=latency.mean_ns,
        p50_ns=latency.p50_ns,
        p99_ns=latency.p99_ns,
        max_ns=latency.max_ns,
        deadline_misses=latency.misses,
        above_bound=above,
        edges_ns=latency.edges_ns,
        counts=latency.counts,
    )


def _limited(found: OnAccelerator) -> AcceleratorRow:
    rules = tuple((row.op, row.count, row.rule, row.layers) for row in found.rows)
    runs = tuple((run.first, run.last, run.count) for run in found.runs)
    return AcceleratorRow(found.network, found.title, found.layers, found.legal, rules, runs)
