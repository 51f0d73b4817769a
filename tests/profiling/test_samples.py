"""Which samples of a profile count, and for how long a run goes on to get more of them."""

from __future__ import annotations

import math
import random
import statistics
from pathlib import Path

import flowc
import pytest
from flowc.driver.measure import measure as measuring
from flowc.driver.show.show import look
from flowc.driver.text.measured import check
from flowc.profiling.measure import MeasuredTimes, worst_case
from flowc.profiling.there.samples import (
    CLOSE,
    DEVIATIONS,
    FEWEST,
    FOR_MEANS,
    FOR_SAMPLES,
    Spread,
    go_on,
    warm,
)

from builds import Write, store_profile
from drawn import MS, Entry, store_entries

COLD = 85 * MS


def spread_of(samples: list[int]) -> Spread:
    spread = Spread()
    for ns in samples:
        spread.add(ns)
    return spread


@pytest.mark.parametrize(
    ("count", "kept"), [(1, 1), (2, 1), (5, 4), (6, 5), (9, 8), (10, 8), (100, 80)]
)
def test_the_first_firings_are_left_out(count: int, kept: int) -> None:
    samples = [COLD, *range(1, count)]
    assert list(warm(samples)) == samples[count - kept :]
    assert (worst_case(samples) < COLD) == (count > 1)


def test_the_spread_is_that_of_all_samples_but_the_first() -> None:
    rng = random.Random(1)
    samples = [rng.randrange(10**6, 10**7) for _ in range(500)]
    half = DEVIATIONS * statistics.stdev(samples) / math.sqrt(len(samples))
    spread = spread_of([COLD, *samples])
    assert spread.width == pytest.approx(half / statistics.mean(samples), rel=1e-9)
    assert (spread.count, spread.total) == (500, sum(samples))


STEADY = [COLD, *[20 * MS] * FEWEST]
WILD = [COLD, *[10 * MS, 30 * MS] * FEWEST]


@pytest.mark.parametrize(
    ("tasks", "worth"),
    [
        ([], 0.0),
        ([STEADY], 0.0),
        ([STEADY, [COLD]], math.inf),
        ([STEADY, STEADY[:-1]], FOR_SAMPLES),
        ([STEADY, WILD], FOR_MEANS),
        ([STEADY, [0] * 10], 0.0),
        # its share of all time is small, so it decides nothing
        ([[100 * ns for ns in STEADY], WILD], 0.0),
    ],
)
def test_a_run_goes_on_while_something_is_not_known(tasks: list[list[int]], worth: float) -> None:
    assert go_on(map(spread_of, tasks)) == worth
    assert spread_of(STEADY).width <= CLOSE < spread_of(WILD).width


def test_a_cold_first_firing_does_not_decide(write: Write) -> None:
    """It takes longer than the whole run was to take; those after it do nothing."""
    code = (
        "import time\n"
        "class Read:\n"
        "    cold = True\n"
        "    def __call__(self, n):\n"
        "        time.sleep(1.0 if self.cold else 0.0)\n"
        "        self.cold = False\n"
        "        return n\n"
        "def page(): return 1\n"
        "def show(m): pass\n"
    )
    flow = write(
        'task Page { out n: int64  python "t.py:page" }\n'
        'task Read { in n: int64  out m: int64  python "t.py:Read" }\n'
        'task Show { in m: int64  python "t.py:show" }\n'
        "app A { p: Page  r: Read  s: Show  p -> r -> s }\n",
        t_py=code,
    )
    entries = {e.subject: e for e in flowc.profile(flow, seconds=0.1).entries}
    assert entries["A.r"].mean_ns < 500 * MS and entries["A.r"].samples >= 1


# -- what is said of too few -----------------------------------------------------------------------
OCR = """
task Page {{ out page  {wcet} }}
task Read {{ in page  wcet 1 ms }}
app Ocr {{ period 2 s  page: Page  read: Read  page -> read }}
platform board {{ cpu core[2] }}
{mapping}
"""
FEW = ("F624", "the times of `Ocr.page` rest on fewer than 5 firings each")


