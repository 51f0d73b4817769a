"""Where programs run: this machine, or a board that ssh reaches."""
