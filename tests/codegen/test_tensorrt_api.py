"""Programs for TensorRT are checked against the bindings of the version that they are for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tensorrt_api import BINDINGS, repaired, type_faults

PROGRAM = """
import sys
from pathlib import Path
from typing import Optional

import numpy as np
import tensorrt as trt


class Times(trt.IProfiler):
    def __init__(self) -> None:
        trt.IProfiler.__init__(self)
        self.ms = {}  # type: dict[str, float]

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        self.ms[layer_name] = self.ms.get(layer_name, 0.0) + ms

@CLASSES
def build(network_path: Path, plan: Path) -> None:
    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    network = builder.create_network(@FLAGS)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(network_path.read_bytes(), str(network_path)):
        raise SystemExit("\\n".join(parser.get_error(index).desc() for index in range(parser.num_errors)))
    for index in range(network.num_inputs):
        network.get_input(index).shape = (1, *network.get_input(index).shape[1:])
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 28)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    config.set_flag(trt.BuilderFlag.GPU_FALLBACK)
    config.default_device_type = trt.DeviceType.DLA
    config.DLA_core = 0
    for layer in network:
        if not config.can_run_on_DLA(layer):
            config.set_device_type(layer, trt.DeviceType.GPU)
    cache = config.create_timing_cache(b"")
    config.set_timing_cache(cache, ignore_mismatch=False)
    @CONFIG
    serialized = builder.build_serialized_network(network, config)
    if serialized is None:
        raise SystemExit("TensorRT cannot build it")
    plan.write_bytes(serialized)
    plan.with_suffix(".timing").write_bytes(config.get_timing_cache().serialize())


def load(plan: Path) -> trt.ICudaEngine:
    runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
    runtime.DLA_core = 0
    engine = runtime.deserialize_cuda_engine(plan.read_bytes())
    if engine is None:
        raise SystemExit(f"not a plan of TensorRT {trt.__version__}")
    return engine


def run(engine: trt.ICudaEngine, arena: int, buffers: dict[str, int], stream: int) -> None:
    context = @CONTEXT
    @MEMORY
    context.profiler = Times()
    context.enqueue_emits_profile = False
    for name in (engine.get_tensor_name(index) for index in range(engine.num_io_tensors)):
        shape = engine.get_tensor_shape(name)
        if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
            context.set_input_shape(name, tuple(shape))
        context.set_tensor_address(name, buffers[name])
        print(name, trt.volume(shape) * np.dtype(trt.nptype(engine.get_tensor_dtype(name))).itemsize)
    if not context.execute_async_v3(stream):
        raise SystemExit("TensorRT cannot run it")
    context.report_to_profiler()


build(Path(sys.argv[1]), Path(sys.argv[2]))
"""

CALIBRATOR = """
class Calibrator(trt.IInt8EntropyCalibrator2):
    def __init__(self, table: Path) -> None:
        trt.IInt8EntropyCalibrator2.__init__(self)
        self.table = table

    def get_batch_size(self) -> int:
        return 1

    def get_batch(self, names: list[str]) -> list[int]:
        return []

    def read_calibration_cache(self) -> Optional[bytes]:
        return self.table.read_bytes() if self.table.exists() else None

"""

WEAK = """config.set_flag(trt.BuilderFlag.FP16)
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = Calibrator(plan.with_suffix(".table"))"""

USER_MANAGED = (
    "engine.create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED)"
)

DIALECTS = {
    "trt8": {
        "@CLASSES": CALIBRATOR,
        "@FLAGS": "1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)",
        "@CONFIG": WEAK,
        "@CONTEXT": "engine.create_execution_context_without_device_memory()",
        "@MEMORY": "context.device_memory = arena",
    },
    "trt10": {
        "@CLASSES": CALIBRATOR,
        "@FLAGS": "",
        "@CONFIG": WEAK,
        "@CONTEXT": USER_MANAGED,
        "@MEMORY": "context.set_device_memory(arena, engine.device_memory_size_v2)",
    },
    "trt11": {
        "@CLASSES": "",
        "@FLAGS": "",
        "@CONFIG": "",
        "@CONTEXT": USER_MANAGED,
        "@MEMORY": "context.set_device_memory(arena, engine.device_memory_size_v2)",
    },
}

HEAD = """import tensorrt as trt

