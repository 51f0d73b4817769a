"""Projects of HOPES (cap-lab's tool for model-based design) to `.flow` texts with a platform, a
mapping and times.

In: the folder of a project, or a `CICTask`. Out: an `ImportedProject`: the application (tasks with
the project's own code if that is C, apps with period and priority, rates as HOPES counts), the
platform, the mapping of the authors, stubs for missing code, and times, which become a `Profile`
once the content hashes of the tasks are known. All faults of a project are reported at once. The
modules beside this one read and write the parts; the caller writes files and hashes tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...model.diagnostic import Diagnostic, Errors
from ...model.mapping import Mapping as Placements
from ...model.profile import Profile
from .. import registry
from ..content import content
from ..names import shown
from ..registry import Request
from .choice import UNKNOWN, ModeChoice, ModeMachine, check_modes, in_state, on_device, told
from .code import HopesSource, held_by, sources_of
from .design import HopesGraph, HopesTask, Way, every, graphs_of
from .files import HopesCollector, HopesProject, locate, start_of
from .groups import flow_of
from .import_manifest import ENDING, ImportManifest, manifest_of
from .mapping import Places, machines_of, places_of, states_of
from .modes import Modes, modes_of
from .networks import Costs, HopesNetwork, network_of, task_times
from .pins import mapping_text, pins_of
from .platform import HopesBoard, board_of
from .states import scenario_text
from .tasks import graph_of
from .text import Naming, Texts, texts_of
from .times import Given, TaskTimes, check_types, profile_of, read_times, times_of
from .wrapper import Wrapped, wrapped

__all__ = ["ImportedProject", "read"]


@dataclass(frozen=True, slots=True)
class ImportedProject:
    """`text` is the application; `files` are the other texts by their names (board, mapping of the
    authors, states of a control task, modes of a task), to be written beside it.

    `code` has the C files of its tasks, in a folder, and `modes` those of further modes. `stubs` is
    the name and the text of a file that is the user's once it exists; the text is empty if all
    tasks have code. `platform` is the name of the board, and "" if the project has none; `mapping`
    is that of its authors. `manifest` is the import manifest.
    """

    text: str
    warnings: tuple[Diagnostic, ...]
    files: Mapping[str, str]
    code: Wrapped
    stubs: tuple[str, str]
    platform: str
    mapping: Placements | None
    times: tuple[TaskTimes, ...]
    host: str
    manifest: ImportManifest
    modes: Modes

    @property
    def platform_file(self) -> str:
        """The one of `files` that declares the platform; "" if there is none."""
        if self.platform:
            return f"{self.platform}.flow"
        return ""

    def given(self, path: str, data: bytes) -> Given:
        """Further times from a JSON file, for `profile`: by task and kind, in microseconds. Raises
        Errors."""
        return read_times(path, data, self.times)

    def profile(self, hashes: Mapping[str, str], given: Given | None = None) -> Profile:
        """The times as a profile of the platform; `hashes` are the content hashes of the tasks of
        the text.

        `given` are further times: they replace those of HOPES, and a network has no layers on those
        kinds.
        """
        return profile_of(self.platform, self.host, self.times, hashes, given or {})


@dataclass(frozen=True, slots=True)
class Understood:
    """A project with all its content, its texts, and its C tasks; `board` is None if there is none.

    `states` is the text with its scenario, "" if it has none; `modes` are those of a task beside
    each other.
    """

    project: HopesProject
    graph: HopesGraph
    tasks: Mapping[Way, HopesTask]
    networks: Mapping[Way, HopesNetwork]
    board: HopesBoard | None
    own: Mapping[str, Costs]
    places: Places
    texts: Texts
    code: Wrapped
    sources: Mapping[Way, HopesSource]
    choice: ModeChoice
    states: str
    modes: Modes

    def graphs(self) -> list[HopesGraph]:
        """The graphs of all levels."""
        return graphs_of(self.graph, self.tasks)

    def manifest(self) -> ImportManifest:
        """The import manifest."""
        return manifest_of(
            self.project,
            self.graph,
            self.tasks,
            self.board,
            self.texts,
            self.sources,
            self.code,
            self.choice,
        )


@dataclass(frozen=True, slots=True)
class _Content:
    """What the files of a project say, or those of its chosen part."""

    graph: HopesGraph
    tasks: Mapping[Way, HopesTask]
    networks: Mapping[Way, HopesNetwork]
    board: HopesBoard | None
    own: Mapping[str, Costs]
    places: Places
    sources: Mapping[Way, HopesSource]
    machines: tuple[ModeMachine, ...]


def understand(
    folder: Path, stem: str | None, say: HopesCollector, choice: ModeChoice | None = None
) -> Understood:
    """Read the project in a folder, or the chosen part of it. Raises Errors with all faults."""
    choice = choice or ModeChoice()
    project = locate(folder)
    content = _content(project, choice, say)
    if not choice.whole:
        content = _part(project, content, choice, say)
    _tell_left_out(project, say)
    say.stop()
    graph, networks, board = content.graph, content.networks, content.board
    flow = flow_of(graph, say, held_by(content.sources))
    say.stop()
    name = stem or project.name
    code = wrapped(graph.name, name, content.sources, flow)
    about = _about(project, board, choice)
    texts = texts_of(graph.name, flow, networks, code, about, Naming(name))
    states = ""
    if choice.whole:
        states = scenario_text(
            content.machines, flow.groups, texts.apps, f"{name}.flow", graph.name, say
        )
    modes = Modes()
    if choice.whole and not choice.modes:
        modes = modes_of(project, name, content.tasks, networks, flow, texts, say)
    return Understood(
        project,
        graph,
        content.tasks,
        networks,
        board,
        content.own,
        content.places,
        texts,
        code,
        content.sources,
        choice,
        states,
        modes,
    )


def _content(project: HopesProject, choice: ModeChoice, say: HopesCollector) -> _Content:
    """All of a project. Raises Errors with all faults."""
    graph = graph_of(project, say, choice.modes)
    tasks: Mapping[Way, HopesTask] = {}
    if graph is not None:
        tasks = every(graph)
    networks: Mapping[Way, HopesNetwork] = dict(_networks(project, tasks, say))
    others = (n.architecture for n in networks.values() if n.architecture is not None)
    board = board_of(project, others, say, choice.device)
    if graph is None:
        raise say.errors()
    check_modes(graph, choice, say)
    part = HopesCollector()
    machines = machines_of(project, graph, choice, part)
    if choice.state is not None:
        say.faults += part.faults
    known = say.forgive(part, "the mapping of the project")
    sources = sources_of(project, graph, tasks, say if choice.whole else HopesCollector())
    own: dict[str, Costs] = {}
    places = Places("", {}, {})
    if board is not None:
        networks = _timed(networks, board, say)
        own = _own_times(project, tasks, board, say)
        if known:
            kept = _keeping_state(tasks, sources)
            places = _places(project, states_of(machines, choice), kept, networks, board, say)
    say.stop()
    return _Content(graph, tasks, networks, board, own, places, sources, machines)


def _keeping_state(
    tasks: Mapping[Way, HopesTask], sources: Mapping[Way, HopesSource]
) -> dict[Way, HopesTask]:
    """Code in C keeps its state in static variables, whatever HOPES states."""
    kept = {}
    for way, task in tasks.items():
        kept[way] = replace(task, stateful=task.stateful or way in sources)
    return kept


def _part(
    project: HopesProject, content: _Content, choice: ModeChoice, say: HopesCollector
) -> _Content:
    """What runs in the chosen state, on the chosen device."""
    graph, board = content.graph, content.board
    if choice.state is not None:
        graph = in_state(graph, content.machines, choice.state, say)
    if choice.device is not None:
        graph = on_device(graph, _devices(board, content.places), choice.device, say)
        if board is not None:
            board = board.only(choice.device)
    tasks = every(graph)
    networks = {}
    for way, network in content.networks.items():
        if way in tasks:
            networks[way] = network
    return replace(
        content,
        graph=graph,
        tasks=tasks,
        networks=networks,
        board=board,
        places=content.places.only(tasks.keys()),
        sources=sources_of(project, graph, tasks, say),
    )


def _tell_left_out(project: HopesProject, say: HopesCollector) -> None:
    """Files that are not imported."""
    for path in project.beside("gpusetup"):
        say.warn(
            "grids, blocks and streams of GPU tasks are not imported",
            start_of(path),
            "write `grid` and `block` at the tasks",
        )
    for path in project.beside("schedule"):
        say.warn("schedules are not imported", start_of(path), "flowc computes its own")


def read(
    folder: Path, stem: str | None = None, choice: ModeChoice | None = None
) -> ImportedProject:
    """Import the project in a folder, or the chosen part of it; `stem` is that of the file for the
    text.

    Raises Errors with all faults.
    """
    say = HopesCollector()
    found = understand(folder, stem, say, choice)
    texts, board, name = found.texts, found.board, stem or found.project.name
    stubs = Naming(name).stubs, texts.stubs
    states = {}
    if found.states:
        states[f"{name}.states.flow"] = found.states
    if found.modes.text:
        states[f"{name}.modes.flow"] = found.modes.text
    if board is None:
        say.warn(
            "there is no architecture: platform, mapping and times are not imported",
            start_of(found.project.graph),
        )
        return ImportedProject(
            texts.application,
            say.warnings(),
            states,
            found.code,
            stubs,
            "",
            None,
            (),
            "",
            found.manifest(),
            found.modes,
        )
    times = times_of(found.tasks, found.own, found.networks, board, texts.names, say)
    files = {f"{board.name}.flow": board.text(), **states}
    mapping = None
    if found.places.file:
        mapping = _mapping(board, texts, found.places, found.networks)
        files |= _written(name, board, mapping, found.places)
    host = f"times of the HOPES project {found.project.name}"
    return ImportedProject(
        texts.application,
        say.warnings(),
        files,
        found.code,
        stubs,
        board.name,
        mapping,
        times,
        host,
        found.manifest(),
        found.modes,
    )


def imported(request: Request) -> registry.Imported:
    """The project of a request as texts, with its times as a profile. Raises Errors."""
    found = read(request.path, request.target.stem, _choice(request))
    times = request.options.path("times")
    given = None
    if times is not None:
        given = found.given(str(times), content(times, "F721"))
    name, stubs = found.stubs
    kept = dict(found.modes.stubs)
    others = said = ""
    if stubs:
        kept = {name: stubs, **kept}
        others = f"; stubs of others are in {name}"
    if found.code.called:
        said = (
            f"{len(found.code.called)} tasks have the project's own code, in"
            f" {found.code.folder}{others}"
        )
    return registry.Imported(
        {
            request.target.name: found.text,
            **found.files,
            **found.code.files,
            **found.modes.code,
            f"{request.target.stem}{ENDING}": found.manifest.to_json(),
        },
        found.warnings,
        kept,
        found.platform_file,
        (lambda hashes: found.profile(hashes, given)) if found.platform else None,
        said,
    )


def _choice(request: Request) -> ModeChoice:
    """The chosen part of the project. Raises Errors."""
    modes = dict[str, str]()
    for text in request.options.texts("modes"):
        task, sign, mode = text.partition("=")
        if not (task and sign and mode) or task in modes:
            reason = "is no TASK=MODE"
            if task in modes:
                reason = "is the second one of its task"
            message = f"`--mode {text}` {reason}"
            raise Errors(
                [
                    Diagnostic(
                        UNKNOWN, message, None, help="write `--mode TASK=MODE` once for each task"
                    )
                ]
            )
        modes[task] = mode
    return ModeChoice(modes, request.options.get("state", str), request.options.get("device", str))


def _devices(board: HopesBoard | None, places: Places) -> dict[Way, str]:
    """The device that each task runs on, by the mapping."""
    if board is None:
        return {}
    found = {way: board.pool_of(processors[0]).device for way, processors in places.tasks.items()}
    for way, layers in places.layers.items():
        for processor in [*layers.values()][:1]:
            found[way] = board.pool_of(processor).device
    return found


def _networks(
    project: HopesProject, tasks: Mapping[Way, HopesTask], say: HopesCollector
) -> Iterator[tuple[Way, HopesNetwork]]:
    """The networks of all external tasks; shared files are read once."""
    known: dict[tuple[tuple[str, str], ...], HopesNetwork | None] = {}
    for way, task in tasks.items():
        if task.kind == "network":
            files = tuple(sorted(task.network.items()))
            if files not in known:
                known[files] = network_of(task, project, say)
            network = known[files]
            if network is not None:
                yield way, network


def _timed(
    networks: Mapping[Way, HopesNetwork], board: HopesBoard, say: HopesCollector
) -> dict[Way, HopesNetwork]:
    """The networks, without times for processors that the board does not have."""
    known: dict[int, HopesNetwork] = {}
    for network in networks.values():  # several tasks share one
        if id(network) not in known:
            part = HopesCollector()
            check_types([*network.times.values()], board, part)
            good = say.forgive(part, f"the profile of network {shown(network.name)}")
            if good:
                known[id(network)] = network
            else:
                known[id(network)] = replace(network, times={})
    return {way: known[id(network)] for way, network in networks.items()}


def _own_times(
    project: HopesProject, tasks: Mapping[Way, HopesTask], board: HopesBoard, say: HopesCollector
) -> dict[str, Costs]:
    """The project's profile of its own tasks, by their full names; empty if it is faulty."""
    part, found = HopesCollector(), dict[str, Costs]()
    for path in project.beside("profile")[:1]:
        found = task_times(path, ["_".join(way) for way in tasks], part)
    check_types([*found.values()], board, part)
    if say.forgive(part, "the profile of the project"):
        return found
    return {}


