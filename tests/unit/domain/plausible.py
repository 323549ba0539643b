"""Plausible histories drawn by chance: mostly what services would write, some of it late, again, or wrong."""

from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any

from tests.unit.domain import (
    plausible_adoptions,
    plausible_artifacts,
    plausible_batches,
    plausible_changes,
    plausible_datasets,
    plausible_models,
    plausible_pipelines,
    plausible_requests,
    plausible_summaries,
)
from tests.unit.domain.given import (
    STREAM,
    Told,
    accepted,
    assigned,
    begun,
    ended,
    interrupted,
    over,
    preemption,
    recall,
    received,
    record_of,
    report,
    started,
    status,
    submitted,
    suggested,
    token,
    trial_of,
    unschedulable,
)
from tests.unit.domain.given_pipelines import defined
from trackside.aggregates.batch.state import batch_of
from trackside.aggregates.dataset.state import dataset_of
from trackside.aggregates.model.state import model_of
from trackside.aggregates.pipeline.state import pipeline_of
from trackside.aggregates.search import messages
from trackside.aggregates.search.state import GOES_ON, Search, search_of
from trackside.aggregates.summary.state import summary_of
from trackside.contracts import tasks
from trackside.contracts.commands import CommandRefused
from trackside.contracts.message import Envelope, Message, Record
from trackside.contracts.parking import RecordSkipped, UnknownRecord
from trackside.domain.stream import Stream
from trackside.domain.task import Task, TaskState

Move = list[Message]
RETRIED = ("lost", "failed", "oom_host", "oom_device", "timed_out_run")
LIMITS = ("queue_timeout_s", "run_timeout_s")
BEGINNINGS = plausible_models.REGISTERED, plausible_summaries.FOUND, defined(), plausible_datasets.REGISTERED


