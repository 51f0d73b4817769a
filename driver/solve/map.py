"""The step that searches: from a text and its profile to a mapping, with measured runs on this
machine.

Layers of networks are measured if the profile does not have them yet, and stored in it.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...codegen.deploy import missing
from ...machines.host import HERE, Host
from ...machines.search_workers import SearchWorkers
from ...model.deployment import PlannedMemory
from ...model.diagnostic import Diagnostic, Errors
from ...model.mapping import Contestant, Mapping
from ...model.platform import Platform
from ...model.quantity import in_bytes
from ...model.times import times_of
from ...search.memory import MemoryLimit
from ...search.memory import search as search_within
from ...search.objectives import Kind
from ...search.registry import search_named
from ...search.throughput.problem import Problem
from ..plan.memory import fronts, room_of
from ..plan.program import (
    place,
    plan,
    require_buildable,
    require_native,
    require_native_places,
    sources_of,
    untimed,
    without_times,
)
from ..text import store
from ..text.asked import asked_of
from ..text.check import Valid, ValidScenario, prepare
from ..text.notebook_result import NotebookResult
from .best import map_states_jointly
from .clocks import means_from_elsewhere, require_power, unchecked_power, unknown_power
from .contest import Runs
from .deadline_problem import settled
from .deadlines import Joint, map_jointly, wants_joint
from .engines import on_engines
from .fronts import with_memory
from .known_times import KnownTimes, known_times, require_some_time
from .lists import CountedList, counted_lists
from .long_firings import long_firings
from .mixed import is_mixed, map_mixed
from .request import MapRequest, supposed
from .slack import require_deadlines, with_slack
from .state_map import States, map_states_apart
from .throughput_problem import problem_of
from .within_memory import (
    map_jointly_within,
    map_states_within,
    require_within,
    taken,
    taken_beside,
    taken_in_states,
)


@dataclass(frozen=True, slots=True)
class Answer(NotebookResult):
    """The result of `map`: the mapping, its text, and diagnostics.

    `evidence` holds the results for apps with deadlines, of one program or of each state of a
    scenario; None if apps have no periods. `fits`: the mapping may be stored, because `check`
    accepts it. `guessed` are tasks of which no time is known although the mapping rests on it: it
    is stored only if the request has `keep`. `path` is where it was stored. `lists` are those that
    tasks write. `engines` says of networks on another engine than ONNX Runtime what was measured.
    """

    mapping: Mapping
    valid: Valid
    diagnostics: tuple[Diagnostic, ...]
    evidence: Joint | States | None = None
    fits: bool = True
    path: Path | None = None
    lists: tuple[CountedList, ...] = ()
    engines: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()

    @property
    def joint(self) -> Joint | None:
        """The results for apps with deadlines without states."""
        return self.evidence if isinstance(self.evidence, Joint) else None

    @property
    def states(self) -> States | None:
        """The results for each state of a scenario whose apps have deadlines."""
        return self.evidence if isinstance(self.evidence, States) else None

    @property
    def late(self) -> bool:
        """Does an app miss its deadline in the worst case, or did no mapping keep the limits of the
        board?"""
        if self.states is not None:
            return self.states.late
        if self.joint is None:
            return False
        return not self.mapping.groups or not all(g.schedulable for g in self.mapping.groups)


def find_mapping(
    path: str | Path,
    *,
    platform: str = "host",
    native: bool = False,
    host: Host = HERE,
    **asked: Any,
) -> Answer:
    """Search for the best mapping of a text and store it beside it; `asked` are fields of a
    `MapRequest`. Raises Errors.

    Apps with periods are mapped so that they meet their deadlines (`map_jointly`), and others in
    the time that they leave (`map_mixed`). Where no app has a period, configurations are run and
    compared on `host` and on a board behind `host`; for other platforms the times of a profile
    decide. With `native` it is a mapping for the program in C++, whose times count, and which runs.
    A mapping that keeps the limits of the board is stored. A mapping for suppositions is
    stored only if the request has `keep`.
    """
    request = asked_of(MapRequest, "map", asked)
    whole = prepare(
        path, platform=platform, mapped=False, native=native, host=host, report=request.report
    ).require()
    if native:
        require_native(whole)
    posed = _posed(whole, request)
    if posed.keeps:
        store.require_place(whole)
    request, limit = posed.request, posed.limit
    if request.slack:
        require_deadlines(posed.kind)
    first = known_times(posed.valid, request, bands=limit is not None)
    _announce_runs(posed, first)
    runnable = _runnable(posed.valid, request)
    engines = on_engines(posed.valid, first, request, limit, runnable=runnable)
    valid, known = engines.valid, engines.known
    if isinstance(valid, ValidScenario):
        map_states = _map_states if posed.kind == "deadlines" else _map_states_apart
        answer = map_states(valid, known, request, limit)
    elif posed.kind == "deadlines":
        answer = _map_with_deadlines(valid, known, request, limit)
    else:
        default = None if valid is posed.valid else _Default(posed.valid, first)
        answer = _map_without_periods(valid, known, request, limit, default)
    said = (
        *valid.diagnostics,
        *posed.warnings,
        *known.diagnostics,
        *engines.diagnostics,
        *answer.diagnostics,
    )
    if native and answer.fits:
        _require_native_places(answer, known)
    if request.slack:
        answer = _with_slack(answer, request)
    lists = tuple(counted_lists(valid, known.profile))
    mapping = replace(answer.mapping, why=(*answer.mapping.why, *engines.said.values()))
    answer = replace(
        answer,
        mapping=mapping,
        diagnostics=tuple(dict.fromkeys(said)),
        lists=lists,
        engines=_told(mapping, engines.said),
    )
    if not posed.keeps or not answer.fits or (answer.guessed and not request.keep):
        return answer
    stored = store.save_mapping(whole, replace(answer.mapping, supposed=request.what_if.supposed))
    return replace(answer, path=stored)


def _with_slack(answer: Answer, request: MapRequest) -> Answer:
    """The answer with the slack of its tasks, in each state. Raises Errors."""
    if answer.joint is not None:
        joint = with_slack(answer.joint, request.say)
        return replace(answer, evidence=joint, mapping=joint.mapping)
    if answer.states is None:
        return answer
    joints = {n: with_slack(joint, request.say) for n, joint in answer.states.joints.items()}
    return replace(answer, evidence=replace(answer.states, joints=joints))


def _told(mapping: Mapping, said: MappingABC[str, str]) -> tuple[str, ...]:
    """What was looked at of the networks that a mapping has on another engine than ONNX Runtime."""
    places = [*mapping.placements]
    for state in mapping.states:
        places += state.placements
    elsewhere = {place.task for place in places if place.engine or place.precision}
    elsewhere |= {
        n.task for n in mapping.networks if any(s.engine or s.precision for s in n.stages)
    }
    return tuple(words for name, words in said.items() if name in elsewhere)


@dataclass(frozen=True, slots=True)
class _Posed:
    """What is to be mapped: the text under its suppositions, for a request that it can fulfil.

    `keeps`: the answer is stored.
    """

    valid: Valid
    request: MapRequest
    kind: Kind
    limit: MemoryLimit | None
    warnings: tuple[Diagnostic, ...]

    @property
    def keeps(self) -> bool:
        return self.request.keep or self.request.what_if.supposed is None


def _posed(whole: Valid, request: MapRequest) -> _Posed:
    """The problem of a text. Raises Errors if the request does not suit it."""
    limit, warnings = _memory_limit(whole, request)
    if limit is not None and not _has_deadlines(whole):
        # then a rate is a limit on mappings, and not a supposition
        request = replace(request, what_if=replace(request.what_if, fps=None))
    valid = supposed(whole, request.what_if)
    kind: Kind = "deadlines" if _has_deadlines(valid) else "throughput"
    if kind == "throughput":
        why = _why_no_deadlines(valid, limit)
        if not why and is_mixed(valid):
            kind = "deadlines"
        elif why:
            warnings = (*warnings, _without_deadlines(valid, why))
    if request.objectives(kind) == ("energy",) and kind == "deadlines":
        require_power(valid)
    if kind == "deadlines" and valid.platform.machines:
        valid = settled(valid)
    if limit is not None:
        if kind == "throughput":
            _require_auto(request.search)
        for part in valid.parts:  # the limit is for the networks of a program
            require_buildable(part)
    request = replace(request, search=_search(valid, request, kind))
    return _Posed(valid, request, kind, limit, warnings)


def _announce_runs(posed: _Posed, known: KnownTimes) -> None:
    """Tell that tasks are going to run, if no measurement has told it before."""
    request = posed.request
    by_profile = posed.kind == "deadlines" and request.what_if.profile is not None
    if not _runnable(posed.valid, request) or known.measured or by_profile:
        return
    tell = request.on_measure or request.report
    if tell is not None:
        tell(f"trying mappings of {posed.valid.system.stem}: its tasks run, sinks included")


# -- four kinds of texts ---------------------------------------------------------------------------
def _map_with_deadlines(
    valid: Valid, known: KnownTimes, request: MapRequest, limit: MemoryLimit | None
) -> Answer:
    """Apps with periods, and what runs in the background. The best mapping found is stored, even if
    an app is late."""
    if is_mixed(valid):
        joint = map_mixed(valid, known, request)
    elif limit is None:
        joint = map_jointly(valid, known, request)
    else:
        joint = map_jointly_within(valid, known, request, limit)
    verdict = joint.verdict
    fits = bool(joint.mapping.groups) and verdict is not None and not verdict.beyond_board
    long = long_firings(valid, known.times, joint)
    said = (*joint.diagnostics, *long, *request.search_workers.told)
    mapping = with_memory(valid, known.profile, joint.mapping)
    return Answer(mapping, valid, said, replace(joint, mapping=mapping), fits)


def _map_states(
    valid: ValidScenario, known: KnownTimes, request: MapRequest, limit: MemoryLimit | None
) -> Answer:
    """A scenario whose apps all have periods: one placement for all of its states."""
    if limit is None:
        states = map_states_jointly(valid, known, request)
    else:
        states = map_states_within(valid, known, request, limit)
    said = [*unknown_power(valid.scenario, valid.platform)]
    said += means_from_elsewhere(valid, known.times)
    for joint in states.joints.values():
        said += joint.diagnostics
    said += [*states.diagnostics, *request.search_workers.told]
    mapping = with_memory(states.valid, known.profile, states.mapping)
    return Answer(
        mapping,
        states.valid,
        tuple(said),
        replace(states, mapping=mapping),
        bool(states.mapping.placements) and states.fits,
    )


def _map_states_apart(
    valid: ValidScenario, known: KnownTimes, request: MapRequest, limit: MemoryLimit | None
) -> Answer:
    """A scenario in which some app has no period: a search for each state."""
    part = request.part(1 / len(valid.states))

    def find(state: Valid) -> Mapping:
        within = None
        if limit is not None:
            within = _Within(limit, taken_beside(valid, state, known.profile))
        return _fastest(state, known.of(state), part, within, runnable=_runnable(valid, request))

    mapping = map_states_apart(valid, find)
    if limit is not None:
        memory = taken_in_states(valid, known.profile, mapping)
        mapping = replace(mapping, memory=memory)
        require_within(limit, memory)
    warnings = (*unchecked_power(valid.scenario), *_idle(request.search_workers))
    guessed = dict[str, None]()
    for state in valid.states.values():
        if not _runnable(valid, request):
            guessed |= dict.fromkeys(_guessed(state, known.of(state)))
    return Answer(mapping, valid, warnings, guessed=tuple(guessed))


@dataclass(frozen=True, slots=True)
class _Default:
    """The text with all networks on ONNX Runtime, and its times there."""

    valid: Valid
    known: KnownTimes


def _map_without_periods(
    valid: Valid,
    known: KnownTimes,
    request: MapRequest,
    limit: MemoryLimit | None,
    default: _Default | None,
) -> Answer:
    """Apps without periods, which run as fast as they can; on their engines, or by `default`."""
    runnable = _runnable(valid, request)
    if request.measure and not runnable:
        require_some_time(valid, known)
    within = None if limit is None else _Within(limit, partial(taken, valid, known.profile))
    mapping = _fastest(valid, known, request, within, default, runnable=runnable)
    warnings = _idle(request.search_workers)
    if runnable:
        return Answer(mapping, valid, warnings)
    if not request.measure:
        warnings = (*warnings, *untimed(valid, known.times))
    guessed = _guessed(valid, known)
    return Answer(_supposing(mapping, valid, known), valid, warnings, guessed=guessed)


def _guessed(valid: Valid, known: KnownTimes) -> tuple[str, ...]:
    """The tasks of which no time is known; those that only carry tokens matter little."""
    unknown = without_times(valid, known.times)
    return tuple(name for name in unknown if valid.tasks[name].link is None)


def _supposing(mapping: Mapping, valid: Valid, known: KnownTimes) -> Mapping:
    """A mapping without what cannot be said where times of tasks are guessed: bounds, and where
    none is known, predictions."""
    if not _guessed(valid, known):
        return mapping
    effort = replace(mapping.effort, lower_bound_ns=None, optimal=False)
    mapping = replace(mapping, effort=effort)
    if len(without_times(valid, known.times)) < len(sources_of(valid, known.times)):
        return mapping
    contestants = tuple(_unpredicted(each) for each in mapping.contestants)
    networks = []
    for network in mapping.networks:
        stages = tuple(replace(stage, predicted_ns=0.0) for stage in network.stages)
        networks.append(replace(network, stages=stages))
    return replace(
        mapping,
        contestants=contestants,
        networks=tuple(networks),
        effort=replace(effort, history=()),
        predicted_period_ns=(),
        why=(),
    )


def _unpredicted(contestant: Contestant) -> Contestant:
    return replace(contestant, predicted_ns=0.0, predicted_latency_ns=None)


@dataclass(frozen=True, slots=True)
class _Within:
    """A limit on memory; `planned` computes the memory of a mapping's networks."""

    limit: MemoryLimit
    planned: Callable[[Mapping], PlannedMemory]


