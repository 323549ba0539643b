"""Lines of a process's output, read from a pipe."""

import asyncio
import codecs
import os
from collections.abc import Callable, Sequence

from trackside.worker.secret_mask import SecretMask

MAX_PART_OF_LINE = 65_536
READ_BYTES = 65_536


async def read_lines(
    descriptor: int, take: Callable[[Sequence[str]], None], mask: SecretMask, unread: bytes = b""
) -> None:
    """Passes the lines of a pipe to `take` until its end, masked; a very long line is passed in pieces.

    What was read from it before and is `unread` comes first. Raises OSError, and what `take` raises.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    lines = _Lines(take, mask)
    lines.add(unread)
    pipe = os.dup(descriptor)
    os.set_blocking(pipe, False)
    # Not connect_read_pipe: uvloop would close the descriptor twice, when another thread may have it.
    loop.add_reader(pipe, _read, pipe, lines, ended)
    try:
        await ended
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)
        lines.end()


def _read(pipe: int, lines: "_Lines", ended: asyncio.Future[None]) -> None:
    if ended.done():
        return
    try:
        octets = os.read(pipe, READ_BYTES)
        lines.add(octets)
    except BlockingIOError:
        return
    except Exception as error:  # noqa: BLE001 - the future raises it
        ended.set_exception(error)
        return
    if not octets:
        ended.set_result(None)


class _Lines:
    """Cuts text into masked lines."""

    def __init__(self, take: Callable[[Sequence[str]], None], mask: SecretMask) -> None:
        self._take, self._mask = take, mask
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def add(self, octets: bytes) -> None:
        """Takes what was read; an incomplete line waits for its end unless it is very long."""
        *lines, rest = (self._rest + self._text.decode(octets)).split("\n")
        if len(rest) > MAX_PART_OF_LINE + self._mask.longest:
            rest = self._mask.text(rest)
            cut = max(1, len(rest) - self._mask.longest)  # after that a value may have begun
            lines, rest = [*lines, rest[:cut]], rest[cut:]
        self._rest = rest
        if lines:
            self._take([_shown(self._mask.text(line)) for line in lines])

    def end(self) -> None:
        """Passes what has no end of line."""
        if self._rest:
            self._take([_shown(self._mask.text(self._rest))])


def _shown(line: str) -> str:
    """Returns what a terminal shows of a line: what follows its last carriage return."""
    return line.removesuffix("\r").rpartition("\r")[2]
