"""What tasks report that is no number is in the log, its bytes in the store, and no flood stops a task."""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.worker.given import TaskType, catalogue_of, started, task_of
from tests.integration.worker.harness import Gate, of, running, settings_for
from tests.integration.worker.saved import CLASS, bytes_of, class_of
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.contracts.tasks.summaries import MetricPointsReported, Series
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.summaries.event_files.values import Image
from trackside.summaries.kinds.registry import KINDS
from trackside.telemetry import metrics
from trackside.worker.child.channel.summary_spool import MAX_UNSTORED_FILES

LINES = r"""
from pathlib import Path
def summary(**fields):
    say(summary={"tag": "a", "step": 1, "body": {}, **fields})
say(metric="loss", value=0.5, step=-3, time_ms=1234567890123)
summary(kind="text", body={"value": ["token: abcdefghijklmnop1234567890"]}, index=2, time_ms=1234567890123)
Path("picture.png").write_bytes(b"picture")
body = {"width": 1, "height": 2}
summary(kind="image", path="picture.png", media_type="image/png", step=-1, answer=True, body=body)
answer = os.read(int(os.environ["TRACKSIDE_ANSWERS_FD"]), 100)
say(result={"moved": answer == b"{}\n" and not Path("picture.png").exists()})
summary(kind="image", path="nothing.png", media_type="image/png")
summary(kind="image", path="/dev/null")
summary(kind="no kind!")
summary(kind="text", step="x")
summary(kind="text", step=None)
summary(kind="text", tag=5)
summary(kind="text", index=-1)
summary(kind="text", body=[1])
summary(kind="text", path=3)
summary(kind="text", time_ms=-1)
summary(kind="text", body={"value": "x" * 40_000})
say(summary=3)
summary(kind="text", step=2)
"""


def losses(messages: list[Message]) -> list[Series]:
    """Returns what was reported as `loss`, and not what the worker measures."""
    batches = of(messages, MetricPointsReported)
    return [series for batch in batches for series in batch.series if series.tag == "loss"]


async def test_a_program_reports_values_in_lines_and_bad_ones_are_refused(
    tmp_path: Path, store: Path
) -> None:
    """S14."""
    async with started(tmp_path, task_of(tmp_path, LINES)) as harness:
        end = await harness.ended("t", task_type="a")
        found = await harness.items("t", 3)
        points = await harness.messages(harness.topics.metrics, "t", lambda all_: bool(losses(all_)))
        output = await harness.output("t", lambda text: text.count("trackside:") >= 12)
    assert (end.end, end.result) == (AttemptEnd.FINISHED, {"moved": True})
    (series,) = losses(points)
    assert (series.steps, series.times_ms) == ([-3], [1234567890123])
    by_kind = {(item.kind, item.step): item for item in found}
    text, image = by_kind["text", 1], by_kind["image", -1]
    assert (text.index, text.time_ms, text.artifact) == (2, 1234567890123, None)
    assert "abcdefghijklmnop" not in str(text.body)
    assert bytes_of(image, store) == b"picture"
    assert image.artifact is not None and image.artifact.media_type == "image/png"
    assert KINDS["image"].unpack(image.body, b"picture") == Image(b"picture", 1, 2)
    assert sorted(by_kind) == [("image", -1), ("text", 1), ("text", 2)]
    for said in (
        "a summary was left out (bad_summary)",
        "in all 2 summaries were left out: bad_summary",
        "kind: expected",
        "step: expected an integer of 64 bits",
        "summary: expected integers as step, and as index up to 9999",
        'expected an object such as {"kind": "text"',
        "expected texts as path and media_type",
        "time_ms: expected the milliseconds since 1970",
        "the body of 'a' has more than 32,768 bytes as JSON: write the value to a file",
    ):
        assert said in output, said


EQUAL = class_of("""
from trackside.sdk.in_task.channel import ReportedSummary
def report(tag, step, data):
    trial.channel().summary(ReportedSummary("image", tag, step, 1, 0, {"width": 1}, data, "image/png"))
for step in range(300):
    report("same", step, b"equal")
report("other", 0, b"different")
folder = getattr(trial.channel().spool, "folder", Path("none"))
return {"unstored": len([*folder.rglob("*.content")])}
""")


