"""Settings of the console: beyond loopback users must log in."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from trackside.console.settings import ConsoleSettings


def test_on_loopback_no_login_is_needed() -> None:
    settings = ConsoleSettings(host="127.0.0.1")
    assert not settings.has_login


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "trackside.example.org"])
def test_beyond_loopback_a_login_is_needed(host: str) -> None:
    with pytest.raises(
        ValidationError, match="TRACKSIDE_CONSOLE_TOKENS_FILE or TRACKSIDE_CONSOLE_OIDC_ISSUER"
    ):
        ConsoleSettings(host=host)
    assert ConsoleSettings(host=host, tokens_file=Path("users.yaml")).has_login


def test_an_issuer_needs_the_id_and_the_secret_of_the_console() -> None:
    with pytest.raises(ValidationError, match="OIDC_CLIENT_SECRET_FILE"):
        ConsoleSettings(oidc_issuer="https://id.example.org", oidc_client_id="trackside")


def test_services_are_names_with_addresses() -> None:
    settings = ConsoleSettings(services="dispatcher=http://127.0.0.1:1,scheduler=http://127.0.0.1:2/")
    assert settings.addresses_of_services == {
        "dispatcher": "http://127.0.0.1:1",
        "scheduler": "http://127.0.0.1:2",
    }
    with pytest.raises(ValidationError, match="NAME=http://HOST:PORT"):
        ConsoleSettings(services="dispatcher")


@pytest.mark.parametrize("url", ["javascript:{trace_id}", "https://traces.example.org/", "/trace/{trace_id}"])
def test_the_address_of_traces_is_http_and_has_the_place_of_the_id(url: str) -> None:
    with pytest.raises(ValidationError, match=r"with \{trace_id\} once"):
        ConsoleSettings(trace_url=url)
    found = ConsoleSettings(trace_url="http://127.0.0.1:16686/trace/{trace_id}")
    assert found.address_of_trace("a/b") == "http://127.0.0.1:16686/trace/a%2Fb"
    assert ConsoleSettings().address_of_trace("a") == ""
