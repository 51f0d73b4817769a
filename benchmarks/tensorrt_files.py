"""Which network files for TensorRT NVIDIA's own parser takes, and its builder builds.

    python benchmarks/tensorrt_files.py [TEXT ...]
    python benchmarks/tensorrt_files.py --suite [--limit N] [--packages FOLDER]

It needs the extra `rtx` (under NVIDIA's licence), but no GPU.
The first command builds examples for each platform.
It asks about their network files.

The second command compares flowc's rules with TensorRT.
It does so on onnx's backend suite, and on unpacked wheels in FOLDER
(see benchmarks/networks.py).
What flowc keeps on a CPU anyway is left out.

    surprise    flowc says yes, and TensorRT no
    stricter    flowc says no, and TensorRT yes
    not in RTX  TensorRT has the operator, TensorRT for RTX lacks it
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flowc
import numpy as np
from flowc.driver.build.engine_memory import sized
from flowc.model.application import Network
from flowc.model.diagnostic import Errors
from flowc.networks.tensorrt import referee
from flowc.networks.tensorrt.operators import NOT_IN_RTX
from flowc.targets import tensorrt as target

import networks as cases  # noqa: TID251 - the benchmark beside this one

ROOT = Path(__file__).resolve().parents[1]
IN_8_BITS = 'precision int8  calibrate "frames/*.npy"'
#: Examples, with what is changed in their texts: changes at once are not for GPUs.
TEXTS: dict[str, tuple[str, tuple[str, str]]] = {
    "detector": ("detector", ("", "")),
    "detector, int8": ("detector", ("precision fp16", IN_8_BITS)),
    "spotter": ("spotter", ("", "")),
    "tracker": ("tracker", ("", "")),
    "drone": ("drone", (" at once", "")),
    "twins": ("twins", ("", "")),
}
#: Shape of the pictures with which `detector` is quantized, and their number.
PICTURES, SHAPE = 4, (1, 3, 192, 256)
PLATFORMS = ("xavier", "orin", "orin_jetpack7", "thor", "rtx_pc")
#: The platform whose TensorRT is nearest to the parser, and seconds for one file.
NEAREST, PATIENCE = "orin_jetpack7", 600
#: What the builder of TensorRT for RTX says of operators that it lacks.
NO_RUNNERS = "has no runners"
#: Characters of TensorRT's words.
MOST_WORDS = 90


@dataclass(frozen=True, slots=True)
class Made:
    """A network file of a build, and what TensorRT says of it."""

    text: str
    platform: str
    file: str
    answer: referee.Answer | None

    @property
    def words(self) -> str:
        """TensorRT's answer in words."""
        if self.answer is None:
            return "no answer"
        if self.answer.errors:
            return f"refused: {self.answer.errors[0][2][:MOST_WORDS]}"
        if self.answer.built is None:
            return f"not built: {self.answer.words[:MOST_WORDS]}"
        return f"built, {self.answer.built / 1e6:.2f} MB"


def files_of(directory: Path) -> Iterator[str]:
    """The network files of a build that TensorRT gets."""
    found: dict[str, None] = {}
    for code in _engines(json.loads((directory / "deployment.json").read_text())):
        found[code["file"]] = None
        if code.get("implicit"):
            found[code["implicit"]] = None
    yield from found


def _engines(value: Any) -> Iterator[dict[str, Any]]:
    """The engines of TensorRT anywhere in a deployment."""
    if isinstance(value, dict):
        if value.get("engine") == "tensorrt":
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _engines(part)


def copied(name: str, folder: Path) -> Path:
    """The text of an example, in a copy of its own."""
    example, (old, new) = TEXTS[name]
    place = folder / name.replace(", ", "_")
    builds = shutil.ignore_patterns("build")
    shutil.copytree(ROOT / "examples" / example, place, ignore=builds)
    text = place / f"{example}.flow"
    if old:
        text.write_text(text.read_text().replace(old, new))
    (place / "frames").mkdir(exist_ok=True)
    draw = np.random.default_rng(0)
    for number in range(PICTURES):
        np.save(place / "frames" / f"{number}.npy", draw.random(SHAPE, np.float32))
    return text


def made(name: str, text: Path, platform: str, folder: Path) -> Iterator[Made]:
    """Build a text for a platform, and ask about its networks."""
    directory = folder / f"{name}.{platform}"
    try:
        flowc.build(text, platform=platform, output=directory, measure=False)
    except Errors as faults:
        print(f"{name} for {platform}: no build: {faults.diagnostics[0].message}")
        return
    for file in files_of(directory):
        answer = referee.ask(directory / file, build=True, patience=PATIENCE)
        yield Made(name, platform, file, answer)


