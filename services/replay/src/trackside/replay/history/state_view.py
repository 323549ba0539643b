"""A view of the state of a stream as plain values, by subject, for output and comparison."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.batch.messages import group_name
from trackside.aggregates.batch.state import Batch, batch_of
from trackside.aggregates.search.messages import TrialStatus
from trackside.aggregates.search.objectives import names_of
from trackside.aggregates.search.state import Search, Trial, search_of
from trackside.contracts.parts import number_of
from trackside.domain.command import ReceivedCommand
from trackside.domain.stream import Stream
from trackside.domain.task import Attempt, Task, TaskState

Fields = dict[str, Any]
SEARCH, BATCH, COMMANDS = "search", "batch", "commands"


@dataclass(frozen=True, slots=True)
class StateView:
    """The state of a stream at one time; it doesn't change with the stream.

    `kind` is `search` or `batch`, or `commands` for a stream where none was accepted. `tasks` are by task id,
    each with its `attempts`; times are ms since 1970 by the log's clock.
    """

    kind: str
    root: Fields
    commands: dict[str, Fields]
    trials: dict[int, Fields]
    groups: dict[str, Fields]
    tasks: dict[str, Fields]

    def as_json(self) -> Fields:
        """Returns the JSON form: lists of objects with their names."""
        return {
            "kind": self.kind,
            "state": self.root,
            "commands": [{"command_id": name, **fields} for name, fields in self.commands.items()],
            "trials": [{"trial": number, **fields} for number, fields in self.trials.items()],
            "groups": [{"group": name, **fields} for name, fields in self.groups.items()],
            "tasks": [{"task_id": name, **fields} for name, fields in self.tasks.items()],
        }

    def subjects(self) -> dict[str, Fields]:
        """Returns every subject that has a name, with its fields, in reading order."""
        found = {self.kind: self.root} if self.root else {}
        found |= {f"command {name}": fields for name, fields in self.commands.items()}
        found |= {f"trial {number}": fields for number, fields in self.trials.items()}
        found |= {f"group {name}": fields for name, fields in self.groups.items()}
        for name, fields in self.tasks.items():
            plain = {key: value for key, value in fields.items() if key != "attempts"}
            found[f"task {name}"] = plain | {"reports": len(fields["reports"])}
            for attempt in fields["attempts"]:
                plain = {key: value for key, value in attempt.items() if key != "attempt"}
                found[f"task {name} attempt {attempt['attempt']}"] = plain
        return found


def state_view(stream: Stream) -> StateView:
    """Returns a view of a stream's state."""
    search, batch = search_of(stream), batch_of(stream)
    kind, root = COMMANDS, {}
    if search is not None:
        kind, root = SEARCH, _search(search)
    elif batch is not None:
        kind, root = BATCH, _batch(batch)
    return StateView(
        kind=kind,
        root=root,
        commands={name: _command(command) for name, command in stream.commands.items()},
        trials={} if search is None else {t.number: _trial(t, _task_of(stream, t)) for t in search.trials},
        groups={} if batch is None else _groups(batch),
        tasks={name: _task(task) for name, task in stream.tasks.items()},
    )


def _search(search: Search) -> Fields:
    spec, best = search.spec, None if search.best is None else search.trials[search.best]
    return {
        "name": spec.name,
        "status": search.status.value,
        "task_type": spec.task_type,
        "tuner": spec.tuner.name,
        "assessor": None if spec.assessor is None else spec.assessor.name,
        "direction": spec.direction,
        "seed": search.seed,
        "max_trials": spec.max_trials,
        "concurrency": spec.concurrency,
        "suggested_trials": len(search.trials),
        "ended_trials": len(search.ends),
        "active_trials": sorted(search.active),
        "best_trial": None if best is None else best.number,
        "best_value": None if best is None else best.value,
        "objectives": names_of(spec),
        "pareto_front": list(search.front),
        "stop_reason": search.stop_reason,
        "failure": search.failure,
        "started_ms": search.started_ms,
        "ended_ms": search.ended_ms or None,
    }


def _batch(batch: Batch) -> Fields:
    groups = batch.spec.groups
    running = batch.group < len(groups)
    return {
        "name": batch.spec.name,
        "status": batch.status.value,
        "groups": len(groups),
        "running_group": group_name(groups[batch.group], batch.group) if running else None,
        "concurrency": batch.spec.concurrency,
        "open_tasks": len(batch.open),
        "stop_reason": batch.stop_reason,
        "started_ms": batch.started_ms,
        "ended_ms": batch.ended_ms or None,
    }


