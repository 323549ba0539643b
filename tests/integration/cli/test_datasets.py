"""A dataset from its spec to its end, typed on a terminal, against services that run: a worker watches it."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration import command_line
from tests.integration.installed import E, event_of
from tests.polling import poll_until_sync
from trackside.aggregates.dataset.messages import (
    DatasetChanged,
    DatasetObserved,
    DatasetPaused,
    DatasetTruncated,
)
from trackside.eventlog.settings.settings import StackSettings

SPEC = """
kind: dataset
url: {url}
format: csv
look_s: 0.2
drift: {{detector: ks, reference: 2, window: 2}}
"""


@pytest.fixture
def file(settings: StackSettings, tmp_path: Path) -> Path:
    """The file of the dataset, next to its spec."""
    found = tmp_path / "feed.csv"
    (tmp_path / "feed.yaml").write_text(SPEC.format(url=found))
    return found


def seen(settings: StackSettings, kind: type[E], so: Callable[[E], bool]) -> E:
    """Waits for the first event of the dataset that is so, and returns it."""
    return asyncio.run(event_of(settings, "feed", kind, so))


def test_what_is_appended_is_observed_and_what_shrinks_or_changes_stops_the_intake(
    settings: StackSettings, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """I15."""

    def say(*arguments: str) -> str:
        return command_line.said(capsys, *arguments)

    def row() -> dict[str, object]:
        rows = json.loads(say("datasets", "ls", "--json"))
        return next((row for row in rows if row["dataset_id"] == "feed"), {"waits_for": None})

    assert "feed accepted" in say("submit", "feed.yaml", "--id", "feed")
    poll_until_sync(lambda: row()["waits_for"] is not None)
    assert row()["waits_for"] == f"there is no file at {file}; it is waited for"
    file.write_text("x,y\n1,2\n3,4\n5,")
    first = seen(settings, DatasetObserved, lambda event: event.end >= 2)
    assert (first.begin, first.end, first.begin_byte, first.end_byte) == (0, 2, 0, 12)
    with file.open("a") as opened:
        opened.write("6\n100,101\n")
    second = seen(settings, DatasetObserved, lambda event: event.end == 4)
    assert second.metrics == {"drift": 1.0}
    whole = file.read_text()

    file.write_text(whole[:12])
    shorter = seen(settings, DatasetTruncated, lambda event: event.stop == 1)
    assert (shorter.observed_bytes, shorter.size_bytes) == (len(whole), 12)
    poll_until_sync(lambda: row()["status"] == "TRUNCATED")
    reason = f"it has 12 bytes, {len(whole)} were observed"
    assert (row()["reason"], row()["lines"]) == (reason, 4)
    assert "TRUNCATED" in say("ls")
    for shown in (say("datasets", "show", "feed"), say("show", "feed")):
        assert "TRUNCATED" in shown and reason in shown

    file.write_text(whole.replace("100", "200") + "7,8\n")
    say("datasets", "resume", "feed")
    seen(settings, DatasetChanged, lambda event: event.stop == 2)
    file.write_text(whole + "7,8\n")
    say("datasets", "resume", "feed")
    last = seen(settings, DatasetObserved, lambda event: event.end == 5)
    assert (last.begin, last.begin_byte) == (4, len(whole))

    say("datasets", "pause", "feed", "--reason", "lunch")
    seen(settings, DatasetPaused, lambda event: event.reason == "lunch")
    say("datasets", "delete", "feed", "--reason", "enough")
    poll_until_sync(lambda: row()["status"] == "DELETED" and row()["watcher"] is None)
    code, _, error = command_line.tried(capsys, "datasets", "resume", "feed")
    assert code == 2 and "dataset feed was deleted" in error
    code, _, error = command_line.tried(capsys, "datasets", "show", "fed")
    assert code == 1 and "there is no dataset fed; did you mean 'feed'?" in error
    say("verify-log")
