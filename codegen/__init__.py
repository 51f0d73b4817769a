"""From a mapping to a directory of files that run without flowc."""
