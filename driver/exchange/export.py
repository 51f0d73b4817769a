"""An app for another tool: its graph with the times that `analyze` uses, its mapping, or a project.

In: a text (or a network), the name of a format. Out: the name of the app and the text of a file,
changes of a project that is there, or a new directory. `interop.registry` finds the formats.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ...interop.registry import Changes, Exporter, Folder, Options, Order, Source, exporters
from ...model.diagnostic import Diagnostic, Errors, one_of
from ...model.times import times_of
from ..plan.program import places
from ..show.mapped_network import check_mapped
from ..show.networks import check_network
from ..text import store
from ..text.check import Checked, check


@dataclass(frozen=True, slots=True)
class Export:
    """The file's text, a name for it, and notes on what the format cannot express."""

    name: str
    text: str
    suffix: str
    warnings: tuple[Diagnostic, ...]


def export(
    path: str | Path,
    format: str = "sdf3",
    *,
    app: str | None = None,
    platform: str = "host",
    places: str | Path | None = None,
    phases: str = "levels",
    by_parts: bool = False,
) -> Export:
    """Write an app of a text, by default the only one, in another tool's format.

    A network is written as a task per layer; with `places`, a file with the processor of each
    layer, as a task per processor with `phases` by a rule of `driver.show.mapped_network.RULES`;
    with `by_parts`, as layers that work row by row, in phases. Raises Errors.
    """
    exporter = _exporter(format)
    if exporter.write is None:
        help_text = (
            "`driver.exchange.export.export_folder` writes one, and `--into PROJECT` a mapping into"
            " one that is there"
        )
        raise Errors([Diagnostic("F704", f"`{format}` is a folder of files", None, help=help_text)])
    alone = Path(path).suffix == ".onnx"
    if alone and not exporter.networks:
        message = f"`{format}` describes an application with its mapping, and `{path}` is a network"
        raise Errors([Diagnostic("F704", message, None, help="give a .flow text")])
    if alone and places is not None:
        checked = check_mapped(path, places, phases)
    elif alone:
        checked = check_network(path, by_parts=by_parts, loops=True)
    else:
        checked = check(path, platform=platform)
    source, warnings = _source(checked, exporter, alone)
    written = exporter.write(source, app)
    return Export(written.name, written.text, exporter.suffix, (*warnings, *written.warnings))


def export_into(
    path: str | Path,
    project: str | Path,
    format: str | None = None,
    *,
    platform: str = "host",
    **options: object,
) -> Changes:
    """The changes to the project of another tool that an application came from, by default of the
    first format that has any.

    `options` are those of the format that have an effect on a project that is there. Writes
    nothing. Raises Errors.
    """
    having = [name for name, each in exporters().items() if each.into is not None]
    exporter = _exporter(format or having[0])
    if exporter.into is None:
        names = one_of(having)
        raise Errors(
            [
                Diagnostic(
                    "F704",
                    f"`{format}` makes a file of its own",
                    None,
                    help=f"only {names} has `--into`",
                )
            ]
        )
    checked = check(path, platform=platform)
    source, _ = _source(checked, exporter, False)
    made = exporter.into(source, Path(project), Options(options))
    return replace(made, warnings=tuple(dict.fromkeys((*checked.diagnostics, *made.warnings))))


def export_folder(format: str, order: Order) -> Folder:
    """Write a text as a directory of another tool. Raises Errors, and Unusable for options that
    rule each other out."""
    exporter = _exporter(format)
    if exporter.folder is None:
        message = f"`{format}` is a file of its own"
        raise Errors([Diagnostic("F704", message, None, help="`export` writes it")])
    return exporter.folder(order)


def _exporter(format: str) -> Exporter:
    known = exporters()
    if format not in known:
        raise Errors(
            [Diagnostic("F704", f"unknown format `{format}`", None, help=f"choose {one_of(known)}")]
        )
    return known[format]


def _source(
    checked: Checked, exporter: Exporter, alone: bool
) -> tuple[Source, tuple[Diagnostic, ...]]:
    """The input of an exporter, and the diagnostics about its times."""
    valid = checked.require()
    profile, stale = (None, ()) if alone else store.read_profile(valid)
    times = times_of(valid.system, valid.platform, profile)
    if exporter.timed:
        times = times.on_mapping(places(valid, times, profile), valid.platform)
    source = Source(valid.loaded.system, valid.system, valid.platform, valid.mapping, times)
    return source, stale if exporter.timed else ()
