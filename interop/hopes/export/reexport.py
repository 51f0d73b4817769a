"""The project of HOPES that a text came from, written again with later decisions.

In: a checked text, and the import manifest beside it. Out: the files of the project, if the text
still means the same as a fresh import of them: they are imported once more, and both are compared.
XML that has no counterpart in the text stays, and changes of mapping, profile and policy are made
in the files that hold them. Other differences are listed, and such a text is exported like any
other (`driver.exchange.hopes`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

from ....codegen.sources import Plan
from ....driver.exchange.import_ import import_
from ....driver.text import store
from ....driver.text.check import Valid, check
from ....model.diagnostic import Diagnostic, Errors
from ....model.files import read_bytes, reason, replace_file, scratch
from ....model.platform import Platform
from ....model.span import Span
from ....model.system import System
from ....model.times import Times, times_of
from ....profiling.identity import task_hashes
from ...names import listed
from ...registry import Source
from ..again import absent, files_of, not_kept, start
from ..back import onto
from ..files import HopesCollector
from ..import_manifest import ENDING, ImportManifest
from ..importer import Understood, understand
from ..numbers import renumbered

#: Diagnostic: the project is written anew, because it names files that are not here.
ANEW, ABSENT = "F737", "F738"


@dataclass(frozen=True, slots=True)
class Again:
    """The files of a project; `changed` are those whose content differs from the import.

    `tasks` maps names of the text to names of HOPES.
    """

    plan: Plan
    name: str
    device: str
    tasks: dict[str, str]
    channels: int
    changed: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


def again(
    valid: Valid, kept: ImportManifest, beside: Path, policy: str | None
) -> Again | Diagnostic:
    """The project of a text, or what the text changes (a warning). `beside` is the manifest file.

    `policy` is one of `words.POLICIES`, or None to keep the project's. Raises Errors if the
    manifest is invalid.
    """
    was = files_of(kept, beside)
    with scratch() as work:
        plan, there = was, _project(valid, kept, beside, was, work / "was")
        others = there.others(valid, beside)
        if others:
            apps = there.then.loaded.system.apps, valid.loaded.system.apps
            plan = was | there.paths(renumbered(there.found, kept, *apps))
            with contextlib.suppress(Errors):
                # without a fresh import, all differences are old ones
                there = _project(valid, kept, beside, plan, work / "now")
                others = there.others(valid, beside) and others
        changes: dict[Path, str] = {}
        if not others:
            source = Source(
                valid.loaded.system, valid.system, valid.platform, valid.mapping, _times(valid)
            )
            try:
                changes = onto(source, there.found, kept, _times(there.then), policy)
            except Errors as errors:
                others = [errors.diagnostics[0].message]
        if others:
            text = Path(valid.system.path).name
            message = f"`{text}` differs from its project `{kept.project}`: {'; '.join(others)}"
            help_text = (
                "it is written anew, from the text alone, without composites, loops and control"
                " tasks"
            )
            return Diagnostic(ANEW, message, None, help=help_text, severity="warning")
        plan = plan | there.paths({path: text.encode() for path, text in changes.items()})
        warnings = tuple(_absent(there.found, kept))
    changed = tuple(sorted(name for name, content in plan.items() if was.get(name) != content))
    tasks = {t.task: t.full_with_role for t in kept.tasks}
    channels = sum(len(graph.channels) for graph in there.found.graphs())
    device = ""
    if there.found.board is not None:
        device = there.found.board.device
    return Again(
        dict(sorted(plan.items())), kept.project, device, tasks, channels, changed, warnings
    )


@dataclass(frozen=True, slots=True)
class _There:
    """A project in the folder `folder`, and the text that it becomes, in the folder `texts`."""

    folder: Path
    texts: Path
    found: Understood
    then: Valid

    def paths(self, changes: Mapping[Path, bytes]) -> Plan:
        """Changed files by their paths in the project."""
        return {str(path.relative_to(self.folder)): data for path, data in changes.items()}

    def others(self, valid: Valid, beside: Path) -> list[str]:
        """The differences of a text from its import."""
        others = list(_others(valid, self.then, Path(os.path.abspath(beside.parent)), self.texts))
        if self.found.board is not None and _pools(valid.platform) != _pools(self.then.platform):
            board = self.found.board.name
            others.append(
                f"the platform is `{valid.platform.name}`, not that of `--platform {board}.flow`"
            )
        return others


def _project(valid: Valid, kept: ImportManifest, beside: Path, plan: Plan, work: Path) -> _There:
    """The project with these files, written into a folder and imported. Raises Errors."""
    folder, texts = work / "project", work / "text"
    try:
        for name, content in plan.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            replace_file(
                folder / name, content if isinstance(content, bytes) else read_bytes(content)
            )
    except OSError as error:
        raise not_kept(beside, f"has invalid files: {reason(error)}") from error
    target = texts / f"{beside.name.removesuffix(ENDING)}.flow"
    found, then = _imported(
        folder / start(kept), target, Path(valid.system.path).name, kept, beside
    )
    return _There(folder, texts, found, then)


def _imported(
    start: Path, target: Path, text: str, kept: ImportManifest, beside: Path
) -> tuple[Understood, Valid]:
    """The content of a project's files, and the text of that name that they become."""
    choice = kept.choice
    try:
        found = understand(start, target.stem, HopesCollector(), choice)
        modes = [f"{task}={mode}" for task, mode in choice.modes.items()]
        import_(start, target, modes=modes, state=choice.state, device=choice.device)
        if os.path.isfile(target.with_name(text)):
            own = target.with_name(text)
        else:
            own = target
        if found.board is None:
            platform = "host"
        else:
            platform = str(target.with_name(f"{found.board.name}.flow"))
        return found, check(own, platform=platform).require()
    except Errors as errors:
        raise not_kept(beside, f"holds no project: {errors.diagnostics[0].message}") from errors


