"""The document of a report: rows for everything on its page.

In: results of the verbs for a text, and of a run of its program. Out: a `Document`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from ...analysis.dataflow.analyze import Analysis
from ...analysis.dataflow.analyze import analyze as analyze_app
from ...model.application import Application, Port, Task
from ...model.diagnostic import Diagnostic
from ...model.mapping import GroupBound, Mapping, as_text
from ...model.version import __version__
from ...report.document import (
    AppRow,
    ChannelRow,
    ChartRow,
    CompareRow,
    ContestantRow,
    DlaRow,
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
from ...report.measured import Latency, Ran, RanApp, Traced
from ..plan.program import firing_means, sources_of
from .comparing import Rows, compared
from .firings import measured_chart, predicted_charts
from .reporting_states import changes_of, in_the_mean, states_of
from .show import Shown

#: Seconds for each search of an analysis. Most take a few hundredths; longer ones are left to the
#: `analyze` command.
SECONDS = 2.0
#: Units in which a search counts.
UNITS = {"throughput": "ns", "latency": "ns", "energy": "nJ", "utilization": ""}


class Collector:
    """Rows of the document, from results of the verbs."""

    def __init__(
        self, shown: Shown, path: Path, platform: str, ran: Ran | None, traced: Traced | None
    ) -> None:
        self._shown, self._path, self._ran, self._traced = shown, path, ran, traced
        self._valid, self._mapping = shown.valid, shown.valid.mapping
        self._on = "" if platform == "host" else f" --platform {platform}"
        self._missing: dict[str, str] = {}
        self._analyses = dict(self._analyzed())
        self._capacities = {} if shown.planned is None else shown.planned.capacities
        self._dla = {r.network: r for r in shown.reports}

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
            versus = compared(
                Path(compare), Rows(tasks, channels, paths, processors, states, changes)
            )
        return Document(
            name=valid.system.stem,
            platform=valid.platform.name,
            flowc=__version__,
            machine=shown.profile.host if shown.profile is not None else "",
            imported=self._imported,
            build=None if ran is None else ran.build,
            status=None if ran is None else ran.status,
            failure="" if ran is None else ran.failure,
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
            dla=tuple(_dla(self._dla[name]) for name in sorted(self._dla)),
            compare=versus,
            missing=dict(self._missing),
        )

    def _told(self) -> Iterator[Diagnostic]:
        yield from dict.fromkeys((*self._valid.diagnostics, *self._shown.diagnostics))

    def _command(self, verb: str, rest: str = "") -> str:
        return f"flowc {verb} {self._path.name}{rest}{self._on}"

    def _commands(self) -> Iterator[str]:
        """The tool and files that made the data."""
        if self._shown.profile is not None and not self._imported:
            yield self._command("profile")
        if self._mapping is not None:
            yield self._command("map", "".join(f" {option}" for option in _options(self._mapping)))
        if self._ran is not None:
            frames = max((a.frames for a in self._ran.apps.values()), default=0)
            trace = "" if self._traced is None else " --trace trace.json"
            yield self._command("run", f" --frames {frames} --report run.json{trace}")

    @property
    def _imported(self) -> bool:
        return self._shown.profile is not None and self._shown.profile.imported

    def _note_missing(self, predicted: tuple[ChartRow, ...], measured: ChartRow | None) -> None:
        missing, run = self._missing, self._command("report", " --run 200")
        if (
            self._shown.profile is None
            and "unknown" in sources_of(self._valid, self._shown.times).values()
        ):
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
        if not self._dla:
            missing["dla"] = "" if self._on else self._command("report", " --platform orin")

    # -- apps --------------------------------------------------------------------------------------
    def _analyzed(self) -> Iterator[tuple[str, Analysis]]:
        valid = self._valid
        for app in valid.system.apps:
            times = self._shown.times.app(app)
            yield (
                app.name,
                analyze_app(
                    app,
                    valid.verdicts[app.name],
                    times,
                    for_period=True,
                    pareto=True,
                    seconds=SECONDS,
                ),
            )

    def _app(self, app: Application) -> AppRow:
        found, ran = self._analyses[app.name], self._ran_app(app.name)
        where = layout(app)
        return AppRow(
            name=app.name,
            doc=app.doc,
            period_ns=_ns(app.period_ns),
            deadline_ns=_ns(app.due_ns),
            consistent=found.verdicts.consistent.holds,
            deadlock_free=found.verdicts.deadlock_free.holds,
            schedulable=found.verdicts.schedulable.holds,
            least_period_ns=_ns(found.period),
            unit_times=found.times.unknown,
            critical_tasks=tuple(dict.fromkeys(h.task for h in found.critical_cycle)),
            critical_channels=tuple(
                dict.fromkeys(h.channel for h in found.critical_cycle if h.channel)
            ),
            columns=where.columns,
            routes={name: route for name, route in where.routes.items() if route},
            back=where.back,
            frames=None if ran is None else ran.frames,
            skipped=None if ran is None else ran.skipped,
            fps=None if ran is None else ran.fps,
            deadline_misses=None if ran is None else ran.latency.misses,
            overruns=None if ran is None else ran.overruns,
        )

    def _ran_app(self, name: str) -> RanApp | None:
        return None if self._ran is None else self._ran.apps.get(name)

    def _processors(self) -> Iterator[ProcessorRow]:
        """Predicted: the search's value, else the mean times of the placed tasks over the period.

        Without a period the busiest processor of an app is always busy. States count by their
        weights.
        """
        known = (
            {}
            if self._mapping is None
            else dict(self._mapping.utilization) or in_the_mean(self._valid)
        )
        means = firing_means(self._valid, self._shown.times, self._mapping)
        total: dict[str, float] = {}
        for app in self._valid.system.apps:
            load: dict[str, float] = {}
            for task in app.tasks:
                places = self._shown.places.get(task.name, ())
                for processor in places if task.name in means else ():
                    work = (
                        means[task.name] * self._valid.repetition[app.name][task.name] / len(places)
                    )
                    load[processor] = load.get(processor, 0.0) + work
            period = (
                float(app.period_ns)
                if app.period_ns is not None
                else max(load.values(), default=0.0)
            )
            for processor, work in load.items():
                total[processor] = total.get(processor, 0.0) + (work / period if period else 0.0)
        for pool in self._valid.platform.pools:
            for name in pool.processors:
                share = known.get(name) if known else total.get(name)
                seen = None if self._ran is None else self._ran.processors.get(name)
                yield ProcessorRow(
                    name, pool.kind, None if share is None else round(share, 4), seen
                )

    # -- tasks -------------------------------------------------------------------------------------
    def _tasks(self) -> Iterator[TaskRow]:
        means, sources = (
            firing_means(self._valid, self._shown.times, self._mapping),
            sources_of(self._valid, self._shown.times),
        )
        for app in self._valid.system.apps:
            for task in app.tasks:
                yield self._task(app, task, means.get(task.name), sources.get(task.name, ""))

    def _task(self, app: Application, task: Task, mean: float | None, source: str) -> TaskRow:
        time, ran = (
            self._shown.times.here(task.name),
            None if self._ran is None else self._ran.tasks.get(task.name),
        )
        idle = task.resampling is not None
        predicted = None if mean is None or idle else round(mean)
        measured = None if ran is None or idle else ran.mean_ns
        error = round(measured / predicted - 1, 4) if predicted and measured is not None else None
        kind = (
            "network"
            if task.network
            else "border"
            if task.border
            else "link"
            if task.link
            else "task"
        )
        short = task.name.partition(".")[2]
        group, _, label = short.rpartition(".")
        return TaskRow(
            name=task.name,
            app=app.name,
            kind="resampling" if idle else kind,
            group=group,
            label=str(task.resampling) if idle else label,
            definition="" if idle else task.definition,
            doc=task.doc,
            place=f"{Path(task.span.file).name}:{task.span.line}",
            code=_code(task, self._kind(task.name)),
            firings=self._valid.repetition[app.name].get(task.name, 0),
            processors=self._shown.places.get(task.name, ()),
            ports=tuple(
                PortRow(p.name, way, "" if p.type is None else str(p.type), rate(p))
                for way, ports in (("in", task.inputs), ("out", task.outputs))
                for p in ports
            ),
            network=self._network(task),
            times_from="imported" if self._imported and source == "measured" else source,
            predicted_ns=predicted,
            worst_ns=None if time is None or idle else _ns(time.longest_ns),
            measured_ns=measured,
            measured_max_ns=None if ran is None or idle or not ran.firings else ran.max_ns,
            fired=None if ran is None else ran.firings,
            failed=0 if ran is None else ran.failed,
            share=None if ran is None or idle else ran.share,
            error=error,
        )

    def _kind(self, task: str) -> str:
        places = self._shown.places.get(task, ())
        return self._valid.platform.pool_of(places[0]).kind if places else "cpu"

    def _network(self, task: Task) -> NetworkRow | None:
        if task.network is None:
            return None
        time = self._shown.times.here(task.name)
        entry = None if time is None else time.entry
        on_dla = self._dla.get(task.network.definition)
        return NetworkRow(
            file=(task.network.cut_from or task.network).file,
            precision=task.network.precision,
            batch=task.network.batch,
            layers=tuple((layer.layer, round(layer.mean_ns)) for layer in entry.layers)
            if entry is not None
            else (),
            overhead_ns=0 if entry is None else entry.overhead_ns,
            dla=""
            if on_dla is None
            else f"{on_dla.legal} of {on_dla.layers} layers can run on a DLA",
        )

    # -- channels, paths ---------------------------------------------------------------------------
    def _channels(self) -> Iterator[ChannelRow]:
        for app in self._valid.system.apps:
            found = self._analyses[app.name]
            least = {} if found.least_buffers is None else found.least_buffers.channels
            kept = {} if found.period_buffers is None else found.period_buffers.channels
            for c in app.channels:
                out, into = (
                    app.task(c.source).port(c.source_port),
                    app.task(c.destination).port(c.destination_port),
                )
                used = None if self._ran is None else self._ran.channels.get(c.name)
                yield ChannelRow(
                    name=c.name,
                    app=app.name,
                    source=c.source,
                    source_port=c.source_port,
                    target=c.destination,
                    target_port=c.destination_port,
                    rates=(rate(out), rate(into)),
                    delay=c.delay,
                    type="" if out.type is None else str(out.type),
                    token_bytes=_bytes(out),
                    capacity=used[0] if used is not None else self._capacities.get(c.name),
                    least=least.get(c.name),
                    for_period=kept.get(c.name),
                    most=None if used is None else used[1],
                )

    def _paths(self) -> Iterator[PathRow]:
        groups = {g.app: g for g in self._mapping.groups} if self._mapping is not None else {}
        for app in self._valid.system.apps:
            found, ran, group = (
                self._analyses[app.name],
                self._ran_app(app.name),
                groups.get(app.name),
            )
            latency = None if ran is None else ran.latency
            bound = None if group is None else group.response_ns
            yield _path(
                app, "", "", _ns(app.due_ns), bound, group, _ns(found.latency_lower), latency
            )
            least = {(p.source, p.sink): _ns(p.lower) for p in found.paths}
            bounds = (
                {(p.source, p.task): p.latency_ns for p in group.paths} if group is not None else {}
            )
            due = {(p.source, p.sink): _ns(p.deadline_ns) for p in app.paths}
            seen = {} if ran is None else ran.paths
            for source, task in dict.fromkeys((*due, *least, *bounds, *seen)):
                key = source, task
                yield _path(
                    app, *key, due.get(key), bounds.get(key), group, least.get(key), seen.get(key)
                )

    # -- fronts, searches --------------------------------------------------------------------------
    def _memory(self) -> Iterator[MemoryPoint]:
        for app in self._valid.system.apps:
            found = self._analyses[app.name]
            for p in found.pareto or () if "pareto" not in found.cut else ():
                if p.period is not None:
                    yield MemoryPoint(app.name, _ns(p.period) or 0, p.bytes, p.total, p.channels)

    def _search(self) -> SearchRow | None:
        mapping = self._mapping
        if mapping is None:
            return None
        effort = mapping.effort
        return SearchRow(
            name=mapping.search,
            objective=effort.objective,
            unit=UNITS.get(effort.objective, ""),
            used=as_text(mapping.platform, mapping.placements, mapping.networks),
            seed=effort.seed,
            evaluations=effort.evaluations,
            measured_runs=effort.measured_runs,
            seconds=round(effort.seconds, 3),
            optimal=effort.optimal,
            contestants=tuple(
                ContestantRow(c.name, c.configuration, c.predicted_ns, c.measured_ns, c.pins)
                for c in mapping.contestants
            ),
            history=tuple((p.seconds, p.evaluations, p.value, p.bound) for p in effort.history),
            front=tuple((p.utilization, p.tightest, p.pins) for p in effort.front),
            why=mapping.why,
        )


def _options(mapping: Mapping) -> Iterator[str]:
    """The options that `map` had when it found a mapping, as far as they are kept."""
    yield f"--search {mapping.search}"
    if mapping.effort.objective not in ("throughput", "utilization"):
        yield f"--objective {mapping.effort.objective}"
    yield f"--seed {mapping.effort.seed}"
    if mapping.supposed is not None:
        yield from () if mapping.supposed.fps is None else (f"--fps {mapping.supposed.fps}",)
        yield from () if mapping.supposed.cores is None else (f"--cores {mapping.supposed.cores}",)
        yield "--keep"


def _ns(time: Fraction | None) -> int | None:
    return None if time is None else round(time)


def _bytes(port: Port) -> int | None:
    return None if port.type is None or port.type.open else port.type.bytes


def _code(task: Task, kind: str) -> str:
    """The code of a task, in words."""
    if task.network is not None:
        return f"onnx {(task.network.cut_from or task.network).file}"
    found = task.implementation_on(kind) or next(iter(task.implementations), None)
    return "" if found is None else f"{found.language} {found.file}:{found.symbol}"


def _path(
    app: Application,
    source: str,
    task: str,
    deadline: int | None,
    bound: int | None,
    group: GroupBound | None,
    least: int | None,
    seen: Latency | None,
) -> PathRow:
    above = None
    if seen is not None and bound is not None and seen.max_ns is not None:
        certain = sum(
            n for edge, n in zip(seen.edges_ns, seen.counts, strict=False) if edge > bound
        )
        above = max(certain, int(seen.max_ns > bound))
    return PathRow(
        app=app.name,
        source=source,
        task=task,
        deadline_ns=deadline,
        bound_ns=bound,
        conditional=group is not None and group.conditional,
        least_ns=least,
        count=None if seen is None else seen.count,
        mean_ns=None if seen is None else seen.mean_ns,
        p50_ns=None if seen is None else seen.p50_ns,
        p99_ns=None if seen is None else seen.p99_ns,
        max_ns=None if seen is None else seen.max_ns,
        deadline_misses=None if seen is None else seen.misses,
        above_bound=above,
        edges_ns=() if seen is None else seen.edges_ns,
        counts=() if seen is None else seen.counts,
    )


def _dla(found: object) -> DlaRow:
    from ..build.dla import OnDla

    assert isinstance(found, OnDla)
    rows = tuple((r.op, r.count, r.rule, r.layers) for r in found.rows)
    return DlaRow(
        found.network,
        found.layers,
        found.legal,
        rows,
        tuple((r.first, r.last, r.count) for r in found.runs),
    )
