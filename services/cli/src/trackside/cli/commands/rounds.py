"""Commands of incremental jobs: their rounds are read from Postgres, all else is asked of the dispatcher."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trackside.aggregates.rounds.aggregate import ROUNDS
from trackside.aggregates.rounds.display.round_display import round_table, shown_metric
from trackside.aggregates.rounds.job.job_spec import StageName
from trackside.aggregates.rounds.messages import (
    FireDeploy,
    FireEval,
    FireTrain,
    RollbackModel,
    UpdateIncrementalJob,
)
from trackside.aggregates.rounds.view import CONDITIONS, DEPLOYMENTS
from trackside.aggregates.rounds.view import ROUNDS as ROUNDS_QUERY
from trackside.cli.commands import recorded_tasks
from trackside.cli.commands.artifacts import resolving
from trackside.cli.commands.publishing import Publishing
from trackside.cli.commands.submit import check_id, send
from trackside.cli.render import screen
from trackside.cli.render.picture_files import new_picture_form, write_new_picture
from trackside.cli.render.rounds_picture import drawn_rounds, rounds_picture
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.refusals import nearest
from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.reads import json_row, open_read_models
from trackside.sdk.definitions.specs import read_spec_file

MOST_JOBS = 1_000
_FIRES = {"train": FireTrain, "eval": FireEval, "deploy": FireDeploy}


def show_rounds(job: str, limit: int, metric: str, picture: Path | None, as_json: bool) -> None:
    """Prints the newest rounds of a job as a table or as JSON, or draws all of them into a file."""
    form = None if picture is None else new_picture_form(picture)
    rounds, deployments = run(_read(job, ROUNDS_QUERY, DEPLOYMENTS))
    metric = _checked(metric, rounds)
    if picture is not None and form is not None:
        named = metric or shown_metric(reversed(rounds))
        drawn = drawn_rounds(rounds, deployments, named)
        write_new_picture(picture, rounds_picture(drawn, f"{job}: {named} by round", form))
    elif as_json:
        screen.emit([json_row(row) for row in rounds[-limit:]])
    elif rounds:
        table = round_table(rounds[-limit:], metric)
        screen.show_table(table.columns, table.rows)
        if len(rounds) > limit:
            screen.say(f"the last {limit} of {len(rounds):,} rounds; --limit lists more")
    else:
        screen.say(f"{job} has had no round; `trackside show {job}` says what it waits for")


def show_conditions(job: str) -> None:
    """Prints the conditions of the stages of a job as Sedna has them, the newest last, as JSON."""
    (found,) = run(_read(job, CONDITIONS))
    screen.emit(json_row(found[0])["conditions"] if found else [])


def fire(job: str, stage: StageName, publishing: Publishing, *, force: bool) -> None:
    """Begins a stage; raises BadUsage for one that can't be forced."""
    if force and stage != "deploy":
        raise BadUsage(f"--force is for deploy; `trackside fire {job} {stage}` begins the stage without it")
    send(job, _FIRES[stage], {"force": True} if force else {}, publishing)


def rollback(job: str, version: str, reason: str, publishing: Publishing) -> None:
    """Makes a version live again; raises BadUsage for what is no version."""
    model, at, number = version.rpartition("@")
    if not (number.isascii() and number.isdecimal() and int(number) > 0) or (at and not model):
        raise BadUsage(f"{version!r}: expected the number of a version, such as 3, or MODEL@3")
    body: dict[str, Any] = {"version": int(number), "reason": reason}
    send(job, RollbackModel, body | ({"model": model} if model else {}), publishing)


def update(job: str, file: Path, publishing: Publishing) -> None:
    """Replaces the definition of a job by that of a file; raises BadUsage for a file of another kind."""
    quiet = publishing.as_json
    find = partial(recorded_tasks.find, quiet=quiet)
    command, spec = read_spec_file(file, partial(resolving.resolve, file.parent, quiet=quiet), find)
    if type(command) is not ROUNDS.specs[0].command:
        raise BadUsage(f"{file}: expected `kind: rounds`")
    body = command.model_dump(mode="json", exclude_defaults=True)
    send(job, UpdateIncrementalJob, {"job": body}, publishing, spec)


async def _read(job: str, *queries: str) -> list[list[ViewRow]]:
    """Returns the rows of queries about a job; raises CommandFailed if there is no such job."""
    check_id(job)
    async with open_read_models(Addresses().dsn) as models:
        if await models.row(f"{ROUNDS.kind}.one", job) is None:
            known = [row["job_id"] for row in await models.rows(f"{ROUNDS.kind}.newest", MOST_JOBS)]
            raise CommandFailed(f"there is no incremental job {job}{nearest(job, known)}")
        return [await models.rows(f"{ROUNDS.kind}.{query}", job) for query in queries]


def _checked(metric: str, rounds: Sequence[ViewRow]) -> str:
    known = sorted({name for row in rounds for name in row["trained"] or {}})
    if metric and metric not in known:
        listed = f"; expected one of: {', '.join(known)}" if known else ""
        raise BadUsage(f"--metric {metric}: no round has it{listed}")
    return metric
