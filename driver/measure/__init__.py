"""Times of tasks, networks and devices, from runs."""
