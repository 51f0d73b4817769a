"""Flattening of apps and composites to tasks and channels.

A block (an app or a graph) has units (its instances) and arrows between their ports. Ports of a
composite are knots: an arrow into one continues inside, so every channel finally joins two tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, count

from ..model.application import (
    MOST_BATCH,
    Application,
    Channel,
    Link,
    PathDeadline,
    Port,
    Share,
    Task,
    reached,
)
from ..model.diagnostic import Note, did_you_mean, listed, one_of
from ..model.span import Span
from . import syntax as s
from .borders import OpenEnd, Requests, open_ends
from .chains import Chains
from .channels import Channels
from .components import Components
from .context import Context
from .evaluate import Evaluator, Scope
from .firing_times import TimesByType, times_by_type
from .template import Template
from .wiring import (
    Connections,
    HopOfChain,
    Key,
    LossyArrow,
    PortView,
    Resampled,
    WiredEdge,
    WiredUnit,
    Wiring,
    link_end,
)

#: Limits of instances per text, phases per app, and nesting of graphs: more is a mistake in a
#: number.
MOST_INSTANCES = 50_000
MOST_PHASES = 1_000_000
DEEPEST = 64


class Flattener:
    """Flattens one app. `choices` has the variants of network instances that do not use the first
    one.
    """

    def __init__(
        self,
        context: Context,
        evaluator: Evaluator,
        components: Components,
        choices: Mapping[str, str] | None = None,
    ) -> None:
        self._context = context
        self._evaluate = evaluator
        self._components = components
        self._tasks: list[Task] = []
        self._phases = 0
        self._connections = Connections()
        self._units: dict[str, list[WiredUnit]] = {}
        self._choices = choices or {}
        #: Instances of networks with variants, and arrows from other apps.
        self.networks: dict[str, s.NetworkDecl] = {}
        self.links: list[LossyArrow] = []
        self._paths: list[s.PathDeadlineDecl] = []
        #: Deadlines of paths that begin in another app, and reactions.
        self.chains: list[s.PathDeadlineDecl] = []
        #: Names of tasks, and the next number behind each of the same stem, once there are links.
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        self.name = ""
        #: Was a `latest` or `drop` between two tasks of the app reported? Then what follows from
        #: the missing arrow is not.
        self.torn = False

    # -- apps --------------------------------------------------------------------------------------
    def app(self, declaration: s.AppDecl, scope: Scope | None = None) -> Application:
        """The flat application; faults go to the context. `scope` are the parameters of a graph
        that became an app.
        """
        timing: dict[str, Fraction | None] = {}
        priority: int | None = None
        share: Share | None = None
        requests: Requests | None = None
        places: dict[str, Span] = {}
        for item in declaration.items:
            match item:
                case s.TimingDecl():
                    self._once(item.key, item.span, places)
                    timing[item.key] = self._time(item.key, item.value)
                case s.Priority():
                    self._once("priority", item.span, places)
                    least = -(2**31)
                    priority = self._evaluate.integer(item.value, {}, "the priority", least)
                case s.PathDeadlineDecl():
                    self._paths.append(item)
                case s.ShareDecl():
                    self._once("share", item.span, places)
                    share = self._share(item)
                case s.RequestsDecl():
                    self._once("batch", item.span, places)
                    requests = self._requests(item)
                case _:
                    pass
        blocks = [i for i in declaration.items if isinstance(i, (s.InstanceDecl, s.ArrowChain))]
        name = self.name = declaration.name.text
        scope = scope or {}
        ends = tuple(open_ends(declaration, self._evaluate, self._context, scope, requests))
        if "batch" in places:
            self._require_requests(declaration, places["batch"], ends)
        self._open(ends)
        if not blocks:
            self._context.fault(
                "F215",
                f"app `{name}` is empty",
                declaration.name.span,
                help="add an instance: `name: Task`",
            )
        self._units = self._block(blocks, scope, name, {e.view.key[1]: e.view for e in ends}, ())
        self._unjoined(ends)
        joined = Channels(self._context, self._tasks, self._connections.edges)
        channels = tuple(joined.made())
        return Application(
            name,
            (*self._tasks, *joined.resampling),
            channels,
            timing.get("period"),
            timing.get("deadline"),
            priority,
            declaration.doc,
            declaration.name.span,
            tuple(self._deadlines(channels)),
            tuple(
                (n, self._choices.get(n, d.variants[0].name.text)) for n, d in self.networks.items()
            ),
            share=share,
        )

    def _share(self, declared: s.ShareDecl) -> Share | None:
        """What an app gets of its CPUs; None after a fault."""
        percent = self._evaluate.number(declared.percent, {}, "a share")
        period = None
        if declared.period is not None:
            period = self._time("period", declared.period)
            if period is None:
                return None
        if percent is None:
            return None
        if not 0 < percent <= 100:
            message = f"a share of {float(percent):g} %"
            self._context.fault(
                "F105", message, declared.percent.span, label="must be above 0, and at most 100"
            )
            return None
        return Share(Fraction(percent) / 100, period, declared.span)

    def _requests(self, declared: s.RequestsDecl) -> Requests | None:
        """How an app takes requests in batches; None after a fault."""
        what = "the size of a batch"
        most = self._evaluate.integer(declared.most, {}, what, 1, MOST_BATCH)
        wait = declared.within
        within = self._evaluate.quantity(wait.amount, wait.unit, "time", "a wait", {})
        return None if most is None or within is None else Requests(most, within)

    def _require_requests(
        self, declaration: s.AppDecl, span: Span, ends: Sequence[OpenEnd]
    ) -> None:
        """Batches need an `in`, and have no place beside a period or a deadline."""
        if not any(end.view.direction == "in" for end in ends):
            message = "a batch of requests needs an `in` that they come in by"
            help_text = "add `in name: TYPE` to the app, or remove `batch`"
            self._context.fault("F229", message, span, help=help_text)
        for item in declaration.items:
            if isinstance(item, (s.TimingDecl, s.PathDeadlineDecl)):
                message = f"`{item.key}` beside `batch`, which waits for requests"
                help_text = f"remove `{item.key}`, or `batch`: then each request is a frame"
                self._context.fault("F229", message, item.span, help=help_text)

    def _once(self, keyword: str, span: Span, places: dict[str, Span]) -> None:
        """Check that a clause of an app stands once; `places` has those in front of it."""
        if keyword in places:
            message = f"`{keyword}` is given twice"
            self._context.repeated("F115", message, span, places[keyword])
        places[keyword] = span

    def _open(self, ends: Sequence[OpenEnd]) -> None:
        """Add the tasks of open ends."""
        for end in ends:
            self._tasks.append(end.task)
            self._connections.edges.append(end.edge)
            self._connections.fed[end.edge.destination] = end.view.span

    def _unjoined(self, ends: Sequence[OpenEnd]) -> None:
        """Find open ends without a reader, or without a source."""
        for end in ends:
            name, key = end.view.key[1], end.view.key
            if key in self._connections.excused:
                self._connections.excused.add(end.key)
            elif key in self._connections.read:
                self._connections.read.add(end.key)
            elif end.view.direction == "out" and key not in self._connections.fed:
                message = f"open end `{name}` of app `{self.name}` is never fed"
                self._context.fault(
                    "F202", message, end.view.span, help=f"add `... -> {name}` to the app"
                )

    def output(self, inner: Sequence[s.Element]) -> Key | str:
        """The task and output port that `instance`, or `instance.port`, of the app denotes as a
        source of data.

        If there is none: a help text with the correct form.
        """
        unit = self._element(inner[0]) if inner else None
        instead = f"write `{self.name}.task` or `{self.name}.task.port`"
        if unit is None or len(inner) > 2 or (len(inner) == 2 and inner[1].index is not None):
            return instead
        ports = list(unit.outputs.values())
        if len(inner) == 2:
            ports = [v for n, v in unit.outputs.items() if n == inner[1].name.text]
        if len(ports) != 1:
            return instead
        key = ports[0].key
        while edge := self._leading.get(key):  # out of graphs
            if any(isinstance(step, Resampled) for step in edge.steps):
                return (
                    "the output of `repeat` or `last` stays in its app: read the task in front"
                    " of it"
                )
            key = edge.source
        return key if key[0] in self._named else instead  # nothing feeds that output of a graph

    @cached_property
    def _leading(self) -> dict[Key, WiredEdge]:
        """The edge that leads to each port, once all edges exist."""
        return {e.destination: e for e in reversed(self._connections.edges)}

    @cached_property
    def _named(self) -> dict[str, Task]:
        """The tasks by name, once all exist."""
        return {t.name: t for t in self._tasks}

    def reads(self, key: Key) -> None:
        """Another app reads that output."""
        self._connections.read.add(key)

    def _element(self, element: s.Element) -> WiredUnit | None:
        units = self._units.get(element.name.text, [])
        if element.index is None:
            return units[0] if len(units) == 1 else None
        index = self._evaluate.integer(element.index, {}, "an index", 0)
        return units[index] if index is not None and index < len(units) else None

    def _deadlines(self, channels: tuple[Channel, ...]) -> Iterator[PathDeadline]:
        """Deadlines of paths, between existing tasks that arrows join."""
        behind: dict[str, set[str]] = {}
        for item in self._paths:
            if item.to.text != "to":
                help_text = f"write `{item.key} 40 ms from SOURCE to TASK`"
                self._context.fault(
                    "F001", f"`{item.to.text}` does not fit here", item.to.span, help=help_text
                )
                continue
            if item.key == "reaction" or self.is_elsewhere(item.source):
                self.chains.append(item)
                continue
            value = self.deadline(item)
            ends = [
                self.end(path, last) for path, last in ((item.source, False), (item.sink, True))
            ]
            if ends[0] is None or ends[1] is None or value is None:
                continue
            source, sink = ends[0], ends[1]
            if source.inputs:
                help_text = "a deadline counts from the release of a source"
                message = f"`{source.name.partition('.')[2]}` is no source"
                self._context.fault("F219", message, _span_of(item.source), help=help_text)
                continue
            if source.name not in behind:
                behind[source.name] = reached(source.name, channels)
            if sink.name not in behind[source.name]:
                if self.torn:
                    continue
                message = (
                    f"no arrows lead from `{_written(item.source)}` to `{_written(item.sink)}`"
                )
                self._context.fault(
                    "F219", message, item.span, help="name a task that gets its data"
                )
            else:
                yield PathDeadline(source.name, sink.name, value, item.span)

    def deadline(self, item: s.PathDeadlineDecl) -> Fraction | None:
        """The time of a deadline; None after a fault."""
        return self._time(item.key, item.value)

    def is_elsewhere(self, path: tuple[s.Element, ...]) -> bool:
        """Does a path begin with something that is no instance of the app?"""
        name = path[0].name.text
        return len(path) > 1 and name not in self._units and name in self._context.names

    def end(self, path: tuple[s.Element, ...], last: bool) -> Task | None:
        """The task at an end of a path; of a network with `pre` and `post`, the outermost. None
        after a fault."""
        name = f"{self.name}.{_written(path)}"
        for full in (f"{name}.post" if last else f"{name}.pre", name):
            if full in self._named:
                return self._named[full]
        if not self._any_broken and path[0].name.text not in self._context.poisoned:
            help_text = (
                did_you_mean(_written(path), self._short) or f"there is {one_of(self._short)}"
            )
            units = self._units.get(path[0].name.text, [])
            if len(units) > 1 and path[0].index is None:
                word = path[0].name.text
                help_text = f"`{word}` has {len(units)} instances: name one, such as `{word}[0]`"
            if path[0].name.text in self._context.names:
                help_text = "a path ends in its own app; it may begin at `App.task` of another one"
            message = f"there is no task `{_written(path)}` in `{self.name}`"
            self._context.fault("F219", message, _span_of(path), help=help_text)
        return None

    @cached_property
    def _short(self) -> list[str]:
        """The names of tasks within their app."""
        return [name.partition(".")[2] for name in self._named]

    @cached_property
    def _any_broken(self) -> bool:
        """Does the app lack tasks, because of other faults?"""
        return any(unit.broken for unit in chain.from_iterable(self._units.values()))

    def alone(self, declaration: s.GraphDecl, arguments: Scope) -> None:
        """Check a graph that no app uses: its faults go to the context, nothing is kept."""
        name = declaration.name
        item = s.InstanceDecl(s.Element(name, None, name.span), name, (), None, None, "", name.span)
        self._graph(declaration, arguments, name.text, item, ())

    def _time(self, what: str, written: s.Quantity, scope: Scope | None = None) -> Fraction | None:
        value = self._evaluate.quantity(
            written.amount, written.unit, "time", f"a {what}", scope or {}
        )
        if value == 0:
            self._context.fault("F105", f"a {what} of 0", written.span, label="must be longer")
            return None
        return value

    # -- blocks ------------------------------------------------------------------------------------
    def _block(
        self,
        items: list[s.InstanceDecl | s.ArrowChain],
        scope: Scope,
        prefix: str,
        own: dict[str, PortView],
        open_graphs: tuple[str, ...],
    ) -> dict[str, list[WiredUnit]]:
        """Instantiate everything of a block and connect it; its units.

        `own` are the ports of the graph the block belongs to.
        """
        units: dict[str, list[WiredUnit]] = {}
        arrays: set[str] = set()
        places: dict[str, Span] = {name: view.span for name, view in own.items()}
        for item in items:
            if isinstance(item, s.InstanceDecl):
                name, span = item.element.name.text, item.element.name.span
                if name in places:
                    what = "a port and an instance" if name in own else "two instances"
                    message = f"{what} are called `{name}`"
                    self._context.repeated("F102", message, span, places[name])
                    continue
                places[name] = span
                units[name] = self._instances(item, scope, f"{prefix}.{name}", open_graphs)
                if item.element.index is not None:
                    arrays.add(name)
        chains = Chains(self._context, self._evaluate)
        arrows: list[HopOfChain] = []
        for item in items:
            if isinstance(item, s.ArrowChain):
                arrows += self._arrows(item, chains, scope, units, bool(open_graphs))
        connections = self._connections
        for name in chains.skipped:
            for unit in units.get(name, ()):
                connections.excused.update(view.key for view in unit.views)
            if name in own:
                connections.excused.add(own[name].key)
        wiring = Wiring(self._context, self._evaluate, units, arrays, own, scope, connections)
        wiring.wire(arrows)
        for group in units.values():
            for unit in group:
                self._check_fed(unit)
        return units

    def _arrows(
        self,
        item: s.ArrowChain,
        chains: Chains,
        scope: Scope,
        units: dict[str, list[WiredUnit]],
        in_graph: bool,
    ) -> Iterator[HopOfChain]:
        """The arrows of a chain; one from another app begins at a source that is added here."""
        for arrow in chains.arrows(item, scope):
            if isinstance(arrow, HopOfChain):
                yield arrow
            elif in_graph:
                help_text = "give the graph an input, and write this arrow in the app"
                self._context.fault("F219", "a graph joins no apps", arrow.span, help=help_text)
                chains.skipped.add(arrow.destination.element.name.text)
            elif self._is_own(arrow.source, units):
                message = f"`{arrow.source.element.name.text}` is no task of another app"
                help_text = (
                    "`latest` and `drop` join two apps: move the reader into an app of its own,"
                    " which may have a period of its own"
                )
                self._context.fault("F219", message, arrow.source.span, help=help_text)
                for end in (arrow.source, arrow.destination):
                    chains.skipped.add(end.element.name.text)
                self.torn = True
            else:
                yield self._link(arrow, scope, units)

    def _is_own(self, end: s.Endpoint, units: dict[str, list[WiredUnit]]) -> bool:
        """Is that an instance of this app, and no other app?"""
        name = end.element.name.text
        return name in units and name not in self._context.names

    def _link(
        self, arrow: LossyArrow, scope: Scope, units: dict[str, list[WiredUnit]]
    ) -> HopOfChain:
        """Add a source for the data of another app; the arrow that leads on from it."""
        span, lossy = arrow.span, arrow.lossy
        keep = self._keep(lossy, scope) or 1
        name = self._link_name(
            "_".join(e.name.text for e in (arrow.source.element, *arrow.source.inner))
        )
        port = Port("out", "out", None, (1,), False, span)
        link = Link(name, keep, lossy.what is None, False)
        times = self._link_times(lossy, scope)
        end = link_end(name, link, port, times, span)
        self._tasks.append(end)
        hidden = s.Word(f" {name}", span)  # no instance is called like that
        units[hidden.text] = [
            WiredUnit(name, span, {}, {"out": PortView(None, span, (name, "out"), "out")})
        ]
        self.links.append(replace(arrow, task=name, times=times))
        return HopOfChain(
            s.Endpoint(s.Element(hidden, None, span), (), span), arrow.destination, (), span
        )

    def _link_name(self, where: str) -> str:
        """A name that no task of the app has; all its instances exist by now."""
        if not self._taken:
            self._taken = {t.name for t in self._tasks}
        stem = f"{self.name}.from_{where}"
        for number in count(self._numbers.get(where, 1)):
            name = stem if number == 1 else f"{stem}{number}"
            if name not in self._taken:
                self._taken.add(name)
                self._numbers[where] = number + 1
                return name
        raise AssertionError("there is always one more number")

    def _link_times(self, lossy: s.Lossy, scope: Scope) -> TimesByType:
        """The worst-case times of a firing at either end of an arrow between apps, if declared."""
        if lossy.wcet is None:
            return {}
        times = times_by_type(lossy.wcet, self._evaluate, self._context, scope)
        if any(len(amounts) > 1 for amounts in times.values()):
            message = "an end of an arrow has one time, and no phases"
            self._context.fault("F106", message, lossy.wcet.span, help="write the longest of them")
            return {}
        return times

    def _keep(self, lossy: s.Lossy, scope: Scope) -> int | None:
        """How many tokens are kept; faults go to the context."""
        if lossy.what is None or lossy.keep is None:
            return 1
        if lossy.what.text != "oldest":
            help_text = "write `drop oldest 1`, or `latest`"
            self._context.fault(
                "F001", f"`drop {lossy.what.text}` means nothing", lossy.what.span, help=help_text
            )
            return None
        return self._evaluate.integer(lossy.keep, scope, "the number of tokens that are kept", 1)

    def _check_fed(self, unit: WiredUnit) -> None:
        """Report the inputs of an instance that are never fed."""
        if unit.broken:
            return
        connections = self._connections
        missing = [name for name, view in unit.inputs.items() if connections.missing(view.key)]
        if not missing:
            return
        short = unit.name.partition(".")[2]
        what = f"inputs {listed(missing)} of `{short}` are"
        if len(missing) == 1:
            what = f"input {listed(missing)} of `{short}` is"
        notes = [Note(f"`{name}` is declared here", unit.inputs[name].span) for name in missing[:3]]
        help_text = f"add `... -> {short.rpartition('.')[2]}.{missing[0]}`"
        self._context.fault("F202", f"{what} never fed", unit.span, notes=notes, help=help_text)

    def unread(self) -> None:
        """Warn of outputs without a reader."""
        used = self._connections.read | self._connections.excused
        for task in self._tasks:
            for port in task.outputs:
                if (task.name, port.name) not in used:
                    self._warn_unread(task, port)

    def _warn_unread(self, task: Task, port: Port) -> None:
        short = task.name.partition(".")[2]
        what = f"output `{port.name}` of `{short}`"
        if task.border is not None:
            what = f"open end `{short}`"
        self._context.fault(
            "F208",
            f"{what} is not read",
            task.span,
            label="it is discarded",
            help="connect it, or remove the port",
            severity="warning",
        )

    # -- instances ---------------------------------------------------------------------------------
    def _instances(
        self, item: s.InstanceDecl, scope: Scope, name: str, open_graphs: tuple[str, ...]
    ) -> list[WiredUnit]:
        span = item.element.span
        if item.element.index is None:
            return [self._noted(self._instance(item, scope, name, open_graphs))]
        count = self._evaluate.integer(item.element.index, scope, "the number of instances", 1)
        if count is not None and count > MOST_INSTANCES:
            self._context.fault(
                "F105",
                f"{count} instances",
                item.element.index.span,
                label=f"at most {MOST_INSTANCES}",
            )
            count = None
        if count is None:
            return [WiredUnit(name, span, broken=True)]
        instances = []
        for index in range(count):
            inner = {**scope, "index": index}
            unit = self._instance(item, inner, f"{name}[{index}]", open_graphs)
            instances.append(self._noted(unit))
        return instances

    def _noted(self, unit: WiredUnit) -> WiredUnit:
        if unit.broken:
            self._context.broken.add(unit.name)
        return unit

    def _instance(
        self, item: s.InstanceDecl, scope: Scope, name: str, open_graphs: tuple[str, ...]
    ) -> WiredUnit:
        span = item.element.span
        broken = WiredUnit(name, span, broken=True)
        self._context.instances += 1
        if self._context.instances > MOST_INSTANCES:
            help_text = "nested composites multiply the number of instances"
            self._context.fault(
                "F105", f"more than {MOST_INSTANCES} instances", item.of.span, help=help_text
            )
            return broken
        kinds = (s.TaskDecl, s.NetworkDecl, s.GraphDecl)
        declaration = self._context.lookup(item.of, kinds, "a task, network or graph")
        if declaration is None:
            return broken
        assert isinstance(declaration, kinds)
        params = () if isinstance(declaration, s.NetworkDecl) else declaration.params
        arguments = self._components.bind(params, item.args, item.of, scope)
        if arguments is None:
            return broken
        notes = []
        if arguments:
            notes.append(Note(f"with the arguments of `{name}`", item.span))
        with self._context.within(*notes):
            if isinstance(declaration, s.GraphDecl):
                self._refuse_release(item)
                return self._graph(declaration, arguments, name, item, open_graphs) or broken
            template = self._components.template(declaration, arguments, self._choices.get(name))
        if isinstance(declaration, s.NetworkDecl) and declaration.variants:
            self.networks[name] = declaration
        if template is None:
            return broken
        if item.every is not None or item.lossy is not None:
            template = self._released(template, item, scope)
        return self._stamp(template, name, item)

    def _refuse_release(self, item: s.InstanceDecl) -> None:
        """Report clauses of a graph on when its task fires."""
        if item.every is not None or item.lossy is not None:
            help_text = "apply it to a source inside"
            self._context.fault("F217", "a graph is no task", item.of.span, help=help_text)

    def _released(self, template: Template, item: s.InstanceDecl, scope: Scope) -> Template:
        """The clauses of an instance on when its task fires."""
        (first, *others) = template.tasks
        if item.lossy is not None and (others or first.inputs):
            help_text = "say it of the source that its data comes from"
            self._context.fault(
                "F217", "only a source can drop its data", item.lossy.span, help=help_text
            )
            return template
        if item.every is not None and others:
            help_text = "say it of the source that its data comes from"
            self._context.fault("F217", "these are several tasks", item.every.span, help=help_text)
            return template
        uneven = [port.name for port in first.outputs if len(set(port.rates)) > 1]
        if item.lossy is not None and uneven:
            message = (
                f"firings of `{item.of.text}` write different numbers of tokens at"
                f" {listed(uneven)}: after a loss they would not fit"
            )
            help_text = "give the port one rate, or leave `drop oldest` out"
            self._context.fault("F217", message, item.lossy.span, help=help_text)
            return template
        every, keep = None, None
        if item.every is not None:
            every = self._time("time between two firings", item.every, scope)
        if item.lossy is not None:
            keep = self._keep(item.lossy, scope)
        live = first.live or keep is not None
        return replace(template, tasks=(replace(first, every_ns=every, keep=keep, live=live),))

    def _stamp(self, template: Template, name: str, item: s.InstanceDecl) -> WiredUnit:
        def full(relative: str) -> str:
            return f"{name}.{relative}" if relative else name

        span = item.element.span
        self._phases += sum(task.phases for task in template.tasks)
        if self._phases > MOST_PHASES:
            help_text = "every instance has the phases of its task"
            self._context.fault(
                "F105", f"more than {MOST_PHASES} phases", item.of.span, help=help_text
            )
            return WiredUnit(name, span, broken=True)
        for task in template.tasks:
            self._tasks.append(
                replace(task, name=full(task.name), span=span, doc=item.doc or task.doc)
            )
        for link in template.links:
            source = full(link.source), link.source_port
            destination = full(link.destination), link.destination_port
            self._connections.edges.append(WiredEdge(source, destination, (), span))
            self._connections.fed[destination] = span
            self._connections.read.add(source)

        def views(ports: dict[str, tuple[str, Port]]) -> dict[str, PortView]:
            return {
                n: PortView(port.type, port.span, (full(where), port.name), port.direction)
                for n, (where, port) in ports.items()
            }

        return WiredUnit(name, span, views(template.inputs), views(template.outputs))

    def _graph(
        self,
        declaration: s.GraphDecl,
        arguments: Scope,
        name: str,
        item: s.InstanceDecl,
        open_graphs: tuple[str, ...],
    ) -> WiredUnit | None:
        kind = declaration.name.text
        self._context.used_graphs.add(kind)
        if kind in open_graphs:
            cycle = " -> ".join([*open_graphs[open_graphs.index(kind) :], kind])
            self._context.fault("F113", f"graph `{kind}` contains itself: {cycle}", item.of.span)
            return None
        if len(open_graphs) == DEEPEST:
            self._context.fault("F105", f"graphs are nested more than {DEEPEST} deep", item.of.span)
            return None
        unit = WiredUnit(name, item.element.span)
        ports = self._graph_ports(declaration, arguments, name)
        for port_name, view in ports.items():
            unit.side(view.direction)[port_name] = view
        blocks = [i for i in declaration.items if isinstance(i, (s.InstanceDecl, s.ArrowChain))]
        connections = self._connections
        for port in unit.inputs.values():
            connections.fed.setdefault(port.key, port.span)
        self._block(blocks, arguments, name, ports, (*open_graphs, kind))
        for port in unit.inputs.values():
            connections.fed.pop(port.key)
        for port_name, view in unit.outputs.items():
            if connections.missing(view.key):
                message = f"output `{port_name}` of graph `{kind}` is never fed"
                help_text = f"add `... -> {port_name}` to the graph"
                self._context.fault("F202", message, view.span, help=help_text)
            connections.fed.pop(view.key, None)
        return unit

    def _graph_ports(
        self, declaration: s.GraphDecl, arguments: Scope, name: str
    ) -> dict[str, PortView]:
        """The ports of a graph by their names, each once."""
        ports: dict[str, PortView] = {}
        for part in declaration.items:
            if not isinstance(part, s.Boundary):
                continue
            port = part.name.text
            if port in ports:
                self._context.called_twice("ports", part.name, ports[port].span)
                continue
            type_ = None
            if part.type is not None:
                type_ = self._evaluate.type(part.type, arguments)
            ports[port] = PortView(type_, part.span, (name, port), part.direction)
        return ports


def _written(path: Sequence[s.Element]) -> str:
    """A path as it was written, with plain numbers as indices."""
    index = [f"[{e.index.value}]" if isinstance(e.index, s.Number) else "" for e in path]
    return ".".join(e.name.text + i for e, i in zip(path, index, strict=True))


def _span_of(path: Sequence[s.Element]) -> Span:
    return path[0].span.to(path[-1].span)
