"""PREESM's graphs and scenarios to `.flow` texts with C code, a platform, pins and times.

In: a `.scenario`, which names its graph and its architecture, or a graph `.pi` alone. Out: an
`Imported`: the text of the application, C code that calls that of the actors with the C files it
needs, and, from a scenario, the platform, a mapping if actors have to run somewhere, and their
times as a profile. All faults are reported at once. The modules beside this one read and write the
parts; the caller writes files and hashes tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...model.diagnostic import Diagnostic, Errors
from .. import registry
from ..names import shown
from ..registry import Request
from .code import code_of
from .design import PreesmDesign
from .elaborate import design_of
from .files import NOT_PREESM, PreesmCollector, PreesmProject, project_of, start_of
from .graph import PiGraph, read_graph
from .places import PreesmTimes, losses, mapping_text, pins_of, times_of
from .platform import PreesmBoard, read_board
from .scenario import GivenValue, PreesmScenario, read_scenario
from .text import names_of, text_of

__all__ = ["imported"]


def imported(request: Request) -> registry.Imported:
    """The graph of a request. Raises Errors with everything that is wrong."""
    say = PreesmCollector()
    scenario = board = None
    sizes: Mapping[str, int] = {}
    values: Mapping[tuple[str, str], GivenValue] = {}
    if request.path.suffix == ".scenario":
        scenario = read_scenario(request.path, say)
        if scenario is None:
            raise say.errors()
        project = project_of(request.path, (scenario.algorithm, scenario.architecture))
        top = read_graph(_graph_of(scenario, project), say)
        sizes, values = scenario.sizes, scenario.values
        board = _board_of(scenario, project, request.target.stem, say)
    else:
        top = read_graph(request.path, say)
        actors = [] if top is None else top.actors.values()
        project = project_of(request.path, [a.refinement for a in actors if a.refinement])
    design = None
    if top is not None:
        design = design_of(top, project, sizes, values, say)
    if top is None or design is None or say.faults:
        raise say.errors()
    return _texts(request, top, design, scenario, board, project, say)


def _texts(
    request: Request,
    top: PiGraph,
    design: PreesmDesign,
    scenario: PreesmScenario | None,
    board: PreesmBoard | None,
    project: PreesmProject,
    say: PreesmCollector,
) -> registry.Imported:
    stem = request.target.stem
    names = names_of(design, top.name)
    coded = code_of(design.leaves, names.tasks, project, f"{stem}_code", say)
    about = [f"Imported from {shown(request.path.name)} (PREESM)."]
    files: dict[str, str | bytes] = {}
    times: PreesmTimes | None = None
    if scenario is not None and board is not None:
        about.append(f"Its platform is in {board.name}.flow: `--platform {board.name}.flow`.")
        files[f"{board.name}.flow"] = board.text()
        pins = pins_of(design, names.app, top.name, scenario, board, say)
        if pins:
            used = (request.target.name, f"{board.name}.flow")
            files[f"{stem}.{board.name}.flow"] = mapping_text(pins, board, used, scenario.file.name)
        losses(design, top.name, scenario, board, say)
        times = times_of(design, names.app, top.name, scenario, board, say)
    say.stop()
    text = text_of(design, names, coded.codes, about)
    platform = ""
    if board is not None and times is not None:
        platform = f"{board.name}.flow"
    return registry.Imported(
        {request.target.name: text, **files, **coded.files},
        say.warnings(),
        platform=platform,
        profile=None if times is None else times.profile,
    )


def _graph_of(scenario: PreesmScenario, project: PreesmProject) -> Path:
    file = project.find(scenario.algorithm)
    if file is None:
        message = f"there is no {shown(scenario.algorithm)} in the project around this scenario"
        help_text = f"its files are looked for below `{project.root}`"
        raise Errors([Diagnostic(NOT_PREESM, message, scenario.span, help=help_text)])
    return file


def _board_of(
    scenario: PreesmScenario, project: PreesmProject, stem: str, say: PreesmCollector
) -> PreesmBoard | None:
    """The architecture; without one there are no platform, places and times."""
    file = None
    if scenario.architecture:
        file = project.find(scenario.architecture)
    if file is None:
        message = (
            f"there is no architecture {shown(scenario.architecture)}: platform, places and times"
            " are left out"
        )
        say.warn(message, start_of(scenario.file))
        return None
    return read_board(file, say, (stem,))
