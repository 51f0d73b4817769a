"""Files that a stranger prepared: nothing is written through them, nothing waits for them, nothing
half is seen."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flowc
import pytest
from flowc.cli import app
from flowc.driver.text import store
from flowc.dsl.includes import c_includes
from flowc.model.diagnostic import Errors
from flowc.model.files import read_bytes, replace_file, scratch
from flowc.model.mapping import Mapping
from flowc.model.profile import Profile
from typer.testing import CliRunner, Result

from builds import ROOT, Write, store_profile
from limits import ended, next_line

UGLY = "task   T { out x }\n"
SMALL = 'task T { out n: int64 python "t.py:T" } task U { in n: int64 python "t.py:show" } app A { t: T u: U t -> u }\n'
CODE = "class T:\n    def __call__(self):\n        return 1\n\n\ndef show(n):\n    pass\n"


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(w) for w in words])


# -- writing ---------------------------------------------------------------------------------------
def test_planted_links_are_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.flow").write_text(UGLY)
    for name in (".a.flow.new", ".a.flow", ".a.host.profile.json.new"):
        (folder / name).symlink_to(victim)
    assert call("fmt", folder / "a.flow").exit_code == 0
    assert victim.read_text() == "keep" and "task T" in (folder / "a.flow").read_text()
    assert not (folder / "a.flow").is_symlink()


def test_files_beside_a_text_replace_links(write: Write, tmp_path: Path) -> None:
    flow = write(SMALL, t_py=CODE)
    victim = tmp_path / "victim"
    victim.write_text("keep")
    checked = flowc.check(flow)
    for path in (
        store.profile_path(checked.system, checked.platform),
        flow.with_name("app.host.mapping.json"),
    ):
        path.symlink_to(victim)
    assert not store.save_profile(checked.require(), Profile("host", "here", ()))
    assert checked.platform is not None
    stored = store.save_mapping(checked.require(), Mapping("host", ()))
    assert victim.read_text() == "keep"
    assert (
        not stored.is_symlink()
        and not store.profile_path(checked.system, checked.platform).is_symlink()
    )


def test_formatting_keeps_the_mode_and_a_link_of_the_user(tmp_path: Path) -> None:
    target = tmp_path / "kept" / "real.flow"
    target.parent.mkdir()
    target.write_text(UGLY)
    target.chmod(0o600)
    link = tmp_path / "a.flow"
    link.symlink_to("kept/real.flow")
    assert call("fmt", link).exit_code == 0
    assert link.is_symlink() and "task T" in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600 and os.listdir(target.parent) == [
        "real.flow"
    ]


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    replace_file(tmp_path / "new", "x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda p: os.symlink("/dev/null", p)], ids=["fifo", "dir", "dev"]
)
def test_what_is_no_file_is_not_replaced(make: Callable[[Path], None], tmp_path: Path) -> None:
    target = tmp_path / "a.flow"
    make(target)
    before = target.lstat().st_mode
    result = call("fmt", target)
    assert result.exit_code == 1 and "F002" in result.stderr
    with pytest.raises(OSError):
        replace_file(target, "x", follow=True)
    assert target.lstat().st_mode == before and os.listdir(tmp_path) == ["a.flow"]


def test_readers_see_whole_files_only(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    contents = [bytes([letter]) * 300_000 for letter in b"ab"]
    path.write_bytes(contents[0])
    failures: list[BaseException] = []

    def writer(content: bytes) -> None:
        try:
            for _ in range(150):
                replace_file(path, content)
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=writer, args=(content,)) for content in contents]
    for thread in writers:
        thread.start()
    reads = 0
    while reads < 100 or any(t.is_alive() for t in writers):
        assert path.read_bytes() in contents
        reads += 1
    ended(*writers)
    assert not failures and os.listdir(tmp_path) == ["shared"]


HOLDS = """
import sys
from pathlib import Path
from flowc.model.files import scratch
with scratch(Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_folder_of_a_killed_process_is_removed_later(tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(
        words, cwd=ROOT.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            left = Path(next_line(holder).strip())
            (left / "inner").mkdir()
            (left / "inner" / "file").write_text("x")
            for folder in (
                left,
                tmp_path / "flowc.of_a_user",
                tmp_path / "flowc.link",
                tmp_path / "other",
            ):
                if folder.name == "flowc.link":
                    folder.symlink_to(tmp_path / "other")
                else:
                    folder.mkdir(exist_ok=True)
                os.utime(folder, (0, 0), follow_symlinks=False)
            # it has just been made, perhaps: its lock may come in a moment
            (tmp_path / "flowc.of_a_user").touch()
            with scratch(tmp_path) as own:
                assert own.is_dir() and left.is_dir()
        finally:
            holder.kill()
    with scratch(tmp_path):
        assert not left.exists()
    assert sorted(os.listdir(tmp_path)) == ["flowc.link", "flowc.of_a_user", "other"]


def test_a_build_removes_what_a_killed_one_has_left(write: Write, tmp_path: Path) -> None:
    flow = write(SMALL, t_py=CODE)
    store_profile(flow)
    flowc.build(flow, tmp_path / "b")
    left = tmp_path / "b" / ".flowc-new-killed"
    (left / "tasks").mkdir(parents=True)
    os.utime(left, (0, 0))
    flow.with_name("t.py").write_text(CODE + "\n")
    store_profile(flow)
    assert flowc.build(flow, tmp_path / "b").fresh
    assert not left.exists()


# -- builds ----------------------------------------------------------------------------------------
def test_a_build_follows_no_link_inside_its_directory(write: Write, tmp_path: Path) -> None:
    flow = write(SMALL, t_py=CODE)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "t.py").write_text("keep")
    directory = tmp_path / "b"
    directory.mkdir()
    (directory / "tasks").symlink_to(outside)
    with pytest.raises(Errors) as found:
        flowc.build(flow, directory)
    assert (
        found.value.diagnostics[0].code == "F604"
        and "`tasks`" in found.value.diagnostics[0].message
    )
    with pytest.raises(Errors) as found:
        flowc.build(flow, directory, force=True)
    assert (
        found.value.diagnostics[0].code == "F604" and "link" in found.value.diagnostics[0].message
    )
    assert [(p.name, p.read_text()) for p in outside.iterdir()] == [("t.py", "keep")]


def test_a_planted_manifest_removes_nothing_outside(write: Write, tmp_path: Path) -> None:
    flow = write(SMALL, t_py=CODE)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("keep")
    directory = tmp_path / "b"
    (directory / "folder").mkdir(parents=True)
    (directory / "link").symlink_to(outside)
    names = [
        "link/precious.txt",
        "link",
        "../outside/precious.txt",
        str(outside / "precious.txt"),
        "folder",
        "",
        ".",
        "a\0",
    ]
    (directory / ".flowc-manifest.json").write_text(
        json.dumps({"version": 1, "files": [*names, 5, None]})
    )
    flowc.build(flow, directory, force=True)
    assert (outside / "precious.txt").read_text() == "keep" and (directory / "folder").is_dir()
    assert (directory / "main.py").is_file()


@pytest.mark.parametrize(
    "content",
    ["[" * 50_000, "[]", '{"files": {"a": 1}}', "NaN", "\0", '{"files": 7, "stamps": []}'],
)
def test_a_manifest_may_say_anything(content: str, write: Write, tmp_path: Path) -> None:
    flow = write(SMALL, t_py=CODE)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / ".flowc-manifest.json").write_text(content)
    store_profile(flow)
    assert flowc.build(flow, tmp_path / "b").fresh


# -- stored times and mappings ---------------------------------------------------------------------
ENTRY = {
    "processor": "cpu", "subject": "A.t", "implementation": "", "content_hash": "", "host_hash": "", "samples": 9,
    "mean_ns": 10, "std_ns": 0, "max_ns": 12, "wcet_ns": 12, "layers": [{"layer": "x", "mean_ns": 3.5}],
}  # fmt: skip
PROFILE = {
    "version": 1, "platform": "host", "host": "", "entries": [ENTRY],
    "transfers": [{"from": "cpu", "to": "gpu", "fixed_ns": 1, "ns_per_byte": 0.5}],
}  # fmt: skip
MAPPING = {
    "version": 1, "platform": "host", "placements": [{"task": "A.t", "processors": ["core[0]"]}],
    "networks": [{"task": "A.n", "stages": [{"processors": ["core[0]"], "until": "x", "streams": 2}]}],
    "predicted_period_ns": {"A": 5}, "utilization": [["core[0]", 0.5]], "identity": {"A.t": "0"},
}  # fmt: skip
#: Where, what instead of the value, and what is said.
PROFILE_EDITS: list[tuple[tuple[str | int, ...], Any, str]] = [
    (
        ("entries", 0, "mean_ns"),
        "12",
        'entries[0].mean_ns is "12"; expected a whole number from 0 to',
    ),
    (("entries", 0, "mean_ns"), None, "entries[0].mean_ns is null; expected a whole number"),
    (("entries", 0, "mean_ns"), -5, "entries[0].mean_ns is -5; expected a whole number from 0 to"),
    (("entries", 0, "mean_ns"), float("nan"), "NaN is no number"),
    (("entries", 0, "wcet_ns"), 1e999, "Infinity is no number"),
    (("entries", 0, "wcet_ns"), True, "entries[0].wcet_ns is true"),
    (("entries", 0, "wcet_ns"), 10**40, "entries[0].wcet_ns is 1000"),
    (("entries", 0, "subject"), [1], "entries[0].subject is a list; expected a text"),
    (("entries", 0, "layers", 0, "mean_ns"), "x" * 99, 'entries[0].layers[0].mean_ns is "xxx'),
    (("entries", 0, "held"), 7, "entries[0].held is 7; expected a number from 0 to 1"),
    (
        ("entries", 0, "meanns"),
        7,
        'entries[0] has "meanns", which is not known; did you mean `mean_ns`?',
    ),
    (("entries", 0), 7, "entries[0] is 7; expected an object"),
    (("entries",), {}, "entries is an object; expected a list"),
    (("transfers", 0), {"from": "cpu"}, "transfers[0] has no `fixed_ns`"),
    (("version",), 2, "version is 2; expected a profile of version 1: a later flowc wrote it"),
    (("version",), 0, "version is 0; expected a profile of version 1"),
    (("version",), True, "version is true; expected a profile of version 1"),
]
MAPPING_EDITS: list[tuple[tuple[str | int, ...], Any, str]] = [
    (
        ("placements", 0, "streams"),
        "2",
        'placements[0].streams is "2"; expected a whole number from 1 to 256',
    ),
    (
        ("networks", 0, "stages", 0, "streams"),
        10**9,
        "networks[0].stages[0].streams is 1000000000; expected",
    ),
    (("placements", 0, "threads"), None, "placements[0].threads is null"),
    (("placements", 0, "task"), [1], "placements[0].task is a list"),
    (
        ("placements", 0, "processors"),
        [],
        "placements[0].processors has 0 items; expected from 1 to 1024",
    ),
    (
        ("networks", 0, "stages", 0, "processors"),
        [],
        "networks[0].stages[0].processors has 0 items",
    ),
    (("networks", 0, "stages"), [], "networks[0].stages has 0 items"),
    (
        ("placements", 0, "processors"),
        [[]],
        "placements[0].processors[0] is a list; expected a text",
    ),
    (("networks", 0, "buffers"), "8", 'networks[0].buffers is "8"'),
    (("networks", 0, "adapt"), 1, "networks[0].adapt is 1; expected true or false"),
    (("predicted_period_ns", "A"), "x", 'predicted_period_ns["A"] is "x"'),
    (("utilization",), [["core[0]"]], "utilization[0] is a list; expected a list of 2"),
    (("identity",), {"A.t": 3}, 'identity["A.t"] is 3; expected a text'),
]


def edited(document: dict[str, Any], place: tuple[str | int, ...], value: object) -> str:
    copy = json.loads(json.dumps(document))
    *way, last = place
    inner = copy
    for step in way:
        inner = inner[step]
    inner[last] = value
    return json.dumps(copy)


@pytest.mark.parametrize(("place", "value", "said"), PROFILE_EDITS, ids=lambda x: str(x)[:30])
def test_an_edited_profile_is_not_used(
    place: tuple[str | int, ...], value: object, said: str, write: Write, tmp_path: Path
) -> None:
    assert Profile.from_json(json.dumps(PROFILE)).entries[0].layers[0].mean_ns == 3.5
    flow = write(SMALL, t_py=CODE)
    (tmp_path / "app.host.profile.json").write_text(edited(PROFILE, place, value))
    profile, (warning,) = store.read_profile(flowc.check(flow).require())
    assert profile is None and warning.code == "F607" and said in warning.message
    assert warning.message.startswith("`app.host.profile.json` is not used: ")


@pytest.mark.parametrize(("place", "value", "said"), MAPPING_EDITS, ids=lambda x: str(x)[:30])
def test_an_edited_mapping_is_not_used(
    place: tuple[str | int, ...], value: object, said: str, write: Write, tmp_path: Path
) -> None:
    assert Mapping.from_json(json.dumps(MAPPING))[0].utilization == (("core[0]", 0.5),)
    flow = write(SMALL, t_py=CODE)
    (tmp_path / "app.host.mapping.json").write_text(edited(MAPPING, place, value))
    (warning,) = flowc.check(flow).diagnostics
    assert warning.code == "F609" and said in warning.message


@pytest.mark.parametrize("kind", ["profile", "mapping"])
@pytest.mark.parametrize(
    "content",
    [b"[" * 50_000, b'{"version":1,"x":' * 50_000, b"\xff\xfe", b"", b"9" * 5000, b"\x80"],
)
def test_a_stored_file_may_hold_anything(
    kind: str, content: bytes, write: Write, tmp_path: Path
) -> None:
    flow = write(SMALL, t_py=CODE)
    (tmp_path / f"app.host.{kind}.json").write_bytes(content)
    checked = flowc.check(flow)
    said = [*checked.diagnostics, *store.read_profile(checked.require())[1]]
    assert [d.code for d in said] == ["F607" if kind == "profile" else "F609"]


# -- reading ---------------------------------------------------------------------------------------
def test_only_plain_files_of_a_sensible_size_are_read(tmp_path: Path) -> None:
    fifo, large = tmp_path / "fifo", tmp_path / "large"
    os.mkfifo(fifo)
    large.write_bytes(b"x" * 11)
    assert read_bytes(large, 11) == b"x" * 11
    for path, most, why in ((fifo, 9, "Not a regular"), (Path("/dev/zero"), 9, "Not a regular"), (large, 10, "too large"),
                            (tmp_path, 9, "directory"), (Path("a\0b"), 9, "Not a path")):  # fmt: skip
        with pytest.raises(OSError, match=why):
            read_bytes(path, most)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ('use "/dev/zero"\n', "F006", "Not a regular file"),
        ('use "fifo"\n', "F006", "Not a regular file"),
        ('network N from "/proc/self/mem"\n', "F401", "cannot be read"),
        ('network N from "fifo"\n', "F401", "does not exist"),
        ('task T { out x python "/proc/self/mem:f" }\n', "F301", "cannot be read"),
        ('task T { out x c "fifo:f" }\n', "F301", "does not exist"),
        ('task T(f: file = "/proc/self/mem") { out x }\n', "F301", "cannot be read"),
    ],
)
def test_what_is_no_plain_file_is_not_read(
    text: str, code: str, said: str, write: Write, tmp_path: Path
) -> None:
    flow = write(text)
    os.mkfifo(tmp_path / "fifo")
    (fault,) = flowc.check(flow).diagnostics
    assert fault.code == code and said in fault.message


