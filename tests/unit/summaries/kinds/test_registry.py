"""S14: a kind is one module; packages add their own."""

import logging
import sys
from pathlib import Path

import pytest

from trackside.summaries.kinds import registry
from trackside.summaries.kinds.kind import SummaryKind

MODULE = """
from trackside.summaries.kinds.kind import Packed, SummaryKind

def pack(value):
    return Packed({"value": value}, None, "application/json")

def unpack(body, data):
    return body["value"]

def lines(body, width):
    return [str(body["value"])[:width]]

AUDIO = SummaryKind("audio", page_size=10, pack=pack, unpack=unpack, lines=lines)
TEXT = "no kind"
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, entries: list[str]) -> None:
    """Installs a package with these entry points: a module and its dist-info, as an installer leaves them."""
    (folder / "sounds_for_test.py").write_text(MODULE)
    info = folder / "sounds_for_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sounds-for-test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{registry.GROUP}]", *entries]) + "\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "sounds_for_test", raising=False)


def test_a_kind_of_an_installed_package_is_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, ["audio = sounds_for_test:AUDIO"])
    kinds = registry.installed_kinds()
    assert set(kinds) == {*registry.BUILT_IN, "audio"}
    assert kinds["audio"].unpack(*kinds["audio"].pack("la")[:2]) == "la"
    assert kinds["audio"].thin(range(5), 2) == [0, 4]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("audio = sounds_for_test:ABSENT", "ABSENT"),
        ("audio = absent_for_test:AUDIO", "absent_for_test"),
        ("audio = sounds_for_test:TEXT", "is a str; expected a SummaryKind"),
        ("noise = sounds_for_test:AUDIO", "has the name 'audio'"),
        ("scalar = sounds_for_test:AUDIO", "Trackside has a kind of this name"),
        ("a/b = sounds_for_test:AUDIO", "not an identifier"),
    ],
)
def test_a_kind_that_cannot_be_used_is_left_out_with_the_reason_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, entry: str, reason: str
) -> None:
    install(tmp_path, monkeypatch, [entry])
    with caplog.at_level(logging.ERROR):
        kinds = registry.installed_kinds()
    assert dict(kinds) == dict(registry.BUILT_IN)
    assert [record.getMessage() for record in caplog.records if reason in record.getMessage()] != []
    assert "sounds-for-test" in caplog.text


def test_a_module_that_raises_or_has_a_name_that_is_taken_stops_no_other_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path, monkeypatch, ["broken = broken_for_test:KIND", "audio = sounds_for_test:AUDIO"])
    (tmp_path / "broken_for_test.py").write_text("raise OSError('no sound card')")
    info = tmp_path / "other_sounds-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-sounds\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\naudio = zzz_for_test:AUDIO\n")
    kinds = registry.installed_kinds()
    assert set(kinds) == {*registry.BUILT_IN, "audio"} and isinstance(kinds["audio"], SummaryKind)
    assert "summary kind 'broken' of sounds-for-test is not available: no sound card" in caplog.text
    assert "'audio' of other-sounds is not available: another package has a kind of this name" in caplog.text
