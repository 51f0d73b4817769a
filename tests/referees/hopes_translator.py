"""HOPES' own translator as a referee: built once, then it makes C programs of projects, and gcc
builds them.

    python tests/referees/hopes_translator.py [SOURCES]

builds it from the sources of cap-lab/CodeGeneration at commit 23d492b, which are cloned, or lie in
SOURCES or in the folder that FLOWC_HOPES names: a working tree or a git directory. It needs a JDK
(17 is what was tried), git and gcc. Nothing of it belongs to flowc: it is kept in the user's cache.
The sources lack one library, Ptolemy; the few classes of it that the translator loads are stood in
for here, and only arithmetic of theirs is ever called. One line is added to HOPES' own code,
without which programs with static orders may never end (`_MENDED`).
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

COMMIT = "23d492b"
ADDRESS = "https://github.com/cap-lab/CodeGeneration"
#: Counts what is changed in the sources below, so that an older build is not taken for this one.
_BUILD = 2
#: Seconds after which a generated program hangs, however busy the machine is.
HANGS = 120
#: The folder with the schemas of HOPES' XML.
_SCHEMAS = "cicxmls/trunk/"
_ROOMS = ("UEMTranslator/", "UEMLibraryCode/", "JavaLibraries/", _SCHEMAS)
_JARS = (
    "cicxml.jar",
    "jaxb-api.jar",
    "jaxb-impl.jar",
    "javax.activation-1.2.0.jar",
    "freemarker.jar",
    "repo/mapss/dif/mapss/0.0.0/mapss-0.0.0.jar",
    "repo/mocgraph/mocgraph/0.0.0/mocgraph-0.0.0.jar",
)
_OPEN = (
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-exports=java.xml/com.sun.org.apache.xerces.internal.dom=ALL-UNNAMED",
)

#: Classes that are named and never used: what they extend.
_EMPTY = {
    "ptolemy.kernel.Entity": "",
    "ptolemy.kernel.ComponentEntity": "Entity",
    "ptolemy.kernel.CompositeEntity": "ComponentEntity",
    "ptolemy.actor.AtomicActor": "ptolemy.kernel.ComponentEntity",
    "ptolemy.actor.CompositeActor": "ptolemy.kernel.CompositeEntity",
    "ptolemy.actor.Director": "",
}
#: Whole numbers and fractions, as far as schedules and repetition vectors ask for them.
_ARITHMETIC = {
    "ptolemy.math.ExtendedMath": """
        public static int gcd(int first, int second) {
            int a = Math.abs(first), b = Math.abs(second);
            while (b != 0) { int rest = a % b; a = b; b = rest; }
            return a;
        }
    """,
    "ptolemy.math.Fraction": """
        private final int above, below;
        public Fraction() { this(0, 1); }
        public Fraction(int whole) { this(whole, 1); }
        public Fraction(int numerator, int denominator) {
            int common = Math.max(1, gcd(numerator, denominator)) * (denominator < 0 ? -1 : 1);
            above = numerator / common;
            below = denominator / common;
        }
        public static int gcd(int a, int b) { return ExtendedMath.gcd(a, b); }
        public static int lcm(int a, int b) { return a / gcd(a, b) * b; }
        public int getNumerator() { return above; }
        public int getDenominator() { return below; }
        public Fraction add(Fraction o) { return new Fraction(above * o.below + o.above * below, below * o.below); }
        public Fraction multiply(Fraction o) { return new Fraction(above * o.above, below * o.below); }
        public Fraction divide(Fraction o) { return new Fraction(above * o.below, below * o.above); }
        public boolean equals(Object o) {
            return o instanceof Fraction && ((Fraction) o).above == above && ((Fraction) o).below == below;
        }
        public int hashCode() { return 31 * above + below; }
    """,
}

#: By file: a line, and what is put in front of it. With static orders and a number of iterations,
#: the first processor to finish asks all others to stop, and the main thread collects it within 100
#: ms. Another processor that is then still in its last iteration asks the same a second time, also
#: of the thread that is gone: that thread is "stopping" again, no thread ends it, and the program
#: waits for it for ever.
_MENDED = {
    "UEMLibraryCode/src/kernel/unconstrained/UKCPUCompositeTaskManager.c": (
        "\tresult = UKCPUTaskCommon_CheckTaskState(pstTaskThread->enTaskState, pstUserData->enTaskState);\n",
        "\tif(pstUserData->enTaskState == TASK_STATE_STOPPING && pstTaskThread->bIsThreadFinished == TRUE)"
        " return ERR_UEM_NOERROR;\n",
    )
}


#: Translates one project after another: a line with the translator's arguments is answered by what
#: it prints, and a last line that ends in 0 unless it raised something. The translator keeps
#: nothing between two projects (it has no static variables but constants); the files that it leaves
#: open are closed with its garbage.
_MANY = r"""
    public static void main(String[] none) throws Exception {
        java.io.BufferedReader in = new java.io.BufferedReader(new java.io.InputStreamReader(System.in, "UTF-8"));
        System.setErr(System.out);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            int status = 0;
            try {
                Translators.CodeGenerator.main(line.split("\t"));
            } catch (Throwable why) {
                why.printStackTrace();
                status = 1;
            }
            System.gc();
            System.out.println();
            System.out.println("\u0004" + status);
            System.out.flush();
        }
    }
