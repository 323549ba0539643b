"""Turns the errors that are expected into sentences; imported when a command has failed."""

import errno

from trackside.artifacts.errors import ArtifactError
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.contracts.wire.codec import UndecodableError
from trackside.embedded.errors import StackError
from trackside.eventlog.errors import (
    AnotherLogError,
    DeniedError,
    OffsetGoneError,
    PreflightError,
    TransientError,
)
from trackside.eventlog.settings.settings_problems import InvalidSettingsError
from trackside.projections.database.postgres import (
    BadDsnError,
    PostgresGoneError,
    SchemaMissingError,
    StatementTimeoutError,
)
from trackside.projections.summaries.errors import SummaryReadRefused
from trackside.projections.writing.definitions import NewerSchemaError
from trackside.replay.history.errors import (
    BadNameError,
    BadRangeError,
    BadScenarioError,
    ReplayError,
    UnknownSubjectError,
)
from trackside.replay.rebuild.parallel_fold import LogTooShortError
from trackside.sdk.errors import ClientError, SpecError, UnsendableError
from trackside.summaries.pictures import MissingMatplotlibError

NOT_THERE = ("unknown_job", "unknown_tag", "unknown_step", "unreadable", "still_loading", "query_timeout")
"""How the codes of reads begin that may be answered at another time: the others are bad usage."""


def explain(error: Exception) -> CommandFailed | None:
    """Returns an expected error as a CommandFailed, or None for a defect."""
    match error:
        case CommandFailed():
            return error
        case SpecError() | UnsendableError() | BadRangeError() | BadNameError():
            return BadUsage(str(error))
        case UnknownSubjectError() | BadScenarioError() | BadDsnError() | InvalidSettingsError():
            return BadUsage(str(error))
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG | errno.EIO):
            return CommandFailed(
                f"{error.filename or 'output'} can't be written: {error.strerror}; it is cut short"
            )
        case ArtifactError():
            return CommandFailed(f"{error.code}: {error}")
        case SummaryReadRefused():
            kind = CommandFailed if error.code.startswith(NOT_THERE) else BadUsage
            return kind(f"{error.code} at {error.path}: {error}")
        case MissingMatplotlibError():
            return CommandFailed(str(error))
        case StatementTimeoutError():
            return CommandFailed(f"query_timeout: Postgres took too long: {error}; ask for less")
        case PostgresGoneError():
            return CommandFailed(f"Postgres does not answer: {error}; see `trackside status`")
        case SchemaMissingError():
            return CommandFailed(
                f"the read models are not there: {error}; start a dispatcher, or `trackside up`; "
                "if they run, start them again with this release"
            )
        case (
            ClientError()
            | StackError()
            | TransientError()
            | OffsetGoneError()
            | PreflightError()
            | DeniedError()
            | UndecodableError()
            | NewerSchemaError()
            | AnotherLogError()
            | LogTooShortError()
            | ReplayError()
        ):
            return CommandFailed(str(error))
        case _:
            return None
