"""A module `tensorrt` that needs none: builds plans from ONNX files and executes them with ONNX
Runtime.

`module(cuda, version)` makes one of a chosen version on a stand-in for the GPU; what a version does
not have, its module does not have either (compared with the genuine bindings of 8.6.1, 10.3.0 and
11.4.0, and with TensorRT for RTX 1.7.1: `rtx 1.7.1`, as 11 without a timing cache). Executions are operations in a stream of the stand-in: they happen late, and are checked
against whatever else uses their tensors and their arena. What a program does against the rules is
told to the stand-in as a violation; what TensorRT refuses, it refuses.

Stricter than the Python bindings: an engine whose runtime, or a context whose engine, has been
dropped is a violation, as in C++, although the bindings keep the one alive for the other.
"""

from __future__ import annotations

import enum
import json
import os
import sys
import types
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cuda import Access, Operation, StandIn, error

MAGIC = b"flowc stand-in plan\n"

#: ONNX operators that a DLA runs (design/tensorrt-dla.md); `Softmax` and `LeakyRelu` only since
#: Orin.
ON_DLA = frozenset(
    {
        "Conv", "ConvTranspose", "MaxPool", "AveragePool", "Relu", "Sigmoid", "Tanh", "Clip", "PRelu", "Add", "Sub",
        "Mul", "Max", "Min", "Concat", "Resize", "LRN", "Gemm", "MatMul", "BatchNormalization", "QuantizeLinear",
        "DequantizeLinear",
    }
)  # fmt: skip

_PAIR = ("QuantizeLinear", "DequantizeLinear")

_LAYERS = {
    "Conv": "CONVOLUTION", "ConvTranspose": "DECONVOLUTION", "MaxPool": "POOLING", "AveragePool": "POOLING",
    "GlobalAveragePool": "REDUCE", "ReduceMean": "REDUCE", "Add": "ELEMENTWISE", "Sub": "ELEMENTWISE",
    "Mul": "ELEMENTWISE", "Max": "ELEMENTWISE", "Min": "ELEMENTWISE", "Concat": "CONCATENATION", "Resize": "RESIZE",
    "LRN": "LRN", "Gemm": "MATRIX_MULTIPLY", "MatMul": "MATRIX_MULTIPLY", "BatchNormalization": "SCALE",
    "Softmax": "SOFTMAX", "Reshape": "SHUFFLE", "Flatten": "SHUFFLE", "Transpose": "SHUFFLE", "Constant": "CONSTANT",
    "QuantizeLinear": "QUANTIZE", "DequantizeLinear": "DEQUANTIZE", "Cast": "CAST", "Identity": "IDENTITY",
    "Slice": "SLICE", "Gather": "GATHER", "Pad": "SLICE", "PRelu": "PARAMETRIC_RELU", "Sqrt": "UNARY", "Exp": "UNARY",
}  # fmt: skip


@dataclass
class Options:
    """What the machine has. `exact`: a tensor has an allocation of its own, of exactly its size."""

    dla_cores: int = 2
    loadables: int = 16
    arena_bytes: int = 4096
    exact: bool = False
    on_dla: frozenset[str] = ON_DLA


