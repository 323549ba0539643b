"""S18, S19: what the rights of files forbid is said and read later; nothing of it has vanished."""

import json
from pathlib import Path

import pytest

from tests.integration.summary_indexer.harness import IndexerProcess, Sandbox
from tests.integration.summary_indexer.watched import (
    begin_file,
    ends_of,
    event_file,
    metrics_of,
    points,
    summary_events,
)
from tests.polling import poll_until
from trackside.eventlog.kafka import KafkaLog

JOBS = ("closed/job", "names only", "names only/below", "file", "open")
EVENT, REASON = "a directory can't be read", "Permission denied"

pytestmark = pytest.mark.usefixtures("dispatcher")


async def until_read(log: KafkaLog, sandbox: Sandbox, paths: list[Path]) -> None:
    """Waits until the log has these files whole."""
    sizes = {path.name: path.stat().st_size for path in paths}

    async def are_read() -> bool:
        found = await ends_of(log, sandbox)
        return all(found.get(name) == size for name, size in sizes.items())

    await poll_until(are_read)


async def until_said(indexer: IndexerProcess, paths: set[str]) -> None:
    """Waits until the process has logged of each of these directories that it can't be read: once."""

    async def are_said() -> bool:
        lines = map(json.loads, indexer.output.splitlines())
        said = [line["path"] for line in lines if (line["event"], line.get("reason")) == (EVENT, REASON)]
        return sorted(said) == sorted(paths)

    await poll_until(are_said)


async def test_what_may_not_be_read_is_said_and_read_once_it_may_and_has_not_vanished(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """A directory without rights, one whose names alone may be read, and a file; by a process of its own."""
    base = tmp_path / "runs"
    files = {path: begin_file(base / path, at) for at, path in enumerate(JOBS)}
    for path in files.values():
        points(path, 0, 5)
    watched = {"TRACKSIDE_SUMMARY_DIRECTORIES": str(base), "TRACKSIDE_SUMMARY_LOOK_S": "0.1"}
    indexer = await sandbox.indexer(watched=watched, obeys_rights=True).start()
    await until_read(log, sandbox, [*files.values()])

    rights = {base / "closed": 0o700, base / "names only": 0o700, files["file"]: 0o600}
    (base / "closed").chmod(0)
    (base / "names only").chmod(0o400)
    files["file"].chmod(0)
    try:
        points(files["open"], 5, 5)
        points(begin_file(base / "new", 77), 0, 5)
        await until_said(indexer, {"closed", "names only"})
        await until_read(log, sandbox, [files["open"], event_file(base / "new", 77)])
        forbidden = ("SummaryFileQuarantined", files["file"].name, files["file"].stat().st_size, "no_rights")

        async def is_said() -> bool:
            return forbidden in await summary_events(log, sandbox)

        await poll_until(is_said)
        assert set(await summary_events(log, sandbox)) == {forbidden}
    finally:
        for path, mode in rights.items():
            path.chmod(mode)
    for path in files.values():
        points(path, 10, 5)
    await until_read(log, sandbox, [*files.values()])
    found = await metrics_of(log, sandbox)
    expected = {path: [*range(5), *range(10, 15)] for path in JOBS}
    expected |= {"open": [*range(15)], "new": [*range(5)]}
    assert found == {(path, 10_000, "loss"): steps for path, steps in expected.items()}
    assert set(await summary_events(log, sandbox)) == {forbidden}
