"""What flowc says about faulty texts: one small text per fault in `faulty/`, and what flowc prints
beside it.

`FLOWC_REWRITE_GOLDEN=1 pytest tests/cli/test_diagnostics.py` rewrites the expected texts and
docs/generated/diagnostics.md: read the difference before you keep it. `FLOWC_FUZZ=5000` searches longer, and
elsewhere each time.
"""

from __future__ import annotations

import json
import os
import re
import resource
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flowc
import pytest
from flowc.cli import app
from flowc.cli._diagnostics import render
from flowc.codegen.nvrtc import libraries
from flowc.driver.measure import measure as measuring
from flowc.driver.text.check import Checked
from flowc.model.catalogue import CODES
from flowc.model.span import Span
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from builds import HANGS, SHORT, build

HERE = Path(__file__).resolve().parents[1]
FAULTY = HERE / "faulty"
DOCS = HERE.parent / "docs"
REWRITE = bool(os.environ.get("FLOWC_REWRITE_GOLDEN"))
EXAMPLES = sorted(path.stem for path in FAULTY.glob("F*.flow"))
#: No .flow text leads to these: the tests in tests/interop/ cover what is said about files of other
#: tools, and tests/driver/test_extras.py what is said where something is not installed.
NOT_FROM_TEXT = {
    "F414",
    "F739",
    "F541",
    "F615",
    "F619",
    "F620",
    "F621",
    "F622",
    "F623",
    "F640",
    "F641",
    "F642",
    "F643",
    "F644",
    "F645",
    "F646",
    "F647",
    "F648",
    "F649",
    "F650",
    "F651",
    "F653",
    "F654",
    "F655",
    "F656",
    "F657",
    "F701",
    "F702",
    "F703",
    "F704",
    "F705",
    "F706",
    "F707",
    "F708",
    "F720",
    "F721",
    "F722",
    "F726",
    "F727",
    "F724",
    "F730",
    "F731",
    "F732",
    "F733",
    "F734",
    "F735",
    "F736",
    "F737",
    "F738",
}
#: The last line of an example may say how flowc is called; without it, `flowc check` reads the
#: example.
COMMAND = re.compile(rb"\n// \$ (.*)\s*\Z")


# -- examples --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the examples, since builds write beside them."""
    return Path(shutil.copytree(FAULTY, tmp_path_factory.mktemp("faulty") / "faulty"))


