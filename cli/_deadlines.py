"""Output of `map` for apps with deadlines: tables, reasons, the JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime.digits import decimals

if TYPE_CHECKING:
    from ..driver.solve.deadlines import Joint
    from ..driver.solve.state_map import States
    from ..model.conditions import Condition
    from ..model.mapping import FrontPoint, GroupBound, Mapping, NetworkPlan, PathBound, TimeSlack
    from ..model.priorities import PriorityOrder
    from ..model.scenario import State
    from ..search.deadline.outcome import FewestCores, LeastPower
    from ..search.deadline.verdict import MappingVerdict

#: What proofs about clock rates rest on.
SLOWER = "assuming that a slower clock never makes a deadline easier to keep"


def joint_table(joint: Joint) -> str:
    """Processors with their utilization and tasks, apps with their bounds, and the quality of the
    answer."""
    from ..runtime.report import columns

    groups, verdict = joint.mapping.groups, joint.outcome.verdict
    if not groups or verdict is None:
        return f"{_search(joint)}\n{_nothing_found(joint)}"
    ran = any(group.frames for group in groups)
    tables = [
        _processors(joint.mapping),
        columns([_head("app", "response ms", ran), *_app_rows(groups, ran)], left=2),
    ]
    if any(group.paths for group in groups):
        rows = [_head("path", "latency ms", ran), *_path_rows(groups, ran)]
        tables.append(columns(rows, left=2))
    if joint.mapping.priorities is not None:
        tables.append(_priorities(joint.mapping.priorities))
    if joint.mapping.slack:
        tables.append(_slack(joint.mapping.slack))
    above = [*_seen_above(groups)]
    if above:
        waited = ", or it waited for the interpreter" if joint.holding else ""
        tables.append(
            f"seen above its bound: {', '.join(above)}; the times that the bound assumes were too"
            f" short,\nor a live source had no data for longer than its period{waited}"
        )
    if joint.background:
        tables.append(_background(joint))
    conditions = "\n".join(_conditions(groups))
    if conditions:
        tables.append(conditions)
    partly = joint.partly_measured
    if partly:
        lines = ["measured with less than bounds count:"]
        lines += [f"  {task}: {words}" for task, words in partly.items()]
        tables.append("\n".join(lines))
    if joint.seen is not None and joint.disturbed:
        tables.append(
            f"other programs had the cores for {joint.seen.delayed:.0%} of the time in which the"
            " program could have computed: bounds\nand what was seen are those of such a machine"
        )
    if joint.seen is not None:
        tables.append("utilizations above are worst cases, with the longest firings of the run")
    shared = "\n".join(_shared(joint))
    if shared:
        tables.append(shared)
    tables.append(_search(joint) + "\n" + _optimality(joint, verdict))
    if joint.doubt:
        tables.append(
            f"no bounds are known for the program itself; these assume other orders: {joint.doubt}"
        )
    return "\n\n".join(tables)


def _places(mapping: Mapping) -> Iterator[tuple[str, str]]:
    """Tasks, and stages of networks, each with its processor."""
    for placement in mapping.placements:
        yield placement.task, placement.processors[0]
    for network in mapping.networks:
        for k, stage in enumerate(network.stages, 1):
            whole = len(network.stages) == 1
            name = network.task if whole else f"{network.task}.stage{k}"
            yield name, stage.processors[0]


def _processors(mapping: Mapping) -> str:
    from ._tables import fitted

    tasks: dict[str, list[str]] = {processor: [] for processor, _ in mapping.utilization}
    for name, processor in _places(mapping):
        tasks[processor].append(name)
    rows = [["processor", "runs", "utilization"]]
    for processor, share in mapping.utilization:
        rows.append([processor, _some(tasks[processor]), f"{share:.2%}"])
    return fitted(rows, 2, 1)


def _priorities(order: PriorityOrder) -> str:
    """The order of the apps, and where it comes from."""
    said = f"priorities {order.in_words}"
    if any(len(level) > 1 for level in order.levels):
        said += "\napps that share a priority may delay each other"
    return said


def _slack(rows: Sequence[TimeSlack]) -> str:
    """How much longer tasks may take; those of which no time helps only in number."""
    from ..runtime.report import columns

    lines = [["slack", "worst case ms", "may take ms", "x", "then late"]]
    for row in rows:
        if row.factor is not None:
            late = ", ".join(row.late) if row.late else "nothing"
            lines.append([row.of, _ms(row.now_ns), _ms(row.most_ns), f"{row.factor:.3f}", late])
    others = sum(row.factor is None for row in rows)
    if not others:
        return columns(lines)
    said = f"{others} tasks and apps: no time of them alone that was tried keeps all deadlines"
    return said if len(lines) == 1 else f"{columns(lines)}\n{said}"


def _head(subject: str, bound: str, ran: bool) -> list[str]:
    """The head of a table of bounds; with what was seen if the program `ran`."""
    head = [subject, "", bound, "deadline ms"]
    return [*head, "longest seen ms", "missed"] if ran else head


def _seen(bound: GroupBound | PathBound, count: int) -> list[str]:
    """What was seen of an app or a path, in `count` frames or firings."""
    missed = "-" if bound.deadline_ns is None else f"{bound.missed} of {count}"
    return [_ms(bound.seen_ns), missed]


def _app_rows(groups: tuple[GroupBound, ...], ran: bool) -> Iterator[list[str]]:
    for group in groups:
        word = _verdict(group)
        row = [
            group.app,
            word + _supposing(group.conditions, group.schedulable),
            _ms(group.response_ns),
            _ms(group.deadline_ns),
        ]
        if ran:
            row += _seen(group, group.frames)
        yield row


def _seen_above(groups: tuple[GroupBound, ...]) -> Iterator[str]:
    """What has taken longer than its bound when the program ran."""
    for group in groups:
        bounds = [(group.app, group.response_ns, group.seen_ns)]
        bounds += [(path.name, path.latency_ns, path.seen_ns) for path in group.paths]
        for name, bound_ns, seen_ns in bounds:
            if bound_ns is not None and seen_ns is not None and seen_ns > bound_ns:
                yield name


def _supposing(conditions: Iterable[Condition], good: bool) -> str:
    """Under what conditions the verdict on an app, or on one of its paths, holds; empty if under
    none. What is too late may be in time with other times."""
    from ..model.conditions import condition_words

    said = condition_words(c for c in conditions if good or c.name == "estimated")
    return f" if {said}" if said else ""


def _conditions(groups: Iterable[GroupBound]) -> Iterator[str]:
    """What the good verdicts rest on, a line each."""
    from ..model.conditions import together

    made: list[Condition] = []
    for group in groups:
        if group.schedulable:
            made += group.conditions
        if any(path.met for path in group.paths):
            made += group.conditions
        for path in group.paths:
            made += path.conditions if path.met else ()
    for condition in together(made):
        yield f"{condition.words or 'assumed'}: {condition.sentence}"


def _verdict(group: GroupBound) -> str:
    """Whether an app is in time, or what of it is late: itself, or only its paths."""
    if group.schedulable:
        return "schedulable"
    due, response = group.deadline_ns, group.response_ns
    in_time = due is None or (response is not None and response <= due)
    late = dict.fromkeys(p.kind for p in group.paths if p.deadline_ns is not None and not p.met)
    return f"{' and '.join(late)} too late" if in_time and late else "too late"


def _shared(joint: Joint) -> Iterator[str]:
    """The apps that arrows join, which shall not wait for each other, and that share CPUs."""
    from ..search.deadline.problem import in_common

    if joint.outcome.assignment is None:
        return
    for pair, cpus in in_common(joint.problem, joint.outcome.assignment).items():
        apps = " and ".join(f"`{name}`" for name in pair)
        yield f"{apps} share {_some(cpus)}: where a task of one hangs, the other may stop"


def _background(joint: Joint) -> str:
    """The apps without a period, with what is predicted of them."""
    from ..runtime.report import columns

    predicted = dict(joint.mapping.predicted_period_ns)
    shares = [["with a share", "of its CPUs", "in each ms", "predicted ms between frames"]]
    below = [["in the background", "predicted ms between frames"]]
    for app in joint.background:
        ns = predicted.get(app.name)
        said = "-" if ns is None else f"{ns / 1e6:.4g}"
        if app.share is None:
            below.append([app.name, said])
        else:
            each = f"{float(app.share.server.period_ns) / 1e6:g}"
            shares.append([app.name, f"{float(100 * app.share.server.part):g} %", each, said])
    tables = [columns(rows) for rows in (shares, below) if len(rows) > 1]
    return "\n\n".join([*tables, _what_is_proved(joint)])


def _what_is_proved(joint: Joint) -> str:
    """What is proved beside apps without a period, and what is predicted."""
    lines = []
    apps = joint.background
    if any(app.share is not None for app in apps):
        lines.append(
            "bounds count a share as its budget in each of its periods, and one firing too much,"
            " above all others"
        )
    unassured = joint.problem.unassured(joint.outcome.assignment)
    if unassured:
        lines.append(f"nothing assures a share of {', '.join(unassured)}: no priorities there")
    if any(app.share is None for app in apps):
        lines.append("bounds count apps in the background as endless work below all others")
    return "\n".join([*lines, "times of these apps are predicted"])


def _path_rows(groups: tuple[GroupBound, ...], ran: bool) -> Iterator[list[str]]:
    from ..model.conditions import together

    for group in groups:
        for path in group.paths:
            word = ""
            if path.deadline_ns is not None:
                word = "met" if path.met else "too late"
                word += _supposing(together((*group.conditions, *path.conditions)), path.met)
            row = [path.name, word, _ms(path.latency_ns), _ms(path.deadline_ns)]
            if ran:
                row += _seen(path, path.firings)
            yield row


def _ms(ns: int | None) -> str:
    return "-" if ns is None else decimals(ns / 1e6, 2)


def _some(names: Sequence[str], most: int = 4) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:most])
    if len(names) <= most:
        return shown
    return f"{shown} and {len(names) - most} more"


def _search(joint: Joint) -> str:
    outcome = joint.outcome
    looked = f"{outcome.evaluations:,} assignments looked at in {outcome.seconds:.1f} s"
    if outcome.limit is None:
        return f"{outcome.search}: {looked}"
    # For most of them the utilization of processors decides.
    return (
        f"{outcome.search}: {outcome.counted:,} evaluations ({outcome.limit:,} asked for), {looked}"
    )


def _nothing_found(joint: Joint) -> str:
    """Why there is no mapping that keeps everything."""
    candidates = " of these candidates" if joint.problem.networks else ""
    over = joint.outcome.scope.in_words
    if joint.outcome.impossible == "limits":
        return (
            f"no mapping{candidates} fits: processors would have more work or engines than they can"
            f" hold, {over}"
        )
    if joint.outcome.impossible == "deadlines":
        return (
            f"no mapping{candidates} is proved to keep all deadlines: every one was ruled out by"
            f" these bounds, {over}"
        )
    return "no mapping that keeps all deadlines was found in this time"


def _optimality(joint: Joint, verdict: MappingVerdict) -> str:
    """The maximum utilization by the `verdict` of the search, and how good it is."""
    outcome = joint.outcome
    times = "" if joint.program is None else "by the worst cases of tasks, "
    said = f"{times}maximum utilization {float(verdict.maximum):.4%}"
    if not verdict.feasible:
        return f"{said}: {_nothing_found(joint)}{_what_counts(joint)}"
    if outcome.spared is not None:
        balanced = f"{float(outcome.spared):.4%}"
        if outcome.apart:
            return (
                f"{said} with CPUs of their own for apps that arrows join, and {balanced} without"
                " (`--objective utilization`)"
            )
        other = f"{balanced} on more of them (`--objective utilization`)"
        return f"{said} on the fewest processors that leave slack, and {other}"
    candidates = " of these candidates" if joint.problem.networks else ""
    over = outcome.scope.in_words
    if outcome.power is not None:
        return f"{_least_power(outcome.power, candidates)}\n{said}"
    if outcome.cores is not None:
        said = f"{_cores(outcome.cores, candidates)}{said}"
    if outcome.proved:
        return (
            f"{said}: proved, no mapping{candidates} that provably keeps all deadlines has less,"
            f" {over}"
        )
    if outcome.gap is not None:
        return (
            f"{said}: at most {outcome.gap:.3%} above the least possible"
            f" ({float(outcome.bound or 0):.4%}), {over}"
        )
    if outcome.cores is not None and outcome.cores.proved:
        return f"{said}; proved {over}"
    return said


def _least_power(power: LeastPower, candidates: str) -> str:
    """The mean power of an answer, and how far it is from the least possible."""
    said = f"mean power {_watts(power.watts)} by the model of the platform"
    if power.first_w is not None and power.first_w > power.watts:
        said += f" ({_watts(power.first_w)} at the places of the least utilization)"
    over = power.scope.in_words
    if power.rates:
        over += f"; {SLOWER}"
    if power.proved:
        return f"{said}: proved, no mapping{candidates} takes less, {over}"
    if isfinite(power.gap):
        least = _watts(power.bound)
        return f"{said}: at most {power.gap:.3%} above the least possible ({least}), {over}"
    return said


def _watts(watts: Fraction) -> str:
    return f"{float(watts):.4f} W" if watts >= Fraction(1, 100) else f"{float(watts):.3g} W"


def _power_as_data(power: LeastPower | None, front: Sequence[FrontPoint]) -> dict[str, Any]:
    """The least power, and the front of all that was compared; nothing if it was not looked for."""
    if power is None:
        return {}
    first = None if power.first_w is None else float(power.first_w)
    found = {
        "watts": float(power.watts),
        "lower_bound_w": float(power.bound),
        "least_utilization_w": first,
        "optimal": power.proved,
        "optimal_over": asdict(power.scope),
        "supposed": [SLOWER] if power.rates else [],
        "front": [
            {
                "watts": point.watts,
                "max_utilization": point.utilization,
                "tightest": point.tightest,
                "cpus": point.cpus,
                "bytes": point.bytes,
                "pins": point.pins,
            }
            for point in front
        ],
    }
    return {"power": found}


def _what_counts(joint: Joint) -> str:
    """Which verdict counts where the program keeps what the search could not promise."""
    if joint.program is None or joint.verdict is None or not joint.verdict.feasible:
        return ""
    return (
        "\nthe tables above count, with their conditions: they bound the program itself, with its"
        " own orders and times, and all deadlines are kept there"
    )


def _cores(cores: FewestCores, candidates: str) -> str:
    """How many CPUs are enough, whether fewer are not, and what the sentence after it is about."""
    said = "1 CPU" if cores.count == 1 else f"{cores.count} CPUs"
    about = "on so many, " if cores.most is None else ""
    if cores.count == 1:
        return f"{said}; {about}"
    aim = "provably keeps all deadlines" if cores.most is None else "has so little utilization"
    if cores.proved:
        return f"{said}: proved, no mapping{candidates} {aim} on fewer; {about}"
    return f"{said}: none was found that {aim} on fewer; {about}"


def explanation(joint: Joint) -> list[str]:
    """The limits of the answer: the terms of the tightest group's bound, and what would help if one
    is late."""
    from ..driver.solve.deadlines import reasons

    return reasons(joint)


def document(joint: Joint, path: Path | None) -> dict[str, Any]:
    """As in docs/json.md."""
    mapping, outcome = joint.mapping, joint.outcome
    return {
        "max_utilization": max((share for _, share in mapping.utilization), default=None),
        "utilization": dict(mapping.utilization),
        "groups": {group.app: _group_as_data(group) for group in mapping.groups},
        **_order_as_data(mapping),
        **({"slack": [asdict(row) for row in mapping.slack]} if mapping.slack else {}),
        **_background_as_data(joint),
        "tasks": dict(_places(mapping)),
        "networks": {network.task: _network_as_data(network) for network in mapping.networks},
        "disturbed": None if joint.seen is None else round(joint.seen.delayed, 4),
        "file": None if path is None else str(path),
        "search": {
            "name": outcome.search,
            "objective": outcome.objective,
            "seed": mapping.effort.seed,
            "evaluations": outcome.evaluations,
            "counted": outcome.counted,
            "measured_runs": 0,
            "seconds": round(outcome.seconds, 3),
            "lower_bound": None if outcome.bound is None else float(outcome.bound),
            "optimal": outcome.proved and bool(joint.verdict and joint.verdict.feasible),
            "optimal_over": asdict(outcome.scope),
        },
        **_power_as_data(outcome.power, mapping.effort.front),
    }


def _order_as_data(mapping: Mapping) -> dict[str, Any]:
    """The order of apps; nothing where priorities decide nothing."""
    return {} if mapping.priorities is None else {"priorities": asdict(mapping.priorities)}


def _background_as_data(joint: Joint) -> dict[str, Any]:
    """The apps without a period beside others; nothing without them."""
    predicted = dict(joint.mapping.predicted_period_ns)
    apps = {}
    for app in joint.background:
        of_app: dict[str, Any] = {"predicted_period_ns": predicted.get(app.name)}
        if app.share is not None:
            server = app.share.server
            of_app["share"] = {"part": float(server.part), "period_ns": float(server.period_ns)}
        apps[app.name] = of_app
    return {"background": apps} if apps else {}


def _network_as_data(network: NetworkPlan) -> dict[str, Any]:
    stages = []
    first_layer = None
    for stage in network.stages:
        stages.append(
            {
                "processors": list(stage.processors),
                "first_layer": first_layer,
                "last_layer": stage.until,
                "replicas": 1,
                "streams": 1,
                "engine": stage.engine or None,
                "precision": stage.precision or None,
                "predicted_ns": round(stage.predicted_ns),
            }
        )
        first_layer = stage.until
    return {
        "option": "-".join(stage.processors[0] for stage in network.stages),
        "cuts": [stage.until for stage in network.stages if stage.until is not None],
        "stages": stages,
    }


def _group_as_data(group: GroupBound) -> dict[str, Any]:
    """An app with its bounds and paths; with what was seen if it ran."""
    bounds: dict[str, Any] = {
        "response_time_ns": group.response_ns,
        "deadline_ns": group.deadline_ns,
        "schedulable": group.schedulable,
        "conditions": [condition.as_data() for condition in group.conditions],
    }
    if group.frames:
        bounds |= {"seen_ns": group.seen_ns, "frames": group.frames, "missed": group.missed}
    paths = [_path_as_data(path, ran=bool(group.frames)) for path in group.paths]
    return {**bounds, "paths": paths}


def _path_as_data(path: PathBound, ran: bool) -> dict[str, Any]:
    bounds: dict[str, Any] = {
        "kind": path.kind,
        "source": path.source,
        "task": path.task,
        "latency_ns": path.latency_ns,
        "deadline_ns": path.deadline_ns,
        "met": path.met,
        "conditions": [condition.as_data() for condition in path.conditions],
    }
    if ran:
        bounds |= {"seen_ns": path.seen_ns, "firings": path.firings, "missed": path.missed}
    return bounds


# -- scenarios -------------------------------------------------------------------------------------
def states_table(states: States) -> str:
    """The tables of every state, then the worst state."""
    tables = [
        f"state {name}{_variants(states, name)}\n\n{joint_table(joint)}"
        for name, joint in states.joints.items()
    ]
    if states.mapping.transitions:
        tables.append(_transitions(states))
    if states.clocked:
        tables.append(_clocks(states))
    most = _most(states)
    if most is not None:
        tables.append(_busiest(states, *most))
        if states.own:
            tables.append("\n".join(_elsewhere(states)))
    return "\n\n".join(tables)


def _transitions(states: States) -> str:
    from ..runtime.report import columns

    rows = [["from", "to", "protocol", "change ms, at most", "of that the controller"]]
    for change in states.mapping.transitions:
        times = _ms(change.delay_ns), _ms(change.control_ns)
        rows.append([change.source, change.target, change.protocol, *times])
    return columns(rows, left=3)


def _busiest(states: States, name: str, share: float) -> str:
    """The utilization of the busiest processor in any state, and how far from the least it is."""
    at_rates, at_highest = "", ""
    if states.clocked:
        at_rates, at_highest = " at its clock rates", "at the highest rates, and "
    placement = "one placement for all states"
    if states.own:
        placement = "places of their own for some states"
    said = (
        f"{placement}: the busiest processor needs {share:.4%} of its time{at_rates}, in `{name}`"
    )
    outcome = states.outcome
    if outcome.cores is not None:
        said = f"{_cores(outcome.cores, ' of these candidates')}{said}"
    by_profile = f"; {at_highest}by the times of tasks,"
    if outcome.power is not None:
        return said
    if outcome.proved:
        return (
            f"{said}{by_profile} no placement of these candidates needs less,"
            f" {outcome.scope.in_words}"
        )
    if outcome.bound:
        return (
            f"{said}{by_profile} none needs less than {float(outcome.bound):.4%},"
            f" {outcome.scope.in_words}"
        )
    return said


def _elsewhere(states: States) -> Iterator[str]:
    for bound in states.mapping.states:
        for place in bound.placements:
            yield f"`{place.task}` runs on {place.processors[0]} in `{bound.state}`"


def why_elsewhere(states: States, name: str) -> list[str]:
    """Why a state has places of its own."""
    if name not in states.own:
        return []
    return [f"with the common places it would be late, so it has its own: {states.own[name].late}"]


def _variants(states: States, name: str) -> str:
    """The best variants that were found."""
    said = states.valid.scenario.state(name).best_in_words()
    return f": {said}" if said else ""


def why_no_better(states: States, name: str) -> list[str]:
    """Why a state has no more accurate variants."""
    state, lines = states.valid.scenario.state(name), []
    for refused in states.refused:
        if refused.state != name:
            continue
        where = "" if refused.proved else " in what was found"
        lines.append(
            f"{state.best_in_words(refused.option)} does not keep its deadlines and limits{where}:"
            f" {refused.why}"
        )
    if state.best:
        rank = "the most accurate possible" if lines else "no option is more accurate"
        if state.prefers:
            rank = "no possible one is preferred to it" if lines else "no option is preferred to it"
        lines.append(f"{state.best_in_words()}: {rank}")
    return lines


def why_rates(states: States, name: str) -> list[str]:
    """Why a state has its clock rates."""
    from ..driver.solve.clocks import why_these_rates

    clocked = states.clocked.get(name)
    return [] if clocked is None else [*why_these_rates(clocked, states.valid.platform)]


def _best_as_data(states: States, name: str) -> dict[str, Any]:
    state = states.valid.scenario.state(name)
    if not state.best:
        return {}
    refused = []
    for refusal in states.refused:
        if refusal.state == name:
            choices = _best_choices(state, state.options[refusal.option].choices)
            refused.append({"choices": choices, "why": refusal.why, "proved": refusal.proved})
    return {"best": _best_choices(state, state.choices), "refused": refused}


def _best_choices(state: State, choices: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The variants of the networks of which the state asks for the best one."""
    return {network: variant for network, variant in choices if network in state.best}


