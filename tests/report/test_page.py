"""The page of a report, read and clicked in a browser that has no network."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flowc.driver.show.reporting import RunFiles, report
from flowc.report.document import ChartLane, ChartRow, Document
from flowc.report.page import data_of, page, render

from builds import ROOT, Write, build, run

pytestmark = pytest.mark.browser
ASSETS = ROOT / "report" / "assets"
HOSTILE = '</script><img src=x onerror="document.title=1">{{7*7}} \u202etxt.exe'
TEXT = f"""
/// {HOSTILE}
task Camera {{ out frame: int64  out side: int64  python "t.py:Camera" }}
/// {"long " * 2000}
task Split {{ in frame: int64  out part: int64 rate 4  python "t.py:split" }}
task Look {{ in part: int64  out seen: int64  python "t.py:look"  stateless }}
task Sum {{ in seen: int64 rate 4  in before: int64  out all: int64  python "t.py:total" }}
task Show {{ in all: int64  in side: int64  python "t.py:show" }}
graph Eye {{ in part: int64  out seen: int64  first: Look  second: Look  part -> first -> second -> seen }}
/// Counts what `Split` and `Look` see, and a lone ` stays.
app fronts {{
    deadline 40 ms from camera to show
    camera: Camera  split: Split  eye: Eye  sum: Sum  show: Show
    camera.frame -> split -> eye -> sum.seen
    sum -> delay 1 -> sum.before
    sum -> show.all
    camera.side -> show.side
}}
app tasks {{ period 5 ms  camera: Camera  show: Show  camera.frame -> show.all  camera.side -> show.side }}
"""
CODE = """
import numpy as np
class Camera:
    n = 0
    def __call__(self):
        self.n += 1
        return self.n, self.n
def split(frame): return np.full(4, frame)
def look(part): return part
def total(seen, before): return seen.sum()
def show(all, side): pass
"""
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Document:
    """Two apps with the names of sections, and things that strangers write; with a run."""
    folder = tmp_path_factory.mktemp("page")
    flow = folder / "page.flow"
    flow.write_text(TEXT)
    (folder / "t.py").write_text(CODE)
    out = build(flow, folder / "out", {"fronts.split": 3000, "tasks.show": 500_000})
    files = [folder / "run.json", folder / "trace.json"]
    done = run(
        out, "--frames", "12", "--report", str(files[0]), "--trace", str(files[1]), "--quiet"
    )
    assert done.returncode == 0, done.stderr
    return report(flow, run=RunFiles(files[0], files[1]), compare=out).document


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a page as a file, offline; afterwards, nothing was asked for and nothing was said."""
    said: list[str] = []
    contexts = []

    def open_page(content: str, width: int = 1200, **options: Any) -> Any:
        file = tmp_path / f"{len(contexts)}.html"
        file.write_text(content)
        context = browser.new_context(
            offline=True, viewport={"width": width, "height": 800}, **options
        )
        contexts.append(context)
        shown = context.new_page()
        shown.on("console", lambda message: said.append(message.text))
        shown.on("pageerror", lambda error: said.append(str(error)))
        shown.on(
            "request",
            lambda r: (
                said.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None
            ),
        )
        shown.goto(file.as_uri())
        assert shown.evaluate("window.READY") > 0
        return shown

    yield open_page
    for context in contexts:
        assert context.pages[0].evaluate("performance.getEntriesByType('resource').length") == 0
        context.close()
    assert said == []


def cells(shown: Any, table: str) -> list[dict[str, tuple[str | None, str]]]:
    """The numbers of a table: what the document says, and what people read."""
    script = """id => [...document.querySelectorAll(`#${id} tbody tr`)].map(row =>
        Object.fromEntries([...row.querySelectorAll('[data-key]')].map(c => [c.dataset.key, [c.dataset.v ?? null, c.textContent]])))"""
    return shown.evaluate(script, table)  # type: ignore[no-any-return]


def test_every_number_of_the_tables_is_that_of_the_document(
    document: Document, opened: Open
) -> None:
    shown = opened(page(document))
    tables: dict[str, tuple[Any, ...]] = {
        "tasks-table": document.tasks,
        "paths-table": document.paths,
        "buffers-table": document.channels,
        "processors-table": document.processors,
    }
    for name, rows in tables.items():
        found = cells(shown, name)
        assert len(found) == len(rows) > 0
        for row, seen in zip(rows, found, strict=True):
            assert seen
            for key, (value, text) in seen.items():
                wanted = getattr(row, key)
                if key == "deadline_misses" and row.deadline_ns is None:
                    wanted = None
                assert (None if value is None else float(value)) == wanted, (name, key)
                assert (text == "\u2013") == (wanted is None)
    heads = shown.locator("#tasks-table th").all_inner_texts()
    unit = {"s": 1e9, "ms": 1e6, "\u00b5s": 1e3, "ns": 1.0}[
        next(h for h in heads if h.startswith("predicted")).split(", ")[1]
    ]
    for row, seen in zip(document.tasks, cells(shown, "tasks-table"), strict=True):
        assert row.predicted_ns is not None
        assert float(seen["predicted_ns"][1]) * unit == pytest.approx(
            row.predicted_ns, abs=unit / 10 + 0.5
        )


