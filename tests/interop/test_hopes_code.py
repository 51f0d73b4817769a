"""The code of HOPES tasks in flowc: what runs as it is, what is refused and why, and what is said
when it fails."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import flowc
import pytest
from flowc.cli import app as cli
from flowc.codegen.in_c import compile_command
from flowc.driver.build.headers import headers_of
from flowc.interop.hopes import importer as hopes
from flowc.model.diagnostic import Errors
from flowc.runtime.code import C
from flowc.runtime.tokens import Port, TaskError
from typer.testing import CliRunner

from builds import build, harness, run
from hopes_cic import translated
from hopes_xml import composite, level, task
from limits import HANGS

MIXER = Path(__file__).resolve().parents[1] / "data/hopes/Mixer"
PLAIN = "TASK_CODE_BEGIN\nTASK_INIT { }\nTASK_GO { }\nTASK_WRAPUP { }\nTASK_CODE_END\n"
SOURCE = """STATIC int port_out;
TASK_INIT { port_out = PORT_INITIALIZE(TASK_ID, "out"); }
TASK_GO { int value = 7; MQ_SEND(port_out, &value, 4); }
TASK_WRAPUP { }
"""
SINK = """#include <stdio.h>
STATIC int port_in;
TASK_INIT { port_in = PORT_INITIALIZE(TASK_ID, "in"); }
TASK_GO { int value; MQ_RECEIVE(port_in, &value, 4); printf("%s %d\\n", TASK_NAME, value); }
TASK_WRAPUP { }
"""


# -- helpers ---------------------------------------------------------------------------------------
def imported(project: Path, folder: Path) -> hopes.ImportedProject:
    """The project with its code, as files in a folder."""
    found = hopes.read(project, "app")
    for name, content in {"app.flow": found.text, **found.files, **found.code.files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return found


def pair(
    folder: Path, source: str = SOURCE, sink: str = SINK, *, size: int = 4, more: str = ""
) -> Path:
    """A project of two tasks, with the code of both."""
    project = folder / "Pair.files" / "CICTask"
    tasks = [task("Source", outs=f"out:{size}:1", more=more, CICFile="Source.cic", Language="C")]
    tasks += [task("Sink", f"in:{size}:1", CICFile="Sink.cic", Language="C")]
    level(project, tasks, "Source.out>Sink.in")
    (project / "Source.cic").write_text(source)
    (project / "Sink.cic").write_text(sink)
    return project.parent


def refused(project: Path) -> str:
    """Why the code of `Source` is not imported, as it is said at the task."""
    (found,) = (
        d for d in hopes.read(project, "app").warnings if "code is not imported" in d.message
    )
    assert found.code == "F722" and found.span is not None and found.span.file.endswith("task.xml")
    assert found.help == "fill in the stub"
    return found.message.partition("code is not imported: ")[2]


def failure(folder: Path) -> str:
    """What `Source` says when it fires alone."""
    source = folder / "app_c" / "Source.c"
    source.with_suffix(".flow.h").write_text(
        headers_of(folder / "app.flow")[source.with_suffix(".flow.h")]
    )
    subprocess.run(
        ["cc", *compile_command("Source.c")[2:]], cwd=source.parent, check=True, timeout=HANGS
    )
    code = C("Source.so", "Source_go")
    with pytest.raises(TaskError) as raised:
        code.open(str(source.parent), [], [Port("out", "uint8", (4,), (1,), False)])
        code.fire([], 0)
    return str(raised.value)


def test_what_no_option_switches_on_keeps_no_code_out(tmp_path: Path) -> None:
    """`DISPLAY` is defined nowhere, `SLOW` by a file of the project, `FAST` by a flag of its
    compiler."""
    code = "#ifdef DISPLAY\n#include <X11/Xlib.h>\n#else\n#include <stdio.h>\n#endif\n#if 0\n#include <no.h>\n#endif\n"
    assert set(hopes.read(pair(tmp_path / "a", code + SOURCE), "app").code.called) == {
        ("Source",),
        ("Sink",),
    }
    switched = pair(tmp_path / "b", f"#ifdef SLOW\n#include <slow.h>\n#endif\n{SOURCE}")
    (switched / "CICTask/own.h").write_text("#define SLOW 1\n")
    assert refused(switched) == "it includes `slow.h`, which is neither of C nor in the project"
    flagged = pair(tmp_path / "c", f"#ifdef FAST\n#include <fast.h>\n#endif\n{SOURCE}")
    path = flagged / "CICTask/task.xml"
    path.write_text(
        path.read_text().replace(
            "<config>", '<config><parameter name="CompileFlags" value="-DFAST"/>', 1
        )
    )
    assert refused(flagged) == "it includes `fast.h`, which is neither of C nor in the project"


def test_names_that_flags_define_are_defined(tmp_path: Path) -> None:
    project = pair(tmp_path, SOURCE.replace("= 7;", "= SEVEN + ONE;"))
    path = project / "CICTask/task.xml"
    flags = (
        '<config><parameter name="CompileFlags" value="-O3 -DSEVEN=7 -D ONE -Ino/-DX -DBAD=(1)"/>'
    )
    path.write_text(path.read_text().replace("<config>", flags, 1))
    source = str(imported(project, tmp_path).code.files["app_c/Source.c"])
    assert "#define SEVEN 7\n#define ONE 1\n#define TASK_NAME" in source and "BAD" not in source
    done = run(build(tmp_path / "app.flow", tmp_path / "build"), "--frames", "1", "--quiet")
    assert done.stdout.splitlines()[0] == "Sink 8"


def test_code_may_ask_for_the_mode_that_was_imported(tmp_path: Path) -> None:
    code = SOURCE.replace("int value = 7;", "int value = SYS_REQ(GET_CURRENT_MODE_NAME)[0];")
    project = pair(tmp_path, code)
    path = project / "CICTask/task.xml"
    modes = '<mtm><mode_list><mode name="Day"/><mode name="Night"/></mode_list></mtm>'
    path.write_text(
        path.read_text().replace(
            "<config>", f'{modes}<config><parameter name="HasMTM" value="Yes"/>', 1
        )
    )
    text = imported(project, tmp_path / "made").code.files["app_c/Source.c"]
    assert '#define CIC_MODE "Day"' in str(text)
    built = build(tmp_path / "made" / "app.flow", tmp_path / "build")
    assert run(built, "--frames", "1", "--quiet").stdout.splitlines()[0] == f"Sink {ord('D')}"


CPP = """#include <vector>
#include <string>
STATIC int port_out;
STATIC std::vector<int> seen;
class Twice { public: int of(int n) const { return 2 * n + BIAS; } };
TASK_INIT { port_out = PORT_INITIALIZE(TASK_ID, "out"); seen = { 3 }; }
TASK_GO { int value = Twice().of(seen.back()); seen.push_back(value); MQ_SEND(port_out, &value, 4); }
TASK_WRAPUP { }
"""


def in_cpp(folder: Path, code: str = CPP) -> Path:
    """A project whose source is C++, with a header that its code does not include itself."""
    project = pair(
        folder,
        code,
        more='<extraSetting_list><extraSetting type="Extra Header" name="CICTask/bias.h"/></extraSetting_list>',
    )
    path = project / "CICTask/task.xml"
    path.write_text(
        path.read_text().replace('name="Language" value="C"', 'name="Language" value="C++"', 1)
    )
    (project / "CICTask/bias.h").write_text("#define BIAS 1\n")
    return project


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_code_in_cpp_runs(tmp_path: Path) -> None:
    found = imported(in_cpp(tmp_path), tmp_path)
    assert (
        'c "app_c/Source.cpp:Source_go"' in found.text and 'c "app_c/Sink.c:Sink_go"' in found.text
    )
    done = run(build(tmp_path / "app.flow", tmp_path / "build"), "--frames", "3", "--quiet")
    assert done.stdout.splitlines()[:3] == ["Sink 7", "Sink 15", "Sink 31"], done.stderr
    headers = headers_of(tmp_path / "app.flow")
    assert {path.name for path in headers} == {"Source.flow.h", "Sink.flow.h"}
    assert all('#ifdef __cplusplus\nextern "C" {\n' in text for text in headers.values())


def test_cpp_needs_its_compiler_and_its_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = in_cpp(tmp_path / "a")
    (project / "CICTask/bias.h").unlink()
    assert refused(project) == "its header `CICTask/bias.h` is not in the project"
    (project / "Other").mkdir()  # HOPES puts all files into one folder
    (project / "Other/bias.h").write_text("#define BIAS 1\n")
    assert "Other/bias.h" in hopes.read(project, "app").code.files["app_c/Source.cpp"]
    assert refused(in_cpp(tmp_path / "b", f"#include <opencv2/opencv.hpp>\n{CPP}")).startswith(
        "it includes `opencv2/"
    )
    monkeypatch.setenv("PATH", "")
    assert refused(in_cpp(tmp_path / "c")) == "it is C++, and there is no g++ here"
    # What is C as well will do.
    assert ("Source",) in hopes.read(in_cpp(tmp_path / "d", SOURCE), "app").code.called


# -- the newest value ------------------------------------------------------------------------------
def newest(port: str, name: str, size: int) -> str:
    """A port that keeps the newest token."""
    return f'<{port}><port name="{name}" type="overwritable" sample_size="{size}" sample_rate="Variable"/></{port}>'


def test_buffers_between_apps_are_latest_and_their_code_runs(tmp_path: Path) -> None:
    """A writer that sends a part of a token every other time, and a reader that looks twice."""
    project = tmp_path / "Pair.files" / "CICTask"
    timed = {"RunCondition": "time-driven", "PeriodUnit": "ms", "Language": "C"}
    tasks = [
        task(
            "Camera",
            more=newest("outport_list", "image", 8),
            CICFile="Camera.cic",
            Period="2",
            **timed,
        )
    ]
    tasks += [
        task(
            "Robot", more=newest("inport_list", "seen", 8), CICFile="Robot.cic", Period="5", **timed
        )
    ]
    level(project, tasks, "Camera.image>Robot.seen")
    (project / "Camera.cic").write_text(
        'STATIC int port, n;\nTASK_INIT { port = PORT_INITIALIZE(TASK_ID, "image"); }\n'
        "TASK_GO { int value = 7; if (n++ % 2 == 0) BUF_SEND(port, &value, 4); }\n"
    )
    (project / "Robot.cic").write_text(
        '#include <stdio.h>\nSTATIC int port;\nTASK_INIT { port = PORT_INITIALIZE(TASK_ID, "seen"); }\n'
        "TASK_GO { int a[2], b; BUF_RECEIVE(port, a, 8); BUF_RECEIVE(port, &b, 4);\n"
        '  printf("%d\\n", a[0] == b && a[1] == 0 && (b == 0 || b == 7)); }\n'
    )
    found = imported(project.parent, tmp_path)
    assert "    DeepCamera.Camera -> latest -> Robot" in found.text and found.stubs[1] == ""
    assert not [w for w in found.warnings if "newest" in w.message]
    built = build(tmp_path / "app.flow", tmp_path / "build")
    done = run(built, "--frames", "4", "--quiet")
    assert done.returncode == 0 and set(done.stdout.split()) == {"1"}, done.stdout + done.stderr


def test_a_multicast_group_is_latest_for_each_reader(tmp_path: Path) -> None:
    def ports(name: str, way: str) -> str:
        end = f'<multicast_port name="{name}" groupName="music" direction="{way}"/>'
        return f"<multicast_port_list>{end}</multicast_port_list>"

    files = tmp_path / "Pair.files"
    tasks = [
        task("Play", more=ports("o", "OUT")),
        task("One", more=ports("i", "IN")),
        task("Two", more=ports("i", "IN")),
    ]
    level(files / "CICTask", tasks)
    path = files / "CICTask/task.xml"
    groups = (
        '<multicast_group_list><multicast_group name="music" size="300"/></multicast_group_list>'
    )
    path.write_text(path.read_text().replace("</cic_manual>", f"{groups}</cic_manual>"))
    for project in (files, translated(files, tmp_path / "cic")):
        found = hopes.read(project, "app")
        assert (
            found.text.count("latest ->") == 2 and "task Play { out o: uint8[300] }" in found.text
        )
        told = [w.message for w in found.warnings if "multicast" in w.message]
        assert told == ["multicast group `music`: readers get its newest message, all of 300 bytes"]


def test_buffers_inside_an_app_are_left_out(tmp_path: Path) -> None:
    files = tmp_path / "Pair.files"
    ends = newest("outport_list", "old", 4), newest("inport_list", "old", 4)
    tasks = [task("A", "", "o:4:1", ends[0]), task("B", "i:4:1", "", ends[1])]
    level(files / "CICTask", tasks, "A.o>B.i", "A.old>B.old")
    found = hopes.read(files, "app")
    (told,) = (w for w in found.warnings if "newest" in w.message)
    assert (
        told.message == "`A.old`: a channel that keeps the newest value is left out"
        and "latest" not in found.text
    )


# -- what runs -------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def mixer(tmp_path_factory: pytest.TempPathFactory) -> tuple[hopes.ImportedProject, Path]:
    """The import of a project in C, and its program."""
    folder = tmp_path_factory.mktemp("mixer")
    return imported(MIXER, folder), build(folder / "app.flow", folder / "out")


def test_code_runs_as_it_is(mixer: tuple[hopes.ImportedProject, Path]) -> None:
    found, out = mixer
    assert found.stubs[1] == "" and not [
        d for d in found.warnings if "code" in d.message or "librar" in d.message
    ]
    # Two copies of a composite keep a state each, so they are two graphs.
    assert re.findall("^graph (.*) {", found.text, re.MULTILINE) == ["Voice1", "Voice2"]
    assert "task Tone(step: int = 3, gain: float = 0.5) {" in found.text
    done = run(out, "--frames", "3", "--quiet")
    assert (done.stdout, done.returncode) == ("0 1104\n1500 1500\n1500 1500\nthat was all\n", 0), (
        done.stderr
    )
    done = run(out, "--frames", "2", "--quiet", "--set", "Mixer.Tone.step=-1000")
    assert done.stdout == "0 -400\n-800 -1200\nthat was all\n"


def test_the_reference_begins_anew(mixer: tuple[hopes.ImportedProject, Path]) -> None:
    """Its counters are static, and no TASK_INIT sets them."""
    done = harness(mixer[1])
    assert done.returncode == 0, done.stderr


def test_files_of_the_project_are_copied_as_they_are(tmp_path: Path) -> None:
    found = imported(MIXER, tmp_path)
    files = {
        p.relative_to(MIXER / "Mixer.files")
        for p in MIXER.rglob("*")
        if p.suffix in (".cic", ".cicl", ".h")
    }
    for file in files:
        assert (tmp_path / "app_c" / file).read_bytes() == (
            MIXER / "Mixer.files" / file
        ).read_bytes()
    own = {
        f"app_c/{name}"
        for name in (
            "cic.h",
            "Tone.c",
            "Mix.c",
            "Show.c",
            "Voice_1_V1_Count.c",
            "Voice_2_V2_Count.c",
        )
    }
    assert set(found.code.files) == own | {f"app_c/{file}" for file in files}
    assert hopes.read(MIXER, "app") == found


def test_the_command_says_what_was_made(tmp_path: Path) -> None:
    target = tmp_path / "mixer.flow"
    done = CliRunner().invoke(cli, ["import", str(MIXER), "-o", str(target)])
    assert done.exit_code == 0 and done.stdout == f"{target}\n"
    assert "flowc: 5 tasks have the project's own code, in mixer_c\n" in done.stderr
    assert not (tmp_path / "mixer_tasks.py").exists()
    assert flowc.check(target).ok
    again = CliRunner().invoke(cli, ["import", str(MIXER), "-o", str(target)])
    assert again.exit_code == 1 and "F604" in again.stderr
    assert (
        CliRunner().invoke(cli, ["import", str(MIXER), "-o", str(target), "--force"]).exit_code == 0
    )


def test_turns_of_a_loop_are_counted_and_its_borders_may_be_left_alone(tmp_path: Path) -> None:
    step = """STATIC int port_in, port_back, port_out, port_next;
