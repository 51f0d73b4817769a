"""From a path to a System: read the file and its includes, declare all names, elaborate everything.

No user code is run: Python and C are only read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ..model.application import Application, Implementation, Parameter, Task, all_tasks
from ..model.diagnostic import (
    Diagnostic,
    Errors,
    Note,
    did_you_mean,
    few_guesses,
    has_errors,
    listed,
    one_of,
)
from ..model.files import read_bytes
from ..model.mapping import ClockPin, Pin
from ..model.platform import Platform
from ..model.scenario import Scenario
from ..model.span import Span
from ..model.supports import refusal
from ..model.system import DeclaredTask, System
from . import syntax as s
from .components import Components
from .context import Context, kind_word
from .evaluate import Evaluator
from .flatten import DEEPEST, Flattener
from .links import joined
from .modules import clashes
from .parse import Parser
from .platforms import clock_pins, pins
from .platforms import platform as elaborate
from .processor_types import times_on_unknown
from .scenarios import scenario_of
from .shares import check_shares
from .versions import Versions

#: Boards whose descriptions come with flowc, by name.
SHIPPED = {
    p.stem: p for p in sorted((Path(__file__).resolve().parent.parent / "platforms").glob("*.flow"))
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The parts of a text that could be elaborated, and its errors in the order of the text.

    `platform` is the requested one; None if there is none, with `unknown_platform` as the error
    (None where the declaration of that name did not parse).
    `specifications` are the files, as far as they could be parsed.
    """

    system: System
    platform: Platform | None
    diagnostics: tuple[Diagnostic, ...]
    unknown_platform: Diagnostic | None = None
    specifications: tuple[s.Specification, ...] = ()


@few_guesses()
def load(
    path: str | Path,
    *,
    platform: str | None = None,
    builtin: Iterable[Platform] = (),
    opened: str | None = None,
    texts: Mapping[str, str] | None = None,
) -> Loaded:
    """Load `path` and its includes, each file once.

    `platform` is the name of a platform of the text, of a `builtin` one, of a board that comes with
    flowc, or a .flow file that declares one; None requests none. With `opened`, the name of a graph
    or an app, the system has that alone, without pins; ports of a graph are then open ends.
    `texts`, by real paths, replace the contents of files: an editor's unsaved texts. Errors of the
    user are returned, not raised.
    """
    builtin = tuple(builtin)
    reader = _Reader(texts or {})
    reader.read(str(path), None)
    if platform is not None:
        platform = reader.read_platform(platform, {p.name for p in builtin})
    context = reader.context
    elaborator = _Elaborator(reader.specifications, context)
    apps = elaborator.apps()
    others: tuple[tuple[Application, ...], ...] = ()
    scenario = None
    if opened is None and not has_errors(context.faults):
        others = elaborator.versions.others()
    if has_errors(context.faults):
        context.broken.update(elaborator.networks)  # the tasks of their variants are not known
    if opened is None:
        scenario = elaborator.scenario(apps)
    check_shares(apps, elaborator.has_states, context)
    platforms = elaborator.platforms(builtin)
    tasks = (d for d in elaborator.declarations if isinstance(d, s.TaskDecl))
    times_on_unknown(tasks, platforms.values(), SHIPPED.values(), context)
    pinned, clocks = elaborator.mappings([apps, *others], platforms, scenario)
    if opened is not None:
        apps, pinned = elaborator.opened(opened, apps), []
    if scenario is not None:
        _refuse_adapted(pinned, context)
    _check_modules(apps, context)
    if not elaborator.declarations and not context.faults:
        _report_empty(path, context)
    pinned, other_pins = _of_tasks(pinned, all_tasks(apps))
    system = System(
        Path(path).stem,
        str(path),
        tuple(apps),
        tuple(platforms.values()),
        tuple(pinned),
        reader.sources,
        others,
        tuple(other_pins),
        scenario,
        tuple(clocks),
        () if has_errors(context.faults) else tuple(elaborator.in_c()),
    )
    chosen, unknown = None, None
    if platform is not None:
        chosen, unknown = _chosen(system, platform)
        if platform in context.poisoned:  # its declaration has a fault already
            unknown = None
    faults = tuple(sorted(context.faults, key=_place))
    return Loaded(system, chosen, faults, unknown, tuple(reader.specifications))


