"""`latest` between two apps as channels of HOPES that keep the newest token: what is written, and
what it computes."""

from __future__ import annotations

import shutil
from pathlib import Path
from xml.etree import ElementTree

import flowc
import pytest
from flowc.codegen.write import MANIFEST
from flowc.interop.hopes.export.export_project import ExportedProject, export_project

import hopes_translator
from builds import Write
from hopes_runs import SCHEMA, run
from hopes_xml import level, task, without_xml

CODE = """
#include <stdio.h>
int count(void *state, int32_t *out, const count_params *p) { count_state *s = state; *out = ++s->next; return 0; }
int show(void *state, const int32_t *in, const show_params *p) { return printf("%d %d\\n", p->number, *in) < 0; }
"""
TEXT = """
task Count { out out: int32   state next: int32   c "count.c:count" }
task Show(number: int) { in in: int32   c "count.c:show" }
platform two { cpu core[2] }
app Writer { period 10 ms   count: Count   show: Show(number = 0)   count -> show }
app Reader { period 4 ms   show: Show(number = 1)   Writer.count -> latest -> show }
app Other { period 6 ms   show: Show(number = 2)   Writer.count -> latest -> show }
"""


def exported(
    flow: Path, out: str = "out", policy: str = "static-assignment", platform: str = "two"
) -> ExportedProject:
    """The project of a text, beside it."""
    return export_project(flow, flow.parent / out, platform=platform, policy=policy)


def algorithm(made: ExportedProject) -> ElementTree.Element:
    """Its tasks and channels."""
    return ElementTree.parse(made.directory / f"{made.project.name}_algorithm.xml").getroot()


def newest(made: ExportedProject) -> list[tuple[str, ...]]:
    """The ends of channels that keep the newest token."""
    return [
        tuple(f"{end.get('task')}.{end.get('port')}" for end in c)
        for c in algorithm(made).iter(f"{SCHEMA}channel")
        if c.get("type") == "overwritable"
    ]


def seen(lines: list[str], reader: int) -> list[int]:
    """What a task has printed."""
    return [int(line.split()[1]) for line in lines if line.startswith(f"{reader} ")]


# -- what is written -------------------------------------------------------------------------------
def test_both_ends_are_tasks_that_copy(write: Write) -> None:
    made = exported(write(TEXT, count_c=CODE))
    assert newest(made) == [
        ("Writer_to_Reader.newest", "Reader_from_Writer_count.newest"),
        ("Writer_to_Other.newest", "Other_from_Writer_count.newest"),
    ]
    root = algorithm(made)
    maps = {
        (m.get("task"), m.get("childTask"), m.get("direction"))
        for m in root.iter(f"{SCHEMA}portMap")
    }
    assert maps == {
        (app, f"{app}_{end}", way)
        for app, end, way in [
            ("Writer", "to_Reader", "output"),
            ("Writer", "to_Other", "output"),
            ("Reader", "from_Writer_count", "input"),
            ("Other", "from_Writer_count", "input"),
        ]
    }
    tasks = {t.get("name"): t for t in root.iter(f"{SCHEMA}task") if t.get("hasSubGraph") == "No"}
    # Who looks is released by its own period, and not by what it looks at.
    assert {n for n, t in tasks.items() if t.get("runCondition") == "time-driven"} == {
        "Writer_count", "Reader_from_Writer_count", "Other_from_Writer_count",
    }  # fmt: skip
    assert not [d for d in made.diagnostics if "Reader" in d.message]


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_reader_sees_the_newest_token_and_zeros_before(write: Write) -> None:
    made = exported(write(TEXT, count_c=CODE))
    often = {name: 40 if name.startswith("Reader") else 9 for name in made.project.places}
    done = run(made.directory, made.project.name, often)
    assert done.returncode == 0, done.stderr
    looks = seen(done.stdout.splitlines(), 1)
    assert len(looks) == 40 and looks == sorted(looks) and set(looks) <= {*range(10)}
    assert seen(done.stdout.splitlines(), 0) == [*range(1, 10)]


def content(project: Path) -> dict[str, object]:
    """The files of a project, XML in any order and without numbers and descriptions."""

    def canonical(node: ElementTree.Element) -> object:
        said = {k: v for k, v in node.attrib.items() if k not in ("id", "description")}
        return (
            node.tag,
            sorted(said.items()),
            (node.text or "").strip(),
            sorted(map(canonical, node), key=repr),
        )

    files = (p for p in project.rglob("*") if p.is_file() and p.name != MANIFEST)
    return {
        p.name: canonical(ElementTree.parse(p).getroot()) if p.suffix == ".xml" else p.read_bytes()
        for p in files
    }