def _groups(batch: Batch) -> dict[str, Fields]:
    found = {}
    for number, group in enumerate(batch.spec.groups):
        over, runs = number < batch.group, number == batch.group
        ends = batch.ended[number] if over else batch.ends if runs else {}
        found[group_name(group, number)] = {
            "state": "ended" if over else "running" if runs else "waiting",
            "tasks": len(group.tasks),
            "submitted": len(group.tasks) if over else batch.submitted if runs else 0,
            "ends": dict(sorted(ends.items())),
        }
    return found


def _command(command: ReceivedCommand) -> Fields:
    refused = None if command.answer is None else command.answer
    answer = "accepted" if command.decided else "waiting"
    return {
        "type": command.command_type,
        "offset": command.offset,
        "publications": len(command.publications),
        "answer": answer if refused is None else f"refused: {refused.code}",
        "reason": "" if refused is None else refused.message,
    }


def _task_of(stream: Stream, trial: Trial) -> Task | None:
    return stream.tasks.get(trial.task_of(stream.stream_id))


def _trial(trial: Trial, task: Task | None) -> Fields:
    status = trial.status
    if status is None:
        started = task is not None and task.state in (TaskState.ACTIVE, TaskState.ENDED)
        status = TrialStatus.RUNNING if started else TrialStatus.WAITING
    reports = trial.reports if trial.ended_at >= 0 or task is None else task.reports
    step, value = reports[-1] if reports else (None, None)
    return {
        "status": status.value,
        "source": trial.source,
        "space_version": trial.space_version,
        "value": trial.value,
        "non_finite": trial.non_finite or None,
        "values": list(trial.values),
        "missing": list(trial.missing),
        "parameters": trial.parameters,
        "reports": len(reports),
        "last_step": step,
        "last_value": value,
        "suggested_at": trial.suggested_at,
        "ended_at": trial.ended_at if trial.ended_at >= 0 else None,
        "suggested_ms": trial.suggested_ms,
        "ended_ms": trial.ended_ms or None,
    }


def _task(task: Task) -> Fields:
    return {
        "state": task.state.value,
        "task_type": task.task_type,
        "trial": number_of(task.part, "trial"),
        "group": number_of(task.part, "group"),
        "name": "" if task.part is None else task.part.name,
        "priority": task.needs.priority,
        "parameters": task.parameters,
        "reports": [list(report) for report in task.reports],
        "final": task.final,
        "stop_reason": task.stop_reason,
        "unschedulable": task.unschedulable,
        "not_before_ms": task.not_before_ms or None,
        "due_ms": task.due_ms,
        "end": None if task.end is None else task.end.value,
        "ended_ms": task.ended_ms or None,
        "attempts": [_attempt(attempt) for attempt in task.attempts],
    }


def _attempt(attempt: Attempt) -> Fields:
    error = attempt.error
    return {
        "attempt": attempt.number,
        "placement": attempt.placement,
        "status": attempt.status.name,
        "worker_id": attempt.worker_id,
        "device_ids": list(attempt.device_ids),
        "reserved_memory_bytes": attempt.reserved.memory_bytes,
        "reserved_cuda_memory_bytes": attempt.reserved.cuda_memory_bytes,
        "behind": attempt.behind,
        "stopping": None if attempt.stopping is None else attempt.stopping.value,
        "interrupts": dict(sorted(attempt.interrupts.items())),
        "given_up_placements": [f"{past.placement}: {past.end}" for past in attempt.past],
        "end": None if attempt.end is None else attempt.end.value,
        "error": None if error is None else f"{error.stage}: {error.type}: {error.message}",
        "exit_code": attempt.exit_code,
        "assigned_ms": attempt.assigned_ms or None,
        "accepted_ms": attempt.accepted_ms or None,
        "ended_ms": attempt.ended_ms or None,
    }


@dataclass(frozen=True, slots=True)
class SubjectChange:
    """The change of one subject between two views; `before` is None for a new one."""

    subject: str
    before: Fields | None
    fields: Mapping[str, tuple[Any, Any]]

    def as_json(self) -> Fields:
        """Returns the JSON form."""
        changed = {name: {"from": old, "to": new} for name, (old, new) in self.fields.items()}
        return {"subject": self.subject, "new": self.before is None, "changed": changed}


def changes(before: StateView | None, after: StateView) -> list[SubjectChange]:
    """Lists the differences between two views of one stream; None is the state before it began."""
    old = {} if before is None else before.subjects()
    found = []
    for subject, fields in after.subjects().items():
        known = old.pop(subject, None)
        was = known or {}
        differing = {
            name: (was.get(name), value)
            for name, value in fields.items()
            if was.get(name) != value and not (known is None and _is_empty(value))
        }
        if differing or known is None:
            found.append(SubjectChange(subject, known, differing))
    found += [SubjectChange(subject, fields, {name: (was, None) for name, was in fields.items()})
              for subject, fields in old.items()]  # fmt: skip
    return found


def _is_empty(value: Any) -> bool:
    return value is None or value is False or value in ("", [], {})
