"""Rows of searches and their trials."""

from collections.abc import Iterable

from trackside.aggregates.search.messages import TRIAL, TrialEnded, TrialSuggested
from trackside.aggregates.search.state import Search, SearchEvent, Trial, search_of, trial_status, trial_trace
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.envelope.trace_context import trace_id
from trackside.domain.rows.cells import bigint, bigints, json_text, time_or_null, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.stream import Stream


class SearchRows:
    """One row per search."""

    table = Table(
        "searches",
        (
            "search_id",
            "name",
            "status",
            "task_type",
            "tuner",
            "assessor",
            "direction",
            "max_trials",
            "concurrency",
            "queue",
            "seed",
            "trials",
            "ended_trials",
            "best_trial",
            "best_value",
            "best_parameters",
            "pareto_front",
            "started_ms",
            "ended_ms",
            "stop_reason",
            "failure",
            "spec",
            "trace_id",
        ),
        key_width=1,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the search of any event about it."""
        return ((stream.stream_id,),) if isinstance(event, SearchEvent) else ()

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the stream's search, if it has one."""
        return () if search_of(stream) is None else ((stream.stream_id,),)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of the search."""
        search = search_of(stream)
        assert search is not None
        spec, best = search.spec, _best(search)
        return (
            *key,
            without_nul(spec.name),
            search.status.value,
            without_nul(spec.task_type),
            without_nul(spec.tuner.name),
            None if spec.assessor is None else without_nul(spec.assessor.name),
            spec.direction,
            spec.max_trials,
            spec.concurrency,
            spec.queue,
            bigint(search.seed),
            len(search.trials),
            len(search.ends),
            None if best is None else best.number,
            None if best is None else best.value,
            None if best is None else json_text(best.parameters),
            [number for number in search.front if number < len(search.trials)],
            search.started_ms,
            time_or_null(search.ended_ms),
            without_nul(search.stop_reason),
            without_nul(search.failure),
            json_text(spec),
            trace_id(stream.traceparent),
        )


class TrialRows:
    """One row per trial; its reports are those of the newest attempt of its task."""

    table = Table(
        "trials",
        (
            "search_id",
            "trial",
            "task_id",
            "status",
            "source",
            "space_version",
            "value",
            "non_finite",
            "objective_values",
            "others",
            "missing",
            "parameters",
            "outside",
            "suggested_ms",
            "ended_ms",
            "last_step",
            "last_value",
            "report_steps",
            "report_values",
            "from_trial",
            "from_step",
            "step_limit",
            "trace_id",
        ),
        key_width=2,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the trial of an event about it, or about its task before its end."""
        if isinstance(event, TrialSuggested | TrialEnded):
            return ((stream.stream_id, event.trial),)
        task = stream.tasks.get(getattr(event, "task_id", ""))
        number = None if task is None else number_of(task.part, TRIAL)
        trial = None if number is None else _trial_of(stream, number)
        return () if trial is None or trial.ended_at >= 0 else ((stream.stream_id, trial.number),)

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns all trials of the stream's search that are not trimmed."""
        search = search_of(stream)
        if search is None:
            return
        trimmed = set(search.ends[: search.trimmed])
        for trial in search.trials:
            if trial.number not in trimmed:
                yield (stream.stream_id, trial.number)

    def settled_keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the trials that have ended and are not trimmed."""
        search = search_of(stream)
        ended = [] if search is None else search.ends[search.trimmed :]
        return ((stream.stream_id, number) for number in ended)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a trial."""
        trial = _trial_of(stream, key[1])
        assert trial is not None
        task_id = trial.task_of(stream.stream_id)
        task = stream.tasks.get(task_id)
        reports = trial.reports if trial.ended_at >= 0 or task is None else task.reports
        others = trial.others if trial.ended_at >= 0 or task is None else task.others
        last_step, last_value = reports[-1] if reports else (None, None)
        return (
            *key,
            task_id,
            trial_status(trial, task).value,
            trial.source,
            trial.space_version,
            trial.value,
            trial.non_finite or None,
            [value if isinstance(value, float) else None for value in trial.values] or None,
            json_text(others) if others else None,
            [without_nul(name) for name in trial.missing],
            json_text(trial.parameters),
            [without_nul(name) for name in trial.outside],
            trial.suggested_ms,
            time_or_null(trial.ended_ms),
            None if last_step is None else bigint(last_step),
            last_value,
            bigints([step for step, _ in reports]),
            [value for _, value in reports],
            trial.from_trial,
            None if trial.from_checkpoint is None else bigint(trial.from_checkpoint.step),
            None if trial.step_limit is None else bigint(trial.step_limit),
            trace_id(trial_trace(stream, key[1])),
        )


def _best(search: Search) -> Trial | None:
    return None if search.best is None or search.best >= len(search.trials) else search.trials[search.best]


def _trial_of(stream: Stream, number: int) -> Trial | None:
    search = search_of(stream)
    return search.trials[number] if search is not None and 0 <= number < len(search.trials) else None
