"""Random texts as programs in C++, held against the sequential reference; and mistakes that are
planted into them, each of which has to be found.

The texts (tests/support/native_texts.py) have several apps with rates, phases, windows, delays with
values, cycles, `repeat` and `last`, parameters, on two or three cores, so that orders have stages.
`flowc test` compares what every firing has read and made, bit for bit.

    PYTHONPATH=tests/support python tests/referees/native.py [--texts 500] [--seed 0]
    PYTHONPATH=tests/support python tests/referees/native.py --states [--texts 100]
    PYTHONPATH=tests/support python tests/referees/native.py --variants [--texts 100]
    PYTHONPATH=tests/support python tests/referees/native.py --recorded [--states] [--texts 100]
    PYTHONPATH=tests/support python tests/referees/native.py --planted 3
    PYTHONPATH=tests/support python tests/referees/native.py --sanitize thread [--texts 100]
    PYTHONPATH=tests/support python tests/referees/native.py --sanitize address,undefined

With `--states`, each text has a scenario, whose states run some of the apps each, every second one
with places of its own; with `--variants`, states differ in variants of networks, so that many follow
each other without a pause. Both go with `--sanitize` and `--recorded`: each program is recorded, and
the program in Python of the same build replays that. With `--planted N`, each kind of mistake is put
into the main.cpp of N texts that have a place for it.
With `--sanitize`, programs are compiled with that sanitizer of the compiler, and run without the
harness, whose recorder would keep threads apart. Exit status 1 if a text or a mistake went wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import flowc
import numpy as np
from flowc.driver.execute.native import record_native, toured
from flowc.driver.execute.run import test as run_harness
from flowc.driver.plan.program import deployment, write_program
from flowc.driver.text.check import prepare
from flowc.runtime.reference import load_deployment

from models import N, save
from native_compiler import QUICK, compiler
from native_texts import VARIANTS, draw, draw_with_states, draw_with_variants

#: Seconds for a program or a harness.
LIMIT = 300
#: Frames of a program that runs for a sanitizer.
FRAMES = 40
#: Random texts that are tried for a place of a mistake.
TRIES = 60


def written(seed: int, folder: Path) -> Path:
    """A text in a folder."""
    text, code = draw(seed, cores=2 + seed % 2)
    (folder / "app.flow").write_text(text)
    (folder / "app.c").write_text(code)
    return folder / "app.flow"


# -- texts -----------------------------------------------------------------------------------------
def disagreement(seed: int, folder: Path) -> str:
    """Why a text does not agree with the reference; empty where it does."""
    try:
        tested = run_harness(
            written(seed, folder),
            folder / "build",
            platform="board",
            native=True,
            measure=False,
            quiet=True,
        )
    except flowc.Errors as faults:
        return str(faults)
    return "\n".join(t.message for t in tested.tests if t.outcome != "passed")


def complaint(seed: int, folder: Path) -> str:
    """What a sanitizer says of a text; empty where it says nothing."""
    flowc.build(
        written(seed, folder), folder / "build", platform="board", native=True, measure=False
    )
    return _said_by([folder / "build/main", "--full-speed", "--frames", str(FRAMES), "--quiet"])


def unlike_its_recording(seed: int, folder: Path) -> str:
    """What the program in Python says of a recording that it does not repeat; empty where it
    does."""
    flowc.build(
        written(seed, folder), folder / "build", platform="board", native=True, measure=False
    )
    return _replayed(folder / "build", "--frames", str(FRAMES))


def _replayed(build: Path, *words: str | Path) -> str:
    file = build / "run.mcap"
    command = [build / "main", "--full-speed", "--quiet", "--record", file, *words]
    said = _said_by(command)
    return said or _said_by([sys.executable, build / "main.py", "--quiet", "--replay", file])


def _said_by(command: list[str | Path]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    return done.stderr if done.returncode or done.stderr else ""


# -- states ----------------------------------------------------------------------------------------
def with_states(seed: int, folder: Path) -> Path:
    """The build of a text with states, every second of which has places of its own."""
    first, second, code = draw_with_states(seed, cores=2 + seed % 2)
    (folder / "app.c").write_text(code)
    (folder / "app.flow").write_text(first)
    (folder / "other.flow").write_text(second)
    return of_both(folder, "app.flow", "other.flow", platform="board")


def with_variants(seed: int, folder: Path) -> Path:
    """The same of a text whose states differ in variants of networks."""
    first, second, code = draw_with_variants(seed, cores=2 + seed % 2)
    for name, (by, more) in VARIANTS.items():
        layers = [N("Mul", ["x", "by"], ["z"]), N("Add", ["z", "more"], ["y"])]
        given = {"by": np.float32([by]), "more": np.float32([more])}
        save(folder / f"{name}.onnx", layers, {"x": [4]}, given, "y")
    (folder / "app.c").write_text(code)
    (folder / "app.flow").write_text(first)
    (folder / "other.flow").write_text(second)
    return of_both(folder, "app.flow", "other.flow", platform="board")


def of_both(folder: Path, *texts: str, platform: str) -> Path:
    """The build of a text whose states have the places of two texts in turn, but for those that one
    set of workers serves."""
    made = []
    for name in texts:
        valid = prepare(folder / name, platform=platform, native=True).require()
        made.append(deployment(valid, None, measure=False)[1])
    scenarios = [each.deployment.scenario for each in made]
    assert scenarios[0] is not None and scenarios[1] is not None
    pairs = zip(scenarios[0].states, scenarios[1].states, strict=True)
    served = {state.like or state.name: state.name for state in scenarios[0].states}
    ways = {name: number % 2 for number, name in enumerate(served)}
    states = tuple(pair[ways[pair[0].like or pair[0].name]] for pair in pairs)
    scenario = replace(scenarios[0], states=states)
    deployed = replace(made[0], deployment=replace(made[0].deployment, scenario=scenario))
    write_program(deployed, folder / "build", native=True)
    return folder / "build"


def disagreement_with_states(seed: int, folder: Path) -> str:
    """The same as `disagreement` for a text with states."""
    return disagreement_of(with_states(seed, folder), folder / "record")


def disagreement_with_variants(seed: int, folder: Path) -> str:
    """The same for a text whose states differ in variants of networks."""
    return disagreement_of(with_variants(seed, folder), folder / "record")


def disagreement_of(build: Path, record: Path) -> str:
    """Why a program does not agree with the reference; empty where it does."""
    record.mkdir()
    status = record_native(build, None, record, silent=True)
    if status:
        return f"the recorder has ended with status {status}"
    done = harness(build, record)
    return done.stderr.decode() if done.returncode else ""


def complaint_with_states(
    seed: int, folder: Path, made: Callable[[int, Path], Path] = with_states
) -> str:
    """The same as `complaint` for a text with states."""
    build = made(seed, folder)
    (folder / "tour.json").write_text(toured(load_deployment(str(build)), FRAMES))
    command = [build / "main", "--full-speed", "--quiet", "--replay", folder / "tour.json"]
    return _said_by(command)


def unlike_its_recording_with_states(
    seed: int, folder: Path, made: Callable[[int, Path], Path] = with_states
) -> str:
    """The same as `unlike_its_recording` for a text with states."""
    build = made(seed, folder)
    (folder / "tour.json").write_text(toured(load_deployment(str(build)), FRAMES))
    return _replayed(build, "--replay", folder / "tour.json")


# -- planted mistakes ------------------------------------------------------------------------------
def _put(place: str, change: Callable[[re.Match[str]], str]) -> Callable[[str], str]:
    """Change the first place of a kind; the same text where it has none."""
    return lambda text: re.sub(place, change, text, count=1)


def _one_less(match: re.Match[str]) -> str:
    return f"{match[1]}{int(match[2]) - 1}{match[3]}"


def _one_more(match: re.Match[str]) -> str:
    return f"{match[1]}{int(match[2]) + 1}{match[3]}"


def _fires(text: str, task: str) -> str:
    """What a task does in a firing."""
    body = re.search(rf"namespace {task} {{\nbool fires.*?\n}}\n", text, re.DOTALL)
    return body[0] if body else ""


def _stage(text: str) -> str:
    """Let a task that reads tokens of an array be an iteration later in all of its entries."""
    for task in re.findall(r"    w\.entry\((\w+)::fires", text):
        if re.search(r"= \w+::\w+_tokens\b", _fires(text, task)):
            entry = rf"(    w\.entry\({task}::fires, {task}::task, \w+, )(.*?)(, )"
            return re.sub(entry, r"\1\2 - 1\3", text)
    return text


def _wrap(text: str) -> str:
    """Let a ring have a slot more, so that what a firing writes is not in one piece at its end."""
    for block in re.finditer(r"namespace (\w+) {\n.*?\n}  // namespace", text, re.DOTALL):
        for ring in re.finditer(r"(flow::Ring<\w+> (\w+)\({.*?}, \d+, )(\d+)", block[0]):
            if re.search(rf"\b{ring[2]}\.wrote\([2-9]", _fires(text, block[1])):
                at = block.start() + ring.start(3)
                slots = str(int(ring[3]) + 1)
                return text[:at] + slots + text[at + len(ring[3]) :]
    return text


def _order(text: str) -> str:
    """Let a task fire before the one whose tokens it reads, in one worker."""
    entry = r"    w\.entry\((\w+)::fires, .*\);\n"
    for match in re.finditer(f"(?={entry}{entry})", text):
        first, second = match[1], match[2]
        reads = re.search(rf"= {first}::(\w+_tokens)\b", _fires(text, second))
        if first == second or not reads:
            continue
        if re.search(rf"namespace {first} {{.*?{reads[1]}_round.*?}}  //", text, re.DOTALL):
            continue  # some of its tokens are there before
        lines = text[match.start() :].splitlines(keepends=True)
        swapped = [lines[1], lines[0], *lines[2:]]
        return text[: match.start()] + "".join(swapped)
    return text


_RING = r"(flow::Ring<\w+> \w+\({.*?}, \d+, )"
#: Kinds of mistakes, as changes of main.cpp.
MISTAKES: dict[str, Callable[[str], str]] = {
    "offset": _put(r"(const \w+ \*const i\d = t?\w*::\w+_tokens.*?);", lambda m: f"{m[1]} + 1;"),
    "window": _put(r"(\.next\(w, \w+, k, 1, )([2-9])(\);)", _one_less),
    "capacity": _put(_RING + r"(\d+, )\d+", lambda m: f"{m[1]}{m[2]}0"),
    "stage": _stage,
    "delay value": _put(r"(_initial\[\] = {(?:INT64_C\()?)(\d+)()", _one_more),
    "zeroing": _put(r"memset\((o\d), 0, ", lambda m: f"memset({m[1]}, 1, "),
    "rate": _put(r"(\.took\()([2-9])(\))", _one_less),
    "order": _order,
    "repeat": _put(r"(flow::repeat\(in_, out, \d+, )(\d+)()", _one_less),
    "last": _put(r"(flow::last\(in_, out, \d+, )(\d+)()", _one_less),
    "parameter": lambda text: re.sub(r"(given = {(?:INT64_C\()?)(\d+)()", _one_more, text),
    "stale token where a ring wraps": _wrap,
}


def found(build: Path, text: str, folder: Path) -> bool:
    """Is a mistake found that makes this of the main.cpp of a build?"""
    (build / "main.cpp").write_text(text)
    if record_native(build, None, folder, silent=True):
        return True  # a task or the runtime has seen it
    return harness(build, folder).returncode != 0


def harness(build: Path, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """The harness of a build, with the recording in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "unittest", "discover", "-s", "tests"],
        cwd=build,
        env={**os.environ, "FLOWC_RECORDED": str(folder)},
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )


