"""Runs of mappings by which searches decide.

In: a valid text and its profile. Out: a function from a mapping to the results of its program on
its host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...codegen.deploy import Deployed
from ...machines.fleet import Fleet
from ...model.diagnostic import Diagnostic, Errors
from ...model.mapping import Mapping, as_text
from ...model.profile import Profile
from ...model.times import times_of
from ...search.throughput.problem import Measurement
from ..measure.measure import run_elsewhere
from ..plan.program import place, plan, require_buildable, require_native_places
from ..text.check import Report, Valid

#: Bounds for one run of a program, in seconds, and the frames that it should have. Several short
#: runs say more than a long one: a program is fast or slow for a whole run.
SHORTEST, LONGEST, FRAMES = 0.6, 5.0, 40


class Runs:
    """Builds mappings in temporary folders and runs them briefly: the measurements of searches
    (`SideBySide`). Raises Errors.

    With several boards, each mapping runs in turns on all of them, in parallel.
    """

    def __init__(self, valid: Valid, profile: Profile | None, report: Report | None) -> None:
        self._valid, self._profile, self._report = valid, profile, report

    @property
    def width(self) -> int:
        return self._valid.host.size if isinstance(self._valid.host, Fleet) else 1

    def each(self, mappings: Sequence[Mapping]) -> list[Measurement | Errors]:
        jobs = [(as_text(m.platform, m.placements, m.networks), self._ready(m)) for m in mappings]
        host = self._valid.host
        return host.share(jobs) if isinstance(host, Fleet) else [run() for _, run in jobs]

    def __call__(self, mapping: Mapping) -> Measurement:
        (found,) = self.each([mapping])
        if isinstance(found, Errors):
            raise found
        return found

    def _ready(self, mapping: Mapping) -> Callable[[], Measurement | Errors]:
        """The mapping is planned here; its run may happen in another thread."""
        try:
            valid = self._valid.mapped(mapping)
            times = times_of(valid.system, valid.platform, self._profile)
            deployed = plan(valid, times, place(valid, times))
            if any(len(n.stages) > 1 and n.stages[0].engine for n in mapping.networks):
                require_buildable(valid)  # its stages were not compared with ONNX Runtime yet
            if valid.platform.native:
                require_native_places(valid, deployed)
        except Errors as faults:
            return partial(_as_it_is, faults)
        expected = max((ns for _, ns in mapping.predicted_period_ns), default=0.0) / 1e9
        seconds = min(max(SHORTEST, FRAMES * expected), LONGEST)
        return partial(self._seen, valid, deployed, seconds)

    def _seen(self, valid: Valid, deployed: Deployed, seconds: float) -> Measurement | Errors:
        try:
            seen = run_elsewhere(
                valid, deployed, seconds, strict=False, paced=False, report=self._report
            )
        except Errors as faults:
            if any(d.code != "F606" for d in faults.diagnostics):
                # an error of the machine, and not of the program
                raise
            return faults
        for app in valid.system.apps:
            if not seen.period_ns.get(app.name) or not seen.latency_ns.get(app.name):
                message = f"`{app.name}` finished no frame while it was measured"
                help_text = "a source has to deliver at least one iteration"
                return Errors([Diagnostic("F606", message, None, help=help_text)])
        return Measurement(seen.period_ns, seen.latency_ns, seen.mean_ns, seen.busy, seen.delayed)


def _as_it_is(faults: Errors) -> Errors:
    return faults
