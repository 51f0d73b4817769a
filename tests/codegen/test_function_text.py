"""Versions of statements as one function: called with the arguments of a version, it does what that
version does."""

from __future__ import annotations

import random

from flowc.codegen.function_text import Parameters, Statement, in_branches


def function(versions: list[list[str]], values: list[dict[str, str]]) -> tuple[str, Parameters]:
    """A function that appends the statements of a version to `out`, as text."""
    parameters = Parameters(values, {"out"})
    statements: list[list[Statement]] = [
        [(f"out.append({s!r})",) for s in version] for version in versions
    ]
    lines = in_branches(statements, parameters.condition)
    return "\n    ".join([f"def made({parameters.signature}):", *lines, "pass"]), parameters


def done(text: str, arguments: str) -> list[str]:
    """What a call of the function appends."""
    out: list[str] = []
    space = {"out": out}
    exec(f"{text}\nmade({arguments})\n", space)
    return out


def test_statements_of_some_versions_are_in_branches() -> None:
    text, parameters = function(
        [["a", "b", "e"], ["a", "c", "d", "e"], ["a", "b", "e"]],
        [{"kind": '"x"'}, {"kind": '"y"'}, {"kind": '"x"', "size": "3"}],
    )
    assert (
        text
        == """def made(kind="x"):
    out.append('a')
    if kind == "x":
        out.append('b')
    else:
        out.append('c')
        out.append('d')
    out.append('e')
    pass"""
    )
    assert [parameters.arguments(k) for k in range(3)] == ["", 'kind="y"', ""]


def test_two_parameters_together_tell_versions_apart() -> None:
    corners = [(a, b) for a in "xy" for b in "uv"]
    text, _ = function(
        [["s"] if corner == ("x", "u") else [] for corner in corners],
        [{"a": f'"{a}"', "b": f'"{b}"'} for a, b in corners],
    )
    assert 'if (a, b) == ("x", "u"):' in text


def test_each_version_does_what_it_did_by_itself() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        versions, values = [], []
        for number in range(rng.randint(1, 4)):
            versions.append(rng.sample("abcdefgh", rng.randint(0, 8)))
            values.append({"kind": str(number), "size of it": str(rng.randint(0, 2))})
        text, parameters = function(versions, values)
        for number, version in enumerate(versions):
            assert done(text, parameters.arguments(number)) == version, (seed, text)
