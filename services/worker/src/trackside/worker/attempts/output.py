"""Lines of a process's output, read from a pipe."""

import asyncio
import codecs
import os
from collections.abc import Callable, Sequence

from trackside.worker.secret_mask import SecretMask

MAX_PART_OF_LINE = 65_536


async def read_lines(
    descriptor: int, take: Callable[[Sequence[str]], None], mask: SecretMask, unread: bytes = b""
) -> None:
    """Passes the lines of a pipe to `take` until its end, masked; a very long line is passed in pieces.

    What was read from it before and is `unread` comes first.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    reader.feed_data(unread)
    pipe = os.fdopen(os.dup(descriptor), "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    text = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    try:
        while octets := await reader.read(65_536):
            *lines, rest = (rest + text.decode(octets)).split("\n")
            if len(rest) > MAX_PART_OF_LINE + mask.longest:
                rest = mask.text(rest)
                cut = max(1, len(rest) - mask.longest)  # after that a value may have begun
                lines, rest = [*lines, rest[:cut]], rest[cut:]
            if lines:
                take([_shown(mask.text(line)) for line in lines])
    finally:
        if rest:
            take([_shown(mask.text(rest))])
        transport.close()


def _shown(line: str) -> str:
    """Returns what a terminal shows of a line: what follows its last carriage return."""
    return line.removesuffix("\r").rpartition("\r")[2]
