"""Makes `.venv` equal to uv.lock, once, and says what it does. Standard library only."""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

from deploy.find_uv import NotFound, find

TORCH_INSTALLED_BYTES = 5_250_000_000  # torch with its CUDA libraries (measured)
TORCH_DOWNLOAD_BYTES = 3_050_000_000
REST_INSTALLED_BYTES = 600_000_000
REST_DOWNLOAD_BYTES = 140_000_000
STAMP = "trackside-stamp.json"
TORCH_GROUP = ("torch", "scikit-learn")


class Failed(Exception):
    """The set-up failed; the message says what was tried and what to do."""


def say(text: str) -> None:
    """Shows a line of progress on stderr."""
    sys.stderr.write(f"[setup] {text}\n")
    sys.stderr.flush()


def set_up(root: Path, argv: list[str]) -> int:
    """Sets the environment up, or sees that it is; exit 0 done, 1 failed."""
    parser = argparse.ArgumentParser(prog="bootstrap.py", description="Set up Trackside's environment.")
    parser.add_argument(
        "--without-torch", action="store_true", help="don't fetch torch (it stays if it is there)"
    )
    given = parser.parse_args(argv)
    folder = Path(root)
    try:
        prepare(
            folder, with_torch=not given.without_torch, torch_index=os.environ.get("TRACKSIDE_TORCH_INDEX")
        )
    except (Failed, NotFound) as error:
        sys.stderr.write(f"[setup] {error}\n")
        return 1
    return 0


def prepare(root: Path, *, with_torch: bool, torch_index: str | None) -> None:
    """Brings `.venv` to what uv.lock says; a second call with nothing new returns at once."""
    index = without_password(torch_index) if with_torch and torch_index else None
    wanted = {"lock": inputs_hash(root), "torch": with_torch, "index": index}
    stamp = root / ".venv" / STAMP
    if is_done(stamp, wanted):
        return
    begun = time.monotonic()
    check_disk(root, with_torch=with_torch and torch_index is None)
    uv = find(cache_folder(), root / "uv.lock", say)
    say(f"uv: {uv}")
    announce(root, with_torch=with_torch, torch_index=torch_index)
    for command in commands(str(uv), root, with_torch=with_torch, torch_index=torch_index):
        run(command, root)
    stamp.write_text(json.dumps(wanted))
    say(f"the environment is ready ({time.monotonic() - begun:.0f} s); it is kept in {root / '.venv'}")


def cache_folder() -> Path:
    """Returns the folder that keeps downloads between runs: `TRACKSIDE_CACHE`, else `~/.cache/trackside`.

    Failed if the user has no home folder, or may not write there.
    """
    given = os.environ.get("TRACKSIDE_CACHE")
    try:
        folder = Path(given).expanduser() if given else Path.home() / ".cache" / "trackside"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise Failed(
            f"there is no folder for downloads: {error}; set HOME, or TRACKSIDE_CACHE and UV_CACHE_DIR, to "
            "folders that you may write"
        ) from None
    return folder


def without_password(text: str) -> str:
    """Returns the text with the user and password of each address left out."""
    return re.sub("//[^/@ ]*@", "//", text)


