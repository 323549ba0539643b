"""Errors of the log, by what the caller does next."""


class TransientError(Exception):
    """The log didn't answer in time: what was written may or may not be there. Read the log and try again."""


class DeniedError(TransientError):
    """The broker denies an operation to this user; its text has the line that grants it.

    A service waits for the right as it waits for the log; a command ends.
    """


class TooLargeError(Exception):
    """A record or batch is over the topic's limit: no retry can help."""


class PreflightError(Exception):
    """A topic is missing or its retention is too short: the service must not start."""


class OffsetGoneError(Exception):
    """The log begins after the position requested: records that are needed are gone."""


class AnotherLogError(Exception):
    """What is here belongs to another log than the one that is read."""


def error_text(error: BaseException) -> str:
    """Returns the text of an error, or what it means if it has none, such as a timeout."""
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
