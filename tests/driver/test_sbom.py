"""The bill of materials of a build: valid, complete, and the same bytes again."""

from __future__ import annotations

import hashlib
import json
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from flowc.cli import app
from flowc.driver.build.sbom import bill_of_materials
from flowc.model.version import __version__
from typer.testing import CliRunner, Result

from builds import ROOT, Write, build
from native_compiler import in_a_hurry

DIGITS = ROOT / "examples" / "digits" / "digits.flow"
SPOTTER = ROOT / "examples" / "spotter" / "native.flow"
IN_C = """
task Make { out x: int32  c "t.c:make"  wcet 1 us }
task Take { in x: int32   c "t.c:take"  wcet 1 us }
app A { m: Make  t: Take  m -> t }
"""
CODE = """#include "t.flow.h"
int make(void *state, int32_t *x, const make_params *p) { *x = 1; return 0; }
int take(void *state, const int32_t *x, const take_params *p) { return 0; }
"""
ENDS = """
task Take { in x: int32  out y: int32  python "t.py:same"  wcet 1 us }
app A { in frame: int32  out seen: int32  t: Take  frame -> t -> seen }
"""
RIG = """
task Make { out x: int32  python "t.py:make"  wcet 1 us }
task Take { in x: int32   python "t.py:take"  wcet 1 us }
app A { m: Make  t: Take  m -> t }
platform pair {
  machine front { cpu core }
  machine back { cpu core }
  link front back 1 GB/s 20 us
}
mapping on pair { A.m -> front.core  A.t -> back.core }
"""


@pytest.fixture(autouse=True)
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["build", *map(str, words), "--no-measure"])


def valid(file: Path) -> dict[str, Any]:
    """The document, held against the schema of CycloneDX."""
    # here, for it takes seconds, and every process of the tests imports this module
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read_text()) is None
    document: dict[str, Any] = json.loads(file.read_text())
    references = [part["bom-ref"] for part in document["components"]]
    assert len(set(references)) == len(references)
    depends = {entry["ref"]: entry["dependsOn"] for entry in document["dependencies"]}
    assert {r for below in depends.values() for r in below} == set(references)
    return document


def files_in(document: dict[str, Any]) -> dict[str, str]:
    """The SHA-256 of each file."""
    parts = [
        part
        for component in document["components"]
        for part in (component, *component.get("components", ()))
    ]
    return {part["name"]: part["hashes"][0]["content"] for part in parts if "hashes" in part}