def _fastest(
    valid: Valid,
    known: KnownTimes,
    request: MapRequest,
    within: _Within | None,
    default: _Default | None = None,
    *,
    runnable: bool,
) -> Mapping:
    """The best mapping of apps without periods; by `default` their networks may stay on ONNX
    Runtime as well. Raises Errors."""
    problem = problem_of(valid, known.times, known.profile)
    if default is not None and problem.engines:
        its = default.known
        problem = replace(problem, default=problem_of(default.valid, its.times, its.profile))
    first = next(iter(request.objectives("throughput")), "throughput")
    objective = "throughput" if first == "memory" else first
    _require(problem, objective)
    if runnable:
        require_buildable(valid)
    placed = valid if default is None else default.valid
    runs = Runs(placed, known.profile, request.report) if runnable else None
    asked: dict[str, Any] = {
        "seed": request.seed,
        "budget": request.allowance,
        "progress": request.progress,
        "measure": runs,
    }
    if within is not None:
        choices = fronts(problem, known.profile)
        return search_within(problem, choices, within.limit, within.planned, **asked)
    found: Mapping = search_named(request.search, "throughput").run(
        problem, objective=objective, evolution=request.evolution_changes, **asked
    )
    _require_one_machine(request.search, found, valid.platform)
    return found


