"""What an architecture, a mapping or a profile of HOPES says wrongly, and what an import makes of it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from flowc.interop.hopes import importer as hopes
from flowc.model.diagnostic import Errors

DOORBELL = Path(__file__).resolve().parents[1] / "data/hopes/Doorbell"
MAPPING = "Doorbell.files/Doorbell_mapping.xml"
PROFILE = "Doorbell.files/CICTask/face_profile.xml"


def edited(folder: Path, file: str, old: str, new: str) -> Path:
    """The project with an expression replaced in a file, everywhere."""
    project = shutil.copytree(DOORBELL, folder / "Doorbell")
    text = (project / file).read_text()
    found = re.sub(old, new, text, flags=re.DOTALL)
    assert found != text
    (project / file).write_text(found)
    return project


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        (MAPPING, 'device name="Door_Board"', 'device name="Other"',
         "`Other`: the architecture has no device of that name: processors are found by their own names"),
        (PROFILE, ' unit="us"', "", "`Pre`, `conv1`, `conv2`, `conv3` and 7 more: times of a profile without a unit are taken as us"),
        ("Doorbell", "<element [^>]*/>", "", "this architecture has no processor that flowc knows"),
    ],
)  # fmt: skip
def test_the_application_stays(tmp_path: Path, file: str, old: str, new: str, told: str) -> None:
    found = hopes.read(edited(tmp_path, file, old, new), "door")
    tasks = [line for line in found.text.splitlines() if not line.startswith("//")]
    assert tasks == [line for line in hopes.read(DOORBELL, "door").text.splitlines() if not line.startswith("//")]
    assert told in [w.message for w in found.warnings]
    assert bool(found.platform) == (told != "this architecture has no processor that flowc knows")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("(<device .*?</device>)", r"\1\1", "two devices are called `Door_Board`"),
        ("(<element [^>]*/>)", r"\1\1", "two elements of a device are called `arm_0`"),
    ],
)
def test_names_of_an_architecture_are_different(tmp_path: Path, old: str, new: str, told: str) -> None:
    with pytest.raises(Errors) as raised:
        hopes.read(edited(tmp_path, "Doorbell", old, new), "door")
    first = raised.value.diagnostics[0]
    assert (first.code, first.message) == ("F721", told) and first.span is not None and first.span.line > 1
