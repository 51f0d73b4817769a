"""A mapping goes back into the HOPES project: an import of the project then says what flowc has
mapped."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import flowc
import pytest
from flowc.cli import app as cli
from flowc.driver.text import store
from flowc.interop.hopes import importer as hopes
from flowc.interop.hopes.import_manifest import read_manifest
from flowc.model.diagnostic import Errors
from flowc.model.mapping import Mapping, NetworkPlan, Placement, StagePlan
from typer.testing import CliRunner

DOORBELL = Path(__file__).resolve().parents[1] / "data/hopes/Doorbell"
FILES = "Doorbell.files"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project with its import beside it."""
    folder = shutil.copytree(DOORBELL, tmp_path / "Doorbell")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["import", "Doorbell", "-o", "door.flow"])
    assert done.exit_code == 0, done.stderr
    return folder


def stored(mapping: Mapping) -> None:
    valid = flowc.check("door.flow", platform="door_board.flow").require()
    store.save_mapping(valid, mapping)


def exported(*words: str) -> str:
    given = ["export", "door.flow", "--platform", "door_board.flow", "--into", "Doorbell", *words]
    done = CliRunner().invoke(cli, given)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def authors(project: Path) -> Mapping:
    found = hopes.read(project, "door").mapping
    assert found is not None
    return found


def complete(mapping: Mapping) -> Mapping:
    """The authors forgot a task."""
    return replace(
        mapping, placements=(*mapping.placements, Placement("DoorbellClock.Clock", ("arm[0]",)))
    )


def test_every_place_and_every_stage_comes_back(project: Path) -> None:
    before = complete(authors(project))
    moved = {
        "Doorbell1.Camera.Grab": ("arm[1]",),
        "Doorbell2.Camera.Clean": ("arm[0]",),
        "Doorbell1.Face_pre": ("arm[1]",),
    }
    placements = tuple(
        replace(p, processors=moved.get(p.task, p.processors)) for p in before.placements
    )
    first, second = before.networks
    stages = (
        StagePlan(("npu_dla[1]",), "conv2"),
        StagePlan(("cuda",), "conv8"),
        StagePlan(("arm[0]",)),
    )
    stored(
        replace(before, placements=placements, networks=(NetworkPlan(first.task, stages), second))
    )
    assert exported() == f"Doorbell/{FILES}/Doorbell_mapping.xml\n"
    after = authors(project)
    assert after.placements == tuple(sorted(placements, key=lambda p: p.task))
    assert [(s.processors, s.until) for s in after.networks[0].stages] == [
        (s.processors, s.until) for s in stages
    ]
    assert after.networks[1] == second
    # Nothing else of the project has changed, and the same mapping gives the same file.
    text = (project / FILES / "Doorbell_mapping.xml").read_text()
    exported()
    assert (project / FILES / "Doorbell_mapping.xml").read_text() == text


def test_sets_of_other_states_stay(project: Path) -> None:
    path = project / FILES / "Doorbell_mapping.xml"
    other = '<mappingSet name="idle"><processor pool="arm_0" localId="1"/></mappingSet>'
    text = path.read_text()
    text = text.replace("<task name=", '<task dataParallel="Loop" name=', 1)
    path.write_text(text.replace("</device>", f"{other}</device>", 1))
    stored(complete(authors(project)))
    exported()
    after = path.read_text()
    assert after.count('name="idle"') == after.count('dataParallel="Loop"') == 1
    assert after.count('<mappingSet name="Default">') == after.count("<task ") + after.count(
        "<childTask "
    )


