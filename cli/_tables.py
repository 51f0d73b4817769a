"""Results of an analysis, in words and tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ._common import number, width

if TYPE_CHECKING:
    from ..analysis.dataflow.analyze import Analysis, Answer, Capacities, Hop, PathLatency
    from ..driver.build.accelerators import OnAccelerator
    from ..driver.build.engine_memory import EngineMemory
    from ..driver.show.networks import CutPoint, NetworkMemory
    from ..model.application import Application
    from ..model.types import TensorType
    from ..networks.bands.compare import BandComparison
    from ..networks.dataflow.reduced import Reduction
    from ..networks.quantization.quantize import QuantizationLoss

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
        first, *others = wrap(
            row[soft], max(room, LEAST), break_on_hyphens=False, break_long_words=False
        ) or [""]
        broken.append([*row[:soft], first, *row[soft + 1 :]])
        for line in others:
            continuation = [""] * len(row)
            continuation[soft] = line
            broken.append(continuation)
    return columns(broken, left=left)


def folded(line: str, indent: int, columns_: int | None = None) -> str:
    """A line that fits the terminal: continuation lines are indented by `indent`."""
    from textwrap import wrap

    most = columns_ or width()
    if most is None or len(line) <= most or most < indent + LEAST:
        return line
    head, rest = line[:indent], line[indent:]
    return head + f"\n{' ' * indent}".join(wrap(rest, most - indent, break_on_hyphens=False))


def on_accelerator(report: OnAccelerator) -> str:
    """The layers of a network that an accelerator can run, and the table of rules that the others
    break."""
    lines = [
        f"{report.network} on {report.title}: {report.legal} of"
        f" {number(report.layers, 'layer')} can run there"
    ]
    if report.rows:
        rows = [["op", "count", "rule", "layers"]]
        rows += [[r.op, str(r.count), r.rule, r.layers] for r in report.rows]
        shown = fitted(rows, 4, 3).splitlines()
        lines += [f"  {line}" for line in shown]
    runs = [f"{number(r.count, 'layer')} from {r.first} to {r.last}" for r in report.runs]
    if runs and report.rows:
        lines.append(f"  longest runs without a cut: {'; '.join(runs)}")
    return "\n".join(lines)


def in_tensorrt(memory: EngineMemory) -> str:
    """What TensorRT's builder counts for a network, beside what flowc plans."""
    between = f"{_mb(memory.between)} MB between its layers"
    line = (
        f"{memory.network} in TensorRT for RTX: {_mb(memory.weights)} MB of weights, {between},"
        " as its builder counts"
    )
    if memory.planned_weights is not None and memory.planned_between is not None:
        planned = f"{_mb(memory.planned_weights)} and {_mb(memory.planned_between)} MB"
        line += f"; flowc plans {planned}"
    return line


def cycle_tasks(hops: tuple[Hop, ...]) -> list[str]:
    """The tasks of a cycle in order; firings of one task that follow each other count once."""
    return [h.task for i, h in enumerate(hops) if i == 0 or h.task != hops[i - 1].task]


def table(
    app: Application, analysis: Analysis, orders: Mapping[str, str], buffers: bool
) -> list[str]:
    """Everything about one app, including `orders` of its processors; `buffers` adds the table of
    channels.

    It ends at the first answer that is still being computed; printed lines stay when there are
    more.
    """
    lines = [
        f"{app.name}: {number(len(app.tasks), 'task')}, {number(len(app.channels), 'channel')}"
    ]
    for name, text in _rows(app, analysis, orders, buffers):
        lines.append(folded(f"  {name:<15} {text}", 18))
    if not _is_complete(analysis, buffers):
        return lines
    if buffers and analysis.least_buffers is not None and app.channels:
        lines += ["", *_channels(app, analysis.least_buffers, analysis.period_buffers)]
    if analysis.pareto is not None:
        lines += ["", *_front(analysis, analysis.pareto)]
    return lines


def _is_complete(analysis: Analysis, buffers: bool) -> bool:
    """Can the graph run, and is no answer still being computed?"""
    awaited = {"latency", "least_buffers"}
    if buffers:
        awaited.add("period_buffers")
    return _can_run(analysis) and awaited <= set(analysis.answered)


