"""Fixtures of all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from builds import Write


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a .flow text and the files beside it; returns the text's path."""

    def files(text: str, **others: str) -> Path:
        for name, content in others.items():
            stem, _, ending = name.rpartition("_")
            (tmp_path / f"{stem}.{ending}").write_text(content)
        flow = tmp_path / "app.flow"
        flow.write_text(text)
        return flow

    return files
