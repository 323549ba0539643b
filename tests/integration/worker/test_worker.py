"""A worker with real processes over a log in memory."""

import os
import signal
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.integration.worker.harness import (
    WorkerHarness,
    alive,
    memory_log,
    of,
    parent_of,
    running,
    settings_for,
    stream_of,
)
from tests.secret_samples import SECRETS
from trackside.contracts.fleet import WorkerHeartbeat, WorkerHeartbeatDigest, WorkerLeft
from trackside.contracts.message import Message
from trackside.contracts.summaries import OutputWritten
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    TaskAccepted,
    TaskRefused,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.contracts.topics import Topics
from trackside.contracts.trace_context import trace_id
from trackside.domain.heartbeats import WHOLE_EVERY, HeartbeatViews
from trackside.telemetry import context
from trackside.worker.temporary_folders import link_of


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[WorkerHarness]:
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, settings_for(tmp_path)) as made:
        yield made


async def test_a_task_runs_from_command_to_result(harness: WorkerHarness) -> None:
    """T2, T4, T9."""
    await harness.run("a", {"reports": [0.5, 0.75], "value": 0.8})
    story = await harness.events_until_end("a")
    assert isinstance(story[0], TaskAccepted)
    assert [event.status for event in of(story, TaskStatusChanged)] == [
        TaskStatus.AVAILABLE,
        TaskStatus.LOADING,
        TaskStatus.WAITING,
        TaskStatus.TRAINING,
    ]
    told = [(event.kind, event.step, event.value) for event in of(story, MetricReported)]
    assert told == [("PERIODICAL", 0, 0.5), ("PERIODICAL", 1, 0.75), ("FINAL", 2, 0.8)]
    end = story[-1]
    assert isinstance(end, AttemptEnded)
    assert (end.end, end.exit_code, end.recovered) == (AttemptEnd.FINISHED, 0, False)
    assert end.result is not None and end.result["device"] == "cpu"
    assert end.load_time_ms >= 0 and end.train_time_ms >= 0


async def test_reports_are_points_to_look_at_too(harness: WorkerHarness) -> None:
    await harness.run("a", {"reports": [0.5, 0.75]})
    assert await harness.points("a", 2) == {"objective": [(0, 0.5), (1, 0.75)]}


async def test_output_goes_to_the_logs_without_secrets(harness: WorkerHarness) -> None:
    await harness.run("a", {"print": "hello password=hunter2"})
    written = await harness.first(OutputWritten, harness.topics.logs, "a")
    assert (written.source, written.first_line, written.lines) == (
        "stdout",
        1,
        ["hello password=[redacted]"],
    )


async def test_a_private_key_in_the_output_is_masked_to_its_last_line(harness: WorkerHarness) -> None:
    await harness.run("a", {"print": f"before\n{SECRETS['private key']}\nafter"})
    written = await harness.first(OutputWritten, harness.topics.logs, "a")
    assert written.lines == ["before", *["[redacted]"] * 4, "after"]


@pytest.mark.parametrize(
    ("stage", "kind"), [("load", "RuntimeError"), ("train", "ValueError"), ("report", "UnreportableError")]
)
async def test_an_exception_becomes_an_event_with_stage_and_traceback(
    harness: WorkerHarness, stage: str, kind: str
) -> None:
    """T5, T9; T12: a result that can't be told ends the attempt, where the reference hung."""
    await harness.run("a", {"fail": stage})
    end = await harness.end("a")
    assert end.end is AttemptEnd.FAILED and end.error is not None
    assert (end.error.stage, end.error.type) == (stage.upper(), kind)
    assert kind in end.error.traceback
    assert ("noop.py" in end.error.traceback) == (stage != "report")
    await harness.run("b")
    assert (await harness.end("b")).end is AttemptEnd.FINISHED


