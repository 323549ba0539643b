"""The chain of causes from a command to one subject of a stream, and on to the subject's end."""

import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.standing import Standing
from trackside.domain.streams.causality import StreamSubject
from trackside.domain.streams.stream import Stream
from trackside.replay.causality.causes import Causes, Step
from trackside.replay.history.errors import UnknownSubjectError
from trackside.replay.history.recorded_stream import RecordedStream

_ATTEMPT = re.compile(r"(.+)/([1-9]\d{0,8})")


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a query: a command, a task, one attempt of it (`attempt` is 0 for all), another part.

    Or the event at `offset`.
    """

    name: str
    command: str = ""
    task: str = ""
    attempt: int = 0
    part: str = ""
    offset: int = -1

    def is_of(self, step: Step) -> bool:
        """Returns whether an event is about the subject itself."""
        if self.command:
            return step.command == self.command
        if self.part:
            return step.part == self.part
        if self.offset >= 0:
            return step.offset == self.offset
        return step.task == self.task and self.attempt in (0, step.attempt)


@dataclass(frozen=True, slots=True)
class Why:
    """The `causes` of a subject, oldest first, its `own` events, and `then` what they caused."""

    subject: Subject
    causes: Sequence[Step]
    own: Sequence[Step]
    then: Sequence[Step]

    @property
    def guessed(self) -> Literal["all", "some", "none"]:
        """Which of the causes were inferred from the state, since the log names none."""
        steps = [*self.causes, *self.own, *self.then]
        if not any(step.guessed for step in steps):
            return "none"
        return "some" if any(step.cause for step in steps) else "all"

    @property
    def origins(self) -> list[StreamSubject]:
        """What its own events and their causes go back to in other streams, each once.

        Of causes of one type that go back to events of one stream, only that of the last one: the samples of
        a round may have come in hundreds of parts.
        """
        own = dict.fromkeys(at for step in self.own if _counts(step) for at in step.origins)
        last = {_kind(step, at): at for step in self.causes if _counts(step) for at in step.origins}
        return list(own | dict.fromkeys(last.values()))

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON form."""
        parts = {"causes": self.causes, "own": self.own, "then": self.then}
        return {"subject": self.subject.name, "guessed": self.guessed} | {
            name: [step.as_json() for step in steps] for name, steps in parts.items()
        }


def _counts(step: Step) -> bool:
    return step.standing is Standing.APPLIED


def _kind(step: Step, origin: StreamSubject) -> tuple[str, str, str]:
    """Returns what origins have in common of which one is enough."""
    subject = "@" if origin.subject.startswith("@") else origin.subject
    return step.what, origin.stream, subject


async def why(recorded: RecordedStream, subject: str) -> Why:
    """Reads a stream and gives the causes of a subject; raises UnknownSubjectError."""
    causes = Causes(Stream(recorded.stream_id, recorded.partition))
    async with aclosing(recorded.records()) as records:
        async for record, entry in records:
            causes.take(record)
            async for again, outcome, _ in recorded.read_again(causes.stream, entry.offset + 1):
                causes.note_outcome(again, outcome)
    return explain(causes.steps, named(causes.steps, recorded.stream_id, subject))


def named(steps: Sequence[Step], stream_id: str, text: str) -> Subject:
    """Resolves a subject: a trial's number, a task, an attempt `TASK/N`, a command's id, a model's version.

    Or a step, or `@OFFSET`, an event. Tasks may be called without the stream's id before them. Raises
    UnknownSubjectError.
    """
    if text.startswith("@") and any(text[1:] == str(step.offset) for step in steps):
        return Subject(f"event {text}", offset=int(text[1:]))
    commands = {step.command for step in steps if step.command}
    attempts: dict[str, set[int]] = {}
    for step in steps:
        if step.task:
            attempts.setdefault(step.task, set()).add(step.attempt)
    if text in commands:
        return Subject(f"command {text}", command=text)
    parts = dict.fromkeys(step.part for step in steps if step.part)
    part = next((part for part in parts if text in (part, part.rpartition(" ")[2])), "")
    if part and text not in attempts:
        return Subject(part, part=part)
    for task in (text, f"{stream_id}.{text}"):
        if task in attempts:
            return Subject(f"task {task}", task=task)
    split = _ATTEMPT.fullmatch(text)
    if split is not None:
        found = named(steps, stream_id, split[1])
        number = int(split[2])
        if found.task and number in attempts[found.task]:
            return Subject(f"{found.name} attempt {number}", task=found.task, attempt=number)
    if parts:
        first, *_, last = [*parts, *parts]
        has = f"{first} to {last}" if len(parts) > 1 else first
        listed = ", ".join(sorted(commands)[:5])
        raise UnknownSubjectError(
            f"{stream_id} has nothing called {text!r}; it has {has}, and commands {listed}"
        )
    raise UnknownSubjectError(_known(stream_id, text, commands, attempts))


def _known(stream_id: str, text: str, commands: set[str], attempts: dict[str, set[int]]) -> str:
    tasks = [task.removeprefix(f"{stream_id}.") for task in attempts]
    shown = "no tasks"
    if tasks:
        shown = f"tasks {tasks[0]} to {tasks[-1]}" if len(tasks) > 1 else f"task {tasks[0]}"
    return (
        f"{stream_id} has nothing called {text!r}; it has {shown}, attempts such as {(tasks or ['0'])[0]}/1, "
        f"and commands {', '.join(sorted(commands)[:5])}"
    )


def explain(steps: Sequence[Step], subject: Subject) -> Why:
    """Returns the causes, the life and the consequences of a subject from a stream's steps."""
    own = [step for step in steps if subject.is_of(step)]
    counted = [step for step in own if _counts(step)]
    places = {step.offset: step for step in steps}
    mine = {step.offset for step in own}
    causes: dict[int, Step] = {}
    pending = [at for step in counted for at in (step.follows, *step.also)]
    while pending:
        at = pending.pop()
        if at >= 0 and at not in causes and at not in mine:
            causes[at] = places[at]
            pending += [places[at].follows, *places[at].also]
    for step in list(causes.values()):  # what precedes a cause in its decision has the same cause
        earlier = range(step.offset - step.index, step.offset)
        causes |= {at: places[at] for at in earlier if at in places and at not in mine}
    last = counted[-1].offset if counted else -1
    then = [
        step
        for step in steps
        if last >= 0
        and last in (step.follows, *step.also)
        and step.offset not in mine
        and step.standing is Standing.APPLIED
    ]
    if subject.command and counted:
        ends = {each.ends_with.__name__ for each in AGGREGATES.types if each.ends_with is not None}
        later = [step for step in steps if step.offset > last and step.standing is Standing.APPLIED]
        then = [step for step in later if step.what in ends]
    return Why(subject, [causes[at] for at in sorted(causes)], own, then)
