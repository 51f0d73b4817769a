"""The compiled grammar is kept for later processes, in a place of this user's own; whatever is
wrong with that place or with the file costs time only.

Each process reports whether it compiled the grammar, so that nothing here depends on how long that
takes.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from builds import HANGS
from forks import Forks, forks

TEXT = """
task A { out x: int32 }
task B { in x: int32 }
app P { a: A  b: B   a -> b }
"""
#: Checks the text that it is given, and says whether it was found faultless and how often a grammar
#: was compiled.
CHECK = """
import json, resource, sys
import lark.lark
compiled, load_grammar = [], lark.lark.load_grammar
def counted(*args, **kwargs):
    compiled.append(1)
    return load_grammar(*args, **kwargs)
lark.lark.load_grammar = counted
import flowc
flow, most_bytes = sys.argv[1], int(sys.argv[2])
if most_bytes:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
found = flowc.check(flow)
print(json.dumps({"apps": [a.name for a in found.system.apps], "ok": found.ok, "compiled": len(compiled)}))
"""
#: Imported once for all processes; compiles nothing.
MODULES = ("lark.lark", "flowc.driver.text.check")


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    path = tmp_path / "app.flow"
    path.write_text(TEXT)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where caches are."""
    (tmp_path / "caches").mkdir()
    return tmp_path / "caches"


@dataclass(frozen=True)
class Checks:
    """Checks of a text by processes, none of which has compiled a grammar before."""

    flow: Path
    processes: Forks

    def __call__(self, home: str | Path, most_bytes: int = 0, **environment: str) -> bool:
        """Did a process with its caches there compile the grammar? Files that it writes can be
        limited."""
        (compiled,) = self.at_once(1, home, most_bytes, **environment)
        return compiled

    def at_once(
        self, count: int, home: str | Path, most_bytes: int = 0, **environment: str
    ) -> list[bool]:
        """The same for several, each of which checked the text in any case, and said nothing
        else."""
        known = {**os.environ, "XDG_CACHE_HOME": str(home), **environment}
        commands = [[self.flow.with_name("check.py"), self.flow, str(most_bytes)]] * count
        found = []
        for done in self.processes.at_once(
            commands, cwd=self.flow.parent, timeout=HANGS, env=known
        ):
            assert (done.returncode, done.stderr) == (0, ""), done.stderr
            found.append(json.loads(done.stdout))
        assert [(f["apps"], f["ok"]) for f in found] == [(["P"], True)] * count
        return [bool(f["compiled"]) for f in found]


