"""Shares of apps: where they mean nothing.

In: flat apps, and whether there are states. Out: faults in the context.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.application import Application, Share
from .context import Context


def check_shares(apps: Sequence[Application], states: bool, context: Context) -> None:
    """Find shares that cannot be kept, or that take from nothing."""
    paced = any(app.period_ns is not None for app in apps)
    for app in apps:
        if app.share is None:
            continue
        found = _why_none(app, paced) if not states else _IN_STATES
        if found is not None:
            message, help_text = found
            context.fault("F223", f"`{app.name}` {message}", app.share.span, help=help_text)
            continue
        _require_data_here(app, app.share, context)


_IN_STATES = ("has a share, and the text has states", "leave `share` out")


def _why_none(app: Application, paced: bool) -> tuple[str, str] | None:
    """Why an app can have no share, with what to do; None if it can."""
    if app.period_ns is not None:
        return "has a period and a share", "leave out one of them"
    if not paced:
        return "has a share, and no app has a period", "leave `share` out: nothing else is paced"
    return None


def _require_data_here(app: Application, share: Share, context: Context) -> None:
    """A budget counts what is computed between two looks at it: no task may wait for its data."""
    for task in app.tasks:
        takes_each = task.link is not None and not task.link.writes and not task.link.latest
        if task.live or task.keep is not None or task.border is not None or takes_each:
            name = task.name.partition(".")[2]
            message = f"`{app.name}` has a share, and `{name}` waits for data from outside"
            help_text = "put what waits into another app, and read it with `latest`"
            context.fault("F223", message, share.span, help=help_text)
            return
