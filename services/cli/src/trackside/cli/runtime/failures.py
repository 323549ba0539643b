"""How a command fails: a sentence for a person, and the exit code that a script sees."""


class Failure(Exception):
    """A command could not do what it was asked for: exit 1."""

    exit_code = 1


class Misuse(Failure):
    """A command was asked for what can't be done, or was refused: exit 2."""

    exit_code = 2


class Reported(Failure):
    """A command failed and has said so already, on the output that its reader looks at."""

    def __init__(self, exit_code: int = 1) -> None:
        super().__init__()
        self.exit_code = exit_code
