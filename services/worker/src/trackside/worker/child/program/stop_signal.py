"""Lets a task process outlive the SIGTERM that ends its program."""

import signal
import subprocess


class StopSignal:
    """Survives SIGTERM while a program runs, so that this process can report how the program ended.

    The signal is sent to the whole group; one that comes before the program is in it is forwarded.
    """

    def __init__(self) -> None:
        self._seen = False

    def __enter__(self) -> "StopSignal":
        """Begins to survive it."""
        signal.signal(signal.SIGTERM, self._on_signal)  # a handler, unlike SIG_IGN, isn't kept by exec
        return self

    def __exit__(self, *_: object) -> None:
        """Lets it end the process again."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _on_signal(self, *_: object) -> None:
        self._seen = True

    def forward_to(self, process: "subprocess.Popen[bytes]") -> None:
        """Forwards a signal that came before the program ran."""
        if self._seen:
            process.terminate()
