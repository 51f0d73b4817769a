"""Every search that `map` offers, by the verb, on every example and on a project of HOPES: an answer
that places everything, and no other refusal than that of a search for texts of another kind, or of
platforms without powers where a search looks for the least."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import flowc
import pytest
from flowc.cli import app
from flowc.driver.text import store
from flowc.driver.text.check import Valid, ValidScenario
from flowc.machines.whoami import description, host_hash
from flowc.model.application import Task
from flowc.model.profile import LayerTime, Profile, ProfileEntry
from flowc.networks.onnx.cuts import read_chain
from flowc.profiling.identity import task_hashes
from flowc.search.objectives import Kind
from flowc.search.registry import searches_for
from typer.testing import CliRunner

from builds import ROOT

#: Texts that `map` can place here; `rig` is for boards.
EXAMPLES = sorted(
    str(flow.relative_to(ROOT / "examples"))
    for flow in (ROOT / "examples").glob("*/*.flow")
    if flow.parent.name != "rig"
)
DOORBELL = ROOT / "tests/data/hopes/Doorbell"
LAYER_NS = 20_000
#: Worst cases in us.
TIMES = {name: {"cpu": 100} for name in ("Grab", "Clean", "Log", "Clock")}


def layers(task: Task) -> tuple[LayerTime, ...]:
    """A time for each layer of a network that may be cut."""
    if task.network is None or not task.network.cuttable:
        return ()
    chain = read_chain(Path(task.network.path), task.network.shapes)
    return tuple(LayerTime(layer.name, LAYER_NS) for layer in chain.layers)


def store_layers(flow: Path) -> Valid:
    """Put a profile with made-up times beside a text: of tasks, and of the layers of networks."""
    valid = flowc.check(flow).require()
    entries = []
    for part in valid.parts:
        for name, digest in task_hashes(part.system).items():
            inside = layers(part.tasks[name])
            ns = sum(layer.mean_ns for layer in inside) or LAYER_NS
            whole = ProfileEntry("cpu", name, "", digest, host_hash(), 10, ns, 0, ns, ns)
            entries.append(replace(whole, layers=inside))
    assert not store.save_profile(valid, Profile("host", description(), tuple(entries)))
    return valid


def place_all(flow: Path, valid: Valid, kind: Kind, *more: str) -> None:
    """Check that each search of a kind places all tasks that have places of their own; the host has
    no powers."""
    every = {name: task for part in valid.parts for name, task in part.tasks.items()}
    wanted = {name for name, task in every.items() if task.resampling is None}
    for search in searches_for(kind):
        words = ["map", str(flow), "--search", search.word, "--evaluations", "3", "--json"]
        if search.only_for:
            done = CliRunner().invoke(app, [*words, "--objective", search.only_for, *more])
            assert done.exit_code == 1 and "F607" in done.stderr, search.name
            continue
        done = CliRunner().invoke(app, [*words, "--no-measure", *more])
        assert done.exit_code == 0, (search.name, done.stderr, done.exception)
        found = json.loads(done.stdout)
        states = found["states"].values() if isinstance(valid, ValidScenario) else [found]
        placed = {name for state in states for name in (*state["tasks"], *state["networks"])}
        assert wanted <= placed, search.name


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_search_places_an_example(examples: Path, tmp_path: Path, text: str) -> None:
    """As it is; and with deadlines, which a supposed rate brings where no app has a period."""
    folder = tmp_path / "examples"
    shutil.copytree(examples, folder)
    flow = folder / text
    valid = store_layers(flow)
    if any(app.period_ns is not None for part in valid.parts for app in part.system.apps):
        place_all(flow, valid, "deadlines", "--cores", "2")
    else:
        place_all(flow, valid, "throughput", "--cores", "2")
        place_all(flow, valid, "deadlines", "--cores", "2", "--fps", "2")


def test_every_search_places_a_project_of_hopes(tmp_path: Path) -> None:
    times = tmp_path / "times.json"
    times.write_text(json.dumps(TIMES))
    words = ["import", str(DOORBELL), "-o", str(tmp_path / "door.flow"), "--profile", str(times)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    board, known = tmp_path / "door_board.flow", tmp_path / "door.door_board.profile.json"
    for name in ("door.flow", "door.states.flow"):
        flow = tmp_path / name
        valid = flowc.check(flow, platform=str(board)).require()
        place_all(flow, valid, "deadlines", "--platform", str(board), "--profile", str(known))
