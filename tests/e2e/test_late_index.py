"""A stack whose index is late is started, works meanwhile, and says how late it is."""

import json
from pathlib import Path

import pytest
from torch.utils.tensorboard import SummaryWriter

from tests.e2e.harness import UserFolder
from tests.integration.projections.harness import fail_new_series, query
from tests.polling import poll_until
from trackside.embedded.folder import NAME, read_status
from trackside.embedded.postgres.server import remove_data

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
LOCKED = "55P03", "canceling statement due to lock timeout"


def write_runs(folder: Path, runs: int, steps: int) -> None:
    for run in range(runs):
        with SummaryWriter(str(folder / f"run-{run}")) as writer:
            for step in range(steps):
                writer.add_scalar("loss", step / 2, step)


async def test_a_late_index_keeps_no_other_service_from_starting_and_every_row_comes_in_the_end(
    tmp_path: Path, leash: Path
) -> None:
    folder = UserFolder(tmp_path)
    write_runs(tmp_path / "runs", 3, 40)
    folder.run_ok("up", "--leash", str(leash))
    try:
        dsn = read_status(folder.path / NAME).postgres_dsn
        await fail_new_series(dsn, *LOCKED)
        imported = folder.run_ok("summaries", "import", "runs")
        assert "3 new jobs" in imported and "are not indexed yet" in imported
        folder.run_ok("down")

        started = folder.run("up", "--leash", str(leash))
        assert started.returncode == 0
        assert "summary-indexer is late: 3 records of the log to go" in started.stderr
        status = folder.run("status", "--json")
        assert status.returncode == 1  # not all of it is ready
        shown = {each["name"]: each for each in json.loads(status.stdout)["processes"]}
        index = shown["summary-indexer"]
        assert index["state"] == "late"
        assert "3 records ahead" in index["waiting"] or "lock timeout" in index["waiting"]
        assert [shown[name]["state"] for name in ("dispatcher", "scheduler", "worker")] == ["ready"] * 3
        folder.run_ok("ping")

        await query(dsn, "DROP TRIGGER fail ON trackside.metric_series")

        async def is_indexed() -> bool:
            return await query(dsn, "SELECT sum(points) FROM trackside.summary_briefs") == [(120,)]

        await poll_until(is_indexed)
    finally:
        folder.run("down")
        remove_data(folder.path / NAME / "postgres")
