"""Plausible histories drawn by chance: mostly what services would write, some of it late, again, or wrong."""

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.unit.domain.given import (
    STREAM,
    Told,
    accepted,
    assigned,
    begun,
    ended,
    over,
    received,
    record_of,
    report,
    started,
    status,
    submitted,
    suggested,
    task_id,
    token,
)
from trackside.contracts.commands import CommandRefused
from trackside.contracts.message import Envelope, Message, Record
from trackside.contracts.searches import (
    SearchEnded,
    SearchExhausted,
    SearchFailed,
    SearchStatus,
    SearchStopRequested,
    TrialStatus,
)
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, TaskRefused, TaskStatus, TaskStopRequested
from trackside.domain.search import Search
from trackside.domain.stream import Stream
from trackside.domain.task import Task, TaskState

Move = list[Message]


@dataclass
class Chance:
    """Draws the next move from the state, as the services together might make it, or a stray one."""

    random: Random
    commands: int = 0
    decisions: int = 0

    def history(self, moves: int) -> Told:
        """Tells a log of so many moves at most; it goes on a little after its search is over."""
        told = Told()
        while moves:
            moves -= 1
            stream = told.streams.by_id.get(STREAM)
            if stream is not None and stream.closed:
                moves = min(moves, 8)
            if self.random.random() < 0.4:
                self._stray(told, stream)
            else:
                self._tell(told, self._permitted(stream))
        return told

    def _tell(self, told: Told, move: Move) -> None:
        if move:
            ends = isinstance(move[0], AttemptEnded)
            lost = getattr(move[0], "end", None) is AttemptEnd.LOST
            role = "scheduler" if lost or (ends and self.random.random() < 0.1) else ""
            told.tell(*move, role=role)

    def _permitted(self, stream: Stream | None) -> Move:
        if stream is None:
            return [self._received()]
        moves: list[Move] = []
        if self.random.random() < 0.05:
            moves.append([self._received()])
        if stream.unanswered:
            moves.append(self._answer(stream))
        if stream.search is not None and not stream.closed:
            moves += self._of_search(stream.search)
            for trial in stream.search.active:
                if task_id(trial) in stream.tasks:
                    moves += self._of_task(stream.tasks[task_id(trial)])
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
        if stream.search is None and self.random.random() < 0.9:
            return [answer, started(max_trials=self.random.randint(1, 20), retry=self._retry())]
        if self.random.random() < 0.5:
            return [answer]
        fields = answer.model_dump() | {"code": "already_exists", "path": "$", "message": ""}
        return [CommandRefused.model_validate(fields)]

    def _retry(self) -> dict[str, int]:
        return {"lost": self.random.randrange(3), "failed": self.random.randrange(3)}

    def _of_search(self, search: Search) -> list[Move]:
        moves: list[Move] = []
        number = search.next_trial
        if number is not None:
            moves += [[suggested(number), submitted(number, needs=search.spec.needs)]] * 3
            if self.random.random() < 0.05:
                moves.append([SearchExhausted(trials=number)])
        elif not search.active:
            stopping = search.status is SearchStatus.STOPPING
            how = SearchStatus.STOPPED if stopping else SearchStatus.DONE
            moves.append([SearchEnded(status=how, trials=len(search.trials))])
        if self.random.random() < 0.01:
            moves.append([SearchStopRequested(command_id="c-1", reason="")])
        if self.random.random() < 0.005:
            moves.append([SearchFailed(code="tuner_failed", message="it raised")])
        return moves

    def _of_task(self, task: Task) -> list[Move]:
        trial, attempt = task.trial or 0, task.attempt.number
        which: dict[str, Any] = {"attempt": attempt, "placement": task.attempt.placement}
        incarnation = task.place.incarnation if task.place is not None else ""
        match task.state:
            case TaskState.QUEUED:
                following = task.attempt.placement + 1
                return [[assigned(trial, attempt, following, f"i-{self.random.randrange(3)}")]]
            case TaskState.PLACED:
                where = {**which, "incarnation": incarnation}
                stop = TaskStopRequested(task_id=task.task_id, reason="user")
                refusal = TaskRefused(**token(trial, **where), code="busy", message="")
                return [
                    [begun(trial, **where)],
                    [begun(trial, **where)],
                    [refusal],
                    self._end(trial, where),
                    [stop],
                ]
            case TaskState.ACTIVE:
                where = {**which, "incarnation": incarnation}
                step = task.reports[-1][0] + 1 if task.reports else 0
                phase = TaskStatus(self.random.randint(task.attempt.status, 9))
                stop = TaskStopRequested(task_id=task.task_id, reason="assessor")
                moves: list[Move] = [
                    [report(step, self.random.random(), trial, **which)],
                    self._end(trial, where),
                ]
                if phase > task.attempt.status:
                    moves.append([status(phase, trial, **where)])
                if not task.has_final:
                    moves.append([report(step, self.random.random(), trial, final=True, **which)])
                return [*moves, [stop]] if self.random.random() < 0.1 else moves
            case TaskState.ENDED:
                how = TrialStatus.SUCCEEDED if task.end is AttemptEnd.FINISHED else TrialStatus.FAILED
                return [[over(trial, task.final, how)]] * 2
        return []

    def _end(self, trial: int, where: dict[str, Any]) -> Move:
        end = self.random.choice([AttemptEnd.FINISHED, AttemptEnd.FINISHED, *AttemptEnd])
        return [ended(end, trial, **where)]

    def _stray(self, told: Told, stream: Stream | None) -> None:
        """Tells something that is late, doubled, of a wrong author, or out of its place."""
        kind = self.random.randrange(4)
        if kind == 0 and told.records:
            told.fold(_copied(self.random.choice(told.records[-12:])))
        elif kind == 1:
            self._foreign(told, self._permitted(stream))
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
        root = stream.search if stream is not None else None
        count = len(root.trials) if root is not None else 0
        trial = random.randrange(count + 1)
        if root is not None and root.active and random.random() < 0.8:
            trial = random.choice(sorted(root.active))
        where = self._near(stream.tasks.get(task_id(trial)) if stream is not None else None)
        at = {"attempt": where["attempt"], "placement": where["placement"]}
        guesses: list[Message] = [
            suggested(count + random.randrange(2)),
            suggested(count),
            submitted(trial),
            submitted(count),
            started(),
            accepted(random.randint(1, 5), place=random.randint(1, 5)),
            accepted(1, place=random.randint(1, 9)),
            over(trial, 0.5),
            over(count, 0.5),
            SearchExhausted(trials=trial),
            SearchEnded(status=random.choice(list(SearchStatus)), trials=0),
            self._received(),
        ]
        of_a_task: list[Message] = [
            assigned(trial, where["attempt"], random.randint(1, 3), where["incarnation"]),
            begun(trial, **where),
            TaskRefused(**token(trial, **where), code="busy", message=""),
            status(TaskStatus(random.randrange(10)), trial, **where),
            report(random.randrange(4), 0.5, trial, **at),
            report(random.randrange(4), 0.5, trial, final=True, **at),
            report(random.randrange(4), 0.5, trial, final=True, **at),
            ended(random.choice(list(AttemptEnd)), trial, **where),
        ]
        guesses += of_a_task * 3
        if random.random() < 0.1 or (root is not None and root.status is SearchStatus.STOPPING):
            guesses += [SearchStopRequested(command_id="c-1", reason=""), SearchFailed(code="x", message="")]
        if random.random() < 0.3:
            guesses += [TaskStopRequested(task_id=task_id(trial), reason="user")] * 20
        return random.choice(guesses)

    def _near(self, task: Task | None) -> dict[str, Any]:
        """Draws a placement: the one that a task has, or one that lies beside it."""
        random = self.random
        attempt, placement = (task.attempt.number, task.attempt.placement) if task is not None else (1, 1)
        incarnation = task.place.incarnation if task is not None and task.place is not None else "i-0"
        beside = random.randrange(6)
        return {
            "attempt": attempt + (beside == 0),
            "placement": placement + (beside == 1),
            "incarnation": "i-9" if beside == 2 else incarnation,
        }


def _copied(record: Record) -> Record:
    """Gives a record to append once more; where it lands is filled in when it is folded."""
    return Record(
        record.topic, record.partition, 0, 0, Envelope(dict(record.envelope.headers)), record.message
    )
