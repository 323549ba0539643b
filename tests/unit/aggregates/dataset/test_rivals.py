"""The fold of datasets, and two dispatchers that read late: each sample is observed once and in order."""

from dataclasses import dataclass, field
from hashlib import sha256
from random import Random

import pytest

from tests.unit.aggregates.dataset.given import (
    BODY,
    HAS_BUCKET,
    DatasetLog,
    by,
    digest,
    observed,
    refused,
    registered,
    truncated,
    watched,
)
from tests.unit.aggregates.given import published
from tests.unit.domain.given import submitted
from trackside.aggregates.dataset import messages
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Command, Event, Json
from trackside.contracts.envelope.parts import Part
from trackside.contracts.fleet.fleet import WATCH_DATASET
from trackside.contracts.tasks.instructions import InstructionAcknowledged, InstructionGiven
from trackside.contracts.tasks.tasks import AttemptEnd, TaskSubmitted
from trackside.domain.commands.react import react
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import TaskState
from trackside.verify.verifier import Verifier

LOGS, MOVES = 20, 200


@dataclass
class LateDispatcher:
    streams: Streams = field(default_factory=lambda: Streams(AGGREGATES))
    read: int = 0


@dataclass
class DrawnDataset(DatasetLog):
    """The log of a file that grows; now and then `cut` or `rewritten` hides what was written before."""

    random: Random = field(default_factory=Random)
    written: list[str] = field(default_factory=list)
    cut: int | None = None
    rewritten: bool = False
    dispatchers: list[LateDispatcher] = field(default_factory=lambda: [LateDispatcher(), LateDispatcher()])
    given: int = 0
    reported: int | None = None
    """How many samples the watcher has reported; None while it has not found what was observed."""

    @property
    def file(self) -> list[str]:
        found = self.written[: self.cut]
        return ["other", *found[1:]] if self.rewritten and found else found

    def dispatch(self, dispatcher: LateDispatcher, most: int | None) -> bool:
        """Lets a dispatcher read some records, or all, and write what it decides; says whether it wrote.

        What one decides that has read all must count.
        """
        end = len(self.records) if most is None else min(len(self.records), dispatcher.read + most)
        for record in self.records[dispatcher.read : end]:
            dispatcher.streams.fold(record)
        dispatcher.read = end
        stream = dispatcher.streams.by_id.get("digits-1")
        proposals = [] if stream is None else list(react(stream, HAS_BUCKET, AGGREGATES))
        for proposal in proposals:
            outcomes = set(self.tell(*proposal.events, role="dispatcher"))
            assert most is not None or outcomes == {Outcome.APPLIED}, proposal
        return bool(proposals)

    def publish(self, kind: type[Command], body: Json | None = None) -> None:
        self.commands += 1
        self.tell(published(self.commands, kind.wire_type(), body or {}))

    def watch(self) -> bool:
        if not self.dataset.watching:
            return False
        task = self.watcher
        instruction = task.instruction
        if task.state is TaskState.QUEUED and not task.stop_reason:
            self.place()
            self.given, self.reported = 0, None
        elif task.stop_reason:
            self.lose(AttemptEnd.CANCELLED)
        elif not self.said:
            self.ready()
        elif instruction is not None and instruction.number > self.given:
            self._verify(instruction.number, messages.DatasetEnd.model_validate(instruction.body["end"]))
        elif self.reported is not None and len(self.file) != self.reported:
            self._look(self.reported)
        else:
            return False
        return True

    def disturb(self) -> None:
        drawn = self.random.random()
        if drawn < 0.6:
            self.written += [str(self.random.random()) for _ in range(self.random.randint(1, 5))]
        elif drawn < 0.7:
            self.cut = self.random.choice([None, self.random.randint(0, len(self.written))])
        elif drawn < 0.75:
            self.rewritten = self.random.random() < 0.5
        elif drawn < 0.85:
            if self.dataset.watching and self.watcher.state is TaskState.ACTIVE:
                self.lose()
        else:
            wanted: list[type[Command]] = [messages.PauseDataset, *[messages.ResumeDataset] * 2]
            self.publish(self.random.choice(wanted))

    def finish(self) -> None:
        self.cut, self.rewritten = None, False
        for _ in range(200):
            if self.dispatch(self.dispatchers[0], None) or self.watch():
                continue
            if self.dataset.status is messages.DatasetStatus.ACTIVE:
                return
            self.publish(messages.ResumeDataset)
        raise AssertionError("it never has enough")

    def end(self, lines: list[str], count: int) -> Json:
        text = "".join(f"{line}\n" for line in lines[:count]).encode()
        return {"lines": count, "size": len(text), "sha256": sha256(text).hexdigest()}

    def _verify(self, number: int, known: messages.DatasetEnd) -> None:
        file, self.given = self.file, number
        ok = len(file) >= known.lines and self.end(file, known.lines) == known.model_dump(mode="json")
        self.reported = known.lines if ok else None
        event = InstructionAcknowledged.model_validate({**self.token(), "number": number, "ok": ok})
        assert self.tell(event) == [Outcome.APPLIED]
        if not ok:
            self._problem(known.size)

    def _look(self, before: int) -> None:
        file = self.file
        if len(file) < before or self.rewritten:
            self.reported = None
            self._problem(self.end(self.written, before)["size"])
        else:
            self.reported = len(file)
            self.ready(end=self.end(file, len(file)))

    def _problem(self, known: int) -> None:
        size = self.end(self.file, len(self.file))["size"]
        self.ready(problem={"code": "truncated" if size < known else "changed", "size": size})


