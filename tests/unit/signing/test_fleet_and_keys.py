import re
from pathlib import Path

import pytest

from tests.unit.domain.test_fleet import joined
from tests.unit.signing.given import decoded, trusted
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.keys import SignatureModeChanged, keys_stream
from trackside.domain.fleet import fleet
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.outcome import Outcome
from trackside.eventlog.keys.decision_signer import DecisionSigner, new_signer, pem_of, read_signing_key
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry

FLEET = Topics().fleet.name


class SignedFleet:
    def __init__(self) -> None:
        self.state = Fleet()
        self.root, self.w1 = new_signer(), new_signer()
        keys = [(self.root, "setup", ""), (self.w1, "worker", "w1")]
        for key, role, worker in keys:
            self.write("setup", self.root, trusted(key, role, worker, 0, FLEET))
        required = SignatureModeChanged(topic=FLEET, partition=0, number=1, mode="require")
        self.write("setup", self.root, required)
        assert self.state.trust.mode == "require"

    def write(
        self, role: str, signer: DecisionSigner | None, message: Message, instance: str = "w1"
    ) -> Outcome:
        stream = keys_stream(0, 1) if role == "setup" else instance
        writer = RecordWriter(role, instance, signer)
        record = writer.signed(Topics().fleet, writer.single(stream, message))
        offset = self.state.position
        entry = Entry(FLEET, 0, offset, 1_000, record.key, record.value, record.headers)
        return fleet.evolve(self.state, decoded(entry))


def test_a_worker_joins_with_its_own_key_and_as_no_other_one() -> None:
    log = SignedFleet()
    assert log.write("worker", log.w1, joined(worker="w2")) is Outcome.OVERTAKEN
    assert log.write("worker", log.w1, joined(worker="w2"), instance="w2") is Outcome.OVERTAKEN
    assert log.write("worker", None, joined()) is Outcome.OVERTAKEN
    assert not log.state.workers
    assert log.write("worker", log.w1, joined()) is Outcome.APPLIED


def test_a_private_key_is_read_from_its_file_unless_others_can_read_it(tmp_path: Path) -> None:
    path, signer = tmp_path / "dispatcher.key", new_signer()
    path.write_bytes(pem_of(signer))
    path.chmod(0o600)
    assert read_signing_key(path).public_key == signer.public_key
    path.chmod(0o640)
    with pytest.raises(ValueError, match=re.escape(f"(mode 0640): expected 0600, as `chmod 600 {path}`")):
        read_signing_key(path)


@pytest.mark.parametrize(
    ("text", "reason"), [(None, "No such file"), (b"no key", "no private key in PEM"), (b"", "in PEM")]
)
def test_a_file_without_a_private_key_is_refused(text: bytes | None, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "dispatcher.key"
    if text is not None:
        path.write_bytes(text)
        path.chmod(0o600)
    with pytest.raises(ValueError, match=reason):
        read_signing_key(path)
