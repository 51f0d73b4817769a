"""Running a build: here, on a board, on several machines; its tests."""
