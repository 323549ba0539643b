"""The example aggregate of the test tree on the command line: it is in the registry, and in no other list."""

import json
from collections.abc import Iterator

import pytest
import pytest_asyncio

from tests.aggregates.registered import repeats_registered
from tests.aggregates.repeat.messages import StartRepeat
from tests.integration.command_line import answer, said
from tests.integration.projections.harness import write_rows
from tests.unit.dispatcher import harness
from trackside.cli.commands.replay.show import show_past
from trackside.cli.render import follow
from trackside.eventlog.memory import MemoryLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history.recorded_stream import state_at

STREAM = "seeds-1"


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    with repeats_registered():
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def log() -> MemoryLog:
    """Returns a log with a repeat of three runs, of which all have finished."""
    log = await harness.new_log()
    async with harness.dispatcher(log), harness.fleet(log, lambda parameters: float(parameters["run"])):
        client = harness.client_of(log)
        await client.publish(StartRepeat(name="seeds", task_type="noop", times=3), STREAM)
        await client.wait(STREAM, 60)
    return log


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filled(log: MemoryLog, module_tables: str) -> str:
    """Returns a database with the rows of the repeat."""
    await write_rows(log, module_tables, harness.TOPICS)
    return module_tables


@pytest.mark.usefixtures("addresses")
def test_it_is_listed_shown_with_its_tasks_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    [row] = answer(capsys, "ls")
    assert (row["kind"], row["id"], row["status"]) == ("repeat", STREAM, "DONE")
    assert row["spec"]["times"] == 3, "JSON columns of any view are read as JSON"
    [line] = said(capsys, "ls").splitlines()[1:]
    assert line.split()[:6] == [STREAM, "repeat", "DONE", "3/3", "-", "seeds"]
    lines = [line.split() for line in said(capsys, "show", STREAM).splitlines()]
    assert ["status", "DONE"] in lines
    tasks = [line[:3] for line in lines if line[:1] and line[0].isdigit()]
    assert tasks == [[str(number), "noop", "ended"] for number in range(3)]
    shown = answer(capsys, "show", STREAM)
    assert [len(shown[name]) for name in ("tasks", "commands")] == [3, 1]
    found = answer(capsys, "report", STREAM)
    assert (found["kind"], found["name"], found["status"]) == ("repeat", "seeds", "DONE")
    [section] = found["sections"]
    assert [row["cells"]["value"] for row in section["finished"]] == [0.0, 1.0, 2.0]
    assert f"repeat {STREAM} seeds: DONE" in said(capsys, "report", STREAM)


async def test_it_is_watched_until_its_end_and_its_past_is_shown(
    log: MemoryLog, capsys: pytest.CaptureFixture[str]
) -> None:
    stream, _ = await follow.until_end(harness.client_of(log), STREAM, as_json=False)
    assert "3/3 runs ended" in capsys.readouterr().err
    follow.print_end(stream, as_json=False)
    assert capsys.readouterr().out.startswith(f"{STREAM} DONE: 3/3 runs in ")
    follow.print_end(stream, as_json=True)
    assert json.loads(capsys.readouterr().out)["repeat_id"] == STREAM
    recorded = await find_stream(log, harness.TOPICS, STREAM)
    show_past(recorded, await state_at(recorded))
    shown = capsys.readouterr().out
    assert f"{STREAM}  repeat DONE, after offset" in shown and f"{STREAM}.2" in shown