@pytest.fixture
def examples(copied: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The copied examples as the working directory, so that messages show paths that are the same
    everywhere."""
    monkeypatch.chdir(copied)
    for name in ("CC", "CFLAGS"):
        monkeypatch.delenv(name, raising=False)
    # A compiler speaks the language of its user.
    monkeypatch.setenv("LC_ALL", "C")
    return copied


def command_of(stem: str) -> str:
    """How flowc is called for an example."""
    given_command = COMMAND.search((FAULTY / f"{stem}.flow").read_bytes())
    return given_command[1].decode() if given_command else f"flowc check {stem}.flow"


def flowc_says(command: str) -> Result:
    """Run `VARIABLE=value flowc verb ...` in this process."""
    words = shlex.split(command)
    program = words.index("flowc")
    environment = dict(word.split("=", 1) for word in words[:program])
    return CliRunner().invoke(app, words[program + 1 :], env=environment)


def matches(expected: str, actual: str) -> bool:
    """Equal, where a line of `...` stands for any lines: what compilers and Python say changes with
    their versions."""
    lines = (
        "(.*\n)*?" if line.strip(" |") == "..." else re.escape(line + "\n")
        for line in expected.splitlines()
    )
    return re.fullmatch("".join(lines), actual) is not None


@pytest.mark.parametrize("stem", EXAMPLES)
def test_a_faulty_text_is_explained(
    stem: str, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "SHORT", SHORT)
    if stem == "F306_compiler" and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    if stem == "F310_compiler" and not libraries():
        pytest.skip("there is no compiler for CUDA: install the extra `cuda`")
    result = flowc_says(command_of(stem))
    said = result.stderr.rstrip("\n") + "\n"
    golden = FAULTY / f"{stem}.txt"
    expected = golden.read_text() if golden.exists() else ""
    if REWRITE and not matches(expected, said):
        golden.write_text(said)
        expected = said
    assert matches(expected, said), f"expected\n{expected}\ninstead of\n{said}"
    found = re.findall(r"^(error|warning)\[(\w+)\]", said, re.MULTILINE)
    codes = {code for _, code in found}
    assert codes <= CODES.keys()
    assert stem[:4] in codes
    assert codes - {stem[:4]} <= set(), "an example shows one fault"
    refused = "error" in {severity for severity, _ in found} or re.search(
        r"^  \S+ +no  |^\S+ +too late ", result.stdout, re.MULTILINE
    )
    assert result.exit_code == (1 if refused else 0), result.stdout


def test_every_code_has_an_example() -> None:
    assert {stem[:4] for stem in EXAMPLES} == CODES.keys() - NOT_FROM_TEXT


def test_every_expected_text_has_its_example() -> None:
    assert {path.stem for path in FAULTY.glob("*.txt")} == set(EXAMPLES)


def test_the_page_of_diagnostics_is_up_to_date() -> None:
    page = runpy.run_path(str(DOCS / "make_diagnostics.py"))["page"]()
    target = DOCS / "generated" / "diagnostics.md"
    if REWRITE:
        target.write_text(page)
    assert target.read_text() == page, "run `python docs/make_diagnostics.py`"


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_explained(code: str) -> None:
    result = flowc_says(f"flowc explain {code.lower()}")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{code}: {CODES[code][0]}\n\n")
    assert json.loads(flowc_says(f"flowc explain {code} --json").stdout)["title"] == CODES[code][0]


def test_explaining_an_unknown_code_is_wrong_usage() -> None:
    result = flowc_says("flowc explain F999")
    assert result.exit_code == 2
    assert "F999" in result.stderr


# -- several faults at once ------------------------------------------------------------------------
FIVE = """\
type Frame = uint8[480, 640
task Camera { out frame: Frame }
task Scale { in frame  out small: unit8[4, 4] }
task Print { in small rate 0 }
app Viewer {
    period 20 sec
    camera: Camera
    print: Pirnt
}
"""


def call(*arguments: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """flowc as a program of its own."""
    command = [sys.executable, "-m", "flowc", *arguments]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=HANGS, check=False, **options
    )


def test_all_faults_of_a_text_are_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "five.flow").write_text(FIVE)
    monkeypatch.chdir(tmp_path)
    done = flowc_says("flowc check five.flow --json")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert document["ok"] is False
    places = [(d["code"], d["line"]) for d in document["diagnostics"] if d["severity"] == "error"]
    assert places == [("F001", 1), ("F101", 3), ("F107", 4), ("F104", 6), ("F101", 8)]
    assert {d["file"] for d in document["diagnostics"]} == {"five.flow"}
    for code, line in places:
        assert re.search(rf"error\[{code}\].*\n +--> five\.flow:{line}:", done.stderr)
    assert done.stderr.rstrip().endswith("5 errors")


# -- no text at all --------------------------------------------------------------------------------
NO_TEXT: dict[str, tuple[str, Callable[[Path], object]]] = {
    "empty.flow": ("F004", lambda path: path.write_bytes(b"")),
    "binary.flow": ("F003", lambda path: path.write_bytes(bytes(range(256)) * 8)),
    "zeros.flow": ("F003", lambda path: path.write_bytes(b"\0" * 100)),
    "folder.flow": ("F002", lambda path: path.mkdir()),
    "missing.flow": ("F002", lambda path: None),
    "missing/app.flow": ("F002", lambda path: None),
    "file.txt/app.flow": ("F002", lambda path: path.parent.write_text("a file, no folder")),
}


@pytest.mark.parametrize("verb", ["check", "show", "build", "run", "test", "headers", "fmt"])
@pytest.mark.parametrize("name", NO_TEXT)
def test_every_verb_refuses_what_is_no_text(
    verb: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (verb, name) == ("fmt", "empty.flow"):
        pytest.skip("an empty text is well formatted")
    code, make = NO_TEXT[name]
    make(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    result = flowc_says(f"flowc {verb} {name}")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error[{code}]")
    assert "Traceback" not in result.stderr


# -- an output that cannot be written --------------------------------------------------------------
def _contents(folder: Path) -> dict[str, bytes]:
    found = (p for p in sorted(folder.rglob("*")) if p.is_file() and "__pycache__" not in p.parts)
    return {str(p.relative_to(folder)): p.read_bytes() for p in found}


def _tiny_files() -> None:
    """A file system that is full after 4 KiB, which stops root as well."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_nothing_half_written_remains_where_no_build_was(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FAULTY / "files", tmp_path / "files"))
    build(folder / "viewer.flow", folder / "good")
    before = _contents(folder)
    done = call("build", "viewer.flow", "-o", "new/bad", cwd=folder, preexec_fn=_tiny_files)
    assert done.returncode == 1
    assert done.stderr.startswith("error[F605]: cannot write `new/bad`: File too large")
    assert _contents(folder) == before
    assert not (folder / "new" / "bad").exists()


def test_nothing_half_written_remains_where_a_build_was(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FAULTY / "files", tmp_path / "files"))
    text = folder / "viewer.flow"
    build(text, folder / "good")
    text.write_text(
        text.read_text().replace("app Viewer", "/// Shows what the camera sees.\napp Viewer")
    )
    before = _contents(folder)
    done = call("build", "viewer.flow", "-o", "good", cwd=folder, preexec_fn=_tiny_files)
    assert done.returncode == 1
    assert done.stderr.startswith("error[F605]")
    assert _contents(folder) == before
    build(text, folder / "good")


# -- random texts ----------------------------------------------------------------------------------
VALID = """\
/// A text that uses most of the language.
use "other.flow"
const DIGITS = 5
type Frame = uint8[48, 32 * DIGITS]
type Sample = float32
task Camera(source: string = "demo", size: int = 2) { out frame: Frame rate size * 2 - 3 stateless }
task Mix { in a: Sample rate [2, 1]  in b: Sample  out c: Sample rate [0 for 1, 3]  wcet [5, 7] us }
task Window { in pcm: Sample rate 4  out block: float32[4]  state last: Sample  c "dsp.c:window" }
task Grey { in frame: Frame  out grey: Frame  on cpu python "vision.py:grey" }
task Up { in x rate 2  out y rate 3  wcet 5 us }
task Down { in y rate 3  out x rate 2  wcet 2 us }
task Print { in frame: Frame }
graph Front(n: int = 2) {
    in raw: Frame
    out small: Frame
    grey[n]: Grey
    raw -> grey[0] -> grey[1] -> small
}
network Net from "linear.onnx" {
    in x: float32[1, 4] from "input"
    out y from "output"
    precision fp16
}
/// Shows what it sees.
app Viewer {
    period 1/30 s
    deadline 20 ms
    priority 3
    camera: Camera(source = "door", size = 2)
    front: Front(n = 2)
    print: Print
    camera -> front.raw
    front -> print.frame
}
app Loop {
    up: Up
    down: Down
    up -> down -> delay 2 = [0.5, 1] -> up
}
platform board {
    cpu core[4] scheduler fixed_priority frequencies [1.2, 2.4] GHz
    gpu volta memory 8 GiB
    dla nvdla[2] engines 4 total
    contention gpu by dla 1.13
}
mapping on board {
    Viewer.camera -> core[0] wcet 2 ms
    Viewer.front.grey[0] -> core[1]
    Loop.up -> core[2], core[3] buffers 2
}
"""
#: Tokens of a text, spaces and comments among them.
TOKEN = re.compile(r'\s+|//[^\n]*|"[^"\n]*"|\w+(?:\.\d+)?|->|.')
PIECES = [token for token in TOKEN.findall(VALID) if not token.isspace()]
WORDS = sorted(
    {
        *PIECES,
        *"{}()[]:,.=|+-*/;#'\"@~`",
        "->",
        "=>",
        "true",
        "index",
        "-1",
        "0",
        "1e3",
        "variant",
        "event",
    }
)
WORDS += [
    "scenario",
    "pre",
    "post",
    "until",
    "streams",
    "calibrate",
    "batch",
    "for",
    "ä",
    "\t",
    "\r\n",
    "\f",
    "\u2028",
]
FUZZ = settings(
    max_examples=int(os.environ.get("FLOWC_FUZZ", "150")),
    derandomize="FLOWC_FUZZ" not in os.environ,
    database=None,
)


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Checked]:
    """Checks a text that stands beside the files that VALID names."""
    for name in ("vision.py", "dsp.c", "linear.onnx"):
        shutil.copy(FAULTY / "files" / name, tmp_path / name)
    (tmp_path / "other.flow").write_text("const OTHER = 1\n")
    (tmp_path / "dsp.c").write_text(
        "int window(void *state, const float *pcm, float *block) { return 0; }\n"
    )
    monkeypatch.chdir(tmp_path)

    def check(text: str) -> Checked:
        Path("app.flow").write_bytes(text.encode())
        return flowc.check("app.flow")

    return check


