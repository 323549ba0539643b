"""What people see of a search: its best trials, its limits, its trials with their parameters."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from trackside.aggregates.search.listing import SearchListing
from trackside.aggregates.search.messages import TRIAL, SearchStatus, TrialStatus
from trackside.aggregates.search.space.lineage import lineage_lines
from trackside.aggregates.search.state import Search
from trackside.aggregates.search.state_table import state_table, trial_fields
from trackside.aggregates.search.trials.objectives import names_of
from trackside.contracts.tasks.tasks import AttemptEnd, Figure
from trackside.domain.display import report, task_rows
from trackside.domain.display.report import HistoryPoint, ReportSection
from trackside.domain.display.selection import Selection, SortKey, selected
from trackside.domain.display.task_state import Fields
from trackside.domain.display.text import Column, TextTable, as_text, duration, number
from trackside.domain.display.view import (
    LAST_ATTEMPTS,
    TASKS,
    Progress,
    QueriedRows,
    StreamEnd,
    View,
)
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.stream import Stream

TRIALS, FRONT = "trials", "front"
PARAMETER_COLUMNS = 5
FRONT_ON_PAGE = 20
"""How many trials of a Pareto front a page lists."""
FRONT_ON_BOARD = 3
"""How many trials of a Pareto front a board shows, the newest ones."""
USUAL: Mapping[str, object] = {
    "source": "algorithm",
    "space_version": 1,
    "outside": [],
    "from_trial": None,
    "from_step": None,
    "step_limit": None,
}


class SearchView(SearchListing, View[Search]):
    """What people see of a search."""

    queries: ClassVar[Mapping[str, str]] = {
        TRIALS: "SELECT * FROM trials WHERE search_id = $1 ORDER BY trial",
        "lineage": "SELECT * FROM trial_lineage WHERE search_id = $1 ORDER BY trial",
        FRONT: "SELECT * FROM pareto_front WHERE search_id = $1 ORDER BY first_value, trial",
    }
    page_queries = (TRIALS, FRONT)
    report_queries = (TRIALS, TASKS, LAST_ATTEMPTS)
    list_query = TRIALS
    statuses = tuple(TrialStatus)
    shows_failed_tasks = False
    parts: ClassVar[Mapping[str, str]] = {TRIALS: TRIAL}
    state_names = ("task_type", "tuner", "assessor", "direction", "max_trials", "concurrency", "seed")

    def left(self, row: ViewRow) -> int:
        """Returns how many trials may still end."""
        return max(0, int(row["max_trials"]) - int(row["ended_trials"]))

    def sort_keys(self, row: ViewRow) -> Mapping[str, SortKey]:
        """Returns what trials may be sorted by; the best value comes first."""
        return {
            "trial": SortKey(lambda trial: trial["trial"]),
            "value": SortKey(_shown_value, descending=row["direction"] == "maximize"),
            "took": SortKey(lambda trial: trial["duration_s"], descending=True),
            "ended": SortKey(lambda trial: trial["ended_at"], descending=True),
            "reports": SortKey(lambda trial: trial["reports"], descending=True),
        }

    def status_of(self, row: ViewRow) -> str:
        """Returns the status of a trial."""
        return str(row["status"])

    def facts(self, row: ViewRow, rows: QueriedRows) -> Sequence[tuple[str, object]]:
        """Returns its best trial or Pareto front, and its limits."""
        reason = row["failure"] or row["stop_reason"]
        ended, run = row["ended_trials"], row["running_trials"]
        return [
            ("search", row["search_id"]),
            *([("name", row["name"])] if row.get("name") else []),
            ("status", f"{row['status']} ({reason})" if reason else str(row["status"])),
            ("trials", f"{ended} ended of {row['max_trials']}, {run} run"),
            *_best(row, rows[FRONT]),
            *_better_outside(row, rows[TRIALS]),
            ("policy", f"{row['tuner']}, {row['assessor'] or 'no assessor'}, {row['direction']}"),
            ("limits", _limits(row["spec"])),
            ("started", row["started_at"]),
            ("ended", row["ended_at"]),
        ]

    def tables(self, row: ViewRow, rows: QueriedRows) -> Sequence[TextTable]:
        """Returns its trials."""
        return [trial_table(rows[TRIALS], _objectives(row))]

    def lists(self, row: ViewRow, rows: QueriedRows) -> dict[str, Sequence[ViewRow]]:
        """Returns its trials and its Pareto front."""
        return {TRIALS: rows[TRIALS], FRONT: rows[FRONT]}

    def lineage(self, rows: QueriedRows) -> Sequence[str]:
        """Returns its trials as a tree: below each those that continue its checkpoint."""
        return lineage_lines(rows[TRIALS])

    def sections(self, row: ViewRow, rows: QueriedRows) -> list[ReportSection]:
        """Returns one section, best first, whose rows have the values and parameters of the trials too."""
        tasks = {task["task_id"]: task for task in rows[TASKS]}
        keys = self.sort_keys(row)
        best_first = selected(rows[TRIALS], Selection(sort="value"), keys, self.status_of, self.statuses)
        known = [
            _as_trial(tasks[trial["task_id"]], trial) for trial in best_first if trial["task_id"] in tasks
        ]
        made = report.section(TRIALS, row["status"], known, task_rows.by_task(rows[LAST_ATTEMPTS]))
        if len(_objectives(row)) < 2:
            made.direction, made.history = row["direction"], _history(rows[TRIALS])
        return [made]

    def progress(self, stream: Stream[Search]) -> Progress:
        """Returns how many trials have ended, and the best one or the Pareto front."""
        search = stream.root
        return Progress(
            status=search.status.value,
            started_ms=search.started_ms,
            ended_ms=search.ended_ms,
            ended=len(search.ends),
            total=search.spec.max_trials,
            unit="trials",
            detail="" if search.best is None else f", best {number(search.trials[search.best].value)}",
            lines=(best_line(search),),
        )

    def end(self, stream: Stream[Search], accepted: Collection[AttemptEnd]) -> StreamEnd:
        """Returns how it ended, with its best trial; it is a failure only if its tuner or assessor failed."""
        search, name = stream.root, stream.stream_id
        best = None if search.best is None else search.trials[search.best]
        took = self.progress(stream).duration_s
        summary = {
            "search_id": name,
            "status": search.status.value,
            "trials": len(search.trials),
            "best_trial": None if best is None else best.number,
            "best_value": None if best is None else best.value,
            "best_parameters": None if best is None else best.parameters,
            "duration_s": took,
            "failure": search.failure,
        }
        return StreamEnd(
            summary,
            [f"{name} {search.status.value}: {len(search.ends)} trials in {duration(took)}"],
            [best_line(search).replace("best so far", "best")],
            f"{name} failed: {search.failure}" if search.status is SearchStatus.ERROR else "",
        )

    def state(self, stream: Stream[Search]) -> Fields:
        """Returns its state without its trials."""
        search, spec = stream.root, stream.root.spec
        best = None if search.best is None else search.trials[search.best]
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

    def state_of_parts(self, stream: Stream[Search]) -> dict[str, dict[Any, Fields]]:
        """Returns its trials by their numbers."""
        return {
            TRIALS: {
                trial.number: trial_fields(trial, stream.tasks.get(trial.task_of(stream.stream_id)))
                for trial in stream.root.trials
            }
        }

    def state_lines(self, state: Fields) -> list[str]:
        """Returns its policies and limits, and its best trial."""
        lines = super().state_lines(state)
        if state["best_trial"] is not None:
            lines.append(f"best: {number(state['best_value'])} of trial {state['best_trial']}")
        return lines

    def state_tables(
        self, parts: Mapping[str, Mapping[Any, Fields]], tasks: Mapping[str, Fields]
    ) -> list[TextTable]:
        """Returns the table of its trials with their tasks."""
        trials = parts[TRIALS]
        return [state_table(trials, tasks)] if trials else super().state_tables(parts, tasks)


def best_line(search: Search) -> str:
    """Returns the best trial so far with its value and parameters, or the Pareto front, as a line."""
    if search.front:
        return f"Pareto front: {_front(search)}"
    if search.best is None:
        return "best so far: none yet"
    trial = search.trials[search.best]
    return f"best so far: {number(trial.value)}  trial {trial.number}  {as_text(trial.parameters)}"


def trial_table(trials: Sequence[ViewRow], objectives: Sequence[str] = ()) -> TextTable:
    """Returns a table of trials, with a column for each parameter if there are few.

    Each of several objectives has a column. The source of a trial and the version of its space have a column
    if they are not the tuner and the first version for all; so have the trial and the step that it
    comes from, and its step limit.
    """
    names = sorted({name for trial in trials for name in trial["parameters"]})
    values = objectives if len(objectives) > 1 else ["value"]
    origins = [
        name for name, usual in USUAL.items() if any(trial.get(name, usual) != usual for trial in trials)
    ]
    columns = [
        Column("trial", right=True),
        Column("status"),
        *(Column(name, right=True) for name in values),
        Column("reports", right=True),
        Column("took", right=True),
        *(Column(name, optional=True) for name in origins),
    ]
    cells = [[*_trial_cells(row, len(values)), *(row.get(name) for name in origins)] for row in trials]
    if len(names) <= PARAMETER_COLUMNS:
        columns += [Column(name, right=True) for name in names]
        parameters = [[row["parameters"].get(name) for name in names] for row in trials]
    else:
        columns.append(Column("parameters", keep=True))
        parameters = [[row["parameters"]] for row in trials]
    return TextTable(columns, [[*own, *more] for own, more in zip(cells, parameters, strict=True)])


def _trial_cells(trial: ViewRow, objectives: int) -> list[object]:
    """Returns the cells of a trial without its parameters; without a final value it has its last one."""
    value = _shown_value(trial)
    values = [value] if objectives == 1 else trial["objective_values"] or [value, *[None] * (objectives - 1)]
    return [trial["trial"], trial["status"], *values, trial["reports"], duration(trial["duration_s"])]


def _shown_value(trial: ViewRow) -> float | None:
    """Returns the value of a trial, or the last one that it reported."""
    value: float | None = trial["value"]
    return trial["last_value"] if value is None else value


def _objectives(search: ViewRow) -> list[str]:
    """Returns the names of a search's objectives in order; none if it has only the plain value."""
    return [objective["name"] for objective in search["spec"].get("objectives", [])]


