"""A service that is alive and does nothing is ended, with its stack traces, and started again."""

import os
import signal
import sys
from pathlib import Path

from tests.integration.embedded.test_stack import SERVICE, WITHOUT_SERVERS, await_another, folder, service
from tests.polling import poll_until_sync
from trackside.embedded import stack
from trackside.embedded.processes import is_alive

__all__ = ["folder"]

STUCK_S = 1.5
STUCK = f"it was stuck: no turn of its event loop for {STUCK_S} s; its log has the stack traces"
WAITS_AT_A_REQUEST = """
import faulthandler, pathlib, time
faulthandler.enable()
def wait_while_told():
    while pathlib.Path({flag!r}).exists():
        pass
"""


def started(folder: Path, spec: stack.ServiceSpec) -> tuple[stack.Stack, int]:
    """Starts a stack with one service; returns it and the pid of the service."""
    running = stack.start(folder, stack.StackOptions([spec], stuck_s=STUCK_S, **WITHOUT_SERVERS))
    pid = running.pid("echo")
    assert pid is not None
    return running, pid


def test_a_service_whose_loop_takes_no_turn_writes_its_stack_traces_and_is_started_again(
    folder: Path, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    code = SERVICE.replace("self.send_response", "wait_while_told(); self.send_response")
    code = WAITS_AT_A_REQUEST.format(flag=str(flag)) + code
    running, victim = started(folder, stack.ServiceSpec("echo", argv=[sys.executable, "-c", code]))
    flag.touch()
    poll_until_sync(lambda: not is_alive(victim))
    flag.unlink()
    await_another(running, "echo", victim)
    status = stack.load(folder).status.processes["echo"]
    assert (status.last_end, status.restarts) == (STUCK, 1)
    assert "in wait_while_told" in Path(status.log).read_text()


def test_a_service_that_was_stopped_and_ignores_the_signal_is_killed_and_started_again(folder: Path) -> None:
    running, victim = started(folder, service(before="import signal; signal.signal(6, lambda *_: None)\n"))
    os.kill(victim, signal.SIGSTOP)
    await_another(running, "echo", victim)
    assert stack.load(folder).status.processes["echo"].last_end == STUCK


def test_the_status_says_with_which_code_a_service_ended(folder: Path) -> None:
    ends = "import os, signal; signal.signal(2, lambda *_: os._exit(3))\n"
    running, victim = started(folder, service(before=ends))
    os.kill(victim, signal.SIGINT)
    await_another(running, "echo", victim)
    status = stack.load(folder).status.processes["echo"]
    assert status.last_end == "it ended with exit code 3" and status.last_end_ms > 0
