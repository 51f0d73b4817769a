"""Runs a native build and writes the times of firings and frames, as `child.py` does for programs
in Python. The program measures itself: they are in its trace and its report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from fractions import Fraction
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ...machines.children import ends_with_me
from .ready import Fired, Need, counts_of, times_since_ready
from .samples import FEWEST

#: Seconds for a frame, if none has ended in the time that was asked for; and for a program that was
#: told to end.
LONGEST_FRAME, ENDS = 30.0, 30.0
#: Frames that a program gets time for, whatever it takes: the first firing of a task is left out.
FEWEST_FRAMES = FEWEST + 2
#: A program that was told to end (SIGINT), and has done so.
INTERRUPTED = 130
#: The niceness of threads in the background.
BACKGROUND = 19
#: How the line of a firing begins in a trace.
_FIRING = '{"ph": "X"'
#: The start of the program in ns, so that no time is 0.
START = 1_000_000_000


class _Run:
    """A run that has ended: what it said of itself, and how long its threads had no core."""

    def __init__(self, status: int, said: str, folder: Path, delayed: float) -> None:
        self.interrupted = status == INTERRUPTED
        #: It was told to end before it could listen.
        self.unheard = status == -signal.SIGINT
        well = self.unheard or status in (0, INTERRUPTED)
        self.failure = "" if well else said or f"exit status {status}"
        self.delayed = delayed
        self.report: Dict[str, Any] = {}
        self.events: List[Dict[str, Any]] = []
        if not self.failure and not self.unheard:
            self.report = json.loads((folder / "report.json").read_bytes())
            self.events = _firings(folder / "trace.json")

    @property
    def silent(self) -> str:
        """An app that has finished no frame, or what stands for it; empty where all have."""
        apps = self.report.get("apps", {}).items()
        waiting = (name for name, app in apps if not app["frames"])
        return "the program" if self.unheard else next(waiting, "")

    @property
    def short(self) -> bool:
        """Was it too short for some task that would have gone on?"""
        tasks = self.report.get("tasks", {}).values()
        return self.interrupted and any(t["firings"] < FEWEST_FRAMES for t in tasks)


def _run(words: Sequence[str], seconds: float, traced: bool) -> _Run:
    """Start the program, and tell it to end after some time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [*words, "--quiet", "--report", str(folder / "report.json")]
        if traced:
            words += ["--trace", str(folder / "trace.json")]
        with open(folder / "said", "wb") as said:
            child = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                preexec_fn=ends_with_me(signal.SIGTERM),
            )
            delayed = 0.0
            try:
                child.wait(seconds)
            except subprocess.TimeoutExpired:
                delayed = _delayed(child.pid)
                child.send_signal(signal.SIGINT)
                try:
                    child.wait(ENDS)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()  # no limit: it has been killed
        lines = (folder / "said").read_text(errors="replace").splitlines()
        last = next((x for x in reversed(lines) if x.startswith("flowc: app ")), "")
        text = last[len("flowc: ") :] or "\n".join(lines[-10:])
        return _Run(child.returncode, text, folder, delayed)


def _delayed(supervisor: int) -> float:
    """The share of the time in which ready threads of the program had no core, without those in the
    background, which wait for the others."""
    computed = waited = 0
    for children in Path("/proc", str(supervisor), "task").glob("*/children"):
        for pid in _read(children).split():
            for thread in Path("/proc", pid, "task").glob("*"):
                fields = _read(thread / "stat").rpartition(")")[2].split()
                if len(fields) > 16 and int(fields[16]) == BACKGROUND:
                    continue
                times = _read(thread / "schedstat").split()
                if len(times) == 3:
                    computed += int(times[0])
                    waited += int(times[1])
    return waited / (computed + waited) if waited else 0.0


def _read(file: Path) -> str:
    """A file of /proc; empty where its thread has just ended."""
    try:
        return file.read_text()
    except OSError:
        return ""


# -- what its trace says ---------------------------------------------------------------------------
def _firings(trace: Path) -> List[Dict[str, Any]]:
    """The firings of a trace, if there is one. It has an event on each line, also others."""
    if not trace.exists():
        return []
    decoded = json.JSONDecoder().raw_decode  # what follows an event is of no interest
    with open(trace, encoding="utf-8") as lines:
        return [decoded(line)[0] for line in lines if line.startswith(_FIRING)]


def _ns(us: float) -> int:
    return round(us * 1000)


def _fired(events: Sequence[Dict[str, Any]]) -> List[Fired]:
    """All firings, by their ends."""
    found = []
    for e in events:
        begin, number = START + _ns(e["ts"]), e["args"]
        end = begin + _ns(e["dur"])
        found.append(Fired(end, begin, e["name"], number["firing"], number["firings"], e["tid"]))
    return sorted(found)


def _samples(fired: Sequence[Fired]) -> Dict[str, List[int]]:
    samples: Dict[str, List[int]] = {}
    for each in fired:
        share = (each.end - each.start) // each.group
        known = samples.setdefault(each.task, [])
        known += [share] * (each.group if known else 1)
    return samples


def _runs(fired: Sequence[Fired]) -> Dict[str, List[Tuple[int, List[int]]]]:
    """Times of whole runs of networks with a batch, by how many firings they compute."""
    found: Dict[str, Dict[int, List[int]]] = {}
    grouped = {each.task for each in fired if each.group > 1}
    for each in fired:
        if each.task in grouped:
            runs = found.setdefault(each.task, {})
            runs.setdefault(each.group, []).append(each.end - each.start)
    return {task: list(runs.items()) for task, runs in found.items()}


