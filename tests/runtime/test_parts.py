"""Parts of a program in processes of their own: the same results as in one, and one end for all."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from flowc.runtime import peer

from builds import HANGS, Write, build, run
from forks import PROGRAM, forks
from limits import next_line
from rigs import TASKS, TEXT, joined

ENDLESS = TEXT.replace("count: int = 40", "count: int = 1000000")
#: In a row: the first knows nothing of the last but by the second, which is joined with all.
ROW = """
task Count(count: int = 30) { out n: int64   python "row.py:Count" }
task Add { in n: int64   out m: int64   python "row.py:add" }
task Show(broken: int = 0) { in m: int64   python "row.py:Show" }
app R { count: Count   one: Add   two: Add   show: Show   count -> one -> two -> show }
platform rig {
    machine a { cpu core }   machine b { cpu core }   machine c { cpu core }   machine d { cpu core }
    link a b 1 GB/s 20 us   link b c 1 GB/s 20 us   link c d 1 GB/s 20 us
}
mapping on rig { R.count -> a.core   R.one -> b.core   R.two -> c.core   R.show -> d.core }
"""
ROW_TASKS = """
class Count:
    def __init__(self, count): self.n, self.count = 0, count
    def __call__(self):
        if self.n == self.count: raise StopIteration
        self.n += 1
        return self.n
def add(n): return n + 1
class Show:
    def __init__(self, broken): self.broken = broken
    def __call__(self, m):
        if m == self.broken: raise ValueError("no luck")
        print(int(m), flush=True)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A build of a text; the same one for all tests."""
    kept: dict[str, Path] = {}

    def of(text: str) -> Path:
        if text not in kept:
            folder = tmp_path_factory.mktemp("parts")
            (folder / "app.flow").write_text(text)
            (folder / "tasks.py").write_text(TASKS)
            kept[text] = build(folder / "app.flow", folder / "out", platform="rig")
        return kept[text]

    return of


def run_parts(
    out: Path, *words: str, environments: dict[str, dict[str, str]] | None = None
) -> list[subprocess.CompletedProcess[str]]:
    """Both parts side by side, to their ends."""
    environments = environments or joined(["back", "front"])
    commands = [[str(out / "parts" / name / "main.py"), *words] for name in ("back", "front")]
    return in_forks(commands, [environments[name] for name in ("back", "front")])


def in_forks(
    commands: list[list[str]], environments: list[dict[str, str]]
) -> list[subprocess.CompletedProcess[str]]:
    cases = [{**os.environ, **e} for e in environments]
    return forks(*PROGRAM, "zmq").at_once(commands, cwd="/", timeout=HANGS, env=cases)


@contextmanager
def started(
    out: Path, prefix: dict[str, list[str]] | None = None, **options: object
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Both parts, running; killed at the end if they are still there."""
    environments = joined(["back", "front"], **options)  # type: ignore[arg-type]
    with ExitStack() as stack:
        found = {}
        for name, environment in environments.items():
            words = [
                *(prefix or {}).get(name, []),
                sys.executable,
                str(out / "parts" / name / "main.py"),
                "--quiet",
            ]
            child = subprocess.Popen(
                words,
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,  # what was not read stays in the pipe
            )
            stack.enter_context(child)
            stack.callback(child.kill)
            found[name] = child
        yield found


def flowing(part: subprocess.Popen[bytes], tokens: int = 5) -> None:
    """Wait until results come."""
    lines = [next_line(part) for _ in range(tokens)]
    assert all(lines), part.communicate(timeout=HANGS)


def ends(part: subprocess.Popen[bytes]) -> tuple[int, str]:
    """What it ends with, and what it says."""
    _, said = part.communicate(timeout=HANGS)
    return part.returncode, said.decode()


def test_whom_a_start_waits_for_is_said_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now, said = [10.0], list[str]()
    monkeypatch.setattr(peer, "time", SimpleNamespace(monotonic=lambda: now[0]))
    waiting = peer.Waiting(said.append)
    for seconds in (1, 3, 1, 1, 4, 20):
        now[0] += seconds
        waiting.tell("part back", 60)
    assert said == [f"waits for part back: {n} s so far, 60 s at most" for n in (5, 10, 30)]
    here, there = (SimpleNamespace(name=n, address=f"tcp://{n}:1") for n in "ab")
    assert peer.awaited([here, there], [there]) == "part b at tcp://b:1 to answer"  # type: ignore[list-item]
    assert peer.awaited([here, there], []) == "part a and part b to be ready"  # type: ignore[list-item]


def test_parts_give_what_one_process_gives(made: Callable[[str], Path]) -> None:
    out = made(TEXT)
    alone = run(out, "--quiet")
    assert alone.returncode == 0, alone.stderr
    back, front = run_parts(out, "--quiet")
    assert back.returncode == front.returncode == 0, back.stderr + front.stderr
    assert back.stdout == alone.stdout and len(alone.stdout.splitlines()) == 41


def test_frames_are_counted_together(made: Callable[[str], Path]) -> None:
    out = made(ENDLESS)
    back, front = run_parts(out, "--quiet", "--frames", "7")
    assert back.returncode == front.returncode == 0, back.stderr + front.stderr
    assert len(back.stdout.splitlines()) == 15  # two of a frame, and one at the end


