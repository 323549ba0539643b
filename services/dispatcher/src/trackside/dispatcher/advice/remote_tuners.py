"""Tuners that are separate processes: what a request has of a search, and what an answer suggests.

An answer is a proposal: a suggestion counts when the log has it as TrialSuggested.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from trackside.aggregates.search.advice.advice_messages import AnswerSuggestion, SuggestionRequested
from trackside.aggregates.search.space.axes import axes_of, parameters_faults
from trackside.aggregates.search.state import Search
from trackside.dispatcher.advice.advisor_process import AdviceFailed, InvalidAdvice
from trackside.dispatcher.advice.remote_exchange import REQUEST_BYTES_MAX, RemoteExchange
from trackside.dispatcher.advice.tuner_history import HistoryItem
from trackside.dispatcher.tuners.tuner import TriedParameters, TunerWaits, suggestion_seed

PAST_TRIALS_MAX = 5_000
"""A request has at most so many trials of a search's past."""


class RemoteTuners:
    """Suggestions by separate processes."""

    def __init__(self, exchange: RemoteExchange[AnswerSuggestion], limit_s: float) -> None:
        self._exchange = exchange
        self._limit_s = limit_s

    async def suggest(self, search: Search, history: list[HistoryItem], number: int) -> dict[str, Any] | None:
        """Asks for the parameters of a trial; returns None when nothing is left to try.

        Raises TunerWaits, AdvisorTimeout, AdviceFailed if the tuner answers that it failed, and InvalidAdvice
        for parameters that the trial cannot use.
        """
        tried = TriedParameters(axes_of(search.spec.model_dump(mode="json")["space"]))
        request = self._request(search, list(history), number, tried)
        answer = await self._exchange.ask(request, f"a tuner {request.tuner!r}")
        return _parameters_of(answer, search, number, tried)

    def _request(
        self, search: Search, history: list[HistoryItem], number: int, tried: TriedParameters
    ) -> SuggestionRequested:
        tuner, seen = search.spec.tuner, search.opened[number]
        trials = past_trials(history, tried)
        included = list(_newest(trials))[::-1]
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
            past=included,
            omitted=len(trials) - len(included),
        )


def past_trials(history: list[HistoryItem], tried: TriedParameters) -> list[dict[str, Any]]:
    """Returns a search's history as a request has it, and adds its parameters to `tried`."""
    trials: list[dict[str, Any]] = []
    by_number: dict[int, dict[str, Any]] = {}
    for item in history:
        match item:
            case ("suggested", number, parameters):
                tried.put(number, parameters)
                by_number[number] = _trial(number, parameters, "running", None)
                trials.append(by_number[number])
            case ("ended", number, state, value, reports):
                last = max(reports)[1] if state == "pruned" and reports else value
                by_number[number].update(state=state, value=last)
            case ("imported", parameters, value):
                tried.add(parameters)
                trials.append(_trial(None, parameters, "complete", value))
    return trials


def _trial(
    number: int | None, parameters: Mapping[str, Any], state: str, value: float | None
) -> dict[str, Any]:
    return {"number": number, "parameters": dict(parameters), "state": state, "value": value}


def _newest(trials: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields the newest trials that a request has room for, the newest first."""
    bytes_left = REQUEST_BYTES_MAX
    for trial in reversed(trials[-PAST_TRIALS_MAX:]):
        bytes_left -= len(json.dumps(trial))
        if bytes_left < 0:
            return
        yield trial


def _parameters_of(
    answer: AnswerSuggestion, search: Search, number: int, tried: TriedParameters
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
    faults = parameters_faults(axes_of(search.spec.model_dump(mode="json")["space"]), answer.parameters)
    if faults:
        path, message = faults[0]
        raise InvalidAdvice(f"{who} suggested at {path}: {message}")
    if tried.has(answer.parameters):
        raise InvalidAdvice(f"{who} suggested what another trial has")
    return answer.parameters
