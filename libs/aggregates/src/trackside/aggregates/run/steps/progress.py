"""How a run proceeds: which steps may begin, which items are open, what follows when a step has ended."""

from collections.abc import Collection

from trackside.aggregates.run.messages import RunStarted, RunStatus
from trackside.aggregates.run.state import WORKING, Run, RunStep, StepOutput, StepWait, taken_artifact
from trackside.aggregates.run.step_messages import FAILURES, SUCCESSES, ArtifactCheck, StepState, TakenStep
from trackside.contracts.envelope.message import Record
from trackside.contracts.fleet.fleet import CHECK_ARTIFACTS
from trackside.contracts.streams.children import ChildRequested
from trackside.contracts.tasks.tasks import AttemptEnd, TaskSubmitted
from trackside.domain.pipelines.compiling import needed, steps_whose_results_are_used
from trackside.domain.pipelines.definition import CACHE, STEP, TASK, StepNeeds, action_after, kind_of
from trackside.domain.streams.child import Child
from trackside.domain.tasks.task import Task, TaskState

_ENDS = {
    AttemptEnd.FINISHED: StepState.SUCCEEDED,
    AttemptEnd.CANCELLED: StepState.ABORTED,
    AttemptEnd.LOST: StepState.LOST,
    AttemptEnd.TIMED_OUT_QUEUE: StepState.TIMED_OUT,
    AttemptEnd.TIMED_OUT_RUN: StepState.TIMED_OUT,
}
TAKEN = "taken"
"""The kind of end of a step that was taken over from another run."""
_CHILD_ENDS = {
    "DONE": StepState.SUCCEEDED,
    "SUCCEEDED": StepState.SUCCEEDED,
    "STOPPED": StepState.ABORTED,
    "ABORTED": StepState.ABORTED,
    "TIMED_OUT": StepState.TIMED_OUT,
}


def begin(run_id: str, event: RunStarted, record: Record) -> Run:
    """Makes the run of a RunStarted event."""
    spec = event.pipeline
    run = Run(
        run_id,
        spec,
        event.sha256,
        event.parameters,
        started_ms=record.append_time_ms,
        started_at=record.offset,
        seed=event.seed,
        use_cache=event.use_cache,
        origin=event.origin,
        concurrency=spec.concurrency,
        timeout_s=spec.timeout_s,
        since_ms=record.append_time_ms,
        changed_at=record.offset,
        control_at=record.offset,
    )
    for number, step in enumerate(spec.steps):
        run.steps[step.name] = RunStep(number, changed_at=record.offset)
    for name, taken in event.taken.items():
        if name in run.steps:
            _take_over(run.steps[name], taken, record)
    connect(run)
    return run


def _take_over(step: RunStep, taken: TakenStep, record: Record) -> None:
    """Ends a step as it had ended in another run; the run's own later steps refer to what was found there."""
    step.state, step.kind = StepState.CACHED, TAKEN
    step.ready_ms = step.ended_ms = record.append_time_ms
    step.count, step.items, step.resolved = taken.count, taken.items, taken.values
    for found in taken.outputs:
        artifacts = {name: taken_artifact(saved) for name, saved in found.artifacts.items()}
        step.outputs[found.index] = StepOutput(
            found.task, record.offset, found.result, artifacts, dict(found.inputs)
        )


def connect(run: Run) -> None:
    """Computes from its definition and the states of its steps what each waits for, and which come next."""
    run.unended = sum(not step.over for step in run.steps.values())
    used = steps_whose_results_are_used(run.spec)
    for name, step in run.steps.items():
        step.dependents, step.keeps_outputs = {}, name in used
    for spec in run.spec.steps:
        for rule in StepNeeds.model_fields:
            for name in dict.fromkeys(getattr(spec.needs, rule)):
                run.steps[name].dependents.setdefault(spec.name, []).append(rule)
    run.frontier.clear()
    for name, step in run.steps.items():
        if step.state is StepState.PENDING:
            step.wait = _wait_of(run, name)
            if step.wait.decided:
                run.frontier[name] = None


def _wait_of(run: Run, name: str) -> StepWait:
    needs = run.spec_of(name).needs
    wait = StepWait(len({*needs.all, *needs.all_ended}), len(set(needs.any_of)), any_met=not needs.any_of)
    for parent in needed(run.spec_of(name)):
        if run.steps[parent].over:
            wait = wait_after(run, name, wait, parent, run.steps[parent].state)
    return wait


