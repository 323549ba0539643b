"""Commands that prepare a cluster: `setup acls`, `setup passwords`."""

from typing import Annotated

import typer


def acls(
    print_: Annotated[
        bool, typer.Option("--print", help="Print the rights as lines of kafka-acls.sh; asks no broker.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Add the rights that are missing; none is removed.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Compare the rights of the broker with the table; exit 1 if they differ."
        ),
    ] = False,
    worker: Annotated[
        list[str] | None,
        typer.Option("--worker", metavar="ID", help="Id of a worker that has rights; repeat for each."),
    ] = None,
    receipts: Annotated[
        list[str] | None,
        typer.Option(
            "--receipts", metavar="TOPIC", help="Topic for receipts of publishers; may be repeated."
        ),
    ] = None,
    principal: Annotated[
        list[str] | None,
        typer.Option(
            "--principal",
            metavar="NAME=PRINCIPAL",
            help="Name that the broker has for a principal of the table, if it is not User:NAME, such as "
            "dispatcher=User:CN=dispatcher,O=Example; may be repeated, also for one NAME.",
        ),
    ] = None,
    command_config: Annotated[
        str,
        typer.Option(
            "--command-config",
            metavar="FILE",
            help="File with the login of the administrator, named in the printed lines.",
        ),
    ] = "admin.properties",
) -> None:
    """Give each service, worker and client its rights to topics, as ACLs of the Kafka broker.

    The principals are dispatcher, scheduler, summary-indexer, console, publisher, viewer, advisor, admin and
    worker-ID for each worker. Each gets what the table in docs/reference/rights.md lists for it, and nothing
    else: the broker denies by default. --apply and --check need a user that may change ACLs, and name rights
    that are wider than the table.

    \b
    Examples:
      trackside setup acls --print --worker gpu-1 --worker gpu-2
      trackside setup acls --apply --worker gpu-1 --principal "publisher=User:CN=ci,O=Example"
      trackside setup acls --check --worker gpu-1
    """
    from trackside.cli.commands import acls

    wanted = acls.Wanted(worker or [], receipts or [], principal or [])
    acls.acls(wanted, print_=print_, apply=apply, check=check, command_config=command_config)


def passwords(
    users: Annotated[
        list[str], typer.Argument(metavar="USER...", help="Users of Kafka; one that is new is made.")
    ],
) -> None:
    """Give users of a Kafka that `trackside up --secure` started new passwords.

    Each password is drawn, set at the broker, and written to ./.trackside/secure/USER.password. Services keep
    their connections, read the file again for the next one, and need no restart. The broker's own password
    can't be changed so.

    \b
    Examples:
      trackside setup passwords dispatcher scheduler
      trackside setup passwords worker-gpu-2
    """
    from trackside.cli.commands import passwords

    passwords.set_new(users)
