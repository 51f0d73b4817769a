"""What the firings of a native program read and made, for the harness of its build.

In: the directory of a build. Out: a recording as parts of a program on several machines write it
(`runtime/recording.py`), by a second executable of the same main.cpp.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ...codegen.compiler import absent_tools
from ...machines.host import HERE, Host, last_words
from ...model.diagnostic import Diagnostic, Errors
from ...model.files import scratch
from ...runtime.harness import frames_of
from ...runtime.recording import INDEX
from ...runtime.reference import every, load_deployment, make_ports
from ...runtime.scenario import tour
from .live_output import attend

#: The fields of `RunOptions` that the program has.
OPTIONS = frozenset(
    {
        "frames",
        "seconds",
        "full_speed",
        "fail_on_miss",
        "settings",
        "trace",
        "trace_frames",
        "report_to",
        "table",
        "quiet",
        "strict",
        "watchdog",
        "start",
        "events",
        "control",
        "record",
        "channels",
        "replay",
        "clocks",
    }
)
#: What stands before the name of a task and the bytes of an array: bytes of the name, side, port,
#: firing, bytes.
_HEAD = struct.Struct("=5q")
#: In the place of a side: the firing has failed, or was left out.
LEFT_OUT = 2


def record_native(
    directory: Path, frames: int | None, folder: Path, *, silent: bool, host: Host = HERE
) -> int:
    """Run it at its host for a few frames (None: as many as the harness would), and put the
    recording into a folder here; its exit status. Raises Errors."""
    deployment = load_deployment(str(directory))
    count = frames or frames_of(deployment)
    with host.folder() as own, scratch() as handed:
        tree = host.put(directory.resolve(), str(directory.resolve()))
        recorder, raw, report = f"{own}/recorder", f"{own}/raw", f"{own}/report.json"
        _compile(host, tree, recorder)
        words = [recorder, "--full-speed", "--quiet"]
        if "scenario" in deployment:
            (handed / "tour.json").write_text(toured(deployment, count))
            words += ["--replay", f"{host.put(handed, 'tour')}/tour.json"]
        else:
            words += ["--frames", str(count)]
        environment = {"FLOWC_RECORD": raw, "FLOWC_HOME": tree}
        if (directory / "runtime/samples.py").exists():
            environment["FLOWC_FEED"] = _fed(host, tree, own)
        status = attend(
            host,
            [*words, "--report", report],
            silent=silent,
            cwd=None if host is HERE else tree,
            environment=environment,
        )
        if status == 0:
            seen = json.loads(host.read(report) or b"")
            _store(deployment, io.BytesIO(host.read(raw) or b""), seen, folder / "native.npz")
    return status


def toured(deployment: dict[str, Any], frames: int) -> str:
    """A report with stays in all states, which the program repeats."""
    scenario = deployment["scenario"]
    apps = {state["name"]: [app["name"] for app in state["apps"]] for state in scenario["states"]}
    leads: dict[str, list[str]] = {name: [] for name in apps}
    for transition in scenario["transitions"]:
        leads[transition["source"]].append(transition["target"])
    stays = tour(scenario["initial"], leads, apps, frames)
    return json.dumps({"stays": [{"state": s.state, "frames": s.frames} for s in stays]})


def _fed(host: Host, tree: str, folder: str) -> str:
    """The folder with samples for open ends. Raises Errors."""
    done = host.execute([*host.python, "-m", "runtime.samples", folder], cwd=tree)
    if done.status:
        message = f"there are no samples for the open ends\n{last_words(done.stderr)}"
        raise Errors([Diagnostic("F606", message, None, help="look at what stands above")])
    return folder


def _compile(host: Host, tree: str, recorder: str) -> None:
    missing = absent_tools(["CXX"]) if host is HERE else []
    if missing:
        raise Errors(missing)
    done = host.execute(["sh", "build.sh", "-DFLOWC_RECORD", "-o", recorder], cwd=tree)
    if done.status:
        said = (done.stderr + done.stdout).strip()
        message = f"the program cannot be compiled for its test\n{said}"
        raise Errors([Diagnostic("F306", message, None, help="check the variables CXX and CFLAGS")])


def _store(deployment: dict[str, Any], raw: IO[bytes], report: dict[str, Any], file: Path) -> None:
    """Write what was recorded as the harness reads it."""
    import numpy as np

    tasks = [task for app in every(deployment, "apps") for task in app["tasks"]]
    ports = {t["name"]: (make_ports(t["inputs"]), make_ports(t["outputs"])) for t in tasks}
    arrays: list[Any] = []
    sides: tuple[dict[str, dict[int, list[int]]], ...] = ({}, {})
    skipped: dict[str, list[int]] = {}
    for name, side, at, firing, content in records(raw):
        if side == LEFT_OUT:
            skipped.setdefault(name, []).append(firing)
            continue
        port = ports[name][side][at]
        for each in sides:
            each.setdefault(name, {}).setdefault(firing, [])
        array = np.frombuffer(content, port.dtype).reshape(port.block_shape(firing))
        sides[side][name][firing].append(len(arrays))
        arrays.append(array)
    channels = report["channels"].items()
    index = {
        "frames": {name: app["frames"] for name, app in report["apps"].items()},
        "least_free": {name: c["capacity"] - c["most"] for name, c in channels},
        "inputs": sides[0],
        "outputs": sides[1],
        "skipped": skipped,
        "stays": report.get("stays", []),
    }
    stored: dict[str, Any] = {f"a{number}": array for number, array in enumerate(arrays)}
    stored[INDEX] = np.array(json.dumps(index))
    np.savez(file, **stored)


def records(stream: IO[bytes]) -> Iterator[tuple[str, int, int, int, bytes]]:
    """What was recorded: task, 0 for an input, 1 for an output or LEFT_OUT, port, firing,
    bytes."""
    while head := stream.read(_HEAD.size):
        length, side, port, firing, size = _HEAD.unpack(head)
        yield stream.read(length).decode(), side, port, firing, stream.read(size)
