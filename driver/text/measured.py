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
from ...model.times import Times, times_of
from ...model.verdict import AppVerdicts
from . import store
from .check import Checked, TextsByPath, Valid, ValidScenario
from .check import check as check_text
from .few_samples import few_samples
from .repeated_worst_cases import repeated_worst_cases


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
    if profile is None:
        return replace(checked, diagnostics=in_order((*checked.diagnostics, *unused)))
    states = dict(checked.states)
    if isinstance(valid, ValidScenario):
        for name, state in valid.states.items():
            own = times_of(state.system, state.platform, profile)
            states[name] = replace(states[name], verdicts=measured_verdicts(state, own))
    times = times_of(valid.system, valid.platform, profile)
    of_times = (*few_samples(valid, times), *repeated_worst_cases(valid, times))
    return replace(
        checked,
        verdicts=measured_verdicts(valid, times),
        diagnostics=in_order((*checked.diagnostics, *of_times)),
        states=states,
    )


def measured_verdicts(valid: Valid, times: Times) -> dict[str, AppVerdicts]:
    """The verdicts of all apps, with times of a profile where those of the text do not decide."""
    verdicts = {}
    for app in valid.system.apps:
        verdicts[app.name] = with_measured_times(
            app, valid.verdicts[app.name], times.app(app), times.app_means(app)
        )
    return verdicts
