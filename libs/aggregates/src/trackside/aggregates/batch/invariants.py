"""INV-12 and INV-10 of batches: limits, the order of groups and tasks, and legal transitions."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import cast

from trackside.aggregates.batch.messages import (
    GROUP,
    BatchEnded,
    BatchStarted,
    BatchStatus,
    BatchStopRequested,
    GroupEnded,
    task_name,
)
from trackside.contracts.envelope.ids import batch_task_id
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.envelope.parts import Part, number_of
from trackside.contracts.tasks.resources import Needs, Resources
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.checks.findings import Findings
from trackside.domain.checks.invariants import AggregateInvariants, CheckedTask


class BatchInvariants(AggregateInvariants):
    """Keeps which group runs, the tasks and children of it that were begun, and those not ended."""

    def __init__(self, record: Record, tasks: Mapping[str, CheckedTask], findings: Findings) -> None:
        """Begins with the record of BatchStarted."""
        super().__init__(record, tasks, findings)
        self.spec = cast(BatchStarted, record.message).batch
        self.group = 0
        self.submitted = 0
        self.begun = 0
        self.open: set[str] = set()
        self.stopping = self.over = False
        self.ends: Counter[str] = Counter()

    def take(self, event: Message, record: Record) -> None:
        """Checks an event of the batch after its first one."""
        match event:
            case GroupEnded():
                self._group_ended(event, record)
            case BatchStopRequested():
                if self.stopping:
                    self.findings.illegal(record, "the batch is stopping already")
                self.stopping = True
            case BatchEnded():
                self.over = True
                done = self.group >= len(self.spec.groups)
                status = BatchStatus.DONE if done else BatchStatus.STOPPED
                self.findings.compare(record, "the status", event.status.value, status.value)
                if self.group < len(self.spec.groups) and (self.open or not self.stopping):
                    groups, running = len(self.spec.groups), len(self.open)
                    message = f"group {self.group} of {groups} runs, {running} tasks and children go on"
                    self.findings.illegal(record, message)

    def ignored(self, event: Message) -> str:
        """Returns that the end of a group without effect is of a later group."""
        later = isinstance(event, GroupEnded) and event.group > self.group
        return f"group {self.group} runs" if later else ""

    def facts_of(self, event: Message) -> Iterable[tuple[str, object]]:
        """Returns the status that it ends with."""
        return [("its end", event.status.value)] if isinstance(event, BatchEnded) else ()

    def unfinished(self) -> str:
        """Returns that it has not ended, unless it has."""
        return "" if self.over else "the batch has not ended"

    def task_submitted(self, event: TaskSubmitted, record: Record) -> None:
        """Checks that a task is the next one of the group that runs, and that there is room for it."""
        self.findings.checked["INV-12"] += 1
        if self.stopping:
            self.findings.illegal(record, "the batch is being stopped")
        group = number_of(event.part, GROUP)
        if group != self.group or self.submitted >= self._group_size:
            message = f"task {event.task_id} of group {group} is submitted while group {self.group} runs"
            self.findings.add("INV-12", record, message)
        else:
            name = task_name(self.spec.groups[self.group].tasks[self.submitted], self.submitted)
            if event.task_id != batch_task_id(self.stream_id, self.group, name):
                message = f"task {event.task_id} is submitted, the next one of its group is {name}"
                self.findings.add("INV-12", record, message)
            self._check_task(event, name, record)
        self.submitted += 1
        self.open.add(event.task_id)
        self.findings.check_concurrency(len(self.open), self.spec.concurrency, "tasks and children", record)

    def child_requested(self, child_id: str, record: Record) -> None:
        """Checks that a child is the next one of the group that runs, and that there is room for it."""
        self.findings.checked["INV-12"] += 1
        if self.stopping:
            self.findings.illegal(record, "the batch is being stopped")
        children = [] if self.group == len(self.spec.groups) else self.spec.groups[self.group].children
        names = [batch_task_id(self.stream_id, self.group, child.name) for child in children]
        if child_id not in names[self.begun : self.begun + 1]:
            message = f"child {child_id} is requested, which is not the next one of group {self.group}"
            self.findings.add("INV-12", record, message)
        self.begun += 1
        self.open.add(child_id)
        self.findings.check_concurrency(len(self.open), self.spec.concurrency, "tasks and children", record)

    def child_ended(self, child_id: str, status: str) -> None:
        """Takes in how a child has ended."""
        self.open.discard(child_id)
        self.ends[status.lower()] += 1

    def task_ended(self, task_id: str) -> None:
        """Takes in how a task has ended."""
        self.open.discard(task_id)
        self.ends[self.tasks[task_id].end] += 1

    def _check_task(self, event: TaskSubmitted, name: str, record: Record) -> None:
        """Checks that a task is what the batch says of it: its own word counts, then that of the batch."""
        compare, group = self.findings.compare, self.spec.groups[self.group]
        task = group.tasks[self.submitted]
        compare(record, "the part", event.part, Part(kind=GROUP, number=self.group, name=name))
        compare(record, "the task type", event.task_type, task.task_type)
        compare(record, "the parameters", event.parameters, task.parameters)
        compare(record, "the inputs", event.inputs, {**self.spec.inputs, **task.inputs})
        own, whole = task.resources or Resources(), event.needs.resources
        gave = (own.estimate_memory, own.estimate_cuda_memory) != (None, None)
        has = (whole.estimate_memory, whole.estimate_cuda_memory) != (None, None)
        compare(record, "estimates of", event.estimated_by, "group" if has and not gave else "task")
        compare(record, "the checkpoint", event.checkpoint, None)
        compare(record, "the step limit", event.step_limit, None)
        for need in Needs.model_fields:
            given, said = getattr(task, need, None), getattr(event.needs, need)
            wanted = getattr(self.spec, need) if given is None else given
            if need == "resources":  # device and estimates may be those of the group
                filled = {each: getattr(said, each) for each in ("device", "estimate_memory")}
                filled["estimate_cuda_memory"] = said.estimate_cuda_memory
                wanted = wanted.model_copy(update=filled)
            compare(record, need, said, wanted)

    def _group_ended(self, event: GroupEnded, record: Record) -> None:
        if event.group != self.group:
            message = f"group {event.group} ends while group {self.group} runs"
            self.findings.add("INV-12", record, message)
        elif self.open or self.submitted < self._group_size or self.begun < self._group_children:
            waiting = self._group_size - self.submitted + self._group_children - self.begun
            message = (
                f"group {event.group} ends with {len(self.open)} tasks or children that go on and "
                f"{waiting} that were not begun"
            )
            self.findings.add("INV-12", record, message)
        self.findings.compare(record, "the ends", event.ends, dict(self.ends))
        self.ends.clear()
        self.group, self.submitted, self.begun = event.group + 1, 0, 0
        self.open.clear()

    @property
    def _group_size(self) -> int:
        """The number of tasks of the running group; 0 after the last one."""
        return len(self.spec.groups[self.group].tasks) if self.group < len(self.spec.groups) else 0

    @property
    def _group_children(self) -> int:
        """The number of children of the running group; 0 after the last one."""
        return len(self.spec.groups[self.group].children) if self.group < len(self.spec.groups) else 0
