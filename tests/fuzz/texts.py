"""Texts in .flow: mutated seeds, texts that the grammar allows, and texts that mean something;
through all that reads.

Seeds are the examples, the blocks in docs, the shipped boards and the faulty texts of the tests.
"""

from __future__ import annotations

import re
import shutil
from functools import lru_cache
from pathlib import Path
from random import Random

import flowc
from flowc.cli.analyze import analyze
from flowc.cli.check import check
from flowc.cli.export import export
from flowc.cli.headers import headers
from flowc.cli.show import show
from flowc.codegen.emit import emit
from flowc.driver.plan.program import place, require_buildable
from flowc.driver.plan.program import plan as plan_of
from flowc.driver.text.check import Checked
from flowc.dsl.format import format_text
from flowc.dsl.load import read_text
from flowc.interop.registry import Options
from flowc.model.diagnostic import Errors
from flowc.model.times import times_of
from lark import Lark

from . import mutate
from .faces import ROOT, face

NAMES = (
    "A",
    "B",
    "t",
    "u",
    "x",
    "y",
    "P",
    "core",
    "host",
    "Net",
    "n",
    "files",
    "cpu",
    "image",
    "a",
    "b",
)
STRINGS = (
    "files/dsp.c:scale", "files/exp.onnx", "files/linear.onnx", "vision.py:Show", "signal_tasks.py:Source", "x",
    "files/kernels.cu:edges", "other.flow", "../x", "a:b", "10.3", "files/branch.onnx", "files/frames/*.npy", "y",
)  # fmt: skip
SAMPLES = {
    "DIRECTION": ("in", "out"),
    "WRAP": ("pre", "post"),
    "STATELESS": ("stateless",),
    "MUL": ("*", "/"),
    "ADD": ("+", "-"),
}


def prepare(folder: Path) -> None:
    """What texts name: code, networks, pictures."""
    shutil.copytree(ROOT / "tests" / "faulty" / "files", folder / "files")
    for file in ROOT.glob("examples/*/*"):
        if file.suffix in (".py", ".c", ".cu", ".npz", ".onnx") and file.stat().st_size < 1 << 19:
            shutil.copy(file, folder)


@lru_cache(maxsize=1)
def seeds() -> list[str]:
    """Texts that were written by people."""
    files = [
        *ROOT.glob("examples/*/*.flow"),
        *ROOT.glob("platforms/*.flow"),
        *ROOT.glob("tests/faulty/*.flow"),
    ]
    found = [f.read_bytes().decode(errors="replace") for f in sorted(files)]
    for page in sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md"]):
        found += re.findall(r"```flow\n(.*?)```", page.read_text(), re.DOTALL)
    return found


def make(rng: Random, folder: Path) -> None:
    """One text, sometimes with another one that it may use."""
    way = rng.random()
    if way < 0.5:
        said = mutate.text(rng, rng.choice(seeds()), seeds())
    elif way < 0.6:
        said = "\n".join(from_grammar(rng) for _ in range(rng.randrange(1, 6)))
    else:
        said = plausible(rng)
        said = mutate.text(rng, said, seeds()) if way > 0.9 else said
    content = said.encode(errors="surrogatepass")
    (folder / "app.flow").write_bytes(mutate.data(rng, content) if rng.random() < 0.05 else content)
    if rng.random() < 0.1:
        (folder / "other.flow").write_text(rng.choice(seeds()))


@lru_cache(maxsize=1)
def _grammar() -> tuple[dict[str, list[list[str]]], dict[str, int], dict[str, str]]:
    """The rules of the grammar, how deep each is at least, and the words that are written as they
    are."""
    lark = Lark(
        (ROOT / "dsl" / "grammar.lark").read_text(),
        parser="lalr",
        lexer="basic",
        maybe_placeholders=False,
    )
    rules: dict[str, list[list[str]]] = {}
    for rule in lark.rules:
        rules.setdefault(rule.origin.name, []).append([s.name for s in rule.expansion])
    words = {
        t.name: str(t.pattern.value)
        for t in lark.terminals
        if type(t.pattern).__name__ == "PatternStr"
    }
    depth = dict.fromkeys(rules, 99)
    for _ in range(40):
        for name, options in rules.items():
            depth[name] = min(
                1 + max((depth.get(s, 0) for s in option), default=0) for option in options
            )
    return rules, depth, words


def from_grammar(rng: Random) -> str:
    """A declaration that the grammar allows: its names seldom mean anything."""
    rules, depth, words = _grammar()
    made: list[str] = []

    def grow(symbol: str, left: int) -> None:
        if symbol in rules:
            options = [
                o
                for o in rules[symbol]
                if all(depth.get(s, 0) < max(left, depth[symbol]) for s in o)
            ]
            for part in rng.choice(options or rules[symbol]):
                grow(part, left - 1)
        elif symbol in words:
            made.append(words[symbol])
        elif symbol in SAMPLES:
            made.append(rng.choice(SAMPLES[symbol]))
        elif symbol == "NUMBER":
            made.append(rng.choice(mutate.NUMBERS).lstrip("-"))
        elif symbol == "STRING":
            made.append(f'"{rng.choice(STRINGS)}"')
        elif symbol == "_ARROW":
            made.append("->")
        else:
            made.append(rng.choice(NAMES))

    grow("start", rng.choice((8, 14, 25)))
    return " ".join(made)


