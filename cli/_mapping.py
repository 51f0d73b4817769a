"""What `map` prints of an answer: tables, reasons, a JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import inf
from typing import Any

from ..driver.solve.lists import CountedList
from ..driver.solve.map import Answer
from ..driver.solve.state_map import States
from ..driver.text.check import ValidScenario
from ..model.deployment import PlannedMemory
from ..model.diagnostic import listed
from ..model.mapping import (
    Contestant,
    Mapping,
    NetworkPlan,
    in_words,
    is_lower,
    race_in_words,
)
from ..runtime.report import columns
from ..search.throughput.design import EVERY_WAY
from ._deadlines import document as joint_document
from ._deadlines import (
    explanation,
    joint_table,
    states_document,
    states_table,
    why_elsewhere,
    why_no_better,
    why_rates,
)
from ._tables import fitted, folded, in_8_bits, in_one_piece

#: Characters of a configuration in the table; --explain prints the winner's in full.
WIDEST = 72
UNITS = {"throughput": "frames/s", "latency": "ms", "energy": "mJ", "memory": "frames/s"}


def text_of(mapped: Answer, *, explain: bool, evaluations: int | None) -> str:
    """An answer as a table, with the reasons for it if `explain`; `evaluations` is the budget, if
    it counts these.
    """
    mapping = mapped.mapping
    found = [_found(mapped, evaluations)]
    if mapped.lists:
        found.append(f"\n{_lists(mapped.lists)}")
    if mapping.memory is not None:
        found.append(_planned(mapping.memory))
    if mapped.guessed and mapped.path is None:
        found.append(f"\n{_not_stored(mapped.guessed)}")
    if mapped.evidence is None and not isinstance(mapped.valid, ValidScenario):
        found += in_8_bits(mapped.valid.losses)
    if explain:
        found += ["\n" + reason for reason in _reasons(mapped)]
    else:
        found += [folded(words, 2) for words in mapped.engines]
    return "\n".join(found)


def _not_stored(guessed: Sequence[str]) -> str:
    """Why a mapping that rests on guesses is not stored, and what to do."""
    words = (
        f"not stored: times of {listed(guessed, 4)} are guessed; measure them with `flowc profile`,"
        " or store it with `--keep`"
    )
    return folded(words, 0)


def _found(mapped: Answer, evaluations: int | None) -> str:
    """The table of the mapping itself."""
    if mapped.states is not None:
        return states_table(mapped.states)
    if isinstance(mapped.valid, ValidScenario):
        return _places(mapped.mapping)
    if mapped.joint is not None:
        return joint_table(mapped.joint)
    return table(mapped.mapping, evaluations)


def _reasons(mapped: Answer) -> list[str]:
    """Why the mapping is as it is."""
    why = mapped.mapping.why
    if mapped.states is not None:
        reasons = [_state_explained(mapped.states, name) for name in mapped.states.joints]
        reasons += [_folded(why)] if why else []
    elif isinstance(mapped.valid, ValidScenario):
        reasons = [_folded(why)] if why else []
    elif mapped.joint is not None:
        reasons = [_folded([*explanation(mapped.joint), *why])]
    else:
        reasons = [_folded(why)]
    for task, whole in in_one_piece(mapped.valid.system.apps).items():
        reasons.append(folded(f"{task} stays whole, on a CPU: it has {whole}", 2))
    return reasons


def _state_explained(states: States, name: str) -> str:
    lines = [
        *why_elsewhere(states, name),
        *why_no_better(states, name),
        *why_rates(states, name),
        *explanation(states.joints[name]),
    ]
    return f"{name}:\n{_folded(lines)}"


def _folded(lines: Iterable[str]) -> str:
    return "\n".join(folded(line, 2) for line in lines)


def _planned(memory: PlannedMemory) -> str:
    """The memory of networks."""
    parts = {"weights": memory.weights, "between layers": memory.buffers, "tokens": memory.tokens}
    if memory.arenas:
        parts["in arenas of devices"] = memory.arenas
    if memory.sessions:
        parts["for sessions"] = memory.sessions
    listed = ", ".join(f"{count / 1e6:.2f} {name}" for name, count in parts.items())
    return f"networks take {memory.total / 1e6:.2f} MB: {listed}"


def _lists(lists: Iterable[CountedList]) -> str:
    """How many tokens lists had, and with how many the answer counts."""
    rows = [["list", "tokens: mean", "most", "balanced with", "proved with"]]
    for x in lists:
        mean = "-" if x.mean is None else f"{x.mean:.3g}"
        most = "-" if x.most is None else str(x.most)
        rows.append([f"{x.task}.{x.port}", mean, most, f"{x.balanced:.3g}", str(x.limit)])
    return columns(rows)


def _places(mapping: Mapping) -> str:
    """The places of everything, in all states."""
    rows = [["task", "runs on"]]
    rows += [[p.task, ", ".join(p.processors)] for p in mapping.placements]
    return columns([*rows, *([n.task, in_words(n)] for n in mapping.networks)], left=2)


def table(mapping: Mapping, limit: int | None) -> str:
    """The contestants with their values, and the effort of the search; `limit` is its budget of
    evaluations, if it has one."""
    unit = UNITS[mapping.effort.objective]
    heading = ["contestant", "configuration", f"predicted {unit}", f"measured {unit}", "runs"]
    latencies = mapping.effort.objective == "throughput"
    rows = [[*heading, "latency ms"] if latencies else heading]
    for contestant in mapping.contestants:
        configuration = contestant.configuration
        if len(configuration) > WIDEST:
            configuration = configuration[: WIDEST - 3] + "..."
        predicted = _value(mapping, contestant.predicted_ns)
        measured = _value(mapping, contestant.measured_ns)
        row = [contestant.name, configuration, predicted, measured, f"{contestant.runs}"]
        rows.append([*row, _latency(contestant)] if latencies else row)
    effort = mapping.effort
    looked, ran = f"{effort.evaluations} configurations", f"{effort.measured_runs} runs"
    if limit is not None and effort.measured_runs:  # then runs are counted
        ran = f"{effort.measured_runs} of {limit} runs"
    elif limit is not None and effort.evaluations <= limit:
        looked = f"{effort.evaluations} of {limit} configurations"
    said = f"{looked}, {ran}, {effort.seconds:.1f} s"
    if effort.lower_bound_ns and effort.objective == "throughput":
        most = f"{1e9 / effort.lower_bound_ns:.4g} frames/s"
        over = EVERY_WAY.in_words
        said += f"; by the times of the profile, no mapping has more than {most}, {over}"
    return fitted(rows, 2, 1) + f"\n\n{_decision(mapping)}{mapping.search}: {said}"


def _decision(mapping: Mapping) -> str:
    """How the race ended, or why predictions chose another one than the best; a line of its own."""
    if not mapping.contestants or mapping.effort.objective == "memory":
        return ""
    first, *others = mapping.contestants
    raced = race_in_words(mapping)
    if raced:
        return f"{raced}\n"
    better = [c for c in others if 0 < c.predicted_ns < first.predicted_ns]
    if first.measured_ns is not None or not better:
        return ""
    best = min(better, key=lambda c: c.predicted_ns)
    wins = f"the simpler `{first.name}` wins"
    if is_lower(first.predicted_latency_ns, best.predicted_latency_ns):
        wins = f"`{first.name}` wins, whose latency is lower"
    return f"`{best.name}` is not better by 1 %: within the tie margin {wins}\n"


def _latency(contestant: Contestant) -> str:
    """The measured latency of a configuration, or the predicted one of one that was not run."""
    if contestant.latency_ns is not None:
        return f"{contestant.latency_ns / 1e6:.4g}"
    if contestant.predicted_latency_ns is not None:
        return f"predicted {contestant.predicted_latency_ns / 1e6:.4g}"
    return "-"


def _value(mapping: Mapping, ns: float | None) -> str:
    if not ns or ns == inf:
        return "-"
    if UNITS[mapping.effort.objective] == "frames/s":
        return f"{1e9 / ns:.4g}"
    return f"{ns / 1e6:.4g}"


def document(mapped: Answer) -> dict[str, Any]:
    """As in docs/json.md: shares of processors, places of tasks, stages of networks, contestants,
    effort."""
    found = _document(mapped)
    if mapped.engines:
        found["engines"] = list(mapped.engines)
    if mapped.lists:
        found["lists"] = [asdict(counted) for counted in mapped.lists]
    return found


def _document(mapped: Answer) -> dict[str, Any]:
    mapping = mapped.mapping
    if mapped.states is not None:
        return states_document(mapped.states, mapped.path)
    if mapped.joint is not None:
        return joint_document(mapped.joint, mapped.path)
    tasks: dict[str, Any] = {p.task: list(p.processors) for p in mapping.placements}
    for plan in mapping.networks:
        tasks[plan.task] = sorted({p for stage in plan.stages for p in stage.processors})
    found: dict[str, Any] = {
        "tasks": tasks,
        "networks": {plan.task: _network(mapping, plan) for plan in mapping.networks},
        "why": list(mapping.why),
    }
    if mapping.memory is not None:
        found["memory"] = mapping.memory.figures | {"total": mapping.memory.total}
    found["file"] = None if mapped.path is None else str(mapped.path)
    found["search"] = _effort(mapping)
    return found


def _network(mapping: Mapping, plan: NetworkPlan) -> dict[str, Any]:
    """The stages of a network, and the contestants for it."""
    found: dict[str, Any] = {
        "option": "",
        "cuts": [stage.until for stage in plan.stages if stage.until is not None],
        "stages": _stages(plan),
        "predicted_fps": None,
        "measured_fps": None,
        "contestants": [_contestant(mapping, contestant) for contestant in mapping.contestants],
    }
    if mapping.contestants:
        best = mapping.contestants[0]
        found["option"] = best.name
        found["predicted_fps"] = _frames_per_second(mapping, best.predicted_ns)
        found["measured_fps"] = _frames_per_second(mapping, best.measured_ns)
    return found


def _stages(plan: NetworkPlan) -> list[dict[str, Any]]:
    stages = []
    first_layer = None
    for stage in plan.stages:
        stages.append(
            {
                "processors": list(stage.processors),
                "first_layer": first_layer,
                "last_layer": stage.until,
                "replicas": len(stage.processors),
                "streams": stage.streams,
                "threads": stage.threads,
                "engine": stage.engine or None,
                "precision": stage.precision or None,
                "bands": [asdict(bands) for bands in stage.bands],
                "predicted_ns": round(stage.predicted_ns) or None,
            }
        )
        first_layer = stage.until
    return stages


def _contestant(mapping: Mapping, contestant: Contestant) -> dict[str, Any]:
    return {
        "name": contestant.name,
        "configuration": contestant.configuration,
        "predicted_fps": _frames_per_second(mapping, contestant.predicted_ns),
        "measured_fps": _frames_per_second(mapping, contestant.measured_ns),
        "runs": contestant.runs,
        "predicted_latency_ms": _in_ms(contestant.predicted_latency_ns),
        "measured_latency_ms": _in_ms(contestant.latency_ns),
    }


def _in_ms(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1e6, 3)


def _effort(mapping: Mapping) -> dict[str, Any]:
    effort = mapping.effort
    bound = effort.lower_bound_ns
    return {
        "name": mapping.search,
        "objective": effort.objective,
        "seed": effort.seed,
        "evaluations": effort.evaluations,
        "measured_runs": effort.measured_runs,
        "decision": effort.decision,
        "seconds": round(effort.seconds, 3),
        "lower_bound": None if bound is None else round(bound),
        "optimal": effort.optimal,
        "optimal_over": asdict(effort.scope) if effort.optimal else None,
        "bound_over": None if bound is None else asdict(EVERY_WAY),
    }


def _frames_per_second(mapping: Mapping, ns: float | None) -> float | None:
    """The rate of a time between frames; None if the value of the objective is an energy."""
    if mapping.effort.objective == "energy" or not ns or ns == inf:
        return None
    return round(1e9 / ns, 3)
