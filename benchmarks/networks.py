"""Which network files flowc takes, and whether they compute what ONNX Runtime computes.

    python benchmarks/networks.py [--packages FOLDER] [--limit N] [--write docs/generated/taken.md]

Cases are the files in onnx's wheel (149), the node cases that `onnx.backend.test` generates (with
inputs and expected outputs), the networks inside of unpacked wheels in FOLDER (rapidocr-onnxruntime,
silero-vad, magika, piper-tts), and exports of scikit-learn by skl2onnx. Each is tried as it is, then
with the types of its inputs, then with those of its outputs; the first text without a fault counts.
What that text means is executed by the runtime of programs, and compared with ONNX Runtime on the
untouched file and with the expected outputs.

    as it is      `network Net from "file.onnx"`, if need be with `batch 1`
    with a text   types of ports, sizes, constants
    in one piece  either of them, as one task on a CPU
    refused       by flowc, with the code of its fault; by ONNX Runtime, whatever flowc says
"""

from __future__ import annotations

import argparse
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from flowc.dsl.load import load
from flowc.model.application import Network
from flowc.model.types import DTYPES
from flowc.runtime.code import Network as Code
from flowc.runtime.tokens import Port
from onnx import numpy_helper

#: Faults of a text that has a network and nothing around it.
AROUND = "F2"
#: Relative and absolute differences that count as equal, where bits differ.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
#: Characters of a reason.
MOST_SHOWN = 120
BEGIN, END = "<!-- made by benchmarks/networks.py -->", "<!-- end -->"


