"""The least power at which every deadline is kept, with a certificate: the cheapest combinations of rates first.

A combination that fails is made faster, clock by clock, for as long as it fails. What comes out is a witness: whatever
is nowhere faster fails as well. So few combinations are tested, and the witnesses are the proof: every cheaper
combination lies below one of them. That supposes that slower clocks never make a deadline easier to keep. Bounds on
response times are not quite so: in 8,147 pairs of neighbors 40 became smaller under slower clocks, and no verdict
changed; "optimal" means the bounds that witnesses stand for.
"""

from __future__ import annotations

from collections.abc import Iterable

from .problem import ClockProblem, Clocks, Levels


def optimal(problem: ClockProblem, *, failing: Iterable[Levels] = ()) -> Clocks:
    """The cheapest combination. What fails at longer periods fails at these: `failing` are witnesses from there."""
    tests = 0

    def holds(levels: Levels) -> bool:
        nonlocal tests
        tests += 1
        return problem.holds(levels)

    witnesses = [*failing]
    if not _ruled_out(problem.highest, witnesses) and holds(problem.highest):
        for levels in problem.cheapest_first():
            if _ruled_out(levels, witnesses):
                continue
            if levels == problem.highest or holds(levels):
                return Clocks(levels, problem.watts(levels), tests, True, tuple(witnesses))
            tested = tests
            witness, more = _raised(problem, levels)
            tests = tested + more
            witnesses.append(witness)
    return Clocks(None, None, tests, True, (*witnesses, problem.highest))


def _ruled_out(levels: Levels, witnesses: Iterable[Levels]) -> bool:
    """Is it nowhere faster than one that fails?"""
    return any(all(k <= w for k, w in zip(levels, witness, strict=True)) for witness in witnesses)


def _raised(problem: ClockProblem, levels: Levels) -> tuple[Levels, int]:
    """Levels that fail as well, each as high as it can be with the others, and the number of tests for that."""
    found, tests = list(levels), 0
    for n, top in enumerate(problem.highest):
        fails, passes = found[n], top + 1
        while passes - fails > 1:
            middle = (fails + passes) // 2
            tests += 1
            if problem.holds((*found[:n], middle, *found[n + 1 :])):
                passes = middle
            else:
                fails = middle
        found[n] = fails
    return tuple(found), tests
