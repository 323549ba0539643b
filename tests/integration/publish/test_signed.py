"""A dispatcher that asks for signatures, and publishers with and without a key."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.integration.dispatcher.harness import START, Publisher, RunningDispatcher, valid_search
from tests.integration.dispatcher.remote_processes import RemoteAssessor, RemoteTuner
from tests.integration.publish.conftest import dispatcher_with
from tests.integration.publish.test_command_line import trackside
from tests.stack import Servers
from trackside.aggregates.search.advice.advice_messages import AssessmentFailed
from trackside.aggregates.search.messages import TrialSuggested
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.commands import RecordDeadLettered
from trackside.contracts.tasks.tasks import TaskStopRequested
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Outgoing
from trackside.sdk import Client
from trackside.sdk.connection.publication import Accepted, Refused
from trackside.sdk.connection.signing import read_signer


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a key, and with the list of keys that the dispatcher knows."""
    folder, private = tmp_path_factory.mktemp("keys"), Ed25519PrivateKey.generate()
    written = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "ci-1.pem").write_bytes(written)
    public = base64.b64encode(private.public_key().public_bytes_raw()).decode()
    (folder / "keys.json").write_text(json.dumps({"ci-1": {"public": public}}))
    return folder


@pytest.fixture(scope="module")
def dispatcher(stack: Servers, module_database: str, keys: Path) -> Iterator[RunningDispatcher]:
    variables = {
        "TRACKSIDE_DISPATCHER_SIGNATURES": "require",
        "TRACKSIDE_DISPATCHER_KEYS_FILE": str(keys / "keys.json"),
    }
    with dispatcher_with(stack, module_database, keys, variables) as running:
        yield running


async def test_only_signed_commands_are_obeyed_and_a_replayed_one_changes_nothing(
    dispatcher: RunningDispatcher, keys: Path
) -> None:
    bootstrap, prefix = dispatcher.settings.kafka_bootstrap, dispatcher.settings.topic_prefix
    topic, stream, command_id = Topics(prefix).commands.name, new_id("s"), new_id("c")
    wish = {"type": START, "data": valid_search()}
    async with Client(bootstrap, prefix) as client:
        refused = await client.answer(await client.publish(wish, stream, command_id))
    assert isinstance(refused, Refused) and refused.code == "unsigned"
    async with Client(bootstrap, prefix, signer=read_signer(keys / "ci-1.pem")) as client:
        published = await client.publish(wish, stream, command_id)
        answer = await client.answer(published)
        assert isinstance(answer, Accepted), "its id was not used up by the unsigned one"
        async with KafkaLog(bootstrap, "thief") as log:
            stolen = await _record(log, topic, published.partition, published.offset)
            again = await log.publish(topic, 0, stolen)
            replayed = type(published)(topic, 0, again.offset, command_id, stream, published.events_from)
            assert isinstance(await client.answer(replayed), Accepted), "the first answer again"
    wished = json.dumps(wish)
    code, output, errors = await trackside(
        dispatcher, "publish", "-", "--key", str(keys / "ci-1.pem"), "--json", fed=wished
    )
    assert code == 0, output + errors
    missing = str(keys / "none.pem")
    assert (await trackside(dispatcher, "publish", "-", "--key", missing, fed=wished))[0] == 2


async def test_only_signed_answers_of_processes_elsewhere_count(
    dispatcher: RunningDispatcher, keys: Path
) -> None:
    bootstrap, prefix = dispatcher.settings.kafka_bootstrap, dispatcher.settings.topic_prefix
    signer, asked = read_signer(keys / "ci-1.pem"), {"name": "mine", "remote": True, "time_limit_s": 300}
    async with (
        KafkaLog(bootstrap, "elsewhere") as log,
        Client(bootstrap, prefix, signer=signer) as client,
    ):
        publisher = Publisher(log, dispatcher)
        tuner = RemoteTuner.at(log, publisher, dispatcher)
        assessor = RemoteAssessor.at(log, publisher, dispatcher)
        assessor.search = tuner.search
        wish = {"type": START, "data": valid_search() | {"tuner": asked, "assessor": asked}}
        assert isinstance(await client.answer(await client.publish(wish, tuner.search)), Accepted)

        first = await tuner.request()
        await tuner.answer({"request_id": first.request_id, "parameters": {"x": 0.25}})
        await _until_unsigned(publisher, dispatcher.topics.suggestions.name)
        await tuner.answer({"request_id": first.request_id, "parameters": {"x": 0.5}}, signer)
        assert (await tuner.event(TrialSuggested)).parameters == {"x": 0.5}

        await assessor.run(0)
        await assessor.report(0, 0, 0.5)
        request = await assessor.request()
        await assessor.answer({"request_id": request.request_id, "says": "failed"})
        await _until_unsigned(publisher, dispatcher.topics.assessments.name)
        await assessor.answer({"request_id": request.request_id, "hopeless": [0]}, signer)
        assert (await assessor.event(TaskStopRequested)).reason == "assessor"
        assert not any(isinstance(record.message, AssessmentFailed) for record in publisher.records)


async def _until_unsigned(publisher: Publisher, topic: str) -> None:
    """Waits until an unsigned answer was buried."""
    letter = await publisher.until(
        lambda record: (
            isinstance(record.message, RecordDeadLettered) and record.message.source.topic == topic
        ),
        60,
    )
    assert isinstance(letter.message, RecordDeadLettered)
    assert letter.message.code == "unsigned"


async def _record(log: KafkaLog, topic: str, partition: int, offset: int) -> Outgoing:
    reader = log.reader({(topic, partition): offset})
    while True:
        for entry in await reader.read(1.0):
            await reader.close()
            return Outgoing(entry.key, entry.value, entry.headers)
