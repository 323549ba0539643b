"""INV-23 and INV-24 of jobs of incremental learning: each seeded bug, in the fold or in a log, is found."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.aggregates.rounds.given import AGGREGATES, JOB, JobLog, digest
from trackside.aggregates.rounds import evolve, stage_events
from trackside.aggregates.rounds.deploy_messages import (
    DeployDecided,
    ModelCopied,
    ModelDeployed,
    ModelRolledBack,
    ModelUpdateConfirmed,
    ModelUpdatePublished,
)
from trackside.aggregates.rounds.messages import RoundEnded, RoundStarted, SamplesAssigned
from trackside.aggregates.rounds.state import IncrementalJob
from trackside.contracts.message import Message, Record
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream
from trackside.domain.streams import Streams
from trackside.verify.verifier import Verifier

DEPLOY = {
    "services": [{"name": "api", "task_type": "serve"}],
    "copy_to": {"url": "/srv/live.safetensors"},
}
OTHER = digest("other")


def job_log() -> JobLog:
    """Returns the log of a job with a failed round, two deployments and a rollback."""
    log = JobLog(next_accuracy=lambda number: 0.5 + number / 10)
    log.create(deploy=DEPLOY)
    log.work()
    log.append(10)
    (task,) = [each for each in log.tasks() if each.task_type != "serve"]
    log.do(task)
    (task,) = [each for each in log.tasks() if each.task_type != "serve"]
    log.end(task, error="ValueError")
    log.wait(60)
    for _ in range(2):
        log.append(10)
        log.work()
        log.wait(1)
    log.command(JOB, "trackside.rollback-model.v1", {"version": 1})
    log.work()
    return log


def found(records: Iterable[Record], *, applies_all: bool = False) -> set[tuple[str, str]]:
    """Returns the invariants and messages of what is found; if asked with a fold that applies everything."""
    streams = Streams(AGGREGATES)

    def fold(record: Record) -> tuple[Stream, Outcome]:
        stream, outcome = streams.fold(record)
        return stream, Outcome.APPLIED if applies_all else outcome

    verifier = Verifier(fold)
    for record in records:
        verifier.take(record)
    findings = [*verifier.finish(), *verifier.findings.open]
    ours = ("INV-10", "INV-23", "INV-24")
    return {(each.invariant, each.message) for each in findings if each.invariant in ours}


def changed(kind: type[Message], at: int = 0, **fields: Any) -> list[Record]:
    """Returns the log with other fields in an event of a kind: the first one, or the one at a position."""
    records = job_log().records
    places = [index for index, record in enumerate(records) if isinstance(record.message, kind)]
    record = records[places[at]]
    records[places[at]] = replace(record, message=record.message.model_copy(update=fields))
    return records


def without(kind: type[Message], at: int = 0) -> list[Record]:
    """Returns the log without an event of a kind."""
    records = job_log().records
    places = [index for index, record in enumerate(records) if isinstance(record.message, kind)]
    return [record for index, record in enumerate(records) if index != places[at]]


def test_a_job_with_a_failure_deployments_and_a_rollback_is_no_finding() -> None:
    assert [event.update for event in job_log().of(ModelDeployed)] == [1, 2, 3, 4]
    assert found(job_log().records) == found(job_log().records, applies_all=True) == set()


BUGS: dict[str, tuple[Callable[[], list[Record]], str, str]] = {
    "a sample trains twice": (
        lambda: changed(RoundStarted, 2, train=(0, 30)),
        "INV-23",
        "the round trains with samples (0, 30), expected",
    ),
    "a sample is left out": (
        lambda: changed(SamplesAssigned, 1, begin=11),
        "INV-23",
        "samples 11 to 20 are divided, the next one is 10",
    ),
    "a sample is divided twice": (
        lambda: changed(SamplesAssigned, 1, begin=9),
        "INV-23",
        "samples 9 to 20 are divided, the next one is 10",
    ),
    "a sample is neither for training nor for evaluation": (
        lambda: changed(SamplesAssigned, evaluation=1),
        "INV-23",
        "8 and 1 samples are not 10",
    ),
    "the samples of a failed round are lost": (
        lambda: changed(RoundEnded, released=None),
        "INV-23",
        "None is released, expected (0, 10)",
    ),
    "a decision is missing": (
        lambda: without(DeployDecided),
        "INV-24",
        "was not decided",
    ),
    "a decision says no": (
        lambda: changed(DeployDecided, deploy=False),
        "INV-24",
        "was not decided",
    ),
    "another model is published": (
        lambda: changed(ModelUpdatePublished, 1, model=job_log().job.initial),
        "INV-24",
        "was not decided",
    ),
    "a service has not confirmed": (
        lambda: without(ModelUpdateConfirmed),
        "INV-24",
        "a model is live that serve.api.1 has not confirmed",
    ),
    "a file was not copied": (
        lambda: without(ModelCopied),
        "INV-24",
        "a model is live that copy has not confirmed",
    ),
    "a service has confirmed other bytes": (
        lambda: changed(ModelUpdateConfirmed, sha256=OTHER),
        "INV-24",
        "serve.api.1 confirms other bytes than those of the update",
    ),
    "a service confirms that was not asked": (
        lambda: changed(ModelUpdateConfirmed, target="serve.api.9"),
        "INV-24",
        "serve.api.9 confirms an update that it was not asked for",
    ),
    "other bytes are live": (
        lambda: changed(ModelDeployed, sha256=OTHER),
        "INV-24",
        "the model that is live is not that of the update",
    ),
    "a model is live again that never was": (
        lambda: changed(ModelRolledBack, model=never_live()),
        "INV-24",
        "digits-model@1 was never live",
    ),
    "a round is skipped": (
        lambda: changed(RoundStarted, 1, number=3),
        "INV-10",
        "round 3 starts, expected 2",
    ),
}


def never_live() -> Any:
    """Returns a model with bytes that no version has."""
    initial = job_log().job.initial
    return initial.model_copy(update={"artifact": initial.artifact.model_copy(update={"sha256": OTHER})})


@pytest.mark.parametrize("bug", BUGS)
def test_a_log_with_a_seeded_bug_is_found(bug: str) -> None:
    records, invariant, message = BUGS[bug]
    findings = found(records(), applies_all=True)
    assert any(each == invariant and message in text for each, text in findings), findings


def test_a_fold_that_gives_samples_to_two_rounds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begin_round = stage_events._begin_round

    def keeping(job: IncrementalJob, record: Record) -> None:
        begin_round(job, record)
        assert job.round is not None
        if job.round.number == 2:
            job.pool.first = job.round.train[0]

    monkeypatch.setattr(stage_events, "_begin_round", keeping)
    assert any(each == "INV-23" for each, _ in found(job_log().records))


def test_a_fold_that_waits_for_no_confirmation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[Any, Any] = evolve.HANDLERS
    published = handlers[ModelUpdatePublished]

    def careless(job: IncrementalJob, event: ModelUpdatePublished, record: Record) -> Outcome:
        outcome: Outcome = published(job, event, record)
        if job.update is not None:
            job.update.open.clear()
        return outcome

    monkeypatch.setitem(handlers, ModelUpdatePublished, careless)
    findings = found(job_log().records)
    assert any("has not confirmed" in text for _, text in findings), findings
