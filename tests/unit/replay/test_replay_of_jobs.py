from dataclasses import replace
from functools import cache

import pytest

from tests.unit.aggregates.rounds.given import JOB, JobLog
from trackside.aggregates.registry import AGGREGATES
from trackside.cli.commands.replay.why import SHOWN_CAUSES, TEXT_AT, drawn
from trackside.domain.folding.fold import fold
from trackside.domain.streams.causality import StreamSubject
from trackside.domain.streams.stream import Stream
from trackside.replay.causality.causes import Causes
from trackside.replay.causality.why import Why, explain, named
from trackside.replay.derive.job_fork import fork_job
from trackside.replay.history.errors import BadScenarioError
from trackside.replay.history.state_view import changes, state_view

BETTER_EACH_ROUND = [0.7, 0.75, 0.9]


def recorded() -> JobLog:
    """Returns a job of three rounds, of which the first and third deploy their models to a file."""
    log = JobLog()
    log.next_accuracy = lambda number: BETTER_EACH_ROUND[number - 1]
    better = {"type": "condition", "metric": "accuracy_delta", "operator": ">", "threshold": 0.1}
    log.create(deploy={"trigger": better, "copy_to": {"url": "/srv/live.bin"}})
    for _ in BETTER_EACH_ROUND:
        log.now_ms += 60_000
        log.append(10)
        log.work(100)
    return log


def asked(log: JobLog, subject: str) -> Why:
    causes = Causes(Stream(JOB, 0))
    for record in log.records:
        if record.envelope.headers["ce_partitionkey"] == JOB.encode():
            causes.take(record)
    return explain(causes.steps, named(causes.steps, JOB, subject))


@pytest.mark.parametrize("subject", ["3", "round 3"])
def test_a_round_is_explained_by_its_samples_trigger_base_numbers_and_confirmations(subject: str) -> None:
    found = asked(recorded(), subject)
    assert found.subject.part == "round 3"
    said = [(each.what, each.said) for each in (*found.causes, *found.own)]
    texts = [f"{what} {text}" for what, text in said]
    for expected in (
        "SamplesAssigned 20 to 30: 8 train, 2 eval, digest ",
        "TriggerEvaluated train fired",
        "SampleManifestWritten train 8 lines ",
        "RoundStarted round 3 from digits-model@3, samples 20 to 30",
        "StageEnded train Completed digits-model@4",
        "DeployDecided deploy: accuracy_delta > 0.1: it is 0.2",
        "ModelUpdatePublished digits-model@4 to copy",
        "ModelCopied copy ",
        "ModelDeployed digits-model@4 ",
        "RoundEnded round 3 completed deployed",
    ):
        assert [text for text in texts if text.startswith(expected)], expected


@cache
def twenty_parts() -> JobLog:
    """Returns a job for which samples came in twenty parts of two, and whose rounds begin with many."""
    trigger = {"type": "condition", "metric": "num_of_samples", "operator": ">=", "threshold": 16}
    log = JobLog()
    log.create(train={"task_type": "train", "check_period_s": 0, "trigger": trigger})
    for _ in range(20):
        log.append(2)
    log.work(100)
    return log


def test_the_causes_of_a_round_are_all_assignments_whose_samples_it_uses() -> None:
    log = twenty_parts()
    for number, expected in ((1, range(0, 20, 2)), (2, range(0, 40, 2))):
        assigned = [each for each in asked(log, str(number)).causes if each.what == "SamplesAssigned"]
        assert [each.said.partition(" to ")[0] for each in assigned] == [str(begin) for begin in expected]


def test_of_many_causes_that_follow_events_of_one_stream_the_last_one_is_gone_back_to() -> None:
    log = twenty_parts()
    found = asked(log, "2")
    feeds = {it.offset: [StreamSubject("feed", f"@{it.offset}")] for it in found.causes if not it.task}
    steps = [replace(step, origins=feeds.get(step.offset, step.origins)) for step in found.causes]
    last = max(step.offset for step in steps if step.what == "SamplesAssigned")
    events = [each for each in replace(found, causes=steps).origins if each.stream == "feed"]
    assert StreamSubject("feed", f"@{last}") in events
    assert len(events) == len({step.what for step in steps if not step.task})


