"""Fixtures of all tests."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from flowc.cli._common import progress
from flowc.driver.measure import measure as measuring
from hypothesis import HealthCheck, settings

from builds import ROOT, Write
from limits import HANGS, MOMENT
from tensorrt_api import stubs

# How long an example takes, or making one, says how busy the machine is.
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("any machine")
progress.between = float("inf")
measuring.SHORT = MOMENT
# The tree of commands is the same for every call in this process, and making it takes longer than
# most calls.
typer.testing._get_command = functools.cache(typer.testing._get_command)  # type: ignore[attr-defined]
#: What Chromium is called.
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_finish() -> None:
    """Tests and what they import stay until the end: the collector of Python need not look at them
    again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture(scope="session", autouse=True)
def can_be_interrupted() -> Iterator[None]:
    """Who starts the tests in the background has these signals ignored, and so would all that the
    tests start."""
    signals = [
        number
        for number in (signal.SIGINT, signal.SIGQUIT)
        if signal.getsignal(number) is signal.SIG_IGN
    ]
    for number in signals:
        signal.signal(
            number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        )
    yield
    for number in signals:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What flowc keeps for later is no other test run's, and no user's."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test run have in common."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a .flow text and the files beside it; returns the text's path."""

    def files(text: str, **others: str) -> Path:
        for name, content in others.items():
            stem, _, ending = name.rpartition("_")
            (tmp_path / f"{stem}.{ending}").write_text(content)
        flow = tmp_path / "app.flow"
        flow.write_text(text)
        return flow

    return files


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, with the networks that are not committed."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copytree(
        ROOT / "examples",
        folder,
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("*.json", "build", "*.svg"),
    )
    scripts = {
        "twins/mobilenet.onnx": "make_networks.py",
        "detect/ssd.onnx": "make_network.py",
        "superres/superres.onnx": "make_network.py",
    }
    for network, script in scripts.items():
        if not (folder / network).is_file():
            command = [sys.executable, str((folder / network).with_name(script))]
            subprocess.run(command, check=True, capture_output=True, timeout=HANGS)
    return folder


@pytest.fixture(scope="session")
def tensorrt_stubs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder with the stubs of a dialect of TensorRT, made once for all tests."""
    folder = tmp_path_factory.mktemp("tensorrt")
    made: dict[str, Path] = {}

    def of(dialect: str) -> Path:
        if dialect not in made:
            made[dialect] = stubs(dialect, folder)
        return made[dialect]

    return of


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, driven by playwright.

    One for each file that asks for it, and gone behind it: while it is there, this thread has an
    event loop that runs, and no test could use asyncio.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'flowc[browser]'")
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip("there is no Chromium: apt install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()
