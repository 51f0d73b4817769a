"""A graph as a Functional Mock-up Unit for co-simulation: `limits` and `variables` decide, `unit` puts the C code into
words, `files` makes a plan of it, `pack` compiles and zips.
"""
