"""The folder of a stack is moved and copied: it keeps its data, and no stack uses that of another."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from tests.integration.embedded.installation import as_root
from tests.integration.embedded.test_stack import WITHOUT_SERVERS
from tests.polling import poll_until_sync
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.contracts.envelope.topics import Topics
from trackside.embedded import stack
from trackside.embedded.errors import StackError
from trackside.embedded.folder import is_locked, read_plan
from trackside.embedded.options import StackOptions
from trackside.embedded.postgres import server, shared
from trackside.embedded.postgres.server import remove_data
from trackside.embedded.processes import is_alive
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Outgoing

ROWS_ALONE = StackOptions(bootstrap_servers="127.0.0.1:1", durable=False)
WHOLE = StackOptions(setup=[[sys.executable, "-m", "trackside.cli.setup"]], durable=False)
TOPICS = Topics()


@pytest.fixture
def public() -> Iterator[Path]:
    """Returns a folder that everybody may enter, so that the data of Postgres lies in the stack's folder."""
    place = Path(tempfile.mkdtemp(prefix="trackside-moved-"))
    place.chmod(0o711)
    yield place
    end_all(place)
    shutil.rmtree(place)


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Path]:
    """Returns a folder that only its owner may enter: the data of root's Postgres is outside of it."""
    tmp_path.chmod(0o700)
    yield tmp_path
    end_all(tmp_path)


def end_all(place: Path) -> None:
    for home in place.iterdir():
        stack.stop(home)
        remove_data(home / "postgres")


def installation_of(home: Path) -> str:
    found: str = json.loads((home / "installation.json").read_text())["id"]
    return found


async def output_of(module: str, given: Mapping[str, str]) -> tuple[int, str]:
    """Runs a service until it ends by itself; returns its exit code and what it printed."""
    command = [sys.executable, "-m", f"trackside.{module}"]
    run = partial(
        subprocess.run, command, env=given, capture_output=True, text=True, timeout=120, check=False
    )
    ended = await asyncio.to_thread(run)
    return ended.returncode, ended.stdout + ended.stderr


async def rows_of(running: stack.Stack) -> list[int]:
    """Returns the rows of the table that the test made; none if it isn't there."""
    connection = await asyncpg.connect(running.postgres_dsn)
    try:
        return [row[0] for row in await connection.fetch("SELECT value FROM kept")]
    except asyncpg.UndefinedTableError:
        return []
    finally:
        await connection.close()


async def add_row(running: stack.Stack, value: int) -> None:
    connection = await asyncpg.connect(running.postgres_dsn)
    await connection.execute("CREATE TABLE IF NOT EXISTS kept (value integer)")
    await connection.execute("INSERT INTO kept VALUES ($1)", value)
    await connection.close()


async def with_a_row(home: Path) -> stack.Stack:
    """Starts a stack without Kafka, and adds a row."""
    running = stack.start(home, ROWS_ALONE)
    await add_row(running, 1)
    return running


async def append(running: stack.Stack, value: bytes) -> None:
    async with KafkaLog(running.bootstrap_servers, "test") as log:
        await log.append(TOPICS.logs.name, 0, [Outgoing(b"key", value, [])])


async def values_in(running: stack.Stack) -> list[bytes | None]:
    async with KafkaLog(running.bootstrap_servers, "test") as log:
        count = (await log.ends(TOPICS.logs.name))[0]
        reader = log.reader({(TOPICS.logs.name, 0): 0})
        found: list[bytes | None] = []
        while len(found) < count:
            found += [entry.value for entry in await reader.read(1.0)]
        return found


@pytest.mark.long
async def test_a_moved_folder_continues_and_a_copy_has_its_own_data(public: Path) -> None:
    first = stack.start(public / "first", WHOLE)
    await append(first, b"before the move")
    await add_row(first, 1)
    saved = open_store(StoreSettings(store=first.store)).put(b"before the move")
    assert (first.folder / "store").stat().st_mode & 0o777 == 0o700
    stack.stop(first.folder)
    (public / "first").rename(public / "second")

    second = stack.start(public / "second", WHOLE)
    assert await values_in(second) == [b"before the move"]
    assert await rows_of(second) == [1]
    moved = open_store(StoreSettings(store=second.store))
    assert second.store != first.store and moved.verify(saved) == "ok"
    stack.stop(second.folder)
    shutil.copytree(second.folder, public / "copy")

    steps: list[str] = []
    copy = stack.start(public / "copy", WHOLE, steps.append)
    assert any(f"is a copy of {second.folder}" in step for step in steps)
    assert await values_in(copy) == [b"before the move"]
    assert open_store(StoreSettings(store=copy.store)).verify(saved) == "ok" and copy.store != second.store
    second = stack.start(second.folder, WHOLE)
    await append(copy, b"in the copy")
    await add_row(copy, 2)
    assert await values_in(second) == [b"before the move"]
    assert (await rows_of(second), await rows_of(copy)) == ([1], [2])

    names = installation_of(second.folder), installation_of(copy.folder)
    assert len(set(names)) == 2
    modules = ("cli.setup", "dispatcher", "scheduler", "summary_indexer")
    given = {**os.environ, "TRACKSIDE_KAFKA_BOOTSTRAP": copy.bootstrap_servers}
    given["TRACKSIDE_POSTGRES_DSN"] = second.postgres_dsn
    for code, said in await asyncio.gather(*(output_of(module, given) for module in modules)):
        assert code == 1, said
        assert f"are of the log {names[0]}, but this log is {names[1]}: set TRACKSIDE_KAFKA" in said


