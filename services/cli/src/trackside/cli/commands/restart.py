"""The command `restart`: services of the stack of this machine start anew, one after the other."""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from trackside.cli.commands import stack_process
from trackside.cli.render.screen import StepReporter
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.embedded.folder import ProcessStatus
from trackside.embedded.stack import Stack
from trackside.embedded.supervision.live_status import current_status
from trackside.eventlog.clock import monotonic_s

LOOK_S = 0.1
WAIT_S = 300.0
"""How long one service may take to be ready again."""


def restart(names: Sequence[str]) -> None:
    """Restarts services, all if none is named; the worker hands its tasks over to itself, and comes last."""
    found = stack_process.running()
    if found is None:
        raise CommandFailed("no stack runs here: start one with `trackside up`")
    services = [each for each in current_status(found.folder).processes.values() if _is_service(each)]
    known = {each.name: each for each in services}
    if unknown := [name for name in names if name not in known]:
        raise BadUsage(f"{unknown[0]} is not a service of this stack; it has {', '.join(known)}")
    chosen = [known[name] for name in dict.fromkeys(names)] if names else services
    with (steps := StepReporter()).shown():
        for each in sorted(chosen, key=lambda each: each.name == stack_process.WORKER):
            steps(f"{each.name}: starting")
            _restart(found, each)
            steps(f"{each.name}: ready")


def _is_service(process: ProcessStatus) -> bool:
    return process.health_port is not None and not process.once


def _restart(running: Stack, service: ProcessStatus) -> None:
    """Tells a service to end, and waits until the next one, which the supervisor starts, is ready."""
    number = signal.SIGUSR1 if service.name == stack_process.WORKER else signal.SIGTERM
    if service.pid is not None:
        with suppress(ProcessLookupError):  # it has ended just now
            os.kill(service.pid, number)
    due_s = monotonic_s() + WAIT_S
    while True:
        status = current_status(running.folder)
        now = status.processes[service.name]
        if now.pid not in (None, service.pid) and now.state == "ready":
            return
        if status.state not in ("running", "starting"):
            raise CommandFailed(f"the stack is {status.state}: {status.reason or 'see `trackside status`'}")
        if monotonic_s() > due_s:
            raise CommandFailed(f"{service.name} is not ready after {WAIT_S:g} s: see {now.log}")
        time.sleep(LOOK_S)
