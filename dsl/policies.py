"""What a task or network does when a firing raises: `on error POLICY`."""

from __future__ import annotations

from ..model.application import OnError
from ..model.diagnostic import did_you_mean, one_of
from . import syntax as s
from .context import Context

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
