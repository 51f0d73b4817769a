"""A text: read, staged and checked, with what is stored beside it."""
