"""How much longer tasks may take under an answer: what `map --slack` finds.

In: an answer with deadlines. Out: the same with the slack of its tasks, by the program that its
bounds are of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil, floor

from ...analysis.timing.slack import Slack, slack_of_all
from ...analysis.timing.system import Refused
from ...model.diagnostic import Diagnostic, Errors
from ...model.mapping import TimeSlack
from .deadlines import Joint


def with_slack(joint: Joint, say: Callable[[str], None]) -> Joint:
    """The answer with the slack of its tasks. Raises Errors."""
    if joint.system is None:
        return joint
    say("finding how much longer tasks may take")
    try:
        rows = tuple(_row(found) for found in slack_of_all(joint.system))
    except Refused as refused:
        reasons = [Diagnostic("F509", f"no bound is known: {why}", None) for why in refused.faults]
        raise Errors(reasons) from refused
    return replace(joint, mapping=replace(joint.mapping, slack=rows))


def require_deadlines(kind: str) -> None:
    """Raise Errors where nothing has a deadline."""
    if kind != "deadlines":
        help_text = "give the apps periods, or leave `--slack` out"
        message = "only times of apps with periods have slack"
        raise Errors([Diagnostic("F605", message, None, help=help_text)])


def _row(found: Slack) -> TimeSlack:
    most_ns = None if found.most_ns is None else floor(found.most_ns)
    factor = None if found.factor is None else floor(1000 * found.factor) / 1000
    return TimeSlack(found.of, ceil(found.now_ns), most_ns, factor, found.late)