def _places(
    project: HopesProject,
    states: tuple[str, ...],
    tasks: Mapping[Way, HopesTask],
    networks: Mapping[Way, HopesNetwork],
    board: HopesBoard,
    say: HopesCollector,
) -> Places:
    """The mapping of the authors; none if it is faulty."""
    part = HopesCollector()
    found = places_of(project, tasks, networks, board, states, part)
    if say.forgive(part, "the mapping of the project"):
        return found
    return Places("", {}, {})


def _about(project: HopesProject, board: HopesBoard | None, choice: ModeChoice) -> Iterator[str]:
    yield f"Imported from the HOPES project {shown(project.name)}."
    if told(choice):
        yield told(choice)
    if board is not None:
        yield f"Its platform is in {board.name}.flow: `--platform {board.name}.flow`."


def _mapping(
    board: HopesBoard, texts: Texts, places: Places, networks: Mapping[Way, HopesNetwork]
) -> Placements:
    placements, plans = pins_of(texts.names, places, networks, board)
    why = (f"the mapping of the authors, from {Path(places.file).name}",)
    return Placements(board.name, placements, (), "hopes", plans, why=why)


def _written(stem: str, board: HopesBoard, mapping: Placements, places: Places) -> dict[str, str]:
    """The mapping in words, and as data for a comparison: it is not a stored mapping of a
    search."""
    use = (f"{stem}.flow", f"{board.name}.flow")
    text = mapping_text(board, mapping.placements, mapping.networks, use, Path(places.file).name)
    return {
        f"{stem}.{board.name}.flow": text,
        f"{stem}.{board.name}.authors.json": mapping.to_json({}),
    }