def _clocks(states: States) -> str:
    """Clock rates of states, and their power by the model, in W; the last line is the mean over all
    states."""
    from ..driver.solve.clocks import RATES
    from ..runtime.report import columns

    rows = [["state", "clock rates", "W", "highest rates W", "greedy W", "tested"]]
    for name, clocked in states.clocked.items():
        bound = clocked.bound
        rates = [f"{pool} {hz / 1e6:g} MHz" for pool, hz in bound.clocks_hz]
        powers = _w(bound.energy_mw), _w(bound.highest_mw), _w(bound.greedy_mw)
        tested = f"{clocked.tests} of {clocked.combinations}"
        rows.append([name, ", ".join(rates) or "-", *powers, tested])
    if len(states.clocked) > 1:
        clocked_states = states.clocked.values()
        means = [
            _mean_power([(each.weight, each.bound.energy_mw) for each in clocked_states]),
            _mean_power([(each.weight, each.bound.highest_mw) for each in clocked_states]),
            _mean_power([(each.weight, each.bound.greedy_mw) for each in clocked_states]),
        ]
        rows.append(["mean by weights", "", *(_w(mw) for mw in means), ""])
    said = "power by the model of the platform"
    if any(clocked.verdict.late for clocked in states.clocked.values()):
        said += "; a late state has the highest rates: "
    else:
        said += f", minimal among the rates that keep all deadlines, {RATES.in_words}: "
    if all(clocked.whole for clocked in states.clocked.values()):
        said += "every combination that takes less was tested"
    else:
        said += SLOWER
    least = states.least_power
    if least is not None:
        networks = any(joint.problem.networks for joint in states.joints.values())
        said += f"\n\n{_least_power(least, ' of these candidates' if networks else '')}"
    return f"{columns(rows, left=2)}\n\n{said}"


