"""`flowc map`: contestants, the stored mapping and what becomes of it, configurations that pins can
say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import flowc
import numpy as np
import onnx
import pytest
from flowc.cli import app
from flowc.cli._mapping import table as map_table
from flowc.driver.measure import measure as measuring
from flowc.driver.solve import contest
from flowc.model.mapping import Contestant, Decision, Effort, Mapping
from flowc.networks.onnx.cuts import read_chain
from flowc.profiling.identity import task_hashes
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from builds import Write, harness, pretend_runs, run, store_profile

DEPTH = 8
CODE = """
import numpy as np
class Source:
    def __init__(self, count=1 << 40):
        self.left, self.rng = count, np.random.default_rng(3)
    def __call__(self):
        if not self.left: raise StopIteration
        self.left -= 1
        return self.rng.standard_normal((1, 8, 32, 32)).astype(np.float32)
def scale(raw):
    return raw * np.float32(0.5)
def show(y):
    print("sum", format(float(np.abs(y).sum()), ".4f"))
def broken(y):
    raise ValueError("no such show")
"""
TEXT = """
type Image = float32[1, 8, 32, 32]
task Source(count: int = {count}) {{ out raw: Image  python "small.py:Source" }}
task Scale {{ in raw: Image  out image: Image  python "small.py:scale" }}
task Show {{ in y: Image  python "small.py:{show}" }}
network Net from "small.onnx" {{ in image from "x"  out y from "r8" }}
app A {{ source: Source  scale: Scale  net: Net  show: Show   source -> scale -> net -> show }}
platform board {{ cpu core[2] scheduler static_order  gpu volta scheduler fifo }}
{pins}
"""


@pytest.fixture
def small(write: Write, tmp_path: Path) -> Write:
    """A text with a chain of eight convolutions, each with its activation: r1 to r8."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for k in range(1, DEPTH + 1):
        weights.append(
            numpy_helper.from_array(rng.normal(0, 0.12, (8, 8, 3, 3)).astype(np.float32), f"w{k}")
        )
        before = f"r{k - 1}" if k > 1 else "x"
        nodes.append(helper.make_node("Conv", [before, f"w{k}"], [f"c{k}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8, 32, 32])
        for n in ("x", f"r{DEPTH}")
    ]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, tmp_path / "small.onnx")

    def text(pins: str = "", count: str = "1099511627776", show: str = "show") -> Path:
        return write(TEXT.format(pins=pins, count=count, show=show), small_py=CODE)

    return text


def call(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(w) for w in words])
    return done.exit_code, done.stdout, done.stderr


