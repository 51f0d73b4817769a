"""The verb `doctor`."""

from __future__ import annotations

from ._common import Json, print_json


def doctor(as_json: Json = False) -> int:
    """Show what this machine has, and what to install for more."""
    from ..profiling.doctor import examine

    findings = examine()
    if as_json:
        document = {}
        for f in findings:
            document[f.name] = {"found": f.found, "needed_for": f.purpose, "install": f.install}
        print_json(document)
        return 0
    for f in findings:
        mark = "ok " if f.found else "-- "
        print(f"{mark}{f.name:<14} {f.found or 'not found'}")
        if not f.found:
            print(f"   {'':<14} for {f.purpose}: {f.install}")
    return 0
