"""Running what was built: here, on a board, on several machines; its tests."""
