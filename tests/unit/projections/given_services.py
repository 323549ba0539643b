"""A given history of services: one is ready and was instructed, one waits to be tried again, one starts."""

from collections.abc import Iterator

from tests.unit.projections.given_batches import BatchWriter, Decision
from trackside.aggregates.batch.messages import BatchSpec
from trackside.contracts.tasks.instructions import InstructionAcknowledged, InstructionGiven, TaskReady

NAMES = ("up", "down", "new")
TASKS = [{"name": name, "task_type": "serve", "resources": {"devices": 0}} for name in NAMES]
SERVICES = BatchSpec.model_validate({"service": {}, "groups": [{"tasks": TASKS}]})


def served_batch(batch_id: str) -> Iterator[Decision]:
    batch = BatchWriter(batch_id, SERVICES)
    yield from batch.started()
    yield batch.submitted(0)
    for name in NAMES:
        yield from batch.placed(f"1.{name}", 1, device_ids=[])
    for name in ("up", "down"):
        said = {**batch.token(f"1.{name}", 1), "number": 1, "detail": {"url": "http://127.0.0.1:1/\x00"}}
        yield batch.decision("worker", TaskReady.model_validate(said))
        yield _given(batch, name, 1)
    for number in (1, 2):
        word = {"number": number, "ok": number == 1, "detail": {"why": "no such model\x00"}}
        acknowledged = InstructionAcknowledged.model_validate({**batch.token("1.up", 1), **word})
        yield batch.decision("worker", acknowledged)
        if number == 1:
            yield _given(batch, "up", 2)
    yield batch.ended("1.down", 1, end="failed")


def _given(batch: BatchWriter, name: str, number: int) -> Decision:
    task_id, body = f"{batch.batch_id}.1.{name}", {"n": number, "text": "\x00"}
    given = InstructionGiven(command_id=f"{name}-{number}", task_id=task_id, number=number, body=body)
    return batch.decision("dispatcher", given)
