"""Reruns and forks next to what they were made from."""

from collections.abc import Mapping

import pytest_asyncio

from tests.integration.console.given import Browser, browser_of
from tests.integration.projections.harness import TOPICS, log_of, query
from tests.unit.domain.given import Told, received, spec
from trackside.aggregates.run.messages import RunCopy, RunStarted
from trackside.aggregates.search.messages import Origin, SearchStarted, TrialSuggested
from trackside.contracts.envelope.topics import partition_of
from trackside.domain.outcome import Outcome
from trackside.domain.pipelines.definition import PipelineSpec
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import TopicPartition
from trackside.eventlog.memory import MemoryLog, MemoryReader
from trackside.replay.history.origins import RecordedOrigin, read_origin

OLD, NEW, OTHER = "old", "new", "other"
HOSTILE = "<img src=x onerror=alert(1)>"


def told() -> Told:
    """Returns the log of three searches: `new` is a fork of `old` with another limit, `other` is none."""
    found = Told()
    origin = Origin(kind="fork", stream=OLD, offset=5)
    for number, (stream, limit) in enumerate(((OLD, 4), (NEW, 7), (OTHER, 4)), 1):
        search = spec(max_trials=limit, tuner={"name": "random", "options": {"note": HOSTILE}})
        found.tell(received(number), stream=stream)
        copied = origin if stream == NEW else None
        begun = SearchStarted(command_id=f"c-{number}", search=search, seed=7, origin=copied)
        found.tell(begun, stream=stream)
        for trial, rate in enumerate((0.1, 0.2 if stream == NEW else 0.3)):
            found.tell(TrialSuggested(trial=trial, parameters={"lr": rate}, seen=0), stream=stream)
    assert set(found.outcomes) == {Outcome.APPLIED}
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(module_tables: str) -> Browser:
    found = await browser_of(told().records, module_tables)
    ended = "UPDATE trackside.trials SET status = 'SUCCEEDED', value = $2 WHERE search_id = $1 AND trial = 0"
    for search, value in ((OLD, 0.5), (NEW, 0.75)):
        await query(module_tables, ended, search, value)
    return found


async def test_a_fork_says_of_what_it_is_one_and_what_changed(browser: Browser) -> None:
    page = await browser.page(f"/compare?id={OLD}&id={NEW}&id={OTHER}")
    assert 'new is a fork of old, as it was after <a href="/experiments/old/past?at=5">offset 5</a>' in page
    assert page.count("What changed in the definition") == 1
    section = page[page.index('id="derived-1"') : page.index("Trials of the same number")]
    rows = section[section.index("<tbody>") : section.index("</tbody>")]
    assert rows.count("<tr>") == 1
    assert ">max_trials</th><td>4</td><td>7</td>" in rows
    assert HOSTILE not in page
    page = await browser.page(f"/compare?id={OLD}&id={OTHER}")
    assert "What changed in the definition" not in page and "is a fork of" not in page


async def test_trials_of_the_same_number_are_side_by_side_with_their_difference(browser: Browser) -> None:
    page = await browser.page(f"/compare?id={NEW}&id={OLD}")
    section = page[page.index("Trials of the same number") :]
    first, second = section[section.index("<tbody>") : section.index("</tbody>")].split("</tr>")[:2]
    assert "0.5" in first and "0.75" in first and ">0.25<" in first and "same" in first
    assert 'class="differs"' in first and 'href="/tasks/old/' in first and 'href="/tasks/new/' in first
    assert "differ</td>" in second and 'class="differs"' not in second


class _SilentLog(MemoryLog):
    """A log that does not answer."""

    def reader(self, starts: Mapping[TopicPartition, int], gather_s: float = 0.0) -> MemoryReader:
        """Raises TransientError."""
        raise TransientError("no broker")


async def test_without_kafka_the_page_compares_and_says_what_is_not_known(browser: Browser) -> None:
    page = await Browser(browser.dsn, _SilentLog()).page(f"/compare?id={OLD}&id={NEW}")
    assert "Kafka does not answer, so it is not known" in page and ">max_trials</th>" in page


async def test_the_beginning_of_a_run_says_what_it_was_made_from() -> None:
    pipeline = PipelineSpec.model_validate({"steps": [{"name": "a", "task_type": "noop"}]})
    copied = RunCopy(kind="rerun", stream="before", offset=9)
    begun = RunStarted(command_id="c-1", pipeline=pipeline, sha256="a" * 64, copy_of=copied)
    log_of_run = Told()
    log_of_run.tell(received(1, command_type="trackside.start-pipeline-run.v1"), stream="run")
    log_of_run.tell(begun, stream="run")
    log = await log_of(log_of_run.records)
    partition = partition_of("run", TOPICS.events.partitions)
    found = await read_origin(log, TOPICS, "run", partition, 0, 1)
    assert found == RecordedOrigin("rerun", "before", 9)