def faulty(
    builder: trt.Builder,
    network: trt.INetworkDefinition,
    config: trt.IBuilderConfig,
    parser: trt.OnnxParser,
    runtime: trt.Runtime,
    engine: trt.ICudaEngine,
    context: trt.IExecutionContext,
) -> None:
"""

FAULTY = (
    ("context.set_tensor_adress('x', 1)", "has no attribute"),
    ("context.execute_async_v3('stream')", "incompatible type"),
    ("context.execute_async_v3(1.5)", "incompatible type"),
    ("context.execute_async_v3()", "Missing positional argument"),
    ("context.execute_async_v3(1, 2)", "Too many arguments"),
    ("context.device_memory = 'arena'", "Incompatible types in assignment"),
    ("context.set_input_shape('x', 'shape')", "overload|incompatible type"),
    ("config.set_device_type(network.get_layer(0), trt.BuilderFlag.TF32)", "incompatible type"),
    ("config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1e9)", "incompatible type"),
    ("config.default_device_type = 'DLA'", "Incompatible types in assignment"),
    ("network.get_input(0).shape = 1.5", "Incompatible types in assignment"),
    ("parser.get_error(0).desc().code()", "has no attribute"),
    ("runtime.deserialize_cuda_engine(b'').num_io_tensors", 'Item "None"'),
    ("engine.num_io_tensors()", "not callable"),
    ("trt.DLA", "has no attribute"),
)
"""Wrong in every version, as a line of `faulty`, and what is said about it."""

FAULTY_IN = {
    "trt8": (
        ("trt.ExecutionContextAllocationStrategy.USER_MANAGED", "has no attribute"),
        ("context.set_device_memory(1, 2)", "has no attribute"),
        ("engine.device_memory_size_v2", "has no attribute"),
        ("config.progress_monitor = None", "has no attribute"),
    ),
    "trt10": (
        ("context.execute_async_v2([1, 2], 3)", "has no attribute"),
        ("context.set_device_memory(1)", "Missing positional argument"),
        ("engine.num_bindings", "has no attribute"),
        ("builder.max_batch_size = 1", "has no attribute"),
    ),
    "trt11": (
        ("context.execute_async_v2([1, 2], 3)", "has no attribute"),
        ("config.set_flag(trt.BuilderFlag.FP16)", "has no attribute"),
        ("config.int8_calibrator = None", "has no attribute"),
        ("builder.platform_has_fast_fp16", "has no attribute"),
        (
            "builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))",
            "has no attribute",
        ),
        ("engine.device_memory_size", "has no attribute"),
        ("engine.create_execution_context_without_device_memory()", "has no attribute"),
        ("network.get_input(0).set_dynamic_range(-1, 1)", "has no attribute"),
    ),
}


@pytest.fixture(scope="module", params=BINDINGS)
def dialect(request: pytest.FixtureRequest, tensorrt_stubs: Callable[[str], Path]) -> Path:
    """The stubs of each dialect."""
    return tensorrt_stubs(request.param)


def test_a_correct_program_passes(dialect: Path, tmp_path: Path) -> None:
    text = PROGRAM
    for mark, code in DIALECTS[dialect.name].items():
        text = text.replace(mark, code)
    program = tmp_path / "program.py"
    program.write_text(text)
    assert type_faults(program, dialect) == []


def test_every_mistake_is_flagged(dialect: Path, tmp_path: Path) -> None:
    lines = (*FAULTY, *FAULTY_IN[dialect.name])
    program = tmp_path / "faulty.py"
    program.write_text(HEAD + "".join(f"    {line}\n" for line, _ in lines))
    found = dict(fault.split(": error: ", 1) for fault in type_faults(program, dialect))
    first = HEAD.count("\n") + 1
    for number, (line, expected) in enumerate(lines, first):
        assert re.search(expected, found.pop(str(number), "nothing")), f"{line}: {expected}"
    assert not found


def test_a_method_is_overridden_as_it_is_called(dialect: Path, tmp_path: Path) -> None:
    program = tmp_path / "overrides.py"
    method = "import tensorrt as trt\nclass Times(trt.IProfiler):\n    def report_layer_time(self, {}) -> None: ...\n"
    program.write_text(method.format("layer_name: str, ms: float"))
    assert type_faults(program, dialect) == []
    program.write_text(method.format("layer_name: str"))
    (fault,) = type_faults(program, dialect)
    assert 'Signature of "report_layer_time" incompatible' in fault


def test_a_function_without_types_is_a_fault(dialect: Path, tmp_path: Path) -> None:
    program = tmp_path / "untyped.py"
    program.write_text("def run(context): context.execute_async_v2()\n")
    (fault,) = type_faults(program, dialect)
    assert "missing a type annotation" in fault


def test_a_program_that_is_not_python_is_a_fault(dialect: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("def run(\n")
    assert "[syntax]" in type_faults(program, dialect)[0]


def test_without_stubs_nothing_is_checked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no stubs of tensorrt"):
        type_faults(tmp_path / "program.py", tmp_path)


def test_stubs_are_made_valid() -> None:
    raw = """from __future__ import annotations
class Builder:
    def error(self: OtherThing, n: typing.SupportsInt, path: str = None) -> nvonnxparser::v_1::IBuilder:
        ...
    def fill(self, kind: DataType = <DataType.FLOAT: 0>, shape: Dims, in: int) -> bool:
        ...
    def each(self, shape: Dims) -> std::vector<int>:
        ...
class DataType:
    order: unheard::Of
class Dims:
    def __len__(self) -> int:
        ...
    def __getitem__(self, index: int) -> bool:
        ...
bool: DataType
"""
    assert repaired(raw).replace("\n\n", "\n").replace(":\n        ...", ": ...").splitlines() == [
        "from __future__ import annotations",
        "import builtins, typing",
        "class Builder:",
        "    def error(self, n: int, path: str | None=None) -> Builder: ...",
        "    def fill(*args: typing.Any, **kwargs: typing.Any) -> builtins.bool: ...",
        "    def each(*args: typing.Any, **kwargs: typing.Any) -> typing.Any: ...",
        "class DataType:",
        "    order: typing.Any",
        "class Dims:",
        "    def __iter__(self) -> typing.Iterator[builtins.bool]: ...",
        "    def __len__(self) -> int: ...",
        "    def __getitem__(self, index: int) -> builtins.bool: ...",
        "bool: DataType",
    ]
