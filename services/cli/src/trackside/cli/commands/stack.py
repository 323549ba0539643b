"""Commands about the stack of this machine: `up`, `down`, `status`."""

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Any

from trackside.cli.commands import dashboards, stack_process
from trackside.cli.render import screen
from trackside.cli.render.screen import StepReporter
from trackside.cli.runtime.failures import CommandFailed, FailureReported
from trackside.cli.runtime.run import run
from trackside.domain.display.text import Column
from trackside.domain.table import ViewRow
from trackside.embedded import stack
from trackside.embedded.dashboards.joining import add_dashboards
from trackside.embedded.dashboards.settings import DashboardSettings
from trackside.embedded.errors import StackMissing
from trackside.embedded.folder import DISK_LOW, ProcessStatus, StackStatus
from trackside.embedded.live_status import current_status, json_answer
from trackside.embedded.postgres.reader import without_password
from trackside.embedded.stack import CONSOLE, Stack
from trackside.eventlog.settings import read_settings
from trackside.projections.postgres import PostgresGoneError, SchemaMissingError
from trackside.projections.reads import json_row, open_read_models

ASK_S = 10.0
WATCH_S = 1.0
"""How often a stack in the foreground is asked what is wrong."""


def up(
    catalogue: Path | None, slots: int, foreground: bool, with_dashboards: bool, leash: Path | None
) -> None:
    """Starts the stack of this folder, or prints that it runs; in the foreground it runs until a signal."""
    settings = read_settings(DashboardSettings) if with_dashboards else None
    found = stack_process.running()
    if found is not None:
        screen.say(f"the stack in {found.folder} runs already; see `trackside status`")
        _say_console(found)
        from trackside.cli.commands import catalogue as catalogues  # the worker's: not needed for a start

        catalogues.read_again(found, catalogue)
        if settings is not None:
            with (steps := StepReporter()).shown():
                added = add_dashboards(found, settings, steps)
            dashboards.say(added, settings)
        return
    if foreground:
        with stack_process.started(catalogue, slots, StepReporter(), settings) as made:
            screen.say(f"the stack runs; Kafka is at {made.bootstrap_servers}. Ctrl-C stops it.")
            _say_console(made)
            if settings is not None:
                dashboards.say(made, settings)
            run(_until_signal(made))
        return
    made = stack_process.start(catalogue, slots, StepReporter(), leash, settings)
    screen.say(f"the stack runs in {made.folder}; Kafka is at {made.bootstrap_servers}")
    _say_console(made)
    if settings is not None:
        dashboards.say(made, settings)
    for problem in made.status.problems.values():
        screen.complain(problem)
    screen.say("next: trackside status, trackside submit SPEC.yaml, trackside down")


def _say_console(made: Stack) -> None:
    """Prints where the console is, or that it could not start."""
    if made.console_url is not None:
        screen.say(f"the console is at {made.console_url}")
    elif CONSOLE in made.status.processes:
        screen.complain(f"the console has not started: see {made.folder}/logs/{CONSOLE}.log")


def down() -> None:
    """Stops the stack of this folder; its data stays."""
    found = stack_process.running()
    if found is None:
        screen.say("no stack runs here")
        return
    with screen.console(error=True).status("stopping"):
        stack.stop(found.folder)
    screen.say(f"the stack in {found.folder} is stopped; its data stays")


def status(as_json: bool) -> None:
    """Prints the processes, devices and queue of the stack; raises FailureReported if one is not ready."""
    try:
        found = stack.find()
    except StackMissing as error:
        raise CommandFailed(str(error)) from error
    state = found.status
    processes = run(_processes(state))
    devices, queue = run(_fleet(found))
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


async def _until_signal(made: Stack) -> None:
    """Waits for a signal to stop; what is wrong meanwhile is printed once, and once when it is over."""
    signalled = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, signalled.set)
    shown: dict[str, str] = {}
    while not signalled.is_set():
        problems = (await asyncio.to_thread(current_status, made.folder)).problems
        for subject in problems.keys() - shown.keys():
            screen.complain(problems[subject])
        for subject in shown.keys() - problems.keys():
            screen.complain(f"no longer: {shown[subject]}")
        shown = problems
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(signalled.wait(), WATCH_S)


async def _processes(state: StackStatus) -> list[dict[str, Any]]:
    listed = [each for each in state.processes.values() if not each.name.startswith("setup-")]
    answers = await asyncio.gather(*(asyncio.to_thread(readiness, each.health_port) for each in listed))
    return [_process(each, answer) for each, answer in zip(listed, answers, strict=True)]


def readiness(port: int | None) -> dict[str, Any] | None:
    """Returns what a service answers at `/ready`; None if it has no port or does not answer in 10 s."""
    return None if port is None else json_answer(port, "/ready", ASK_S)


def _process(each: ProcessStatus, answer: dict[str, Any] | None) -> dict[str, Any]:
    state, waiting = each.state, each.obstacle
    if each.health_port is not None and state == "ready":
        waiting = "no answer" if answer is None else str(answer.get("waiting") or "")
        if answer is not None and answer.get("disk_low") and not waiting:
            waiting = "room on its disk, to start new tasks"
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
