"""Tags, steps, times and values at the edges of what they can be, from a file to what is read over HTTP."""

import math
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.integration.summary_indexer.harness import Sandbox, until_caught_up
from tests.integration.summary_indexer.test_pages import fetch
from tests.integration.summary_indexer.watched import begin_file, ends_of, letters_of
from tests.polling import poll_until
from trackside.eventlog.kafka import KafkaLog
from trackside.summaries.event_files.framing import frame
from trackside.summaries.event_files.protos import tensorboard_pb2
from trackside.summaries.event_files.writing import record, tensor_scalar
from trackside.summary_indexer.watching.log_positions import job_id_of

NAMES = [
    "学習/損失",
    "خسارة",
    "loss 🔥",
    "e\u0301",
    "\u202eright to left",
    "'; DROP TABLE trackside.metric_points; --",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "%_\\x00\\",
    " ",
    "x" * 1_000,
]
NO_NAMES = ["", "a\0b", "bell\a", "next line\x85", "x" * 1_001, "x" * 10_000]
STEPS = [1 - 2**63, -5, 0, 0, 7, 2**53, 2**53 + 1, 2**63 - 1]
TIMES_S = {
    0: 0.0,
    1: 1.5,
    2: 4_102_444_800.0,  # 2100
    3: -1.0,
    4: math.nan,
    5: 1e300,
    6: -math.inf,
}
VALUES = [math.nan, math.inf, -math.inf, 5e-324, -0.0, 1.7976931348623157e308, 2.5]

pytestmark = pytest.mark.usefixtures("dispatcher")


def timed(tag: str, step: int, time_s: float) -> bytes:
    """Returns a record with a wall time as no writer of ours has it."""
    summary = tensorboard_pb2.Summary(value=[tensorboard_pb2.Summary.Value(tag=tag, simple_value=1.0)])
    return frame(tensorboard_pb2.Event(wall_time=time_s, step=step, summary=summary).SerializeToString())


async def test_odd_tags_steps_times_and_values_are_read_as_they_are_and_the_rest_goes_on(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S11, S17: only what is no name of a tag is left out, and counted."""
    base = tmp_path / "runs"
    path = begin_file(base / "a")
    with path.open("ab") as file:
        file.write(b"".join(record(tag, 1, 1, 2.0) for tag in [*NAMES, *NO_NAMES]))
        file.write(b"".join(record("steps", step, 1, at) for at, step in enumerate(STEPS)))
        file.write(b"".join(record("falling", step, 1, step) for step in (5, 6, 3, 4)))
        file.write(b"".join(timed("times", step, time_s) for step, time_s in TIMES_S.items()))
        file.write(b"".join(tensor_scalar("values", at, 1, each, True) for at, each in enumerate(VALUES)))
        file.write(record("last", 1, 1, 3.0))
    indexer = await sandbox.indexer(watched={"TRACKSIDE_SUMMARY_DIRECTORIES": str(base)}).start()

    async def is_read() -> bool:
        return await ends_of(log, sandbox) == {path.name: path.stat().st_size}

    await poll_until(is_read)
    await until_caught_up(log, sandbox)

    job = job_id_of(str(base), "a")

    def curve(tag: str) -> dict[str, object]:
        status, answer = fetch(indexer, f"/summaries/scalars?job={job}&tag={quote(tag, safe='')}")
        assert status == 200, (tag, answer)
        (found,) = answer["curves"]
        assert isinstance(found, dict) and found["tag"] == tag
        return found

    for tag in NAMES:
        assert curve(tag)["values"] == [2.0]
    steps = curve("steps")
    assert (steps["steps"], steps["values"]) == (sorted(set(STEPS)), [0, 1, 2, 4, 5, 6, 7])
    falling = curve("falling")
    assert (falling["steps"], falling["values"]) == ([3, 4], [3, 4])
    assert curve("times")["times_ms"] == [0, 1_500, 4_102_444_800_000, -1_000, 0, 0, 0]
    values = curve("values")
    assert values["values"] == [None, None, None, 5e-324, 0.0, 1.7976931348623157e308, 2.5]
    assert values["non_finite"] == {"0": "nan", "1": "inf", "2": "-inf"}
    assert curve("last")["values"] == [3.0]
    ((code, message),) = await letters_of(log, sandbox)
    assert (code, message.split()[0]) == ("bad_tag", str(len(NO_NAMES)))
