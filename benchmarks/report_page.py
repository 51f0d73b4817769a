"""How large the page of a report is, how soon it is ready, and its cost for a running program.

    pages    documents that are made here, of 40 tasks with 3,000 bars and of 1,000 tasks with
    100,000 bars, as pages
             that Chromium opens from a file: bytes, milliseconds until everything is drawn
             (`window.READY`), and one
             repaint of all bars
    report   the CPU time of `flowc report` beside that of `flowc check`, of an example with a
    stored profile
    live     frames per second of a program with `--live`, whose other end is read, over those
    without, paired

Needs Chromium and the extra `browser`; without them the pages are only weighed.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from flowc.report.document import (
    AppRow,
    ChannelRow,
    ChartLane,
    ChartRow,
    Document,
    PathRow,
    PortRow,
    ProcessorRow,
    TaskRow,
)
from flowc.report.page import page
from paired import Others, Spread, alternate, execute, flowc, machine, ratio, rounds, table, verdict

ROOT = Path(__file__).resolve().parents[1]
CHAIN = """
task Count {{ out n: int64  python "t.py:Count" }}
task Step {{ in n: int64  out m: int64  python "t.py:step" }}
task Keep {{ in n: int64  python "t.py:keep" }}
app Chain {{ count: Count  {steps}  keep: Keep  count -> {arrows} -> keep }}
"""
#: All bars at once, painted twice: the first time may compile something.
AGAIN = (
    "(() => { const g = flowc.gantt.gantt; g.view = [...g.all]; g.paint(); g.paint(); return"
    " g.painted; })()"
)
CODE = """
class Count:
    n = 0
    def __call__(self):
        self.n += 1
        return self.n
def step(n): return n
def keep(n): pass
"""


def document(tasks: int, bars: int, lanes: int = 4) -> Document:
    """A chain of tasks, and twice `bars` / 2 firings of them, on some processors."""
    names = [f"App.task{k}" for k in range(tasks)]
    ports = (PortRow("x", "in", "float32[64]", "1"), PortRow("y", "out", "float32[64]", "1"))
    processors = tuple(f"cpu[{k}]" for k in range(lanes))
    rows = tuple(
        TaskRow(
            name,
            "App",
            "task",
            "",
            name[4:],
            "Work",
            "Does something.",
            "app.flow:7",
            "python work.py:work",
            1,
            (processors[k % lanes],),
            ports,
            None,
            "measured",
            12_000 + k,
            40_000,
            12_500,
            39_000,
            500,
            0,
            0.001,
            0.04,
        )
        for k, name in enumerate(names)
    )
    channels = tuple(
        ChannelRow(
            f"{a}.y->{b}.x", "App", a, "y", b, "x", ("1", "1"), 0, "float32[64]", 256, 2, 1, 1, 2
        )
        for a, b in pairwise(names)
    )
    app = AppRow(
        "App",
        "A chain.",
        None,
        None,
        True,
        True,
        True,
        40_000,
        False,
        tuple(names[:1]),
        (),
        tuple((n,) for n in names),
        {},
        (),
        frames=500,
        skipped=0,
        fps=1000.0,
        deadline_misses=0,
        overruns=0,
    )
    path = PathRow(
        "App",
        "path",
        "",
        "",
        None,
        None,
        None,
        500,
        10**6,
        10**6,
        2 * 10**6,
        3 * 10**6,
        0,
        None,
        tuple(10**6 + 30_000 * k for k in range(65)),
        (7,) * 64,
    )

    def chart(count: int) -> ChartRow:
        each = [
            tuple(
                n
                for j in range(count // lanes)
                for n in ((j * lanes + k) % tasks, j * lanes // tasks, 13_000 * j, 12_500)
            )
            for k in range(lanes)
        ]
        return ChartRow(
            "App", tuple(ChartLane(p, b) for p, b in zip(processors, each, strict=True)), (), 0, 0
        )

    busy = tuple(ProcessorRow(p, "cpu", 0.9, 0.8) for p in processors)
    return Document(
        "weighed",
        "host",
        "0",
        "a machine",
        False,
        "0" * 64,
        0,
        "",
        False,
        (),
        (),
        (app,),
        busy,
        rows,
        channels,
        (path,),
        (),
        (),
        (chart(bars // 2),),
        chart(bars // 2),
        (),
        None,
        (),
        None,
        {},
    )


def weigh(browser: Any) -> list[list[str]]:
    """A row for each document: sizes, and how soon the page is there."""
    found = [["page", "page kB", "data kB", "aim", "ready ms", "aim", "repaint ms", "aim"]]
    for tasks, bars, ready, most in ((40, 3_000, 500.0, 350.0), (1_000, 100_000, 2_000.0, 5_000.0)):
        made = document(tasks, bars)
        text, data = page(made), len(made.to_json())
        row = [
            f"{tasks} tasks, {bars} bars",
            f"{(len(text) - data) / 1e3:.0f}",
            f"{data / 1e3:.0f}",
        ]
        row.append(verdict(len(text) / 1e3, most=most, digits=0))
        found.append([*row, *(opened(browser, text, ready) if browser is not None else ["-"] * 4)])
    return found


def opened(browser: Any, text: str, most: float) -> list[str]:
    """How long a page takes until it is drawn, and to draw all bars again; the medians of five."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(text)
        times, paints = [], []
        for _ in range(5):
            shown = browser.new_page(viewport={"width": 1400, "height": 1000})
            shown.goto(file.as_uri())
            times.append(shown.evaluate("window.READY"))
            paints.append(shown.evaluate(AGAIN))
            shown.close()
    ready, paint = Spread.of(times).median, Spread.of(paints).median
    return [
        f"{ready:.0f}",
        verdict(ready, most=most, digits=0),
        f"{paint:.1f}",
        verdict(paint, most=16.0, digits=0),
    ]


