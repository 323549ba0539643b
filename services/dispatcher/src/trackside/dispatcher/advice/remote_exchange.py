"""Requests to tuners and assessors that are separate processes, and their answers, over topics.

The id of a request is a function of the log, and a dispatcher that restarts sends it again; the first answer
to it counts, within its time limit.
"""

import asyncio
from functools import partial
from typing import Generic, TypeVar

import structlog

from trackside.aggregates.search.advice.advice_messages import (
    AnswerAssessment,
    AnswerSuggestion,
    AssessmentRequested,
    SuggestionRequested,
)
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.envelope.topics import Topic, partition_of
from trackside.contracts.wire.codec import UndecodableError, command_of
from trackside.dispatcher.advice.advisor_process import AdvisorTimeout
from trackside.dispatcher.intake.signatures import SignatureVerifier
from trackside.domain.proposal import cause_of
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Log
from trackside.eventlog.retry import retry_until_reachable

log = structlog.get_logger("trackside.dispatcher")

RETRY_S = 0.5
REQUEST_BYTES_MAX = 700_000
"""A request has at most so many bytes of a search's past: a record holds no more than 1 MiB."""
A = TypeVar("A", bound=AnswerSuggestion | AnswerAssessment)


class RemoteExchange(Generic[A]):
    """The open requests of one kind, each with the future of its answer."""

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
        """Sends a request and returns its answer; raises AdvisorTimeout, naming `whom`, after its limit."""
        waiting: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._open[request.request_id] = waiting
        try:
            # Its time starts when it is in the log: an outage of Kafka is not a failure of the tuner.
            await self._send(request)
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

    def receive(self, entry: Entry) -> None:
        """Receives an answer; logs one to no open request. Raises UndecodableError for anything else."""
        arrival, signature = self._signatures.read(entry)
        problem = arrival.problem or signature.problem
        read = problem or command_of(arrival.command_type, arrival.body or {}, [self._kind])
        if isinstance(read, Problem):
            raise UndecodableError(read.code, f"{read.path}: {read.message}")
        assert isinstance(read, self._kind)
        content = read.parameters if isinstance(read, AnswerSuggestion) else read.hopeless
        if (content is None) is (read.says is None):
            what = "parameters" if isinstance(read, AnswerSuggestion) else "hopeless"
            raise UndecodableError("not_valid", f"$: expected {what} or says, one of both")
        waiting = self._open.get(read.request_id)
        if waiting is None or waiting.done():
            log.info("answer to no open request", request=read.request_id, publisher=arrival.publisher)
            return
        waiting.set_result(read)

    async def _send(self, request: SuggestionRequested | AssessmentRequested) -> None:
        seen = request.seen if isinstance(request, SuggestionRequested) else -1
        cause = cause_of(request.search_id, seen)
        record = self._writer.single(request.search_id, request, cause=cause, message_id=request.request_id)
        partition = partition_of(request.search_id, self._requests.partitions)
        await retry_until_reachable(
            partial(self._log.publish, self._requests.name, partition, record),
            lambda reason: log.warning("request not sent yet", stream=request.search_id, reason=reason),
            RETRY_S,
        )
