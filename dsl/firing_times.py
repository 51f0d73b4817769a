"""Declared times of firings: `wcet 2 ms on big, 5 ms`.

In: the clause of a task or of an arrow between apps. Out: nanoseconds by type of processor; faults
go to the context.
"""

from __future__ import annotations

from fractions import Fraction

from ..model.span import Span
from . import syntax as s
from .context import Context
from .evaluate import Evaluator, Scope

#: Nanoseconds of each phase, or of all, by the type of processors, "" for all others.
TimesByType = dict[str, tuple[Fraction, ...]]


def times_by_type(
    wcet: s.WcetDecl, evaluate: Evaluator, context: Context, scope: Scope
) -> TimesByType:
    """The times that are without faults."""
    times: TimesByType = {}
    spans: dict[str, Span] = {}
    for declared in wcet.times:
        on = "" if declared.on is None else declared.on.text
        if on in spans:
            where = f"on `{on}`" if on else "for all processors"
            message = f"the time {where} is given twice"
            context.repeated("F115", message, declared.span, spans[on])
        spans[on] = declared.span
        times[on] = _amounts(declared, evaluate, scope)
    return {on: amounts for on, amounts in times.items() if amounts}


def _amounts(declared: s.FiringTimeDecl, evaluate: Evaluator, scope: Scope) -> tuple[Fraction, ...]:
    """Nanoseconds of each phase, or of all; empty after a fault."""
    factor = evaluate.unit(declared.unit, "time", "a wcet")
    if isinstance(declared.amount, s.Phases):
        amounts, good = evaluate.phases(declared.amount, scope, "a wcet")
        if not good:
            return ()
    else:
        amount = evaluate.number(declared.amount, scope, "a wcet", 0)
        if amount is None:
            return ()
        amounts = (amount,)
    if factor is None:
        return ()
    return tuple(amount * factor for amount in amounts)
