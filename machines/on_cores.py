"""A machine of which only some cores are used, for measurements where cores differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from .host import Done, Host


class _OnCores:
    """A host whose modules run on some of its cores alone."""

    def __init__(self, host: Host, cores: Sequence[int]) -> None:
        self._host = host
        self._cores = ",".join(map(str, cores))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def module(
        self,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> Done:
        """As the host's, on these cores."""
        words = [self._cores, name, *arguments]
        bound = "profiling.there.on_cores"
        return self._host.module(bound, words, environment)


def on_cores(host: Host, cores: Sequence[int]) -> Host:
    """The host for runs on the cores with these numbers; on all of them without any."""
    if not cores:
        return host
    return cast("Host", _OnCores(host, cores))
