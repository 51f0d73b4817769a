"""System F: CNNs that are alternatives of each other at run time, SBRS (Minakova's thesis, ch. 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from flowc.analysis.sbrs import (
    as_printed,
    delays,
    ends,
    line_6_fails,
    races,
    safe,
    safe_delays,
    switch,
)
from published_systems.rows import ARITHMETIC, Table, absent, board, by_benchmark, numbers, table

from minakova_examples import (
    EDGES,
    FIRST,
    ONE,
    SECOND,
    TABLES_5_4_AND_5_5,
    TWO,
    times_of_figure_5_5,
)

TITLE = "F. Run-time adaptive inference: SBRS"
SOURCE = "S. Minakova's thesis, chapter 5"

#: Table 5.4: frames per second of each scenario.
FPS = {
    "VOC": (15.41, 21.78, 20.26, 59.27, 75.07),
    "PAMAP2": (510.20, 1333.33, 970.87, 1052.63),
    "CIFAR": (231.80, 754.15, 538.79, 403.71),
}


def tables() -> Iterator[Table]:
    """All that the chapter has."""
    yield absent(
        "Tables 5.1 to 5.3, Figure 5.2.",
        "the parts of Fig. 5.4 one by one, names of applications, parameters of a search, and a drawing, which have no results",
    )
    yield absent(
        "Fig. 5.1, a flight with three designs of an application.",
        "curves of an example that was made up: power, accuracy and charge of a battery over two"
        " hours. Their numbers are in the picture only, but for the powers and accuracies of the"
        " networks, which the text states and from which nothing is computed",
    )
    yield _supergraph()
    yield _delays()
    yield _responses()
    yield board(
        "Fig. 5.6 and Table 5.4, fronts of networks.", "a search for networks that trains them"
    )
    yield _memory()
    yield _switches()
    yield _msdnet()


def _supergraph() -> Table:
    printed = as_printed([FIRST, SECOND])
    fixed = as_printed([FIRST, SECOND], frozenset({"inputs", "outputs"}))
    apart = safe([FIRST, SECOND])
    rows = [
        ("A = {I, O, par}", "6, 6", f"{printed.layers}, {printed.buffers}",
         f"{apart.layers}, {apart.buffers}", printed.shared_layers(), printed.shared_buffers()),
        ("A = {I, O}", "not told", f"{fixed.layers}, {fixed.buffers}", "-", fixed.shared_layers(),
         fixed.shared_buffers()),
    ]  # fmt: skip
    return table(
        "Figures 5.3 and 5.4, the supergraph of two scenarios (layers, edges).",
        "By Algorithm 5. It may make one layer of two branches of one network, which then write"
        " into one buffer; flowc's safe form keeps layers of one scenario apart.",
        "adaptive attributes | paper | Algorithm 5 | safe | layers shared | edges shared",
        rows,
        filled_by=by_benchmark(
            "the scenarios of Fig. 5.3 are layers with attributes and no ONNX files; of a network with"
            " variants `flowc analyze APP.flow` prints what SBRS makes, as printed and made safe"
        ),
    )


PAIRS = {"1 -> 2": (ONE, TWO), "2 -> 1": (TWO, ONE)}


def _delays() -> Table:
    rows = []
    told = {"1 -> 2": "1, 2, 3, 4, 5, 6", "2 -> 1": "not told"}
    for name, (old, new) in PAIRS.items():
        waits = delays(old, new)
        kept = safe_delays(old, new, EDGES[old], EDGES[new])
        raced = [races(old, new, EDGES[old], EDGES[new], w, 1) for w in (waits, kept)]
        rows.append((name, told[name], numbers(waits), raced[0], numbers(kept), raced[1]))
    return table(
        "Fig. 5.5, least delays X of a switch.",
        "Algorithm 6 lets a layer write a buffer that the old scenario still reads: *races* counts"
        " steps in which a layer meets data of the other frame, asked for in step 1. In flowc's"
        " delays a layer waits for the last old reader as well. A program of flowc changes between"
        " two frames, or breaks a firing off.",
        "switch | paper | Algorithm 6 | races | flowc | races",
        rows,
        filled_by=by_benchmark("as above"),
    )


def _responses() -> Table:
    times = times_of_figure_5_5()
    late = Fraction(1, 2)
    waits, kept = delays(ONE, TWO), safe_delays(ONE, TWO, EDGES[ONE], EDGES[TWO])
    found: dict[str, set[Fraction]] = {
        "naive": set(),
        "printed": set(),
        "one": set(),
        "safe": set(),
    }
    for t in times:
        of = dict(zip(TWO, t, strict=True))
        old, new = [of[x] for x in ONE], [of[x] for x in TWO]
        printed, apart = (switch(len(old), len(new), w, 1) for w in (waits, kept))
        found["naive"].add(sum(old, Fraction(0)) + sum(new, Fraction(0)) - late)
        found["printed"].add(ends(printed, old, new)[1] - late)
        found["one"].add(ends(printed, old, new, _in_turn)[1] - late)
        found["safe"].add(ends(apart, old, new)[1] - late)
    rows = [
        ("one after the other", "17.5", _span(found["naive"])),
        ("SBRS-TP, each frame with a processor", "12.5", _span(found["printed"])),
        ("SBRS-TP, both frames on one processor", "-", _span(found["one"])),
        ("safe delays, each frame with a processor", "-", _span(found["safe"])),
    ]
    return table(
        "Fig. 5.5, response delays.",
        f"The times of layers are in the picture only: these are all {len(times)} sets of times"
        " (multiples of a half up to 4) that fit the text. The gain is that of a second processor:"
        " on one, which the thesis' sequential execution means, there is none.",
        "switch | paper | computed",
        rows,
        filled_by=by_benchmark("as above"),
    )


def _in_turn(times: Sequence[Fraction]) -> Fraction:
    return sum(times, Fraction(0))


def _span(found: set[Fraction]) -> str:
    least, most = float(min(found)), float(max(found))
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def _memory() -> Table:
    rows = []
    for name, (own, naive, most, less, *printed) in TABLES_5_4_AND_5_5.items():
        for adaptive, shared, percent in zip(
            ("{I, O, par}", "{I, O}"), (most, less), printed, strict=True
        ):
            computed = 100 * (1 - shared / sum(own))
            rows.append(
                (name, adaptive, f"{naive:g}", f"{sum(own):.2f}", f"{shared:g}", f"{max(own):g}",
                 f"{percent:g}", f"{computed:.2f}")
            )  # fmt: skip
    return table(
        "Tables 5.4 and 5.5, memory of all scenarios (MB).",
        "The sums agree, and so do the reductions in % up to 0.3. But what is *shared* for VOC is less than"
        " its largest scenario alone takes: that is reuse of buffers inside of networks, which"
        " needs no other scenario.",
        "application | A | naive, paper | sum of Table 5.4 | shared, paper | largest alone | less,"
        " paper | computed",
        rows,
        filled_by=ARITHMETIC,
    )


def _switches() -> Table:
    """What Fig. 5.7 can show at most: delays without sharing, from the rates of Table 5.4."""
    rows = []
    for name, fps in FPS.items():
        ms = [1000 / f for f in fps]
        for k, new in enumerate(ms, 1):
            old = max(m for j, m in enumerate(ms, 1) if j != k)
            printed = "0.8, 0.7, 0.4 (from CNN2)" if (name, k) == ("PAMAP2", 1) else "picture"
            rows.append((name, f"CNN{k}", printed, f"{new:.2f}", f"{new + old:.2f}"))
    return table(
        "Fig. 5.7, response delays of real scenarios (ms).",
        "The text reads one group of bars: naive, SBRS-TP with A = {I, O, par}, and with {I, O}."
        " From the rates of Table 5.4 follow limits: every way takes at least the new frame alone,"
        " and one after the other at most the slowest other one before it. The bars that the text"
        " reads are below that: 0.8 ms where the new frame alone takes 1.96. SBRS-TP can save the"
        " rest of the old frame, never a part of the new one, and on one processor nothing.",
        "application | to | paper | every way, at least | one after the other, at most",
        rows,
        filled_by=ARITHMETIC,
    )


def _msdnet() -> Table:
    told = {"{I, O, par}": 77.68, "{I, O}": 97.6}
    rows = [(a, f"{mb:g}", "103.76", f"{100 * (1 - mb / 103.76):.1f}") for a, mb in told.items()]
    steps = delays("12348", "567")
    rows.append(("line 6 of Algorithm 7 reaches layer 0", "no", "-",
                 "yes" if line_6_fails(5, 3, steps, 1) else "no"))  # fmt: skip
    return table(
        "Section 5.10.4, memory beside MSDNet (MB), and Algorithm 7.",
        "The accuracies of Fig. 5.8 need both networks trained. Line 6 counts modulo the number of"
        " layers and so restarts a scenario, where the new one ends before the old one.",
        "A | SBRS, paper | MSDNet, paper | less in %",
        rows,
        filled_by=f"{ARITHMETIC}; line 6: the algorithm, in `analysis/sbrs.py`",
    )
