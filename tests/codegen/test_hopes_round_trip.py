"""A text as a project of HOPES, and back: the same model, and code that computes the same. And what
HOPES' schemas say."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import flowc
import pytest
from flowc.codegen.write import MANIFEST
from flowc.interop.hopes.export.export_project import ExportedProject, export_project
from flowc.interop.hopes.export.graph import folded
from flowc.interop.hopes.import_manifest import read_manifest
from flowc.interop.hopes.words import POLICIES
from flowc.model.system import System
from hypothesis import example, given, settings
from hypothesis import strategies as st

import hopes_translator
from builds import ROOT, Write, build, run
from hopes_graphs import random_system
from hopes_xml import without_xml

# -- the model -------------------------------------------------------------------------------------
#: Names in HOPES of tasks and of ports, (task, port), where they are others.
Names = tuple[Mapping[str, str], Mapping[tuple[str, str], str]]


def graphs(system: System, names: Names, made: ExportedProject | None = None) -> list[object]:
    """What HOPES keeps of apps: periods, deadlines, which data tasks move, and who gets them, by
    HOPES' names.

    Of a text that was exported as HOPES has it: a cycle of phases is a firing, and the code of a
    task that is alone has what it sends to itself.
    """
    tasks, ports = names

    def end(task: str, port: str) -> tuple[str, str]:
        return tasks[task], ports.get((task, port), port)

    found: list[object] = []
    for app in system.apps:
        of = app if made is None else folded(app)
        channels = () if made is not None and len(of.tasks) == 1 else of.channels
        joined = {(c.source, c.source_port) for c in channels} | {
            (c.destination, c.destination_port) for c in channels
        }
        moved = sorted(
            (end(t.name, p.name), p.direction, str(p.type), p.rates)
            for t in of.tasks
            for p in (*t.inputs, *t.outputs)
            if (t.name, p.name) in joined
        )
        arrows = sorted(
            (end(c.source, c.source_port), end(c.destination, c.destination_port), c.delay)
            for c in channels
        )
        # Without a source nothing is driven by time; who is alone may be one without its arrow.
        period = (
            app.period_ns if any(not t.inputs for t in app.tasks) and len(app.tasks) > 1 else None
        )
        found.append((period, app.deadline_ns if period is not None else None, moved, arrows))
    return sorted(found, key=str)


def same(made: ExportedProject, flow: Path) -> Path:
    """The import of a project, which has to be what the text was."""
    text = flowc.import_(made.directory, made.directory.parent / "back" / "back.flow").target
    said = read_manifest(text.with_name("back.hopes.json")).tasks
    ports = {(t.task, port): hopes for t in said for port, hopes in t.ports.items()}
    back = graphs(flowc.check(text).system, ({t.task: t.full for t in said}, ports))
    assert back == graphs(flowc.check(flow).system, (made.project.names, {}), made)
    return text


@given(st.integers(0, 10**6))
@settings(max_examples=4)
@example(10)
@example(276)
def test_an_import_gives_the_graph_back(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("drawn")
    flow = random_system(seed, folder)
    if flow is None:
        return
    flow.write_text(flow.read_text().replace("app A {", "app A { period 240 ms deadline 239 ms", 1))
    try:
        made = export_project(flow, folder / "out", platform="two")
    except flowc.Errors as why:
        assert {d.code for d in why.diagnostics} <= {"F723", "F216"}
        return
    text = same(made, flow)
    again = flowc.check(text.with_name("back.two.flow"), platform="two").system
    places = [p.stages[0].processors[0] for p in again.pins]
    assert sorted(places) == sorted(f"core[{n}]" for _, n in made.project.places.values())


@pytest.mark.parametrize("name", ["hello", "digits", "spotter", "denoise"])
def test_examples_come_back(tmp_path: Path, name: str) -> None:
    ignored = shutil.ignore_patterns("*.json", "build", "__pycache__", "*.ipynb")
    flow = (
        Path(shutil.copytree(ROOT / "examples" / name, tmp_path / name, ignore=ignored))
        / f"{name}.flow"
    )
    made = export_project(flow, tmp_path / "out")
    same(made, flow)


# -- code ------------------------------------------------------------------------------------------
def printed(flow: Path) -> list[str]:
    """What the tasks of a text print in four iterations."""
    done = run(build(flow, flow.parent / "built"), "--frames", "4")
    return sorted(line for line in done.stdout.splitlines() if re.fullmatch(r"\d+ \d+ \S+", line))


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("seed", [33])
def test_code_comes_back_and_computes_the_same(tmp_path: Path, seed: int) -> None:
    """Initial tokens that HOPES does not know of, too."""
    flow = random_system(seed, tmp_path, 3)
    assert flow is not None
    made = export_project(flow, tmp_path / "out", platform="two")
    assert made.project is not None and made.project.held
    assert printed(same(made, flow)) == printed(flow) != []


def canonical(node: ElementTree.Element) -> object:
    """An element without the order of what is in it, and without numbers and descriptions."""
    said = {k: v for k, v in node.attrib.items() if k not in ("id", "description")}
    return (
        node.tag,
        sorted(said.items()),
        (node.text or "").strip(),
        sorted(map(canonical, node), key=repr),
    )


def content(project: Path) -> dict[str, object]:
    """The files of a project; XML in any order."""
    files = {
        str(p.relative_to(project)): p
        for p in project.rglob("*")
        if p.is_file() and p.name != MANIFEST
    }
    return {
        name: canonical(ElementTree.parse(path).getroot())
        if path.suffix == ".xml"
        else path.read_bytes()
        for name, path in files.items()
    }


@pytest.mark.parametrize("seed", [3, 7, 10])
def test_a_project_comes_back_with_its_names_and_its_code(tmp_path: Path, seed: int) -> None:
    """Exported, imported and exported again: the same files, also where the manifest has no XML."""
    flow = random_system(seed, tmp_path)
    assert flow is not None
    made = export_project(flow, tmp_path / "out", platform="two", policy="self-timed")
    text = same(made, flow)
    again = export_project(
        text.with_name("back.two.flow"), tmp_path / "was", platform="two", policy="self-timed"
    )
    assert (
        content(again.directory) == content(made.directory)
        and again.project is None
        and again.changed == ()
    )
    without_xml(text)
    again = export_project(
        text.with_name("back.two.flow"), tmp_path / "again", platform="two", policy="self-timed"
    )
    assert content(again.directory) == content(made.directory) and again.project is not None


CODE = """
#include <stdio.h>
int count(void *state, int32_t *out, const count_params *p) { count_state *s = state; *out = s->next++; return 0; }
int show(void *state, const int32_t *in, const show_params *p) { return printf("%d\\n", *in) < 0; }
"""
TEXT = """
task Count { out out: int32   state next: int32   c "count.c:count" }
task Show { in in: int32   c "count.c:show" }
platform two { cpu core[2] }
app A { count: Count   show: Show   count -> show }
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("in input: int32", "in input: int32 window 3", "a window"),
        ("A_count -> A_show", "A_count -> delay 1 = 7 -> A_show", "the initial values of `"),
    ],
)
def test_code_of_hopes_cannot_do_what_is_new(write: Write, old: str, new: str, told: str) -> None:
    flow = write(TEXT, count_c=CODE)
    text = same(export_project(flow, flow.parent / "out", platform="two"), flow)
    assert old in text.read_text()
    text.write_text(text.read_text().replace(old, new))
    with pytest.raises(flowc.Errors) as raised:
        export_project(text, flow.parent / "again", platform=str(text.with_name("two.flow")))
    found = [d for d in raised.value.diagnostics if told in d.message]
    assert {d.code for d in raised.value.diagnostics} == {
        "F736",
        "F737",
    } and "`A_show.cic`, which does not support" in found[0].message


