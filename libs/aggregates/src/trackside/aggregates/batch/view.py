"""What people see of a batch: its groups, how its tasks and children ended, and which did not finish."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from trackside.aggregates.batch.listing import BatchListing
from trackside.aggregates.batch.messages import GROUP, BatchStatus, group_name
from trackside.aggregates.batch.state import OVER, Batch
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display import report, task_rows, task_state
from trackside.domain.display.report import ReportSection
from trackside.domain.display.short_text import named_values
from trackside.domain.display.task_state import Fields, ends_text
from trackside.domain.display.text import Column, TextTable, counted, duration
from trackside.domain.display.view import (
    CHILDREN,
    LAST_ATTEMPTS,
    TASKS,
    Progress,
    QueriedRows,
    StreamEnd,
    View,
)
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.child import Child
from trackside.domain.streams.stream import Stream

GROUPS = "groups"
SHOWN_GROUPS = 8
"""How many groups a board shows: those around the one that runs."""
LISTED_TASKS = 20
"""How many tasks that did not finish are listed at the end."""
Ends = Mapping[str, int]


class BatchView(BatchListing, View[Batch]):
    """What people see of a batch."""

    queries: ClassVar[Mapping[str, str]] = {
        GROUPS: "SELECT * FROM groups WHERE batch_id = $1 ORDER BY group_number",
    }
    page_queries = (GROUPS, TASKS, LAST_ATTEMPTS, CHILDREN)
    report_queries = (GROUPS, TASKS, LAST_ATTEMPTS)
    parts: ClassVar[Mapping[str, str]] = {GROUPS: GROUP}
    state_names = ("groups", "running_group", "concurrency", "open_tasks")

    def left(self, row: ViewRow) -> int:
        """Returns how many tasks have not ended."""
        return int(row["tasks"] - row["finished_tasks"] - row["unfinished_tasks"])

    def ordered(self, row: ViewRow, listed: Sequence[ViewRow]) -> Sequence[ViewRow]:
        """Returns its tasks in the order of its spec."""
        return _in_order(row, listed)

    def facts(self, row: ViewRow, rows: QueriedRows) -> Sequence[tuple[str, object]]:
        """Returns what is said of it."""
        ended = row["finished_tasks"] + row["unfinished_tasks"]
        reason = f" ({row['stop_reason']})" if row["stop_reason"] else ""
        tasks = f"{ended} ended of {row['tasks']}, {row['open_tasks']} open"
        if row["unfinished_tasks"]:
            tasks += f"; {row['unfinished_tasks']} did not finish"
        return [
            ("batch", row["batch_id"]),
            ("name", row["name"]),
            ("status", f"{row['status']}{reason}"),
            ("tasks", tasks),
            ("groups", f"{row['groups_over']} over of {row['groups']}"),
            ("queue", f"{row['queue']}, at most {row['concurrency']} at once"),
            ("started", row["started_at"]),
            ("ended", row["ended_at"]),
        ]

    def tables(self, row: ViewRow, rows: QueriedRows) -> Sequence[TextTable]:
        """Returns its groups, each task with its device, its end, and what failed, and its children."""
        attempts = task_rows.by_task(rows[LAST_ATTEMPTS])
        tasks = task_rows.task_table(rows[TASKS], attempts, row["batch_id"])
        tables = [_group_table(rows[GROUPS]), tasks]
        if rows[CHILDREN]:
            tables.append(_child_table(row["batch_id"], rows[CHILDREN]))
        return tables

    def lists(self, row: ViewRow, rows: QueriedRows) -> dict[str, Sequence[ViewRow]]:
        """Returns its groups, its tasks and its children."""
        return {GROUPS: rows[GROUPS], **super().lists(row, rows), CHILDREN: rows[CHILDREN]}

    def sections(self, row: ViewRow, rows: QueriedRows) -> list[ReportSection]:
        """Returns a section for each group."""
        attempts = task_rows.by_task(rows[LAST_ATTEMPTS])
        by_group: dict[int, list[ViewRow]] = {group["group_number"]: [] for group in rows[GROUPS]}
        for task in _in_order(row, rows[TASKS]):
            by_group[task["group_number"]].append(task)
        sections = []
        for group in rows[GROUPS]:
            own = by_group[group["group_number"]]
            made = report.section(group["name"], group["status"], own, attempts)
            made.open += group["tasks"] - group["submitted"]
            sections.append(made)
        return sections

    def progress(self, stream: Stream[Batch]) -> Progress:
        """Returns how many tasks have ended and how, and the groups around the one that runs."""
        batch, ends = stream.root, _counts(stream.root)
        groups = batch.spec.groups
        which = min(batch.group, len(groups) - 1)
        where = f"{group_name(groups[which], which)} ({which + 1} of {counted(len(groups), 'group')})"
        hidden = len(groups) - SHOWN_GROUPS
        return Progress(
            status=batch.status.value,
            started_ms=batch.started_ms,
            ended_ms=batch.ended_ms,
            ended=ends.total(),
            total=_total(batch),
            unit=_unit(batch),
            detail=f": {ends_text(ends.items())}; at {where}",
            rows=_shown_groups(batch),
            more=f"and {hidden} more groups" if hidden > 0 else "",
        )

    def end(self, stream: Stream[Batch], accepted: Collection[AttemptEnd]) -> StreamEnd:
        """Returns how its tasks ended; it is a failure if one ended in a way that is not accepted."""
        batch, bad = stream.root, task_state.unfinished(stream, accepted)
        children = _unfinished_children(stream, accepted)
        took, ends = self.progress(stream).duration_s, ends_text(_counts(batch).items())
        unit = _unit(batch)
        total = counted(_total(batch), "task") if unit == "tasks" else f"{_total(batch)} {unit}"
        lines = [f"{stream.stream_id} {batch.status.value}: {total} in {duration(took)}: {ends}"]
        lines += [
            f"  {task_state.short_name(task, stream.stream_id)} {task_state.why(task)}"
            for task in bad[:LISTED_TASKS]
        ]
        if len(bad) > LISTED_TASKS:
            more = len(bad) - LISTED_TASKS
            lines.append(f"  and {more} more; `trackside show {stream.stream_id}` has all")
        lines += [f"  {_short(child.child_id, batch.batch_id)} {child.status}" for child in children]
        left_out = 0 if AttemptEnd.CANCELLED in accepted else _left_out(batch)
        never = f", {left_out} never had their turn" if left_out else ""
        count = len(bad) + len(children)
        failure = f"{stream.stream_id}: {count} of its {_unit(batch)} did not finish{never}"
        summary = _summary(stream, accepted, took)
        return StreamEnd(summary, lines, failure=failure if count or left_out else "")

    def state(self, stream: Stream[Batch]) -> Fields:
        """Returns its state without its groups."""
        batch = stream.root
        groups = batch.spec.groups
        running = batch.group < len(groups)
        children = {_short(child.child_id, batch.batch_id): child.state for child in stream.children.values()}
        return {
            "name": batch.spec.name,
            "status": batch.status.value,
            "groups": len(groups),
            "running_group": group_name(groups[batch.group], batch.group) if running else None,
            "concurrency": batch.spec.concurrency,
            "open_tasks": len(batch.open),
            **({"children": children} if children else {}),
            "stop_reason": batch.stop_reason,
            "started_ms": batch.started_ms,
            "ended_ms": batch.ended_ms or None,
        }

    def state_lines(self, state: Fields) -> list[str]:
        """Returns its fields as a line, and another one of its children."""
        children = state.get(CHILDREN)
        return [*super().state_lines(state), *([f"children: {named_values(children)}"] if children else [])]

    def state_of_parts(self, stream: Stream[Batch]) -> dict[str, dict[Any, Fields]]:
        """Returns its groups by their names."""
        batch, found = stream.root, dict[Any, Fields]()
        for number, group in enumerate(batch.spec.groups):
            over, runs = number < batch.group, number == batch.group
            found[group_name(group, number)] = {
                "state": "ended" if over else "running" if runs else "waiting",
                "tasks": len(group.tasks),
                "children": len(group.children),
                "submitted": len(group.tasks) if over else batch.submitted if runs else 0,
                "ends": dict(sorted(_ends_of(batch, number).items())),
            }
        return {GROUPS: found}

    def state_tables(
        self, parts: Mapping[str, Mapping[Any, Fields]], tasks: Mapping[str, Fields]
    ) -> list[TextTable]:
        """Returns the tables of its groups and of its tasks."""
        columns = [Column("group"), Column("state"), Column("tasks", right=True), Column("ends")]
        rows = [[name, f["state"], f["tasks"], f["ends"]] for name, f in parts[GROUPS].items()]
        return [TextTable(columns, rows), *super().state_tables(parts, tasks)]


def _short(child_id: str, batch_id: str) -> str:
    """Returns a child's id without the batch's in front of it."""
    return child_id.removeprefix(f"{batch_id}.")


def _unit(batch: Batch) -> str:
    """Returns what a batch consists of."""
    return "tasks and children" if any(group.children for group in batch.spec.groups) else "tasks"


def _unfinished_children(stream: Stream[Batch], accepted: Collection[AttemptEnd]) -> list[Child]:
    """Returns the children that were not done; one that was stopped counts as a task that was cancelled."""
    good = {"DONE", "STOPPED"} if AttemptEnd.CANCELLED in accepted else {"DONE"}
    return [child for child in stream.children.values() if not child.open and child.status not in good]


def _child_table(batch_id: str, children: Iterable[ViewRow]) -> TextTable:
    columns = [
        Column("child", keep=True),
        Column("kind"),
        Column("status"),
        Column("ended", optional=True),
        Column("took", right=True),
    ]
    return TextTable(
        columns,
        [
            [
                _short(row["child_id"], batch_id),
                row["kind"],
                row["status"],
                row["ended_at"],
                duration(row["duration_s"]),
            ]
            for row in children
        ],
    )


def _in_order(batch: ViewRow, tasks: Iterable[ViewRow]) -> list[ViewRow]:
    """Returns the tasks of a batch in the order of its spec."""
    places = {
        (number, task.get("name") or str(at)): at
        for number, group in enumerate(batch["spec"]["groups"], 1)
        for at, task in enumerate(group["tasks"], 1)
    }
    return sorted(tasks, key=lambda row: (row["group_number"], places[row["group_number"], row["name"]]))


def _group_table(groups: Iterable[ViewRow]) -> TextTable:
    columns = [
        Column("group", right=True),
        Column("name"),
        Column("status"),
        Column("device", optional=True),
        Column("ended", right=True),
        Column("how", keep=True),
        Column("took", right=True),
    ]
    return TextTable(columns, [_group_cells(row) for row in groups])


def _group_cells(row: ViewRow) -> list[object]:
    ends: Ends = row["ends"]
    over = row["started_at"] is not None and row["ended_at"] is not None
    took = (row["ended_at"] - row["started_at"]).total_seconds() if over else None
    return [
        row["group_number"],
        row["name"],
        row["status"],
        row["device"],
        f"{sum(ends.values())}/{row['tasks'] + row['children']}",
        ends_text(ends.items()) if ends else None,
        duration(took),
    ]


def _total(batch: Batch) -> int:
    """Counts the tasks and children of all groups."""
    return sum(len(group.tasks) + len(group.children) for group in batch.spec.groups)


def _counts(batch: Batch) -> Counter[str]:
    """Counts the tasks and children that have ended, by their end."""
    found = Counter(batch.ends)
    for ends in batch.ended:
        found.update(ends)
    return found


def _left_out(batch: Batch) -> int:
    """Counts the tasks and children that never began, because the batch was stopped."""
    if batch.status is not BatchStatus.STOPPED:
        return 0
    return _total(batch) - _counts(batch).total()


def _ends_of(batch: Batch, at: int) -> Ends:
    if at < len(batch.ended):
        return batch.ended[at]
    return batch.ends if at == batch.group else {}


def _shown_groups(batch: Batch) -> list[list[str]]:
    groups = batch.spec.groups
    first = max(0, min(batch.group - SHOWN_GROUPS // 2, len(groups) - SHOWN_GROUPS))
    rows = []
    for at, group in list(enumerate(groups))[first : first + SHOWN_GROUPS]:
        ends = _ends_of(batch, at)
        rows.append(
            [
                group_name(group, at),
                _group_status(batch, at),
                f"{sum(ends.values())}/{len(group.tasks) + len(group.children)}",
                ends_text(ends.items()) if ends else "",
            ]
        )
    return rows


def _group_status(batch: Batch, at: int) -> str:
    if at < batch.group:
        return BatchStatus.DONE.value
    if at == batch.group:
        return batch.status.value
    return "SKIPPED" if batch.status in OVER else "WAITING"


def _summary(stream: Stream[Batch], accepted: Collection[AttemptEnd], duration_s: float) -> Fields:
    """Returns the outcome of a batch, for programs."""
    batch = stream.root
    return {
        "batch_id": stream.stream_id,
        "status": batch.status.value,
        "tasks": sum(len(group.tasks) for group in batch.spec.groups),
        "ends": dict(sorted(_counts(batch).items())),
        "left_out": _left_out(batch),
        "groups": [
            {"name": group_name(group, at), "tasks": len(group.tasks), "ends": _ends_of(batch, at)}
            for at, group in enumerate(batch.spec.groups)
        ],
        "unfinished": [task_state.ended_task(task) for task in task_state.unfinished(stream, accepted)],
        "children": [
            {"child_id": child.child_id, "kind": child.kind, "status": child.status, "result": child.result}
            for child in stream.children.values()
        ],
        "duration_s": duration_s,
    }


VIEW = BatchView()