async def test_equal_bytes_are_stored_once_and_are_no_artifacts_of_the_task(
    tmp_path: Path, store: Path
) -> None:
    """S14: more files than may wait for the store at once, so the task has waited for it too."""
    async with started(tmp_path, task_of(tmp_path, EQUAL, CLASS)) as harness:
        story = await harness.story("t", task_type="a")
        found = await harness.items("t", 301)
    assert not of(story, ArtifactSaved)
    (end,) = of(story, AttemptEnded)
    assert end.result is not None and end.result["unstored"] <= 301 - MAX_UNSTORED_FILES
    assert sorted(item.step for item in found if item.tag == "same") == [*range(300)]
    digests = {item.artifact.sha256 for item in found if item.artifact is not None}
    assert digests == {hashlib.sha256(each).hexdigest() for each in (b"equal", b"different")}
    assert not [*(tmp_path / "worker" / "spool").rglob("*.content")]


async def test_without_a_store_bytes_are_left_out_and_the_task_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRACKSIDE_STORE", raising=False)
    dropped = metrics.counter("trackside.worker.dropped.summaries").labels(code="store_missing")
    before = dropped._value.get()
    async with started(tmp_path, task_of(tmp_path, EQUAL, CLASS)) as harness:
        assert (await harness.ended("t", task_type="a")).end is AttemptEnd.FINISHED
        output = await harness.output("t", lambda text: "in all" in text)
    assert "a summary was left out (store_missing): same: the worker has no store" in output
    assert "in all 301 summaries were left out: store_missing" in output
    assert dropped._value.get() - before == 301


POINTS, TEXTS, STEPS = 200_000, 2_000, 20
FLOODS = f"""
import time
from trackside.sdk import Task, trial
from trackside.sdk.in_task.channel import ReportedSummary

class Floods(Task):
    def train(self, device):
        slowest_s = 0.0
        for step in range({POINTS}):
            began_s = time.monotonic()
            trial.metric("flood", step, step)
            if step % {POINTS // TEXTS} == 0:
                body = {{"value": ["x" * 1000]}}
                trial.channel().summary(ReportedSummary("text", "note", step, 1, 0, body))
            slowest_s = max(slowest_s, time.monotonic() - began_s)
        return {{"slowest_s": slowest_s}}

class Steps(Task):
    def train(self, device):
        for step in range({STEPS}):
            with open(trial.parameters()["gate"]) as gate:
                gate.read()
            trial.metric("steady", step, step)
"""


class HeldLog(MemoryLog):
    """Holds back the metrics of one task until it is let go."""

    def __init__(self, topics: Topics, task_id: str) -> None:
        super().__init__()
        self.let_go = asyncio.Event()
        self.reached = asyncio.Event()
        self._held = (topics.metrics.name, partition_of(task_id, topics.metrics.partitions))

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        """Appends a batch, one of that partition once it is let go."""
        if (topic, partition) == self._held:
            self.reached.set()
            await self.let_go.wait()
        return await super().append(topic, partition, batch)


@pytest.mark.long
async def test_a_task_that_floods_waits_itself_and_loses_nothing_while_another_continues(
    tmp_path: Path, gate: Gate
) -> None:
    """S15: no cap. The flood waits for a log that takes nothing from it; the other task is not delayed."""
    topics = Topics("t.")
    log = HeldLog(topics, "flood")
    await log.ensure(topics.shared)
    flooded = partition_of("flood", topics.metrics.partitions)
    ids = (f"steady-{number}" for number in range(9))
    steady = next(each for each in ids if partition_of(each, topics.metrics.partitions) != flooded)
    types = {name: TaskType(FLOODS, f"entry: 'script:{name.title()}'") for name in ("floods", "steps")}
    catalogue = catalogue_of(tmp_path, types)
    dropped = metrics.counter("trackside.worker.dropped.batches").labels(topic=topics.metrics.name)
    before = dropped._value.get()
    settings = settings_for(tmp_path / "worker", catalogue=catalogue, cpu_slots=2)
    async with running(log, topics, settings) as harness:
        await harness.run("flood", task_type="floods")
        await log.reached.wait()
        await harness.run(steady, {"gate": str(gate.path)}, task_type="steps", device="cpu-1")
        for step in range(STEPS):
            if step == STEPS // 2:  # the second half while the flood passes through the worker
                assert not of(await harness.events_so_far("flood"), AttemptEnded)
                log.let_go.set()
            await gate.pass_one()
            assert (await harness.points(steady, step + 1))["steady"][-1][0] == step
        end = await harness.end("flood")
        points = await harness.points("flood", POINTS)
        found = await harness.items("flood", TEXTS)
    assert points == {"flood": [(step, step) for step in range(POINTS)]}
    assert [item.step for item in found] == [*range(0, POINTS, POINTS // TEXTS)]
    assert end.end is AttemptEnd.FINISHED and end.result is not None
    assert end.result["slowest_s"] > 0.02  # it has waited
    assert dropped._value.get() == before
