"""What an architecture, a mapping or a profile of HOPES says wrongly, and what an import makes of
it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from flowc.interop.hopes import importer as hopes
from flowc.model.diagnostic import Errors

from hopes_cic import translated

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
    assert tasks == [
        line for line in hopes.read(DOORBELL, "door").text.splitlines() if not line.startswith("//")
    ]
    assert told in [w.message for w in found.warnings]
    assert bool(found.platform) == (told != "this architecture has no processor that flowc knows")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("(<device .*?</device>)", r"\1\1", "two devices are called `Door_Board`"),
        ("(<element [^>]*/>)", r"\1\1", "two elements of a device are called `arm_0`"),
    ],
)
def test_names_of_an_architecture_are_different(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    with pytest.raises(Errors) as raised:
        hopes.read(edited(tmp_path, "Doorbell", old, new), "door")
    first = raised.value.diagnostics[0]
    assert (
        (first.code, first.message) == ("F721", told)
        and first.span is not None
        and first.span.line > 1
    )


@pytest.mark.parametrize("form", ["tool", "translator"])
@pytest.mark.parametrize(
    ("hardware", "kinds", "told"),
    [
        ('Platform="ALL" ProcessorType="GPU"', {"gpu"}, ""),
        ('Platform="ALL" ProcessorType="CPU"/><hardware ProcessorType="GPU"', {"cpu", "gpu"}, ""),
        ('ProcessorType="ALL"', {"cpu", "gpu"}, ""),
        ('Platform="WINDOWS" ProcessorType="CPU"', {"cpu"}, "it needs `WINDOWS`"),
        (
            'ProcessorType="QUANTUM"',
            {"cpu", "gpu"},
            "a processor type of its hardware dependency is not known",
        ),
    ],
)
def test_tasks_have_times_where_they_may_run(
    tmp_path: Path, form: str, hardware: str, kinds: set[str], told: str
) -> None:
    words = '<parameter name="IsDependency" value="Yes"/></config>'
    place = f"<HardwareDependency><hardware {hardware}/></HardwareDependency></task>"
    project = edited(
        tmp_path, "Doorbell.files/Camera_1/CICTask/task.xml", '(<task name="Cam1_Log".*?)</config>(.*?)</task>',
        rf"\1{words}\2{place}",
    )  # fmt: skip
    times = "".join(
        f'<profile processorType="{kind}" value="3" unit="ms"/>' for kind in ("arm_0", "cuda_1")
    )
    (project / "Doorbell.files/Doorbell_profile.xml").write_text(
        f'<CIC_Profile><task name="Camera_1_Cam1_Log"><mode name="Default">{times}</mode></task></CIC_Profile>'
    )
    if form == "translator":
        project = translated(project / "Doorbell.files", tmp_path / "cic").parent
    found = hopes.read(project, "door")
    (log,) = [t for t in found.times if t.names[-1] == "Log" and "Camera_1_Cam1_Log" in t.names]
    assert log.costs.keys() == kinds
    warnings = [
        w.message for w in found.warnings if "Log" in w.message and ("hardware" in w.message)
    ]
    assert len(warnings) == bool(told) and all(told in w for w in warnings)
