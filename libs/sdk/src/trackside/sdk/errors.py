"""Errors of publishers, by what to do next."""

from trackside.contracts.refusals import Problem


class ClientError(Exception):
    """A request of a publisher failed."""


class UnsendableError(ClientError):
    """A command was not sent, because it would be refused; `problem` is the reason."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.code} at {problem.path}: {problem.message}")
        self.problem = problem


class RefusedError(ClientError):
    """A command was refused by the platform; `problem` has the reason and the path in its body."""

    def __init__(self, stream_id: str, problem: Problem) -> None:
        super().__init__(f"{stream_id} refused: {problem.code} at {problem.path}: {problem.message}")
        self.problem = problem


class UnreachableError(ClientError):
    """The log did not respond in time; a command may be published again under the same id."""


class UnansweredError(ClientError):
    """A command is in the log, but was not answered in time."""


class SpecError(ClientError):
    """A spec file is invalid; `file`, `line` (from 1, 0 if unknown) and `problem` say where and why."""

    def __init__(self, file: str, line: int, problem: Problem) -> None:
        where = f"{file}:{line}" if line else file
        super().__init__(f"{where}: {problem.path}: {problem.message}")
        self.file = file
        self.line = line
        self.problem = problem
