"""Errors of publishers, by what to do next."""

from collections.abc import Iterable, Sequence

from trackside.contracts.envelope.refusals import Problem


class ClientError(Exception):
    """A request of a publisher failed: the base class of all errors that the SDK raises on its own."""


class UnsendableError(ClientError):
    """A command was not sent, because it would be refused; `problem` is the first of its `problems`."""

    def __init__(self, problem: Problem, *more: Problem) -> None:
        super().__init__(problem_lines((problem, *more)))
        self.problem = problem
        self.problems = (problem, *more)


class RefusedError(ClientError):
    """A command was refused by the platform; `problem` has the reason and the path in its body.

    `problems` are all that were found, the first included. `problem.retry_at_ms` is from when on the command
    may be published again, in ms since 1970: for a refusal as `too_many` whose time is known.
    """

    def __init__(self, stream_id: str, problem: Problem, *more: Problem) -> None:
        super().__init__(f"{stream_id} refused: {problem_lines((problem, *more))}")
        self.problem = problem
        self.problems = (problem, *more)


class UnreachableError(ClientError):
    """The log did not respond in time; a command may be published again under the same id."""


class UnansweredError(ClientError):
    """A command is in the log, but was not answered in time."""


class EncryptedStreamError(ClientError):
    """A stream is encrypted, and was forgotten, or this client can't read its key."""


class NotOverError(ClientError, TimeoutError):
    """A stream was not over in time; it goes on."""


class SearchFailedError(ClientError):
    """A search ended because its tuner or assessor failed; the message has the reason."""


class BadKeyError(ClientError):
    """The file has no key to sign with; the message names the file and the reason."""


class SpecError(ClientError):
    """A spec file is invalid; `file`, `line` (from 1, 0 if unknown) and `problem` say where and why.

    `problems` are all that were found, the first included, and `lines` their lines. The text has their codes
    if they are `coded`: those of what the file refers to, not of its form.
    """

    def __init__(
        self,
        file: str,
        line: int,
        problem: Problem,
        more: Sequence[tuple[int, Problem]] = (),
        coded: bool = False,
    ) -> None:
        found = ((line, problem), *more)
        super().__init__("\n".join(_located(file, at, each, coded) for at, each in found))
        self.file = file
        self.line = line
        self.problem = problem
        self.lines = tuple(at for at, _ in found)
        self.problems = tuple(each for _, each in found)


def _located(file: str, line: int, problem: Problem, coded: bool) -> str:
    where = f"{file}:{line}" if line else file
    code = f"{problem.code} at " if coded else ""
    return f"{where}: {code}{problem.path}: {problem.message}"


def problem_lines(problems: Iterable[Problem]) -> str:
    """Returns problems as text, each on a line; those after the first are indented."""
    return "\n  ".join(f"{each.code} at {each.path}: {each.message}" for each in problems)
