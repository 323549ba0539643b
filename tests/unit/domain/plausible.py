"""Plausible histories drawn by chance: mostly what services would write, some of it late, again, or wrong."""

from dataclasses import dataclass
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
    FIRST_MS,
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
    task_id,
    token,
    trial_of,
    unschedulable,
)
from tests.unit.domain.given_pipelines import defined
from trackside.aggregates.batch.messages import (
    GroupEnded,
)
from trackside.aggregates.batch.state import batch_of
from trackside.aggregates.dataset.state import dataset_of
from trackside.aggregates.model.state import model_of
from trackside.aggregates.pipeline.state import pipeline_of
from trackside.aggregates.search.messages import (
    SearchEnded,
    SearchExhausted,
    SearchFailed,
    SearchStatus,
    SearchStopRequested,
    TrialCheckpoint,
    TrialStatus,
)
from trackside.aggregates.search.state import GOES_ON, Search, search_of
from trackside.aggregates.summary.state import summary_of
from trackside.contracts.envelope.message import Envelope, Message, Record
from trackside.contracts.streams.commands import CommandRefused
from trackside.contracts.tasks import tasks
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task, TaskState

Move = list[Message]
RETRIED = ("lost", "failed", "oom_host", "oom_device", "timed_out_run")
LIMITS = ("queue_timeout_s", "run_timeout_s")
BEGINNINGS = (
    plausible_models.REGISTERED,
    plausible_summaries.FOUND,
    defined(),
    plausible_datasets.REGISTERED,
)