async def test_a_task_sees_an_allow_list_of_the_environment_and_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", "postgres://me:secret@host/db")
    monkeypatch.setenv("SOMETHING_ELSE", "1")
    topics = Topics("t.")
    parent = context.new_traceparent()
    async with running(await memory_log(topics), topics, settings_for(tmp_path)) as harness:
        await harness.run("a", {"show_environment": True}, traceparent=parent)
        result = (await harness.end("a")).result or {}
    seen = result["environment"]
    assert not {"TRACKSIDE_POSTGRES_DSN", "SOMETHING_ELSE"} & (set(seen) | set(result["began_with"]))
    assert (seen["TRACKSIDE_TASK_ID"], seen["TRACKSIDE_ATTEMPT"]) == ("a", "1")
    assert trace_id(seen["TRACEPARENT"]) == trace_id(parent)
    assert seen["CUDA_VISIBLE_DEVICES"] == ""
    assert seen["TMPDIR"] == str(link_of(Path(result["workdir"])))
    assert result["workdir"].startswith(str(tmp_path))
    assert list((tmp_path / "tasks").iterdir()) == []


async def test_a_value_that_is_not_finite_travels_by_its_name(harness: WorkerHarness) -> None:
    await harness.run("a", {"reports": ["nan"]})
    reported = await harness.first(MetricReported, harness.topics.events, stream_of("a"))
    assert (reported.value, reported.non_finite) == (None, "nan")


async def test_a_killed_task_fails_with_its_signal(harness: WorkerHarness) -> None:
    """T6, T11."""
    await harness.run("a", {"crash": signal.SIGKILL.value})
    end = await harness.end("a")
    assert (end.end, end.exit_code) == (AttemptEnd.FAILED, -signal.SIGKILL)
    assert end.error is not None and "SIGKILL" in end.error.message
    assert end.error.stage == "TRAIN"


async def test_a_task_that_exits_without_a_word_fails_with_its_code(harness: WorkerHarness) -> None:
    await harness.run("a", {"exit": 3})
    end = await harness.end("a")
    assert (end.end, end.exit_code) == (AttemptEnd.FAILED, 3)


async def test_a_repeated_command_runs_once_and_is_answered_again(harness: WorkerHarness) -> None:
    command = await harness.run("a", {"value": 1})
    await harness.send(command)
    await harness.end("a")
    await harness.send(command)
    story = await harness.events_until_end("a", ends=2)
    first, second = of(story, AttemptEnded)
    assert first == second
    assert len(of(story, MetricReported)) == 1
    assert len(of(story, TaskStatusChanged)) == 4


async def test_an_unknown_task_type_is_refused(harness: WorkerHarness) -> None:
    await harness.run("a", task_type="noob")
    refused = await harness.first(TaskRefused, harness.topics.events, stream_of("a"))
    assert refused.code == "unknown_task_type"


async def test_a_second_task_on_a_busy_device_is_refused(harness: WorkerHarness) -> None:
    first = await harness.run("a", {"wait_for_stop": True})
    await harness.run("b")
    refused = await harness.first(TaskRefused, harness.topics.events, stream_of("b"))
    assert refused.code == "device_busy"
    await harness.run("c", device="cpu-1")
    assert (await harness.end("c")).end is AttemptEnd.FINISHED
    await harness.stop(first)
    await harness.end("a")


async def test_a_command_for_another_incarnation_is_ignored(harness: WorkerHarness) -> None:
    await harness.joined()
    await harness.run("a", incarnation="some-other")
    await harness.run("b")
    await harness.end("b")
    place = await harness.log.ends(harness.topics.events.name)
    assert sum(place.values()) == len(await harness.events_until_end("b"))


async def test_a_task_that_asks_may_tidy_up_when_it_is_stopped(harness: WorkerHarness) -> None:
    command = await harness.run("a", {"wait_for_stop": True})
    await harness.messages(
        harness.topics.events, stream_of("a"), lambda all_: len(of(all_, TaskStatusChanged)) == 4
    )
    await harness.stop(command)
    assert (await harness.end("a")).end in (AttemptEnd.FINISHED, AttemptEnd.CANCELLED)


