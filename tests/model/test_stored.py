"""Files that an older flowc stored are read, and those of a later one are refused by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import flowc
import pytest
from flowc.driver.build.build import Built
from flowc.driver.show.reporting import RunFiles, report
from flowc.model.diagnostic import Errors
from flowc.model.mapping import MAPPING_VERSION, Mapping

from builds import ROOT, run

STORED = ROOT / "tests" / "data" / "stored" / "1"
DESK: Any = {"platform": "desk"}
LATER = "version is 2; expected a {} of version 1: a later flowc wrote it"
#: The version of a stored file of today.
TODAY = {"profile": 1, "mapping": MAPPING_VERSION}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The text of the stored files, with profile and mapping beside it."""
    for name in ("app.flow", "app.py"):
        shutil.copy(STORED / name, tmp_path)
    for kind in ("profile", "mapping"):
        shutil.copy(STORED / f"{kind}.json", tmp_path / f"app.desk.{kind}.json")
    return tmp_path / "app.flow"


def built_now(flow: Path) -> Built:
    return flowc.build(flow, flow.parent / "out", measure=False, **DESK)


def of_the_build(flow: Path, name: str, **others: Any) -> Path:
    """A stored file of a run, as one of the program that is built today."""
    document = json.loads((STORED / name).read_text())
    digest = built_now(flow).digest
    if name == "trace.json":
        document["otherData"] |= {"build": digest, **others}
    else:
        document |= {"build": digest, **others}
    file = flow.with_name(name)
    file.write_text(json.dumps(document))
    return file


def without_version(file: Path) -> Path:
    """The same from before runs said their version."""
    document = json.loads(file.read_text())
    del document.get("otherData", document)["version"]
    file.write_text(json.dumps(document))
    return file


def with_version(file: Path, version: int) -> None:
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | {"version": version}))


def refused(flow: Path, **options: Any) -> str:
    with pytest.raises(Errors) as caught:
        report(flow, **DESK, **options)
    return caught.value.diagnostics[0].message


def test_profile_and_mapping(old: Path) -> None:
    built = built_now(old)
    assert not built.diagnostics
    assert set(built.times.values()) == {"estimated"}
    places = {p.task: p.processors for p in built.mapping.placements}
    assert places["Old.show"] == ("core[1]",) and places["Old.sum"] == ("core[0]",)


@pytest.mark.parametrize("kind", ["profile", "mapping"])
def test_a_profile_or_a_mapping_of_a_later_version(old: Path, kind: str) -> None:
    today = TODAY[kind]
    with_version(old.with_name(f"app.desk.{kind}.json"), today + 1)
    said = built_now(old).diagnostics[0]
    later = f"version is {today + 1}; expected a {kind} of version {today}: a later flowc wrote it"
    assert said.severity == "warning" and later in said.message


def test_bounds_of_the_first_version_have_the_condition_of_an_older_flowc(old: Path) -> None:
    file = old.with_name("app.desk.mapping.json")
    document = json.loads(file.read_text())
    bound = {"app": "Old", "response_ns": 5, "deadline_ns": 9, "schedulable": True, "paths": []}
    flags = {"conditional": False, "niceness": False, "interpreter": True}
    assert document["version"] == 1
    mapping, _ = Mapping.from_json(json.dumps(document | {"groups": [{**bound, **flags}]}))
    assert [condition.name for condition in mapping.groups[0].conditions] == ["older"]


@pytest.mark.parametrize("said", [True, False], ids=["version 1", "from before"])
def test_report_and_trace_of_a_run(old: Path, said: bool) -> None:
    files = [of_the_build(old, name) for name in ("run.json", "trace.json")]
    if not said:
        files = [without_version(file) for file in files]
    found = report(old, **DESK, run=RunFiles(*files)).document
    assert found.apps[0].frames == 20
    assert found.measured is not None and len(found.measured.frames) == 20


def test_report_and_trace_of_a_later_version(old: Path) -> None:
    run_file = of_the_build(old, "run.json", version=2)
    assert LATER.format("report of a run") in refused(old, run=RunFiles(run_file))
    trace = of_the_build(old, "trace.json", version=2)
    assert LATER.format("trace") in refused(old, run=RunFiles(trace=trace))


@pytest.mark.parametrize(("name", "what"), [("report.json", "report"), (".", "deployment")])
def test_pages_and_builds_to_compare_with(old: Path, name: str, what: str) -> None:
    for file in ("report.json", "deployment.json"):
        shutil.copy(STORED / file, old.parent)
    found = report(old, **DESK, compare=old.parent / name).document.compare
    assert found is not None
    assert {(d.name, d.there) for d in found.differences if d.what == "processors"} == {
        ("Old.show", "core[0]")
    }
    with_version(old.with_name(f"{what}.json"), 2)
    assert LATER.format(what) in refused(old, compare=old.parent / name)


def test_a_build_of_a_later_version_is_not_overwritten(old: Path) -> None:
    directory = built_now(old).directory
    with_version(directory / ".flowc-manifest.json", 2)
    with pytest.raises(Errors) as caught:
        built_now(old)
    assert caught.value.diagnostics[0].code == "F604"
    assert flowc.build(old, directory, measure=False, force=True, **DESK).fresh


def test_the_log_of_a_later_version_is_not_replayed(tmp_path: Path) -> None:
    flow = tmp_path / "app.flow"
    shutil.copy(STORED / "app.py", tmp_path)
    states = "scenario S { event go  initial state one { run Old }  state two { run Old }  one -> two on go }\n"
    flow.write_text((STORED / "app.flow").read_text() + states)
    log = tmp_path / "log.json"
    log.write_text(json.dumps({"stays": [{"state": "one", "frames": {"Old": 3}}]}))
    words = ("--replay", str(log), "--quiet", "--report", str(tmp_path / "r.json"))
    directory = built_now(flow).directory
    assert run(directory, *words).returncode == 0
    assert json.loads((tmp_path / "r.json").read_text())["apps"]["Old"]["frames"] == 3
    with_version(log, 2)
    done = run(directory, *words)
    assert done.returncode == 2 and "its version is 2" in done.stderr
