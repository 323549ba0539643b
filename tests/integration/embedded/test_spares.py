"""A service that is killed is replaced by its spare, which has imported its code before."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.embedded.test_stack import SERVICE, WITHOUT_SERVERS, all_end, await_another, kill
from tests.polling import poll_until_sync
from trackside.embedded import stack
from trackside.embedded.folder import read_status
from trackside.embedded.options import ServiceSpec, StackOptions

APP = """
import os
with open(os.environ["IMPORTS"], "a") as log:
    log.write(f"{os.getpid()}\\n")
"""
MAIN = f"""
import signal, sys
import trackside.spared.app
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
{SERVICE}
"""


class Imported:
    """The package `trackside.spared` of a service, and the processes that have imported its code."""

    def __init__(self, folder: Path) -> None:
        package = folder / "trackside" / "spared"
        package.mkdir(parents=True)
        (package / "app.py").write_text(APP)
        (package / "__main__.py").write_text(MAIN)
        self._log = folder / "imports"
        self.env = {"PYTHONPATH": str(folder), "IMPORTS": str(self._log)}

    def by(self, count: int) -> int:
        """Waits until so many processes have imported it; returns the last."""
        poll_until_sync(lambda: self._log.exists() and len(self._log.read_text().split()) >= count)
        return int(self._log.read_text().split()[count - 1])


@pytest.fixture
def imported(tmp_path: Path) -> Imported:
    return Imported(tmp_path)


@pytest.fixture
def running(tmp_path: Path, imported: Imported) -> Iterator[stack.Stack]:
    """Returns a stack of one service that gets a spare at once."""
    home = tmp_path / ".trackside"
    services = [ServiceSpec("spared", env=imported.env)]
    yield stack.start(home, StackOptions(services, spares_after_s=0.0, **WITHOUT_SERVERS))
    stack.stop(home)


def test_a_spare_that_has_imported_the_code_replaces_a_killed_service(
    running: stack.Stack, imported: Imported
) -> None:
    for number in (2, 3):
        spare = imported.by(number)
        victim = kill(running, "spared")
        assert victim != spare
        await_another(running, "spared", victim)
        assert running.pid("spared") == spare
    status = read_status(running.folder).processes["spared"]
    assert (status.restarts, status.last_end) == (2, "it was killed by SIGKILL")


def test_a_service_that_is_told_to_end_starts_with_the_code_as_it_is_now_and_no_spare_outlives_its_stack(
    running: stack.Stack, imported: Imported
) -> None:
    spare = imported.by(2)
    ends_with_0 = running.pid("spared")
    assert ends_with_0 is not None
    os.kill(ends_with_0, signal.SIGTERM)
    await_another(running, "spared", ends_with_0)
    assert all_end([spare])
    assert running.pid("spared") == imported.by(3)
    spare = imported.by(4)
    stack.stop(running.folder)
    assert all_end([spare])


def test_a_spare_that_was_killed_is_replaced_and_one_that_just_was_is_not_missed(
    running: stack.Stack, imported: Imported
) -> None:
    os.kill(imported.by(2), signal.SIGKILL)
    victim = kill(running, "spared")
    await_another(running, "spared", victim)
