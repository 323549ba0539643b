"""Changes of a search drawn by chance: as commands make them, and as nobody should."""

from random import Random
from typing import Any

from tests.unit.domain.given import submitted, suggested
from trackside.aggregates.search import messages
from trackside.aggregates.search.advice.advice import is_deadlocked
from trackside.aggregates.search.advice.advice_messages import (
    AssessmentFailed,
    SuggestionDeferred,
    SuggestionFailed,
)
from trackside.aggregates.search.space.space import Uniform
from trackside.aggregates.search.state import Search
from trackside.contracts.envelope.message import Message
from trackside.contracts.streams.labels import StreamAnnotated
from trackside.contracts.tasks.tasks import TaskHeld, TaskReleased, TaskStopRequested
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task

Move = list[Message]


def limits(random: Random) -> dict[str, Any]:
    found: dict[str, Any] = {"max_trials": random.randint(1, 20)}
    if random.random() < 0.5:
        found["assessor"] = messages.Assessor()
    if random.random() < 0.3:
        found["max_duration_s"] = random.uniform(0.02, 0.3)
    if random.random() < 0.3:
        found["objectives"] = [
            messages.Objective(name="a"),
            messages.Objective(name="b", direction="minimize"),
        ]
    return found | ({"goal": 0.99} if random.random() < 0.2 else {})


def beside(random: Random) -> dict[str, Any]:
    if random.random() < 0.2:
        return {"value": None, "non_finite": random.choice(["nan", "inf", "-inf"])}
    return {"others": {"b": random.random(), "c": "nan"}} if random.random() < 0.3 else {}


def values(random: Random) -> list[float | str | None]:
    return [random.random(), random.choice([random.random(), random.random(), "inf", None])]


def change(random: Random, search: Search, number: int) -> Message:
    known = {"command_id": "c-1", "change": number}
    spec, high = search.spec, random.choice([0.5, 1.0, 2.0])
    duration_s = random.choice([None, random.uniform(0.02, 0.4)])
    most = {"max_trials": max(1, spec.max_trials + random.randint(-2, 4)), "max_duration_s": duration_s}
    return random.choice(
        [
            messages.TrialsRequested(**known, count=random.randint(1, 3)),
            messages.SearchSpaceUpdated(
                **known,
                space_version=search.space_version + 1,
                space={"lr": Uniform(type="uniform", low=0.0, high=high)},
            ),
            messages.TrialsImported(**known, trials=[messages.PastTrial(parameters={"lr": 0.5}, value=0.25)]),
            messages.TrialAdded(**known, parameters={"lr": 9.0}, tell_tuner=random.random() < 0.5),
            messages.SearchUpdated(**known, concurrency=random.randint(1, 5), **most, goal=_goal(random)),
            messages.SearchPaused(**known, running=random.choice(["finish", "return"])),
            messages.SearchResumed(**known),
        ]
    )


def changes(random: Random, search: Search, now_ms: int) -> list[Move]:
    """Returns what commands and time may do to a search next, and the trials that users have added."""
    found: list[Move] = []
    number = search.next_added
    if number is not None:
        own = suggested(number).model_copy(
            update={"source": "customized", "parameters": {"lr": 9.0}, "seen": search.opened[number]}
        )
        found += [[own, submitted(number, needs=search.spec.needs)]] * 3
    if random.random() < 0.25:
        found.append([change(random, search, search.changes + 1)])
    if random.random() < 0.15:
        found += [[assessment_failed(random, search)]] * 2
    if search.paused:
        found += [[messages.SearchResumed(command_id="c-1", change=search.changes + 1)]] * 2
    if search.due_ms is not None and now_ms >= search.due_ms:
        found += [[messages.SearchTimeLimitReached(due_ms=search.due_ms)]] * 2
    return found


def assessment_failed(random: Random, search: Search) -> AssessmentFailed:
    """Returns the word that an assessor failed: the next one, a repeat, or one too far."""
    known = search.assessor_failures
    rows, failure = random.choice([(1, 1), (0, 1), (0, 0), (0, 0), (1, 3), (1, 3)])
    counts = {"rows": max(0, known.rows + rows), "failure": max(1, known.in_a_row + failure), "seen": 0}
    return AssessmentFailed(**counts, code="assessor_failed", message="it raised")


def advice(random: Random, search: Search, number: int) -> list[Move]:
    """Returns what a tuner may say of the next trial other than its parameters, and what it may not.

    As a stray the latter would nearly always meet another guard first.
    """
    seen, chance = search.opened[number], random.random()
    if chance < 0.15:
        return [[SuggestionDeferred(trial=number, seen=seen)]] * (8 if is_deadlocked(search, seen) else 2)
    if chance > 0.8:
        return [[failure(number, search.failures + 1, seen)]] * 3
    if search.failures and chance > 0.4:
        wrong = random.choice([0, 0, 2])
        return [[failure(number, search.failures + wrong, seen)]] * 3
    return []


def failure(trial: int, number: int, seen: int) -> SuggestionFailed:
    return SuggestionFailed(trial=trial, failure=number, code="tuner_failed", message="it raised", seen=seen)


def holds(random: Random, task: Task) -> list[Move]:
    if task.held:
        return [[TaskReleased(task_id=task.task_id, hold=task.holds)]]
    if task.stop_reason or random.random() > 0.06:
        return []
    return [[TaskHeld(task_id=task.task_id, hold=task.holds + 1)]]


def wrong(random: Random, search: Search | None, task: Task | None, now_ms: int) -> list[Message]:
    """Returns changes out of their order, limits before their time, holds that nobody asked for."""
    found: list[Message] = []
    if search is not None:
        found += [change(random, search, search.changes + random.choice([0, 1, 2])) for _ in range(4)]
        found.append(
            messages.SearchTimeLimitReached(due_ms=(search.due_ms or now_ms) + random.choice([0, 1]))
        )
        trial, seen = max(0, len(search.trials) - random.choice([0, 0, 0, 1])), (search.opened or [0])[-1]
        found += [failure(trial, search.failures + 2, seen), SuggestionDeferred(trial=trial, seen=seen)]
    if task is not None:
        hold = max(1, task.holds + random.choice([0, 1, 2]))
        found += [
            TaskHeld(task_id=task.task_id, hold=hold),
            TaskReleased(task_id=task.task_id, hold=hold),
        ] * 2
        late = {"reason": "max_trial_duration", "due_ms": now_ms + random.choice([0, 9, 9])}
        found += [TaskStopRequested.model_validate({"task_id": task.task_id, **late})] * 3
    return found


def _goal(random: Random) -> float | None:
    return random.choice([None, None, 0.999])


def annotations(random: Random, stream: Stream) -> list[Move]:
    if not stream.kind or random.random() > 0.03:
        return []
    return [[annotation(random, random.choice([*stream.commands, "c-unknown"]))]]


def annotation(random: Random, command_id: str = "c-1") -> StreamAnnotated:
    tags = ["baseline", "draft", "paper"]
    return StreamAnnotated(
        command_id=command_id,
        added_tags=random.sample(tags, random.randrange(3)),
        removed_tags=random.sample(tags, random.randrange(2)),
        note=random.choice([None, "", "for table 2"]),
        archived=random.choice([None, True, False]),
    )
