"""The command `setup acls`: prints, adds or checks the rights of an installation."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, FailureReported
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import ADMIN
from trackside.eventlog.kafka.acls import Acl, AclReport, commands_of, installation_acls
from trackside.eventlog.kafka.kafka_acls import apply_acls, check_acls


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options name: ids of workers, topics of receipts, and `NAME=PRINCIPAL`."""

    workers: Sequence[str]
    receipts: Sequence[str]
    principals: Sequence[str]

    def acls(self, topics: Topics) -> tuple[Acl, ...]:
        """Returns the ACLs of the installation; raises BadUsage."""
        given: dict[str, list[str]] = defaultdict(list)
        for text in self.principals:
            name, separator, principal = text.partition("=")
            if not separator:
                raise BadUsage(f"--principal: {text!r} has no name: expected NAME=PRINCIPAL")
            given[name].append(principal)
        try:
            return installation_acls(topics, self.workers, self.receipts, given)
        except ValueError as error:
            raise BadUsage(str(error)) from error


def acls(wanted: Wanted, *, print_: bool, apply: bool, check: bool, command_config: str) -> None:
    """Prints, adds or checks the rights; exit 1 if a check finds a difference."""
    if [print_, apply, check].count(True) != 1:
        raise BadUsage("give one of --print, --apply and --check")
    addresses = Addresses()
    listed = wanted.acls(Topics(prefix=addresses.prefix))
    kafka = addresses.kafka_as(ADMIN)
    bootstrap = kafka.kafka_bootstrap
    if print_:
        for line in commands_of(listed, bootstrap, command_config):
            screen.say(line)
    elif apply:
        _say_added(run(apply_acls(kafka, listed)), len(listed))
    else:
        report = run(check_acls(kafka, listed))
        _warn(report)
        for line in commands_of(report.missing, bootstrap, command_config):
            screen.complain(f"missing: {line}")
        if report != AclReport((), (), ()):
            raise FailureReported
        screen.say(f"the broker has the {len(listed)} rights of the table, and no others for its principals")


def _say_added(report: AclReport, count: int) -> None:
    for acl in report.missing:
        screen.say(f"added: {acl}")
    screen.say(f"{len(report.missing)} rights added, {count - len(report.missing)} were there")
    _warn(report)


def _warn(report: AclReport) -> None:
    for acl in report.wider:
        screen.complain(f"wider than the table: {acl}")
    for acl in report.denying:
        screen.complain(f"denied by an ACL: {acl}")
