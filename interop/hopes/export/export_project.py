"""`export --format hopes`: an application as a project of HOPES.

In: a path. Out: a directory. A text that was imported from HOPES is exported with the import
manifest beside it. Nothing is measured or run: times come from the text and from a profile stored
beside it. Tasks run where they are pinned or mapped, else where `build` would place them.
"""

from __future__ import annotations

import os
import platform as machine
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from ....analysis.dataflow.order import TooLong
from ....analysis.dataflow.repetition import repetition
from ....codegen.deploy import deploy, missing, sequential
from ....codegen.emit import digest
from ....codegen.sources import Plan
from ....codegen.write import MADE_THERE, CannotWrite, refuse_foreign, write
from ....driver.build.external import in_full
from ....driver.plan.program import place, too_long
from ....driver.text import store
from ....driver.text.check import Report, Valid, prepare
from ....dsl.modules import local_modules
from ....model.application import Application, Task, all_tasks
from ....model.diagnostic import Diagnostic, Errors, has_errors, in_order
from ....model.mapping import DEFAULT_ENGINE
from ....model.platform import Platform
from ....model.system import System
from ....model.times import times_of
from ...registry import Folder, Order, Unusable, no_app
from ..import_manifest import WRONG, ImportManifest, NamedCode, beside, read_manifest
from . import limits, newest, sources
from .files import files, written
from .graph import folded
from .kept import KeptCode, KeptNames, newest_of
from .kept import refusals as of_hopes
from .library import ROOM, has_code, is_called, library
from .project import PlacedSystem, ProjectPlan, device_name, project
from .reexport import Again, again

#: Diagnostic: a task has no code.
NO_CODE = "F601"


@dataclass(frozen=True, slots=True)
class ExportedProject:
    """A finished project. `fresh` is false if the directory already held exactly these files.

    `script` makes the library that tasks in Python and networks need; None if all tasks are in C.
    `tasks` maps names of the text to names of HOPES. `project` is None if the project that the text
    came from was written again; then `changed` are the files that differ from the import.
    """

    directory: Path
    digest: str
    script: Path | None
    name: str
    device: str
    tasks: Mapping[str, str]
    channels: int
    project: ProjectPlan | None
    changed: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]
    fresh: bool


def export_project(
    path: str | Path,
    output: str | Path | None = None,
    *,
    platform: str = "host",
    policy: str | None = None,
    form: str = "cic",
    stubs: bool = False,
    force: bool = False,
    report: Report | None = None,
) -> ExportedProject:
    """From a text to a directory with a project of HOPES, by default build/STEM-hopes. Raises
    Errors.

    `policy` is one of `words.POLICIES`: who decides when a task runs; None is
    "static-assignment", or the policy of the project that the text came from. `form` is one of
    `words.FORMS`; the tool's form has no policy. With `stubs`, tasks without code only read
    and write.

    A text that was imported from a project in this form gives that project again, if it still means
    the same.
    """
    valid = prepare(path, platform=platform, report=report).require()
    if output is not None:
        directory = Path(output)
    else:
        directory = Path("build") / f"{valid.system.stem}-hopes"
    kept = _kept(valid)
    theirs: tuple[str, ...] = MADE_THERE
    if form == "cic":
        # HOPES' translator puts its program into a folder of the project with the name of the
        # device.
        theirs = (*theirs, device_name(valid.platform, kept))
    try:
        refuse_foreign(directory, force, theirs)
        was = _again(valid, policy, form)
        if isinstance(was, Again):
            fresh = write(was.plan, directory, {}, force=force, made_there=theirs)
            return _as_imported(was, directory, valid, fresh)
        why_anew = [was] if was is not None else []
        try:
            made, plan, told = _made(valid, policy or "static-assignment", form, stubs, kept)
        except Errors as errors:
            raise Errors([*errors.diagnostics, *why_anew]) from errors
        fresh = write(plan, directory, {}, force=force, made_there=theirs)
    except CannotWrite as error:
        raise Errors(error.diagnostics) from error
    except TooLong as error:
        raise too_long(valid.system, error) from error
    return _anew(made, plan, directory, (*told, *why_anew), fresh)


def _as_imported(was: Again, directory: Path, valid: Valid, fresh: bool) -> ExportedProject:
    """The project that a text came from."""
    return ExportedProject(
        directory,
        digest(was.plan),
        None,
        was.name,
        was.device,
        was.tasks,
        was.channels,
        None,
        was.changed,
        in_order(dict.fromkeys((*valid.diagnostics, *was.diagnostics))),
        fresh,
    )


