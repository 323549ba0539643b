import pytest

from tests.unit.domain.given import STREAM
from tests.unit.domain.test_forgetting import decided, ended_search, forget
from trackside.contracts.topics import Topics, partition_of
from trackside.eventlog.log import Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import ForgottenStreamError, KeyMissingError
from trackside.replay.history.point_in_time import NOW, PointInTime
from trackside.replay.history.recorded_stream import state_at

TOPICS = Topics()


async def forgotten_log() -> MemoryLog:
    told, log = ended_search(), MemoryLog()
    forget(told)
    told.tell(*decided(told))
    await log.ensure(TOPICS.shared)
    for record in told.records:
        headers, value = list(record.envelope.headers.items()), record.message.model_dump_json().encode()
        place = TOPICS.events.name, partition_of(STREAM, TOPICS.event_partitions)
        await log.append(*place, [Outgoing(STREAM.encode(), value, headers)])
    return log


async def test_a_forgotten_stream_has_no_state_and_before_that_its_key_is_missing() -> None:
    log = await forgotten_log()
    with pytest.raises(ForgottenStreamError, match="can't be read any more"):
        await state_at(await find_stream(log, TOPICS, STREAM), NOW)
    log = await forgotten_log()
    with pytest.raises(KeyMissingError, match="it was forgotten later"):
        await state_at(await find_stream(log, TOPICS, STREAM), PointInTime(offset=9))
