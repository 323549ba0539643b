"""A clone is set up and runs a search in any folder and for any user, as described in the README."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.harness import output_of
from trackside.embedded.files import cache_folder

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
NOT_CLONED = (".venv", ".git", ".trackside", "__pycache__", ".*_cache", ".hypothesis")
OF_THE_NETWORK = (
    *("HTTPS_PROXY", "NO_PROXY", "PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    *("REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
)
USER = "daemon"  # every Linux has it


@dataclass(frozen=True)
class CloneUser:
    """The user of a clone, with an environment and a umask."""

    environment: Mapping[str, str]
    uid: int | None = None
    umask: int = 0o022
    python: str = sys.executable

    def run(self, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.run(
            command,
            cwd=folder,
            env=self.environment,
            user=self.uid,
            group=self.uid,
            extra_groups=None if self.uid is None else [],
            umask=self.umask,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def run_ok(self, folder: Path, *command: str) -> str:
        """Runs a command that must end with 0, and returns its output."""
        return output_of(self.run(folder, *command))


def clone(folder: Path) -> Path:
    """Copies this tree, without what a clone doesn't have, into the folder."""
    return Path(
        shutil.copytree(ROOT, folder / "trackside", ignore=shutil.ignore_patterns(*NOT_CLONED), symlinks=True)
    )


def command_of(root: Path) -> str:
    return str(root / ".venv" / "bin" / "trackside")


@contextmanager
def searched(user: CloneUser, root: Path, own: Path) -> Iterator[None]:
    """Sets the clone up and runs a search on a stack in a folder, which stays up for the block."""
    user.run_ok(root, "make", f"PYTHON={user.python}", "env-without-torch")
    command = command_of(root)
    try:
        user.run_ok(own, command, "init")
        user.run_ok(own, command, "up")
        said = user.run_ok(own, command, "submit", "search.yaml", "--id", "first", "--wait")
        assert "first DONE: 20 trials" in said
        assert user.run_ok(own, command, "replay", "rebuild").rstrip().endswith("rows, equal")
        yield
    finally:
        user.run_ok(own, command, "down")


def test_a_clone_runs_in_private_folders_with_odd_names_umask_077_and_no_home(tmp_path: Path) -> None:
    place = tmp_path / "a b" / ("ä☃" + 150 * "x")
    for folder in (place.parent, place):
        folder.mkdir(mode=0o700)
    user = CloneUser({name: value for name, value in os.environ.items() if name != "HOME"}, umask=0o077)
    (place / "own").mkdir()
    with searched(user, clone(place), place / "own"):
        pass


def python_of(uid: int) -> str:
    """Returns an interpreter that the user may run; skips the test if there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            ended = subprocess.run(
                [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"],
                user=uid,
                cwd="/",
                check=False,
            )
        except OSError:
            continue
        if ended.returncode == 0:
            return python
    pytest.skip(f"no Python 3.11 or newer that the user {USER} may run")


@pytest.fixture
def home() -> Iterator[Path]:
    """Yields the private home of another user, with the downloads of this one."""
    entry = pwd.getpwnam(USER)
    folder = Path(tempfile.mkdtemp(prefix="trackside-home-"))
    shutil.copytree(cache_folder() / "maven", folder / ".cache" / "trackside" / "maven")
    clone(folder)
    (folder / "own").mkdir()
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, entry.pw_uid, entry.pw_gid, follow_symlinks=False)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(
    os.geteuid() != 0, reason="not root, who can act as another user: run the tests as root too"
)
def test_a_clone_runs_in_the_private_home_of_a_user_whose_stack_root_leaves_alone(home: Path) -> None:
    uid = pwd.getpwnam(USER).pw_uid
    network = {name: os.environ[name] for name in OF_THE_NETWORK if name in os.environ}
    user = CloneUser({"HOME": str(home), "PATH": "/usr/bin:/bin", **network}, uid, python=python_of(uid))
    root, own = home / "trackside", home / "own"
    with searched(user, root, own):
        assert home.stat().st_mode & 0o777 == 0o700
    refused = CloneUser(os.environ).run(own, command_of(root), "up")
    assert refused.returncode == 1
    assert f"the stack in {own / '.trackside'} is {USER}'s, and this is root: " in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert {path.stat().st_uid for path in own.rglob("*")} == {uid}