"""


class Missing(Exception):
    """There is no referee here; the message says why."""


def home() -> Path:
    """Where the built translator is kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "flowc" / f"hopes-{COMMIT}-{_BUILD}"


def referee() -> Path:
    """The translator, which `build` has made, or makes now of the sources in FLOWC_HOPES. Raises
    Missing."""
    lacking = [name for name in ("java", "gcc") if shutil.which(name) is None]
    if lacking:
        raise Missing(f"there is no {' and no '.join(lacking)}")
    if not (home() / "ready").exists():
        given = os.environ.get("FLOWC_HOPES")
        if not given:
            raise Missing(
                "HOPES' translator is not built: `python tests/referees/hopes_translator.py` does it"
            )
        build(Path(given))
    return home()


def schemas() -> Path:
    """The folder with HOPES' schemas, of the built translator or of the sources in FLOWC_HOPES.
    Raises Missing."""
    built = home() / _SCHEMAS
    if (home() / "ready").exists():
        return built
    given = os.environ.get("FLOWC_HOPES")
    if not given:
        raise Missing(
            "HOPES' schemas are not here: `python tests/referees/hopes_translator.py` fetches them"
        )
    alone = home().with_name(f"{home().name}-schemas")
    if not alone.exists():
        home().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home().parent) as folder:
            for path, content in _content(Path(given), (_SCHEMAS,)):
                (Path(folder) / Path(path).name).write_bytes(content)
            shutil.copytree(folder, alone)
    return alone


# -- building --------------------------------------------------------------------------------------
def build(sources: Path | None = None) -> Path:
    """Compile the translator into the cache, from these sources or from a clone. Raises Missing."""
    if shutil.which("javac") is None:
        raise Missing("there is no JDK: `apt install openjdk-17-jdk-headless`")
    home().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home().parent) as folder:
        place = Path(folder) / "made"
        place.mkdir()
        if sources is None:
            sources = Path(folder) / "clone"
            said = _run(["git", "clone", "-q", ADDRESS, str(sources)])
            if said.returncode:
                raise Missing(f"{ADDRESS} cannot be cloned: {said.stderr.strip()}")
        for path, content in _content(sources):
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(_mended(path, content))
        _compile(place)
        (place / "ready").touch()
        shutil.rmtree(home(), ignore_errors=True)
        place.rename(home())
    return home()


def _content(sources: Path, rooms: tuple[str, ...] = _ROOMS) -> Iterator[tuple[str, bytes]]:
    """The files that are needed, of a folder or of a git directory; some of the latter may be
    absent from it."""
    if (sources / "UEMTranslator").is_dir() and not (sources / ".git").exists():
        for path in (
            p for room in rooms for p in sorted((sources / room).rglob("*")) if p.is_file()
        ):
            yield path.relative_to(sources).as_posix(), path.read_bytes()
        return
    where = [d for d in (sources, sources / ".git", *sources.glob("*")) if (d / "HEAD").exists()]
    if not where:
        raise Missing(f"{sources} holds no sources of HOPES' translator")
    git = ["git", f"--git-dir={where[0]}"]
    listing = _run([*git, "ls-tree", "-r", "-z", COMMIT])
    if listing.returncode:
        raise Missing(f"{where[0]} has no commit {COMMIT}")
    for line in filter(None, listing.stdout.split("\0")):
        about, name = line.split("\t", 1)
        if name.startswith(rooms):
            blob = subprocess.run(
                [*git, "cat-file", "blob", about.split()[2]],
                capture_output=True,
                check=False,
                timeout=HANGS,
            )
            if blob.returncode == 0:
                yield name, blob.stdout


def _mended(path: str, content: bytes) -> bytes:
    """What is compiled of a file of HOPES. Raises Missing where it is not the one that is known."""
    if path not in _MENDED:
        return content
    line, added = (words.encode() for words in _MENDED[path])
    plain = content.replace(b"\r\n", b"\n")
    if plain.count(line) != 1:
        raise Missing(f"{path} is not that of commit {COMMIT}")
    return plain.replace(line, added + line)


