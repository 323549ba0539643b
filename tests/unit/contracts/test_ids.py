from trackside.contracts.envelope.ids import is_identifier, new_id, trial_task_id


def test_an_identifier_is_letters_digits_dots_dashes_and_underscores() -> None:
    for text in ("a", "7", "digits-1.12", "A_b.c-d", "x" * 128, trial_task_id("digits-1", 7)):
        assert is_identifier(text), text
    bad = ("", "-a", ".a", "_a", "a/b", "a b", "a..b", "..", "x" * 129, "a\n", "a\x00", "ä", "a:b", "٣")
    assert [text for text in bad if is_identifier(text)] == []
    assert trial_task_id("digits-1", 7) == "digits-1.7"


def test_new_ids_are_identifiers_and_differ() -> None:
    made = {new_id("digits") for _ in range(100)} | {new_id() for _ in range(100)}
    assert len(made) == 200
    assert all(is_identifier(name) for name in made)