def test_many_causes_of_one_type_are_counted_and_what_a_round_has_decided_is_not_cut() -> None:
    log = twenty_parts()
    lines = [line.plain for line in drawn(asked(log, "2"), JOB)]
    assert len([at for at, line in enumerate(lines) if " SamplesAssigned " in line]) == SHOWN_CAUSES
    assert any(line.endswith(f"and {20 - SHOWN_CAUSES} more SamplesAssigned") for line in lines)
    assert any("TaskSubmitted" in line and " r2.train.1 " in line for line in lines)
    whole = [line for line in drawn(asked(log, "2"), JOB) if line.no_wrap is False]
    assert any("DeployDecided" in line.plain for line in whole)
    assert all(line.plain[TEXT_AT - 1] == " " and line.plain[TEXT_AT] != " " for line in whole)


def test_a_round_that_a_command_began_names_the_command() -> None:
    log = JobLog()
    trigger = {"type": "manual"}
    log.create(train={"task_type": "train", "check_period_s": 0, "trigger": trigger})
    log.append(10)
    (accepted, *_) = log.command(JOB, "trackside.fire-train.v1", {})
    log.work(100)
    found = asked(log, "1")
    (fired,) = [each for each in found.own if each.said.startswith("train fired")]
    assert fired.command == accepted.command_id  # type: ignore[attr-defined]


def test_a_fork_begins_with_the_live_model_and_the_first_sample_that_no_round_used() -> None:
    log = recorded()
    log.command(JOB, "trackside.pause-incremental-job.v1", {})
    log.append(5)
    made = fork_job(log.job, {"deploy.trigger.threshold": 0.05}, "digits-2")
    assert (made.model, made.first_sample) == ("digits-model@4", 30)
    assert made.command.dataset.begin == 30
    assert made.command.initial_model.version == 4
    log.command("digits-2", made.command)
    assert log.streams.by_id["digits-2"].root.round.train == (30, 35)


def test_a_fork_within_a_round_uses_the_samples_of_that_round_again_and_has_fields_of_a_job_only() -> None:
    log = JobLog()
    log.create()
    log.append(10)
    assert log.job.round is not None
    assert fork_job(log.job, {}, "digits-2").first_sample == 0
    for name in ("deploy.tigger.threshold", "dataset.name.x", "nothing"):
        with pytest.raises(BadScenarioError):
            fork_job(log.job, {name: 1}, "digits-2")


def test_a_fork_replaces_no_file_of_the_recorded_job_unless_it_is_told_to() -> None:
    job = recorded().job
    made = fork_job(job, {}, "digits-2")
    assert made.command.output.url == f"{job.spec.output.url}/digits-2"
    assert (made.command.deploy.copy_to, made.not_copied_to) == (None, "/srv/live.bin")
    told = {"output.url": job.spec.output.url, "deploy.copy_to.url": "/srv/other.bin"}
    made = fork_job(job, told, "digits-2")
    assert made.command.output.url == job.spec.output.url
    assert made.command.deploy.copy_to is not None and not made.not_copied_to
    assert made.command.deploy.copy_to.url == "/srv/other.bin"


def test_the_state_at_two_moments_and_their_difference_show_the_live_model() -> None:
    log = recorded()
    stream, views = Stream(JOB, 0), []
    ends = [event for event in log.records if type(event.message).__name__ == "RoundEnded"]
    for record in log.records:
        if record.envelope.headers["ce_partitionkey"] == JOB.encode():
            fold(stream, record, AGGREGATES)
            if record in ends:
                views.append(state_view(stream))
    found = changes(views[0], views[-1])
    assert any("digits-model@4" in str(change) for change in found), found
    assert changes(views[0], views[0]) == []