def _limits(spec: ViewRow) -> str:
    """Returns the current limits of a search as a line."""
    found = [f"{spec['max_trials']} trials", f"{spec['concurrency']} at once"]
    if spec.get("max_duration_s") is not None:
        found.append(f"{duration(spec['max_duration_s'])} of running")
    if spec.get("max_trial_duration_s") is not None:
        found.append(f"{duration(spec['max_trial_duration_s'])} a trial")
    if spec.get("goal") is not None:
        found.append(f"until {number(spec['goal'])} is reached")
    return ", ".join(found)


def _best(search: ViewRow, front: Sequence[ViewRow]) -> list[tuple[str, str | None]]:
    """Returns the best trial; for several objectives the Pareto front and the best trial of each."""
    if len(_objectives(search)) < 2:
        if search["best_trial"] is None:
            return [("best", None)]
        value = number(search["best_value"])
        return [("best", f"{value}  trial {search['best_trial']}  {as_text(search['best_parameters'])}")]
    listed = ", ".join(str(row["trial"]) for row in front[:FRONT_ON_PAGE])
    more = f" and {len(front) - FRONT_ON_PAGE} more" if len(front) > FRONT_ON_PAGE else ""
    facts: list[tuple[str, str | None]] = [("front", f"trials {listed}{more}" if front else None)]
    for at, objective in enumerate(search["spec"]["objectives"]):
        sign = -1 if objective["direction"] == "maximize" else 1
        best = min(front, key=lambda row: sign * row["objective_values"][at], default=None)
        text = None if best is None else f"{number(best['objective_values'][at])}  trial {best['trial']}"
        facts.append((f"best {objective['name']}", text))
    return facts


