"""Tuners and assessors that are processes of anyone, in any language: asked and answering on topics.

An answer is a proposal like any other: what a tuner suggests counts when the log has it as TrialSuggested.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from trackside.contracts.advice import AnswerAssessment, AnswerSuggestion, SuggestionRequested
from trackside.contracts.topics import Topics
from trackside.dispatcher.advice.advisor_process import AdviceFailed, HistoryItem, InvalidAdvice
from trackside.dispatcher.advice.remote_assessors import RemoteAssessors
from trackside.dispatcher.advice.remote_exchange import REQUEST_BYTES_MAX, RemoteExchange
from trackside.dispatcher.intake.signatures import SignatureVerifier
from trackside.dispatcher.tuners.axes import axes_of, unfit
from trackside.dispatcher.tuners.tuner import TriedParameters, TunerWaits, suggestion_seed
from trackside.domain.search import Search
from trackside.eventlog.log import Entry, Log
from trackside.eventlog.record_writer import RecordWriter

PAST_MAX = 5_000
"""So many trials at most a request tells of."""


class RemoteAdvisors:
    """Both kinds, and what they are asked; `limit_s` is how long they may take unless a search says so."""

    def __init__(
        self, into: Log, writer: RecordWriter, topics: Topics, signatures: SignatureVerifier, limit_s: float
    ) -> None:
        self._suggestions = RemoteExchange(
            into, writer, signatures, topics.suggestion_requests, topics.suggestions, AnswerSuggestion
        )
        self._assessments = RemoteExchange(
            into, writer, signatures, topics.assessment_requests, topics.assessments, AnswerAssessment
        )
        self.tuners = RemoteTuners(self._suggestions, limit_s)
        self.assessors = RemoteAssessors(self._assessments, limit_s)

    def hear(self, entry: Entry) -> None:
        """Takes what was written to a topic of answers; raises UndecodableError for what is none."""
        about_trials = entry.topic == self._assessments.answers.name
        (self._assessments if about_trials else self._suggestions).hear(entry)


class RemoteTuners:
    """Suggestions by processes elsewhere."""

    def __init__(self, exchange: RemoteExchange[AnswerSuggestion], limit_s: float) -> None:
        self._exchange = exchange
        self._limit_s = limit_s

    async def suggest(self, search: Search, past: list[HistoryItem], number: int) -> dict[str, Any] | None:
        """Asks for the parameters of a trial; None when nothing is left to try.

        Raises TunerWaits, AdvisorTimeout, AdviceFailed if the tuner answers that it failed, and InvalidAdvice
        for parameters that the trial cannot use.
        """
        known = TriedParameters(axes_of(search.spec.model_dump(mode="json")["space"]))
        request = self._request(search, list(past), number, known)
        answer = await self._exchange.ask(request, f"a tuner {request.tuner!r}")
        return _taken(answer, search, number, known)

    def _request(
        self, search: Search, past: list[HistoryItem], number: int, known: TriedParameters
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


def told(past: list[HistoryItem], known: TriedParameters) -> list[dict[str, Any]]:
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
    left = REQUEST_BYTES_MAX
    for trial in reversed(trials[-PAST_MAX:]):
        left -= len(json.dumps(trial))
        if left < 0:
            return
        yield trial


def _taken(
    answer: AnswerSuggestion, search: Search, number: int, known: TriedParameters
) -> dict[str, Any] | None:
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
        raise InvalidAdvice(f"{who} suggested at {fault[0]}: {fault[1]}")
    if known.has(answer.parameters):
        raise InvalidAdvice(f"{who} suggested what another trial has")
    return answer.parameters
