"""Files that only flowc reads and writes, beside a text: `STEM.PLATFORM.profile.json` and
`.mapping.json`, of programs in C++ `STEM.PLATFORM-native.profile.json` and `.mapping.json`.

A file that does not match the current text (other code, another machine) is named in a warning and
not used.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container
from collections.abc import Mapping as MappingABC
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...model.diagnostic import Diagnostic, Errors, listed
from ...model.files import read_bytes, reason, replace_file, require_writable
from ...model.mapping import Mapping
from ...model.platform import Platform
from ...model.profile import Profile, ProfileEntry
from ...model.system import System
from ...passes.stored_mapping import StoredMapping, identity, not_used, without_bounds
from ...profiling.identity import listed_changes, task_hashes
from ...targets.inference import runs_in

if TYPE_CHECKING:
    from .check import Valid


def mapping_path(system: System, platform: Platform) -> Path:
    """STEM.PLATFORM.mapping.json beside the text."""
    return _path(system, platform, "mapping")


def profile_path(system: System, platform: Platform) -> Path:
    """STEM.PLATFORM.profile.json beside the text."""
    return _path(system, platform, "profile")


def _path(system: System, platform: Platform, what: str) -> Path:
    of = f"{platform.name}-native" if platform.native else platform.name
    return Path(system.path).parent / f"{system.stem}.{of}.{what}.json"


def has_native_files(valid: Valid) -> bool:
    """Does its program in C++ have times or a mapping of its own?"""
    native = replace(valid.platform, native=True)
    return any(os.path.isfile(f(valid.system, native)) for f in (mapping_path, profile_path))


def read_mapping(
    system: System, platform: Platform
) -> tuple[StoredMapping | None, tuple[Diagnostic, ...]]:
    """The stored mapping, as a pass, or why it cannot be read.

    Programs in C++ that have none of their own take the places of the one in Python, without its
    bounds.
    """
    path = mapping_path(system, platform)
    if not os.path.isfile(path):
        if not platform.native:
            return None, ()
        stored, warnings = read_mapping(system, replace(platform, native=False))
        if stored is not None:
            stored = replace(stored, mapping=without_bounds(stored.mapping))
        return stored, warnings
    try:
        mapping, wanted = Mapping.from_json(read_bytes(path))
    except (OSError, ValueError) as error:
        return None, (not_used(f"`{path.name}` is not used: {reason(error)}"),)
    return StoredMapping(mapping, wanted, path.name), ()


def save_mapping(valid: Valid, mapping: Mapping) -> Path:
    """Write a mapping beside the text. Raises Errors."""
    path = mapping_path(valid.system, valid.platform)
    try:
        replace_file(path, mapping.to_json(identity(valid.system, valid.platform)))
    except OSError as error:
        raise _unwritable(path, error) from error
    return path


def require_place(valid: Valid) -> None:
    """Check that a mapping can be stored beside the text, before a long search. Raises Errors."""
    path = mapping_path(valid.system, valid.platform)
    try:
        require_writable(path)
    except OSError as error:
        raise _unwritable(path, error) from error


def said_in(file: str) -> str:
    """Where a value stands that is wrong, for the help of a diagnostic without a place."""
    return f"this is said in `{file}`"


def _unwritable(path: Path, error: OSError) -> Errors:
    help_text = (
        "`map` stores its mapping beside the text: copy the text to a folder that you may write to"
    )
    return Errors(
        [Diagnostic("F605", f"cannot write `{path}`: {reason(error)}", None, help=help_text)]
    )


def read_profile(valid: Valid) -> tuple[Profile | None, tuple[Diagnostic, ...]]:
    """The stored profile if it matches every task of this text (on this machine, for `host`), and
    warnings."""
    path = _path_to_read(valid)
    profile, unread = _stored(valid, path)
    if profile is None:
        return None, unread
    name = path.name
    digests, known = _hashes(valid), _digests(profile)
    if _elsewhere(valid, profile):
        return None, (_warning(f"`{name}` was measured on another machine ({profile.host})"),)
    changed = _changed(profile, digests)
    if changed:
        return None, (
            _warning(f"`{name}` is stale: {listed_changes(valid.system, changed)} changed since"),
        )
    new = [task for task in digests if task not in known]
    untold = [task for task in new if not _cut_since(task, known)]
    if untold:
        return None, (_warning(f"`{name}` has no times of {listed(untold)}"),)
    return (None if new else profile), ()


def read_estimates(valid: Valid) -> tuple[Profile | None, tuple[Diagnostic, ...]]:
    """The usable part of the stored profile: entries for another text or machine are estimates."""
    path = _path_to_read(valid)
    profile, unread = _stored(valid, path)
    if profile is None:
        return None, unread
    name = path.name
    elsewhere = _elsewhere(valid, profile)
    changed = _changed(profile, _hashes(valid))
    messages = []
    if elsewhere:
        messages.append(
            f"`{name}` was measured on another machine ({profile.host}): its times count as"
            " estimates"
        )
    if changed:
        messages.append(
            f"`{name}` is stale: {listed_changes(valid.system, changed)} changed since, and their"
            " times count as estimates"
        )
    entries = []
    for e in profile.entries:
        if e.subject in changed:  # its layers may differ now
            e = replace(e, estimated=True, layers=(), overhead_ns=0, arena_bytes=None, bands=None)
        elif elsewhere:
            e = replace(e, estimated=True)
        entries.append(e)
    warnings = tuple(Diagnostic("F614", message, None, severity="warning") for message in messages)
    return replace(profile, entries=tuple(entries)), warnings


def _hashes(valid: Valid) -> dict[str, str]:
    """The identity of each task; with states, of tasks of all variants of networks."""
    parts = (*valid.others, valid) if valid.system.scenario is not None else (valid,)
    hashes: dict[str, str] = {}
    for part in parts:
        hashes |= task_hashes(part.system)
    return hashes


def every_time(valid: Valid) -> tuple[ProfileEntry, ...]:
    """All stored times of this machine on named engines, whatever they match."""
    try:
        stored = Profile.from_json(read_bytes(profile_path(valid.system, valid.platform)))
    except (OSError, ValueError):
        return ()
    own = valid.host.identity.host_hash
    return tuple(e for e in stored.entries if e.engine and e.host_hash == own)


def _path_to_read(valid: Valid) -> Path:
    """Where its times are. Those that were imported from another tool are for programs in C++, too,
    as long as these have none of their own."""
    own = profile_path(valid.system, valid.platform)
    if not valid.platform.native or os.path.isfile(own):
        return own
    other = profile_path(valid.system, replace(valid.platform, native=False))
    profile, _ = _stored(valid, other)
    return other if profile is not None and profile.imported else own


def _stored(valid: Valid, path: Path) -> tuple[Profile | None, tuple[Diagnostic, ...]]:
    """The stored profile, whatever it matches, or why it cannot be read."""
    if not os.path.isfile(path):
        return None, ()
    try:
        stored = Profile.from_json(read_bytes(path))
        return stored.on_engines(runs_of(valid)), ()
    except (OSError, ValueError) as error:
        return None, (_warning(f"`{path.name}` is not used: {reason(error)}"),)


def runs_of(valid: Valid) -> dict[str, tuple[str, str]]:
    """The engines and precisions of networks that do not run on ONNX Runtime, by task, also those
    of other variants."""
    runs: dict[str, tuple[str, str]] = {}
    for part in (*valid.others, valid):
        runs |= runs_in(part.system, part.platform)
    return runs


def _elsewhere(valid: Valid, profile: Profile) -> bool:
    """Was it measured on another machine than the one it is for?"""
    if valid.platform.name != valid.host.name:
        return False
    own = valid.host.identity.host_hash
    return any(e.host_hash != own for e in profile.entries)


def _digests(profile: Profile) -> dict[str, set[str]]:
    """The identity of each task when it was measured."""
    digests: dict[str, set[str]] = {}
    known = [(e.subject, e.content_hash) for e in profile.entries]
    known += [(task.subject, task.content_hash) for task in profile.silent]
    for subject, digest in known:
        digests.setdefault(subject, set()).add(digest)
    return digests


def _changed(profile: Profile, digests: MappingABC[str, str]) -> list[str]:
    """Tasks whose identity has changed since they were measured."""
    known = _digests(profile)
    return [task for task, digest in digests.items() if known.get(task, {digest}) != {digest}]


def _cut_since(task: str, known: Container[str]) -> bool:
    """Is it a stage of a network that was measured whole, or a whole network whose stages were
    measured?"""
    return task.rpartition(".stage")[0] in known or f"{task}.stage1" in known


def read_given_profile(path: Path) -> Profile:
    """A profile that the user named. Raises Errors."""
    try:
        return Profile.from_json(read_bytes(path))
    except (OSError, ValueError) as error:
        raise Errors(
            [Diagnostic("F607", f"cannot read the profile `{path}`: {reason(error)}", None)]
        ) from error


def save_profile(valid: Valid, profile: Profile) -> tuple[Diagnostic, ...]:
    """Store a profile beside the text; a warning if that is not possible.

    Known times of other tasks (a network that is cut now, stages that are one network now) stay, if
    they were measured on the same machine.
    """
    path = profile_path(valid.system, valid.platform)
    with contextlib.suppress(OSError, ValueError):
        old = Profile.from_json(read_bytes(path))
        if old.host == profile.host:
            profile = profile.over(old)
    try:
        replace_file(path, profile.to_json())
    except OSError as error:
        return (_warning(f"the profile is not kept: `{path}`: {error.strerror}"),)
    return ()


def _warning(message: str) -> Diagnostic:
    return Diagnostic("F607", message, None, severity="warning")