def planted(seeds: Iterable[int], each: int, folder: Path) -> Iterator[tuple[str, int, bool]]:
    """Kinds of mistakes, the texts that have one now, and whether it was found."""
    left = dict.fromkeys(MISTAKES, each)
    for seed in seeds:
        if not any(left.values()):
            return
        own = folder / str(seed)
        own.mkdir()
        flowc.build(written(seed, own), own / "build", platform="board", native=True, measure=False)
        text = (own / "build/main.cpp").read_text()
        for kind, change in MISTAKES.items():
            changed = change(text)
            if left[kind] and changed != text:
                left[kind] -= 1
                record = own / kind.split()[0]
                record.mkdir()
                yield kind, seed, found(own / "build", changed, record)
        shutil.rmtree(own)
    for kind, count in left.items():
        if count:
            print(f"{kind}: no place for {count} of them")


#: What is tried with a text: without states, with states, and with states that differ in variants.
JUDGES = {
    "plain": (disagreement, disagreement_with_states, disagreement_with_variants),
    "recorded": (
        unlike_its_recording,
        unlike_its_recording_with_states,
        partial(unlike_its_recording_with_states, made=with_variants),
    ),
    "sanitized": (
        complaint,
        complaint_with_states,
        partial(complaint_with_states, made=with_variants),
    ),
}


