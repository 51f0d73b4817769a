"""From a path to a System: read the file and its includes, declare all names, elaborate everything.

No user code is run: Python and C are only read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..model.application import Application
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
from ..model.span import Span
from ..model.system import System
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
from .scenarios import scenario_of
from .versions import Versions

#: Boards whose descriptions come with flowc, by name.
SHIPPED = {
    p.stem: p for p in sorted((Path(__file__).resolve().parent.parent / "platforms").glob("*.flow"))
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The parts of a text that could be elaborated, and its errors in the order of the text.

    `platform` is the requested one; None if there is none, with `unknown_platform` as the error.
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
        platform = _file_of(platform, {p.name for p in builtin} | reader.platforms)
        if platform.endswith(".flow"):
            reader.read(platform, None)
    context = reader.context
    evaluator = Evaluator(context)
    components = Components(context, evaluator)
    apps, networks = _elaborate(reader.specifications, context, evaluator, components)
    versions = Versions(reader.specifications, context, evaluator, components, networks)
    others = versions.others() if opened is None and not has_errors(context.faults) else ()
    if has_errors(context.faults):
        context.broken.update(networks)  # the tasks of their variants are not known
    platforms = {p.name: p for p in builtin}
    declarations = [d for spec in reader.specifications for d in spec.declarations]
    scenario = (
        scenario_of(declarations, apps, versions, context, evaluator) if opened is None else None
    )
    for declaration in declarations:
        if isinstance(declaration, s.PlatformDecl):
            with _nested(declaration, context):
                platforms[declaration.name.text] = elaborate(declaration, context, evaluator)
    seen: dict[tuple[str, str], Span] = {}
    clocked: dict[tuple[str, str, str], Span] = {}
    pinned: list[Pin] = []
    clocks: list[ClockPin] = []
    for declaration in declarations:
        if isinstance(declaration, s.MappingDecl):
            with _nested(declaration, context):
                every = [*apps, *(a for other in others for a in other)]
                pinned += pins(declaration, every, platforms, context, evaluator, seen)
                clocks += clock_pins(declaration, scenario, platforms, context, evaluator, clocked)
    if opened is not None:
        apps, pinned = _opened(opened, apps, context, evaluator, components), []
    for pin in (p for p in pinned if p.adapt and scenario is not None):
        help_text = "leave it out: in a scenario, states choose among variants of a network"
        context.fault("F811", f"the cut of `{pin.task}` moves by itself", pin.span, help=help_text)
    codes = {i.path: i for a in apps for t in a.tasks for i in t.implementations}
    for clash in clashes(codes.values()):
        context.fault(clash.code, clash.message, clash.span, help=clash.help)
    if not declarations and not context.faults:
        help_text = (
            "an app needs at least: `task T { out x }  app A { t: T }`; `flowc new DIR` writes an"
            " example"
        )
        context.fault(
            "F004",
            f"`{Path(path).name}` declares nothing",
            Span(str(path), 1, 1, 1, 1),
            help=help_text,
        )
    names = {t.name for a in apps for t in a.tasks}
    system = System(
        Path(path).stem,
        str(path),
        tuple(apps),
        tuple(platforms.values()),
        tuple(p for p in pinned if p.task in names),
        reader.sources,
        others,
        tuple(p for p in pinned if p.task not in names),
        scenario,
        tuple(clocks),
    )
    found, unknown = _chosen(system, platform) if platform is not None else (None, None)
    faults = tuple(sorted(context.faults, key=_place))
    return Loaded(system, found, faults, unknown, tuple(reader.specifications))


def read_pins(text: str, loaded: Loaded) -> tuple[Pin, ...]:
    """The pins of a text that flowc has written (`model.mapping.as_text`). Raises Errors."""
    specification, faults = Parser().parse("pins", text)
    context = Context(faults=[*faults])
    every = [*loaded.system.apps, *(a for other in loaded.system.others for a in other)]
    platforms = {p.name: p for p in loaded.system.platforms}
    mappings = [d for d in specification.declarations if isinstance(d, s.MappingDecl)]
    found = [
        pin for m in mappings for pin in pins(m, every, platforms, context, Evaluator(context), {})
    ]
    if context.faults:
        raise Errors(context.faults)
    return tuple(found)


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


def _chosen(system: System, wanted: str) -> tuple[Platform | None, Diagnostic | None]:
    declared = {p.name: p for p in system.platforms}
    if wanted.endswith(".flow"):
        found = [
            p for p in system.platforms if p.span is not None and _same_file(p.span.file, wanted)
        ]
        if len(found) == 1:
            return found[0], None
        what = f"declares {listed(p.name for p in found)}" if found else "declares no platform"
        help_text = "it needs exactly one `platform Name { ... }`"
        return None, Diagnostic("F506", f"`{wanted}` {what}", None, help=help_text)
    if wanted in declared:
        return declared[wanted], None
    known = [*declared, *SHIPPED]
    help_text = (
        did_you_mean(wanted, known)
        or f"there is {one_of(known)}; another one is given as a .flow file"
    )
    return None, Diagnostic("F506", f"there is no platform `{wanted}`", None, help=help_text)


def _same_file(a: str, b: str) -> bool:
    return os.path.realpath(a) == os.path.realpath(b)


def _elaborate(
    specifications: list[s.Specification],
    context: Context,
    evaluator: Evaluator,
    components: Components,
) -> tuple[list[Application], dict[str, s.NetworkDecl]]:
    """The apps, and their instances of networks that have variants."""
    apps: list[Application] = []
    flatteners: list[Flattener] = []
    for declaration in (d for spec in specifications for d in spec.declarations):
        with _nested(declaration, context):
            _elaborate_one(declaration, apps, flatteners, context, evaluator, components)
    apps = joined(apps, flatteners, context)
    for declaration in (d for spec in specifications for d in spec.declarations):
        if not isinstance(declaration, s.GraphDecl) or declaration.name.text in context.used_graphs:
            continue
        if all(p.default is not None for p in declaration.params):
            with _nested(declaration, context):
                arguments = components.bind(declaration.params, (), declaration.name, {})
                if arguments is not None:
                    Flattener(context, evaluator, components).alone(declaration, arguments)
    return apps, {name: d for f in flatteners for name, d in f.networks.items()}


def _opened(
    name: str,
    apps: list[Application],
    context: Context,
    evaluator: Evaluator,
    components: Components,
) -> list[Application]:
    """The app of that name, or a graph as an app with open ends; None after a fault."""
    found = [a for a in apps if a.name == name]
    declaration = context.names.get(name)
    if found or has_errors(context.faults):  # a faulty graph is reported already
        return found
    if not isinstance(declaration, s.GraphDecl):
        known = [n for n, d in context.names.items() if isinstance(d, s.GraphDecl | s.AppDecl)]
        there = (
            f"there is {one_of(known)}"
            if known
            else "write `graph Name { in x: TYPE   out y: TYPE ... }`"
        )
        what = "" if declaration is None else f": it is {kind_word(declaration)}"
        message = f"there is no graph or app `{name}`{what}"
        context.fault("F618", message, None, help=did_you_mean(name, known) or there)
        return []
    with _nested(declaration, context):
        arguments = components.bind(declaration.params, (), declaration.name, {})
        if arguments is not None:
            app = s.AppDecl(declaration.name, declaration.items, declaration.doc, declaration.span)
            found.append(Flattener(context, evaluator, components).app(app, arguments))
    return found


@contextmanager
def _nested(declaration: s.Declaration, context: Context) -> Iterator[None]:
    """Too deep nesting for Python's stack is a fault of its own."""
    try:
        yield
    except RecursionError:
        context.fault(
            "F105", "this is nested too deeply", declaration.span, help="name parts of it"
        )


