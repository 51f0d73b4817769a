"""The bill of materials of a finished build, in CycloneDX 1.6 (https://cyclonedx.org).

In: the directory of a build. Out: a document with flowc, the packages that the program needs as
they are installed here, and every file with its SHA-256. The same build and the same packages give
the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ...codegen.native.engines import ONNXRUNTIME, OPENVINO
from ...codegen.write import listed
from ...model.files import read_bytes
from ...model.json_reader import parse_object
from ...model.version import __version__

#: A component, or another part of the document.
Part = dict[str, Any]

#: What the program itself is called in the document.
PROGRAM = "program"
#: What lies beside each main program, and says what it is.
DEPLOYMENT = "deployment.json"
#: Folders beside a main program that hold a copy of flowc's runtime, in Python and in C++.
OF_FLOWC = ("runtime", "native")
#: The source of a program in C++, and what it may be linked with, by the packages that have it.
MAIN = "main.cpp"
LIBRARIES = {"onnxruntime": ONNXRUNTIME, "openvino": OPENVINO}
#: Identifiers of SPDX by the words of a name, without those that say that it is a license.
SPDX = {
    frozenset(words.split()): identifier
    for words, identifier in (
        ("mit", "MIT"),
        ("apache 2.0", "Apache-2.0"),
        ("apache 2", "Apache-2.0"),
        ("bsd 3 clause", "BSD-3-Clause"),
        ("bsd new", "BSD-3-Clause"),
        ("bsd modified", "BSD-3-Clause"),
        ("bsd 2 clause", "BSD-2-Clause"),
        ("bsd simplified", "BSD-2-Clause"),
        ("isc", "ISC"),
        ("isc iscl", "ISC"),
        ("mpl 2.0", "MPL-2.0"),
        ("mozilla public 2.0 mpl", "MPL-2.0"),
        ("zlib", "Zlib"),
        ("0bsd", "0BSD"),
    )
}
OF_ANY_LICENSE = {"the", "license", "licence", "version", "osi", "approved"}
#: Files of a package with the text of a license, and the most bytes of one that are quoted.
LICENSE_FILE = re.compile(r"(LICEN[CS]E|COPYING|NOTICE)", re.IGNORECASE)
MOST_TEXT = 1 << 18


def bill_of_materials(directory: Path, digest: str) -> str:
    """The document for a build with this digest.

    A time is in it where SOURCE_DATE_EPOCH says one (seconds since 1970). Raises OSError for a
    build that is damaged, and ValueError for a time that is none.
    """
    names = listed(directory)
    roots = {PurePath(name).parent for name in names if PurePath(name).name == DEPLOYMENT}
    linked = _linked(names)
    needed = list(_requirements(directory, names)) if linked is None else linked
    packages = _packages(needed, in_turn=linked is None)
    of_flowc = [name for name in names if _is_of_flowc(name, roots)]
    components = [
        *packages.values(),
        _runtime([_file(directory, name) for name in of_flowc]),
        *(_file(directory, name) for name in names if name not in of_flowc),
    ]
    about: Part = {
        **_time(),
        "tools": {"components": [_flowc("flowc", "application")]},
        "component": _program(directory / min(roots, key=lambda r: len(r.parts)), digest),
    }
    document: Part = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": about,
        "components": components,
        "dependencies": _dependencies(needed, packages, components),
    }
    content = json.dumps(document, sort_keys=True).encode()
    number = uuid.uuid5(uuid.NAMESPACE_OID, hashlib.sha256(content).hexdigest())
    return json.dumps({**document, "serialNumber": f"urn:uuid:{number}"}, indent=1) + "\n"


def _time() -> Part:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return {}
    try:
        time = datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"SOURCE_DATE_EPOCH is `{epoch}`, no number of seconds") from None
    return {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ")}


def _program(root: Path, digest: str) -> Part:
    """The program in a folder of the build: the whole one, not one of its parts."""
    document = parse_object(read_bytes(root / DEPLOYMENT))
    about = {"digest": digest, "source": document["source"], "platform": document["platform"]}
    return {
        "type": "application",
        "bom-ref": PROGRAM,
        "name": document["name"],
        "properties": _properties(about),
    }


def _properties(values: dict[str, str]) -> list[Part]:
    return [{"name": f"flowc:{name}", "value": value} for name, value in values.items()]


# -- files -----------------------------------------------------------------------------------------
def _file(directory: Path, name: str) -> Part:
    """A file of the build; a network is a model."""
    with (directory / name).open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {
        "type": "machine-learning-model" if name.endswith(".onnx") else "file",
        "bom-ref": f"file:{name}",
        "name": name,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def _is_of_flowc(name: str, roots: Iterable[PurePath]) -> bool:
    path = PurePath(name)
    return any(root / folder in path.parents for root in roots for folder in OF_FLOWC)


def _flowc(name: str, kind: str) -> Part:
    return {"type": kind, "name": name, "version": __version__, **_licenses("flowc")}


def _runtime(files: list[Part]) -> Part:
    """The copy of flowc's runtime, with its files."""
    return {**_flowc("flowc-runtime", "library"), "bom-ref": "flowc-runtime", "components": files}


