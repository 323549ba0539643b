"""What commands may ask for of the fleet: credentials are known by the names that workers have said."""

from dataclasses import replace

from tests.unit.domain.test_fleet import joined, lost, told
from trackside.domain.fleet.capabilities import Capabilities, capabilities_of, credential_problem


def test_a_credential_is_known_that_some_worker_has_even_while_that_is_away() -> None:
    state, _ = told(
        joined(credentials=["bucket"]), joined("i-2", "w2", credentials=["models", "bucket"]), lost()
    )
    assert capabilities_of(state).credentials == {"bucket", "models"}


def test_what_no_worker_has_is_named_with_the_nearest_one_and_those_there_are() -> None:
    known = replace(Capabilities(), credentials=frozenset({"bucket", "models"}))
    assert credential_problem(known, "bucket", "$.credential") is None
    assert credential_problem(known, None, "$.credential") is None
    problem = credential_problem(known, "buckets", "$.credential")
    assert problem is not None
    assert (problem.code, problem.path) == ("unknown_credential", "$.credential")
    assert "known: bucket, models; did you mean 'bucket'?" in problem.message
    problem = credential_problem(Capabilities(), "bucket", "$.output.credential")
    assert problem is not None and "known: none" in problem.message
