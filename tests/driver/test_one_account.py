"""One account of what a network takes: analyses, checks, pins and plans say the same number, and
more memory never refuses what less allowed.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest
from flowc.driver.plan.program import place, plan
from flowc.driver.show.networks import network_bands
from flowc.driver.text.check import check
from flowc.model.application import Network
from flowc.model.deployment import PlannedMemory
from flowc.model.diagnostic import Diagnostic
from flowc.model.mapping import bands_in_words
from flowc.model.quantity import in_bytes
from flowc.model.times import times_of
from flowc.networks.bands import choose, firings
from flowc.networks.bands.choices import choices_of
from flowc.networks.onnx.memory import needs
from hypothesis import given, settings
from hypothesis import strategies as st

from grown import residual, unet
from models import stack

TASKS = (
    "import numpy as np\n\n\ndef camera():\n    return np.zeros(1)\n\n\ndef show(y):\n    pass\n"
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions would be larger than networks as small as these; searches are short."""
    monkeypatch.setattr(firings, "KEPT", ((710, 86), (190, 98)))
    monkeypatch.setattr(choose, "LOOKS", 300)
    monkeypatch.setattr(choose, "FIRINGS", 400)


class Text:
    """An app with a network, whose pin can be changed."""

    def __init__(self, folder: Path, model: onnx.ModelProto) -> None:
        self.network_file = folder / "net.onnx"
        onnx.save(model, self.network_file)
        (folder / "tasks.py").write_text(TASKS)
        self.path = folder / "eye.flow"
        x, y = (
            ", ".join(str(d.dim_value) for d in value[0].type.tensor_type.shape.dim)
            for value in (model.graph.input, model.graph.output)
        )
        self.rest = (
            f'task Camera {{ out x: float32[{x}] python "tasks.py:camera" }}\nnetwork Net from "net.onnx"\n'
            f'task Show {{ in y: float32[{y}] python "tasks.py:show" }}\n'
            "app Eye { camera: Camera net: Net show: Show camera -> net -> show }\nplatform one { cpu core[1] }\n"
        )
        self.path.write_text(self.rest)

    def network(self) -> Network:
        """The network as flowc knows it."""
        self.path.write_text(self.rest)
        found = check(self.path, platform="one").require().tasks["Eye.net"].network
        assert found is not None
        return found

    def pinned(self, words: str) -> tuple[list[Diagnostic], PlannedMemory | None]:
        """What is wrong with a pin, or what a program with it takes."""
        self.path.write_text(f"{self.rest}mapping on one {{ Eye.net -> core[0] {words} }}\n")
        checked = check(self.path, platform="one")
        faults = [d for d in checked.diagnostics if d.severity == "error"]
        if faults:
            return faults, None
        valid = checked.require()
        times = times_of(valid.system, valid.platform, None)
        return [], plan(valid, times, place(valid, times)).deployment.planned


def of_network(planned: PlannedMemory) -> int:
    """What the network takes: tokens belong to channels."""
    return planned.total - planned.tokens


def row(side: int) -> onnx.ModelProto:
    """Convolutions one behind the other."""
    with tempfile.TemporaryDirectory() as folder:
        return onnx.load(stack(Path(folder) / "net.onnx", 4, side, tail=False))


MODELS: dict[str, Callable[[int], onnx.ModelProto]] = {
    "sums": lambda side: residual(side, 16, 2),
    "sums that fill no blocks": lambda side: residual(side, 12, 1),
    "skips": lambda side: unet(side, 8, 2),
    "a row": row,
}


def ladder(sizes: list[int], draw: random.Random) -> Iterator[int]:
    """Limits around what choices take, and between."""
    for size in sizes:
        yield from (size - 1, size, size + 1)
    yield from (draw.randint(min(sizes) // 2, max(sizes) * 2) for _ in range(8))


@settings(max_examples=8)
@given(
    st.sampled_from(sorted(MODELS)),
    st.sampled_from((32, 48, 64)),
    st.randoms(use_true_random=False),
)
def test_more_memory_never_refuses(name: str, side: int, draw: random.Random) -> None:
    """If a limit builds, each larger one does; what is planned keeps to it, and is what the front
    said."""
    with tempfile.TemporaryDirectory() as folder:
        text = Text(Path(folder), MODELS[name](side))
        network = text.network()
        choices, whole = choices_of(network), needs(network)
        assert whole is not None and choices
        offered = {c.bytes for c in choices} | {whole.weights + whole.block}
        built = None
        for limit in sorted(set(ladder(sorted(offered), draw))):
            faults, planned = text.pinned(f"memory {limit} B")
            if planned is None:
                assert built is None, f"{limit} is refused, {built} is not"
                assert [d.code for d in faults] == ["F511"]
                continue
            built = limit
            assert of_network(planned) <= limit and of_network(planned) in offered
        assert built is not None


def test_nor_does_it_on_a_small_platform(tmp_path: Path) -> None:
    """The platform has less than a pin gives: that holds, so that a build finds room."""
    text = Text(tmp_path, residual(64, 16, 2))
    choices = choices_of(text.network())
    tokens = 4 * (3 * 64 * 64 + 16)
    room = choices[1].bytes + 50_000_000 + tokens
    text.rest = text.rest.replace("core[1] }", f"core[1] memory {room} B }}")
    seen = [text.pinned(f"memory {limit} B")[1] for limit in (c.bytes for c in choices)]
    assert all(p is not None and p.total + 50_000_000 <= room for p in seen)
    assert [None if p is None else of_network(p) for p in seen] == [choices[0].bytes] + [
        choices[1].bytes
    ] * (len(seen) - 1)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_all_say_the_same_number(name: str, tmp_path: Path) -> None:
    """`analyze --memory`, the limit at which a check begins to refuse, and the plan: of each
    choice, and of the whole."""
    text = Text(tmp_path, MODELS[name](64))
    network = text.network()
    choices, whole = choices_of(network), needs(network)
    assert whole is not None
    assert network_bands(text.network_file).choices == choices
    if not choices[-1].bands:
        assert choices[-1].bytes == whole.weights + whole.block
    for choice in choices:
        words = " ".join(map(bands_in_words, choice.bands))
        faults, planned = text.pinned(f"{words} memory {choice.bytes} B")
        assert not faults and planned is not None
        assert of_network(planned) == choice.bytes
        assert (planned.weights, planned.buffers, planned.sessions) == (
            choice.weights,
            choice.buffers,
            choice.sessions,
        )
        if choice.bands:
            (fault,), _ = text.pinned(f"{words} memory {choice.bytes - 1} B")
            assert (
                fault.code == "F511"
                and f"`Eye.net` takes {in_bytes(choice.bytes)}" in fault.message
            )
    (fault,), _ = text.pinned(f"memory {choices[0].bytes - 1} B")
    assert fault.code == "F511"


def test_sessions_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they take more than bands save, the whole network is the least there is."""
    monkeypatch.setattr(firings, "KEPT", ((710_000, 86_000), (190_000, 98_000)))
    text = Text(tmp_path, residual(64, 16, 2))
    (only,) = choices_of(text.network())
    assert not only.bands
    (fault,), _ = text.pinned(f"memory {only.bytes - 1} B")
    assert fault.code == "F511" and "no bands need less" in fault.help