@dataclass
class Chance:
    """Draws the next move from the state, as the services together might make it, or a stray one."""

    random: Random
    commands: int = 0
    decisions: int = 0
    told: type[Told] = Told
    _told: int = 0

    def history(self, moves: int) -> Told:
        told = self.told()
        while moves:
            moves -= 1
            self._told = told.next_offset
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
            moves += [[asked.model_copy(update={"from_checkpoint": TrialCheckpoint(trial=number)})]]
            moves += plausible_requests.next_trial(self.random, stream, number, seen)
            if self.random.random() < 0.05:
                moves.append([SearchExhausted(trials=number, seen=seen)])
            moves += plausible_changes.advice(self.random, search, number)
        elif not search.active and search.next_added is None and search.status not in GOES_ON:
            stopping = search.status is SearchStatus.STOPPING
            how = SearchStatus.STOPPED if stopping else SearchStatus.DONE
            moves.append([SearchEnded(status=how, trials=len(search.trials))])
        if self.random.random() < 0.01:
            moves.append([SearchStopRequested(command_id="c-1", reason="")])
        if self.random.random() < 0.005:
            moves.append([SearchFailed(code="tuner_failed", message="it raised")])
        return moves

    def _of_task(self, task: Task, now_ms: int) -> list[Move]:
        """Returns what may happen to a task next; what is told of a trial is told of this task."""
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
                how = TrialStatus.SUCCEEDED if task.end is tasks.AttemptEnd.FINISHED else TrialStatus.FAILED
                end = over(trial, task.final, how)
                return [[end.model_copy(update={"values": plausible_changes.values(self.random)})]] * 2
        if task.place is not None:
            moves += plausible_adoptions.of_task(self.random, task, where)
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
            self._tell(told, [self._guess(stream)])
        else:
            self._tell(told, [self._guess(stream), self._guess(stream)])

    def _foreign(self, told: Told, move: Move) -> None:
        if not move:
            return
        record = record_of(move[0], 0, self.random.choice(["worker", "dispatcher", "scheduler", "x/y"]))
        if self.random.random() < 0.3:
            broken = {"ce_decisionid": b"d", "ce_index": self.random.choice([b"x", b"-1", b""])}
            record.envelope = Envelope({**record.envelope.headers, **broken})
        told.fold(record)

    def _guess(self, stream: Stream | None) -> Message:
        """Draws any event, about something that is there, with numbers that are right more often than not."""
        random = self.random
        root = search_of(stream) if stream is not None else None
        count = len(root.trials) if root is not None else 0
        trial = random.randrange(count + 1)
        if root is not None and root.active and random.random() < 0.8:
            trial = random.choice(sorted(root.active))
        where = self._near(stream.tasks.get(task_id(trial)) if stream is not None else None)
        at = {"attempt": where["attempt"], "placement": where["placement"]}
        guesses: list[Message] = [
            *(suggested(count + random.randrange(2)), suggested(count), submitted(trial)),
            *(submitted(count), started(), accepted(random.randint(1, 5), place=random.randint(1, 5))),
            *(accepted(1, place=random.randint(1, 9)), over(trial, 0.5), over(count, 0.5)),
            SearchExhausted(trials=trial),
            *(SearchEnded(status=random.choice(list(SearchStatus)), trials=0), self._received()),
        ]
        of_a_task: list[Message] = [
            assigned(trial, where["attempt"], random.randint(1, 3), where["incarnation"]),
            begun(trial, **where),
            tasks.TaskRefused(**token(trial, **where), code="busy", message=""),
            status(tasks.TaskStatus(random.randrange(10)), trial, **where),
            *[status(tasks.TaskStatus.TRAINING, trial, random.randrange(3), **where)] * 3,
            report(random.randrange(4), 0.5, trial, **at),
            *[report(random.randrange(4), 0.5, trial, final=True, **at)] * 2,
            ended(random.choice(list(tasks.AttemptEnd)), trial, **where),
            recall(trial, **where),
            tasks.TaskReturned(**token(trial, **where)),
            preemption(trial, **where),
            interrupted(random.randint(1, 2), trial, **where),
            interrupted(random.randint(2, 4), trial, **where),
            unschedulable(trial, where["attempt"]),
            tasks.TimeLimitReached(
                task_id=task_id(trial), attempt=where["attempt"], limit="run", due_ms=FIRST_MS
            ),
        ]
        if stream is not None and (batch_of(stream) or dataset_of(stream)) is not None:
            known = random.choice([*stream.tasks, "none"])
            of_a_task = [about(known, event) for event in of_a_task]
        guesses += self._guesses_of(stream)
        guesses += of_a_task * 3
        if random.random() < 0.12 or (root is not None and root.status is SearchStatus.STOPPING):
            stops = [SearchStopRequested(command_id="c-1", reason=""), SearchFailed(code="x", message="")]
            guesses += stops * 2
        known_task = None if stream is None else stream.tasks.get(task_id(trial))
        guesses += plausible_requests.wrong(random, known_task, where) * 3
        guesses += plausible_adoptions.wrong(known_task, where)
        guesses += plausible_artifacts.wrong(random, known_task, where)[:: random.choice([3, 4])]
        guesses += plausible_changes.wrong(random, root, known_task, FIRST_MS + self._told) * 2
        if random.random() < 0.3:
            guesses += [tasks.TaskStopRequested(task_id=task_id(trial), reason="user")] * 20
        return random.choice(guesses)

    def _guesses_of(self, stream: Stream | None) -> list[Message]:
        """Draws events of what a stream is about, unless that is a search; those of none if it has none."""
        if stream is None or stream.root is None:
            return [GroupEnded(group=0, ends={}), SearchExhausted(trials=0)] * 20
        if batch_of(stream) is not None:
            return plausible_batches.guesses(self.random, stream, self._needs()) * 6
        if dataset_of(stream) is not None:
            return plausible_datasets.guesses(self.random, stream) * 6
        if model_of(stream) is not None:
            return plausible_models.guesses(self.random, stream) * 6
        if summary_of(stream) is not None:
            return plausible_summaries.guesses(self.random, stream) * 6
        if pipeline_of(stream) is not None:
            return plausible_pipelines.guesses(self.random, stream) * 6
        return []

    def _near(self, task: Task | None) -> dict[str, Any]:
        random = self.random
        attempt, placement = (task.attempt.number, task.attempt.placement) if task is not None else (1, 1)
        incarnation = task.place.incarnation if task is not None and task.place is not None else "i-0"
        beside = random.randrange(6)
        return {
            "attempt": attempt + (beside == 0),
            "placement": placement + (beside == 1),
            "incarnation": "i-9" if beside == 2 else incarnation,
        }


def about(task_id: str, event: Message) -> Message:
    return event.model_copy(update={"task_id": task_id}) if hasattr(event, "task_id") else event


def _copied(record: Record) -> Record:
    return Record(
        record.topic, record.partition, 0, 0, Envelope(dict(record.envelope.headers)), record.message
    )
