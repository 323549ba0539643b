from typing import Any

import pytest

from tests.unit.signing.given import STREAM, SignedPartition, decoded, requiring
from tests.unit.verify.mutants import verified
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.tasks import AttemptEnded
from trackside.domain.outcome import Outcome
from trackside.eventlog.keys.decision_signer import DecisionSigner, new_signer
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Outgoing

W1 = new_signer()


def ended(signer: DecisionSigner | None) -> Outgoing:
    """Returns event 3 of a worker, signed with a key."""
    token: Any = {"task_id": f"{STREAM}.0", "attempt": 1, "placement": 1, "incarnation": "i1"}
    event = AttemptEnded(**token, end="finished", result={})
    writer = RecordWriter("worker", "w1", signer)
    return writer.signed(Topics().events, writer.single(STREAM, event, sequence=3))


def findings(log: SignedPartition) -> list[str]:
    return [finding.invariant for finding in verified(map(decoded, log.entries)).findings.found]


@pytest.mark.parametrize(
    ("signers", "found"),
    [([None, W1], []), ([W1, None], []), ([new_signer(), W1], []), ([W1, W1], ["INV-7"])],
)
def test_no_other_record_uses_its_number(signers: list[DecisionSigner | None], found: list[str]) -> None:
    log = requiring()
    assert log.trust(W1, "worker", "w1") is Outcome.APPLIED
    log.append([ended(each) for each in signers])
    assert findings(log) == found
