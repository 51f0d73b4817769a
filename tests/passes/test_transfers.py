"""What crosses between machines: the tasks that carry it, on links, and what they take."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from pathlib import Path

import flowc
import pytest
from flowc.driver.solve.map import find_mapping
from flowc.dsl.format import format_text
from flowc.model.application import Application
from flowc.model.diagnostic import Errors
from flowc.model.times import times_of
from flowc.model.transfers import without_transfers
from flowc.passes.transfers import with_transfers
from hypothesis import given, settings
from hypothesis import strategies as st

from builds import Write, build, planned, store_profile
from rigs import TASKS, TEXT

US = 1000


def app_of(flow: Path, platform: str = "rig") -> Application:
    checked = flowc.check(flow, platform=platform)
    assert checked.ok, [d.message for d in checked.diagnostics]
    return checked.system.apps[0]


def test_what_crosses_is_a_task_on_the_link_that_takes_its_time(write: Write) -> None:
    flow = write(TEXT, tasks_py=TASKS)
    checked = flowc.check(flow, platform="rig")
    assert checked.ok and checked.platform is not None
    app = checked.system.apps[0]
    carriers = {t.name: t for t in app.tasks if t.transfer is not None}
    assert set(carriers) == {
        "A.camera.mark->back",
        "A.split.part->back",
        "A.split.odd->back",
        "A.tell.last->front",
    }
    # 4 tokens of 16 bytes at 110 MB/s behind 0.3 ms; nothing where a phase makes nothing
    assert carriers["A.split.part->back"].wcet_ns == (300 * US + Fraction(64 * 1000, 110),)
    assert carriers["A.split.odd->back"].wcet_ns == (300 * US + Fraction(8 * 1000, 110), 0)
    pins = {p.task: p.stages[0].processors for p in checked.system.pins}
    assert pins["A.split.part->back"] == ("front->back",) and pins["A.tell.last->front"] == (
        "back->front",
    )
    delays = {(c.source, c.destination): (c.delay, c.values) for c in app.channels if c.delay}
    assert delays == {
        ("A.camera.mark->back", "A.tell"): (2, (-1, -2)),  # initial tokens lie with the reader
        ("A.tell.last->front", "A.split"): (2, ()),
    }
    times = times_of(checked.system, checked.platform)
    here = times.here("A.tell.last->front")
    assert here is not None and here.longest_ns == carriers["A.tell.last->front"].wcet_ns[0]
    assert without_transfers(app) == flowc.check(flow).system.apps[0]


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["front", "middle", "back", None]), min_size=5, max_size=5))
def test_whatever_is_where_each_port_crosses_once_and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, places: list[str | None]
) -> None:
    folder = tmp_path_factory.mktemp("rig")
    names = ["camera", "split", "weigh", "tell", "odd"]
    where = {f"A.{n}": m for n, m in zip(names, places, strict=True) if m is not None}
    pins = "\n".join(f"{task} -> {m}.core" for task, m in where.items())
    machines = "".join(f"machine {m} {{ cpu core }}\n" for m in ("front", "middle", "back"))
    links = "".join(
        f"link {a} {b} 1 GB/s 20 us\n"
        for a, b in (("front", "middle"), ("back", "middle"), ("back", "front"))
    )
    text, _, _ = TEXT.partition("platform rig")
    (folder / "app.flow").write_text(
        f"{text}platform rig {{ {machines}{links} }}\nmapping on rig {{ {pins} }}\n"
    )
    (folder / "tasks.py").write_text(TASKS)
    checked = flowc.check(folder / "app.flow", platform="rig")
    assert checked.ok and checked.platform is not None
    app, plain = checked.system.apps[0], flowc.check(folder / "app.flow").system.apps[0]
    assert without_transfers(app) == plain
    crossing = {
        (c.source, c.source_port, where[c.destination])
        for c in plain.channels
        if where.get(c.source)
        and where.get(c.destination)
        and where[c.source] != where[c.destination]
    }
    carriers = [t for t in app.tasks if t.transfer is not None]
    assert {t.name for t in carriers} == {
        f"{task}.{port}->{machine}" for task, port, machine in crossing
    }
    # nothing more, the second time
    assert with_transfers(checked.system, checked.platform)[0] == checked.system


def test_what_is_not_pinned_goes_where_its_neighbors_are(write: Write) -> None:
    text = TEXT.replace("    A.split -> front.core[1]\n", "").replace(
        "    A.odd -> back.core[2]\n", ""
    )
    flow = write(
        text.replace("A.camera -> front.core[0]", "A.camera -> front.core[1]"), tasks_py=TASKS
    )
    out = build(flow, flow.parent / "out", platform="rig")
    assert (
        '"A.odd",'
        in (out / "parts/front/main.py").read_text() + (out / "parts/back/main.py").read_text()
    )
    # the first of two machines that are as near
    assert '"A.split",' in (out / "parts/front/main.py").read_text()


def test_a_crossing_channel_has_room_for_a_transfer_more(write: Write) -> None:
    flow = write(TEXT, tasks_py=TASKS)
    store_profile(flow, platform="rig")
    valid = flowc.check(flow, platform="rig").require()
    deployed = planned(valid, None)
    whole = {c.name: c.capacity for c in deployed.deployment.apps[0].channels}
    front, back = (p.deployment for p in deployed.parts.values())
    assert front.part is not None and back.part is not None
    assert {c.number: c.outgoing for c in front.part.crossings} == {
        c.number: not c.outgoing for c in back.part.crossings
    }
    assert front.part.whole == back.part.whole
    assert all(
        whole[c.channel.name] == c.channel.capacity for p in (front, back) for c in p.part.crossings
    )  # type: ignore[union-attr]
    assert {t.name for t in front.tasks} | {t.name for t in back.tasks} == {
        t.name for t in deployed.deployment.tasks
    }
    assert front.part.led == () and back.part.led == ("A",) and front.part.passed == ("A",)


def test_a_stored_mapping_says_what_crosses(write: Write) -> None:
    """What `map` finds is carried out like pins, and its transfers follow."""
    head, _, _ = TEXT.partition("mapping on rig")
    flow = write(head, tasks_py=TASKS)
    assert not any(t.transfer for t in app_of(flow).tasks)
    valid = flowc.check(flow, platform="rig").require()
    from flowc.model.mapping import Mapping, Placement

    places = {"camera": "front.core[0]", "split": "front.core[1]", "weigh": "back.core[0]", "tell": "back.core[2]",
              "odd": "front.core[0]"}  # fmt: skip
    mapping = Mapping("rig", tuple(Placement(f"A.{n}", (p,)) for n, p in places.items()))
    mapped = valid.mapped(mapping)
    found = [t.name for t in mapped.system.apps[0].tasks if t.transfer is not None]
    assert set(found) == {"A.split.part->back", "A.camera.mark->back", "A.tell.last->front"}
    assert mapped.repetition["A"]["A.split.part->back"] == 2
    no_link = [c for c in head.splitlines() if "link front" not in c]
    flow.write_text("\n".join(no_link))
    with pytest.raises(Errors, match="F530"):
        flowc.check(flow, platform="rig").require().mapped(mapping)


def test_times_on_a_link_make_the_period_longer(write: Write) -> None:
    """A cycle across machines with too few tokens for its round trip."""
    flow = write(TEXT.replace("python", "wcet 1 us   python"), tasks_py=TASKS)
    period = flowc.analyze(flow, platform="rig").apps["A"].period
    # Two tokens go around: split, there, weigh, tell, and back; an iteration fires all of it twice.
    assert period is not None and 600 * US < period < 700 * US


def test_the_layout_of_machines_and_links() -> None:
    text = "platform rig {\n  machine front{cpu core[2]  gpu volta}\nmachine back { cpu core }\nlink front back 110 MB / s 0.3 ms\n}\n"
    wanted = (
        "platform rig {\n    machine front { cpu core[2]   gpu volta }\n    machine back { cpu core }\n"
        "    link front back 110 MB/s 0.3 ms\n}\n"
    )
    assert format_text("a.flow", text) == wanted == format_text("a.flow", wanted)


def test_machine_and_link_may_still_be_names(write: Write) -> None:
    flow = write(
        "task T { out machine   in link }\napp A { machine: T   link: T   machine -> link   link -> delay 1 -> machine }\n"
    )
    assert flowc.check(flow).ok


def test_deadlines_are_searched_for_with_links_and_bounds_count_them(write: Write) -> None:
    flow = write("""
