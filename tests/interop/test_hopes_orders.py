"""Policy and static orders go back into a project: a program that follows them never waits for
itself."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import flowc
import pytest
from flowc.cli import app as cli
from flowc.driver.exchange.export import export_into
from flowc.interop.hopes.export.export_project import export_project
from flowc.model.diagnostic import Errors
from typer.testing import CliRunner

from hopes_cic import translated
from hopes_graphs import random_system
from hopes_runs import SCHEMA

DATA = Path(__file__).resolve().parents[1] / "data/hopes"


def project(folder: Path, seed: int) -> tuple[Path, Path]:
    """A project in the form of the translator, and its import with the mapping that it has."""
    flow = random_system(seed, folder)
    assert flow is not None
    made = export_project(flow, folder / "a", platform="two")
    flowc.import_(folder / "a", folder / "back.flow")
    return made.directory, folder / "back.two.flow"


def into(text: Path, there: Path, policy: str) -> list[str]:
    """The files that are written, by their paths in the project."""
    words = ["export", str(text), "--platform", "two", "--into", str(there), "--policy", policy]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.stderr
    return [str(Path(line).relative_to(there)) for line in done.stdout.splitlines()]


def followed(there: Path, rounds: int) -> dict[str, int]:
    """Firings of all tasks when every processor follows its order so often, on channels as large as
    the project says."""
    root = ElementTree.parse(there / "a_algorithm.xml").getroot()
    rates = {
        (str(t.get("name")), str(p.get("name"))): int(str(p[0].get("rate")))
        for t in root.iter(f"{SCHEMA}task")
        for p in t.findall(f"{SCHEMA}port")
    }
    queues = []
    for c in root.iter(f"{SCHEMA}channel"):
        out, into_ = ((str(e.get("task")), str(e.get("port"))) for e in c)
        queues.append([out, into_, int(c.attrib["size"]), int(c.attrib["initialDataSize"])])
    (file,) = (there / "convertedSDF3xml").iterdir()
    waiting = []
    for group in ElementTree.parse(file).getroot().iter(f"{SCHEMA}scheduleGroup"):
        firings: list[str] = []
        for element in group:
            loop = element.find(f"{SCHEMA}loop")
            times = 1 if loop is None else int(loop.attrib["repetition"])
            firings += [str(t.get("name")) for t in element.iter(f"{SCHEMA}task")] * times
        waiting.append(firings * rounds)
    fired: dict[str, int] = {}
    while any(waiting):
        before = sum(map(len, waiting))
        for order in waiting:
            while order and all(
                (q[1][0] != order[0] or q[3] >= rates[q[1]])
                and (q[0][0] != order[0] or q[1][0] == order[0] or q[3] + rates[q[0]] <= q[2])
                for q in queues
            ):
                task = order.pop(0)
                fired[task] = fired.get(task, 0) + 1
                for q in queues:
                    q[3] -= rates[q[1]] if q[1][0] == task else 0
                    q[3] += rates[q[0]] if q[0][0] == task else 0
        assert sum(map(len, waiting)) < before, (
            f"all wait: {[order[0] for order in waiting if order]}"
        )
    return fired


@pytest.mark.parametrize("seed", [10, 15])
def test_orders_fit_into_the_channels_of_the_project(tmp_path: Path, seed: int) -> None:
    there, text = project(tmp_path, seed)
    files = into(text, there, "self-timed")
    assert files[0] == "a_configuration.xml" and files[1].startswith("convertedSDF3xml/SDF_")
    assert 'runtimeExecutionPolicy="Self-timed-Execution-Policy"' in (there / files[0]).read_text()
    checked = flowc.check(text, platform="two")
    vector = checked.verdicts[checked.system.apps[0].name].repetition
    fired = followed(there, 5)
    assert sorted(fired.values()) == sorted(5 * n for n in vector.values())
    # Nothing else changes, and the other policy leaves the orders.
    before = {p.name: p.read_bytes() for p in there.rglob("*") if p.is_file()}
    assert into(text, there, "static-assignment")[0] == "a_configuration.xml"
    after = {p.name: p.read_bytes() for p in there.rglob("*") if p.is_file()}
    assert {name for name in before if before[name] != after[name]} == {"a_configuration.xml"}
    assert (
        b'runtimeExecutionPolicy="Static-Assignment-Execution-Policy"'
        in after["a_configuration.xml"]
    )


def refused(text: Path, there: Path) -> list[str]:
    with pytest.raises(Errors) as raised:
        export_into(text, there, platform="two", policy="self-timed")
    assert {d.code for d in raised.value.diagnostics} == {"F735"} and all(
        d.help for d in raised.value.diagnostics
    )
    return [d.message for d in raised.value.diagnostics]


def test_a_channel_without_room_has_no_order(tmp_path: Path) -> None:
    there, text = project(tmp_path, 10)
    algorithm = there / "a_algorithm.xml"
    algorithm.write_text(
        re.sub(r'(<channel type="fifo" size=")\d+', r"\g<1>0", algorithm.read_text())
    )
    (message,) = refused(text, there)
    assert message.endswith("has room for 0 tokens, which is too little for any order")


def test_several_files_of_orders_are_told(tmp_path: Path) -> None:
    there, text = project(tmp_path, 10)
    (name,) = (f for f in into(text, there, "self-timed") if f.startswith("convertedSDF3xml"))
    shutil.copy(there / name, there / name.replace(",2,", ",4,"))
    assert "there are several files of orders for `a`" in refused(text, there)[0]


def test_what_has_no_orders_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool's form, and a project with a control task."""
    monkeypatch.chdir(tmp_path)
    for form, said in (
        (DATA / "Doorbell/Doorbell.files", "`Doorbell` is in the form of HOPES' tool"),
        (
            translated(DATA / "Doorbell/Doorbell.files", tmp_path / "cic").parent,
            "and there is a control task",
        ),
    ):
        flowc.import_(form, "door.flow", force=True, state="idle")
        with Path("door.flow").open("a") as text:
            text.write("mapping on door_board { Doorbell.Clock -> arm[1] }\n")
        with pytest.raises(Errors) as raised:
            export_into("door.flow", form, platform="door_board.flow", policy="self-timed")
        (found,) = raised.value.diagnostics
        assert found.code == "F735" and said in found.message, found.message
