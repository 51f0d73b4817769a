"""What is to be mapped together: worst cases per kind of processor, candidates of networks, periods.

In: a checked text whose apps have periods, and its profile. Out: a joint problem; or all the reasons why nothing can be
decided, or no search is needed to see that it does not fit.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from pathlib import Path

from ..analysis.timing import TimedChannel
from ..mapping.joint.candidates import Kernels, front
from ..mapping.joint.problem import Item, JointProblem, Net, Team
from ..mapping.problem import pinned
from ..mapping.targets import barred_from_dla
from ..model.application import Application, Task
from ..model.diagnostic import Diagnostic, Faults, one_of
from ..model.platform import Platform
from ..model.profile import Profile, ProfileEntry
from ..model.workload import WorkloadCurve
from ..networks.cuts import read_chain
from ..networks.onnx_import import NetworkFault
from . import Checked

#: Estimated times of accelerators fell 7.8 to 8.9 % short in Kim's thesis (5.5.3): they count this much more.
MARGIN = Fraction(11, 10)


def joint_problem(checked: Checked, profile: Profile | None) -> JointProblem:
    """Times, candidates and periods of everything. Raises Faults that list every task without times."""
    assert checked.platform is not None
    platform = checked.platform
    pins = pinned(checked.system.apps, platform, checked.system.pins)[0]
    wcets = {p.task: p.wcet_ns for p in checked.system.pins if p.platform == platform.name}
    entries: dict[str, dict[str, ProfileEntry]] = {}
    for e in profile.entries if profile else ():
        entries.setdefault(e.subject, {})[e.processor] = e
    kinds = {pool.kind for pool in platform.pools}
    teams, items, nets, faults = [], [], [], []
    for app in checked.system.apps:
        if app.period_ns is None:
            message = f"`{app.name}` has no period, and others have: they cannot be mapped together"
            faults.append(Diagnostic("F215", message, app.span, "", (), "give every app a period, or none"))
            continue
        for task in app.tasks:
            own = {k: e for k, e in entries.get(task.name, {}).items() if k in kinds and _has_code(task, k)}
            wcet = wcets.get(task.name)
            firings = checked.verdicts[app.name].repetition[task.name]
            layered = any(e.layers for e in own.values()) and task.name not in pins and wcet is None
            if layered:
                nets.append(_net(task, app.name, own, platform, firings))
                continue
            times = _times(task, own, wcet, kinds)
            pin = pins.get(task.name)
            wanted = None if pin is None else platform.pool_of(pin.processors[0]).kind
            if not times or (wanted is not None and wanted not in times):
                faults.append(_untimed(task, wanted, platform))
                continue
            guessed = any(e.estimated for e in own.values())
            # A worst case that the text gives holds for each firing.
            curves = {} if wcet is not None else {k: c for k, e in own.items() if (c := _curve(e)) is not None}
            items.append(Item(task.name, app.name, times, firings, guessed, curves))
        teams.append(_team(app))
    if faults:
        raise Faults(faults)
    where = {name: p.processors[0] for name, p in pins.items()}
    return JointProblem(platform, tuple(teams), tuple(items), tuple(nets), where)


def _has_code(task: Task, kind: str) -> bool:
    """A time of its reference on a CPU says nothing of a task with code for a GPU only."""
    return task.network is not None or not task.implementations or any(i.kind == kind for i in task.implementations)


def _team(app: Application) -> Team:
    assert app.period_ns is not None
    channels = tuple(
        TimedChannel(
            c.source,
            c.destination,
            app.task(c.source).port(c.source_port).rates,
            app.task(c.destination).port(c.destination_port).rates,
            c.delay,
        )
        for c in app.channels
    )
    return Team(app.name, app.period_ns, app.deadline_ns, app.priority, channels)


def _times(task: Task, own: dict[str, ProfileEntry], pin: Fraction | None, kinds: set[str]) -> dict[str, int]:
    """Worst-case time of a firing per kind: pinned, measured, or declared."""
    if pin is not None:
        return dict.fromkeys(kinds, up(pin))
    if own:
        return {k: _longest(e) for k, e in own.items()}
    if task.wcet_ns:
        code = {i.kind for i in task.implementations} & kinds
        return dict.fromkeys(code or {"cpu"} & kinds, up(max(task.wcet_ns)))
    return {}


def _curve(e: ProfileEntry) -> WorkloadCurve | None:
    return None if e.curve is None else e.curve.scaled(MARGIN if e.estimated else 1)


def _longest(e: ProfileEntry) -> int:
    """The worst case of an entry; estimates count more."""
    return up(e.wcet_ns * (MARGIN if e.estimated else Fraction(1)))


def up(time: Fraction) -> int:
    return -(-time.numerator // time.denominator)


def _untimed(task: Task, wanted: str | None, platform: Platform) -> Diagnostic:
    """Nothing can be said of a task without times on any processor, or on the `wanted` kind that it is pinned to."""
    where = "any processor" if wanted is None else f"the {wanted}"
    message = f"`{task.name}` has no worst-case time on {where} of `{platform.name}`"
    help_text = "declare a `wcet`, pin it with one, or measure it on the board with `flowc profile`"
    return Diagnostic("F509", message, task.span, "", (), help_text)


def _net(task: Task, app: str, own: dict[str, ProfileEntry], platform: Platform, firings: int) -> Net:
    longest = max(own.values(), key=lambda e: len(e.layers))
    names = tuple(x.layer for x in longest.layers)
    cuts = tuple(range(1, len(names)))
    shares: dict[str, float] = {}
    if task.network is not None and not task.network.model:
        try:
            chain = read_chain(Path(task.network.path), {t.name: t.type.shape for t in task.network.inputs})
            names = tuple(x.name for x in chain.layers)
            shares = dict(zip(names, chain.shares(), strict=True))
            cuts = tuple(c.after + 1 for c in chain.cuts() if not chain.fused(c.after))
        except NetworkFault:
            cuts = ()
    times: dict[str, list[float]] = {}
    barred = barred_from_dla(task, platform)
    for kind, e in own.items():
        # A kind on which layers were not measured: the whole is shared out by multiplications.
        known = {x.layer: x.mean_ns for x in e.layers} or shares
        total = sum(known.values()) or 1.0
        # Worst cases of layers are not known one by one: each takes its share of the worst case of the whole.
        factor = max(1.0, e.wcet_ns / total) * float(MARGIN if e.estimated else 1)
        times[kind] = [inf if kind == "dla" and barred(n) else known.get(n, inf) * factor for n in names]
    guessed = frozenset(kind for kind, e in own.items() if e.estimated)
    curves = {kind: curve for kind, e in own.items() if (curve := _curve(e)) is not None}
    found = front(Kernels(names, times, cuts, estimated=guessed, firings=firings, curves=curves), platform)
    return Net(task.name, app, found.candidates, found.exact)


def require_possible(problem: JointProblem) -> None:
    """Faults that no search is needed for: nowhere to run, or more work than a kind of processor has time. Raises."""
    faults = []
    for item in problem.items:
        if not problem.places(item):
            kinds = one_of(sorted(item.wcet_ns))
            message = f"`{item.name}` can run nowhere on `{problem.platform.name}`: it has times for {kinds} only"
            faults.append(Diagnostic("F503", message, None, "", (), "add such a processor to the platform"))
    for net in problem.nets:
        if not net.candidates:
            message = f"no way to run `{net.name}` on `{problem.platform.name}`: some layer runs nowhere"
            faults.append(Diagnostic("F503", message, None, "", (), "give times of all layers on one kind at least"))
    if faults:
        raise Faults(faults)
    for kind, processors in problem.of_kind.items():
        share = sum(
            Fraction(item.work(kind)) / problem.period[item.group]
            for item in problem.items
            if set(item.wcet_ns) == {kind} or problem.kind.get(problem.pins.get(item.name, "")) == kind
        )
        if share > len(processors):
            message = (
                f"work that only a {kind} can do needs {float(share):.2f} of them, and there are {len(processors)}"
            )
            help_text = "make periods longer, or give tasks code for other processors"
            faults.append(Diagnostic("F509", message, None, "", (), help_text))
    if faults:
        raise Faults(faults)