def test_names_of_strangers_are_text(document: Document, opened: Open) -> None:
    shown = opened(page(document))
    assert shown.title() == "page - flowc" and shown.locator("img").count() == 0
    shown.locator('[data-box="fronts.camera"]').click()
    words = shown.locator("aside").first.inner_text()
    assert "</script><img src=x" in words and "{{7*7}}" in words
    assert "\u27e8202E\u27e9" in words and "\u202e" not in shown.locator("body").inner_text()
    assert "t.py:Camera" in words and "int64" in words


def test_code_in_comments_is_set_as_code(document: Document, opened: Open) -> None:
    shown = opened(page(document), width=320)
    about = shown.locator("#head .app p").first
    assert about.inner_text() == "Counts what Split and Look see, and a lone ` stays."
    assert about.locator("code").all_inner_texts() == ["Split", "Look"]
    grey = "getComputedStyle(document.querySelector('.figures')).backgroundColor"
    assert shown.evaluate(grey) == "rgba(0, 0, 0, 0)"  # no tile is drawn where there is no figure
    cut = "[...document.querySelectorAll('td.name')].filter(c => c.scrollWidth > c.clientWidth + 1).map(c => c.textContent)"
    assert shown.evaluate(cut) == []


def test_composites_fold_and_tasks_are_found(document: Document, opened: Open) -> None:
    shown = opened(page(document))
    boxes = shown.locator("#graph .stage").first.locator("[data-box]")
    assert boxes.count() == 6
    shown.get_by_role("button", name="Fold eye").click()
    assert boxes.count() == 5
    shown.locator('[data-box="fronts.eye"]').click()
    assert "2 tasks" in shown.locator("aside").first.inner_text()
    shown.get_by_role("button", name="Unfold eye").click()
    assert boxes.count() == 6
    shown.get_by_role("searchbox").first.fill("SPLIT")
    assert shown.get_by_text("1 found").count() == 1
    assert shown.locator("#graph .box.dim").count() == 5


def test_points_and_channels_can_be_chosen(document: Document, opened: Open) -> None:
    shown = opened(page(document))
    points = [p for p in document.memory if p.app == "fronts"]
    dots = shown.locator('[data-front="fronts"] .point')
    assert dots.count() == len(points) > 1
    for k, point in enumerate(points):
        dots.nth(k).focus()
        shown.keyboard.press("Enter")
        period = shown.locator("#fronts .detail [data-key=period_ns]").first
        assert int(period.get_attribute("data-v")) == point.period_ns
        size = shown.locator("#fronts .detail [data-key=bytes]").first
        assert int(size.get_attribute("data-v")) == point.bytes
    shown.locator("#buffers-table .pick").first.click()
    assert shown.locator("#buffers .plot path").count() >= 1
    before = cells(shown, "tasks-table")
    shown.get_by_role("button", name=re.compile("^measured")).first.click()
    after = [float(c["measured_ns"][0] or -1) for c in cells(shown, "tasks-table")]
    assert after == sorted(after, reverse=True) and len(after) == len(before)


def test_firings_can_be_followed_with_the_keyboard(document: Document, opened: Open) -> None:
    shown = opened(page(document))
    shown.locator("#gantt canvas").focus()
    for key in ("+", "ArrowRight", "ArrowLeft", "-", "0"):
        shown.keyboard.press(key)
    shown.keyboard.press(".")
    said = shown.locator("#tip").inner_text()
    assert re.search(r"firing \d+ \(frame \d+\)\nPredicted on cpu\[\d\]: ", said)
    shown.keyboard.press("Enter")
    assert re.match(r"Frame \d+ of fronts", shown.locator("#gantt p[role=status]").inner_text())
    shown.locator("#graph svg").first.focus()
    view = shown.locator("#graph svg").first.get_attribute("viewBox")
    shown.keyboard.press("+")
    assert shown.locator("#graph svg").first.get_attribute("viewBox") != view


@pytest.mark.parametrize("traced", [True, False])
def test_measured_firings_are_drawn_where_none_are_predicted(
    document: Document, opened: Open, traced: bool
) -> None:
    """Along an axis of times, and so are sources that are released where no time is known."""
    without = tuple(replace(chart, unit=True) for chart in document.predicted if chart.releases)
    measured = document.measured if traced else None
    assert without and document.measured is not None
    shown = opened(page(replace(document, predicted=without, measured=measured)))
    titles, words = shown.evaluate("""() => {
        const gantt = window.flowc.gantt.gantt, words = [];
        const fill = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...at) { words.push(text); fill.call(this, text, ...at); };
        gantt.paint();
        return [gantt.panels.map((panel) => panel.title), words];
    }""")
    unknown = "Predicted (no times are known: every firing takes 1)"
    assert titles == ["Measured" if traced else unknown]
    assert any(re.fullmatch(r"[\d.]+ ms", text) for text in words)
    assert not any(text.endswith(" firings") for text in words)


