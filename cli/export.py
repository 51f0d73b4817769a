"""The verb `export`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._common import (
    Json,
    OnPlatform,
    Places,
    TextOrNetwork,
    print_json,
    progress,
    refuse_existing,
    replace,
    show_diagnostics,
    show_folder,
    sources,
)
from ._formats import completed

if TYPE_CHECKING:
    from ..interop.registry import Exporter, Option, Options, Order

#: The format if none is chosen; with `--into`, the first one that changes projects.
DEFAULT = "sdf3"


class Phases(StrEnum):
    """The rules of `driver.show.mapped_network.RULES`."""

    LEVELS = "levels"
    MINAKOVA = "minakova"


def export(
    file: TextOrNetwork,
    format: Annotated[str, typer.Option("--format", help="The format.")] = DEFAULT,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file or directory to write.", show_default=False),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            help="A project that the text was imported from.",
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
    places: Places = None,
    phases: Annotated[
        Phases,
        typer.Option(
            help="With --places: phases by levels, or by Algorithm 2 of Minakova's thesis."
        ),
    ] = Phases.LEVELS,
    by_parts: Annotated[
        bool,
        typer.Option(
            "--by-parts", help="Of a network: every layer works row by row, in phases (CSDF)."
        ),
    ] = False,
    *,
    options: Options,
    platform: OnPlatform = "host",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: Json = False,
) -> int:
    """Write an app for another tool.

    With `--into`, a mapping goes back into the project that the text came from.
    """
    from ..driver.exchange.export import export as driver_export
    from ..interop.registry import Order, exporters

    known = exporters()
    if format not in known:
        names = " or ".join(known)
        raise typer.BadParameter(
            f"unknown format {format}; expected {names}", param_hint="--format"
        )
    chosen = known[format]
    if file.suffix == ".onnx" and not chosen.networks:
        raise typer.BadParameter(
            f"{chosen.title or format} runs an app with its mapping: give a .flow text",
            param_hint="APP.flow",
        )
    if places is not None and file.suffix != ".onnx":
        raise typer.BadParameter("it is for .onnx files", param_hint="--places")
    if by_parts and (file.suffix != ".onnx" or places is not None):
        raise typer.BadParameter(
            "it is for .onnx files without `--places`", param_hint="--by-parts"
        )
    if phases != Phases.LEVELS and places is None:
        raise typer.BadParameter("it needs `--places`", param_hint="--phases")
    _refuse_options(chosen, known, into is not None, options)
    if into is not None:
        if output is not None or app is not None:
            raise typer.BadParameter(
                "`--into` writes files of the project", param_hint="--output, --app"
            )
        own = None if format == DEFAULT else format
        return _into(file, into, own, platform, options, as_json)
    if chosen.folder is not None:
        if app is not None:
            raise typer.BadParameter(
                "a project always holds all apps of a text", param_hint="--app"
            )
        return _folder(chosen, Order(file, output, platform, options, force, progress), as_json)
    exported = driver_export(
        file,
        format,
        app=app,
        platform=platform,
        places=places,
        phases=phases.value,
        by_parts=by_parts,
    )
    target = output or Path(f"{exported.name}{exported.suffix}")
    show_diagnostics(exported.warnings, sources(exported.warnings))
    refuse_existing(target, force)
    replace(target, exported.text)
    if as_json:
        print_json({"file": str(target)})
    else:
        print(target)
    return 0


def _refuse_options(
    chosen: Exporter, known: dict[str, Exporter], into: bool, options: Options
) -> None:
    """Raises BadParameter for options of other formats, and for those that `--into` rules out."""
    own = {option.name for option in chosen.options}
    for owner, option in _options(known.values()):
        if option.with_into:
            fits = into or option.name in own
        else:
            fits = not into and option.name in own
        if option.name in options.given and not fits:
            where = "only" if option.with_into else "without `--into`"
            raise typer.BadParameter(
                f"`--{option.word}` is for `--format {owner.name}` {where}",
                param_hint=f"--{option.word}",
            )


def _options(exporters: Iterable[Exporter]) -> list[tuple[Exporter, Option]]:
    """All options by their names, each with the first format that has it."""
    options: dict[str, tuple[Exporter, Option]] = {}
    for each in exporters:
        for option in each.options:
            options.setdefault(option.name, (each, option))
    return list(options.values())


def _folder(exporter: Exporter, order: Order, as_json: bool) -> int:
    from ..driver.exchange.export import export_folder
    from ..interop.registry import Unusable

    try:
        made = export_folder(exporter.name, order)
    except Unusable as error:
        words = {option.name: option.word for option in exporter.options}
        raise typer.BadParameter(str(error), param_hint=f"--{words[error.option]}") from None
    return show_folder(made, as_json)


def _into(
    file: Path, project: Path, format: str | None, platform: str, options: Options, as_json: bool
) -> int:
    from ..driver.exchange.export import export_into

    changes = export_into(file, project, format, platform=platform, **options.values)
    show_diagnostics(changes.warnings, sources(changes.warnings))
    for target, text in changes.files.items():
        replace(target, text)
    if as_json:
        print_json({"files": [str(target) for target in changes.files]})
    else:
        for target in changes.files:
            print(target)
    return 0


def export_with_formats() -> Callable[..., int]:
    """The verb for the installed formats. Raises Errors."""
    from ..interop.registry import exporters

    known = exporters().values()
    formats = " ".join(f"`{each.name}`: {each.about}." for each in known)
    files = ", ".join(f"APP{each.suffix}" for each in known if each.suffix)
    folders = "".join(
        f", for `{each.name}` the directory ({each.directory})" for each in known if each.directory
    )
    projects = "; ".join(
        f"a {each.title or each.name} project that the text was imported from: {each.changes}"
        for each in known
        if each.into is not None
    )
    options = [
        (option, f"For `{owner.name}`: {option.about}.") for owner, option in _options(known)
    ]
    return completed(
        export,
        options,
        format=Annotated[str, typer.Option("--format", help=formats)],
        output=Annotated[
            Path | None,
            typer.Option(
                "-o",
                "--output",
                help=f"The file to write (default: {files}){folders}.",
                show_default=False,
            ),
        ],
        into=Annotated[
            Path | None,
            typer.Option(
                "--into",
                help=f"{projects[:1].upper()}{projects[1:]}.",
                show_default=False,
                metavar="PROJECT",
            ),
        ],
    )
