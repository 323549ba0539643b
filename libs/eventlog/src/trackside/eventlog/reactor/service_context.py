"""What the parts of one service process share."""

import asyncio
from dataclasses import dataclass, field

from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.background import Background
from trackside.eventlog.keys.decision_signer import DecisionSigner
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log
from trackside.eventlog.reactor.decision_spans import DecisionSpans
from trackside.eventlog.reactor.stuck_decisions import StuckDecisions
from trackside.eventlog.settings.settings import StackSettings
from trackside.telemetry.health import Health


def _permitted() -> asyncio.Event:
    permitted = asyncio.Event()
    permitted.set()
    return permitted


@dataclass(slots=True)
class ServiceContext:
    """A service process: its log and topics, how it writes records, its health, its tasks, when to stop.

    `spans` are those of its decisions: the reactor begins them, the service ends them as it folds these.
    `stuck` are the decisions that it ended itself for. `permitted` is set while the broker permits all that
    the service needs.
    """

    log: Log
    topics: Topics
    writer: RecordWriter
    health: Health
    settings: StackSettings
    background: Background = field(default_factory=Background)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    spans: DecisionSpans = field(default_factory=DecisionSpans)
    permitted: asyncio.Event = field(default_factory=_permitted)
    stuck: StuckDecisions = field(default_factory=lambda: StuckDecisions(None, "", "", 0))

    @classmethod
    def on(
        cls, log: Log, topics: Topics, role: str, instance: str = "1", signer: DecisionSigner | None = None
    ) -> "ServiceContext":
        """Returns a service on an open log, with default settings whatever the environment holds."""
        settings = StackSettings.model_construct(topic_prefix=topics.prefix, instance=instance)
        return cls(log, topics, RecordWriter(role, instance, signer), Health(role), settings)
