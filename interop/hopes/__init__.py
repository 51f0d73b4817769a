"""Projects of HOPES."""
