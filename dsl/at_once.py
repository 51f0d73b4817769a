"""Reasons in the text that prevent a change `at once`.

In: two states. Out: a reason and a remedy, or None. `driver.plan.protocols` checks where
networks run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
    before, after = ({a.name: a for a in s.apps} for s in (source, target))
    if before.keys() != after.keys():
        lone = sorted(before.keys() ^ after.keys())[0]
        one, other = (source, target) if lone in before else (target, source)
        return f"`{lone}` runs in `{one.name}`, not in `{other.name}`", WITHOUT
    for name, app in before.items():
        if (app.period_ns, app.due_ns) != (after[name].period_ns, after[name].due_ns):
            return f"`{name}` has another period or deadline in `{target.name}`", WITHOUT
    theirs = dict(target.choices)
    changed = [(name, old, theirs[name]) for name, old in source.choices if theirs[name] != old]
    if not changed and not source.best and not target.best:
        return f"`{source.name}` and `{target.name}` have the same networks", WITHOUT
    tasks = {t.name: t for s in (source, target) for a in s.apps for t in a.tasks}
    for instance, *variants in changed:
        for variant in variants:
            whole = f"{instance}.{variant}"
            around = next((n for n in tasks if n.startswith(f"{whole}.")), None)
            if around is not None:
                word = around.removeprefix(f"{whole}.").partition("_")[0]
                return (
                    f"`{whole}` has a `{word}` of its own",
                    f"make the code of `{word}` a task of the app",
                )
            network = tasks[whole].network
            if network is not None and network.batch > 1:
                return f"`{whole}` groups {network.batch} firings", "leave `batch` out"
    return None