def test_a_log_of_another_installation_in_the_folder_is_refused_with_both_names(public: Path) -> None:
    home = public / "home"
    (home / "kafka" / "data").mkdir(parents=True)
    (home / "kafka" / "data" / "meta.properties").write_text("version=1\ncluster.id=theirs\nnode.id=1\n")
    (home / "installation.json").write_text(json.dumps({"id": "ours", "folder": str(home)}))
    with pytest.raises(
        StackError, match=r"folder of installation ours, but .*/kafka is the log of .* theirs"
    ):
        stack.start(home, StackOptions(postgres_dsn=WITHOUT_SERVERS["postgres_dsn"]))


def test_a_copy_of_a_stack_that_runs_is_refused(public: Path) -> None:
    options = StackOptions(**WITHOUT_SERVERS)
    running = stack.start(public / "home", options)
    shutil.copytree(running.folder, public / "copy", ignore=shutil.ignore_patterns("lock"))
    with pytest.raises(
        StackError, match=rf"is a copy of {running.folder} \(.*made while its stack was running"
    ):
        stack.start(public / "copy", options)


async def test_a_stack_whose_folder_is_moved_while_it_runs_stops_and_continues_in_the_new_place(
    public: Path,
) -> None:
    await with_a_row(public / "first")
    (public / "first").rename(public / "second")
    poll_until_sync(lambda: not is_locked(public / "second"))
    assert not (public / "first").exists()
    assert await rows_of(stack.start(public / "second", ROWS_ALONE)) == [1]


def test_a_folder_that_is_removed_while_its_stack_starts_is_named_and_nothing_stays(public: Path) -> None:
    home = public / "home"
    supervisor = public / "supervisor"
    remove = (
        "import os, shutil, sys; open(sys.argv[2], 'w').write(str(os.getppid())); shutil.rmtree(sys.argv[1])"
    )
    options = StackOptions(
        **WITHOUT_SERVERS,
        setup=[[sys.executable, "-c", remove, str(home), str(supervisor)], ["sleep", "600"]],
    )
    with pytest.raises(StackError, match=f"{home} was removed while its stack started: start it again"):
        stack.start(home, options)
    poll_until_sync(lambda: not is_alive(int(supervisor.read_text())))
    supervisor.unlink()


@as_root
@pytest.mark.long
@pytest.mark.parametrize("was_outside", [True, False])
async def test_data_outside_of_a_folder_moves_with_it_and_data_that_is_moved_out_of_reach_is_brought_there(
    private: Path, public: Path, was_outside: bool
) -> None:
    first = await with_a_row((private if was_outside else public) / "first")
    data = data_of(first)
    stack.stop(first.folder)
    shutil.move(first.folder, private / "second")
    stack.start(private / "another", ROWS_ALONE)  # it looks for data that no stack uses any more
    second = stack.start(private / "second", ROWS_ALONE)
    assert shared.SHARED in data_of(second).parents
    assert (data_of(second) == data, await rows_of(second)) == (was_outside, [1])


@as_root
@pytest.mark.long
async def test_data_outside_of_a_folder_is_not_opened_by_a_copy(private: Path) -> None:
    first = await with_a_row(private / "first")
    stack.stop(first.folder)
    shutil.copytree(first.folder, private / "copy")
    copy = stack.start(private / "copy", ROWS_ALONE)
    assert data_of(copy) != data_of(first)
    assert await rows_of(copy) == []
    assert await rows_of(stack.start(first.folder, ROWS_ALONE)) == [1]


@as_root
@pytest.mark.long
async def test_a_copy_without_a_note_of_its_installation_does_not_open_data_outside_of_it(
    private: Path,
) -> None:
    """An earlier release made no note, and wrote the whole path of the data."""
    first = stack.start(private / "first", ROWS_ALONE)
    place = first.folder / "postgres" / "place"
    place.write_text(f"{data_of(first).parent}\n")
    (first.folder / "installation.json").unlink()
    stack.stop(first.folder)
    shutil.copytree(first.folder, private / "copy")
    expected = (
        rf"belongs to the stack in {first.folder}, of which .*/copy is a copy: remove .*/copy/postgres,"
    )
    with pytest.raises(StackError, match=expected):
        stack.start(private / "copy", ROWS_ALONE)
    (private / "copy" / "postgres" / "place").unlink()  # so that the end removes nothing of the first's


@as_root
@pytest.mark.long
def test_data_outside_of_a_folder_is_removed_an_hour_after_a_start_saw_that_the_folder_is_gone(
    private: Path,
) -> None:
    first = stack.start(private / "first", ROWS_ALONE)
    data = data_of(first)
    stack.stop(first.folder)
    os.utime(data.parent / server.BELONGS_TO, (0, 0))  # it was started long ago
    shutil.rmtree(first.folder)
    stack.start(private / "second", ROWS_ALONE)
    assert data.exists()
    long_ago = (data.parent / server.ORPHAN).stat().st_mtime - server.ORPHANS_KEPT_S - 1
    os.utime(data.parent / server.ORPHAN, (long_ago, long_ago))
    stack.start(private / "third", ROWS_ALONE)
    assert not data.exists()


def data_of(running: stack.Stack) -> Path:
    (found,) = [each.data for each in read_plan(running.folder).processes if each.name == "postgres"]
    assert found is not None
    return Path(found)