def _require_native_places(answer: Answer, known: KnownTimes) -> None:
    """Raise Errors if the program in C++ cannot have these places."""
    mapped = answer.valid.mapped(answer.mapping)
    times = known.of(mapped).times
    require_native_places(mapped, plan(mapped, times, place(mapped, times)))


# -- what was asked --------------------------------------------------------------------------------
def _has_deadlines(valid: Valid) -> bool:
    return all(wants_joint(part) for part in valid.parts)


def _why_no_deadlines(valid: Valid, limit: MemoryLimit | None) -> str:
    """Why deadlines of a text in which some apps have periods and some have none are not looked at;
    empty if they are, or if there are none."""
    if not any(app.period_ns is not None for part in valid.parts for app in part.system.apps):
        return ""
    if isinstance(valid, ValidScenario):
        return "in a scenario"
    if valid.platform.machines:
        return "on several machines"
    return "within a limit on memory" if limit is not None else ""


def _without_deadlines(valid: Valid, why: str) -> Diagnostic:
    """A warning that deadlines are not looked at."""
    apps = [app for part in valid.parts for app in part.system.apps]
    without = next((app for app in apps if app.period_ns is None), apps[0])
    message = f"deadlines are not looked at: `{without.name}` has no period, and others have"
    help_text = f"give every app a period: {why}, deadlines are not proved beside apps without one"
    return Diagnostic("F658", message, without.span, help=help_text, severity="warning")


