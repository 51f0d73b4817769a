"""Messages of `std_msgs`."""

from messages import ARRAYS, Header, MultiArrayDimension, MultiArrayLayout, String

globals().update(ARRAYS)
__all__ = ["Header", "MultiArrayDimension", "MultiArrayLayout", "String", *ARRAYS]
