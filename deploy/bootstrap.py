"""Sets up Trackside's environment where there is only Python 3.11 or newer: `python3 deploy/bootstrap.py`.

Standard library only. What it does is in deploy/find_uv.py and deploy/environment.py; this file must also
be readable by an older Python, to find a newer one.
"""

import os
import shutil
import sys
from pathlib import Path

OLDEST = (3, 11)
NEWER = ("python3.13", "python3.12", "python3.11", "python3.14")
MARK = "TRACKSIDE_BOOTSTRAP_PYTHON"


def newer_python():
    """Returns the path of a newer interpreter on PATH, or None."""
    for name in NEWER:
        found = shutil.which(name)
        if found:
            return found
    return None


def main():
    """Runs the set-up; exit 0 done, 1 it failed (what was tried and what to do is on stderr)."""
    if sys.version_info < OLDEST:
        found = None if os.environ.get(MARK) else newer_python()
        if found is None:
            sys.stderr.write(
                "Trackside needs Python 3.11 or newer; this is " + sys.version.split()[0] + ".\n"
            )
            sys.stderr.write("Install one, or name one you have: make PYTHON=/path/to/python3.12 ...\n")
            return 1
        os.execve(found, [found, *sys.argv], {**os.environ, MARK: found})
    root = Path(__file__).resolve().parent.parent
    sys.path.insert(0, str(root))
    from deploy.environment import set_up

    return set_up(root, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
