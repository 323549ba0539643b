from typing import Any

from tests.unit.domain.given import STREAM, Told, assigned, begun, ended, preemption, task_active, task_id
from tests.unit.domain.test_resume import checkpointed, resumed, trained
from tests.unit.domain.test_services import ready
from tests.unit.replay.given import TOPICS, after, log_of
from trackside.cli.commands import task_now
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display.task_state import task_fields
from trackside.domain.outcome import Outcome
from trackside.projections.tables.tasks import PlacementRows
from trackside.sdk.async_client import AsyncClient

TASK = {"stream_id": STREAM, "task_id": task_id(0)}


def placements(told: Told) -> list[dict[str, Any]]:
    rows, stream = PlacementRows(), told.stream
    return [dict(zip(rows.table.columns, rows.row(stream, key), strict=True)) for key in rows.keys(stream)]


def test_the_checkpoints_that_are_kept_are_shown_with_step_size_and_attempt() -> None:
    told = trained()
    assert told.tell(checkpointed(4, number=1, version=2, attempt=2)) == [Outcome.APPLIED]
    rows = [{"source": f"{STREAM}/{task_id(0)}/checkpoint@{at}", "attempt": at} for at in (1, 2)]
    kept = task_now.kept_checkpoints(told.task(), rows)
    text = "checkpoint@1 (step 3, 10 B, attempt 1), checkpoint@2 (step 4, 10 B, attempt 2)"
    assert task_now.checkpoint_facts(kept) == [("kept checkpoints", text)]
    assert task_now.checkpoint_facts([]) == []
    [first, _] = kept
    assert first == {"artifact": rows[0]["source"], "step": 3, "size_bytes": 10, "attempt": 1}
    assert task_fields(told.task(), ())["checkpoints"] == ["checkpoint@1, step 3", "checkpoint@2, step 4"]


def test_each_placement_that_resumed_says_at_which_step_and_from_what() -> None:
    told = after(trained(), resumed(3, attempt=2))
    assert task_now.resumed_lines(TASK, placements(told)) == ["attempt 2 resumed at step 3 from checkpoint@1"]
    again: Any = {"attempt": 2, "placement": 2}
    after(
        told, preemption(attempt=2), ended(AttemptEnd.PREEMPTED, attempt=2), assigned(**again), begun(**again)
    )
    (line,) = task_now.resumed_lines(TASK, placements(told))
    assert line == "placement 2.1 resumed at step 3 from checkpoint@1"
    attempt = task_fields(told.task(), ())["attempts"][-1]
    assert attempt["given_up_placements"] == ["1: preempted (resumed from checkpoint@1, step 3)"]
    assert attempt["resumed_from"] is None
    row = {"attempt": 1, "placement": 1, "resumed_step": 8, "resumed_from": "other/other.1/checkpoint@2"}
    (line,) = task_now.resumed_lines(TASK, [row])
    assert line == "attempt 1 resumed at step 8 from other/other.1/checkpoint@2"


def test_a_result_that_became_an_artifact_is_shown_as_that() -> None:
    large = {"artifact": "result@1", "sha256": "ab" * 32, "size_bytes": 1_258_291}
    assert task_now.result_text(large) == "artifact result@1, 1.2 MiB"
    for own in ({"artifact": "bowl"}, {**large, "size_bytes": "large"}, {}, None):
        assert task_now.result_text(own) == own


async def test_a_task_is_read_from_the_log() -> None:
    log = await log_of(after(task_active(service=True), ready()))
    async with AsyncClient("", TOPICS.prefix, log=log) as client:
        assert await task_now.task_in(client, STREAM, "another") is None
        found = await task_now.task_in(client, STREAM, task_id(0))
    assert found is not None and found.attempt.ready == {"port": 8_000}