async def test_a_stop_that_comes_first_keeps_the_task_from_running(harness: WorkerHarness) -> None:
    incarnation = (await harness.joined()).incarnation
    command = await harness.run("a", incarnation="none")  # only to have its fields
    command = command.model_copy(update={"incarnation": incarnation})
    await harness.stop(command)
    assert (await harness.end("a")).end is AttemptEnd.CANCELLED
    await harness.send(command)
    story = await harness.events_until_end("a", ends=2)
    assert of(story, TaskAccepted) == []


async def test_heartbeats_name_what_runs(harness: WorkerHarness) -> None:
    command = await harness.run("a", {"wait_for_stop": True})
    beats = await harness.messages(
        harness.topics.heartbeats, "w1", lambda all_: any(beat.running for beat in of(all_, WorkerHeartbeat))
    )
    running_now = of(beats, WorkerHeartbeat)[-1].running
    assert [(each.task_id, each.device_ids) for each in running_now] == [("a", ["cpu-0"])]
    await harness.stop(command)
    await harness.end("a")


async def test_heartbeats_between_changes_are_digests_of_the_last_whole_one(harness: WorkerHarness) -> None:
    command = await harness.run("a", {"wait_for_stop": True})

    def digests_while_it_runs(messages: list[Message]) -> list[WorkerHeartbeatDigest]:
        numbers = {beat.sequence for beat in of(messages, WorkerHeartbeat) if beat.running}
        return [each for each in of(messages, WorkerHeartbeatDigest) if each.whole in numbers]

    found = await harness.messages(
        harness.topics.heartbeats, "w1", lambda all_: len(digests_while_it_runs(all_)) >= WHOLE_EVERY + 2
    )
    views = HeartbeatViews()
    seen = [
        (message, views.read(message))
        for message in found
        if isinstance(message, WorkerHeartbeat | WorkerHeartbeatDigest)
    ]
    assert [message.sequence for message, _ in seen] == list(range(1, len(seen) + 1))
    for message, view in seen:
        assert view is not None
        assert view.sequence == message.sequence
        assert view.incarnation == (await harness.joined()).incarnation
    wholes = [message.sequence for message, _ in seen if isinstance(message, WorkerHeartbeat)]
    assert all(later - earlier <= WHOLE_EVERY for earlier, later in pairwise(wholes))
    await harness.stop(command)
    await harness.end("a")
    after = await harness.messages(
        harness.topics.heartbeats,
        "w1",
        lambda all_: any(not beat.running for beat in of(all_[len(found) :], WorkerHeartbeat)),
    )
    assert of(after, WorkerHeartbeat)[-1].running == []


async def test_a_worker_that_was_lost_ends_its_tasks_and_joins_anew(harness: WorkerHarness) -> None:
    first = await harness.joined()
    await harness.run("a", {"tell_pid": True, "seconds": 600})
    pid = await harness.pid("a")
    await harness.declare_lost(first.incarnation)
    second = await harness.joined(nth=2)
    assert second.incarnation != first.incarnation
    assert not alive(pid)
    assert (await harness.end("a")).end is AttemptEnd.LOST
    await harness.run("b", incarnation=second.incarnation)
    assert (await harness.end("b")).end is AttemptEnd.FINISHED


async def test_a_worker_told_to_leave_gives_its_tasks_back(harness: WorkerHarness) -> None:
    await harness.run("a", {"tell_pid": True, "seconds": 600})
    await harness.pid("a")
    harness.leaving.set()
    end = await harness.end("a")
    assert (end.end, end.recovered) == (AttemptEnd.LOST, False)
    await harness.first(WorkerLeft, harness.topics.fleet, "w1")


async def test_the_death_of_the_forkserver_loses_its_tasks_and_no_others(harness: WorkerHarness) -> None:
    await harness.run("a", {"tell_pid": True, "seconds": 600})
    pid = await harness.pid("a")
    os.kill(parent_of(pid), signal.SIGKILL)
    assert (await harness.end("a")).end is AttemptEnd.LOST
    await harness.run("b")
    assert (await harness.end("b")).end is AttemptEnd.FINISHED
