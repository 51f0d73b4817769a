"""Reasons in the text that prevent a change `at once`.

In: two states. Out: a reason and a remedy, or None. `driver.plan.protocols` checks where
networks run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..model.application import Task
from ..model.scenario import State

#: What to do about every change that cannot be made at once.
WITHOUT = "leave `at once` out: frames that have begun are then completed first"
#: A reason, and what to do.
Hindrance = tuple[str, str]


def every_option(state: State) -> Iterator[State]:
    """The state with each of the variants that it may have."""
    yield from (replace(state, apps=option.apps) for option in state.options)
    if not state.options:
        yield state


def hindrance(source: State, target: State) -> Hindrance | None:
    """An inference can be aborted only if the states differ in networks alone that are one task
    each.
    """
    return _other_apps(source, target) or _why_not_abortable(source, target)


def _other_apps(source: State, target: State) -> Hindrance | None:
    """The same apps run in both states, at the same times."""
    before = {app.name: app for app in source.apps}
    after = {app.name: app for app in target.apps}
    if before.keys() != after.keys():
        lone = min(before.keys() ^ after.keys())
        with_it, without_it = (source, target) if lone in before else (target, source)
        return f"`{lone}` runs in `{with_it.name}`, not in `{without_it.name}`", WITHOUT
    for name, app in before.items():
        if (app.period_ns, app.due_ns) != (after[name].period_ns, after[name].due_ns):
            return f"`{name}` has another period or deadline in `{target.name}`", WITHOUT
    variants = dict(target.choices)
    changed = any(variants[name] != variant for name, variant in source.choices)
    if not changed and not source.best and not target.best:
        return f"`{source.name}` and `{target.name}` have the same networks", WITHOUT
    return None


def _why_not_abortable(source: State, target: State) -> Hindrance | None:
    """Every network that changes is one task, which infers one frame at a time."""
    tasks: dict[str, Task] = {}
    for app in (*source.apps, *target.apps):
        tasks.update((task.name, task) for task in app.tasks)
    variants = dict(target.choices)
    for instance, variant in source.choices:
        if variants[instance] == variant:
            continue
        for changing in (variant, variants[instance]):
            reason = _not_abortable(f"{instance}.{changing}", tasks)
            if reason is not None:
                return reason
    return None


def _not_abortable(name: str, tasks: Mapping[str, Task]) -> Hindrance | None:
    """Why an inference of a network cannot be aborted without a trace."""
    around = next((task for task in tasks if task.startswith(f"{name}.")), None)
    if around is not None:
        word = around.removeprefix(f"{name}.").partition("_")[0]
        return f"`{name}` has a `{word}` of its own", f"make the code of `{word}` a task of the app"
    network = tasks[name].network
    if network is not None and network.batch > 1:
        return f"`{name}` groups {network.batch} firings", "leave `batch` out"
    return None