def _compile(place: Path) -> None:
    stand_ins = place / "stand-ins"
    for name, extends in _EMPTY.items():
        _java(stand_ins, name, "", extends)
    for name, body in _ARITHMETIC.items():
        _java(stand_ins, name, body)
    listener = "ptolemy.kernel.util.DebugListener"
    _java(stand_ins, listener, kind="interface")
    _java(stand_ins, "ptolemy.kernel.util.StreamListener", implements=listener)
    director = "public SDFDirector(ptolemy.kernel.CompositeEntity in, String name) {}"
    _java(stand_ins, "ptolemy.domains.sdf.kernel.SDFDirector", director, "ptolemy.actor.Director")
    scheduler = f"""
        public SDFScheduler(ptolemy.actor.Director of, String name) {{}}
        public void addDebugListener({listener} who) {{}}
        public int getFiringCount(ptolemy.kernel.Entity of) {{ return 0; }}
    """
    _java(stand_ins, "ptolemy.domains.sdf.kernel.SDFScheduler", scheduler)
    files = [
        str(p)
        for top in (stand_ins, place / "UEMTranslator/src")
        for p in sorted(top.rglob("*.java"))
    ]
    (place / "UEMTranslator/bin").mkdir()
    command = ["javac", "-nowarn", "-encoding", "UTF-8", _OPEN[1], "-cp", _class_path(place), "-d"]
    said = _run([*command, str(place / "UEMTranslator/bin"), *files])
    if said.returncode:
        raise Missing(f"HOPES' translator does not compile: {said.stderr[-2000:]}")


def _java(
    folder: Path,
    name: str,
    body: str = "",
    extends: str = "",
    implements: str = "",
    kind: str = "class",
) -> None:
    package, _, simple = name.rpartition(".")
    path = folder / f"{name.replace('.', '/')}.java"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"public {kind} {simple}" + (f" extends {extends}" if extends else "")
    head += f" implements {implements}" if implements else ""
    path.write_text(f"package {package};\n{head} {{ {body} }}\n")


def _class_path(place: Path) -> str:
    jars = [place / "JavaLibraries/jars" / jar for jar in _JARS]
    return ":".join(
        map(
            str,
            [place / "UEMTranslator/bin", *jars, place / "UEMTranslator/jars/commons-cli-1.4.jar"],
        )
    )


def _run(
    command: list[str], cwd: Path | None = None, seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds,
    )


# -- using -----------------------------------------------------------------------------------------
def translate(project: Path, name: str, iterations: int) -> Path:
    """The program that HOPES makes of a project in CIC XML, as a folder of C. AssertionError with
    its words if not."""
    place = referee()
    configuration = project / f"{name}_configuration.xml"
    text = re.sub(
        r'metric="count" value="\d+"',
        f'metric="count" value="{iterations}"',
        configuration.read_text(),
    )
    configuration.write_text(text)
    words = [str(place / "UEMTranslator"), str(project.resolve() / name), str(project.resolve())]
    good, log = _translator().run(words)
    made = [p.parent for p in sorted(project.glob("*/Makefile.am"))]
    assert good and "Exception" not in log and made, log[-4000:]
    return made[0]


