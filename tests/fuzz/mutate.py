"""Changes of texts, bytes, JSON and messages of protobuf, drawn from a generator that is passed
in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

#: Numbers at which something may break.
NUMBERS = (
    "0", "1", "2", "-1", "3", "7", "64", "255", "256", "1000", "65536", "99999", "1000000", "2147483648", "1e9", "1e30",
    "1e400", "0.5", "1/3", "9" * 30, "9" * 5000, "00", "-0", "1.0000000000000001", "1e-400", "9223372036854775808",
)  # fmt: skip
#: Texts at which something may break.
WORDS = (
    "", "a", "class", "None", "main", "x" * 300, "\0", "\u202e", "\ud7ff", "é", "a b", "../../x", "/dev/zero", "/proc/self/mem",
    "{{ x }}", "*/", "//", '"', "\\", "\n", "\x1b[31m", "files", ".", "..", "%s", "$(id)", "'''", '"""',
)  # fmt: skip
_TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_]\w*|\d+(?:\.\d+)?|->|\s+|.', re.DOTALL)


def edits(rng: Random) -> int:
    """How many changes: few, mostly."""
    return min(1 + int(rng.expovariate(0.7)), 12)


def text(rng: Random, seed: str, others: Sequence[str]) -> str:
    """A text with some tokens, characters or lines changed, or spliced with another one."""
    for _ in range(edits(rng)):
        seed = rng.choice((_tokens, _tokens, _lines, _characters, _splice, _repeat))(
            rng, seed, others
        )
    return seed


def _tokens(rng: Random, seed: str, others: Sequence[str]) -> str:
    tokens = _TOKEN.findall(seed)
    if not tokens:
        return rng.choice(WORDS)
    solid = [i for i, t in enumerate(tokens) if not t.isspace()] or [0]
    i = rng.choice(solid)
    match rng.randrange(6):
        case 0:
            del tokens[i]
        case 1:
            tokens.insert(i, tokens[rng.choice(solid)])
        case 2:
            j = rng.choice(solid)
            tokens[i], tokens[j] = tokens[j], tokens[i]
        case 3 if tokens[i][0].isdigit():
            tokens[i] = rng.choice(NUMBERS)
        case 4 if tokens[i][0] == '"':
            tokens[i] = f'"{rng.choice(WORDS)}"'
        case _:
            tokens[i] = rng.choice(
                [*(t for t in _TOKEN.findall(rng.choice(others)) if not t.isspace()), *NUMBERS]
            )
    return "".join(tokens)


def _lines(rng: Random, seed: str, others: Sequence[str]) -> str:
    lines = seed.split("\n")
    i = rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[i]
        case 1:
            lines.insert(i, rng.choice(lines))
        case 2:
            lines[i] = rng.choice(rng.choice(others).split("\n"))
        case _:
            rng.shuffle(lines)
    return "\n".join(lines)


def _characters(rng: Random, seed: str, others: Sequence[str]) -> str:
    i = rng.randrange(len(seed) + 1)
    new = rng.choice(
        (
            chr(rng.randrange(128)),
            chr(rng.randrange(0x2100)),
            rng.choice("{}()[]\"/*-><=.,:;|+\\'\t\r"),
        )
    )
    return seed[:i] + new + seed[i + rng.randrange(2) :]


def _splice(rng: Random, seed: str, others: Sequence[str]) -> str:
    other = rng.choice(others)
    i, j = rng.randrange(len(seed) + 1), rng.randrange(len(other) + 1)
    return (
        seed[:i] + other[j : j + rng.choice((40, 400, 4000))] + seed[i + rng.choice((0, 0, 40)) :]
    )


def _repeat(rng: Random, seed: str, others: Sequence[str]) -> str:
    i = rng.randrange(len(seed) + 1)
    piece = seed[i : i + rng.choice((1, 2, 8, 40))]
    times = rng.choice((2, 3, 10, 100, 2000 if len(piece) < 9 else 100))
    return seed[:i] + piece * times + seed[i:]


def data(rng: Random, seed: bytes) -> bytes:
    """Bytes with some of them changed, or a part missing or doubled."""
    changed = bytearray(seed or b"\0")
    for _ in range(edits(rng)):
        i = rng.randrange(len(changed) + 1)
        j = min(len(changed), i + rng.choice((1, 1, 2, 4, 8, 64, len(changed))))
        match rng.randrange(5):
            case 0:
                del changed[i:j]
            case 1:
                changed[i:i] = changed[i : min(j, i + 4096)]
            case 2:
                changed[i:j] = rng.choice((b"\0", b"\xff", b"\x7f")) * min(j - i, 64)
            case _ if i < len(changed):
                changed[i] = rng.randrange(256)
        changed = changed or bytearray(b"\0")
    return bytes(changed)


