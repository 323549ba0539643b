from trackside.telemetry.local_names import is_local, is_local_name, is_name


def test_names_of_this_machine_are_answered_and_those_of_the_web_are_not() -> None:
    local = ("localhost", "LOCALHOST:8000", "localhost.:1", "a.localhost", "127.0.0.1:23319", "10.0.0.7")
    web = ("evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "1.2", "[")
    assert [host for host in (*local, "[::1]:80", *web, "\0") if is_local_name(host)] == [*local, "[::1]:80"]


def test_only_loopback_is_reached_from_this_machine_alone() -> None:
    hosts = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "gpu-box")
    assert [host for host in hosts if is_local(host)] == ["127.0.0.1", "::1", "localhost"]


def test_no_host_is_named_by_nothing_and_by_the_address_of_no_host() -> None:
    named = ("localhost", "127.0.0.1:80", "[::1]", "trackside.lan:8470", "0.0.0.1")
    unnamed = (
        "",
        ":80",
        ".",
        "0.0.0.0",
        "0.0.0.0:8470",
        "0.0.0.0.",
        "[::]",
        "[::]:80",
        "[0:0::0]",
        "[::ffff:0.0.0.0]",
    )
    assert [host for host in (*named, *unnamed) if is_name(host)] == [*named]
    assert [host for host in unnamed if is_local_name(host)] == []