def _of_tasks(pinned: Iterable[Pin], tasks: Iterable[Task]) -> tuple[list[Pin], list[Pin]]:
    """The pins of these tasks, and all others."""
    names = {task.name for task in tasks}
    own: list[Pin] = []
    others: list[Pin] = []
    for pin in pinned:
        (own if pin.task in names else others).append(pin)
    return own, others


def _refuse_adapted(pinned: Iterable[Pin], context: Context) -> None:
    """In a scenario, no cut of a network moves."""
    for pin in pinned:
        if pin.adapt:
            context.report(refusal("`adapt`", "states").at(pin.span, {"task": pin.task}))


def _check_modules(apps: Iterable[Application], context: Context) -> None:
    """The Python files of all tasks can be imported into one program."""
    files: dict[str, Implementation] = {}
    for task in all_tasks(apps):
        files.update((code.path, code) for code in task.implementations)
    for clash in clashes(files.values()):
        context.fault(clash.code, clash.message, clash.span, help=clash.help)


def _report_empty(path: str | Path, context: Context) -> None:
    message = f"`{Path(path).name}` declares nothing"
    help_text = (
        "an app needs at least: `task T { out x }  app A { t: T }`; `flowc new DIR` writes an"
        " example"
    )
    context.fault("F004", message, Span(str(path), 1, 1, 1, 1), help=help_text)


def read_pins(text: str, loaded: Loaded) -> tuple[Pin, ...]:
    """The pins of a text that flowc has written (`model.mapping.as_text`). Raises Errors."""
    specification, faults = Parser().parse("pins", text)
    context = Context(faults=[*faults])
    apps = list(loaded.system.apps)
    for other in loaded.system.others:
        apps += other
    platforms = {p.name: p for p in loaded.system.platforms}
    pinned: list[Pin] = []
    for declaration in specification.declarations:
        if isinstance(declaration, s.MappingDecl):
            pinned += pins(declaration, apps, platforms, context, Evaluator(context), {})
    if context.faults:
        raise Errors(context.faults)
    return tuple(pinned)


def _place(fault: Diagnostic) -> tuple[str, int, int]:
    span = fault.span
    return (span.file, span.line, span.column) if span else ("", 0, 0)


def _file_of(platform: str, declared: set[str]) -> str:
    """A platform's file, if there is one: the user's, else the one of that name that comes with
    flowc.
    """
    name = platform.removesuffix(".flow")
    theirs = os.path.exists(platform) if platform.endswith(".flow") else platform in declared
    return str(SHIPPED[name]) if name in SHIPPED and not theirs else platform


def _chosen(system: System, name: str) -> tuple[Platform | None, Diagnostic | None]:
    """The platform of that name, or the only one of that file; or why there is none."""
    if name.endswith(".flow"):
        return _only_platform(system, name)
    declared = {p.name: p for p in system.platforms}
    if name in declared:
        return declared[name], None
    known = [*declared, *SHIPPED]
    help_text = (
        did_you_mean(name, known)
        or f"there is {one_of(known, len(known))}; another one is given as a .flow file"
    )
    if name == "board":
        help_text = (
            "it is the machine behind `--board USER@HOST`; flowc's own machine is `host`, which is"
            " meant without `--platform`"
        )
    return None, Diagnostic("F506", f"there is no platform `{name}`", None, help=help_text)


def _only_platform(system: System, file: str) -> tuple[Platform | None, Diagnostic | None]:
    """The platform of that file, which declares no other."""
    declared = [p for p in system.platforms if p.span is not None and _same_file(p.span.file, file)]
    if len(declared) == 1:
        return declared[0], None
    what = "no platform"
    if declared:
        what = listed(p.name for p in declared)
    help_text = "it needs exactly one `platform Name { ... }`"
    return None, Diagnostic("F506", f"`{file}` declares {what}", None, help=help_text)


def _same_file(a: str, b: str) -> bool:
    return os.path.realpath(a) == os.path.realpath(b)


