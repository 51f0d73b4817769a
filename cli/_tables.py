"""Results of an analysis, in words and tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ._common import number, width

if TYPE_CHECKING:
    from ..analysis.dataflow.analyze import Analysis, Answer, Capacities, Hop, PathLatency
    from ..driver.build.dla import OnDla
    from ..driver.show.networks import CutPoint, NetworkMemory
    from ..model.application import Application
    from ..networks.bands.compare import Comparison
    from ..networks.dataflow.reduced import Reduction
    from ..networks.quantization.quantize import Loss

#: Least characters of a column that shrinks in a narrow terminal.
LEAST = 24
#: Longer schedules and cycles are cut in the table; `--json` has them in full.
WIDEST = 300


def fitted(rows: Sequence[Sequence[str]], left: int, soft: int, columns_: int | None = None) -> str:
    """A table (see `runtime.report.columns`) that fits the terminal: cells of the column `soft` are
    wrapped.

    `columns_` is the width to fit, by default that of the terminal; without a terminal, nothing is
    wrapped.
    """
    from textwrap import wrap

    from ..runtime.report import columns

    most = columns_ or width()
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    room = 0 if most is None else most - sum(widths) - 2 * (len(widths) - 1) + widths[soft]
    if most is None or widths[soft] <= room:
        return columns(rows, left=left)
    broken: list[list[str]] = []
    for row in rows:
        lines = wrap(
            row[soft], max(room, LEAST), break_on_hyphens=False, break_long_words=False
        ) or [""]
        broken.append([*row[:soft], lines[0], *row[soft + 1 :]])
        broken += [[line if i == soft else "" for i in range(len(row))] for line in lines[1:]]
    return columns(broken, left=left)


def folded(line: str, indent: int, columns_: int | None = None) -> str:
    """A line that fits the terminal: continuation lines are indented by `indent`."""
    from textwrap import wrap

    most = columns_ or width()
    if most is None or len(line) <= most or most < indent + LEAST:
        return line
    head, rest = line[:indent], line[indent:]
    return head + f"\n{' ' * indent}".join(wrap(rest, most - indent, break_on_hyphens=False))


def on_dla(report: OnDla) -> str:
    """The layers of a network that a DLA can run, as the table of rules that the others break."""
    lines = [
        f"{report.network} on a DLA: {report.legal} of {number(report.layers, 'layer')} can run"
        " there"
    ]
    if report.rows:
        rows = [
            ["op", "count", "rule", "layers"],
            *([r.op, str(r.count), r.rule, r.layers] for r in report.rows),
        ]
        shown = fitted(rows, 4, 3).splitlines()
        lines += [f"  {line}" for line in shown]
    runs = [f"{number(r.count, 'layer')} from {r.first} to {r.last}" for r in report.runs]
    if runs and report.rows:
        lines.append(f"  longest runs without a cut: {'; '.join(runs)}")
    return "\n".join(lines)


def cycle_tasks(hops: tuple[Hop, ...]) -> list[str]:
    """The tasks of a cycle in order; firings of one task that follow each other count once."""
    return [h.task for i, h in enumerate(hops) if i == 0 or h.task != hops[i - 1].task]


def table(app: Application, a: Analysis, orders: Mapping[str, str], buffers: bool) -> list[str]:
    """Everything about one app, including `orders` of its processors; `buffers` adds the table of
    channels.

    It ends at the first answer that is still being computed; printed lines stay when there are
    more.
    """
    lines = [
        f"{app.name}: {number(len(app.tasks), 'task')}, {number(len(app.channels), 'channel')}"
    ]

    def row(name: str, text: str) -> None:
        lines.append(folded(f"  {name:<15} {text}", 18))

    if not a.verdicts.consistent.holds:
        row("consistent", f"no: {a.verdicts.consistent.witness}")
        return lines
    row("iteration", _repetition(a.verdicts.repetition))
    if a.verdicts.deadlock_free.holds is False:
        row("deadlock-free", f"no: {a.verdicts.deadlock_free.witness}")
        return lines
    unit = _unit(a)
    row("times", _times(app, a))
    row("least period", period(a) + _ended(a, "period") + _asked(app, a))
    if a.critical_cycle:
        row("", cycle(a))
    if "latency" not in a.answered:
        return lines
    row("latency", _latency(app, a, unit))
    for path in a.paths:
        row("path", _path(a, path, unit))
    if "least_buffers" not in a.answered:
        return lines
    row("least buffers", _buffers(a, a.least_buffers, unit, "least_buffers"))
    if app.windows:
        row("windows", kept(app))
    if buffers:
        if "period_buffers" not in a.answered:
            return lines
        row("for the period", _for_period(app, a, unit))
    if a.schedule is not None:
        row("one processor", _cut(a.schedule.text))
    if a.looped_schedule is not None and (
        a.schedule is None or a.looped_schedule.text != a.schedule.text
    ):
        row(
            "each task once",
            f"{_cut(a.looped_schedule.text)}   ({number(a.looped_schedule.total, 'token')} of"
            " buffers)",
        )
    for processor, order in orders.items():
        row(f"on {processor}", _cut(order))
    if buffers and a.least_buffers is not None and app.channels:
        lines += ["", *_channels(app, a)]
    if a.pareto is not None:
        lines += ["", *_front(a, unit)]
    return lines


def _ended(a: Analysis, answer: Answer) -> str:
    """Why an answer is incomplete."""
    match a.cut.get(answer):
        case "time":
            return f"; the search ended after {a.seconds:g} s; --seconds extends it"
        case "size":
            return "; the graph is too large to search further"
    return ""


def _short(task: str) -> str:
    return task.partition(".")[2]


def _cut(text: str, most: int = WIDEST) -> str:
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " ... (whole with --json)"


def _repetition(vector: dict[str, int]) -> str:
    if all(q == 1 for q in vector.values()):
        return "every task once"
    return _cut(", ".join(f"{_short(n)} {q}" for n, q in vector.items()))


def _times(app: Application, a: Analysis) -> str:
    if app.span.file.endswith(".onnx"):
        return "1 per firing: a phase of a layer"
    if a.times.source == "unit":
        whose = "every task" if _unit(a) else ", ".join(map(_short, a.times.guessed))
        ns = "" if _unit(a) else " ns"
        return _cut(
            f"1{ns} per firing of {whose}: no wcet, no stored profile (`flowc profile` measures)"
        )
    if a.times.source == "wcet":
        return "declared"
    declared = [_short(n) for n in a.times.ns if n not in (*a.times.measured, *a.times.timeless)]
    rest = f"; declared for {', '.join(declared)}" if declared else ""
    return _cut(f"worst cases of the stored profile{rest}")


def _time(ns: Fraction | None, unit: bool) -> str:
    if ns is None:
        return "not known"
    for size, name in () if unit else ((10**9, " s"), (10**6, " ms"), (10**3, " us"), (1, " ns")):
        if ns >= size:
            return _decimal(ns / size, 6) + name
    return _decimal(ns, 9) if unit else f"{_decimal(ns, 6)} ns"


def _decimal(value: Fraction, digits: int) -> str:
    """This many significant digits, however large the number."""
    if value.denominator == 1 and value < 10**9:
        return str(value)
    try:
        return f"{float(value):.{digits}g}"
    except OverflowError:
        return f"{(Decimal(value.numerator) / value.denominator):.{digits}g}"


def _unit(a: Analysis) -> bool:
    """No time is known: every firing takes 1, and times are not in ns."""
    return a.times.unknown


def period(a: Analysis) -> str:
    """The least period of an iteration, or its bounds."""
    unit = _unit(a)
    if a.period is None:
        return f"at least {_time(a.period_lower, unit)}"
    if not a.period:
        return "0: nothing limits how fast firings follow each other"
    text = _time(a.period, unit)
    if a.period != a.period_lower:
        text = f"between {_time(a.period_lower, unit)} and {text}"
    elif not unit:
        text += f", {_decimal(10**9 / a.period, 6)} iterations per second"
    if a.mean_period:
        text += f"; {_time(a.mean_period, unit)} at mean times"
    return text


def _asked(app: Application, a: Analysis) -> str:
    if app.period_ns is None or _unit(a):
        return ""
    text = f"; asked for: {_time(app.period_ns, False)}"
    if a.too_slow(app):
        return text + _verdict(a)
    if a.period_lower is not None and a.period_lower > app.period_ns:
        return text + ", which needs parallel firings of a task, on several processors"
    return text


def _verdict(a: Analysis) -> str:
    return {
        "wcet": ", which no mapping can keep",
        "profile": ", which these worst cases do not guarantee",
        "unit": ", which is below it",
    }[a.times.source]


def cycle(a: Analysis, most: int = WIDEST) -> str:
    """What determines the least period."""
    tasks = list(map(_short, cycle_tasks(a.critical_cycle)))
    if len(tasks) == 1:
        return f"{tasks[0]} determines it: its firings follow each other"
    space = [h.channel for h in a.critical_cycle if h.kind == "space"]
    held = f" (space on {', '.join(dict.fromkeys(space))})" if space else ""
    return f"determined by the cycle {_cut(' -> '.join([*tasks, tasks[0]]), most)}{held}"


def _latency(app: Application, a: Analysis, unit: bool) -> str:
    if a.latency is None:
        if (
            app.period_ns is not None
            and a.period_lower is not None
            and a.period_lower > app.period_ns
        ):
            return "none: the period is below the least"
        return f"not known{_ended(a, 'latency')}"
    text = (
        f"{_time(a.latency, unit)} from the release of an iteration to the end of"
        f" {_short(a.latency_sink)}"
    )
    if a.too_late(app) and not unit:
        text += f"; the deadline is {_time(app.due_ns, unit)}" + _verdict(a)
    return text


def _path(a: Analysis, path: PathLatency, unit: bool) -> str:
    text = f"{_time(path.latency, unit)} from {_short(path.source)} to {_short(path.sink)}"
    if path.deadline is None or unit:
        return text
    return f"{text}; the deadline is {_time(path.deadline, unit)}" + (
        _verdict(a) if path.too_late else ""
    )


def _for_period(app: Application, a: Analysis, unit: bool) -> str:
    if a.period_buffers is None:
        if (
            app.period_ns is not None
            and a.period_lower is not None
            and a.period_lower > app.period_ns
        ):
            return "none: the period is below the least"
        if a.period == 0:
            return "none: with any buffers the period is above 0"
        return f"not known{_ended(a, 'period_buffers')}"
    asked = app.period_ns or a.period
    late = a.period_buffers.period is None or (
        asked is not None and a.period_buffers.period > asked
    )
    return ("not found; the fastest: " if late else "") + _buffers(
        a, a.period_buffers, unit, "period_buffers"
    )


def _buffers(a: Analysis, c: Capacities | None, unit: bool, answer: Answer) -> str:
    if c is None:
        return f"not known{_ended(a, answer)}"
    return f"{_size(c)}: with them the period is {_reached(c, unit)}{_ended(a, answer)}"


def _reached(c: Capacities, unit: bool) -> str:
    return (
        _time(c.period, unit) if c.exact or c.period is None else f"at most {_time(c.period, unit)}"
    )


def _size(c: Capacities) -> str:
    text = number(c.total, "token") + (
        f", {number(c.bytes, 'byte')}" if c.bytes is not None else ""
    )
    return text if c.proved else f"{text} (the best found; at least {_bound(c)})"


def _bound(c: Capacities) -> str:
    return number(c.lower, "token" if c.bytes is None else "byte")


def _channels(app: Application, a: Analysis) -> list[str]:
    from ..runtime.report import columns

    assert a.least_buffers is not None
    keeping = a.period_buffers.channels if a.period_buffers is not None else {}
    windows = app.windows
    rows = [
        [
            "channel",
            "token bytes",
            "initial",
            "least",
            "for the period",
            *(["kept"] if windows else []),
        ]
    ]
    types = {(t.name, p.name): p.type for t in app.tasks for p in t.outputs}
    for c in app.channels:
        kind = types[c.source, c.source_port]
        size = f"{kind.bytes}{'+' if kind.open else ''}" if kind is not None else "-"
        last = [str(windows[c.name].kept if c.name in windows else 0)] if windows else []
        least, most = str(a.least_buffers.channels[c.name]), str(keeping.get(c.name, "-"))
        rows.append([c.name, size, str(c.delay), least, most, *last])
    return ["  " + line for line in columns(rows, left=1).splitlines()]


def kept(app: Application) -> str:
    """What windows keep, in words."""
    ports = app.windows.values()
    sizes = [p.kept * p.type.bytes for p in ports if p.type is not None]
    memory = f", {number(sum(sizes), 'byte')}" if len(sizes) == len(ports) else ""
    return (
        f"{number(sum(p.kept for p in ports), 'token')}{memory} that were taken are kept, beside"
        " all buffers"
    )


def windows(app: Application) -> dict[str, Any]:
    """The inputs with a window by channel, as JSON: empty if there are none."""
    found = {
        name: {
            "window": p.window,
            "kept": p.kept,
            "bytes": None if p.type is None else p.kept * p.type.bytes,
        }
        for name, p in app.windows.items()
    }
    return {"windows": found} if found else {}


def _front(a: Analysis, unit: bool) -> list[str]:
    from ..runtime.report import columns

    assert a.pareto is not None
    rows = [["tokens", "bytes", "period", "the least"]]
    for p in a.pareto:
        bound = "proved" if p.proved else f"at least {_bound(p)}"
        rows.append(
            [str(p.total), "-" if p.bytes is None else str(p.bytes), _reached(p, unit), bound]
        )
    lines = ["  " + line for line in columns(rows, left=0).splitlines()]
    if not a.pareto_complete:
        lines.append(f"  (full speed is not reached{_ended(a, 'pareto')})")
    elif "pareto" in a.cut:
        lines.append(f"  (not all is proved{_ended(a, 'pareto')})")
    return lines


def network_table(m: NetworkMemory) -> str:
    """Elements in the buffers of a network, in the execution modes that differ in memory."""
    share = (
        f"{100 * m.by_parts / m.layerwise:.3g} % of"
        f" that{'' if m.by_parts_proved else ', the best found'}"
    )
    lines = [
        "elements in the buffers between the layers",
        f"  layer by layer  {m.layerwise}",
        f"  by parts        {m.by_parts}   ({share})",
    ]
    if m.algorithm4 is None:
        lines.append(f"  Algorithm 4     does not apply: {m.reason}")
    else:
        lines.append(
            f"  Algorithm 4     {m.algorithm4}   ({m.overlap} of them in self-loops for overlapping"
            " rows)"
        )
    return "\n".join(lines)


def band_table(found: Comparison, thesis: Reduction) -> str:
    """Bytes between the layers of a network in several ways, and the Pareto front of bands against
    time."""
    from ..model.mapping import bands_in_words
    from ..runtime.report import columns

    placed = found.whole
    how = (
        f"{placed.by}, proved"
        if placed.proved
        else f"{placed.by}; none has less than {_mb(placed.bound)}"
    )
    ways = [
        ("each tensor its own", found.separate, ""),
        ("Algorithm 8", found.algorithm8, "buffers are shared, as in Minakova's thesis, ch. 6"),
        ("one arena", placed.total, how),
        (
            "rows under a layer",
            found.rows,
            f"lower bound of all row by row execution, by `{found.dictated_by}`",
        ),
    ]
    lines = ["between the layers, in MB"]
    lines += [f"  {name:<19}  {_mb(size):>8}  {note}".rstrip() for name, size, note in ways]
    lines += ["by the rules of Minakova's thesis, its input included"]
    lines += [
        f"  {name:<19}  {_mb(size):>8}  {note}".rstrip() for name, size, note in _by_thesis(thesis)
    ]
    time = "estimated time" if any(c.estimated for c in found.choices) else "time"
    table = [["between layers MB", "in all", time, "firings"]]
    table += [
        [_mb(c.buffers), _mb(c.bytes), f"{c.time:.2f}", str(c.firings)] for c in found.choices
    ]
    words = ["", "", *("; ".join(map(bands_in_words, c.bands)) or "whole" for c in found.choices)]
    front = columns(table, left=0).splitlines()
    shown = [f"{line}  {word}".rstrip() for line, word in zip(front, words, strict=True)]
    return "\n".join([*lines, "", *shown])


def _by_thesis(found: Reduction) -> list[tuple[str, int, str]]:
    ways = [
        ("by parts, all", found.edges, "each edge in a buffer of its own (ch. 4)"),
        ("Algorithm 10, none", found.whole, "buffers are shared, no layer goes by parts (ch. 6)"),
        ("Algorithm 10, all", found.parts, f"all layers go by parts, {found.steps} firings"),
    ]
    if found.least is not None:
        note = (
            f"{found.chosen} layers go by parts, {found.least.times[0]:.0f} firings: the least of"
            f" {found.looks} looks"
        )
        ways.append(("Algorithm 9", found.least.memory, note))
    return ways


def _mb(count: int) -> str:
    return f"{count / 1e6:.2f}"


def cut_table(points: Sequence[CutPoint], work: str = "multiplications") -> str:
    """The places where a network can be cut, the data that crosses there, and the share of its work
    before."""
    from ..runtime.report import columns

    if not points:
        return "this network cannot be cut: it is one layer, or one group that becomes a kernel"
    rows = [["after layer", "bytes across", "tensors", f"{work} before"]]
    rows += [[p.layer, str(p.bytes), str(len(p.tensors)), f"{100 * p.share:.1f} %"] for p in points]
    return columns(rows, left=1)


def in_8_bits(losses: Mapping[str, Sequence[Loss]]) -> list[str]:
    """The loss of networks in 8 bits on their calibration data, a line per output."""
    lines = []
    for network, found in losses.items():
        for x in found:
            line = (
                f"{network}.{x.name} in 8 bits: {x.decibels:.1f} dB signal to noise, at most"
                f" {x.largest:.1%} off"
            )
            lines.append(
                line
                + (f", the same best score in {x.same_best:.1%}" if x.same_best is not None else "")
            )
    return lines
