"""`flowc new --kit`: what deploys and tests an application on other machines; and what a build
needs there."""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import flowc
import numpy as np
import onnx
import pytest
from flowc.cli import app
from flowc.machines.whoami import version_of
from typer.testing import CliRunner

from builds import HANGS, Write, store_profile
from cnns import mobilenet

KIT = {"Dockerfile", ".dockerignore", ".github", ".gitignore", "requirements.txt"}


def new(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["new", *words])
    return done.exit_code, done.stdout, done.stderr


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_a_kit_comes_with_a_starter_or_beside_a_text(tmp_path: Path) -> None:
    assert new(str(tmp_path / "My_App"), "--kit")[0] == 0
    assert names(tmp_path / "My_App") == {
        "My_App.flow",
        "tasks.py",
        "README.md",
        "my-app.service",
        *KIT,
    }
    own = tmp_path / "own"
    own.mkdir()
    (own / "spot.flow").write_text("app A { }\n")
    assert new(str(own), "--kit")[0] == 0
    assert names(own) == {"spot.flow", "spot.service", *KIT}


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (["a.flow", "Dockerfile", ".gitignore"], "has `Dockerfile` and `.gitignore` already"),
        (["a.flow", "b.flow"], "has several texts: `a.flow` and `b.flow`"),
        (["a b.flow"], "`a b.flow` has a name that would need quotes"),
        (["notes.txt"], "is not empty"),
    ],
)
def test_a_kit_replaces_nothing(there: list[str], said: str, tmp_path: Path) -> None:
    for name in there:
        (tmp_path / name).write_text("mine")
    status, _, stderr = new(str(tmp_path), "--kit")
    assert status == 1 and "F604" in stderr and said in stderr
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == dict.fromkeys(there, "mine")