def inputs_hash(root: Path) -> str:
    """Returns one hash of what decides the environment: the lock, pyproject.toml, where the clone lies."""
    digest = hashlib.sha256(str(root).encode())
    for path in (root / "pyproject.toml", root / "uv.lock"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def is_done(stamp: Path, wanted: dict[str, Any]) -> bool:
    """Tells whether the environment is the wanted one; one with torch serves where none is needed, too."""
    try:
        found = json.loads(stamp.read_text())
    except (OSError, ValueError):
        return False
    if not (stamp.parent / "bin" / "python").exists() or found.get("lock") != wanted["lock"]:
        return False
    return bool(not wanted["torch"] or (found.get("torch") and found.get("index") == wanted["index"]))


def has_torch(root: Path) -> bool:
    """Tells whether torch is installed in the environment."""
    return any((root / ".venv").glob("lib/python3*/site-packages/torch/version.py"))


def check_disk(root: Path, *, with_torch: bool) -> None:
    """Refuses to begin on a disk that would fill up; Failed says how much is missing and what else to do."""
    is_new = not (root / ".venv" / "bin" / "python").exists()
    need = REST_INSTALLED_BYTES if is_new else 0
    if with_torch and not has_torch(root):
        need += TORCH_INSTALLED_BYTES
    cache = _uv_cache(root)
    if need * 1.1 > (free := min(shutil.disk_usage(folder).free for folder in (root, _existing(cache)))):
        raise Failed(
            f"{root} or {cache} has {free / 1e9:.1f} GB free, {need * 1.1 / 1e9:.1f} GB are needed. "
            "Free some, or set TRACKSIDE_TORCH_INDEX to an index of CPU-only builds of torch (about 1 GB "
            "instead of 5); `make check` needs no torch at all."
        )


def _uv_cache(root: Path) -> Path:
    try:
        return Path(os.environ.get("UV_CACHE_DIR") or Path.home() / ".cache" / "uv")
    except RuntimeError:
        return root  # of a user without a home folder uv keeps nothing elsewhere


def _existing(folder: Path) -> Path:
    return next(each for each in [folder.absolute(), *folder.absolute().parents] if each.exists())


def announce(root: Path, *, with_torch: bool, torch_index: str | None) -> None:
    """Prints about how much will be fetched; uv then shows the size of each large package."""
    sizes = []
    if not (root / ".venv" / "bin" / "python").exists():
        sizes.append(f"{REST_DOWNLOAD_BYTES / 1e6:,.0f} MB of packages")
    if with_torch and not has_torch(root):
        sizes.append(
            f"{TORCH_DOWNLOAD_BYTES / 1e6:,.0f} MB of torch with its CUDA libraries"
            if torch_index is None
            else f"torch from {without_password(torch_index)}"
        )
    if sizes:
        say(f"fetching about {' and '.join(sizes)}, less what uv's cache has; once")


def commands(uv: str, root: Path, *, with_torch: bool, torch_index: str | None) -> list[list[str]]:
    """Returns the uv commands that bring the environment to the lock."""
    sync = [uv, "sync", "--locked"]
    if not (root / ".venv" / "bin" / "python").exists():
        sync += ["--python", sys.executable]
    if with_torch and torch_index is None:
        return [sync]
    # --inexact: a torch that is already there stays
    base = [*sync, "--no-group", "torch", "--inexact"]
    if not with_torch or torch_index is None:
        return [base]
    lock = tomllib.loads((root / "uv.lock").read_text(encoding="utf-8"))
    versions = {package["name"]: package.get("version") for package in lock["package"]}
    pinned = [f"{name}=={versions[name]}" for name in TORCH_GROUP]
    python = str(root / ".venv" / "bin" / "python")
    return [base, [uv, "pip", "install", "--python", python, "--index", torch_index, *pinned]]


def run(command: list[str], root: Path) -> None:
    """Runs one uv command and shows its progress; Failed says what was tried and what to do."""
    shown = without_password(" ".join(["uv", *command[1:]]))
    say(shown)
    outer = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    defaults = {"UV_HTTP_TIMEOUT": "120", "UV_HTTP_RETRIES": "5"}
    fixed = {
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_COMPILE_BYTECODE": "1",
        "UV_PROJECT_ENVIRONMENT": str(root / ".venv"),
    }
    done = subprocess.run(
        command,
        cwd=root,
        env={**defaults, **outer, **fixed},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        check=False,
    )
    if done.returncode != 0:
        raise Failed(
            f"`{shown}` ended with {done.returncode}; what it said is above. If a "
            "download failed: run the same again, what was fetched is kept; HTTPS_PROXY names a proxy, "
            "UV_DEFAULT_INDEX a mirror of PyPI, SSL_CERT_FILE its certificates. If uv.lock is said to be "
            "out of date: `uv lock`."
        )
