"""The processes of a stack, by what the system says of them."""

from pathlib import Path

from trackside.cli.commands import stack_process as stacks
from trackside.embedded.processes import children_of, outlives_parent
from trackside.embedded.stack import Stack, load


def processes_in(folder: Path) -> list[int]:
    """Lists the processes whose working directory is in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            where = (process / "cwd").resolve(strict=True)
        except OSError:
            continue
        if where.is_relative_to(folder):
            found.append(int(process.name))
    return found


def forkservers(running: Stack) -> list[int]:
    """Lists the processes that keep the tasks of the worker; those of a killed one are the supervisor's."""
    status = load(running.folder).status
    worker = status.processes[stacks.WORKER].pid
    parents = [status.supervisor_pid, *([] if worker is None else [worker])]
    return [pid for parent in parents for pid in children_of(parent) if outlives_parent(pid)]
