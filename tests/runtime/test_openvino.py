"""Networks on OpenVINO: in the thread and on the cores of their worker, from what is kept in the
build, and told where it is missing."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import flowc
import numpy as np
import pytest
from flowc import cli
from flowc.driver.build.external import build_external
from flowc.driver.plan import compared
from flowc.driver.text import store
from flowc.driver.text.check import prepare
from flowc.model.diagnostic import Diagnostic, Errors
from flowc.model.mapping import as_text
from flowc.networks.engines import engine_of
from flowc.runtime.openvino import _flags
from typer.testing import CliRunner

from builds import HANGS, Write, build, harness, placed, run
from forks import PROGRAM, forks
from models import N, save, weights

pytestmark = pytest.mark.skipif(find_spec("openvino") is None, reason="there is no OpenVINO")

PYTHON = """
import numpy as np

def make(firings=[]):
    firings.append(0)
    return np.full((1, 4, 8, 8), len(firings), np.float32)

def take(y):
    print("got", float(y.sum()), flush=True)
"""
TEXT = """
task Make {{ out x: float32[1, 4, 8, 8]  python "t.py:make" }}
task Take {{ in y: float32[1, 4, 8, 8]  python "t.py:take" }}
network Net from "net.onnx" {{ in x: float32[1, 4, 8, 8] from "x"  out y: float32[1, 4, 8, 8] from "y" {more} }}
app A {{ m: Make  n: Net  t: Take  m -> n -> t }}
platform two {{ cpu core[2] }}
mapping on two {{ A.n -> core[1] engine openvino }}
"""


@pytest.fixture
def flow(write: Write) -> Path:
    """A text with a convolution on OpenVINO."""
    text = write(TEXT.format(more=""), t_py=PYTHON)
    _save(text.parent / "net.onnx")
    return text


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build of that text."""
    folder = tmp_path_factory.mktemp("openvino")
    (folder / "app.flow").write_text(TEXT.format(more=""))
    (folder / "t.py").write_text(PYTHON)
    _save(folder / "net.onnx")
    return build(folder / "app.flow", folder / "out", platform="two")


@pytest.fixture
def built(once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(once, tmp_path / "out"))


