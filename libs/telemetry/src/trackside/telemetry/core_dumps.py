"""Core dumps of a process, which have all that is in its memory."""

import resource

_NO_PROGRAM = 1
"""A limit of 1 byte, unlike 0, also keeps the kernel from piping a dump to a program: see core(5)."""


def end_core_dumps() -> None:
    """Has this process, and those that it starts, write no core dump, neither to a file nor to a program."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    limit = _NO_PROGRAM if hard == resource.RLIM_INFINITY else min(hard, _NO_PROGRAM)
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
