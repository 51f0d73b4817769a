"""`build --target hopes-external`: the networks of a text as a C library, with an external task of
HOPES for each, to start from.

In: a text. Out: a directory.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from ...codegen.external import Caller
from ...driver.build.external import BuiltExternal, build_external
from ...driver.text.check import Report
from ..registry import Folder, Order
from .words import PACKAGE

HOPES = Caller(
    PACKAGE,
    "task.cic.j2",
    "cic",
    ".cic",
    "`cic/` has a task of HOPES for each network, to start from.",
)


def build_for_hopes(
    path: str | Path,
    output: str | Path | None = None,
    *,
    platform: str = "host",
    force: bool = False,
    report: Report | None = None,
) -> BuiltExternal:
    """From a text to a directory with a library for C, by default build/STEM-external. Raises
    Errors."""
    return build_external(path, output, platform=platform, caller=HOPES, force=force, report=report)


def networks(order: Order) -> Folder:
    """The directory for the verb. Raises Errors."""
    built = build_for_hopes(
        order.path,
        order.output,
        platform=order.platform,
        force=order.force,
        report=order.report,
    )
    library = f"lib{built.external.library}.so"
    document = {
        "directory": str(built.directory),
        "digest": built.digest,
        "fresh": built.fresh,
        "library": library,
        "losses": {name: [asdict(x) for x in losses] for name, losses in built.losses.items()},
        "networks": {
            n.name: {"function": n.function, "stages": [s.name for s in n.stages]}
            for n in built.external.networks
        },
    }
    lines = []
    for network in built.external.networks:
        stages = ""
        if len(network.stages) > 1:
            stages = f", {len(network.stages)} stages"
        functions = f"{network.function}_init, _execute, _wrapup, _error"
        lines.append(f"  {network.name}{stages}: {functions}")
    lines.append(f"`python3 {built.directory / 'build_shim.py'}` makes {library}")
    return Folder(
        built.directory, built.fresh, built.diagnostics, document, tuple(lines), built.losses
    )
