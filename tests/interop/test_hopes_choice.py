"""Parts of a HOPES project: one mode of a task, one state of a control task, one device of
several."""

from __future__ import annotations

import shutil
from pathlib import Path

import flowc
import pytest
from flowc.cli import app as cli
from flowc.interop.hopes import importer as hopes
from flowc.interop.hopes.choice import ModeChoice
from flowc.model.diagnostic import Errors
from typer.testing import CliRunner

from hopes_cic import translated
from hopes_xml import composite, level, port_map, task

DOORBELL = Path(__file__).resolve().parents[1] / "data/hopes/Doorbell"


def refused(project: Path, choice: ModeChoice) -> list[tuple[str, str, str]]:
    with pytest.raises(Errors) as raised:
        hopes.read(project, "app", choice)
    return [(d.code, d.message, d.help) for d in raised.value.diagnostics]


def checked(found: hopes.ImportedProject, folder: Path) -> dict[str, int]:
    """The firings of an iteration, of a text that has no errors."""
    for name, text in {"app.flow": found.text, **found.files}.items():
        (folder / name).write_text(text)
    done = flowc.check(
        folder / "app.flow",
        platform=str(folder / found.platform_file) if found.platform else "host",
    )
    assert done.diagnostics == ()
    return {t: n for verdicts in done.verdicts.values() for t, n in verdicts.repetition.items()}


# -- modes -----------------------------------------------------------------------------------------
@pytest.fixture
def player(tmp_path: Path) -> Path:
    """A composite with modes: in `Slow`, `Fine` does not fire, and `Read` gives ten at a time."""
    modes = '<mtm name="mtm" initial_state=""><mode_list><mode name="Fast"/><mode name="Slow"/></mode_list></mtm>'

    def port(name: str, fast: int, slow: int) -> str:
        rates = f'<rate mode="Fast" rate="{fast}"/><rate mode="Slow" rate="{slow}"/>'
        return f'<port name="{name}" sample_size="4">{rates}</port>'

    files = tmp_path / "Deep.files"
    maps = f"<portMap_list>{port_map('Out', 'out', 'Mix', 'out')}</portMap_list>"
    both = task(
        "Play",
        "",
        "out:4:1",
        maps + modes,
        CICFile="Play/CICTask/task.xml",
        HasSubGraph="Yes",
        HasMTM="Yes",
    )
    level(files / "CICTask", [both, task("Show", "in:4:1")], "Play.out>Show.in")
    read = f'<task name="Read"><config/><outport_list>{port("rough", 1, 10)}{port("fine", 1, 0)}</outport_list></task>'
    fine = f'<task name="Fine"><config/><inport_list>{port("in", 1, 0)}</inport_list>'
    fine += f"<outport_list>{port('out', 1, 0)}</outport_list></task>"
    mix = task("Mix", "rough:4:1", "out:4:1").replace(
        "</inport_list>", f"{port('fine', 1, 0)}</inport_list>"
    )
    channels = ("Read.rough>Mix.rough", "Read.fine>Fine.in", "Fine.out>Mix.fine")
    level(files / "Play/CICTask", [read, fine, mix], *channels)
    return files


def test_the_first_mode_counts_unless_another_is_chosen(player: Path, tmp_path: Path) -> None:
    found = hopes.read(player, "app")
    (told,) = (w for w in found.warnings if "MTM" in w.message)
    assert told.message == "`Play`: modes of a task (MTM): it stays in `Fast`"
    assert told.help == "`--mode TASK=MODE` takes another one: `Slow`"
    assert set(checked(found, tmp_path).values()) == {1} and "Fine" in found.text


@pytest.mark.parametrize("form", ["tool", "translator"])
def test_rates_and_tasks_of_a_mode(form: str, player: Path, tmp_path: Path) -> None:
    project = player if form == "tool" else translated(player, tmp_path / "cic")
    found = hopes.read(project, "app", ModeChoice({"Play": "Slow"}))
    firings = checked(found, tmp_path)
    assert firings == {"Deep.Play.Read": 1, "Deep.Play.Mix": 10, "Deep.Show": 10}
    assert "`Fine`: it moves nothing in this mode: it is left out" in [
        w.message for w in found.warnings
    ]
    assert "// Of it `Play in mode Slow` is here." in found.text and "repeat" not in found.text


def test_modes_that_there_are_not(player: Path, tmp_path: Path) -> None:
    assert refused(player, ModeChoice({"Play": "Slo", "Ply": "Slow"})) == [
        ("F727", "`Play` has no mode `Slo`", "did you mean `Slow`?"),
        ("F727", "there is no task `Ply` with modes", "did you mean `Play`?"),
    ]
    for words in (["Play"], ["=Slow"], ["Play=Slow", "--mode", "Play=Fast"]):
        done = CliRunner().invoke(
            cli, ["import", str(player), "-o", str(tmp_path / "x.flow"), "--mode", *words]
        )
        assert (
            done.exit_code == 1
            and "error[F727]" in done.stderr
            and not (tmp_path / "x.flow").exists()
        )
    done = CliRunner().invoke(cli, ["import", "x.cfg", "--state", "on"])
    assert done.exit_code in (1, 2)


