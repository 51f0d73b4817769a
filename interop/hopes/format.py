"""Projects of HOPES as a format of flowc: read, written as a whole, and with a mapping put back.

Modules that take long to load are imported by the functions that need them.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..registry import (
    Changes,
    Exporter,
    Folder,
    Imported,
    Importer,
    Option,
    Options,
    Order,
    Request,
    Source,
    Target,
)
from .words import FORMS, POLICIES

TITLE = "HOPES"


def _recognizes(path: Path) -> bool:
    from .files import is_of_translator

    return (
        os.path.isdir(path)
        or os.path.isdir(path.with_name(f"{path.name}.files"))
        or is_of_translator(path)
    )


def _read(request: Request) -> Imported:
    from .importer import imported

    return imported(request)


def _into(source: Source, project: Path, options: Options) -> Changes:
    from .back import back

    return back(source, project, options.get("policy", str))


def _folder(order: Order) -> Folder:
    from .export.export_project import folder

    return folder(order)


def _networks(order: Order) -> Folder:
    from .external import networks

    return networks(order)


IMPORTER = Importer(
    "hopes",
    "a HOPES project",
    _recognizes,
    _read,
    (
        Option("times", "worst-case times of tasks (JSON)", Path, "profile", "FILE"),
        Option(
            "modes",
            "the mode of a task that has several",
            flag="mode",
            metavar="TASK=MODE",
            several=True,
        ),
        Option("state", "only what runs in this state of a control task", metavar="STATE"),
        Option(
            "device",
            "only what runs on this device, with a source or sink for each link",
            metavar="DEVICE",
        ),
    ),
    ending="_algorithm",
    title=TITLE,
    inputs="DIR|NAME_algorithm.xml",
)

EXPORTER = Exporter(
    "hopes",
    "a project, or with `--into` mapping and profile of one",
    into=_into,
    folder=_folder,
    options=(
        Option(
            "policy",
            "every task has a thread of its own (`static-assignment`), or processors follow a"
            " static order (`self-timed`)",
            choices=tuple(POLICIES),
            shown_default="static-assignment; that of an imported project stays",
            with_into=True,
        ),
        Option(
            "form",
            "what HOPES' translator reads (`cic`), or its tool, which adds policy and orders itself"
            " (`project`)",
            choices=FORMS,
            shown_default="cic",
        ),
        Option("stubs", "tasks without code read, and write zeros, to be filled in", bool),
    ),
    title=TITLE,
    directory="build/STEM-hopes",
    changes="its mapping and profile are written anew, with `--policy` its configuration and orders"
    " too",
)

TARGET = Target(
    "hopes-external",
    "its networks alone as a C library (in build/STEM-external)",
    _networks,
)
