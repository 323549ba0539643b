"""The process of one what-if: reads its request from standard input, writes JSON to standard output.

The request is one line: {"bootstrap", "prefix", "stream", "at", "fields"}. What it writes are lines
{"phase": TEXT}, at the end {"result": ...} or {"error": TEXT}. The process ends when its standard input is
closed: that is when the console ends.
"""

import asyncio
import json
import os
import sys
import threading
from typing import Any

from trackside.console.whatif.options import result_of
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.clock import now_ms
from trackside.eventlog.garbage import collecting_seldom
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import ReplayError
from trackside.replay.history.point_in_time import parse_point_in_time
from trackside.whatif.read_stream import AnyRecording, read_stream

NICE = 10
"""Pages and services come first on this machine."""


def main() -> None:
    """Answers one request."""
    os.nice(NICE)
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        with collecting_seldom():
            _say({"phase": "reading the log"})
            recording = asyncio.run(_read(request))
            _say({"phase": "simulating"})
            _say({"result": result_of(recording, request["fields"])})
    except ReplayError as error:
        _say({"error": str(error).partition(": ")[2]})


async def _read(request: dict[str, Any]) -> AnyRecording:
    point = parse_point_in_time(request["at"] or "now", now_ms())
    async with KafkaLog(request["bootstrap"], client_id="trackside-console-whatif") as log:
        recorded = await find_stream(log, Topics(prefix=request["prefix"]), request["stream"])
        return await read_stream(recorded, point)


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
