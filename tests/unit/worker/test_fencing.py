"""What a device command means given what the worker knows, and which record says that the worker is lost."""

from typing import Any

import pytest

from tests.unit.domain.test_fleet import joined
from tests.unit.signing.given import trusted
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.fleet.fleet import WorkerLost
from trackside.contracts.streams.keys import SignatureModeChanged, keys_stream
from trackside.contracts.tasks.device_commands import RecallTask, RunTask, StopTask
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded
from trackside.eventlog.keys.decision_signer import DecisionSigner, new_signer
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry
from trackside.worker.incarnation import OwnMembership
from trackside.worker.placements.fencing import REMEMBERED_ANSWERS, CommandAction, FencingTable, Refusal


def fencing_table(accepted: tuple[int, int] | None = None) -> FencingTable:
    table = FencingTable("now", {"noop"})
    if accepted:
        table.record_accepted("a", accepted)
    return table


OF_A: Any = {"stream": "s", "task_id": "a", "attempt": 1, "placement": 1, "incarnation": "now"}
STOP, RECALL = StopTask(**OF_A, reason="user"), RecallTask(**OF_A)


def run(**changed: Any) -> RunTask:
    return RunTask(**{**OF_A, "task_type": "noop", "device_ids": ["cpu-0"], "parameters": {}, **changed})


def ended(end: AttemptEnd) -> AttemptEnded:
    return AttemptEnded(task_id="a", attempt=1, placement=1, incarnation="now", end=end)


def test_a_task_of_a_known_type_runs_if_the_command_is_for_this_incarnation() -> None:
    assert fencing_table().action_for_run(run()) is CommandAction.RUN
    assert fencing_table().action_for_run(run(incarnation="before")) is CommandAction.IGNORE
    refused = fencing_table().action_for_run(run(task_type="other"))
    assert isinstance(refused, Refusal) and refused.code == "unknown_task_type"


@pytest.mark.parametrize(
    ("attempt", "placement", "action"),
    [(2, 2, "ANSWER_AGAIN"), (2, 1, "IGNORE"), (1, 9, "IGNORE"), (2, 3, "RUN"), (3, 1, "RUN")],
)
def test_placements_are_compared_within_one_task(attempt: int, placement: int, action: str) -> None:
    fencing = fencing_table((2, 2))
    assert fencing.action_for_run(run(attempt=attempt, placement=placement)) is CommandAction[action]


def test_what_runs_is_stopped_and_the_end_of_what_ended_is_told_again_until_it_is_reported() -> None:
    fencing = fencing_table((1, 1))
    assert fencing.action_for_stop(STOP) is CommandAction.STOP
    fencing.record_finished("a", (1, 1))
    assert fencing.action_for_stop(STOP) is CommandAction.ANSWER_AGAIN
    fencing.record_answer("a", (1, 1), ended(AttemptEnd.FINISHED))
    assert fencing.action_for_stop(STOP) is CommandAction.IGNORE
    assert fencing.action_for_run(run()) is CommandAction.ANSWER_AGAIN


def test_what_was_stopped_or_asked_back_before_it_came_never_runs() -> None:
    fencing = fencing_table()
    assert fencing.action_for_stop(STOP) is CommandAction.NEVER_RUN
    fencing.record_forbidden("a", (1, 1))
    assert fencing.action_for_run(run()) is CommandAction.ANSWER_AGAIN
    fencing = fencing_table()
    assert fencing.action_for_recall(RECALL) is CommandAction.NEVER_RUN
    fencing.record_forbidden("a", (1, 1))
    assert fencing.action_for_run(run()) is CommandAction.ANSWER_AGAIN
    assert fencing.action_for_recall(RECALL.model_copy(update={"placement": 2})) is CommandAction.NEVER_RUN


def test_a_refused_placement_is_refused_again_and_a_late_answer_of_an_older_one_changes_nothing() -> None:
    fencing = fencing_table()
    answer = ended(AttemptEnd.LOST)
    fencing.record_answer("a", (1, 1), answer)
    assert fencing.action_for_run(run()) is CommandAction.ANSWER_AGAIN
    assert fencing.tasks["a"].answer is answer
    fencing = fencing_table((2, 1))
    fencing.record_answer("a", (1, 1), ended(AttemptEnd.LOST))
    fencing.record_finished("a", (1, 1))
    assert fencing.tasks["a"].answer is None and fencing.tasks["a"].active


