"""Files that a program writes: what stood there stays whole until the new one is complete."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from flowc.runtime.files import Output

from builds import HANGS, build, run

TEXT = 'task S { out x: int64 python "t.py:make" } task D { in x: int64 python "t.py:show" } app A { s: S d: D s -> d }\n'
CODE = """
import itertools, time
count = itertools.count()

def make():
    return next(count)

def show(x):
    print("saw", x, flush=True)
    while x == 3:
        time.sleep(0.05)
"""
OLD = '{"old": true}\n'


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "t.py").write_text(CODE)
    (folder / "app.flow").write_text(TEXT)
    return build(folder / "app.flow", folder / "out")


def written(output: Output, content: str) -> None:
    with output.written() as stream:
        stream.write(content)


# -- programs --------------------------------------------------------------------------------------
def test_the_old_files_are_whole_while_a_program_runs_and_when_it_is_killed(
    program: Path, tmp_path: Path
) -> None:
    files = [tmp_path / "r.json", tmp_path / "t.json"]
    for file in files:
        file.write_text(OLD)
    options = ["--report", str(files[0]), "--trace", str(files[1])]
    command = [sys.executable, str(program / "main.py"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert any(line == "saw 3\n" for line in running.stdout)
            assert [f.read_text() for f in files] == [OLD, OLD]
        finally:
            running.kill()
        running.communicate(timeout=HANGS)  # the end of all that holds the pipe
    assert [f.read_text() for f in files] == [OLD, OLD] and len(os.listdir(tmp_path)) == 2


def test_the_old_files_are_whole_where_there_is_no_room(program: Path, tmp_path: Path) -> None:
    files = [tmp_path / "r.json", tmp_path / "t.json"]
    for file in files:
        file.write_text(OLD)
    command = [
        sys.executable,
        str(program / "main.py"),
        "--frames",
        "2",
        "--report",
        *files[:1],
        "--trace",
        *files[1:],
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
        preexec_fn=_with_small_files,
    )
    why = f"{os.strerror(errno.EFBIG)}\n"
    assert done.stderr == "".join(
        f"flowc: cannot write {file}: {why}" for file in (files[1], files[0])
    )
    assert done.returncode == 1 and "latency ms" in done.stdout
    assert [f.read_text() for f in files] == [OLD, OLD] and len(os.listdir(tmp_path)) == 2


def _with_small_files() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))


@pytest.mark.parametrize("target", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("redirected", [False, True])
def test_descriptors_are_written_into(
    program: Path, tmp_path: Path, target: str, redirected: bool
) -> None:
    """Also where a shell has redirected one to a file: nothing that others write there is lost."""
    command = f'"$0" "$1" --frames 2 --report {target}' + (
        f" > {tmp_path}/all; cat {tmp_path}/all" if redirected else ""
    )
    words = ["sh", "-c", command, sys.executable, str(program / "main.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("saw 0\nsaw 1\n{") and "latency ms" in done.stdout
    document, end = json.JSONDecoder().raw_decode(done.stdout[len("saw 0\nsaw 1\n") :])
    assert document["apps"]["A"]["frames"] == 2 and end


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_table_in_a_file_leaves_standard_output_to_the_tasks(
    program: Path, tmp_path: Path, quiet: list[str]
) -> None:
    file = tmp_path / "table"
    file.write_text(OLD)
    done = run(program, "--frames", "2", "--table", str(file), *quiet)
    assert (done.returncode, done.stdout) == (0, "saw 0\nsaw 1\n")
    assert file.read_text().startswith("app ") and "A.s" in file.read_text()
    done = run(program, "--frames", "2", "--table", "/dev/stderr", *quiet)
    assert done.stdout == "saw 0\nsaw 1\n" and "latency ms" in done.stderr
    refused = run(program, "--frames", "2", "--table", str(tmp_path / "no" / "table"))
    assert refused.returncode == 1 and not refused.stdout and "cannot write" in refused.stderr


def test_devices_and_pipes(program: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()), daemon=True)
    reader.start()
    done = run(program, "--frames", "2", "--trace", "/dev/null", "--report", str(pipe))
    reader.join(HANGS)
    assert done.returncode == 0 and json.loads(found[0])["apps"]["A"]["frames"] == 2
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode) and stat.S_ISFIFO(os.stat(pipe).st_mode)


# -- the function ----------------------------------------------------------------------------------
def test_a_link_leads_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    file, link = tmp_path / "kept" / "r.json", tmp_path / "link"
    link.symlink_to("kept/r.json")
    for content in ("first", "second"):
        written(Output(str(link)), content)
        assert link.is_symlink() and file.read_text() == content
        file.chmod(0o640)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640 and os.listdir(file.parent) == ["r.json"]


def test_a_new_file_is_not_there_before_it_is_complete(tmp_path: Path) -> None:
    output = Output(str(tmp_path / "new"))
    assert not os.listdir(tmp_path)
    with output.written() as stream:
        stream.write("x")
        assert not (tmp_path / "new").exists()
    (tmp_path / "usual").write_text("x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_what_is_broken_off_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").write_text(OLD)
    for name in ("old", "new"):
        with pytest.raises(ZeroDivisionError), Output(str(tmp_path / name)).written() as stream:
            stream.write("x" * 100_000)
            stream.flush()
            raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["old"] and (tmp_path / "old").read_text() == OLD


def _no_file_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refuse(path: object, flags: int, *others: int) -> int:
        if flags & os.O_EXCL and "/there/" in str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(path, flags, *others)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "open", refuse)


def _mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: object, target: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(os, "replace", refuse)


@pytest.mark.parametrize("hindered", [_no_file_beside, _mounted])
def test_where_a_file_cannot_be_replaced_it_is_written_in_its_place(
    hindered: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "there"
    place.mkdir()
    (place / "r.json").write_text(OLD)
    number = (place / "r.json").stat().st_ino
    hindered(monkeypatch)
    for content in ("x" * 50_000, "short"):
        written(Output(str(place / "r.json")), content)
        assert (place / "r.json").read_text() == content and (
            place / "r.json"
        ).stat().st_ino == number

    def full(*given: object) -> None:
        os.ftruncate(given[0], 70_000)  # type: ignore[arg-type]  # as far as it came
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        written(Output(str(place / "r.json")), "y" * 100_000)
    assert (place / "r.json").read_text() == "short" and os.listdir(place) == ["r.json"]
