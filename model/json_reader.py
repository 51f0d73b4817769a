"""Untrusted JSON, read as frozen dataclasses and checked against their types.

In: the bytes of a file, and a dataclass. Out: an instance of it, or a ValueError with the place
(`entries[3].mean_ns`), the value there and what was expected. The callers check relations between
values.

The types of a dataclass's fields are the schema: str, bool, int, float (always finite), `X | None`,
tuples, `dict[str, X]`, `Literal` of texts, other dataclasses, and `Annotated[int, Between(1, 8)]`
for limits of a number or of a tuple's length. A tuple of pairs whose first is a text may be an
object as well. A field with a default may be missing; `metadata={"json": "from"}` is its name in
the file, if it differs. Unknown fields are errors: they may be misspelt.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import lru_cache
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from .diagnostic import did_you_mean, one_of

T = TypeVar("T")
_Reader = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Between:
    """Numbers from `least` to `most`, or tuples of that length."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"from {self.least} to {self.most}"


class Misfit(ValueError):
    """A fault of a value; the callers add its place with `inside`."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said, self.place = said, ""

    def inside(self, part: str) -> Misfit:
        """The same, with the place of an enclosing part (`[3]`, `.name`) in front."""
        self.place = part + self.place
        return self

    def __str__(self) -> str:
        return f"{self.place.lstrip('.') or 'the document'} {self.said}"


def parse(text: str | bytes) -> Any:
    """Any JSON document. Raises ValueError, also for NaN and for too deep nesting."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("not JSON: nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ValueError("not JSON: not a text") from error
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error


def parse_object(text: str | bytes) -> dict[str, Any]:
    """A document that is an object. Raises ValueError."""
    document = parse(text)
    if not isinstance(document, dict):
        raise Misfit(f"is {shown(document)}; expected an object")
    return document


def parse_version(text: str | bytes, what: str, version: int) -> dict[str, Any]:
    """The object of one of flowc's files without its `version`. Raises ValueError for another
    one.
    """
    document = parse(text)
    if not isinstance(document, dict) or "version" not in document:
        raise ValueError(f"not a {what} of version {version}")
    return of_version(document, what, version)


def of_version(document: dict[str, Any], what: str, version: int) -> dict[str, Any]:
    """A document without its `version`; one that says none is of version 1. Raises ValueError for
    another one than `version`.
    """
    said = document.get("version", 1)
    if said != version or isinstance(said, bool):
        later = isinstance(said, int) and said > version
        why = ": a later flowc wrote it" if later else ""
        raise ValueError(f"version is {shown(said)}; expected a {what} of version {version}{why}")
    return {name: value for name, value in document.items() if name != "version"}


def read(kind: type[T], value: Any) -> T:
    """The value as an instance of `kind`. Raises ValueError."""
    reader: _Reader = _reader(kind)  # type: ignore[arg-type]  # types can be hashed
    found: T = reader(value)
    return found


def shown(value: object) -> str:
    """A value in a message: short, and valid JSON or words."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


@lru_cache(maxsize=256)
def _reader(kind: Any) -> _Reader:
    """The reader of values of a type, built once."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _limited(arguments[0], arguments[1])
    if origin is Literal:
        return _word(arguments)
    if origin in (Union, UnionType):
        (other,) = (a for a in arguments if a is not NoneType)
        read_other = _reader(other)
        return lambda value: None if value is None else read_other(value)
    if origin is tuple and arguments[-1] is Ellipsis:
        return _list(arguments[0])
    if origin is tuple:
        return _row(arguments)
    if origin is dict:
        return _named(arguments[1])
    if is_dataclass(kind):
        return _record(kind)
    return _SIMPLE[kind]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise Misfit(f"is {shown(value)}; expected a text")


def _word(known: tuple[str, ...]) -> _Reader:
    def word(value: Any) -> str:
        if value in known:
            return str(value)
        raise Misfit(f"is {shown(value)}; expected {one_of(known)}")

    return word


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise Misfit(f"is {shown(value)}; expected true or false")


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise Misfit(f"is {shown(value)}; expected a whole number")


def _number(value: Any) -> float:
    if isinstance(value, float) and isfinite(value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 1000:
        return float(value)
    raise Misfit(f"is {shown(value)}; expected a number")


_SIMPLE: dict[Any, _Reader] = {str: _text, bool: _truth, int: _whole, float: _number}


def _limited(kind: Any, limits: Between) -> _Reader:
    simple = _reader(kind)
    if get_origin(kind) is tuple:
        return _counted(simple, limits)
    what = "a whole number" if kind is int else "a number"

    def limited(value: Any) -> Any:
        try:
            number = simple(value)
        except Misfit:
            number = None
        if number is None or not limits.least <= number <= limits.most:
            raise Misfit(f"is {shown(value)}; expected {what} {limits}")
        return number

    return limited


def _counted(items: _Reader, limits: Between) -> _Reader:
    def counted(value: Any) -> Any:
        members = items(value)
        if not limits.least <= len(members) <= limits.most:
            raise Misfit(f"has {len(members)} items; expected {limits}")
        return members

    return counted


def _list(kind: Any) -> _Reader:
    item = _reader(kind)
    of = get_args(kind)
    pairs = get_origin(kind) is tuple and len(of) == 2 and of[0] is str and of[1] is not Ellipsis
    value_of = _named(of[1]) if pairs else None

    def listed(value: Any) -> tuple[Any, ...]:
        if value_of is not None and isinstance(value, dict):
            return tuple(value_of(value).items())
        if not isinstance(value, list):
            raise Misfit(f"is {shown(value)}; expected a list")
        items = []
        for v in value:
            try:
                items.append(item(v))
            except Misfit as misfit:
                raise misfit.inside(f"[{len(items)}]") from None
        return tuple(items)

    return listed


def _row(kinds: tuple[Any, ...]) -> _Reader:
    items = [_reader(kind) for kind in kinds]

    def row(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(items):
            raise Misfit(f"is {shown(value)}; expected a list of {len(items)}")
        entries = []
        for reader, v in zip(items, value, strict=True):
            try:
                entries.append(reader(v))
            except Misfit as misfit:
                raise misfit.inside(f"[{len(entries)}]") from None
        return tuple(entries)

    return row


def _named(kind: Any) -> _Reader:
    item = _reader(kind)

    def named(value: Any) -> dict[str, Any]:
        entries = {}
        for name, v in _object(value).items():
            try:
                entries[name] = item(v)
            except Misfit as misfit:
                raise misfit.inside(f"[{shown(name)}]") from None
        return entries

    return named


def _record(kind: Any) -> _Reader:
    types = get_type_hints(kind, include_extras=True)
    readers = {
        f.metadata.get("json", f.name): (f.name, _reader(types[f.name])) for f in fields(kind)
    }
    needed = {
        f.metadata.get("json", f.name)
        for f in fields(kind)
        if f.default is MISSING and f.default_factory is MISSING
    }

    def record(value: Any) -> Any:
        entries = {}
        for key, v in _object(value).items():
            if key not in readers:
                guess = did_you_mean(key, readers)
                hint = f"; {guess}" if guess else ""
                raise Misfit(f"has {shown(key)}, which is not known{hint}")
            name, reader = readers[key]
            try:
                entries[name] = reader(v)
            except Misfit as misfit:
                raise misfit.inside(f".{key}") from None
        missing = needed - value.keys()
        if missing:
            raise Misfit(f"has no `{min(missing)}`")
        return kind(**entries)

    return record


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise Misfit(f"is {shown(value)}; expected an object")
