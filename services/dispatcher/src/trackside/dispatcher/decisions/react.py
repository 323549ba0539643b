"""What the dispatcher decides, from the state of a stream alone: pure, no clock, no clients."""

from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import Any

from trackside.aggregates.batch.state import batch_of
from trackside.aggregates.search.advice import is_deadlocked
from trackside.aggregates.search.state import Search, search_of
from trackside.contracts.advice import (
    FAILURES_MAX,
    MESSAGE_MAX,
    TRACEBACK_MAX,
    AssessmentFailed,
    SuggestionDeferred,
    SuggestionFailed,
)
from trackside.contracts.batches import StopTasks, SubmitTasks
from trackside.contracts.codec import command_of
from trackside.contracts.commands import CommandAccepted, CommandRefused
from trackside.contracts.ids import trial_task_id
from trackside.contracts.message import Event
from trackside.contracts.refusals import Problem
from trackside.contracts.searches import (
    Ping,
    SearchEnded,
    SearchExhausted,
    SearchFailed,
    SearchSpec,
    SearchStarted,
    SearchStatus,
    StartSearch,
    StopSearch,
    Suggester,
    TrialSuggested,
)
from trackside.contracts.tasks import (
    TaskHeld,
    TaskReleased,
    TaskStopRequested,
    TaskSubmitted,
)
from trackside.dispatcher.assessors.builtin_assessors import check_assessor
from trackside.dispatcher.decisions import batch as batches
from trackside.dispatcher.decisions import search_changes as changes
from trackside.dispatcher.decisions import search_objectives as several
from trackside.dispatcher.decisions import search_seeding as origins
from trackside.dispatcher.decisions import trial_reuse as handing_on
from trackside.dispatcher.decisions.capabilities import Offer, device_problem, type_problem
from trackside.dispatcher.decisions.ended_trials import over_in
from trackside.dispatcher.decisions.search_changes import Changing
from trackside.dispatcher.decisions.trial_results import trial_ended
from trackside.dispatcher.tuners.builtin_tuners import check_tuner
from trackside.domain.command import Publication, ReceivedCommand
from trackside.domain.proposal import Proposal
from trackside.domain.stream import Stream
from trackside.domain.task import Task, TaskState

CHANCES = 3
"""How often a trial may fail to be drawn by chance, where that stands in for a tuner."""
_FINISHED = frozenset({SearchStatus.NO_MORE_TRIAL, SearchStatus.TUNER_NO_MORE_TRIAL})


def react(stream: Stream, offer: Offer, over: Collection[int] | None = None) -> list[Proposal]:
    """Gives what a stream lacks now: an answer to its oldest open command, tasks, ends, its own end.

    `over` are the open trials whose task has ended, if that is known; else they are looked for.
    """
    lacking = []
    answer = _answer(stream, offer)
    if answer is not None:
        lacking.append(answer)
    search, batch = search_of(stream), batch_of(stream)
    if stream.root is not None and stream.root.asking and not stream.closed:
        lacking += handing_on.lacking(stream)
    if batch is not None and answer is None:  # what is answered may stop it: tasks of then would be in vain
        lacking += batches.lacking(batch, stream.tasks, stream.traceparent)
    if search is not None and not stream.closed:
        lacking += _ended_trials(search, stream.tasks, over)
        lacking += _stopped_tasks(search, stream.tasks)
        lacking += _held_tasks(search, stream.tasks)
        lacking += _added_trial(stream, search)
        lacking += _failed_search(search, stream.traceparent)
        lacking += _ended_search(search, stream.traceparent)
    return lacking


def suggestion(
    search: Search,
    number: int,
    parameters: dict[str, Any],
    seen: int,
    source: Suggester = "algorithm",
    within: str = "",
) -> list[Event]:
    """Gives the events of a tuner's suggestion for trial `number`, asked at offset `seen`, or of a user's.

    `within` is a task that goes on with it; else it has one of its own.
    """
    spec = search.spec
    suggested = TrialSuggested(
        trial=number,
        parameters=parameters,
        seen=seen,
        source=source,
        space_version=search.space_version,
        within=within,
    )
    if within:
        return [suggested]
    return [
        suggested,
        TaskSubmitted(
            task_id=trial_task_id(search.search_id, number),
            task_type=spec.task_type,
            parameters=parameters,
            trial=number,
            needs=spec.needs,
        ),
    ]


def exhausted(search: Search, seen: int) -> list[Event]:
    """Gives the event of a tuner that has nothing left to suggest, asked at offset `seen`."""
    return [SearchExhausted(trials=len(search.trials), seen=seen)]


def deferred(search: Search, number: int, seen: int) -> list[Event]:
    """Gives the event of a tuner that waits for the end of a trial; a failure where there is none to come."""
    if is_deadlocked(search, seen):
        vain = "it waits for the end of a trial, and none runs"
        return failed(search, number, seen, "tuner_waits_in_vain", vain)
    return [SuggestionDeferred(trial=number, seen=seen)]


