"""Spares of services: processes that have imported their code, and become them when they are killed.

One that ended by itself with 0, as `trackside restart` asks, is started anew instead: it may be for another
release, whose code a spare doesn't have.
"""

import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, replace

from trackside.embedded import processes
from trackside.embedded.processes import ProcessSpec

AFTER_S = 20.0
"""How long a service has run before it gets a spare: a start of the stack needs its processors for itself."""
MODULE = "trackside.embedded.supervision.spare"
"""What a spare runs, with the package that it may become."""
AGAIN_S = 10.0
"""How soon a spare is started after the one before it."""


@dataclass
class Spare:
    """The spare of a service, which gets one after it has run for `after_s` seconds; never, if None."""

    spec: ProcessSpec
    after_s: float | None = None
    process: subprocess.Popen[bytes] | None = None
    due_s: float = 0.0

    def keep(self, now_s: float, alive_s: float) -> bool:
        """Starts a spare of a service that has run so long, if it lacks one; returns whether it did.

        One that can't be started, or ends, as its code can't be imported now, is tried again later.
        """
        if self.process is not None and self.process.poll() is not None:
            self.discard()
        package, after_s = self.spec.package, self.after_s
        if package is None or after_s is None or self.process is not None:
            return False
        if alive_s < after_s or now_s < self.due_s:
            return False
        self.due_s = now_s + AGAIN_S
        argv = [sys.executable, "-m", MODULE, package]
        with suppress(OSError):
            self.process = processes.spawn(replace(self.spec, argv=argv), stdin=subprocess.PIPE)
        return True

    def take(self) -> subprocess.Popen[bytes] | None:
        """Lets the spare become the service and returns it; None if there is none that runs."""
        taken, self.process = self.process, None
        if taken is None:
            return None
        assert taken.stdin is not None
        with suppress(OSError), taken.stdin as told:
            told.write(b".")
        return taken if taken.poll() is None else None

    def discard(self) -> None:
        """Ends the spare, if there is one."""
        ended, self.process = self.process, None
        if ended is not None:
            ended.kill()
            ended.wait()
            if ended.stdin is not None:
                ended.stdin.close()