def wait_after(run: Run, name: str, wait: StepWait, parent: str, state: StepState) -> StepWait:
    """Returns how far the needs of a step are met once one of the steps that it needs has ended."""
    rules = run.steps[parent].dependents[name]  # not the needs of the step, which may be 10,000 names
    good = run.counts_as_success(parent, state)
    unmet, any_left, any_met, blocked_by = wait.unmet, wait.any_left, wait.any_met, wait.blocked_by
    if "all" in rules or "all_ended" in rules:
        unmet -= 1
        if "all" in rules and not good:
            blocked_by = blocked_by or parent
    if "any_of" in rules:
        any_left -= 1
        any_met = any_met or good
        if not any_met and not any_left:
            blocked_by = blocked_by or parent
    return StepWait(unmet, any_left, any_met, blocked_by)


def admits(run: Run, event: TaskSubmitted) -> bool:
    """Returns whether a task is the next item of its step, and may begin now."""
    part = event.part
    if part is None or part.name not in run.steps:
        return False
    if part.kind == CACHE:
        return _admits_check(run, part.name, event)
    if part.kind != STEP:
        return False
    if kind_of(run.spec_of(part.name)) != TASK:
        return False
    return _admits_item(run, part.name, part.number, event.task_id)


def _admits_check(run: Run, name: str, event: TaskSubmitted) -> bool:
    """Returns whether a task may check the artifacts of a step in the cache: once, before it runs."""
    step, cache = run.steps[name], run.spec_of(name).cache
    if run.status is not RunStatus.RUNNING or step.state is not StepState.READY or step.cache_parts:
        return False
    if cache is None or cache.refresh or not run.use_cache or step.check is not None:
        return False
    return event.task_type == CHECK_ARTIFACTS and event.task_id == run.check_id(name)


def admits_child(run: Run, event: ChildRequested) -> bool:
    """Returns whether a child is the next item of its step, and may begin now."""
    found = run.item_of(event.child_id)
    if found is None or run.spec_of(found[0]).kind != event.kind:
        return False
    return _admits_item(run, found[0], found[1], event.child_id)


def _admits_item(run: Run, name: str, index: int, item_id: str) -> bool:
    return run.may_begin(name) == index and run.item_id(name, index) == item_id


def note_check(run: Run, name: str, task: Task) -> None:
    """Takes in that the artifacts of a step in the cache are checked."""
    found = task.parameters.get("found", {})
    run.steps[name].check = ArtifactCheck(
        str(task.parameters.get("key", "")),
        str(found.get("stream", "")),
        str(found.get("step", "")),
        int(found.get("offset", -1)),
    )
    run.checks[name] = task.task_id


def _note_check_end(run: Run, name: str, task: Task, record: Record) -> None:
    """Takes in what the check of a step's artifacts has found, if it has ended."""
    step, check = run.steps[name], run.steps[name].check
    if task.end is None or run.checks.get(name) != task.task_id or check is None:
        return
    check.open = False
    missing = (task.result or {}).get("missing") if task.end is AttemptEnd.FINISHED else None
    check.missing = [str(each) for each in missing] if isinstance(missing, list) else None
    del run.checks[name]
    step.changed_at = run.changed_at = record.offset
    run.settled.append(task.task_id)


def note_begun(run: Run, name: str, index: int) -> None:
    """Counts an item that has begun."""
    step = run.steps[name]
    step.begun += 1
    step.open.add(index)
    run.open += 1
    _set_working_state(step)
    limit = run.spec_of(name).at_once
    if step.next_index is None or (limit is not None and len(step.open) >= limit):
        run.ready.pop(name, None)  # until an item ends


def note_task(run: Run, task: Task, record: Record) -> None:
    """Takes in what became of a task: whether it runs, or how it ended."""
    part = task.part
    assert part is not None
    if part.kind == CACHE:
        _note_check_end(run, part.name, task, record)
        return
    step, index = run.steps[part.name], part.number
    if index not in step.open:
        return
    if task.state is TaskState.ACTIVE:
        step.active.add(index)
    else:
        step.active.discard(index)
    if task.held and task.end is None:
        run.held[task.task_id] = None
    else:
        run.held.pop(task.task_id, None)
    if task.stop_reason:
        _note_stop(run, part.name, index)
    if task.end is None:
        _set_working_state(step)
        return
    state = _ENDS.get(task.end, StepState.FAILED)
    output = StepOutput(task.task_id, record.offset, task.result, dict(task.artifacts), dict(task.inputs))
    _item_ended(run, part.name, index, state, task.end.value, output)
    run.settled.append(task.task_id)


def _note_stop(run: Run, name: str, index: int) -> None:
    """Takes in that an open item was sent a stop."""
    step = run.steps[name]
    step.stopping.add(index)
    step.to_stop.discard(index)
    if not step.to_stop:
        run.ending.pop(name, None)


