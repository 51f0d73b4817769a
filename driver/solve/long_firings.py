"""Single long firings that a verdict of lateness rests on.

In: a mapping with apps that are late, and the times it was judged by. Out: a warning for each task
whose measured worst case is far above its mean, with the way to a better measurement.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ...analysis.timing.response_time import bounds
from ...model.diagnostic import Diagnostic, listed
from ...model.times import Times
from ...search.deadline.limits import held
from ...search.deadline.verdict import MappingVerdict
from ..text.check import Valid
from .deadlines import Joint

#: A worst case is named that is more than so many times the mean, and that share of a
#: deadline.
FAR, SHARE = 10, Fraction(1, 10)
#: Why a measured worst case may be none.
BUSY = "on a busy machine one firing may be long"


def long_firings(valid: Valid, times: Times, joint: Joint) -> Iterator[Diagnostic]:
    """The warnings; none if every deadline is kept."""
    bounded = joint.bounded
    if bounded is None or not bounded.verdict.late:
        return
    late = bounded.verdict.late
    counted = _counted(joint, late)
    least = _least_limit(joint, bounded.verdict) * SHARE
    for name in sorted(times.of):
        task, time = valid.tasks.get(name), times.here(name)
        if task is None or time is None or time.from_text or (counted and name not in counted):
            continue
        samples = () if joint.seen is None else joint.seen.samples.get(name, ())
        by_run = max(samples, default=0)
        longest = max(float(time.longest_ns), by_run)
        if not time.mean_ns or longest <= max(FAR * time.mean_ns, least):
            continue
        message = (
            f"{listed(late)} may be late with a worst case of `{name}` of {longest / 1e6:.2f} ms,"
            f" {longest / float(time.mean_ns):.0f} times its mean of"
            f" {float(time.mean_ns) / 1e6:.3g} ms"
        )
        if by_run < longest:
            help_text = f"`flowc profile{valid.about}` measures it again: {BUSY}"
        elif by_run == samples[0]:
            help_text = "that was its first firing: what is done once belongs into `__init__`"
        else:
            help_text = f"`flowc map{valid.about}` runs it again: {BUSY}"
        yield Diagnostic("F625", message, task.span, help=help_text, severity="warning")


def _counted(joint: Joint, late: tuple[str, ...]) -> set[str]:
    """The tasks in the bounds of what is late; empty if there are no bounds."""
    assert joint.system is not None
    responses = bounds(joint.system).groups
    counted: set[str] = set()
    for name in late:
        counted |= {term.who for term in responses[name].terms}
        for path in responses[name].paths:
            counted |= {term.who for term in path.terms}
    return counted


def _least_limit(joint: Joint, verdict: MappingVerdict) -> Fraction:
    """The shortest deadline of what is late."""
    limits = [
        Fraction(each.due)
        for group in joint.problem.groups
        if group.name in verdict.late
        for each in held(group, verdict.worst)
        if each.due
    ]
    return min(limits, default=Fraction(0))
