"""When the rounds of a job begin, and with which samples: as recorded, or by another trigger. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple, Protocol

from trackside.aggregates.rounds.job.job_spec import JobSpec
from trackside.aggregates.rounds.job.split import added, share_of
from trackside.aggregates.rounds.messages import Range
from trackside.aggregates.rounds.stages import triggers
from trackside.aggregates.rounds.stages.stage_events import close_version
from trackside.aggregates.rounds.stages.triggers import Known
from trackside.aggregates.rounds.state import SamplePool
from trackside.domain.tasks.retries import backoff_ms
from trackside.whatif.job_recording import EvalSamples, JobRecording, RoundTrace
from trackside.whatif.job_scenario import JobScenario

REACTION_MS = 1_000
"""A round that was recorded so soon after its trigger held began by that: services took this long."""


class RoundBegin(NamedTuple):
    """A round begins at a time, in ms since 1970; `recorded` is the round that began then in the record."""

    fired_ms: int
    spec: JobSpec
    train: Range
    evaluation: EvalSamples | None
    recorded: RoundTrace | None = None


class RoundBegins(Protocol):
    """Where rounds begin, one after another."""

    def after(self, ended_ms: int, released: Range | None) -> RoundBegin | None:
        """Returns the next round after one ended, at `ended_ms`, and `released` its samples if it failed.

        None if no more rounds begin.
        """


class RecordedBegins:
    """Rounds begin when they did; samples that failed rounds return are in the next one."""

    def __init__(self, recording: JobRecording) -> None:
        self._rounds = iter(recording.rounds)
        self._end: tuple[str, int] | None = None

    def after(self, ended_ms: int, released: Range | None) -> RoundBegin | None:
        """Returns the next recorded round."""
        trace = next(self._rounds, None)
        if trace is None:
            return None
        begin, end = trace.train
        dataset = trace.spec.dataset.name
        if self._end is not None and self._end[0] == dataset:
            begin = self._end[1] if released is None else released[0]
        self._end = dataset, end
        return RoundBegin(trace.fired_ms, trace.spec, (begin, end), trace.evaluation, trace)


@dataclass(frozen=True, slots=True)
class _Change:
    """What happened at a time: a definition, samples, hard examples, a pause, a command."""

    spec: JobSpec | None = None
    samples: tuple[int, int, dict[str, Any]] | None = None
    hard: int = 0
    paused: bool | None = None
    commanded: bool = False


class TriggeredBegins:
    """Rounds begin when the trigger of train holds, with what had arrived by then."""

    def __init__(self, recording: JobRecording, scenario: JobScenario) -> None:
        self._recording, self._scenario = recording, scenario
        self._changes: Sequence[tuple[int, _Change]] = list(_changes(recording))
        self._at = 0
        self._spec = recording.specs[0][1]
        self._trigger = scenario.train_trigger_of(self._spec)
        self._pool = self._new_pool()
        self._hard = 0
        self._paused = False
        self._now_ms = recording.created_ms
        self._fired_ms = 0
        self._failures = 0
        self._by_trigger = [each.fired_ms for each in recording.rounds if not each.command_id]

    def after(self, ended_ms: int, released: Range | None) -> RoundBegin | None:
        """Returns the next round, which begins when the trigger holds, or when a command asked for it."""
        if released is not None:
            self._pool.first = released[0]
        self._failures = 0 if released is None else self._failures + 1
        while True:
            next_ms = self._changes[self._at][0] if self._at < len(self._changes) else None
            due_ms = self._due_ms(ended_ms)
            last_ms = self._recording.last_ms if next_ms is None else next_ms - 1
            if due_ms is not None and due_ms <= last_ms:
                return self._begin(due_ms)
            if next_ms is None:
                return None
            change = self._changes[self._at][1]
            self._at += 1
            self._now_ms = max(self._now_ms, next_ms)
            self._apply(change)
            if change.commanded and self._may_begin() and next_ms >= ended_ms:
                return self._begin(next_ms)

    def _due_ms(self, ended_ms: int) -> int | None:
        """Returns when the trigger holds by what is known now, and the round may begin; None for never."""
        if not self._may_begin():
            return None
        earliest_ms = ended_ms + backoff_ms(self._failures)
        if self._fired_ms:
            earliest_ms = max(earliest_ms, self._fired_ms + int(self._spec.train.check_period_s * 1000))
        from_ms = max(self._now_ms, earliest_ms)
        known = Known(self._numbers(), ended_ms, ended_ms)
        if not triggers.holds(self._trigger, known, from_ms):
            found = triggers.next_change(self._trigger, known, from_ms, before=False)
            if found is None:
                return None
            from_ms = found
        return next((ms for ms in self._by_trigger if from_ms <= ms <= from_ms + REACTION_MS), from_ms)

    def _may_begin(self) -> bool:
        return not self._paused and self._pool.training > 0

    def _numbers(self) -> dict[str, Any]:
        pool = self._pool
        return {
            **pool.metrics,
            triggers.NUM_OF_SAMPLES: pool.training,
            triggers.NUM_OF_NEW_SAMPLES: pool.new,
            triggers.HARD_EXAMPLES: self._hard,
        }

    def _apply(self, change: _Change) -> None:
        if change.spec is not None:
            before, self._spec = self._spec, change.spec
            self._trigger = self._scenario.train_trigger_of(change.spec)
            if before.dataset.name != change.spec.dataset.name:
                self._pool = self._new_pool()
        if change.paused is not None:
            self._paused = change.paused
        if change.samples is not None:
            begin, end, found = change.samples
            share = share_of(self._scenario.train_prob_of(self._spec))
            self._pool.segments = added(self._pool.segments, begin, share)
            self._pool.end, self._pool.metrics = end, found
        self._hard += change.hard

    def _begin(self, fired_ms: int) -> RoundBegin:
        pool = self._pool
        versions = close_version(pool, self._spec.dataset.eval_versions)
        train = pool.first, pool.end
        pool.first, self._hard = pool.end, 0
        self._now_ms = self._fired_ms = fired_ms
        name = self._spec.dataset.name
        evaluation = (name, versions[0][0], versions[-1][1]) if versions else None
        return RoundBegin(fired_ms, self._spec, train, evaluation)

    def _new_pool(self) -> SamplePool:
        first = self._spec.dataset.begin
        return SamplePool(first=first, end=first, version_begin=first)


def _changes(recording: JobRecording) -> Iterator[tuple[int, _Change]]:
    """Yields what happened to a job, in order of time."""
    order = count()
    found = [(ms, next(order), _Change(spec=spec)) for ms, spec in recording.specs[1:]]
    found += [(ms, next(order), _Change(paused=paused)) for ms, paused in recording.pauses]
    found += [(ms, next(order), _Change(samples=(a, b, seen))) for ms, a, b, seen in recording.samples]
    found += [(ms, next(order), _Change(hard=hard)) for ms, hard in recording.hard_examples]
    commanded = (each for each in recording.rounds if each.command_id)
    found += [(each.fired_ms, next(order), _Change(commanded=True)) for each in commanded]
    for ms, _, change in sorted(found, key=lambda each: each[:2]):
        yield ms, change