# -- packages --------------------------------------------------------------------------------------
def _linked(names: Iterable[str]) -> list[Requirement] | None:
    """What a program in C++ is linked with: the packages whose libraries lie in the build. None for
    other programs."""
    found = set(names)
    if MAIN not in found:
        return None
    return [Requirement(n) for n, library in LIBRARIES.items() if _holds(found, library)]


def _holds(names: Iterable[str], library: str) -> bool:
    return any(name == library or name.startswith(f"{library}/") for name in names)


def _requirements(directory: Path, names: Iterable[str]) -> Iterator[Requirement]:
    """What the program needs directly, by the requirements of the build and its parts."""
    for name in names:
        if PurePath(name).name == "requirements.txt":
            for line in (directory / name).read_text().splitlines():
                words = line.partition("#")[0].strip()
                if words:
                    yield Requirement(words)


def _packages(needed: Iterable[Requirement], *, in_turn: bool) -> dict[str, Part]:
    """These packages by name, and behind them those that they need `in_turn`, if these count."""
    own: dict[str, list[str]] = {}
    for requirement in needed:
        stated = own.setdefault(canonicalize_name(requirement.name), [])
        words = str(requirement)
        if words not in stated:
            stated.append(words)
    found: dict[str, Part] = {}
    todo = list(own)
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = _package(name)
            todo += _needed_by(name) if in_turn else []
    for name, stated in own.items():
        found[name]["properties"] = [{"name": "flowc:requirement", "value": w} for w in stated]
    return {name: found[name] for name in sorted(found, key=lambda name: (name not in own, name))}


def _package(name: str) -> Part:
    """A package, without a version where it is not installed here."""
    version = _version(name)
    reference = f"pkg:pypi/{name}" if version is None else f"pkg:pypi/{name}@{quote(version)}"
    part: Part = {"type": "library", "bom-ref": reference, "name": name, "purl": reference}
    if version is not None:
        part["version"] = version
    return {**part, **_licenses(name)}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _needed_by(name: str) -> list[str]:
    """The packages that an installed package needs here."""
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    names = []
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            names.append(canonicalize_name(requirement.name))
    return sorted(set(names))


def _licenses(name: str) -> Part:
    """The license that a package states, and as evidence the texts that it carries."""
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return {}
    found: Part = {}
    stated = _stated(package)
    if stated is not None:
        found["licenses"] = [stated]
    texts = list(_texts(package))
    if texts:
        found["evidence"] = {"licenses": texts}
    return found


def _stated(package: metadata.Distribution) -> Part | None:
    about = package.metadata
    for expression in about.get_all("License-Expression") or ():
        return {"expression": expression}
    for words in about.get_all("License") or ():
        if words and "\n" not in words and len(words) < 80:
            return _named(words)
    for classifier in about.get_all("Classifier") or ():
        if classifier.startswith("License :: "):
            return _named(classifier.rpartition(" :: ")[2])
    return None


def _named(name: str) -> Part:
    """A license by its identifier of SPDX, if the name leaves no doubt about it."""
    words = frozenset(re.findall(r"[a-z0-9.]+", name.lower())) - OF_ANY_LICENSE
    known = SPDX.get(words)
    return {"license": {"name": name} if known is None else {"id": known}}


def _texts(package: metadata.Distribution) -> Iterator[Part]:
    """The texts of licenses beside the metadata of a package, or at the top of the package."""
    files = package.files or ()
    for file in sorted(files, key=str):
        beside = file.parts[0].endswith(".dist-info") or len(file.parts) == 2
        if not beside or not LICENSE_FILE.match(file.name):
            continue
        try:
            content = read_bytes(Path(str(file.locate())), MOST_TEXT).decode()
        except (OSError, ValueError):
            continue
        inside = [part for part in file.parts[1:-1] if part != "licenses"]
        place = "/".join([package.metadata["Name"], *inside, file.name])
        yield {
            "license": {"name": place, "text": {"contentType": "text/plain", "content": content}}
        }


def _dependencies(
    needed: Iterable[Requirement], packages: dict[str, Part], components: Iterable[Part]
) -> list[Part]:
    """The program depends on what it needs directly, and on its files; packages on packages."""
    direct = {packages[canonicalize_name(r.name)]["bom-ref"] for r in needed}
    everything = [part["bom-ref"] for part in components]
    indirect = {part["bom-ref"] for part in packages.values()} - direct
    tree = [{"ref": PROGRAM, "dependsOn": [r for r in everything if r not in indirect]}]
    for name, part in packages.items():
        below = [packages[n]["bom-ref"] for n in _needed_by(name) if n in packages]
        tree.append({"ref": part["bom-ref"], "dependsOn": sorted(below)})
    return tree
