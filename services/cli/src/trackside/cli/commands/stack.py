"""Commands that start and stop the stack of this machine: `up`, `down`."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from trackside.cli.commands import dashboards, stack_process
from trackside.cli.render import screen
from trackside.cli.render.screen import StepReporter
from trackside.cli.runtime.addresses import BOOTSTRAP
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.embedded import stack
from trackside.embedded.joining import add_dashboards
from trackside.embedded.settings import DashboardSettings
from trackside.embedded.stack import CONSOLE, Stack
from trackside.embedded.supervision.live_status import current_status
from trackside.eventlog.settings.settings import read_settings

WATCH_S = 1.0
"""How often a stack in the foreground is asked what is wrong."""


def up(
    catalogue: Path | None,
    slots: int,
    foreground: bool,
    with_dashboards: bool,
    leash: Path | None,
    secure: bool,
) -> None:
    """Starts the stack of this folder, or prints that it runs; in the foreground it runs until a signal."""
    settings = read_settings(DashboardSettings) if with_dashboards else None
    found = stack_process.running()
    if secure:
        _check_secure(found)
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
        with stack_process.started(catalogue, slots, StepReporter(), settings, secure) as made:
            screen.say(f"the stack runs; Kafka is at {made.bootstrap_servers}. Ctrl-C stops it.")
            _say_late(made)
            _say_console(made)
            if settings is not None:
                dashboards.say(made, settings)
            run(_until_signal(made))
        return
    made = stack_process.start(catalogue, slots, StepReporter(), leash, settings, secure)
    screen.say(f"the stack runs in {made.folder}; Kafka is at {made.bootstrap_servers}")
    _say_late(made)
    _say_console(made)
    if settings is not None:
        dashboards.say(made, settings)
    for problem in made.status.problems.values():
        screen.complain(problem)
    screen.say("next: trackside status, trackside submit SPEC.yaml, trackside down")


def _say_late(made: Stack) -> None:
    """Prints which services still fold the log, and how many records they have to go."""
    for each in made.status.processes.values():
        if each.behind:
            screen.complain(
                f"{each.name} is late: {each.behind:,} records of the log to go; the others work, and "
                "`trackside status` shows how far it is"
            )


def _check_secure(found: Stack | None) -> None:
    """Raises BadUsage if the Kafka of this folder is not ours to secure, or runs without users."""
    if os.environ.get(BOOTSTRAP):
        raise BadUsage(
            f"--secure is for a Kafka that `trackside up` starts, and {BOOTSTRAP} names another: set "
            "TRACKSIDE_KAFKA_SECURITY_PROTOCOL and the variables next to it instead"
        )
    if found is not None and not found.status.secure:
        raise CommandFailed(
            f"the stack in {found.folder} runs without --secure: stop it, and start one in another folder"
        )


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
