"""Names on the wire: what is one, and what isn't."""

import pytest

from trackside.contracts.ids import is_identifier, new_id, trial_task_id


@pytest.mark.parametrize("text", ["a", "7", "digits-1.12", "A_b.c-d", "x" * 128])
def test_an_identifier_is_letters_digits_dots_dashes_and_underscores(text: str) -> None:
    assert is_identifier(text)


@pytest.mark.parametrize(
    "text",
    ["", "-a", ".a", "_a", "a/b", "a b", "a..b", "..", "x" * 129, "a\n", "a\x00", "ä", "a:b", "٣"],
)
def test_anything_else_is_none(text: str) -> None:
    assert not is_identifier(text)


def test_new_ids_are_identifiers_and_differ() -> None:
    made = {new_id("digits") for _ in range(100)} | {new_id() for _ in range(100)}
    assert len(made) == 200
    assert all(is_identifier(name) for name in made)


def test_the_task_of_a_trial_is_named_after_both() -> None:
    assert trial_task_id("digits-1", 7) == "digits-1.7"
