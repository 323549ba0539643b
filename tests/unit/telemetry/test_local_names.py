"""Which Host headers a service on loopback answers."""

import pytest

from trackside.telemetry.local_names import is_local, is_local_name


@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost",
        "LOCALHOST:8000",
        "localhost.:1",
        "a.localhost",
        "127.0.0.1:23319",
        "10.0.0.7",
        "[::1]:80",
    ],
)
def test_names_of_this_machine_are_answered(host: str) -> None:
    assert is_local_name(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "1.2.3",
        "[",
        "\0",
    ],
)
def test_names_of_the_web_are_not(host: str) -> None:
    assert not is_local_name(host)


def test_only_loopback_is_reached_from_this_machine_alone() -> None:
    assert [is_local(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "gpu-box")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
