"""`trackside up --secure`: every connection to Kafka is encrypted, and that of a user with few rights."""

import asyncio
import json
import os
import signal
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from tests.e2e import leaks
from tests.e2e.attack import Judgement, entries_of
from tests.e2e.forged_records import EVENTS, event
from tests.e2e.intruders import Intruder, Place, raw_producer
from tests.e2e.shared_stack import SECURE, StackFolder, folder_below, start
from tests.e2e.shared_tasks import search_spec
from trackside.contracts.envelope.standing import Standing
from trackside.contracts.streams.commands import Ping
from trackside.contracts.trust.trust import ANOTHER_WORKER
from trackside.embedded.folder import NAME
from trackside.embedded.processes import children_of
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.key_folder import KeyFolder
from trackside.eventlog.log_id import cluster_in
from trackside.eventlog.settings.kafka_settings import kafka_settings
from trackside.eventlog.settings.secure_folder import KEYS, settings_of
from trackside.sdk import Client
from trackside.sdk.connection.publication import Accepted, PublishedCommand
from trackside.sdk.errors import UnansweredError

pytestmark = pytest.mark.timeout(900)

SERVICES = ("dispatcher", "scheduler", "worker-worker", "summary-indexer", "console")
SPEC = search_spec("parabola", 4)
SCRIPT = """
import sys
from trackside.sdk import Client
from trackside.sdk.definitions.discovery import bootstrap

with Client.blocking(bootstrap()) as client:
    print(client.state(sys.argv[1]).over)
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, leash: Path) -> Iterator[StackFolder]:
    """Yields a folder on a secure stack whose passwords may be changed, with a search that has ended."""
    user = start(tmp_path_factory.mktemp("secure"), "--secure", "--slots", "1", "--leash", str(leash))
    with folder_below(user.path) as folder:
        folder.submit("first", SPEC, "--wait")
        yield folder
    user.run_ok("down")


def private_files(home: Path) -> list[Path]:
    """Returns the files below the folder of secrets, which are their owner's alone."""
    assert stat.S_IMODE((home / SECURE).stat().st_mode) == 0o700
    found = [*(home / SECURE).rglob("*")]
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in found}
    assert modes <= {(True, 0o700), (False, 0o600)}
    files = [path for path in found if path.is_file()]
    assert len(files) > len(SERVICES)
    return files


def descendants(pid: int | None) -> list[int]:
    """Returns a process and all that come from it."""
    assert pid is not None
    return [pid, *(each for child in children_of(pid) for each in descendants(child))]


def test_a_search_runs_to_its_end_over_encrypted_connections(secure_home: StackFolder) -> None:
    first = secure_home.submit("first", SPEC, "--wait")
    assert secure_home.json_output("show", first)["status"] == "DONE"
    assert "nothing found" in secure_home.run_ok("verify-log", first)
    assert "equal" in secure_home.run_ok("replay", "rebuild")
    assert secure_home.python("-c", SCRIPT, first).split() == ["True"]
    said = secure_home.run_ok("setup", "acls", "--check", "--worker", "worker", "--worker", "other")
    assert "and no others for its principals" in said


def page_of(address: str) -> str:
    """Returns a page of the console."""
    with urlopen(address) as answer:
        found: bytes = answer.read()
    return found.decode()


async def forged(home: StackFolder, publication: PublishedCommand) -> int:
    """Writes, as a worker, that the dispatcher refuses a command; returns the offset."""
    refusal = {"command_id": publication.command_id, "source": publication.source.model_dump()}
    refusal |= {"code": "no", "path": "$", "message": "no"}
    stream = publication.stream_id
    record = event(stream, "dispatcher", "command-refused.v1", refusal)
    kafka = settings_of(home.home / SECURE, home.stack.bootstrap_servers, "worker-worker")
    async with raw_producer(kafka) as producer:
        place = await producer.send(record)
    assert place is not None
    return place[2]


