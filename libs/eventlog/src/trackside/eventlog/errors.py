"""What can go wrong with the log, by what the caller does next."""


class TransientError(Exception):
    """The log didn't answer, or not in time: what was written may or may not be there. Read and try again."""


class TooLargeError(Exception):
    """A record or batch is over the topic's limit: no retry can help."""


class PreflightError(Exception):
    """A topic is missing or forgets too early: the service must not start."""


class OffsetGoneError(Exception):
    """The log begins behind the position that was asked for: records that are needed are gone."""


def said(error: BaseException) -> str:
    """Gives the text of an error; that of one without a text, such as a timeout, is what it means."""
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
