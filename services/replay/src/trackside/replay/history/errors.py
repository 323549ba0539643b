"""The errors of replay, each with a code for programs and a message that says what to do."""


class ReplayError(Exception):
    """A query of a recorded stream failed; `code` is for programs."""

    code = "replay_failed"

    def __str__(self) -> str:
        """Returns the code and the message."""
        return f"{self.code}: {super().__str__()}"


class UnknownStreamError(ReplayError):
    """No such stream in the log, nor among the imported ones."""

    code = "unknown_stream"


class UnknownSubjectError(ReplayError):
    """The stream has no such trial, task, attempt or command."""

    code = "unknown_subject"


class BadRangeError(ReplayError):
    """An invalid point in time, one that the stream doesn't have, or two in the wrong order."""

    code = "bad_range"


class NotRecordedError(ReplayError):
    """The stream has no records of the kind that is needed."""

    code = "not_recorded"


class BadScenarioError(ReplayError):
    """An invalid option: an unknown assessor, a bad value, a fleet that is too small."""

    code = "bad_option"


SILENCE_LIMIT_S = 30.0
"""How long the log may return nothing although its end isn't reached, s."""


class SilentLogError(ReplayError):
    """The log has records that it doesn't return."""

    code = "log_silent"


class DamagedFileError(ReplayError):
    """A file differs from what was exported; the message names the line."""

    code = "file_damaged"


class UnsupportedFileError(ReplayError):
    """A file was exported in a format, or with rules, that this release doesn't support."""

    code = "file_unsupported"


class LiveTargetError(ReplayError):
    """The target is a stream of the live log."""

    code = "replay_target_live"


class AlreadyImportedError(ReplayError):
    """A stream of this name was imported before."""

    code = "already_exists"


class BadNameError(ReplayError):
    """A name that is no valid stream id."""

    code = "bad_identifier"


class BusyError(ReplayError):
    """Another process holds the lock of what is to be changed."""

    code = "busy"


class PartLostError(ReplayError):
    """One of several processes that read the log has died, so that its rows are missing."""

    code = "part_lost"


class AnotherInstallationError(ReplayError):
    """A backup is of another log than the one that is read or written."""

    code = "another_installation"


class IncompleteLogError(ReplayError):
    """The log lacks records that a backup needs, or that it has."""

    code = "log_incomplete"


class ForgottenStreamError(ReplayError):
    """The stream was forgotten: its content can't be read any more."""

    code = "stream_forgotten"


class KeyMissingError(ReplayError):
    """Encrypted streams can't be read, for their keys are missing, and they were not forgotten."""
