import pytest

from tests.unit.domain.given import STREAM
from tests.unit.domain.test_forgetting import decided, ended_search, forget
from tests.unit.replay.given import TOPICS, empty, tell
from trackside.eventlog.memory import MemoryLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import ForgottenStreamError, KeyMissingError
from trackside.replay.history.point_in_time import NOW, PointInTime
from trackside.replay.history.recorded_stream import state_at


async def forgotten_log() -> MemoryLog:
    told, log = ended_search(), await empty()
    forget(told)
    told.tell(*decided(told))
    await tell(log, STREAM, told)
    return log


async def test_a_forgotten_stream_has_no_state_and_before_that_its_key_is_missing() -> None:
    log = await forgotten_log()
    with pytest.raises(ForgottenStreamError, match="can't be read any more"):
        await state_at(await find_stream(log, TOPICS, STREAM), NOW)
    log = await forgotten_log()
    with pytest.raises(KeyMissingError, match="it was forgotten later"):
        await state_at(await find_stream(log, TOPICS, STREAM), PointInTime(offset=9))