def _runnable(valid: Valid, request: MapRequest) -> bool:
    """May mappings be run to compare them?"""
    return (
        valid.at_hand and request.measure and not any(missing(part.system) for part in valid.parts)
    )


def _memory_limit(
    whole: Valid, request: MapRequest
) -> tuple[MemoryLimit | None, tuple[Diagnostic, ...]]:
    """The memory that networks may take: the request's, and at most the platform's; None if neither
    is given."""
    least = request.wants_least_memory
    wanted = request.memory is not None or least
    if not wanted and not (request.search == "auto" and _needs_too_much(whole)):
        return None, ()
    if wanted:
        _require_known_memory(whole)
    count, warnings = _smaller(whole.platform, request.memory)
    fps = request.what_if.fps
    return MemoryLimit(count, least, None if fps is None else float(10**9 / fps)), warnings


def _require_known_memory(whole: Valid) -> None:
    """Raise Errors where a limit on memory could not be held against a network."""
    faults = {}
    for part in whole.parts:
        for task in part.tasks.values():
            if task.network is not None and task.network.one_piece:
                message = f"the memory of `{task.name}` is not known: it has"
                message += f" {task.network.one_piece}"
                help_text = "leave the limit on memory out"
                faults[task.name] = Diagnostic("F512", message, task.span, help=help_text)
    if faults:
        raise Errors(faults.values())