def _save(path: Path, factor: float = 0.3) -> Path:
    nodes = [N("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1]), N("Relu", ["h"], ["y"])]
    kernel = np.full((4, 4, 3, 3), factor, np.float32)
    return save(path, nodes, {"x": [1, 4, 8, 8]}, {"w": kernel}, "y")


def _kept(built: Path) -> Path:
    (kept,) = (built / "engines").iterdir()
    return kept


def test_a_program_runs_on_the_engine_of_its_pin_and_says_so(built: Path) -> None:
    (code,) = [
        t["code"]
        for t in json.loads((built / "deployment.json").read_text())["apps"][0]["tasks"]
        if t["name"] == "A.n"
    ]
    assert code["kind"] == "openvino"
    done = run(built, "--frames", "3", "--report", built / "r.json")
    assert done.returncode == 0, done.stderr
    report = json.loads((built / "r.json").read_text())
    assert report["tasks"]["A.n"]["engine"] == f"OpenVINO {engine_of('openvino').version}, f32"
    assert "engine" not in report["tasks"]["A.m"]
    assert "A.n      OpenVINO" in done.stdout
    assert harness(built).returncode == 0
    assert "openvino==" in (built / "requirements.txt").read_text()


def test_a_compiled_model_is_kept_until_something_differs(built: Path) -> None:

    def said() -> str:
        done = run(built, "--frames", "2", "--quiet")
        assert done.returncode == 0, done.stderr
        return done.stdout

    right = said()
    kept = _kept(built)
    whole, made = kept.read_bytes(), kept.stat().st_mtime_ns
    assert said() == right
    assert kept.stat().st_mtime_ns == made, "it was compiled again"

    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for damaged in (bytes(flipped), whole[: len(whole) // 2], b"", b"x" * 100):
        kept.write_bytes(damaged)
        assert said() == right
        content = kept.read_bytes()
        assert hashlib.sha256(content[32:]).digest() == content[:32], "it was not made anew"

    # other weights in a file of the same age are another network
    network = built / "networks" / "net.onnx"
    times = network.stat()
    _save(network, factor=0.6)
    os.utime(network, ns=(times.st_atime_ns, times.st_mtime_ns))
    doubled = [2 * float(line.split()[1]) for line in right.splitlines()]
    assert np.allclose([float(line.split()[1]) for line in said().splitlines()], doubled)
    assert len(list((built / "engines").iterdir())) == 2


def test_a_build_that_cannot_be_written_to_runs(built: Path) -> None:
    (built / "engines").write_text("no folder")
    assert run(built, "--frames", "2").returncode == 0


#: A thread of one core fires a network, while another one looks at its mask.
MASKS = """
    import os, threading
    import numpy as np
    from runtime.openvino import OpenVino
    from runtime.tokens import Port

    port = Port("x", "float32", (1, 64, 64, 64))
    code = OpenVino("net.onnx", ["x"], ["y"])
    code.open(".", [port], [Port("y", "float32", port.shape)])
    core = max(os.sched_getaffinity(0))
    seen, done, over, own = set(), threading.Event(), threading.Event(), []

    def work():
        os.sched_setaffinity(0, {core})
        own.append(threading.get_native_id())
        for k in range(60):
            code.fire([np.ones(port.shape, np.float32)], k)
        done.set()
        over.wait(60)  # what looks at the mask needs a thread that is there

    worker = threading.Thread(target=work)
    worker.start()
    while not done.wait(0.0005):
        if own:
            seen.add(tuple(sorted(os.sched_getaffinity(own[0]))))
    over.set()
    worker.join()
    print(seen == {(core,)}, seen)
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core")
def test_an_inference_stays_on_the_core_of_its_worker(built: Path) -> None:
    # Without care OpenVINO gives the thread all cores for as long as an inference runs.
    nodes = [N("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1]), N("Relu", ["h"], ["y"])]
    save(built / "net.onnx", nodes, {"x": [1, 64, 64, 64]}, {"w": weights(64, 64, 3, 3)}, "y")
    (built / "masks.py").write_text(textwrap.dedent(MASKS))
    done = forks(*PROGRAM).run([built / "masks.py"], cwd=built, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True"), done.stdout


def test_read_only_tokens_gaps_and_replicas_give_what_onnxruntime_gives(
    write: Write, tmp_path: Path
) -> None:
    python = """
import numpy as np

class Make:
    def __init__(self):
        self.k = 0

    def __call__(self):
        self.k += 1
        x = np.arange(512, dtype=np.float32).reshape(1, 4, 8, 16)[..., ::2] * self.k
        x.setflags(write=False)
        return x

def take(y):
    print("got", float(y.sum()), flush=True)
"""
    text = TEXT.replace("t.py:make", "t.py:Make").replace("core[1] e", "core[0], core[1] e")
    flow = write(text.format(more=""), t_py=python)
    _save(flow.parent / "net.onnx")
    built = build(flow, tmp_path / "out", platform="two")
    tested = harness(built)
    assert tested.returncode == 0, tested.stderr
    done = run(built, "--frames", "40", "--quiet")
    got = [float(line.split()[1]) for line in done.stdout.splitlines()]
    assert np.allclose(got, [got[0] * (k + 1) for k in range(40)], rtol=1e-4)


#: A program of one core asks for more threads.
BOUND = """
    import os
    from runtime.openvino import OpenVino
    from runtime.tokens import Port

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    code = OpenVino("networks/net.onnx", ["x"], ["y"], threads=3)
    ports = [Port(name, "float32", (1, 4, 8, 8)) for name in "xy"]
    code.open(".", ports[:1], ports[1:])
"""


def test_more_threads_than_cores_are_told(built: Path) -> None:
    (built / "bound.py").write_text(textwrap.dedent(BOUND))
    done = forks(*PROGRAM).run([built / "bound.py"], cwd=built, timeout=HANGS)
    assert done.returncode != 0
    assert "OpenVINO gives net.onnx 1 of 3 threads: this program may use 1 cores" in done.stderr


def test_a_build_tells_where_openvino_is_missing(built: Path) -> None:
    (built / "openvino.py").write_text("raise ImportError('not here')")
    done = run(built, "--frames", "2", "--quiet")
    assert done.returncode == 1
    assert "task A.n failed: cannot start: openvino is missing: pip install openvino" in done.stderr


def test_a_text_tells_where_openvino_is_missing(
    flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flowc.networks.engines import engine

    monkeypatch.setattr(engine, "version_of", lambda package: None)
    (fault,) = flowc.check(flow, platform="two").diagnostics
    assert (fault.code, fault.severity) == ("F615", "error")
    assert fault.help is not None and "flowc[openvino]" in fault.help


def test_what_another_engine_computes_otherwise_is_not_built(
    flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compared, "ATOL", 0.0)
    monkeypatch.setattr(compared, "RTOL", 0.0)
    monkeypatch.setattr(compared, "RULES", "of this test")
    with pytest.raises(Errors) as raised:
        flowc.build(flow, flow.parent / "out", platform="two", measure=False)
    (fault,) = raised.value.diagnostics
    assert fault.code == "F541"
    assert "gives another `y` than ONNX Runtime" in fault.message
    assert not (flow.parent / "out").exists()


def test_times_are_those_of_the_engine(flow: Path, tmp_path: Path) -> None:
    plain = flow.with_name("plain.flow")
    plain.write_text(flow.read_text().replace(" engine openvino", ""))
    seen = {}
    for text in (flow, plain):
        result = CliRunner().invoke(
            cli.app, ["profile", str(text), "--platform", "two", "--seconds", "0.2", "--json"]
        )
        assert result.exit_code == 0, result.output
        (entry,) = [e for e in json.loads(result.stdout)["entries"] if e["subject"] == "A.n"]
        seen[text.stem] = entry.get("engine")
    assert seen == {flow.stem: "openvino", "plain": None}
    # with another engine in the pin, the times are not those of the network
    flow.write_text(plain.read_text())
    profile, warnings = store.read_profile(prepare(flow, platform="two").require())
    assert profile is None
    assert "A.n" in warnings[0].message


# -- fewer bits ------------------------------------------------------------------------------------
bf16 = pytest.mark.skipif(
    not {"avx512_bf16", "amx_bf16", "bf16"}.intersection(_flags().split()),
    reason="this CPU does not compute in bf16",
)


@bf16
def test_a_network_in_bf16_is_compared_by_its_noise_and_what_follows_exactly(
    write: Write, tmp_path: Path
) -> None:
    # the sink's text has a digit for each place: a tolerance for numbers would not let it pass
    python = PYTHON + "\ndef best(y): return np.argsort(y.ravel())[:8].astype(np.int64)\n"
    text = TEXT.replace(
        "task Take {{ in y: float32[1, 4, 8, 8]",
        'task Best {{ in y: float32[1, 4, 8, 8]  out b: int64[8]  python "t.py:best" }}\ntask Take {{ in y: int64[8]',
    )
    text = text.replace("t: Take  m -> n -> t", "b: Best  t: Take  m -> n -> b -> t").replace(
        " engine openvino", ""
    )
    text = text.replace(
        'out x: float32[1, 4, 8, 8]  python "t.py:make"',
        'out x: float32[1, 4, 8, 8]  python "t.py:Noisy"',
    )
    python += """
class Noisy:
    def __init__(self): self.random = np.random.default_rng(1)
    def __call__(self): return self.random.standard_normal((1, 4, 8, 8)).astype(np.float32)
"""
    flow = write(text.format(more="precision bf16"), t_py=python)
    _save(flow.parent / "net.onnx")
    built = build(flow, tmp_path / "out", platform="two")
    assert 'precision="bf16"' in (built / "main.py").read_text()
    tested = harness(built)
    assert tested.returncode == 0, tested.stderr
    (db,) = re.findall(
        r"^A\.n: ([\d.]+) dB over 20 samples, 10 dB asked for$", tested.stderr, re.MULTILINE
    )
    assert 30 < float(db) < 80
    # another limit in the deployment is one that it does not keep
    path = built / "deployment.json"
    path.write_text(path.read_text().replace('"noise_db": 10.0', '"noise_db": 100.0'))
    tested = harness(built)
    assert tested.returncode != 0
    assert f"A.n: {db} dB over 20 samples" in tested.stderr


@bf16
def test_a_build_says_how_near_a_network_in_bf16_is(
    flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.write_text(flow.read_text().replace('from "y"  }', 'from "y" precision bf16 }'))
    words = ["build", str(flow), "--platform", "two", "--no-measure", "-o", str(flow.parent / "o")]
    result = CliRunner().invoke(cli.app, words)
    assert result.exit_code == 0, result.output
    assert re.search(
        r"`Net` in bf16 on OpenVINO: \d\d\.\d dB over 32 samples of random numbers", result.stderr
    )
    monkeypatch.setattr(compared, "least_db_of_engines", lambda network: 99.0)
    monkeypatch.setattr(compared, "LEAST_DB", 99.0)
    monkeypatch.setattr(compared, "RULES", "of this test")
    with pytest.raises(Errors) as raised:
        flowc.build(flow, flow.parent / "other", platform="two", measure=False)
    (fault,) = raised.value.diagnostics
    assert fault.code == "F541"
    assert "and 99 dB are asked for" in fault.message


REFUSED = {
    ("fp16", "core[0] engine openvino"): "in bf16 instead",
    ("bf16", "core[0] engine onnxruntime"): "ONNX Runtime does not compute in bf16",
    ("bf16", "gpu"): "cannot run on a gpu",
    ("bf16", "core[0] bands 2"): "no bands of rows",
}


@pytest.mark.parametrize(("precision", "pin"), REFUSED)
def test_precisions_that_are_not_there_are_refused(flow: Path, precision: str, pin: str) -> None:
    text = flow.read_text().replace('from "y"  }', f'from "y" precision {precision} }}')
    text = text.replace("core[1] engine openvino", pin).replace(
        "cpu core[2]", "cpu core[2] gpu gpu"
    )
    flow.write_text(text)
    (fault,) = [d for d in flowc.check(flow, platform="two").diagnostics if d.code == "F540"]
    assert REFUSED[precision, pin] in fault.message
    assert fault.help


ANY = 'from "y" precision any within 20 dB }'


@bf16
def test_a_pin_chooses_the_precision_that_the_text_leaves_open(flow: Path, tmp_path: Path) -> None:
    text = flow.read_text().replace('from "y"  }', ANY)
    flow.write_text(text.replace(" engine openvino", ""))
    plain = build(flow, tmp_path / "plain", platform="two")
    assert "OpenVino" not in (plain / "main.py").read_text()
    flow.write_text(text.replace(" engine openvino", " precision bf16"))
    built = build(flow, tmp_path / "out", platform="two")
    assert 'precision="bf16"' in (built / "main.py").read_text()
    assert '"noise_db": 20.0' in (built / "deployment.json").read_text()
    pin = as_text("two", placed(prepare(flow, platform="two").require(), None).placements, ())
    assert "A.n -> core[1] precision bf16" in pin


@pytest.mark.parametrize(
    ("wish", "pin", "said"),
    [
        ("", "precision bf16", "would be less exact than the text says"),
        ("precision any within 20 dB", "precision int8", "8 bits need data to find the ranges"),
    ],
)
def test_a_pin_does_not_choose_what_the_text_does_not_leave_open(
    flow: Path, wish: str, pin: str, said: str
) -> None:
    text = flow.read_text().replace('from "y"  }', f'from "y" {wish} }}')
    flow.write_text(text.replace("engine openvino", pin))
    (fault,) = flow_faults(flow)
    assert fault.code == "F540"
    assert said in fault.message


def flow_faults(flow: Path) -> list[Diagnostic]:
    """The errors of a text."""
    return [d for d in flowc.check(flow, platform="two").diagnostics if d.severity == "error"]


def test_a_library_for_c_says_that_it_has_no_bf16(flow: Path) -> None:
    text = flow.read_text().replace(" engine openvino", "")
    flow.write_text(text.replace('from "y"  }', 'from "y" precision bf16 }'))
    made = build_external(flow, flow.parent / "lib", platform="two")
    assert [d.code for d in made.diagnostics] == ["F608"]


def test_openvino_tells_nobody_that_it_is_imported() -> None:
    """Its telemetry would fork this process, and the fork may hang with its output."""
    code = (
        "import sys; from flowc.runtime.openvino import imported; imported();"
        " import openvino.tools.ovc.telemetry_utils as used;"
        " print(used.tm.__name__, 'openvino_telemetry' in sys.modules)"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANGS, check=True)
    assert done.stdout == "openvino.tools.ovc.telemetry_stub False\n"