def test_a_narrow_page_does_not_scroll_sideways_and_prints_whole(
    document: Document, opened: Open
) -> None:
    shown = opened(page(document), width=320, color_scheme="dark", has_touch=True)
    assert shown.evaluate("document.documentElement.scrollWidth") == 320
    wanted = [
        "head",
        "graph",
        "gantt",
        "tasks",
        "paths",
        "buffers",
        "fronts",
        "dla",
        "search",
        "compare",
        "trace",
    ]
    assert shown.evaluate("[...document.querySelectorAll('section')].map(s => s.id)") == wanted
    assert shown.pdf()[:5] == b"%PDF-"


def test_the_trace_is_saved_with_what_was_predicted(document: Document, opened: Open) -> None:
    shown = opened(page(document))
    with shown.expect_download() as waiting:
        shown.get_by_role("button", name="Save the trace").click()
    events = json.loads(Path(waiting.value.path()).read_text())["traceEvents"]
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} >= {
        "measured",
        "predicted: fronts",
    }
    assert document.measured is not None
    bars = sum(len(lane.bars) // 4 for lane in document.measured.lanes)
    assert sum(e["ph"] == "X" and e["pid"] == 1 for e in events) == bars > 100
    assert sum(e["ph"] == "b" for e in events) == 24


def test_large_graphs_are_a_list_and_many_firings_one_bar_a_pixel(
    document: Document, opened: Open
) -> None:
    one = document.tasks[1]
    tasks = tuple(
        replace(one, name=f"fronts.t{k}", label=f"t{k}", doc="", group="") for k in range(2001)
    )
    bars = tuple(n for k in range(20_000) for n in (k % 2001, k, 100 * k, 90))
    chart = ChartRow("fronts", (ChartLane("cpu[0]", bars),), (), 0, 0)
    app = replace(document.apps[0], columns=(tuple(t.name for t in tasks),), routes={}, back=())
    many = replace(
        document,
        apps=(app,),
        tasks=tasks,
        channels=(),
        memory=(),
        predicted=(chart,),
        measured=None,
    )
    shown = opened(page(many))
    assert "too many for a picture" in shown.locator("#graph").inner_text()
    assert shown.locator("#tasks-table tbody tr").count() == 200
    shown.get_by_role("button", name="Show all 2,001").first.click()
    assert shown.locator("#tasks-table tbody tr").count() == 2001
    painted = shown.evaluate("""() => {
        const gantt = window.flowc.gantt.gantt, g = gantt.canvas.getContext('2d'), before = g.fillRect;
        let painted = 0;
        gantt.view = gantt.all;
        g.fillRect = (...where) => { painted += 1; before.apply(g, where); };
        gantt.paint();
        const y = Math.round(gantt.lanes[0].y + gantt.thick / 2);
        const {data, width} = g.getImageData(0, 0, gantt.width(), gantt.height);
        const background = data.slice(-4);
        const full = [...Array(width).keys()].filter((x) => [0, 1, 2].some((k) => data[4 * (y * width + x) + k] !== background[k]));
        return [painted, gantt.width() - gantt.left, full.length];
    }""")
    rects, room, full = painted
    assert rects < 50 and 0.98 * room <= full <= room + 20


def test_a_page_without_any_numbers_says_how_to_get_them(opened: Open, write: Write) -> None:
    flow = write("task A { out x }  task B { in x }  app Plain { a: A  b: B  a -> b }")
    found = report(flow).document
    shown = opened(page(found))
    words = shown.locator("main").inner_text()
    for command in (
        "flowc profile app.flow",
        "flowc report app.flow --run 200",
        "flowc map app.flow",
    ):
        assert command in words
    assert "No times are known" in words


def test_data_cannot_leave_its_element() -> None:
    text = render(json.dumps({"a": "</script><script>alert(1)</script><!-- & \u2028"}), '<b>"&')
    assert text.count("</script>") == 2 and "alert(1)</" not in text
    assert json.loads(data_of(text.encode()))["a"].startswith("</script>")
    assert "&lt;b&gt;&quot;&amp; - flowc" in text
    assert "default-src &#x27;none&#x27;" in text and "unsafe" not in text


def luminance(color: str) -> float:
    """Of `#rrggbb`, as WCAG defines it."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_texts_stand_out_in_both_schemes() -> None:
    """WCAG 2, level AA: 4.5 to 1."""
    style = (ASSETS / "page.css").read_text()
    schemes = [
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", part)) for part in style.split("@media")[:2]
    ]
    assert len(schemes) == 2 and schemes[0].keys() == schemes[1].keys()
    for colors in schemes:
        for text in ("ink", "soft", "link", "bad", "good"):
            for ground in ("paper", "wash", *(["bad-wash"] if text == "bad" else [])):
                assert contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
        fills = re.findall(
            r'"(#[0-9a-f]{6})"', (ASSETS / "base.js").read_text().split("FILLS")[1].split("]")[0]
        )
        assert len(fills) == 10 and all(
            contrast(colors["on-fill"], fill) >= 7 for fill in [*fills, colors["free"]]
        )
