"""The step that searches: from a text and its profile to a mapping, with measured runs on this machine.

Layers of networks are measured where the profile does not have them yet, and kept in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Literal

from ..codegen.deploy import missing
from ..machines.crew import ALONE, Crew
from ..machines.host import HERE, Host
from ..model.diagnostic import Diagnostic, Errors, listed, one_of
from ..model.mapping import Mapping, Supposed
from ..model.platform import Platform
from ..model.profile import Profile
from ..model.times import times_of
from ..search.budget import Budget
from ..search.events import Listener, heard
from ..search.memory import Wish
from ..search.memory import search as in_memory
from ..search.registry import Search, searches_for
from ..search.throughput.partition import Objective
from ..search.throughput.problem import Problem
from . import store
from .band_costs import with_band_costs
from .best import map_states_jointly
from .build import OnMeasure, place, plan, require_buildable, untimed
from .check import Report, Valid, prepare
from .clocks import unknown_power
from .contest import Runs
from .deadline_memory import map_jointly_within
from .deadline_problem import settled
from .deadlines import Joint, map_jointly, wants_joint
from .measure import measure as measured_here
from .measure import with_layers
from .memory import fronts, in_mb, room_of
from .state_map import States, map_states_apart
from .state_memory import map_states_within, require_within, taken, taken_beside, taken_in_states
from .throughput_problem import problem_of


@dataclass(frozen=True, slots=True)
class Mapped:
    """What `map` found, where it was stored, and what was noticed on the way."""

    mapping: Mapping
    path: Path | None
    valid: Valid
    diagnostics: tuple[Diagnostic, ...]
    joint: Joint | None = None
    states: States | None = None

    @property
    def late(self) -> bool:
        """Does an app miss its deadline in the worst case, or was nothing found that keeps the limits of the board?"""
        if self.states is not None:
            return self.states.late
        if self.joint is None:
            return False
        return not self.mapping.groups or not all(g.schedulable for g in self.mapping.groups)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from .notebook import mapped

        return mapped(self)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What to suppose instead of the text: the rate of every app, fewer CPU cores, another profile.

    A mapping for other rates or fewer cores says so where it is stored.
    """

    fps: Fraction | None = None
    cores: int | None = None
    profile: Path | None = None

    @property
    def supposed(self) -> Supposed | None:
        """As a mapping says it; None where it speaks for the text as it is."""
        if self.fps is None and self.cores is None:
            return None
        return Supposed(None if self.fps is None else str(self.fps), self.cores)


