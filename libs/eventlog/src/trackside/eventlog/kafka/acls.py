"""ACLs of a broker, as values: made from the table of rights, written as commands, compared with others."""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import (
    PRINCIPALS,
    AclOperation,
    ResourceKind,
    Right,
    rights,
    worker_principal,
)

COMMAND_CONFIG = "admin.properties"
"""The file with the address's protocol and the administrator's password, which Kafka's tools read."""
ANY_USER = "User:*"
_IMPLYING = {
    AclOperation.DESCRIBE.value: {"Read", "Write", "Delete", "Alter"},
    AclOperation.DESCRIBE_CONFIGS.value: {"AlterConfigs"},
}
"""What Kafka permits with another operation."""


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One ACL: `principal` is Kafka's name for it, such as `User:dispatcher`; kinds and operations are texts.

    A broker may have some that Trackside never makes: of other kinds, for one host, or denying.
    """

    principal: str
    kind: str
    name: str
    prefixed: bool
    operation: str
    host: str = "*"
    allows: bool = True

    def __str__(self) -> str:
        """Returns the ACL as a sentence, with what is unusual about it."""
        verb = "may" if self.allows else "may not"
        names = f"{self.kind}s that begin with {self.name}" if self.prefixed else f"{self.kind} {self.name}"
        where = "" if self.host == "*" else f" from {self.host}"
        return f"{self.principal} {verb} {self.operation} {names}{where}"


@dataclass(frozen=True, slots=True)
class AclReport:
    """How the ACLs of a broker differ from the table: what was missing, what permits more, what denies."""

    missing: tuple[Acl, ...]
    wider: tuple[Acl, ...]
    denying: tuple[Acl, ...]


def installation_acls(
    topics: Topics,
    workers: Sequence[str] = (),
    receipts: Sequence[str] = (),
    principals: Mapping[str, Sequence[str]] = {},
) -> tuple[Acl, ...]:
    """Returns all ACLs of an installation: of the services, of clients, and of these workers.

    `principals` are as for `kafka_principals`. Raises ValueError as that does, and for the id of a worker
    that can have no rights of its own.
    """
    names = [*PRINCIPALS, *map(worker_principal, workers)]
    return acls_of(rights(topics, workers, receipts), kafka_principals(names, principals))


def kafka_principals(names: Sequence[str], given: Mapping[str, Sequence[str]] = {}) -> dict[str, list[str]]:
    """Returns Kafka's names for the principals of the table: `User:<name>`, or those that are given.

    Such as those of certificates, `User:CN=dispatcher,O=Example`. Raises ValueError for one that is given to
    no principal of the table, or that is not of one program.
    """
    for name, principals in given.items():
        if name not in names:
            raise ValueError(f"{name!r} is not a principal of the table: expected one of {', '.join(names)}")
        for principal in principals:
            if not principal.startswith("User:") or principal in ("User:", ANY_USER):
                raise ValueError(f"{principal!r} is not a principal of one program: expected User:NAME")
    return {name: [*given.get(name, [f"User:{name}"])] for name in names}


def acls_of(rights: Iterable[Right], principals: Mapping[str, Sequence[str]]) -> tuple[Acl, ...]:
    """Returns the ACLs that give these rights, in their order, for Kafka's names of the principals."""
    return tuple(
        Acl(principal, right.kind.value, right.name, right.prefixed, right.operation.value)
        for right in rights
        for principal in principals[right.principal]
    )


def commands_of(acls: Iterable[Acl], bootstrap: str, command_config: str = COMMAND_CONFIG) -> list[str]:
    """Returns the `kafka-acls.sh` lines that add ACLs: one for each principal and resource."""
    operations: dict[tuple[str, str, str, bool], list[str]] = defaultdict(list)
    for acl in acls:
        operations[acl.principal, acl.kind, acl.name, acl.prefixed].append(acl.operation)
    lines = []
    for (principal, kind, name, prefixed), found in operations.items():
        words = [
            "kafka-acls.sh",
            "--bootstrap-server",
            bootstrap,
            "--command-config",
            command_config,
            "--add",
        ]
        words += ["--allow-principal", principal]
        words += [word for operation in found for word in ("--operation", operation)]
        words += ["--cluster"] if kind == ResourceKind.CLUSTER else [f"--{kind}", name]
        words += ["--resource-pattern-type", "prefixed"] if prefixed else []
        lines.append(shlex.join(words))
    return lines


def compare(wanted: Sequence[Acl], existing: Iterable[Acl]) -> AclReport:
    """Compares what a broker has with the table, for the principals of the table and for `User:*`.

    An ACL permits more than the table if no wanted one covers it. One for all users counts if it is about a
    resource of the table.
    """
    there = set(existing)
    principals = {acl.principal for acl in wanted}
    ours = sorted(
        acl
        for acl in there
        if acl.principal in principals
        or (acl.principal == ANY_USER and any(_overlap(acl, each) for each in wanted))
    )
    return AclReport(
        missing=tuple(acl for acl in wanted if acl not in there),
        wider=tuple(acl for acl in ours if acl.allows and not any(_covers(each, acl) for each in wanted)),
        denying=tuple(acl for acl in ours if not acl.allows),
    )


def _covers(wanted: Acl, acl: Acl) -> bool:
    """Returns whether an ACL permits nothing that a wanted one doesn't."""
    if (wanted.principal, wanted.kind) != (acl.principal, acl.kind):
        return False
    named = acl.name.startswith(wanted.name) if wanted.prefixed else _place(acl) == _place(wanted)
    implied = wanted.operation in _IMPLYING.get(acl.operation, ())
    return named and (wanted.operation == acl.operation or implied)


def _overlap(one: Acl, other: Acl) -> bool:
    """Returns whether there may be a resource that both are about."""
    if one.kind != other.kind:
        return False
    if "*" in (one.name, other.name) or one.name == other.name:
        return True
    return (one.prefixed and other.name.startswith(one.name)) or (
        other.prefixed and one.name.startswith(other.name)
    )


def _place(acl: Acl) -> tuple[str, bool]:
    return acl.name, acl.prefixed
