"""The open and the secure product stack of a test run, each started by the first test that needs it.

All tests that kill nothing and change no setting use them, also several at once. Each has a folder of its own
below that of the stack, and ids that no other has. The leash of the run ends both.
"""

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.harness import UserFolder
from tests.e2e.shared_tasks import GATES, write_tasks
from tests.stack import run_folder
from trackside.embedded.folder import NAME
from trackside.embedded.stack import Stack, load
from trackside.eventlog.settings import secure_folder

SLOTS = 8
"""Of so many a test may hold two at its gates while others go on."""
SECURE = Path(NAME) / secure_folder.NAME
OTHER = "worker-other"
"""A user of the secure stack whose worker does not run."""
SETTINGS = {"TRACKSIDE_WORKER_PRELOAD": "trackside.incremental"}


@dataclass(frozen=True)
class StackFolder(UserFolder):
    """A folder of one module or test below that of a running stack; the name of the folder is in its ids."""

    @property
    def home(self) -> Path:
        """The folder of the stack."""
        return self.path.parent

    @property
    def stack(self) -> Stack:
        """The stack that runs."""
        return load(self.home / NAME)

    def id(self, name: str) -> str:
        """Returns an id that no other folder has."""
        return f"{name}-{self.path.name}"

    def submit(self, name: str, spec: str, *options: str) -> str:
        """Submits a spec; returns the id of its stream, which is made of its name."""
        (self.path / f"{name}.yaml").write_text(spec)
        self.run_ok("submit", f"{name}.yaml", "--id", self.id(name), *options)
        return self.id(name)

    def release(self, stream: str = "") -> None:
        """Lets the tasks of a stream pass their gate, also those to come; those of all by default."""
        (self.home / GATES / (stream or self.path.name)).touch()


@contextmanager
def folder_below(home: Path) -> Iterator[StackFolder]:
    """Yields a new folder below that of a stack; its tasks pass their gates afterwards."""
    folder = StackFolder(home / secrets.token_hex(3))
    folder.path.mkdir()
    try:
        yield folder
    finally:
        folder.release()


def open_stack() -> Path:
    """Returns the folder of the open stack."""
    return _started("open-home")


def secure_stack() -> Path:
    """Returns the folder of the secure stack, which has the user of another worker."""
    return _started("secure-home", "--secure")


def _started(name: str, *options: str) -> Path:
    home = run_folder() / name
    with (run_folder() / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "ready").exists():
            start(home, "--leash", str(run_folder() / "leash"), "--slots", str(SLOTS), *options)
            (home / "ready").touch()
    return home


def start(home: Path, *options: str, **settings: str) -> UserFolder:
    """Starts a stack that has the task types of `shared_tasks`; `settings` are environment variables."""
    home.mkdir(exist_ok=True)
    write_tasks(home)
    user = UserFolder(home, {**SETTINGS, **settings})
    user.run_ok("up", *options, timeout_s=600)
    if "--secure" in options:
        user.run_ok("setup", "passwords", OTHER)
        user.run_ok("setup", "acls", "--apply", "--worker", "worker", "--worker", "other")
        user.run_ok("setup", "keys", "--folder", str(SECURE / "keys"), "--init", "--worker", "other")
    return user