task Camera { out frame: uint8[480, 640, 3]   wcet 4 ms   python "tasks.py:camera" }
task Detect { in frame: uint8[480, 640, 3]   out found: int32[16]   wcet 8 ms   python "tasks.py:detect" }
task Act { in found: int32[16]   wcet 1 ms   python "tasks.py:act" }
app A { period 60 ms   camera: Camera   detect: Detect   act: Act   camera -> detect -> act }
platform rig {
    machine eye { cpu core[2] scheduler fixed_priority }
    machine brain { cpu core[2] scheduler fixed_priority }
    link eye brain 110 MB/s 0.3 ms
}
mapping on rig { A.camera -> eye.core[0]   A.detect -> brain.core[0] }
""", tasks_py="def camera(): ...\ndef detect(frame): ...\ndef act(found): ...\n")  # fmt: skip
    mapping = find_mapping(flow, platform="rig", budget=0.2, measure=False).mapping
    # as near as the other machine, and declared first
    assert mapping.of("A.act")[0].startswith("eye.")
    (group,) = mapping.groups
    there, back = 300 * US + Fraction(921600 * 1000, 110), 300 * US + Fraction(64 * 1000, 110)
    assert group.schedulable and group.response_ns == ceil(13_000 * US + there + back)
    assert dict(mapping.utilization)["eye->brain"] == pytest.approx(float(there) / 60e6, rel=1e-3)
    checked = flowc.check(flow, platform="rig")  # the stored mapping speaks for the text
    assert checked.mapping is not None and not checked.diagnostics
