"""What the dispatchers of a cluster may write next."""

from functools import partial

from tests.unit.domain import plausible_changes
from tests.unit.verify.random_cluster import run_moves as of_runs
from tests.unit.verify.random_cluster import running_moves
from tests.unit.verify.random_cluster.cluster import Cluster, Move
from trackside.aggregates.batch.messages import (
    BatchEnded,
    BatchSpec,
    BatchStarted,
    BatchStatus,
    BatchStopRequested,
    GroupEnded,
    needs_of,
    task_name,
)
from trackside.aggregates.batch.state import batch_of
from trackside.aggregates.run.state import run_of
from trackside.aggregates.search import trial_reuse as handing_on
from trackside.aggregates.search.messages import (
    SearchEnded,
    SearchResumed,
    SearchSpec,
    SearchStarted,
    SearchStatus,
    SearchStopRequested,
    SearchTimeLimitReached,
    Suggester,
    TrialEnded,
    TrialStatus,
    TrialSuggested,
)
from trackside.aggregates.search.state import search_of
from trackside.contracts.commands import RULES, CommandAccepted, CommandReceived
from trackside.contracts.ids import batch_task_id, trial_task_id
from trackside.contracts.message import Json, Message
from trackside.contracts.parts import Part, number_of
from trackside.contracts.tasks import (
    ParametersWithheld,
    TaskHeld,
    TaskReleased,
    TaskStopRequested,
    TaskSubmitted,
)
from trackside.domain import task_reuse
from trackside.domain.stream import Stream
from trackside.domain.task import TaskState

SEARCHES, BATCHES, RUNS = ("s1", "s2"), ("b1",), ("r1", "r2")
SPACE = {"lr": {"type": "uniform", "low": 0.0, "high": 1.0}}


def of_dispatcher(cluster: Cluster, stream_id: str, stream: Stream | None) -> list[Move]:
    append = cluster.append
    if stream is None:
        return [lambda: receive(cluster, stream_id)] * 3
    found: list[Move] = []
    run = run_of(stream)
    if run is not None:
        found += of_runs.of_run(cluster, stream)
        if stream.unanswered:
            found += [lambda: answer(cluster, stream)] * 4
        elif of_runs.wants_command(cluster, run):
            found.append(lambda: receive(cluster, stream_id))
        return found
    if stream.unanswered and not (cluster.omits("answers") and stream.closed):
        found += [lambda: answer(cluster, stream)] * 4
    elif cluster.random.random() < 0.01:
        found.append(lambda: receive(cluster, stream_id))
    if search_of(stream) is not None and not stream.closed:
        found += of_search(cluster, stream)
    if batch_of(stream) is not None and not stream.closed:
        found += of_batch(cluster, stream)
    stopping = stream.root is not None and stream.root.status is SearchStatus.STOPPING
    stopping = stopping or (stream.root is not None and stream.root.status is BatchStatus.STOPPING)
    found += running_moves.of_dispatcher(cluster, stream)
    untold = [task for task in stream.tasks.values() if not task.stop_reason and task.end is None]
    if untold and (stopping or cluster.random.random() < 0.004):
        stops = [TaskStopRequested(task_id=task.task_id, reason="user") for task in untold[:2]]
        found += [lambda: append("dispatcher", stream_id, *stops)] * 3
    if stream.root is not None and stream.root.asking:
        found += answers_to_requests(cluster, stream)
    held = [task for task in stream.tasks.values() if task.held and task.end is None]
    if held:
        released = [TaskReleased(task_id=task.task_id, hold=task.holds) for task in held]
        found.append(lambda: append("dispatcher", stream_id, *released))
    elif untold and cluster.random.random() < 0.01:
        holds = [TaskHeld(task_id=task.task_id, hold=task.holds + 1) for task in untold]
        found += [lambda: append("dispatcher", stream_id, *holds)] * 3
    return found


