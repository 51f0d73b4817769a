"""Searches: where every task should run. One face for all: `search(problem, *, seed, budget, progress, measure)`."""