def test_a_c_file_may_include_what_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "b.h").write_text('#include "a.c"\n')
    (tmp_path / "a.c").write_text(
        '#include "fifo"\n#include "/proc/self/mem"\n#include "b.h"\n#include "gone.h"\n'
    )
    assert c_includes(tmp_path / "a.c") == (tmp_path / "a.c", tmp_path / "b.h")


# -- limits ----------------------------------------------------------------------------------------
GRAPHS = "".join(f"graph G{i} {{ in x out y   a: G{i + 1}   x -> a -> y }}\n" for i in range(600))
DOUBLING = "".join(
    f"graph G{i} {{ in x out y  a: G{i + 1} b: G{i + 1}  x -> a -> b -> y }}\n" for i in range(20)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task S { out x }\napp A { s[99999]: S }", "99999 instances"),
        (f"task F {{ in x out y }}\n{DOUBLING}graph G20 {{ in x out y  f: F  x -> f -> y }}", "more than 50000 instances"),
        (f"task F {{ in x out y }}\n{GRAPHS}graph G600 {{ in x out y  f: F  x -> f -> y }}", "nested more than 64 deep"),
        ("task T { out x rate [1 for 1000000] }", "a list of more than 100000 phases"),
        ("task T { out x rate [1 for 99999, 2] }\napp A { t[50]: T }", "more than 1000000 phases"),
        ("task S { out x } task D { in x } app A { s: S d: D s -> delay 1e9 = 1 -> d }", "1000000000 initial tokens"),
        ("platform P { cpu core[1025] }", "the number of processors is 1025"),
        ("const A = 1" + " + 1" * 3000, "nested too deeply"),
        ("platform P { cpu core[1" + " + 1" * 3000 + "] }", "nested too deeply"),
    ],
    ids=range(9),
)  # fmt: skip
def test_limits_are_said(text: str, said: str, write: Write) -> None:
    faults = [d for d in flowc.check(write(text)).diagnostics if d.code == "F105"]
    assert any(said in d.message for d in faults), faults


def test_files_that_use_each_other_have_a_limit(tmp_path: Path) -> None:
    for i in range(500):
        (tmp_path / f"f{i}.flow").write_text(f'use "f{i + 1}.flow"\n')
    (fault,) = flowc.check(tmp_path / "f0.flow").diagnostics
    assert fault.code == "F105" and "64 deep" in fault.message


def test_ports_of_one_name_may_have_rate_lists(write: Write) -> None:
    checked = flowc.check(write("task M { in a rate [2, 1]   in b rate [1, 1, 1]   out b }"))
    assert [d.code for d in checked.diagnostics] == ["F106", "F102"]


def test_many_diagnostics_are_cut(write: Write) -> None:
    flow = write("task T { " + "in x " * 2000 + "}\napp A { t: T }")
    result = call("check", flow)
    assert result.stderr.count("error[F102]") == 100 and len(result.stderr) < 100_000
    assert "and 1899 more diagnostics" in result.stderr
    assert len(json.loads(call("check", flow, "--json").stdout)["diagnostics"]) == 1999