async def test_a_forged_answer_is_ignored_and_shown_as_such(secure_home: StackFolder) -> None:
    stream = secure_home.submit("asked", SPEC, "--wait")
    kafka = settings_of(secure_home.home / SECURE, secure_home.stack.bootstrap_servers, "publisher")
    async with Client(kafka) as client:
        publication = await client.publish(Ping(), stream)
        assert isinstance(await client.answer(publication), Accepted)
        offset = await forged(secure_home, publication)
        with pytest.raises(UnansweredError, match="answers to it that did not count: 1 unsigned"):
            await client.answer(replace(publication, events_from=offset), 2)
        shown = {each.offset: each async for each in client.events(stream)}
    assert (shown[offset].standing, shown[offset].distrust) == (Standing.FORGED, "unsigned")
    others = {each.standing for each in shown.values() if each.offset != offset}
    assert others <= {Standing.APPLIED, Standing.OVERTAKEN, Standing.DUPLICATE}
    listed = secure_home.run_ok("events", stream, "--from", str(offset))
    assert "[forged: unsigned: no effect]" in listed.splitlines()[0]
    as_json = [json.loads(line) for line in secure_home.run_ok("events", stream, "--json").splitlines()]
    assert [each["offset"] for each in as_json if each["distrust"]] == [offset]
    site = secure_home.stack.console_url
    assert site is not None
    for view in ("list", "tree"):
        page = await asyncio.to_thread(page_of, f"{site}experiments/{stream}/events?view={view}")
        assert page.count("forged: unsigned</span>") == 1
        assert page.count("This event had no effect") == sum(each["outcome"] != "applied" for each in as_json)


async def test_no_worker_parks_a_stream_in_which_it_has_no_task(secure_home: StackFolder) -> None:
    """Each record is signed with the own key of the worker that writes it, as who took that over would."""
    ended = secure_home.submit("ended", SPEC, "--wait")
    going = secure_home.submit("going", search_spec("gated", 2, at_once=1))
    keys = KeyFolder(secure_home.home / SECURE / KEYS)
    written = dict[Place, str]()
    for worker, stream in (("worker", ended), ("worker", "not-begun"), ("other", going), ("other", ended)):
        user = f"worker-{worker}"
        intruder = Intruder(user, user, keys.signer(user), worker)
        async with raw_producer(settings_of(secure_home.home / SECURE, bootstrap(secure_home), user)) as log:
            forged = event(stream, "worker", "no-such-thing.v9", {})
            place = await log.send(intruder.disguised(forged))
        assert place is not None
        written[place] = worker
    secure_home.release()
    assert "DONE: 2 trials" in secure_home.run_ok("watch", going)
    secure_home.run_ok("annotate", ended, "--tag", "looked-at")
    assert secure_home.json_output("repair", "--list")["parked"] == []
    judgement = Judgement()
    viewer = kafka_settings(secure_home.stack.kafka("viewer"))
    async with KafkaLog(viewer, client_id="test") as log:
        for entry in await entries_of(log, EVENTS):
            judgement.take(entry)
    assert {place: judgement.distrust.get(place) for place in written} == dict.fromkeys(
        written, ANOTHER_WORKER
    )


def bootstrap(home: StackFolder) -> str:
    return home.stack.bootstrap_servers


def test_secrets_are_in_files_of_their_owner_and_in_nothing_else(secure_home: StackFolder) -> None:
    home = secure_home.home
    files = [path for path in private_files(home) if path.suffix == ".password"]
    passwords = {path.read_text().strip() for path in files}
    assert len(passwords) == len(files) > len(SERVICES)
    private = tuple(str(home / NAME / each).encode() for each in ("secure", "kafka"))
    written = [each for each in leaks.files(home / NAME) if not each.startswith(private)]
    shown = leaks.process_lists(StackFolder(home).processes())
    assert len(written) > 10 and len(shown) > 10
    for each in (*written, *shown):
        assert not any(password.encode() in each for password in passwords), each[:200]


