"""The second translator of HOPES as a referee: CICtoSDF3Translator, which its tool asks for
schedules.

    python tests/referees/hopes_sdf3.py [SOURCES]

takes it and the libraries that it needs, which are compiled there, of cap-lab/HOPES at commit
bd0c1ec: of a clone, or of SOURCES or the folder that FLOWC_HOPES_TOOL names, a working tree or a
git directory. It needs a JDK (17 is what was tried) and git. Nothing of it belongs to flowc: it is
kept in the user's cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as Xml
from pathlib import Path

from limits import HANGS

COMMIT = "bd0c1ec"
ADDRESS = "https://github.com/cap-lab/HOPES"
_ROOM = "HOPES_UI/uem_ui_lib/"
_JARS = (
    "CICtoSDF3Translator-1.4.0-SNAPSHOT.jar",
    "CICXML4JAVA-1.4.0-SNAPSHOT.jar",
    "SDFGraph-1.4.0-SNAPSHOT.jar",
    "activation-1.1.jar",
    "crimson-1.1.3.jar",
    "jakarta.xml.bind-api-2.3.2.jar",
    "jaxb-impl-2.0.5.jar",
)
_OPEN = (
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-exports=java.xml/com.sun.org.apache.xerces.internal.dom=ALL-UNNAMED",
)
_RUN = """
import org.snu.cse.cap.cic.analysis.CICtoSDF3Translator;
public class Run {
    public static void main(String[] words) throws Exception {
        CICtoSDF3Translator translator = new CICtoSDF3Translator(words[0]);
        translator.parse();
        translator.checkSDF();
        translator.generateSDF3Files();
        System.exit(0);
    }
}
"""
#: Where it writes, below a project that is named by a relative path.
_OUT = "convertedSDF3xml./convertedSDF3xml"
_NAMESPACE = "{http://peace.snu.ac.kr/CICXMLSchema}"


class Missing(Exception):
    """There is no referee here; the message says why."""


def home() -> Path:
    """Where it is kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "flowc" / f"hopes-tool-{COMMIT}"


def referee() -> Path:
    """The translator, which `fetch` has taken, or takes now of what FLOWC_HOPES_TOOL names. Raises
    Missing."""
    if shutil.which("java") is None:
        raise Missing("there is no java")
    if not (home() / "ready").exists():
        given = os.environ.get("FLOWC_HOPES_TOOL")
        if not given:
            raise Missing(
                "HOPES' second translator is not here: `python tests/referees/hopes_sdf3.py` fetches it"
            )
        fetch(Path(given))
    return home()


def fetch(sources: Path | None = None) -> Path:
    """Take what is needed into the cache, of these sources or of a clone. Raises Missing."""
    if shutil.which("javac") is None:
        raise Missing("there is no JDK: `apt install openjdk-17-jdk-headless`")
    home().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home().parent) as folder:
        place = Path(folder) / "made"
        place.mkdir()
        if sources is None:
            sources = Path(folder) / "clone"
            said = subprocess.run(
                ["git", "clone", "-q", ADDRESS, str(sources)], check=False, timeout=10 * HANGS
            )
            if said.returncode:
                raise Missing(f"{ADDRESS} cannot be cloned")
        for jar in _JARS:
            (place / jar).write_bytes(_content(sources, jar))
        (place / "Run.java").write_text(_RUN)
        made = _java("javac", place, str(place / "Run.java"), "-d", str(place))
        if made.returncode:
            raise Missing(f"its start does not compile: {made.stderr[-2000:]}")
        (place / "ready").touch()
        shutil.rmtree(home(), ignore_errors=True)
        place.rename(home())
    return home()


def _content(sources: Path, jar: str) -> bytes:
    plain = sources / _ROOM / jar
    if plain.is_file() and not (sources / ".git").exists():
        return plain.read_bytes()
    where = [d for d in (sources, sources / ".git", *sources.glob("*")) if (d / "HEAD").exists()]
    command = [
        "git",
        f"--git-dir={where[0] if where else sources}",
        "cat-file",
        "blob",
        f"{COMMIT}:{_ROOM}{jar}",
    ]
    said = subprocess.run(command, capture_output=True, check=False, timeout=HANGS)
    if said.returncode:
        raise Missing(f"{sources} has no {jar} in commit {COMMIT}")
    return said.stdout


def _java(
    tool: str, place: Path, *words: str, cwd: Path | None = None, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    path = ":".join(map(str, [place, *(place / jar for jar in _JARS)]))
    command = [tool, *options, "-cp", path, *words]
    return subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=HANGS,
    )


def translate(project: Path, name: str) -> dict[str, Path]:
    """The graphs of a project in CIC XML as files of SDF3, by their names. AssertionError with its
    words if not."""
    place = referee()
    _with_profile(project, name)
    (project / _OUT).mkdir(parents=True, exist_ok=True)
    quick = ("-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *_OPEN)
    said = _java("java", place, "Run", f"./{name}", cwd=project, options=quick)
    found = {path.name.partition(",")[0]: path for path in sorted((project / _OUT).glob("*.xml"))}
    assert found and "Exception" not in said.stderr + said.stdout, (said.stdout + said.stderr)[
        -4000:
    ]
    return found


def _with_profile(project: Path, name: str) -> None:
    """It wants times of all tasks: 1 us where the project has none."""
    path = project / f"{name}_profile.xml"
    if path.exists():
        return
    said = (
        Xml.parse(project / f"{name}_algorithm.xml")
        .getroot()
        .iterfind(f"{_NAMESPACE}tasks/{_NAMESPACE}task")
    )
    kinds = (
        Xml.parse(project / f"{name}_architecture.xml").getroot().iter(f"{_NAMESPACE}elementType")
    )
    kind = next(k.get("name", "") for k in kinds if k.get("category") == "processor")
    time = f'<mode name="Default"><profile processorType="{kind}" value="1" unit="us"/></mode>'
    tasks = "".join(
        f'<task name="{t.get("name")}">{time}</task>' for t in said if t.get("hasSubGraph") == "No"
    )
    path.write_text(f'<CIC_Profile xmlns="{_NAMESPACE[1:-1]}">{tasks}</CIC_Profile>')


if __name__ == "__main__":
    print(fetch(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