def plausible(rng: Random) -> str:
    """Tasks, graphs, an app and a platform whose names fit together, with numbers that may not."""
    odd = rng.choice((0.0, 0.0, 0.05))

    def number(*usual: int) -> str:
        return rng.choice(mutate.NUMBERS) if rng.random() < odd else str(rng.choice(usual))

    def rate() -> str:
        return rng.choice(
            ("", "", "", f"rate {number(1, 1, 2, 3)}", f"rate [{number(1, 2)}, {number(0, 1, 2)}]")
        )

    count = rng.choice((2, 3, 4, 6, 12))
    lines = [f"const K = {number(1, 2, 8)}", f"type F = float32[{number(1, 4)}, K]"]
    items = (
        [f"period {number(10, 33, 100)} ms  deadline {number(10, 20)} ms"]
        if rng.random() < 0.3
        else []
    )
    made: list[str] = []
    for i in range(count):
        inputs = [f"a{p}" for p in range(0 if i == 0 else rng.randrange(1, 3))]
        outputs = [f"b{p}" for p in range(1 if i == 0 else rng.randrange(0, 3))]
        extra = rng.choice(
            ("", "", "wcet 3 ms", f"wcet {number(1, 5)} us", "stateless", "state s: int32")
        )
        ports = [
            *(f"in {p}: F {rate()}" for p in inputs),
            *(f"out {p}: F {rate()}" for p in outputs),
        ]
        lines.append(
            f"task T{i}{rng.choice(('', '', '(k: int = 2)'))} {{ {'  '.join([*ports, extra])} }}"
        )
        items.append(f"t{i}: T{i}")
        for port in inputs:
            if rng.random() < 0.15 and outputs:
                items.append(
                    f"t{i}.{outputs[0]} -> delay {number(1, 2, 6)} {rng.choice(('', '= 0'))} -> t{i}.{port}"
                )
            else:
                delay = rng.choice(
                    (
                        "",
                        "",
                        "",
                        f"delay {number(1, 2, 3)} -> ",
                        f"repeat {number(1, 2, 3)} -> ",
                        f"last {number(1, 2)} of K -> ",
                    )
                )
                items.append(f"{rng.choice(made)} -> {delay}t{i}.{port}")
        made += [f"t{i}.{p}" for p in outputs]
    if rng.random() < 0.3:
        lines.append("task M { in i: F  out o: F }\ntask S { out o: F }\ntask E { in i: F }")
        depth = rng.randrange(1, 4)
        lines += [
            f"graph G{d} {{ in i: F  out o: F  g: {f'G{d - 1}' if d else 'M'}  i -> g -> o }}"
            for d in range(depth)
        ]
        array = rng.choice(("", "", f"[{number(2, 3)}]"))
        items.append(f"s{array}: S  e{array}: E  g{array}: G{depth - 1}  s -> g -> e")
    lines.append("app A { " + "\n  ".join(items) + " }")
    if rng.random() < 0.4:
        kinds = (
            f"cpu core[{number(2, 4)}]",
            "gpu volta { compute 7.2 engines 4 total }",
            f"dla nv[{number(2)}]",
        )
        lines.append(
            f"platform host2 {{ {'  '.join([kinds[0], *rng.sample(kinds[1:], rng.randrange(3))])} }}"
        )
        words = f"streams {number(1, 2)} threads {number(1, 3)} wcet 5 ms"
        lines.append(
            f"mapping on host2 {{ A.t{rng.randrange(count)} -> core[{number(0, 1)}] {words} }}"
        )
    rng.shuffle(lines)
    return "\n".join(lines) + "\n"


def run(rng: Random, folder: Path) -> bool:
    """All that reads a text without running anything. True when it has no faults."""
    file = folder / "app.flow"
    platform = rng.choice(("host", "host", "host", "orin", "host2", "xavier"))
    before = flowc.check(file, platform=platform)
    face(check, file, platform=platform, as_json=rng.random() < 0.5)
    _format(file)
    if before.ok:
        after = flowc.check(file, platform=platform)
        assert after.ok and _meaning(after) == _meaning(before), (
            "a formatted text means something else"
        )
    face(
        analyze,
        file,
        seconds=0.3,
        platform=platform,
        as_json=rng.random() < 0.5,
        buffers=rng.random() < 0.3,
    )
    if before.ok and before.system.apps:
        if rng.random() < 0.3:
            face(
                export,
                file,
                output=folder / "out.xml",
                options=Options(),
                platform=platform,
                force=True,
            )
            face(
                export,
                file,
                format="jedi",
                output=folder / "out.cfg",
                options=Options(),
                platform=platform,
                force=True,
            )
        face(headers, file)
        face(_plan, before)
        if rng.random() < 0.03:
            face(show, file, output=folder / "out.svg", platform=platform)
    return before.ok


def _meaning(checked: Checked) -> object:
    return {
        name: (v.repetition, v.consistent.holds, v.deadlock_free.holds)
        for name, v in checked.verdicts.items()
    }


def _format(file: Path) -> None:
    text = read_text(str(file))
    if not isinstance(text, str):
        return
    try:
        once = format_text(str(file), text)
    except Errors:
        return
    assert format_text(str(file), once) == once, "formatting twice is not formatting once"
    file.write_text(once)


def _plan(checked: Checked) -> None:
    """What `build` does before it writes."""
    require_buildable(checked.require())
    valid = checked.require()
    times = times_of(valid.system, valid.platform)
    plan = emit(plan_of(valid, times, place(valid, times)))
    for name, content in plan.items():
        if isinstance(content, bytes) and name.endswith((".py", ".c", ".h", ".sh")):
            assert "\u202e" not in content.decode(), f"{name} shows code in another order"
