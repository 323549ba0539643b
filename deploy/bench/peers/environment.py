"""The environment of the peers: a venv of pinned packages, made once and kept with the other downloads."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from deploy.environment import Failed, cache_folder
from deploy.find_uv import NotFound, find

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).parent / "programs"
REQUIREMENTS = PROGRAMS / "requirements.txt"
PACKAGES = ("ray", "optuna", "psycopg2")
KEPT_OUTPUT = 400
DONE = "done"


class PeerMissingError(Exception):
    """A peer can't run here; the message says why."""


def python(say: Callable[[str], None]) -> Path:
    """Returns the Python of the environment, and makes it first if it isn't there; PeerMissingError."""
    pinned = REQUIREMENTS.read_bytes() + sys.version.encode()
    try:
        cache = cache_folder()
        folder = cache / "bench-peers" / hashlib.sha256(pinned).hexdigest()[:12]
        program = folder / "bin" / "python"
        if (folder / DONE).exists():
            return program
        uv = find(cache, ROOT / "uv.lock", say)
    except (Failed, NotFound) as error:
        raise PeerMissingError(str(error)) from None
    say(f"installs Ray Tune and Optuna into {folder} (about 530 MB), once")
    shutil.rmtree(folder, ignore_errors=True)
    _run([str(uv), "venv", "--quiet", "--python", sys.executable, str(folder)])
    _run([str(uv), "pip", "install", "--quiet", "--python", str(program), "-r", str(REQUIREMENTS)])
    (folder / DONE).touch()
    return program


def check_import(program: Path, package: str) -> None:
    """Raises PeerMissingError if the environment can't import a package."""
    _run([str(program), "-c", f"import {package}"])


def _run(command: list[str]) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")
    }
    done = subprocess.run(
        command, env={"UV_PYTHON_DOWNLOADS": "never", **environment}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        shown = " ".join(Path(command[0]).name if at == 0 else each for at, each in enumerate(command))
        raise PeerMissingError(f"`{shown}` ended with {done.returncode}: {done.stderr[-KEPT_OUTPUT:]}")
