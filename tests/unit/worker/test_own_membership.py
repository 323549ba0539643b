"""A worker ends its tasks when it is lost: not for each record that says so, but as every reader folds it."""

from tests.unit.domain.test_fleet import joined
from tests.unit.signing.given import trusted
from trackside.contracts.fleet import WorkerLost
from trackside.contracts.keys import SignatureModeChanged, keys_stream
from trackside.contracts.message import Message
from trackside.contracts.topics import Topics
from trackside.eventlog.decision_signer import DecisionSigner, new_signer
from trackside.eventlog.log import Entry
from trackside.eventlog.record_writer import RecordWriter
from trackside.worker.own_membership import OwnMembership

FLEET = Topics().fleet
ROOT, SCHEDULER, W1 = new_signer(), new_signer(), new_signer()
LOST = WorkerLost(worker_id="w1", incarnation="i1", silent_ms=9_999)


class OwnFleet:
    """The fleet topic as the worker w1 reads it."""

    def __init__(self) -> None:
        self.own = OwnMembership("w1")
        self.offset = 0

    def read(
        self, role: str, message: Message, signer: DecisionSigner | None = None, stream: str = "w1"
    ) -> Message | None:
        """Appends a record; returns its event if it counts for the worker."""
        writer = RecordWriter(role, "w1", signer)
        record = writer.signed(FLEET, writer.single(stream, message))
        entry = Entry(FLEET.name, 0, self.offset, 1_000, record.key, record.value, record.headers)
        self.offset += 1
        return self.own.take(entry)

    def require_signatures(self) -> None:
        """Makes keys known, and requires them."""
        keys = [(ROOT, "setup", ""), (SCHEDULER, "scheduler", ""), (W1, "worker", "w1")]
        events: list[Message] = [trusted(*each, partition=0, topic=FLEET.name) for each in keys]
        required = SignatureModeChanged(topic=FLEET.name, partition=0, number=1, mode="require")
        for event in [*events, required]:
            assert self.read("setup", event, ROOT, keys_stream(0, 1)) == event


def test_only_the_scheduler_may_declare_the_worker_lost_and_events_of_others_are_not_read() -> None:
    fleet = OwnFleet()
    assert fleet.read("worker", joined("i1"))
    assert [fleet.read(role, LOST) for role in ("worker", "dispatcher", "root")] == [None] * 3
    assert fleet.read("worker", joined(worker="w2"), stream="w2") is None
    assert fleet.read("scheduler", LOST, stream="w2") is None
    assert fleet.read("scheduler", LOST) == LOST


def test_where_signatures_are_required_the_key_of_the_scheduler_is_needed() -> None:
    fleet = OwnFleet()
    fleet.require_signatures()
    assert fleet.read("worker", joined("i1"), W1)
    assert [fleet.read("scheduler", LOST, key) for key in (None, W1, new_signer())] == [None] * 3
    assert fleet.read("scheduler", LOST, SCHEDULER) == LOST