def find_mapping(
    path: str | Path,
    *,
    platform: str = "host",
    host: Host = HERE,
    search: str = "auto",
    objective: Objective | Literal["memory"] = "throughput",
    budget: float = 60.0,
    evaluations: int | None = None,
    seed: int = 0,
    crew: Crew = ALONE,
    what_if: WhatIf | None = None,
    memory: int | None = None,
    measure: bool = True,
    keep: bool = False,
    on_measure: OnMeasure | None = None,
    report: Report | None = None,
    on_event: Listener = None,
) -> Mapped:
    """Search for the best mapping of a text and store it beside it. Raises Errors.

    Apps that all have periods are mapped so that they meet their deadlines (`map_jointly`). Otherwise, on `host`
    and on a board behind `host`, configurations are run to decide; for other platforms the times of a profile
    decide. `search` is one of
    `search.registry` for that kind of problem, `budget` the seconds it may take; with `evaluations` it tries so many
    things instead, however long they take, and without measured runs the answer depends on `seed` only. A `crew` helps
    searches for deadlines. With `memory` networks may take so many bytes, and go in bands of rows where they have to,
    also where the platform has too little memory otherwise; with the objective `memory` they take as few as they can,
    at the rate of `what_if`, which the stored mapping names otherwise. If not `measure`, nothing is run at all: the
    times that are known decide, also those of another machine. `on_measure` is told that tasks are going to run,
    `report` where there is none. `on_event` is told how the search goes, as data. One that keeps the limits of the
    board is stored; one for what is only supposed if it is to be kept.
    """
    what_if, allowed = what_if or WhatIf(), Budget(budget, evaluations)
    whole = prepare(path, platform=platform, mapped=False, host=host, report=report).require()
    little = memory is not None or objective == "memory" or (search == "auto" and _needs_too_much(whole))
    memory, limited = _limit(whole.platform, memory) if little else (None, ())
    # With little memory a rate is a limit on mappings, where there are no periods.
    limits = little and not all(wants_joint(part) for part in whole.parts)
    asked, what_if = what_if, replace(what_if, fps=None) if limits else what_if
    valid = supposed(whole, what_if)
    keep = keep or what_if.supposed is None
    joint = all(wants_joint(part) for part in valid.parts)
    if joint and valid.platform.machines:
        valid = settled(valid)
    wish = Wish(memory, objective == "memory", None if asked.fps is None else float(10**9 / asked.fps))
    if little:
        _require_auto(joint, search)
        valid = replace(valid, diagnostics=(*valid.diagnostics, *limited))
    known = {s.name: s for s in searches_for("deadlines" if joint else "throughput")}
    if search not in known:
        why = "apps with periods are mapped together" if joint else "there are apps without a period"
        message = f"`{search}` is no search for this text: {why}"
        raise Errors([Diagnostic("F508", message, None, help=f"choose {one_of(known)}")])
    known[search].require()
    if keep:
        store.require_place(whole)
    here = valid.at_hand
    profile, warnings = _known(valid, what_if, measure)
    tell, announced = on_measure or report, False
    if profile is None and not missing(valid.system) and what_if.profile is None and measure:
        (profile, seen), announced = measured_here(valid, on_measure=tell), True
        warnings = (*warnings, *seen, *store.save_profile(valid, profile))
    if profile is not None and here and measure:
        profile, unsaved = with_layers(valid, profile, report=report)
        warnings = (*warnings, *unsaved)
        if little:
            profile, unsaved = with_band_costs(valid, profile, report)
            warnings = (*warnings, *unsaved)
    times = times_of(valid.system, valid.platform, profile)
    warnings = (*warnings, *times.warnings(valid.tasks), *_unmeasured(valid, profile))
    runnable = here and measure and not any(missing(part.system) for part in valid.parts)
    if runnable and tell is not None and not announced and (what_if.profile is None or not joint):
        tell(f"trying mappings of {valid.system.stem}: its tasks run, sinks included")
    if valid.states:
        rate: Objective = "throughput" if objective == "memory" else objective
        within = wish if little else None
        wanted = _Wanted(known[search], what_if, rate, allowed, seed, crew, measure, keep, report, on_event, within)
        return _of_states(whole, valid, profile, warnings, wanted, runnable)
    if joint:
        find = map_jointly
        if little:
            find = partial(map_jointly_within, wish=wish, planned=partial(taken, valid, profile))
        together = find(
            valid,
            profile,
            times,
            known[search],
            budget=allowed,
            seed=seed,
            crew=crew,
            run_here=measure and what_if.profile is None,
            report=report,
            listener=on_event,
        )
        # The best there is, even if something is late; `check` would refuse more engines than fit.
        fits = together.verdict is not None and not together.verdict.engines
        keep = keep and bool(together.mapping.groups) and fits
        stored = _stored(whole, together.mapping, what_if) if keep else None
        told = (*valid.diagnostics, *warnings, *together.diagnostics, *crew.told)
        return Mapped(together.mapping, stored, valid, tuple(dict.fromkeys(told)), together)
    warnings = (*warnings, *_idle(crew))
    if (
        measure
        and valid.tasks
        and not runnable
        and not times.reference_ns
        and not any(times.of[task] for task in valid.tasks)
    ):
        _refuse_to_guess(valid)
    problem = problem_of(valid, times, profile)
    _require(problem, "throughput" if objective == "memory" else objective)
    warnings = (*warnings, *(() if measure else untimed(valid, times)))
    if runnable:
        require_buildable(valid)
    if little:
        found = in_memory(
            problem,
            fronts(problem, profile),
            wish,
            partial(taken, valid, profile),
            seed=seed,
            budget=allowed,
            progress=heard(report, on_event),
            measure=Runs(valid, profile, report) if runnable else None,
        )
        stored = _stored(whole, found, what_if) if keep else None
        return Mapped(found, stored, valid, (*valid.diagnostics, *warnings))
    assert objective != "memory"
    found = known[search].run(
        problem,
        seed=seed,
        budget=allowed,
        progress=heard(report, on_event),
        measure=Runs(valid, profile, report) if runnable else None,
        objective=objective,
    )
    stored = _stored(whole, found, what_if) if keep else None
    return Mapped(found, stored, valid, (*valid.diagnostics, *warnings))


