"""Runs the work of a command to its end, and says errors as sentences."""

import asyncio
import errno
from collections.abc import Coroutine
from typing import Any, TypeVar

from trackside.cli.runtime.failures import Failure, Misuse
from trackside.contracts.codec import UndecodableError
from trackside.domain.stream import UnsupportedRulesError
from trackside.embedded.errors import StackError
from trackside.eventlog.errors import OffsetGoneError, PreflightError, TransientError
from trackside.projections.definitions import NewerSchemaError
from trackside.projections.postgres import PostgresGoneError, SchemaMissingError
from trackside.replay.history.errors import (
    BadNameError,
    BadRangeError,
    BadScenarioError,
    ReplayError,
    UnknownSubjectError,
)
from trackside.replay.rebuild.fill import LogTooShortError
from trackside.sdk.errors import ClientError, SpecError, UnsendableError

Got = TypeVar("Got")
INTERRUPTED = 130


def run(work: Coroutine[Any, Any, Got]) -> Got:
    """Runs a coroutine to its end; Ctrl-C cancels it, and what it holds is let go."""
    return asyncio.run(work)


def explained(error: Exception) -> Failure | None:
    """Gives an expected error as a failure, or None for one that is a defect."""
    match error:
        case Failure():
            return error
        case SpecError() | UnsendableError() | BadRangeError() | BadNameError():
            return Misuse(str(error))
        case UnknownSubjectError() | BadScenarioError():
            return Misuse(str(error))
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG | errno.EIO):
            return Failure(
                f"{error.filename or 'output'} can't be written: {error.strerror}; it is cut short"
            )
        case PostgresGoneError():
            return Failure(f"Postgres does not answer: {error}; see `trackside status`")
        case SchemaMissingError():
            return Failure(f"the read models are not there: {error}; start a dispatcher, or `trackside up`")
        case (
            ClientError()
            | StackError()
            | TransientError()
            | OffsetGoneError()
            | PreflightError()
            | UndecodableError()
            | UnsupportedRulesError()
            | NewerSchemaError()
            | LogTooShortError()
            | ReplayError()
        ):
            return Failure(str(error))
        case _:
            return None