def test_late_dispatchers_observe_each_sample_once_and_only_what_is_in_the_file(seed: int) -> None:
    stops = 0
    for number in range(LOGS):
        random = Random(f"{seed}/{number}")
        log = DrawnDataset(random=random)
        log.publish(messages.RegisterDataset, BODY)
        log.dispatch(log.dispatchers[0], None)
        for _ in range(MOVES):
            match random.choice(["dispatch", "dispatch", "watch", "watch", "disturb"]):
                case "dispatch":
                    log.dispatch(random.choice(log.dispatchers), random.choice([None, 1, 2, 5]))
                case "watch":
                    log.watch()
                case _:
                    log.disturb()
        log.finish()
        stops += log.dataset.stops
        applied = [
            record.message
            for record, outcome in zip(log.records, log.outcomes, strict=True)
            if outcome is Outcome.APPLIED and isinstance(record.message, messages.DatasetObserved)
        ]
        at = 0
        for event in applied:
            assert event.begin == at
            found = {"lines": event.end, "size": event.end_byte, "sha256": event.sha256}
            assert found == log.end(log.written, event.end)
            at = event.end
        assert at == len(log.written)
        verifier = Verifier(Streams(AGGREGATES).fold)
        for record in log.records:
            verifier.take(record)
        assert [finding for finding in verifier.finish() if finding.invariant == "INV-10"] == []
    assert stops > 5


APPLIED, DUPLICATE, OVERTAKEN = Outcome.APPLIED, Outcome.DUPLICATE, Outcome.OVERTAKEN
CHANGED = messages.DatasetChanged(**by(), stop=1, observed_sha256=digest(5), sha256=digest(6))
PAUSED = messages.DatasetPaused(command_id="c-8", change=1)
DELETED = messages.DatasetDeleted(command_id="c-9", change=1)
RESUMED = messages.DatasetResumed(command_id="c-9", change=1)


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        *((observed(5, 7), APPLIED), (observed(0, 5), DUPLICATE), (observed(3, 5), DUPLICATE)),
        *((observed(6, 7), OVERTAKEN), (observed(4, 7), OVERTAKEN)),
        *((observed(5, 7, begin_byte=49), OVERTAKEN), (observed(5, 7, end_byte=51), OVERTAKEN)),
        *((observed(5, 7, watcher=2), OVERTAKEN), (observed(5, 7, attempt=2), OVERTAKEN)),
        *((observed(5, 7, placement=2), OVERTAKEN), (truncated(), APPLIED)),
        *((truncated(stop=0), DUPLICATE), (truncated(stop=2), OVERTAKEN)),
        *((truncated(observed_bytes=60), OVERTAKEN), (truncated(size=50), OVERTAKEN)),
        *((truncated(size=-1), OVERTAKEN), (truncated(placement=2), OVERTAKEN), (CHANGED, APPLIED)),
        (CHANGED.model_copy(update={"observed_sha256": digest(4)}), OVERTAKEN),
        *((CHANGED.model_copy(update={"watcher": 0}), OVERTAKEN), (refused(), APPLIED)),
        *((refused(attempt=0), OVERTAKEN), (PAUSED, APPLIED)),
        (PAUSED.model_copy(update={"change": 0}), DUPLICATE),
        *((PAUSED.model_copy(update={"change": 2}), OVERTAKEN), (RESUMED, OVERTAKEN), (DELETED, APPLIED)),
        (submitted(None), OVERTAKEN),
    ],
)
def test_only_what_follows_has_an_effect(event: Event, outcome: Outcome) -> None:
    log = watched(5)
    before = repr(log.dataset)
    assert (log.tell(event), repr(log.dataset) != before) == ([outcome], outcome is APPLIED)


