"""A board behind ssh. Most tests have a shell in its place: what ssh does beside starting a command
is tested once."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from flowc.driver.execute.run import run
from flowc.driver.execute.run import test as harness_of
from flowc.driver.measure import measure as measuring
from flowc.driver.measure.measure import profile
from flowc.machines import board as boards
from flowc.machines.board import Board, Lost, address
from flowc.model.diagnostic import Errors

from builds import ROOT
from limits import HANGS, next_line
from loopback import SSHD, loopback
from native_compiler import quick

#: Runs the last of its words, as the far side of ssh does.
SHELL = "sh -c 'for last; do :; done; exec sh -c \"$last\"' ssh"
TEXT = """
task Count { out n: int32  python "tasks.py:Count" }
task Twice { in n: int32  out m: int32  c "twice.c:twice" }
task Keep { in m: int32  python "tasks.py:Keep" }
app Sum { count: Count  twice: Twice  keep: Keep  count -> twice -> keep }
"""
TASKS = """
class Count:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return self.n
class Keep:
    def __init__(self): self.total = 0
    def __call__(self, m): self.total += int(m)
    def close(self): print("total", self.total, flush=True)
"""
TWICE = """
int twice(void *state, const int32_t *n, int32_t *m, const twice_params *p) {
    *m = 2 * *n;
    return 0;
}
"""


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The address of a board in a folder of its own."""
    monkeypatch.setenv("FLOWC_SSH", SHELL)
    return f"board{tmp_path}/far"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "tasks.py").write_text(TASKS)
    (tmp_path / "near" / "twice.c").write_text(TWICE)
    (tmp_path / "near" / "sum.flow").write_text(TEXT)
    return tmp_path / "near" / "sum.flow"


def reach(where: str) -> Board:
    return Board(where, python=sys.executable)


def codes(failing: Callable[[], object]) -> list[str]:
    with pytest.raises(Errors) as caught:
        failing()
    return [d.code for d in caught.value.diagnostics]


# -- addresses -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("orin", ("orin", None, "~/.cache/flowc-board")),
        ("nano@10.0.0.5", ("nano@10.0.0.5", None, "~/.cache/flowc-board")),
        ("nano@10.0.0.5:2222", ("nano@10.0.0.5", 2222, "~/.cache/flowc-board")),
        ("nano@orin.local:22/data/my runs", ("nano@orin.local", 22, "/data/my runs")),
        ("[fe80::1%eth0]:22", ("fe80::1%eth0", 22, "~/.cache/flowc-board")),
    ],
)
def test_addresses(written: str, read: tuple[str, int | None, str]) -> None:
    found = address(written)
    assert (found.host, found.port, found.folder) == read


@pytest.mark.parametrize(
    "written", ["", "-oProxyCommand=x", "a b", "x;ls", "x:0", "x:99999", "x:y", "a@b@c", "$(x)"]
)
def test_what_is_no_address(written: str) -> None:
    assert codes(lambda: address(written)) == ["F640"]


# -- files and commands ----------------------------------------------------------------------------
def test_only_changed_files_travel_and_what_programs_made_stays(shell: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "in").mkdir(parents=True)
    (tree / "a.py").write_text("1")
    (tree / "in" / "b c;.bin").write_bytes(bytes(range(256)))
    with reach(shell) as board:
        there = Path(board.put(tree, "tree"))
        (there / "engines").mkdir()
        (there / "engines" / "x.plan").write_text("made there")
        first = (there / "a.py").stat().st_mtime_ns
        assert (there / "in" / "b c;.bin").read_bytes() == bytes(range(256))
    (tree / "in" / "b c;.bin").unlink()
    (tree / "in" / "new").write_text("2")
    with reach(shell) as board:
        assert board.put(tree, "tree") == str(there) != board.put(tree, "another tree")
    assert (there / "a.py").stat().st_mtime_ns == first and (
        there / "in" / "new"
    ).read_text() == "2"
    assert not (there / "in" / "b c;.bin").exists() and (there / "engines" / "x.plan").exists()
    (there / "a.py").write_text("changed by another program")
    with reach(shell) as board:
        board.put(tree, "tree")
    assert (there / "a.py").read_text() == "1"


