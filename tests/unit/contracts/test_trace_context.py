from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.envelope.trace_context import derive_span, derive_trace, parse

ABOVE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = ABOVE[:-2] + "00"


@given(st.text(), st.text())
def test_a_derived_trace_is_well_formed_whatever_it_is_derived_from(above: str, name: str) -> None:
    assert parse(derive_trace(above, name)) is not None
    assert parse(derive_span(above, name)) is not None


def test_the_trace_of_a_trial_is_the_same_for_all_who_derive_it_and_another_one_for_each_trial() -> None:
    assert derive_trace(ABOVE, "s", "1") == derive_trace(ABOVE, "s", "1")
    derived = [parse(derive_trace(ABOVE, *names)) for names in (("s", "1"), ("s", "2"), ("t", "1"))]
    assert len({each.trace for each in derived if each}) == 3
    assert len({each.span for each in derived if each}) == 3


def test_a_trial_is_sampled_exactly_if_its_search_is_and_a_span_of_it_is_of_the_same_trace() -> None:
    sampled, unsampled = parse(derive_trace(ABOVE, "s", "1")), parse(derive_trace(UNSAMPLED, "s", "1"))
    assert sampled is not None and unsampled is not None
    assert sampled.is_sampled and not unsampled.is_sampled
    assert sampled.trace == unsampled.trace
    above, derived = parse(ABOVE), parse(derive_span(ABOVE, "search"))
    assert above is not None and derived is not None
    assert (derived.trace, derived.flags) == (above.trace, above.flags)
    assert derived.span != above.span