def _mean_power(powers: Iterable[tuple[Fraction, float | None]]) -> float | None:
    """The mean by weights, in mW; None if some power is unknown."""
    mean = 0.0
    for weight, mw in powers:
        if mw is None:
            return None
        mean += float(weight) * mw
    return mean


def _w(mw: float | None) -> str:
    return "-" if mw is None else f"{mw / 1e3:.3f}"


def _most(states: States) -> tuple[str, float] | None:
    """The state with the busiest processor."""
    shares = {
        s.state: max((u for _, u in s.utilization), default=0.0) for s in states.mapping.states
    }
    return max(shares.items(), key=lambda s: s[1]) if shares else None


def _own_as_data(states: States, name: str) -> dict[str, Any]:
    own = [p for bound in states.mapping.states if bound.state == name for p in bound.placements]
    return {"own_places": {p.task: p.processors[0] for p in own}} if own else {}


def _clocks_as_data(states: States, name: str) -> dict[str, Any]:
    if name not in states.clocked:
        return {}
    from ..driver.solve.clocks import RATES

    clocked = states.clocked[name]
    b = clocked.bound
    return {
        "clocks_hz": dict(b.clocks_hz),
        "energy_mw": b.energy_mw,
        "highest_mw": b.highest_mw,
        "greedy_mw": b.greedy_mw,
        "clocks_tested": clocked.tests,
        "clocks_combinations": clocked.combinations,
        "clocks_whole": clocked.whole,
        "clocks_over": asdict(RATES),
    }


def states_document(states: States, path: Path | None) -> dict[str, Any]:
    """As in docs/json.md."""
    most, outcome, least = _most(states), states.outcome, states.least_power
    return {
        "max_utilization": None if most is None else most[1],
        "states": {
            name: document(joint, None)
            | _own_as_data(states, name)
            | _best_as_data(states, name)
            | _clocks_as_data(states, name)
            for name, joint in states.joints.items()
        },
        "transitions": [asdict(t) for t in states.mapping.transitions],
        "file": None if path is None else str(path),
        "search": {
            "seconds": round(outcome.seconds, 3),
            "lower_bound": None if outcome.bound is None else float(outcome.bound),
            "optimal": outcome.proved and (least is None or least.proved),
            "optimal_over": asdict(outcome.scope),
        },
        **_power_as_data(least, states.mapping.effort.front),
    }
