"""What looking into a log can't do, with a code to act on and a sentence that says what to do."""


class ReplayError(Exception):
    """Something about a recorded stream can't be had; `code` is for programs."""

    code = "replay_failed"

    def __str__(self) -> str:
        """Gives the code and the sentence."""
        return f"{self.code}: {super().__str__()}"


class UnknownStreamError(ReplayError):
    """No such stream in the log, nor among the imported ones."""

    code = "unknown_stream"


class UnknownSubjectError(ReplayError):
    """The stream has no such trial, task, attempt or command."""

    code = "unknown_subject"


class BadRangeError(ReplayError):
    """A moment that isn't one, that the stream doesn't have, or two in the wrong order."""

    code = "bad_range"


class NotRecordedError(ReplayError):
    """The stream has nothing of what is asked about."""

    code = "not_recorded"


class BadScenarioError(ReplayError):
    """What is asked can't be: an unknown assessor, an option, a fleet that is too small."""

    code = "bad_option"


SILENCE_LIMIT_S = 30.0
"""How long the log may give nothing although its end isn't reached."""


class SilentLogError(ReplayError):
    """The log has records that it doesn't give."""

    code = "log_silent"


class DamagedFileError(ReplayError):
    """A file isn't what was exported; the message names the line."""

    code = "file_damaged"


class UnsupportedFileError(ReplayError):
    """A file was exported in a format, or with rules, that this release doesn't have."""

    code = "file_unsupported"


class LiveTargetError(ReplayError):
    """Something would be written under the name of a stream of the live log."""

    code = "replay_target_live"


class AlreadyImportedError(ReplayError):
    """A stream of this name was imported before."""

    code = "already_exists"


class BadNameError(ReplayError):
    """A name that no stream may have."""

    code = "bad_identifier"


class BusyError(ReplayError):
    """Somebody else holds what is to be changed."""

    code = "busy"


class PartLostError(ReplayError):
    """One of several processes that read the log has died, so that its part is missing."""

    code = "part_lost"