def _well_placed(found: Checked) -> None:
    """Every diagnostic can be drawn, and what it points at stands in the text."""
    for diagnostic in found.diagnostics:
        assert diagnostic.code in CODES
        assert render(diagnostic, found.system.sources)
        for span in (diagnostic.span, *(note.span for note in diagnostic.notes)):
            if span is not None:
                _inside(span, found.system.sources[span.file].split("\n"))


def _inside(span: Span, lines: list[str]) -> None:
    assert 1 <= span.line <= span.end_line <= len(lines), span
    assert 1 <= span.column <= len(lines[span.line - 1]) + 1, span
    assert 1 <= span.end_column <= len(lines[span.end_line - 1]) + 1, span
    assert (span.line, span.column) <= (span.end_line, span.end_column), span


def test_the_text_to_mutate_is_faultless(checked: Callable[[str], Checked]) -> None:
    assert checked(VALID).diagnostics == ()


@FUZZ
@given(words=st.lists(st.sampled_from(WORDS), max_size=60))
def test_token_soup_never_crashes(checked: Callable[[str], Checked], words: list[str]) -> None:
    _well_placed(checked(" ".join(words)))


@FUZZ
@given(data=st.data())
def test_a_mutated_text_never_crashes(
    checked: Callable[[str], Checked], data: st.DataObject
) -> None:
    tokens = TOKEN.findall(VALID)
    places = [i for i, token in enumerate(tokens) if not token.isspace()]
    for _ in range(data.draw(st.integers(1, 4))):
        at, other = data.draw(st.sampled_from(places)), data.draw(st.sampled_from(places))
        match data.draw(st.sampled_from(["delete", "double", "swap", "replace"])):
            case "delete":
                tokens[at] = " "
            case "double":
                tokens[at] += " " + tokens[at]
            case "swap":
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case _:
                tokens[at] = data.draw(st.sampled_from(WORDS))
    _well_placed(checked("".join(tokens)))