@pytest.mark.parametrize(
    ("samples", "wcet", "mapping", "told"),
    [
        (1, "", "", True),
        (FEWEST - 1, "", "", True),
        (FEWEST, "", "", False),
        # the text decides about periods, and the mean that was measured about throughput
        (1, "wcet 2 ms", "", True),
        (1, "", "Ocr.page -> core[0] wcet 2 ms", False),
    ],
)
def test_times_of_few_firings_are_named(
    write: Write, samples: int, wcet: str, mapping: str, told: bool
) -> None:
    pins = f"mapping on board {{ {mapping} }}" if mapping else ""
    flow = write(OCR.format(wcet=wcet, mapping=pins))
    store_entries(
        flow,
        [Entry("Ocr.page", "cpu", 3 * MS, samples=samples), Entry("Ocr.read", "cpu", MS)],
    )
    for found in (
        flowc.analyze(flow, platform="board").diagnostics,
        flowc.map(flow, platform="board", measure=False, budget=0.02).diagnostics,
    ):
        few = [d for d in found if d.code == "F624"]
        assert [(d.code, d.message) for d in few] == ([FEW] if told else [])
        if told:
            assert few[0].help == (
                "`flowc profile --platform board --seconds 1` measures more of them, if the"
                " stream is that long"
            )


# -- what is said of a single long one -------------------------------------------------------------
BELT = """
task Camera { out x: float64  wcet 1 ms  python "belt.py:camera" }
task Vote { in x: float64  python "belt.py:vote" }
app Belt { period 20 ms  deadline 10 ms  camera: Camera  vote: Vote  camera -> vote }
"""


@pytest.mark.parametrize(
    ("long", "remedy"),
    [
        (None, None),
        (0, "that was its first firing: what is done once belongs into `__init__`"),
        (7, "`flowc map` runs it again: on a busy machine one firing may be long"),
    ],
)
def test_a_long_firing_of_a_run_is_named_where_a_deadline_is_missed(
    write: Write, monkeypatch: pytest.MonkeyPatch, long: int | None, remedy: str | None
) -> None:
    flow = write(BELT, belt_py="def camera(): return 0.5\n\n\ndef vote(x): pass\n")
    usual = {"Belt.camera": (MS // 4,) * 40, "Belt.vote": (MS // 4,) * 40}

    def ran(directory: Path, seconds: float, *, paced: bool, **_: object) -> MeasuredTimes:
        samples = dict(usual)
        if paced and long is not None:
            samples["Belt.vote"] = tuple(12 * MS if n == long else MS // 4 for n in range(40))
        return MeasuredTimes(samples, {"Belt": 1e6}, {"Belt": 1e6}, {}, {})

    monkeypatch.setattr(measuring, "run_build", ran)
    store_profile(flow, {"Belt.vote": MS // 4})
    found = flowc.map(flow, budget=0.1).diagnostics
    told = [(d.message, d.help) for d in found if d.code == "F625"]
    message = "`Belt` may be late with a worst case of `Belt.vote` of 12.00 ms, 48 times its mean of 0.25 ms"
    assert told == ([] if remedy is None else [(message, remedy)])


BLOCKS = """
task Microphone { out x  rate 8  wcet 1 ms }
task Filter { in x }
app Audio { period 20 ms  microphone: Microphone  filter: Filter  microphone -> filter }
platform board { cpu core[2] }
"""


@pytest.mark.parametrize(
    ("long", "mean", "totals", "told"),
    [
        (12 * MS, MS // 10, [12 * MS + n * MS // 10 for n in range(8)], True),
        (2 * MS, MS // 10, [2 * MS + n * MS // 10 for n in range(8)], False),  # in time
        (12 * MS, MS // 10, [12 * MS * n for n in range(1, 9)], False),  # in a row, too
        (12 * MS, 2 * MS, [12 * MS + n * MS // 10 for n in range(8)], False),  # not far
        (12 * MS, MS // 10, [], False),  # nothing is known of firings in a row
    ],
)
def test_a_worst_case_that_counts_at_every_firing_is_named(
    write: Write, long: int, mean: int, totals: list[int], told: bool
) -> None:
    """Before there is a mapping, which counts what successive firings take."""
    flow = write(BLOCKS)
    store_entries(
        flow,
        [
            Entry("Audio.microphone", "cpu", MS),
            Entry("Audio.filter", "cpu", long, mean, totals_ns=tuple(totals)),
        ],
    )
    found = [
        [d.message for d in diagnostics if d.code == "F625"]
        for diagnostics in (
            check(flow, platform="board").diagnostics,
            flowc.analyze(flow, platform="board").diagnostics,
            look(flow, platform="board").diagnostics,
        )
    ]
    message = (
        "one iteration of `Audio` counts the worst case of `Audio.filter`, 12.00 ms, 8 times,"
        " though it is 120 times the mean and 8 firings in a row took 12.70 ms at most"
    )
    assert found == [[message] if told else []] * 3