TASK_INIT
{
    port_in = PORT_INITIALIZE(TASK_ID, "in");
    UFPort_Initialize(TASK_ID, "back", &port_back);
    port_out = PORT_INITIALIZE(TASK_ID, "out");
    port_next = PORT_INITIALIZE(TASK_ID, "next");
}
TASK_GO
{
    int turn, value = 0;

    UFLoop_GetIteration(THIS_TASK_ID, THIS_THREAD_ID, &turn);
    MQ_RECEIVE(turn ? port_back : port_in, &value, 4);
    value = 10 * value + turn;
    MQ_SEND(turn == 2 ? port_out : port_next, &value, 4);
    if (turn == 2)
        UFLoop_StopNextIteration(THIS_TASK_ID);
}
TASK_WRAPUP { }
"""
    project = tmp_path / "Loop.files"
    maps = ("in:Step:in:broadcasting", "out:Step:out")
    loop = composite(
        "Turns",
        "Turns/CICTask/task.xml",
        "in:4:1",
        "out:4:1",
        *maps,
        LoopType="CONVERGENT",
        LoopCount="3",
    )
    ends = [
        task("Source", outs="out:4:1", CICFile="Source.cic"),
        task("Sink", "in:4:1", CICFile="Sink.cic"),
    ]
    level(project / "CICTask", [ends[0], loop, ends[1]], "Source.out>Turns.in", "Turns.out>Sink.in")
    inner = task("Step", "in:4:1 back:4:1", "out:4:1 next:4:1", CICFile="Step.cic")
    level(project / "Turns/CICTask", [inner], "Step.next>Step.back+4")
    for name, text in (
        ("CICTask/Source", SOURCE),
        ("CICTask/Sink", SINK),
        ("Turns/CICTask/Step", step),
    ):
        (project / f"{name}.cic").write_text(text)
    imported(project, tmp_path)
    done = run(build(tmp_path / "app.flow", tmp_path / "out"), "--frames", "2", "--quiet")
    assert done.stdout == "Sink 7012\nSink 7012\n", done.stderr


def test_names_of_strangers_do_no_harm(tmp_path: Path) -> None:
    project = tmp_path / "Odd.files" / "CICTask"
    named = ("main", "int", "printf", "a-b", "MatA")
    tasks = [task(n, outs="class:4:1", CICFile=f"{n}.cic") for n in named]
    tasks.append(task("signed", " ".join(f"in{k}:4:1" for k in range(5)), CICFile="Sink.cic"))
    level(project, tasks, *(f"{n}.class>signed.in{k}" for k, n in enumerate(named)))
    text = (project / "task.xml").read_text().replace("Deep", "*/ &quot; ??/ \\")
    (project / "task.xml").write_text(text)
    for n in named:
        (project / f"{n}.cic").write_text(
            SOURCE.replace('"out"', '"class"') + "void MatA(void) { }\n#define state 7\n"
        )
    init = "".join(f'port[{k}] = PORT_INITIALIZE(TASK_ID, "in{k}"); ' for k in range(5))
    taken = "".join(f"MQ_RECEIVE(port[{k}], &value, 4); sum += value; " for k in range(5))
    (project / "Sink.cic").write_text(f"""#include <stdio.h>