def test_the_commands_of_a_kit_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines that call flowc in the recipes, with nothing measured beforehand."""
    project = tmp_path / "spot"
    assert new(str(project), "--kit")[0] == 0
    recipe = (project / ".github" / "workflows" / "flowc.yml").read_text()
    steps = re.findall(r"^      - run: (flowc .*)$", recipe, re.MULTILINE)
    docker = (project / "Dockerfile").read_text()
    steps += re.findall(r"^RUN (flowc .*)$", docker, re.MULTILINE)
    assert [s.split()[1] for s in steps] == ["check", "build", "test", "build"]
    for step in steps:
        words = shlex.split(step.replace("/program", str(tmp_path / "program")))
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=HANGS,
            check=False,
        )
        assert done.returncode == 0 and "measuring" not in done.stderr, done.stderr
    assert (project / "build" / "tests.xml").read_text().startswith("<testsuites")
    assert (tmp_path / "program" / "main.py").is_file() and (
        tmp_path / "program" / "requirements.txt"
    ).is_file()
    assert 'ENTRYPOINT ["python", "/program/main.py"]' in docker and "STOPSIGNAL SIGTERM" in docker


@pytest.mark.parametrize("kit", ["--kit", "--service"])
def test_a_kit_installs_flowc_from_its_wheel(kit: str, tmp_path: Path) -> None:
    """No package index has flowc: a name alone would be the package of another project."""
    assert new(str(tmp_path / "spot"), kit)[0] == 0
    docker = (tmp_path / "spot" / "Dockerfile").read_text()
    recipe = (tmp_path / "spot" / ".github" / "workflows" / "flowc.yml").read_text()
    wheel = f"./flowc-{flowc.__version__}-py3-none-any.whl"
    assert f"ARG FLOWC={wheel}\n" in docker and f"FLOWC: {wheel}\n" in recipe
    # its build has to see the wheel
    assert "whl" not in (tmp_path / "spot" / ".dockerignore").read_text()


def test_a_container_starts_where_its_user_may_write(tmp_path: Path) -> None:
    assert new(str(tmp_path / "spot"), "--kit")[0] == 0
    run_in = (tmp_path / "spot" / "Dockerfile").read_text().split("\nFROM ")[-1]
    assert re.search(r"install -d -o flowc /data\nUSER flowc\nWORKDIR /data\n", run_in)


def test_the_unit_knows_how_a_program_ends(tmp_path: Path) -> None:
    assert new(str(tmp_path / "spot"), "--kit")[0] == 0
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(tmp_path / "spot" / "spot.service")
    service = dict(unit["Service"])
    assert service["ExecStart"] == "/opt/spot-python/bin/python /opt/spot/main.py"
    assert service["SuccessExitStatus"] == "143" and service["KillSignal"] == "SIGTERM"
    # frames in flight get 5 s
    assert float(service["TimeoutStopSec"]) > 5
    # a camera that is missing when the machine starts may come at any time
    assert service["Restart"] == "always" and float(service["RestartSec"]) > 0
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"


# -- what a build needs ----------------------------------------------------------------------------
def requirements(directory: Path) -> list[str]:
    return [
        x
        for x in (directory / "requirements.txt").read_text().splitlines()
        if not x.startswith("#")
    ]


def test_a_program_without_networks_needs_numpy_alone(write: Write, tmp_path: Path) -> None:
    flow = write(
        'task T { out n: int64  python "t.py:t" }\napp A { t: T }', t_py="def t(): return 1\n"
    )
    store_profile(flow)
    assert requirements(flowc.build(flow, tmp_path / "out").directory) == ["numpy>=1.17.3"]


NETWORK = """
task Source { out x: float32[1, 3, 32, 32]  python "t.py:source" }
network Net from "net.onnx" { batch 1  in x from "image"  out y from "scores" }
task Sink { in y: float32[1, 10]  python "t.py:sink" }
app A { source: Source  net: Net  sink: Sink  source -> net -> sink }
platform pc { cpu core  gpu ada }
platform board { cpu core  gpu ampere  tensorrt "10.3" }
"""


@pytest.mark.parametrize("platform", ["host", "pc", "board"])
def test_networks_need_the_library_that_they_were_built_with(
    platform: str, write: Write, tmp_path: Path
) -> None:
    pin = f"mapping on {platform} {{ A.net -> ampere }}" if platform == "board" else ""
    pin = f"mapping on {platform} {{ A.net -> ada }}" if platform == "pc" else pin
    flow = write(NETWORK + pin, t_py="def source(): pass\ndef sink(y): pass\n")
    onnx.save(mobilenet(), tmp_path / "net.onnx")
    directory = flowc.build(flow, tmp_path / "out", platform=platform, measure=False).directory
    if platform == "host":
        version = version_of("onnxruntime")
        assert requirements(directory) == [
            "numpy>=1.17.3",
            f'onnxruntime=={version}; python_version >= "3.11"',
            'onnxruntime>=1.17; python_version < "3.11"',
        ]
    elif platform == "pc":
        assert (
            requirements(directory)[1].startswith("onnxruntime-gpu")
            and "cuda-python" in requirements(directory)[-1]
        )
    else:
        assert requirements(directory) == ["numpy>=1.17.3", "cuda-python<13  # or PyCUDA"]
        assert "# TensorRT 10.3: NVIDIA's package" in (directory / "requirements.txt").read_text()


# -- services --------------------------------------------------------------------------------------
SERVICE = {*KIT, "compose.yml", "service.py", "load.py"}
OPEN = """
task Half { in x: float32[3]   out y: float32[3]   python "t.py:half" }
app Small { in x: float32[3]   out y: float32[3]   half: Half   x -> half -> y }
"""


def test_a_service_comes_with_a_starter_or_beside_a_text_with_open_ends(tmp_path: Path) -> None:
    assert new(str(tmp_path / "My_App"), "--service")[0] == 0
    own = {"My_App.flow", "tasks.py", "README.md", "my-app.service"}
    assert names(tmp_path / "My_App") == own | SERVICE
    for word in ("--service", "--kit"):
        there = tmp_path / word
        there.mkdir()
        (there / "small.flow").write_text(OPEN)
        (there / "t.py").write_text("def half(x): return x / 2\n")
        status, told, _ = new(str(there), word)
        assert status == 0
        assert told.endswith(f"try: cd {there}; flowc build small.flow; uvicorn service:app\n")
        assert names(there) == {"small.flow", "t.py", "small.service", *SERVICE}
        assert "opt/small/small" in (there / "small.service").read_text()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
@pytest.mark.parametrize("kit", ["--kit", "--service"])
def test_systemd_takes_the_unit_as_it_is(kit: str, tmp_path: Path) -> None:
    """But for the path of an interpreter that is not installed here."""
    assert new(str(tmp_path / "app"), kit)[0] == 0
    unit = tmp_path / "app" / "app.service"
    written = re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", unit.read_text())
    assert written != unit.read_text()
    unit.write_text(written)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=HANGS
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_text_without_open_ends_is_no_service(tmp_path: Path) -> None:
    (tmp_path / "a.flow").write_text('task T { out x: int32   c "t.c:t" }\napp A { t: T }\n')
    (tmp_path / "t.c").write_text("void t(int *x) { *x = 1; }\n")
    status, _, stderr = new(str(tmp_path), "--service")
    assert status == 1 and "F604" in stderr and "no app of `a.flow` has open ends" in stderr
    (tmp_path / "a.flow").write_text("app A {")
    assert new(str(tmp_path), "--service")[0] == 1
    assert names(tmp_path) == {"a.flow", "t.c"}


@contextmanager
def served(project: Path, **environment: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a service that runs, and its process."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--log-level", "warning"], cwd=project, env={**os.environ, **environment}
    )
    try:
        until = time.monotonic() + HANGS
        while True:
            try:
                if asked(f"http://127.0.0.1:{port}/ready")[0] == 200:
                    break
            except OSError:
                pass
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait(HANGS)


def asked(url: str, body: bytes | None = None, kind: str = "application/json") -> tuple[int, bytes]:
    """Status and answer of a request."""
    request = urllib.request.Request(url, body, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=HANGS) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service that is built."""
    folder = tmp_path_factory.mktemp("service") / "service"
    assert new(str(folder), "--service")[0] == 0
    flowc.build(folder / "service.flow", folder / "build" / "service", measure=False)
    return folder