def failed(
    search: Search, number: int, seen: int, code: str, message: str, traceback: str = ""
) -> list[Event]:
    """Gives the event of a tuner that gave nothing of use for trial `number`."""
    return [
        SuggestionFailed(
            trial=number,
            failure=search.failures + 1,
            code=code,
            message=message[:MESSAGE_MAX],
            traceback=traceback[-TRACEBACK_MAX:],
            seen=seen,
        )
    ]


def assessment_failed(
    failure: tuple[int, int, int | None], code: str, message: str, traceback: str, seen: int
) -> list[Event]:
    """Gives the event of an assessor that failed: at which row, how often in a row, about which trial."""
    rows, in_a_row, trial = failure
    return [
        AssessmentFailed(
            rows=rows,
            failure=in_a_row,
            trial=trial,
            code=code,
            message=message[:MESSAGE_MAX],
            traceback=traceback[-TRACEBACK_MAX:],
            seen=seen,
        )
    ]


def assessor_is_given_up(search: Search) -> bool:
    """Says whether an assessor has failed too often to be asked again."""
    known, assessor = search.assessor_failures, search.spec.assessor
    return assessor is not None and (
        known.in_a_row > assessor.on_failure.retries or known.count >= FAILURES_MAX
    )


def is_for_chance(search: Search) -> bool:
    """Says whether the next trial is to be drawn by chance, since its tuner has failed too often."""
    policy = search.spec.tuner.on_failure
    return policy.then == "random" and search.failures > policy.retries


def has_failed(search: Search) -> bool:
    """Says whether a search can't go on: neither its tuner nor chance in its place gave the next trial."""
    policy = search.spec.tuner.on_failure
    tries = policy.retries + (CHANCES if policy.then == "random" else 0)
    return search.next_trial is not None and search.failures > tries


def early_stop(search: Search, trial: int, seen: int) -> list[Event]:
    """Gives the event of an assessor's verdict that a trial is hopeless."""
    return [TaskStopRequested(task_id=search.task_of(trial), reason="assessor", seen=seen)]


def default_seed(stream_id: str) -> int:
    """Derives the seed of a search whose command gave none, so that a repeated decision is the same."""
    return int.from_bytes(blake2b(stream_id.encode(), digest_size=6).digest(), "big")


def _answer(stream: Stream, offer: Offer) -> Proposal | None:
    for command in stream.commands.values():
        for publication in command.publications:
            if not publication.answered:
                events = _decide(stream, command, publication, offer)
                return Proposal("decide command", events, publication.offset, command.traceparent)
    return None


def _decide(stream: Stream, command: ReceivedCommand, publication: Publication, offer: Offer) -> list[Event]:
    accepted = CommandAccepted(command_id=command.command_id, source=publication.source)
    if publication.digest != command.digest:
        message = f"command id was used with another body at offset {command.offset} of its stream"
        return [_refusal(command, publication, Problem(code="idempotency_conflict", message=message))]
    if command.decided:
        return [accepted] if command.answer is None else [_refusal(command, publication, command.answer)]
    decided = command.problem or _obeyed(stream, command, offer)
    if isinstance(decided, Problem):
        return [_refusal(command, publication, decided)]
    return [accepted, *decided]


def _refusal(command: ReceivedCommand, publication: Publication, problem: Problem) -> CommandRefused:
    return CommandRefused(
        command_id=command.command_id,
        source=publication.source,
        code=problem.code,
        path=problem.path,
        message=problem.message,
    )


def _obeyed(stream: Stream, command: ReceivedCommand, offer: Offer) -> list[Event] | Problem:
    read = command_of(command.command_type, command.body or {})
    match read:
        case Problem():
            return read
        case StartSearch():
            return _start(stream, command, read, offer)
        case StopSearch():
            return changes.stop(stream, command.command_id, read)
        case Ping():
            return []
        case SubmitTasks():
            return batches.start(stream, command.command_id, read, offer)
        case StopTasks():
            return batches.stop(stream, command.command_id, read)
        case _ if isinstance(read, Changing):
            return changes.change(stream, command.command_id, read, offer)
        case _:
            return Problem(
                code="unknown_command", path="$type", message=f"{command.command_type} is not for us"
            )


