"""The words that every floor speaks: frozen data, no decisions, no input or output."""
