"""`flowc analyze`, the pictures, and programs that run with exactly the computed capacities."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import flowc
import pytest
from flowc.analysis.dataflow import workers
from flowc.analysis.dataflow.analyze import Analysis
from flowc.analysis.dataflow.buffers import least_capacities
from flowc.analysis.dataflow.graph import bounded, graph_of
from flowc.analysis.dataflow.liveness import Execution
from flowc.analysis.dataflow.static_order import AppOrder
from flowc.cli import app
from flowc.cli._tables import table
from flowc.driver.show import networks
from flowc.model.application import Application
from typer.testing import CliRunner, Result

from builds import ROOT, Write, in_a_moment, run, store_profile

CD_TO_DAT = """
task A { out y               wcet 5 ns }
task B { in x  out y rate 2  wcet 2 ns }
task C { in x rate 3  out y rate 2  wcet 3 ns }
task D { in x rate 7  out y rate 8  wcet 1 ns }
task E { in x rate 7  out y rate 5  wcet 4 ns }
task F { in x  wcet 6 ns }
app Convert { a: A  b: B  c: C  d: D  e: E  f: F   a -> b -> c -> d -> e -> f }
"""
CONTROL = """
task Cam { out y  wcet 3 ms }
task Ctl { in y in fb  out u  wcet 5 ms }
task Act { in u  out fb  wcet 2 ms }
app Control {
    period PERIOD ms
    cam: Cam   ctl: Ctl   act: Act
    cam -> ctl.y   ctl -> act -> delay 1 -> ctl.fb
}
"""
LIGHT = Path(__import__("onnx").__file__).parent / "backend" / "test" / "data" / "light"


def analyze(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["analyze", *map(str, arguments)])


def test_json_has_what_the_contract_says(write: Write) -> None:
    result = analyze(write(CD_TO_DAT), "--json", "--buffers", "--pareto")
    assert result.exit_code == 0
    found = json.loads(result.stdout)["apps"]["Convert"]
    assert found["consistent"] and found["deadlock_free"]
    assert list(found["repetition"].values()) == [147, 147, 98, 28, 32, 160]
    assert (found["period"], found["latency"], found["critical_cycle"]) == (
        "960",
        "1000",
        ["Convert.f"],
    )
    assert (found["min_buffers"]["total"], found["min_buffers"]["period"]) == (32, "1088")
    assert list(found["min_buffers"]["channels"].values()) == [1, 4, 8, 14, 5]
    assert [(p["total"], p["period"], p["proved"]) for p in found["pareto"]] == [
        (32, "1088", True), (33, "1029", True), (34, "960", True),
    ]  # fmt: skip
    assert found["period_buffers"]["total"] == 34
    assert found["looped_schedule"] == {"text": "(49(3ab)(2c))(4(7d)(8e(5f)))", "total": 264}
    fired = re.sub(r"[^a-f0-9()]", "", found["schedule"])
    assert fired == found["schedule"]
    assert (found["times_from"], found["unit_times"]) == ("wcet", [])


def test_the_table(write: Write) -> None:
    shown = analyze(write(CD_TO_DAT), "--buffers", "--pareto").stdout
    for line in (
        r"least period    960 ns, 1\.04167e\+06 iterations per second",
        r"f determines it: its firings follow each other",
        r"latency         1 us from the release of an iteration to the end of f",
        r"least buffers   32 tokens: with them the period is 1\.088 us",
        r"for the period  34 tokens: with them the period is 960 ns",
        r"each task once  \(49\(3ab\)\(2c\)\)\(4\(7d\)\(8e\(5f\)\)\)   \(264 tokens of buffers\)",
        r"Convert\.d\.y->Convert\.e\.x            -        0     14              14",
        r"    33      -  1\.029 us     proved",
    ):
        assert re.search(line, shown), line


def test_which_times_are_used(write: Write) -> None:
    known = "task A { out y wcet 4 ms }\ntask B { in y }\napp P { a: A  b: B  a -> b }\n"
    found = json.loads(analyze(write(known), "--json").stdout)["apps"]["P"]
    assert (found["times_from"], found["unit_times"], found["period"]) == (
        "unit",
        ["P.b"],
        "4000000",
    )
    nothing = "task A { out y }\ntask B { in y }\napp P { a: A  b: B  a -> b }\n"
    assert "1 per firing of every task: no wcet" in analyze(write(nothing)).stdout


def test_times_from_the_profile(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "hello", tmp_path / "hello")
    flow = tmp_path / "hello" / "hello.flow"
    store_profile(flow, {"Hello.smooth": 9000})
    found = json.loads(analyze(flow, "--json").stdout)["apps"]["Hello"]
    assert (found["times_from"], found["period"], found["critical_cycle"]) == (
        "profile",
        "72000",
        ["Hello.smooth"],
    )
    orders = " ".join(found["processors"].values())
    assert orders.startswith("sensor scale meter (8 smooth)") and "(8 split) report" in orders


def test_a_period_that_the_critical_cycle_forbids(write: Write) -> None:
    late = analyze(write(CONTROL.replace("PERIOD", "6")))
    assert late.exit_code == 1
    assert "determined by the cycle ctl -> act -> ctl" in late.stdout
    assert "ctl 5 ms + act 2 ms = 7 ms for an iteration" in late.stdout
    assert (
        "7 ms, 142.857 iterations per second; asked for: 6 ms, which no mapping can keep"
        in late.stdout
    )
    assert "none: the period is below the least" in late.stdout
    kept = analyze(write(CONTROL.replace("PERIOD", "10")), "--json")
    assert kept.exit_code == 0
    found = json.loads(kept.stdout)["apps"]["Control"]
    assert (found["period"], found["latency"], found["latency_at_period"]) == (
        "7000000",
        "10000000",
        "10000000",
    )
    assert found["critical_cycle"] == ["Control.ctl", "Control.act"]


def test_check_says_so_too(write: Write) -> None:
    checked = flowc.check(write(CONTROL.replace("PERIOD", "6")))
    assert [d.code for d in checked.diagnostics] == ["F211"]
    assert "the cycle ctl -> act -> ctl takes 7 ms per iteration" in checked.diagnostics[0].message


def test_faulty_verdicts_are_part_of_the_answer(write: Write) -> None:
    stuck = analyze(write("task A { in x  out y }\napp P { a: A  b: A  a -> b -> a }\n"), "--json")
    assert stuck.exit_code == 1
    found = json.loads(stuck.stdout)["apps"]["P"]
    assert (found["consistent"], found["deadlock_free"], found["period"]) == (True, False, None)
    assert "add 1 initial token, the fewest that help" in stuck.stderr
    odd = "task A { out y out z rate 2 }\ntask B { in y in z }\napp P { a: A  b: B  a.y -> b.y  a.z -> b.z }\n"
    unbalanced = analyze(write(odd), "--json")
    assert unbalanced.exit_code == 1
    assert json.loads(unbalanced.stdout)["apps"]["P"]["consistent"] is False


def test_other_faults_are_reported_as_by_check(write: Write) -> None:
    result = analyze(write("app P { a: Missing }\n"), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["diagnostics"][0]["code"] == "F101"


def test_overlapping_firings(write: Write) -> None:
    flow = write(CD_TO_DAT)
    assert "0: nothing limits how fast" in analyze(flow, "--auto-concurrency").stdout


def test_a_network_by_layers_and_by_parts() -> None:
    network = ROOT / "examples" / "digits" / "digits.onnx"
    layers = json.loads(analyze(network, "--json").stdout)["apps"]["digits"]
    parts = json.loads(analyze(network, "--json", "--by-parts").stdout)
    assert layers["min_buffers"]["total"] == parts["memory"]["layer_by_layer"] == 50682
    assert parts["apps"]["digits"]["min_buffers"]["total"] == parts["memory"]["by_parts"] == 7198
    assert "its phases take 6 rows, the data has 7" in parts["memory"]["algorithm4_does_not_apply"]


@pytest.mark.parametrize(("name", "least"), [("resnet50", 2157616), ("densenet121", 4544072)])
def test_large_networks_by_parts(name: str, least: int) -> None:
    """The least buffers are proved; they are 5 % of what the layers need one after the other."""
    memory = networks.network_memory(LIGHT / f"light_{name}.onnx")
    assert memory.by_parts_proved and memory.by_parts == least
    assert memory.by_parts < memory.layerwise / 19


def test_wrong_usage(write: Write, tmp_path: Path) -> None:
    (tmp_path / "graph.xml").write_text("<sdf3/>")
    assert analyze(tmp_path / "graph.xml").exit_code == 2
    assert analyze(write(CD_TO_DAT), "--by-parts").exit_code == 2
    assert analyze(tmp_path / "none.onnx", "--json").exit_code == 1
    assert analyze(write("task A { out y }\n")).exit_code == 1
    assert analyze(write(CD_TO_DAT), "--platform", "nowhere").exit_code == 1
    missing = write('task A { out y: int32  python "missing.py:a" }\napp P { a: A }\n')
    assert analyze(missing).exit_code == 1
    assert CliRunner().invoke(app, ["export", str(missing)]).exit_code == 1


def test_import_analyze_export(tmp_path: Path, write: Write) -> None:
    """The SDF3 file of an app reads back as an app with the same answers."""
    invoke = CliRunner().invoke
    xml, flow = tmp_path / "graph.xml", tmp_path / "graph.flow"
    assert (
        invoke(app, ["export", str(write(CD_TO_DAT)), "--format", "sdf3", "-o", str(xml)]).exit_code
        == 0
    )
    assert invoke(app, ["import", str(xml), "-o", str(flow)]).exit_code == 0
    assert invoke(app, ["import", str(xml), "-o", str(flow)]).exit_code == 1  # it exists
    assert invoke(app, ["import", str(xml), "-o", str(flow), "--force"]).exit_code == 0
    found = next(iter(json.loads(analyze(flow, "--json", "--pareto").stdout)["apps"].values()))
    assert (found["period"], found["min_buffers"]["total"]) == ("960", 32)
    assert [p["total"] for p in found["pareto"]] == [32, 33, 34]


def test_pictures(tmp_path: Path, write: Write) -> None:
    flow = write(CONTROL.replace("PERIOD", "8"))
    graph, chart = tmp_path / "graph.svg", tmp_path / "chart.svg"
    invoke = CliRunner().invoke
    assert invoke(app, ["show", str(flow), "-o", str(graph)]).exit_code == 0
    assert "#c62828" in graph.read_text()  # the critical cycle
    assert (
        invoke(app, ["show", str(flow), "--gantt", "--iterations", "4", "-o", str(chart)]).exit_code
        == 0
    )
    assert chart.read_text().startswith("<?xml")
    big = write(CD_TO_DAT)
    refused = invoke(app, ["show", str(big), "--gantt", "--iterations", "100", "-o", str(chart)])
    assert refused.exit_code == 1 and "draw fewer with --iterations" in refused.stderr


def test_what_windows_keep_is_said(write: Write, tmp_path: Path) -> None:
    """Beside the buffers, in words, in numbers and in the picture."""
    flow = write(
        'task Mic { out x: float32 rate 160 }\ntask Spot { in x: float32 rate 160 window 400   in y window 2   c "s.c:spot" }\n'
        "task Plain { out y }\napp A { mic: Mic  plain: Plain  spot: Spot   mic -> spot.x   plain -> spot.y }",
        s_c="/* nothing yet */",
    )
    invoke = CliRunner().invoke
    sentence = "241 tokens that were taken are kept, beside all buffers"
    windows = {
        "A.mic.x->A.spot.x": {"window": 400, "kept": 240, "bytes": 960},
        "A.plain.y->A.spot.y": {"window": 2, "kept": 1, "bytes": None},
    }
    assert invoke(app, ["headers", str(flow)]).exit_code == 0
    assert (
        "in x: float32 x 400, of which the last 160 are new" in (tmp_path / "s.flow.h").read_text()
    )
    flow.write_text(flow.read_text().replace('c "s.c:spot"', ""))
    assert sentence in invoke(app, ["check", str(flow)]).stdout
    assert (
        json.loads(invoke(app, ["check", str(flow), "--json"]).stdout)["apps"]["A"]["windows"]
        == windows
    )
    table = analyze(flow, "--buffers").stdout
    assert sentence in table
    rows = [line.split() for line in table.splitlines()]
    assert [row[-1] for row in rows if row and row[0] in windows] == ["240", "1"]
    assert json.loads(analyze(flow, "--json").stdout)["apps"]["A"]["windows"] == windows
    assert invoke(app, ["show", str(flow), "-o", str(tmp_path / "g.svg")]).exit_code == 0
    assert "<!-- 160/400 -->" in (tmp_path / "g.svg").read_text()


def tight(application, vector, placement, wcet_ns, in_one_stage) -> AppOrder:  # type: ignore[no-untyped-def]
    """Like `app_order`, with the least capacities and an order that needs no more, in one stage."""
    graph = graph_of(application, vector)
    found = least_capacities(graph)
    assert found.proved
    runs: list[tuple[int, int]] = []
    assert Execution(bounded(graph, found.capacities)).run(record=runs)
    fired = dict.fromkeys(graph.names, 0)
    ordered = []
    for task, times in runs:
        name = graph.names[task]
        ordered.append((name, times, fired[name]))
        fired[name] += times
    stages = dict.fromkeys(graph.names, 0)
    places = {t.name: placement[t.name] for t in application.tasks}
    capacities = {graph.channels[c]: n for c, n in found.capacities.items()}
    return AppOrder(application, stages, tuple(ordered), places, capacities)


@pytest.mark.parametrize("name", ["hello", "digits", "twins"])
@pytest.mark.parametrize("order", [None, tight], ids=["as generated", "least"])
def test_programs_run_with_exactly_the_computed_capacities(
    name: str,
    order: Callable[..., AppOrder] | None,
    examples: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Channels block where they are full, so a capacity that is too small would stop the
    program."""
    shutil.copytree(examples / name, tmp_path / name, ignore=shutil.ignore_patterns("build"))
    flow = tmp_path / name / f"{name}.flow"
    store_profile(flow)
    if order is not None:
        monkeypatch.setattr(workers, "app_order", order)
    flowc.build(flow, tmp_path / "out")
    checked = flowc.check(flow)
    declared = json.loads((tmp_path / "out" / "deployment.json").read_text())
    capacities = {
        f"{c['source']}.{c['source_port']}->{c['destination']}.{c['destination_port']}": c[
            "capacity"
        ]
        for a in declared["apps"]
        for c in a["channels"]
    }
    for application in checked.system.apps:
        graph = graph_of(application, checked.verdicts[application.name].repetition)
        limited = bounded(graph, {i: capacities[n] for i, n in enumerate(graph.channels)})
        assert Execution(limited).run()
        least = least_capacities(graph).capacities
        if order is not None:
            assert {graph.channels[c]: n for c, n in least.items()} == {
                n: capacities[n] for n in graph.channels
            }
    ended = run(tmp_path / "out", "--frames", "6", "--full-speed")
    assert ended.returncode == 0, ended.stderr


