"""The smallest sizes: with `--smallest` each program shows whether it runs; its figures mean nothing."""

import sys
from typing import TypeVar

OPTION = "--smallest"
Number = TypeVar("Number", int, float)


def size(usual: Number, smallest: Number) -> Number:
    """Returns the usual size of a measurement, or the smallest one if the command line asks for that."""
    return smallest if OPTION in sys.argv else usual