def test_a_project_comes_back_with_latest(write: Write) -> None:
    """The tasks that copy are code of HOPES then, and need no others around them."""
    made = exported(write(TEXT, count_c=CODE), policy="self-timed")
    text = flowc.import_(made.directory, made.directory.parent / "back" / "back.flow").target
    assert without_xml(text).read_text().count("-> latest ->") == 2 and flowc.check(text).ok
    again = exported(text.with_name("back.two.flow"), "again", "self-timed")
    assert newest(again) == newest(made)
    assert content(again.directory) == content(made.directory)


# -- code of HOPES ---------------------------------------------------------------------------------
def robot(folder: Path) -> Path:
    """The import of a project whose code writes and reads the newest token itself."""
    project = folder / "Pair.files" / "CICTask"
    timed = {"RunCondition": "time-driven", "PeriodUnit": "ms", "Language": "C"}
    port = (
        '<{0}><port name="{1}" type="overwritable" sample_size="4" sample_rate="Variable"/></{0}>'
    )
    tasks = [
        task(
            "Camera",
            more=port.format("outport_list", "image"),
            CICFile="Camera.cic",
            Period="2",
            **timed,
        )
    ]
    tasks += [
        task(
            "Robot",
            more=port.format("inport_list", "seen"),
            CICFile="Robot.cic",
            Period="5",
            **timed,
        )
    ]
    level(project, tasks, "Camera.image>Robot.seen")
    for name, way in (
        ("Camera", "BUF_SEND(port, &value, 4)"),
        ("Robot", "BUF_RECEIVE(port, &value, 4)"),
    ):
        own = "image" if name == "Camera" else "seen"
        init = f'TASK_INIT {{ port = PORT_INITIALIZE(TASK_ID, "{own}"); }}'
        (project / f"{name}.cic").write_text(
            f"STATIC int port, value;\n{init}\nTASK_GO {{ {way}; }}\nTASK_WRAPUP {{ }}\n"
        )
    return flowc.import_(project.parent, folder / "app.flow").target


def test_code_that_keeps_the_newest_token_itself_goes_back_as_it_is(tmp_path: Path) -> None:
    flow = robot(tmp_path)
    made = exported(flow, platform="host")
    assert newest(made) == [("DeepCamera_Camera.image", "DeepRobot_Robot.seen")]
    assert {*made.project.places} == {"DeepCamera_Camera", "DeepRobot_Robot"}
    assert {p.name for p in made.directory.glob("*.cic")} == {"Camera.cic", "Robot.cic"}


def test_code_that_keeps_the_newest_token_has_no_queue(tmp_path: Path) -> None:
    flow = robot(tmp_path)
    (tmp_path / "sink.c").write_text(
        "int sink(void *s, const uint8_t *x, const sink_params *p) { return 0; }\n"
    )
    text = flow.read_text()
    (name,) = {
        line.split(":")[0].strip()
        for line in text.splitlines()
        if line.strip().endswith(": Camera")
    }
    more = f"    sink: Sink   {name} -> sink\n"
    line = next(
        line for line in text.splitlines(keepends=True) if line.strip().endswith(": Camera")
    )
    flow.write_text(
        text.replace(line, line + more) + 'task Sink { in x: uint8[4]   c "sink.c:sink" }\n'
    )
    with pytest.raises(flowc.Errors) as raised:
        exported(flow, platform="host")
    told = [d.message.partition("which ")[2] for d in raised.value.diagnostics if d.code == "F736"]
    assert told == ["does not support its port `image` as a queue"]


# -- HOPES itself ----------------------------------------------------------------------------------
def test_hopes_keeps_the_newest_token(write: Write) -> None:
    try:
        hopes_translator.referee()
    except hopes_translator.Missing as why:
        pytest.skip(str(why))
    made = exported(write(TEXT.replace("period 4 ms ", ""), count_c=CODE), policy="self-timed")
    program = hopes_translator.translate(made.directory, made.project.name, 30)
    lines = hopes_translator.output(hopes_translator.compiled(program, ("-O0", "-w")))
    assert seen(lines, 0) == [*range(1, 31)]
    for reader in (1, 2):
        looks = seen(lines, reader)
        assert len(looks) == 30 and looks == sorted(looks) and {*looks} <= {*range(31)}
