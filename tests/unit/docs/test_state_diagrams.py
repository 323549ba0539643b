"""The state diagrams of ARCHITECTURE.md have the transitions that the fold permits, and no others."""

import re
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from random import Random
from typing import Any

import pytest

from tests.house.source import ROOT
from tests.unit.aggregates.dataset.given import by, digest, refused, truncated, watched
from tests.unit.domain.given import (
    STREAM,
    Told,
    accepted,
    assigned,
    begun,
    ended,
    finish,
    over,
    received,
    record_of,
    report,
    search_running,
    submitted,
    suggested,
    task_active,
    task_id,
    task_queued,
)
from tests.unit.domain.given_pipelines import defined, pipeline_defined
from tests.unit.domain.plausible import Chance
from tests.unit.replay.given import after
from trackside.aggregates.batch import messages
from trackside.aggregates.dataset.messages import (
    DatasetChanged,
    DatasetDeleted,
    DatasetPaused,
    DatasetResumed,
    DatasetStatus,
)
from trackside.aggregates.model.messages import ModelStatus
from trackside.aggregates.pipeline.messages import PipelineRetired, PipelineStatus
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import (
    SearchEnded,
    SearchExhausted,
    SearchFailed,
    SearchPaused,
    SearchResumed,
    SearchSpaceUpdated,
    SearchStatus,
    SearchStopRequested,
    SearchUpdated,
    TrialAdded,
)
from trackside.contracts.envelope.ids import batch_task_id
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.envelope.parts import Part
from trackside.contracts.fleet.fleet import Device, WorkerJoined, WorkerLeft, WorkerLost
from trackside.contracts.tasks.tasks import TimeLimitReached
from trackside.domain.fleet import fleet
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.folding.streams import Streams
from trackside.domain.tasks.task import TaskState

PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
ARROW = re.compile(r"^(\S+) --> (\S+): (.+)$")
START = "[*]"
RANDOM_LOGS = 30
Transition = tuple[str, str, str]
"""State before, type of the event, state after."""


