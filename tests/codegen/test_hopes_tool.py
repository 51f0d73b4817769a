"""Projects in the form of HOPES' tool: its own way to the other form gives what is exported in that
one."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import flowc
import pytest
from flowc.cli import app as command
from flowc.interop.hopes.export.export_project import export_project
from typer.testing import CliRunner

from builds import Write
from hopes_cic import translated
from hopes_graphs import random_system
from hopes_runs import SCHEMA

TEXT = """
task Count { out out: int32   state next: int32   c "count.c:count" }
task Show { in in: int32   c "count.c:show" }
platform two { cpu core[2] }
app Writer { period 10 ms   deadline 9 ms   count: Count   show: Show   count -> show }
app Reader { period 4 ms   show: Show   Writer.count -> latest -> show }
"""
CODE = """
#include <stdio.h>
int count(void *state, int32_t *out, const count_params *p) { count_state *s = state; *out = s->next++; return 0; }
int show(void *state, const int32_t *in, const show_params *p) { return printf("%d\\n", *in) < 0; }
"""
#: What an algorithm says otherwise in the two forms: types of data, words about who reads it.
_OTHERWISE = {"id", "description", "sampleType", "schemaLocation", "preemptionType"}


def canonical(node: ElementTree.Element) -> tuple[object, ...]:
    """An element, with what is in it in any order."""
    said = {k: v for k, v in node.attrib.items() if k not in _OTHERWISE}
    if node.tag == f"{SCHEMA}channel":
        del said["type"]  # the tool knows that of ports
    placeholder = {"value": "1", "metric": "us"}
    inside = [
        canonical(n) for n in node if not (n.tag == f"{SCHEMA}deadline" and n.attrib == placeholder)
    ]
    return node.tag, sorted(said.items()), (node.text or "").strip(), sorted(inside, key=repr)


def both(flow: Path) -> tuple[ElementTree.Element, ElementTree.Element]:
    """The algorithm of a text, and that of its project in the form of the tool as HOPES gives it to
    its translator."""
    made = export_project(flow, flow.parent / "cic", platform="two")
    tool = export_project(flow, flow.parent / "tool", platform="two", form="project")
    path = translated(tool.directory / f"{tool.project.name}.files", flow.parent / "there")
    return ElementTree.parse(
        path.with_name(f"{made.project.name}_algorithm.xml")
    ).getroot(), ElementTree.parse(made.directory / f"{made.project.name}_algorithm.xml").getroot()


def test_the_tool_says_the_same_to_its_translator(write: Write) -> None:
    found, wanted = both(write(TEXT, count_c=CODE))
    assert canonical(found) == canonical(wanted)


@pytest.mark.parametrize("seed", [0, 10])
def test_random_projects_do_as_well(tmp_path: Path, seed: int) -> None:
    flow = random_system(seed, tmp_path)
    assert flow is not None
    found, wanted = both(flow)
    assert canonical(found) == canonical(wanted)


def test_it_comes_back(write: Write) -> None:
    flow = write(TEXT, count_c=CODE)
    made = export_project(flow, flow.parent / "tool", platform="two", form="project")
    done = flowc.import_(made.directory, flow.parent / "back" / "back.flow")
    assert not [w for w in done.warnings if "attribute" in w.message]
    back = flowc.check(done.target)
    assert back.ok and done.target.read_text().count("-> latest ->") == 1
    assert sorted(a.period_ns or 0 for a in back.system.apps) == [4 * 10**6, 10**7]
    assert (done.target.parent / "two.flow").exists()


def test_the_verb_has_a_form(write: Write) -> None:
    flow = write(TEXT, count_c=CODE)
    words = [
        "export",
        str(flow),
        "--format",
        "hopes",
        "--platform",
        "two",
        "-o",
        str(flow.parent / "out"),
    ]
    done = CliRunner().invoke(command, [*words, "--form", "project"])
    assert done.exit_code == 0, done.output
    assert {p.name for p in (flow.parent / "out").iterdir()} >= {"app", "app.files"}
    for wrong in (["--form", "project", "--policy", "self-timed"], ["--form", "other"]):
        assert CliRunner().invoke(command, [*words, *wrong]).exit_code == 2