def test_fractions_stay_exact(write: Write) -> None:
    text = "task A { out y rate 3 wcet 1/3 ns }\ntask B { in y rate 7 wcet 1/7 ns }\napp P { a: A  b: B  a -> b }\n"
    found = json.loads(analyze(write(text), "--json").stdout)["apps"]["P"]
    assert Fraction(found["period"]) == Fraction(7, 3)


REPLICABLE = """
task In   { out x: float32                 wcet 1 ms }
task Work { in x: float32  out y: float32  wcet 10 ms  stateless }
task Out  { in y: float32                  wcet 1 ms }
app Rep { period 6 ms  in0: In  work: Work  out0: Out  in0 -> work -> out0 }
"""


def test_a_task_that_processors_may_share_forbids_nothing(write: Write) -> None:
    result = analyze(write(REPLICABLE.replace("6 ms", "6 ms   deadline 12 ms")))
    assert result.exit_code == 0
    assert "asked for: 6 ms, which needs parallel firings of a task" in result.stdout
    assert analyze(write(REPLICABLE.replace("stateless", ""))).exit_code == 1


def test_a_deadline_that_no_mapping_can_keep(write: Write) -> None:
    late = analyze(write(CONTROL.replace("PERIOD", "9")))
    assert late.exit_code == 1
    assert "the deadline is 9 ms, which no mapping can keep" in late.stdout
    assert analyze(write(CONTROL.replace("PERIOD", "10"))).exit_code == 0


