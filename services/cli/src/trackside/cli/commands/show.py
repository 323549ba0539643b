"""Commands that query the read models: `ls`, `show`, `dead-letters`."""

from collections.abc import Sequence
from typing import Any

from trackside.cli.commands import show_batch
from trackside.cli.render import screen
from trackside.cli.render.screen import Column
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import CommandFailed
from trackside.cli.runtime.run import run
from trackside.projections.reads import ReadModels, ViewRow, json_row, open_read_models

PARAMETER_COLUMNS = 5
FRONT = 20
"""How many trials of a Pareto front are named in a line."""
USUAL = {"source": "algorithm", "space_version": 1}


def ls(limit: int, as_json: bool) -> None:
    """Prints the searches and batches, the newest first."""
    run(_ls(limit, as_json))


def show(stream_id: str, as_json: bool) -> None:
    """Prints a search, a batch or a task; raises CommandFailed if there is none of this id."""
    run(_show(stream_id, as_json))


def dead_letters(limit: int, as_json: bool) -> None:
    """Prints the records that could not be decoded, the newest first."""
    run(_dead_letters(limit, as_json))


def best_trials(trials: list[ViewRow], direction: str, count: int) -> list[ViewRow]:
    """Returns the best trials that succeeded, the best first."""
    done = [trial for trial in trials if trial["status"] == "SUCCEEDED" and trial["value"] is not None]
    return sorted(done, key=lambda trial: trial["value"], reverse=direction == "maximize")[:count]


def objectives_of(search: ViewRow) -> list[str]:
    """Returns the names of a search's objectives in order; none where it has only the plain value."""
    return [objective["name"] for objective in search["spec"].get("objectives", [])]


def show_trials(trials: list[ViewRow], title: str = "", objectives: Sequence[str] = ()) -> None:
    """Prints trials, with a column for each parameter where there are few.

    Each of several objectives has a column. The source of a trial and the version of its space have a column
    where they are not the tuner and the first version for all.
    """
    names = sorted({name for trial in trials for name in trial["parameters"]})
    values = objectives if len(objectives) > 1 else ["value"]
    origins = [name for name, usual in USUAL.items() if any(trial[name] != usual for trial in trials)]
    columns = [
        Column("trial", right=True),
        Column("status"),
        *(Column(name, right=True) for name in values),
        Column("reports", right=True),
        Column("took", right=True),
        *(Column(name, optional=True) for name in origins),
    ]
    cells = [[*_trial_cells(row, len(values)), *(row[name] for name in origins)] for row in trials]
    if len(names) <= PARAMETER_COLUMNS:
        columns += [Column(name, right=True) for name in names]
        parameters = [[row["parameters"].get(name) for name in names] for row in trials]
    else:
        columns.append(Column("parameters", keep=True))
        parameters = [[row["parameters"]] for row in trials]
    screen.show_table(columns, [[*own, *more] for own, more in zip(cells, parameters, strict=True)], title)


