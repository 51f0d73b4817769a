"""Writes docs/generated/files.md: the fields of every JSON file that flowc keeps or writes, and of what
`flowc analyze --json` says about networks.

Each of them is a frozen dataclass. The page has its docstring, and the name, type and default of each
field, and behind it the same of the dataclasses that it is made of.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from flowc.codegen import kinds
from flowc.codegen.kinds import BuildCode
from flowc.driver.show.alternatives import VariantComparison
from flowc.driver.show.mapped_network import MappedGraph
from flowc.driver.show.networks import CutPoint
from flowc.interop.hopes.import_manifest import ImportManifest
from flowc.model.deployment import Code, Deployment
from flowc.model.external import External
from flowc.model.mapping import Mapping
from flowc.model.profile import Profile
from flowc.networks.bands.compare import BandComparison
from flowc.networks.dataflow.reduced import Reduction
from flowc.report.document import Document

HERE = Path(__file__).resolve().parent
FILES: dict[str, type] = {
    "Profile": Profile,
    "Mapping": Mapping,
    "deployment.json": Deployment,
    "external.json": External,
    "STEM.hopes.json": ImportManifest,
    "Report": Document,
    "Variants of a network": VariantComparison,
    "Graph of a network": MappedGraph,
    "Cut of a network": CutPoint,
    "Bands of a network": BandComparison,
    "Memory of a network by Minakova's thesis": Reduction,
}
WORDS = {
    str: "string",
    int: "integer",
    bool: "boolean",
    float: "number",
    Fraction: "fraction as a string",
    Any: "anything",
}
INTRODUCTION = """\
# Fields of JSON files

<!-- Written by docs/make_json.py from the dataclasses of the files. -->

Every field of the files that flowc keeps or writes as JSON: what they are for, and the rest of JSON, is in
[JSON](../json.md). Each file has the fields of its first table and `version`; what follows the report are parts of
[documents of `analyze`](../analysis.md#json). `list of X` is a list of any length,
`(X, Y)` a list of these two, `{X}` an object by names. A field with a default may be missing.
"""


def page() -> str:
    """The text of the page."""
    parts, told = [INTRODUCTION], set[type]()
    for title, root in FILES.items():
        parts.append(f"## {title}\n\n{_described(root)}")
        todo = list(_inside(root))
        while todo:
            kind = todo.pop(0)
            if kind not in told:
                told.add(kind)
                parts.append(f"### {kind.__name__}\n\n{_described(kind)}")
                todo = [*_inside(kind), *todo]
    return "\n".join(parts)


def _described(kind: type) -> str:
    """What a dataclass is, and its fields. `Code` is any of the kinds of code."""
    if kind is Code:
        return f"The code of a task, one of {', '.join(map(_words, _codes()))}; its `kind` says which.\n"
    rows = ["| field | type | default |", "| --- | --- | --- |"]
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        name = field.metadata.get("json", field.name)
        rows.append(f"| `{name}` | {_words(hints[field.name])} | {_default(field)} |")
    return "{}\n\n{}\n".format(_about(kind), "\n".join(rows))


def _about(kind: type) -> str:
    """The docstrings of a dataclass and of those that it extends, in words of JSON."""
    told = [inspect.getdoc(c) or "" for c in kind.__mro__ if is_dataclass(c) and c is not BuildCode]
    words = re.sub(r"(?<!\n)\n(?!\n)", " ", "\n\n".join(told))
    return re.sub(r"\bNone\b", "null", words).replace("()", "`[]`")


def _inside(kind: type) -> Iterator[type]:
    """The dataclasses that the fields of one are made of."""
    if kind is Code:
        yield from _codes()
        return
    for hint in get_type_hints(kind).values():
        yield from _parts(hint)


def _parts(hint: Any) -> Iterator[type]:
    if is_dataclass(hint) or hint is Code:
        yield hint  # type: ignore[misc]
    for part in get_args(hint):
        yield from _parts(part)


def _codes() -> list[type]:
    """The classes of code that a deployment can have."""
    modules = [module for module in vars(kinds).values() if isinstance(module, ModuleType)]
    found = {c for module in modules for c in vars(module).values() if isinstance(c, type)}
    codes = [c for c in found if issubclass(c, BuildCode) and not inspect.isabstract(c)]
    return sorted(codes, key=lambda c: c.__name__)


def _words(hint: Any) -> str:
    """A type in words."""
    args = get_args(hint)
    if hint in WORDS:
        return WORDS[hint]
    if is_dataclass(hint) or hint is Code:
        return f"[{hint.__name__}](#{hint.__name__.lower()})"  # type: ignore[union-attr]
    origin = get_origin(hint)
    if origin is Annotated:
        return _words(args[0])
    if origin is Literal:
        return " or ".join(f"`{json.dumps(value)}`" for value in args)
    if origin in (Union, UnionType):
        return " or ".join("null" if kind is NoneType else _words(kind) for kind in args)
    if origin is tuple and args[-1] is Ellipsis:
        return f"list of {_words(args[0])}"
    if origin is tuple:
        return f"({', '.join(map(_words, args))})"
    if origin is dict:
        return f"{{{_words(args[1])}}}"
    raise TypeError(f"no words for {hint}")


def _default(field: Field[Any]) -> str:
    """The default of a field as JSON; empty without one."""
    value = field.default
    if value is MISSING:
        if field.default_factory is MISSING:
            return ""
        value = field.default_factory()
    return "those of its fields" if is_dataclass(value) else f"`{json.dumps(value)}`"


if __name__ == "__main__":
    (HERE / "generated" / "files.md").write_text(page())
