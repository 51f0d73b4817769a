"""Who calls callbacks."""

from rclpy import SingleThreadedExecutor

__all__ = ["SingleThreadedExecutor"]
