"""Commands on their way into one partition of the log, taken in turn by their publishers.

Deficit round robin (Shreedhar and Varghese, 1995): in each round a publisher may have `QUANTUM_BYTES` more of
its commands taken, whatever the others have waiting.
"""

from collections import deque
from dataclasses import dataclass

from trackside.contracts.streams.commands import CommandReceived

CommandPosition = tuple[int, int]
"""Where a command was published: partition and offset in the topic of commands."""
QUANTUM_BYTES = 4_096
"""How many bytes of commands each publisher has taken in one round."""
TURN_BYTES = 131_072
"""How many bytes of commands are taken at once, all publishers together: they fit one batch."""


@dataclass(slots=True)
class WaitingCommand:
    """A command that is in no stream yet, and where it goes.

    `size_bytes` is the size of its record, `at_ms` the record's time by the clock of the log. Of
    one that is `encrypted`, a stream that it begins is to be.
    """

    publisher: str
    stream: str
    event: CommandReceived
    traceparent: str
    size_bytes: int
    at_ms: int
    encrypted: bool = False

    @property
    def position(self) -> CommandPosition:
        """Where it was published."""
        return self.event.source.partition, self.event.source.offset


class FairQueue:
    """The commands that wait for one partition of the log; each stays until it is removed."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[CommandPosition, WaitingCommand]] = {}
        self._deficits: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    @property
    def first(self) -> WaitingCommand:
        """Any command that waits; there must be one."""
        return next(iter(next(iter(self._queues.values())).values()))

    def add(self, command: WaitingCommand) -> None:
        """Adds a command after the others of its publisher."""
        self._queues.setdefault(command.publisher, {})[command.position] = command

    def remove(self, command: WaitingCommand) -> None:
        """Removes a command that waits."""
        queue = self._queues[command.publisher]
        del queue[command.position]
        if not queue:
            del self._queues[command.publisher]
            self._deficits.pop(command.publisher, None)

    def turn(self) -> list[WaitingCommand]:
        """Returns the commands that are to be taken now; the publisher served last comes last next time."""
        taken: list[WaitingCommand] = []
        size_bytes = 0
        waiting = deque(
            (publisher, commands, next(commands, None))
            for publisher, commands in [(name, iter(queue.values())) for name, queue in self._queues.items()]
        )
        while waiting and size_bytes < TURN_BYTES:
            publisher, commands, head = waiting.popleft()
            deficit = self._deficits.get(publisher, 0) + QUANTUM_BYTES
            while head is not None and head.size_bytes <= deficit:
                taken.append(head)
                deficit -= head.size_bytes
                size_bytes += head.size_bytes
                head = next(commands, None)
            self._queues[publisher] = self._queues.pop(publisher)
            if head is None:
                self._deficits.pop(publisher, None)
            else:
                self._deficits[publisher] = deficit
                waiting.append((publisher, commands, head))
        return taken
