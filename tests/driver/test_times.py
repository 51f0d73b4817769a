"""One rule for how long a firing takes: every verb counts with the numbers of `times_of`, and none
contradicts another."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import product
from pathlib import Path

import flowc
import pytest
from flowc.analysis.dataflow import liveness
from flowc.analysis.dataflow.analyze import limits
from flowc.cli import app
from flowc.driver.exchange.export import export
from flowc.driver.plan.program import place
from flowc.driver.show.analyze import Analyzed, analyze
from flowc.driver.show.show import look
from flowc.driver.solve.map import Answer, find_mapping
from flowc.driver.text import store
from flowc.driver.text.check import Checked, Valid, ValidScenario
from flowc.model.diagnostic import Diagnostic, Errors
from flowc.model.times import MARGIN, Times, times_of
from typer.testing import CliRunner

from builds import ROOT, Write, store_profile
from drawn import MS, US, Entry, draw, store_entries

#: Seconds that a search gets where any of its answers will do.
MOMENT = 0.02
#: A task with two programs between two that only a CPU runs.
TEXT = """
task Source {{ out x: float32[1]  python "code.py:source" }}
task Both {{
    in x: float32[1]   out y: float32[1]
    python "code.py:both"
    on gpu cuda "code.cu:both" grid[1] block[1]
    {wcet}
}}
task Sink {{ in y: float32[1]  python "code.py:sink" }}
app A {{ {period} source: Source   both: Both   sink: Sink   source -> both -> sink }}
platform board {{ cpu core[2] gpu volta }}
{mapping}
"""
PYTHON = "def source(): return [1]\ndef both(x): return x\ndef sink(y): pass\n"
CUDA = 'extern "C" __global__ void both(const float* x, float* y) { y[0] = x[0]; }\n'
ENDS = (Entry("A.source", "cpu", 300 * US), Entry("A.sink", "cpu", 200 * US))


def both(write: Write, *, wcet: str = "", period: str = "", mapping: str = "") -> Path:
    pins = f"mapping on board {{ {mapping} }}" if mapping else ""
    return write(TEXT.format(wcet=wcet, period=period, mapping=pins), code_py=PYTHON, code_cu=CUDA)


def status(verb: str, flow: Path, *words: str) -> int:
    return CliRunner().invoke(app, [verb, str(flow), "--platform", "board", *words]).exit_code


# -- what every verb says --------------------------------------------------------------------------
def analyzed_ns(flow: Path) -> dict[str, tuple[Fraction, ...]]:
    """What `analyze` counts with."""
    return analyze(flow, platform="board").apps["A"].times.ns


def drawn_ns(flow: Path) -> dict[str, Fraction]:
    """How long the first bar of each task is in a chart of `show`."""
    (chart,) = look(flow, platform="board").charts(iterations=1)
    return {f"A.{b.task}": Fraction(b.end - b.start) for b in reversed(chart.bars)}


def exported_ns(flow: Path) -> dict[str, Fraction]:
    """The first time of each actor in the SDF3 file that `export` writes, which names its unit."""
    text = export(flow, "sdf3", platform="board").text
    unit = re.search(r"Execution times are in ([^.]*)\.", text)
    assert unit is not None
    times = re.findall(r'actorProperties actor="(\w+)">.*?<executionTime time="(\d+)', text, re.S)
    parts = re.match(r"(?:1/(\d+) of )?(?:a )?(?:ns|nanosecond)", unit[1])
    return {f"A.{name}": Fraction(int(ns), int((parts and parts[1]) or 1)) for name, ns in times}


def expected(flow: Path) -> tuple[Times, Valid]:
    valid = flowc.check(flow, platform="board").require()
    profile, stale = store.read_profile(valid)
    assert not stale
    return times_of(valid.system, valid.platform, profile), valid


# -- known cases -----------------------------------------------------------------------------------
BOXES = """
task A {{ out x  wcet 6 ms }}
task B {{ in x  wcet 6 ms }}
app P {{ period {period}  {deadline}  a: A  b: B  a -> b }}
platform board {{ cpu core[2] }}
"""


@pytest.mark.parametrize("measured_us", [1000, 9000])
@pytest.mark.parametrize(
    ("period", "deadline", "possible"),
    [
        ("20 ms", "deadline 10 ms", False),
        ("10 ms", "", False),
        ("5 ms", "deadline 50 ms", False),
        ("20 ms", "deadline 12 ms", True),
    ],
)
def test_declared_times_decide_for_every_verb(
    write: Write, period: str, deadline: str, possible: bool, measured_us: int
) -> None:
    """Whatever was measured: a smaller time does not make a deadline that the text rules out, nor a
    larger one break it."""
    flow = write(BOXES.format(period=period, deadline=deadline))
    store_entries(flow, [Entry(f"P.{t}", "cpu", measured_us * US) for t in "ab"])
    verbs = {verb: status(verb, flow) == 0 for verb in ("check", "analyze", "map")}
    assert verbs == dict.fromkeys(verbs, possible)


def test_only_measured_times_let_map_decide_and_are_no_verdict_of_the_text(write: Write) -> None:
    flow = write(BOXES.format(period="20 ms", deadline="deadline 10 ms").replace("wcet 6 ms", ""))
    store_entries(flow, [Entry("P.a", "cpu", 6 * MS), Entry("P.b", "cpu", 6 * MS)])
    assert [status(verb, flow) for verb in ("check", "analyze", "map")] == [0, 0, 1]
    store_entries(flow, [Entry("P.a", "cpu", 4 * MS), Entry("P.b", "cpu", 6 * MS)])
    assert [status(verb, flow) for verb in ("check", "analyze", "map")] == [0, 0, 0]


def said_of(flow: Path) -> tuple[int, str]:
    """The exit status of `check`, and what it says of periods and deadlines."""
    done = CliRunner().invoke(app, ["check", str(flow), "--platform", "board"])
    (line,) = (line for line in done.output.splitlines() if "schedulable" in line)
    return done.exit_code, re.sub(" +", " ", line.strip())


@pytest.mark.parametrize(
    ("wcet", "arrow", "says"),
    [
        ("wcet 1 ms", "latest", "no time of `from_A_a` is known: give its arrow one, `-> latest wcet 20 us ->`, or"),
        ("", "latest wcet 1 us", "no time of `b` is known: give `wcet`, or"),
        ("", "latest", "times are not known: give `wcet`, or"),
    ],
)  # fmt: skip
def test_check_names_what_lacks_a_time(write: Write, wcet: str, arrow: str, says: str) -> None:
    flow = write(
        f"task Make {{ out x: int32   wcet 1 ms }}\ntask Take {{ in x: int32   {wcet} }}\n"
        f"app A {{ period 50 ms   a: Make }}\napp B {{ period 50 ms   b: Take   A.a -> {arrow} -> b }}\n"
    )
    verdict = flowc.check(flow).verdicts["B"].schedulable
    assert verdict.holds is None and verdict.witness == f"{says} map and measure"


@pytest.mark.parametrize(
    ("period", "deadline", "a", "b", "says"),
    [
        ("20 ms", "", (6, 6), (6, 6), "yes by worst cases of the stored profile, no proof: one processor is enough: 12 ms of work in 20 ms"),
        ("10 ms", "deadline 30 ms", (6, 6), (6, 6), "not decided by worst cases of the stored profile, no proof: 12 ms of work in 10 ms: it depends on the mapping"),
        ("5 ms", "deadline 50 ms", (6, 6), (1, 1), "no at mean times of the stored profile, no proof: `a` takes 6 ms per iteration, longer than the period of 5 ms"),
        ("20 ms", "deadline 10 ms", (6, 6), (6, 6), "no at mean times of the stored profile, no proof: on any mapping `b` may end 12 ms after the release of an iteration: the deadline is 10 ms"),
        ("5 ms", "deadline 50 ms", (2, 6), (1, 1), "not decided worst cases of the stored profile do not guarantee it: `a` takes 6 ms per iteration, longer than the period of 5 ms"),
    ],
)  # fmt: skip
def test_check_counts_with_measured_times_where_the_text_has_none(
    write: Write, period: str, deadline: str, a: tuple[int, int], b: tuple[int, int], says: str
) -> None:
    """Each task with its mean and its worst case in ms. None of it is an error: nothing is proved."""
    flow = write(BOXES.format(period=period, deadline=deadline).replace("wcet 6 ms", ""))
    unknown = "not decided times are not known: give `wcet`, or map and measure"
    assert said_of(flow) == (0, f"schedulable {unknown}")
    entries = []
    for name, (mean, worst) in (("P.a", a), ("P.b", b)):
        entries.append(Entry(name, "cpu", worst * MS, mean * MS))
    store_entries(flow, entries)
    assert said_of(flow) == (0, f"schedulable {says}")
    done = CliRunner().invoke(app, ["check", str(flow), "--platform", "board", "--json"])
    document = json.loads(done.stdout)
    verdict, reason = re.split(" (?=by|at|worst)", says, maxsplit=1)
    holds = {"yes": True, "no": False, "not decided": None}[verdict]
    assert document["ok"] and document["diagnostics"] == []
    assert document["apps"]["P"]["schedulable"] is None
    assert document["apps"]["P"]["measured"] == {"schedulable": holds, "reason": reason}


def test_what_no_time_decides_is_not_said_to_be_measured(write: Write) -> None:
    """Without a period latencies depend on the mapping, whatever tasks take."""
    text = BOXES.format(period="", deadline="deadline 30 ms from a to b")
    flow = write(text.replace("wcet 6 ms", "").replace("period ", ""))
    before = flowc.check(flow, platform="board").verdicts
    store_entries(flow, [Entry("P.a", "cpu", 6 * MS), Entry("P.b", "cpu", 6 * MS)])
    assert flowc.check(flow, platform="board").verdicts == before
    assert before["P"].schedulable.holds is None
    store_entries(flow, [Entry("P.a", "cpu", 26 * MS), Entry("P.b", "cpu", 6 * MS)])
    late = flowc.check(flow, platform="board").verdicts["P"].schedulable
    assert (late.holds, late.measured) == (False, True)


def test_check_says_why_it_does_not_count_with_a_profile(write: Write) -> None:
    flow = write(BOXES.format(period="20 ms", deadline="").replace("wcet 6 ms", ""))
    store_entries(flow, [Entry("P.a", "cpu", 6 * MS)])
    (warning,) = flowc.check(flow, platform="board").diagnostics
    assert warning.code == "F607" and warning.message.endswith("has no times of `P.b`")
    # what the text decides needs no profile
    flow.write_text(BOXES.format(period="20 ms", deadline=""))
    checked = flowc.check(flow, platform="board")
    assert checked.diagnostics == () and not checked.verdicts["P"].schedulable.measured


def test_check_counts_with_measured_times_in_each_state(write: Write) -> None:
    flow = write(
        BOXES.format(period="20 ms", deadline="").replace("wcet 6 ms", "")
        + "scenario S { event tick  initial state Slow { run P }"
        "  state Fast { run P period 4 ms }  Slow -> Fast on tick }"
    )
    store_entries(flow, [Entry("P.a", "cpu", 6 * MS), Entry("P.b", "cpu", 6 * MS)])
    checked = flowc.check(flow, platform="board")
    holds = {name: part.verdicts["P"].schedulable.holds for name, part in checked.states.items()}
    assert holds == {"Slow": True, "Fast": False} and not checked.impossible
    done = CliRunner().invoke(app, ["check", str(flow), "--platform", "board"])
    assert done.exit_code == 0 and "P every 4 ms (too late, as measured)" in done.output


@pytest.mark.parametrize(("cpu", "gpu", "kind"), [(8 * MS, 2 * MS, "gpu"), (2 * MS, 8 * MS, "cpu")])
def test_times_are_those_of_where_a_task_is_placed(
    write: Write, tmp_path: Path, cpu: int, gpu: int, kind: str
) -> None:
    """Whatever the order of the entries in the file; and once a mapping is stored, those of where
    that puts it."""
    flow = both(write)
    entries = [*ENDS, Entry("A.both", "cpu", cpu), Entry("A.both", "gpu", gpu)]
    time = min(cpu, gpu)
    for order in (entries, entries[::-1], [entries[3], *entries[:3]]):
        store_entries(flow, order)
        times, valid = expected(flow)
        (placed,) = place(valid, times).of("A.both")
        assert valid.platform.pool_of(placed).kind == kind
        found = analyze(flow, platform="board").apps["A"]
        assert (found.period, found.times.ns["A.both"]) == (time, (time,))
        assert (
            drawn_ns(flow)
            == exported_ns(flow)
            == {"A.source": 300 * US, "A.both": time, "A.sink": 200 * US}
        )
        mapped = find_mapping(flow, platform="board", budget=MOMENT)
        assert dict(mapped.mapping.predicted_period_ns)["A"] >= time
        (stored,) = mapped.mapping.of("A.both")
        assert valid.platform.pool_of(stored).kind == kind
        assert analyzed_ns(flow)["A.both"] == (time,) and drawn_ns(flow) == exported_ns(flow)
        (tmp_path / "app.board.mapping.json").unlink()


@pytest.mark.parametrize("place_of", ["core[1]", "volta"])
def test_the_time_of_a_pin_wins(write: Write, place_of: str) -> None:
    flow = both(write, wcet="wcet 7 ms", mapping=f"A.both -> {place_of} wcet 3 ms")
    store_entries(flow, [*ENDS, Entry("A.both", "cpu", 8 * MS), Entry("A.both", "gpu", 9 * MS)])
    assert analyzed_ns(flow)["A.both"] == (3 * MS,)
    assert drawn_ns(flow)["A.both"] == exported_ns(flow)["A.both"] == 3 * MS
    mapped = find_mapping(flow, platform="board", budget=MOMENT).mapping
    assert 3 * MS <= dict(mapped.predicted_period_ns)["A"] < 4 * MS


def test_an_estimate_counts_a_tenth_more(write: Write) -> None:
    flow = both(write, period="period 20 ms  deadline 4 ms")
    entries = [*ENDS, Entry("A.both", "gpu", 3 * MS, estimated=True)]
    store_entries(flow, entries)
    assert Fraction(11, 10) == MARGIN
    assert analyzed_ns(flow)["A.both"] == (3300 * US,)
    assert drawn_ns(flow)["A.both"] == exported_ns(flow)["A.both"] == 3300 * US
    (group,) = find_mapping(flow, platform="board", budget=30, evaluations=40).mapping.groups
    assert group.response_ns == 3800 * US and group.schedulable and group.rests_on("estimated")
    # 3.7 ms as measured, 4.02 so
    store_entries(flow, [*ENDS, Entry("A.both", "gpu", 3200 * US, estimated=True)])
    (group,) = find_mapping(flow, platform="board", budget=30, evaluations=40).mapping.groups
    assert group.response_ns == 4020 * US and not group.schedulable
    store_entries(flow, [*ENDS, Entry("A.both", "gpu", 3200 * US)])
    (group,) = find_mapping(flow, platform="board", budget=30, evaluations=40).mapping.groups
    assert group.response_ns == 3700 * US and group.schedulable and not group.rests_on("estimated")


def f613(diagnostics: Iterable[Diagnostic]) -> list[str]:
    return [d.message for d in diagnostics if d.code == "F613"]


@pytest.mark.parametrize("period", ["", "period 100 ms"])
@pytest.mark.parametrize(
    ("wcet", "mapping", "message"),
    [
        ("wcet 5 ms", "", "`A.both` took up to 9 ms, more than the declared 5 ms"),
        ("wcet 5 ms", "A.both -> core[0]", "`A.both` took up to 8 ms, more than the declared 5 ms"),
        ("", "A.both -> volta wcet 5 ms", "`A.both` took up to 9 ms, more than the pinned 5 ms"),
        ("", "A.both -> core[0] wcet 5 ms", "`A.both` took up to 8 ms, more than the pinned 5 ms"),
        ("", "A.both -> core[0] wcet 8500 us", ""),
        ("wcet 5 ms", "A.both -> volta wcet 9 ms", ""),
    ],
)
def test_what_took_longer_than_the_text_says_is_told_once(
    write: Write, tmp_path: Path, period: str, wcet: str, mapping: str, message: str
) -> None:
    """By every verb that reads a profile and counts, for a task however many kinds ran it: those it
    may go to."""
    flow = both(write, period=period, wcet=wcet, mapping=mapping)
    store_entries(flow, [*ENDS, Entry("A.both", "cpu", 8 * MS), Entry("A.both", "gpu", 9 * MS)])
    wanted = [f"{message}: proofs that use it may not hold"] if message else []
    assert f613(analyze(flow, platform="board").diagnostics) == wanted
    assert f613(flowc.build(flow, tmp_path / "build", platform="board").diagnostics) == wanted
    assert f613(find_mapping(flow, platform="board", budget=MOMENT).diagnostics) == wanted


def test_an_estimate_beyond_the_text_is_no_reason_to_warn(write: Write) -> None:
    flow = both(write, wcet="wcet 5 ms")
    store_entries(flow, [*ENDS, Entry("A.both", "gpu", 9 * MS, estimated=True)])
    assert f613(analyze(flow, platform="board").diagnostics) == []


PHASES = """
task A {{ out x rate [1, 0]  wcet [{ms}, 0] ms }}
task B {{ in x  wcet 1 ms }}
app P {{ period 20 ms  a: A  b: B  a -> b }}
platform board {{ cpu core }}
"""


@pytest.mark.parametrize(("ms", "works"), [(10, True), (19, True), (20, False)])
def test_phases_are_not_charged_their_longest_one_at_each_firing(
    write: Write, ms: int, works: bool
) -> None:
    """Two firings of 10 ms and nothing are 10 ms of work, for `map` as for `check`."""
    flow = write(PHASES.format(ms=ms))
    (verdicts,) = flowc.check(flow, platform="board").verdicts.values()
    if works:
        assert verdicts.repetition == {"P.a": 2, "P.b": 1}
        found = find_mapping(flow, platform="board", budget=MOMENT)
        assert float(dict(found.mapping.utilization)["core"]) == pytest.approx((ms + 1) / 20)
    with_one_more = ms + 1 + 10 <= 20  # the second release, and all the work after it
    assert verdicts.schedulable.witness.startswith("one processor is enough") == with_one_more
    if with_one_more:
        assert status("map", flow) == 0 and status("analyze", flow) == 0
    if not works:
        assert status("map", flow) == 1


# -- a task without code ---------------------------------------------------------------------------
BOX = """
task T {{ out x  {clause} }}
app A {{ period 12 ms  t: T }}
platform board {{ cpu core[2]  gpu volta }}
"""


def test_a_declared_time_is_the_same_claim_wherever_a_mapping_puts_a_box(write: Write) -> None:
    """Before and after the mapping is stored: a time measured on the GPU is not taken for it first,
    and left out then."""
    flow = write(BOX.format(clause="wcet 2 ms"))
    store_entries(flow, [Entry("A.t", "cpu", 200 * US), Entry("A.t", "gpu", 60 * US)])
    (group,) = find_mapping(flow, platform="board", budget=MOMENT).mapping.groups
    found = analyze(flow, platform="board").apps["A"]
    assert group.response_ns == found.latency == found.latency_lower == 2 * MS


def test_no_verdict_of_the_text_is_undone_by_another_kind_of_processor(write: Write) -> None:
    text = BOX.format(clause="wcet 13 ms")
    flow = write(text.replace("period 12 ms", "period 20 ms  deadline 12 ms"))
    assert [status(verb, flow) for verb in ("check", "analyze", "map")] == [1, 1, 1]
    flow = write(text.replace("period 12 ms", "period 13 ms"))
    store_entries(flow, [Entry("A.t", "cpu", 13 * MS), Entry("A.t", "gpu", MS)])
    assert [status(verb, flow) for verb in ("check", "analyze", "map")] == [0, 0, 0]
    (group,) = find_mapping(flow, platform="board", budget=MOMENT).mapping.groups
    assert group.response_ns == 13 * MS


def test_no_mapping_is_faster_than_the_best_of_all_means(write: Write) -> None:
    """Where the worst case is shorter on one kind, and the mean on the other."""
    flow = write(BOX.format(clause="").replace("period 12 ms", ""))
    store_entries(flow, [Entry("A.t", "cpu", 5 * MS, MS), Entry("A.t", "gpu", 4 * MS, 3 * MS)])
    times, valid = expected(flow)
    assert times.app(valid.system.apps[0]).least_ns == {"A.t": (4 * MS,)}
    assert times.app_means(valid.system.apps[0]).least_ns == {"A.t": (MS,)}
    assert list(contradictions(flow, "board")) == []


def test_mean_times_keep_the_ratios_of_phases(write: Write) -> None:
    """Means are those of all phases together: spread evenly, they could be slower than the worst."""
    flow = write(
        "task T { out x: int64 rate [1, 2]  wcet [9, 1] ms }  task U { in x: int64 rate 3  wcet 1 ms }"
        " app A { t: T  u: U  t -> u }  platform board { cpu core }"
    )
    store_entries(flow, [Entry("A.t", "cpu", 9 * MS, 4 * MS), Entry("A.u", "cpu", MS)])
    times, valid = expected(flow)
    of_t = times.app_means(valid.system.apps[0]).ns["A.t"]
    assert of_t == (Fraction(72, 10) * MS, Fraction(8, 10) * MS)


# -- boards and texts that `map` cannot answer -----------------------------------------------------
def test_a_board_without_cpu_is_analyzed_with_a_profile_as_without(write: Write) -> None:
    flow = write(
        "task A { out x }\ntask B { in x }\napp P { a: A  b: B  a -> b }\nplatform board { gpu volta }\n"
    )
    assert (
        status("analyze", flow),
        status("export", flow, "-o", str(flow.with_name("before.xml"))),
    ) == (0, 0)
    store_entries(flow, [Entry("P.a", "gpu", 5), Entry("P.b", "gpu", 7)])
    assert analyze(flow, platform="board").apps["P"].period == 7
    assert look(flow, platform="board").charts(iterations=1)
    assert export(flow, platform="board").warnings == ()
    assert status("map", flow) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "app G { period 5 ms  l: Loop  l.y -> delay 1 -> l.x }\nplatform board { cpu core[2] }",
            "no source paces `G.l` of `G`",
        ),
        (
            "app G { period 5 ms  l: Loop  l.y -> delay 1 -> l.x }\n"
            "app H { period 2 ms  s: S  t: S  u: S }\nplatform board { cpu core[2] }",
            "no source paces `G.l` of `G`",
        ),
    ],
)
@pytest.mark.parametrize("search", ["auto", "exact"])
def test_what_has_no_bound_is_said_to_have_none(
    write: Write, text: str, why: str, search: str
) -> None:
    flow = write("task Loop { in x  out y  wcet 1 ms }\ntask S { out y  wcet 1 ms }\n" + text)
    with pytest.raises(Errors) as raised:
        find_mapping(flow, platform="board", search=search, budget=MOMENT)
    (error,) = raised.value.diagnostics
    assert error.code == "F509" and why in error.message and "leave the period out" in error.help


# -- all combinations ------------------------------------------------------------------------------
PIN, DECLARED, CPU, GPU = 5 * MS, 4 * MS, 3 * MS, 2 * MS
COMBINATIONS = [
    (pin, declared, cpu, gpu)
    for pin, declared, cpu, gpu in product(("", "core[0]", "volta"), (False, True), ("", "cpu", "estimated"), ("", "gpu", "estimated"))
]  # fmt: skip


@pytest.mark.parametrize(("pin", "declared", "cpu", "gpu"), COMBINATIONS)
def test_every_verb_counts_with_the_same_numbers(
    write: Write, tmp_path: Path, pin: str, declared: bool, cpu: str, gpu: str
) -> None:
    """Pinned, declared, measured or estimated on a CPU or a GPU, or nothing at all."""
    wcet = "wcet 4 ms" if declared else ""
    period = "period 100 ms  deadline 50 ms"
    flow = both(
        write, wcet=wcet, period=period, mapping=f"A.both -> {pin} wcet 5 ms" if pin else ""
    )
    entries = [*ENDS]
    entries += [Entry("A.both", "cpu", CPU, estimated=cpu == "estimated")] if cpu else []
    entries += [Entry("A.both", "gpu", GPU, estimated=gpu == "estimated")] if gpu else []
    if not cpu and not gpu:
        entries.append(Entry("A.both", "dla", MS))  # known, but not here
    store_entries(flow, entries)
    times, valid = expected(flow)

    # The rule, said once more.
    given = Fraction(PIN) if pin else Fraction(DECLARED) if declared else None
    seen = {
        kind: ns * (MARGIN if how == "estimated" else 1)
        for kind, how, ns in (("cpu", cpu, CPU), ("gpu", gpu, GPU))
        if how
    }
    wanted = {
        kind: given or seen[kind] for kind in ("cpu", "gpu") if given is not None or kind in seen
    }
    assert {kind: t.longest_ns for kind, t in times.of["A.both"].items()} == wanted

    # check: no time of the text decides, what was measured does.
    verdict = flowc.check(flow, platform="board").verdicts["A"].schedulable
    assert (verdict.holds, verdict.proved, verdict.measured) == (
        True if wanted else None,
        None,
        bool(wanted),
    )
    if wanted:
        work = wanted.get("gpu" if pin == "volta" else "cpu", wanted.get("gpu")) or 0
        ms = f"{float(work + 500 * US) / 1e6:.6g} ms"
        assert verdict.witness.endswith(f"one processor is enough: {ms} of work in 100 ms")
    else:
        assert verdict.witness == "times are not known: give `wcet`, or map and measure"

    # analyze, show and export: where it is placed.
    (at,) = place(valid, times).of("A.both")
    kind = valid.platform.pool_of(at).kind
    found = analyze(flow, platform="board").apps["A"]
    if wanted:
        ns = wanted.get(kind, wanted.get("cpu", min(wanted.values())))
        assert found.times.ns["A.both"] == (ns,) and found.times.guessed == ()
        assert found.times.least_ns["A.both"] == (min(wanted.values()),)
        assert drawn_ns(flow)["A.both"] == exported_ns(flow)["A.both"] == ns
    else:
        assert found.times.guessed == ("A.both",) and "A.both" not in exported_ns(flow)
        assert drawn_ns(flow)["A.both"] == 1

    # build: the mean times decide where it goes, and how much work there is.
    built = flowc.build(flow, tmp_path / "build", platform="board")
    assert built.mapping.of("A.both") == (at,)

    # map: worst cases for deadlines, on one kind or the other.
    if not wanted:
        with pytest.raises(Errors, match="no worst-case time"):
            find_mapping(flow, platform="board", budget=MOMENT)
        return
    mapped = find_mapping(flow, platform="board", budget=MOMENT)
    assert mapped.joint is not None
    (item,) = (i for i in mapped.joint.problem.tasks if i.name == "A.both")
    assert item.wcet_ns == wanted
    used = dict(mapped.mapping.utilization)
    there = valid.platform.pool_of(mapped.mapping.of("A.both")[0]).kind
    assert sum(used.values()) == pytest.approx(float((wanted[there] + 500 * US) / (100 * MS)))
    # Once that is stored, analyses count with it.
    assert analyzed_ns(flow)["A.both"] == (wanted[there],)


# -- agreement -------------------------------------------------------------------------------------
def contradictions(flow: Path, platform: str, search: str = "auto") -> Iterator[str]:
    """Where check, analyze and map say the opposite of each other; nothing is run."""
    checks = _possible(flowc.check(flow, platform=platform, mapped=False))
    analyzed: Analyzed | None = None
    mapped: Answer | None = None
    try:
        analyzed = analyze(flow, platform=platform, seconds=1.0)
    except Errors:
        if checks:
            yield "analyze raises, and check found nothing"
    with suppress(Errors):
        mapped = find_mapping(flow, platform=platform, search=search, budget=MOMENT)
    if mapped is None or analyzed is None:
        return
    if mapped.joint is None:
        yield from _too_fast(mapped)
        return
    if not mapped.late:
        if not checks:
            yield "map says schedulable, and check refuses"
        if _late_as_measured(flow, platform):
            yield "map says schedulable, and check says no, as measured"
        if analyzed.refused:
            yield "map says schedulable, and analyze refuses"
        again = analyze(flow, platform=platform, seconds=1.0)
        after = flowc.check(flow, platform=platform)
        if again.refused or not _possible(after):
            yield "once the mapping is stored, check or analyze refuses"
        yield from _below(mapped, again, "once the mapping is stored")
    yield from _below(mapped, analyzed, "before")


def _possible(checked: Checked) -> bool:
    return checked.ok and not any(v.impossible for v in checked.verdicts.values())


def _late_as_measured(flow: Path, platform: str) -> bool:
    checked = flowc.check(flow, platform=platform, mapped=False)
    parts = [checked, *checked.states.values()]
    return any(v.schedulable.holds is False for part in parts for v in part.verdicts.values())


def _below(mapped: Answer, analyzed: Analyzed, when: str) -> Iterator[str]:
    """Bounds of a mapping that are below what no mapping is below, where both count with the same
    times."""
    apps = {a.name: a for a in analyzed.checked.system.apps}
    for group in mapped.mapping.groups:
        found, its = analyzed.apps[group.app], apps[group.app]
        lowest = found.latency_lower
        if (
            group.response_ns is not None
            and lowest is not None
            and group.response_ns < lowest
            and not found.times.guessed
        ):
            yield f"{when}: `{group.app}` responds within {group.response_ns} ns, and no mapping within {float(lowest)}"
        if group.schedulable and (found.too_slow(its) or found.too_late(its)):
            yield f"{when}: `{group.app}` is schedulable, and too slow or too late on any mapping"


def _too_fast(mapped: Answer) -> Iterator[str]:
    """A predicted period below the least on any mapping at mean times; of a scenario each state is
    predicted."""
    valid = mapped.valid
    if isinstance(valid, ValidScenario):
        return
    times = times_of(valid.system, valid.platform, store.read_profile(valid)[0])
    predicted = dict(mapped.mapping.predicted_period_ns)
    for each in valid.system.apps:
        means = times.app_means(each)
        least = limits(each, valid.verdicts[each.name], means, seconds=1.0).mapping_lower
        if (
            least is not None
            and not means.guessed
            and predicted[each.name] < float(least) * (1 - 1e-9)
        ):
            yield f"`{each.name}` is predicted to take {predicted[each.name]} ns, and no mapping takes below {float(least)}"


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_map_agrees_with_check_and_analyze(tmp_path: Path, first: int) -> None:
    found = {}
    for seed in range(first, first + 50):
        flow = draw(seed).put(tmp_path / str(seed))
        search = random.Random(seed).choice(["auto", "auto", "exact"])
        found[seed] = list(contradictions(flow, "board", search))
    assert {seed: said for seed, said in found.items() if said} == {}


@pytest.mark.parametrize("folder", ["examples", "tests/faulty"])
def test_map_agrees_with_check_and_analyze_on_the_texts_of_the_repository(
    examples: Path, tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each platform that a text declares, or a board of two cores."""
    # what is too long for every verb is so after less
    monkeypatch.setattr(liveness, "MOST_STEPS", 10_000)
    if folder == "examples":
        flows = sorted(examples.glob("*/*.flow"))
    else:
        shutil.copytree(ROOT / folder, tmp_path / "copy")
        flows = sorted((tmp_path / "copy").glob("*.flow"))
    tried, found = 0, {}
    board = tmp_path / "two_cores.flow"
    board.write_text("platform two_cores { cpu core[2] scheduler fixed_priority }\n")
    for flow in flows:
        own = [p.name for p in flowc.check(flow).loaded.system.platforms if p.name != "host"]
        for platform in own or [str(board)]:
            checked = flowc.check(flow, platform=platform, mapped=False)
            if not checked.ok or not checked.system.apps:
                continue
            store_profile(flow, platform=platform)
            tried += 1
            found[flow.name, platform] = list(contradictions(flow, platform))
            for file in (*flow.parent.glob("*.mapping.json"), *flow.parent.glob("*.profile.json")):
                file.unlink()
    assert tried > (4 if folder == "examples" else 20)
    assert {name: said for name, said in found.items() if said} == {}


def test_what_runs_nowhere_here_has_the_time_that_its_text_says(write: Write) -> None:
    """A kernel on a machine without a GPU, boxes on a board without a CPU: analyses count with it,
    no mapping does."""
    text = "task A { out x wcet 1 ms }\ntask B { in x wcet 5 ms }\nplatform P { gpu g }\napp G { period 3 ms a: A b: B a -> b }\n"
    valid = flowc.check(write(text), platform="P").require(("F211", "F216"))
    times = times_of(valid.system, valid.platform)
    assert times.of["G.b"] == {} and times.app(valid.system.apps[0]).source == "wcet"
    found = flowc.analyze(write(text), platform="P", overlap=True)
    assert found.apps["G"].times.source == "wcet" and found.refused


def test_a_platform_without_a_name_is_none(write: Write) -> None:
    checked = flowc.check(write("task A { out x }\napp G { a: A }\n"), platform="")
    assert "F506" in [d.code for d in checked.diagnostics]
