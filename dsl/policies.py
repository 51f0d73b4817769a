"""What a task or network does when a firing raises: `on error POLICY`, for example `on error
restart 5 every 1 s`."""

from __future__ import annotations

from dataclasses import replace

from ..model.application import OnError, Restart
from ..model.diagnostic import did_you_mean, one_of
from . import syntax as s
from .context import Context
from .evaluate import Evaluator

ERROR_POLICIES: dict[str, OnError] = {"stop": "stop", "skip": "skip", "restart": "restart"}


def policy_of(item: s.OnErrorDecl, context: Context) -> OnError:
    """The policy; "stop" after a fault."""
    policy = item.policy.text
    if item.event.text != "error":
        help_text = 'write `on error skip`, or code such as `on cpu python "file.py:name"`'
        message = f"`on {item.event.text}` is no event of a task"
        context.fault("F217", message, item.event.span, help=help_text)
    elif policy not in ERROR_POLICIES:
        help_text = did_you_mean(policy, ERROR_POLICIES)
        help_text = help_text or f"there is {one_of(ERROR_POLICIES)}"
        message = f"`{policy}` is no policy for errors"
        context.fault("F217", message, item.policy.span, help=help_text)
    return ERROR_POLICIES.get(policy, "stop")


def restart_of(item: s.OnErrorDecl, context: Context, evaluate: Evaluator) -> Restart:
    """How often a task that begins anew is opened at most, and at which intervals."""
    restart = Restart()
    given = item.tries or item.every
    if given is None:
        return restart
    if item.policy.text != "restart":
        help_text = "write `on error restart 5 every 1 s`, or leave out the numbers"
        message = f"`on error {item.policy.text}` takes no numbers"
        context.fault("F217", message, given.span, help=help_text)
        return restart
    if item.tries is not None:
        tries = evaluate.integer(item.tries, {}, "the number of tries", 1)
        restart = restart if tries is None else replace(restart, tries=tries)
    if item.every is not None:
        what = "the time between two tries"
        pause = evaluate.quantity(item.every.amount, item.every.unit, "time", what, {})
        restart = restart if pause is None else replace(restart, pause_ns=pause)
    return restart
