"""Is a model what the format promises, beyond being a message of its kind?

In: a model as protobuf reads it. Out: the first thing that does not hold, in words, or nothing.
Texts are texts, types exist, each tensor is made once, constants have the size of their shape, and
standard operators the inputs and outputs, the attributes and windows that they can have. How shapes
follow from each other is left to shape inference; what a model means, and files outside of it, to
those who read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

from ...model.types import MOST_BYTES

if TYPE_CHECKING:
    from onnx import ModelProto

#: The operators that every version of the format describes.
STANDARD = ("", "ai.onnx")
#: Attributes that windows have; none of them means something else in a standard operator.
WINDOWS = ("kernel_shape", "strides", "dilations")
#: Numbers of standard operators that are sizes; no array is as long as the largest of them.
SIZES, LONGEST = (
    (*WINDOWS, "pads", "output_padding", "output_shape", "group", "blocksize", "size"),
    1 << 31,
)
#: Messages inside each other; inner graphs need about four more each.
DEEPEST = 60
#: Bits of an element, where it is not a whole number of bytes or has no fixed size.
_PACKED = {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2, "STRING": 0}


def why_not(model: ModelProto) -> str:
    """What is wrong with a model; empty if nothing is."""
    opset = max((o.version for o in model.opset_import if o.domain in STANDARD), default=0)
    if not 0 <= opset < 1 << 31:
        return f"there are no operators of version {opset}"
    for message, depth, of_function in _messages(model, 0, False):
        if depth > DEEPEST:
            return "it is nested too deeply"
        reason = _wrong(message, opset, of_function)
        if reason:
            return reason
    if not model.ir_version:
        return "it does not say the version of its format (`ir_version`)"
    return ""


def _messages(message: Any, depth: int, of_function: bool) -> Iterator[tuple[Any, int, bool]]:
    """A message and all inside it, and whether they belong to a function of the model."""
    of_function = of_function or message.DESCRIPTOR.name == "FunctionProto"
    yield message, depth, of_function
    if depth <= DEEPEST:
        for name, repeated in _fields(message.DESCRIPTOR)[1]:
            if repeated:
                for inner in getattr(message, name):
                    yield from _messages(inner, depth + 1, of_function)
            elif message.HasField(name):
                yield from _messages(getattr(message, name), depth + 1, of_function)


@lru_cache(maxsize=64)
def _fields(descriptor: Any) -> tuple[tuple[tuple[str, bool], ...], tuple[tuple[str, bool], ...]]:
    """The names of the texts and of the messages in a kind of message, and whether there may be
    several."""
    texts, messages = [], []
    for field in descriptor.fields:
        if field.type == field.TYPE_STRING:
            texts.append((field.name, _is_repeated(field)))
        elif field.message_type is not None:
            messages.append((field.name, _is_repeated(field)))
    return tuple(texts), tuple(messages)


def _is_repeated(field: Any) -> bool:
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    # `label` is what older versions of protobuf have.
    return bool(field.label == field.LABEL_REPEATED)


def _wrong_text(message: Any) -> str:
    for name, several in _fields(message.DESCRIPTOR)[0]:
        value = getattr(message, name)
        if any(not _is_text(text) for text in (value if several else (value,))):
            return f"a `{name}` is no text"
    return ""


def _wrong(message: Any, opset: int, of_function: bool) -> str:
    """What is wrong with one message, without those inside of it."""
    reason = _wrong_text(message)
    if reason:
        return reason
    match message.DESCRIPTOR.name:
        case "NodeProto":
            return _wrong_operator(message, opset)
        case "TensorProto":
            return _wrong_constant(message)
        case "SparseTensorProto":
            return _wrong_sparse(message)
        case "AttributeProto":
            return _wrong_attribute(message, of_function)
        case "GraphProto":
            untyped = any(not weight.data_type for weight in message.initializer)
            reason = "a constant has no type" if untyped else _made_twice(message)
            return reason or _named_twice(message)
        case "FunctionProto":
            return _named_twice(message)
        case "Tensor" if message.elem_type and not type_name(message.elem_type):
            return f"there is no type of tensors {message.elem_type}"
    return ""


def _is_text(value: str | bytes) -> bool:
    if isinstance(value, bytes):  # protobuf hands them out where they are no UTF-8
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def type_name(number: int) -> str:
    """`FLOAT`, `INT8` and so on; empty where there is no such type."""
    from onnx import TensorProto

    if number not in TensorProto.DataType.values():
        return ""
    return str(TensorProto.DataType.Name(number))


def _wrong_sparse(constant: Any) -> str:
    """Values are as many as their places, which are numbers of elements, or of rows, columns ..."""
    name, dims = constant.values.name, list(constant.dims)
    if min(dims, default=0) < 0 or prod(dims) >= LONGEST:
        sizes = " x ".join(map(str, dims))
        return f"sparse constant `{name}` has {sizes} elements"
    count = prod(constant.values.dims)
    if list(constant.indices.dims) not in ([count], [count, len(dims)]):
        return f"sparse constant `{name}` has {count} values, and not as many places"
    return ""


def _wrong_constant(tensor: Any) -> str:
    from onnx import TensorProto

    name = type_name(tensor.data_type)
    if not tensor.data_type and not tensor.ByteSize():  # an attribute that is none
        return ""
    if not name or name == "UNDEFINED":
        return f"constant `{tensor.name}` has no type"
    if tensor.HasField("segment"):
        return f"constant `{tensor.name}` is a part of a larger one"
    if any(d < 0 for d in tensor.dims):
        return f"constant `{tensor.name}` has a negative dimension"
    count = prod(tensor.dims)
    if count > MOST_BYTES:
        return f"constant `{tensor.name}` has {count} elements"
    if not all(map(_is_utf8, tensor.string_data)):
        return f"a text in constant `{tensor.name}` is no text"
    if tensor.data_location == TensorProto.EXTERNAL:
        return ""
    if tensor.HasField("raw_data"):
        return _wrong_bytes(tensor, name, count)
    return _wrong_list(tensor, name, count)


def _wrong_bytes(tensor: Any, name: str, count: int) -> str:
    """Elements as bytes: as many as their shape needs."""
    from onnx import helper

    bits = _PACKED.get(name)
    if bits is None:
        bits = 8 * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    if name == "STRING" or len(tensor.raw_data) != -(-count * bits // 8):
        return f"constant `{tensor.name}` has {len(tensor.raw_data)} bytes, and {count} elements"
    return ""


def _wrong_list(tensor: Any, name: str, count: int) -> str:
    """Elements in a field of their own type: several to a number where they are small, two numbers
    where complex."""
    from onnx import helper

    numbers = len(getattr(tensor, helper.tensor_dtype_to_field(tensor.data_type)))
    if name.startswith("COMPLEX"):
        count *= 2
    elif name in _PACKED and name != "STRING":
        count = -(-count * _PACKED[name] // 8)
    if numbers != count:
        return f"constant `{tensor.name}` has {numbers} numbers, and its shape {count}"
    return ""


def _wrong_attribute(attribute: Any, of_function: bool) -> str:
    from onnx import helper

    if attribute.ref_attr_name:
        if of_function:
            return ""
        return f"attribute `{attribute.name}` takes the value of another one outside of a function"
    try:
        helper.get_attribute_value(attribute)
    except (ValueError, KeyError, TypeError):
        return f"attribute `{attribute.name}` has no value"
    return ""


def _made_twice(graph: Any) -> str:
    made: set[str] = set()
    outputs = chain.from_iterable(node.output for node in graph.node)
    for name in chain((v.name for v in graph.input), filter(None, outputs)):
        if name in made:
            return f"tensor `{name}` is made twice"
        made.add(name)
    return ""


def _named_twice(graph: Any) -> str:
    """ONNX Runtime refuses graphs with two nodes of one name, unless they are constants."""
    named: set[str] = set()
    for node in graph.node:
        if node.name and node.op_type != "Constant":
            if node.name in named:
                return f"there are two nodes `{node.name}`, and ONNX Runtime refuses such a network"
            named.add(node.name)
    return ""


def _wrong_operator(node: Any, opset: int) -> str:
    from onnx import defs

    attributes = {a.name: a for a in node.attribute}
    what = f"{node.op_type} `{next(iter(node.output), '')}`"
    if len(attributes) < len(node.attribute):
        return f"{what} has an attribute twice"
    if node.domain not in STANDARD or not defs.has(node.op_type, opset, ""):
        return ""
    schema = defs.get_schema(node.op_type, opset, "")
    if schema.deprecated:
        return f"{what} is no operator of version {opset} any more"
    if not schema.min_input <= len(node.input) <= schema.max_input:
        return f"{what} has {len(node.input)} inputs"
    if not schema.min_output <= len(node.output) <= schema.max_output:
        return f"{what} has {len(node.output)} outputs"
    for word, formal, actual in (
        ("input", schema.inputs, node.input),
        ("output", schema.outputs, node.output),
    ):
        for one, name in zip(formal, actual, strict=False):
            if not name and one.option == defs.OpSchema.FormalParameterOption.Single:
                return f"{what} has no {word} `{one.name}`"
    reason = _wrong_attributes(what, schema, attributes)
    if reason:
        return reason
    if node.op_type == "Constant" and len(attributes) != 1:
        return f"{what} has {len(attributes)} values"
    return _wrong_size(what, attributes) or _wrong_window(what, attributes)


def _wrong_attributes(what: str, schema: Any, attributes: dict[str, Any]) -> str:
    """Those that an operator needs are there, and all are known and have their types."""
    unknown = next((n for n in attributes if n not in schema.attributes and n[:2] != "__"), "")
    if unknown:
        return f"{what} has no attribute `{unknown}`"
    for name, wanted in schema.attributes.items():
        attribute = attributes.get(name)
        if attribute is None:
            if wanted.required:
                return f"{what} has no `{name}`"
        elif attribute.type != wanted.type.value:
            return f"`{name}` of {what} has another type than it has to have"
        elif not all(map(_is_utf8, (attribute.s, *attribute.strings))):
            return f"`{name}` of {what} is no text"
    return ""


def _wrong_size(what: str, attributes: dict[str, Any]) -> str:
    """Sizes are such that there are arrays of them."""
    for name in SIZES:
        if name in attributes:
            numbers = [attributes[name].i, *attributes[name].ints]
            if max(map(abs, numbers)) >= LONGEST:
                return f"`{name}` of {what} is {numbers[1:9] or numbers[0]}"
    return ""


def _wrong_window(what: str, attributes: dict[str, Any]) -> str:
    """Windows have a size of 1 or more along each axis that they move on."""
    lengths = set()
    for name in WINDOWS:
        if name in attributes:
            sizes = attributes[name].ints
            lengths.add(len(sizes))
            if not sizes or min(sizes) < 1:
                return f"`{name}` of {what} is {list(sizes)[:8]}"
    if "pads" in attributes and lengths:
        lengths.add(len(attributes["pads"].ints) // 2)
    if len(lengths) > 1:
        return f"the windows of {what} have different numbers of axes"
    return ""
