"""A project of HOPES imported and exported is the project again, with what was decided in
between."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import flowc
import pytest
from flowc.cli import app as cli
from flowc.codegen.write import MANIFEST
from flowc.driver.text import store
from flowc.interop.hopes.export.export_project import ExportedProject, export_project
from flowc.interop.hopes.importer import read
from flowc.model.mapping import Mapping, Placement
from typer.testing import CliRunner

from hopes_cic import translated
from hopes_xml import level, task

DATA = Path(__file__).resolve().parents[1] / "data/hopes"
FORMS = {"tool": "project", "translator": "cic"}
MAPPING = "Doorbell.files/Doorbell_mapping.xml"


# -- helpers ---------------------------------------------------------------------------------------
def project(name: str, form: str, folder: Path) -> Path:
    """The folder of a project in one of its forms."""
    made = shutil.copytree(DATA / name, folder / "project")
    if form == "translator":
        translated(made / f"{name}.files", folder / "cic")
        return folder / "cic"
    return made


def imported(folder: Path) -> Path:
    return flowc.import_(folder, folder.parent / "text" / "app.flow").target


def exported(text: Path, form: str, platform: str = "", **words: str) -> ExportedProject:
    board = str(text.with_name(platform)) if platform else "host"
    return export_project(
        text, text.parent.parent / "out", platform=board, form=FORMS[form], force=True, **words
    )


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name != MANIFEST
    }


def codes(made: ExportedProject) -> list[str]:
    return [d.code for d in made.diagnostics]


def numbers(text: Path) -> list[object]:
    apps = flowc.check(text).system.apps
    return [
        (a.name, a.period_ns, a.deadline_ns, [(t.name, t.parameters) for t in a.tasks])
        for a in apps
    ]


@pytest.fixture
def door(tmp_path: Path) -> Path:
    """The import of a project with composites, networks, a control task and a mapping."""
    return imported(project("Doorbell", "tool", tmp_path))


# -- the same again --------------------------------------------------------------------------------
@pytest.mark.parametrize("form", FORMS)
def test_xml_is_what_it_was(tmp_path: Path, form: str) -> None:
    """By the application alone, with the mapping of the authors, and with its states."""
    folder = project("Doorbell", form, tmp_path)
    app = imported(folder)
    for text in ("app.flow", "app.door_board.flow", "app.states.flow"):
        made = exported(app.with_name(text), form, "door_board.flow")
        assert files(made.directory) == files(folder), text
        assert made.project is None and made.changed == ()
        absent = [d.message for d in made.diagnostics if d.code == "F738"]
        assert codes(made).count("F737") == 0 and "are not here" in absent[0]


@pytest.mark.parametrize("form", FORMS)
def test_code_lies_where_it_was(tmp_path: Path, form: str) -> None:
    """Loops, libraries and parameters, which an export from the text alone does not know."""
    folder = project("Mixer", form, tmp_path)
    made = exported(imported(folder), form)
    assert files(made.directory) == files(folder)
    assert (made.name, codes(made)) == ("Mixer", [])


def test_bytes_stay_in_any_encoding(tmp_path: Path) -> None:
    folder = project("Mixer", "tool", tmp_path)
    path = folder / "Mixer.files/CICTask/task.xml"
    path.write_bytes(
        path.read_bytes()
        .replace(b"<cic_manual", b"<!-- \xe9 -->\r\n<cic_manual", 1)
        .replace(b"utf-8", b"iso-8859-1")
    )
    made = exported(imported(folder), "tool")
    assert files(made.directory) == files(folder)


# -- what was decided since ------------------------------------------------------------------------
def test_a_place_that_changed_is_the_only_change(door: Path) -> None:
    valid = flowc.check(door, platform=str(door.with_name("door_board.flow"))).require()
    store.save_mapping(
        valid, Mapping("door_board", (Placement("Doorbell1.Camera.Grab", ("arm[1]",)),), (), "hand")
    )
    made = exported(door, "tool", "door_board.flow")
    assert made.changed == (MAPPING,)
    before, now = files(door.parent.parent / "project"), files(made.directory)
    assert {n for n in now if now[n] != before.get(n)} == {MAPPING}
    places = read(made.directory, "app").mapping
    was = read(door.parent.parent / "project", "app").mapping
    assert places is not None and was is not None
    moved = [p.task for p, old in zip(places.placements, was.placements, strict=True) if p != old]
    assert (
        moved in ([], ["Doorbell1.Camera.Grab"])
        and Placement("Doorbell1.Camera.Grab", ("arm[1]",)) in places.placements
    )
    assert places.networks == was.networks


def test_times_that_were_given_are_written(tmp_path: Path) -> None:
    folder = project("Doorbell", "tool", tmp_path)
    times = tmp_path / "times.json"
    times.write_text('{"Clean": {"cpu": 500}}')
    app = flowc.import_(folder, tmp_path / "text/app.flow", times=times).target
    made = exported(app, "tool", "door_board.flow")
    assert made.changed == ("Doorbell.files/Doorbell_profile.xml",)
    found = read(made.directory, "app").times
    assert {t.costs["cpu"].worst for t in found if "Camera_1_Cam1_Clean" in t.names} == {500_000}


@pytest.mark.parametrize(
    ("form", "name", "old", "new", "said"),
    [
        ("tool", "Mixer", "step: int = 3", "step: int = 4", 'name="step" type="int" value="4"'),
        (
            "tool",
            "Mixer",
            "gain: float = 0.5",
            "gain: float = 0.25",
            'name="gain" type="float" value="0.25"',
        ),
        ("tool", "Mixer", "Tone: Tone", "Tone: Tone(step = 9)", 'name="step" type="int" value="9"'),
        ("translator", "Mixer", "Tone: Tone", "Tone: Tone(step = 9)", 'value="9"'),
        ("tool", "Doorbell", "period 20 ms", "period 20500 us", 'name="PeriodUnit" value="us"'),
        ("translator", "Doorbell", "period 20 ms", "period 25 ms", 'value="25"'),
    ],
)
def test_a_number_that_changed_is_replaced_where_it_stands(
    tmp_path: Path, form: str, name: str, old: str, new: str, said: str
) -> None:
    """In the file that says it, of which all else stays as it is."""
    folder = project(name, form, tmp_path)
    app = imported(folder)
    text = app.read_text()
    assert text.count(old) == 1
    app.write_text(text.replace(old, new))
    made = exported(app, form, "door_board.flow" if name == "Doorbell" else "")
    (changed,) = made.changed
    before, now = (f / changed for f in (folder, made.directory))
    lines = [
        (a, b)
        for a, b in zip(before.read_text().split(">"), now.read_text().split(">"), strict=True)
        if a != b
    ]
    assert 1 <= len(lines) <= 2 and any(said in now for _, now in lines)
    again = flowc.import_(made.directory, tmp_path / "again" / "app.flow").target
    assert numbers(again) == numbers(app)


@pytest.mark.parametrize(
    ("form", "deadline", "old", "new", "said"),
    [
        ("tool", "10", "period 10 ms", "period 25 ms", {"Period": "25", "Deadline": "25"}),
        ("translator", "10", "period 10 ms", "period 25 ms", {}),
        ("tool", "4", "deadline 4 ms", "deadline 1500 us", {"Period": "10", "Deadline": "1500"}),
        ("translator", "4", "period 10 ms   deadline 4 ms", "period 1 s   deadline 4 ms", {}),
        ("tool", "4", "period 10 ms   deadline 4 ms", "period 10 ms", None),
        ("tool", "10", "period 10 ms", "period 1 / 3 ms", None),
    ],
)
def test_periods_and_deadlines_stay_with_each_other(
    tmp_path: Path, form: str, deadline: str, old: str, new: str, said: dict[str, str] | None
) -> None:
    folder = tmp_path / "project"
    timed = {
        "RunCondition": "time-driven",
        "Period": "10",
        "PeriodUnit": "ms",
        "DeadlineUnit": "ms",
    }
    tasks = [task("Begin", "", "out:4:1", Deadline=deadline, **timed), task("End", "in:4:1")]
    level(folder / "Timed.files/CICTask", tasks, "Begin.out>End.in")
    if form == "translator":
        folder = translated(folder / "Timed.files", tmp_path / "cic").parent
    app = imported(folder)
    text = app.read_text()
    assert old in text
    app.write_text(text.replace(old, new))
    if said is None:
        with pytest.raises(flowc.Errors) as raised:  # tasks have no code
            exported(app, form)
        assert "F737" in {d.code for d in raised.value.diagnostics}
        return
    made = exported(app, form)
    again = flowc.import_(made.directory, tmp_path / "again" / "app.flow").target
    assert numbers(again) == numbers(app) and len(made.changed) == 1
    found = (made.directory / made.changed[0]).read_text()
    assert all(f'name="{key}" value="{value}"' in found for key, value in said.items())


# -- what the text says otherwise ------------------------------------------------------------------
def test_another_text_is_written_anew_or_refused(tmp_path: Path) -> None:
    app = imported(project("Mixer", "tool", tmp_path))
    text = app.read_text()
    app.write_text("// A comment is nothing new.\n" + text)
    assert codes(exported(app, "tool")) == []
    for old, new, told in (
        ("Mix -> Show", "Mix -> delay 2 -> Show", "`Mixer.Mix.sum->Mixer.Show.input` is other"),
        ("app Mixer {", "app Mixer { period 5 ms", "`Mixer` is other"),
        (
            "    Show: Show",
            "    Show: Show\n    twice: V1Count   Tone.left -> twice.input",
            "are new",
        ),
    ):
        assert old in text
        app.write_text(text.replace(old, new, 1))
        with pytest.raises(flowc.Errors) as raised:  # it has loops and libraries
            exported(app, "tool")
        (warning,) = [d for d in raised.value.diagnostics if d.code == "F737"]
        assert told in warning.message and warning.severity == "warning"


def test_another_platform_is_said(door: Path) -> None:
    with pytest.raises(flowc.Errors) as raised:
        exported(door, "tool")
    (warning,) = [d for d in raised.value.diagnostics if d.code == "F737"]
    assert "the platform is `host`, not that of `--platform door_board.flow`" in warning.message


def test_code_beside_the_text_counts(tmp_path: Path) -> None:
    """What is edited in the project's own code goes into the project."""
    app = imported(project("Mixer", "tool", tmp_path))
    code = app.parent / "app_c/CICTask/Show.cic"
    code.write_bytes(code.read_bytes() + b"\n/* edited */\n")
    made = exported(app, "tool")
    assert (
        (made.directory / "Mixer.files/CICTask/Show.cic").read_bytes().endswith(b"/* edited */\n")
    )


