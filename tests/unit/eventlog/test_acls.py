import shlex

import pytest

from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.acls import Acl, AclReport, commands_of, compare, installation_acls

TOPICS = Topics()
ACLS = installation_acls(TOPICS, ["gpu-1"])
READS_COMMANDS = Acl("User:dispatcher", "topic", TOPICS.commands.name, False, "Read")


def test_what_a_broker_lacks_is_missing_and_what_permits_no_more_to_our_principals_is_passed_over() -> None:
    assert compare(ACLS, set(ACLS) - {READS_COMMANDS}).missing == (READS_COMMANDS,)
    same = {
        Acl("User:dispatcher", "topic", TOPICS.commands.name, False, "Describe"),
        Acl("User:worker-gpu-1", "topic", "trackside.device.gpu-1.cpu", False, "Read"),
        Acl("User:other", "topic", "other", False, "All"),
        Acl("User:*", "topic", "other", False, "All"),
    }
    assert compare(ACLS, ACLS) == compare(ACLS, same.union(ACLS)) == AclReport((), (), ())


def test_what_permits_more_than_the_table_is_named() -> None:
    for wider in (
        Acl("User:dispatcher", "topic", TOPICS.commands.name, False, "All"),
        Acl("User:dispatcher", "topic", TOPICS.commands.name, False, "Write"),
        Acl("User:viewer", "topic", "trackside.", True, "Read"),
        Acl("User:worker-gpu-1", "topic", "trackside.device.", True, "Read"),
        Acl("User:publisher", "cluster", "kafka-cluster", False, "Create"),
        Acl("User:*", "topic", "*", False, "Read"),
        Acl("User:*", "topic", "track", True, "Write"),
    ):
        assert compare(ACLS, {*ACLS, wider}) == AclReport((), (wider,), ())


def test_an_acl_that_denies_is_named() -> None:
    denying = Acl("User:dispatcher", "topic", TOPICS.commands.name, False, "Read", allows=False)
    assert compare(ACLS, {*ACLS, denying}).denying == (denying,)
    assert str(denying) == "User:dispatcher may not Read topic trackside.commands"


def test_a_command_adds_the_operations_of_one_principal_on_one_resource() -> None:
    lines = commands_of(ACLS, "kafka:9093")
    (device,) = [line for line in lines if "device.gpu-1." in line]
    assert shlex.split(device) == [
        *("kafka-acls.sh", "--bootstrap-server", "kafka:9093", "--command-config", "admin.properties"),
        *("--add", "--allow-principal", "User:worker-gpu-1", "--operation", "Create", "--operation", "Read"),
        *("--topic", "trackside.device.gpu-1.", "--resource-pattern-type", "prefixed"),
    ]
    assert sum("--cluster" in line for line in lines) == 1


def test_principals_may_have_other_names_at_the_broker_and_several() -> None:
    given = {"publisher": ["User:CN=ci,O=Example", "User:CN=notebook"]}
    found = {acl.principal for acl in installation_acls(TOPICS, principals=given)}
    assert {"User:CN=ci,O=Example", "User:CN=notebook", "User:viewer"} < found
    assert "User:publisher" not in found


def test_a_name_that_the_table_or_the_broker_cannot_have_is_refused() -> None:
    for name, principal in (("reader", "User:x"), ("viewer", "x"), ("viewer", "User:*"), ("viewer", "User:")):
        with pytest.raises(ValueError, match="expected"):
            installation_acls(TOPICS, principals={name: [principal]})
