"""A worker with real processes over a log in memory."""

import os
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from tests.integration.worker.given import HIDDEN, SHARES, shared_worker, worker_with
from tests.integration.worker.harness import (
    WorkerHarness,
    alive,
    error_of,
    gone,
    of,
    parent_of,
    settings_for,
)
from tests.secret_samples import SECRETS
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.trace_context import trace_id
from trackside.contracts.fleet.fleet import WorkerHeartbeat, WorkerHeartbeatDigest, WorkerLeft
from trackside.contracts.tasks.summaries import OutputWritten
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    TaskAccepted,
    TaskStatusChanged,
)
from trackside.domain.fleet.heartbeats import WHOLE_EVERY, HeartbeatViews
from trackside.telemetry import context
from trackside.worker.temporary_folders import link_of

pytestmark = SHARES
worker = shared_worker(lambda folder: settings_for(folder / "worker"))


async def test_a_task_runs_from_command_to_result(harness: WorkerHarness) -> None:
    """T2, T4, T9; a value that is not finite travels by its name, and reports are points to look at too."""
    story = await harness.story("a", {"reports": [0.5, "nan"], "value": 0.8})
    assert isinstance(story[0], TaskAccepted)
    entered = [event.status.name for event in of(story, TaskStatusChanged)]
    assert entered == ["AVAILABLE", "LOADING", "WAITING", "TRAINING"]
    told = [(event.kind, event.step, event.value, event.non_finite) for event in of(story, MetricReported)]
    assert told == [("PERIODICAL", 0, 0.5, None), ("PERIODICAL", 1, None, "nan"), ("FINAL", 2, 0.8, None)]
    end = story[-1]
    assert isinstance(end, AttemptEnded)
    assert (end.end, end.exit_code, end.recovered) == (AttemptEnd.FINISHED, 0, False)
    assert end.result is not None and end.result["device"] == "cpu"
    assert end.load_time_ms >= 0 and end.train_time_ms >= 0
    assert await harness.points("a", 2) == {"objective": [(0, 0.5), (1, None)]}


async def test_output_goes_to_the_logs_without_secrets_or_any_line_of_a_private_key(
    harness: WorkerHarness,
) -> None:
    await harness.run("a", {"print": f"hello password=hunter2\n{SECRETS['private key']}\nafter"})
    written = await harness.first(OutputWritten, harness.topics.logs, "a")
    assert (written.source, written.first_line) == ("stdout", 1)
    assert written.lines == ["hello password=[redacted]", *["[redacted]"] * 4, "after"]
    await harness.end("a")


@pytest.mark.parametrize(
    ("stage", "kind"), [("load", "RuntimeError"), ("train", "ValueError"), ("report", "UnreportableError")]
)
async def test_an_exception_becomes_an_event_with_stage_and_traceback(
    harness: WorkerHarness, stage: str, kind: str
) -> None:
    """T5, T9; T12: a result that can't be told ends the attempt, where the reference hung."""
    traceback = error_of(await harness.ended("a", {"fail": stage}), stage.upper(), kind).traceback
    assert kind in traceback
    assert ("noop.py" in traceback) == (stage != "report")
    assert (await harness.ended("b")).end is AttemptEnd.FINISHED


async def test_a_task_sees_an_allow_list_of_the_environment_and_its_own_folder(
    harness: WorkerHarness,
) -> None:
    parent = context.new_traceparent()
    result = (await harness.ended("a", {"show_environment": True}, traceparent=parent)).result or {}
    seen = result["environment"]
    assert not set(HIDDEN) & (set(seen) | set(result["began_with"]))
    assert (seen["TRACKSIDE_TASK_ID"], seen["TRACKSIDE_ATTEMPT"]) == (harness.own("a"), "1")
    assert trace_id(seen["TRACEPARENT"]) == trace_id(parent)
    assert seen["CUDA_VISIBLE_DEVICES"] == ""
    workdir = Path(result["workdir"])
    assert seen["TMPDIR"] == str(link_of(workdir.parent) / workdir.name)
    assert result["workdir"].startswith(str(harness.data_dir))
    await gone(result["workdir"])


async def test_a_second_task_on_a_busy_device_is_refused(harness: WorkerHarness) -> None:
    first = await harness.run("a", {"wait_for_stop": True})
    assert (await harness.refused("b")).code == "device_busy"
    assert (await harness.ended("c", device="cpu-1")).end is AttemptEnd.FINISHED
    await harness.stop(first)
    await harness.end("a")


async def test_heartbeats_name_what_runs_and_those_between_changes_are_digests_of_the_last_whole_one(
    tmp_path: Path,
) -> None:
    async with worker_with(settings_for(tmp_path, heartbeat_interval_s=0.05)) as harness:
        command = await harness.run("a", {"wait_for_stop": True})
        beat = await harness.heartbeat(lambda beat: bool(beat.running))
        assert [(each.task_id, each.device_ids) for each in beat.running] == [("a", ["cpu-0"])]

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


async def test_a_worker_that_was_lost_ends_its_tasks_and_joins_anew_and_gives_back_what_it_has_as_it_leaves(
    tmp_path: Path,
) -> None:
    asked = {"tell_pid": True, "seconds": 600}
    async with worker_with(settings_for(tmp_path)) as harness:
        first = await harness.joined()
        await harness.run("a", asked)
        pid = await harness.pid("a")
        await harness.declare_lost(first.incarnation)
        second = await harness.joined(nth=2)
        assert second.incarnation != first.incarnation
        assert not alive(pid)
        assert (await harness.end("a")).end is AttemptEnd.LOST
        assert (await harness.ended("b", incarnation=second.incarnation)).end is AttemptEnd.FINISHED
        await harness.run("c", asked, incarnation=second.incarnation)
        await harness.pid("c")
        harness.leaving.set()
        end = await harness.end("c")
        assert (end.end, end.recovered) == (AttemptEnd.LOST, False)
        await harness.first(WorkerLeft, harness.topics.fleet, "w1")


async def test_the_death_of_the_forkserver_loses_its_tasks_and_no_others(harness: WorkerHarness) -> None:
    await harness.run("a", {"tell_pid": True, "seconds": 600})
    os.kill(parent_of(await harness.pid("a")), signal.SIGKILL)
    assert (await harness.end("a")).end is AttemptEnd.LOST
    assert (await harness.ended("b")).end is AttemptEnd.FINISHED
