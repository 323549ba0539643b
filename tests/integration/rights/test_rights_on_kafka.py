"""Rights on a real broker: exactly the table, and a missing one is named with the line that grants it."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.command_line import tried
from tests.integration.rights.acl_broker import ROOT, acl_broker, settings_of
from tests.integration.rights.attempts import OPERATIONS, Attempts
from tests.polling import poll_until
from tests.service_processes import service_process
from trackside.aggregates.batch.messages import StopTasks
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import (
    PRINCIPALS,
    AclOperation,
    ResourceKind,
    Right,
    rights,
    worker_principal,
)
from trackside.embedded.ports import held_ports
from trackside.eventlog.errors import DeniedError
from trackside.eventlog.kafka.acls import Acl, AclReport, commands_of, installation_acls
from trackside.eventlog.kafka.kafka_acls import apply_acls, check_acls
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.kafka.kafka_rights import RightsProbe
from trackside.eventlog.log import Outgoing
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.sdk.async_client import AsyncClient

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"
WORKERS = ("gpu-1", "gpu-10")
RECEIPTS = "receipts-of-ci"
NEWCOMER = "newcomer"
"""A user who has no rights."""
USERS = [*PRINCIPALS, *map(worker_principal, WORKERS), NEWCOMER]
TOPICS = Topics()
DEVICES = [TOPICS.device(worker, name) for worker in WORKERS for name in ("host", "cpu-0")]
NAMES = [*(topic.name for topic in (*TOPICS.shared, *DEVICES)), RECEIPTS]
ACLS = installation_acls(TOPICS, WORKERS, [RECEIPTS])
NAMED_WITHIN_S = 10
IMPLYING = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


class Broker:
    """A broker with an authorizer, and the settings of its users."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap, self._folder = bootstrap, folder

    def as_user(self, user: str) -> KafkaSettings:
        """Returns how a user connects."""
        return settings_of(self.bootstrap, user, self._folder)

    def variables(self, user: str) -> dict[str, str]:
        """Returns the same as variables of a process."""
        return {
            name.upper().replace("KAFKA", "TRACKSIDE_KAFKA", 1): str(value)
            for name, value in self.as_user(user).model_dump(exclude_none=True).items()
        }


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("acls")
    (folder / "logs").mkdir()
    with acl_broker(folder, USERS) as bootstrap:
        found = Broker(bootstrap, folder)
        asyncio.run(prepared(found.as_user(ROOT)))
        yield found


async def prepared(root: KafkaSettings) -> None:
    async with KafkaLog(root, "test") as log:
        await log.ensure([*TOPICS.shared, *DEVICES, replace(TOPICS.suggestions, name=RECEIPTS)])
    assert (await apply_acls(root, ACLS)).missing == ACLS


@pytest.fixture
async def restores_rights(broker: Broker) -> AsyncIterator[None]:
    """Takes away at the end what a test has given the viewer and the newcomer."""
    yield
    root = broker.as_user(ROOT)
    async with Attempts(root) as attempts:
        for user in ("viewer", NEWCOMER):
            await attempts.take_away_all(f"User:{user}")
    await apply_acls(root, ACLS)


def table(user: str) -> set[tuple[str, AclOperation]]:
    """Returns what the table gives a user, for each topic that exists."""
    held = [each for each in rights(TOPICS, WORKERS, [RECEIPTS]) if each.principal == user]
    return {
        (name, operation)
        for name in NAMES
        for operation in AclOperation
        for right in held
        if right.kind is ResourceKind.TOPIC
        and (name.startswith(right.name) if right.prefixed else name == right.name)
        and (right.operation is operation or right.operation in IMPLYING.get(operation, ()))
    }


async def test_every_principal_may_do_exactly_what_the_table_says(broker: Broker) -> None:
    for user in USERS:
        async with Attempts(broker.as_user(user)) as attempts:
            found = {
                (name, operation)
                for operation in OPERATIONS
                for name in await attempts.permitted(NAMES, operation)
            }
        assert found == table(user), user
    assert table(NEWCOMER) == set()


async def test_the_broker_says_the_same_when_it_is_asked(broker: Broker) -> None:
    every = [
        Right("", ResourceKind.TOPIC, name, False, operation) for name in NAMES for operation in AclOperation
    ]
    for user in ("dispatcher", "worker-gpu-1", NEWCOMER):
        probe = RightsProbe(broker.as_user(user))
        missing = {(right.name, right.operation) for right in await probe.missing(every)}
        await probe.close()
        assert {(right.name, right.operation) for right in every} - missing == table(user), user


async def test_only_the_summary_indexer_may_use_its_group(broker: Broker) -> None:
    group = Right("", ResourceKind.GROUP, TOPICS.metrics_group, False, AclOperation.READ)
    found = {}
    for user in ("summary-indexer", "viewer"):
        probe = RightsProbe(broker.as_user(user))
        found[user] = await probe.missing([group])
        await probe.close()
    assert found == {"summary-indexer": [], "viewer": [group]}


async def test_rights_that_are_there_are_not_added_again(broker: Broker) -> None:
    assert await apply_acls(broker.as_user("admin"), ACLS) == AclReport((), (), ())
    assert await check_acls(broker.as_user("admin"), ACLS) == AclReport((), (), ())


async def test_who_may_not_change_rights_is_told_who_may(broker: Broker) -> None:
    with pytest.raises(DeniedError, match="use that of the administrator"):
        await apply_acls(broker.as_user("viewer"), ACLS)


