"""Builds the wheel of Trackside with uv: `python3 deploy/build_wheel.py FOLDER`. Standard library only."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(folder: str) -> int:
    """Builds the wheel into the folder and returns uv's exit code, or 1 with the reason on stderr."""
    sys.path.insert(0, str(ROOT))
    from deploy.environment import Failed, cache_folder, say
    from deploy.find_uv import NotFound, find

    try:
        uv = find(cache_folder(), ROOT / "uv.lock", say)
    except (Failed, NotFound) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    command = [str(uv), "build", "--wheel", "--no-create-gitignore", "--out-dir", folder]
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
