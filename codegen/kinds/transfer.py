"""Tasks that carry tokens between machines: the channel behind them is the remote one."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.application import Task
from .kind import CPU, BuildCode, CodeSite, Identifiers, Kind


@dataclass(frozen=True, slots=True)
class TransferCode(BuildCode):
    """Between the machines `source` and `destination`."""

    source: str
    destination: str
    kind: str = "transfer"

    @property
    def words(self) -> frozenset[str]:
        """See `BuildCode`."""
        return frozenset({"Forward"})

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        return "Forward()"


def _make(task: Task, site: CodeSite) -> TransferCode | None:
    transfer = task.transfer
    return None if transfer is None else TransferCode(transfer.source, transfer.destination)


KIND = Kind("transfer", frozenset({"Forward"}), CPU | {"link"}, _make)
