"""A worker whose catalogue changes while it runs."""

from pathlib import Path

from tests.integration.worker.harness import memory_log, running, settings_for
from trackside.contracts.fleet import CatalogueChanged
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, TaskRefused
from trackside.contracts.topics import Topics

PROGRAM = "{program: [bash, -c, 'echo hello'], max_memory: 1GiB}"


async def test_a_type_that_is_added_runs_and_one_that_is_removed_is_refused(tmp_path: Path) -> None:
    path, topics = tmp_path / "catalogue.yaml", Topics("t.")
    path.write_text(f"tasks: {{first: {PROGRAM}}}\n")
    settings = settings_for(tmp_path / "data", catalogue=path)
    async with running(await memory_log(topics), topics, settings) as harness:
        assert (await harness.joined()).task_types == ["first"]
        path.write_text(f"tasks: {{second: {PROGRAM}}}\n")
        changed = await harness.first(CatalogueChanged, topics.fleet, settings.id)
        assert (changed.task_types, changed.max_memory_bytes) == (["second"], {"second": 2**30})
        assert changed.incarnation == (await harness.joined()).incarnation

        await harness.run("a", task_type="second")
        [*_, end] = await harness.events_until_end("a")
        assert isinstance(end, AttemptEnded) and end.end is AttemptEnd.FINISHED
        await harness.run("b", task_type="first")
        refused = await harness.event(TaskRefused, "b")
        assert refused.code == "unknown_task_type"
