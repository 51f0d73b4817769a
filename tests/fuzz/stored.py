"""Times and mappings that stand beside a text, edited by hand; through all that uses them."""

from __future__ import annotations

import dataclasses
import json
from functools import lru_cache
from pathlib import Path
from random import Random

import flowc
from flowc.cli.analyze import analyze
from flowc.cli.check import check
from flowc.codegen.emit import emit
from flowc.driver.plan.program import place, plan
from flowc.driver.text import store
from flowc.driver.text.check import Checked
from flowc.machines.whoami import host_hash
from flowc.model.mapping import Mapping, NetworkPlan, Placement, StagePlan
from flowc.model.profile import LayerTime, Profile, ProfileEntry, TransferCost
from flowc.model.times import times_of
from flowc.passes.stored_mapping import identity
from flowc.profiling.identity import task_hashes

from . import mutate, networks
from .faces import face

TEXT = """\
network Net from "net.onnx"
task S { out x: float32[1, 2, 8, 8]   python "code.py:source" }
task E { in y: float32[1, 2, 8, 8]   python "code.py:sink" }
app A { period 10 ms   s: S   n: Net   e: E   s -> n -> e }
"""


def prepare(folder: Path) -> None:
    """A text with a network that can be cut, its times and a mapping of it."""
    model = networks.row(("Conv", "Relu", "Conv", "Relu"))
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    (folder / "code.py").write_text("def source():\n    return 0\n\n\ndef sink(y):\n    pass\n")
    (folder / "app.flow").write_text(TEXT)
    checked = flowc.check(folder / "app.flow")
    assert checked.ok and checked.platform is not None, checked.diagnostics
    core = checked.platform.processors[0]
    layers = tuple(LayerTime(n.output[0], 2000.0) for n in model.graph.node)
    entries = tuple(
        ProfileEntry(
            "cpu",
            t,
            "",
            d,
            host_hash(),
            10,
            9000,
            5,
            9100,
            9200,
            layers=layers if t == "A.n" else (),
        )
        for t, d in task_hashes(checked.system).items()
    )
    profile = Profile("host", "here", entries, (TransferCost("cpu", "gpu", 100.0, 0.5),))
    (folder / "app.host.profile.json").write_text(profile.to_json())
    places = tuple(Placement(t, (core,), buffers=2) for t in ("A.s", "A.e"))
    plan = NetworkPlan(
        "A.n", (StagePlan((core,), model.graph.node[0].output[0]), StagePlan((core,))), buffers=2
    )
    mapping = Mapping(
        "host", places, (("A", 9000.0),), "auto", (plan,), utilization=((core, 0.5),), bound=0.1
    )
    (folder / "app.host.mapping.json").write_text(
        mapping.to_json(identity(checked.system, checked.platform))
    )


@lru_cache(maxsize=8)
def _seed(path: str) -> str:
    return Path(path).read_text()


def make(rng: Random, folder: Path) -> None:
    """One of the two files edited; hashes are left alone mostly, since what is stale is not looked
    at."""
    kinds = rng.choice((("profile",), ("mapping",), ("profile", "mapping")))
    if "mapping" not in kinds:  # stages of a mapping have times of their own
        (folder / "app.host.mapping.json").unlink()
    for kind in kinds:
        path = folder / f"app.host.{kind}.json"
        seed = _seed(str(path))
        changed = mutate.json_text(rng, seed)
        if rng.random() < 0.7:
            changed = _with_hashes(seed, changed)
        path.write_bytes(changed.encode(errors="surrogatepass"))


def _with_hashes(seed: str, changed: str) -> str:
    try:
        document, original = json.loads(changed), json.loads(seed)
    except (ValueError, RecursionError):
        return changed
    if isinstance(document, dict) and "identity" in original:
        document["identity"] = original["identity"]
    entries = document.get("entries") if isinstance(document, dict) else None
    for entry, old in (
        zip(entries, original["entries"], strict=False) if isinstance(entries, list) else ()
    ):
        if isinstance(entry, dict):
            entry |= {k: old[k] for k in ("subject", "content_hash", "host_hash")}
    return json.dumps(document)


def run(rng: Random, folder: Path) -> bool:
    """Check, analyses, and all of a build but writing."""
    file = folder / "app.flow"
    checked = flowc.check(file)
    face(check, file, as_json=rng.random() < 0.5)
    face(analyze, file, seconds=0.3, as_json=True)
    profile = store.read_profile(checked.require())[0] if checked.ok else None
    if checked.ok:
        face(_plan, checked, profile)
    assert profile is None or Profile.from_json(profile.to_json()) == _rounded(profile)
    return (
        checked.staged is not None and checked.staged.mapping is not None
    ) or profile is not None


def _rounded(profile: Profile) -> Profile:
    """As its file has it: layers in whole ns, shares of two digits."""
    entries = tuple(
        dataclasses.replace(
            e,
            layers=tuple(dataclasses.replace(x, mean_ns=float(round(x.mean_ns))) for x in e.layers),
            held=None if e.held is None else round(e.held, 2),
        )
        for e in profile.entries
    )
    transfers = tuple(
        dataclasses.replace(
            t, fixed_ns=float(round(t.fixed_ns)), ns_per_byte=round(t.ns_per_byte, 6)
        )
        for t in profile.transfers
    )
    return dataclasses.replace(profile, entries=entries, transfers=transfers)


def _plan(checked: Checked, profile: Profile | None) -> None:
    valid = checked.require()
    times = times_of(valid.system, valid.platform, profile)
    emit(plan(valid, times, place(valid, times)))
