"""The verb `export`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._common import (
    Json,
    OnPlatform,
    TextOrNetwork,
    number,
    print_json,
    progress,
    refuse_existing,
    replace,
    show_diagnostics,
    sources,
    with_freshness,
)
from ._groups import grouped

if TYPE_CHECKING:
    from ..driver.exchange.hopes import ExportedProject

Format = Annotated[
    str,
    typer.Option(
        "--format",
        help=(
            "`sdf3`: the XML of the SDF3 tools. `jedi`: a configuration of JEDI. `hopes`: a"
            " project, or with `--into` mapping and profile of one."
        ),
    ),
]


class Policy(StrEnum):
    """Who decides in HOPES when a task runs."""

    STATIC_ASSIGNMENT = "static-assignment"
    SELF_TIMED = "self-timed"


class Form(StrEnum):
    """The reader of a project in HOPES: its translator, or its tool."""

    CIC = "cic"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The format of the output, its place, and what belongs to it."""

    format: Format = "sdf3"
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help=(
                "The file to write (default: APP.xml, APP.cfg), for `hopes` the directory"
                " (build/STEM-hopes)."
            ),
            show_default=False,
        ),
    ] = None
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            help=(
                "A HOPES project that the text was imported from: its mapping and profile are"
                " written anew, with "
                "`--policy` its configuration and orders too."
            ),
            show_default=False,
            metavar="PROJECT",
        ),
    ] = None
    app: Annotated[
        str | None,
        typer.Option(
            help="Which app, where there are several.", metavar="NAME", show_default=False
        ),
    ] = None
    policy: Annotated[
        Policy | None,
        typer.Option(
            help=(
                "For `hopes`: every task has a thread of its own (`static-assignment`), or"
                " processors follow a static "
                "order (`self-timed`)."
            ),
            show_default="static-assignment; that of an imported project stays",
        ),
    ] = None
    form: Annotated[
        Form | None,
        typer.Option(
            help=(
                "For `hopes`: what HOPES' translator reads (`cic`), or its tool, which adds policy"
                " and orders itself "
                "(`project`)."
            ),
            show_default="cic",
        ),
    ] = None
    stubs: Annotated[
        bool,
        typer.Option(
            "--stubs",
            help="For `hopes`: tasks without code read, and write zeros, to be filled in.",
        ),
    ] = False
    platform: OnPlatform = "host"
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False

    @property
    def makes_project(self) -> bool:
        """Is the output a new project of HOPES, and not a file?"""
        return self.format == "hopes" and self.into is None


@grouped
def export(file: TextOrNetwork, options: ExportOptions, as_json: Json = False) -> int:
    """Write an app for another tool: SDF3, JEDI or HOPES. SDF3 gets the times that `analyze` uses.

    `hopes` is a project with code and mapping; with `--into`, a mapping goes back into the one that
    the text came from.
    """
    _require_possible(file, options)
    if options.makes_project:
        return _project(file, options, as_json)
    if options.into is not None:
        return _into(file, options.into, options, as_json)
    return _file(file, options, as_json)


def _require_possible(file: Path, options: ExportOptions) -> None:
    """Raises BadParameter for an unknown format, and for options that do not go together."""
    from ..interop.extensions import exporters

    known = exporters()
    if options.format not in known:
        names = " or ".join(known)
        raise typer.BadParameter(
            f"unknown format {options.format}; expected {names}", param_hint="--format"
        )
    project = options.makes_project
    mistakes = (
        (
            file.suffix == ".onnx" and not known[options.format].networks,
            "JEDI runs an app with its mapping: give a .flow text",
            "APP.flow",
        ),
        (
            options.policy is not None and options.format != "hopes" and options.into is None,
            "`--policy` is for `--format hopes` only",
            "--policy",
        ),
        (
            options.form is not None and not project,
            "`--form` is for `--format hopes` without `--into`",
            "--form",
        ),
        (
            options.stubs and not project,
            "`--stubs` is for `--format hopes` without `--into`",
            "--stubs",
        ),
        (
            options.form == Form.PROJECT and options.policy is not None,
            "a project of HOPES' tool has no policy: the tool adds it",
            "--policy",
        ),
        (
            project and options.app is not None,
            "a project always holds all apps of a text",
            "--app",
        ),
        (
            options.into is not None and not (options.output is None and options.app is None),
            "`--into` writes files of the project",
            "--output, --app",
        ),
    )
    for applies, message, option in mistakes:
        if applies:
            raise typer.BadParameter(message, param_hint=option)


def _file(text: Path, options: ExportOptions, as_json: bool) -> int:
    """Write a file of the other tool."""
    from ..driver.exchange.export import export as driver_export

    exported = driver_export(text, options.format, app=options.app, platform=options.platform)
    target = options.output or Path(f"{exported.name}{exported.suffix}")
    show_diagnostics(exported.warnings, sources(exported.warnings))
    refuse_existing(target, options.force)
    replace(target, exported.text)
    if as_json:
        print_json({"file": str(target)})
    else:
        print(target)
    return 0


def _into(text: Path, project: Path, options: ExportOptions, as_json: bool) -> int:
    """Write the changed files of the project that the text was imported from."""
    from ..driver.exchange.export import export_into

    format = "hopes" if options.format == "sdf3" else options.format
    changes = export_into(text, project, format, platform=options.platform, policy=options.policy)
    show_diagnostics(changes.warnings, sources(changes.warnings))
    for target, content in changes.files.items():
        replace(target, content)
    if as_json:
        print_json({"files": [str(target) for target in changes.files]})
    else:
        for target in changes.files:
            print(target)
    return 0


def _project(text: Path, options: ExportOptions, as_json: bool) -> int:
    """Write a project of HOPES."""
    from ..driver.exchange.hopes import export_project

    made = export_project(
        text,
        options.output,
        platform=options.platform,
        policy=options.policy,
        form=options.form or Form.CIC.value,
        stubs=options.stubs,
        force=options.force,
        report=progress,
    )
    show_diagnostics(made.diagnostics, sources(made.diagnostics))
    if as_json:
        print_json(_as_data(made))
        return 0
    print(with_freshness(made.directory, made.fresh))
    counts = f"{number(len(made.tasks), 'task')}, {number(made.channels, 'channel')}"
    device = f", device {made.device}" if made.device else ""
    print(f"  project {made.name}{device}: {counts}")
    if made.project is None:
        changes = f", but for {', '.join(made.changed)}" if made.changed else ""
        print(f"  as it was imported{changes}")
    if made.script is not None:
        print(f"`python3 {made.script}` makes the library for tasks that are not in C")
    return 0


def _as_data(made: ExportedProject) -> dict[str, Any]:
    return {
        "directory": str(made.directory),
        "digest": made.digest,
        "fresh": made.fresh,
        "script": None if made.script is None else str(made.script),
        "project": made.name,
        "device": made.device,
        "tasks": dict(made.tasks),
        "changed": None if made.project is not None else list(made.changed),
    }