def components(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {part["name"]: part for part in document["components"]}


def test_a_program_with_a_network(tmp_path: Path) -> None:
    out, bill = tmp_path / "out", tmp_path / "bill.cdx.json"
    done = call(DIGITS, "-o", out, "--sbom", bill, "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["sbom"] == str(bill)
    document = valid(bill)
    (tool,) = document["metadata"]["tools"]["components"]
    assert (tool["name"], tool["version"]) == ("flowc", __version__)
    assert "timestamp" not in document["metadata"]
    about = {p["name"]: p["value"] for p in document["metadata"]["component"]["properties"]}
    assert about["flowc:digest"] == json.loads(done.stdout)["digest"]

    listed = components(document)
    for package in ("numpy", "onnxruntime"):
        found = listed[package]
        assert found["version"] == metadata.version(package) and found["licenses"]
        assert found["purl"] == f"pkg:pypi/{package}@{found['version']}"
        texts = [x["license"]["text"]["content"] for x in found["evidence"]["licenses"]]
        assert any("Permission is hereby granted" in t or "Redistribution" in t for t in texts)
    assert listed["protobuf"]["version"] == metadata.version("protobuf")  # of onnxruntime
    assert "properties" not in listed["protobuf"]
    assert listed["networks/digits.onnx"]["type"] == "machine-learning-model"
    assert listed["flowc-runtime"]["licenses"] == [{"expression": "MIT"}]

    digests = files_in(document)
    manifest = json.loads((out / ".flowc-manifest.json").read_text())
    assert set(digests) == set(manifest["files"])
    for name, digest in digests.items():
        assert digest == hashlib.sha256((out / name).read_bytes()).hexdigest()


def test_the_same_build_gives_the_same_bytes(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = write(IN_C, t_c=CODE)
    bills = []
    for name in ("one", "other"):
        assert call(flow, "-o", tmp_path / name, "--sbom", tmp_path / f"{name}.json").exit_code == 0
        bills.append((tmp_path / f"{name}.json").read_bytes())
    assert bills[0] == bills[1]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert call(flow, "-o", tmp_path / "one", "--sbom", tmp_path / "dated.json").exit_code == 0
    dated = valid(tmp_path / "dated.json")
    assert dated["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert dated["serialNumber"] != json.loads(bills[0])["serialNumber"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    refused = call(flow, "-o", tmp_path / "one", "--sbom", tmp_path / "dated.json")
    assert refused.exit_code == 2 and "SOURCE_DATE_EPOCH" in refused.output


@pytest.mark.parametrize(
    ("target", "text", "expected"),
    [
        ("program", IN_C, {"c/t.c", "main.py"}),
        ("native", IN_C, {"c/t.c", "main.cpp", "native/run.hpp", "main"}),
        ("dora", ENDS, {"module.yml"}),
        ("ros2", ENDS, {"package.xml"}),
        ("program", RIG, {"parts/front/main.py", "parts/back/runtime/transport.py"}),
    ],
    ids=["C", "native", "dora", "ros2", "machines"],
)
def test_every_kind_of_program(
    target: str, text: str, expected: set[str], write: Write, tmp_path: Path, shared: Path
) -> None:
    python = "def make(): return 1\ndef same(x): return x\ndef take(x): pass\n"
    flow = write(text, t_c=CODE, t_py=python)
    platform = ["--platform", "pair"] if text is RIG else []
    bill = tmp_path / "bill.json"
    with in_a_hurry(shared) if target == "native" else nullcontext():
        done = call(flow, "-o", tmp_path / "out", "--target", target, "--sbom", bill, *platform)
    assert done.exit_code == 0, done.output
    document = valid(bill)
    assert expected <= set(files_in(document))
    runtime = components(document)["flowc-runtime"]["components"]
    assert {"runtime", "native"} >= {Path(part["name"]).parent.name for part in runtime}
    needed = {"dora": {"numpy", "dora-rs"}, "machines": {"numpy", "pyzmq"}}
    wanted = needed.get("machines" if text is RIG else target, {"numpy"})
    packages = {p["name"] for p in document["components"] if "purl" in p and "properties" in p}
    assert packages == (set() if target == "native" else wanted)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("MIT License", {"id": "MIT"}),
        ("MIT", {"id": "MIT"}),
        ("Apache 2.0", {"id": "Apache-2.0"}),
        ("Apache License, Version 2.0", {"id": "Apache-2.0"}),
        ("3-Clause BSD License", {"id": "BSD-3-Clause"}),
        ("BSD-3-Clause", {"id": "BSD-3-Clause"}),
        ("The 2-Clause BSD License", {"id": "BSD-2-Clause"}),
        ("Mozilla Public License 2.0 (MPL 2.0)", {"id": "MPL-2.0"}),
        ("BSD License", {"name": "BSD License"}),  # which of them?
        ("MIT or Apache 2.0", {"name": "MIT or Apache 2.0"}),
    ],
)
def test_licenses_have_identifiers_where_these_are_known(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, found: dict[str, str]
) -> None:
    package = tmp_path / "site" / "stranger-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(f"Name: stranger\nVersion: 1.0\nLicense: {words}\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    out = tmp_path / "out"
    out.mkdir()
    (out / "deployment.json").write_text('{"name": "a", "source": "a.flow", "platform": "host"}')
    (out / "requirements.txt").write_text("stranger\n")
    manifest = {"version": 1, "files": ["deployment.json", "requirements.txt"]}
    (out / ".flowc-manifest.json").write_text(json.dumps(manifest))
    listed = components(json.loads(bill_of_materials(out, "0" * 64)))
    assert listed["stranger"]["licenses"] == [{"license": found}]


def test_a_native_program_has_the_libraries_that_it_is_linked_with(
    tmp_path: Path, shared: Path
) -> None:
    out, bill = tmp_path / "out", tmp_path / "bill.json"
    with in_a_hurry(shared):
        done = call(SPOTTER, "-o", out, "--target", "native", "--sbom", bill)
    assert done.exit_code == 0, done.output
    document = valid(bill)
    packages = [part for part in document["components"] if "purl" in part]
    assert [part["name"] for part in packages] == ["onnxruntime"]
    assert packages[0]["version"] == metadata.version("onnxruntime")
    assert packages[0]["licenses"] == [{"license": {"id": "MIT"}}]
    assert packages[0]["bom-ref"] in document["dependencies"][0]["dependsOn"]


def test_a_package_that_is_not_installed_has_no_version(write: Write, tmp_path: Path) -> None:
    out = build(write(IN_C, t_c=CODE), tmp_path / "out")
    (out / "requirements.txt").write_text("# none\nno-such-package>=1  # or another\nnumpy\n")
    bill = tmp_path / "bill.json"
    bill.write_text(bill_of_materials(out, "0" * 64))
    missing = components(valid(bill))["no-such-package"]
    assert "version" not in missing and missing["purl"] == "pkg:pypi/no-such-package"
    assert missing["properties"][0]["value"] == "no-such-package>=1"


def test_other_targets_have_none(write: Write, tmp_path: Path) -> None:
    flow = write(IN_C, t_c=CODE)
    refused = call(flow, "--target", "fmu", "--graph", "A", "--sbom", tmp_path / "bill.json")
    assert refused.exit_code == 2 and "--sbom" in refused.output
    assert not (tmp_path / "bill.json").exists()
