"""Messages of `sensor_msgs`."""

from messages import Image

__all__ = ["Image"]
