"""Tuners that are processes of anyone, in any language: asked and answering on topics of their own.

An answer is a proposal like any other: what it suggests counts when the log has it as TrialSuggested. A
request has the same id whoever sends it, and is sent again by a dispatcher that begins anew; the first answer
counts.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import structlog

from trackside.contracts.advice import AnswerSuggestion, SuggestionRequested
from trackside.contracts.codec import UndecodableError, command_of
from trackside.contracts.ingress import read_command
from trackside.contracts.refusals import Problem
from trackside.contracts.topics import Topics, partition_of
from trackside.dispatcher.axes import axes_of, unfit
from trackside.dispatcher.lanes import AdviceFailed, AdviceIsNonsense, HistoryItem, LaneTimeout
from trackside.dispatcher.memory import Known, TunerWaits, suggestion_seed
from trackside.dispatcher.signatures import Signatures
from trackside.domain.search import Search
from trackside.eventlog.author import Author
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Entry, Log

log = structlog.get_logger("trackside.dispatcher")

PAST_MAX = 5_000
PAST_BYTES_MAX = 700_000
"""So many trials, and so many bytes of them, a request tells of: a record holds no more than 1 MiB."""
RETRY_S = 0.5


class RemoteTuners:
    """The requests that are open, each with whoever waits for its answer."""

    def __init__(
        self, into: Log, author: Author, topics: Topics, signatures: Signatures, limit_s: float
    ) -> None:
        self._log = into
        self._author = author
        self._topics = topics
        self._signatures = signatures
        self._limit_s = limit_s
        self._open: dict[str, asyncio.Future[AnswerSuggestion]] = {}

    async def suggest(self, search: Search, past: list[HistoryItem], number: int) -> dict[str, Any] | None:
        """Asks for the parameters of a trial; None when nothing is left to try.

        Raises TunerWaits, LaneTimeout, and AdviceFailed for an answer that says so, or that no trial can use.
        """
        known = Known(axes_of(search.spec.model_dump(mode="json")["space"]))
        request = self._request(search, list(past), number, known)
        waiting = asyncio.get_running_loop().create_future()
        self._open[request.request_id] = waiting
        try:
            async with asyncio.timeout(request.time_limit_s):
                await self._send(request)
                answer = await waiting
        except TimeoutError:
            raise LaneTimeout(
                f"no answer to {request.request_id} from a tuner {request.tuner!r} on "
                f"{self._topics.suggestions.name} in {request.time_limit_s:g} s"
            ) from None
        finally:
            self._open.pop(request.request_id, None)
        return _taken(answer, search, number, known)

    def hear(self, entry: Entry) -> None:
        """Takes an answer, or passes over one that nobody waits for; raises UndecodableError for none."""
        headers = {name.lower(): octets for name, octets in entry.headers if octets is not None}
        arrival = read_command(headers, entry.key, entry.value)
        seal = self._signatures.seal(headers, entry.topic, entry.append_time_ms, arrival, entry.value or b"")
        fault = arrival.problem or seal.problem
        read = fault or command_of(arrival.command_type, arrival.body or {}, [AnswerSuggestion])
        if isinstance(read, Problem):
            raise UndecodableError(read.code, f"{read.path}: {read.message}")
        assert isinstance(read, AnswerSuggestion)
        if (read.parameters is None) is (read.says is None):
            raise UndecodableError("not_valid", "$: expected parameters or says, one of both")
        waiting = self._open.get(read.request_id)
        if waiting is None or waiting.done():
            log.info("an answer that nobody waits for", request=read.request_id, publisher=arrival.publisher)
            return
        waiting.set_result(read)

    def _request(
        self, search: Search, past: list[HistoryItem], number: int, known: Known
    ) -> SuggestionRequested:
        tuner, seen = search.spec.tuner, search.opened[number]
        trials = told(past, known)
        kept = list(_newest(trials))[::-1]
        return SuggestionRequested(
            request_id=f"{search.search_id}/{number}/{search.space_version}/{seen}/{search.failures + 1}",
            search_id=search.search_id,
            tuner=tuner.name,
            options=tuner.model_dump(mode="json")["options"],
            trial=number,
            seed=suggestion_seed(search.seed, number),
            search_seed=search.seed,
            direction=search.spec.direction,
            space=search.spec.space,
            space_version=search.space_version,
            seen=seen,
            time_limit_s=self._limit_s if tuner.time_limit_s is None else tuner.time_limit_s,
            past=kept,
            omitted=len(trials) - len(kept),
        )

    async def _send(self, request: SuggestionRequested) -> None:
        topic = self._topics.suggestion_requests
        record = self._author.single(request.search_id, request, message_id=request.request_id)
        while True:
            try:
                partition = partition_of(request.search_id, topic.partitions)
                await self._log.publish(topic.name, partition, record)
                return
            except TransientError as error:
                log.warning("a request to a tuner waits", stream=request.search_id, reason=str(error))
                await asyncio.sleep(RETRY_S)


def told(past: list[HistoryItem], known: Known) -> list[dict[str, Any]]:
    """Gives a search's past as a tuner elsewhere is told it; `known` learns which parameters are taken."""
    trials: list[dict[str, Any]] = []
    of_number: dict[int, dict[str, Any]] = {}
    for item in past:
        match item:
            case ("suggested", number, parameters):
                known.put(number, parameters)
                of_number[number] = _trial(number, parameters, "running", None)
                trials.append(of_number[number])
            case ("ended", number, state, value, reports):
                last = max(reports)[1] if state == "pruned" and reports else value
                of_number[number].update(state=state, value=last)
            case ("imported", parameters, value):
                known.learn(parameters)
                trials.append(_trial(None, parameters, "complete", value))
    return trials


def _trial(
    number: int | None, parameters: Mapping[str, Any], state: str, value: float | None
) -> dict[str, Any]:
    return {"number": number, "parameters": dict(parameters), "state": state, "value": value}


def _newest(trials: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Gives the newest trials that a request has room for, the newest first."""
    left = PAST_BYTES_MAX
    for trial in reversed(trials[-PAST_MAX:]):
        left -= len(json.dumps(trial))
        if left < 0:
            return
        yield trial


def _taken(answer: AnswerSuggestion, search: Search, number: int, known: Known) -> dict[str, Any] | None:
    who = f"tuner {search.spec.tuner.name}, asked for trial {number},"
    match answer.says:
        case "wait":
            raise TunerWaits
        case "exhausted":
            return None
        case "failed":
            raise AdviceFailed(f"{who} failed: {answer.message or 'it gives no reason'}")
    assert answer.parameters is not None
    fault = unfit(axes_of(search.spec.model_dump(mode="json")["space"]), answer.parameters)
    if fault is not None:
        raise AdviceIsNonsense(f"{who} suggested at {fault[0]}: {fault[1]}")
    if known.has(answer.parameters):
        raise AdviceIsNonsense(f"{who} suggested what another trial has")
    return answer.parameters