def test_the_answers_of_the_last_placements_are_kept_and_those_before_run_no_second_time() -> None:
    fencing = fencing_table((1, 1))
    fencing.record_finished("a", (1, 1))
    for number in range(REMEMBERED_ANSWERS - 1):
        fencing.record_forbidden(str(number), (1, 1))
    assert fencing.action_for_run(run()) is CommandAction.ANSWER_AGAIN
    fencing.record_forbidden("last", (1, 1))
    assert len(fencing.tasks) == REMEMBERED_ANSWERS
    assert fencing.action_for_run(run()) is CommandAction.IGNORE
    assert fencing.action_for_stop(STOP) is CommandAction.IGNORE
    assert fencing.action_for_recall(RECALL) is CommandAction.IGNORE
    assert fencing.action_for_run(run(placement=2)) is CommandAction.RUN


def test_a_task_that_runs_again_is_not_forgotten_for_the_end_before() -> None:
    fencing = fencing_table((1, 1))
    fencing.record_finished("a", (1, 1))
    fencing.record_accepted("a", (2, 1))
    for number in range(REMEMBERED_ANSWERS):
        fencing.record_forbidden(str(number), (1, 1))
    assert fencing.tasks["a"].active
    assert fencing.action_for_run(run()) is CommandAction.IGNORE


def test_only_so_many_tasks_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trackside.worker.placements.fencing.REMEMBERED_TASKS", 10)
    fencing = fencing_table()
    for number in range(REMEMBERED_ANSWERS + 15):
        fencing.record_forbidden(str(number), (1, 1))
    found = [fencing.action_for_run(run(task_id=str(number))) for number in (4, 5)]
    assert found == [CommandAction.RUN, CommandAction.IGNORE]


def test_what_has_not_begun_is_returned_when_it_is_asked_back() -> None:
    fencing = fencing_table((1, 1))
    assert fencing.action_for_recall(RECALL) is CommandAction.RETURN
    fencing.record_begun("a", (1, 1))
    assert fencing.action_for_recall(RECALL) is CommandAction.ANSWER_AGAIN


FLEET = Topics().fleet
ROOT, SCHEDULER, W1 = new_signer(), new_signer(), new_signer()
LOST = WorkerLost(worker_id="w1", incarnation="i1", silent_ms=9_999)


class OwnFleet:
    def __init__(self) -> None:
        self.own = OwnMembership("w1")
        self.offset = 0

    def read(
        self, role: str, message: Message, signer: DecisionSigner | None = None, stream: str = "w1"
    ) -> Message | None:
        """Appends a record; returns its event if it counts for the worker."""
        writer = RecordWriter(role, "w1", signer)
        record = writer.signed(FLEET, writer.single(stream, message))
        entry = Entry(FLEET.name, 0, self.offset, 1_000, record.key, record.value, record.headers)
        self.offset += 1
        return self.own.take(entry)

    def require_signatures(self) -> None:
        keys = [(ROOT, "setup", ""), (SCHEDULER, "scheduler", ""), (W1, "worker", "w1")]
        events: list[Message] = [trusted(*each, partition=0, topic=FLEET.name) for each in keys]
        required = SignatureModeChanged(topic=FLEET.name, partition=0, number=1, mode="require")
        for event in [*events, required]:
            assert self.read("setup", event, ROOT, keys_stream(0, 1)) == event


def test_only_the_scheduler_may_declare_the_worker_lost_and_events_of_others_are_not_read() -> None:
    fleet = OwnFleet()
    assert fleet.read("worker", joined("i1"))
    assert [fleet.read(role, LOST) for role in ("worker", "dispatcher", "root")] == [None] * 3
    assert fleet.read("worker", joined(worker="w2"), stream="w2") is None
    assert fleet.read("scheduler", LOST, stream="w2") is None
    assert fleet.read("scheduler", LOST) == LOST


def test_where_signatures_are_required_the_key_of_the_scheduler_is_needed() -> None:
    fleet = OwnFleet()
    fleet.require_signatures()
    assert fleet.read("worker", joined("i1"), W1)
    assert [fleet.read("scheduler", LOST, key) for key in (None, W1, new_signer())] == [None] * 3
    assert fleet.read("scheduler", LOST, SCHEDULER) == LOST
