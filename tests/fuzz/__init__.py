"""Inputs that no user would write, made from seeds: `python -m tests.fuzz --help`.

Whatever a file says, flowc answers with diagnostics: in 10 seconds of CPU time, in a gigabyte of
memory, never with a traceback. Formatting a text twice gives what formatting it once gives.
"""
