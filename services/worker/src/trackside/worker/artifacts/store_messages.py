"""The messages between a worker and its store process, and their encoding: a line of JSON each. Pure.

    worker -> store process   a request: its number, an operation and the arguments of that
    store process -> worker   progress of a request; its result, or a problem

Both are of one release, so there are no versions.
"""

import json
from typing import NamedTuple

from trackside.contracts.envelope.message import Json

UNREACHABLE = "store_unreachable"
RETRIED = frozenset({UNREACHABLE, "store_full", "credential_missing", "cache_unusable"})
"""Codes of problems that may be gone later."""
FIRST_RETRY_S, LAST_RETRY_S = 0.2, 10.0
"""The pauses between requests to a store that fails: the first, doubled up to the longest."""


class StoreRequest(NamedTuple):
    """An operation to carry out, by its name in `operations.OPERATIONS`."""

    number: int
    operation: str
    arguments: Json


class StoreProgress(NamedTuple):
    """How many bytes of a request are done, and of how many."""

    number: int
    done_bytes: int
    total_bytes: int


class StoreResult(NamedTuple):
    """What an operation returned."""

    number: int
    result: Json


class StoreProblem(NamedTuple):
    """Why an operation failed: the code of an ArtifactError, and its sentence."""

    number: int
    code: str
    message: str


StoreAnswer = StoreProgress | StoreResult | StoreProblem
_ANSWERS: dict[str, type[StoreAnswer]] = {
    "progress": StoreProgress,
    "result": StoreResult,
    "problem": StoreProblem,
}
_NAMES = {kind: name for name, kind in _ANSWERS.items()}


def encode_request(request: StoreRequest) -> bytes:
    """Returns a request as a line, with its newline."""
    return _line(list(request))


def decode_request(line: bytes) -> StoreRequest:
    """Returns the request of a line."""
    return StoreRequest._make(json.loads(line))


def encode_answer(answer: StoreAnswer) -> bytes:
    """Returns an answer as a line, with its newline."""
    return _line([_NAMES[type(answer)], *answer])


def decode_answer(line: bytes) -> StoreAnswer:
    """Returns the answer of a line."""
    name, *fields = json.loads(line)
    return _ANSWERS[name](*fields)


def _line(fields: list[object]) -> bytes:
    return json.dumps(fields).encode() + b"\n"
