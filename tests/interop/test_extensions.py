"""A package adds formats to `import` and `export` by entry points."""

from __future__ import annotations

from pathlib import Path

import flowc
import pytest
from flowc.cli import app
from flowc.interop.registry import importers
from flowc.model.diagnostic import Errors
from typer.testing import CliRunner

from builds import Write

TEXT = "task T { out x: int64 }\ntask U { in x: int64 }\napp A { t: T  u: U  t -> u }\n"
CODE = """
from flowc.interop.registry import Exported, Exporter, Folder, Imported, Importer, Option, Target

def read(request):
    part = int(request.options.get("part", str) or 1)
    return Imported({request.target.name: request.path.read_text().split("---")[part]})

def make(order):
    return Folder(order.path.parent, True, (), {"directory": str(order.path.parent)}, ("  made",))

def write(source, app):
    return Exported("A", "---" + ", ".join(t.name for a in source.whole.apps for t in a.tasks) + "---")

part = Option("part", "which of the texts", metavar="NUMBER")
plain = Importer("plain", "texts between lines", lambda path: path.suffix == ".plain", read, (part,))
greedy = Importer("greedy", "everything", lambda path: True, read)
folder = Target("plain-folder", "nothing at all", make)
to_plain = Exporter("plain", "names of tasks", ".plain", write)
thief = Exporter("sdf3", "something else", ".xml", write)
nothing = 3
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package, as pip would install it; its entry points are still to be said."""
    folder = tmp_path / "site"
    (folder / "plainly-1.0.dist-info").mkdir(parents=True)
    (folder / "plainly.py").write_text(CODE)
    (folder / "plainly-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: plainly\nVersion: 1.0\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    return folder / "plainly-1.0.dist-info" / "entry_points.txt"


def test_a_package_adds_formats(
    package: Path, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    package.write_text(
        "[flowc.formats]\nreads = plainly:plain\nwrites = plainly:to_plain\nsdf3 = plainly:thief\n"
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.plain").write_text(f"---{TEXT}---")
    assert flowc.import_("graph.plain").target == Path("graph.flow")
    assert [a.name for a in flowc.load("graph.flow").apps] == ["A"]
    assert flowc.export("graph.flow", "plain").text == "---A.t, A.u---"
    # formats of flowc stay what they are
    assert flowc.export("graph.flow", "sdf3").text.startswith("<?xml")


@pytest.mark.parametrize("name", ["gone", "nothing"])
def test_a_package_that_is_broken_is_named(
    package: Path, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    package.write_text(f"[flowc.formats]\nodd = plainly:{name}\n")
    with pytest.raises(Errors) as caught:
        flowc.export(write(TEXT), "sdf3")
    (fault,) = caught.value.diagnostics
    assert fault.code == "F739" and "`plainly`" in fault.message and fault.help is not None


def test_options_and_targets_of_a_package_are_those_of_verbs(
    package: Path, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    package.write_text("[flowc.formats]\nreads = plainly:plain\nbuilds = plainly:folder\n")
    monkeypatch.chdir(tmp_path)
    Path("graph.plain").write_text(f"---nothing---{TEXT}---")
    assert "--part NUMBER" in _said("import", "--help") and "which of the texts" in _said(
        "import", "--help"
    )
    _said("import", "graph.plain", "--part", "2")
    assert [a.name for a in flowc.load("graph.flow").apps] == ["A"]
    assert "no effect for texts between lines" in _said(
        "import", "graph.plain", "--state", "x", status=2
    )
    assert "plain-folder" in _said("build", "--help")
    assert _said("build", "graph.flow", "--target", "plain-folder").endswith("  made\n")
    assert "plain-folder" in _said("build", "graph.flow", "--target", "other", status=2)


def test_a_package_takes_no_file_away(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked after formats of flowc, but before the one that takes every file."""
    package.write_text("[flowc.formats]\na = plainly:greedy\n")
    names = [importer.name for importer in importers()]
    assert names == ["darknet", "hopes", "jedi", "preesm", "greedy", "sdf3"]


def test_an_option_that_no_format_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'stat'"):
        flowc.import_(tmp_path / "a.xml", stat="x")


def test_a_broken_package_stops_only_the_verbs_that_need_formats(
    package: Path, tmp_path: Path, write: Write
) -> None:
    package.write_text("[flowc.formats]\nodd = plainly:gone\n")
    text = str(write(TEXT))
    _said("fmt", text)
    assert "F739" in _said("export", text, status=1)
    assert "F739" in _said("import", text, status=1)


def _said(*words: str, status: int = 0) -> str:
    """What the command line answers, on both streams."""
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == status, done.output
    return done.output
