"""Tasks that carry tokens between machines: the channel behind them is the remote one."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.application import Task
from ...model.deployment import Deployment
from .kind import CodeSite, Identifiers, Kind


@dataclass(frozen=True, slots=True)
class TransferCode:
    """Between the machines `source` and `destination`."""

    source: str
    destination: str
    kind: str = "transfer"

    on_device = False
    batch, moves = 1, False

    @property
    def words(self) -> frozenset[str]:
        """See `Code`."""
        return frozenset({"Forward"})

    def libraries(self, deployment: Deployment) -> tuple[str, ...]:
        """See `Code`."""
        return ()

    def text(self, ids: Identifiers) -> str:
        """See `Code`."""
        return "Forward()"


def _serves(task: Task, site: CodeSite) -> bool:
    return task.transfer is not None


def _make(task: Task, site: CodeSite) -> TransferCode:
    assert task.transfer is not None
    return TransferCode(task.transfer.source, task.transfer.destination)


KIND = Kind("transfer", frozenset({"Forward"}), _serves, _make)
