"""HOPES projects in: sizes, periods, copies, times and places arrive as meant, and faults are told
all at once."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import flowc
import pytest
from flowc.cli import app as cli
from flowc.driver.text import store
from flowc.driver.text.check import Checked
from flowc.dsl import format as layout
from flowc.interop.hopes import importer as hopes
from flowc.model.application import Application
from flowc.model.diagnostic import Diagnostic, Errors
from flowc.model.mapping import Mapping
from flowc.model.profile import Profile, ProfileEntry
from flowc.profiling.identity import task_hashes
from typer.testing import CliRunner, Result

from builds import ROOT
from hopes_xml import composite, level, task

DOORBELL = Path(__file__).resolve().parents[1] / "data/hopes/Doorbell"
FILES = "Doorbell.files"
TOP, CAMERA = f"{FILES}/CICTask/task.xml", f"{FILES}/Camera_1/CICTask/task.xml"
MAPPING = f"{FILES}/Doorbell_mapping.xml"
Edit = Callable[..., Path]


@pytest.fixture
def edit(tmp_path: Path) -> Edit:
    """Copy the project and replace texts in its files: (file, old, new) ..."""

    def edited(*changes: tuple[str, str, str]) -> Path:
        folder = tmp_path / "project" / "Doorbell"
        shutil.copytree(DOORBELL, folder)
        for file, old, new in changes:
            text = (folder / file).read_text()
            assert old in text
            (folder / file).write_text(text.replace(old, new, 1))
        return folder

    return edited


# -- helpers ---------------------------------------------------------------------------------------
def written(imported: hopes.ImportedProject, folder: Path) -> Path:
    """The texts of an import as files, laid out as the formatter does."""
    path = folder / "door.flow"
    for name, text in {"door.flow": imported.text, **imported.files}.items():
        if name.endswith(".flow"):
            assert layout.format_text(name, text) == text
        (folder / name).write_text(text)
    (folder / imported.stubs[0]).write_text(imported.stubs[1])
    return path


def checked(imported: hopes.ImportedProject, folder: Path) -> Checked:
    found = flowc.check(written(imported, folder), platform=str(folder / imported.platform_file))
    assert found.diagnostics == ()
    return found


def apps_of(imported: hopes.ImportedProject, folder: Path) -> dict[str, Application]:
    return {a.name: a for a in checked(imported, folder).system.apps}


def profile_of(imported: hopes.ImportedProject, folder: Path, given: object = None) -> Profile:
    hashes = task_hashes(checked(imported, folder).system)
    times = imported.given("times.json", json.dumps(given).encode()) if given is not None else None
    return imported.profile(hashes, times)


def entry(profile: Profile, subject: str, kind: str) -> ProfileEntry:
    (found,) = (e for e in profile.entries if (e.subject, e.processor) == (subject, kind))
    return found


def faults_of(folder: Path) -> list[Diagnostic]:
    with pytest.raises(Errors) as raised:
        hopes.read(folder, "door")
    return list(raised.value.diagnostics)


def told(diagnostics: list[Diagnostic]) -> list[tuple[str, str]]:
    """File and message; every fault has a place."""
    return [(Path(d.span.file).name, d.message) for d in diagnostics if d.span is not None]


def warned(imported: hopes.ImportedProject, message: str) -> Diagnostic:
    (found,) = (d for d in imported.warnings if message in d.message)
    assert found.code == "F722" and found.severity == "warning" and found.span is not None
    return found


# -- the application -------------------------------------------------------------------------------
def test_groups_become_apps_with_period_deadline_and_priority(tmp_path: Path) -> None:
    apps = apps_of(hopes.read(DOORBELL, "door"), tmp_path)
    assert list(apps) == ["Doorbell1", "Doorbell2", "DoorbellClock"]
    # The control task has 50 ms, and fires once in an iteration: a deadline of 120 ms is beyond it.
    ms = 1_000_000
    assert [(a.period_ns, a.deadline_ns) for a in apps.values()] == [(50 * ms, None)] * 2 + [
        (20 * ms, None)
    ]
    assert [a.priority for a in apps.values()] == [22, 12, 1]
    assert [t.name.partition(".")[2] for t in apps["Doorbell1"].tasks] == [
        "Camera.Grab", "Camera.Clean", "Camera.Log", "Face_pre", "Face", "Face_post",
    ]  # fmt: skip


def test_rates_are_those_of_hopes_and_the_largest_size_counts(tmp_path: Path) -> None:
    imported = hopes.read(DOORBELL, "door")
    app = apps_of(imported, tmp_path)["Doorbell1"]
    ports = {
        (t.name.rpartition(".")[2], p.name): (str(p.type), p.rates)
        for t in app.tasks
        for p in (*t.inputs, *t.outputs)
        if p.type is not None
    }
    assert ports == {
        ("Grab", "output"): ("uint8[12]", (1,)),  # 4 bytes against 12, both "rate 1"
        ("Clean", "input"): ("uint8[12]", (1,)),
        ("Clean", "port_last"): ("uint8[8]", (1,)),
        ("Clean", "output"): ("uint8[600]", (1,)),
        ("Clean", "next"): ("uint8[8]", (1,)),
        ("Log", "input"): ("uint8[8]", (1,)),
        ("Log", "output"): ("uint8[8]", (1,)),
        ("Face_pre", "input"): ("uint8[600]", (1,)),  # the composite and the network say 4
    }
    assert [(c.source_port, c.destination_port, c.delay) for c in app.channels if c.delay] == [
        ("output", "port_last", 1)
    ]
    warned(imported, "`Cam1_Grab.out`: ports and channel have tokens of 4, 12 bytes: 12 are taken")
    warned(
        imported, "`Cam1_Clean.out`: ports and channel have tokens of 4, 600 bytes: 600 are taken"
    )


def test_a_size_of_a_whole_firing_is_none_of_a_token(edit: Edit, tmp_path: Path) -> None:
    rate = ('name="in" type="fifo" sample_size="12" sample_rate="Fixed"><rate mode="Default" rate="1" />',
            'name="in" type="fifo" sample_size="12" sample_rate="Fixed"><rate mode="Default" rate="3" />')  # fmt: skip
    changed = edit((CAMERA, *rate), (CAMERA.replace("_1", "_2"), *rate))
    text = hopes.read(changed, "door").text
    assert "in input: uint8[4] rate 3" in text and "out output: uint8[4] }" in text


def test_copies_become_one_graph_and_others_stay_apart(edit: Edit) -> None:
    plain = hopes.read(DOORBELL, "door").text
    assert plain.count("graph ") == 1 and plain.count("Camera: Camera\n") == 2
    folder = edit((CAMERA.replace("_1", "_2"), 'sample_size="600"', 'sample_size="601"'))
    text = hopes.read(folder, "door").text
    assert "graph Camera1 {" in text and "graph Camera2 {" in text
    assert "task Clean {" in text and "task Clean_2 {" in text and "task Grab " in text


def test_a_cictask_and_the_file_of_the_tool_name_the_same_project(tmp_path: Path) -> None:
    plain = hopes.read(DOORBELL, "door")
    for path in (DOORBELL / FILES, DOORBELL / FILES / "CICTask", DOORBELL / "Doorbell"):
        assert hopes.read(path, "door") == plain
    # Without the file of the tool, the architecture beside the graph counts: it has no frequencies.
    shutil.copytree(DOORBELL / FILES, tmp_path / FILES)
    alone = hopes.read(tmp_path / FILES / "CICTask", "door")
    assert "cpu arm[2] scheduler fixed_priority\n" in alone.files["door_board.flow"]
    warned(alone, "scheduler `other` of this device becomes fixed_priority")


def test_period_of_time_driven_tasks_comes_first(edit: Edit, tmp_path: Path) -> None:
    log = 'name="CICFile" value="Cam1_Log.cic"'
    driven = '<task name="Cam1_Grab" type="Computational">\n      <config>\n        <parameter name="RunCondition" value='
    period = (
        '<parameter name="Period" value="1" />\n        <parameter name="PeriodUnit" value="us" />'
    )
    folder = edit(
        (CAMERA, f'{driven}"data-driven"', f'{driven}"time-driven"'),
        (CAMERA, period, period.replace('"1"', '"40"').replace("us", "ms")),
        (CAMERA, log, log),
    )
    imported = hopes.read(folder, "door")
    assert apps_of(imported, tmp_path)["Doorbell1"].period_ns == 40_000_000
    warned(imported, "`Face_1`: a period of 150 ms an iteration is left out")


def test_stubs_can_be_attached(tmp_path: Path) -> None:
    imported = hopes.read(DOORBELL, "door")
    name, stubs = imported.stubs
    assert (
        name == "door_tasks.py"
        and "class Grab:" in stubs
        and "def Clean(input, port_last):" in stubs
    )
    path = written(imported, tmp_path)
    text = imported.text
    for own in ("Grab", "Clean", "Log", "Clock"):
        text = text.replace(f"task {own} {{", f'task {own} {{ python "{name}:{own}"  ')
    path.write_text(text)
    assert not [d for d in flowc.check(path).diagnostics if d.severity == "error"]


def test_texts_are_always_the_same(tmp_path: Path) -> None:
    first, second = hopes.read(DOORBELL, "door"), hopes.read(DOORBELL, "door")
    assert first == second
    assert profile_of(first, tmp_path).to_json() == profile_of(second, tmp_path).to_json()


# -- platform, places, times -----------------------------------------------------------------------
def test_platform_has_the_pools_of_the_file_of_the_tool(tmp_path: Path) -> None:
    imported = hopes.read(DOORBELL, "door")
    board = checked(imported, tmp_path).platform
    assert board is not None and board.name == imported.platform == "door_board"
    assert [(p.name, p.kind, p.count, p.scheduler) for p in board.pools] == [
        ("arm", "cpu", 2, "fixed_priority"), ("cuda", "gpu", 1, "fifo"), ("npu_dla", "dla", 2, "fifo"),
    ]  # fmt: skip
    assert board.pools[0].frequencies_hz == (Fraction(10**9), Fraction(2 * 10**9))
    assert board.pools[0].engines is None


def test_mapping_takes_the_set_of_the_state_that_runs_something(tmp_path: Path) -> None:
    imported = hopes.read(DOORBELL, "door")
    written(imported, tmp_path)
    system = flowc.check(tmp_path / "door.door_board.flow").system
    pins = {p.task: p.stages[0].processors for p in system.pins}
    assert pins == {
        "Doorbell1.Camera.Grab": ("arm[0]",),  # `Default` says a DLA
        "Doorbell1.Camera.Clean": ("arm[0]", "arm[1]"),
        "Doorbell1.Camera.Log": ("cuda",),
        "Doorbell1.Face_pre": ("arm[0]",),
        "Doorbell1.Face_post": ("arm[1]",),
        "Doorbell2.Camera.Grab": ("arm[1]",),
        "Doorbell2.Camera.Clean": ("arm[0]", "arm[1]"),
        "Doorbell2.Camera.Log": ("cuda",),
        "Doorbell2.Face_pre": ("arm[0]",),
        "Doorbell2.Face_post": ("arm[1]",),
    }
    text = imported.files["door.door_board.flow"]
    assert (
        '// Doorbell1.Face -> npu_dla[0] until "conv4" | npu_dla[1] until "conv5" | cuda\n' in text
    )
    # The second network has a mapping of its own, where pools are called `npu_dla` and `cuda`.
    assert '// Doorbell2.Face -> npu_dla[0] until "conv4" | cuda\n' in text


def test_mapping_is_data_as_well(tmp_path: Path) -> None:
    imported = hopes.read(DOORBELL, "door")
    mapping, identity = Mapping.from_json(imported.files["door.door_board.authors.json"])
    assert mapping == imported.mapping and identity == {} and len(mapping.placements) == 10
    first, second = mapping.networks
    assert [(s.processors, s.until, s.predicted_ns) for s in first.stages] == [
        (("npu_dla[0]",), "conv4", 1_500_000.0), (("npu_dla[1]",), "conv5", 500_000.0), (("cuda",), None, 1_000_000.0),
    ]  # fmt: skip
    assert [s.predicted_ns for s in second.stages] == [1_500_000.0, 1_200_000.0]
    # A text without pins is free to be mapped: nothing of this is found beside it.
    assert checked(imported, tmp_path).mapping is None


def test_kernels_become_layers_by_kind(tmp_path: Path) -> None:
    imported = hopes.read(DOORBELL, "door")
    profile = profile_of(imported, tmp_path)
    assert Profile.from_json(profile.to_json()) == profile and profile.platform == "door_board"
    gpu, dla, cpu = (entry(profile, "Doorbell1.Face", kind) for kind in ("gpu", "dla", "cpu"))
    assert [x.layer for x in gpu.layers] == [f"conv{k}" for k in range(1, 10)]
    assert (
        gpu.layers[0].mean_ns == 120_000
        and gpu.mean_ns == gpu.wcet_ns == 1_800_000
        and not gpu.estimated
    )
    assert [x.layer for x in dla.layers] == [
        f"conv{k}" for k in range(1, 9)
    ] and dla.mean_ns == 3_800_000
    assert dla.estimated  # all its times are 2.5 times those on the GPU
    assert [(x.layer, x.mean_ns) for x in cpu.layers] == [("conv9", 900_000)]
    assert entry(profile, "Doorbell1.Face_pre", "cpu").wcet_ns == 300_000
    assert entry(profile, "Doorbell2.Face_post", "cpu").wcet_ns == 500_000
    assert {e.subject.partition(".")[2] for e in profile.entries} == {
        "Face",
        "Face_pre",
        "Face_post",
    }
    assert warned(imported, "on a DLA look computed: about 2.50 times").code == "F722"


def test_maxima_are_worst_cases_and_tasks_may_have_a_profile(edit: Edit, tmp_path: Path) -> None:
    face = f"{FILES}/CICTask/face_profile.xml"
    one = '<profile processorType="cuda_1" unit="us" value="120" />'
    folder = edit((face, one, one[:-2] + '><bound type="Maximum" value="1" unit="ms" /></profile>'))
    own = '<task name="Camera_1_Cam1_Log"><mode name="Default"><profile processorType="arm_0" unit="ms" value="3"/></mode></task>'
    (folder / FILES / "Doorbell_profile.xml").write_text(f"<CIC_Profile>{own}</CIC_Profile>")
    profile = profile_of(hopes.read(folder, "door"), tmp_path)
    gpu = entry(profile, "Doorbell1.Face", "gpu")
    assert (gpu.mean_ns, gpu.wcet_ns) == (1_800_000, 2_680_000)
    assert entry(profile, "Doorbell1.Camera.Log", "cpu").mean_ns == 3_000_000


def test_times_on_types_of_cpus_stay_apart(edit: Edit, tmp_path: Path) -> None:
    """A board with fast and slow cores: a task has a time on each, where the slower one counted."""
    pools, types = "</elements>", "<elementTypes>"
    fast = '<elementType clock="2400" model="denver" subcategory="CPU" category="processor" name="denver_0"/>'
    more = [
        '<element poolSize="1" type="denver_0" name="denver_0"/>',
        '<element poolSize="2" type="arm_0" name="arm_1"/>',
    ]
    boards = ("Doorbell", f"{FILES}/CICTask/architecture.xml")
    folder = edit(
        *((file, types, types + fast) for file in boards),
        *((file, pools, "".join(more) + pools) for file in boards),
        (f"{FILES}/CICTask/face_profile.xml", '"arm_0" unit="us" value="300"', '"arm_0" unit="us" value="300"/><profile processorType="denver_0" unit="us" value="100"'),
    )  # fmt: skip
    own = (
        f'<profile processorType="{kind}" unit="ms" value="{ms}"/>'
        for kind, ms in (("arm_0", 3), ("denver_0", 1))
    )
    mode = f'<mode name="Default">{"".join(own)}</mode>'
    profile_file = folder / FILES / "Doorbell_profile.xml"
    profile_file.write_text(
        f'<CIC_Profile><task name="Camera_1_Cam1_Log">{mode}</task></CIC_Profile>'
    )
    imported = hopes.read(folder, "door")
    platform = checked(imported, tmp_path).platform
    assert platform is not None
    assert {p.name: p.type for p in platform.pools if p.kind == "cpu"} == {
        "arm_0": "arm_0",
        "denver": "denver",
        "arm_1": "arm_0",
    }
    profile = profile_of(imported, tmp_path)
    assert {
        e.processor: e.mean_ns for e in profile.entries if e.subject == "Doorbell1.Camera.Log"
    } == {
        "arm_0": 3_000_000,
        "denver": 1_000_000,
    }
    assert entry(profile, "Doorbell1.Face_pre", "denver").mean_ns == 100_000
    given = profile_of(imported, tmp_path, {"Camera_1_Cam1_Log": {"cpu": 7}})
    assert {
        e.processor: e.mean_ns for e in given.entries if e.subject == "Doorbell1.Camera.Log"
    } == {"cpu": 7_000}


def test_times_of_tasks_can_be_given(tmp_path: Path) -> None:
    imported = hopes.read(DOORBELL, "door")
    given = {
        "comment": "ours",
        "Grab": {"cpu": 400},
        "Clean": {"cpu": 100.5, "gpu": 7},
        "Log": {"cpu": 5},
        "Clock": {"cpu": 1},
    }
    profile = profile_of(imported, tmp_path, given)
    assert entry(profile, "Doorbell2.Camera.Clean", "cpu").wcet_ns == 100_500
    assert [e.processor for e in profile.entries if e.subject == "Doorbell1.Camera.Grab"] == ["cpu"]
    assert all(e.mean_ns > 0 for e in profile.entries) and len(profile.entries) == 19
    # With all times there, the profile beside the text is used.
    found = checked(imported, tmp_path)
    assert found.platform is not None
    store.profile_path(found.system, found.platform).write_text(profile.to_json())
    assert store.read_profile(found.require()) == (profile, ())


def test_given_times_with_faults(tmp_path: Path) -> None:
    imported = hopes.read(DOORBELL, "door")
    with pytest.raises(Errors) as raised:
        imported.given(
            "t.json", b'{\n"Grap": {"cpu": 1},\n"Log": {"tpu": 1, "cpu": "2"},\n"Clean": 3}'
        )
    assert [(d.message, d.span.line if d.span else 0, d.help) for d in raised.value.diagnostics][
        :2
    ] == [
        ("there is no task `Grap`", 2, "did you mean `Grab`?"),
        ("`tpu` is no kind of processor", 3, "there is `cpu`, `gpu` or `dla`"),
    ]
    assert len(raised.value.diagnostics) == 4
    with pytest.raises(Errors, match="not JSON"):
        imported.given("t.json", b"{")


# -- what is left out ------------------------------------------------------------------------------
def test_what_is_not_carried_over_is_said_with_its_place() -> None:
    imported = hopes.read(DOORBELL, "door")
    expected = {
        "`Face_1` and `Face_2`: C++ code is not imported": (29, "task.xml"),
        "`Cam1_Grab`, `Cam1_Clean`, `Cam1_Log`, `Cam2_Grab` and 3 more: code is not imported: its file": (
            4,
            "task.xml",
        ),
        "`Control`: control tasks are not imported": (100, "task.xml"),
        "`Clock`: hardware dependencies are not imported": (120, "task.xml"),
        "`Time`: libraries are not imported that no imported code calls": (148, "task.xml"),
        "`Clock.ticks`: nothing is connected to this port": (136, "task.xml"),
        "`RAM_3`: memories are not imported": (28, "Doorbell"),
        "schedules are not imported": (1, "Doorbell_schedule.xml"),
        "layer `conv5` of `Face_1` has a different place in the mapping of the project": (
            2,
            "face_mapping.xml",
        ),
        "`Clock`: the mapping does not contain this": (1, "Doorbell_mapping.xml"),
        "`Face_1` and `Face_2`: the place of an external task itself": (6, "Doorbell_mapping.xml"),
    }
    for message, (line, file) in expected.items():
        span = warned(imported, message).span
        assert span is not None and (span.line, Path(span.file).name) == (line, file), message
    assert (
        len(imported.warnings) == len(expected) + 8
    )  # sizes of four ports, three periods and deadlines, and a column that was computed


def test_a_project_without_an_architecture(edit: Edit, tmp_path: Path) -> None:
    folder = edit(
        (
            TOP,
            'name="architectureFile" value="somewhere/Doorbell.files/CICTask/architecture.xml"',
            'name="a" value=""',
        )
    )
    text = (folder / TOP).read_text().replace("architectureFile", "none")
    (folder / TOP).write_text(text)
    (folder / FILES / "CICTask/architecture.xml").unlink()
    (folder / "Doorbell").unlink()
    imported = hopes.read(folder, "door")
    assert (
        set(imported.files) == {"door.states.flow"}
        and imported.platform == imported.platform_file == ""
        and imported.times == ()
    )
    warned(imported, "there is no architecture")
    path = tmp_path / "door.flow"
    path.write_text(imported.text)
    assert flowc.check(path).ok


# -- faults ----------------------------------------------------------------------------------------
def test_no_project(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        (fault,) = faults_of(path)
        assert fault.code == "F720"
    for name in ("a.files", "b.files"):
        shutil.copytree(DOORBELL / FILES, tmp_path / name)
    (fault,) = faults_of(tmp_path)
    assert fault.code == "F720" and "several projects: `a` and `b`" in fault.message


def test_all_faults_of_a_project_at_once(edit: Edit) -> None:
    folder = edit(
        (TOP, 'name="Priority" value="9"', 'name="Priority" value="high"'),
        (TOP, 'dst_task="Face_1" dst_port="in"', 'dst_task="Face_1" dst_port="inn"'),
        (TOP, 'src_task="Camera_2"', 'src_task="Camera_3"'),
        (CAMERA, 'sample_size="12" sample_rate="Fixed"><rate mode="Default" rate="1"', 'sample_size="12" sample_rate="Fixed"><rate mode="Default" rate="x"'),
        (CAMERA.replace("_1", "_2"), 'sample_size="600"', 'sample_size="0"'),
    )  # fmt: skip
    faults = faults_of(folder)
    assert {d.code for d in faults} == {"F721"} and all(d.span is not None for d in faults)
    assert told(faults) == [
        ("task.xml", "the priority of `Camera_2` is `high`, which is not a whole number"),
        ("task.xml", "`Face_1` has no input `inn`"),
        ("task.xml", "there is no task `Camera_3`"),
        ("task.xml", "the rate of port `Cam1_Clean.in` is `x`, which is not a whole number"),
        ("task.xml", "the sample size of port `Cam2_Clean.out` is 0: it has to be at least 1"),
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (f"{FILES}/CICTask/Control.xml", 'application name="Face_2"', 'application name="Face_3"', "there is no task `Face_3`"),
        (MAPPING, "<CIC_Mapping", "<CIC_Profile", "this is no XML"),
        (MAPPING, 'task name="Camera_2_Cam2_Log"', 'task name="Camera_2_Cam2_Lag"', "there is no task `Camera_2_Cam2_Lag`"),
        (MAPPING, 'pool="arm_0" localId="1"', 'pool="arm_0" localId="7"', "`arm_0` has 2 processors, and no number 7"),
        (MAPPING, 'pool="arm_0" localId="1"', 'pool="arm_0" localId="-1"', "the localId is `-1`, which is not a whole number"),
        (MAPPING, 'pool="cuda_1"', 'pool="cuba_1"', "there is no processor `cuba_1`"),
        (MAPPING, 'childTask name="Face_1_conv3"', 'childTask name="Face_1_conv33"', "`face` has no layer `conv33` (and 1 more"),
    ],
)  # fmt: skip
def test_a_fault_in_a_mapping_costs_the_mapping_alone(
    edit: Edit, tmp_path: Path, file: str, old: str, new: str, message: str
) -> None:
    imported = hopes.read(edit((file, old, new)), "door")
    assert warned(imported, f"the mapping of the project is left out: {message}").span is not None
    assert imported.text == hopes.read(DOORBELL, "door").text
    assert imported.mapping is None and set(imported.files) == {
        "door_board.flow",
        "door.states.flow",
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '<task name="conv3"',
            '<task name="conv33"',
            "there is no layer `conv33` in the network (and 1 more",
        ),
        (
            'npu_dla_2" unit="us" value="300"',
            'tpu" unit="us" value="300"',
            "there is no type of processor `tpu`",
        ),
        ('value="300"', 'value="-5"', "the time of `Pre` is `-5`, which is not a whole number"),
        ("</CIC_Profile>", "", "this is no XML"),
    ],
)
def test_a_fault_in_the_profile_of_a_network_costs_its_times_alone(
    edit: Edit, tmp_path: Path, old: str, new: str, message: str
) -> None:
    imported = hopes.read(edit((f"{FILES}/CICTask/face_profile.xml", old, new)), "door")
    assert (
        warned(imported, f"the profile of network `face` is left out: {message}").span is not None
    )
    assert imported.text == hopes.read(DOORBELL, "door").text
    assert not [e for e in profile_of(imported, tmp_path).entries if e.layers]


def test_a_fault_in_a_profile_of_the_project_costs_these_times_alone(
    edit: Edit, tmp_path: Path
) -> None:
    folder = edit()
    for own in ("Camera_1_Cam1_Lag", "Camera_1_Cam1_Log"):
        time = '<profile processorType="arm_0" unit="ms" value="3"/>'
        text = f'<CIC_Profile><task name="{own}"><mode name="Default">{time}</mode></task></CIC_Profile>'
        (folder / FILES / "Doorbell_profile.xml").write_text(text)
        imported = hopes.read(folder, "door")
        entries = [e for e in profile_of(imported, tmp_path).entries if "Log" in e.subject]
        assert len(entries) == (own == "Camera_1_Cam1_Log")
        if not entries:
            warned(
                imported,
                "the profile of the project is left out: there is no task `Camera_1_Cam1_Lag`",
            )


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (TOP, "</task_list>", "", "this is no XML: mismatched tag"),
        (TOP, "<cic_manual", "<!DOCTYPE x [<!ENTITY e 'x'>]><cic_manual", "this XML has a document type"),
        (TOP, "cic_manual name", "fsms name", "this is no XML"),
        (TOP, "Camera_1/CICTask/task.xml", "../CICTask/task.xml", "the graph of `Camera_1` is missing"),
        (TOP, "Camera_1/CICTask/task.xml", "CICTask/task.xml", "the graph of `Camera_1` contains itself"),
        (TOP, 'insideTask="Cam1_Clean"', 'insideTask="Cam1_Clear"', "there is no task `Cam1_Clear`"),
        (TOP, 'macroNodePort="out"', 'macroNodePort="put"', "`Camera_1` has no output `put`"),
        (TOP, '<task name="Clock"', '<task name="Camera_1"', "two tasks are called `Camera_1`"),
        (TOP, "CICTask/face.prototxt", "CICTask/fase.prototxt", "the networkFile of `Face_1` is missing"),
        (TOP, 'name="PeriodUnit" value="ms"', 'name="PeriodUnit" value="days"', "has the unit `days`"),
        (TOP, 'init_size="0"', 'init_size="-1"', "the initial data of this channel is `-1`"),
        (CAMERA, 'dst_port="last"', 'dst_port="in"', "input `Cam1_Clean.in` is fed twice"),
        (f"{FILES}/CICTask/face.prototxt", 'bottom: "conv3"', 'bottom: "conv9"', "which no layer above makes"),
        (f"{FILES}/CICTask/face.prototxt", 'name: "conv3"', 'name: "conv2"', "two layers are called `conv2`"),
        (f"{FILES}/CICTask/face.prototxt", "# a chain", "}", "`}` does not belong here"),
        (f"{FILES}/CICTask/face.prototxt", "# a chain", "layer {", "`layer` is not closed"),
        (f"{FILES}/CICTask/architecture.xml", 'poolSize="5"'.replace("5", "2"), 'poolSize="3"', "here are 3 processors `arm_0`, but `Doorbell` has 2"),
        (f"{FILES}/CICTask/architecture.xml", 'type="cuda_1"', 'type="cuda"', "there is no elementType `cuda`"),
    ],
)  # fmt: skip
def test_faults(edit: Edit, file: str, old: str, new: str, message: str) -> None:
    folder = edit((file, old, new))
    faults = faults_of(folder)
    assert any(message in d.message for d in faults), told(faults)
    assert all(d.code == "F721" and d.span is not None for d in faults)


def test_periods_that_do_not_fit(edit: Edit) -> None:
    grab = '<task name="Cam1_Grab" type="Computational">\n      <config>\n        <parameter name="RunCondition" value='
    clean = grab.replace("Grab", "Clean")
    period = '<parameter name="Period" value="{}" />'
    folder = edit(
        (CAMERA, f'{grab}"data-driven"', f'{grab}"time-driven"'),
        (CAMERA, f'{clean}"data-driven"', f'{clean}"time-driven"'),
        (CAMERA, period.format(1), period.format(3)),
        (CAMERA, period.format(1), period.format(2)),
    )
    (fault,) = faults_of(folder)
    assert "an iteration takes 0.003 ms by the one and 0.002 ms by the other" in fault.message


def test_periods_in_a_process_network_need_not_fit(edit: Edit, tmp_path: Path) -> None:
    """HOPES runs its tasks each at its own pace; the slowest one decides here."""
    clean = '<task name="Cam1_Clean" type="Computational">\n      <config>\n        <parameter name="RunCondition" value='
    period = (
        '<parameter name="Period" value="{}" />\n        <parameter name="PeriodUnit" value="us" />'
    )
    network = '<setting_list><setting TaskGraphProperty="ProcessNetwork" /></setting_list>'
    folder = edit(
        (TOP, "<task_list>", f"{network}<task_list>"),
        (CAMERA, f'{clean}"data-driven"', f'{clean}"time-driven"'),
        (CAMERA, period.format(1), period.format(7)),
    )
    text = (folder / CAMERA).read_text().replace('value="data-driven"', 'value="time-driven"', 1)
    text = text.replace(period.format(1), period.format(7000), 1)
    (folder / CAMERA).write_text(text)
    imported = hopes.read(folder, "door")
    assert apps_of(imported, tmp_path)["Doorbell1"].period_ns == 7_000_000
    warned(imported, "`Face_1` and `Cam1_Grab`: a period of 150 ms an iteration is left out")
    warned(imported, "`Doorbell`: a process network is read as dataflow")


def test_nothing_outside_the_project_is_read(edit: Edit, tmp_path: Path) -> None:
    folder = edit(
        (TOP, "somewhere/Doorbell.files/CICTask/face.prototxt", "../../../secret.prototxt")
    )
    (tmp_path / "secret.prototxt").write_text('layer { name: "Pre" top: "Pre" }')
    assert any("the networkFile of `Face_1` is missing" in d.message for d in faults_of(folder))


# -- a project that is all levels ------------------------------------------------------------------
def test_levels_inside_levels_and_outputs_with_several_readers(tmp_path: Path) -> None:
    folder = tmp_path / "Deep.files"
    level(
        folder / "CICTask",
        [
            task(
                "Source", "", "out:10:2", Period="30", PeriodUnit="ms", RunCondition="time-driven"
            ),
            composite(
                "Outer",
                "Outer/CICTask/task.xml",
                "in:10:1",
                "out:4:1",
                "in:Inner:in",
                "out:Late:out",
            ),
            task("Sink", "a:4:1 b:20:2"),
        ],
        "Source.out>Outer.in",
        "Source.out>Sink.b",
        "Outer.out>Sink.a",
    )
    level(
        folder / "Outer/CICTask",
        [
            composite(
                "Inner",
                "Outer/Inner/CICTask/task.xml",
                "in:10:1",
                "out:6:1",
                "in:Work:in",
                "out:Work:out",
            ),
            task("Late", "in:6:2", "out:4:1"),
        ],
        "Inner.out>Late.in",
    )
    level(folder / "Outer/Inner/CICTask", [task("Work", "in:10:1", "out:6:1")])
    imported = hopes.read(tmp_path, "deep")
    path = tmp_path / "deep.flow"
    path.write_text(imported.text)
    found = flowc.check(path)
    assert (
        found.diagnostics == () and layout.format_text("deep.flow", imported.text) == imported.text
    )
    (app,) = found.system.apps
    assert app.name == "Deep" and app.period_ns == 30_000_000
    assert dict(found.verdicts["Deep"].repetition) == {
        "Deep.Source": 1, "Deep.Outer.Inner.Work": 2, "Deep.Outer.Late": 1, "Deep.Sink": 1,
    }  # fmt: skip
    ends = {
        (c.source_port, c.destination.removeprefix("Deep."), c.destination_port)
        for c in app.channels
    }
    assert ends == {
        ("output", "Outer.Inner.Work", "input"), ("output", "Sink", "b"), ("output", "Outer.Late", "input"), ("output", "Sink", "a"),
    }  # fmt: skip


# -- the verb --------------------------------------------------------------------------------------
def call(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def test_the_project_here_is_imported(edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    """`.` has a name: that of the folder."""
    folder = edit()
    monkeypatch.chdir(folder)
    for words in (["."], ["./", "--force"], [".", "-o", "other.flow", "--force"]):
        done = call("import", *words)
        assert done.exit_code == 0, done.stderr
    assert {"Doorbell.flow", "door_board.flow", "other.flow"} <= {p.name for p in folder.iterdir()}
    assert call("check", "Doorbell.flow", "--platform", "door_board.flow").exit_code == 0
    again = call("import", ".")
    assert again.exit_code == 1 and "`Doorbell.flow` exists" in again.stderr
    here = hopes.read(folder, "Doorbell").text
    assert (folder / "Doorbell.flow").read_text() == here


#: Every word of the grammar.
WORDS = sorted(
    set(re.findall(r'^[A-Z]+(?:\.\d+)?: "([a-z]+)"', (ROOT / "dsl/grammar.lark").read_text(), re.M))
    | {
        "in",
        "out",
        "stateless",
        "pre",
        "post",
        "scenario",
        "true",
        "false",
        "index",
        "cpu",
        "gpu",
        "dla",
    }
)


@pytest.mark.parametrize("word", WORDS)
def test_pools_called_like_words_of_the_language_can_be_pinned_to(
    edit: Edit, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """Whatever a pool is called there, its platform is one that flowc reads, and so are the pins on
    it."""
    folder = edit()
    for file in (p for p in folder.rglob("*") if p.is_file()):
        text = file.read_text()
        for key in ("name", "type", "processorType", "pool"):
            text = re.sub(rf'\b{key}="arm(_0)?"', rf'{key}="{word}\1"', text)
        file.write_text(text)
    monkeypatch.chdir(folder.parent)
    done = call("import", "Doorbell", "-o", "door.flow")
    assert done.exit_code == 0, done.stderr
    pools = flowc.check("door.flow", platform="door_board.flow")
    assert {d.code for d in pools.diagnostics} == {"F607"}  # not all tasks have times there
    assert pools.platform is not None
    (pool,) = (p for p in pools.platform.pools if p.kind == "cpu")
    assert word in pool.name
    # As the pins do, which name its processors.
    pinned = flowc.check("door.door_board.flow", platform="door_board.flow")
    assert pinned.diagnostics == ()
    assert {p for pin in pinned.system.pins for s in pin.stages for p in s.processors} >= set(
        pool.processors
    )
    assert call("check", "door.flow", "--platform", "door_board.flow").exit_code == 0
