"""The reports of the parts of a program, as one."""

from __future__ import annotations

from typing import Any

from flowc.driver.execute.joining import joined


def part(**more: Any) -> dict[str, Any]:
    """A report in which nothing has run."""
    tables: dict[str, Any] = {
        "apps": {},
        "channels": {},
        "processors": {},
        "tasks": {},
        "dropped": {},
    }
    memory = {"bands": {}}
    return {"status": 0, "failure": None, "where": {}, "memory": memory, **tables, **more}


def test_apps_without_a_period_stay_in_the_joined_report() -> None:
    share = {"part": 0.3, "used": 0.2, "above": True}
    one = part(background=["Log", "Show"], shares={"See": {"a.cpu": share}})
    other = part(background=["Show"], shares={"See": {"b.cpu": {**share, "above": False}}})
    whole = joined({"a": one, "b": other}, 0, "digest")
    assert whole["background"] == ["Log", "Show"]
    assert whole["shares"] == {"See": {"a.cpu": share, "b.cpu": {**share, "above": False}}}


def test_where_there_are_none_nothing_is_said() -> None:
    assert not {"background", "shares"} & joined({"a": part()}, 0, "digest").keys()