# -- JSON ------------------------------------------------------------------------------------------
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, -5, 10**9, 10**18, 10**40, 0.5, -0.0, float("nan"), float("inf"), 1e308, "", "2", "x",
    [], {}, [1], ["x"], [[]], {"x": 1}, [None], "x" * 1000, "cpu[0]", "\0",
)  # fmt: skip


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    keys = (
        node.keys()
        if isinstance(node, dict)
        else range(len(node))
        if isinstance(node, list)
        else ()
    )
    for key in list(keys):
        yield node, key
        yield from _places(node[key])


def json_text(rng: Random, seed: str) -> str:
    """A JSON document with some values changed, missing, doubled or renamed."""
    if seed.startswith("[" * 100):  # it was nested by an earlier call
        return seed
    document = json.loads(seed)
    for _ in range(edits(rng)):
        places = list(_places(document))
        if not places:
            break
        node, key = rng.choice(places)
        match rng.randrange(6):
            case 0:
                del node[key]
            case 1 if isinstance(node, list):
                node[key:key] = json.loads(json.dumps([node[key]] * rng.choice((1, 2, 50))))
            case 1:
                node[rng.choice((f"{key}s", "", "version", "x"))] = node.pop(key)
            case 2:
                other, place = rng.choice(places)
                node[key] = (
                    json.loads(json.dumps(other[place]))
                    if place in other or isinstance(place, int)
                    else None
                )
            case _:
                node[key] = json.loads(json.dumps(rng.choice(VALUES)))
    said = json.dumps(document)
    if rng.random() < 0.03:
        return "[" * 40_000 + said
    return text(rng, said, [said]) if rng.random() < 0.05 else said


# -- protobuf --------------------------------------------------------------------------------------
def _messages(message: Any, depth: int = 0) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields() if depth < 12 else ():
        if field.message_type is not None:
            for inner in value if _repeated(field) else (value,):
                yield from _messages(inner, depth + 1)


def _repeated(field: Any) -> bool:
    found = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if found is None else found)


def protobuf(rng: Random, message: Any) -> None:
    """Some fields of a message, or of those inside, changed, removed, doubled, or filled where they
    were empty."""
    for _ in range(edits(rng)):
        inner = rng.choice(list(_messages(message)))
        field = rng.choice(list(inner.DESCRIPTOR.fields))
        change = _change_repeated if _repeated(field) else _change_single
        change(rng, inner, field)


def _change_repeated(rng: Random, inner: Any, field: Any) -> None:
    values = getattr(inner, field.name)
    match rng.randrange(4):
        case 0 if len(values):
            del values[rng.randrange(len(values))]
        case 1 if len(values):
            values.extend([values[rng.randrange(len(values))]] * rng.choice((1, 1, 3)))
        case 2 if len(values) > 1:
            ordered = list(values)
            rng.shuffle(ordered)
            del values[:]
            values.extend(ordered)
        case _ if field.message_type is not None:
            values.add()
        case _:
            made = _scalar(rng, field)
            if made is not None:
                values.append(made)


def _change_single(rng: Random, inner: Any, field: Any) -> None:
    if rng.randrange(4) == 0:
        inner.ClearField(field.name)
    elif field.message_type is not None:
        getattr(inner, field.name).SetInParent()
    else:
        made = _scalar(rng, field)
        if made is not None:
            setattr(inner, field.name, made)


def _scalar(rng: Random, field: Any) -> Any:
    kinds: dict[int, Callable[[], Any]] = {
        field.CPPTYPE_INT32: lambda: rng.choice((0, 1, 2, 7, 16, 67, -1, 2**31 - 1, -(2**31))),
        field.CPPTYPE_INT64: lambda: rng.choice((0, 1, 2, 3, 8, -1, 1000, 2**31, 2**62, -(2**63))),
        field.CPPTYPE_UINT64: lambda: rng.choice((0, 1, 2**64 - 1)),
        field.CPPTYPE_FLOAT: lambda: rng.choice((0.0, 1.0, -1.0, float("nan"), float("inf"), 1e30)),
        field.CPPTYPE_DOUBLE: lambda: rng.choice(
            (0.0, 1.0, -1.0, float("nan"), float("inf"), 1e300)
        ),
        field.CPPTYPE_BOOL: lambda: rng.random() < 0.5,
        field.CPPTYPE_ENUM: lambda: rng.choice(field.enum_type.values).number,
    }
    if field.cpp_type == field.CPPTYPE_STRING:
        word = rng.choice(
            (*WORDS, "x", "y", "r", "w", "Conv", "If", "location", "data.bin")
        ).encode(errors="replace")
        if field.type == field.TYPE_BYTES:
            return rng.choice((word, b"\xff", b"SAME_UPPER\xff"))
        return word.decode()
    made = kinds.get(field.cpp_type)
    return None if made is None else made()