def _anew(
    made: ProjectPlan,
    plan: Plan,
    directory: Path,
    diagnostics: tuple[Diagnostic, ...],
    fresh: bool,
) -> ExportedProject:
    """A project of the text alone."""
    script = f"{ROOM}/build_shim.py"
    tasks = {flow: name for flow, name in made.names.items() if name in made.places}
    return ExportedProject(
        directory,
        digest(plan),
        directory / script if script in plan else None,
        made.name,
        made.device,
        tasks,
        len(made.channels),
        made,
        (),
        diagnostics,
        fresh,
    )


def folder(order: Order) -> Folder:
    """The project for the verb. Raises Errors and Unusable."""
    options = order.options
    policy, form = options.get("policy", str), options.get("form", str) or "cic"
    if form == "project" and policy is not None:
        raise Unusable("policy", "a project of HOPES' tool has no policy: the tool adds it")
    made = export_project(
        order.path,
        order.output,
        platform=order.platform,
        policy=policy,
        form=form,
        stubs=bool(options.get("stubs", bool)),
        force=order.force,
        report=order.report,
    )
    document = {
        "directory": str(made.directory),
        "digest": made.digest,
        "fresh": made.fresh,
        "script": None if made.script is None else str(made.script),
        "project": made.name,
        "device": made.device,
        "tasks": dict(made.tasks),
        "changed": None if made.project is not None else list(made.changed),
    }
    return Folder(made.directory, made.fresh, made.diagnostics, document, tuple(_lines(made)))


def _lines(made: ExportedProject) -> Iterator[str]:
    device = ""
    if made.device:
        device = f", device {made.device}"
    counts = f"{_number(len(made.tasks), 'task')}, {_number(made.channels, 'channel')}"
    yield f"  project {made.name}{device}: {counts}"
    if made.project is None:
        changes = ""
        if made.changed:
            changes = f", but for {', '.join(made.changed)}"
        yield f"  as it was imported{changes}"
    if made.script is not None:
        yield f"`python3 {made.script}` makes the library for tasks that are not in C"


def _number(count: int, word: str) -> str:
    if count == 1:
        return f"{count} {word}"
    return f"{count} {word}s"


def _again(valid: Valid, policy: str | None, form: str) -> Again | Diagnostic | None:
    """The project in this form that a text was imported from, or the reason not to write it again,
    or None."""
    path = beside(valid.system)
    if not os.path.exists(path):
        return None
    said = read_manifest(path)
    if not said.xml or said.form != ("tool" if form == "project" else "translator"):
        return None
    return again(valid, said, path, policy)


def _made(
    valid: Valid, policy: str, form: str, stubs: bool, kept: KeptNames
) -> tuple[ProjectPlan, Plan, tuple[Diagnostic, ...]]:
    """The project, its files, and diagnostics. Raises Errors and TooLong."""
    if not valid.system.apps:
        raise no_app(None, ())
    lacking = [d for d in missing(valid.system) if not (stubs and d.code == NO_CODE)]
    found = [*valid.diagnostics, *lacking, *limits.refusals(valid.system)]
    system, looks = newest.joined(valid.system, kept)
    firings = {a.name: _per_cycle(a) for a in system.apps}
    for app in system.apps:
        found += limits.blocking(folded(app), firings[app.name])
    units = sources.units(system, kept.own)
    own = [(valid.tasks[name], code) for name, code in kept.own.items()]
    found += [*sources.refusals(units, (), own), *newest.refusals(system, kept, looks)]
    _stop(found)
    placed = _placed(valid, system, looks, firings)
    made = project(placed, policy, _architecture(valid.platform), kept)
    found += [*limits.too_large(system, made), *sources.refusals(units, written(made), own)]
    found += of_hopes(system, kept, made.held)
    _stop(found)
    pins = {p.task: p for p in system.pins if p.platform == valid.platform.name}
    found += limits.left_out(placed, pins)
    python = library(system.stem, Path(system.path).name, all_tasks(system.apps))
    deployed = None
    if python is not None:
        found += in_full(system, ("fp16", "bf16"))
        coded = _coded(valid.system)
        engines = {task.name: DEFAULT_ENGINE for app in coded.apps for task in app.tasks}
        sequentially = sequential(coded, valid.platform, engines)
        deployed = deploy(coded, valid.platform, sequentially, valid.repetition, {}, local_modules)
    plan = files(made, system, units, python, deployed, form)
    if form == "project":
        found += limits.elsewhere(system, plan)
    return made, plan, in_order(dict.fromkeys(found))


def _stop(found: Iterable[Diagnostic]) -> None:
    """Raises Errors if there are errors."""
    if has_errors(found):
        raise Errors(in_order(dict.fromkeys(found)))


def _placed(
    valid: Valid,
    system: System,
    looks: tuple[newest.Newest, ...],
    firings: Mapping[str, Mapping[str, int]],
) -> PlacedSystem:
    """The system with the places and times of the text."""
    profile, _ = store.read_estimates(valid)
    mapping = place(valid, times_of(valid.system, valid.platform, profile))
    placements = {p.task: p for p in mapping.placements}
    times = times_of(system, valid.platform, profile)
    return PlacedSystem(system, looks, valid.platform, firings, placements, times)