def _elaborate_one(
    declaration: s.Declaration,
    apps: list[Application],
    flatteners: list[Flattener],
    context: Context,
    evaluator: Evaluator,
    components: Components,
) -> None:
    match declaration:
        case s.ConstDecl():
            evaluator.constant(declaration)
        case s.TypeDecl():
            evaluator.type(declaration.type, {}, (declaration.name.text,))
        case s.TaskDecl():
            components.check_params(declaration.params)
            if all(p.default is not None for p in declaration.params):
                arguments = components.bind(declaration.params, (), declaration.name, {})
                if arguments is not None:
                    components.template(declaration, arguments)
        case s.NetworkDecl():
            components.template(declaration, {})
        case s.GraphDecl():
            components.check_params(declaration.params)
        case s.AppDecl():
            flattener = Flattener(context, evaluator, components)
            apps.append(flattener.app(declaration))
            flatteners.append(flattener)
        case _:
            pass


def read_text(path: str, span: Span | None = None) -> str | Diagnostic:
    """The text of a .flow file, or a diagnostic; `span` is its include."""
    try:
        data = read_bytes(path)
    except OSError as error:
        why = (
            "does not exist"
            if isinstance(error, FileNotFoundError)
            else f"cannot be read: {error.strerror}"
        )
        help_text = "the path is relative to the file that uses it" if span else "check the path"
        return Diagnostic("F006" if span else "F002", f"`{path}` {why}", span, help=help_text)
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

    @property
    def platforms(self) -> set[str]:
        """Names of the platforms that were declared so far."""
        items = (d for spec in self.specifications for d in spec.declarations)
        return {d.name.text for d in items if isinstance(d, s.PlatformDecl)}

    def read(self, path: str, span: Span | None) -> None:
        """Read one file; `span` is its include."""
        try:
            identity = os.path.realpath(path)
        except ValueError:  # a zero byte, or half a character
            self.context.fault("F006" if span else "F002", f"`{path}` is no path", span)
            return
        if identity in [i for i, _ in self._open]:
            names = [n for _, n in self._open]
            cycle = " -> ".join([*(Path(n).name for n in names), Path(path).name])
            self.context.fault(
                "F005", f"these files use each other: {cycle}", span, help="remove one `use`"
            )
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
                self.read(
                    os.path.normpath(Path(path).parent / declaration.file.value),
                    declaration.file.span,
                )
            elif not isinstance(declaration, s.MappingDecl):
                self._declare(declaration)
        self._open.pop()

    def _declare(self, declaration: s.Declaration) -> None:
        assert not isinstance(declaration, (s.UseDecl, s.MappingDecl))
        name = declaration.name
        first = self.context.names.get(name.text)
        if first is None:
            self.context.names[name.text] = declaration
            return
        assert not isinstance(first, (s.UseDecl, s.MappingDecl))
        note = Note(f"{kind_word(first)} of that name is declared here", first.name.span)
        self.context.fault(
            "F102",
            f"`{name.text}` is declared twice",
            name.span,
            notes=[note],
            help="rename one of them",
        )
