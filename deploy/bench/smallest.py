"""The smallest sizes: with `--smallest` each program shows whether it runs; its figures mean nothing."""

import sys

OPTION = "--smallest"


def size(usual: int, smallest: int) -> int:
    """Returns the usual size of a measurement, or the smallest one if the command line asks for that."""
    return smallest if OPTION in sys.argv else usual
