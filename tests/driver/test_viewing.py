"""A search that a browser watches: what its server tells, and the page afterwards."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import replace
from typing import Any

import pytest
from flowc.driver.show.viewing import Viewer
from flowc.driver.solve.adopt import choose
from flowc.driver.solve.map import find_mapping
from flowc.driver.text.check import check
from flowc.driver.text.store import save_mapping
from flowc.model.diagnostic import Errors
from flowc.model.mapping import Contestant, Placement, as_text

from builds import Write, store_profile
from limits import HANGS

TEXT = """
task A { out x wcet 2 ms }
task B { in x wcet 4 ms }
app Left  { period 20 ms  priority 1  a: A b: B  a -> b }
app Right { period 50 ms  priority 1  a: A b: B  a -> b }
platform two { cpu core[2] scheduler fixed_priority }
"""

CODE = """
def a(): return 1
def b(x): pass
"""
FREE = """
task A { out x wcet 2 ms }
task B { in x wcet 4 ms }
app Only { a: A  b: B  a -> b }
platform two { cpu core[2] }
"""


def test_who_watches_a_search_hears_how_it_goes_and_then_has_the_mapping(write: Write) -> None:
    viewer = Viewer(write(TEXT), platform="two")
    try:
        assert viewer.reported.document.search is None
        found = viewer.search(evaluations=20)
        kinds = said(viewer.address)
    finally:
        viewer.close()
    assert not found.late and viewer.reported.document.search is not None
    assert kinds["state"] == "searched"
    told = kinds["search"]
    assert told["text"] and told["history"] and all(len(point) == 4 for point in told["history"])


def test_another_assignment_of_a_search_is_chosen_with_its_bounds(write: Write) -> None:
    """What the search said of it is what is proved of it; and it counts for the next reader."""
    flow = write(TEXT)
    found = find_mapping(flow, platform="two", evaluations=20).mapping
    points = found.effort.front
    assert len(points) > 1
    for point in points:
        chosen = choose(flow, point.pins, platform="two")
        assert as_text("two", chosen.placements, chosen.networks) == point.pins
        assert max(u for _, u in chosen.utilization) == point.utilization
        used = [
            g.response_ns / g.deadline_ns for g in chosen.groups if g.response_ns and g.deadline_ns
        ]
        assert len(used) == 2 and max(used) == pytest.approx(point.tightest, abs=1e-6)
        checked = check(flow, platform="two")
        assert checked.diagnostics == () and checked.require().mapping == chosen


@pytest.mark.parametrize("share", ["", "share 10 %"])
def test_beside_an_app_without_a_period_it_has_its_bounds_too(write: Write, share: str) -> None:
    flow = write(f"{TEXT}app Back {{ {share} a: A b: B  a -> b }}")
    found = find_mapping(flow, platform="two", evaluations=20).mapping
    assert found.effort.front
    for point in found.effort.front:
        chosen = choose(flow, point.pins, platform="two")
        assert as_text("two", chosen.placements, chosen.networks) == point.pins
        assert [group.app for group in chosen.groups] == ["Left", "Right"]
        assert all(group.schedulable for group in chosen.groups)
        assert max(u for _, u in chosen.utilization) == pytest.approx(point.utilization)
        assert dict(chosen.predicted_period_ns)["Back"] > 0
        kept = check(flow, platform="two").require().mapping
        assert kept is not None and kept.groups == chosen.groups


def test_what_no_search_saw_is_not_stored(write: Write) -> None:
    flow = write(TEXT)
    with pytest.raises(Errors, match="no mapping is stored"):
        choose(flow, "mapping on two { Left.a -> core[0] }", platform="two")
    find_mapping(flow, platform="two", evaluations=20)
    before = flow.with_name("app.two.mapping.json").read_bytes()
    with pytest.raises(Errors, match="has no such configuration"):
        choose(flow, "mapping on two { Left.a -> core[0] }", platform="two")
    assert flow.with_name("app.two.mapping.json").read_bytes() == before


def test_a_page_chooses_once_nothing_runs(write: Write) -> None:
    flow = write(FREE)
    mapped = find_mapping(flow, platform="two", evaluations=20, measure=False)
    here, there = Placement("Only.a", ("core[1]",)), Placement("Only.b", ("core[1]",))
    other = as_text("two", [here, there], ())
    slower = Contestant("one core", "all on the second", 6e6, None, other)
    contestants = (*mapped.mapping.contestants, slower)
    save_mapping(mapped.valid, replace(mapped.mapping, contestants=contestants))
    viewer = Viewer(flow, platform="two", edit=True)
    try:
        shown = viewer.reported.document.search
        assert shown is not None and shown.used == shown.contestants[0].pins
        assert asked(viewer.address, other) == 200
        viewer.wait()  # no limit: it has been chosen by now
        shown = viewer.reported.document.search
        assert shown is not None and shown.used == other
        assert check(flow, platform="two").require().mapping.placements == (here, there)
        assert asked(viewer.address, "mapping on two { }") == 409
    finally:
        viewer.close()


def asked(address: str, pins: str) -> int:
    """The status of a wish."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address + "use", pins.encode(), timeout=HANGS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def said(address: str) -> dict[str, Any]:
    """What who comes late is told of each kind."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    found: dict[str, Any] = {}
    kind = ""
    with opener.open(address + "events", timeout=HANGS) as stream:
        for line in stream:
            word, _, rest = line.decode().strip().partition(": ")
            if word == "event":
                kind = rest
            elif word == "data":
                found[kind] = json.loads(rest)
            if len(found) == 2:
                break
    return found


@pytest.mark.browser
def test_a_click_uses_another_mapping(browser: Any, write: Write) -> None:
    """The page says what is proved of it, and offers it no more; a program has run before, and runs
    again."""
    from playwright.sync_api import expect

    flow = write(
        TEXT.replace("out x ", 'out x: int64 python "t.py:a" ').replace(
            "in x ", 'in x: int64 python "t.py:b" '
        ),
        t_py=CODE,
    )
    store_profile(flow, platform="two")
    points = find_mapping(flow, platform="two", evaluations=20).mapping.effort.front
    viewer = Viewer(flow, platform="two", edit=True)
    context = browser.new_context()
    shown = context.new_page()
    said: list[str] = []
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    try:
        shown.goto(viewer.address)
        assert viewer.run(frames=3) == 0
        shown.get_by_text("The program has ended").wait_for()
        other = next(k for k, p in enumerate(points) if p.pins != used(viewer))
        with shown.expect_event("load"):
            choose_point(shown, other)
            shown.get_by_role("button", name="Use this mapping").click()
        assert (
            used(viewer)
            == points[other].pins
            == shown.evaluate("window.flowc.document.search.used")
        )
        choose_point(shown, other)
        assert shown.get_by_role("button", name="Copy").count() == 1
        assert shown.get_by_role("button", name="Use this mapping").count() == 0
        viewer.wait()  # no limit: it has been chosen by now
        assert viewer.run(frames=3) == 0
        expect(shown.locator("#live [role=status]")).to_contain_text("has ended")
        assert said == []
    finally:
        viewer.close()
        context.close()


def choose_point(page: Any, k: int) -> None:
    """Click a point of the front of a search."""
    page.locator('[data-front="search"] .point').nth(k).click()


def used(viewer: Viewer) -> str:
    """The pins of the mapping in use."""
    assert viewer.reported.document.search is not None
    return viewer.reported.document.search.used