def note_child(run: Run, child: Child, record: Record) -> None:
    """Takes in that a child was requested, or has ended."""
    found = run.item_of(child.child_id)
    assert found is not None
    name, index, _ = found
    if child.open:
        if index not in run.steps[name].open:
            note_begun(run, name, index)
            run.steps[name].active.add(index)
            _set_working_state(run.steps[name])
        if child.stopping:
            _note_stop(run, name, index)
        return
    state = _CHILD_ENDS.get(child.status, StepState.FAILED)
    output = StepOutput(child.child_id, record.offset, child.result)
    _item_ended(run, name, index, state, child.status.lower(), output)


def _item_ended(run: Run, name: str, index: int, state: StepState, kind: str, output: StepOutput) -> None:
    step = run.steps[name]
    step.open.discard(index)
    step.active.discard(index)
    step.stopping.discard(index)
    step.to_stop.discard(index)
    if not step.to_stop:
        run.ending.pop(name, None)
    step.ended_items += 1
    step.changed_at = run.changed_at = output.at
    run.open -= 1
    if state not in SUCCESSES:
        step.unsuccessful[index] = state
        step.kind = kind
    spec = run.spec_of(name)
    if spec.repeat is not None:
        step.outputs = {index: output}
    elif spec.each is None or step.keeps_outputs:
        step.outputs[index] = output
    _set_working_state(step)
    note_work(run, name)


def note_work(run: Run, name: str) -> None:
    """Notes whether a step has more items to begin, or none that are open any more."""
    step = run.steps[name]
    if step.state not in WORKING:
        return
    more = step.next_index is not None and not run.stopping
    if more:
        run.ready[name] = None
    else:
        run.ready.pop(name, None)
        if not step.open and name not in run.open_gates:
            run.finished[name] = None


def _set_working_state(step: RunStep) -> None:
    """Sets what a step that has begun is: running if one of its items is, else queued; ready between them."""
    if step.state in WORKING:
        state = StepState.QUEUED if step.open else StepState.READY
        step.state = StepState.RUNNING if step.active else state


def possible_ends(run: Run, name: str) -> frozenset[StepState]:
    """Returns the states in which a step may end now: one, unless an expression decides."""
    step, spec = run.steps[name], run.spec_of(name)
    whole = step.begun >= step.todo and not step.aborted
    if whole and (spec.collect or (spec.repeat is not None and not step.unsuccessful)):
        unrepeated = [StepState.ABORTED] if run.stopping and spec.repeat is not None else []
        return frozenset({StepState.SUCCEEDED, StepState.FAILED, worst_end(step), *unrepeated})
    if not whole:
        return frozenset({StepState.ABORTED})
    return frozenset({worst_end(step)})


def worst_end(step: RunStep) -> StepState:
    """Returns how a step ends all of whose items must succeed: as the worst of them did."""
    ends = set(step.unsuccessful.values())
    order = (StepState.FAILED, StepState.LOST, StepState.TIMED_OUT, StepState.ABORTED)
    return next((state for state in order if state in ends), StepState.SUCCEEDED)


def end_step(run: Run, name: str, state: StepState, record: Record) -> None:
    """Ends a step; then steps that need it may begin, never will, or the whole run is stopped."""
    step = run.steps[name]
    step.state, step.ended_ms, step.changed_at = state, record.append_time_ms, record.offset
    run.unended -= 1
    for order in (run.frontier, run.ready, run.finished, run.open_gates, run.ending):
        order.pop(name, None)
    for dependent in step.dependents:
        waiting = run.steps[dependent]
        if waiting.state is StepState.PENDING:
            waiting.wait = wait_after(run, dependent, waiting.wait, name, state)
            if waiting.wait.decided:
                run.frontier[dependent] = None
    if state in FAILURES and not run.counts_as_success(name, state) and not run.stopping:
        run.causes.append(name)
        if action_after(run.spec, run.spec_of(name), state.value) == "fail":
            stop(run, RunStatus.FAILING, record)


def stop(run: Run, status: RunStatus, record: Record) -> None:
    """Begins no more steps: those that have not begun are omitted, and what is open is to end."""
    run.status, run.control_at = status, record.offset
    run.frontier.clear()
    run.ready.clear()
    for name, step in run.steps.items():
        if step.over or name in run.finished:
            continue
        if not step.begun:
            step.state, step.ended_ms, step.changed_at = (
                StepState.OMITTED,
                record.append_time_ms,
                record.offset,
            )
            run.unended -= 1
        elif step.open:
            step.to_stop |= step.open - step.stopping
            run.ending[name] = None
        else:
            run.finished[name] = None
    run.open_gates.clear()


def forget_artifacts(run: Run, digests: Collection[str]) -> None:
    """Takes steps out of the cache that have saved artifacts which need not be kept."""
    for step in run.steps.values():
        saved = (each for output in step.outputs.values() for each in output.artifacts.values())
        if step.cache_key and any(each.reference.sha256 in digests for each in saved):
            step.cache_key = ""