def test_a_service_answers_each_request_by_itself(project: Path) -> None:
    light, dark = bytes([9]) * (48 * 64), bytes(48 * 64)
    with served(project, MOST_BYTES="20000") as (url, _):
        assert asked(f"{url}/Service", light, "application/octet-stream") == (200, b"[9.0,0.0]")
        given = json.dumps({"image": [[9] * 64] * 48}).encode()
        assert asked(f"{url}/Service", given) == (200, b"[9.0,0.0]")
        status, said = asked(f"{url}/Service", dark, "application/octet-stream")
        assert status == 422 and json.loads(said) == {"error": "ValueError: the image is dark"}
        for wrong in (
            b"{",
            b"[]",
            b'{"image": 3}',
            b'{"picture": 3}',
            b'{"image": "x"}',
            b'{"image": NaN}',
        ):
            assert asked(f"{url}/Service", wrong)[0] == 400
        assert asked(f"{url}/Service", bytes(7), "application/octet-stream")[0] == 400
        assert asked(f"{url}/Service", bytes(30_000))[0] == 413
        assert asked(f"{url}/Other", light)[0] == 404 and asked(f"{url}/Other")[0] == 404
        assert asked(f"{url}/health") == (200, b"ok")
        metrics = asked(f"{url}/metrics")[1].decode()
        assert 'flowc_skipped_total{app="Service"} 1.0' in metrics
        assert 'requests_total{status="200"} 2.0' in metrics and "flowc_up 1.0" in metrics


ROOTS = """
task Root { in x: float32[2, up to 4]   out y: float32[2, up to 4]   out n: int32   python "r.py:root" }
app Roots { in x: float32[2, up to 4]   out y: float32[2, up to 4]   out n: int32   root: Root
    x -> root.x   root.y -> y   root.n -> n }
"""


def test_a_service_takes_sizes_that_vary_and_answers_with_what_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "roots.flow").write_text(ROOTS)
    (tmp_path / "r.py").write_text("import numpy as np\ndef root(x): return np.log2(x), x.size\n")
    assert new(str(tmp_path), "--service")[0] == 0
    flowc.build(tmp_path / "roots.flow", tmp_path / "build" / "roots", measure=False)
    raw = "application/octet-stream"
    x = np.float32([[1, -1], [4, 0]]).tobytes()
    with served(tmp_path) as (url, _):
        kind = "float32[2, up to 4]"
        assert json.loads(asked(f"{url}/Roots")[1]) == {
            "inputs": {"x": {"type": kind, "dtype": "float32", "shape": [2, 4]}},
            "outputs": {"y": {"type": kind}, "n": {"type": "int32"}},
        }
        for shape in ("?shape=2,2", ""):
            status, said = asked(f"{url}/Roots{shape}", x, raw)
            assert (status, json.loads(said)) == (200, {"y": [[0, None], [2, None]], "n": 4})
        for size in (4, 12, 17, 40):
            assert asked(f"{url}/Roots", bytes(size), raw)[0] == 400
        for large in (b"1e39", b"-1e400", b"NaN", b"Infinity", b"1" + bytes(b"0" * 400)):
            assert asked(f"{url}/Roots", b'{"x": [[%s], [1]]}' % large)[0] == 400
        assert json.loads(asked(f"{url}/Roots", b'{"x": [[1e38], [1]]}')[1])["n"] == 2
        for wrong in ("?shape=2,3", "?shape=4,1", "?shape=-2,-2", "?shape=x"):
            assert asked(f"{url}/Roots{wrong}", x, raw)[0] == 400
        assert asked(f"{url}/health") == (200, b"ok")


