"""A dataset and two dispatchers that read late: each sample is observed once, in order, as in the file."""

from dataclasses import dataclass, field
from hashlib import sha256
from random import Random

from tests.unit.aggregates.dataset.given import BODY, HAS_BUCKET, DatasetLog
from tests.unit.aggregates.given import published
from trackside.aggregates.dataset.messages import (
    DatasetEnd,
    DatasetObserved,
    DatasetStatus,
    PauseDataset,
    RegisterDataset,
    ResumeDataset,
)
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.instructions import InstructionAcknowledged, TaskReady
from trackside.contracts.message import Command, Json
from trackside.contracts.tasks import AttemptEnd
from trackside.domain.outcome import Outcome
from trackside.domain.react import react
from trackside.domain.streams import Streams
from trackside.domain.task import TaskState
from trackside.verify.verifier import Verifier

LOGS, MOVES = 20, 200


@dataclass
class LateDispatcher:
    """A dispatcher that has read the log up to `read`."""

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
        """The samples as a watcher reads them."""
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
        """Publishes a command, which is answered later."""
        self.commands += 1
        self.tell(published(self.commands, kind.wire_type(), body or {}))

    def watch(self) -> bool:
        """Lets the watcher do what it does next; says whether there was anything."""
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
            self._ready()
        elif instruction is not None and instruction.number > self.given:
            self._verify(instruction.number, DatasetEnd.model_validate(instruction.body["end"]))
        elif self.reported is not None and len(self.file) != self.reported:
            self._look(self.reported)
        else:
            return False
        return True

    def disturb(self) -> None:
        """Changes the file, loses the watcher, or publishes a command."""
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
            wanted: list[type[Command]] = [PauseDataset, ResumeDataset, ResumeDataset]
            self.publish(self.random.choice(wanted))

    def finish(self) -> None:
        """Repairs the file, resumes the dataset, and lets all that is open be done."""
        self.cut, self.rewritten = None, False
        for _ in range(200):
            if self.dispatch(self.dispatchers[0], None) or self.watch():
                continue
            if self.dataset.status is DatasetStatus.ACTIVE:
                return
            self.publish(ResumeDataset)
        raise AssertionError("it never has enough")

    def end(self, lines: list[str], count: int) -> Json:
        """Returns the end of the first of some samples."""
        text = "".join(f"{line}\n" for line in lines[:count]).encode()
        return {"lines": count, "size": len(text), "sha256": sha256(text).hexdigest()}

    def _ready(self, **detail: object) -> None:
        self.said += 1
        event = TaskReady.model_validate({**self.token(), "number": self.said, "detail": detail})
        assert self.tell(event) == [Outcome.APPLIED]

    def _verify(self, number: int, known: DatasetEnd) -> None:
        file, self.given = self.file, number
        ok = len(file) >= known.lines and self.end(file, known.lines) == known.model_dump(mode="json")
        self.reported = known.lines if ok else None
        event = InstructionAcknowledged.model_validate({**self.token(), "number": number, "ok": ok})
        assert self.tell(event) == [Outcome.APPLIED]
        if not ok:
            self._problem(known.size)

    def _look(self, before: int) -> None:
        """Reports the samples that are new, or that those before are not the same."""
        file = self.file
        if len(file) < before or self.rewritten:
            self.reported = None
            self._problem(self.end(self.written, before)["size"])
        else:
            self.reported = len(file)
            self._ready(end=self.end(file, len(file)))

    def _problem(self, known: int) -> None:
        size = self.end(self.file, len(self.file))["size"]
        self._ready(problem={"code": "truncated" if size < known else "changed", "size": size})


def test_late_dispatchers_observe_each_sample_once_and_only_what_is_in_the_file(seed: int) -> None:
    stops = 0
    for number in range(LOGS):
        random = Random(f"{seed}/{number}")
        log = DrawnDataset(random=random)
        log.publish(RegisterDataset, BODY)
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
            if outcome is Outcome.APPLIED and isinstance(record.message, DatasetObserved)
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
