"""Quality of service."""

from dataclasses import dataclass
from enum import Enum, auto


class ReliabilityPolicy(Enum):
    """Are messages sent again?"""

    RELIABLE = auto()


class HistoryPolicy(Enum):
    """How many are kept?"""

    KEEP_LAST = auto()


class DurabilityPolicy(Enum):
    """For late readers?"""

    TRANSIENT_LOCAL = auto()
    VOLATILE = auto()


@dataclass(kw_only=True)
class QoSProfile:
    """What is wanted of a topic."""

    depth: int
    history: HistoryPolicy
    reliability: ReliabilityPolicy
    durability: DurabilityPolicy = DurabilityPolicy.VOLATILE