def _smaller(platform: Platform, wanted: int | None) -> tuple[int | None, tuple[Diagnostic, ...]]:
    """The smaller of the requested bytes for networks and those of the platform; and
    diagnostics."""
    has = room_of(platform)
    if has is None or (wanted is not None and wanted <= has):
        return wanted, ()
    if wanted is None:
        return has, ()
    room = f"`{platform.name}` has {in_bytes(has)} for networks"
    message = f"`--memory` allows {in_bytes(wanted)}, but {room}"
    help_text = "the smaller limit applies: platform memory less what Python and libraries take"
    return has, (Diagnostic("F524", message, platform.span, help=help_text, severity="warning"),)


def _needs_too_much(valid: Valid) -> bool:
    """Would a quick mapping without bands take more memory than the platform declares?"""
    has = room_of(valid.platform)
    alien = any(pool.kind != "cpu" for pool in valid.platform.pools)
    if has is None or alien or valid.platform.span is None:
        return False
    if any(missing(part.system) for part in valid.parts):
        return False
    try:
        return any(_planned_total(part) > has for part in valid.parts)
    except Errors:  # the search reports the fault
        return False


def _planned_total(valid: Valid) -> int:
    """The memory of networks under a quick mapping. Raises Errors."""
    times = times_of(valid.system, valid.platform)
    planned = plan(valid, times, place(valid, times)).deployment.planned
    return 0 if planned is None else planned.total


def _idle(search_workers: SearchWorkers) -> tuple[Diagnostic, ...]:
    """A warning if workers have no effect."""
    if search_workers.size < 2:
        return ()
    message = "`--workers` has no effect: without periods, candidates are run one at a time"
    help_text = "give every app a `period`, or leave workers out"
    return (Diagnostic("F647", message, None, help=help_text, severity="warning"),)


# -- what cannot be searched -----------------------------------------------------------------------
def _search(valid: Valid, request: MapRequest, kind: Kind) -> str:
    """The name of the search, which has to support the objectives and the text. Raises Errors."""
    objectives = request.objectives(kind)
    least_energy = isinstance(valid, ValidScenario) and valid.scenario.least_energy
    if least_energy:
        others = [word for word in objectives if word not in ("energy", "memory")]
        if others:
            message = f"the scenario says `minimise energy`, the objective is `{others[0]}`"
            raise Errors([Diagnostic("F508", message, None, help="leave one of them out")])
        objectives = objectives or ("energy",)
    search = search_named(request.search, kind)
    search.require(objectives, request.evolution_changes)
    if search.only_for == "energy":
        require_power(valid)
    return search.name


def _require_auto(search: str) -> None:
    """Only one search for apps without periods supports a memory limit. Raises Errors."""
    if search != "auto":
        message = f"search `{search}` does not support a memory limit"
        raise Errors([Diagnostic("F508", message, None, help="leave `--search` out")])


def _require_one_machine(search: str, mapping: Mapping, platform: Platform) -> None:
    """A network may not be shared by machines, which some searches do not know. Raises Errors."""
    for network in mapping.networks:
        for stage in network.stages:
            if len({platform.machine_of.get(p) for p in stage.processors}) > 1:
                message = f"search `{search}` does not support several machines"
                raise Errors([Diagnostic("F508", message, None, help="leave `--search` out")])


def _require(problem: Problem, objective: str) -> None:
    if not problem.apps:
        raise Errors(
            [Diagnostic("F215", "there is no app to map", None, help="add `app Name { ... }`")]
        )
    if not problem.cpus:
        message = f"platform `{problem.platform.name}` has no cpu"
        raise Errors([Diagnostic("F603", message, problem.platform.span, help="add `cpu core[4]`")])
    silent = [n for n, d in problem.networks.items() if d.energy is None]
    if objective == "energy" and (silent or not problem.networks):
        what = f"of `{silent[0]}` on every kind of processor" if silent else "of a network"
        message = f"the profile has no energy {what}"
        help_text = "give `energy_nj` for its entries, or choose another --objective"
        raise Errors([Diagnostic("F607", message, None, help=help_text)])
