"""What a task process is told to run; see process_messages."""

from typing import Any, NamedTuple


class Assignment(NamedTuple):
    """The task to run. Lock files of its devices come with it as descriptors, after `outputs` of them."""

    entry: str
    """The class, as `module:Class`; empty for a program."""
    program: list[str]
    """The program and its arguments; empty for a class."""
    path: str
    """The folder of the code; empty for installed code."""
    parameters: dict[str, Any]
    environment: dict[str, str]
    workdir: str
    ending: str
    """The path of the file that gets the ending."""
    interrupts: int = 0
    """How often training may run out of memory without ending the attempt."""
    interrupted: int = 0
    """How often it has, in earlier placements."""
    outputs: int = 0
    """How many of the descriptors replace stdout and stderr: 0 or 2."""
    max_tasks: int | None = None
    """How many tasks a warm process may run; None for a process that ends with its task."""
    max_growth_bytes: int = 0
    """How much the memory of a warm process may grow."""
    spool: str = ""
    """The folder for what the task saves; empty if there is no store."""
    spool_bytes: int = 0
    """How much the spools of the worker may hold."""
    saved: dict[str, int] = {}  # noqa: RUF012 - nobody changes it
    """The newest version of each artifact that the task has saved in earlier placements, by name."""
    service: bool = False
    """Whether it serves until it is stopped, instead of training."""
    unresponsive_s: float = 0.0
    """After how long without a sign of life a service is ended; 0 for never."""
    secrets: list[str] = []  # noqa: RUF012 - nothing changes it
    """The values of secrets in its parameters and its environment, to be masked in what it writes."""
    progress: str = ""
    """The path of the file that gets what the next worker has to know; empty if it adopts no tasks."""