def _better_outside(search: ViewRow, trials: Sequence[ViewRow]) -> list[tuple[str, str]]:
    """Returns the best trial with parameters outside of the space, if it is better than the best one."""
    sign = -1 if search["direction"] == "maximize" else 1
    found = [one for one in trials if one.get("outside") and one["status"] == "SUCCEEDED"]
    found = [one for one in found if one["value"] is not None]
    best = min(found, key=lambda one: sign * one["value"], default=None)
    if best is None or len(_objectives(search)) > 1:
        return []
    if search["best_trial"] is not None and sign * best["value"] >= sign * search["best_value"]:
        return []
    which = ", ".join(best["outside"])
    return [
        ("outside", f"{number(best['value'])}  trial {best['trial']}, better, but not in the space: {which}")
    ]


def _as_trial(task: ViewRow, trial: ViewRow) -> ViewRow:
    own = {
        "name": _trial_name(trial),
        "objective": _shown_value(trial),
        "trial": trial["trial"],
        "early_stopped": trial["status"] == TrialStatus.EARLY_STOPPED.value,
    }
    return {**task, **own, "result": {**trial["parameters"], **(task["result"] or {})}}


def _history(trials: Sequence[ViewRow]) -> list[HistoryPoint]:
    """Returns the value of each trial that has one; not each can be the best."""
    return [
        HistoryPoint(trial["trial"], value, _may_be_best(trial))
        for trial in trials
        if trial["status"] in (TrialStatus.SUCCEEDED.value, TrialStatus.EARLY_STOPPED.value)
        and (value := _shown_value(trial)) is not None
    ]


def _may_be_best(trial: ViewRow) -> bool:
    return trial["status"] == TrialStatus.SUCCEEDED.value and not trial.get("outside")


def _trial_name(trial: ViewRow) -> str:
    return f"trial {trial['trial']}{' (outside of the space)' if trial.get('outside') else ''}"


def _front(search: Search) -> str:
    """Lists the trials of the Pareto front, the newest ones if there are many."""
    shown = search.front[-FRONT_ON_BOARD:]
    more = f" and {len(search.front) - len(shown)} more" if len(shown) < len(search.front) else ""
    names = names_of(search.spec)
    listed = []
    for at in shown:
        values = zip(names, search.trials[at].values, strict=True)
        listed.append(f"trial {at} ({', '.join(f'{name} {_figure(value)}' for name, value in values)})")
    return "; ".join(listed) + more


def _figure(value: Figure | None) -> str:
    return number(value if isinstance(value, float) else None)


VIEW = SearchView()
