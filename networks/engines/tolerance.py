"""How near to a reference the results of an engine have to be, by precision.

In 32 bits they differ in the last digits. In fewer bits each number of a result may be far off, and
the result as a whole is judged, by its signal-to-noise ratio (`runtime/noise.py`).
"""

from __future__ import annotations

#: Of numbers in 32 bits, relative and absolute: as in the harness of programs.
RTOL, ATOL = 1e-3, 1e-4
#: The least signal-to-noise ratio in fewer bits: a tenth of the power may be noise.
LEAST_DB = 10.0


def least_db(precision: str) -> float | None:
    """The least signal-to-noise ratio of a network in a precision, in dB; None in 32 bits."""
    return None if precision == "fp32" else LEAST_DB