def _stored(whole: Valid, mapping: Mapping, what_if: WhatIf) -> Path:
    """Keep a mapping beside the text, with what it supposes. Raises Errors."""
    return store.save_mapping(whole, replace(mapping, supposed=what_if.supposed))


def _idle(crew: Crew) -> tuple[Diagnostic, ...]:
    """A warning where somebody would help who cannot."""
    if crew.size < 2:
        return ()
    message = "workers do not help here: apps without periods are mapped by runs of their programs, one at a time"
    return (
        Diagnostic("F647", message, None, help="give every app a `period`, or leave workers out", severity="warning"),
    )


def _require_auto(joint: bool, search: str) -> None:
    """Where frames come as fast as they can, one search knows of memory. Raises Errors."""
    if search != "auto" and not joint:
        message = f"the search `{search}` knows nothing of memory"
        raise Errors([Diagnostic("F508", message, None, help="leave `--search` out")])


def _limit(platform: Platform, wanted: int | None) -> tuple[int | None, tuple[Diagnostic, ...]]:
    """The bytes that networks may take, of those asked for and those that the platform has; what is to be said."""
    has = room_of(platform)
    if has is None or (wanted is not None and wanted <= has):
        return wanted, ()
    if wanted is None:
        return has, ()
    message = f"`--memory` allows {in_mb(wanted)}, and `{platform.name}` has {in_mb(has)} for networks"
    help_text = "the smaller one holds: what the platform has beside Python and libraries"
    return has, (Diagnostic("F524", message, platform.span, help=help_text, severity="warning"),)