def test_a_task_that_fails_ends_all_and_is_named(made: Callable[[str], Path]) -> None:
    failing = TEXT.replace('"tasks.py:weigh"', '"tasks.py:broken"').replace(
        "core[0], back.core[1]", "core[0]"
    )
    out = made(failing)
    back, front = run_parts(out, "--quiet")
    assert back.returncode == front.returncode == 1
    assert "task A.weigh failed at firing 9: ValueError: no luck" in back.stderr
    assert (
        "part back failed: app A, task A.weigh failed at firing 9: ValueError: no luck; here"
        in front.stderr
    )


def test_a_part_that_is_killed_ends_the_other(made: Callable[[str], Path]) -> None:
    with started(made(ENDLESS)) as parts:
        flowing(parts["back"])
        parts["front"].kill()
        status, said = ends(parts["back"])
    assert status == 1
    assert re.search(
        r"part front at tcp://127.0.0.1:\d+ is gone; here .*waits for data from A\.", said
    ), said


def test_a_signal_to_one_part_ends_all_in_order(made: Callable[[str], Path]) -> None:
    with started(made(ENDLESS)) as parts:
        flowing(parts["back"])
        parts["back"].send_signal(signal.SIGINT)
        out, said = parts["back"].communicate(timeout=HANGS)
        assert parts["back"].returncode == 130, said
        assert ends(parts["front"])[0] == 0
    *lines, last = out.decode().splitlines()
    marks = [int(line.split()[0]) for line in lines]
    # nothing is lost, nothing comes twice
    assert marks == list(range(marks[0], marks[0] + len(marks)))
    assert last.startswith("odd ")


def test_parts_are_joined_where_there_are_channels(write: Write, tmp_path: Path) -> None:
    """And with one that hands on what others have to know: when frames begin, how many there are,
    who has failed."""
    out, names = build(write(ROW, row_py=ROW_TASKS), tmp_path / "out", platform="rig"), "abcd"

    def ran(*words: str) -> list[subprocess.CompletedProcess[str]]:
        mains = [[str(out / "parts" / n / "main.py"), "--quiet"] for n in names]
        own = [
            ["--report", str(tmp_path / f"{n}.json"), *(words if n == "d" else ())] for n in names
        ]
        return in_forks(
            [m + o for m, o in zip(mains, own, strict=True)], list(joined(names).values())
        )

    done = ran()
    assert [d.returncode for d in done] == [0] * 4, [d.stderr for d in done]
    assert done[3].stdout.split() == [str(n) for n in range(3, 33)]
    reports = {n: json.loads((tmp_path / f"{n}.json").read_text()) for n in names}
    near = {n: set(r["part"]["clocks"]) for n, r in reports.items()}
    assert near == {"a": {"b"}, "b": {"a", "c", "d"}, "c": {"b", "d"}, "d": {"b", "c"}}
    app = reports["d"]["apps"]["R"]
    assert app["frames"] == 30 and 0 < app["latency_ms"]["max"] < 1000 * HANGS
    broken = ran("--set", "R.show.broken=12")
    assert [d.returncode for d in broken] == [1] * 4
    told = [d.stderr for d in broken[:3]]
    assert all("part d failed: app R, task R.show failed at firing 9" in t for t in told), told


def test_who_does_not_belong_is_refused(made: Callable[[str], Path]) -> None:
    out = made(TEXT)
    other = out.parent / "other"
    shutil.copytree(out, other)
    main = other / "parts/front/main.py"
    main.write_text(re.sub(r'whole="\w', 'whole="x', main.read_text()))
    back, front = run_parts(other, "--quiet")
    assert back.returncode == front.returncode == 1
    assert "is of another build" in back.stderr + front.stderr


def test_a_part_alone_says_how_it_is_started(made: Callable[[str], Path]) -> None:
    done = run(made(TEXT) / "parts/front")
    assert done.returncode == 2
    assert (
        "this is part front of back and front: start all parts together, with `flowc run --machines`"
        in done.stderr
    )


def test_over_a_cable_that_is_cut(made: Callable[[str], Path], tmp_path: Path) -> None:
    """Two network namespaces with a pair of virtual cards between them."""
    names, here = {"back": "flowc-b", "front": "flowc-f"}, f"{os.getpid()}"
    names = {part: name + here for part, name in names.items()}
    ip = shutil.which("ip")
    if (
        ip is None
        or os.geteuid()
        or subprocess.run(
            [ip, "netns", "add", names["back"]], capture_output=True, timeout=HANGS
        ).returncode
    ):
        pytest.skip("network namespaces are for root")
    hosts = {"back": "10.77.0.2", "front": "10.77.0.1"}

    def do(*words: str) -> None:
        subprocess.run([str(ip), *words], check=True, capture_output=True, timeout=HANGS)

    try:
        do("netns", "add", names["front"])
        do(
            "-n",
            names["front"],
            "link",
            "add",
            "veth0",
            "type",
            "veth",
            "peer",
            "name",
            "veth0",
            "netns",
            names["back"],
        )
        for part, address in hosts.items():
            do("-n", names[part], "addr", "add", f"{address}/24", "dev", "veth0")
            do("-n", names[part], "link", "set", "veth0", "up")
        inside = {part: [str(ip), "netns", "exec", name] for part, name in names.items()}
        with started(made(ENDLESS), inside, hosts=hosts) as parts:
            flowing(parts["back"])
            do("-n", names["front"], "link", "set", "veth0", "down")
            found = {part: ends(child) for part, child in parts.items()}
        assert {status for status, _ in found.values()} == {1}
        assert (
            "part back at tcp://10.77.0.2:" in found["front"][1] and "is gone" in found["front"][1]
        )
    finally:
        for name in names.values():
            subprocess.run([ip, "netns", "delete", name], capture_output=True, timeout=HANGS)
