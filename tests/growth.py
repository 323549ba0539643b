"""Whether a process that lives long keeps something of each thing that it does.

What it holds is counted three times, while nothing is under way, with many runs of a thing in between. Code,
caches and connections are there once; what has grown each time was kept for each run.
"""

import asyncio
import gc
import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType

from tests.polling import poll_until
from trackside.domain.streams.stream import Stream

COUNTED_AT = "TRACKSIDE_TEST_COUNTED_AT"
"""The variable with the folder of the sockets at which forked services say what they hold."""
OBJECTS_A_RUN = 0.25
"""More objects than that for each run, by their mean, are kept by it: the least is one."""
NOISE = 20
"""How many objects more there may be at one moment than at another: a timer that was cancelled stays until it
is due."""
SHARE = 0.01
FEW = 2
POOL = "asyncio_"
"""What the threads of the event loop's pool are named: it begins them as needed, up to its limit."""
SETTLED_S = 20.0
"""How long what the last runs have begun may take to end, s."""


@dataclass(frozen=True)
class Held:
    """What a process holds: objects by type, descriptors and threads, and the files in its folder.

    What closed streams consist of is left out.
    """

    objects: Mapping[str, int] = field(default_factory=dict)
    descriptors: int = 0
    threads: int = 0
    files: int = 0

    @property
    def all_objects(self) -> int:
        """How many objects there are that the garbage collector follows."""
        return sum(self.objects.values())


Holds = Callable[[], Awaitable[Mapping[str, Held]]]


@contextmanager
def counted_from_here() -> Iterator[None]:
    """Leaves out what is in this process now."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def held_here(folder: Path | None = None, *, frozen: bool = False) -> Held:
    """Counts what this process holds; with `frozen` also what was taken out of the collector's passes."""
    for _ in range(2 if frozen else 0):  # a service freezes what a pass has left: see collecting_seldom
        gc.unfreeze()
        gc.collect()
    gc.unfreeze() if frozen else gc.collect()
    found = gc.get_objects()
    closed = _of_closed_streams(found)
    objects = Counter(_type_of(each) for each in found if id(each) not in closed)
    files = 0 if folder is None else sum(len(names) for _, _, names in os.walk(folder))
    threads = sum(not each.name.startswith(POOL) for each in threading.enumerate())
    return Held(dict(objects), len(os.listdir("/proc/self/fd")), threads, files)  # noqa: PTH208


def _type_of(each: object) -> str:
    return f"{type(each).__module__}.{type(each).__qualname__}"


def _of_closed_streams(objects: Iterable[object]) -> set[int]:
    """Returns the ids of what closed streams consist of: each stays, shrunk, so that its id stays taken."""
    left = [each for each in objects if isinstance(each, Stream) and each.closed]
    found: set[int] = set()
    while left:
        each = left.pop()
        if id(each) not in found and not isinstance(each, type | ModuleType | FunctionType):
            found.add(id(each))
            left += gc.get_referents(each)
    return found


async def held_by_services(folder: Path) -> dict[str, Held]:
    """Asks the services what they hold whose `COUNTED_AT` is a folder."""
    return await asyncio.to_thread(lambda: {path.stem: _asked(path) for path in folder.glob("*.held")})


def _asked(path: Path) -> Held:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        with connection.makefile() as answer:
            return Held(**json.loads(answer.read()))


def say_what_is_held(name: str) -> None:
    """Lets a service say what it holds, at a socket, if its environment says so."""
    if not (folder := os.environ.get(COUNTED_AT, "")):
        return
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{folder}/{name}.held")
    listening.listen()

    def answer() -> None:
        while True:
            connection, _ = listening.accept()
            with connection, suppress(BrokenPipeError):
                connection.sendall(json.dumps(asdict(held_here(frozen=True))).encode())

    threading.Thread(target=answer, name="held", daemon=True).start()


async def assert_keeps_nothing(
    run: Callable[[int], Awaitable[None]],
    holds: Holds,
    first: int,
    last: int,
) -> None:
    """Does something `first` times and then up to `last` times; fails if a process holds more then.

    `run` does it as often as it is told.
    """
    half = (last - first) // 2
    await run(first)
    before = await holds()
    await run(half)
    middle = await holds()
    in_first_half = {name: grown(before[name], middle[name], half) for name in before}
    await run(last - first - half)
    found: list[str] = []

    async def is_settled() -> bool:
        after = await holds()
        in_second_half = {name: grown(middle[name], after[name], half) for name in before}
        found[:] = [
            f"{name} {more}"
            for name in before
            for what, more in in_second_half[name].items()
            if what in in_first_half[name]
        ]
        return not found

    with suppress(TimeoutError):
        await poll_until(is_settled, SETTLED_S)
    assert not found, f"in the last {half} of {last} runs, and in those before: " + "; ".join(found)


def grown(before: Held, after: Held, runs: int) -> dict[str, str]:
    """Returns what a process holds more after so many runs, and that in words."""
    found = {}
    by_type = Counter(after.objects)
    by_type.subtract(before.objects)
    more = by_type.total()
    if more > NOISE + OBJECTS_A_RUN * runs:
        most = ", ".join(f"{each} {count:+}" for each, count in by_type.most_common(12))
        found["objects"] = f"has {more:+} objects, {more / runs:.2f} a run: {most}"
    for what in ("descriptors", "threads", "files"):
        had, has = getattr(before, what), getattr(after, what)
        if has > had + max(FEW, SHARE * had):
            found[what] = f"has {has} {what}, and had {had}"
    return found