def _needs_too_much(valid: Valid) -> bool:
    """Would a quick mapping without bands take more memory than the platform says that it has?"""
    has = room_of(valid.platform)
    alien = any(pool.kind != "cpu" for pool in valid.platform.pools)
    if has is None or alien or valid.platform.span is None or valid.states or missing(valid.system):
        return False
    try:
        times = times_of(valid.system, valid.platform)
        planned = plan(valid, times, place(valid, times)).deployment.planned
    except Errors:  # whatever it is, it will be said
        return False
    return planned is not None and planned.total > has


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is asked of a search for the states of a scenario (see `find_mapping`)."""

    search: Search
    what_if: WhatIf
    objective: Objective
    budget: Budget
    seed: int
    crew: Crew
    measure: bool
    keep: bool
    report: Report | None
    on_event: Listener
    wish: Wish | None


def _of_states(
    whole: Valid,
    valid: Valid,
    profile: Profile | None,
    warnings: tuple[Diagnostic, ...],
    wanted: _Wanted,
    runnable: bool,
) -> Mapped:
    """A scenario: one placement for all of its states. Raises Errors."""
    assert valid.system.scenario is not None
    told = [*valid.diagnostics, *warnings, *unknown_power(valid.system.scenario, valid.platform)]
    states, keep = None, wanted.keep
    if wanted.search.kind == "deadlines":
        find = map_states_jointly if wanted.wish is None else partial(map_states_within, wish=wanted.wish)
        states = find(
            valid,
            profile,
            wanted.search,
            budget=wanted.budget,
            seed=wanted.seed,
            crew=wanted.crew,
            run_here=wanted.measure and wanted.what_if.profile is None,
            report=wanted.report,
            listener=wanted.on_event,
        )
        valid = states.valid
        mapping, keep = states.mapping, keep and bool(states.mapping.placements) and states.fits
        told += [*(d for j in states.joints.values() for d in j.diagnostics), *states.diagnostics, *wanted.crew.told]
    else:
        told += _idle(wanted.crew)

        def find_one(state: Valid) -> Mapping:
            problem = problem_of(state, times_of(state.system, state.platform, profile), profile)
            _require(problem, wanted.objective)
            search: Callable[..., Mapping] = partial(wanted.search.run, objective=wanted.objective)
            if wanted.wish is not None:
                planned = taken_beside(valid, state, profile)
                search = partial(in_memory, fronts=fronts(problem, profile), wish=wanted.wish, planned=planned)
            return search(
                problem,
                seed=wanted.seed,
                budget=wanted.budget.part(1 / len(valid.states)),
                progress=heard(wanted.report, wanted.on_event),
                measure=Runs(state, profile, wanted.report) if runnable else None,
            )

        mapping = map_states_apart(valid, find_one)
        if wanted.wish is not None:
            mapping = replace(mapping, memory=taken_in_states(valid, profile, mapping))
            require_within(wanted.wish, mapping)
    stored = _stored(whole, mapping, wanted.what_if) if keep else None
    return Mapped(mapping, stored, valid, tuple(dict.fromkeys(told)), states=states)


def _known(valid: Valid, what_if: WhatIf, measure: bool) -> tuple[Profile | None, tuple[Diagnostic, ...]]:
    """The profile that was given, or the stored one, and what is to be said of it. Raises Errors."""
    if what_if.profile is not None:
        return store.read_given_profile(what_if.profile), ()
    return store.read_profile(valid) if measure else store.read_estimates(valid)


def supposed(valid: Valid, what_if: WhatIf) -> Valid:
    """The text with other periods or fewer cores."""
    system, platform = valid.system, valid.platform
    if what_if.fps is not None:
        period = Fraction(10**9) / what_if.fps
        system = replace(system, apps=tuple(replace(a, period_ns=period, deadline_ns=None) for a in system.apps))
    if what_if.cores is not None:
        pools = tuple(replace(p, count=min(p.count, what_if.cores)) if p.kind == "cpu" else p for p in platform.pools)
        platform = replace(platform, pools=pools)
    states = {name: supposed(state, what_if) for name, state in valid.states.items()}
    options = {
        name: tuple(o if isinstance(o, str) else supposed(o, what_if) for o in own)
        for name, own in valid.options.items()
    }
    return replace(valid, system=system, platform=platform, states=states, options=options)


def _unmeasured(valid: Valid, profile: Profile | None) -> tuple[Diagnostic, ...]:
    """A warning for networks that stay off the accelerators of a platform because nobody measured them there."""
    platform = valid.platform
    kinds = dict.fromkeys(pool.kind for pool in platform.pools if pool.kind not in ("cpu", "link"))
    known = {e.subject for e in profile.entries if e.processor in kinds} if profile is not None else set()
    known |= {p.task for p in valid.system.pins if p.platform == platform.name}
    off = [name for name, t in valid.tasks.items() if t.network is not None and name not in known]
    if not kinds or not off:
        return ()
    message = f"no times of {listed(off)} on a {one_of(kinds)} of `{platform.name}` are known: only CPUs are considered"
    help_text = "measure on the board with `flowc profile`, or pin networks with a `wcet`"
    return (Diagnostic("F612", message, None, help=help_text, severity="warning"),)


def _refuse_to_guess(valid: Valid) -> None:
    """Without a single time every mapping is as good as any other."""
    names = listed(valid.tasks, 4)
    message = f"no time of {names} is known on any processor of `{valid.platform.name}`"
    help_text = "declare a `wcet`, pin tasks with one, or measure on the board with `flowc profile`"
    raise Errors([Diagnostic("F509", message, valid.system.apps[0].span, help=help_text)])


def _require(problem: Problem, objective: Objective) -> None:
    if not problem.apps:
        raise Errors([Diagnostic("F215", "there is no app to map", None, help="add `app Name { ... }`")])
    if not problem.cpus:
        message = f"platform `{problem.platform.name}` has no cpu"
        raise Errors([Diagnostic("F603", message, problem.platform.span, help="add `cpu core[4]`")])
    silent = [n for n, d in problem.networks.items() if d.energy is None]
    if objective == "energy" and (silent or not problem.networks):
        what = f"of `{silent[0]}` on every kind of processor" if silent else "of a network"
        message = f"the profile does not say the energy {what}"
        help_text = "give `energy_nj` for its entries, or choose another --objective"
        raise Errors([Diagnostic("F607", message, None, help=help_text)])