@pytest.mark.parametrize("name", ['"project": "app"', '"A_count"'])
def test_a_manifest_names_no_paths(write: Write, name: str) -> None:
    flow = write(TEXT, count_c=CODE)
    text = same(export_project(flow, flow.parent / "out", platform="two"), flow)
    kept = text.with_name("back.hopes.json")
    before = kept.read_text()
    kept.write_text(before.replace(name, name.replace("app", "../x").replace("A_count", "../x"), 1))
    assert kept.read_text() != before
    with pytest.raises(
        flowc.Errors, match=r"F726: `back.hopes.json` contains `../x`, which is not a valid"
    ):
        export_project(text, flow.parent / "again")


def test_a_manifest_leads_nowhere_else(write: Write) -> None:
    flow = write(TEXT, count_c=CODE)
    (flow.parent / "secret.h").touch()
    text = same(export_project(flow, flow.parent / "out", platform="two"), flow)
    kept = text.with_name("back.hopes.json")
    for name, told in (("../secret.h", "is not beside it"), ("back_c/no.h", "does not exist")):
        before = kept.read_text()
        kept.write_text(before.replace('"back_c/flowc_hopes.h"', f'"{name}"'))
        with pytest.raises(flowc.Errors, match=f"F726: `back.hopes.json` names .*, which {told}"):
            export_project(text, flow.parent / "again")
        kept.write_text(before)


# -- schemas ---------------------------------------------------------------------------------------
def test_hopes_schemas_take_what_is_written(tmp_path: Path) -> None:
    xmlschema = pytest.importorskip("xmlschema")
    try:
        folder = hopes_translator.schemas()
    except hopes_translator.Missing as why:
        pytest.skip(str(why))
    flow = random_system(5, tmp_path)
    assert flow is not None
    text = flow.read_text()
    flow.write_text(
        text.replace("app A {", "app A { period 24 ms deadline 20 ms", 1).replace(
            "state n", "wcet 2 us state n"
        )
    )
    schemas = {}
    for policy in POLICIES:
        made = export_project(flow, tmp_path / policy, platform="two", policy=policy)
        files = sorted(made.directory.rglob("*.xml"))
        kinds = {
            path: path.stem.rpartition("_")[2] if "," not in path.stem else "schedule"
            for path in files
        }
        assert {*kinds.values()} >= {
            "algorithm",
            "architecture",
            "mapping",
            "configuration",
            "profile",
        }
        assert ("schedule" in kinds.values()) == (policy == "self-timed")
        for path, kind in kinds.items():
            if kind not in schemas:
                schemas[kind] = xmlschema.XMLSchema(folder / f"CIC{kind.capitalize()}.xsd")
            schemas[kind].validate(path)
    text = TEXT + "app B { period 4 ms   show: Show   A.count -> latest -> show }\n"
    (tmp_path / "count.c").write_text(CODE)
    (tmp_path / "newest.flow").write_text(text)
    made = export_project(tmp_path / "newest.flow", tmp_path / "newest", platform="two")
    path = made.directory / "newest_algorithm.xml"
    assert "portMap" in path.read_text()
    schemas["algorithm"].validate(path)