async def _ls(limit: int, as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        searches = await models.rows("searches", limit)
        batches = await models.rows("batches", limit)
    rows = [{"kind": "search", "id": row["search_id"], **row} for row in searches]
    rows += [{"kind": "batch", "id": row["batch_id"], **row} for row in batches]
    rows = sorted(rows, key=lambda row: row["started_at"], reverse=True)[:limit]
    if as_json:
        screen.emit([json_row(row) for row in rows])
        return
    columns = [
        Column("id", keep=True),
        Column("kind"),
        Column("status"),
        Column("ended", right=True),
        Column("best", right=True),
        Column("tuner", optional=True),
        Column("runs", optional=True),
        Column("started", optional=True),
        Column("took", right=True),
    ]
    screen.show_table(columns, [_listed(row) for row in rows])
    if not rows:
        screen.complain("nothing yet; start a search or tasks with `trackside submit SPEC.yaml`")


def _listed(row: ViewRow) -> list[object]:
    if row["kind"] == "batch":
        ended = row["finished_tasks"] + row["unfinished_tasks"]
        own = [f"{ended}/{row['tasks']}", None, None, row["name"] or f"{row['groups']} groups"]
    else:
        ended = f"{row['ended_trials']}/{row['max_trials']}"
        own = [ended, row["best_value"], row["tuner"], row["task_type"]]
    took = screen.duration(row["duration_s"])
    return [row["id"], row["kind"], row["status"], *own, row["started_at"], took]


async def _show(stream_id: str, as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        search = await models.row("search", stream_id)
        if search is not None:
            await _show_search(models, search, as_json)
            return
        batch = await models.row("batch", stream_id)
        if batch is not None:
            await show_batch.show_batch(models, batch, as_json)
            return
        task = await models.row("task", stream_id)
        if task is not None:
            await show_batch.show_task(models, task, as_json)
            return
        commands = await models.rows("commands", stream_id)
    if not commands:
        raise CommandFailed(f"there is no search or task {stream_id}, and no batch; see `trackside ls`")
    _show_commands(stream_id, commands, as_json)


async def _show_search(models: ReadModels, search: ViewRow, as_json: bool) -> None:
    trials = await models.rows("trials", search["search_id"])
    front = await models.rows("front", search["search_id"])
    commands = await models.rows("commands", search["search_id"])
    if as_json:
        listed: dict[str, Any] = {
            "trials": [json_row(row) for row in trials],
            "front": [json_row(row) for row in front],
            "commands": [json_row(row) for row in commands],
        }
        screen.emit(json_row(search) | listed)
        return
    facts = [
        ("search", search["search_id"]),
        ("status", _status(search)),
        (
            "trials",
            f"{search['ended_trials']} ended of {search['max_trials']}, {search['running_trials']} run",
        ),
        *_best(search, front),
        ("policy", f"{search['tuner']}, {search['assessor'] or 'no assessor'}, {search['direction']}"),
        ("limits", limits(search["spec"])),
        ("started", search["started_at"]),
        ("ended", search["ended_at"]),
    ]
    screen.show_table([Column(""), Column("", keep=True)], facts)
    screen.say("")
    show_trials(trials, objectives=objectives_of(search))


def _show_commands(stream_id: str, commands: list[ViewRow], as_json: bool) -> None:
    """Shows a stream that nothing was begun on: only its commands are known."""
    if as_json:
        screen.emit({"stream_id": stream_id, "commands": [json_row(row) for row in commands]})
        return
    columns = [Column("command", keep=True), Column("status"), Column("code"), Column("message", keep=True)]
    cells = [[row["command_type"], row["status"], row["code"], row["message"]] for row in commands]
    screen.show_table(columns, cells, title=stream_id)


async def _dead_letters(limit: int, as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        rows = await models.rows("dead_letters", limit)
    if as_json:
        screen.emit([json_row(row) for row in rows])
        return
    columns = [
        Column("when"),
        Column("topic", keep=True),
        Column("part", right=True),
        Column("offset", right=True),
        Column("code"),
        Column("reason", keep=True),
    ]
    cells = [
        [row["written_at"], row["topic"], row["partition"], row["offset"], row["code"], row["message"]]
        for row in rows
    ]
    screen.show_table(columns, cells)
    if not rows:
        screen.complain("no dead letters")


def _trial_cells(trial: ViewRow, objectives: int) -> list[object]:
    """Returns the cells of a trial without its parameters; without a final value it has its last one."""
    value = trial["value"] if trial["value"] is not None else trial["last_value"]
    values = [value] if objectives == 1 else trial["objective_values"] or [value, *[None] * (objectives - 1)]
    took = screen.duration(trial["duration_s"])
    return [trial["trial"], trial["status"], *values, trial["reports"], took]


def limits(spec: ViewRow) -> str:
    """Returns the current limits of a search as a line."""
    found = [f"{spec['max_trials']} trials", f"{spec['concurrency']} at once"]
    if spec.get("max_duration_s") is not None:
        found.append(f"{screen.duration(spec['max_duration_s'])} of running")
    if spec.get("max_trial_duration_s") is not None:
        found.append(f"{screen.duration(spec['max_trial_duration_s'])} a trial")
    if spec.get("goal") is not None:
        found.append(f"until {screen.number(spec['goal'])} is reached")
    return ", ".join(found)


def _status(search: ViewRow) -> str:
    reason = search["failure"] or search["stop_reason"]
    return f"{search['status']} ({reason})" if reason else str(search["status"])


def _best(search: ViewRow, front: list[ViewRow]) -> list[tuple[str, str | None]]:
    """Returns the best trial; for several objectives the Pareto front and the best trial of each."""
    names = objectives_of(search)
    if len(names) < 2:
        if search["best_trial"] is None:
            return [("best", None)]
        value = screen.number(search["best_value"])
        return [("best", f"{value}  trial {search['best_trial']}  {screen.cell(search['best_parameters'])}")]
    listed = ", ".join(str(row["trial"]) for row in front[:FRONT])
    more = f" and {len(front) - FRONT} more" if len(front) > FRONT else ""
    facts: list[tuple[str, str | None]] = [("front", f"trials {listed}{more}" if front else None)]
    for at, objective in enumerate(search["spec"]["objectives"]):
        sign = -1 if objective["direction"] == "maximize" else 1
        best = min(front, key=lambda row: sign * row["objective_values"][at], default=None)
        text = None
        if best is not None:
            text = f"{screen.number(best['objective_values'][at])}  trial {best['trial']}"
        facts.append((f"best {objective['name']}", text))
    return facts
