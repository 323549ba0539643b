"""Processes of services and tasks that stop at named functions, so that they can be killed exactly there.

Nothing of the product knows of this: a `sitecustomize` on PYTHONPATH wraps the functions in each process, and
asks this server at each of them whether to go on.
"""

import asyncio
import json
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Point:
    """A function of a module, `module:name` or `module:Class.name`, and the moment before or after a call."""

    when: str
    function: str

    def __str__(self) -> str:
        return f"{self.when} {self.function}"


@dataclass
class Pauses:
    """Knows which points were passed, and holds the first process that comes to the last point of a path."""

    pids: dict[Point, int] = field(default_factory=dict)
    """The process that was at a point last."""
    _path: list[Point] = field(default_factory=list)
    _reached: asyncio.Future[int] | None = None
    _may_go: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: list[tuple[Point, asyncio.Future[int]]] = field(default_factory=list)
    _server: asyncio.Server | None = None
    _connections: set[asyncio.StreamWriter] = field(default_factory=set)

    def stop_at(self, *path: Point) -> asyncio.Future[int]:
        """Holds the process that comes to the last point after the others were passed; returns its pid."""
        self._path, self._reached = list(path), asyncio.get_running_loop().create_future()
        self._may_go.clear()
        return self._reached

    def go_on(self) -> None:
        """Lets the process that is held go on, if it still can, and holds no other one."""
        self._path = []
        self._may_go.set()

    def passed(self, point: Point) -> asyncio.Future[int]:
        """Returns the pid of the next process that comes to a point."""
        waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((point, waiting))
        return waiting

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers a process that is at a point."""
        self._connections.add(writer)
        try:
            pid, when, function = (await reader.readline()).decode().split()
            point = Point(when, function)
            self.pids[point] = int(pid)
            for each, waiting in self._waiting:
                if each == point and not waiting.done():
                    waiting.set_result(int(pid))
            if self._path and self._path[0] == point:
                self._path.pop(0)
                if not self._path and self._reached is not None:
                    self._reached.set_result(int(pid))
                    await self._may_go.wait()
        finally:
            self._connections.discard(writer)
            writer.close()

    def close(self) -> None:
        """Lets all processes go on from now on, without asking."""
        self.go_on()
        if self._server is not None:
            self._server.close()
        for writer in self._connections:
            writer.transport.abort()

    async def open(self, folder: Path, functions: Collection[str]) -> None:
        """Fills a folder, with which on its PYTHONPATH any process pauses at these functions."""
        address = f"\0{folder}"
        self._server = await asyncio.start_unix_server(self._serve, address)
        shutil.copy(Path(__file__).parent / "pauses" / "sitecustomize.py", folder)
        known = {"address": address, "functions": sorted(functions)}
        (folder / "pauses.json").write_text(json.dumps(known))
