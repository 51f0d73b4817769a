"""System B: CNNs in scenarios with deadlines and clock rates (Kim's thesis, ch. 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from flowc.model.mapping import StateBound
from published_systems import cameras, texts
from published_systems.bounds import equation_4_2
from published_systems.rows import ARITHMETIC, Table, absent, board, numbers, same, table

from kim_examples import (
    BS,
    EVALUATION,
    FSM,
    GB,
    GB_BY_STATE,
    LS,
    PR,
    SOTA,
    TABLE_4_4,
    TABLE_4_7,
    TABLE_4_9,
    TABLE_4_10,
    WHOLE,
)
from paper_counts import candidate_count

TITLE = "B. Scenarios: mappings and clock rates of several CNNs"
SOURCE = "J. Kim's thesis, chapter 4"

#: The scenario that clock rates are searched for: its states have one to four cameras. Evaluations
#: of the search for its mapping, and the periods of its states in ms.
SCENARIO, EVALUATIONS, PERIODS_MS = "D", 200, (80, 60, 40)
#: The search of the thesis, and the period at which methods are compared.
THESIS = {"search": "paper:scenario-ga", "evaluations": 30}
PERIOD_MS = 60


def tables() -> Iterator[Table]:
    """All that the chapter has."""
    yield absent(
        "Tables 4.1 to 4.3 and 4.6, Figures 4.1 to 4.5 and 4.8.",
        "related work, notation, options, the networks of the cases, and drawings, which have no results",
    )
    yield _candidates()
    yield equation_4_2()
    yield _highest()
    yield _mappings()
    yield _rates()
    yield _frequencies()
    yield _methods()
    yield _effort()
    yield board(
        "Figures 4.6 and 4.9, energies of each rate, and measured ones.",
        "an AGX Xavier, and its powers at each rate",
    )


def _candidates() -> Table:
    rows = []
    for name, (layers, cuts, every, pareto) in TABLE_4_4.items():
        computed = candidate_count(cuts)
        rows.append(
            (name, layers, cuts, every, computed, pareto, f"{100 * pareto / computed:.2f}",
             same(every, computed))
        )  # fmt: skip
    return table(
        "Table 4.4, candidate mappings.",
        "1 + n + 2 C(n,2) + C(n,3) for n cut points over the options of Table 4.3. The text says"
        " that 0.2 to 8.6 % of them are Pareto-optimal.",
        "network | layers | cut points | candidates, paper | computed | Pareto-optimal | in % | ",
        rows,
        filled_by=ARITHMETIC,
    )


def _highest() -> Table:
    rows = []
    for n, (case, name) in enumerate((c, f) for c in ("alpha", "beta") for f in "ABCD"):
        over = [f"{100 * (PR[n] / other[n] - 1):.1f}" for other in (BS, GB, GB_BY_STATE, SOTA)]
        methods = [LS, PR, GB, GB_BY_STATE, SOTA, BS]
        rows.append((case, f"FSM-{name}", *(rates[n] for rates in methods), *over))
    return table(
        "Tables 4.5 and 4.8, highest frames per second.",
        "*Proposed* over the baseline is said to be 15 to 86 % (computed: 15.2 to 86.7), over one"
        " mapping for all up to 40 %. FSM-D has a state with all apps, so both are equal there."
        " *By state* is the global mapping at the highest rate at which each single state keeps its"
        " deadlines (section 4.5.3.2): against it, *proposed* gains at most 10 %, and nothing in"
        " case beta. *SOTA* is the work [12] of the thesis, a mapping from estimated times. For"
        " the four cameras of the HOPES example flowc searches state by state as well:"
        " [`benchmarks/clocks.py`](../performance.md#clock-rates-of-states), about ten minutes.",
        "case | scenario | local | proposed | global | global, by state | SOTA | baseline | over"
        " baseline in % | over global in % | over global, by state in % | over SOTA in %",
        rows,
        filled_by=ARITHMETIC,
    )


def _mappings() -> Table:
    told = {
        "alpha, all": ("D[0-29] G[30-53]", 54),
        "beta, app 0": ("D[0-29] D[30-40] G[41-53]", 54),
        "beta, app 1": ("D[0-16] G[17-23]", 24),
        "beta, app 2": ("D[0-16] G[17-34]", 35),
        "beta, app 3": ("G[0-178]", 179),
    }
    rows = []
    for name, (mapping, layers) in told.items():
        last = int(mapping.rstrip("]").rpartition("-")[2])
        stages = mapping.count("[")
        on_dla = mapping.count("D[")
        rows.append((name, mapping, stages, on_dla, same(layers, last + 1)))
    return table(
        "Table 4.9 (a), mappings for FSM-A.",
        "Layers are those of Table 4.4 (last column). Case alpha needs four loadables for DLAs,"
        " beta four as well: the limit of its TensorRT, which flowc checks for every mapping"
        " (`engines` of a platform).",
        "app | mapping, paper | stages | on DLAs | layers",
        rows,
        filled_by=ARITHMETIC,
    )


def _rates() -> Table:
    rows = []
    for (case, fps), own in TABLE_4_9.items():
        wrong = [
            f"{mhz:g} is not in Table 4.7"
            for kind, mhz in own.items()
            if mhz not in TABLE_4_7[kind]
        ]
        rows.append(
            (case, fps, f"{own['cpu']:g}", f"{own['gpu']:g}", numbers(wrong) or "in Table 4.7")
        )
    return table(
        "Table 4.9 (b), clock rates in MHz of one state of FSM-A.",
        "The rates of one state for three deadlines, with DLAs at their highest. The powers behind"
        " them are in pictures only, so they cannot be searched again; flowc's own table follows.",
        "case | fps | CPU | GPU | ",
        rows,
        filled_by=ARITHMETIC,
    )


def _mhz(bound: StateBound) -> str:
    rates = dict(bound.clocks_hz)
    return " / ".join(f"{float(rates[pool]) / 1e6:g}" for pool in cameras.POOLS)


def _frequencies() -> Table:
    rows = []
    above = []
    cameras.write_scenario("fsm_d", FSM[SCENARIO], PERIODS_MS)
    found = texts.mapped("fsm_d", "clocked", evaluations=EVALUATIONS)
    bounds = {bound.state: bound for bound in found.mapping.states}
    for number, running in enumerate(FSM[SCENARIO]):
        cells = []
        for ms in PERIODS_MS:
            bound = bounds[cameras.state_name(number, ms)]
            if bound.energy_mw is None or bound.greedy_mw is None:
                cells.append("late")
                continue
            above.append(float(bound.greedy_mw / bound.energy_mw) - 1)
            star = " *" if above[-1] > 1e-9 else ""
            cells.append(_mhz(bound) + star)
        rows.append((f"FSM-{SCENARIO}", f"sc{number}: {numbers(running)}", *cells))
    shown = numbers(f"{k} {numbers(v)}" for k, v in (("alpha B", TABLE_4_10["alpha", "B"]),
                                                     ("beta D", TABLE_4_10["beta", "D"])))  # fmt: skip
    missed = sum(more > 1e-9 for more in above)
    return table(
        "Tables 4.5, 4.7 and 4.10, a table of clock rates for each state and deadline (CPU / GPU /"
        " DLA in MHz).",
        f"The thesis makes one for deadlines such as {shown} frames per second; its rates are in no"
        " table but 4.9. Here are the four cameras of the HOPES example in the states of FSM-D"
        " (FSM-B and C have other pairs and triples of the same), with one mapping for all states,"
        " and powers that are made up (voltages that rise with the rate):"
        f" each cell is the least power of {prod(map(len, TABLE_4_7.values())):,} combinations that"
        " keeps every deadline. A star: Algorithm 6 ends above it, in"
        f" {missed} of {len(above)} cells, by up to {max(above):.1%}.",
        "scenario | state: cameras | " + " | ".join(f"{1000 / ms:.1f} fps" for ms in PERIODS_MS),
        rows,
        filled_by=texts.command("fsm_d", "clocked", evaluations=EVALUATIONS),
    )


def _methods() -> Table:
    rows = [_methods_of(SCENARIO)]
    return table(
        f"Figure 4.7, mean power of the methods, at {1000 / PERIOD_MS:.1f} frames/s.",
        "The thesis shows ratios of energies in a picture. Here are the four cameras of the HOPES"
        " example with the powers of the table above, in watts over all states. *Local* maps each"
        " state by itself, as no program of the thesis can. *PR* is its search over all states."
        " *PR-GB* has the places that take least for all four cameras at once (the only state that"
        " counts), *baseline* each network on the GPU. *flowc* is the default. The search of the"
        f" thesis looks at {THESIS['evaluations']} chromosomes, some 2 s each; it looked at up to"
        " 1,280,000.",
        "scenario | local (LC) | proposed (PR) | PR-GB | baseline (BS) | flowc",
        rows,
        filled_by=texts.command(
            f"fsm_d_{PERIOD_MS}",
            "clocked",
            **THESIS,
        )
        + f"; the last two columns without `--search`, with `--evaluations {EVALUATIONS}`",
    )


def _methods_of(name: str) -> tuple[str, ...]:
    """A row for a scenario."""
    states = FSM[name]
    stem = f"fsm_{name.lower()}_{PERIOD_MS}"
    alone = [_mean_w(f"{stem}_{n}", (state,), **THESIS) for n, state in enumerate(states)]
    known = [watts for watts in alone if watts is not None]
    local = sum(known) / len(known) if known == alone else None
    found = [
        local,
        _mean_w(stem, states, **THESIS),
        _mean_w(f"{stem}_all", states, for_all=True, **THESIS),
        _mean_w(f"{stem}_gpu", states, cameras.on_gpu(), evaluations=EVALUATIONS),
        _mean_w(stem, states, evaluations=EVALUATIONS),
    ]
    return (f"FSM-{name}", *map(_in_w, found))


def _mean_w(
    stem: str,
    states: Sequence[tuple[int, ...]],
    pins: str = "",
    *,
    for_all: bool = False,
    **asked: object,
) -> float | None:
    """The mean power of the answer for a scenario; None if some state is late. The answer may be
    the best one `for_all` cameras at once, which then are the only state that counts."""
    every = [*states, *([(0, 1, 2, 3)] if for_all else [])]
    last = "weight 1" if for_all else ""  # others have what is left of one
    cameras.write_scenario(stem, every, (PERIOD_MS,), last=last, pins=pins)
    bounds = texts.mapped(stem, "clocked", **asked).mapping.states
    powers = [bound.energy_mw for bound in bounds[: len(states)]]
    late = any(not group.schedulable for bound in bounds for group in bound.groups)
    if late or None in powers or len(powers) < len(states):
        return None
    return sum(float(mw) for mw in powers if mw is not None) / 1000 / len(powers)


def _in_w(watts: float | None) -> str:
    return "late" if watts is None else f"{watts:.3f}"


def _effort() -> Table:
    rows = []
    for what, (fast, slow), claim in (("an evaluation", EVALUATION, 26), ("a search", WHOLE, 28)):
        ratios = [b / a for a, b in zip(fast, slow, strict=True)]
        rows.append((what, f"at least {claim}", f"{min(ratios):.1f} to {max(ratios):.1f}"))
    return table(
        "Table 4.11, how many times as fast the greedy rule is as all combinations.",
        "Computed from its seconds. flowc's `optimal` proves the optimum by testing a few dozen to"
        " a few hundred of the 1,120, see [clock rates of"
        " states](../performance.md#clock-rates-of-states).",
        "of | paper | computed",
        rows,
        filled_by=ARITHMETIC,
    )