class _Strict:
    """An object of the bindings: a program cannot give it attributes that it does not have."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and not hasattr(type(self), name):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        object.__setattr__(self, name, value)


class _Names(enum.Enum):
    """As in pybind11: no number, but convertible to one."""

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__


def _names(name: str, *members: str) -> Any:
    make: Any = _Names
    return make(name, {m: i for i, m in enumerate(members)})


class IHostMemory(bytes):
    """Bytes that belong to TensorRT."""

    @property
    def nbytes(self) -> int:
        return len(self)


def module(
    cuda: StandIn, version: str = "10.3.0", options: Options | None = None
) -> types.ModuleType:
    """The module `tensorrt` of that version on that GPU."""
    made = types.ModuleType("tensorrt")
    rtx = version.startswith("rtx ")
    version = version.removeprefix("rtx ")
    generation = 11 if rtx else int(version.split(".")[0])
    since10, up_to10 = generation >= 10, generation <= 10
    machine = options or Options()
    log: list[str] = []

    def say(severity: str, text: str) -> None:
        log.append(f"{severity}: {text}")
        if severity == "E":
            print(f"[TRT] [E] {text}", file=sys.stderr)

    # -- constants ---------------------------------------------------------------------------------
    class ILogger:
        Severity = _names("Severity", "INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE")

    class Logger(ILogger):
        INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = ILogger.Severity

        def __init__(self, min_severity: Any = ILogger.Severity.WARNING) -> None:
            self.min_severity = min_severity

        def log(self, severity: Any, msg: str) -> None:
            say(severity.name[0], msg)

    data = ["FLOAT", "HALF", "INT8", "INT32", "BOOL", "UINT8"]
    DataType = _names("DataType", *data, *(["BF16", "INT64", "INT4", "FP8"] if since10 else []))
    flags = [
        "DEBUG",
        "GPU_FALLBACK",
        "REFIT",
        "DISABLE_TIMING_CACHE",
        "TF32",
        "SPARSE_WEIGHTS",
        "SAFETY_SCOPE",
    ]
    flags += ["DIRECT_IO"]
    if up_to10:
        flags += ["FP16", "INT8", "OBEY_PRECISION_CONSTRAINTS", "PREFER_PRECISION_CONSTRAINTS"]
        flags += ["REJECT_EMPTY_ALGORITHMS"]
    if since10:
        flags += [
            "VERSION_COMPATIBLE",
            "EXCLUDE_LEAN_RUNTIME",
            "ERROR_ON_TIMING_CACHE_MISS",
            "STRIP_PLAN",
        ]
    BuilderFlag = _names("BuilderFlag", *flags)
    DeviceType = _names("DeviceType", "GPU", "DLA")
    TensorIOMode = _names("TensorIOMode", "NONE", "INPUT", "OUTPUT")
    MemoryPoolType = _names(
        "MemoryPoolType",
        "WORKSPACE",
        "DLA_MANAGED_SRAM",
        "DLA_LOCAL_DRAM",
        "DLA_GLOBAL_DRAM",
        "TACTIC_DRAM",
    )
    ProfilingVerbosity = _names("ProfilingVerbosity", "LAYER_NAMES_ONLY", "NONE", "DETAILED")
    LayerInformationFormat = _names("LayerInformationFormat", "ONELINE", "JSON")
    LayerType = _names(
        "LayerType", "ACTIVATION", *dict.fromkeys([*_LAYERS.values(), "NORMALIZATION", "PLUGIN_V2"])
    )
    creation = {
        8: ["EXPLICIT_BATCH", "EXPLICIT_PRECISION"],
        10: ["EXPLICIT_BATCH", "STRONGLY_TYPED"],
    }.get(generation, ["STRONGLY_TYPED", "PREFER_JIT_PYTHON_PLUGINS"])
    NetworkDefinitionCreationFlag = _names("NetworkDefinitionCreationFlag", *creation)
    types_of = {
        "float32": DataType.FLOAT, "float16": DataType.HALF, "int8": DataType.INT8, "int32": DataType.INT32,
        "bool": DataType.BOOL, "uint8": DataType.UINT8,
    }  # fmt: skip
    if since10:
        types_of["int64"] = DataType.INT64

    def nptype(trt_type: Any) -> Any:
        for name, known in types_of.items():
            if known is trt_type:
                return np.dtype(name).type
        raise TypeError("Could not resolve TensorRT datatype to an equivalent numpy datatype.")

    def type_of(dtype: Any) -> Any:
        """Up to 8 there are no 64-bit integers: the parser makes them smaller."""
        name = np.dtype(dtype).name
        return types_of.get("int32" if name == "int64" and not since10 else name)

    # -- building ----------------------------------------------------------------------------------
    class ITensor(_Strict):
        name = ""
        shape: tuple[int, ...] = ()
        dtype: Any = None

        def __init__(self, name: str, shape: Sequence[int], dtype: Any) -> None:
            self.name, self.shape, self.dtype = name, tuple(shape), dtype
            self._largest: float | None = None

        if up_to10:

            def set_dynamic_range(self, min: float, max: float) -> bool:
                self._largest = float(max)
                return -min == max > 0

    class ILayer(_Strict):
        name = ""
        type: Any = None

        def __init__(
            self,
            name: str,
            kind: Any,
            operator: str,
            makes: Sequence[ITensor] = (),
            reads: Sequence[ITensor] = (),
        ) -> None:
            self.name, self.type, self._operator = name, kind, operator
            self._makes, self._reads = tuple(makes), tuple(reads)

        @property
        def num_inputs(self) -> int:
            return len(self._reads)

        def get_input(self, index: int) -> ITensor:
            return self._reads[index]

        @property
        def num_outputs(self) -> int:
            return len(self._makes)

        def get_output(self, index: int) -> ITensor:
            return self._makes[index]

    class INetworkDefinition(_Strict):
        name = ""

        def __init__(self, flags: int) -> None:
            self._flags, self._model = flags, None
            self._inputs: list[ITensor] = []
            self._layers: list[ILayer] = []
            self._tensors: dict[str, ITensor] = {}

        @property
        def num_inputs(self) -> int:
            return len(self._inputs)

        @property
        def num_layers(self) -> int:
            return len(self._layers)

        @property
        def num_outputs(self) -> int:
            return 0 if self._model is None else len(self._model.graph.output)

        def get_input(self, index: int) -> ITensor:
            return self._inputs[index]

        def get_output(self, index: int) -> ITensor:
            return self._tensors[self._model.graph.output[index].name]

        def get_layer(self, index: int) -> ILayer:
            return self._layers[index]

    class ParserError(_Strict):
        def __init__(self, text: str) -> None:
            self._text = text

        def desc(self) -> str:
            return self._text

        def __str__(self) -> str:
            return self._text

    class OnnxParser(_Strict):
        def __init__(self, network: INetworkDefinition, logger: Any) -> None:
            self._network, self._errors = network, list[ParserError]()

        @property
        def num_errors(self) -> int:
            return len(self._errors)

        def get_error(self, index: int) -> ParserError:
            return self._errors[index]

        def parse_from_file(self, model: str) -> bool:
            import onnx

            if not os.path.exists(model):
                self._errors.append(ParserError(f"could not open file: {model}"))
                return False
            try:
                return self._take(onnx.load(model))
            except Exception as failed:
                self._errors.append(ParserError(f"failed to parse: {failed}"))
                return False

        def parse(self, model: bytes, path: str | None = None) -> bool:
            import onnx

            return self._take(onnx.load_from_string(bytes(model)))

        def _take(self, model: Any) -> bool:
            import onnx

            network = self._network
            if generation == 8 and not network._flags & 1:
                say(
                    "E",
                    "this version of the ONNX parser only supports networks with an explicit batch dimension",
                )
                self._errors.append(ParserError("the network has an implicit batch dimension"))
                return False
            fixed = {i.name for i in model.graph.initializer}
            for value in model.graph.input:
                if value.name in fixed:
                    continue
                tensor = value.type.tensor_type
                shape = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
                dtype = type_of(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
                if dtype is None:
                    self._errors.append(ParserError(f"unsupported type of input {value.name}"))
                    return False
                network._inputs.append(ITensor(value.name, shape, dtype))
                network._tensors[value.name] = network._inputs[-1]
            kinds = {v.name: v.type.tensor_type.elem_type for v in model.graph.output}
            refused = _unfit_pairs(model)
            if refused:
                self._errors.append(ParserError(refused))
                return False
            for node in model.graph.node:
                # Constants of element-wise operators become layers of their own, those of a
                # convolution do not.
                for name in node.input if _LAYERS.get(node.op_type) == "ELEMENTWISE" else ():
                    if name in fixed:
                        # Named after the constant, but what it makes is not.
                        made = [
                            ITensor(
                                f"(Unnamed Layer* {len(network._layers)}) [Constant]_output",
                                (),
                                DataType.FLOAT,
                            )
                        ]
                        network._tensors[name] = made[0]
                        network._layers.append(ILayer(name, LayerType.CONSTANT, "Constant", made))
                kind = LayerType[_LAYERS.get(node.op_type, "ACTIVATION")]
                made = [
                    ITensor(t, (), type_of(onnx.helper.tensor_dtype_to_np_dtype(kinds.get(t, 1))))
                    for t in node.output
                ]
                network._tensors |= {t.name: t for t in made}
                reads = [network._tensors[t] for t in node.input if t in network._tensors]
                network._layers.append(ILayer(_node_name(node), kind, node.op_type, made, reads))
            network._model = model
            return True

    class ITimingCache(_Strict):
        def __init__(self, content: bytes) -> None:
            self._content = content

        def serialize(self) -> IHostMemory:
            return IHostMemory(self._content or b"timing")

    class IBuilderConfig(_Strict):
        default_device_type = DeviceType.GPU
        DLA_core = -1
        profiling_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
        if since10:
            progress_monitor: Any = None
        if up_to10:
            int8_calibrator: Any = None
        if rtx:
            num_compute_capabilities = 0

            def set_compute_capability(self, capability: Any, index: int) -> bool:
                self._capability = _capability(capability.name)
                return index < self.num_compute_capabilities

        def __init__(self) -> None:
            self._capability = cuda.capability
            self._flags: set[Any] = {BuilderFlag.TF32}  # type: ignore[attr-defined]
            self._cache: ITimingCache | None = None
            self._devices: dict[str, Any] = {}
            self._pools: dict[Any, int] = {}

        def set_flag(self, flag: Any) -> None:
            self._flags.add(BuilderFlag(flag))

        def clear_flag(self, flag: Any) -> None:
            self._flags.discard(flag)

        def get_flag(self, flag: Any) -> bool:
            return flag in self._flags

        def set_memory_pool_limit(self, pool: Any, pool_size: int) -> None:
            dla = pool.name.startswith("DLA")
            if dla and (pool_size < 4096 or pool_size & (pool_size - 1)):
                cuda.complain(
                    f"memory pool {pool.name} of {pool_size} bytes: a DLA wants a power of two from 4096 on"
                )
            self._pools[pool] = pool_size

        def get_memory_pool_limit(self, pool: Any) -> int:
            return self._pools.get(pool, 0)

        def set_device_type(self, layer: ILayer, device_type: Any) -> None:
            self._devices[layer.name] = device_type

        def get_device_type(self, layer: ILayer) -> Any:
            return self._devices.get(layer.name, self.default_device_type)

        def can_run_on_DLA(self, layer: ILayer) -> bool:
            if not machine.dla_cores:
                return False
            known = up_to10 and layer._operator in _PAIR
            return (
                layer._operator in machine.on_dla and layer.type != LayerType.CONSTANT and not known
            )

        def create_timing_cache(self, serialized_timing_cache: bytes) -> ITimingCache:
            return ITimingCache(bytes(serialized_timing_cache))

        def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool) -> bool:
            self._cache = cache
            return True

        def get_timing_cache(self) -> ITimingCache | None:
            return self._cache

    class IProgressMonitor:
        def __init__(self) -> None:
            self._ready = True

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            raise NotImplementedError

        def phase_finish(self, phase_name: str) -> None:
            raise NotImplementedError

        def step_complete(self, phase_name: str, step: int) -> bool:
            raise NotImplementedError

    class Builder(_Strict):
        max_threads = 1

        def __init__(self, logger: Any) -> None:
            if not isinstance(logger, ILogger):
                raise TypeError(
                    "__init__(): incompatible constructor arguments: a Logger is wanted"
                )

        @property
        def num_DLA_cores(self) -> int:
            return machine.dla_cores

        if up_to10:
            platform_has_fast_fp16 = platform_has_fast_int8 = property(lambda self: True)

        def create_network(self, flags: int = 0) -> INetworkDefinition:
            return INetworkDefinition(int(flags))

        def create_builder_config(self) -> IBuilderConfig:
            return IBuilderConfig()

        def build_serialized_network(
            self, network: INetworkDefinition, config: IBuilderConfig
        ) -> IHostMemory | None:
            """The plan, or None and some words in the log."""
            # -- what TensorRT would refuse
            if network._model is None:
                refused("the network has no layers")
                return None
            shapes = {t.name: t.shape for t in network._inputs}
            if any(d < 1 for shape in shapes.values() for d in shape):
                refused("network has dynamic inputs, but no optimization profile has been defined")
                return None
            if BuilderFlag.TF32 in config._flags:  # type: ignore[attr-defined]
                cuda.complain("a plan multiplies in TF32")
            on_dla = config.default_device_type is DeviceType.DLA
            if on_dla:
                if not 0 <= config.DLA_core < machine.dla_cores:
                    refused(f"DLA core {config.DLA_core} is not one of {machine.dla_cores}")
                    return None
                small = bool(
                    config._flags & {getattr(BuilderFlag, n, None) for n in ("FP16", "INT8")}
                )
                if not (small if up_to10 else _small_types(network._model)):
                    refused("DLA supports only FP16 and INT8 precision")
                    return None
                others = [
                    x.name
                    for x in network._layers
                    if x.type != LayerType.CONSTANT and not config.can_run_on_DLA(x)
                ]
                if others and BuilderFlag.GPU_FALLBACK not in config._flags:
                    refused(f"{others[0]} cannot run on DLA and GPU fallback is not enabled")
                    return None
            if up_to10 and BuilderFlag.INT8 in config._flags:  # type: ignore[attr-defined]
                why = unscaled(network)
                if why:
                    refused(why)
                    return None
            try:
                model, tensors = _static(network._model, shapes, type_of)
            except Exception as failed:
                refused(str(failed))
                return None
            for name, tensor in tensors.items():
                known = network._tensors[name]
                if known.dtype is DataType.INT8 and tensor["type"] != "INT8":  # type: ignore[attr-defined]
                    tensor |= {
                        "type": "INT8",
                        "dtype": "int8",
                        "scale": (known._largest or 0) / 127,
                    }
                halved = known.dtype is DataType.HALF and tensor["type"] == "FLOAT"  # type: ignore[attr-defined]
                if halved and not (up_to10 and BuilderFlag.FP16 in config._flags):  # type: ignore[attr-defined]
                    refused(f"{name} is HALF, and the network may not compute in fp16")
                    return None
                if halved:
                    tensor |= {"type": "HALF", "dtype": "float16"}
            monitor = getattr(config, "progress_monitor", None)
            if monitor is not None and not _monitored(monitor, len(network._layers)):
                refused("the progress monitor has ended it")
                return None
            header = {
                "version": version, "gpu": cuda.device, "capability": list(config._capability), "dla": on_dla,
                "flags": sorted(f.name for f in config._flags), "arena": machine.arena_bytes, "tensors": tensors,
                "layers": (layers := engine_layers(network, config)),
                "pieces": sum(x["Name"].startswith("{ForeignNode[") for x in layers),
                "name": network._model.graph.name or "network",
            }  # fmt: skip
            text = json.dumps(header).encode()
            return IHostMemory(MAGIC + b"%d\n" % len(text) + text + model)

    def refused(why: str) -> None:
        """Nothing, and a word in the log."""
        say("E", why)

    def unscaled(network: INetworkDefinition) -> str:
        """Why 8 bits do not work, if they do not."""
        pairs = any(node.op_type in _PAIR for node in network._model.graph.node)
        told = [t for t in network._tensors.values() if t._largest is not None]
        if pairs:
            return (
                "setting dynamic range is only allowed when there are no Q/DQ layers in the network"
                if told
                else ""
            )
        if not told:
            return "calibration failure occurred with no scaling factors detected"
        for layer in network._layers:
            around = {t._largest for t in (*layer._reads, *layer._makes)} - {None}
            if layer._operator in ("Concat", "MaxPool", "AveragePool") and len(around) > 1:
                return f"{layer.name}: its tensors have different scales, and a DLA has one for all of them"
        small = [
            t.name
            for t in network._tensors.values()
            if t.dtype is DataType.INT8 and t._largest is None
        ]  # type: ignore[attr-defined]
        return (
            f"{small[0]}: int8 in a network without Q/DQ layers needs a dynamic range"
            if small
            else ""
        )

    def engine_layers(network: INetworkDefinition, config: IBuilderConfig) -> list[dict[str, Any]]:
        """What the engine is made of: a convolution with what follows it, or a piece that a DLA
        runs as a whole."""
        groups: list[tuple[bool, list[ILayer]]] = []
        for layer in network._layers:
            if layer.type == LayerType.CONSTANT:
                continue
            on_dla = config.default_device_type is DeviceType.DLA and config.can_run_on_DLA(layer)  # type: ignore[attr-defined]
            follows = (
                layer._operator in ("Relu", "Clip")
                and bool(groups)
                and groups[-1][1][-1]._operator == "Conv"
            )
            if groups and groups[-1][0] == on_dla and (on_dla or follows):
                groups[-1][1].append(layer)
            else:
                groups.append((on_dla, [layer]))
        made: list[dict[str, Any]] = []
        for on_dla, members in groups:
            names = [x.name for x in members]
            name = f"{{ForeignNode[{names[0]}...{names[-1]}]}}" if on_dla else " + ".join(names)
            if not made or on_dla:
                made.append(
                    {
                        "Name": f"Reformatting CopyNode for Input Tensor 0 to {name}",
                        "LayerType": "Reformat",
                        "ms": 0.25,
                    }
                )
            metadata = "\x1f".join(f"[ONNX Layer: {n}]" for n in names)
            kind = "DLA" if on_dla else "CaskConvolution"
            made.append(
                {"Name": name, "LayerType": kind, "Metadata": metadata, "ms": float(len(members))}
            )
            if version < "8.6" and generation == 8:
                del made[-1]["Metadata"]
        detailed = config.profiling_verbosity is ProfilingVerbosity.DETAILED  # type: ignore[attr-defined]
        return made if detailed else [{"Name": x["Name"], "ms": x["ms"]} for x in made]

    # -- running -----------------------------------------------------------------------------------
    resident: dict[int, weakref.WeakSet[Any]] = {}

    class Runtime(_Strict):
        max_threads = 1

        def __init__(self, logger: Any) -> None:
            if not isinstance(logger, ILogger):
                raise TypeError(
                    "__init__(): incompatible constructor arguments: a Logger is wanted"
                )
            self._core: int | None = None
            self._made: list[weakref.ref[ICudaEngine]] = []

        @property
        def num_DLA_cores(self) -> int:
            return machine.dla_cores

        @property
        def DLA_core(self) -> int:
            return -1 if self._core is None else self._core

        @DLA_core.setter
        def DLA_core(self, core: int) -> None:
            if not 0 <= core < machine.dla_cores:
                cuda.complain(f"the runtime is told to use DLA core {core} of {machine.dla_cores}")
                return
            late = [e for e in (r() for r in self._made) if e is not None and e._header["dla"]]
            if late and core != self._core:
                cuda.complain(
                    f"DLA core {core} is chosen after {late[0]._header['name']} was deserialized: "
                    f"that runs on core {late[0]._core}"
                )
            self._core = core

        def deserialize_cuda_engine(self, serialized_engine: Any) -> ICudaEngine | None:
            cuda.check()
            content = bytes(serialized_engine)
            if not content.startswith(MAGIC):
                refused("serialization assertion failed: magic tag does not match")
                return None
            length, _, rest = content[len(MAGIC) :].partition(b"\n")
            header = json.loads(rest[: int(length)])
            if header["version"] != version:
                refused(f"the plan was made by TensorRT {header['version']}, this is {version}")
                return None
            elsewhere = not rtx and header["gpu"] != cuda.device
            if elsewhere or tuple(header["capability"]) != cuda.capability:
                refused(f"the plan was made for {header['gpu']}, this is {cuda.device}")
                return None
            core = -1
            if header["dla"]:
                if not machine.dla_cores:
                    refused("this machine has no DLA")
                    return None
                if self._core is None:
                    cuda.complain(
                        f"{header['name']} is deserialized for a DLA, and no core has been chosen"
                    )
                core = self._core or 0
                loaded = resident.setdefault(core, weakref.WeakSet())
                held = sum(e._header["pieces"] for e in loaded)
                if held + header["pieces"] > machine.loadables:
                    refused(f"DLA core {core} holds {held} loadables already")
                    return None
            engine = ICudaEngine(self, header, rest[int(length) :], core)
            self._made.append(weakref.ref(engine))
            if header["dla"]:
                loaded.add(engine)
            return engine

    if since10:
        ExecutionContextAllocationStrategy = _names(
            "ExecutionContextAllocationStrategy", "STATIC", "ON_PROFILE_CHANGE", "USER_MANAGED"
        )
        made.ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy  # type: ignore[attr-defined]

    class ICudaEngine(_Strict):
        def __init__(
            self, runtime: Runtime, header: dict[str, Any], model: bytes, core: int
        ) -> None:
            self._runtime = weakref.ref(runtime)
            self._header, self._core = header, core
            self._session = _session(model)

        def _check(self) -> None:
            if self._runtime() is None:
                cuda.complain(f"engine {self._header['name']} is used after its runtime is gone")

        @property
        def name(self) -> str:
            return str(self._header["name"])

        @property
        def num_io_tensors(self) -> int:
            return len(self._header["tensors"])

        def get_tensor_name(self, index: int) -> str:
            return str(list(self._header["tensors"])[index])

        def get_tensor_shape(self, name: str) -> tuple[int, ...]:
            return tuple(self._header["tensors"][name]["shape"])

        def get_tensor_dtype(self, name: str) -> Any:
            return DataType[self._header["tensors"][name]["type"]]

        def get_tensor_mode(self, name: str) -> Any:
            return (
                TensorIOMode.INPUT
                if self._header["tensors"][name]["input"]
                else TensorIOMode.OUTPUT
            )

        if since10:

            @property
            def device_memory_size_v2(self) -> int:
                return int(self._header["arena"])

            def create_execution_context(
                self, strategy: Any = ExecutionContextAllocationStrategy.STATIC
            ) -> IExecutionContext:
                self._check()
                return IExecutionContext(
                    self, strategy is not ExecutionContextAllocationStrategy.USER_MANAGED
                )

        else:

            def create_execution_context(self) -> IExecutionContext:  # type: ignore[misc]
                self._check()
                return IExecutionContext(self, True)

        def create_engine_inspector(self) -> EngineInspector:
            self._check()
            return EngineInspector(self._header)

        if up_to10:

            @property
            def device_memory_size(self) -> int:
                return int(self._header["arena"])

            def create_execution_context_without_device_memory(self) -> IExecutionContext:
                self._check()
                return IExecutionContext(self, False)

    class EngineInspector(_Strict):
        def __init__(self, header: dict[str, Any]) -> None:
            self._header = header

        def get_engine_information(self, format: Any) -> str:
            if format is not LayerInformationFormat.JSON:  # type: ignore[attr-defined]
                return "\n".join(x["Name"] for x in self._header["layers"])
            layers = [x if "LayerType" in x else x["Name"] for x in self._header["layers"]]
            text = json.dumps({"Layers": layers, "Bindings": list(self._header["tensors"])})
            return text.replace("\\u001f", "\x1f") if generation == 8 else text

    class IProfiler:
        def __init__(self) -> None:
            self._ready = True

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            raise NotImplementedError

    class IExecutionContext(_Strict):
        profiler: Any = None
        enqueue_emits_profile = True

        def __init__(self, engine: ICudaEngine, own_memory: bool) -> None:
            self._engine, self._places = weakref.ref(engine), dict[str, int]()
            self._header = engine._header
            self._owned = cuda.memory(max(1, self._header["arena"])) if own_memory else None
            self._arena: tuple[int, int] | None = None
            if self._owned is not None:
                self._arena = self._owned.pointer, self._header["arena"]
            self._last: Operation | None = None

        def __del__(self) -> None:
            last = self._last
            if last is not None and not cuda.known_to_host(last):
                cuda.complain(
                    f"the context of {self._header['name']} is dropped while {last} may still be under way"
                )

        @property
        def engine(self) -> Any:
            return self._engine()

        @property
        def device_memory(self) -> int:
            return self._arena[0] if self._arena is not None else 0

        @device_memory.setter
        def device_memory(self, memory: int) -> None:
            block = cuda.block_of(int(memory))
            self._arena = (
                int(memory),
                0 if block is None else block.address + block.nbytes - int(memory),
            )

        if since10:

            def set_device_memory(self, memory: int, size: int) -> None:
                self._arena = int(memory), int(size)

        def set_tensor_address(self, name: str, memory: int) -> bool:
            if name not in self._header["tensors"]:
                say("E", f"given invalid tensor name: {name}")
                return False
            self._places[name] = int(memory)
            return True

        def get_tensor_address(self, name: str) -> int:
            return self._places.get(name, 0)

        def get_tensor_shape(self, name: str) -> tuple[int, ...]:
            return tuple(self._header["tensors"][name]["shape"])

        def set_input_shape(self, name: str, shape: Sequence[int]) -> bool:
            if tuple(shape) != self.get_tensor_shape(name):
                cuda.complain(
                    f"{self._header['name']} is static, but {name} is given the shape {tuple(shape)}"
                )
                return False
            return True

        def infer_shapes(self) -> list[str]:
            return []

        def execute_async_v3(self, stream_handle: int) -> bool:
            """Put an execution into a stream."""
            header, engine = self._header, self._engine()
            who = f"engine {header['name']}" + (
                f" on DLA core {engine._core}" if engine and header["dla"] else ""
            )
            if engine is None:
                cuda.complain(f"a context of {header['name']} is used after its engine is gone")
                return False
            engine._check()
            missing = [n for n in header["tensors"] if not self._places.get(n)]
            if missing:
                cuda.complain(f"{who} is started without an address for {', '.join(missing)}")
                return False
            accesses = [Access(*place, True) for place in self._arena_access(who)]
            for name, tensor in header["tensors"].items():
                accesses.append(self._access(who, name, tensor))
            places, session = dict(self._places), engine._session
            # The operation must not keep alive what the program has to.
            alive, self_reference = weakref.ref(engine), weakref.ref(self)
            arena = self._arena

            def action() -> None:
                if alive() is None or self_reference() is None:
                    cuda.complain(f"{who} is executed after its context is gone")
                if arena is not None and header["arena"]:
                    cuda.view(arena[0], np.uint8, (header["arena"],))[:] = 0xEE
                _execute(cuda, session, header["tensors"], places)

            self._last = Operation(header["name"], who, accesses, action)
            cuda.put(int(stream_handle), self._last)
            if self.profiler is not None and self.enqueue_emits_profile:
                if not getattr(self.profiler, "_ready", False):
                    raise TypeError("IProfiler.__init__() must be called when overriding __init__")
                cuda.reach(self._last)
                for layer in header["layers"]:
                    self.profiler.report_layer_time(layer["Name"], layer["ms"])
            return True

        def _arena_access(self, who: str) -> Iterator[tuple[int, int]]:
            wanted = self._header["arena"]
            if not wanted:
                return
            if self._arena is None:
                cuda.complain(f"{who} is started without memory for what lies between its layers")
                raise error("CUDA_ERROR_INVALID_VALUE")
            pointer, size = self._arena
            if size < wanted:
                cuda.complain(f"{who} needs {wanted} bytes between its layers, and is given {size}")
                raise error("CUDA_ERROR_INVALID_VALUE")
            if pointer % 256:
                cuda.complain(f"{who} is given memory at {pointer:#x}, which is not aligned to 256")
            yield pointer, wanted

        def _access(self, who: str, name: str, tensor: dict[str, Any]) -> Access:
            nbytes = _nbytes(tensor)
            pointer = self._places[name]
            block = cuda.block_of(pointer)
            if block is not None:
                start = pointer - block.address
                fits = block.nbytes == nbytes if machine.exact else start + nbytes <= block.nbytes
                if pointer % 256:
                    cuda.complain(
                        f"tensor {name} of {who} is given {pointer:#x}, which is not aligned to 256"
                    )
                if not fits:
                    shown = f"{tensor['dtype']}{tensor['shape']}"
                    cuda.complain(
                        f"tensor {name} of {who} is {shown}, and is given byte {start} of {block}"
                    )
            return Access(pointer, nbytes, not tensor["input"])

    for thing in (
        Logger, ILogger, DataType, BuilderFlag, DeviceType, TensorIOMode, MemoryPoolType, LayerType,
        NetworkDefinitionCreationFlag, ITensor, ILayer, INetworkDefinition, ParserError, OnnxParser, ITimingCache,
        IBuilderConfig, Builder, Runtime, ICudaEngine, IExecutionContext, IHostMemory, nptype, IProfiler,
        EngineInspector, ProfilingVerbosity, LayerInformationFormat,
    ):  # fmt: skip
        setattr(made, thing.__name__, thing)
    if since10:
        made.IProgressMonitor = IProgressMonitor  # type: ignore[attr-defined]
    if rtx:
        made.ComputeCapability = _names(  # type: ignore[attr-defined]
            "ComputeCapability", "NONE", "CURRENT", "SM75", "SM80", "SM86", "SM89", "SM120", "SM121"
        )
    made.__version__ = version  # type: ignore[attr-defined]
    made.float32, made.float16 = DataType.FLOAT, DataType.HALF  # type: ignore[attr-defined]
    made.int8, made.int32 = DataType.INT8, DataType.INT32  # type: ignore[attr-defined]
    #: Not in the real one: what it has said, for tests.
    made.said = log  # type: ignore[attr-defined]
    return made


def _capability(name: str) -> tuple[int, int]:
    """`SM89` as numbers."""
    return int(name[2:-1]), int(name[-1])


def _node_name(node: Any) -> str:
    """As the parser calls a node."""
    return str(node.name or f"node_of_{node.output[0]}")


def _unfit_pairs(model: Any) -> str:
    """What of its Q/DQ layers TensorRT does not take, or nothing."""
    import onnx

    constants = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type not in _PAIR:
            continue
        zero = constants.get(node.input[2]) if len(node.input) > 2 else None
        data = constants.get(node.input[0])
        kinds = {t.data_type for t in (zero, data) if t is not None}
        if not kinds <= {onnx.TensorProto.INT8, onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16}:
            return f"{node.output[0]}: quantised data has to be int8"
        if zero is None and node.op_type == _PAIR[0]:
            return f"{node.output[0]}: without a zero point it is uint8, and quantised data has to be int8"
        if zero is not None and onnx.numpy_helper.to_array(zero).any():
            return f"{node.output[0]}: TRT only supports symmetric quantization - zeroPt must be all zeros"
    return ""


def _monitored(monitor: Any, layers: int) -> bool:
    """Tell a progress monitor; False where it wants an end."""
    name = "Building Engine"
    monitor.phase_start(name, None, layers)
    going_on = all(monitor.step_complete(name, step) for step in range(layers))
    monitor.phase_finish(name)
    return going_on


def _small_types(model: Any) -> bool:
    """Does a strongly typed model compute in 8 and 16 bits alone? Casts at its borders are another
    matter."""
    import onnx

    operators = {node.op_type for node in model.graph.node}
    sizes = {t for n in model.graph.node if n.op_type == "Resize" for t in n.input[1:]}
    kinds = {i.data_type for i in model.graph.initializer if i.name not in sizes}
    if "Cast" not in operators:
        kinds |= {v.type.tensor_type.elem_type for v in model.graph.input}
    return onnx.TensorProto.FLOAT not in kinds


def _static(
    model: Any, shapes: dict[str, tuple[int, ...]], type_of: Any
) -> tuple[bytes, dict[str, Any]]:
    """The model with these shapes of its inputs, and all its inputs and outputs as a plan describes
    them."""
    import onnx

    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for value in fixed.graph.input:
        for dim, size in zip(
            value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False
        ):
            dim.Clear()
            dim.dim_value = size
    for value in fixed.graph.output:
        value.type.tensor_type.ClearField("shape")
    del fixed.graph.value_info[:]
    content = fixed.SerializeToString()
    session = _session(content)
    feeds = {i.name: np.zeros(shapes[i.name], _dtype(i.type)) for i in session.get_inputs()}
    results = session.run(None, feeds)
    tensors = {}
    given: Iterable[tuple[str, np.ndarray, bool]] = [
        *((n, a, True) for n, a in feeds.items()),
        *((o.name, a, False) for o, a in zip(session.get_outputs(), results, strict=True)),
    ]
    for name, array, is_input in given:
        kind = type_of(array.dtype)
        if kind is None:
            raise TypeError(f"tensor {name} is {array.dtype}")
        tensors[name] = {
            "shape": list(array.shape), "type": kind.name, "input": is_input,
            "dtype": "int32" if kind.name == "INT32" else array.dtype.name,
        }  # fmt: skip
    return content, tensors


def _dtype(kind: str) -> Any:
    name = kind[len("tensor(") : -1]
    return np.dtype({"float": "float32", "double": "float64"}.get(name, name))


def _session(model: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _nbytes(tensor: dict[str, Any]) -> int:
    return int(np.prod(tensor["shape"], dtype=np.int64)) * int(np.dtype(tensor["dtype"]).itemsize)


def _execute(cuda: StandIn, session: Any, tensors: dict[str, Any], places: dict[str, int]) -> None:
    views = {name: cuda.view(places[name], t["dtype"], t["shape"]) for name, t in tensors.items()}
    wanted = {i.name: _dtype(i.type) for i in session.get_inputs()}
    names = [o.name for o in session.get_outputs()]
    feeds = {n: np.ascontiguousarray(views[n]).astype(d, copy=False) for n, d in wanted.items()}
    for name in feeds:
        feeds[name] = (
            feeds[name] * np.float32(tensors[name].get("scale", 1))
            if "scale" in tensors[name]
            else feeds[name]
        )
    for name, result in zip(names, session.run(names, feeds), strict=True):
        scale = tensors[name].get("scale")
        views[name][...] = result if scale is None else np.clip(np.rint(result / scale), -128, 127)
