"""The commands of `trackside replay` as a user types them, against a real Kafka; Postgres isn't asked."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from secrets import token_hex

import pytest
import pytest_asyncio

from tests.integration.command_line import tried
from tests.stack import Servers
from tests.unit.projections.given import write_small_history
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog

Typed = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prefix(stack: Servers) -> str:
    made = f"t{token_hex(4)}."
    async with KafkaLog(stack.kafka_bootstrap, client_id="replay-test") as log:
        await write_small_history(log, Topics(prefix=made))
    return made


@pytest.fixture
def typed(
    stack: Servers, prefix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    """Returns a function that runs `trackside replay` over that log: its exit code, stdout and stderr."""
    monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", stack.kafka_bootstrap)
    monkeypatch.setenv("TRACKSIDE_TOPIC_PREFIX", prefix)
    return partial(asyncio.to_thread, tried, capsys, "replay")


async def test_a_stream_is_shown_as_it_was_compared_and_explained(typed: Typed) -> None:
    code, out, _ = await typed("show", "one")
    assert (code, out.splitlines()[0].split(",")[0]) == (0, "one  search DONE")
    state = json.loads((await typed("show", "one", "--json"))[1])
    middle = str((state["offset"] + state["commands"][0]["offset"]) // 2)
    then = json.loads((await typed("show", "one", "--at", middle, "--json"))[1])
    assert (then["state"]["status"], state["state"]["status"]) == ("RUNNING", "DONE")
    assert then["offset"] <= int(middle)
    code, out, _ = await typed("diff", "one", "--from", middle)
    assert code == 0
    assert "~ search" in out and "+ trial 2" in out and "status: RUNNING -> DONE" in out
    found = json.loads((await typed("diff", "one", "--from", middle, "--json"))[1])
    assert found["to"]["offset"] == state["offset"]
    code, out, _ = await typed("why", "one", "1")
    assert code == 0
    assert out.splitlines()[0] == "one: task one.1"
    assert out.splitlines()[1] == "this log names no causes: they were inferred from the state"
    assert [line.split()[4] for line in out.splitlines()[2:5]] == ["│"] * 3
    assert "AttemptEnded" in out and "lost" in out
    assert max(map(len, out.splitlines())) <= 100
    why = json.loads((await typed("why", "one", "one-start", "--json"))[1])
    assert [step["type"] for step in why["then"]] == ["SearchEnded"]


async def test_a_stream_is_exported_imported_and_looked_into(typed: Typed, tmp_path: Path) -> None:
    code, out, err = await typed("export", "tasks")
    assert code == 0
    assert err.startswith("tasks: 41 records, state ")
    file, again = tmp_path / "tasks.jsonl", tmp_path / "again.jsonl"
    file.write_text(out)
    code, out, _ = await typed("import", str(file), "--as", "elsewhere")
    assert (code, out.rpartition(",")[2].strip()) == (0, "equal")
    assert (await typed("show", "elsewhere"))[1].startswith("elsewhere  batch DONE")
    code, out, _ = await typed("export", "elsewhere")
    again.write_text(out)
    assert (await typed("import", str(again), "--as", "third", "--json"))[0] == 0
    code, _, err = await typed("import", str(file))
    assert (code, err.split(": ")[1]) == (1, "replay_target_live")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("show", "none"), 1, "unknown_stream: there is no stream 'none'"),
        (("show", "one", "--at", "then"), 2, "bad_range: 'then' is not a point in time"),
        (("show", "one", "--at", "99999"), 2, "bad_range: the last offset of the partition is"),
        (("diff", "one", "--from", "now", "--to", "3"), 2, "bad_range: "),
        (("why", "one", "nothing"), 2, "unknown_subject: one has nothing called 'nothing'"),
        (("export", "none"), 1, "unknown_stream"),
        (("import", "no-file"), 1, "no-file: No such file"),
    ],
)
async def test_what_can_not_be_had_is_said_with_what_to_do(
    typed: Typed, arguments: tuple[str, ...], code: int, said: str
) -> None:
    found, out, err = await typed(*arguments)
    assert (found, out) == (code, "")
    assert said in err