# -- a manifest that a user has written ------------------------------------------------------------
@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("../../out.xml", "<x/>", "has a file `../../out.xml`, which is outside of the project"),
        ("/out.xml", "<x/>", "outside of the project"),
        ("CICTask", "<x/>", "has invalid files: "),
        ("", "<x/>", "has invalid files: "),
        (f"{'x' * 300}.xml", "<x/>", "has invalid files: "),
        ("x.xml", "\ud800", "has characters that are none"),
        ("\ud800.xml", "<x/>", "has characters that are none"),
        ("CICTask/task.xml", "<cic_manual", "holds no project: "),
    ],
)
def test_a_manifest_is_read_with_care(tmp_path: Path, path: str, text: str, told: str) -> None:
    app = imported(project("Mixer", "tool", tmp_path))
    kept = app.with_name("app.hopes.json")
    said = json.loads(kept.read_text())
    kept.write_text(json.dumps({**said, "xml": {**said["xml"], path: text}}))
    with pytest.raises(flowc.Errors, match="F726: ") as raised:
        exported(app, "tool")
    assert told in raised.value.diagnostics[0].message


# -- the form of the translator --------------------------------------------------------------------
def test_a_policy_stays_unless_another_one_is_asked_for(tmp_path: Path) -> None:
    folder = project("Doorbell", "translator", tmp_path)
    policy = '<codeGeneration runtimeExecutionPolicy="Fully-Static-Assignment" threadOrFunctioncall="Function-call"/>'
    (folder / "Doorbell_configuration.xml").write_text(
        f"<CIC_Configuration>{policy}</CIC_Configuration>"
    )
    app = imported(folder)
    assert exported(app, "translator", "door_board.flow").changed == ()


def test_the_verb_says_so(tmp_path: Path) -> None:
    app = imported(project("Mixer", "tool", tmp_path))
    words = [
        "export",
        str(app),
        "--format",
        "hopes",
        "--form",
        "project",
        "-o",
        str(tmp_path / "out"),
    ]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith("  as it was imported\n")
    assert json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)["changed"] == []
