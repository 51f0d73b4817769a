"""Large texts, mostly faulty ones: what a check costs grows with the text, not with its square.

With the square of it, each of these would take minutes. What a plain text costs is measured by
`benchmarks/compile_time.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from flowc.driver.text.check import check
from flowc.model.diagnostic import MOST_COMPARED, closest, few_guesses

from builds import Write, in_a_moment

TASKS = """
task Source { out x: int32 }
task Twice  { in x: int32   out y: int32 }
task Sink   { in y: int32 }
"""


def lines(count: int, line: Callable[[int], str]) -> str:
    return "".join(f"    {line(i)}\n" for i in range(count))


def chain(count: int, more: str = "", tasks: str = TASKS) -> str:
    """An app with a chain of tasks, and something more in it."""
    names = ["source", *(f"t{i}" for i in range(count)), "sink"]
    arrows = "".join(f"    {a} -> {b}\n" for a, b in pairwise(names))
    return f"{tasks}app P {{\n    source: Source\n    sink: Sink\n{lines(count, 't{}: Twice'.format)}{arrows}{more}}}\n"


def unknown_ends(count: int) -> str:
    arrows = lines(count, "t{0} -> other{0}".format)
    return f"{TASKS}app P {{\n    source: Source\n{lines(count, 't{}: Twice'.format)}{arrows}}}\n"


def unknown_pins(count: int) -> str:
    pins = lines(count, "P.tt{} -> core".format)
    return f"{chain(count)}platform board {{ cpu core }}\nmapping on board {{\n{pins}}}\n"


def unknown_parameters(count: int) -> str:
    declared = ", ".join(f"p{i}: int = {i}" for i in range(count))
    given = ", ".join(f"q{i} = {i}" for i in range(count))
    return f"task T({declared}) {{ out x: int32 }}\napp P {{ t: T({given}) }}\n"


def many_inputs(count: int) -> str:
    inputs = lines(count, "in x{}: int32".format)
    return f"{TASKS}task Wide {{\n{inputs}}}\napp P {{\n    wide: Wide\n{lines(count, 's{0}: Source   s{0} -> wide'.format)}}}\n"


def links(count: int) -> str:
    reading = lines(count, "k{0}: Sink   P.t0 -> latest -> k{0}".format)
    return f"{chain(1)}app Q {{\n{reading}}}\n"


def path_deadlines(count: int) -> str:
    return chain(count, "    period 1 s\n" + lines(count, "deadline 1 s from source to t{}".format))


def skipped_frames(count: int) -> str:
    code = TASKS.replace("out y: int32", "out y: int32   on error skip")
    return chain(count, tasks=code)


def repeats(count: int) -> str:
    return f"{TASKS}app P {{\n    source: Source\n{lines(count, 'k{0}: Sink   source -> repeat 2 -> k{0}'.format)}}}\n"


@pytest.mark.parametrize(
    ("text", "count", "codes"),
    [
        (chain, 20_000, set()),
        (unknown_ends, 6_000, {"F101", "F202", "F208"}),
        (unknown_pins, 5_000, {"F502"}),
        (unknown_parameters, 5_000, {"F108"}),
        (many_inputs, 5_000, {"F206"}),
        (links, 5_000, set()),
        (path_deadlines, 3_000, set()),
        (skipped_frames, 1_500, set()),
        (repeats, 5_000, set()),
    ],
    ids=lambda value: getattr(value, "__name__", None) or "",
)
def test_a_large_text_is_checked_in_a_moment(
    text: Callable[[int], str], count: int, codes: set[str], write: Write
) -> None:
    flow = write(text(count))
    with in_a_moment():
        found = check(flow)
    assert {d.code for d in found.diagnostics} == codes


def test_the_first_unknown_names_get_a_suggestion_and_not_all_of_thousands() -> None:
    known = [f"camera{i}" for i in range(1000)]
    with few_guesses():
        found = [closest(f"kamera{i}", known) for i in range(1000)]
    helped = MOST_COMPARED // len(known)
    assert found == [*(f"camera{i}" for i in range(helped)), *[""] * (1000 - helped)]
    assert closest("kamera999", known) == "camera999"  # elsewhere, one is looked up at a time


def test_what_no_person_has_typed_is_compared_with_nothing() -> None:
    assert closest("a" * 1000, ["a" * 999]) == ""
