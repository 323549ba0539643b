"""A command whose outcome is not known is published again under its id, by the command line and by people."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.chaos.proxy import Proxy
from tests.integration.dispatcher.harness import Publisher, RunningDispatcher
from tests.integration.publish.test_command_line import trackside
from tests.polling import poll_until
from trackside.aggregates.search.messages import SearchStarted
from trackside.contracts.envelope.topics import partition_of
from trackside.embedded.ports import held_ports

SPEC = """
kind: search
name: nightly
task_type: noop
max_trials: 1
space: {x: {type: uniform, low: 0, high: 1}}
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "search.yaml"
    path.write_text(SPEC)
    return str(path)


async def commands_in_the_log(publisher: Publisher, stream_id: str) -> int:
    topic = publisher.dispatcher.topics.commands
    ends = await publisher._log.ends(topic.name)
    return ends[partition_of(stream_id, topic.partitions)]


def begun(publisher: Publisher, stream_id: str) -> int:
    return sum(
        isinstance(record.message, SearchStarted) and record.envelope.stream == stream_id
        for record in publisher.records
    )


async def test_a_command_that_nobody_answered_is_given_again_with_its_id_and_counts_once(
    dispatcher: RunningDispatcher, publisher: Publisher, spec: str
) -> None:
    dispatcher.service.kill()
    code, _, errors = await trackside(dispatcher, "submit", spec, "--timeout", "2")
    found = re.search(r"run the same command again with (--command-id) (\S+): it has an effect once", errors)
    assert code == 1 and found is not None
    dispatcher.service.start()
    streams = []
    for _ in range(2):
        code, output, errors = await trackside(
            dispatcher, "submit", spec, "--timeout", "60", "--json", found[1], found[2]
        )
        assert (code, errors) == (0, "")
        answer = json.loads(output)
        assert (answer["answer"], answer["command_id"]) == ("accepted", found[2])
        streams.append(answer["stream"])
    assert streams[0] == streams[1]
    await publisher.assert_well()
    assert begun(publisher, streams[0]) == 1
    code, _, errors = await trackside(dispatcher, "submit", spec, "--command-id", "my command")
    assert code == 2 and "--command-id: 'my command' is not an id: expected 1 to 128 letters" in errors


@pytest.mark.long
async def test_a_broker_that_is_lost_between_command_and_answer_is_waited_for(
    dispatcher: RunningDispatcher, publisher: Publisher, spec: str
) -> None:
    upstream = int(dispatcher.settings.kafka_bootstrap.rpartition(":")[2])
    dispatcher.service.kill()
    with held_ports(1) as (port,), Proxy(port, lambda: upstream) as proxy:
        through = RunningDispatcher(
            dispatcher.settings.model_copy(update={"kafka_bootstrap": proxy.address}), dispatcher.service
        )
        before = await commands_in_the_log(publisher, "lost-1")
        submitting = asyncio.create_task(
            trackside(through, "submit", spec, "--id", "lost-1", "--timeout", "90", "--command-id", "lost")
        )

        async def arrived() -> bool:
            assert not submitting.done(), submitting.result()
            return await commands_in_the_log(publisher, "lost-1") > before

        await poll_until(arrived)
        proxy.hold()
        proxy.cut()
        dispatcher.service.start()
        await publisher.assert_well()
        proxy.flow()
        code, output, _ = await submitting
    assert code == 0 and "lost-1 accepted (command lost)" in output
    await publisher.assert_well()
    assert begun(publisher, "lost-1") == 1