class _Elaborator:
    """Elaborates the declarations of a text and of the files that it uses."""

    def __init__(self, specifications: Sequence[s.Specification], context: Context) -> None:
        self.declarations = list(chain.from_iterable(spec.declarations for spec in specifications))
        self._context = context
        self._evaluate = Evaluator(context)
        self._components = Components(context, self._evaluate)
        #: Instances of networks that have variants, once the apps exist.
        self.networks: dict[str, s.NetworkDecl] = {}
        self.versions = Versions(
            specifications, context, self._evaluate, self._components, self.networks
        )

    def apps(self) -> list[Application]:
        """The flat apps; everything else but platforms, mappings and scenarios is checked."""
        apps: list[Application] = []
        flatteners: list[Flattener] = []
        for declaration in self.declarations:
            with _nested(declaration, self._context):
                if isinstance(declaration, s.AppDecl):
                    flattener = self._flattener()
                    apps.append(flattener.app(declaration))
                    flatteners.append(flattener)
                else:
                    self._check(declaration)
        apps = joined(apps, flatteners, self._context)
        for declaration in self.declarations:
            if isinstance(declaration, s.GraphDecl):
                self._check_unused(declaration)
        for flattener in flatteners:
            self.networks.update(flattener.networks)
        return apps

    def _flattener(self) -> Flattener:
        return Flattener(self._context, self._evaluate, self._components)

    def _check(self, declaration: s.Declaration) -> None:
        """Elaborate a declaration by itself, so that its faults are found without a use."""
        match declaration:
            case s.ConstDecl():
                self._evaluate.constant(declaration)
            case s.TypeDecl():
                self._evaluate.type(declaration.type, {}, (declaration.name.text,))
            case s.TaskDecl():
                self._components.check_params(declaration.params)
                arguments = self._defaults(declaration)
                if arguments is not None:
                    self._components.template(declaration, arguments)
            case s.NetworkDecl():
                self._components.template(declaration, {})
            case s.GraphDecl():
                self._components.check_params(declaration.params)
            case _:
                pass

    def _check_unused(self, declaration: s.GraphDecl) -> None:
        """Check a graph that no app uses."""
        if declaration.name.text in self._context.used_graphs:
            return
        with _nested(declaration, self._context):
            arguments = self._defaults(declaration)
            if arguments is not None:
                self._flattener().alone(declaration, arguments)

    def in_c(self) -> Iterator[DeclaredTask]:
        """The declared tasks with code in C."""
        for declaration in self.declarations:
            if isinstance(declaration, s.TaskDecl) and declaration.in_c:
                found = self._components.declared(declaration)
                if found is not None:
                    yield found

    def _defaults(self, declaration: s.TaskDecl | s.GraphDecl) -> dict[str, Parameter] | None:
        """Arguments that are all defaults; None where a parameter has none, or after a fault."""
        if any(p.default is None for p in declaration.params):
            return None
        return self._components.bind(declaration.params, (), declaration.name, {})

    @property
    def has_states(self) -> bool:
        """Is there a scenario?"""
        return any(isinstance(d, s.ScenarioDecl) for d in self.declarations)

    def scenario(self, apps: Sequence[Application]) -> Scenario | None:
        """None without a scenario, or after a fault."""
        return scenario_of(self.declarations, apps, self.versions, self._context, self._evaluate)

    def platforms(self, builtin: Iterable[Platform]) -> dict[str, Platform]:
        """All platforms by their names."""
        platforms = {p.name: p for p in builtin}
        for declaration in self.declarations:
            if isinstance(declaration, s.PlatformDecl):
                with _nested(declaration, self._context):
                    name = declaration.name.text
                    platforms[name] = elaborate(declaration, self._context, self._evaluate)
        return platforms

    def mappings(
        self,
        versions: Iterable[Sequence[Application]],
        platforms: dict[str, Platform],
        scenario: Scenario | None,
    ) -> tuple[list[Pin], list[ClockPin]]:
        """Pins, of tasks of any version of the apps, and clock rates."""
        apps = list(chain.from_iterable(versions))
        places: dict[tuple[str, str], Span] = {}
        clock_places: dict[tuple[str, str, str], Span] = {}
        pinned: list[Pin] = []
        clocks: list[ClockPin] = []
        context, evaluate = self._context, self._evaluate
        for declaration in self.declarations:
            if isinstance(declaration, s.MappingDecl):
                with _nested(declaration, context):
                    pinned += pins(declaration, apps, platforms, context, evaluate, places)
                    clocks += clock_pins(
                        declaration, scenario, platforms, context, evaluate, clock_places
                    )
        return pinned, clocks

    def opened(self, name: str, apps: Iterable[Application]) -> list[Application]:
        """The app of that name, or a graph as an app with open ends; none after a fault."""
        named = [app for app in apps if app.name == name]
        if named or has_errors(self._context.faults):  # a faulty graph is reported already
            return named
        declaration = self._context.names.get(name)
        if not isinstance(declaration, s.GraphDecl):
            self._not_opened(name, declaration)
            return []
        with _nested(declaration, self._context):
            arguments = self._components.bind(declaration.params, (), declaration.name, {})
            if arguments is not None:
                app = s.AppDecl(
                    declaration.name, declaration.items, declaration.doc, declaration.span
                )
                return [self._flattener().app(app, arguments)]
        return []

    def _not_opened(self, name: str, declaration: s.Declaration | None) -> None:
        message = f"there is no graph or app `{name}`"
        if declaration is not None:
            message += f": it is {kind_word(declaration)}"
        names = self._context.names.items()
        known = [n for n, d in names if isinstance(d, s.GraphDecl | s.AppDecl)]
        help_text = "write `graph Name { in x: TYPE   out y: TYPE ... }`"
        if known:
            help_text = did_you_mean(name, known) or f"there is {one_of(known)}"
        self._context.fault("F618", message, None, help=help_text)


