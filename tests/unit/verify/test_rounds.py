"""INV-23 and INV-24 of jobs of incremental learning: each seeded bug in a log is found."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.unit.aggregates.rounds.given import JOB, JobLog, digest
from tests.unit.verify.mutants import lax, verified
from trackside.aggregates.rounds.job.deploy_messages import (
    DeployDecided,
    ModelCopied,
    ModelDeployed,
    ModelRolledBack,
    ModelUpdateConfirmed,
    ModelUpdatePublished,
)
from trackside.aggregates.rounds.messages import RoundEnded, RoundStarted, SamplesAssigned
from trackside.contracts.envelope.message import Message, Record

DEPLOY = {"services": [{"name": "api", "task_type": "serve"}], "copy_to": {"url": "/srv/live.safetensors"}}
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
    verifier = verified(records, lax(lambda _: applies_all))
    findings = [*verifier.finish(), *verifier.findings.open]
    ours = ("INV-10", "INV-23", "INV-24")
    return {(each.invariant, each.message) for each in findings if each.invariant in ours}


def changed(kind: type[Message], at: int = 0, **fields: Any) -> list[Record]:
    records = job_log().records
    places = [index for index, record in enumerate(records) if isinstance(record.message, kind)]
    record = records[places[at]]
    records[places[at]] = replace(record, message=record.message.model_copy(update=fields))
    return records


def without(kind: type[Message], at: int = 0) -> list[Record]:
    records = job_log().records
    places = [index for index, record in enumerate(records) if isinstance(record.message, kind)]
    return [record for index, record in enumerate(records) if index != places[at]]


def test_a_job_with_a_failure_deployments_and_a_rollback_is_no_finding() -> None:
    assert [event.update for event in job_log().of(ModelDeployed)] == [1, 2, 3, 4]
    assert found(job_log().records) == found(job_log().records, applies_all=True) == set()


def never_live() -> Any:
    """Returns a model with bytes that no version has."""
    initial = job_log().job.initial
    return initial.model_copy(update={"artifact": initial.artifact.model_copy(update={"sha256": OTHER})})


BUGS: list[tuple[str, Callable[[], list[Record]], str]] = [
    # A sample trains twice, is left out, is divided twice, or is neither for training nor for evaluation.
    ("INV-23", partial(changed, RoundStarted, 2, train=(0, 30)), "trains with samples (0, 30), expected"),
    ("INV-23", partial(changed, SamplesAssigned, 1, begin=11), "11 to 20 are divided, the next one is 10"),
    ("INV-23", partial(changed, SamplesAssigned, 1, begin=9), "9 to 20 are divided, the next one is 10"),
    ("INV-23", partial(changed, SamplesAssigned, evaluation=1), "8 and 1 samples are not 10"),
    ("INV-23", partial(changed, RoundEnded, released=None), "None is released, expected (0, 10)"),
    ("INV-24", partial(without, DeployDecided), "was not decided"),
    ("INV-24", partial(changed, DeployDecided, deploy=False), "was not decided"),
    ("INV-24", partial(changed, ModelUpdatePublished, 1, model=job_log().job.initial), "was not decided"),
    ("INV-24", partial(without, ModelUpdateConfirmed), "is live that serve.api.1 has not confirmed"),
    ("INV-24", partial(without, ModelCopied), "is live that copy has not confirmed"),
    ("INV-24", partial(changed, ModelUpdateConfirmed, sha256=OTHER), "serve.api.1 confirms other bytes"),
    ("INV-24", partial(changed, ModelUpdateConfirmed, target="serve.api.9"), "that it was not asked for"),
    ("INV-24", partial(changed, ModelDeployed, sha256=OTHER), "is live is not that of the update"),
    ("INV-24", partial(changed, ModelRolledBack, model=never_live()), "digits-model@1 was never live"),
    ("INV-10", partial(changed, RoundStarted, 1, number=3), "round 3 starts, expected 2"),
]


@pytest.mark.parametrize(("invariant", "records", "message"), BUGS)
def test_a_log_with_a_bug_is_found(invariant: str, records: Callable[[], list[Record]], message: str) -> None:
    findings = found(records(), applies_all=True)
    assert any(each == invariant and message in text for each, text in findings), findings