def table(rows: Iterable[Made]) -> str:
    """The files as a table."""
    lines = ["| text | platform | file | TensorRT for RTX |", "| --- | --- | --- | --- |"]
    for m in rows:
        file = Path(m.file).name
        lines.append(f"| {m.text} | {m.platform} | `{file}` | {m.words} |")
    return "\n".join(lines)


def examples(texts: Sequence[Path]) -> bool:
    """Print the table of all texts and platforms. Were all files built?"""
    rows: list[Made] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        own = {text.stem: text for text in texts}
        if not own:
            own = {name: copied(name, folder) for name in TEXTS}
        for name, text in own.items():
            for platform in PLATFORMS:
                rows += made(name, text, platform, folder)
    answers = [m.answer for m in rows]
    built = sum(a is not None and a.built is not None for a in answers)
    print(table(rows))
    print(f"\n{built} of {len(rows)} files were parsed and built")
    return built == len(rows)


# -- flowc's rules beside the parser ---------------------------------------------------------------
def on_the_gpu(case: cases.Case, network: Network, folder: Path) -> tuple[str, Network]:
    """flowc's reason against a network on such a GPU ("" for none).

    Also the network that TensorRT gets: old ones are converted.
    """
    ports = [f"in {name} = {value}" for name, value in case.constants.items()]
    around = []
    arrows = []
    for number, tensor in enumerate(network.inputs):
        ports.append(f'in i{number}: {tensor.type} from "{tensor.name}"')
        around.append(f"task S{number} {{ out x: {tensor.type} }}")
        arrows.append(f"s{number}: S{number}  s{number} -> net.i{number}")
    for number, tensor in enumerate(network.outputs):
        ports.append(f'out o{number}: {tensor.type} from "{tensor.name}"')
        around.append(f"task E{number} {{ in x: {tensor.type} }}")
        arrows.append(f"e{number}: E{number}  net.o{number} -> e{number}")
    text = folder / "gpu.flow"
    lines = [f'network Net from "{case.model}" {{', *ports, "}"]
    lines += [*around, "app A {", "net: Net", *arrows, "}"]
    lines += [f"mapping on {NEAREST} {{ A.net -> ampere }}"]
    text.write_text("\n".join(lines) + "\n")
    checked = flowc.check(text, platform=NEAREST)
    faults = [d for d in checked.diagnostics if d.severity == "error"]
    used = network
    for app in checked.system.apps:
        for task in app.tasks:
            used = task.network or used
    if not faults:
        return "", used
    return f"{faults[0].code}: {faults[0].message}", used


def suite(packages: Path | None, limit: int | None) -> bool:
    """Compare all cases. Was there no surprise?"""
    setattr(target, "is_installed", lambda: False)  # noqa: B010 - the rules alone
    counts: Counter[str] = Counter()
    shown: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rooms = [*cases.in_wheel(folder)][:limit]
        rooms += [*cases.generated(folder)][:limit]
        if packages is not None:
            rooms += cases.in_packages(packages)
        for case in rooms:
            right = cases.untouched(case)
            if isinstance(right, str):
                continue
            _, network = cases.taken(case, right, folder)
            if network is None or network.one_piece:
                counts["left out"] += 1
                continue
            mine, used = on_the_gpu(case, network, folder)
            file = sized(Path(used.path), used.shapes, folder / "sized.onnx")
            answer = referee.ask(file, build=True, patience=PATIENCE)
            kind = _kind(mine, answer)
            counts[kind] += 1
            if kind not in ("both yes", "both no"):
                said = Made("", "", "", answer).words
                shown.append(f"{kind}: {case.name}: {mine or '-'} | {said}")
    print("\n".join(sorted(shown)))
    print(", ".join(f"{kind}: {n}" for kind, n in sorted(counts.items())))
    return not counts["surprise"]


def _kind(mine: str, answer: referee.Answer | None) -> str:
    """How flowc's answer and TensorRT's are to each other."""
    if answer is None:
        return "no answer"
    theirs = answer.built is not None
    if theirs == (not mine):
        return "both yes" if theirs else "both no"
    if theirs:
        return "stricter"
    refused = {op for _, op, _ in answer.errors}
    if refused & NOT_IN_RTX or NO_RUNNERS in answer.words:
        return "not in RTX"
    return "surprise"


def main() -> int:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("texts", nargs="*", type=Path, help="no examples")
    parser.add_argument("--suite", action="store_true", help="onnx's suite")
    parser.add_argument("--packages", type=Path, help="a folder of unpacked wheels")
    parser.add_argument("--limit", type=int, help="so many cases of each kind")
    asked = parser.parse_args()
    if not referee.is_installed():
        print("pip install 'flowc[rtx]' first")
        return 2
    if asked.suite:
        return 0 if suite(asked.packages, asked.limit) else 1
    return 0 if examples(asked.texts) else 1


if __name__ == "__main__":
    raise SystemExit(main())
