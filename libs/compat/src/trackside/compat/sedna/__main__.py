"""Runs a worker script of Sedna as a task: `python -m trackside.compat.sedna train.py [ARGUMENTS]`."""

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from trackside.compat.sedna.environment import environment
from trackside.compat.sedna.names import install


def main(arguments: Sequence[str]) -> int:
    """Runs a script with the modules and variables of Sedna; returns 2 if there is none."""
    if not arguments or not Path(arguments[0]).is_file():
        sys.stderr.write("usage: python -m trackside.compat.sedna SCRIPT.py [ARGUMENTS]\n")
        return 2
    install()
    os.environ.update(environment())
    sys.argv = list(arguments)
    sys.path.insert(0, str(Path(arguments[0]).absolute().parent))
    runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