def test_a_worker_and_what_it_starts_know_no_password_of_postgres(secure_home: StackFolder) -> None:
    stack = secure_home.stack
    owner = urlsplit(stack.postgres_dsn).password
    reader = urlsplit(stack.status.reader_dsn).password
    assert owner and reader and owner != reader
    of_worker = descendants(stack.pid("worker"))
    assert len(of_worker) > 2, "its store and the server of its processes"
    for pid in of_worker:
        shown = b"".join(leaks.process_lists([pid]))
        assert not any(each.encode() in shown for each in (owner, reader, "POSTGRES_DSN", "READER")), shown
    (dispatcher, *_) = descendants(stack.pid("dispatcher"))
    assert owner.encode() in b"".join(leaks.process_lists([dispatcher]))


def test_a_folder_that_was_started_so_stays_so(secure_home: StackFolder) -> None:
    assert "runs already" in secure_home.run_ok("up", "--secure")
    elsewhere = {"TRACKSIDE_KAFKA_BOOTSTRAP": "127.0.0.1:9092"}
    refused = StackFolder(secure_home.path, elsewhere).run("up", "--secure")
    assert refused.returncode == 2
    assert "TRACKSIDE_KAFKA_BOOTSTRAP names another" in refused.stderr


@pytest.mark.long
def test_passwords_are_changed_while_all_runs(own: StackFolder) -> None:
    secure = own.home / SECURE
    before = {name: (secure / f"{name}.password").read_text() for name in (*SERVICES, "publisher", "admin")}
    own.run_ok("setup", "passwords", *before)
    assert all((secure / f"{name}.password").read_text() != old for name, old in before.items())
    pid = own.stack.pid("kafka")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)  # so that every service has to connect again
    second = own.submit("second", SPEC, "--wait")
    assert own.json_output("show", second)["status"] == "DONE"
    restarts = {name: each.restarts for name, each in own.stack.status.processes.items()}
    assert restarts.pop("kafka") == 1
    assert set(restarts.values()) == {0}, restarts


def installation_of(home: Path) -> str:
    """Returns the id of an installation."""
    return str(json.loads((home / NAME / "installation.json").read_text())["id"])


@pytest.mark.long
def test_a_clone_of_a_running_installation_has_its_data_its_users_and_its_keys_and_runs_next_to_it(
    own: StackFolder, leash: Path, tmp_path: Path
) -> None:
    first, clone = StackFolder(own.home), StackFolder(tmp_path / "clone")
    going = own.submit("going", search_spec("curve", 1000))
    backups = [first.json_output("backup", str(tmp_path / "backup")) for _ in range(2)]
    assert [made["runs"] for made in backups] == [1, 2]
    assert backups[1]["records"] > 0  # the search ran meanwhile
    assert f"the code of tasks in {own.home}" in backups[0]["separate"]  # others have theirs on this stack
    settings = json.loads((tmp_path / "backup" / "settings" / "settings.json").read_text())
    assert settings["slots"] == 1

    made = first.json_output("clone", str(clone.path))
    assert cluster_in(made["first"]) == installation_of(own.home) != installation_of(clone.path)
    refused = first.run("clone", str(clone.path))
    assert refused.returncode == 2 and "has an installation already" in refused.stderr
    private = {path.relative_to(own.home): path.read_bytes() for path in private_files(own.home)}
    copied = {path.relative_to(clone.path): path.read_bytes() for path in private_files(clone.path)}
    assert {path: copied[path] for path in private} == private

    before = own.stack.status.supervisor_pid
    clone.run_ok("up", "--slots", "1", "--leash", str(leash))
    try:
        assert own.stack.status.supervisor_pid == before
        assert clone.json_output("show", own.id("first")) == own.json_output("show", own.id("first"))
        checked = clone.json_output("upgrade", "--check")
        assert not checked["changes"] and checked["events"] > made["records"] / 2
        assert "own accepted" in clone.run_ok("submit", str(own.path / "first.yaml"), "--id", "own")
        keys = clone.path / SECURE / "keys" / "keys.json"
        assert "nothing found" in clone.run_ok("verify-log", "--keys", str(keys))
    finally:
        clone.run_ok("down")
        own.run_ok("stop", going)
