"""Programs that tests of the runtime make by hand have written rounds, as builds have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flowc.runtime import rounds

from written import written_by_hand


@pytest.fixture(scope="session", autouse=True)
def written_rounds() -> Iterator[None]:
    """Write rounds for workers whose program no build has made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "written_for", written_by_hand)
        yield