def test_times_become_a_profile(project: Path) -> None:
    """In whole microseconds, rounded up, with the worst case; what cannot run somewhere says so."""
    Path("times.json").write_text(
        '{"Grab": {"cpu": 400.2}, "Clean": {"cpu": 100, "gpu": 7}, "Log": {"cpu": 5}, "Clock": {"cpu": 1}}'
    )
    done = CliRunner().invoke(
        cli, ["import", "Doorbell", "-o", "door.flow", "--force", "--profile", "times.json"]
    )
    assert done.exit_code == 0, done.stderr
    stored(complete(authors(project)))
    assert exported().splitlines() == [
        f"Doorbell/{FILES}/Doorbell_mapping.xml",
        f"Doorbell/{FILES}/Doorbell_profile.xml",
    ]
    text = (project / FILES / "Doorbell_profile.xml").read_text()
    assert text.count('<profile processorType="arm_0" value="401" unit="us">') == 2  # both cameras
    assert '<profile processorType="cuda_1" value="99999999" unit="us"/>' in text
    imported = hopes.read(project, "door")
    costs = {name: t.costs for t in imported.times for name in t.names}
    assert (
        costs["Camera_1_Cam1_Grab"]["cpu"].worst == 401_000
        and costs["Camera_2_Cam2_Clean"]["gpu"].value == 7_000
    )


def test_two_pools_of_one_type_have_its_times(project: Path) -> None:
    pools = "</elements>"
    for file in ("Doorbell", f"{FILES}/CICTask/architecture.xml"):
        text = (project / file).read_text()
        more = '<element poolSize="2" type="arm_0" name="arm_1"/>'
        (project / file).write_text(text.replace(pools, more + pools, 1))
    times = {name: {"cpu": 400.2} for name in ("Grab", "Clean", "Log", "Clock")}
    Path("times.json").write_text(json.dumps(times))
    words = ["import", "Doorbell", "-o", "door.flow", "--force", "--profile", "times.json"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.stderr
    mapping, clock = authors(project), Placement("DoorbellClock.Clock", ("arm_0[0]",))
    stored(replace(mapping, placements=(*mapping.placements, clock)))
    exported()
    text = (project / FILES / "Doorbell_profile.xml").read_text()
    assert text.count('<profile processorType="arm_0" value="401" unit="us">') == 2 * 7
    face = hopes.read(project, "door").times
    assert {k for t in face for k in t.costs if k not in ("gpu", "dla")} == {"arm_0"}


def refused(*words: str) -> list[str]:
    with pytest.raises(Errors) as raised:
        flowc.driver.exchange.export.export_into(
            "door.flow", "Doorbell", platform="door_board.flow"
        )
    assert {d.code for d in raised.value.diagnostics} == {"F724"}
    return [d.message for d in raised.value.diagnostics]


def test_all_that_is_missing_is_told_at_once(project: Path) -> None:
    before = (project / FILES / "Doorbell_mapping.xml").read_bytes()
    (message,) = refused()
    assert message.startswith(
        "no processor is known for `Camera_1_Cam1_Grab`, "
    ) and message.endswith(" more")
    text = Path("door.flow").read_text()
    Path("door.flow").write_text(
        text.replace("clock: Clock", "watch: Clock").replace("    Clock: Clock", "    Watch: Clock")
    )
    messages = refused()
    assert messages[0] == "the project `Doorbell` has no task for `DoorbellClock.Watch`"
    assert messages[1] == "`door.flow` has no `DoorbellClock.Clock`"
    assert (project / FILES / "Doorbell_mapping.xml").read_bytes() == before


# -- the import manifest ---------------------------------------------------------------------------
def test_manifest_has_the_names_of_hopes_and_what_no_text_says(project: Path) -> None:
    kept = read_manifest(Path("door.hopes.json"))
    assert kept == hopes.read(project, "door").manifest
    tasks = {t.task: (t.full, t.role, t.ports) for t in kept.tasks}
    assert tasks["Doorbell1.Camera.Clean"] == (
        "Camera_1_Cam1_Clean", "", {"input": "in", "port_last": "last", "output": "out", "next": "next"}
    )  # fmt: skip
    assert tasks["Doorbell2.Face_pre"] == ("Face_2", "pre", {"input": "in"})
    assert ("npu_dla", "npu_dla_2", "Door_Board") in [
        (p.pool, p.element, p.device) for p in kept.pools
    ]
    found = {k.place: k.xml for k in kept.kept}
    assert found["/fsms"].count(
        "<state "
    ) == 2 and '<task name="Control" type="Control">' in " ".join(found.values())
    assert '<element type="RAM_3" name="RAM_3"/>' in found.values()
    changed = kept.files["CICTask/task.xml"]
    assert len(changed) == 64 and set(kept.graphs) <= kept.files.keys()


def test_names_of_the_manifest_count_when_others_would_follow(project: Path) -> None:
    """The project is called otherwise in its own file, so that an import would name its apps
    otherwise."""
    stored(complete(authors(project)))
    top = project / FILES / "CICTask/task.xml"
    top.write_text(
        top.read_text().replace('<cic_manual name="Doorbell"', '<cic_manual name="Bell"')
    )
    assert "app Bell1 {" in hopes.read(project, "door").text
    done = CliRunner().invoke(
        cli, ["export", "door.flow", "--platform", "door_board.flow", "--into", "Doorbell"]
    )
    assert (
        "warning[F726]: `CICTask/task.xml` of the project changed after the import" in done.stderr
    )
    assert done.stdout == f"Doorbell/{FILES}/Doorbell_mapping.xml\n"
    Path("door.hopes.json").unlink()
    with pytest.raises(Errors) as raised:
        flowc.driver.exchange.export.export_into(
            "door.flow", "Doorbell", platform="door_board.flow"
        )
    assert "no task for `Doorbell1.Camera.Clean`" in raised.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            '"project": "Doorbell"',
            '"project": "Gate"',
            "is that of the project `Gate`, and this is `Doorbell`",
        ),
        (
            '"Cam1_Clean"',
            '"Cam1_Dust"',
            "names `Camera_1_Cam1_Dust`, which the project does not have",
        ),
        ('"Cam1_Clean"', '"Cam1_Grab"', "has two names for `Camera_1_Cam1_Grab`"),
        (
            '"Doorbell1.Camera.Clean"',
            '"Doorbell1.Camera.Grab"',
            "tasks has `Doorbell1.Camera.Grab` twice",
        ),
        ('"version": 1', '"version": 2', "version is 2; expected a manifest of version 1"),
        (
            '"role": ""',
            '"roll": ""',
            'tasks[0] has "roll", which is not known; did you mean `role`?',
        ),
        ('"hopes": [', '"hopes": [7, ', "tasks[0].hopes[0] is 7; expected a text"),
        ("{", "", "not JSON"),
    ],
)
def test_manifest_of_others_is_refused(old: str, new: str, told: str, project: Path) -> None:
    path = Path("door.hopes.json")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(Errors) as raised:
        flowc.driver.exchange.export.export_into(
            "door.flow", "Doorbell", platform="door_board.flow"
        )
    (found,) = raised.value.diagnostics
    assert (
        found.code == "F726" and told in found.message and "import the project again" in found.help
    )


