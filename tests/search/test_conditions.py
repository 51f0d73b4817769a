"""What verdicts rest on: each condition with a text that causes it, from the verb to the words and
the data, and no condition without its cause."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flowc.cli import app
from flowc.model.conditions import SENTENCES, WORDS, Condition, together
from typer.testing import CliRunner

Write = Callable[..., Path]

PLATFORM = "platform p { cpu core[2] scheduler fixed_priority wakeup 1 us }\n"
TASKS = """
task Src { out x: int32   wcet 1 ms }
task Cam { live   out x: int32   wcet 1 ms }
task Work { in x: int32   out y: int32   wcet 2 ms }
task End { in y: int32   wcet 1 ms }
task Join { in x: int32   in z: int32   wcet 1 ms }
"""
TIMED = "app A { period 20 ms   s: Src   w: Work   e: End   s -> w -> e }\n"
LIVE = TIMED.replace("s: Src", "s: Cam")
GPU = " gpu g scheduler SCHEDULER compute 8.7 }"
ON_GPU = PLATFORM.replace(" }", GPU) + TASKS + TIMED + "mapping on p { A.w -> g wcet 2 ms }\n"
#: By condition: a text of which it is the only one, and what the condition is about.
CAUSES: dict[str, tuple[str, list[str]]] = {
    "phase": (
        PLATFORM + TASKS + "app A { period 20 ms  c: Cam  s: Src  j: Join  c -> j.x  s -> j.z }",
        ["A.c"],
    ),
    "together": (
        PLATFORM + TASKS + "app A { period 20 ms  c: Cam  d: Cam  j: Join  c -> j.x  d -> j.z }",
        ["A.c", "A.d"],
    ),
    "apart": (PLATFORM + TASKS + LIVE, ["A.s"]),
    "pace": (PLATFORM + TASKS + LIVE.replace("w -> e", "w -> delay 1 -> e"), ["A.s"]),
    "equal": (
        PLATFORM.replace("}", " cpu slow scheduler fixed_priority wakeup 1 us }") + TASKS + TIMED,
        ["core", "slow"],
    ),
    "streams": (ON_GPU.replace("SCHEDULER", "priority"), ["g"]),
    "slices": (ON_GPU.replace("SCHEDULER", "time_slice 2 ms"), ["g"]),
    "wakeup": (PLATFORM.replace(" wakeup 1 us", "") + TASKS + TIMED, ["core"]),
}


def mapped(file: Path) -> tuple[int, dict[str, Any]]:
    command = ["map", str(file), "--platform", "p", "--no-measure", "--evaluations", "20"]
    ran = CliRunner().invoke(app, [*command, "--json"])
    return ran.exit_code, json.loads(ran.stdout)


def said(file: Path, *words: str) -> str:
    command = ["map", str(file), "--platform", "p", "--no-measure", "--evaluations", "20"]
    return CliRunner().invoke(app, [*command, *words]).output


def pinned(tasks: dict[str, str], place: str) -> str:
    """Pins of tasks with names of one letter to a place."""
    pins = (f"{name}.{task} -> {place}" for name, own in tasks.items() for task in own)
    return f"mapping on p {{ {' '.join(pins)} }}\n"


@pytest.mark.parametrize("name", CAUSES)
def test_a_condition_has_its_cause(write: Write, name: str) -> None:
    text, about = CAUSES[name]
    file = write(text)
    status, document = mapped(file)
    found = document["groups"]["A"]["conditions"]
    own = [condition for condition in found if condition["condition"] == name]
    assert status == 0 and [condition["of"] for condition in own[:1]] == [about]
    others = {condition["condition"] for condition in found} - {name}
    assert others <= ({"apart"} if name == "together" else set())
    output = said(file)
    words = WORDS[name]  # type: ignore[index]
    assert f" if {words}" in output or f"and {words}" in output or not words
    (condition,) = [Condition(c["condition"], tuple(c["of"]), c["time_ns"]) for c in own]
    assert f"{words or 'assumed'}: {condition.sentence}" in output


def test_a_text_that_says_everything_has_no_conditions(write: Write) -> None:
    status, document = mapped(write(PLATFORM + TASKS + TIMED))
    assert status == 0 and document["groups"]["A"]["conditions"] == []


def test_verdicts_rest_on_what_delays_them(write: Write) -> None:
    """B is less urgent than the camera on its core, C is alone."""
    text = PLATFORM + TASKS + LIVE.replace("20 ms", "20 ms priority 2")
    text += TIMED.replace("app A", "app B").replace("20 ms", "40 ms priority 1")
    text += TIMED.replace("app A", "app C").replace("20 ms", "40 ms priority 1")
    text += pinned({"A": "swe", "B": "swe"}, "core[0]") + pinned({"C": "swe"}, "core[1]")
    names = {}
    for group, bound in mapped(write(text))[1]["groups"].items():
        names[group] = [condition["condition"] for condition in bound["conditions"]]
    assert names == {"A": ["apart"], "B": ["apart"], "C": []}


PHASED = """
task H { out x: int32 rate [1, 1]   wcet [1, 8] ms }
task K2 { in x: int32 rate [1, 1]   wcet [100, 100] us }
task K { in x: int32   wcet 100 us }
task C { live   out x: int32   wcet 4 ms }
task S { out x: int32   wcet 9 ms }
task G { in x: int32   out y: int32   wcet 4 ms }
app High { period 20 ms   priority 2   h: H   k: K2   h -> k }
"""


def responses(file: Path) -> dict[str, int]:
    groups = mapped(file)[1]["groups"]
    return {name: group["response_time_ns"] for name, group in groups.items()}


def test_data_from_outside_come_in_any_phase(write: Write) -> None:
    """At 10 ms, with the long firing: 8.1 + 4.1 ms, and the short one at 20 ms before the end."""
    text = PHASED + "app Low { period 20 ms  deadline 14 ms  priority 1  c: C  k: K  c -> k }\n"
    text += "platform p { cpu core scheduler fixed_priority }"
    assert responses(write(text))["Low"] == 13_300_000


def test_tokens_release_their_reader_when_they_come(write: Write) -> None:
    """At 9.11 ms at the latest: 0.89 ms later the long firing begins, and the short one at 20."""
    text = PHASED + (
        "app Make { period 20 ms  priority 1  s: S  k: K  s -> k }\n"
        "app Take { period 20 ms  deadline 14 ms  priority 1  g: G  k: K\n"
        "  Make.s -> drop oldest 4 wcet 10 us -> g -> k }\n"
        "platform p { cpu core[2] scheduler fixed_priority }\n"
    )
    text += pinned({"High": "hk", "Take": "gk"}, "core[0]") + pinned({"Make": "sk"}, "core[1]")
    # A firing of the end in front of the reader may come on top for the token that is next.
    assert responses(write(text))["Take"] == 13_330_000


#: A camera that drops, and its reader on another core.
HELD = """
task C { live   out x: int32   wcet 1 ms }
task R { in x: int32   wcet 2 ms }
app A { period 10 ms   c: C drop oldest 2   r: R   c -> r }
platform p { cpu core[2] scheduler fixed_priority }
mapping on p { A.c -> core[0]   A.r -> core[1] }
"""


def test_a_source_that_drops_waits_for_iterations_before(write: Write) -> None:
    """No more of them are under way than fit into the deadline: where one is late, the source takes
    no token."""
    assert responses(write(HELD)) == {"A": 3_000_000}
    often = HELD.replace("task R { in x: int32", "task R { in x: int32 rate [1, 1]")
    assert responses(write(often)) == {"A": 8_000_000}
    slow = often.replace("wcet 2 ms", "wcet 4500 us")
    assert responses(write(slow)) == {"A": None}
    assert "`A` has no bound: a source of `A` may wait for late" in said(write(slow), "--explain")


#: Every second token of the camera waits until the next one is there.
BY_TWOS = (
    PLATFORM
    + """