@contextmanager
def _nested(declaration: s.Declaration, context: Context) -> Iterator[None]:
    """Too deep nesting for Python's stack is a fault of its own."""
    try:
        yield
    except RecursionError:
        context.fault(
            "F105", "this is nested too deeply", declaration.span, help="name parts of it"
        )


def read_text(path: str, span: Span | None = None) -> str | Diagnostic:
    """The text of a .flow file, or a diagnostic; `span` is its include."""
    try:
        data = read_bytes(path)
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
        if isinstance(error, FileNotFoundError):
            why = "does not exist"
        code, help_text = "F002", "check the path"
        if span is not None:
            code, help_text = "F006", "the path is relative to the file that uses it"
        return Diagnostic(code, f"`{path}` {why}", span, help=help_text)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return Diagnostic(
            "F003", f"`{path}` is not a text", span, help="a .flow file is UTF-8 text"
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


class _Reader:
    """Reads files and their includes, each once, and fills the table of names."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self.context = Context()
        self.specifications: list[s.Specification] = []
        self.sources: dict[str, str] = {}
        self._parser = Parser()
        self._open: list[tuple[str, str]] = []
        self._done: set[str] = set()

    def read_platform(self, platform: str, builtin: set[str]) -> str:
        """Read the file of a platform, if it has one; its path, else its name."""
        declared: set[str] = set()
        for specification in self.specifications:
            platforms = [d for d in specification.declarations if isinstance(d, s.PlatformDecl)]
            declared.update(declaration.name.text for declaration in platforms)
        platform = _file_of(platform, builtin | declared)
        if platform.endswith(".flow"):
            self.read(platform, None)
        return platform

    def read(self, path: str, span: Span | None) -> None:
        """Read one file; `span` is its include."""
        try:
            identity = os.path.realpath(path)
        except ValueError:  # a zero byte, or half a character
            self.context.fault("F006" if span else "F002", f"`{path}` is no path", span)
            return
        if identity in [opened for opened, _ in self._open]:
            names = [Path(name).name for _, name in self._open]
            cycle = " -> ".join([*names, Path(path).name])
            message = f"these files use each other: {cycle}"
            self.context.fault("F005", message, span, help="remove one `use`")
            return
        if identity in self._done:
            return
        if len(self._open) == DEEPEST:
            self.context.fault("F105", f"files use each other more than {DEEPEST} deep", span)
            return
        self._done.add(identity)
        text = self._texts[identity] if identity in self._texts else read_text(path, span)
        if isinstance(text, Diagnostic):
            self.context.fault(text.code, text.message, text.span, help=text.help)
            return
        self.sources[path] = text
        specification, faults = self._parser.parse(path, text)
        self.specifications.append(specification)
        self.context.faults.extend(faults)
        self.context.poisoned.update(specification.poisoned)
        self._open.append((identity, path))
        for declaration in specification.declarations:
            if isinstance(declaration, s.UseDecl):
                file = declaration.file
                self.read(os.path.normpath(Path(path).parent / file.value), file.span)
            elif not isinstance(declaration, s.MappingDecl):
                self._declare(declaration)
        self._open.pop()

    def _declare(self, declaration: s.Named) -> None:
        name = declaration.name
        first = self.context.names.setdefault(name.text, declaration)
        if first is not declaration:
            note = Note(f"{kind_word(first)} of that name is declared here", first.name.span)
            self.context.fault(
                "F102",
                f"`{name.text}` is declared twice",
                name.span,
                notes=[note],
                help="rename one of them",
            )
