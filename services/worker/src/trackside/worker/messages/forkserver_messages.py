"""The messages between a worker and its forkserver, a packet each; see process_messages.

A worker may be of another release than the forkserver that it adopts processes from. Then it takes over only
what has the same PROTOCOL, which is a number for these messages, for those of process_messages and
report_messages, and for the files in the journal. Raise it with each change that the other side can't read.
"""

from typing import NamedTuple


class ForkProcess(NamedTuple):
    """Fork a task process; the descriptors of its channel, stdout and stderr come with it."""

    number: int


class SignalProcess(NamedTuple):
    """Send a signal to the process group of a task process, if it still exists."""

    number: int
    signal: int


class HoldProcess(NamedTuple):
    """Let a task process outlive the worker; its channel, stdout and stderr come with it, the worker's ends.

    `key` names the placement. Without a worker it is ended after `keep_s`, and if `silent_s` isn't 0 at the
    latest so long after the worker's last contact to the log.
    """

    number: int
    key: str
    keep_s: float
    silent_s: float = 0.0


class ReleaseProcess(NamedTuple):
    """Don't let a task process outlive the worker any longer: its task has ended, and it is free."""

    number: int


class ProgressAppended(NamedTuple):
    """So many messages of the progress of a held process are in the log, with all their events."""

    number: int
    messages: int


class LogContact(NamedTuple):
    """The worker has reached the log, at `at_s` of the monotonic clock."""

    at_s: float


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


class ForkserverOffer(NamedTuple):
    """What a forkserver tells a worker that connects first: so many messages HeldProcess follow."""

    pid: int
    protocol: int
    processes: int


class HeldProcess(NamedTuple):
    """A task process that has outlived its worker. `status` is its wait status if it has exited since.

    Six descriptors come with it: its channel, stdout and stderr, and for each of these a file with the bytes
    that it wrote while there was no worker, to be read before it.
    """

    number: int
    pid: int
    key: str
    status: int | None
    leftovers: list[str]
    in_log: int = 0
    """That of its last ProgressAppended."""


PROTOCOL = 1
