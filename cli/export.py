"""The verb `export`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

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
)

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


def export(
    file: TextOrNetwork,
    format: Format = "sdf3",
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
    ] = None,
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
    ] = None,
    app: Annotated[
        str | None,
        typer.Option(
            help="Which app, where there are several.", metavar="NAME", show_default=False
        ),
    ] = None,
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
    ] = None,
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
    ] = None,
    stubs: Annotated[
        bool,
        typer.Option(
            "--stubs",
            help="For `hopes`: tasks without code read, and write zeros, to be filled in.",
        ),
    ] = False,
    platform: OnPlatform = "host",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: Json = False,
) -> int:
    """Write an app for another tool: SDF3, JEDI or HOPES. SDF3 gets the times that `analyze` uses.

    `hopes` is a project with code and mapping; with `--into`, a mapping goes back into the one that
    the text came from.
    """
    from ..driver.exchange.export import export as driver_export
    from ..driver.exchange.export import export_into
    from ..interop.extensions import exporters

    known = exporters()
    if format not in known:
        names = " or ".join(known)
        raise typer.BadParameter(
            f"unknown format {format}; expected {names}", param_hint="--format"
        )
    if file.suffix == ".onnx" and not known[format].networks:
        raise typer.BadParameter(
            "JEDI runs an app with its mapping: give a .flow text", param_hint="APP.flow"
        )
    if policy is not None and format != "hopes" and into is None:
        raise typer.BadParameter("`--policy` is for `--format hopes` only", param_hint="--policy")
    if form is not None and (format != "hopes" or into is not None):
        raise typer.BadParameter(
            "`--form` is for `--format hopes` without `--into`", param_hint="--form"
        )
    if stubs and (format != "hopes" or into is not None):
        raise typer.BadParameter(
            "`--stubs` is for `--format hopes` without `--into`", param_hint="--stubs"
        )
    if form == Form.PROJECT and policy is not None:
        raise typer.BadParameter(
            "a project of HOPES' tool has no policy: the tool adds it", param_hint="--policy"
        )
    if format == "hopes" and into is None:
        if app is not None:
            raise typer.BadParameter(
                "a project always holds all apps of a text", param_hint="--app"
            )
        return _project(file, output, platform, policy, form or Form.CIC, stubs, force, as_json)
    if into is not None:
        if output is not None or app is not None:
            raise typer.BadParameter(
                "`--into` writes files of the project", param_hint="--output, --app"
            )
        chosen = None if policy is None else policy.value
        done = export_into(
            file, into, "hopes" if format == "sdf3" else format, platform=platform, policy=chosen
        )
        show_diagnostics(done.warnings, sources(done.warnings))
        for target, text in done.files.items():
            replace(target, text)
        if as_json:
            print_json({"files": [str(target) for target in done.files]})
        else:
            for target in done.files:
                print(target)
        return 0
    found = driver_export(file, format, app=app, platform=platform)
    target = output or Path(f"{found.name}{found.suffix}")
    show_diagnostics(found.warnings, sources(found.warnings))
    refuse_existing(target, force)
    replace(target, found.text)
    if as_json:
        print_json({"file": str(target)})
    else:
        print(target)
    return 0


def _project(
    file: Path,
    output: Path | None,
    platform: str,
    policy: Policy | None,
    form: Form,
    stubs: bool,
    force: bool,
    as_json: bool,
) -> int:
    from ..driver.exchange.hopes import export_project

    made = export_project(
        file,
        output,
        platform=platform,
        policy=None if policy is None else policy.value,
        form=form.value,
        stubs=stubs,
        force=force,
        report=progress,
    )
    show_diagnostics(made.diagnostics, sources(made.diagnostics))
    if as_json:
        print_json(
            {
                "directory": str(made.directory),
                "digest": made.digest,
                "fresh": made.fresh,
                "script": None if made.script is None else str(made.script),
                "project": made.name,
                "device": made.device,
                "tasks": dict(made.tasks),
                "changed": None if made.project is not None else list(made.changed),
            }
        )
        return 0
    print(f"{made.directory}{'' if made.fresh else ' (up to date)'}")
    counts = f"{number(len(made.tasks), 'task')}, {number(made.channels, 'channel')}"
    print(f"  project {made.name}{f', device {made.device}' if made.device else ''}: {counts}")
    if made.project is None:
        changes = f", but for {', '.join(made.changed)}" if made.changed else ""
        print(f"  as it was imported{changes}")
    if made.script is not None:
        print(f"`python3 {made.script}` makes the library for tasks that are not in C")
    return 0
