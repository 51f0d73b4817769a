"""A graph as a Functional Mock-up Unit for co-simulation: `limits` and `variables` decide, `unit`
generates the C code, `files` makes a plan of it, `pack` compiles and zips."""
