import pytest

from tests.unit.domain.given import STREAM
from tests.unit.domain.plausible_forgetting import without_key
from tests.unit.domain.test_forgetting import decided, ended_search, forget
from trackside.verify.verifier import Verifier


@pytest.mark.parametrize("has_key", [True, False])
def test_a_forgotten_stream_is_no_violation(has_key: bool) -> None:
    told = ended_search()
    forget(told)
    told.tell(*decided(told))
    at = told.next_offset - 2
    verifier = Verifier()
    for record in told.records:
        readable = has_key or record.offset >= at
        verifier.take(record if readable else without_key(record))
    assert [finding for finding in verifier.finish() if finding.offset >= at or not has_key] == []
    assert STREAM not in verifier.histories


def test_a_stream_that_no_command_had_forgotten_is_a_violation() -> None:
    told = ended_search()
    event = forget(told).model_copy(update={"commands": []})
    told.records[-1].message = event
    verifier = Verifier()
    for record in told.records:
        verifier.take(without_key(record))
    (finding,) = verifier.finish()
    assert finding.invariant == "INV-10"
    assert "no command has asked for that" in finding.message