def answers_to_requests(cluster: Cluster, stream: Stream) -> list[Move]:
    """Answers a task that no trial is left, or ends its trial so that it can get the next one."""
    found: list[Move] = []
    for task in [stream.tasks[task_id] for task_id in sorted(stream.root.asking)]:
        named = {"task_id": task.task_id, "request": task.requested, "reason": "no_slot"}
        where = {"attempt": task.attempt.number, "placement": task.attempt.placement}
        answers: list[Message] = [ParametersWithheld.model_validate(named | where)]
        trial = number_of(task.part, "trial")
        if trial is not None and not task.idle:
            answers += [TrialEnded(trial=trial, status=TrialStatus.SUCCEEDED)] * 3
        found += [partial(cluster.append, "dispatcher", stream.stream_id, event) for event in answers]
    return found


def receive(cluster: Cluster, stream_id: str) -> None:
    source = cluster.publish()
    if cluster.omits("intake") and cluster.random.random() < 0.3:
        return
    event = CommandReceived(
        command_id=f"c-{len(cluster.published)}",
        command_type="trackside.start-search.v1",
        body={},
        digest=f"d-{len(cluster.published)}",
        source=source,
        publisher="cli",
        rules=RULES,
    )
    cluster.append("dispatcher", stream_id, event)


def answer(cluster: Cluster, stream: Stream) -> None:
    command, publication = next(
        (command, publication)
        for command in stream.commands.values()
        for publication in command.publications
        if not publication.answered
    )
    messages: list[Message] = [CommandAccepted(command_id=command.command_id, source=publication.source)]
    if stream.stream_id in RUNS:
        decided = of_runs.effect(cluster, stream, command.command_id)
        messages += decided if isinstance(decided, list) else []
    elif search_of(stream) is None and batch_of(stream) is None:
        messages.append(start(cluster, stream.stream_id, command.command_id))
    elif stream.root is not None and stream.root.status is SearchStatus.RUNNING:
        messages.append(SearchStopRequested(command_id=command.command_id, reason=""))
    elif stream.root is not None and stream.root.status is BatchStatus.RUNNING:
        messages.append(BatchStopRequested(command_id=command.command_id, reason=""))
    cluster.append("dispatcher", stream.stream_id, *messages)


def start(cluster: Cluster, stream_id: str, command_id: str) -> Message:
    random = cluster.random
    ends = ("lost", "failed", "oom_host", "oom_device", "timed_out_run")
    waits = [{"backoff_s": random.choice([0.0, 0.05]), "times": random.randrange(3)} for _ in ends]
    asked: Json = {"retry": dict(zip(ends, waits, strict=True))}
    asked |= {
        name: random.uniform(0.05, 0.6)
        for name in ("queue_timeout_s", "run_timeout_s")
        if random.random() < 0.4
    }
    if stream_id in BATCHES:
        task: Json = {"task_type": "digits", "resources": {"whole_device": random.random() < 0.3}}
        groups = [{"tasks": [task] * random.randint(2, 4)} for _ in range(2)]
        if random.random() < 0.6:
            asked = {}  # services have neither rules of retries nor limits
            groups[0]["tasks"].append({"task_type": "digits", "service": True})
        spec = {"groups": groups, "concurrency": random.randint(2, 3), **asked}
        return BatchStarted(command_id=command_id, batch=BatchSpec.model_validate(spec))
    limits = {"max_trials": random.randint(3, 6), "concurrency": random.randint(1, 3)}
    tuner = {"name": "random", "on_failure": {"retries": random.randrange(2), "then": "random"}}
    plain = {"task_type": "digits", "space": SPACE, "tuner": tuner, **limits, **asked}
    return SearchStarted(command_id=command_id, search=SearchSpec.model_validate(plain), seed=7)


