"""Projects in the form of HOPES' translator: the same system as from the form of the tool, and
faults with their place."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import flowc
import pytest
from flowc.analysis.dataflow.repetition import repetition
from flowc.cli import app as cli
from flowc.interop.hopes import importer as hopes
from flowc.interop.hopes.export.export_project import export_project
from flowc.model.diagnostic import Diagnostic, Errors
from flowc.model.span import Span
from typer.testing import CliRunner

from builds import run
from hopes_cic import translated
from hopes_graphs import random_system
from hopes_xml import composite, level, port_map, task

DATA = Path(__file__).resolve().parents[1] / "data/hopes"
#: Comments, and where something stands.
UNSEEN = {"span", "doc", "path", "sources"}


# -- helpers ---------------------------------------------------------------------------------------
def plain(part: object) -> object:
    """A part of a system without what two texts of one meaning differ in."""
    if isinstance(part, Span):
        return None
    if dataclasses.is_dataclass(part):
        fields = (f.name for f in dataclasses.fields(part) if f.name not in UNSEEN)
        return (type(part).__name__, *((name, plain(getattr(part, name))) for name in fields))
    if isinstance(part, (tuple, list)):
        return tuple(plain(p) for p in part)
    return part


def system(path: Path, text: Path) -> tuple[object, hopes.ImportedProject, list[str]]:
    """What an import means, all of it, and what was told."""
    found = hopes.read(path, "app")
    text.mkdir()
    for name, content in {"app.flow": found.text, **found.files, **found.code.files}.items():
        (text / name).parent.mkdir(parents=True, exist_ok=True)
        (text / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    checked = flowc.check(
        text / "app.flow", platform=str(text / found.platform_file) if found.platform else "host"
    )
    assert not [d for d in checked.diagnostics if d.severity == "error"]
    boards = [p for p in checked.system.platforms if p.name != "host"]
    return plain((checked.system.apps, boards)), found, [w.message for w in found.warnings]


def alike(files: Path, folder: Path) -> hopes.ImportedProject:
    """The import of the translator's form, which has to be that of the tool's form."""
    first, tool, told = system(files, folder / "tool")
    second, found, also = system(translated(files, folder / "cic"), folder / "translator")
    assert second == first
    assert (found.mapping, found.stubs, found.platform) == (tool.mapping, tool.stubs, tool.platform)
    assert [(t.task, t.names) for t in found.times] == [(t.task, t.names) for t in tool.times]
    assert sorted(also) == sorted(told)
    return found


def changed(
    folder: Path, *changes: tuple[str, str], files: Path = DATA / "Doorbell/Doorbell.files"
) -> Path:
    """An algorithm with texts replaced."""
    path = translated(files, folder / "cic")
    text = path.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text)
    return path


def faults(path: Path) -> list[Diagnostic]:
    with pytest.raises(Errors) as raised:
        hopes.read(path, "app")
    assert all(d.code == "F721" and d.span is not None for d in raised.value.diagnostics)
    return list(raised.value.diagnostics)


# -- both forms ------------------------------------------------------------------------------------
def test_a_project_with_networks_means_the_same(tmp_path: Path) -> None:
    found = alike(DATA / "Doorbell/Doorbell.files", tmp_path)
    assert found.mapping is not None and len(found.mapping.networks) == 2
    text = (tmp_path / "translator/app.flow").read_text()
    assert "graph Camera {" in text  # copies are one, as in the other form


def test_a_project_with_code_means_the_same_and_runs(tmp_path: Path) -> None:
    alike(DATA / "Mixer/Mixer.files", tmp_path)
    built = flowc.build(tmp_path / "translator/app.flow", tmp_path / "build", measure=False)
    assert run(built.directory, "--frames", "2").stdout.splitlines()[:2] == ["0 1104", "1500 1500"]


def test_levels_and_loops_mean_the_same(tmp_path: Path) -> None:
    """A channel passes three borders, from a loop in a loop; one stays inside, and one turns
    back."""
    files = tmp_path / "Deep.files"
    inner = composite("In", "Out/In/CICTask/task.xml", "a:4:1 c:8:1", "b:4:1", "a:X:a:broadcasting", "c:X:c", "b:Y:b",
                      LoopType="CONVERGENT", LoopCount="3")  # fmt: skip
    outer = composite("Out", "Out/CICTask/task.xml", "a:4:5 c:8:5", "b:4:5", "a:In:a:distributing", "c:In:c:distributing",
                      "b:In:b", LoopType="DATA", LoopCount="5")  # fmt: skip
    maps = f"<portMap_list>{port_map('In', 'b', kind='distributing')}</portMap_list>"
    alone = task("L", "b:4:5", "", maps, LoopType="DATA", LoopCount="5")
    level(
        files / "CICTask",
        [task("S", "", "a:4:5 c:8:5"), outer, alone],
        "S.a>Out.a",
        "S.c>Out.c",
        "Out.b>L.b",
    )
    level(files / "Out/CICTask", [inner])
    inside = [task("X", "a:4:1 c:8:1 back:4:1", "y:4:1"), task("Y", "y:4:1", "b:4:1 back:4:1")]
    level(files / "Out/In/CICTask", inside, "X.y>Y.y", "Y.back>X.back+4")
    text = alike(files, tmp_path).text
    assert "S.a -> Out.a" in text and "repeat 3" in text and "delay 1 -> X.back" in text


def test_one_port_inside_stands_behind_two_outside(tmp_path: Path) -> None:
    files = tmp_path / "Deep.files"
    both = composite("G", "G/CICTask/task.xml", "", "p:4:1 q:4:1", "p:X:o", "q:X:o")
    level(files / "CICTask", [both, task("A", "i:4:1"), task("B", "i:4:1")], "G.p>A.i", "G.q>B.i")
    level(files / "G/CICTask", [task("X", "", "o:4:1")])
    alike(files, tmp_path)


def firings(text: Path, names: dict[str, str]) -> dict[str, int]:
    """Of an iteration, by the names in HOPES, in which all phases of a task are one firing."""
    checked = flowc.check(text)
    # code is not here
    assert {d.code for d in checked.diagnostics if d.severity == "error"} <= {"F301", "F601"}
    found = {}
    for app in checked.system.apps:
        vector = repetition(app).vector
        for t in app.tasks:
            phases = max((len(p.rates) for p in (*t.inputs, *t.outputs)), default=1)
            count = vector[t.name]
            found[names.get(t.name, t.name.replace(".", "_"))] = count // phases
    return found


@pytest.mark.parametrize("seed", [1, 4, 6])
def test_what_flowc_exports_is_imported_with_its_firings(seed: int, tmp_path: Path) -> None:
    flow = random_system(seed, tmp_path)
    assert flow is not None
    export_project(flow, tmp_path / "out", platform="two")
    found = hopes.read(tmp_path / "out", "back")
    (tmp_path / "back.flow").write_text(found.text)
    names = {t.task: t.full for t in found.manifest.tasks}
    assert firings(tmp_path / "back.flow", names) == firings(flow, {})
    assert found.manifest.form == "translator" and found.mapping is not None


# -- what is named ---------------------------------------------------------------------------------
def test_the_file_or_its_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = translated(DATA / "Mixer/Mixer.files", tmp_path / "cic")
    monkeypatch.chdir(tmp_path)
    assert hopes.read(path.parent, "app").text == hopes.read(path, "app").text
    done = CliRunner().invoke(cli, ["import", f"cic/{path.name}"])
    assert done.exit_code == 0 and done.stdout == "Mixer.flow\n", done.stderr
    wrong = shutil.copy(
        DATA / "Doorbell/Doorbell.files/CICTask/architecture.xml", "cic/Mixer_architecture.xml"
    )
    done = CliRunner().invoke(cli, ["import", str(wrong), "--force"])
    assert (
        done.exit_code == 1
        and "`cic/Mixer_architecture.xml` is a part of a HOPES project" in done.stderr
    )
    assert "name its algorithm, `Mixer_algorithm.xml`" in done.stderr
    shutil.copy(path, path.with_name("Other_algorithm.xml"))
    done = CliRunner().invoke(cli, ["import", "cic", "--force"])
    assert (
        done.exit_code == 1 and "`cic` holds several projects: `Mixer` and `Other`" in done.stderr
    )
    # What belongs to one of them is not that of the other.
    assert hopes.read(Path("cic/Other_algorithm.xml"), "app").platform == ""


# -- faults ----------------------------------------------------------------------------------------
CHANNEL = '<src task="Camera_1_Cam1_Grab" port="out"/>'
GRAB = 'id="1" ParentTask="Camera_1"'
FAULTS = [
    (CHANNEL, CHANNEL.replace("Grab", "Crab"), "there is no task `Camera_1_Cam1_Crab`", "did you mean"),
    (CHANNEL, CHANNEL.replace('"out"', '"aus"'), "`Cam1_Grab` has no output `aus`", "there is `out`"),
    (CHANNEL, "", "this channel has no `src`", 'write `<src task="..." port="..."/>`'),
    (GRAB, GRAB.replace("Camera_1", "Kamera"), "there is no task `Kamera` around `Camera_1_Cam1_Grab`", ""),
    (GRAB, GRAB.replace("Camera_1", "Camera_2"), "`Camera_1_Cam1_Grab` is inside `Camera_2`, but not called like it",
     "HOPES calls it `Camera_2_Camera_1_Cam1_Grab`"),
    (GRAB, 'id="1" ParentTask=""', "there is no task `Camera_1_Cam1_Grab` inside `Camera_1`", ""),
    ('<portMap task="Camera_1" port="in"', '<portMap task="Camera_1" port="ein"',
     "`Camera_1` has no input `ein`", "did you mean `in`"),
    ('hasSubGraph="Yes"', 'hasSubGraph="No"', "which has no graph", 'write `hasSubGraph="Yes"` there'),
    ('direction="output" type="fifo"', 'direction="OUT" type="fifo"', "is `OUT`", "there is input and output"),
    ('sampleSize="4" sampleType', 'sampleType', "this `port` has no `sampleSize`", ""),
    ('rate="1"', 'rate="1e3"', "is `1e3`, which is not a whole number", ""),
    ('rate="1"', 'rate=""', "is ``, which is not a whole number", ""),
    ('rate="1"', 'rate="12345678901234567890"', "which has more than 15 digits", ""),
    ('childTask="Camera_1_Cam1_Grab"', 'childTask="Camera_2_Cam2_Grab"',
     "there is no task `Camera_2_Cam2_Grab` inside `Camera_1`", ""),
    ('<portMap task="Camera_1"', '<portMap task="Camera_3"', "there is no task `Camera_3`", "did you mean"),
    ('<task name="Camera_1" priority', '<task name="Camera_9" priority', "there is no task `Camera_9`", "did you mean"),
    ("</CIC_Algorithm>", "", "this is no XML: ", ""),
    ("<CIC_Algorithm", "<!DOCTYPE x><CIC_Algorithm", "this XML has a document type, which is not read", "remove"),
    ('<task name="Clock" id', '<task name="Face_1" id', "two tasks are called `Face_1`", ""),
    ('hasMTM="No"', 'hasMTM="No">\n<loopStructure type="data" loopCount="0"/></task><task name="x" ParentTask="x"',
     "the loop count of `Camera_1` is 0: it has to be at least 1", ""),
    ('hasMTM="No"', 'hasMTM="No">\n<loopStructure type="convergent" loopCount="2" designatedTask="Clok"/></task>'
     '<task name="x" ParentTask="x"', "there is no task `Clok` that may end the loop `Camera_1`", "did you mean `Clock`"),
    ('<period metric="ms"', '<period metric="mm"', "has the unit `mm`", "there is h, m, s"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message", "help_text"), FAULTS)
def test_faults_have_a_place(
    old: str, new: str, message: str, help_text: str, tmp_path: Path
) -> None:
    path = changed(tmp_path, (old, new))
    found = faults(path)
    told = next((d for d in found if message in d.message), None)
    assert told is not None, [d.message for d in found]
    assert told.span is not None and told.span.file == str(path) and help_text in told.help


def test_faults_of_all_parts_are_told_at_once(tmp_path: Path) -> None:
    path = changed(
        tmp_path,
        ('rate="1"', 'rate="x"'),
        (CHANNEL, CHANNEL.replace("Grab", "Crab")),
        ('<period metric="ms"', '<period metric="mm"'),
    )
    assert len(faults(path)) == 3


def test_tasks_far_inside_each_other(tmp_path: Path) -> None:
    names = ["_".join(["a"] * n) for n in range(1, 300)]
    tasks = [
        f'<task name="{n}" ParentTask="{n.rpartition("_")[0] or n}" hasSubGraph="Yes"/>'
        for n in names
    ]
    path = tmp_path / "x_algorithm.xml"
    path.write_text(f"<CIC_Algorithm><tasks>{''.join(tasks)}</tasks></CIC_Algorithm>")
    assert "is inside more than 16 composites" in " ".join(d.message for d in faults(path))


def test_what_is_lost_is_named(tmp_path: Path) -> None:
    path = changed(
        tmp_path,
        ("</CIC_Algorithm>", "<headers><headerFile>all.h</headerFile></headers></CIC_Algorithm>"),
        ('ParentTask="Camera_1" ', 'ParentTask="Camera_1" colour="red" '),
        ('language="C">', 'language="C"><dataParallel type="wavefront"/>'),
        ("</modes>", '<mode name="Night"/></modes>'),
    )
    told = [w.message for w in hopes.read(path, "app").warnings]
    assert "`all.h`: headers of the whole application are not imported" in told
    assert "`task colour`: flowc does not know this attribute: it is left out" in told
    assert "`Camera_1_Cam1_Log`: a data-parallel task fires sequentially" in told
    assert "of several modes of the application, `Default` is taken" in told