CHANGES = """<transition_list>
<transition name="tired" src_mode="Fast" dst_mode="Slow"/><transition name="rested" src_mode="Slow" dst_mode="Fast"/>
</transition_list></mtm>"""


@pytest.mark.parametrize("form", ["tool", "translator"])
def test_modes_stand_beside_each_other(form: str, player: Path, tmp_path: Path) -> None:
    path = player / "CICTask/task.xml"
    path.write_text(path.read_text().replace("</mtm>", CHANGES))
    found = hopes.read(player if form == "tool" else translated(player, tmp_path / "cic"), "app")
    checked(found, tmp_path)
    done = flowc.check(tmp_path / "app.modes.flow")
    assert done.diagnostics == () and list(done.states) == ["Fast", "Slow"]
    firings = {
        app: {t.rpartition(".")[2]: n for t, n in v.repetition.items()}
        for app, v in done.verdicts.items()
    }
    assert firings == {
        "Deep": {"Read": 1, "Fine": 1, "Mix": 1, "Show": 1},
        "Deep_Slow": {"Read": 1, "Mix": 10, "Show": 10},
    }
    assert found.files["app.modes.flow"].endswith("""
scenario PlayModes {
    event tired, rested
    initial state Fast { run Deep }
    state Slow { run Deep_Slow }
    Fast -> Slow on tired
    Slow -> Fast on rested
}
""")


def test_names_of_modes_are_those_of_strangers(player: Path, tmp_path: Path) -> None:
    for path in (player / "CICTask/task.xml", player / "Play/CICTask/task.xml"):
        path.write_text(path.read_text().replace('"Slow"', '"../../Slow {{*/"'))
    target = flowc.import_(player, tmp_path / "into/deep/app.flow").target
    assert {p.parent for p in (tmp_path / "into").rglob("*.*")} == {target.parent}
    assert flowc.check(target.with_name("app.modes.flow")).ok


def test_a_mode_that_is_faulty_costs_itself_alone(player: Path) -> None:
    path = player / "Play/CICTask/task.xml"
    path.write_text(path.read_text().replace('mode="Slow" rate="0"', 'mode="Slow" rate="1"'))
    found = hopes.read(player, "app")
    told = [w.message for w in found.warnings if "is left out: " in w.message]
    assert len(told) == 1 and told[0].startswith("mode `Slow` of `Play` is left out: ")
    assert "app.modes.flow" not in found.files


# -- states ----------------------------------------------------------------------------------------
def test_what_runs_in_a_state(tmp_path: Path) -> None:
    busy = hopes.read(DOORBELL, "app", ModeChoice(state="busy"))
    firings = checked(busy, tmp_path)
    # The clock is in no list, so that it runs in every state.
    assert {name.partition(".")[0] for name in firings} == {
        "Doorbell1",
        "Doorbell2",
        "DoorbellClock",
    }
    told = [w.message for w in busy.warnings]
    assert "of the states of `Control`, `busy` is imported" in told
    assert refused(DOORBELL, ModeChoice(state="bussy")) == [
        ("F727", "there is no state `bussy`", "did you mean `busy`?")
    ]
    idle = hopes.read(DOORBELL, "app", ModeChoice(state="idle"))
    assert "app Doorbell {" in idle.text and "Clock" in idle.text and "Camera" not in idle.text


TRANSITIONS = """<transition_list>
  <transition name="ring" src_state="quiet" dst_state="ringing"><condition_list>
    <condition type="Input" inport_name="bell" value="1" comparator="0"/></condition_list></transition>
  <transition name="rest" src_state="ringing" dst_state="quiet"><condition_list>
    <condition type="TimeOut" timeVal="90" timeUnit="S"/></condition_list></transition>
  <transition name="again" src_state="ringing" dst_state="ringing"/>
</transition_list></fsm>"""


def states(machine: str) -> str:
    """The machine of the doorbell with transitions, and with names that are no words of the
    language."""
    return (
        machine.replace('"busy"', '"ringing"')
        .replace('"idle"', '"quiet"')
        .replace("</fsm>", TRANSITIONS)
    )


def test_states_become_a_scenario(tmp_path: Path) -> None:
    folder = shutil.copytree(DOORBELL, tmp_path / "Doorbell")
    path = folder / "Doorbell.files/CICTask/Control.xml"
    path.write_text(states(path.read_text()))
    found = hopes.read(folder, "app")
    text = found.files["app.states.flow"]
    assert text.endswith("""
scenario Control {
    event ring
    state ringing { run Doorbell1, Doorbell2, DoorbellClock }
    initial state quiet { run DoorbellClock }
    ringing -> quiet after 90 s
    quiet -> ringing on ring
}
""")
    told = [w.message for w in found.warnings]
    assert (
        "`Control`: transitions have conditions that are not imported: each is an event to be raised"
        in told
    )
    checked(found, tmp_path)
    done = flowc.check(tmp_path / "app.states.flow", platform=str(tmp_path / found.platform_file))
    assert done.diagnostics == () and list(done.states) == ["ringing", "quiet"]


