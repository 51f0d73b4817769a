"""Known times of a text, for searches: the profile, and new measurements.

In: a valid text and a request. Out: `KnownTimes`, with warnings about missing times and times of
other machines.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...codegen.deploy import missing
from ...model.diagnostic import Diagnostic, Errors, listed, one_of
from ...model.profile import Profile
from ...model.times import Times, times_of
from ..measure.band_costs import with_band_costs
from ..measure.measure import measure, with_layers
from ..text import store
from ..text.check import Valid
from ..text.few_samples import few_samples
from .request import MapRequest


@dataclass(frozen=True, slots=True)
class KnownTimes:
    """A profile (None: only the text declares times), the times of tasks by it, and `diagnostics`
    about both.

    `measured`: the tasks have just run, and the user was informed.
    """

    profile: Profile | None
    times: Times
    diagnostics: tuple[Diagnostic, ...] = ()
    measured: bool = False

    def of(self, state: Valid) -> KnownTimes:
        """The same for one state of the text."""
        return KnownTimes(self.profile, times_of(state.system, state.platform, self.profile))


def known_times(valid: Valid, request: MapRequest, *, bands: bool) -> KnownTimes:
    """The stored times, or those of the request's profile; missing ones are measured if the request
    permits it.

    With `bands` also the costs of networks in bands of rows. Raises Errors.
    """
    given = request.what_if.profile is not None
    profile, warnings = _stored(valid, request)
    measured = False
    if profile is None and request.measure and not given and not missing(valid.system):
        profile, seen = measure(valid, on_measure=request.on_measure or request.report)
        measured = True
        warnings = (*warnings, *seen, *store.save_profile(valid, profile))
    if profile is not None and valid.at_hand and request.measure:
        profile, unsaved = with_layers(valid, profile, report=request.report)
        warnings = (*warnings, *unsaved)
        if bands and not valid.platform.native:
            profile, unsaved = with_band_costs(valid, profile, request.report)
            warnings = (*warnings, *unsaved)
    times = times_of(valid.system, valid.platform, profile)
    of_times = (*times.warnings(valid.tasks), *few_samples(valid, times))
    warnings = (*warnings, *of_times, *_unmeasured(valid, profile))
    return KnownTimes(profile, times, warnings, measured)


def require_some_time(valid: Valid, known: KnownTimes) -> None:
    """Raise Errors if no time is known at all: every mapping would be as good as any other."""
    times = known.times
    if not valid.tasks or times.reference_ns or any(times.of[task] for task in valid.tasks):
        return
    names = listed(valid.tasks, 4)
    message = f"no time of {names} is known on any processor of `{valid.platform.name}`"
    help_text = "declare a `wcet`, pin tasks with one, or measure on the board with `flowc profile`"
    raise Errors([Diagnostic("F509", message, valid.system.apps[0].span, help=help_text)])


def _stored(valid: Valid, request: MapRequest) -> tuple[Profile | None, tuple[Diagnostic, ...]]:
    """The profile of the request, or the stored one, and diagnostics about it. Raises Errors."""
    if request.what_if.profile is not None:
        return store.read_given_profile(request.what_if.profile), ()
    return store.read_profile(valid) if request.measure else store.read_estimates(valid)


def _unmeasured(valid: Valid, profile: Profile | None) -> tuple[Diagnostic, ...]:
    """A warning for networks that are not mapped to a platform's accelerators because they were not
    measured there."""
    platform = valid.platform
    kinds = dict.fromkeys(pool.kind for pool in platform.pools if pool.kind not in ("cpu", "link"))
    known: set[str] = set()
    if profile is not None:
        known |= {e.subject for e in profile.entries if e.processor in kinds}
    known |= {p.task for p in valid.system.pins if p.platform == platform.name}
    off = [name for name, t in valid.tasks.items() if t.network is not None and name not in known]
    if not kinds or not off:
        return ()
    message = (
        f"no times of {listed(off)} on a {one_of(kinds)} of `{platform.name}` are known: only CPUs"
        " are considered"
    )
    help_text = "measure on the board with `flowc profile`, or pin networks with a `wcet`"
    return (Diagnostic("F612", message, None, help=help_text, severity="warning"),)
