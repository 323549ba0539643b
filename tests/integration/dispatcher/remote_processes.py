"""Remote tuners and assessors that a test controls, and the searches that use them."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.dispatcher.harness import (
    Found,
    Publisher,
    RunningDispatcher,
    begun,
    token_of,
    valid_search,
)
from trackside.aggregates.search.advice.advice_messages import AssessmentRequested, SuggestionRequested
from trackside.aggregates.search.messages import TrialSuggested
from trackside.contracts.envelope.ids import new_id, trial_task_id
from trackside.contracts.envelope.message import Event, Json, Record
from trackside.contracts.envelope.topics import Topic
from trackside.contracts.streams.commands import CommandAccepted
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, MetricReported
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Outgoing
from trackside.sdk.connection.signing import Signer

TUNERS = Path(__file__).parents[3] / "deploy" / "examples" / "tuners"


class RemoteProcess:
    """A remote tuner or assessor that a test controls, and the search that uses it."""

    def __init__(
        self, log: KafkaLog, publisher: Publisher, requests: Topic, answers: Topic, answer: bytes
    ) -> None:
        self.log, self.publisher, self._answers, self._answer = log, publisher, answers.name, answer
        self._reader = log.reader({(requests.name, n): 0 for n in range(requests.partitions)})
        self._requests: list[Record] = []
        self.search = new_id("remote")

    async def start(self, **changed: Any) -> None:
        """Starts the search."""
        body = valid_search() | {"max_trials": 4, "concurrency": 2, "seed": 7} | changed
        assert isinstance(await self.publisher.say(body, stream=self.search), CommandAccepted)

    async def asked(self) -> Record:
        """Waits for the next request of the search."""
        async with asyncio.timeout(60):
            while True:
                for found in self._requests:
                    if getattr(found.message, "search_id", "") == self.search:
                        self._requests.remove(found)
                        return found
                records = [decode(entry) for entry in await self._reader.read(1.0)]
                self._requests += [each for each in records if each is not None]

    async def answer(self, body: Json | bytes, signer: Signer | None = None) -> None:
        """Answers as any client."""
        headers = [
            ("ce_specversion", b"1.0"),
            ("ce_id", new_id().encode()),
            ("ce_type", self._answer),
            ("ce_source", b"test"),
        ]
        value = body if isinstance(body, bytes) else json.dumps(body).encode()
        record = Outgoing(self.search.encode(), value, headers)
        if signer is not None:
            record = signer.signed(record, self._answers)
        await self.log.publish(self._answers, 2, record)

    async def event(self, kind: type[Found], number: int = 1) -> Found:
        """Waits for the n-th event of a kind in the search."""
        return await self.publisher.event(self.search, kind, number)

    async def is_no_answer(self, answer: Json | bytes, code: str) -> None:
        """Asserts that an answer becomes a dead letter with a code, and stops nobody."""
        await self.publisher.assert_well()  # answers count from where the dispatcher began to read
        await self.answer(answer)
        letter = await self.publisher.dead_letter(
            lambda letter: letter.source.topic == self._answers and letter.code == code
        )
        assert letter.message
        await self.publisher.assert_well()

    async def asked_again_after_a_kill(self) -> str:
        """Kills the dispatcher with a request open, which is asked again as it was; returns its id."""
        before = await self.asked()
        self.publisher.dispatcher.service.restart()
        after = await self.asked()
        assert (after.message, after.envelope.id) == (before.message, before.envelope.id)
        assert after.offset > before.offset
        return str(getattr(after.message, "request_id", ""))


class RemoteTuner(RemoteProcess):
    """A remote tuner that a test controls."""

    @classmethod
    def at(cls, log: KafkaLog, publisher: Publisher, dispatcher: RunningDispatcher) -> "RemoteTuner":
        """Returns a tuner for the dispatcher under test."""
        requests, answers = dispatcher.topics.suggestion_requests, dispatcher.topics.suggestions
        return cls(log, publisher, requests, answers, b"trackside.answer-suggestion.v1")

    async def begin(self, **tuner: Any) -> None:
        """Starts a search that uses it."""
        await self.start(tuner={"name": "mine", "remote": True, **tuner})

    async def request(self) -> SuggestionRequested:
        """Waits for the next request."""
        message = (await self.asked()).message
        assert isinstance(message, SuggestionRequested)
        return message


class RemoteAssessor(RemoteProcess):
    """A remote assessor that a test controls, and the worker of the trials that it assesses."""

    @classmethod
    def at(cls, log: KafkaLog, publisher: Publisher, dispatcher: RunningDispatcher) -> "RemoteAssessor":
        """Returns an assessor for the dispatcher under test."""
        requests, answers = dispatcher.topics.assessment_requests, dispatcher.topics.assessments
        return cls(log, publisher, requests, answers, b"trackside.answer-assessment.v1")

    async def begin(self, trials: int = 1, **assessor: Any) -> None:
        """Starts a search that uses it, and its first trials."""
        await self.start(
            tuner={"name": "random"},
            assessor={"name": "mine", "remote": True, **assessor},
            concurrency=trials,
        )
        for trial in range(trials):
            await self.run(trial)

    async def run(self, trial: int) -> None:
        """Places and starts a trial of the search, as scheduler and worker do."""
        await self.event(TrialSuggested, trial + 1)
        await self.publisher.append(self.search, *begun(trial_task_id(self.search, trial)))

    def _reported(self, trial: int, **fields: Any) -> tuple[str, Event]:
        token: Json = {"task_id": trial_task_id(self.search, trial), "attempt": 1, "placement": 1}
        return "worker", MetricReported.model_validate(token | fields)

    async def report(self, trial: int, step: int, value: float | None) -> None:
        """Reports for a trial, as its worker does."""
        non_finite = "nan" if value is None else None
        fields: Json = {"kind": "PERIODICAL", "step": step, "value": value, "non_finite": non_finite}
        await self.publisher.append(self.search, self._reported(trial, **fields))

    async def end(self, trial: int, value: float) -> None:
        """Ends a trial with a result, as its worker does."""
        final = self._reported(trial, kind="FINAL", step=0, value=value)
        token = token_of(trial_task_id(self.search, trial))
        await self.publisher.append(
            self.search, final, ("worker", AttemptEnded(**token, end=AttemptEnd.FINISHED))
        )

    async def request(self) -> AssessmentRequested:
        """Waits for the next request."""
        message = (await self.asked()).message
        assert isinstance(message, AssessmentRequested)
        return message


@contextmanager
def example(name: str, dispatcher: RunningDispatcher, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs an example of a remote process; skips the test if kcat is not installed."""
    if shutil.which("kcat") is None:
        if os.environ.get("TRACKSIDE_TEST_TOOLCHAINS") == "required":
            pytest.fail("kcat is not on this machine")
        pytest.skip("kcat is not on this machine")
    known = os.environ | {"TRACKSIDE_TOPIC_PREFIX": dispatcher.settings.topic_prefix}
    argv = [sys.executable, str(TUNERS / name), dispatcher.settings.kafka_bootstrap]
    with (folder / f"{name}.log").open("wb") as said:
        running = subprocess.Popen(argv, env=known, stdout=said, stderr=said, process_group=0)
        try:
            yield running
        finally:
            os.killpg(running.pid, 9)
            running.wait()
