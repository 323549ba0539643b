"""A worker whose catalogue changes while it runs."""

from pathlib import Path

from tests.integration.worker.given import started
from trackside.contracts.fleet.fleet import CatalogueChanged
from trackside.contracts.tasks.tasks import AttemptEnd

PROGRAM = "{program: [bash, -c, 'echo hello'], max_memory: 1GiB}"


async def test_a_type_that_is_added_runs_and_one_that_is_removed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.yaml"
    path.write_text(f"tasks: {{first: {PROGRAM}}}\n")
    async with started(tmp_path, path) as harness:
        assert (await harness.joined()).task_types == ["first"]
        path.write_text(f"tasks: {{second: {PROGRAM}}}\n")
        changed = await harness.first(CatalogueChanged, harness.topics.fleet, "w1")
        assert (changed.task_types, changed.max_memory_bytes) == (["second"], {"second": 2**30})
        assert changed.incarnation == (await harness.joined()).incarnation
        assert (await harness.ended("a", task_type="second")).end is AttemptEnd.FINISHED
        assert (await harness.refused("b", task_type="first")).code == "unknown_task_type"
