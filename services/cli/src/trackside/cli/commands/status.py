"""The command `status`. It imports nothing that only a start of the stack needs: it begins sooner."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from trackside.cli.render import screen
from trackside.cli.runtime.failures import CommandFailed, FailureReported
from trackside.cli.runtime.run import run
from trackside.domain.display.text import Column
from trackside.domain.rows.table import ViewRow
from trackside.embedded import stack
from trackside.embedded.errors import StackMissing
from trackside.embedded.folder import DISK_LOW, ProcessStatus, StackStatus
from trackside.embedded.postgres.reader import without_password
from trackside.embedded.stack import Stack
from trackside.embedded.supervision.live_status import json_answer
from trackside.projections.database.postgres import PostgresGoneError, SchemaMissingError
from trackside.projections.reading.reads import json_row, open_read_models

ASK_S = 10.0


def status(as_json: bool) -> None:
    """Prints the processes, devices and queue of the stack; raises FailureReported if one is not ready."""
    try:
        found = stack.find()
    except StackMissing as error:
        raise CommandFailed(str(error)) from error
    state = found.status
    processes, (devices, queue) = run(_asked(found))
    needed = [row for row in processes if not row["optional"]]
    ready = state.is_ready and all(row["state"] in ("ready", "ended") for row in needed)
    if as_json:
        listed = [json_row(row) for row in devices]
        screen.emit(
            {"folder": str(found.folder), "state": state.state, "ready": ready, "processes": processes}
            | {"problems": list(state.problems.values()), "disk_low": DISK_LOW in state.problems}
            | {
                "console": found.console_url,
                "kafka": found.bootstrap_servers,
                "postgres": without_password(state.postgres_dsn),
            }
            | {"reader": without_password(state.reader_dsn), "devices": listed, "queue": queue}
        )
    else:
        _show(found, state, processes, devices, queue)
    if not ready:
        raise FailureReported()


async def _asked(found: Stack) -> tuple[list[dict[str, Any]], tuple[list[ViewRow], list[ViewRow]]]:
    processes, fleet = await asyncio.gather(_processes(found.status), _fleet(found))
    return processes, fleet


async def _processes(state: StackStatus) -> list[dict[str, Any]]:
    listed = [each for each in state.processes.values() if not each.once]
    answers = await asyncio.gather(*(asyncio.to_thread(readiness, each.health_port) for each in listed))
    return [_process(each, answer) for each, answer in zip(listed, answers, strict=True)]


def readiness(port: int | None) -> dict[str, Any] | None:
    """Returns what a service answers at `/ready`; None if it has no port or does not answer in 10 s."""
    return None if port is None else json_answer(port, "/ready", ASK_S)


def _process(each: ProcessStatus, answer: dict[str, Any] | None) -> dict[str, Any]:
    state, waiting = each.state, each.obstacle
    if state == "starting" and answer is not None and answer.get("behind"):
        state, waiting = "late", str(answer["waiting"])
    if each.health_port is not None and state == "ready":
        waiting = "no answer" if answer is None else str(answer.get("waiting") or answer.get("rows") or "")
        if answer is not None and answer.get("disk_low") and not waiting:
            waiting = "room on its disk, to start new tasks"
        if answer is not None and (parked := answer.get("parked")) and not waiting:
            waiting = f"a newer release, for {parked['streams']} parked streams: {parked['some'][0]}"
        state = "ready" if answer is not None and answer.get("ready") else "waiting"
    lags: dict[str, float] = {} if answer is None else answer.get("lag_s") or {}
    return {
        "name": each.name,
        "state": state,
        "pid": each.pid,
        "restarts": each.restarts,
        "port": each.port,
        "health_port": each.health_port,
        "optional": each.optional,
        "lag_s": max(lags.values(), default=None),
        "waiting": waiting,
        "log": each.log,
        "last_end": each.last_end,
        "last_end_ms": each.last_end_ms,
    }


async def _fleet(found: Stack) -> tuple[list[ViewRow], list[ViewRow]]:
    try:
        async with open_read_models(found.postgres_dsn) as models:
            return await models.rows("devices"), await models.rows("queue")
    except (PostgresGoneError, SchemaMissingError) as error:
        screen.complain(f"devices and queue are unknown: {error}")
        return [], []


def _show(
    found: Stack,
    state: StackStatus,
    processes: list[dict[str, Any]],
    devices: list[ViewRow],
    queue: list[ViewRow],
) -> None:
    console = f"; console at {found.console_url}" if found.console_url else ""
    screen.say(f"{found.folder} {state.state}; Kafka at {found.bootstrap_servers}{console}")
    for problem in state.problems.values():
        screen.say(f"problem: {problem}")
    screen.say("")
    columns = [
        Column("process", keep=True),
        Column("state"),
        Column("pid", right=True),
        Column("restarts", right=True),
        Column("port", right=True),
        Column("lag s", right=True),
        Column("waiting for", keep=True),
    ]
    names = ("name", "state", "pid", "restarts", "port", "lag_s", "waiting")
    screen.show_table(columns, [[row[name] for name in names] for row in processes])
    _show_ends(processes)
    columns = [
        Column("device", keep=True),
        Column("kind"),
        Column("state"),
        Column("task", keep=True),
        Column("status"),
        Column("since"),
    ]
    cells = [
        [
            f"{row['worker_id']}/{row['device_id']}",
            row["kind"],
            row["state"],
            row["task_id"],
            row["attempt_status"],
            row["since"],
        ]
        for row in devices
    ]
    screen.say("")
    screen.show_table(columns, cells)
    waiting = ", ".join(f"{row['tasks']} in {row['queue']}" for row in queue) or "empty"
    pause = "; no task is started before there is room" if DISK_LOW in state.problems else ""
    screen.say(f"\nqueue: {waiting}{pause}")


def _show_ends(processes: list[dict[str, Any]]) -> None:
    """Prints when and how processes ended that were started again."""
    for row in processes:
        if row["restarts"] and row["last_end"]:
            at = datetime.fromtimestamp(row["last_end_ms"] / 1000, UTC).isoformat(" ", "seconds")
            screen.say(f"{row['name']} was started again, last at {at}: {row['last_end']}")
