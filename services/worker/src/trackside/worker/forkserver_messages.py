"""The messages between a worker and its forkserver, a packet each; see process_messages."""

from typing import NamedTuple


class ForkProcess(NamedTuple):
    """Fork a task process; the descriptors of its channel, stdout and stderr come with it."""

    number: int


class SignalProcess(NamedTuple):
    """Send a signal to the process group of a task process, if it still exists."""

    number: int
    signal: int


class ForkserverReady(NamedTuple):
    """The forkserver has imported its modules; `missing` has the reasons of those that failed."""

    pid: int
    missing: dict[str, str]


class ProcessForked(NamedTuple):
    """A task process exists."""

    number: int
    pid: int


class ForkFailed(NamedTuple):
    """A task process could not be forked."""

    number: int
    reason: str


class ProcessExited(NamedTuple):
    """A task process has exited, with a wait status; `leftovers` names processes of it that were killed."""

    number: int
    status: int
    leftovers: list[str]
