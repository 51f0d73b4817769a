"""A search that somebody watches: what its server tells, and the page afterwards."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from flowc.driver.viewing import Viewer

from builds import Write

TEXT = """
task A { out x wcet 2 ms }
task B { in x wcet 4 ms }
app Left  { period 20 ms  a: A b: B  a -> b }
app Right { period 50 ms  a: A b: B  a -> b }
platform two { cpu core[2] scheduler fixed_priority }
"""


def test_who_watches_a_search_hears_how_it_goes_and_then_has_the_mapping(write: Write) -> None:
    viewer = Viewer(write(TEXT), platform="two")
    try:
        assert viewer.reported.document.search is None
        found = viewer.search(evaluations=20)
        kinds = said(viewer.address)
    finally:
        viewer.close()
    assert not found.late and viewer.reported.document.search is not None
    assert kinds["state"] == "searched"
    told = kinds["search"]
    assert told["text"] and told["history"] and all(len(point) == 4 for point in told["history"])


def said(address: str) -> dict[str, Any]:
    """What who comes late is told of each kind."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    found: dict[str, Any] = {}
    kind = ""
    with opener.open(address + "events") as stream:
        for line in stream:
            word, _, rest = line.decode().strip().partition(": ")
            if word == "event":
                kind = rest
            elif word == "data":
                found[kind] = json.loads(rest)
            if len(found) == 2:
                break
    return found
