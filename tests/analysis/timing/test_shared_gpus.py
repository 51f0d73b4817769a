"""GPUs that several apps share: by the priorities of their streams, and in slices of time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flowc.cli import app
from flowc.driver.build.build import build
from flowc.model.diagnostic import Errors
from typer.testing import CliRunner

from gpu_kernels import SCHEDULERS, tried

Write = Callable[..., Path]

#: A hog of one long kernel or of many short ones beside an app of two kernels.
BESIDE = """
platform p {{ cpu c[2] scheduler fixed_priority  gpu g scheduler {scheduler} compute 8.7 }}
task Kernel {{ out y: int32 }}
task Next {{ in x: int32  out y: int32 }}
task End {{ in x: int32  wcet 1 us }}
app Hog {{ period 200 ms  {hog}  a: Kernel  b: Next  e: End  a -> b -> e }}
app Quick {{ period {period} ms  {quick}  a: Kernel  b: Next  e: End  a -> b -> e }}
mapping on p {{
    Hog.a -> g wcet {long} ms  Hog.b -> g wcet 1 ms
    Quick.a -> g wcet 1 ms  Quick.b -> g wcet 1 ms
    Hog.e -> c[0]  Quick.e -> c[1]
}}
"""


def beside(
    scheduler: str, long: int = 10, hog: str = "", quick: str = "", period: float = 40
) -> str:
    words = {"hog": hog, "quick": quick, "long": long, "period": period}
    return BESIDE.format(scheduler=scheduler, **words)


def mapped(file: Path, platform: str = "p") -> dict[str, Any]:
    command = ["map", str(file), "--platform", platform, "--no-measure", "--json"]
    ran = CliRunner().invoke(app, [*command, "--evaluations", "20"])
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def responses(file: Path) -> dict[str, float | None]:
    groups = mapped(file)["groups"]
    times = {name: group["response_time_ns"] for name, group in groups.items()}
    return {name: None if ns is None else ns / 1e6 for name, ns in times.items()}


def test_a_kernel_that_runs_is_not_interrupted(write: Write) -> None:
    """Each of two kernels may find the longest one of the hog before it. The hog waits for those
    of the other app."""
    found = responses(write(beside("priority")))
    assert found["Quick"] == pytest.approx(2 + 2 * 10 + 0.001)
    assert found["Hog"] == pytest.approx(11 + 2 + 0.001)


def test_what_slips_in_is_no_more_than_there_is(write: Write) -> None:
    """Two slips of 10 ms would be too late; the hog has one such kernel, and one of 1 ms."""
    found = responses(write(beside("priority", quick="deadline 14 ms")))
    assert found["Quick"] == pytest.approx(2 + 10 + 1 + 0.001)


def test_what_has_no_period_slips_in_before_each_kernel(write: Write) -> None:
    """It always has one at hand, also where there are few of those with periods."""
    idle = "app Idle { a: Kernel  b: Next  e: End  a -> b -> e }\nmapping"
    text = beside("priority", long=3, quick="deadline 20 ms").replace("mapping", idle)
    text = text.replace("Quick.e ->", "Idle.a -> g wcet 5 ms  Idle.b -> g wcet 4 ms  Quick.e ->")
    found = responses(write(text.replace("Idle.a", "Idle.e -> c[1]  Idle.a", 1)))
    assert found["Quick"] == pytest.approx(2 * (1 + 5) + 0.001)


def test_in_slices_a_kernel_waits_for_a_turn_of_the_others(write: Write) -> None:
    """Each kernel has a turn, before which the hog has one: 2.1 ms, with a switch each."""
    found = responses(write(beside("time_slice 2 ms switch 100 us", long=116)))
    assert found["Quick"] == pytest.approx(2 * (1.1 + 2.1) + 0.001)


def test_what_is_above_decides_by_its_deadline(write: Write) -> None:
    """No numbers: the order is by deadline, also on a GPU."""
    said = mapped(write(beside("priority", long=30, period=50)))
    assert said["priorities"]["levels"] == [["Quick"], ["Hog"]]
    assert said["priorities"]["by"] == "deadline"


def test_no_order_is_ruled_out_by_what_is_below(write: Write) -> None:
    """The hog as the more urgent one keeps both deadlines, and the other order does not."""
    text = beside("priority", long=30, quick="deadline 34 ms  priority 1", hog="priority 2")
    assert mapped(write(text))["groups"]["Quick"]["schedulable"]


def test_the_challenge_of_waters_is_proved_in_slices(tmp_path: Path) -> None:
    """The industrial challenge of 2019: a GPU that processes share. With `fifo` or `priority` two
    apps are late behind a kernel of 116 ms."""
    text = Path(__file__).with_name("waters19.flow")
    shutil.copy(text, tmp_path)
    found = mapped(tmp_path / text.name, "tx2w")["groups"]
    assert len(found) == 10 and all(group["schedulable"] for group in found.values())
    assert found["Sfm"]["response_time_ns"] == 24_604_355
    assert found["Det"]["response_time_ns"] < 200_000_000
    supposed = {c["condition"] for group in found.values() for c in group["conditions"]}
    assert supposed == {"slices", "wakeup"}
    whole = (tmp_path / text.name).read_text()
    for scheduler in ("fifo", "priority"):
        (tmp_path / "other.flow").write_text(
            whole.replace("time_slice 2 ms switch 100 us", scheduler)
        )
        late = mapped(tmp_path / "other.flow", "tx2w")["groups"]
        assert [name for name, g in late.items() if not g["schedulable"]] == ["Sfm", "Det"]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("seed", range(500, 506))
def test_no_execution_takes_longer(scheduler: str, seed: int) -> None:
    seen = tried((scheduler, seed))
    assert all(ratio >= 1 for ratio in seen.ratios.values()), seen


ON_GPU = """
platform p { cpu c[2]  gpu g scheduler priority compute 8.7 }
task Source { out y: float32[4]  wcet 1 ms  python "t.py:source" }
task Kernel { in x: float32[4]  out y: float32[4]  on gpu cuda "k.cu:twice" (x, y) grid [1] block [4] }
task Sink { in x: float32[4]  wcet 1 ms  python "t.py:sink" }
app A { period 100 ms  s: Source  k: Kernel  e: Sink  s -> k -> e }
app B { period 50 ms  s: Source  k: Kernel  e: Sink  s -> k -> e }
mapping on p { A.k -> g wcet 2 ms  B.k -> g wcet 2 ms }
"""
KERNEL = 'extern "C" __global__ void twice(const float* x, float* y) { y[0] = 2 * x[0]; }\n'


def test_streams_have_the_priorities_of_their_apps(write: Write, tmp_path: Path) -> None:
    flow = write(ON_GPU, t_py="def source(): return [1] * 4\ndef sink(x): pass\n", k_cu=KERNEL)
    build(flow, tmp_path / "out", platform="p", measure=False)
    program = (tmp_path / "out" / "main.py").read_text()
    assert "OnStream(1)" in program and "OnStream(2)" in program


def test_a_program_takes_no_slices(write: Write, tmp_path: Path) -> None:
    text = ON_GPU.replace("scheduler priority", "scheduler time_slice 2 ms")
    flow = write(text, t_py="def source(): return [1] * 4\ndef sink(x): pass\n", k_cu=KERNEL)
    with pytest.raises(Errors) as caught:
        build(flow, tmp_path / "out", platform="p", measure=False)
    assert [d.code for d in caught.value.diagnostics] == ["F544"]
    assert not (tmp_path / "out").exists()
