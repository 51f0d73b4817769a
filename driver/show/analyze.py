"""Properties of a text's graphs: period, latency, buffers, schedules (analysis.dataflow.analyze).

Times are those of `model.times` with the stored profile; nothing is measured here. A network on its
own, as an .onnx file, is analyzed as an app whose tasks are its layers (`networks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...analysis.dataflow.analyze import Analysis, limits
from ...analysis.dataflow.analyze import analyze as analyze_app
from ...model.application import Application
from ...model.diagnostic import Diagnostic, Errors, has_errors
from ...model.profile import Profile
from ...model.times import Times, times_of
from ..plan.program import places
from ..text import store
from ..text.asked import asked_of
from ..text.check import VERDICT_CODES, Checked, Report, Valid, ValidScenario, check
from ..text.few_samples import few_samples
from ..text.notebook_result import NotebookResult
from ..text.repeated_worst_cases import repeated_worst_cases
from .alternatives import VariantComparison, compared

#: Called with an app, its results so far, and its static orders by processor.
Answered = Callable[[Application, Analysis, dict[str, str]], None]
#: Called with all diagnostics, and the text that they are about.
Noticed = Callable[[tuple[Diagnostic, ...], Checked], None]


@dataclass(frozen=True, slots=True)
class Analyzed(NotebookResult):
    """Every app's analysis, and its static orders in loop notation by processor (none without a
    stored profile).

    `alternatives` are networks with variants, `states` those of a scenario, with the apps as they
    are there: their periods, latencies and least buffers. `diagnostics` are the relevant ones:
    firings that follow each other are no error if they may overlap.
    """

    checked: Checked
    apps: dict[str, Analysis]
    orders: dict[str, dict[str, str]]
    diagnostics: tuple[Diagnostic, ...]
    overlap: bool
    alternatives: tuple[VariantComparison, ...] = ()
    states: dict[str, dict[str, Analysis]] = field(default_factory=dict)

    @property
    def refused(self) -> bool:
        """Is a verdict negative, or do the declared times forbid a period or a deadline on every
        mapping?"""
        if any(self.apps[a.name].impossible(a) for a in self.checked.system.apps):
            return True
        for name, state in self.checked.states.items():
            if any(self.states[name][a.name].impossible(a) for a in state.system.apps):
                return True
        verdicts = any(v.impossible for v in self.checked.verdicts.values()) and not self.overlap
        return verdicts or has_errors(self.diagnostics)


@dataclass(frozen=True, slots=True)
class AnalysisRequest:
    """What is analyzed. `for_period` also searches for the least buffers that keep the period,
    `pareto` for the whole trade-off; with `overlap`, firings of a task may overlap.

    Each search may take `seconds`. With `by_parts`, the layers of a network work row by row; with
    `places`, a file with the processor of each layer, it is a graph of a task per processor.
    `report` gets lines of progress.
    """

    platform: str = "host"
    overlap: bool = False
    for_period: bool = False
    pareto: bool = False
    by_parts: bool = False
    places: str | Path | None = None
    seconds: float = 10.0
    report: Report | None = None


def analyze(
    path: str | Path,
    *,
    noticed: Noticed | None = None,
    answered: Answered | None = None,
    **asked: Any,
) -> Analyzed:
    """The properties of every app of a text, or of a network in an .onnx file; `asked` are fields
    of `AnalysisRequest`. Raises Errors.

    Texts whose only errors are rates that do not balance, or deadlocks, are analyzed as far as
    possible. `noticed` gets the diagnostics before the searches start, `answered` the results of an
    app whenever there are more.
    """
    from .mapped_network import check_mapped
    from .networks import check_network
    from .show import processor_schedules

    request = asked_of(AnalysisRequest, "analyze", asked)
    is_network = Path(path).suffix == ".onnx"
    if is_network and request.places is not None:
        checked = check_mapped(path, request.places)
    elif is_network:
        checked = check_network(path, by_parts=request.by_parts)
    else:
        checked = check(path, platform=request.platform)
    try:
        valid = checked.require(VERDICT_CODES)
    except Errors:
        raise Errors(checked.diagnostics) from None
    profile, stale = (None, ()) if is_network else store.read_profile(valid)
    times = times_of(valid.system, valid.platform, profile)
    of_times = (
        *times.warnings(valid.tasks),
        *few_samples(valid, times),
        *repeated_worst_cases(valid, times),
    )
    diagnostics = (*_relevant(checked, request.overlap), *stale, *of_times)
    if noticed is not None:
        noticed(diagnostics, checked)
    if not valid.system.apps:
        raise Errors(
            [Diagnostic("F215", "there is no app to analyze", None, help="add `app Name { ... }`")]
        )
    orders = processor_schedules(checked, valid, times, profile)
    if checked.ok:
        times = times.on_mapping(places(valid, times, profile), valid.platform)
    analyses: dict[str, Analysis] = {}
    for app in valid.system.apps:
        mean = _mean_period(app, valid, times, profile, request.overlap)

        def tell(so_far: Analysis, app: Application = app, mean: Analysis | None = mean) -> None:
            if answered is not None:
                answered(app, _with_mean(so_far, mean), orders[app.name])

        answer = analyze_app(
            app,
            valid.verdicts[app.name],
            times.app(app),
            overlap=request.overlap,
            for_period=request.for_period,
            pareto=request.pareto,
            seconds=request.seconds,
            progress=request.report,
            answered=tell,
        )
        analyses[app.name] = _with_mean(answer, mean)
    alternatives = compared(valid) if checked.ok else ()
    states: dict[str, dict[str, Analysis]] = {}
    if isinstance(valid, ValidScenario):
        known = [(app, analyses[app.name]) for app in valid.system.apps]
        for name, state in valid.states.items():
            states[name] = dict(_in_state(state, known, profile, request))
    return Analyzed(checked, analyses, orders, diagnostics, request.overlap, alternatives, states)


def _relevant(checked: Checked, overlap: bool) -> Iterator[Diagnostic]:
    """All diagnostics, without those about firings of a task that follow each other if they may
    overlap."""
    for diagnostic in checked.diagnostics:
        if not (overlap and diagnostic.code == "F211"):
            yield diagnostic


def _in_state(
    state: Valid,
    known: list[tuple[Application, Analysis]],
    profile: Profile | None,
    request: AnalysisRequest,
) -> Iterator[tuple[str, Analysis]]:
    """The apps of a state; results that are `known` from another state with the same app are
    reused, and new ones added."""
    times = times_of(state.system, state.platform, profile)
    for app in state.system.apps:
        same = next((analysis for other, analysis in known if other == app), None)
        if same is None:
            same = analyze_app(
                app,
                state.verdicts[app.name],
                times.app(app),
                overlap=request.overlap,
                seconds=request.seconds,
            )
            known.append((app, same))
        yield app.name, same


def _with_mean(answer: Analysis, mean: Analysis | None) -> Analysis:
    return answer if mean is None else replace(answer, mean_period=mean.period)


def _mean_period(
    app: Application, valid: Valid, times: Times, profile: Profile | None, overlap: bool
) -> Analysis | None:
    """Limits with the mean time of every measured task: worst cases alone may be far from what
    happens."""
    means = times.app_means(app)
    if profile is None or means.source != "profile":
        return None
    return limits(app, valid.verdicts[app.name], means, overlap=overlap, seconds=2.0)
