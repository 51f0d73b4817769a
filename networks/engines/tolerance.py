"""How near to a reference the results of an engine have to be, by precision.

In 32 bits they differ in the last digits. In fewer bits each number of a result may be far off, and
the result as a whole is judged, by its signal-to-noise ratio (`runtime/noise.py`).
"""

from __future__ import annotations

from ...model.application import Network

#: Of numbers in 32 bits, relative and absolute: as in the harness of programs.
RTOL, ATOL = 1e-3, 1e-4
#: The least signal-to-noise ratio in fewer bits: a tenth of the power may be noise.
LEAST_DB = 10.0


def least_db(network: Network) -> float | None:
    """The least signal-to-noise ratio of a network, in dB; None in 32 bits. That of the text is for
    the network's own data."""
    if network.precision == "fp32":
        return None
    return LEAST_DB if network.within_db is None else network.within_db


def least_db_of_engines(network: Network) -> float | None:
    """The same of two engines that run the same file. Those of files in 8 bits differ by as much as
    both differ from 32 bits, and the limit of the text is for that."""
    least = least_db(network)
    return least if least is None or network.precision != "int8" else min(least, LEAST_DB)