def spent(*words: str | Path) -> float:
    """CPU seconds of flowc with these words."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    flowc(*words)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def chain(folder: Path, steps: int) -> Path:
    """A built program of empty tasks."""
    names = [f"s{k}" for k in range(steps)]
    text = CHAIN.format(steps="  ".join(f"{n}: Step" for n in names), arrows=" -> ".join(names))
    (folder / "chain.flow").write_text(text)
    (folder / "t.py").write_text(CODE)
    flowc("build", folder / "chain.flow", "-o", folder / "out")
    return folder / "out"


def rate(program: Path, frames: int, live: bool) -> float:
    """Frames per second of a run; with `live`, its status is read."""
    command = [
        sys.executable,
        str(program / "main.py"),
        "--frames",
        str(frames),
        "--quiet",
        "--report",
    ]
    report = str(program.parent / "report.json")
    if not live:
        execute(*command, report)
    else:
        reading, writing = os.pipe()
        lines: list[bytes] = []
        with open(reading, "rb") as stream:
            reader = threading.Thread(target=lambda: lines.extend(stream))
            reader.start()
            subprocess.run(
                [*command, report, "--live", str(writing)], pass_fds=(writing,), check=True
            )
            os.close(writing)
            reader.join()
        assert lines
    return float(json.loads(Path(report).read_text())["apps"]["Chain"]["fps"])


def main() -> None:
    """Measure all three, and print tables."""
    count = rounds(__doc__, 15)
    others = Others()
    print(machine())
    try:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            print(f"Chromium {browser.version}\n\n{table(weigh(browser))}\n")
    except ImportError:
        print(f"\n{table(weigh(None))}\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(
            ROOT / "examples" / "digits", folder / "digits", ignore=shutil.ignore_patterns("*.json")
        )
        flow = folder / "digits" / "digits.flow"
        flowc("profile", flow)
        sides = {
            "check": lambda: spent("check", flow),
            "report": lambda: spent("report", flow, "-o", folder / "r.html"),
        }
        taken = alternate(sides, max(3, count // 3))
        more = Spread.of([a - b for a, b in zip(taken["report"], taken["check"], strict=True)])
        print(
            f"CPU seconds of report beyond check: {more.text()}"
            f" ({verdict(more.median, most=1.0)})\n"
        )
        program = chain(folder, 20)
        begin, frames = time.monotonic(), 20_000
        rate(program, frames, False)
        frames = max(frames, round(frames * 4 / (time.monotonic() - begin)))
        runs = alternate(
            {
                "live": lambda: rate(program, frames, True),
                "alone": lambda: rate(program, frames, False),
            },
            count,
        )
        share = ratio(runs["live"], runs["alone"])
        print(
            f"frames/s with --live over without: {share.text(4)}"
            f" ({verdict(share.median, least=0.99, digits=2)})\n"
        )
    print(others.text())


if __name__ == "__main__":
    main()
