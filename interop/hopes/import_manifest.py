"""The import manifest: the parts of a HOPES project that a text cannot express, in
`STEM.hopes.json` beside the text.

In: a project with the names that its parts got. Out: a `ImportManifest`, as data and as JSON:
HOPES' names of tasks, ports and pools, the files of the project with their hashes, and XML without
a counterpart in the text. Exporters read it, and detect later changes of the project.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ...model.diagnostic import Diagnostic, Errors
from ...model.files import read_bytes
from ...model.json_reader import parse_version, read
from ...model.system import System
from ..content import content
from ..xml_tree import Element, as_text
from .choice import ModeChoice
from .code import HopesSource
from .design import HopesGraph, HopesTask, Way, graphs_of
from .files import HopesCollector, HopesProject, embedded, read_xml
from .platform import HopesBoard
from .text import Role, Texts
from .vocabulary import PARAMETERS
from .words import ORDERS
from .wrapper import Wrapped

MANIFEST_VERSION = 1
#: Diagnostic: the manifest differs from that of an import of this project.
WRONG = "F726"
#: The ending after the stem of the text.
ENDING = ".hopes.json"
_ROOTS = (
    "cic_manual",
    "CIC_Algorithm",
    "CIC_GPUSetup",
    "CIC_Schedule",
    "CIC_Configuration",
    "CIC_Control",
    "fsms",
)
#: Files that are kept completely.
_FILES = frozenset(_ROOTS[2:])
#: Elements that are kept with all their content, from either form.
_ELEMENTS = """
setting location edge_list slaves mtm faultTolerance extraSetting multicast_port multicast_group
multicastPort multicastGroup taskGroup libraryPort libraryMasterPort function hardware dataParallel
extraHeader extraSource extraCIC extraFile headers connections modules environmentVariables memory
"""
#: Parameters of the tool that are in no text, unless they have no effect.
_PARAMETERS = {
    "CompileFlags": "",
    "LinkFlags": "",
    "Description": "",
    "IsDependency": "No",
    "IsHardwareDependent": "No",
}
#: Kinds of files beside the graph of a project.
_BESIDE = (
    "mapping",
    "profile",
    "architecture",
    "gpusetup",
    "schedule",
    "configuration",
    "control",
)
_ATTRIBUTES = {"cflags": "", "ldflags": "", "description": "", "isHardwareDependent": "No"}


@dataclass(frozen=True, slots=True)
class NamedCode:
    """The project's own code of a task, as paths beside the text: `file` is its `.cic`, `around`
    the C file around it.

    `headers` are included before it, `sources` are linked with it, `files` are all of them.
    `parameters` map names of the text to names of HOPES.
    """

    around: str
    file: str
    headers: tuple[str, ...]
    sources: tuple[str, ...]
    files: tuple[str, ...]
    parameters: dict[str, str]
    cflags: str
    ldflags: str
    language: str


@dataclass(frozen=True, slots=True)
class NamedTask:
    """`task` is its name in the text, `hopes` that in HOPES with those of the composites around it,
    outermost first.

    `role` is "", or "pre" or "post" for the tasks around the layers of a network; `ports` map names
    of the text to names of HOPES. `code` is set if a task runs that of the project.
    """

    task: str
    hopes: tuple[str, ...]
    role: str = ""
    ports: dict[str, str] = field(default_factory=dict)
    code: NamedCode | None = None

    @property
    def full(self) -> str:
        """The name by which other files of HOPES refer to it."""
        return "_".join(self.hopes)

    @property
    def full_with_role(self) -> str:
        """The same, with the role of a task around the layers of a network."""
        return "_".join(filter(None, (self.full, self.role)))


@dataclass(frozen=True, slots=True)
class NamedPool:
    """A pool of the text, with the element of HOPES, its type, and the device that it is in."""

    pool: str
    element: str
    type: str
    device: str


@dataclass(frozen=True, slots=True)
class KeptXml:
    """XML without a counterpart in the text: `place` is its path in `file`, or in the architecture
    inside the tool's file."""

    file: str
    place: str
    xml: str


