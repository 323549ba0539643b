"""Commands that a stream sends to others, such as the version of a model that an incremental job has trained.

Which ones follows from its folded state (`AggregateType.outgoing`), and so does each answer from that of the
other stream. Pure.
"""

from typing import NamedTuple

from trackside.contracts.envelope.message import Json
from trackside.domain.proposal import cause_of
from trackside.domain.streams.command import ReceivedCommand
from trackside.domain.streams.stream import Stream


class OutgoingCommand(NamedTuple):
    """A command that a stream sends to another one, which decides it like any other command.

    Its id is `<sender>@<asked_at>`, so it has its effect once, even if several dispatchers write it. What an
    event asks for never changes, and one event asks a stream for one command at most.
    """

    stream_id: str
    """The stream that it is sent to; one that doesn't exist yet may begin by it."""
    asked_at: int
    """Offset of the event of the sender that asks for it: its source and its cause."""
    command_type: str
    """The wire type of the command; of another aggregate, which the sender may not import."""
    body: Json
    """What is asked for."""


def received_by(sender: Stream, asked_at: int, receiver: Stream | None) -> ReceivedCommand | None:
    """Returns the command that an event of its sender asks for; None if the receiver doesn't have it yet."""
    return None if receiver is None else receiver.commands.get(cause_of(sender.stream_id, asked_at))


def answer_of(sender: Stream, asked_at: int, receiver: Stream | None) -> ReceivedCommand | None:
    """Returns the command that an event of its sender asks for once it is answered, else None.

    `refusal` has the problems if it was refused, and is empty if it was accepted. What an accepted command
    has changed may still be to be read from the log (`effect_is_read`): look for it in its root.
    """
    command = received_by(sender, asked_at, receiver)
    return command if command is not None and command.decided else None


def effect_is_read(command: ReceivedCommand, receiver: Stream | None) -> bool:
    """Returns whether what an accepted command has changed was read from the log, too."""
    return receiver is not None and receiver.last_offset > command.publications[0].answered_at
