"""The verb `check`: verdicts that need no execution, with the times of the stored profile where
those of the text do not decide.

In: a text. Out: `Checked`. What is measured proves nothing: such verdicts are marked, and none of
them makes a text faulty.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...analysis.dataflow.check import with_measured_times
from ...machines.host import HERE, Host
from ...model.diagnostic import in_order
from ...model.profile import Profile
from ...model.times import times_of
from ...model.verdict import AppVerdicts
from . import store
from .check import Checked, TextsByPath, Valid, ValidScenario
from .check import check as check_text


def check(
    path: str | Path,
    *,
    platform: str = "host",
    mapped: bool = True,
    opened: str | None = None,
    host: Host = HERE,
    texts: TextsByPath | None = None,
) -> Checked:
    """Load a text and check everything (see `driver.text.check.check`). Periods and deadlines that
    no times of the text decide about are held against a stored profile that matches the text.
    """
    checked = check_text(
        path, platform=platform, mapped=mapped, opened=opened, host=host, texts=texts
    )
    return _with_profile(checked)


def _with_profile(checked: Checked) -> Checked:
    parts = (checked, *checked.states.values())
    undecided = any(v.schedulable.holds is None for part in parts for v in part.verdicts.values())
    if not checked.ok or not undecided:
        return checked
    valid = checked.require()
    profile, unused = store.read_profile(valid)
    states = dict(checked.states)
    if isinstance(valid, ValidScenario):
        for name, state in valid.states.items():
            states[name] = replace(states[name], verdicts=_verdicts(state, profile))
    return replace(
        checked,
        verdicts=_verdicts(valid, profile),
        diagnostics=in_order((*checked.diagnostics, *unused)),
        states=states,
    )


def _verdicts(valid: Valid, profile: Profile | None) -> dict[str, AppVerdicts]:
    """The verdicts of all apps, with times as analyses have them."""
    times = times_of(valid.system, valid.platform, profile)
    verdicts = {}
    for app in valid.system.apps:
        verdicts[app.name] = with_measured_times(
            app, valid.verdicts[app.name], times.app(app), times.app_means(app)
        )
    return verdicts