def of_search(cluster: Cluster, stream: Stream) -> list[Move]:
    search, append, found = search_of(stream), cluster.append, list[Move]()
    assert search is not None
    if cluster.random.random() < 0.05:
        changed = plausible_changes.change(cluster.random, search, search.changes + 1)
        found += [lambda: append("dispatcher", stream.stream_id, changed)] * 3
    if search.paused:
        resumed = SearchResumed(command_id="c-1", change=search.changes + 1)
        found.append(lambda: append("dispatcher", stream.stream_id, resumed))
    if search.due_ms is not None and cluster.now_ms >= search.due_ms:
        late = SearchTimeLimitReached(due_ms=search.due_ms)
        found += [lambda: append("dispatcher", stream.stream_id, late)] * 2
    number = search.next_trial
    if search.next_added is not None:
        found += [lambda: append("dispatcher", stream.stream_id, *trial(stream, len(search.trials)))] * 4
    if number is not None:
        advised = plausible_changes.advice(cluster.random, search, number) if search.opened[number:] else []
        found += [partial(append, "dispatcher", stream.stream_id, *said) for said in advised]
        found += [lambda: append("dispatcher", stream.stream_id, *trial(stream, number))] * 4
    for active in sorted(search.active):
        task = stream.tasks.get(search.task_of(active))
        if task is not None and task.state is TaskState.ENDED:
            over = TrialEnded(trial=active, status=TrialStatus.SUCCEEDED)
            found += [partial(append, "dispatcher", stream.stream_id, over)] * 3
    no_more = (SearchStatus.NO_MORE_TRIAL, SearchStatus.TUNER_NO_MORE_TRIAL, SearchStatus.STOPPING)
    if not search.active and not search.idle and search.next_added is None and search.status in no_more:
        ended = SearchEnded(status=SearchStatus.DONE, trials=len(search.trials))
        found += [lambda: append("dispatcher", stream.stream_id, ended)] * 3
    return found


def of_batch(cluster: Cluster, stream: Stream) -> list[Move]:
    batch, append, found = batch_of(stream), cluster.append, list[Move]()
    assert batch is not None
    done = batch.group == len(batch.spec.groups)
    if batch.group_is_over:
        over = GroupEnded(group=batch.group, ends=batch.ends)
        found += [lambda: append("dispatcher", stream.stream_id, over)] * 3
    elif batch.next_task is not None:
        tasks = next_tasks(stream, 2)
        found += [lambda: append("dispatcher", stream.stream_id, *tasks)] * 4
    if done or (batch.status is BatchStatus.STOPPING and not batch.open):
        status = BatchStatus.DONE if done else BatchStatus.STOPPED
        found += [lambda: append("dispatcher", stream.stream_id, BatchEnded(status=status))] * 3
    return found


def trial(stream: Stream, number: int) -> list[Message]:
    """Returns the decision that begins a trial."""
    search = search_of(stream)
    assert search is not None
    task_id, needs = trial_task_id(stream.stream_id, number), search.spec.needs
    by_user, task = search.next_added is not None, handing_on.next_task(stream)
    parameters = search.added[0].parameters if by_user else {"lr": 0.5}
    policy = search.spec.tuner.on_failure
    by_chance = policy.then == "random" and search.failures > policy.retries
    source: Suggester = "customized" if by_user else "fallback" if by_chance else "algorithm"
    suggested = TrialSuggested(
        trial=number,
        parameters=parameters,
        seen=max(0, search.moved_at),
        source=source,
        within="" if task is None else task.task_id,
    )
    part = Part(kind="trial", number=number)
    if task is not None:
        return [suggested, task_reuse.continued(task, part, parameters)]
    return [
        suggested,
        TaskSubmitted(
            task_id=task_id,
            task_type="digits",
            parameters={},
            part=part,
            needs=needs,
        ),
    ]


def next_tasks(stream: Stream, most: int) -> list[TaskSubmitted]:
    """Returns the next tasks of a batch that may run."""
    batch = batch_of(stream)
    assert batch is not None and batch.next_task is not None
    group = batch.spec.groups[batch.group]
    first, room = batch.next_task, min(most, batch.spec.concurrency - len(batch.open))
    return [
        TaskSubmitted(
            task_id=batch_task_id(batch.batch_id, batch.group, task_name(task, number)),
            task_type=task.task_type,
            parameters={},
            part=Part(kind="group", number=batch.group, name=task_name(task, number)),
            needs=needs_of(batch.spec, group, task),
        )
        for number, task in enumerate(group.tasks[first : first + room], first)
    ]