@dataclass(frozen=True, slots=True)
class ImportManifest:
    """`project` is the name of the project, `form` "tool" or "translator"; `files` has SHA-256 by
    path in the project.

    `graphs` are those of the files that define tasks, `choice` is the imported part. `xml` has the
    texts of all its XML, by path in the project: `again` makes the project of them.
    """

    project: str
    form: str
    files: dict[str, str]
    graphs: tuple[str, ...]
    tasks: tuple[NamedTask, ...]
    pools: tuple[NamedPool, ...] = ()
    kept: tuple[KeptXml, ...] = ()
    choice: ModeChoice = field(default_factory=ModeChoice)
    xml: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The file: equal manifests give equal bytes."""
        return json.dumps({"version": MANIFEST_VERSION, **asdict(self)}, indent=1) + "\n"

    def changed(self, project: HopesProject) -> list[str]:
        """The graphs of the project that have changed."""
        return [file for file in self.graphs if _hash(project.files / file) != self.files.get(file)]


def manifest_of(
    project: HopesProject,
    graph: HopesGraph,
    tasks: Mapping[Way, HopesTask],
    board: HopesBoard | None,
    texts: Texts,
    sources: Mapping[Way, HopesSource],
    code: Wrapped,
    choice: ModeChoice,
) -> ImportManifest:
    """The manifest of a project; `sources` is the code that its tasks run, `code` the generated
    code around it."""
    graphs = [Path(level.span.file) for level in graphs_of(graph, tasks)]
    xml = _xml_files(project, graphs, tasks)
    files = dict.fromkeys([*xml, *_tool(project), *_network_files(project, tasks)])
    for source in sources.values():
        files |= dict.fromkeys(project.files / path for path in source.files)
    names = []
    for (way, role), name in texts.names.items():
        own = None
        if way in sources:
            own = _code(tasks[way], sources[way], code, way)
        names.append(_named(name, way, role, texts, own))
    return ImportManifest(
        project.name,
        "translator" if project.translated else "tool",
        _read_by(_hash, project, files),
        tuple(dict.fromkeys(_below(project, path) for path in graphs)),
        tuple(names),
        _pools(board),
        tuple(_kept(project, xml)),
        choice,
        _read_by(_text, project, _written(project, files)),
    )


def _tool(project: HopesProject) -> list[Path]:
    """The file of the tool, if there is one."""
    if project.gui is None:
        return []
    return [project.gui]


def _read_by(
    content_of: Callable[[Path], str | None], project: HopesProject, files: Iterable[Path]
) -> dict[str, str]:
    """What a function reads from files, by their paths in the project, without unreadable ones."""
    found = {}
    for path in files:
        read = content_of(path)
        if read is not None:
            found[_below(project, path)] = read
    return found


def _xml_files(
    project: HopesProject, graphs: list[Path], tasks: Mapping[Way, HopesTask]
) -> list[Path]:
    """The files of a project in XML: its graphs, its control tasks, and what is beside them."""
    files = list(graphs)
    for t in tasks.values():
        if t.kind == "control":
            files.append(Path(t.span.file).parent / f"{t.name}.xml")
    for kind in _BESIDE:
        files += project.beside(kind)
    return list(dict.fromkeys(p for p in files if os.path.isfile(p)))


def _network_files(project: HopesProject, tasks: Mapping[Way, HopesTask]) -> list[Path]:
    """The files that networks name."""
    named = []
    for task in tasks.values():
        for name in task.network.values():
            if name:
                named.append(project.named(name, project.graph.parent))
    return [path for path in named if path is not None]


def _pools(board: HopesBoard | None) -> tuple[NamedPool, ...]:
    if board is None:
        return ()
    return tuple(NamedPool(p.name, p.element, p.type, p.device) for p in board.pools if p.kind)


def beside(system: System) -> Path:
    """The path of a text's manifest: beside it, or beside the text that has its apps."""
    texts = dict.fromkeys([Path(system.path), *(Path(a.span.file) for a in system.apps)])
    places = [text.with_name(text.name.removesuffix(".flow") + ENDING) for text in texts]
    return next((place for place in places if os.path.exists(place)), places[0])


def read_manifest(path: Path) -> ImportManifest:
    """The manifest in a file. Raises Errors (F726)."""
    try:
        manifest = read(
            ImportManifest, parse_version(content(path, WRONG), "manifest", MANIFEST_VERSION)
        )
        counts = Counter(task.task for task in manifest.tasks)
        for name, count in counts.items():
            if count > 1:
                raise ValueError(f"tasks has `{name}` twice")
        return manifest
    except ValueError as error:
        help_text = "import the project again, or remove the file"
        raise Errors(
            [Diagnostic(WRONG, f"`{path}` is not used: {error}", None, help=help_text)]
        ) from error


