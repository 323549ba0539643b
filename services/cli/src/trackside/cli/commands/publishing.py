"""How a command of the platform is published: under which id, for how long, and how its answer is printed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier, new_id
from trackside.sdk.errors import UnansweredError, UnreachableError


@dataclass(frozen=True, slots=True)
class Publishing:
    """How long a command is published and its answer awaited, s; whether that is printed as JSON; its id.

    Without an id, a new one is made; one that is given makes the command count once, however often it is
    published. What takes several commands has an id for each `part`, from 1, made of the one. With
    `encrypted` a stream that it begins is encrypted.
    """

    timeout_s: float
    as_json: bool
    command_id: str = ""
    part: int = 1
    encrypted: bool = False

    @property
    def id_of_part(self) -> str:
        """The id that this part is published under."""
        return self.command_id if self.part == 1 else f"{self.command_id}-part-{self.part}"

    def encrypting(self, encrypted: bool) -> "Publishing":
        """Returns this for a stream that is encrypted, or not."""
        return replace(self, encrypted=encrypted)

    def identified(self) -> "Publishing":
        """Returns this with an id; raises BadUsage if the one that was given is none."""
        if self.command_id and not is_identifier(self.command_id):
            raise BadUsage(f"--command-id: {self.command_id!r} is not an id: expected {IDENTIFIER_RULE}")
        return replace(self, command_id=self.command_id or new_id())


@contextmanager
def repeatable(command_id: str) -> Iterator[None]:
    """Explains how a command is published again whose outcome is not known: it may be in the log or not."""
    try:
        yield
    except (UnreachableError, UnansweredError) as error:
        raise CommandFailed(
            f"{error}\nrun the same command again with --command-id {command_id}: it has an effect once"
        ) from error
