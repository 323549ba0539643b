import pytest

from tests.unit.domain.given import STREAM
from tests.unit.domain.plausible_forgetting import without_key
from tests.unit.domain.test_forgetting import decided, ended_search, forget
from tests.unit.verify.mutants import verified


@pytest.mark.parametrize("has_key", [True, False])
def test_a_forgotten_stream_is_no_violation(has_key: bool) -> None:
    told = ended_search()
    forget(told)
    told.tell(*decided(told))
    at = told.next_offset - 2
    records = [it if has_key or it.offset >= at else without_key(it) for it in told.records]
    verifier = verified(records)
    assert [finding for finding in verifier.finish() if finding.offset >= at or not has_key] == []
    assert STREAM not in verifier.histories


def test_a_stream_that_no_command_had_forgotten_is_a_violation() -> None:
    told = ended_search()
    told.records[-1].message = forget(told).model_copy(update={"commands": []})
    (finding,) = verified(map(without_key, told.records)).finish()
    assert finding.invariant == "INV-10" and "no command has asked for that" in finding.message
