"""Configurations of JEDI."""