def _can_run(analysis: Analysis) -> bool:
    return (
        bool(analysis.verdicts.consistent.holds)
        and analysis.verdicts.deadlock_free.holds is not False
    )


def _rows(
    app: Application, analysis: Analysis, orders: Mapping[str, str], buffers: bool
) -> Iterator[tuple[str, str]]:
    """Names and texts, up to the first answer that is still being computed."""
    unit = _unit(analysis)
    yield from _verdict_rows(analysis)
    if not _can_run(analysis):
        return
    yield "times", _times(app, analysis)
    yield "least period", period(analysis) + _ended(analysis, "period") + _asked(app, analysis)
    if analysis.critical_cycle:
        yield "", cycle(analysis)
        yield from _firings_of_cycle(analysis)
        yield from _overlap(app, analysis)
    if "latency" not in analysis.answered:
        return
    yield "latency", _latency(app, analysis, unit)
    for path in analysis.paths:
        yield "path", _path(analysis, path, unit)
    if "least_buffers" not in analysis.answered:
        return
    yield "least buffers", _buffers(analysis, analysis.least_buffers, unit, "least_buffers")
    if app.windows:
        yield "windows", kept(app)
    if buffers:
        if "period_buffers" not in analysis.answered:
            return
        yield "for the period", _for_period(app, analysis, unit)
    yield from _schedule_rows(analysis, orders)


def _verdict_rows(analysis: Analysis) -> Iterator[tuple[str, str]]:
    if not analysis.verdicts.consistent.holds:
        yield "consistent", f"no: {analysis.verdicts.consistent.witness}"
        return
    yield "iteration", _repetition(analysis.verdicts.repetition)
    if analysis.verdicts.deadlock_free.holds is False:
        yield "deadlock-free", f"no: {analysis.verdicts.deadlock_free.witness}"