def test_a_stop_counts_once_and_nothing_is_observed_after_it_or_of_the_watcher_before() -> None:
    log = watched(5)
    assert log.each(truncated(), truncated()) == [APPLIED, DUPLICATE]
    for late in (observed(5, 7), refused(stop=2), PAUSED):
        assert log.tell(late) == [OVERTAKEN]
    assert log.dataset.status is messages.DatasetStatus.TRUNCATED
    log = watched(5)
    log.each(PAUSED, RESUMED.model_copy(update={"change": 2}))
    for unheard in (observed(5, 7), truncated(), refused()):
        assert log.tell(unheard) == [OVERTAKEN]


def test_what_the_placement_before_has_reported_counts_until_another_one_was_given_the_end() -> None:
    log = watched(5)
    log.lose()
    assert log.tell(observed(5, 6)) == [APPLIED]
    log.place()
    log.say()
    assert log.each(observed(6, 7), observed(6, 7, attempt=2)) == [OVERTAKEN, APPLIED]


def test_an_end_that_was_given_too_late_does_not_count() -> None:
    log = watched(5)
    log.lose()
    assert log.tell(observed(5, 6)) == [APPLIED]
    log.place()
    late = {"lines": 5, "size": 50, "sha256": digest(5)}
    given = InstructionGiven(command_id="", task_id="digits-1.watch.1", number=2, body={"end": late})
    assert log.tell(given) == [APPLIED]
    assert log.dataset.told == (0, 0)
    assert log.tell(observed(6, 7, attempt=2)) == [OVERTAKEN]
    [again] = log.say()
    assert isinstance(again, InstructionGiven) and again.body["end"]["lines"] == 6


def _task(number: int, **changed: object) -> TaskSubmitted:
    fields = {"task_id": f"digits-1.watch.{number}", "task_type": WATCH_DATASET, "parameters": {}}
    return TaskSubmitted.model_validate(fields | {"part": Part(kind="watch", number=number)} | changed)


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (_task(2), APPLIED),
        (_task(1), OVERTAKEN),
        (_task(3), OVERTAKEN),
        (_task(2, task_type="digits"), OVERTAKEN),
        (_task(2, task_id="digits-1.watch.02"), OVERTAKEN),
        (_task(2, part=None), OVERTAKEN),
        (_task(2, part=Part(kind="trial", number=2)), OVERTAKEN),
    ],
)
def test_only_the_next_watcher_may_be_submitted(event: TaskSubmitted, outcome: Outcome) -> None:
    log = _between_watchers()
    assert log.tell(event) == [outcome]


def test_no_watcher_may_be_submitted_while_one_runs_or_none_is_wanted() -> None:
    assert watched().tell(_task(2)) == [OVERTAKEN]
    assert _between_watchers(resume=False).tell(_task(2)) == [OVERTAKEN]


def test_a_watcher_that_has_ended_is_settled_whether_it_is_kept_or_not() -> None:
    log = _between_watchers()
    assert log.dataset.settled == ["digits-1.watch.1"]
    assert log.dataset.has_settled("digits-1.watch.1")
    for name in ("digits-1.watch.2", "digits-1.watch.0", "digits-1.watch.01", "digits-1.other.1", "x"):
        assert not log.dataset.has_settled(name)
    assert not registered().dataset.has_settled("digits-1.watch.1")


def _between_watchers(resume: bool = True) -> DatasetLog:
    log = watched()
    log.tell(PAUSED)
    log.settle()
    log.lose(AttemptEnd.CANCELLED)
    if resume:
        log.tell(RESUMED.model_copy(update={"change": 2}))
    return log
