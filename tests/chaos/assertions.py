"""What must hold after all faults."""

import re
from collections import Counter

from aiokafka.admin import AIOKafkaAdminClient

from tests.chaos.harness import ChaosHarness, task_home
from tests.chaos.history import TIMEOUT_S, History
from tests.chaos.processes import processes_in
from trackside.aggregates import documents
from trackside.aggregates.search.messages import SearchStatus, TrialEnded, TrialStatus, TrialSuggested
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.commands import CommandReceived, CommandRefused, Source
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import TaskState
from trackside.eventlog.kafka.kafka_security import client_options
from trackside.eventlog.log import Log
from trackside.eventlog.settings.kafka_settings import KafkaSettings, kafka_settings
from trackside.projections.reading.reads import open_read_models
from trackside.projections.tables.owners import DISPATCHER, OWNERS, SCHEDULER
from trackside.replay.rebuild.rebuild import rebuild
from trackside.sdk.connection.publication import PublishedCommand
from trackside.verify.log import verify

RETRIED = frozenset({AttemptEnd.LOST, AttemptEnd.FAILED})


def each_trial_ended_once(history: History, trials: int) -> None:
    """The search is done; every trial has one end, every attempt too, and the last one finished."""
    search = history.search
    assert search is not None
    assert search.status is SearchStatus.DONE
    assert [trial.status for trial in search.trials] == [TrialStatus.SUCCEEDED] * trials
    assert Counter(event.trial for event in history.applied(TrialEnded)) == Counter(range(trials))
    assert Counter(event.trial for event in history.applied(TrialSuggested)) == Counter(range(trials))
    assert len(history.tasks) == trials
    ends = Counter((event.task_id, event.attempt) for event in history.applied(AttemptEnded))
    for task in history.tasks.values():
        assert task.state is TaskState.ENDED
        assert [attempt.number for attempt in task.attempts] == list(range(1, len(task.attempts) + 1))
        *earlier, last = [attempt.end for attempt in task.attempts]
        assert last is AttemptEnd.FINISHED
        assert set(earlier) <= RETRIED, task
        assert all(ends[task.task_id, attempt.number] == 1 for attempt in task.attempts)
        assert task.part is not None
        assert task.final == search.trials[task.part.number].value == task.parameters["value"]


def faults_had_effect(history: History) -> None:
    """Attempts were repeated and events were ignored: the faults had an effect."""
    assert any(len(task.attempts) > 1 for task in history.tasks.values())
    assert any(entry.outcome is Outcome.OVERTAKEN for entry in history.records)


def each_attempt_ran_once_at_most(harness: ChaosHarness) -> None:
    """No attempt has had two processes, and none is left."""
    runs = [path.name.rsplit("_", 1) for path in (task_home(harness.running.folder) / "runs").iterdir()]
    repeated = {run: count for run, count in Counter(run for run, _ in runs).items() if count > 1}
    assert not repeated
    assert processes_in(harness.running.folder / "services") == []


def each_publication_was_answered(history: History, published: list[PublishedCommand]) -> None:
    """Every acknowledged command is in its stream, and has one answer."""
    received = Counter(event.source for event in history.applied(CommandReceived))
    refused = Counter(event.source for event in history.applied(CommandRefused))
    for publication in published:
        source: Source = publication.source
        assert (received[source], refused[source]) == (1, 1), publication


async def topics_are_those_that_are_declared(kafka: KafkaSettings | str) -> None:
    """The broker has the topics of the AsyncAPI document, all of them and no others."""
    addresses = [channel["address"] for channel in documents.asyncapi()["channels"].values()]
    forms = {address: re.sub(r"\\{[a-z]+\\}", "[^.]+", re.escape(address)) for address in addresses}
    admin = AIOKafkaAdminClient(**client_options(kafka_settings(kafka)))
    await admin.start()
    try:
        topics = {name for name in await admin.list_topics() if not name.startswith("__")}
    finally:
        await admin.close()
    found = {
        name: [address for address in addresses if re.fullmatch(forms[address], name)] for name in topics
    }
    assert {name for name, declared in found.items() if not declared} == set()
    assert {address for declared in found.values() for address in declared} == set(addresses)


async def rows_are_what_the_log_says(log: Log, topics: Topics, dsn: str) -> None:
    """Once the read models have caught up they equal a rebuild, and the log keeps all invariants."""
    async with open_read_models(dsn) as models:
        for owner in OWNERS.values():
            for topic in owner.topics(topics):
                for partition, end in (await log.ends(topic.name)).items():
                    if end:
                        await models.until(owner.name, topic.name, partition, end, TIMEOUT_S)
    report = await rebuild(log, topics, dsn)
    assert report.equal, "\n".join([str(report), *report.positions()])
    assert report.events > 0
    assert {DISPATCHER, SCHEDULER} <= report.live.keys()
    found = [str(finding) for finding in await verify(log, topics)]
    assert not found, found
