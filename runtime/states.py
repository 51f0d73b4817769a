"""What the report of a program says of its states: how long it was in each, what changes took, what
it all cost.

In: the controller. Out: data, and tables of the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

if TYPE_CHECKING:
    from .control import Control
    from .scenario import Change


def document(control: Control) -> Dict[str, Any]:
    """What the report says of states."""
    joules = {} if control.power is None else control.power.joules
    return {
        "states": {
            s.name: {
                "seconds": round(s.spent / 1e9, 6),
                "entered": s.entered,
                "joules": round(joules[s.name], 6) if s.name in joules else None,
            }
            for s in control.states.values()
        },
        "energy_from": control.power.source if joules and control.power is not None else None,
        "clocks": _clocks(control),
        "switches": [_switch(change) for change in control.changes],
        "stays": [{"state": s.state, "frames": s.frames} for s in control.stays],
        "events": {"ignored": control.ignored},
    }


def _switch(change: Change) -> Dict[str, Any]:
    """What the report says of a change; times from its event on."""
    bound = change.source.bounds.get(change.target.name)
    return {
        "from": change.source.name,
        "to": change.target.name,
        "event": change.event,
        "protocol": change.protocol,
        "drain_ms": round((change.drained - change.asked) / 1e6, 3),
        "first_ms": round((change.first - change.asked) / 1e6, 3) if change.first else None,
        "bound_ms": None if bound is None else round(bound / 1e6, 3),
        "control_ms": round(change.control / 1e6, 3) if change.entered else None,
    }


def _clocks(control: Control) -> Optional[str]:
    """Whether clock rates were set or played, or only the model knows them; None where no state
    wants any."""
    if not any(s.clocks for s in control.states.values()):
        return None
    return "model" if control.clocks is None else control.clocks.name


def table_rows(found: Dict[str, Any]) -> List[List[Sequence[Any]]]:
    """The same as tables: states, and changes by where they lead from and to."""
    states: List[Sequence[Any]] = [["state", "entered", "seconds"]]
    states += [[name, s["entered"], "%.3f" % s["seconds"]] for name, s in found["states"].items()]
    if found["energy_from"] is not None:
        states[0] = [*states[0], "joules (%s)" % found["energy_from"]]
        states[1:] = [
            [*row, None if s["joules"] is None else "%.3f" % s["joules"]]
            for row, s in zip(states[1:], found["states"].values())
        ]
    kinds: Dict[Tuple[str, str, str], List[Dict[str, Any]]] = {}
    for c in found["switches"]:
        kinds.setdefault((c["from"], c["to"], c["protocol"]), []).append(c)
    changes: List[Sequence[Any]] = [
        [
            "from",
            "to",
            "protocol",
            "times",
            "frames ended ms: mean",
            "max",
            "first frames ms: mean",
            "max",
            "bound",
        ]
    ]
    for kind, own in kinds.items():
        drains = [c["drain_ms"] for c in own]
        firsts = [c["first_ms"] for c in own if c["first_ms"] is not None]
        figures = [
            _mean(drains),
            max(drains),
            _mean(firsts),
            max(firsts) if firsts else None,
            own[0]["bound_ms"],
        ]
        changes.append([*kind, len(own), *figures])
    return [rows for rows in (states, changes) if len(rows) > 1]


def _mean(values: Sequence[float]) -> Optional[float]:
    return round(sum(values) / len(values), 3) if values else None
