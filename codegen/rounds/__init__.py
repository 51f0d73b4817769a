"""What the workers of a program in Python do in each round, written out when it is built."""