# -- on this machine -------------------------------------------------------------------------------
def test_the_winner_is_measured_stored_built_and_right(
    small: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is fastest here and now; that the fastest one wins is shown below, where times are
    given."""
    monkeypatch.setattr(measuring, "LAYERS", 0.2)
    monkeypatch.setattr(contest, "SHORTEST", 0.3)
    flow = small()
    status, out, err = call("map", flow, "--budget", "1s", "--json")
    assert status == 0, err
    found = json.loads(out)
    assert set(found) - {"engines"} == {"tasks", "networks", "why", "file", "search"}
    network = found["networks"]["A.net"]
    names = [c["name"] for c in network["contestants"]]
    assert {"one core", "threads of the library", "frames in turn"} <= set(names) and any(
        "stages" in n for n in names
    )
    measured = [c["measured_fps"] for c in network["contestants"] if c["measured_fps"] is not None]
    assert network["measured_fps"] == measured[0] > 0
    assert (
        found["search"]["measured_runs"] >= len(measured) >= 1
        and found["search"]["lower_bound"] > 0
    )
    stored = tmp_path / "app.host.mapping.json"
    assert found["file"] == str(stored)
    built = flowc.build(flow, tmp_path / "out")
    assert built.mapping.search == "auto"
    assert harness(tmp_path / "out").returncode == 0
    layers = json.loads((tmp_path / "app.host.profile.json").read_text())
    entry = next(e for e in layers["entries"] if e["subject"] == "A.net")
    assert len(entry["layers"]) == 2 * DEPTH and layers["transfers"][0]["from"] == "cpu"


#: What is in the program that is measured, and who that is.
CONTESTANTS = {
    r"Fire\(net, .*replica=": "frames in turn",
    "threads=2": "threads of the library",
    "net_stage2": "2 stages",
}


@pytest.mark.parametrize("fastest", [*CONTESTANTS.values(), "one core"])
def test_the_fastest_contestant_wins(
    small: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fastest: str
) -> None:
    """On a machine where it takes half of what the others take."""
    flow = small()
    times = dict.fromkeys([x.name for x in read_chain(tmp_path / "small.onnx").layers], 100_000.0)
    monkeypatch.setattr(
        measuring, "layer_times", lambda *_: SimpleNamespace(mean_ns=times, overhead_ns=0.0)
    )

    def period_ns(build: Path) -> float:
        text = (build / "main.py").read_text()
        name = next((n for sign, n in CONTESTANTS.items() if re.search(sign, text)), "one core")
        return 1e6 if name == fastest else 2e6

    pretend_runs(monkeypatch, period_ns)
    status, out, err = call("map", flow, "--json")
    assert status == 0, err
    network = json.loads(out)["networks"]["A.net"]
    assert network["contestants"][0]["name"].startswith(fastest) and network["measured_fps"] == 1000
    built = flowc.build(flow, tmp_path / "out")
    places = {p.task: p.processors for p in built.mapping.placements}
    stages = network["stages"]
    assert (len(stages) > 1) == (fastest == "2 stages")
    for k, stage in enumerate(stages, 1):
        assert places[f"A.net.stage{k}" if len(stages) > 1 else "A.net"] == tuple(
            stage["processors"]
        )
    # A table for people, with the reasons.
    status, out, err = call("map", flow, "--explain")
    assert status == 0 and "measured frames/s" in out and "is the busiest processor" in out, err


def test_how_the_race_ended_stands_above_what_was_spent() -> None:
    """What is limited stands beside its limit."""
    simple, fast = (
        Contestant("one core", "all", 5e6, 5.1e6, "", 8),
        Contestant("2 stages", "cut", 4e6, 5e6, "", 8),
    )
    ran = Mapping("host", (), contestants=(simple, fast), search="auto")

    def last(decision: Decision) -> list[str]:
        effort = Effort(evaluations=7, measured_runs=4, decision=decision)
        return map_table(replace(ran, effort=effort), 4).splitlines()[-2:]

    spent = "auto: 7 configurations, 4 of 4 runs, 0.0 s"
    assert last("tie") == [
        "tie: no other one is surely faster than `one core`, which is simpler",
        spent,
    ]
    assert last("separated") == [
        "separated: `one core` is faster than the others of the race in paired runs",
        spent,
    ]
    assert last("out of budget") == [
        "out of budget: the race was not decided, `one core` is the answer so far",
        spent,
    ]
    low, high = replace(simple, latency_ns=3.25e6), replace(fast, predicted_latency_ns=4e7)
    ran = replace(ran, contestants=(low, high))
    assert last("lower latency") == [
        "tie: no other one is surely faster than `one core`, whose latency is lower: 3.25 ms",
        spent,
    ]
    rows = [line.split() for line in map_table(ran, None).splitlines()]
    assert rows[0][-3:] == ["runs", "latency", "ms"] and rows[2][-2:] == ["8", "3.25"]
    assert rows[3][-2:] == ["predicted", "40"]


def test_a_simpler_configuration_wins_ties_of_predictions_and_says_so() -> None:
    simple, fast = Contestant("one core", "all", 5e6), Contestant("2 stages", "cut", 4.99e6)
    predicted = Mapping(
        "host", (), contestants=(simple, fast), search="auto", effort=Effort(evaluations=7)
    )
    assert map_table(predicted, None).splitlines()[-2] == (
        "`2 stages` is not better by 1 %: within the tie margin the simpler `one core` wins"
    )
    low, high = (replace(c, predicted_latency_ns=ns) for c, ns in ((simple, 5e6), (fast, 9.98e6)))
    assert map_table(replace(predicted, contestants=(low, high)), None).splitlines()[-2] == (
        "`2 stages` is not better by 1 %: within the tie margin `one core` wins, whose latency is"
        " lower"
    )
    won = replace(predicted, contestants=(fast, simple))
    assert map_table(won, 9).endswith("\n\nauto: 7 of 9 configurations, 0 runs, 0.0 s")
    assert map_table(won, None).endswith("\n\nauto: 7 configurations, 0 runs, 0.0 s")


def test_an_app_without_networks_is_mapped_too(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_runs(monkeypatch)
    text = """
task Source { out x: float32[4]  python "t.py:source" }
task Sink { in x: float32[4]  python "t.py:sink" }
app A { source: Source  sink: Sink  source -> sink }
"""
    code = "import numpy as np\ndef source(): return np.zeros(4, np.float32)\ndef sink(x): pass\n"
    status, out, err = call("map", write(text, t_py=code), "--budget", "1s", "--json")
    assert status == 0, err
    assert set(json.loads(out)["tasks"]) == {"A.source", "A.sink"}


def test_where_nothing_can_be_stored_nothing_is_searched(write: Write, tmp_path: Path) -> None:
    """A folder in which the system makes no files: a text that comes through a descriptor."""
    ran = tmp_path / "ran"
    code = f"def source():\n    open({str(ran)!r}, 'w')\n    return 1\ndef sink(x): pass\n"
    text = """
task Source {{ out x: int64  python "{t}:source" }}
task Sink {{ in x: int64  python "{t}:sink" }}
app A {{ source: Source  sink: Sink  source -> sink }}
"""
    with open(write(text.format(t=tmp_path / "t.py"), t_py=code)) as stream:
        flow = f"/proc/self/fd/{stream.fileno()}"
        status, out, err = call("map", flow, "--budget", "1s")
    assert (status, out, ran.exists()) == (1, "", False)
    assert (
        err.startswith("error[F605]: cannot write `/proc/self/fd/")
        and "copy the text to a folder" in err
    )


def test_an_app_that_fails_says_so(small: Write, tmp_path: Path) -> None:
    status, _, err = call("map", small(show="broken"), "--budget", "1s")
    assert status == 1 and "no such show" in err and not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize(
    "words", [["--search", "magic"], ["--objective", "beauty"], ["--budget", "soon"]]
)
def test_wrong_words_are_wrong_usage(small: Write, words: list[str]) -> None:
    status, _, err = call("map", small(), *words)
    assert status == 2 and words[0] in err


# -- a board whose profile comes from a file -------------------------------------------------------
def store_board(
    flow: Path, gpu: Iterable[float], cpu: Iterable[float], watts: tuple[float, float] | None
) -> None:
    """Milliseconds per convolution on the GPU and on a core; watts of both."""
    checked = flowc.check(flow, platform="board", mapped=False)
    chain = read_chain(flow.parent / "small.onnx")
    entries = []
    for task, digest in task_hashes(checked.system).items():
        common = {"subject": task, "implementation": "", "content_hash": digest, "host_hash": "", "samples": 9,
                  "std_ns": 0, "max_ns": 0, "wcet_ns": 0}  # fmt: skip
        if task != "A.net":
            entries.append({**common, "processor": "cpu", "mean_ns": 10_000})
            continue
        for kind, ms, power in zip(("cpu", "gpu"), (cpu, gpu), watts or (0, 0), strict=True):
            times = [t * 1e6 for t in ms for t in (t, 0.0)]
            layers = [
                {"layer": x.name, "mean_ns": t, **({"energy_nj": t * power} if watts else {})}
                for x, t in zip(chain.layers, times, strict=True)
            ]
            entries.append(
                {**common, "processor": kind, "mean_ns": round(sum(times)), "layers": layers}
            )
    transfers = [{"from": "cpu", "to": "gpu", "fixed_ns": 100_000, "ns_per_byte": 1.0}]
    document = {
        "version": 1,
        "platform": "board",
        "host": "a board",
        "entries": entries,
        "transfers": transfers,
    }
    (flow.parent / "app.board.profile.json").write_text(json.dumps(document))


def mapped(flow: Path, objective: str) -> dict[str, object]:
    status, out, err = call("map", flow, "--platform", "board", "--objective", objective, "--json")
    assert status == 0, err
    return json.loads(out)  # type: ignore[no-any-return]


def processors(found: dict[str, object]) -> list[list[str]]:
    return [s["processors"] for s in found["networks"]["A.net"]["stages"]]  # type: ignore[index]


def test_three_objectives_give_three_mappings(small: Write) -> None:
    """The GPU is fast at the first layers and slow at the last one; cores are frugal."""
    flow = small()
    gpu, cpu = [1, 1, 1, 1, 1, 1, 1, 6], [3, 3, 3, 3, 3, 3, 3, 3]
    store_board(flow, gpu, cpu, watts=(2.0, 5.0))
    fast, soon, frugal = (mapped(flow, o) for o in ("throughput", "latency", "energy"))
    assert len(processors(fast)) > 1 and {p for s in processors(fast) for p in s} == {
        "volta",
        "core[0]",
        "core[1]",
    }
    assert processors(soon) == [["volta"], ["core[0]"]]
    assert processors(frugal) == [["volta"], ["core[0]"]] and soon != frugal
    slower = [1, 1, 1, 1, 1, 1, 1, 1]
    store_board(flow, slower, cpu, watts=(2.0, 10.0))
    soon, frugal = (mapped(flow, o) for o in ("latency", "energy"))
    assert processors(soon) == [["volta"]] and all(
        "core" in p for s in processors(frugal) for p in s
    )
    for found in (fast, soon, frugal):
        assert any("as a whole" in line for line in found["why"])  # type: ignore[attr-defined]


def test_on_a_profile_like_the_papers_energy_and_latency_agree_on_one_processor(
    small: Write,
) -> None:
    """TX2 with TVM: the GPU is faster at every layer, at less energy; only throughput gains from
    both."""
    flow = small()
    store_board(flow, [2.0] * DEPTH, [6.0] * DEPTH, watts=(4.0, 5.0))
    fast, soon, frugal = (mapped(flow, o) for o in ("throughput", "latency", "energy"))
    assert processors(soon) == processors(frugal) == [["volta"]]
    assert len(processors(fast)) > 1


def test_without_energies_there_is_no_mapping_for_energy(small: Write) -> None:
    flow = small()
    store_board(flow, [2.0] * DEPTH, [6.0] * DEPTH, watts=None)
    status, _, err = call("map", flow, "--platform", "board", "--objective", "energy")
    assert status == 1 and "has no energy" in err


# -- the stored mapping ----------------------------------------------------------------------------
PLAN = {
    "version": 1, "platform": "host", "search": "auto", "predicted_period_ns": {"A": 1000},
    "placements": [
        {"task": "A.source", "processors": ["cpu[0]"]}, {"task": "A.scale", "processors": ["cpu[0]"]},
        {"task": "A.show", "processors": ["cpu[0]"]},
    ],
    "networks": [
        {"task": "A.net", "stages": [{"processors": ["cpu[0]"], "until": "r4"}, {"processors": ["cpu[0]"]}]},
    ],
}  # fmt: skip


def store(flow: Path, **changes: object) -> None:
    from flowc.passes.stored_mapping import identity

    checked = flowc.check(flow, mapped=False)
    assert checked.platform is not None
    document = {**PLAN, "identity": identity(checked.system, checked.platform), **changes}
    (flow.parent / "app.host.mapping.json").write_text(json.dumps(document))


def test_a_stored_mapping_counts_like_pins(small: Write, tmp_path: Path) -> None:
    flow = small(count="5")
    store(flow)
    checked = flowc.check(flow)
    assert checked.ok and [t.name for t in checked.system.apps[0].tasks][2:4] == [
        "A.net.stage1",
        "A.net.stage2",
    ]
    store_profile(flow)
    flowc.build(flow, tmp_path / "stored")
    with_pins = small('mapping on host { A.net -> cpu[0] until "r4" | cpu[0] }', count="5")
    (tmp_path / "app.host.mapping.json").unlink()
    store_profile(with_pins)
    flowc.build(with_pins, tmp_path / "pinned")
    first, second = (run(tmp_path / d).stdout for d in ("stored", "pinned"))
    sums = [
        [line for line in text.splitlines() if line.startswith("sum")] for text in (first, second)
    ]
    assert len(sums[0]) == 5 and sums[0] == sums[1]


def test_a_plan_says_more_than_a_place_in_the_same_mapping(small: Write) -> None:
    flow = small(count="5")
    store(flow, placements=[*PLAN["placements"], {"task": "A.net", "processors": ["cpu[0]"]}])
    checked = flowc.check(flow)
    assert checked.ok and [t.name for t in checked.system.apps[0].tasks][2:4] == [
        "A.net.stage1",
        "A.net.stage2",
    ]


def test_pins_of_the_text_win_over_a_stored_mapping(small: Write) -> None:
    flow = small('mapping on host { A.net -> cpu[0] until "r2" | cpu[0] }')
    store(flow)
    net = flowc.check(flow).system.apps[0].task("A.net.stage1").network
    assert net is not None and [t.name for t in net.outputs] == ["r2"]


def test_a_mapping_of_other_code_is_named_and_not_used(small: Write, tmp_path: Path) -> None:
    flow = small()
    store(flow)
    (tmp_path / "small.py").write_text(CODE + "\n# changed\n")
    (warning,) = flowc.check(flow).diagnostics
    assert (
        warning.code == "F609" and "`A.source`" in warning.message and warning.severity == "warning"
    )
    (tmp_path / "app.host.mapping.json").write_text("{")
    (warning,) = flowc.check(flow).diagnostics
    assert warning.code == "F609" and "not JSON" in warning.message


def test_a_mapping_edited_by_hand_is_checked_like_pins(small: Write) -> None:
    flow = small()
    store(flow, networks=[{"task": "A.net", "stages": [{"processors": ["cpu[9]"]}]}])
    (fault,) = flowc.check(flow).diagnostics
    assert fault.code == "F501" and "app.host.mapping.json" in fault.help
    store(
        flow,
        networks=[
            {
                "task": "A.net",
                "stages": [{"processors": ["cpu[0]"], "until": "r44"}, {"processors": ["cpu[0]"]}],
            }
        ],
    )
    (fault,) = flowc.check(flow).diagnostics
    assert fault.code == "F507" and "app.host.mapping.json" in fault.help


def test_a_mapping_survives_its_file() -> None:
    text = json.dumps({**PLAN, "identity": {"A.net": "x"}})
    mapping, wanted = Mapping.from_json(text)
    again, same = Mapping.from_json(mapping.to_json(wanted))
    assert (again, same) == (mapping, wanted) and mapping.of("A.scale") == ("cpu[0]",)


# -- what pins can say -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pins", "expected"),
    [
        ('A.net -> cpu[0] until "r4" | cpu[0] streams 2', "replica=(1, 2)"),
        ("A.net -> cpu[0] threads 2", "threads=2"),
        ('A.net -> cpu[0] until "r4" | cpu[0] buffers 7', "capacity=7"),
        ("A.net -> cpu[0] pre 2", "Fire(scale, stage=1, replica=(1, 2))"),
        ('A.net -> cpu[0] until "r4" | cpu[0] adapt', "stage1_cut, 1, "),
        ('A.net -> cpu[0] until "r2" | cpu[0] until "r4" | cpu[0] adapt', "stage1_cut, 2, "),
        ("A.scale -> cpu[0] process", "Process(Python("),
    ],
)
def test_a_program_with_this_pin_computes_the_same(
    small: Write, tmp_path: Path, pins: str, expected: str
) -> None:
    flow = small(f"mapping on host {{ {pins} }}", count="6")
    store_profile(flow)
    flowc.build(flow, tmp_path / "out")
    assert expected in (tmp_path / "out" / "main.py").read_text()
    assert harness(tmp_path / "out").returncode == 0
    ended = run(tmp_path / "out")
    assert ended.returncode == 0 and ended.stdout.count("sum") == 6, ended.stderr


@pytest.mark.parametrize(
    ("pins", "code", "message"),
    [
        ("A.source -> cpu[0] streams 2", "F504", "keeps state or ends the graph"),
        ("A.scale -> cpu[0] threads 2", "F504", "is no network"),
        ("A.net -> cpu[0] process", "F504", "is no Python code"),
        ("A.net -> cpu[0] post 2", "F504", "cannot have 2 threads"),
        (
            'A.net -> cpu[0] until "r1" | cpu[0] until "r2" | cpu[0] until "r3" | cpu[0] until "r4" |'
            " cpu[0] adapt",
            "F505",
            "can `adapt` between two to four stages only",
        ),
        ("A.net -> cpu[0] adapt", "F505", "can `adapt` between two to four stages only"),
        ("A.net -> cpu[0] streams 0", "F105", "streams"),
    ],
)
def test_pins_that_cannot_be(
    small: Write, tmp_path: Path, pins: str, code: str, message: str
) -> None:
    status, _, err = call("build", small(f"mapping on host {{ {pins} }}"), "-o", tmp_path / "out")
    assert status == 1 and f"error[{code}]" in err and message in err


# -- 8 bits ----------------------------------------------------------------------------------------
def test_a_network_in_8_bits_is_quantized_once_cut_and_right(small: Write, tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    rng = np.random.default_rng(1)
    np.save(
        tmp_path / "frames" / "some.npy", rng.standard_normal((6, 8, 32, 32)).astype(np.float32)
    )
    flow = small('mapping on host { A.net -> cpu[0] until "r4" | cpu[0] }', count="4")
    flow.write_text(
        flow.read_text().replace(
            'out y from "r8" }', 'out y from "r8" precision int8 calibrate "frames/*" }'
        )
    )
    assert [t.name for t in flowc.check(flow).staged.unquantized] == ["A.net"]
    status, _, err = call("build", flow, "-o", tmp_path / "out")
    assert status == 0 and "in 8 bits" in err and "dB" in err, err
    flow.write_text(flow.read_text().replace("int8 calib", "int8 within 99 dB calib"))
    status, _, err = call("build", flow, "-o", tmp_path / "out")
    assert status == 1 and "error[F541]" in err and "and 99 dB are asked for" in err
    flow.write_text(flow.read_text().replace("99 dB", "9 dB"))
    assert call("run", flow, "-o", tmp_path / "out", "--frames", "1")[2].count("in 8 bits") == 1
    kept = list((tmp_path / ".flowc").rglob("*.onnx"))
    assert len(kept) == 1 and not flowc.check(flow).staged.unquantized
    lost = kept[0].with_name("loss.json")
    before = lost.read_text()
    lost.write_text(json.dumps([{**each, "rms": 0.5} for each in json.loads(before)]))
    flow.write_text(flow.read_text().replace("within 9 dB ", ""))
    status, _, err = call("build", flow, "-o", tmp_path / "out")
    assert status == 1 and "in int8: 6.0 dB at `r8`" in err and "10 dB are the least" in err
    assert "`int8 within 6 dB` accepts the loss" in err
    lost.write_text(before)
    stamp = kept[0].stat().st_mtime_ns
    assert harness(tmp_path / "out").returncode == 0
    parts = [onnx.load(p) for p in sorted((tmp_path / "out" / "networks").glob("*.onnx"))]
    assert len(parts) == 2 and all(
        any(n.op_type == "QuantizeLinear" for n in p.graph.node) for p in parts
    )
    crossing = parts[0].graph.output[0].type.tensor_type.elem_type
    assert crossing == TensorProto.UINT8
    flow.write_text(flow.read_text().replace("| cpu[0] }", "| cpu[0] adapt }"))
    call("build", flow, "-o", tmp_path / "moving")
    assert kept[0].stat().st_mtime_ns == stamp and harness(tmp_path / "moving").returncode == 0
    moving = [onnx.load(p) for p in (tmp_path / "moving" / "networks").glob("*.stage*.onnx")]
    assert len(moving) > 2 and all(
        any(n.op_type == "QuantizeLinear" for n in p.graph.node) for p in moving
    )
    np.save(
        tmp_path / "frames" / "more.npy", rng.standard_normal((2, 8, 32, 32)).astype(np.float32)
    )
    assert flowc.check(flow).staged.unquantized  # other data, another network


# -- without times ---------------------------------------------------------------------------------
@pytest.mark.parametrize("more", [(), ("--memory", "10MB"), ("--search", "exact")])
def test_what_rests_on_guesses_is_neither_predicted_nor_stored(
    small: Write, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """Memory is known without times."""
    flow, stored = small(), tmp_path / "app.host.mapping.json"
    status, out, err = call("map", flow, "--no-measure", *more, "--json")
    found = json.loads(out)
    assert status == 0 and "F614" in err and not stored.exists()
    network, effort = found["networks"]["A.net"], found["search"]
    assert {c["predicted_fps"] for c in network["contestants"]} == {None}
    assert {s["predicted_ns"] for s in network["stages"]} == {None}
    assert effort["lower_bound"] is None and not effort["optimal"] and found["file"] is None
    assert ("memory" in found) == ("--memory" in more)
    assert not any("relative" in line for line in found["why"])
    said = call("map", flow, "--no-measure", *more)[1]
    assert "not stored: times of" in said and "`flowc profile`" in said
    assert call("map", flow, "--no-measure", *more, "--keep")[0] == 0 and stored.exists()
    assert call("build", flow, "-o", tmp_path / "out", "--no-measure")[0] == 0


def test_a_guess_for_one_task_proves_nothing(write: Write, tmp_path: Path) -> None:
    text = "task S { out x  wcet 2 ms }  task K { in x }  app A { s: S  k: K  s -> k }"
    flow = write(f"{text}  platform two {{ cpu core[2] }}")
    words = ("map", flow, "--platform", "two", "--no-measure", "--json")
    search = json.loads(call(*words)[1])["search"]
    assert search["lower_bound"] is None and not (tmp_path / "app.two.mapping.json").exists()
    flow.write_text(flow.read_text().replace("in x }", "in x  wcet 2 ms }"))
    search = json.loads(call(*words)[1])["search"]
    assert search["lower_bound"] > 0 and (tmp_path / "app.two.mapping.json").exists()
