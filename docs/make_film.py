"""Draws docs/film.svg, the moving picture of README: the text of the example `tracker`, where `map`
puts its tasks, and what a run measured.

`python docs/make_film.py` draws what `docs/film.json` has. With `--record` it profiles, maps and
runs the example first, and writes that file: what `flowc report` says, as far as the film shows it.
The film has the text in it, so a changed example makes both out of date; a test looks.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
EXAMPLE = DOCS.parent / "examples" / "tracker"
FRAMES = 30
WIDTH, HEIGHT = 920, 440
#: How much of the run is drawn.
SHOWN_NS = 400_000_000
SECONDS = 18
CORES = {"core[0]": "a", "core[1]": "b"}
STYLE = """
text { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1b2733 }
.back { fill: #ffffff } .bar { fill: #eceff1 } .line { stroke: #90a4ae; fill: none }
.small { font-size: 11px } .dim { fill: #5b6b78 } .big { font-size: 21px; font-weight: bold }
.word { fill: #0b5cad } .name { font-weight: bold }
.a { fill: #7cc267 } .b { fill: #6aaee8 } .box { stroke: #37474f }
.box + text, .box + text + text { fill: #1b2733 }
.scene { animation: scene SECONDSs infinite } .one, .two { opacity: 0 }
.two { animation-delay: -SECOND_DELAYs } .three, .sweep { animation-delay: -THIRD_DELAYs }
.sweep { transform: translateX(760px); animation-name: sweep; animation-duration: SECONDSs;
  animation-iteration-count: infinite; animation-timing-function: linear }
@keyframes scene { 0% { opacity: 0 } 2% { opacity: 1 } 31% { opacity: 1 } 33% { opacity: 0 }
  100% { opacity: 0 } }
@keyframes sweep { 0%, 2% { transform: translateX(0) } 24%, 100% { transform: translateX(760px) } }
@media (prefers-reduced-motion: reduce) { .scene, .sweep { animation: none } }
@media (prefers-color-scheme: dark) {
  text { fill: #dde5ec } .back { fill: #15191e } .bar { fill: #232a31 } .dim { fill: #9aa9b5 }
  .word { fill: #7db7f5 } .line { stroke: #607d8b } .box { stroke: #90a4ae } }
"""
WORDS = {
    *("const", "type", "task", "network", "app", "platform", "in", "out", "rate", "wcet"),
    *("period", "deadline", "from", "to", "python", "cpu", "scheduler"),
}


def record() -> dict[str, Any]:
    """What `flowc report` says after a profile, a map and a run of a copy of the example."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "tracker"
        shutil.copytree(EXAMPLE, place)

        def flowc(verb: str, *options: str) -> str:
            command = [sys.executable, "-m", "flowc", verb, "tracker.flow", *options]
            # no limit: profile, map and run end by themselves
            return subprocess.run(
                [*command, "--platform", "robot"],
                cwd=place,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout

        flowc("profile")
        flowc("map", "--seed", "0")
        document = json.loads(flowc("report", "--run", str(FRAMES), "--json"))
    (app,) = document["apps"]
    (path,) = [p for p in document["paths"] if p["deadline_ns"] is not None]
    return {
        "text": digest(),
        "machine": document["machine"],
        "commands": document["commands"],
        "columns": app["columns"],
        "verdicts": [app["consistent"], app["deadlock_free"]],
        "missed": app["deadline_misses"],
        "tasks": {
            t["name"]: {"firings": t["firings"], "core": t["processors"][0]}
            for t in document["tasks"]
        },
        "loads": {p["name"]: p["predicted"] for p in document["processors"]},
        "path": {k: path[k] for k in ("deadline_ns", "bound_ns", "p99_ns", "max_ns", "count")},
        "bars": bars(document),
    }


def bars(document: dict[str, Any]) -> dict[str, list[list[int]]]:
    """Begin and length of the first firings of each task, in microseconds."""
    names = [t["name"] for t in document["tasks"]]
    found: dict[str, list[list[int]]] = {name: [] for name in names}
    for lane in document["measured"]["lanes"]:
        flat = lane["bars"]
        for task, _, begin, length in zip(*[iter(flat)] * 4, strict=True):
            if begin < SHOWN_NS:
                found[names[task]].append([begin // 1000, length // 1000])
    return found


def digest() -> str:
    """What the recorded run was of: the text and its code."""
    files = ("tracker.flow", "tracker.py", "detector.onnx")
    return hashlib.sha256(b"".join((EXAMPLE / name).read_bytes() for name in files)).hexdigest()


def draw(recorded: dict[str, Any]) -> str:
    """The film. Source of all numbers: `record`."""
    style = (
        STYLE.replace("SECONDS", str(SECONDS))
        .replace("SECOND_DELAY", str(SECONDS * 2 // 3))
        .replace("THIRD_DELAY", str(SECONDS // 3))
    )
    scenes = (
        ("one", "flowc check", "a text: tasks, a network, rates, a deadline", text(recorded)),
        ("two", "flowc map --platform robot", "where each task runs, and a bound", graph(recorded)),
        (
            "three",
            "flowc run --platform robot",
            "the program, measured: three rates, two processors",
            run(recorded),
        ),
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>A text, its mapping with a bound, and a run of it, measured</title>",
        f"<style>{style}</style>",
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        f'<rect class="bar" width="{WIDTH}" height="34" rx="8"/>',
    ]
    for name, command, caption, content in scenes:
        lines.append(f'<g class="scene {name}">')
        lines.append(words(20, 22, f"$ {command}", "name"))
        lines.append(words(WIDTH - 20, 22, caption, "dim small", "end"))
        lines += content
        lines.append("</g>")
    return "\n".join([*lines, "</svg>"]) + "\n"


def words(x: float, y: float, said: str, style: str = "", anchor: str = "start") -> str:
    """A line of text."""
    return f'<text x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{escape(said)}</text>'


def text(recorded: dict[str, Any]) -> Iterator[str]:
    """The text of the example without its comments, and verdicts."""
    source = (EXAMPLE / "tracker.flow").read_text().splitlines()
    lines = [line.partition("//")[0].rstrip() for line in source]
    for number, line in enumerate(line for line in lines if line):
        indent = len(line) - len(line.lstrip())
        said = " ".join(
            f'<tspan class="word">{word}</tspan>' if word in WORDS else escape(word)
            for word in line.lstrip().split(" ")
        )
        x, y = 20 + 6.6 * indent, 56 + 15 * number
        yield f'<text x="{x:g}" y="{y}" class="small" xml:space="preserve">{said}</text>'
    consistent, deadlock_free = ("yes" if verdict else "no" for verdict in recorded["verdicts"])
    yield from figures(
        (
            (consistent, "consistent: rates balance"),
            (deadlock_free, "deadlock-free, proved before it runs"),
        )
    )


def graph(recorded: dict[str, Any]) -> Iterator[str]:
    """The tasks in the colors of their processors, and what the search says of them."""
    names = [name for column in recorded["columns"] for name in column if "through" not in name]
    x = {name: 20 + 150 * number for number, name in enumerate(names)}
    for name, task in recorded["tasks"].items():
        yield (
            f'<rect class="box {CORES[task["core"]]}" x="{x[name]}" y="80" width="116" height="52" rx="6"/>'
        )
        label = name.partition(".")[2]
        yield words(x[name] + 58, 103, label, "name", "middle")
        yield words(x[name] + 58, 121, f"{task['firings']} in 200 ms", "small", "middle")
    for name in names[:-1]:
        yield f'<path class="line" d="M{x[name] + 116} 106h32m-7 -4l7 4l-7 4"/>'
    first, last = x[names[0]] + 58, x[names[-1]] + 58
    yield f'<path class="line" d="M{first} 132v30q0 12 12 12H{last - 12}q12 0 12 -12v-28m-4 7l4 -7l4 7"/>'
    for number, (core, load) in enumerate(recorded["loads"].items()):
        y = 222 + 30 * number
        yield f'<rect class="box {CORES[core]}" x="20" y="{y - 12}" width="14" height="14"/>'
        yield words(44, y, core)
        yield f'<rect class="bar" x="130" y="{y - 12}" width="300" height="14"/>'
        yield f'<rect class="{CORES[core]}" x="130" y="{y - 12}" width="{300 * load:.0f}" height="14"/>'
        yield words(440, y, f"{100 * load:.0f} % at worst-case times", "small dim")
    path = recorded["path"]
    yield from figures(
        (
            (f"{path['deadline_ns'] / 1e6:.0f} ms", "deadline from camera to track"),
            (f"{path['bound_ns'] / 1e6:.1f} ms", "bound, from declared and measured worst cases"),
        )
    )


def run(recorded: dict[str, Any]) -> Iterator[str]:
    """The firings of the first 400 ms, and the latencies of the whole run."""
    left, width = 130, 760
    for number, (name, task) in enumerate(recorded["tasks"].items()):
        y = 66 + 36 * number
        yield words(20, y + 14, name.partition(".")[2])
        yield f'<path class="line" d="M{left} {y + 20.5}h{width}" stroke-opacity=".4"/>'
        for begin, length in recorded["bars"][name]:
            x, w = (1000 * width * value / SHOWN_NS for value in (begin, length))
            yield f'<rect class="{CORES[task["core"]]}" x="{left + x:.1f}" y="{y}" width="{max(w, 1.5):.1f}" height="20"/>'
    for tick in range(0, SHOWN_NS // 1_000_000 + 1, 100):
        yield words(left + width * tick * 1e6 / SHOWN_NS, 300, f"{tick} ms", "small dim", "middle")
    yield f'<g clip-path="url(#window)"><rect class="back sweep" x="{left}" y="60" width="{width}" height="226"/></g>'
    yield f'<clipPath id="window"><rect x="{left}" y="60" width="{width + 4}" height="226"/></clipPath>'
    path = recorded["path"]
    yield from figures(
        (
            (
                f"{path['max_ns'] / 1e6:.1f} ms",
                f"longest of {path['count']} latencies, camera to track",
            ),
            (f"{path['bound_ns'] / 1e6:.1f} ms", "their bound, computed before"),
            (str(recorded["missed"]), "deadlines missed"),
        )
    )
    yield words(WIDTH - 20, HEIGHT - 14, recorded["machine"], "small dim", "end")


def figures(pairs: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """Large numbers, each with what it is below it."""
    for number, (value, meaning) in enumerate(pairs):
        yield words(20 + 300 * number, 384, value, "big")
        yield words(20 + 300 * number, 404, meaning, "small dim")


def main() -> None:
    """Write the film, and with `--record` what it is of."""
    data = DOCS / "film.json"
    if sys.argv[1:] == ["--record"]:
        data.write_text(json.dumps(record()) + "\n")
    (DOCS / "film.svg").write_text(draw(json.loads(data.read_text())))


if __name__ == "__main__":
    main()
