"""Searches: where every task and every piece of a network runs. All of them stand in `registry`."""
