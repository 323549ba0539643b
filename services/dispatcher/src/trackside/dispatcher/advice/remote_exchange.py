"""Requests to processes of anyone, in any language, and their answers, on topics of their own.

A request has the same id whoever sends it, and is sent again by a dispatcher that begins anew; the first
answer to it counts, within its time limit.
"""

import asyncio
from functools import partial
from typing import Generic, TypeVar

import structlog

from trackside.contracts.advice import (
    AnswerAssessment,
    AnswerSuggestion,
    AssessmentRequested,
    SuggestionRequested,
)
from trackside.contracts.codec import UndecodableError, command_of
from trackside.contracts.refusals import Problem
from trackside.contracts.topics import Topic, partition_of
from trackside.dispatcher.advice.advisor_process import AdvisorTimeout
from trackside.dispatcher.intake.signatures import SignatureVerifier
from trackside.eventlog.log import Entry, Log
from trackside.eventlog.record_writer import RecordWriter
from trackside.eventlog.retry import retry_until_reachable

log = structlog.get_logger("trackside.dispatcher")

RETRY_S = 0.5
REQUEST_BYTES_MAX = 700_000
"""So many bytes of a search's past a request tells of: a record holds no more than 1 MiB."""
A = TypeVar("A", bound=AnswerSuggestion | AnswerAssessment)


class RemoteExchange(Generic[A]):
    """The requests of one kind that are open, each with whoever waits for its answer."""

    def __init__(
        self,
        into: Log,
        writer: RecordWriter,
        signatures: SignatureVerifier,
        requests: Topic,
        answers: Topic,
        kind: type[A],
    ) -> None:
        self.answers = answers
        self._log = into
        self._writer = writer
        self._signatures = signatures
        self._requests = requests
        self._kind = kind
        self._open: dict[str, asyncio.Future[A]] = {}

    async def ask(self, request: SuggestionRequested | AssessmentRequested, whom: str) -> A:
        """Sends a request and waits for its answer; raises AdvisorTimeout, which names `whom`."""
        waiting: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._open[request.request_id] = waiting
        try:
            await self._send(request)  # its time begins when it can be read: an outage is nobody's failure
            async with asyncio.timeout(request.time_limit_s):
                return await waiting
        except TimeoutError:
            raise AdvisorTimeout(
                f"no answer to {request.request_id} from {whom} on {self.answers.name} "
                f"in {request.time_limit_s:g} s"
            ) from None
        finally:
            if self._open.get(request.request_id) is waiting:
                del self._open[request.request_id]

    def hear(self, entry: Entry) -> None:
        """Takes an answer, or passes over one that nobody waits for; raises UndecodableError for none."""
        arrival, seal = self._signatures.read(entry)
        fault = arrival.problem or seal.problem
        read = fault or command_of(arrival.command_type, arrival.body or {}, [self._kind])
        if isinstance(read, Problem):
            raise UndecodableError(read.code, f"{read.path}: {read.message}")
        assert isinstance(read, self._kind)
        said = read.parameters if isinstance(read, AnswerSuggestion) else read.hopeless
        if (said is None) is (read.says is None):
            what = "parameters" if isinstance(read, AnswerSuggestion) else "hopeless"
            raise UndecodableError("not_valid", f"$: expected {what} or says, one of both")
        waiting = self._open.get(read.request_id)
        if waiting is None or waiting.done():
            log.info("an answer that nobody waits for", request=read.request_id, publisher=arrival.publisher)
            return
        waiting.set_result(read)

    async def _send(self, request: SuggestionRequested | AssessmentRequested) -> None:
        record = self._writer.single(request.search_id, request, message_id=request.request_id)
        partition = partition_of(request.search_id, self._requests.partitions)
        await retry_until_reachable(
            partial(self._log.publish, self._requests.name, partition, record),
            lambda reason: log.warning("a request waits", stream=request.search_id, reason=reason),
            RETRY_S,
        )
