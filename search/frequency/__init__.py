"""Clock rates of the least power at which every deadline is met."""
