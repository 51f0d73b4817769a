"""Who handles signals."""

from enum import Enum, auto


class SignalHandlerOptions(Enum):
    """Which of them rclpy handles."""

    NO = auto()
    ALL = auto()