def test_manifest_that_is_older_than_the_project_is_refused(project: Path) -> None:
    top = project / FILES / "CICTask/task.xml"
    text = top.read_text()
    top.write_text(text.replace("</task_list>", '<task name="Late"><config/></task></task_list>'))
    with pytest.raises(Errors) as raised:
        flowc.driver.exchange.export.export_into(
            "door.flow", "Doorbell", platform="door_board.flow"
        )
    assert (
        raised.value.diagnostics[0].message
        == "`door.hopes.json` does not name `Late` of the project"
    )


def test_another_board_is_refused(project: Path) -> None:
    Path("pc.flow").write_text(
        'use "door.flow"\nplatform pc { cpu core[4] }\nmapping on pc { DoorbellClock.Clock -> core[1] }\n'
    )
    with pytest.raises(Errors) as raised:
        flowc.driver.exchange.export.export_into("pc.flow", "Doorbell", platform="pc")
    found = {d.message: d.help for d in raised.value.diagnostics}
    (message,) = (
        m
        for m in found
        if m.startswith("`DoorbellClock.Clock` runs on `core[1]`, which the device")
    )
    assert found[message] == "map it with `--platform door_board.flow`"


def test_formats_say_what_they_take(project: Path) -> None:
    for words, said in (
        (["--format", "hopes"], "F601"),
        (["--format", "jedi", "--into", "Doorbell"], "`jedi` makes a file of its own"),
        (["--into", "nowhere"], "there is no `nowhere`"),
    ):
        done = CliRunner().invoke(cli, ["export", "door.flow", *words])
        assert done.exit_code == 1 and said in done.stderr, done.stderr