def test_words_meet_no_shell_and_folders_go(shell: str) -> None:
    with reach(shell) as board:
        with board.folder() as folder:
            script = "import os, sys; print(sys.argv[1:], os.environ['X'], file=sys.stderr); open('out', 'w').write('y')"
            words = [*board.python, "-c", script, "$(rm -rf /)", "; ls", ""]
            done = board.execute(words, cwd=folder, environment={"X": "a b"})
            assert (done.status, done.stdout, done.stderr) == (
                0,
                "",
                "['$(rm -rf /)', '; ls', ''] a b\n",
            )
            assert board.read(f"{folder}/out") == b"y" and board.read(f"{folder}/none") is None
        assert not os.path.exists(folder)
        assert (
            board.execute([*board.python, "-c", "import os; os.abort()"]).status == -signal.SIGABRT
        )
        assert codes(lambda: board.execute(["no-such-command"])) == ["F641"]


def test_large_outputs_come_whole(shell: str) -> None:
    with reach(shell) as board:
        script = "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('y' * 1_000_000)"
        done = board.execute([*board.python, "-c", script])
    assert (len(done.stdout), len(done.stderr)) == (3_000_000, 1_000_000)


def test_what_the_shell_of_a_board_prints_is_shown_and_does_no_harm(
    shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `echo` in .bashrc does."""
    monkeypatch.setenv(
        "FLOWC_SSH", SHELL.replace("for last", 'printf "hello\\n\\033[31m"; for last')
    )
    said: list[str] = []
    with Board(shell, python=sys.executable, report=said.append) as board:
        assert board.execute(["echo", "one"]).stdout == "one\n"
    (line,) = said
    assert line.startswith("before Python starts, board prints\nhello\n\\x1b[31m")


def test_a_command_may_take_long_as_long_as_the_board_lives(
    shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "SILENCE", 3.0)
    with reach(shell) as board:
        assert board.execute(["sleep", "4"]).status == 0
        stopped = [*board.python, "-c", "import os, signal; os.kill(os.getppid(), signal.SIGSTOP)"]
        with pytest.raises(Lost, match="nothing was heard of it for 3 s"):
            board.execute(stopped)
        monkeypatch.setattr(boards, "LEAVE", 0.1)  # it does not end in order


def test_a_command_may_be_limited(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "SILENCE", 3.0)
    with reach(shell) as board, pytest.raises(Lost, match=r"sleep 100 has not ended in 0\.01 s"):
        board.execute(["sleep", "100"], seconds=0.01)


def test_outputs_and_files_without_end_are_not_kept(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "MOST_KEPT", 1 << 16)
    monkeypatch.setattr(boards, "MOST_SAID", 1 << 20)
    monkeypatch.setattr(boards, "MOST_FILE", 1 << 20)
    with reach(shell) as board:
        done = board.execute(["sh", "-c", "head -c 500000 /dev/zero; echo end"])
        assert done.stdout.endswith("end\n") and len(done.stdout) < 1 << 18
        assert codes(lambda: board.execute(["cat", "/dev/zero"])) == ["F657"]
    with reach(shell) as board:
        assert codes(lambda: board.read("/dev/zero")) == ["F657"]


#: Stands in for ssh with a far end that answers other things.
OTHERWISE = """
import os, struct, sys, time
from flowc.machines.agent import MAGIC
os.read(0, 1 << 16)
os.write(1, MAGIC)
os.read(0, 1 << 16)
head = {header!r}
os.write(1, struct.pack(">IQ", {head} or len(head), {body}) + head)
os.read(0, 1 << 16)
"""


@pytest.mark.parametrize(
    ("header", "head", "body"),
    [
        (b"hello", 0, 0),
        (b"[" * 100_000, 0, 0),
        (b"{}", 0, 0),
        (b"[]", 0, 0),
        (b'{"base": 1, "python": [3, 10, 1]}', 0, 0),
        (b'{"base": "/x", "python": [3, NaN, 1]}', 0, 0),
        (b'{"base": "/x", "python": "3.10"}', 0, 0),
        (b'{"base": "/x", "python": [3, 10, 1]}', 1 << 31, 0),
        (b'{"base": "/x", "python": [3, 10, 1]}', 0, 1 << 40),
        (b'{"fault": 7}', 0, 0),
        (b"\xff\xfe", 0, 0),
        (b"", 0, 0),
    ],
)
def test_answers_that_are_none(
    header: bytes, head: int, body: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ssh.py"
    file.write_text(OTHERWISE.format(header=header, head=head, body=body))
    monkeypatch.setenv("FLOWC_SSH", f"{sys.executable} {file}")
    with pytest.raises(Errors) as caught:
        Board("board").__enter__()
    (fault,) = caught.value.diagnostics
    assert fault.code == "F657" and "try `ssh board true`, which has to print nothing" in (
        fault.help or ""
    )


@pytest.mark.parametrize(
    ("ssh", "code", "said"),
    [
        ("sleep 100", "F640", "nothing was heard of it for 2 s"),
        ("echo closed for maintenance; exit 1", "F640", "closed for maintenance"),
        ("echo who are you?; sleep 100", "F640", "who are you?"),
        ("cat /dev/zero", "F657", "more than 1 MiB came before the first answer"),
        ("while sleep 0.01; do printf x; done", "F640", "nothing was heard of it for 2 s"),
        ("cat /dev/zero >&2", "F640", "nothing was heard of it for 2 s"),
    ],
)
def test_far_ends_that_never_answer(
    ssh: str, code: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "BEGIN", 2.0)
    monkeypatch.setattr(boards, "LEAVE", 0.1)
    monkeypatch.setenv("FLOWC_SSH", f"sh -c {shlex.quote(ssh)}")
    with pytest.raises(Errors) as caught:
        Board("board").__enter__()
    (fault,) = caught.value.diagnostics
    assert fault.code == code and said in fault.message


# -- what can be wrong -----------------------------------------------------------------------------
def test_a_board_has_one_user_at_a_time(shell: str) -> None:
    with reach(shell), pytest.raises(Errors) as caught:
        reach(shell).__enter__()
    (fault,) = caught.value.diagnostics
    assert fault.code == "F642" and f"process {os.getpid()}" in fault.message
    with reach(shell):
        pass


def test_a_user_may_have_no_name(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with reach(shell), pytest.raises(Errors) as caught, reach(shell):
        pass
    assert f"user {os.getuid()} on " in str(caught.value)


def test_folders_of_others_are_left_alone(shell: str, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "precious").write_text("")
    assert codes(lambda: reach(shell).__enter__()) == ["F604"]
    assert os.listdir(tmp_path / "far") == ["precious"]


@pytest.mark.parametrize(
    ("ssh", "python", "code", "said"),
    [
        (SHELL, "no-python", "F641", "--board-python"),
        ("sh -c 'echo Permission denied >&2; exit 255'", "python3", "F640", "ssh-copy-id"),
        (
            "sh -c 'echo Host key verification failed. >&2; exit 255'",
            "python3",
            "F640",
            "compare the key",
        ),
        ("sh -c 'exit 3'", "python3", "F640", "ssh board true"),
        ("no-such-ssh", "python3", "F640", "FLOWC_SSH"),
    ],
)
def test_boards_that_cannot_be_reached(
    ssh: str, python: str, code: str, said: str, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWC_SSH", ssh)
    with pytest.raises(Errors) as caught:
        Board(shell, python=python).__enter__()
    (fault,) = caught.value.diagnostics
    assert fault.code == code and said in (fault.help or "")


def test_pythons_that_programs_do_not_run_with(shell: str, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'import sys; sys.version_info = (3, 6, 9); '\"$2\"\n"
    )
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    for python, word in ((old, "3.6.9"), (bare, "numpy")):
        python.chmod(0o755)
        with pytest.raises(Errors) as caught:
            Board(shell, python=str(python)).__enter__()
        assert [d.code for d in caught.value.diagnostics] == [
            "F641"
        ] and word in caught.value.diagnostics[0].message


def test_what_is_lost_begins_again_and_is_not_counted(shell: str) -> None:
    said: list[str] = []
    with Board(shell, python=sys.executable, report=said.append) as board:
        begun = []

        def work() -> str:
            begun.append(1)
            with board.folder() as folder:
                if len(begun) == 1:  # the connection ends in the middle
                    board.execute(
                        [
                            *board.python,
                            "-c",
                            "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
                        ]
                    )
                return folder

        board.steadily(work)
        assert len(begun) == 2 and "was lost" in said[0]
        with pytest.raises(Lost):
            board.execute(
                [*board.python, "-c", "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"]
            )


def test_nothing_is_left_when_the_connection_ends(shell: str, tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    script = f"import os, time; open({str(alive)!r}, 'w').write(str(os.getpid())); time.sleep(100)"
    board = reach(shell).__enter__()
    board._request("run", words=[sys.executable, "-c", script], cwd=None, environment={})
    folder = board.folder().__enter__()
    while not alive.exists() or not alive.read_text():
        time.sleep(0.01)
    board.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(alive.read_text()), 0)
    assert not os.path.exists(folder)


# -- programs --------------------------------------------------------------------------------------
def test_profile_run_and_test(
    shell: str, text: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with reach(shell) as board:
        found = profile(text, host=board, seconds=0.2)
        assert {e.subject for e in found.entries} == {"Sum.count", "Sum.twice", "Sum.keep"}
        assert found.path == text.parent / "sum.board.profile.json"
        stored = found.path.read_bytes()
        ran = run(
            text, tmp_path / "out", host=board, frames=10, report_to=tmp_path / "r.json", quiet=True
        )
        assert (
            ran.status == 0
            and json.loads((tmp_path / "r.json").read_text())["apps"]["Sum"]["frames"] == 10
        )
        assert "total 110" in capfd.readouterr().out
        told = run(text, tmp_path / "out", host=board, frames=3, document=True)
        assert told.report is not None and json.loads(told.report)["apps"]["Sum"]["frames"] == 3
        harness = harness_of(text, tmp_path / "out", host=board, frames=5, quiet=True)
        assert harness.status == 0 and {t.outcome for t in harness.tests} == {"passed"}
    # it spoke for the board, and nothing was measured again
    assert found.path.read_bytes() == stored
    assert not [name for name in os.listdir(tmp_path / "far") if name.startswith("tmp-")]


@pytest.mark.skipif(not {0, 1}.issubset(os.sched_getaffinity(0)), reason="needs cores 0 and 1")
def test_each_type_of_cpus_is_measured(shell: str, text: Path) -> None:
    """A task takes longer on the core that it finds slow."""
    wait = "__import__('time').sleep(0.002 if 0 in __import__('os').sched_getaffinity(0) else 0)"
    (text.parent / "tasks.py").write_text(TASKS.replace("self.n += 1", f"self.n += 1; {wait}"))
    text.write_text(TEXT + "platform two { cpu big on [1]   cpu little on [0] }\n")
    with reach(shell) as board:
        found = profile(text, platform="two", host=board, seconds=0.3)
    means = {(e.subject, e.processor): e.mean_ns for e in found.entries}
    tasks = ("Sum.count", "Sum.twice", "Sum.keep")
    assert means.keys() == {(task, type_) for task in tasks for type_ in ("big", "little")}
    assert means["Sum.count", "big"] < 2_000_000 <= means["Sum.count", "little"]
    assert not any(e.estimated for e in found.entries)


def test_a_task_that_fails_there_is_named_here(shell: str, text: Path) -> None:
    (text.parent / "tasks.py").write_text(
        TASKS.replace("self.n += 1", "raise ValueError('no camera')")
    )
    with reach(shell) as board, pytest.raises(Errors) as caught:
        profile(text, host=board, seconds=0.1)
    (fault,) = caught.value.diagnostics
    assert fault.code == "F606" and "Sum.count" in fault.message and "no camera" in fault.message


def test_ctrl_c_ends_the_program_on_the_board(shell: str, text: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "flowc",
        "run",
        str(text),
        "--no-measure",
        "--quiet",
        "-o",
        str(tmp_path / "out"),
    ]
    command += ["--board", shell, "--board-python", sys.executable]
    (text.parent / "tasks.py").write_text(
        TASKS.replace("return self.n", "print('fired', flush=True); return self.n")
    )
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "fired" in next_line(running)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=HANGS)
    assert "total" in out and running.returncode == 130, err  # as here: it was stopped in order


def test_ctrl_c_ends_a_measurement_on_the_board(shell: str, text: Path, tmp_path: Path) -> None:
    fired = tmp_path / "fired"
    slow = f"open({str(fired)!r}, 'w').write(str(__import__('os').getpid())); __import__('time').sleep(0.2)"
    (text.parent / "tasks.py").write_text(TASKS.replace("self.n += 1", f"self.n += 1; {slow}"))
    command = [sys.executable, "-m", "flowc", "profile", str(text), "--seconds", "1000"]
    command += ["--board", shell, "--board-python", sys.executable]
    measuring = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not fired.exists() or not fired.read_text():
        assert measuring.poll() is None, measuring.communicate(timeout=HANGS)
        time.sleep(0.01)
    measuring.send_signal(signal.SIGINT)
    out, err = measuring.communicate(timeout=HANGS)
    assert measuring.returncode == 130 and "interrupted" in err, (out, err)
    with pytest.raises(ProcessLookupError):
        os.kill(int(fired.read_text()), 0)
    assert not [name for name in os.listdir(tmp_path / "far") if name.startswith("tmp-")]


# -- ssh itself ------------------------------------------------------------------------------------
@pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="no sshd here")
def test_over_ssh(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").mkdir()
    with loopback(tmp_path / "keys") as there:
        monkeypatch.setenv("FLOWC_SSH", there.ssh)
        with reach(there.address(f"{tmp_path}/far")) as board:
            assert (
                harness_of(
                    text, tmp_path / "out", host=board, frames=3, quiet=True, measure=False
                ).status
                == 0
            )
        with monkeypatch.context() as changed:
            changed.setenv("FLOWC_SSH", f"{there.ssh} -o UserKnownHostsFile={tmp_path}/none")
            with pytest.raises(Errors) as caught:
                reach(there.address()).__enter__()
        assert "compare the key" in (caught.value.diagnostics[0].help or "")


# -- programs in C++ -------------------------------------------------------------------------------
@pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
def test_programs_in_cpp_are_compiled_run_tested_and_measured_there(
    shell: str,
    tmp_path: Path,
    shared: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """With a network: its library is the one that Python has there."""
    for name, value in quick(shared).items():
        monkeypatch.setenv(name, value)
    for name in ("native.flow", "spotter.c", "mel.c", "sound.wav", "spotter.onnx"):
        shutil.copy(ROOT / "examples/spotter" / name, tmp_path)
    text, out = tmp_path / "native.flow", tmp_path / "build"
    with reach(shell) as board:
        asked = {"host": board, "native": True, "measure": False}
        tested = harness_of(text, out, frames=4, quiet=True, **asked)
        assert tested.status == 0 and len(tested.tests) == 4
        (out / "main").write_bytes(b"of another machine")
        capfd.readouterr()
        ran = run(text, out, full_speed=True, document=True, **asked)
        assert ran.status == 0 and ran.report is not None
        assert "10 events in 108 decisions" in capfd.readouterr().err
        assert json.loads(ran.report)["apps"]["Spotter"]["frames"] == 54
        (tree,) = {main.parent for main in (tmp_path / "far").rglob("main")}
        assert (tree / "lib/libonnxruntime.so.1").is_symlink()
        monkeypatch.setattr(measuring, "with_layers", lambda valid, measured, *_: (measured, ()))
        measured = profile(text, host=board, native=True, seconds=0.2)
    assert measured.path == tmp_path / "native.board-native.profile.json"
    assert {e.subject for e in measured.entries} > {"Spotter.words", "Spotter.events"}


def test_a_board_without_a_compiler_for_cpp_is_named(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = tmp_path / "build"
    build.mkdir()
    (build / "build.sh").write_text("echo no such compiler >&2; exit 1")
    with reach(shell) as board:
        for _ in range(2):  # it is tried again
            with pytest.raises(Errors) as caught:
                board.put(build, "build")
            (fault,) = caught.value.diagnostics
            assert fault.code == "F641" and "no such compiler" in fault.message
            assert fault.help == "install a compiler there: `apt install g++`"
