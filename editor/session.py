"""The open texts of an editor, and their results.

In: texts as they stand in the editor, saved or not. Out: `CheckedText` for each, checked on demand
and kept until the text changes, or something that it uses.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ..driver.text import store
from ..driver.text.check import Checked, Valid, check
from ..dsl.index import Index, index
from ..model.diagnostic import Errors
from ..model.files import read_bytes
from ..model.profile import Profile
from .places import Lines, plain

#: Diagnostics of a text that a new or opened file may remove.
_MISSING = ("F002", "F006")


@dataclass(frozen=True)
class CheckedText:
    """A checked text, with all that it uses."""

    path: str
    checked: Checked

    @cached_property
    def index(self) -> Index:
        """All names."""
        return index(self.checked.loaded.specifications)

    @cached_property
    def valid(self) -> Valid | None:
        """The same without errors, if it has none."""
        try:
            return self.checked.require()
        except Errors:
            return None

    @cached_property
    def profile(self) -> Profile | None:
        """The stored profile, if it matches this text."""
        return None if self.valid is None else store.read_profile(self.valid)[0]

    @property
    def sources(self) -> Mapping[str, str]:
        """Each file that was read, by its path in spans."""
        return self.checked.system.sources


class Session:
    """The open texts, by the real paths of their files."""

    def __init__(self) -> None:
        self.encoding = "utf-16"
        self._texts: dict[str, str] = {}
        self._paths: dict[str, str] = {}
        self._seen: dict[str, CheckedText] = {}
        self._lines: dict[str, tuple[str, Lines]] = {}

    def change(self, path: str, text: str) -> None:
        """A text was opened, or has changed."""
        key = os.path.realpath(path)
        self._texts[key], self._paths[key] = text, path
        self._forget(key)

    def close(self, path: str) -> None:
        """A text is closed: the content of its file counts again."""
        key = os.path.realpath(path)
        self._texts.pop(key, None)
        self._paths.pop(key, None)
        self._lines.pop(path, None)
        self._forget(key)

    def forget(self) -> None:
        """Files that are not open have changed."""
        self._seen.clear()

    def _forget(self, key: str) -> None:
        """Discard results that used this text, or lacked a file."""
        for path, seen in [*self._seen.items()]:
            if path == key or key in map(os.path.realpath, seen.sources) or _lacks(seen):
                del self._seen[path]

    def seen(self, path: str) -> CheckedText:
        """The results for an open text."""
        key = os.path.realpath(path)
        if key not in self._seen:
            texts = {k: plain(t) for k, t in self._texts.items()}
            self._seen[key] = CheckedText(path, check(path, texts=texts))
        return self._seen[key]

    def with_texts(self, path: str, texts: Mapping[str, str]) -> CheckedText:
        """The results if some texts, by their paths, were replaced. They are not kept."""
        changed = {os.path.realpath(p): t for p, t in texts.items()}
        return CheckedText(
            path, check(path, texts={k: plain(t) for k, t in {**self._texts, **changed}.items()})
        )

    def text(self, path: str) -> str:
        """A text as it is open, else the content of its file; empty if it cannot be read."""
        key = os.path.realpath(path)
        if key in self._texts:
            return self._texts[key]
        try:
            return read_bytes(path).decode(errors="replace")
        except (OSError, ValueError):
            return ""

    def lines(self, path: str) -> Lines:
        """Its lines."""
        text = self.text(path)
        kept = self._lines.get(path)
        if kept is None or kept[0] != text or kept[1].encoding != self.encoding:
            kept = self._lines[path] = text, Lines.of(text, self.encoding)
        return kept[1]

    def name(self, path: str) -> str:
        """A file's path in the editor's form, if it is open there."""
        return self._paths.get(os.path.realpath(path), os.path.abspath(path))


def _lacks(seen: CheckedText) -> bool:
    return any(d.code in _MISSING for d in seen.checked.diagnostics)
