"""How a command fails: a sentence for people and an exit code for scripts."""


class CommandFailed(Exception):
    """A command could not do what was requested: exit 1."""

    exit_code = 1


class BadUsage(CommandFailed):
    """The request was invalid, or was refused: exit 2."""

    exit_code = 2


class NotRead(CommandFailed):
    """A check found nothing out, as what it checks could not be read: exit 3."""

    exit_code = 3


class FailureReported(CommandFailed):
    """A command failed and has already printed why."""

    def __init__(self, exit_code: int = 1) -> None:
        super().__init__()
        self.exit_code = exit_code