def _absent(found: Understood, kept: ImportManifest) -> Iterator[Diagnostic]:
    files = absent(found)
    if files:
        verb = "is" if len(files) == 1 else "are"
        message = f"{listed(files)} of the project `{kept.project}` {verb} not here"
        help_text = "copy them from the project: code that flowc cannot run is not imported"
        yield Diagnostic(ABSENT, message, None, help=help_text, severity="warning")


def _times(valid: Valid) -> Times:
    return times_of(valid.system, valid.platform, store.read_estimates(valid)[0])


def _pools(platform: Platform) -> set[tuple[str, str, int]]:
    return {(p.name, p.kind, p.count) for p in platform.pools}


# -- what differs ----------------------------------------------------------------------------------
def _others(now: Valid, then: Valid, here: Path, there: Path) -> Iterator[str]:
    """The differences of a text in the folder `here` from one in `there`."""
    ours, theirs = _parts(now.loaded.system, here), _parts(then.loaded.system, there)
    differing: dict[str, list[str]] = {"other": [], "new": [], "gone": []}
    for name in {**ours, **theirs}:
        if name not in theirs:
            differing["new"].append(name)
        elif name not in ours:
            differing["gone"].append(name)
        elif ours[name] != theirs[name]:
            differing["other"].append(name)
    for word, names in differing.items():
        if names:
            verb = "is" if len(names) == 1 else "are"
            yield f"{listed(names, 4)} {verb} {word}"


def _parts(system: System, folder: Path) -> dict[str, object]:
    """The meaning of a text, by the names of its parts; positions and comments do not count."""
    hashes = task_hashes(system)
    found: dict[str, object] = {}
    for app in system.apps:
        found[app.name] = (
            app.period_ns,
            app.deadline_ns,
            app.priority,
            _bare((app.paths, app.variants), folder),
        )
        for t in app.tasks:
            found[t.name] = (hashes.get(t.name), _bare(t, folder))
        for c in app.channels:
            found[c.name] = _bare(c, folder)
    if system.scenario is not None:
        found[system.scenario.name] = _bare(system.scenario, folder)
    return found


def _bare(value: object, folder: Path) -> object:
    """A value of the model without positions and comments; paths are relative to the folder."""
    if isinstance(value, Span):
        return None
    if is_dataclass(value):
        return type(value).__name__, *_bare_fields(value, [f.name for f in fields(value)], folder)
    if isinstance(value, (tuple, list)):
        return tuple(_bare(v, folder) for v in value)
    if isinstance(value, dict):
        return tuple((key, _bare(v, folder)) for key, v in value.items())
    return value


def _bare_fields(value: object, names: Iterable[str], folder: Path) -> Iterator[object]:
    for name in names:
        if name == "path":
            yield _path(getattr(value, name), folder)
        elif name != "doc":
            yield _bare(getattr(value, name), folder)


def _path(path: str, folder: Path) -> str:
    if path:
        return os.path.relpath(path, folder)
    return ""
