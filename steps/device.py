"""Times on a GPU and on DLAs, measured where they are: the program itself runs there, and reports what devices took.

In: a checked text whose platform has such processors, and a machine that has them too. Out: profile entries. For each
kind one program is built in which that kind runs all that it can; a network on a DLA stays off where a rule forbids it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from ..codegen.deploy import deploy, sequential
from ..codegen.emit import emit
from ..dsl.modules import local_modules
from ..mapping.targets import unfit_for
from ..model.application import Task
from ..model.diagnostic import Diagnostic, Faults
from ..model.mapping import Mapping
from ..model.profile import Profile, ProfileEntry
from ..profiling.host import host_hash
from ..profiling.identity import implementation_name
from . import Checked, Report, _write, content_hashes, firing_times

#: Frames that a program runs for, within limits: the first ones are slower, and are among the largest seen.
FEWEST, MOST = 30, 2000
#: How a script of a program is started.
COMMAND = [sys.executable]


def has_gpu() -> bool:
    """Is there a GPU that Python can use?"""
    from ..runtime.cuda import CudaError, open_cuda

    try:
        open_cuda()
    except CudaError:
        return False
    return True


def measure_devices(checked: Checked, profile: Profile, seconds: float, report: Report | None = None) -> Profile:
    """The profile with entries of the platform's GPU and DLAs. Raises Faults when a program fails."""
    assert checked.platform is not None
    frame_ns = sum(firing_times(checked, profile).values()) or 1e6
    frames = max(FEWEST, min(MOST, int(seconds * 1e9 / frame_ns)))
    entries = list(profile.entries)
    for kind in ("gpu", "dla"):
        able = {t.name: t for a in checked.system.apps for t in a.tasks if _runs_on(t, kind, checked)}
        if able:
            if report is not None:
                report(f"measuring {len(able)} tasks on a {kind}")
            entries = [e for e in entries if (e.processor, e.subject) not in {(kind, name) for name in able}]
            entries += _measured(checked, able, kind, frames, report)
    return replace(profile, entries=tuple(entries))


def _runs_on(task: Task, kind: str, checked: Checked) -> bool:
    assert checked.platform is not None
    there = any(p.kind == kind for p in checked.platform.pools)
    return there and bool(task.network or task.implementations) and unfit_for(task, kind, checked.platform) is None


def _measured(
    checked: Checked, able: dict[str, Task], kind: str, frames: int, report: Report | None
) -> list[ProfileEntry]:
    platform = checked.platform
    assert platform is not None
    place = next(p for pool in platform.pools if pool.kind == kind for p in pool.processors)
    first = sequential(checked.system, platform)
    gpu = next((p for pool in platform.pools if pool.kind == "gpu" for p in pool.processors), place)
    only = {t.name for a in checked.system.apps for t in a.tasks if unfit_for(t, "cpu", platform) is not None}
    where = {**dict.fromkeys(only, gpu), **dict.fromkeys(able, place)}
    placed = (replace(p, processors=(where.get(p.task, p.processors[0]),)) for p in first.placements)
    mapping = Mapping(platform.name, tuple(placed), (), "none")
    plain = replace(
        checked.system, apps=tuple(replace(a, period_ns=None, deadline_ns=None) for a in checked.system.apps)
    )
    repetition = {name: v.repetition for name, v in checked.verdicts.items()}
    deployed = deploy(plain, platform, mapping, repetition, {}, local_modules)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "measured"
        _write(emit(deployed), directory, deployed, force=False)
        if (directory / "build_engines.py").exists():
            if report is not None:
                report("building TensorRT engines, which takes minutes")
            _run(checked, directory, "build_engines.py")
        _run(checked, directory, "main.py", "--frames", str(frames), "--quiet", "--report", "report.json")
        seen = json.loads((directory / "report.json").read_text())["tasks"]
    digests = content_hashes(checked)
    return [_entry(task, digests[name], kind, seen[name]) for name, task in able.items() if seen[name]["firings"]]


def _run(checked: Checked, directory: Path, *command: str) -> None:
    words = [*COMMAND, *command]
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[-10:])
        message = f"the application failed while it was measured\n{said}"
        raise Faults([Diagnostic("F606", message, checked.system.apps[0].span)])


def _entry(task: Task, digest: str, kind: str, seen: dict[str, float]) -> ProfileEntry:
    """WCET = max(largest seen, mean + 6 sigma), as on CPUs."""
    mean, std, most = (round(1000 * seen[key]) for key in ("mean_us", "std_us", "max_us"))
    name = implementation_name(task, kind)
    batch, precision = (task.network.batch, task.network.precision) if task.network else (1, "fp32")
    return ProfileEntry(
        kind, task.name, name, digest, host_hash(), int(seen["firings"]), mean, std, most, max(most, mean + 6 * std),
        batch, precision,
    )  # fmt: skip
