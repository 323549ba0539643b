"""What the dearest commands cost that the limits admit, beside decoding and checking the same bytes.

All streams are decided in one loop: while a command is decided, all others wait.
"""

import gc
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.unit.dispatcher.dear_commands import SIZE, Input, Recipe
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Envelope, Event, Record
from trackside.contracts.streams.commands import CommandRefused
from trackside.contracts.wire.codec import Draft, encode, validate_command
from trackside.dispatcher.intake.intake import Intake
from trackside.domain.commands.react import react
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.streams import Streams
from trackside.eventlog.log import Entry

TASK_TYPES = frozenset({"digits", "prepare", "noop"})
CAPABILITIES = Capabilities(TASK_TYPES, ("w1/cpu-0",), frozenset({"cpu-0", "w1/cpu-0"}))
STREAM = "s"
SMALL = 1_024


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command cost: processor time in ms to decode and check it, and to decide it."""

    recipe: Recipe
    octets: int
    read_ms: float
    decide_ms: float
    answer: str

    @property
    def ratio(self) -> float:
        """How much longer it is decided than read."""
        return self.decide_ms / self.read_ms


def measured(recipe: Recipe) -> Cost:
    """Reads and decides a command of a new stream; a small one of its kind before, which loads the code."""
    decide(received(recipe.input(SMALL))[0])
    given = recipe.input(SIZE)
    streams, octets, read_ms = received(given)
    began = time.process_time()
    answer = decide(streams)
    decide_ms = (time.process_time() - began) * 1_000
    return Cost(recipe, octets, read_ms, decide_ms, answer)


def received(given: Input) -> tuple[Streams, int, float]:
    """Returns streams with one that has received a command; its bytes, and the ms to decode and check it."""
    octets = json.dumps(given.body, separators=(",", ":")).encode()
    headers = [("ce_id", b"c-1"), ("ce_type", given.command_type.encode())]
    streams, intake = Streams(AGGREGATES), Intake()
    gc.collect()
    began = time.process_time()
    intake.receive(Entry("trackside.commands", 0, 1, 1, STREAM.encode(), octets, headers))
    validate_command(given.command_type, json.loads(octets), AGGREGATES.commands)
    read_ms = (time.process_time() - began) * 1_000
    [(_, event, _)] = intake.unrecorded(streams)
    streams.fold(_record(event))
    return streams, len(octets), read_ms


def decide(streams: Streams) -> str:
    """Decides the command that a stream has received; returns the code of its refusal, or `accepted`."""
    [proposal] = react(streams.by_id[STREAM], CAPABILITIES, AGGREGATES)
    answer = proposal.events[0]
    return answer.code if isinstance(answer, CommandRefused) else "accepted"


def _record(event: Event) -> Record:
    draft = Draft(event, "m-1", "trackside/dispatcher/1", STREAM, "2026-01-31T12:00:00Z")
    _, _, headers = encode(draft)
    return Record("trackside.events", 0, 0, 1, Envelope(dict(headers)), event)


def dearest(costs: Sequence[Cost]) -> dict[str, Cost]:
    """Returns of each command type the input that took longest to decide."""
    found: dict[str, Cost] = {}
    for cost in costs:
        name = cost.recipe.command_type
        if name not in found or cost.decide_ms > found[name].decide_ms:
            found[name] = cost
    return found
