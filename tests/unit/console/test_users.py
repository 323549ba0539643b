from hashlib import sha256
from pathlib import Path

import pytest

from trackside.console.web.users import Role, Sessions, Tokens, TokensFileError, User, session_key

ANN, BOB = "token-of-ann", "token-of-bob"


def digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def users_file(folder: Path, *lines: str) -> Path:
    path = folder / "users.yaml"
    path.write_text("\n".join(lines))
    return path


def entry(name: str, role: str, token: str) -> str:
    return f"- {{name: {name}, role: {role}, sha256: {digest(token)}}}"


def test_a_token_of_the_file_as_it_is_now_has_its_user_and_another_has_none(tmp_path: Path) -> None:
    tokens = Tokens(users_file(tmp_path, entry("ann", "viewer", ANN), entry("bob", "admin", BOB)))
    assert tokens.user_of(ANN) == User("ann", Role.VIEWER)
    assert tokens.user_of(BOB) == User("bob", Role.ADMIN)
    assert tokens.user_of("") is None
    assert tokens.user_of(digest(ANN)) is None
    path = users_file(tmp_path, entry("ann", "viewer", ANN))
    tokens = Tokens(path)
    path.write_text(entry("ann", "operator", ANN) + "\n# promoted\n")
    assert tokens.role_of("ann") is Role.OPERATOR
    path.write_text("")
    assert tokens.role_of("ann") is None
    assert tokens.user_of(ANN) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {name: ann, role: owner, sha256: " + "0" * 64 + "}", "0.role"),
        ("- {name: ann, role: viewer, sha256: secret}", "0.sha256"),
        ("name: ann", "list"),
        ("- [", "not YAML"),
    ],
)
def test_a_broken_file_is_refused_by_place_not_content(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "users.yaml"
    path.write_text(text)
    with pytest.raises(TokensFileError) as error:
        Tokens(path)
    assert said in str(error.value) and str(path) in str(error.value)
    assert "secret" not in str(error.value)


def test_a_session_is_read_back_and_a_changed_one_is_not() -> None:
    sessions = Sessions("k" * 32, 1.0)
    text = sessions.text(User("ann", Role.OPERATOR))
    assert sessions.user(text) == User("ann", Role.OPERATOR)
    # Of the last character of a signature two bits don't count, so another one may be the same.
    signed, signature = sessions.text(User("ann", Role.ADMIN)).rpartition(".")[0], text.rpartition(".")[2]
    assert sessions.user(f"{signed}.{signature}") is None
    assert sessions.user("") is None
    assert Sessions("other" * 8, 1.0).user(text) is None


def test_a_session_key_is_long_enough_or_made_anew_a_missing_file_of_users_is_named(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("short\n")
    with pytest.raises(ValueError, match="5 characters; expected at least 32"):
        session_key(path)
    path.write_text("x" * 40 + "\n")
    assert session_key(path) == "x" * 40
    assert session_key(None) != session_key(None)
    with pytest.raises(TokensFileError, match=r"gone\.yaml: No such file"):
        Tokens(tmp_path / "gone.yaml")