def main() -> None:
    """Try many texts, or many mistakes."""
    parser = argparse.ArgumentParser(description="random texts as programs in C++")
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="of the first text")
    parser.add_argument("--states", action="store_true", help="texts with a scenario")
    parser.add_argument("--variants", action="store_true", help="whose states differ in networks")
    parser.add_argument("--recorded", action="store_true", help="recorded, and replayed in Python")
    parser.add_argument("--planted", type=int, default=0, metavar="N", help="of each kind")
    parser.add_argument("--sanitize", metavar="WHAT", help="thread, or address,undefined")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.texts)
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flags = f"-O1 -g -fsanitize={options.sanitize}" if options.sanitize else QUICK
        os.environ.update(compiler(folder, flags))
        if options.planted:
            several = planted(range(options.seed, options.seed + TRIES), options.planted, folder)
            for kind, seed, seen in several:
                wrong += not seen
                print(f"{kind}, text {seed}: {'found' if seen else 'NOT FOUND'}", flush=True)
        else:
            kind = "sanitized" if options.sanitize else "recorded" if options.recorded else "plain"
            judge = JUDGES[kind][2 if options.variants else int(options.states)]
            for seed in seeds:
                own = folder / str(seed)
                own.mkdir()
                said = judge(seed, own)
                shutil.rmtree(own)
                if said:
                    wrong += 1
                    print(f"text {seed}: {said}", flush=True)
            print(f"{len(seeds)} texts from {seeds.start} on, {wrong} wrong", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
