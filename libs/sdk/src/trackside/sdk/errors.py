"""What can go wrong for a publisher, each with what to do next."""

from trackside.contracts.refusals import Problem


class ClientError(Exception):
    """Something that a publisher asked for could not be done."""


class UnsendableError(ClientError):
    """A command was not sent, because it would be refused wherever it arrived; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.code} at {problem.path}: {problem.message}")
        self.problem = problem


class RefusedError(ClientError):
    """A command was refused by the platform; `problem` says why, and where in its body."""

    def __init__(self, stream_id: str, problem: Problem) -> None:
        super().__init__(f"{stream_id} refused: {problem.code} at {problem.path}: {problem.message}")
        self.problem = problem


class UnreachableError(ClientError):
    """The log did not answer in time; a command may be published again under the same id."""


class UnansweredError(ClientError):
    """A command is in the log, but nobody has answered it in time."""


class SpecError(ClientError):
    """A spec file can't be obeyed; `file`, `line` (from 1, 0 if unknown) and `problem` say where and why."""

    def __init__(self, file: str, line: int, problem: Problem) -> None:
        where = f"{file}:{line}" if line else file
        super().__init__(f"{where}: {problem.path}: {problem.message}")
        self.file = file
        self.line = line
        self.problem = problem