class _Translator:
    """A process of Java that translates one project after another."""

    def __init__(self, place: Path) -> None:
        self._command = [
            "java",
            "-Xshare:auto",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            *_OPEN,
        ]
        self._command += ["-cp", f"{place / 'many'}:{_class_path(place)}", "Many"]
        self._process: subprocess.Popen[str] | None = None
        atexit.register(self.close)

    def run(self, words: list[str]) -> tuple[bool, str]:
        """Did it translate the project, and what it printed. It ends where the translator ends it:
        so the next one is new."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace",
            )  # fmt: skip
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        print("\t".join(words), file=process.stdin, flush=True)
        said: list[str] = []
        for line in process.stdout:
            if line.startswith("\x04"):
                return line == "\x040\n", "".join(said)
            said.append(line)
        self.close()
        return False, "".join(said)

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate(timeout=HANGS)


@functools.cache
def _translator() -> _Translator:
    """The one of this process. Raises Missing."""
    place = referee()
    if not (place / "many/Many.class").exists():
        if shutil.which("javac") is None:
            raise Missing("there is no JDK: `apt install openjdk-17-jdk-headless`")
        with tempfile.TemporaryDirectory(dir=place) as folder:
            source = Path(folder) / "Many.java"
            source.write_text(f"public class Many {{ {_MANY} }}\n")
            said = _run(["javac", "-cp", _class_path(place), "-d", folder, str(source)])
            assert said.returncode == 0, said.stderr
            (place / "many").mkdir(exist_ok=True)
            os.replace(source.with_suffix(".class"), place / "many/Many.class")
    return _Translator(place)


def counts(program: Path) -> dict[str, int]:
    """Firings of each task in an iteration, as HOPES counts them."""
    found = {}
    for path in sorted(program.rglob("uem_data.c*")):
        for m in re.finditer(
            r"g_astTaskIteration_(\w+)\[\] = \{(.*?)\};", path.read_text(), re.DOTALL
        ):
            found[m.group(1)] = int(re.findall(r"(-?\d+), // iteration count", m.group(2))[0])
    return found


def count_as(program: Path, firings: dict[str, int]) -> None:
    """Let tasks stop after so many firings in an iteration, where HOPES counts others.

    In a graph of two tasks it forgets the loops around loops of their schedule
    (`handleScheduleElement`).
    """
    for path in sorted(program.rglob("uem_data.c*")):
        text = path.read_text()
        for task, count in firings.items():
            head = rf"(g_astTaskIteration_{task}\[\] = \{{.*?)-?\d+(, // iteration count)"
            text = re.sub(head, rf"\g<1>{count}\2", text, count=1, flags=re.DOTALL)
        path.write_text(text)


def compiled(program: Path, flags: tuple[str, ...] = ("-O1", "-w")) -> Path:
    """Compile and link what `translate` made, as its Makefile.am says. AssertionError with gcc's
    words if not."""
    text = (program / "Makefile.am").read_text().replace("\\\n", " ")
    said = {
        m[1]: m[2] for m in re.finditer(r"^\s*([A-Za-z_]\w*)\s*=[ \t]*(.*)$", text, re.MULTILINE)
    }

    def expanded(words: str) -> list[str]:
        for _ in range(20):
            words = re.sub(r"\$[({](\w+)[)}]", lambda m: said.get(m[1], "."), words)
        return words.replace("$$", "$").replace("'", "").split()

    sources = [s for s in expanded("$(proc_SOURCES)") if s != "."]
    given = [f for f in expanded("$(proc_CFLAGS)") if f not in ("-I", ".")]
    linked = [f for f in expanded("$(proc_LDFLAGS)") if f != "."]
    sizes = "".join(
        f"#define HAVE_{w} 1\n" for w in ("STDLIB_H", "MEMSET", "MALLOC", "REALLOC", "PRINTF")
    )
    (program / "config.h").write_text(sizes + "#define SIZEOF_SIZE_T 8\n#define SIZEOF_VOID_P 8\n")
    objects = _library(
        flags,
        program,
        given,
        [s for s in sources if "/application/" not in s and "/generated/" not in s],
    )
    own = [s for s in sources if "/application/" in s or "/generated/" in s]
    command = [
        "gcc",
        "-DHAVE_CONFIG_H",
        *flags,
        "-I.",
        "-Isrc/application",
        *given,
        "-pthread",
        *own,
        *objects,
    ]
    made = _run([*command, "-o", "proc", *linked, "-lm"], program)
    assert made.returncode == 0, made.stderr[-4000:]
    return program / "proc"


def _library(
    flags: tuple[str, ...], program: Path, given: list[str], sources: list[str]
) -> list[str]:
    """HOPES' own sources, which are the same in each program: compiled once for each set of flags
    and headers."""
    key = json.dumps([flags, given, sources])
    place = home() / "objects" / hashlib.sha256(key.encode()).hexdigest()[:16]
    if not place.exists():
        with tempfile.TemporaryDirectory(dir=home()) as folder:
            for source in sources:
                target = Path(folder) / re.sub(r"\W", "_", source.removesuffix(".c"))
                command = [
                    "gcc",
                    "-DHAVE_CONFIG_H",
                    *flags,
                    "-I.",
                    *given,
                    "-pthread",
                    "-c",
                    source,
                    "-o",
                    f"{target}.o",
                ]
                said = _run(command, program)
                assert said.returncode == 0, said.stderr[-4000:]
            place.parent.mkdir(exist_ok=True)
            shutil.copytree(folder, place)
    return [str(p) for p in sorted(place.glob("*.o"))]


def output(program: Path, seconds: float = HANGS) -> list[str]:
    """What a compiled program prints, but for HOPES' own lines."""
    said = _run(["./proc"], program.parent, seconds)
    assert said.returncode == 0, said.stderr[-2000:]
    return [line for line in said.stdout.splitlines() if not line.startswith("Elapsed time")]


def main() -> int:
    """Build it and say where it is."""
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("FLOWC_HOPES")
    try:
        print(build(Path(given) if given else None))
    except Missing as why:
        print(why, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