def test_bytes_are_minimized_where_they_are_known(write: Write) -> None:
    """Either both small channels have two tokens, or a large one has."""
    text = """
type Image = uint8[1000000]
task A { out p: int32  out q: int32  wcet 1 ms }
task B { in p: int32  out r: int32  wcet 3 ms }
task C { in q: int32  out big: Image  wcet 1 ms }
task D { in r: int32  in big: Image  wcet 1 ms }
app Diamond { a: A  b: B  b2: B2  c: C  d: D  a.p -> b -> b2 -> d.r  c -> d.big  a.q -> c }
task B2 { in p: int32  out r: int32  wcet 3 ms }
"""
    found = json.loads(analyze(write(text), "--json", "--buffers").stdout)["apps"]["Diamond"][
        "period_buffers"
    ]
    assert (found["period"], found["minimized"], found["proved"]) == ("3000000", "bytes", True)
    assert found["channels"]["Diamond.c.big->Diamond.d.big"] == 1
    assert found["bytes"] == 1_000_000 + 4 * (found["total"] - 1)


def test_a_stale_profile_is_named(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "hello", tmp_path / "hello")
    flow = tmp_path / "hello" / "hello.flow"
    store_profile(flow)
    source = tmp_path / "hello" / "signal_tasks.py"
    source.write_text(source.read_text() + "\nCHANGED = 1\n")
    result = analyze(flow)
    assert result.exit_code == 0
    assert "is stale" in result.stderr and "no stored profile" in result.stdout