def _with_rare(samples: Dict[str, List[int]], report: Dict[str, Any]) -> Dict[str, List[int]]:
    """Tasks that fire so seldom that a trace has lost them have their means."""
    rare = {}
    for name, task in report["tasks"].items():
        if task["firings"] and name not in samples:
            rare[name] = [_ns(task["mean_us"])]
    return {**samples, **rare}


def _since_ready(fired: Sequence[Fired], apps: Sequence[Dict[str, Any]]) -> Dict[str, List[int]]:
    tasks = {task["name"]: task for app in apps for task in app["tasks"]}
    counts = counts_of(fired, tasks)
    needs: Dict[str, List[Need]] = {name: [] for name in tasks}
    live = {name for name, task in tasks.items() if task["live"]}
    released = {}
    for app in apps:
        for channel in app["channels"]:
            source, target = channel["source"], channel["destination"]
            made = _totals(tasks[source]["outputs"], channel["source_port"], counts[source])
            port = channel["destination_port"]
            taken = _totals(tasks[target]["inputs"], port, counts[target])
            needs[target].append(Need(source, made, taken, channel["delay"]))
        for task in app["tasks"]:
            paced = not task["inputs"] and app["period_ns"] is not None
            if paced and task["name"] not in live:
                step = Fraction(app["period_ns"]) / task["firings"]
                released[task["name"]] = partial(_release, step)
    return times_since_ready(fired, needs, released, live)


def _release(step: Fraction, firing: int) -> int:
    return START + int(firing * step)


def _totals(ports: Sequence[Dict[str, Any]], name: str, firings: int) -> List[int]:
    """The tokens of a port after each firing."""
    rates = next(port["rates"] for port in ports if port["name"] == name)
    return list(accumulate(rates[k % len(rates)] for k in range(firings)))


# -- what its report says --------------------------------------------------------------------------
def _of_report(report: Dict[str, Any]) -> Dict[str, Any]:
    apps = {name: app for name, app in report["apps"].items() if app["frames"]}
    latencies = {name: app["latency_ms"] for name, app in apps.items()}
    tasks = report["tasks"].items()
    return {
        "mean_ns": {name: t["mean_us"] * 1e3 for name, t in tasks if t["firings"]},
        "period_ns": {name: _period_ns(app) for name, app in apps.items()},
        "latency_ns": {name: of["p50"] * 1e6 for name, of in latencies.items()},
        "longest_ns": {name: round(of["max"] * 1e6) for name, of in latencies.items()},
        "frames": {name: _due(app) for name, app in report["apps"].items()},
        "misses": {name: app["deadline_misses"] for name, app in report["apps"].items()},
        "paths": {n: [_path(p) for p in app["paths"]] for n, app in report["apps"].items()},
        "busy": {name: p["utilization"] for name, p in report["processors"].items()},
    }


def _due(app: Dict[str, Any]) -> int:
    """The complete frames, and those that could not begin in time."""
    due: int = app["frames"] - app["skipped"] + app["not_begun"]
    return due


def _skipped(report: Dict[str, Any]) -> Iterator[str]:
    """In words, apps of which something of every frame was left out."""
    for name, app in report["apps"].items():
        if app["frames"] and app["skipped"] == app["frames"]:
            yield f"all {app['frames']} frames of {name} were skipped"


def _period_ns(app: Dict[str, Any]) -> float:
    """Mean time between frames."""
    fps = float(app["fps"] or app["frames"] / max(app["seconds"], 1e-6))
    return 1e9 / fps


def _path(path: Dict[str, Any]) -> Tuple[Optional[int], int, int]:
    """The longest latency of a path, if there was any, how many there were, and how many of them
    too long."""
    longest = path["latency_ms"]["max"]
    ns = None if longest is None else round(longest * 1e6)
    return ns, path["firings"], path["deadline_misses"]


def _fed(directory: str, folder: str) -> None:
    """Samples for open ends, if there are any, in a folder that the program is told."""
    if not Path(directory, "runtime", "samples.py").exists():
        return
    words = [sys.executable, "-m", "runtime.samples", folder]
    subprocess.run(
        words, cwd=directory, check=True, stdin=subprocess.DEVNULL, timeout=LONGEST_FRAME
    )
    os.environ["FLOWC_FEED"] = folder


def main(directory: str, seconds: str, output: str, mode: str) -> int:
    """As `child.main`: run for about `seconds`; the output gets the samples and the periods, or the
    failure in words."""
    with tempfile.TemporaryDirectory() as folder:
        _fed(directory, folder)
        return _main(directory, float(seconds), output, mode)


def _main(directory: str, asked: float, output: str, mode: str) -> int:
    program = [os.path.join(directory, "main")]
    if mode != "paced":
        program.append("--full-speed")
    ran = _run(program, asked, bool(mode))
    if not ran.failure and (ran.silent or (mode == "strict" and ran.short)):
        frames = ["--frames", str(FEWEST_FRAMES)]
        ran = _run([*program, *frames], max(LONGEST_FRAME, 10 * asked), bool(mode))
    failure = ran.failure
    if not failure and ran.silent and (ran.unheard or not mode):
        failure = f"no frame of {ran.silent} was finished"
    if not failure:
        failure = "\n".join(_skipped(ran.report))
    if failure:
        Path(output).write_text(json.dumps({"failure": failure}))
        return 0
    apps = json.loads(Path(directory, "deployment.json").read_bytes())["apps"]
    fired = _fired(ran.events)
    samples = _since_ready(fired, apps) if mode == "paced" else _samples(fired)
    if mode:
        samples = _with_rare(samples, ran.report)
    document = {"samples": samples, "held": {}, "delayed": ran.delayed, **_of_report(ran.report)}
    if mode == "strict":
        document["runs"] = _runs(fired)
    Path(output).write_text(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