STATIC int port[5];
TASK_INIT {{ {init} }}
TASK_GO {{ int value, sum = 0; {taken} printf("%s %d\\n", TASK_NAME, sum); }}
TASK_WRAPUP {{ }}
""")
    imported(project.parent, tmp_path)
    done = run(build(tmp_path / "app.flow", tmp_path / "out"), "--frames", "1", "--quiet")
    assert done.stdout.splitlines()[0] == "signed 35", done.stderr


# -- what fails ------------------------------------------------------------------------------------
def test_a_wrong_size_is_found_at_the_first_firing(tmp_path: Path) -> None:
    imported(pair(tmp_path, size=12), tmp_path)
    done = run(build(tmp_path / "app.flow", tmp_path / "out"), "--frames", "2", "--quiet")
    said = done.stderr
    assert done.returncode == 1
    assert "app Deep, task Deep.Source failed at firing 0: " in said
    assert (
        "Source_go returned 1: port `out`: 4 bytes were written, and rate and sample_size say 12"
        in said
    )


@pytest.mark.parametrize(
    ("go", "words"),
    [
        (
            "MQ_SEND(port_out, &value, 8);",
            "port `out`: 8 bytes were written, and rate and sample_size say 4",
        ),
        ("MQ_RECEIVE(port_out, &value, 4);", "it reads port `out`, which is an output"),
        ("MQ_SEND(17, &value, 4);", "it writes 4 bytes through a port that it does not have"),
        (
            'SYS_REQ(GET_PARAM_INT, "Source", "x");',
            "it asks for the parameter `x` of `Source`, which there is not",
        ),
    ],
)
def test_what_code_does_wrong_is_said_in_words(tmp_path: Path, go: str, words: str) -> None:
    imported(pair(tmp_path, SOURCE.replace("MQ_SEND(port_out, &value, 4);", go)), tmp_path)
    assert words in failure(tmp_path)


def test_code_that_sends_before_it_fires_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    early = SOURCE.replace('"out"); }', '"out"); MQ_SEND(port_out, &port_out, 4); }')
    imported(pair(tmp_path, early), tmp_path)
    assert failure(tmp_path) == "Source_go_init returned NULL"
    assert (
        capfd.readouterr().err == "Source_init: it writes port `out`, which is for firings only\n"
    )


def test_the_compiler_may_quote_any_encoding(tmp_path: Path) -> None:
    project = pair(tmp_path, PLAIN)
    (project / "CICTask" / "Sink.cic").write_bytes(SINK.encode() + '"한글" wrong'.encode("euc-kr"))
    imported(project, tmp_path)
    with pytest.raises(Errors) as raised:
        build(tmp_path / "app.flow", tmp_path / "out")
    assert [d.code for d in raised.value.diagnostics] == ["F306"]


# -- what is refused -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("TASK_INIT { }\n/* TASK_GO { } */", "there is no TASK_GO in `Source.cic`"),
        (
            f'#include "../../x.h"\n{PLAIN}',
            "it includes `../../x.h`, which is outside of the project",
        ),
        (
            f'#include "/etc/passwd"\n{PLAIN}',
            "it includes `/etc/passwd`, which is outside of the project",
        ),
        (
            f"#include <cuda.h>\r\n{PLAIN}",
            "it includes `cuda.h`, which is neither of C nor in the project",
        ),
        (f"# include WHAT\n{PLAIN}", "it includes `WHAT`"),
        (
            f'#include "own.h"\n{PLAIN}',
            "it includes `X11/Xlib.h`, which is neither of C nor in the project",
        ),
        (PLAIN.replace("GO {", "GO { SYS_REQ ( STOP );"), "it calls `SYS_REQ(STOP)`"),
        (PLAIN.replace("GO {", "GO { UCAlloc_malloc(3);"), "it calls `UCAlloc_malloc`"),
        (PLAIN.replace("GO {", "GO { k<<<1, 1>>>();"), "it is CUDA"),
        (
            PLAIN.replace("GO {", "GO { LIBCALL(lib, f);"),
            "no library is connected to its port `lib`",
        ),
        (f"{PLAIN}\0", "`Source.cic` is not a text"),
    ],
)
def test_code_that_needs_more_is_named(tmp_path: Path, code: str, why: str) -> None:
    project = pair(tmp_path, code)
    (project / "CICTask/own.h").write_text("#include <X11/Xlib.h>\n")
    assert refused(project) == why
    found = hopes.read(project, "app")
    assert "class Source:" in found.stubs[1] and "class Sink:" not in found.stubs[1]
    assert "task Source { out output: uint8[4] }" in found.text and "Sink.c:Sink_go" in found.text


def test_words_in_comments_and_texts_do_not_count(tmp_path: Path) -> None:
    more = '// #include <cuda.h> BUF_SEND(\n/*\n#include "../../x.h"\n*/ static char *s = "SYS_REQ(STOP) // <<<";\n'
    found = hopes.read(pair(tmp_path, more + SOURCE), "app")
    assert found.stubs[1] == ""


def further(folder: Path, name: str, content: str = "") -> Path:
    """A project of which `Source` calls a function that stands in another file."""
    extra = (
        f'<extraSetting_list><extraSetting type="Extra Source" name="{name}"/></extraSetting_list>'
    )
    project = pair(
        folder, '#include "list.h"\n' + SOURCE.replace("= 7;", "= following();"), more=extra
    )
    (project / "CICTask/list.h").write_text("int following(void);\n")
    if content:
        (project / "CICTask" / name).write_text(content)
    return project


def test_missing_code_and_what_cannot_be_linked_is_named(tmp_path: Path) -> None:
    project = pair(tmp_path)
    (project / "CICTask/Source.cic").unlink()
    assert refused(project) == "its file is not in the project"
    assert (
        refused(further(tmp_path / "a", "list.c"))
        == "its further source `list.c` is not in the project"
    )
    assert refused(further(tmp_path / "b", "list.cu", "x")) == "it is CUDA"
    assert refused(further(tmp_path / "c", "list.a", "x")) == "it is linked with `list.a`"
    assert (
        refused(further(tmp_path / "d", "list.cpp", "x")) == "its further source `list.cpp` is C++"
    )
    asks = "int following(void) { return MQ_AVAILABLE(0); }\n"
    assert (
        refused(further(tmp_path / "e", "list.c", asks))
        == "its further source `list.c` calls `MQ_AVAILABLE`"
    )
    linked = pair(tmp_path / "f")
    xml = linked / "CICTask/task.xml"
    xml.write_text(
        xml.read_text().replace(
            "<config>", '<config><parameter name="LinkFlags" value="-L../cam -lcam"/>', 1
        )
    )
    assert refused(linked) == "it is linked with `cam`, a library of the project"


def test_code_is_linked_with_further_sources(tmp_path: Path) -> None:
    code = '#include "list.h"\nstatic int number = 5;\nint following(void) { return number++; }\n'
    imported(further(tmp_path, "list.c", code), tmp_path / "made")
    done = run(
        build(tmp_path / "made" / "app.flow", tmp_path / "build"), "--frames", "2", "--quiet"
    )
    assert done.stdout.splitlines()[:2] == ["Sink 5", "Sink 6"]


def test_a_library_with_a_state_that_tasks_share_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "Mixer"
    for file in MIXER.rglob("*"):
        if file.is_file():
            (folder / file.relative_to(MIXER)).parent.mkdir(parents=True, exist_ok=True)
            (folder / file.relative_to(MIXER)).write_bytes(file.read_bytes())
    xml = folder / "Mixer.files/CICTask/task.xml"
    link = '<taskLibraryConnection src_task="Mix" src_port="curve" dst_library="Curve" dst_port="Curve" />'
    text = xml.read_text()
    xml.write_text(text.replace(link, link + link.replace('"Mix"', '"Show"')))
    assert refused(folder) == "library `Curve` has a state that several tasks share"
    assert "`Curve`: libraries are not imported" in " ".join(
        d.message for d in hopes.read(folder, "app").warnings
    )
    whole = xml.read_text().replace('"HasInternalStates" value="Yes" />\n        <parameter name="Language" value="C" />\n      </config>\n    </library>',
                                    '"HasInternalStates" value="No" />\n      </config>\n    </library>')  # fmt: skip
    xml.write_text(whole)
    assert hopes.read(folder, "app").stubs[1] == ""  # without a state, each has its own copy


def test_parameters_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    said = "<control><control_params>{}</control_params></control>"
    lines = '<parameter name="{}" type="{}" value="{}"/>'
    given = [("for", "int", "-3"), ("b", "int", "3.5"), ("c", "string", "x"), ("d", "float", ".25")]
    project = pair(tmp_path, more=said.format("".join(lines.format(*g) for g in given)))
    found = hopes.read(project, "app")
    assert "task Source(parameter_for: int = -3, d: float = 0.25) {" in found.text
    told = [d.message for d in found.warnings if "parameters are" in d.message]
    assert [m.partition(":")[0] for m in told] == ["`Source.b`", "`Source.c`"]
