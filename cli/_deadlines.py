"""Output of `map` for apps with deadlines: tables, reasons, the JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..driver.solve.deadlines import Joint
    from ..driver.solve.state_map import States
    from ..model.mapping import GroupBound
    from ..search.deadline.outcome import FewestCores


def joint_table(joint: Joint) -> str:
    """Processors with their utilization and tasks, apps with their bounds, and the quality of the
    answer."""
    from ..runtime.report import columns
    from ._tables import fitted

    mapping = joint.mapping
    if not mapping.groups:
        return f"{_search(joint)}\n{_nothing_found(joint)}"
    where: dict[str, list[str]] = {p: [] for p, _ in mapping.utilization}
    for p in mapping.placements:
        where[p.processors[0]].append(p.task)
    for n in mapping.networks:
        for k, s in enumerate(n.stages, 1):
            name = n.task if len(n.stages) == 1 else f"{n.task}.stage{k}"
            where[s.processors[0]].append(name)
    rows = [["processor", "runs", "utilization"]]
    for processor, share in mapping.utilization:
        rows.append([processor, _some(where[processor]), f"{share:.2%}"])
    tables = [fitted(rows, 2, 1)]
    ran = any(g.frames for g in mapping.groups)
    rows = [
        ["app", "", "response ms", "deadline ms", *(("longest seen ms", "missed") if ran else ())]
    ]
    for g in mapping.groups:
        word = ("schedulable" if g.schedulable else "too late") + (
            " if estimates hold" if g.conditional else ""
        )
        missed = "-" if g.deadline_ns is None else f"{g.missed} of {g.frames}"
        seen = [_ms(g.seen_ns), missed] if ran else []
        rows.append([g.app, word, _ms(g.response_ns), _ms(g.deadline_ns), *seen])
    tables.append(columns(rows, left=2))
    if any(g.paths for g in mapping.groups):
        tables.append(columns(list(_path_rows(mapping.groups, ran)), left=2))
    if joint.disturbed:
        assert joint.seen is not None
        tables.append(
            f"other programs had the cores for {joint.seen.delayed:.0%} of the time in which the"
            " program could have computed: bounds\nand what was seen are those of such a machine"
        )
    tables.append(_search(joint) + "\n" + _optimality(joint))
    if joint.doubt:
        tables.append(
            f"no bounds are known for the program itself; these assume other orders: {joint.doubt}"
        )
    return "\n\n".join(tables)


def _path_rows(groups: tuple[GroupBound, ...], ran: bool) -> Iterator[list[str]]:
    yield ["path", "", "latency ms", "deadline ms", *(("longest seen ms", "missed") if ran else ())]
    for p in (p for g in groups for p in g.paths):
        word = "" if p.deadline_ns is None else "met" if p.met else "too late"
        missed = "-" if p.deadline_ns is None else f"{p.missed} of {p.firings}"
        seen = [_ms(p.seen_ns), missed] if ran else []
        name = f"{p.source} -> {p.task.partition('.')[2]}"
        yield [name, word, _ms(p.latency_ns), _ms(p.deadline_ns), *seen]


def _ms(ns: int | None) -> str:
    return "-" if ns is None else f"{ns / 1e6:.2f}"


def _some(names: list[str], most: int = 4) -> str:
    short = [
        n.partition(".")[0] + "." + n.rpartition(".")[2] if n.count(".") > 1 else n for n in names
    ]
    return ", ".join(short[:most]) + (f" and {len(short) - most} more" if len(short) > most else "")


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
    if joint.outcome.impossible == "limits":
        return (
            f"no mapping{candidates} fits: processors would have more work or engines than they can"
            " hold"
        )
    if joint.outcome.impossible == "deadlines":
        return f"no mapping{candidates} is proved to keep all deadlines: every one was ruled out"
    return "no mapping that keeps all deadlines was found in this time"


def _optimality(joint: Joint) -> str:
    outcome = joint.outcome
    assert outcome.verdict is not None
    times = "" if joint.program is None else "by the times of the profile, "
    said = f"{times}maximum utilization {float(outcome.verdict.maximum):.4%}"
    if not outcome.verdict.feasible:
        return f"{said}: {_nothing_found(joint)}"
    if outcome.spared is not None:
        other = f"{float(outcome.spared):.4%} would be possible (`--objective utilization`)"
        return f"{said} on fewer processors, where {other}"
    candidates = " of these candidates" if joint.problem.networks else ""
    if outcome.cores is not None:
        said = f"{_cores(outcome.cores, candidates)}{said}"
    if outcome.proved:
        return f"{said}: proved, no mapping{candidates} that keeps all deadlines has less"
    if outcome.gap is not None:
        return (
            said + f": at most {outcome.gap:.3%} above the least possible"
            f" ({float(outcome.bound or 0):.4%})"
        )
    return said


def _cores(cores: FewestCores, candidates: str) -> str:
    """How many CPUs are enough, whether fewer are not, and what the sentence after it is about."""
    said = "1 CPU" if cores.count == 1 else f"{cores.count} CPUs"
    about = "on so many, " if cores.most is None else ""
    if cores.count == 1:
        return f"{said}; {about}"
    aim = "keeps all deadlines" if cores.most is None else "has so little utilization"
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
    tasks: dict[str, Any] = {p.task: p.processors[0] for p in mapping.placements}
    networks = {}
    for n in mapping.networks:
        for k, s in enumerate(n.stages, 1):
            tasks[n.task if len(n.stages) == 1 else f"{n.task}.stage{k}"] = s.processors[0]
        networks[n.task] = {
            "option": "-".join(s.processors[0] for s in n.stages),
            "cuts": [s.until for s in n.stages if s.until is not None],
            "stages": [
                {
                    "processors": list(s.processors),
                    "first_layer": None if k == 0 else n.stages[k - 1].until,
                    "last_layer": s.until,
                    "replicas": 1,
                    "streams": 1,
                    "predicted_ns": round(s.predicted_ns),
                }
                for k, s in enumerate(n.stages)
            ],
        }
    return {
        "max_utilization": max((u for _, u in mapping.utilization), default=None),
        "utilization": dict(mapping.utilization),
        "groups": {
            g.app: {
                "response_time_ns": g.response_ns,
                "deadline_ns": g.deadline_ns,
                "schedulable": g.schedulable,
                "conditional": g.conditional,
                **(
                    {"seen_ns": g.seen_ns, "frames": g.frames, "missed": g.missed}
                    if g.frames
                    else {}
                ),
                "paths": [
                    {
                        "source": p.source,
                        "task": p.task,
                        "latency_ns": p.latency_ns,
                        "deadline_ns": p.deadline_ns,
                        "met": p.met,
                        **(
                            {"seen_ns": p.seen_ns, "firings": p.firings, "missed": p.missed}
                            if g.frames
                            else {}
                        ),
                    }
                    for p in g.paths
                ],
            }
            for g in mapping.groups
        },
        "tasks": tasks,
        "networks": networks,
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
        },
    }


# -- scenarios -------------------------------------------------------------------------------------
def states_table(states: States) -> str:
    """The tables of every state, then the worst state."""
    tables = [
        f"state {name}{_variants(states, name)}\n\n{joint_table(joint)}"
        for name, joint in states.joints.items()
    ]
    if states.mapping.transitions:
        from ..runtime.report import columns

        rows = [["from", "to", "protocol", "change ms, at most", "of that the controller"]]
        rows += [
            [t.source, t.target, t.protocol, _ms(t.delay_ns), _ms(t.control_ns)]
            for t in states.mapping.transitions
        ]
        tables.append(columns(rows, left=3))
    if states.clocked:
        tables.append(_clocks(states))
    most = _most(states)
    if most is not None:
        name, share = most
        at_rates, at_highest = (
            (" at its clock rates", "at the highest rates, and ") if states.clocked else ("", "")
        )
        placement = (
            "places of their own for some states" if states.own else "one placement for all states"
        )
        said = (
            f"{placement}: the busiest processor needs {share:.4%} of its time{at_rates}, in"
            f" `{name}`"
        )
        if states.outcome.cores is not None:
            said = f"{_cores(states.outcome.cores, ' of these candidates')}{said}"
        bound = states.outcome.bound
        if states.outcome.proved:
            said += (
                f"; {at_highest}by the times of the profile, no placement of these candidates needs"
                " less"
            )
        elif bound:
            said += (
                f"; {at_highest}by the times of the profile, none needs less than"
                f" {float(bound):.4%}"
            )
        tables.append(said)
        if states.own:
            tables.append("\n".join(_elsewhere(states)))
    return "\n\n".join(tables)


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
    scenario = states.valid.system.scenario
    assert scenario is not None
    said = scenario.state(name).best_in_words()
    return f": {said}" if said else ""


def why_no_better(states: States, name: str) -> list[str]:
    """Why a state has no more accurate variants."""
    scenario = states.valid.system.scenario
    assert scenario is not None
    state, lines = scenario.state(name), []
    for r in (r for r in states.refused if r.state == name):
        where = "" if r.proved else " in what was found"
        lines.append(
            f"{state.best_in_words(r.option)} does not keep its deadlines and limits{where}:"
            f" {r.why}"
        )
    if state.best:
        lines.append(
            f"{state.best_in_words()}:"
            f" {'no option is more accurate' if not lines else 'the most accurate possible'}"
        )
    return lines


def why_rates(states: States, name: str) -> list[str]:
    """Why a state has its clock rates."""
    from ..driver.solve.clocks import why_these_rates

    clocked = states.clocked.get(name)
    return [] if clocked is None else [*why_these_rates(clocked, states.valid.platform)]


def _best_as_data(states: States, name: str) -> dict[str, Any]:
    scenario = states.valid.system.scenario
    assert scenario is not None
    state = scenario.state(name)
    if not state.best:
        return {}
    refused = [r for r in states.refused if r.state == name]
    return {
        "best": {n: v for n, v in state.choices if n in state.best},
        "refused": [
            {
                "choices": {n: v for n, v in state.options[r.option].choices if n in state.best},
                "why": r.why,
                "proved": r.proved,
            }
            for r in refused
        ],
    }


def _clocks(states: States) -> str:
    """Clock rates of states, and their power by the model, in W; the last line is the mean over all
    states."""
    from ..runtime.report import columns

    weights = {name: float(clocked.weight) for name, clocked in states.clocked.items()}
    bounds = {name: clocked.bound for name, clocked in states.clocked.items()}
    rows = [["state", "clock rates", "W", "highest rates W", "greedy W", "tested"]]
    for name, clocked in states.clocked.items():
        b = clocked.bound
        rates = ", ".join(f"{pool} {hz / 1e6:g} MHz" for pool, hz in b.clocks_hz) or "-"
        tested = f"{clocked.tests} of {clocked.combinations}"
        rows.append(
            [name, rates, *(_w(mw) for mw in (b.energy_mw, b.highest_mw, b.greedy_mw)), tested]
        )
    if len(bounds) > 1:
        means = []
        for kind in ("energy_mw", "highest_mw", "greedy_mw"):
            known = [getattr(b, kind) for b in bounds.values()]
            whole = (
                sum(weights[n] * mw for n, mw in zip(bounds, known, strict=True))
                if None not in known
                else None
            )
            means.append(_w(whole))
        rows.append(["mean by weights", "", *means, ""])
    said = "power by the model of the platform; no rates that keep all deadlines take less: "
    if all(clocked.whole for clocked in states.clocked.values()):
        said += "all that do were tested"
    else:
        said += (
            "proved by some that miss one, if slower clocks never make a deadline easier to keep"
        )
    return f"{columns(rows, left=2)}\n\n{said}"


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
    }


def states_document(states: States, path: Path | None) -> dict[str, Any]:
    """As in docs/json.md."""
    most = _most(states)
    outcome = states.outcome
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
            "optimal": outcome.proved,
        },
    }
