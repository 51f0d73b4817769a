"""Clock rates of states: the least power that keeps every deadline, by the bounds of the mapped
program."""

from __future__ import annotations

import itertools
import json
import re
from fractions import Fraction
from pathlib import Path

import flowc
import pytest
from flowc.analysis.timing.response_time import worst_cases
from flowc.analysis.timing.slower import slower
from flowc.driver.solve.clocks import why_these_rates
from flowc.driver.solve.map import Answer
from flowc.driver.solve.request import WhatIf
from flowc.model.diagnostic import Errors

from builds import Write, harness, run

APPS = """
task S { out o: int8   wcet 1 ms   python "code.py:s" }
task W { in i: int8   wcet 4 ms   python "code.py:w" }
app A { period 10 ms   s: S   w: W   s -> w }
app B { period 40 ms   s: S   w: W   s -> w }
scenario Pairs {
    event turn
    initial state calm { run B   weight 3 / 4 }
    state both { run A   run B period 20 ms }
    calm -> both on turn   both -> calm on turn
    minimise energy
}
platform duo {
    cpu big scheduler fixed_priority frequencies [500, 1000, 1500, 2000] MHz idle [0.1, 0.15, 0.3, 0.5] W busy [0.2, 0.6, 1.5, 3] W
    cpu small scheduler fixed_priority frequencies [500, 750, 1000] MHz idle [0.05, 0.06, 0.1] W busy [0.1, 0.2, 0.4] W
    power 2 W
}
mapping on duo { A.s -> big   A.w -> big   B.s -> small   B.w -> small }
"""
CODE = "def s(): return 1\ndef w(i): pass\n"


@pytest.fixture
def text(write: Write) -> Path:
    return write(APPS, code_py=CODE)


def mapped(text: Path) -> Answer:
    return flowc.map(text, platform="duo", budget=2, measure=False)