@dataclass(frozen=True, slots=True)
class Case:
    """A network with inputs; `constants` of its text; outputs that are `expected`, if known."""

    room: str
    name: str
    model: Path
    inputs: Mapping[str, Any]
    expected: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)
    close: Mapping[str, float] = field(default_factory=lambda: CLOSE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case: `how` it was taken, its `text`, and what was compared."""

    case: Case
    how: str
    text: str = ""
    why: str = ""
    one_piece: str = ""
    like_onnxruntime: str = ""
    like_expected: str = ""


# -- cases -----------------------------------------------------------------------------------------
def in_wheel(folder: Path, only: Set[str] = frozenset()) -> Iterator[Case]:
    """The files in onnx's wheel, or `only` some of them by name."""
    data = Path(onnx.__file__).parent / "backend/test/data"
    for model in sorted(data.rglob("*.onnx")):
        room = f"onnx's wheel: {model.relative_to(data).parts[0]}"
        if only and only.isdisjoint({model.stem, model.parent.name}):
            continue
        if model.name != "model.onnx":
            yield Case(room, model.stem, model, _random_inputs(model))
            continue
        inputs, outputs = _interface(onnx.load(model, load_external_data=False))
        sets = model.parent / "test_data_set_0"
        given = {n: _read(sets / f"input_{k}.pb") for k, n in enumerate(inputs)}
        wanted = {n: _read(sets / f"output_{k}.pb") for k, n in enumerate(outputs)}
        yield Case(room, model.parent.name, model, given, wanted)


def generated(folder: Path) -> Iterator[Case]:
    """The node cases of `onnx.backend.test`."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        assert case.model is not None and case.data_sets is not None
        model = folder / f"{case.name}.onnx"
        model.write_bytes(case.model.SerializeToString())
        inputs, outputs = _interface(case.model)
        given, wanted = case.data_sets[0]
        close = {"rtol": max(case.rtol, CLOSE["rtol"]), "atol": max(case.atol, CLOSE["atol"])}
        yield Case(
            "onnx.backend.test: expanded" if "expanded" in case.name else "onnx.backend.test: node",
            case.name,
            model,
            dict(zip(inputs, map(_array, given), strict=False)),
            dict(zip(outputs, map(_array, wanted), strict=True)),
            close=close,
        )


#: Networks of packages: sizes of inputs with open dimensions, and constants of the text.
PACKAGES: dict[str, list[tuple[str, dict[str, tuple[int, ...]], dict[str, int]]]] = {
    "rapidocr-onnxruntime": [
        ("ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 736, 992)}, {}),
        ("ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}, {}),
        ("ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 480)}, {}),
    ],
    "silero-vad": [
        ("silero_vad.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
        ("silero_vad_16k_op15.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
        ("silero_vad_half.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {}),
        ("silero_vad_op18_ifless.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
        ("silero_vad_16k_sequence.onnx", {"input": (4, 576)}, {}),
        ("silero_vad_openvino_16k.onnx", {}, {}),
    ],
    "magika": [("model.onnx", {"bytes": (1, 2048)}, {})],
    "piper-tts": [
        ("nakdimon.onnx", {"input_1": (1, 20)}, {}),
        ("model.onnx", {"char_inputs": (1, 24), "diac_inputs": (1, 24), "input_lengths": (1,)}, {}),
    ],
}


def in_packages(folder: Path) -> Iterator[Case]:
    """The networks inside of unpacked wheels."""
    for package, networks in PACKAGES.items():
        for file, sizes, constants in networks:
            stem = package.replace("-", "_")
            for model in sorted(folder.glob(f"{stem}*/**/{file}")):
                inputs = _random_inputs(model, sizes)
                inputs.update({n: np.array(v, np.int64) for n, v in constants.items()})
                if "input_lengths" in inputs:
                    inputs["input_lengths"] = np.array([24], np.int64)
                yield Case(f"{package}", file, model, inputs, constants=constants)


def of_scikit_learn(folder: Path) -> Iterator[Case]:
    """Exports by skl2onnx, as its page shows them."""
    from skl2onnx import to_onnx
    from sklearn import (
        datasets,
        ensemble,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )

    rows, classes = datasets.load_iris(return_X_y=True)
    rows = rows.astype(np.float32)
    words = np.array(["setosa", "versicolor", "virginica"])[classes]
    scaled = pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression(max_iter=500)
    )
    models = {
        "LogisticRegression": (linear_model.LogisticRegression(max_iter=500), classes),
        "the same with texts as classes": (linear_model.LogisticRegression(max_iter=500), words),
        "pipeline with StandardScaler": (scaled, classes),
        "RandomForestClassifier": (ensemble.RandomForestClassifier(20, random_state=0), classes),
        "GradientBoostingClassifier": (ensemble.GradientBoostingClassifier(n_estimators=20), words),
        "SVC": (svm.SVC(probability=True), classes),
        "KNeighborsClassifier": (neighbors.KNeighborsClassifier(), classes),
        "GaussianNB": (naive_bayes.GaussianNB(), classes),
        "DecisionTreeClassifier": (tree.DecisionTreeClassifier(), words),
        "MLPClassifier": (neural_network.MLPClassifier(max_iter=500, random_state=0), classes),
        "RandomForestRegressor": (ensemble.RandomForestRegressor(20), rows[:, 0]),
        "LinearRegression": (linear_model.LinearRegression(), rows[:, 0]),
        "StandardScaler": (preprocessing.StandardScaler(), None),
    }
    for number, (name, (model, target)) in enumerate(models.items()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows, target)
        place = folder / f"sklearn{number}.onnx"
        place.write_bytes(to_onnx(model, rows[:1]).SerializeToString())
        yield Case("scikit-learn by skl2onnx", name, place, {"X": rows[7:8]})


def _array(value: Any) -> Any:
    """A number of numpy, or onnx's form of a tensor, as an array."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _interface(model: Any) -> tuple[list[str], list[str]]:
    weights = {w.name for w in model.graph.initializer}
    inputs = [v.name for v in model.graph.input if v.name not in weights]
    return inputs, [v.name for v in model.graph.output]


def _read(file: Path) -> Any:
    """A tensor of onnx's test data; what is no tensor stays a message."""
    if not file.is_file():
        return None
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(file.read_bytes())
        return numpy_helper.to_array(tensor)
    except Exception:
        return None


def _random_inputs(model: Path, sizes: Mapping[str, tuple[int, ...]] = {}) -> dict[str, Any]:
    """Numbers for each input."""
    draw = np.random.default_rng(0)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    inputs = {}
    for value in session.get_inputs():
        shape = sizes.get(value.name, value.shape)
        shape = [n if isinstance(n, int) else 1 for n in shape]
        if value.type == "tensor(float)":
            inputs[value.name] = draw.standard_normal(shape).astype(np.float32)
        else:
            dtype = np.int32 if value.type == "tensor(int32)" else np.int64
            inputs[value.name] = draw.integers(0, 12, shape).astype(dtype)
    return inputs


# -- texts -----------------------------------------------------------------------------------------
def texts(case: Case, results: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is tried, simplest first: how a file is taken, and the braces of its network."""
    constants = [f"in {name} = {value}" for name, value in case.constants.items()]
    if not constants:
        yield "as it is", ""
        yield "as it is", "batch 1"
    inputs = []
    for number, (name, array) in enumerate(case.inputs.items()):
        if name not in case.constants and _is_carried(array):
            inputs.append(_port("in", name, number, array))
    yield "with a text", "  ".join([*inputs, *constants])
    outputs = []
    for number, (name, array) in enumerate(results.items()):
        rows = _rows(array)
        if _is_carried(rows):
            outputs.append(_port("out", name, number, rows))
    yield "with a text", "  ".join([*inputs, *constants, *outputs])


def _is_carried(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.name in DTYPES


def _port(direction: str, name: str, number: int, array: Any) -> str:
    """A port with its type, under the tensor's name where that can be one."""
    shape = f"[{', '.join(map(str, array.shape))}]" if array.shape else ""
    port = name if name.isidentifier() and name.isascii() else f"{direction}{number}"
    source = "" if port == name else f' from "{name}"'
    return f"{direction} {port}: {array.dtype.name}{shape}{source}"


def taken(case: Case, results: Mapping[str, Any], folder: Path) -> tuple[Outcome, Network | None]:
    """The first text of a case without a fault, and its network."""
    flow = folder / "case.flow"
    last = ""
    for how, braces in texts(case, results):
        body = f" {{ {braces} }}" if braces else ""
        declared = f'network Net from "{case.model}"{body}'
        flow.write_text(f"{declared}\napp A {{ net: Net }}\n")
        loaded = load(flow)
        faults = [d for d in loaded.diagnostics if not d.code.startswith(AROUND)]
        if not faults:
            (app,) = loaded.system.apps
            network = next(t.network for t in app.tasks if t.network is not None)
            if any(case.inputs[t.name].shape != t.type.shape for t in network.inputs):
                continue  # it is taken, for other sizes than those of the case
            text = f'network Net from "{case.model.name}"{body}'
            return Outcome(case, how, text, one_piece=network.one_piece), network
        last = f"{faults[-1].code}: {faults[-1].message}"
    return Outcome(case, "refused", why=last), None


# -- results ---------------------------------------------------------------------------------------
def untouched(case: Case) -> dict[str, Any] | str:
    """What ONNX Runtime makes of the file; why it does not, in a text."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            case.model, options, providers=["CPUExecutionProvider"]
        )
        names = [o.name for o in session.get_outputs()]
        made = session.run(names, {n: v for n, v in case.inputs.items() if v is not None})
    except Exception as error:
        return str(error).splitlines()[0][:200]
    return dict(zip(names, made, strict=True))


def executed(network: Network, case: Case) -> dict[str, Any]:
    """What a program would make of the inputs of a case."""
    inputs = [t.name for t in network.inputs]
    code = Code(network.path, inputs, [t.name for t in network.outputs])
    ports = [
        [Port(t.name, t.type.dtype, t.type.shape) for t in side]
        for side in (network.inputs, network.outputs)
    ]
    code.open("/", *ports)
    made = code.fire([np.array(case.inputs[n], order="C") for n in inputs], 0)
    return dict(zip((t.name for t in network.outputs), made, strict=True))


def compared(made: Mapping[str, Any], wanted: Mapping[str, Any], close: Mapping[str, float]) -> str:
    """`equal`, `close`, or what differs; empty where nothing could be compared."""
    found = "equal"
    seen = False
    for name, array in made.items():
        other = _rows(wanted.get(name))
        if other is None:
            continue
        seen = True
        if array.shape != other.shape:
            return f"`{name}` is {array.shape}, not {other.shape}"
        exact = array.dtype.kind not in "fc"
        if np.array_equal(array, other, equal_nan=not exact):
            continue
        if exact or not np.allclose(array, other, **close, equal_nan=True):
            return f"`{name}` differs"
        found = "close"
    return found if seen else ""


def _rows(value: Any) -> Any:
    """An array; a list of maps from classes to numbers as its rows."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return np.array([list(row.values()) for row in value], np.float32)
    return value if isinstance(value, np.ndarray) else None


def outcome_of(case: Case, folder: Path) -> Outcome:
    """Try a case."""
    right = untouched(case)
    if isinstance(right, str):
        return Outcome(case, "ONNX Runtime refuses", why=right)
    found, network = taken(case, right, folder)
    if network is None:
        return found
    try:
        made = executed(network, case)
    except Exception as error:
        return Outcome(case, "fails", found.text, str(error).splitlines()[0], found.one_piece)
    like = compared(made, right, case.close)
    # Where ONNX Runtime itself misses what is expected, nothing can be said.
    expected = compared(made, case.expected, case.close)
    if (
        expected not in ("equal", "close")
        and compared(right_only(right), case.expected, case.close) == expected
    ):
        expected = ""
    return Outcome(case, found.how, found.text, "", found.one_piece, like, expected)


def right_only(results: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs that are arrays."""
    return {n: v for n, v in results.items() if isinstance(v, np.ndarray)}


# -- tables ----------------------------------------------------------------------------------------
def summary(outcomes: Iterable[Outcome]) -> str:
    """A row for each room of cases."""
    rooms: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        rooms.setdefault(outcome.case.room, []).append(outcome)
    lines = [
        "| networks | cases | as it is | with a text | of these in one piece | refused |"
        " ONNX Runtime refuses | as ONNX Runtime | bit for bit | as expected by onnx |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for room, cases in rooms.items():
        how = Counter(o.how for o in cases)
        like = Counter(o.like_onnxruntime for o in cases)
        expected = Counter(o.like_expected for o in cases)
        ran = sum(n for word, n in like.items() if word)
        known = sum(n for word, n in expected.items() if word)
        alike = like["equal"] + like["close"]
        meets = expected["equal"] + expected["close"]
        lines.append(
            f"| {room} | {len(cases)} | {how['as it is']} | {how['with a text']}"
            f" | {sum(bool(o.one_piece) for o in cases)} | {how['refused'] + how['fails']}"
            f" | {how['ONNX Runtime refuses']} | {alike} of {ran} | {like['equal']}"
            f" | {f'{meets} of {known}' if known else '-'} |"
        )
    return "\n".join(lines)


def refusals(outcomes: Iterable[Outcome]) -> str:
    """Why networks are refused, with counts."""
    found: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for outcome in outcomes:
        if outcome.how in ("refused", "fails", "ONNX Runtime refuses"):
            reason = _reason(outcome)
            found[reason] += 1
            examples.setdefault(reason, outcome.case.name)
    lines = ["| refused | cases | for example |", "| --- | --: | --- |"]
    lines += [f"| {reason} | {n} | `{examples[reason]}` |" for reason, n in found.most_common()]
    return "\n".join(lines)


def _reason(outcome: Outcome) -> str:
    """A fault without the names in it; of ONNX Runtime's its kind."""
    if outcome.how == "ONNX Runtime refuses":
        kind = re.search(r"\[ONNXRuntimeError\] : \d+ : (\w+)", outcome.why)
        return (
            f"by ONNX Runtime: {kind[1]}"
            if kind
            else "by ONNX Runtime in Python: types without numpy's"
        )
    return "`...`".join(outcome.why.split("`")[::2])[:MOST_SHOWN]


def shown(outcomes: Iterable[Outcome]) -> str:
    """The texts of networks of packages."""
    lines = ["| network | taken | text |", "| --- | --- | --- |"]
    for o in outcomes:
        if not o.case.room.startswith("onnx"):
            how = f"{o.how}, in one piece ({o.one_piece})" if o.one_piece else o.how
            like = o.like_onnxruntime or o.why
            text = o.text.partition('"')[2].partition('"')[2].strip()
            lines.append(f"| {o.case.room}: {o.case.name} | {how}, {like} | `{text or '-'}` |")
    return "\n".join(lines)


def main() -> None:
    """Try all cases, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--packages", type=Path, help="a folder of unpacked wheels")
    parser.add_argument("--limit", type=int, help="so many cases of each kind")
    parser.add_argument("--write", type=Path, help="the page that has the tables")
    asked = parser.parse_args()
    kinds = [in_wheel, generated, of_scikit_learn]
    outcomes = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for cases in kinds:
            for number, case in enumerate(cases(folder)):
                if asked.limit is not None and number >= asked.limit:
                    break
                outcomes.append(outcome_of(case, folder))
        if asked.packages is not None:
            outcomes += [outcome_of(case, folder) for case in in_packages(asked.packages)]
    for o in outcomes:
        bad = {o.like_onnxruntime, o.like_expected} - {"equal", "close", ""}
        if o.how == "fails" or bad:
            print(f"{o.case.name}: {o.how} {o.why} {o.like_onnxruntime} | {o.like_expected}")
    tables = "\n\n".join([summary(outcomes), refusals(outcomes), shown(outcomes)])
    print(tables)
    if asked.write is not None:
        page = asked.write.read_text()
        head, _, rest = page.partition(BEGIN)
        tail = rest.partition(END)[2]
        asked.write.write_text(f"{head}{BEGIN}\n{tables}\n{END}{tail}")


if __name__ == "__main__":
    main()