@dataclass
class Chance:
    """Draws the next move from the state, as the services together might make it, or a stray one."""

    random: Random
    commands: int = 0
    decisions: int = 0
    told: type[Told] = Told

    def history(self, moves: int) -> Told:
        """Tells a log of so many moves at most; it goes on a little after its search is over."""
        told = self.told()
        while moves:
            moves -= 1
            stream = told.streams.by_id.get(STREAM)
            if stream is not None and stream.closed:
                moves = min(moves, 8 if stream.forgotten is None else 20)
            if self.random.random() < 0.4:
                self._stray(told, stream)
            else:
                self._tell(told, self._permitted(told, stream))
        return told

    def _tell(self, told: Told, move: Move) -> None:
        if move:
            ends = isinstance(move[0], tasks.AttemptEnded)
            lost = getattr(move[0], "end", None) in (tasks.AttemptEnd.LOST, tasks.AttemptEnd.REFUSED)
            role = "scheduler" if lost or (ends and self.random.random() < 0.1) else ""
            told.tell(*move, role=role)

    def _permitted(self, told: Told, stream: Stream | None) -> Move:
        if stream is None:
            return [self._received()]
        moves: list[Move] = []
        if self.random.random() < 0.05:
            moves.append([self._received()])
        moves += plausible_changes.annotations(self.random, stream)
        if stream.unanswered:
            moves.append(self._answer(stream))
        if search_of(stream) is not None and not stream.closed:
            moves += self._of_search(stream, stream.root)
            moves += plausible_changes.changes(self.random, stream.root, told.now_ms)
            for name in plausible_requests.open_tasks(stream.root):
                if name in stream.tasks:
                    moves += self._of_task(stream.tasks[name], told.now_ms)
        if batch_of(stream) is not None and not stream.closed:
            moves += plausible_batches.moves(self.random, stream)
            for name in sorted(stream.root.open):
                moves += self._of_task(stream.tasks[name], told.now_ms)
        if dataset_of(stream) is not None:
            moves += plausible_datasets.moves(self.random, stream)
            for task in stream.tasks.values():
                moves += [] if task.state is TaskState.ENDED else self._of_task(task, told.now_ms)
        if model_of(stream) is not None:
            moves += plausible_models.moves(self.random, stream)
        if summary_of(stream) is not None:
            moves += plausible_summaries.moves(self.random, stream)
        if pipeline_of(stream) is not None:
            moves += plausible_pipelines.moves(self.random, stream, told.now_ms)
        return self.random.choice(moves) if moves else [self._received()]

    def _received(self) -> Message:
        self.commands += 1
        if self.commands > 1 and self.random.random() < 0.3:
            again = self.random.randrange(1, self.commands)
            return received(self.commands, command_id=f"c-{again}", digest=f"digest-{again}")
        return received(self.commands)

    def _answer(self, stream: Stream) -> Move:
        command, publication = next(
            (command, publication)
            for command in stream.commands.values()
            for publication in command.publications
            if not publication.answered
        )
        answer = accepted().model_copy(
            update={"command_id": command.command_id, "source": publication.source}
        )
        if not stream.kind and self.random.random() < 0.9:
            for beginning in BEGINNINGS:
                if self.random.random() < 0.1:
                    return [answer, beginning]
            if self.random.random() < 0.4:
                return [answer, plausible_batches.batch(self.random, self._needs())]
            return [answer, started(**plausible_changes.limits(self.random), **self._needs())]
        if self.random.random() < 0.5:
            return [answer]
        fields = answer.model_dump() | {"code": "already_exists", "path": "$", "message": ""}
        return [CommandRefused.model_validate(fields)]

    def _needs(self) -> dict[str, Any]:
        """Draws a policy of retries, with waits of a few records, and time limits of some."""
        random = self.random
        rules = {
            end: {"times": random.randrange(3), "backoff_s": random.choice([0.0, 0.02])} for end in RETRIED
        }
        limits = {name: random.uniform(0.02, 0.2) for name in LIMITS if random.random() < 0.5}
        return {"retry": rules, **limits}

    def _of_search(self, stream: Stream, search: Search) -> list[Move]:
        moves: list[Move] = []
        number = search.next_trial
        if number is not None:
            seen = search.opened[number]
            limit = 2 if number % 3 == 2 else None
            asked = suggested(number).model_copy(update={"seen": seen, "step_limit": limit})
            moves += [[asked, submitted(number, needs=search.spec.needs, step_limit=limit)]] * 3
            # It would continue a trial that has not ended, which none can.
            moves += [[asked.model_copy(update={"from_checkpoint": messages.TrialCheckpoint(trial=number)})]]
            moves += plausible_requests.next_trial(self.random, stream, number, seen)
            if self.random.random() < 0.05:
                moves.append([messages.SearchExhausted(trials=number, seen=seen)])
            moves += plausible_changes.advice(self.random, search, number)
        elif not search.active and search.next_added is None and search.status not in GOES_ON:
            stopping = search.status is messages.SearchStatus.STOPPING
            how = messages.SearchStatus.STOPPED if stopping else messages.SearchStatus.DONE
            moves.append([messages.SearchEnded(status=how, trials=len(search.trials))])
        if self.random.random() < 0.01:
            moves.append([messages.SearchStopRequested(command_id="c-1", reason="")])
        if self.random.random() < 0.005:
            moves.append([messages.SearchFailed(code="tuner_failed", message="it raised")])
        return moves

    def _of_task(self, task: Task, now_ms: int) -> list[Move]:
        """Gives what may happen to a task next; what is told of a trial is told of this task."""
        trial, attempt = trial_of(task) or 0, task.attempt
        where: dict[str, Any] = {
            "attempt": attempt.number,
            "placement": attempt.placement,
            "incarnation": task.place.incarnation if task.place is not None else "",
        }
        match task.state:
            case TaskState.QUEUED:
                moves = self._of_queued(task, trial)
            case TaskState.PLACED:
                moves = self._of_placed(task, trial, where)
            case TaskState.ACTIVE:
                moves = self._of_active(task, trial, where)
            case TaskState.ENDED:
                how = (
                    messages.TrialStatus.SUCCEEDED
                    if task.end is tasks.AttemptEnd.FINISHED
                    else messages.TrialStatus.FAILED
                )
                end = over(trial, task.final, how)
                return [[end.model_copy(update={"values": plausible_changes.values(self.random)})]] * 2
        if task.place is not None and self.random.random() < 0.2:
            moves += [[plausible_adoptions.next_adoption(self.random, attempt)]] * 2
        moves += plausible_changes.holds(self.random, task)
        if task.due_ms is not None and now_ms >= task.due_ms:
            moves += [[plausible_requests.limit_of(task)]] * 2
        return [[about(task.task_id, event) for event in move] for move in moves]

    def _of_queued(self, task: Task, trial: int) -> list[Move]:
        attempt, placement = task.attempt.number, task.attempt.placement
        moves: list[Move] = [[assigned(trial, attempt, placement + 1, f"i-{self.random.randrange(3)}")]]
        if self.random.random() < 0.3:
            moves.append([unschedulable(trial, attempt, task.attempt.unschedulable + 1)])
        if placement > 1:
            given_up = ended(tasks.AttemptEnd.REFUSED, trial, attempt=attempt, placement=placement)
            moves.append([given_up])
        return moves

    def _of_placed(self, task: Task, trial: int, where: dict[str, Any]) -> list[Move]:
        moves: list[Move] = [
            [begun(trial, **where)],
            [begun(trial, **where)],
            [tasks.TaskRefused(**token(trial, **where), code="busy", message="")],
            [recall(trial, **where)],
            self._end(trial, where),
            [tasks.TaskStopRequested(task_id=task.task_id, reason="user")],
        ]
        if task.attempt.recalled:
            moves += [[tasks.TaskReturned(**token(trial, **where))]] * 2
        return moves

    def _of_active(self, task: Task, trial: int, where: dict[str, Any]) -> list[Move]:
        interrupts = task.attempt.interrupted
        at = {"attempt": where["attempt"], "placement": where["placement"], "interrupts": interrupts}
        at["requests"] = task.taken
        step = task.reports[-1][0] + 1 if task.reports else 0
        phase = tasks.TaskStatus(self.random.randint(task.attempt.reached, 9))
        moves: list[Move] = [[report(step, self.random.random(), trial, **at)], self._end(trial, where)]
        moves += plausible_requests.of_task(self.random, task, where)
        moves += plausible_artifacts.of_task(self.random, task, where)
        if task.attempt.resumed is not None and not task.reports and self.random.random() < 0.5:
            moves.append([report(task.attempt.resumed.step - 1, 0.5, trial, **at)])
        if phase > task.attempt.reached:
            moves.append([status(phase, trial, interrupts, **where)])
        if not task.has_final:
            final = report(step, self.random.random(), trial, final=True, **at)
            moves.append([final.model_copy(update=plausible_changes.beside(self.random))])
        if self.random.random() < 0.1:
            moves.append([tasks.TaskStopRequested(task_id=task.task_id, reason="assessor")])
        if self.random.random() < 0.2:
            moves.append([preemption(trial, **where)])
        if self.random.random() < 0.2:
            moves.append([interrupted(interrupts + 1, trial, **where)])
        return moves

    def _end(self, trial: int, where: dict[str, Any]) -> Move:
        end = self.random.choice([tasks.AttemptEnd.FINISHED, tasks.AttemptEnd.FINISHED, *tasks.AttemptEnd])
        return [ended(end, trial, **where)]

    def _stray(self, told: Told, stream: Stream | None) -> None:
        """Tells something that is late, doubled, of a wrong writer, or out of its place."""
        kind = self.random.randrange(4)
        if kind == 0 and told.records:
            told.fold(_copied(self.random.choice(told.records[-12:])))
        elif kind == 1:
            self._foreign(told, self._permitted(told, stream))
        elif kind == 2:
            self._tell(told, [self._guess(told)])
        else:
            self._tell(told, [self._guess(told), self._guess(told)])

    def _foreign(self, told: Told, move: Move) -> None:
        if not move:
            return
        record = record_of(move[0], 0, self.random.choice(["worker", "dispatcher", "scheduler", "x/y"]))
        if self.random.random() < 0.3:
            broken = {"ce_decisionid": b"d", "ce_index": self.random.choice([b"x", b"-1", b""])}
            record.envelope = Envelope({**record.envelope.headers, **broken})
        told.fold(record)

    def _guess(self, told: Told) -> Message:
        """Draws an event that was told before, with numbers and names that are another's here and there."""
        random = self.random
        event = random.choice([record.message for record in told.records[-30:]] or [self._received()])
        changed: dict[str, Any] = {}
        for name, value in event:
            if name == "rules" or random.random() < 0.7:
                continue
            if type(value) is int:
                changed[name] = max(0, value + random.choice([-1, 1, 1, 2]))
            elif isinstance(value, Enum):
                changed[name] = random.choice(list(type(value)))
            elif name in ("incarnation", "worker_id"):
                changed[name] = random.choice(["i-9", "w2"])
            elif name == "task_id":
                changed[name] = random.choice([*told.stream.tasks, "none"])
        return event.model_copy(update=changed)


class ParkingChance(Chance):
    """Draws histories that an event of a newer release parks now and then, until it is skipped, or not."""

    def _stray(self, told: Told, stream: Stream | None) -> None:
        parked = None if stream is None else stream.parked
        if self.random.random() >= 0.12:
            super()._stray(told, stream)
        elif parked is None or self.random.random() < 0.2:
            role = self.random.choice(["dispatcher", "scheduler", "worker", "somebody"])
            told.fold(record_of(UnknownRecord(unknown_type="trackside.thing-done.v7"), 0, role))
        else:
            offset = parked.offset + (self.random.random() < 0.3)
            told.tell(RecordSkipped(command_id="c-skip", partition=3, offset=offset, reason="an accident"))


def about(task_id: str, event: Message) -> Message:
    """Gives an event with another task's name."""
    return event.model_copy(update={"task_id": task_id}) if hasattr(event, "task_id") else event


def _copied(record: Record) -> Record:
    """Gives a record to append once more; where it lands is filled in when it is folded."""
    return Record(
        record.topic, record.partition, 0, 0, Envelope(dict(record.envelope.headers)), record.message
    )
