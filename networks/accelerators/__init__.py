"""What all accelerators have in common whose compilers take some layers of a network only."""