@pytest.fixture
def check(flow: Path) -> Checks:
    flow.with_name("check.py").write_text(CHECK)
    return Checks(flow, forks(*MODULES))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Caches as a process leaves them."""
    place = tmp_path_factory.mktemp("compiled")
    (place / "caches").mkdir()
    (place / "check.py").write_text(CHECK)
    (place / "app.flow").write_text(TEXT)
    assert Checks(place / "app.flow", forks(*MODULES))(place / "caches")
    return place / "caches"


@pytest.fixture
def used(compiled: Path, home: Path) -> Path:
    """A copy of these, for one test."""
    return shutil.copytree(compiled, home, dirs_exist_ok=True)


def kept(home: Path) -> Path:
    """The only file in the folder."""
    (file,) = (home / "flowc").iterdir()
    return file


def test_a_second_process_uses_what_the_first_one_kept(check: Checks, home: Path) -> None:
    assert check(home)
    file = kept(home)
    folder, content, identity = (home / "flowc").stat(), file.read_bytes(), file.stat().st_ino
    assert stat.S_IMODE(folder.st_mode) == 0o700 and len(content) > 10_000
    for seed in ("0", "1"):
        other = Forks(*MODULES, PYTHONHASHSEED=seed)
        assert not Checks(check.flow, other)(home)
        other.close()
    assert kept(home).read_bytes() == content and file.stat().st_ino == identity
    assert [p.name for p in home.iterdir()] == ["flowc"]


def test_without_the_variable_it_is_below_the_home_folder(check: Checks, home: Path) -> None:
    assert check("", HOME=str(home))
    assert not check("", HOME=str(home))
    assert kept(home / ".cache")


def _truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _header_only(file: Path) -> None:
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])


def _of_others(file: Path) -> None:
    """What another version of the grammar or of lark would have kept."""
    first, _, rest = file.read_bytes().partition(b"\n")
    file.write_bytes(b"0" * len(first) + b"\n" + rest)


def _other_content(file: Path) -> None:
    first, _, _ = file.read_bytes().partition(b"\n")
    file.write_bytes(first + b"\n" + b'{"options": 1}')


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _link_to_nowhere(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.parent.parent / "nowhere")


def _link_to_itself(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


BROKEN = {
    "broken": lambda file: file.write_bytes(b"broken"),
    "empty": lambda file: file.write_bytes(b""),
    "zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "truncated": _truncated,
    "header only": _header_only,
    "of others": _of_others,
    "other content": _other_content,
    "a folder": _folder,
    "a FIFO": _fifo,
    "a link to nowhere": _link_to_nowhere,
    "a link to itself": _link_to_itself,
}
#: What cannot be replaced: the folder is another matter than the file.
STUBBORN = ("a folder",)


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_file_costs_time_only_and_is_replaced(check: Checks, used: Path, how: str) -> None:
    BROKEN[how](kept(used))
    assert check(used)
    assert check(used) == (how in STUBBORN)
    kept(used)


def _is_a_file(home: Path) -> None:
    (home / "flowc").write_text("")


def _is_a_link(home: Path) -> None:
    (home.parent / "elsewhere").mkdir(mode=0o700)
    (home / "flowc").symlink_to(home.parent / "elsewhere")


def _is_a_link_to_nowhere(home: Path) -> None:
    (home / "flowc").symlink_to(home / "nowhere")


def _of_the_group(home: Path) -> None:
    (home / "flowc").mkdir()
    (home / "flowc").chmod(0o770)


def _of_everybody(home: Path) -> None:
    (home / "flowc").mkdir()
    (home / "flowc").chmod(0o1777)


def _of_another_user(home: Path) -> None:
    (home / "flowc").mkdir(mode=0o755)
    os.chown(home / "flowc", 12345, 12345)


PLACES = {
    "a file": _is_a_file,
    "a link": _is_a_link,
    "a link to nowhere": _is_a_link_to_nowhere,
    "writable by the group": _of_the_group,
    "writable by everybody": _of_everybody,
    "of another user": _of_another_user,
}


@pytest.mark.parametrize("how", PLACES)
def test_nothing_is_kept_in_a_place_that_others_may_write_to(
    check: Checks, home: Path, tmp_path: Path, how: str
) -> None:
    if how == "of another user" and os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    PLACES[how](home)
    before = set(tmp_path.rglob("*"))
    assert check(home)
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("how", ["writable by the group", "of another user"])
def test_nothing_is_read_from_a_place_that_others_may_write_to(
    check: Checks, used: Path, how: str
) -> None:
    """A user who can write the file could change what texts mean."""
    if how == "of another user" and os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    assert not check(used)
    if how == "writable by the group":
        (used / "flowc").chmod(0o770)
    else:
        os.chown(used / "flowc", 12345, 12345)
    assert check(used)


@pytest.mark.parametrize("place", ["caches", "/dev/null", "/proc/nowhere", "\udcff/x", "a\nb"])
def test_where_no_folder_can_be_it_works_without(check: Checks, tmp_path: Path, place: str) -> None:
    """By its standard, a path that is relative means nothing: no file is left in the current
    folder of the user."""
    before = set(tmp_path.rglob("*"))
    assert check(place)
    assert set(tmp_path.rglob("*")) == before


def test_a_full_disk_leaves_no_part_of_a_file(check: Checks, home: Path) -> None:
    """Files of the first process may not grow beyond a few blocks."""
    assert check(home, most_bytes=20_000)
    assert not [*(home / "flowc").iterdir()]
    assert check(home)
    assert not check(home)
    assert kept(home).stat().st_size > 20_000


def test_many_at_once_leave_one_file(check: Checks, home: Path) -> None:
    check.at_once(6, home)
    kept(home)
    assert not check(home)
    shutil.rmtree(home / "flowc")
    assert check(home)