async def test_a_command_of_a_user_who_may_not_write_one_is_refused_with_the_line_that_lets_it(
    broker: Broker,
) -> None:
    async with AsyncClient(broker.as_user("viewer")) as client:
        with pytest.raises(DeniedError) as refused:
            await client.publish(StopTasks(), "b-1")
    assert str(refused.value) == (
        "User:viewer may not Write topic trackside.commands; to grant it: kafka-acls.sh --bootstrap-server "
        f"{broker.bootstrap} --command-config admin.properties --add --allow-principal User:viewer "
        "--operation Write --topic trackside.commands"
    )


@pytest.mark.usefixtures("restores_rights")
def test_the_command_prints_checks_and_adds_rights(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in broker.variables("admin").items():
        monkeypatch.setenv(name, value)
    named = [word for each in WORKERS for word in ("--worker", each)] + ["--receipts", RECEIPTS]
    code, printed, _ = tried(capsys, "setup", "acls", "--print", *named)
    assert code == 0 and printed.splitlines() == commands_of(ACLS, broker.bootstrap)
    assert tried(capsys, "setup", "acls", "--check", *named)[0] == 0
    wide = Acl("User:viewer", "topic", "trackside.", True, "Read")
    asyncio.run(apply_acls(broker.as_user(ROOT), [wide]))
    code, _, complaints = tried(capsys, "setup", "acls", "--check", *named, "--worker", "gpu-2")
    assert code == 1
    assert "wider than the table: User:viewer may Read topics that begin with trackside." in complaints
    assert "missing: kafka-acls.sh" in complaints and "User:worker-gpu-2" in complaints
    code, added, complaints = tried(capsys, "setup", "acls", "--apply", *named)
    assert (code, added.strip()) == (0, f"0 rights added, {len(ACLS)} were there")
    assert "wider than the table" in complaints


def test_a_bad_option_of_the_command_is_bad_usage(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", broker.bootstrap)
    for said, options in {
        "give one of --print, --apply and --check": ["--apply", "--print"],
        "can't have rights of its own": ["--print", "--worker", "gpu.1"],
        "expected NAME=PRINCIPAL": ["--print", "--principal", "viewer"],
        "not a principal of the table": ["--print", "--principal", "reader=User:x"],
    }.items():
        code, _, complaints = tried(capsys, "setup", "acls", *options)
        assert code == 2 and said in complaints


async def test_a_user_who_may_not_read_the_log_is_told_so_at_once(broker: Broker) -> None:
    async with AsyncClient(broker.as_user("worker-gpu-1")) as client:
        reading = client._connection
        await reading._connected().append(TOPICS.events.name, 0, [Outgoing(b"key", b"{}", [])])
        with pytest.raises(DeniedError, match=f"may not Read topic {TOPICS.events.name}; to grant it"):
            await anext(reading.entries({(TOPICS.events.name, 0): 0}))


async def ready(port: int) -> dict[str, Any]:
    """Returns what /ready says, {} before there is an answer."""

    def asked() -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            return dict(json.load(error))
        except OSError:
            return {}

    return await asyncio.to_thread(asked)


def worker(broker: Broker, port: int, folder: Path) -> dict[str, str]:
    return {
        **broker.variables(NEWCOMER),
        "TRACKSIDE_HEALTH_PORT": str(port),
        "TRACKSIDE_WORKER_ID": "gpu-1",
        "TRACKSIDE_WORKER_CATALOGUE": str(EXAMPLES / "noop" / "catalogue.yaml"),
        "TRACKSIDE_WORKER_DATA_DIR": str(folder / "worker"),
        "TRACKSIDE_WORKER_HOST_DIR": str(folder / "host"),
        "TRACKSIDE_WORKER_PRELOAD": "",
        "TRACKSIDE_WORKER_CPU_SLOTS": "1",
    }


@pytest.mark.usefixtures("restores_rights")
async def test_a_service_names_the_rights_that_it_lacks_at_its_start_and_while_it_runs(
    broker: Broker, tmp_path: Path
) -> None:
    """It waits for them, as for the log, and goes on when they are granted."""
    lent = installation_acls(TOPICS, ["gpu-1"], principals={"worker-gpu-1": [f"User:{NEWCOMER}"]})
    fleet = f"User:{NEWCOMER} may not Read topic {TOPICS.fleet.name}; to grant it: kafka-acls.sh"
    with held_ports(1) as (port,):
        pass
    with service_process("worker", worker(broker, port, tmp_path), tmp_path):

        async def is_denied() -> bool:
            return bool((await ready(port)).get("denied"))

        async def is_ready() -> bool:
            return bool((await ready(port)).get("ready"))

        await poll_until(is_denied)
        denied = (await ready(port))["denied"]
        assert any(
            f"may not DescribeConfigs, Write topic {TOPICS.heartbeats.name}" in each for each in denied
        )
        assert any("topic trackside.device.gpu-1.*" in each for each in denied)
        await apply_acls(broker.as_user(ROOT), lent)
        await poll_until(is_ready)
        async with Attempts(broker.as_user(ROOT)) as attempts:
            await attempts.take_away_read(f"User:{NEWCOMER}", TOPICS.fleet.name)
        await poll_until(is_denied, within_s=NAMED_WITHIN_S)
        shown = await ready(port)
        assert not shown["ready"] and shown["denied"][0].startswith(fleet)
        assert shown["waiting"] == f"a right: User:{NEWCOMER} may not Read topic {TOPICS.fleet.name}"
        assert fleet in (tmp_path / "worker.log").read_text()
        await apply_acls(broker.as_user(ROOT), lent)
        await poll_until(is_ready)
