"""`analyze --csdf` and `export --places`: a network as the graph of a mapping, with the numbers of
Minakova's thesis, ch. 3."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import flowc
import pytest
from flowc.cli import app
from flowc.model.diagnostic import Errors
from typer.testing import CliRunner, Result

from mapped_example import write_network, write_places
from models import N, save

LOOP = ("l1 l2", "l2 l4", "l4 x", "l1 l3", "x l3")


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(w) for w in words])


def document(*words: object) -> dict[str, Any]:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return write_network(tmp_path)


@pytest.fixture
def looping(tmp_path: Path) -> Path:
    """l1 -> l2 -> l4 -> x -> l3 with a skip l1 -> l3, where x is on another processor."""
    nodes = [
        N("Relu", ["l1"], ["l2"]),
        N("Relu", ["l2"], ["l4"]),
        N("Relu", ["l4"], ["x"]),
        N("Add", ["l1", "x"], ["l3"]),
    ]
    (tmp_path / "loop.json").write_text('{"p": ["l1", "l2", "l4", "l3"], "q": ["x"]}')
    return save(tmp_path / "loop.onnx", nodes, {"l1": [1, 7]}, {}, "l3")


def rates(graph: dict[str, Any], source: str, target: str) -> tuple[list[int], list[int]]:
    (c,) = (c for c in graph["channels"] if (c["source"], c["target"]) == (source, target))
    return c["produced"], c["consumed"]


def phases(graph: dict[str, Any], name: str) -> list[str]:
    (actor,) = (a for a in graph["actors"] if a["name"] == name)
    return [" ".join(part) for part in actor["phases"]]


def test_the_example_of_the_thesis(network: Path, tmp_path: Path) -> None:
    places = write_places(tmp_path, 100_000)
    found = document("analyze", network, "--csdf", "--places", places)
    assert found["apps"]["net"]["repetition"]["net.cpu2"] == 2
    assert list(found["csdf"]) == ["levels", "minakova"]
    for graph in found["csdf"].values():
        assert (len(graph["actors"]), len(graph["channels"])) == (5, 7)
        assert rates(graph, "cpu1", "cpu2") == ([187200], [187200, 0])
        assert rates(graph, "cpu3", "cpu2") == ([22500], [0, 22500])
        assert graph["deadlock_free"] and graph["timed"]
    # CPU 4 has eight layers, and waits for the two of CPU 5 in between.
    assert found["csdf"]["levels"]["period_ns"] == found["apps"]["net"]["period"] == "1000000"
    assert phases(found["csdf"]["levels"], "cpu2") == ["l8 l9 l10", "l13"]
    assert phases(found["csdf"]["minakova"], "cpu2") == ["l8", "l9 l10 l13"]
    shown = run("analyze", network, "--csdf", "--places", places).stdout
    assert "phases by levels: 5 actors, 7 channels; least period 1 ms, 1000 frames/s" in shown
    assert "cpu1 -> cpu2     187200  187200, 0" in shown
    assert "  cpu2: l8 | l9 l10 l13\n" in shown


def test_without_times_periods_are_in_layers_and_without_places_layers_are_actors(
    network: Path, tmp_path: Path
) -> None:
    shown = run("analyze", network, "--csdf", "--places", write_places(tmp_path)).stdout
    assert "5 actors, 7 channels; least period 10 layers" in shown
    assert "1 ns for each layer that it names" in shown
    alone = document("analyze", network, "--csdf")["csdf"]
    assert list(alone) == ["layers"]
    assert (len(alone["layers"]["actors"]), len(alone["layers"]["channels"])) == (23, 24)
    assert (
        "a task per layer: 23 actors, 24 channels; least period 1 firing"
        in run("analyze", network, "--csdf").stdout
    )


@pytest.mark.parametrize("rule", ["levels", "minakova"])
def test_what_is_exported_is_imported_with_the_same_answers(
    rule: str, network: Path, tmp_path: Path
) -> None:
    places = write_places(tmp_path, 100_000)
    xml = tmp_path / "graph.xml"
    words = ("export", network, "--format", "sdf3", "--places", places, "--phases", rule)
    assert run(*words, "-o", xml).exit_code == 0
    assert xml.read_text().count('rate="187200,0"') == (1 if rule == "levels" else 2) + 1
    assert run("import", xml, "-o", tmp_path / "graph.flow").exit_code == 0
    (analysis,) = flowc.analyze(tmp_path / "graph.flow").apps.values()
    (direct,) = flowc.analyze(network, places=places).apps.values()
    assert analysis.period == direct.period == Fraction(1_000_000)
    assert flowc.export(network, places=places, phases=rule).text == xml.read_text()


def test_layers_by_parts_are_exported(network: Path, tmp_path: Path) -> None:
    """As a graph that the other tool can read: no firing keeps anything in a buffer."""
    xml, flow = tmp_path / "graph.xml", tmp_path / "graph.flow"
    assert run("export", network, "--by-parts", "-o", xml).exit_code == 0
    assert run("import", xml, "-o", flow).exit_code == 0
    (analysis,) = flowc.analyze(flow).apps.values()
    (direct,) = flowc.analyze(network, by_parts=True).apps.values()
    assert [*analysis.verdicts.repetition.values()] == [*direct.verdicts.repetition.values()]
    assert analysis.period == direct.period
    places = write_places(tmp_path)
    assert run("export", network, "--by-parts", "--places", places, "-o", xml).exit_code == 2


def test_the_thesis_deadlocks_where_a_skip_comes_back(looping: Path, tmp_path: Path) -> None:
    places = tmp_path / "loop.json"
    done = run("analyze", looping, "--csdf", "--places", places)
    assert done.exit_code == 0
    assert "the same by Algorithm 2 of Minakova's thesis: 2 actors, 2 channels; it deadlocks" in (
        done.stdout
    )
    with pytest.raises(Errors, match="F204"):
        flowc.export(looping, places=places, phases="minakova")
    assert "<csdf" in flowc.export(looping, places=places).text


def test_layers_that_are_not_named_follow_their_input(network: Path, tmp_path: Path) -> None:
    places = tmp_path / "few.json"
    places.write_text('{"cpu": ["l5"], "gpu": ["l14"]}')
    graph = document("analyze", network, "--csdf", "--places", places)["csdf"]["levels"]
    assert [len(a["phases"]) for a in graph["actors"]] == [1, 1]
    assert phases(graph, "cpu")[0].startswith("l1 l2 ") and phases(graph, "gpu")[0].endswith(
        "output"
    )
    assert rates(graph, "cpu", "gpu") == ([22500], [22500])


@pytest.mark.parametrize(("text", "said"), [
    ('{"cpu": ["l3", "lost"]}', "the network has no layer `lost`"),
    ('{"cpu": ["l3"], "gpu": ["l3"]}', "layer `l3` is on `cpu` and on `gpu`"),
    ('{"cpu": {"l3": 5}, "gpu": ["l4"]}', "layer `l4` has no time, others have one"),
    ('{"cpu": {"l3": -5}}', "the time of layer `l3` is -5"),
    ('{"cpu": {"l3": true}}', "the time of layer `l3` is true"),
    ('{"cpu": "l3"}', '`cpu` is "l3"'),
    ('{"cpu": [3]}', "`cpu` has 3 among its layers"),
    ("{}", "it names no layer"),
    ("[]", "expected an object"),
    ("no json", "`"),
])  # fmt: skip
def test_faulty_places_are_told(text: str, said: str, network: Path, tmp_path: Path) -> None:
    places = tmp_path / "places.json"
    places.write_text(text)
    done = run("analyze", network, "--places", places)
    assert done.exit_code == 1 and "error[F414]" in done.stderr and said in done.stderr
    assert "= help: " in done.stderr


def test_wrong_usage(network: Path, tmp_path: Path) -> None:
    text = tmp_path / "a.flow"
    text.write_text("task A { out y }\ntask B { in y }\napp P { a: A  b: B  a -> b }\n")
    places = write_places(tmp_path)
    assert run("analyze", text, "--csdf").exit_code == 2
    assert run("analyze", network, "--by-parts", "--places", places).exit_code == 2
    assert run("export", text, "--places", places).exit_code == 2
    assert run("export", network, "--phases", "minakova").exit_code == 2
    assert run("export", network, "--places", places, "--phases", "other").exit_code == 2
    with pytest.raises(Errors, match="unknown phases `other`"):
        flowc.export(network, places=places, phases="other")
    gone = run("export", network, "--places", tmp_path / "gone.json")
    assert gone.exit_code == 1 and "error[F414]" in gone.stderr and "cannot be read" in gone.stderr
