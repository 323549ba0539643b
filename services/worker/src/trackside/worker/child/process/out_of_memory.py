"""Classifies exceptions: the host or a device ran out of memory, or the disk is full. Pure.

torch is never imported here: its classes are recognised by name.
Sources: torch.OutOfMemoryError and the texts of c10 (CUDACachingAllocator, DefaultCPUAllocator, CUDABlas).
"""

import errno
import re
from collections.abc import Iterator
from typing import Literal

Resource = Literal["host", "device"]

MAX_CHAIN = 100
_DEVICE_CLASSES = frozenset({"OutOfMemoryError"})
_DEVICE_TEXT = re.compile(
    r"CUDA out of memory|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED"
    r"|RESOURCE_EXHAUSTED: Out of memory|\bcuda\S*OutOfMemoryError|torch\.OutOfMemoryError"
)
_HOST_TEXT = re.compile(
    r"DefaultCPUAllocator: (can't allocate|not enough) memory|^(\w+\.)*_?(Array)?MemoryError\b", re.MULTILINE
)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def out_of_memory(error: BaseException) -> Resource | None:
    """Returns which memory ran out according to an exception or its causes; None if none did."""
    for each in exception_chain(error):
        found = _classify(each)
        if found is not None:
            return found
    return None


def disk_is_full(error: BaseException) -> bool:
    """Returns whether an exception, or one of its causes, is a full disk or an exceeded quota."""
    return any(isinstance(each, OSError) and each.errno in _FULL for each in exception_chain(error))


def exception_chain(error: BaseException) -> Iterator[BaseException]:
    """Yields an exception and those that led to it: causes, contexts and members of groups."""
    pending, seen = [error], set[int]()
    while pending and len(seen) < MAX_CHAIN:
        each = pending.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            pending += each.exceptions
        pending += [other for other in (each.__cause__, each.__context__) if other is not None]


def _classify(error: BaseException) -> Resource | None:
    if any(kind.__name__ in _DEVICE_CLASSES for kind in type(error).__mro__):
        return "device"
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return "host"
    if not isinstance(error, RuntimeError):
        return None
    text = str(error)
    if _DEVICE_TEXT.search(text):
        return "device"
    return "host" if _HOST_TEXT.search(text) else None