def _schedule_rows(analysis: Analysis, orders: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The schedules for one processor, and the orders of all processors."""
    one = analysis.schedule.text if analysis.schedule is not None else None
    if one is not None:
        yield "one processor", _cut(one)
    looped = analysis.looped_schedule
    if looped is not None and looped.text != one:
        total = number(looped.total, "token")
        yield "each task once", f"{_cut(looped.text)}   ({total} of buffers)"
    for processor, order in orders.items():
        yield f"on {processor}", _cut(order)


def _ended(analysis: Analysis, answer: Answer) -> str:
    """Why an answer is incomplete."""
    match analysis.cut.get(answer):
        case "time":
            return f"; the search ended after {analysis.seconds:g} s; --seconds extends it"
        case "size":
            return "; the graph is too large to search further"
    return ""


def _short(task: str) -> str:
    return task.partition(".")[2]


def _cut(text: str, most: int = WIDEST) -> str:
    if len(text) <= most:
        return text
    return text[:most].rsplit(" ", 1)[0] + " ... (whole with --json)"


def _repetition(vector: dict[str, int]) -> str:
    if all(q == 1 for q in vector.values()):
        return "every task once"
    return _cut(", ".join(f"{_short(n)} {q}" for n, q in vector.items()))


def _times(app: Application, analysis: Analysis) -> str:
    if app.span.file.endswith(".onnx"):
        if analysis.times.source == "unit":
            return "1 per firing: a phase of a layer"
        return "those of `--places`, or 1 ns for each layer that it names"
    if analysis.times.source == "unit":
        firing = f"1 ns per firing of {', '.join(map(_short, analysis.times.guessed))}"
        if _unit(analysis):
            firing = "1 per firing of every task"
        return _cut(f"{firing}: no wcet, no stored profile (`flowc profile` measures)")
    if analysis.times.source == "wcet":
        return "declared"
    declared = [
        _short(n)
        for n in analysis.times.ns
        if n not in (*analysis.times.measured, *analysis.times.timeless)
    ]
    rest = f"; declared for {', '.join(declared)}" if declared else ""
    return _cut(f"worst cases of the stored profile{rest}")


def _time(ns: Fraction | None, unit: bool) -> str:
    if ns is None:
        return "not known"
    if unit:
        return _decimal(ns, 9)
    for size, name in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if ns >= size:
            return f"{_decimal(ns / size, 6)} {name}"
    return f"{_decimal(ns, 6)} ns"


def _decimal(value: Fraction, digits: int) -> str:
    """This many significant digits, however large the number."""
    if value.denominator == 1 and value < 10**9:
        return str(value)
    try:
        return f"{float(value):.{digits}g}"
    except OverflowError:
        return f"{(Decimal(value.numerator) / value.denominator):.{digits}g}"


def _unit(analysis: Analysis) -> bool:
    """No time is known: every firing takes 1, and times are not in ns."""
    return analysis.times.unknown


def period(analysis: Analysis) -> str:
    """The least period of an iteration, or its bounds."""
    unit = _unit(analysis)
    if analysis.period is None:
        return f"at least {_time(analysis.period_lower, unit)}"
    if not analysis.period:
        return "0: nothing limits how fast firings follow each other"
    text = _time(analysis.period, unit)
    if analysis.period != analysis.period_lower:
        text = f"between {_time(analysis.period_lower, unit)} and {text}"
    elif not unit:
        text += f", {_decimal(10**9 / analysis.period, 6)} iterations per second"
    if analysis.mean_period:
        text += f"; {_time(analysis.mean_period, unit)} at mean times"
    return text


def _asked(app: Application, analysis: Analysis) -> str:
    if app.period_ns is None or _unit(analysis):
        return ""
    text = f"; asked for: {_time(app.period_ns, False)}"
    if analysis.too_slow(app):
        return text + _verdict(analysis)
    if _is_below_least(app, analysis):
        return text + ", which needs parallel firings of a task, on several processors"
    return text


def _is_below_least(app: Application, analysis: Analysis) -> bool:
    """Is the period that the text asks for below the least one?"""
    if app.period_ns is None or analysis.period_lower is None:
        return False
    return analysis.period_lower > app.period_ns


def _verdict(analysis: Analysis) -> str:
    return {
        "wcet": ", which no mapping can keep",
        "profile": ", which these worst cases do not guarantee",
        "unit": ", which is below it",
    }[analysis.times.source]


def cycle(analysis: Analysis, most: int = WIDEST) -> str:
    """What determines the least period."""
    tasks = list(map(_short, cycle_tasks(analysis.critical_cycle)))
    if len(tasks) == 1:
        return f"{tasks[0]} determines it: its firings follow each other"
    space = [h.channel for h in analysis.critical_cycle if h.kind == "space"]
    held = f" (space on {', '.join(dict.fromkeys(space))})" if space else ""
    return f"determined by the cycle {_cut(' -> '.join([*tasks, tasks[0]]), most)}{held}"


def _firings_of_cycle(analysis: Analysis) -> Iterator[tuple[str, str]]:
    """The firings of one round of a cycle of several tasks, and what they add up to."""
    firings, unit = analysis.critical_firings, _unit(analysis)
    if not analysis.period or len(dict(firings)) < 2:
        return
    terms = " + ".join(f"{_short(task)} {_time(ns, unit)}" for task, ns in firings)
    total = sum((ns for _, ns in firings), Fraction(0))
    share = total / analysis.period
    count = "" if share == 1 else f"{share} of "
    text = f"{terms} = {_time(total, unit)} for {count}an iteration"
    if len(text) <= WIDEST:
        yield "", text


def _overlap(app: Application, analysis: Analysis) -> Iterator[tuple[str, str]]:
    """What would let firings overlap of the one task that determines the least period."""
    from ..model.stateless import could_overlap, overlap_advice

    names = cycle_tasks(analysis.critical_cycle)
    if len(names) == 1 and could_overlap(app, app.task(names[0])):
        yield "", overlap_advice(app.task(names[0]))


def _latency(app: Application, analysis: Analysis, unit: bool) -> str:
    if analysis.latency is None:
        if _is_below_least(app, analysis):
            return "none: the period is below the least"
        return f"not known{_ended(analysis, 'latency')}"
    text = (
        f"{_time(analysis.latency, unit)} from the release of an iteration to the end of"
        f" {_short(analysis.latency_sink)}"
    )
    if analysis.too_late(app) and not unit:
        text += f"; the deadline is {_time(app.due_ns, unit)}" + _verdict(analysis)
    return text


def _path(analysis: Analysis, path: PathLatency, unit: bool) -> str:
    text = f"{_time(path.latency, unit)} from {_short(path.source)} to {_short(path.sink)}"
    if path.deadline is None or unit:
        return text
    text += f"; the deadline is {_time(path.deadline, unit)}"
    return text + _verdict(analysis) if path.too_late else text


def _for_period(app: Application, analysis: Analysis, unit: bool) -> str:
    if analysis.period_buffers is None:
        if _is_below_least(app, analysis):
            return "none: the period is below the least"
        if analysis.period == 0:
            return "none: with any buffers the period is above 0"
        return f"not known{_ended(analysis, 'period_buffers')}"
    text = _buffers(analysis, analysis.period_buffers, unit, "period_buffers")
    asked, reached = app.period_ns or analysis.period, analysis.period_buffers.period
    late = reached is None or (asked is not None and reached > asked)
    return f"not found; the fastest: {text}" if late else text


def _buffers(analysis: Analysis, capacities: Capacities | None, unit: bool, answer: Answer) -> str:
    if capacities is None:
        return f"not known{_ended(analysis, answer)}"
    reached = f"{_size(capacities)}: with them the period is {_reached(capacities, unit)}"
    return reached + _ended(analysis, answer)


def _reached(capacities: Capacities, unit: bool) -> str:
    text = _time(capacities.period, unit)
    return text if capacities.exact or capacities.period is None else f"at most {text}"


def _size(capacities: Capacities) -> str:
    text = number(capacities.total, "token")
    if capacities.bytes is not None:
        text += f", {number(capacities.bytes, 'byte')}"
    if capacities.proved:
        return text
    return f"{text} (the best found; at least {_bound(capacities)})"


def _bound(capacities: Capacities) -> str:
    return number(capacities.lower, "token" if capacities.bytes is None else "byte")


def _channels(app: Application, least: Capacities, keeping: Capacities | None) -> list[str]:
    """The table of channels; `keeping` are the capacities that keep the period."""
    from ..runtime.report import columns

    windows = app.windows
    header = ["channel", "token bytes", "initial", "least", "for the period"]
    if windows:
        header.append("kept")
    rows = [header]
    types: dict[tuple[str, str], TensorType | None] = {}
    for task in app.tasks:
        for port in task.outputs:
            types[task.name, port.name] = port.type
    for c in app.channels:
        size = _token_bytes(types[c.source, c.source_port])
        keeps = "-" if keeping is None else str(keeping.channels.get(c.name, "-"))
        row = [c.name, size, str(c.delay), str(least.channels[c.name]), keeps]
        if windows:
            row.append(str(windows[c.name].kept if c.name in windows else 0))
        rows.append(row)
    return [f"  {line}" for line in columns(rows, left=1).splitlines()]


def _token_bytes(type: TensorType | None) -> str:
    """The size of a token; with `+` if the size is open."""
    if type is None:
        return "-"
    return f"{type.bytes}+" if type.open else str(type.bytes)


def in_one_piece(apps: Iterable[Application]) -> dict[str, str]:
    """Why networks stay whole, on a CPU: by task."""
    return {
        task.name: task.network.one_piece
        for app in apps
        for task in app.tasks
        if task.network is not None and task.network.one_piece
    }


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
    inputs = {}
    for name, port in app.windows.items():
        size = None if port.type is None else port.kept * port.type.bytes
        inputs[name] = {"window": port.window, "kept": port.kept, "bytes": size}
    return {"windows": inputs} if inputs else {}


def _front(analysis: Analysis, points: Sequence[Capacities]) -> list[str]:
    """The trade-off of memory against period."""
    from ..runtime.report import columns

    rows = [["tokens", "bytes", "period", "the least"]]
    for p in points:
        bound = "proved" if p.proved else f"at least {_bound(p)}"
        size = "-" if p.bytes is None else str(p.bytes)
        rows.append([str(p.total), size, _reached(p, _unit(analysis)), bound])
    lines = ["  " + line for line in columns(rows, left=0).splitlines()]
    if not analysis.pareto_complete:
        lines.append(f"  (full speed is not reached{_ended(analysis, 'pareto')})")
    elif "pareto" in analysis.cut:
        lines.append(f"  (not all is proved{_ended(analysis, 'pareto')})")
    return lines


def network_table(memory: NetworkMemory) -> str:
    """Elements in the buffers of a network, in the execution modes that differ in memory."""
    share = f"{100 * memory.by_parts / memory.layerwise:.3g} % of that"
    if not memory.by_parts_proved:
        share += ", the best found"
    lines = [
        "elements in the buffers between the layers",
        f"  layer by layer  {memory.layerwise}",
        f"  by parts        {memory.by_parts}   ({share})",
    ]
    if memory.algorithm4 is None:
        lines.append(f"  Algorithm 4     does not apply: {memory.reason}")
    else:
        lines.append(
            f"  Algorithm 4     {memory.algorithm4}   ({memory.overlap} of them in self-loops for"
            " overlapping rows)"
        )
    return "\n".join(lines)


def band_table(comparison: BandComparison, thesis: Reduction) -> str:
    """Bytes between the layers of a network in several ways, and the Pareto front of bands against
    time."""
    from ..model.mapping import bands_in_words
    from ..runtime.report import columns

    placed = comparison.whole
    how = f"{placed.by}; none has less than {_mb(placed.bound)}"
    if placed.proved:
        how = f"{placed.by}, proved"
    ways = [
        ("each tensor its own", comparison.separate, ""),
        (
            "Algorithm 8",
            comparison.algorithm8,
            "buffers are shared, as in Minakova's thesis, ch. 6",
        ),
        ("one arena", placed.total, how),
        (
            "rows under a layer",
            comparison.rows,
            f"lower bound of all row by row execution, by `{comparison.dictated_by}`",
        ),
    ]
    lines = ["between the layers, in MB"]
    lines += [_way(*way) for way in ways]
    lines += ["by the rules of Minakova's thesis, its input included"]
    lines += [_way(*way) for way in _by_thesis(thesis)]
    time = "estimated time" if any(c.estimated for c in comparison.choices) else "time"
    table = [["between layers MB", "in all", time, "firings"]]
    words = ["", ""]
    for c in comparison.choices:
        table.append([_mb(c.buffers), _mb(c.bytes), f"{c.time:.2f}", str(c.firings)])
        words.append("; ".join(map(bands_in_words, c.bands)) or "whole")
    front = columns(table, left=0).splitlines()
    shown = [f"{line}  {word}".rstrip() for line, word in zip(front, words, strict=True)]
    return "\n".join([*lines, "", *shown])


def _way(name: str, size: int, note: str) -> str:
    return f"  {name:<19}  {_mb(size):>8}  {note}".rstrip()


def _by_thesis(reduction: Reduction) -> list[tuple[str, int, str]]:
    ways = [
        ("by parts, all", reduction.edges, "each edge in a buffer of its own (ch. 4)"),
        (
            "Algorithm 10, none",
            reduction.whole,
            "buffers are shared, no layer goes by parts (ch. 6)",
        ),
        (
            "Algorithm 10, all",
            reduction.parts,
            f"all layers go by parts, {reduction.steps} firings",
        ),
    ]
    if reduction.least is not None:
        firings = f"{reduction.least.times[0]:.0f} firings"
        looks = f"the least of {reduction.looks} looks"
        note = f"{reduction.chosen} layers go by parts, {firings}: {looks}"
        ways.append(("Algorithm 9", reduction.least.memory, note))
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


def in_8_bits(losses: Mapping[str, Sequence[QuantizationLoss]]) -> list[str]:
    """The loss of networks in 8 bits on their calibration data, a line per output."""
    lines = []
    for network, of_network in losses.items():
        for loss in of_network:
            line = (
                f"{network}.{loss.name} in 8 bits: {loss.decibels:.1f} dB signal to noise, at most"
                f" {loss.largest:.1%} off"
            )
            if loss.same_best is not None:
                line += f", the same best score in {loss.same_best:.1%}"
            lines.append(line)
    return lines