def _start(
    stream: Stream, command: ReceivedCommand, wanted: StartSearch, offer: Offer
) -> list[Event] | Problem:
    unfit = (
        batches.already_taken(stream)
        or type_problem(offer, wanted.task_type, "$.task_type")
        or device_problem(offer, wanted.resources.device, "$.resources.device")
    )
    if unfit is not None:
        return unfit
    plain = wanted.model_dump(mode="json")
    fault = check_tuner(plain["space"], plain["tuner"], offer.tuners)
    if fault is not None:
        return Problem(code=_fault_code(fault[0]), path=fault[0], message=fault[1])
    if plain["assessor"] is not None:
        fault = check_assessor(plain["assessor"], offer.assessors)
        if fault is not None:
            return Problem(code=_fault_code(fault[0]), path=fault[0], message=fault[1])
    unfit = several.problem(wanted)
    if unfit is not None:
        return unfit
    if wanted.objectives:
        plain["direction"] = wanted.objectives[0].direction
    behind = origins.known_from_the_start(wanted, command.command_id)
    if isinstance(behind, Problem):
        return behind
    spec = SearchSpec.model_validate({name: plain[name] for name in SearchSpec.model_fields})
    seed = default_seed(stream.stream_id) if wanted.seed is None else wanted.seed
    started = SearchStarted(command_id=command.command_id, search=spec, seed=seed, origin=wanted.origin)
    return [started, *behind]


def _fault_code(path: str) -> str:
    if path.endswith("tuner.name"):
        return "unknown_tuner"
    if path.endswith("assessor.name"):
        return "unknown_assessor"
    return "bad_search_space" if path.startswith("$.space") else "bad_option"


def _ended_trials(search: Search, tasks: dict[str, Task], over: Collection[int] | None) -> Iterable[Proposal]:
    for number in sorted(over_in(search, tasks) if over is None else over):
        task = tasks[search.task_of(number)]
        yield Proposal(
            "end trial", [trial_ended(search.spec, number, task)], task.changed_at, task.traceparent
        )


def _stopped_tasks(search: Search, tasks: dict[str, Task]) -> Iterable[Proposal]:
    if search.status is not SearchStatus.STOPPING:
        return
    for task_id in _open_tasks(search):
        task = tasks.get(task_id)
        if task is not None and task.state is not TaskState.ENDED and not task.stop_reason:
            event = TaskStopRequested(
                task_id=task.task_id, reason="search_failed" if search.failure else "user"
            )
            yield Proposal("stop task", [event], search.control_at, task.traceparent)


def _open_tasks(search: Search) -> list[str]:
    """Lists the tasks of the trials that go on, and those that run without one."""
    return [*(search.task_of(number) for number in sorted(search.active)), *search.idle]


def _held_tasks(search: Search, tasks: dict[str, Task]) -> Iterable[Proposal]:
    """Holds the tasks of a search that was paused with `return`, and releases them when that is over."""
    if not search.changes or search.status is SearchStatus.STOPPING:
        return
    hold = search.paused == "return"
    for task_id in _open_tasks(search):
        task = tasks.get(task_id)
        if task is None or task.state is TaskState.ENDED or task.stop_reason or task.held is hold:
            continue
        if hold:
            held = TaskHeld(task_id=task.task_id, hold=task.holds + 1)
            yield Proposal("hold task", [held], search.control_at, task.traceparent)
        else:
            released = TaskReleased(task_id=task.task_id, hold=task.holds)
            yield Proposal("release task", [released], search.control_at, task.traceparent)


def _added_trial(stream: Stream, search: Search) -> Iterable[Proposal]:
    number = search.next_added
    if number is not None:
        parameters = search.added[0].parameters
        within = handing_on.next_task(stream)
        events = suggestion(search, number, parameters, search.opened[number], "customized", within)
        follows = max(search.opened[number], search.added[0].at)
        yield Proposal("add trial", events, follows, stream.traceparent)


def _failed_search(search: Search, traceparent: str) -> Iterable[Proposal]:
    assessor = search.spec.assessor
    if assessor is not None and assessor.on_failure.then == "stop" and assessor_is_given_up(search):
        if search.status is not SearchStatus.STOPPING:
            code, why = search.assessor_failures.last
            message = f"its assessor failed {search.assessor_failures.count} times: {why}"
            failed = SearchFailed(code=code, message=message)
            yield Proposal("fail search", [failed], search.failed_at, traceparent)
    elif has_failed(search):
        code, why = search.last_failure
        message = f"trial {search.next_trial}, asked {search.failures} times: {why}"
        yield Proposal(
            "fail search", [SearchFailed(code=code, message=message)], search.failed_at, traceparent
        )


def _ended_search(search: Search, traceparent: str) -> Iterable[Proposal]:
    if search.active or search.idle or search.next_added is not None:
        return
    if search.status in _FINISHED:
        status = SearchStatus.DONE
    elif search.status is SearchStatus.STOPPING:
        status = SearchStatus.ERROR if search.failure else SearchStatus.STOPPED
    else:
        return
    ended = SearchEnded(status=status, trials=len(search.trials))
    yield Proposal("end search", [ended], search.changed_at, traceparent)
