"""Reports which rights a service lacks: before it starts, and when one is taken away while it runs."""

import asyncio
from collections.abc import Collection

import structlog

from trackside.contracts.wire.topic_rights import Right
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka.kafka_rights import RightsProbe, sentences
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.telemetry.health import Health

log = structlog.get_logger("trackside.eventlog")

EVERY_S = 3.0
"""How often the broker is asked, in s: what a service may no longer read, it would wait for in silence."""
OPEN_EVERY_S = 60.0
"""The same of a broker that knows no users: it hardly has rights to take away."""
RETRY_S = 0.2


async def watch_rights(
    kafka: KafkaSettings, needed: Collection[Right], health: Health, permitted: asyncio.Event
) -> None:
    """Asks the broker again and again which rights are missing, until it is cancelled.

    Logs each change, and shows in `health` what is denied. Sets `permitted` while nothing is. Others say
    that the broker does not answer.
    """
    probe, known = RightsProbe(kafka), list[Right]()
    every_s = EVERY_S if kafka.uses_tls or kafka.uses_sasl else OPEN_EVERY_S
    try:
        while True:
            try:
                missing = await probe.missing(needed)
            except TransientError as error:
                log.debug("rights unknown", reason=str(error))
            else:
                if missing != known:
                    known, health.denied = missing, _say(kafka, missing)
                permitted.clear() if missing else permitted.set()
            await asyncio.sleep(every_s if permitted.is_set() else RETRY_S)
    finally:
        await probe.close()


def _say(kafka: KafkaSettings, missing: Collection[Right]) -> list[str]:
    found = sentences(kafka, missing)
    for sentence in found:
        log.error("the broker denies what this service needs", reason=sentence)
    if not found:
        log.info("the broker permits all that this service needs")
    return found
