"""A package adds formats to `import` and `export` by entry points."""

from __future__ import annotations

from pathlib import Path

import flowc
import pytest
from flowc.model.diagnostic import Errors

from builds import Write

TEXT = "task T { out x: int64 }\ntask U { in x: int64 }\napp A { t: T  u: U  t -> u }\n"
CODE = """
from flowc.interop.registry import Exported, Exporter, Imported, Importer

def read(request):
    return Imported({request.target.name: request.path.read_text().split("---")[1]})

def write(source, app):
    return Exported("A", "---" + ", ".join(t.name for a in source.whole.apps for t in a.tasks) + "---")

plain = Importer("plain", "texts between lines", lambda path: path.suffix == ".plain", read)
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