def test_unknown_times_are_not_exported(write: Write, tmp_path: Path) -> None:
    flow = write("task A { out y wcet 4 ms }\ntask B { in y }\napp P { a: A  b: B  a -> b }\n")
    target = tmp_path / "p.xml"
    assert CliRunner().invoke(app, ["export", str(flow), "-o", str(target)]).exit_code == 0
    assert target.read_text().count("<executionTime") == 1


def test_a_deadlock_that_comes_after_very_many_firings(write: Write) -> None:
    """Too long to execute: the graph without end is proved dead by its cycle, not taken for
    live."""
    text = """
task X { in i rate [2,0] in j rate [0,2] in f  out o rate [0,2] out p rate [2,0] out g }
task B { in i in k rate 1000000000 out o out l rate 1000000000 }
task C { in k out l }
app D { x: X  b: B  c: C
    x.o -> x.i  x.p -> delay 3 -> x.j  x.g -> delay 2 -> b.i  b.o -> delay 2 -> x.f
    b.l -> delay 3000000000 -> c  c -> b.k }
"""
    result = analyze(write(text), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["apps"]["D"]["deadlock_free"] is False
    assert "after many firings `x`" in result.stderr


def test_long_chains_stay_cheap(write: Write) -> None:
    count = 3000
    tasks = "task A { out y }\ntask B { in x out y }\ntask C { in x }\n"
    names = [f"t{i}" for i in range(count)]
    made = "\n".join(f"  {n}: B" for n in names)
    flow = write(f"{tasks}app P {{ a: A  c: C\n{made}\n  a -> {' -> '.join(names)} -> c }}\n")
    with in_a_moment():
        found = flowc.analyze(flow).apps["P"]
    assert (found.period, found.latency, found.least_buffers and found.least_buffers.total) == (
        1,
        count + 2,
        count + 1,
    )


def test_pinned_times_decide(write: Write) -> None:
    text = "task W { out y wcet 5 ms }\ntask R { in y wcet 1 ms }\napp A { period 3 ms  w: W  r: R  w -> r }\n"
    assert analyze(write(text)).exit_code == 1
    pinned = write(text + "mapping on host { A.w -> cpu[0] wcet 1 ms }\n")
    assert analyze(pinned).exit_code == 0


def test_where_a_network_can_be_cut(write: Write) -> None:
    """The layers are those that a pin names; groups that become one kernel are not parted."""
    network = ROOT / "examples" / "digits" / "digits.onnx"
    found = json.loads(analyze(network, "--cuts", "--json").stdout)["cuts"]
    assert [c["share"] for c in found] == sorted(c["share"] for c in found)
    assert all(len(c["tensors"]) == 1 and c["bytes"] > 0 for c in found)
    shown = analyze(network, "--cuts").stdout.splitlines()
    assert [line.split()[0] for line in shown[2:]] == [c["layer"] for c in found]
    assert analyze(write(CD_TO_DAT), "--cuts").exit_code == 2


def test_answers_come_one_by_one(write: Write) -> None:
    """What is printed for the first ones stays when there are more."""
    text = write(CD_TO_DAT)
    (shown,) = flowc.check(text).system.apps
    seen: list[tuple[tuple[str, ...], list[str]]] = []

    def tell(app: Application, so_far: Analysis, orders: dict[str, str]) -> None:
        seen.append((so_far.answered, table(app, so_far, {}, buffers=True)))

    found = flowc.analyze(text, for_period=True, pareto=True, answered=tell).apps["Convert"]
    assert [len(answers) for answers, _ in seen] == [1, 2, 3, 5]
    assert (
        seen[0][0] == ("period",)
        and seen[0][1][-1].strip() == "f determines it: its firings follow each other"
    )
    whole = table(shown, found, {}, buffers=True)
    for _, lines in seen:
        assert whole[: len(lines)] == lines
    assert seen[-1][1] == whole and found.cut == {}


def test_a_limit_of_time_says_what_it_cut(write: Write) -> None:
    """No time at all: bounds are left, in words and in the document."""
    text = write(CONTROL.replace("PERIOD", "9"))
    (shown,) = flowc.check(text).system.apps
    found = flowc.analyze(text, for_period=True, seconds=-1.0).apps["Control"]
    assert found.cut == {"period": "time", "latency": "time", "least_buffers": "time"}
    assert (
        not (found.period or found.latency or found.least_buffers)
        and found.period_lower == 5_000_000
    )
    words = "\n".join(table(shown, found, {}, buffers=True))
    assert (
        "least period    at least 5 ms; the search ended after -1 s; --seconds extends it; asked for: 9 ms"
        in words
    )
    assert "latency         not known; the search ended after -1 s; --seconds extends it" in words
    assert "least buffers   not known; the search ended after -1 s; --seconds extends it" in words
    assert json.loads(analyze(text, "--json").stdout)["apps"]["Control"]["cut"] == {}


def test_a_graph_that_is_too_large_is_given_with_its_bounds(write: Write) -> None:
    p, q = 10**9 + 7, 10**9 + 9
    text = write(
        f"task A {{ in x rate {p}  out y rate {p}  wcet 2 ns }}\ntask B {{ in x rate {q}  out y rate {q}  wcet 1 ns }}\n"
        f"app Big {{ a: A  b: B  a -> b -> delay {p + q - 1} -> a }}\n"
    )
    shown = analyze(text, "--seconds", "1")
    assert re.search(
        r"least period    between \S+ s and \S+ s; the graph is too large to search further",
        shown.stdout,
    )
    assert "latency         not known; the graph is too large to search further" in shown.stdout
    cut = json.loads(analyze(text, "--seconds", "1", "--json").stdout)["apps"]["Big"]["cut"]
    assert (cut["period"], cut["latency"]) == ("size", "size")


def test_latencies_of_paths(write: Write) -> None:
    """From the newest data that a decision depends on; an iteration of 160 ms
    is longer than a user waits."""
    text = """
        task Mic { out x: float32 rate 512  wcet 1 ms }
        task Frame { in x: float32 rate 160  out y: float32  wcet 1 ms }
        task Spot { in y: float32 rate 8  wcet 2 ms }
        app A { deadline DUE from mic to spot   mic: Mic every 32 ms  frame: Frame  spot: Spot   mic -> frame -> spot }
    """
    kept = analyze(write(text.replace("DUE", "40 ms")), "--json")
    found = json.loads(kept.stdout)["apps"]["A"]
    assert kept.exit_code == 0 and (found["latency"], found["latency_at_period"]) == (
        "135000000",
        "160000000",
    )
    assert found["paths"] == [
        {
            "source": "A.mic",
            "task": "A.spot",
            "latency": "7000000",
            "latency_on_any_mapping": "7000000",
            "deadline": "40000000",
        }
    ]
    late = analyze(write(text.replace("DUE", "6 ms")))
    assert late.exit_code == 1
    assert (
        "path            7 ms from mic to spot; the deadline is 6 ms, which no mapping can keep"
        in late.stdout
    )


def test_a_path_without_a_period_counts_from_the_start_of_its_source(write: Write) -> None:
    """As fast as data allow, the fifth firing of `a` starts at 4 ms, after the others; its own way
    takes 3 ms."""
    text = "task A { out x  wcet 1 ms }  task B { in x rate 5  wcet 2 ms }"
    app = "app P { deadline 2500 us from a to b   a: A  b: B   a -> b }"
    answer = analyze(write(f"{text}\n{app}"), "--json")
    (path,) = json.loads(answer.stdout)["apps"]["P"]["paths"]
    assert (path["latency"], path["latency_on_any_mapping"], answer.exit_code) == (
        "3000000",
        "3000000",
        1,
    )


# -- one firing at a time --------------------------------------------------------------------------
ONE_BY_ONE = """
task Give {{ out x: float32[1]  wcet 1 ms  python "code.py:give" }}
task Slow {{ in x: float32[1] {more}  out y: float32[1]  wcet 9 ms  {code} }}
task Take {{ in y: float32[1]  wcet 1 ms  python "code.py:take" }}
app A {{ {period}  give: Give  slow: Slow  take: Take   give -> slow.x  slow.y -> take  {loop} }}
platform board {{ cpu core[2] }}
"""
ONE_BY_ONE_CODE = (
    "def give(): return [1]\ndef slow(x): return x\ndef take(y): pass\n"
    "class Slow:\n    def __call__(self, x): return x\n"
)
ONE_BY_ONE_C = '#include "slow.h"\nint slow(const float *x, float *y) { *y = *x; return 0; }\n'
LOOP = {"more": "in z: float32[1]", "loop": "slow.y -> delay 1 -> slow.z"}
ADVICE = (
    "`stateless` in task `Slow`, if it keeps nothing between firings, would let them overlap on"
    " several processors"
)


@pytest.mark.parametrize(
    ("code", "given", "helps"),
    [
        ('c "slow.c:slow"', {}, True),
        ('c "slow.c:slow"  stateless', {}, False),
        ('c "slow.c:slow"', LOOP, False),
        ('c "slow.c:slow"  state count: int32', {}, False),
        ('python "code.py:Slow"', {}, True),
        ('python "code.py:slow"', {}, False),
        ("", {}, False),
    ],
)
def test_stateless_is_named_where_it_would_let_firings_overlap(
    write: Write, tmp_path: Path, code: str, given: dict[str, str], helps: bool
) -> None:
    def text(period: str) -> Path:
        wanted = {"period": period, "code": code, "more": "", "loop": ""} | given
        return write(
            ONE_BY_ONE.format(**wanted), code_py=ONE_BY_ONE_CODE, slow_c=ONE_BY_ONE_C, slow_h=""
        )

    shown = analyze(text(""), "--platform", "board").stdout
    assert ("slow determines it" in shown) and (ADVICE in shown) == helps, shown
    asked = flowc.check(text("period 5 ms"), platform="board")
    late = [d for d in asked.diagnostics if d.code == "F211"]
    if helps:
        assert late[0].help == (
            f"its firings follow each other: ask for a longer period, or split the task; {ADVICE}"
        )
    assert all(ADVICE not in d.help for d in late) != helps


@pytest.mark.parametrize("promise", ["", "stateless"])
def test_stateless_is_named_by_the_reasons_for_a_mapping(write: Write, promise: str) -> None:
    """By predictions alone: nothing runs, so nothing depends on this machine."""
    code = f'c "slow.c:slow"  {promise}'
    text = ONE_BY_ONE.format(period="", code=code, more="", loop="")
    text = re.sub(r"wcet \d ms", "", text)
    flow = write(text, code_py=ONE_BY_ONE_CODE, slow_c=ONE_BY_ONE_C, slow_h="")
    store_profile(flow, {"A.slow": 9_000_000, "A.give": 1_000_000, "A.take": 1_000_000}, "board")
    words = ["map", str(flow), "--platform", "board", "--no-measure", "--explain"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "is the busiest processor" in done.stdout
    assert (f"`A.slow` takes 9 ms of it: {ADVICE}" in done.stdout) == (not promise), done.stdout


def test_a_build_names_stateless_beside_a_measured_time_that_is_too_long(
    write: Write, tmp_path: Path
) -> None:
    code = 'python "code.py:Slow"'
    text = ONE_BY_ONE.format(period="period 5 ms", code=code, more="", loop="")
    flow = write(re.sub(r"wcet \d ms", "", text), code_py=ONE_BY_ONE_CODE)
    store_profile(flow, {"A.slow": 9_000_000}, "board")
    built = flowc.build(flow, tmp_path / "out", platform="board")
    assert [d.help for d in built.diagnostics] == [f"expect missed deadlines; {ADVICE}"]


def test_an_argument_that_analyze_does_not_have_is_answered_with_those_that_there_are(
    write: Write,
) -> None:
    flow = write(CONTROL)
    with pytest.raises(
        TypeError, match=r"flowc.analyze\(\).* 'buffers': it has .*for_period, pareto"
    ):
        flowc.analyze(flow, buffers=True)
    for name in ("map", "build", "test"):
        with pytest.raises(TypeError, match=rf"flowc.{name}\(\).* 'no_such': it has "):
            getattr(flowc, name)(flow, no_such=1)


def test_the_firings_of_the_critical_cycle_add_up_to_the_period(write: Write) -> None:
    """B and C fire twice in it, C in phases of different times."""
    flow = write(
        "task A { in f  out b rate [1, 2]  out e rate [1, 0]  wcet [2, 1] ms }\n"
        "task B { in a  in d  out c rate 2  wcet 1 ms }\n"
        "task C { in b rate [3, 0, 3]  out d rate [0, 2, 1]  out e rate [1, 1, 0]"
        "  wcet [2, 1, 3] ms }\n"
        "task D { in c rate 3  out b rate 3  wcet 4 ms }\n"
        "task E { in a  in c rate 2  out f rate 2  wcet 5 ms }\ntask F { in e  out a  wcet 1 ms }\n"
        "app T { a: A  b: B  c: C  d: D  e: E  f: F  a.b -> b.a  a.e -> e.a  b.c -> c.b  c.d -> d.c"
        "  c.e -> e.c  d.b -> delay 3 -> b.d  e.f -> f.e  f.a -> delay 2 -> a.f }\n"
    )
    firings = flowc.analyze(flow).apps["T"].critical_firings
    assert "".join(name[-1] for name, _ in firings) == "abbccef"
    assert [ns / 10**6 for _, ns in firings] == [2, 1, 1, 2, 1, 5, 1]
