"""Mapping tasks and networks together, under deadlines: candidates per network, joint searches, one
evaluator."""
