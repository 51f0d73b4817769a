"""The user's objectives of a mapping, in order of importance.

In: the words of `--objective`, and the kind of problem. Out: the objectives of a search for it, or
the reason why that kind of problem does not have one.

- `deadlines`: apps that have periods, alone or beside others. Deadlines are limits; objectives
  select among mappings that meet them.
- `throughput`: apps that run as fast as they can.
"""

from __future__ import annotations

from typing import Literal

from ..model.diagnostic import Diagnostic, Errors, one_of

Kind = Literal["throughput", "deadlines"]

#: All objectives with their meanings.
OBJECTIVES = {
    "utilization": "the least maximum utilization of all processors",
    "cores": "the fewest CPUs",
    "memory": "the least memory of networks",
    "throughput": "the most frames per second",
    "latency": "the least time of one frame from start to end",
    "energy": "the least mean power; without periods, the least energy of networks per frame",
    "accuracy": "the most accurate variants of networks",
}

#: The supported lists. The empty one is the default.
_POSSIBLE: dict[Kind, tuple[tuple[str, ...], ...]] = {
    "deadlines": (
        (),
        ("utilization",),
        ("utilization", "cores"),
        ("cores",),
        ("cores", "utilization"),
        ("memory",),
        ("memory", "utilization"),
        ("memory", "utilization", "cores"),
        ("memory", "cores"),
        ("memory", "cores", "utilization"),
        ("energy",),
    ),
    "throughput": (
        (),
        ("throughput",),
        ("latency",),
        ("energy",),
        ("memory",),
        ("memory", "throughput"),
    ),
}

#: Why a kind of problem does not have an objective, and the remedy.
_REASONS: dict[Kind, dict[str, tuple[str, str]]] = {
    "deadlines": {
        "throughput": (
            "apps have periods, which are their throughput",
            "`--fps` or `--sweep fps=...` looks for the highest rate",
        ),
        "latency": (
            "response times of apps with periods are limits",
            "give apps or paths a `deadline`",
        ),
        "accuracy": (
            "the text says where variants of networks are chosen",
            "write `network = best` in a state: accuracy comes before all objectives there",
        ),
    },
    "throughput": {
        "utilization": (
            "apps without periods keep processors as busy as they can",
            "give every app a `period`",
        ),
        "cores": (
            "apps without periods use all CPUs that make them faster",
            "give every app a `period`, or use fewer CPUs with `--cores`",
        ),
        "accuracy": (
            "the text says where variants of networks are chosen",
            "write `network = best` in a state: accuracy comes before all objectives there",
        ),
    },
}


def words_of(text: str) -> tuple[str, ...]:
    """The words of a list such as `cores, utilization`."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def objectives(words: str, kind: Kind) -> tuple[str, ...]:
    """The objectives of a list such as `cores,utilization`; none if the list is empty.

    Raises Errors (F538) for unknown objectives, and for a list that this kind of problem does not
    support.
    """
    wanted = words_of(words)
    unknown = [word for word in wanted if word not in OBJECTIVES]
    if unknown:
        message = f"there is no objective `{unknown[0]}`"
        raise Errors([Diagnostic("F538", message, None, help=f"it is one of {one_of(OBJECTIVES)}")])
    faults = []
    for word in wanted:
        if word in _REASONS[kind]:
            reason, help_text = _REASONS[kind][word]
            message = f"`{word}` is not an objective for this text: {reason}"
            faults.append(Diagnostic("F538", message, None, help=help_text))
    if faults:
        raise Errors(faults)
    if wanted not in _POSSIBLE[kind]:
        possible = [",".join(order) for order in _POSSIBLE[kind] if order]
        message = f"this order of objectives is not supported for this text: `{','.join(wanted)}`"
        raise Errors([Diagnostic("F538", message, None, help=f"it is one of {one_of(possible)}")])
    return wanted