def diagram(subject: str) -> str:
    found = re.search(
        rf"^### {subject}\b.*?^```mermaid\nstateDiagram-v2\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )
    assert found, f"ARCHITECTURE.md draws no states of a {subject}"
    return found[1]


def drawn(subject: str) -> set[Transition]:
    """Returns the transitions of a diagram; an arrow at a composite state stands for all states in it."""
    members: dict[str, list[str]] = {}
    arrows: list[tuple[str, str, str]] = []
    inside = ""
    for line in map(str.strip, diagram(subject).splitlines()):
        opening = re.fullmatch(r"state (?:\"[^\"]+\" as )?(\w+) \{", line)
        if opening:
            inside = opening[1]
            members[inside] = []
        elif line == "}":
            inside = ""
        elif arrow := ARROW.match(line):
            arrows += [(arrow[1], event, arrow[2]) for event in arrow[3].split(", ")]
            members.get(inside, []).extend([arrow[1], arrow[2]])
        else:
            assert re.fullmatch(r"\w+", line), f"{subject}: a line of another form: {line}"
            members.get(inside, []).append(line)
    return {
        (before, event, after)
        for first, event, second in arrows
        for before in members.get(first, [first])
        for after in members.get(second, [second])
    }


def states(streams: Streams) -> dict[tuple[str, str], str]:
    """Returns the state of each search, batch and task of the stream, by kind and id."""
    stream = streams.by_id.get(STREAM)
    if stream is None:
        return {}
    found = {("Task", task.task_id): task.state.value for task in stream.tasks.values()}
    children = stream.children.values()
    found |= {("Child", child.child_id): child.state if child.open else "ended" for child in children}
    if stream.root is not None:
        found[stream.kind.capitalize(), ""] = stream.root.status.value
    return found


def folded(records: Iterable[Record], subject: str) -> set[Transition]:
    streams, before = Streams(AGGREGATES), dict[tuple[str, str], str]()
    found = set()
    for record in records:
        streams.fold(record)
        after = states(streams)
        for which, state in after.items():
            was = before.get(which, START)
            if which[0] == subject and was != state:
                found.add((was, type(record.message).__name__, state))
        before = after
    return found


@cache
def random_logs() -> tuple[Told, ...]:
    """Returns logs that services might have written, with late, repeated and wrong events in them."""
    return tuple(Chance(Random(seed)).history(150) for seed in range(RANDOM_LOGS))


def suggest(told: Told, trial: int, **changed: object) -> None:
    seen = told.search.opened[trial]
    told.tell(suggested(trial).model_copy(update={"seen": seen, **changed}), submitted(trial))


def limits(change: int, **changed: float | None) -> SearchUpdated:
    fields = {"command_id": "c-2", "change": change, "concurrency": 2, "max_trials": 4, **changed}
    return SearchUpdated.model_validate(fields)


def paused(change: int) -> SearchPaused:
    return SearchPaused(command_id="c-2", change=change, running="finish")


def exhausted(told: Told) -> SearchExhausted:
    return SearchExhausted(trials=len(told.search.trials), seen=told.next_offset)


def full() -> Told:
    told = search_running(max_trials=1)
    suggest(told, 0)
    finish(told, 0, 0.5)
    return told


def without_suggestions() -> Told:
    told = search_running()
    told.tell(exhausted(told))
    return told


def stopping() -> Told:
    return after(search_running(), SearchStopRequested(command_id="c-9", reason=""))


def full_by_added_trial() -> Told:
    """A search whose last trial was a user's, after its tuner had nothing left to suggest."""
    told = search_running(max_trials=1)
    told.tell(exhausted(told))
    told.tell(TrialAdded(command_id="c-2", change=1, parameters={"lr": 9.0}, tell_tuner=True))
    suggest(told, 0, source="customized")
    return told


def searches() -> Iterable[Told]:
    """Yields a log for each transition of a search that random logs seldom have."""
    for make in (full, without_suggestions):
        for stop in (SearchStopRequested(command_id="c-9", reason=""), SearchFailed(code="x", message="")):
            yield after(make(), stop)
            yield after(make(), paused(1), stop)
        yield after(make(), paused(1), SearchResumed(command_id="c-3", change=2))
    for make in (full, without_suggestions, stopping):
        for status in (SearchStatus.DONE, SearchStatus.STOPPED, SearchStatus.ERROR):
            yield after(make(), SearchEnded(status=status, trials=0))
    yield after(full(), limits(1))
    told = task_active(goal=0.1)
    yield after(told, report(0, 0.5, final=True), ended(), over(0, 0.5))
    yield after(task_active(), limits(1, max_trials=1))
    space = (told := without_suggestions()).search.spec.space
    yield after(told, SearchSpaceUpdated(command_id="c-2", change=1, space_version=2, space=space))
    told = task_active(goal=0.1)
    yield after(told, exhausted(told), report(0, 0.5, final=True), ended(), over(0, 0.5))
    told = task_active()
    yield after(told, exhausted(told), limits(1, max_trials=1))
    yield after(full_by_added_trial(), limits(2))


def batch_running() -> Told:
    told = after(Told(), received())
    batch = messages.BatchSpec.model_validate({"groups": [{"tasks": [{"task_type": "digits"}]}]})
    told.tell(accepted(), messages.BatchStarted(command_id="c-1", batch=batch))
    return told


def batches() -> Iterable[Told]:
    name = batch_task_id(STREAM, 0, "1")
    life: list[Message] = [
        submitted(None, part=Part(kind="group", number=0, name="1")), assigned(), begun(), ended()
    ]  # fmt: skip
    whole = [event.model_copy(update={"task_id": name}) for event in life]
    stop = messages.BatchStopRequested(command_id="c-1", reason="")
    whole += [messages.GroupEnded(group=0, ends={"finished": 1}), stop]
    yield after(batch_running(), *whole, messages.BatchEnded(status=messages.BatchStatus.DONE))


def datasets() -> Iterable[Told]:
    resumed, deleted = DatasetResumed(command_id="c-8", change=1), DatasetDeleted(command_id="c-9", change=1)
    changed = DatasetChanged(**by(), stop=1, observed_sha256=digest(5))
    for stop in (truncated(), changed, refused()):
        yield after(watched(5), stop, resumed, deleted.model_copy(update={"change": 2}))
        yield after(watched(5), stop, deleted)
    paused = DatasetPaused(command_id="c-7", change=1)
    yield after(watched(), paused, deleted.model_copy(update={"change": 2}))


def pipelines() -> Iterable[Told]:
    yield after(pipeline_defined(), PipelineRetired(command_id="c-2", change=2), defined(3))


def tasks() -> Iterable[Told]:
    told = task_queued(queue_timeout_s=0.001)
    due_ms = told.task().due_ms
    assert due_ms is not None
    yield after(told, TimeLimitReached(task_id=task_id(0), attempt=1, limit="queue", due_ms=due_ms))


DIRECTED: dict[str, Callable[[], Iterable[Told]]] = {
    "Search": searches, "Batch": batches, "Dataset": datasets, "Pipeline": pipelines, "Task": tasks
}  # fmt: skip
"""What random logs do not have, by subject."""


STATES: dict[str, type[Enum]] = {
    "Search": SearchStatus, "Batch": messages.BatchStatus, "Dataset": DatasetStatus, "Model": ModelStatus,
    "Pipeline": PipelineStatus, "Task": TaskState,
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("subject", [*STATES, "Child"])
def test_a_diagram_has_every_state_and_the_transitions_that_the_fold_permits(subject: str) -> None:
    permitted = set[Transition]()
    for told in (*DIRECTED.get(subject, tuple)(), *random_logs()):
        permitted |= folded(told.records, subject)
    assert drawn(subject) == permitted
    found = {state for before, _, after in drawn(subject) for state in (before, after)}
    assert subject not in STATES or found - {START} == {state.value for state in STATES[subject]}


def test_the_diagram_of_a_worker_has_the_transitions_that_the_fold_permits() -> None:
    device = Device(device_id="cpu-0", kind="cpu", name="slot", memory_bytes=1)
    about: Any = {"host": "node", "task_types": ["digits"], "queues": ["default"], "after": {}}
    told: list[Message] = []
    for incarnation in ("i-1", "i-2", "i-3"):
        told += [
            WorkerJoined(worker_id="w1", incarnation=incarnation, devices=[device], **about),
            WorkerLeft(worker_id="w1", incarnation=incarnation),
            WorkerLost(worker_id="w1", incarnation=incarnation, silent_ms=10_001),
        ]
    permitted = set[Transition]()
    for seed in range(200):
        state, chance = Fleet(), Random(seed)
        before = START
        for offset, message in enumerate(chance.choices(told, k=12)):
            fleet.evolve(state, record_of(message, offset, stream="w1", partition=0))
            worker = state.workers.get("w1")
            now = START if worker is None else worker.gone or "present"
            if now != before:
                permitted.add((before, type(message).__name__, now))
            before = now
    assert drawn("Worker") == permitted
