"""Durations."""


class Duration:
    """So many seconds."""

    def __init__(self, *, seconds: float = 0, nanoseconds: int = 0) -> None:
        self.seconds = seconds + nanoseconds / 1e9