def test_every_state_has_the_cheapest_rates_that_keep_its_deadlines(text: Path) -> None:
    found = mapped(text)
    assert found.states is not None and not found.late
    rates = {s.state: {pool: hz // 10**6 for pool, hz in s.clocks_hz} for s in found.mapping.states}
    # Alone, B has 40 ms for its 5; `big` has nothing to do. Together, A needs 5 ms of 10, B 5 of
    # 20.
    assert rates == {"calm": {"big": 500, "small": 500}, "both": {"big": 1000, "small": 500}}
    calm = next(s for s in found.mapping.states if s.state == "calm")
    # board + idle of both + B: 5 ms, twice as long, of 40
    assert calm.energy_mw == pytest.approx(1000 * (2 + 0.1 + 0.05 + 0.1 * 10 / 40))
    assert calm.highest_mw == pytest.approx(1000 * (2 + 0.5 + 0.1 + 0.4 * 5 / 40))
    assert {
        g.app: g.response_ns for s in found.mapping.states for g in s.groups if s.state == "both"
    } == {
        "A": 10_000_000,
        "B": 10_000_000,
    }
    changes = {(t.source, t.target): t.delay_ns for t in found.mapping.transitions}
    assert changes == {("calm", "both"): 20_000_000, ("both", "calm"): 20_000_000}


def test_each_rate_has_a_reason(text: Path) -> None:
    text.write_text(
        APPS.replace("A.s -> big", "A.s -> big   frequency small 750 MHz for Pairs.calm")
    )
    found = mapped(text)
    assert found.states is not None
    said = {n: [*why_these_rates(c, found.valid.platform)] for n, c in found.states.clocked.items()}
    assert said["calm"][:2] == [
        "`big` has 500 MHz, its slowest rate",
        "`small` has 750 MHz: no other rate may be chosen",
    ]
    assert said["both"] == [
        "`big` has 1000 MHz: at 500 MHz `big` needs 200% of its time, `A` has no bound",
        "`small` has 500 MHz, its slowest rate",
        f"{found.states.clocked['both'].tests} of 12 combinations were tested, and all with less power miss a deadline",
    ]


def test_no_combination_of_rates_takes_less(text: Path) -> None:
    text.write_text(
        APPS.replace("A.w -> big", "A.w -> small").replace("B.w -> small", "B.w -> big")
    )
    found = mapped(text).states
    assert found is not None
    platform = flowc.check(text, platform="duo").platform
    assert platform is not None
    text.write_text(text.read_text().replace("minimise energy", ""))
    fastest = mapped(text).states
    assert fastest is not None
    for name, clocked in found.clocked.items():
        system = fastest.joints[name].system
        assert system is not None
        taken = []
        for rates in itertools.product(*(p.frequencies_hz for p in platform.pools)):
            factors = {
                p.name: p.frequencies_hz[-1] / hz
                for p, hz in zip(platform.pools, rates, strict=True)
            }
            bounds = worst_cases(slower(system, factors)).groups
            if all(
                b is not None and b <= g.period
                for b, g in zip(bounds.values(), system.groups, strict=True)
            ):
                power = platform.power_w
                for pool, hz in zip(platform.pools, rates, strict=True):
                    k = pool.frequencies_hz.index(hz)
                    own = [
                        (t, g) for g in system.groups for t in g.tasks if t.processor == pool.name
                    ]
                    share = sum(
                        (Fraction(t.cost) * factors[pool.name] / g.period for t, g in own),
                        Fraction(0),
                    )
                    power += pool.idle_w[k] + pool.busy_w[k] * share
                taken.append(float(power) * 1000)
        assert clocked.bound.energy_mw == pytest.approx(min(taken), abs=0.001)
        assert clocked.bound.greedy_mw is not None and clocked.bound.greedy_mw >= min(taken) - 0.001


def test_rates_stay_high_unless_the_text_asks(text: Path) -> None:
    text.write_text(APPS.replace("minimise energy", ""))
    states = {s.state: s for s in mapped(text).mapping.states}
    assert all(dict(s.clocks_hz) == {"big": 2 * 10**9, "small": 10**9} for s in states.values())
    assert all(s.energy_mw == s.highest_mw for s in states.values())
    text.write_text(
        APPS.replace("minimise energy", "").replace("run B   weight", "run B   power 3 W   weight")
    )
    states = {s.state: s for s in mapped(text).mapping.states}
    assert dict(states["calm"].clocks_hz) == {"big": 500 * 10**6, "small": 500 * 10**6}
    assert dict(states["both"].clocks_hz) == {"big": 2 * 10**9, "small": 10**9}


def test_pins_of_rates_are_kept(text: Path) -> None:
    text.write_text(
        APPS.replace("A.s -> big", "A.s -> big   frequency big 1500 MHz for Pairs.calm")
    )
    states = {s.state: dict(s.clocks_hz) for s in mapped(text).mapping.states}
    assert states["calm"]["big"] == 1500 * 10**6 and states["both"]["big"] == 1000 * 10**6


def test_a_limit_that_no_rates_keep_is_an_error(text: Path) -> None:
    text.write_text(APPS.replace("run B   weight", "run B   power 2.1 W   weight"))
    with pytest.raises(Errors) as raised:
        mapped(text)
    [fault] = raised.value.diagnostics
    assert (
        fault.code == "F810"
        and "take 2.18 W in `calm`" in fault.message
        and "board 2 W" in fault.help
    )


def test_the_energy_of_a_firing_counts_where_it_is_known(text: Path) -> None:
    task = {
        "processor": "cpu",
        "implementation": "code.py:w",
        "content_hash": "",
        "host_hash": "",
        "samples": 1,
    }
    entry = {
        **task,
        "subject": "B.w",
        "mean_ns": 2_000_000,
        "std_ns": 0,
        "max_ns": 1,
        "wcet_ns": 1,
        "energy_nj": 10**6,
    }
    document = {
        "version": 1,
        "platform": "duo",
        "host": "elsewhere",
        "entries": [entry],
        "transfers": [],
    }
    (text.parent / "given.json").write_text(json.dumps(document))
    found = flowc.map(
        text,
        platform="duo",
        budget=2,
        measure=False,
        what_if=WhatIf(profile=text.parent / "given.json"),
    )
    calm = next(s for s in found.mapping.states if s.state == "calm")
    # 1 mJ at 1000 MHz and 0.4 W is half of a mJ at half the rate and 0.1 W; B.s takes 1 ms at the
    # highest rate.
    assert calm.energy_mw == pytest.approx(1000 * (2 + 0.1 + 0.05 + 0.1 * 2 / 40) + 0.5 / 0.04)


def test_a_build_knows_the_rates_of_its_states(text: Path) -> None:
    assert mapped(text).path is not None
    flowc.build(text, text.parent / "b", platform="duo", measure=False)
    main = (text.parent / "b/main.py").read_text()
    assert (
        'clocks={"big": ("cpu", 500000000, 2000000000), "small": ("cpu", 500000000, 1000000000)}'
        in main
    )
    assert "energy_mw=2175.0" in main
    text.write_text(APPS.replace("idle [0.05", "idle [0.04"))
    assert [
        d.code
        for d in flowc.build(text, text.parent / "b", platform="duo", measure=False).diagnostics
    ] == ["F609"]
    assert "clocks=" not in (text.parent / "b/main.py").read_text()


def test_every_pace_of_a_state_has_its_rates(text: Path) -> None:
    paced = APPS.replace("event turn", "event turn, pace").replace(
        "run A   run B period 20 ms", "run A, B period [10, 20, 40] ms"
    )
    text.write_text(paced)
    found = mapped(text)
    rates = {s.state: dict(s.clocks_hz)["big"] // 10**6 for s in found.mapping.states}
    assert rates == {"calm": 500, "both[0]": 1000, "both[1]": 500, "both[2]": 500}
    assert len(found.mapping.transitions) == 3 + 3 + 6
    assert found.path is not None
    flowc.build(text, text.parent / "b", platform="duo", measure=False)
    done = harness(text.parent / "b")
    assert done.returncode == 0, done.stderr
    (text.parent / "events").write_text("2 B turn\n4 B pace 30\n6 B pace 100\n")
    done = run(
        text.parent / "b",
        "--events",
        str(text.parent / "events"),
        "--frames",
        "9",
        "--report",
        str(text.parent / "r"),
    )
    assert done.returncode == 0, done.stderr
    states = [s["state"] for s in json.loads((text.parent / "r").read_text())["stays"]]
    assert states == ["calm", "both[0]", "both[1]", "both[0]"]


def test_rates_of_a_file_that_was_edited_are_checked(text: Path) -> None:
    path = mapped(text).path
    assert path is not None
    stored = json.loads(path.read_text())
    stored["states"][0]["clocks_hz"] = [["bigg", 500_000_000], ["small", 3]]
    path.write_text(json.dumps(stored))
    with pytest.raises(Errors) as raised:
        flowc.build(text, text.parent / "b", platform="duo", measure=False)
    assert [d.code for d in raised.value.diagnostics] == ["F501", "F105"]
    assert (
        "did you mean `big`?; this is said in `app.duo.mapping.json`"
        in raised.value.diagnostics[0].help
    )


def test_rates_in_any_order_are_enough_for_a_pin(text: Path) -> None:
    """The platform declares no power."""
    silent = re.sub(r" (idle|busy) \[[^]]*\] W", "", APPS).replace(
        "[500, 1000, 1500, 2000]", "[2000, 500, 1000]"
    )
    text.write_text(
        silent.replace("B.w -> small", "B.w -> small   frequency big 1000 MHz for Pairs.both")
    )
    found = mapped(text)
    assert "F809" in {d.code for d in found.diagnostics}
    states = {s.state: s for s in found.mapping.states}
    assert (
        dict(states["both"].clocks_hz)["big"] == 10**9
        and dict(states["calm"].clocks_hz)["big"] == 2 * 10**9
    )
    assert {g.app: g.response_ns for g in states["both"].groups} == {
        "A": 10_000_000,
        "B": 5_000_000,
    }
    assert states["both"].energy_mw is None