@FUZZ
@given(text=st.text(st.characters(codec="utf-8"), max_size=80))
def test_arbitrary_text_never_crashes(checked: Callable[[str], Checked], text: str) -> None:
    _well_placed(checked(text))


# -- hostile texts ---------------------------------------------------------------------------------
def _chain(kind: str, last: str, length: int = 3000) -> str:
    return (
        "".join(f"{kind} A{i} = A{i + 1}\n" for i in range(length)) + f"{kind} A{length} = {last}\n"
    )


LONG = "a" * 5000
HOSTILE = {
    "a zero byte in the path of an include": r'use "\u0000"',
    "half a character in the path of an include": r'use "\ud800"',
    "half a character in the path of code": r'task A { out x: int8  python "\ud800.py:f" }',
    "a zero byte in the path of a network": r'network N from "\u0000.onnx"',
    "a long path of an include": f'use "{LONG}"',
    "a long path of code": f'task A {{ out x: int8  python "{LONG}.py:f" }}',
    "a long path of a network": f'network N from "{LONG}"',
    "a long path of a parameter": f'task T(f: file) {{ }} app A {{ t: T(f = "{LONG}") }}',
    "a folder for a network": 'network N from "."',
    "a folder for code": 'task A { out x: int8  python ".:f" }',
    "many parentheses": f"const A = {'(' * 5000}1{')' * 5000}",
    "many summands": f"const A = 1{' + 1' * 5000}",
    "many signs": f"const A = {'- ' * 5000}1",
    "a long chain of constants": _chain("const", "1"),
    "a long chain of types": _chain("type", "int8", 800),
    "a large rate": "task T { in x rate 1e5000  out y } app A { t: T  t -> delay 1 -> t }",
    "a large negative dimension": "task T { in x: int8[-1e5000] }",
    "a large time": "task T { out x  wcet 1e5000 s } app A { period 1 ms  t: T }",
    "a large delay": "task T { in x  out y } app A { t: T  t -> delay 1e15 -> t }",
    "a large array": "task T { } app A { t[1e15]: T }",
    "many phases": "task T { in x rate [1 for 1e15] }",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_text_never_crashes(what: str, checked: Callable[[str], Checked]) -> None:
    _well_placed(checked(HOSTILE[what]))


def test_a_network_that_contradicts_itself_is_damaged(checked: Callable[[str], Checked]) -> None:
    shutil.copy(FAULTY / "files" / "contradiction.onnx", "contradiction.onnx")
    assert [d.code for d in checked('network Net from "contradiction.onnx"').diagnostics] == [
        "F402"
    ]


def test_what_is_printed_steers_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "red.flow").write_bytes(b"task A { \x1b[31m in x: \x07Foo }")
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f]", call("check", "red.flow", cwd=tmp_path).stderr
    )
