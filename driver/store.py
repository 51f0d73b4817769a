"""What is kept beside a text, and nobody else reads or writes: `STEM.PLATFORM.profile.json` and `.mapping.json`.

A file that does not speak for the text as it is (other code, another machine) is named in a warning and not used.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.diagnostic import Diagnostic, Errors, listed
from ..model.files import read_bytes, reason, replace_file
from ..model.mapping import Mapping
from ..model.platform import Platform
from ..model.profile import Profile
from ..model.system import System
from ..passes.stored_mapping import StoredMapping, identity, not_used
from ..profiling.host import host_hash
from ..profiling.identity import task_hashes

if TYPE_CHECKING:
    from .check import Valid


def mapping_path(system: System, platform: Platform) -> Path:
    """STEM.PLATFORM.mapping.json beside the text."""
    return Path(system.path).parent / f"{system.stem}.{platform.name}.mapping.json"


def profile_path(system: System, platform: Platform) -> Path:
    """STEM.PLATFORM.profile.json beside the text."""
    return Path(system.path).parent / f"{system.stem}.{platform.name}.profile.json"


def read_mapping(system: System, platform: Platform) -> tuple[StoredMapping | None, tuple[Diagnostic, ...]]:
    """The stored mapping, as a pass, or why it cannot be read."""
    path = mapping_path(system, platform)
    if not os.path.isfile(path):
        return None, ()
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
        raise Errors([Diagnostic("F605", f"cannot write `{path}`: {error.strerror}", None)]) from error
    return path


def read_profile(valid: Valid) -> tuple[Profile | None, tuple[Diagnostic, ...]]:
    """The stored profile if it speaks for every task of this text (on this machine, for `host`), and what does not."""
    path = profile_path(valid.system, valid.platform)
    if not os.path.isfile(path):
        return None, ()
    try:
        profile = Profile.from_json(read_bytes(path))
    except (OSError, ValueError) as error:
        return None, (_warning(f"`{path.name}` is not used: {reason(error)}"),)
    digests = task_hashes(valid.system)
    if valid.platform.name == "host" and any(e.host_hash != host_hash() for e in profile.entries):
        return None, (_warning(f"`{path.name}` was measured on another machine ({profile.host})"),)
    seen: dict[str, set[str]] = {}
    for e in profile.entries:
        seen.setdefault(e.subject, set()).add(e.content_hash)
    stale = [n for n, d in digests.items() if seen.get(n) != {d}]
    if stale and all(n not in seen for n in stale):  # stages that were not there yet
        return None, ()
    if stale:
        return None, (_warning(f"`{path.name}` is stale: {listed(stale)} changed since"),)
    return profile, ()


def read_given_profile(path: Path) -> Profile:
    """A profile that the user named. Raises Errors."""
    try:
        return Profile.from_json(read_bytes(path))
    except (OSError, ValueError) as error:
        raise Errors([Diagnostic("F607", f"cannot read the profile `{path}`: {reason(error)}", None)]) from error


def save_profile(valid: Valid, profile: Profile) -> tuple[Diagnostic, ...]:
    """Store a profile beside the text; a warning where that is not possible.

    What is known of other tasks (a network that is cut now, stages that are one network now) stays, if it was measured
    on the same machine.
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
