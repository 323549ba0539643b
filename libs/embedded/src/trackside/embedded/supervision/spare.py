"""Runs a spare of a service: `python -m trackside.embedded.supervision.spare trackside.dispatcher`.

A spare has imported the code of its service, which is most of what a start takes, and waits. It becomes the
service when its supervisor writes a byte to its standard input, and ends when that is closed.
"""

import importlib
import os
import runpy
import sys

from trackside.eventlog.clock import monotonic_s
from trackside.telemetry.process_start import leave_out


def main() -> None:
    """Imports the module `app` of the named package, waits, and then runs the package."""
    package = sys.argv[1]
    importlib.import_module(f"{package}.app")
    waits_from_s = monotonic_s()
    if not os.read(sys.stdin.fileno(), 1):
        return
    leave_out(monotonic_s() - waits_from_s)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    del sys.argv[1]
    runpy.run_module(package, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