def test_a_state_in_which_nothing_runs_is_left_out(tmp_path: Path) -> None:
    """What begins in it begins in the next one."""
    folder = shutil.copytree(DOORBELL, tmp_path / "Doorbell")
    path = folder / "Doorbell.files/CICTask/Control.xml"
    every = '<application name="Clock" />\n          <application name="Camera_1" />'
    path.write_text(states(path.read_text()).replace('<application name="Camera_1" />', every))
    found = hopes.read(folder, "app")
    assert (
        "    initial state ringing { run Doorbell1, Doorbell2, DoorbellClock }\n}"
        in found.files["app.states.flow"]
    )
    assert "`quiet` of `Control`: a state in which nothing runs is left out" in [
        w.message for w in found.warnings
    ]


def test_a_mapping_goes_back_for_what_was_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other tasks stay where they were."""
    shutil.copytree(DOORBELL, tmp_path / "Doorbell")
    monkeypatch.chdir(tmp_path)
    path = Path("Doorbell/Doorbell.files/Doorbell_mapping.xml")
    before = hopes.read(Path("Doorbell"), "door").mapping
    assert (
        CliRunner()
        .invoke(cli, ["import", "Doorbell", "-o", "door.flow", "--state", "idle"])
        .exit_code
        == 0
    )
    text = Path("door.flow").read_text() + "mapping on door_board { Doorbell.Clock -> arm[1] }\n"
    Path("door.flow").write_text(text)
    done = CliRunner().invoke(
        cli, ["export", "door.flow", "--platform", "door_board.flow", "--into", "Doorbell"]
    )
    assert done.exit_code == 0, done.stderr
    after = hopes.read(Path("Doorbell"), "door").mapping
    assert before is not None and after is not None
    places = {p.task: p.processors for p in after.placements}
    assert places.pop("DoorbellClock.Clock") == ("arm[1]",)
    assert (
        places == {p.task: p.processors for p in before.placements}
        and after.networks == before.networks
    )
    assert path.read_text().count("<externalTask ") == 1


# -- devices ---------------------------------------------------------------------------------------
@pytest.fixture
def apart(tmp_path: Path) -> Path:
    """A graph on two devices, with a composite on both."""
    files = tmp_path / "Deep.files"
    both = composite("G", "G/CICTask/task.xml", "in:4:2", "out:8:1", "in:A:in", "out:B:out")
    level(
        files / "CICTask",
        [task("S", "", "out:4:2"), both, task("D", "in:8:3")],
        "S.out>G.in",
        "G.out>D.in+16",
    )
    level(
        files / "G/CICTask",
        [task("A", "in:4:2", "out:4:1"), task("B", "in:4:1", "out:8:1")],
        "A.out>B.in",
    )
    elements = '<elements><element name="i7_0" type="i7"/></elements>'
    types = '<elementTypes><elementType name="i7" category="processor" subcategory="CPU"/></elementTypes>'
    devices = "".join(f'<device name="{name}">{elements}</device>' for name in ("Left", "Right"))
    architecture = (
        f'<CIC_Architecture target="x">{types}<devices>{devices}</devices></CIC_Architecture>'
    )
    (files / "Deep_architecture.xml").write_text(architecture)
    entry = (
        '<task name="{}"><device name="{}">{}<processor pool="i7_0" localId="0"/>{}</device></task>'
    )
    # older versions of HOPES have no sets
    new, old = ('<mappingSet name="Default">', "</mappingSet>"), ("", "")
    places = {
        "S": ("Left", *new),
        "G_A": ("Left", *old),
        "G_B": ("Right", *new),
        "D": ("Right", *old),
    }
    (files / "Deep_mapping.xml").write_text(
        f"<CIC_Mapping>{''.join(entry.format(n, *p) for n, p in places.items())}</CIC_Mapping>"
    )
    return files


def test_one_device_with_sources_and_sinks_for_its_links(apart: Path, tmp_path: Path) -> None:
    left = hopes.read(apart, "app", ModeChoice(device="Left"))
    assert checked(left, tmp_path) == {"Deep.S": 1, "Deep.G.A": 1, "Deep.G.to_B_in": 1}
    assert left.platform == "left" and "several devices" not in " ".join(
        w.message for w in left.warnings
    )
    (told,) = (w for w in left.warnings if "stands for" in w.message)
    assert told.message == "`B.in`: a sink stands for the link to another device"
    right = hopes.read(apart, "app", ModeChoice(device="Right"))
    assert checked(right, tmp_path) == {"Deep.G.from_A_out": 3, "Deep.G.B": 3, "Deep.D": 1}
    assert (
        "/// Stands for `A.out` of another device." in right.text and "delay 2 -> D" in right.text
    )
    assert "class FromAOut:" in right.stubs[1]


def test_a_device_that_there_is_not(apart: Path) -> None:
    assert refused(apart, ModeChoice(device="Rigt")) == [
        ("F727", "nothing runs on a device `Rigt`", "did you mean `Right`?")
    ]
    (apart / "Deep_mapping.xml").unlink()
    assert refused(apart, ModeChoice(device="Left"))[0][1] == "nothing runs on a device `Left`"