def test_a_service_under_load_ends_without_losing_a_request(project: Path) -> None:
    """The load test sends a bad request in ten, and the others as 3072 raw bytes, which are several
    times as many in JSON; SIGTERM comes while others are under way."""
    with served(project, MOST_BYTES="5000") as (url, process):
        load = [sys.executable, "load.py", f"{url}/Service", "--callers", "8", "--seconds", "1"]
        done = subprocess.run(
            load, cwd=project, capture_output=True, text=True, timeout=HANGS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"^200: \d+\n400: \d+\n", done.stdout)
        light = bytes([9]) * (48 * 64)
        with ThreadPoolExecutor(8) as pool:
            kinds = ["application/octet-stream"] * 200

            def one(kind: str) -> object:
                try:
                    return asked(f"{url}/Service", light, kind)
                except OSError:
                    return "refused"  # it came after the end, and was not taken

            answers = pool.map(one, kinds)
            process.terminate()
            found = set(answers)
        assert found <= {(200, b"[9.0,0.0]"), "refused"}
        process.wait(HANGS)


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_the_request_in_the_readme_of_a_starter_is_answered(project: Path) -> None:
    readme = (project / "README.md").read_text()
    (line,) = [
        block for block in re.findall(r"```sh\n(.*?)```", readme, re.DOTALL) if "curl" in block
    ]
    with served(project) as (url, _):
        line = line.replace("http://127.0.0.1:8000", url)
        words = ["sh", "-c", line]
        done = subprocess.run(words, capture_output=True, text=True, timeout=HANGS, check=True)
    level, deviation = json.loads(done.stdout)
    assert 100 < level < 150 and deviation > 0


FAILS = """
task Root { in x: float32   out y: float32   python "r.py:root" }
app Roots { in x: float32   out y: float32   root: Root   x -> root -> y }
"""


def made(folder: Path, text: str, code: str) -> Path:
    """The service of a text, built."""
    (folder / "roots.flow").write_text(text)
    (folder / "r.py").write_text(code)
    assert new(str(folder), "--service")[0] == 0
    flowc.build(folder / "roots.flow", folder / "build" / "roots", measure=False)
    return folder


def test_a_service_whose_program_has_failed_ends_its_process(tmp_path: Path) -> None:
    """The request that it fails at gets an answer first; the status is not that of SIGTERM, which
    tells systemd to start no other one."""
    code = "def root(x): return 1 / float(x)\n"
    with served(made(tmp_path, FAILS, code)) as (url, process):
        assert asked(f"{url}/Roots", b'{"x": 2}') == (200, b"0.5")
        assert asked(f"{url}/Roots", b'{"x": 0}') == (503, b'{"error":"the program has ended"}')
        assert process.wait(HANGS) == 1


def half_sent(url: str) -> socket.socket:
    """A connection to a service on which a request has begun whose body does not come."""
    place = urllib.parse.urlsplit(url)
    connection = socket.create_connection((place.hostname, place.port), timeout=HANGS)
    connection.sendall(
        f"POST {place.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1".encode()
    )
    return connection


def counted(url: str, status: int) -> bool:
    """Do the metrics of a service tell one request with that status, within the limit?"""
    until = time.monotonic() + HANGS
    while time.monotonic() < until:
        if f'requests_total{{status="{status}"}} 1.0' in asked(f"{url}/metrics")[1].decode():
            return True
        time.sleep(0.02)
    return False


