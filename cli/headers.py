"""The verb `headers`."""

from __future__ import annotations

from pathlib import Path

from ._common import Json, Text, print_json, replace


def headers(file: Text, as_json: Json = False) -> int:
    """Write the C prototypes of tasks beside their sources. dsp.c gets dsp.flow.h."""
    from ..driver.build.headers import headers_of

    written = []
    for target, text in headers_of(file).items():
        replace(Path(target), text)
        written.append(str(target))
    if as_json:
        print_json({"headers": written})
    else:
        print("\n".join(written) or "no task has C code")
    return 0