def _coded(system: System) -> System:
    """What can be deployed: all of it, or, if some tasks have no code, each of those that the
    library runs."""
    if all(has_code(t) for t in all_tasks(system.apps)):
        return system
    apps = []
    for app in system.apps:
        called = tuple(t for t in app.tasks if is_called(t))
        apps.append(replace(app, tasks=called, channels=()))
    return replace(system, apps=tuple(apps))


def _kept(valid: Valid) -> KeptNames:
    """The import manifest beside a text. Raises Errors."""
    path = beside(valid.system)
    if not os.path.exists(path):
        return KeptNames()
    manifest = read_manifest(path)
    _refuse_paths(manifest, path)
    tasks = {t.task: t for t in manifest.tasks if t.task in valid.tasks}
    ports: dict[tuple[str, str], str] = {}
    own: dict[str, KeptCode] = {}
    for name, task in tasks.items():
        for port, hopes in task.ports.items():
            ports[(name, port)] = hopes
        code = _own(valid.tasks[name], task.code, path)
        if code is not None:
            own[name] = code
    device, *others = {p.device for p in manifest.pools} or {""}
    return KeptNames(
        manifest.project,
        "" if others else device,
        {p.pool: (p.element, p.type) for p in manifest.pools},
        {name: t.full_with_role for name, t in tasks.items()},
        ports,
        {name: t.hopes[0] for name, t in tasks.items() if len(t.hopes) > 1},
        own,
        frozenset(_newest_ports(valid, own, ports)),
    )


def _refuse_paths(manifest: ImportManifest, path: Path) -> None:
    """Names of a manifest become names of files. Raises Errors."""
    for name in (manifest.project, *(t.full for t in manifest.tasks)):
        if not name or {*name} & {*"/\\\0"}:
            message = f"`{path.name}` contains `{name}`, which is not a valid name of a file"
            raise Errors([Diagnostic(WRONG, message, None, help="import the project again")])


def _newest_ports(
    valid: Valid, own: Mapping[str, KeptCode], ports: Mapping[tuple[str, str], str]
) -> Iterator[tuple[str, str]]:
    """The ports of code of HOPES at which it reads or writes the newest value."""
    for name, code in own.items():
        known = newest_of(code)
        task = valid.tasks[name]
        for port in (*task.inputs, *task.outputs):
            if ports.get((name, port.name), port.name) in known:
                yield name, port.name


def _own(task: Task, code: NamedCode | None, manifest: Path) -> KeptCode | None:
    """The code of HOPES that a task runs, if it still runs it. Raises Errors."""
    folder = Path(os.path.abspath(manifest.parent))
    runs = task.implementation_on("cpu")
    if code is None or runs is None or Path(os.path.abspath(runs.path)) != folder / code.around:
        return None

    def paths(names: Iterable[str]) -> tuple[Path, ...]:
        return tuple(Path(os.path.normpath(folder / name)) for name in names)

    # The manifest may have been edited: only files beside the text are copied.
    for file in paths((code.file, *code.headers, *code.sources, *code.files)):
        inside = file.resolve().is_relative_to(folder.resolve())
        if not inside or not os.path.isfile(file):
            reason = "does not exist" if inside else "is not beside it"
            message = f"`{manifest.name}` names `{file}`, which {reason}"
            raise Errors([Diagnostic(WRONG, message, None, help="import the project again")])
    return KeptCode(
        paths([code.file])[0],
        paths([code.around])[0],
        paths(code.headers),
        paths(code.sources),
        paths(code.files),
        tuple(_parameters(task, code)),
        code.cflags,
        code.ldflags,
        code.language,
    )


def _parameters(task: Task, code: NamedCode) -> Iterator[tuple[str, str, str]]:
    """The parameters of code of HOPES: name, type and value."""
    values = dict(task.parameters)
    for name, hopes in code.parameters.items():
        value = values.get(name)
        if isinstance(value, int):
            yield hopes, "int", str(value)
        elif isinstance(value, Fraction):
            yield hopes, "float", str(float(value))


def _per_cycle(app: Application) -> dict[str, int]:
    """Firings of HOPES in an iteration: one for each cycle of phases."""
    vector = repetition(app).vector
    return {t.name: vector[t.name] // t.phases for t in app.tasks}


def _architecture(platform: Platform) -> str:
    """HOPES' name of the instruction set: that of this machine, or that of the boards."""
    if platform.name != "host":
        return "arm64"
    return {"x86_64": "x86_64", "i686": "x86", "armv7l": "arm"}.get(machine.machine(), "arm64")