task Src { out x: int32   wcet 1 ms }
task Work { in x: int32   out y: int32   wcet 2 ms }
task Two { in x: int32 rate 2   out y: int32   wcet 2 ms }
task End { in y: int32   wcet 1 ms }
app A { period 20 ms   s: Src   w: Work   s -> w }
app B { period 40 ms   deadline 200 ms from A.s to e   reaction 300 ms from A.s to e
  t: Two   e: End   A.w -> drop oldest 4 wcet 10 us -> t.x   t -> e }
mapping on p { A.s -> core[0]   A.w -> core[0]   A.to_B -> core[0] }
mapping on p { B.t -> core[1]   B.e -> core[1]   B.from_A_w -> core[1] }
"""
)


def test_news_in_a_token_that_is_not_passed_on_wait_for_the_next_one(write: Write) -> None:
    """From an event on: 20 ms to the release, 3.011 in A, 20 for the second token, 6.023 in B."""
    paths = {p["kind"]: p for p in mapped(write(BY_TWOS))[1]["groups"]["B"]["paths"]}
    assert paths["reaction"]["latency_ns"] == 49_034_000
    assert paths["age"]["latency_ns"] == 9_034_000
    for kind in ("age", "reaction"):
        conditions = paths[kind]["conditions"]
        assert [(c["condition"], c["of"]) for c in conditions] == [("taken", ["B.from_A_w"])]
    each = BY_TWOS.replace("x: int32 rate 2", "x: int32").replace("period 40 ms", "period 20 ms")
    paths = {p["kind"]: p for p in mapped(write(each))[1]["groups"]["B"]["paths"]}
    assert paths["reaction"]["latency_ns"] == 26_023_000
    assert paths["reaction"]["conditions"] == []


def test_conditions_of_one_name_are_one() -> None:
    made = together(
        (
            Condition("measured", ("b",)),
            Condition("apart", ("c",), 5),
            Condition("measured", ("a", "b")),
        )
    )
    assert made == (Condition("apart", ("c",), 5), Condition("measured", ("b", "a")))


#: For each condition what causes it, as the page on mapping says it.
EXAMPLES: dict[str, str] = {
    "phase": "`live` and timed sources in one app: `c: Cam  s: Src  c -> j.x  s -> j.z`",
    "together": "two sources of one app that are `live` or take tokens: `c: Cam  d: Cam`",
    "apart": "`task Cam { live  out x: int32 }`",
    "pace": "a `live` source whose app has a `delay` or a task that reads nothing in its first "
    "phase (`rate [0, 2]`), or ages and reactions from it",
    "skips": "`on error skip` on the way of an age or a reaction",
    "taken": "`drop oldest` into an app that takes several tokens in an iteration, or has a `delay`",
    "interpreter": "tasks in Python in two threads; `process`, C or `--target native` removes it",
    "niceness": "an app without a period under `static_order`",
    "equal": "`cpu big[2]  cpu little[2]`; `wcet 2 ms on big, 5 ms on little` removes it",
    "streams": "`gpu g scheduler priority`",
    "slices": "`gpu g scheduler time_slice 2 ms`",
    "full": "a list `up to 16` of which the run for the profile had 3; a `wcet` removes it",
    "older": "a stored mapping from before this version",
    "estimated": "a kind of processor that was not measured",
    "measured": "a profile; a `wcet` in the text removes it",
    "wakeup": "`cpu core[2]` without `wakeup`",
}


def test_the_page_on_mapping_has_all_conditions() -> None:
    page = Path("docs/mapping.md").read_text()
    assert WORDS.keys() == SENTENCES.keys() == EXAMPLES.keys()
    for name, words in WORDS.items():
        says = SENTENCES[name].format(of="…", ms="…")
        verdict = f"*if {words}*" if words else "*assumed*"
        row = f"| {verdict} | `{name}` | {says} | {EXAMPLES[name]} |"
        assert row in page, row
