"""Clock rates that keep every deadline with the least power."""
