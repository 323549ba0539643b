"""`trackside publish` as scripts use it: many commands at once, exit codes, tables and JSON."""

import asyncio
import json
import os
from pathlib import Path

from tests.forked_processes import run_command
from tests.integration.dispatcher.harness import START, STOP, RunningDispatcher, valid_search
from tests.integration.installed import variables_of
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog


async def trackside(
    dispatcher: RunningDispatcher, *argv: str, fed: str = "", prefix: str = ""
) -> tuple[int, str, str]:
    settings = dispatcher.settings
    environment = {
        **os.environ,
        **variables_of(settings),
        "TRACKSIDE_TOPIC_PREFIX": prefix or settings.topic_prefix,
    }
    ended = await asyncio.to_thread(run_command, argv, Path(), environment, fed, 120)
    return ended.returncode, ended.stdout, ended.stderr


def lines(*wishes: Json) -> str:
    return "".join(json.dumps(wish) + "\n" for wish in wishes)


def start(stream: str, **changed: object) -> Json:
    return {"type": START, "stream": stream, "data": {**valid_search(), **changed}}


async def test_many_commands_are_answered_one_by_one_and_the_worst_decides(
    dispatcher: RunningDispatcher,
) -> None:
    first, second, stop = new_id("p"), new_id("p"), {"type": STOP, "data": {}}
    wishes = [start(first), start(second, concurrency=0), {**stop, "stream": first}, {**stop, "stream": "p"}]
    code, output, errors = await trackside(dispatcher, "publish", "-", "--json", fed=lines(*wishes))
    answers = {answer["line"]: answer for answer in map(json.loads, output.splitlines())}
    assert (code, errors) == (2, "")
    assert [answers[number].get("code", "accepted") for number in (1, 2, 3, 4)] == [
        "accepted",
        "concurrency_range",
        "accepted",  # in order: the search was there when its stop came
        "unknown_search",
    ]


async def test_the_ends_of_all_streams_are_waited_for(dispatcher: RunningDispatcher, tmp_path: Path) -> None:
    streams = [new_id("p"), new_id("p")]
    wishes = [start(stream) for stream in streams]
    wishes += [{"type": STOP, "stream": stream, "data": {}} for stream in streams]
    (tmp_path / "plan.jsonl").write_text(lines(*wishes))
    code, output, errors = await trackside(
        dispatcher, "publish", str(tmp_path / "plan.jsonl"), "--wait", "--json"
    )
    told = [json.loads(line) for line in output.splitlines()]
    assert {found["search_id"]: found["status"] for found in told[4:]} == dict.fromkeys(streams, "STOPPED")
    assert (code, errors) == (0, "")


async def test_a_bad_line_stops_everything_before_it_begins(dispatcher: RunningDispatcher) -> None:
    stream = new_id("p")
    code, output, errors = await trackside(dispatcher, "publish", "-", fed=lines(start(stream)) + "{nope}\n")
    assert (code, output) == (2, "")
    assert "-:2: not JSON" in errors
    assert (await trackside(dispatcher, "publish", "-", fed=lines(start(stream))))[0] == 0


async def test_commands_that_nobody_answers_are_told_as_such(
    dispatcher: RunningDispatcher, topic_prefix: str
) -> None:
    async with KafkaLog(dispatcher.settings.kafka_bootstrap, "test") as log:
        await log.ensure(Topics(prefix=topic_prefix).shared)
    wishes = lines(start("s1"), start("s2"))
    code, output, _ = await trackside(
        dispatcher, "publish", "-", "--json", "--timeout", "1", fed=wishes, prefix=topic_prefix
    )
    told = [json.loads(line) for line in output.splitlines()]
    assert code == 1
    assert [answer["answer"] for answer in told] == ["no answer"] * 2
    assert "is a dispatcher running?" in told[0]["message"]