def _named(name: str, way: Way, role: Role, texts: Texts, code: NamedCode | None) -> NamedTask:
    return NamedTask(name, way, role, dict(texts.ports.get((way, role), {})), code)


def _code(task: HopesTask, source: HopesSource, code: Wrapped, way: Way) -> NamedCode:
    def there(paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(f"{code.folder}/{path}" for path in paths)

    called = code.called[way]
    return NamedCode(
        called.code.rpartition(":")[0],
        there([source.file])[0],
        there(source.headers),
        there(source.further),
        there(source.files),
        {p.name: p.parameter for p in called.parameters if p.task == "_".join(way)},
        task.flags,
        task.linked,
        "C++" if source.cpp else "C",
    )


def _below(project: HopesProject, path: Path) -> str:
    return Path(os.path.relpath(path, project.files)).as_posix()


def _hash(path: Path) -> str | None:
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except OSError:
        return None


def _written(project: HopesProject, read: Iterable[Path]) -> Iterator[Path]:
    """The texts of a project that are no code: its XML, and the descriptions of its networks."""
    found = [*read]
    if project.translated:
        found += [
            *project.files.glob(f"{glob.escape(project.name)}_*.xml"),
            *(project.files / ORDERS).glob("*.xml"),
        ]
    elif project.files.suffix == ".files":
        found += project.files.rglob("*.xml")
    kinds = (".xml", ".prototxt")
    yield from sorted(
        {p for p in found if p.suffix in kinds or p == project.gui if os.path.isfile(p)}
    )


def _text(path: Path) -> str | None:
    """A text in any encoding: `again.as_bytes` gives the same bytes."""
    try:
        return read_bytes(path).decode("utf-8", "surrogateescape")
    except OSError:
        return None


# -- what is in no text ----------------------------------------------------------------------------
def _kept(project: HopesProject, files: Iterable[Path]) -> Iterator[KeptXml]:
    quiet = HopesCollector()
    for path in files:
        root = read_xml(path, quiet, *_ROOTS, "CIC_Architecture")
        if root is not None:
            yield from _of(_below(project, path), root)
    for path in _tool(project):
        architecture = embedded(path, quiet)
        if architecture is not None:
            yield from _of(_below(project, path), architecture)


def _of(file: str, root: Element) -> Iterator[KeptXml]:
    if root.tag in _FILES:
        yield KeptXml(file, f"/{root.tag}", _xml(root))
        return
    memories = set()
    for node in root.below():
        if node.attributes.get("category") == "memory":
            memories.add(node.attributes.get("name"))
    for place, xml in _below_of(root, f"/{root.tag}", memories):
        yield KeptXml(file, place, xml)


def _below_of(node: Element, place: str, memories: set[str | None]) -> Iterator[tuple[str, str]]:
    numbers: dict[str, int] = {}
    for child in node.children:
        numbers[child.tag] = numbers.get(child.tag, 0) + 1
        where = f"{place}/{child.tag}[{numbers[child.tag]}]"
        if _is_kept(child, memories):
            empty = not (child.attributes or child.children or child.text)
            if child.attributes.get("enable") != "No" and not empty:
                yield where, _xml(child)
            continue
        if child.tag in ("task", "library") and _has_settings(child):
            yield where, _xml(Element(child.tag, child.attributes, [], child.span))
        yield from _below_of(child, where, memories)


def _is_kept(node: Element, memories: set[str | None]) -> bool:
    """Is an element kept with all its content?"""
    if node.tag in _ELEMENTS.split() or _is_control(node) or _says(node):
        return True
    if node.tag not in ("element", "elementType"):
        return False
    return bool({node.attributes.get("name"), node.attributes.get("type")} & memories)


def _has_settings(node: Element) -> bool:
    """Has a task or a library attributes with an effect?"""
    return any(
        node.attributes.get(name, default) != default for name, default in _ATTRIBUTES.items()
    )


def _is_control(node: Element) -> bool:
    return node.tag == "task" and "Control" in (
        node.attributes.get("type"),
        node.attributes.get("taskType"),
    )


def _says(node: Element) -> bool:
    """Is it a parameter of the tool with an effect?"""
    name, value = node.attributes.get("name", ""), node.attributes.get("value", "")
    if node.tag != "parameter" or "type" in node.attributes:  # those of tasks are in the text
        return False
    if name in _PARAMETERS:
        return value != _PARAMETERS[name]
    return name not in PARAMETERS


def _xml(node: Element) -> str:
    return "\n".join(as_text(node))
