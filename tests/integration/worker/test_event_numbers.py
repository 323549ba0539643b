"""The numbers of a worker's events: in the order in which things happened, whatever is reported first."""

from pathlib import Path

from tests.integration.worker.given import worker_with
from tests.integration.worker.harness import Gate, WorkerHarness, scripted_settings
from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.message import Envelope, Message
from trackside.contracts.fleet.fleet import WorkerJoined, WorkerLeft
from trackside.contracts.tasks.tasks import AttemptEnded, MetricReported, TaskAccepted, TaskReturned
from trackside.verify.log import verify_topics

Event = tuple[Envelope, Message]


async def events_of(harness: WorkerHarness) -> list[Event]:
    """Returns all events that are in the log now, and those of the fleet."""
    found: list[Event] = []
    for topic in (harness.topics.fleet, harness.topics.events):
        for partition, end in (await harness.log.ends(topic.name)).items():
            reader = harness.log.reader({(topic.name, partition): 0})
            for entry in await reader.read(0.1) if end else []:
                envelope = CODEC.envelope(entry.headers)
                found.append((envelope, CODEC.decode(envelope, entry.value)))
            await reader.close()
    return found


def number_of(events: list[Event], kind: type[Message], stream: str) -> int:
    """Returns the number of the first event of a kind in a stream."""
    return next(
        envelope.sequence
        for envelope, message in events
        if envelope.stream == stream and isinstance(message, kind)
    )


async def test_the_end_of_a_killed_task_is_numbered_before_the_next_task_on_its_device(
    tmp_path: Path, gate: Gate
) -> None:
    async with worker_with(scripted_settings(tmp_path / "worker")) as harness:
        await harness.run("a", {**gate.waits, "train": ["wait_killed"]}, task_type="scripted")
        await harness.statuses("a", 4)
        await harness.run("b", {}, task_type="scripted", wait=True)
        last = await harness.run("c", {}, task_type="scripted", wait=True)
        await harness.recall(last)
        await harness.event(TaskReturned, "c")
        await gate.pass_one()
        await harness.end("a")
        await harness.end("b")
    events = await events_of(harness)
    assert number_of(events, AttemptEnded, "s-a") < number_of(events, TaskAccepted, "s-b")
    numbers = [(envelope.sequence, type(message)) for envelope, message in events if envelope.sequence]
    assert [number for number, _ in sorted(numbers, key=lambda each: each[0])] == list(
        range(1, len(numbers) + 1)
    )
    assert dict(numbers)[1] is WorkerJoined
    assert dict(numbers)[len(numbers)] is WorkerLeft
    assert {type(message) for envelope, message in events if not envelope.sequence} <= {MetricReported}
    report = await verify_topics(harness.log, harness.topics)
    assert report.uncompared_uses == 0