def test_a_service_counts_what_it_cannot_read(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with served(project) as (url, _):
        assert asked(f"{url}/Service", b"[" * 100_000)[0] == 400
        half_sent(f"{url}/Service").close()
        assert counted(url, 400) and counted(url, 499)
    assert capfd.readouterr().err == ""


def test_a_body_that_does_not_come_takes_no_place_for_ever(project: Path) -> None:
    with served(project, MOST_REQUESTS="1", MOST_SECONDS="0.2") as (url, _):
        with half_sent(f"{url}/Service") as connection:
            told = b""
            while piece := connection.recv(4096):  # no limit: the connection has one
                told += piece
        assert told.startswith(b"HTTP/1.1 408") and told.endswith(b'{"error":"no body in 0.2 s"}')
        assert asked(f"{url}/ready") == (200, b"ready") and counted(url, 408)


def test_slow_senders_take_no_place_from_others(project: Path) -> None:
    """Bodies that are on their way are no requests yet; the oldest ones give way to others."""
    with contextlib.ExitStack() as open_ones, served(project, MOST_REQUESTS="1") as (url, _):
        slow = [open_ones.enter_context(half_sent(f"{url}/Service")) for _ in range(5)]
        told = b""
        while piece := slow[0].recv(4096):  # no limit: the connection has one
            told += piece
        assert told.startswith(b"HTTP/1.1 408")
        assert told.endswith(b'{"error":"too many requests come slowly"}')
        image = bytes(range(256)) * 12
        status, said = asked(f"{url}/Service", image, "application/octet-stream")
        assert status == 200, said
        assert asked(f"{url}/ready") == (200, b"ready")


def test_a_request_of_no_size_does_not_end_a_service(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It would where a task or network cannot take it, and has no `on error skip`: this is said."""
    text = FAILS.replace("x: float32", "x: float32[2, up to 4]")
    folder = made(tmp_path, text, "def root(x): return x.max()\n")
    with served(folder) as (url, process):
        for body in (b'{"x": [[], []]}', b'{"x": []}', b'{"x": [[1], []]}'):
            assert asked(f"{url}/Roots", body)[0] == 400
        status, said = asked(f"{url}/Roots", b"", "application/octet-stream")
        assert (status, said) == (400, b'{"error":"`x` is empty, and takes float32[2, up to 4]"}')
        assert asked(f"{url}/Roots", b'{"x": [[1], [2]]}') == (200, b"2.0")
        assert process.poll() is None
    said = "a request at which Roots.root fails ends this process; `on error skip` leaves it out"
    assert said in capfd.readouterr().err


def test_a_service_that_hangs_is_not_ready(tmp_path: Path) -> None:
    """Until the task comes back; that the process is ended waits for longer here."""
    code = (
        "import pathlib, time\n"
        "def root(x):\n"
        "    while x > 1 and not pathlib.Path('go').exists(): time.sleep(0.01)\n"
        "    return x\n"
    )
    folder = made(tmp_path, FAILS, code)
    service = folder / "service.py"
    limit = "HUNG_SECONDS = 2 * MOST_SECONDS"
    assert limit in service.read_text()
    service.write_text(service.read_text().replace(limit, "HUNG_SECONDS = 1000"))
    with served(folder, MOST_SECONDS="0.2") as (url, _):
        assert asked(f"{url}/Roots", b'{"x": 2}')[0] == 504
        assert becomes(503, f"{url}/ready")
        assert asked(f"{url}/Roots", b'{"x": 1}') == (
            503,
            b'{"error":"a task has taken more than 0.2 s"}',
        )
        assert asked(f"{url}/health")[0] == 200
        (folder / "go").touch()
        assert becomes(200, f"{url}/ready")
        assert asked(f"{url}/Roots", b'{"x": 1}') == (200, b"1.0")


def becomes(status: int, url: str) -> bool:
    """Does an address answer with that status, within the limit?"""
    until = time.monotonic() + HANGS
    while asked(url)[0] != status and time.monotonic() < until:
        time.sleep(0.02)
    return time.monotonic() < until


def test_a_service_with_a_task_that_hangs_ends_its_process(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "import time\ndef root(x): time.sleep(3600)\n"
    folder = made(tmp_path, FAILS, code)
    with served(folder, MOST_SECONDS="0.2") as (url, process):
        assert asked(f"{url}/Roots", b'{"x": 2}')[0] in (503, 504)
        assert process.wait(HANGS / 4) == 1  # the usual watchdog would take 60 s
    assert re.search(
        r"^the process ends: Roots\.root: did not return for [^-]* \(twice MOST_SECONDS, 0\.2 s\)$",
        capfd.readouterr().err,
        re.MULTILINE,
    )
